//! `firesteel describe host MAC`: shows a machine by its boot MAC, with colons or hyphens, whether it is a host or not.

use anyhow::bail;
use firesteel_control::UnknownHost;
use firesteel_resources::discovered_host::TombstoneStatus;
use firesteel_resources::{BareMetalHost, DiscoveredHost};
use jiff::Timestamp;
use serde_json::json;

use super::{PageStyle, TextPage, ago};
use crate::table::clean;
use crate::unowned_machines::{self, Strangers, same};
use crate::{ApiClient, get, kinds, print_text, table};

/// # Errors
/// When no machine with this MAC is known, or the appliance does not answer.
pub(super) async fn run(client: &ApiClient, mac: &str, style: PageStyle<'_>) -> anyhow::Result<()> {
    let hosts: Vec<BareMetalHost> = get::list(client, "baremetalhosts").await?;
    let host = hosts.iter().find(|host| host.spec.boot_mac().is_some_and(|boot| same(&boot, mac)));
    if let Some(host) = host {
        // A host whose name is a MAC would lead here again.
        let name = host.metadata.name.as_str();
        if name.parse::<firesteel_facts::Mac>().is_err() {
            return Box::pin(super::one(client, kinds::by_name("hosts")?, name, style)).await;
        }
    }
    let strangers = Strangers::read(client).await?;
    let machine = strangers.discovered.iter().find(|machine| same(&machine.status.boot_mac, mac));
    let boot = strangers.boot(mac);
    if machine.is_none() && boot.is_none() {
        bail!(
            "could not describe {mac}: no host has this boot MAC, and no such machine was seen; start it from the network; \
             `firesteel get hosts` shows those that were"
        );
    }
    if let Some(text) = style.output.text_of(&json!({ "discovered": machine, "boot": boot }))? {
        print_text(&text);
        return Ok(());
    }
    print_text(&render(machine, boot, Timestamp::now(), style.width));
    Ok(())
}

/// Says what an earlier host left on the machine's disks.
pub(crate) fn uncleaned(left: &TombstoneStatus) -> String {
    let fate = match left.of_tenant {
        true => "it is erased before the machine's next host is installed",
        false => "its owner may keep it by creating the host again",
    };
    format!(
        "host {} left its data on disk {} at {}: {}; {fate}",
        clean(&left.host),
        clean(&left.disk),
        table::time(left.at),
        clean(&left.reason)
    )
}

/// Renders the page for a person.
fn render(machine: Option<&DiscoveredHost>, boot: Option<&UnknownHost>, now: Timestamp, width: usize) -> String {
    let mut page = TextPage { text: String::new(), width };
    let mac = machine.map(|machine| &machine.status.boot_mac).or(boot.map(|boot| &boot.mac));
    page.field("Boot MAC", mac.map_or("", String::as_str));
    page.field("State", if machine.is_some() { "discovered" } else { boot.map_or("unknown", unowned_machines::state) });
    if let Some(machine) = machine {
        page.field("Machine", &unowned_machines::what(machine));
        page.field("UUID", &machine.status.uuid);
        let seen = machine.status.last_seen;
        // A machine that was let go has not said anything since.
        if seen > Timestamp::UNIX_EPOCH {
            page.field("Agent", &format!("last reported {} ago, at {}", ago(seen, now), table::time(seen)));
        }
        page.field("Uncleaned", &machine.status.uncleaned.as_ref().map(uncleaned).unwrap_or_default());
        match machine.status.host_hint() {
            Some(hint) => page.field("Host", hint),
            None => page.field("Next", &format!("firesteel adopt {} --name NAME", machine.status.boot_mac)),
        }
    }
    if let Some(boot) = boot {
        let (last, first) = (boot.last_seen, boot.first_seen);
        page.field("Last stage", &format!("{}, {} ago, at {}", boot.stage, ago(last, now), table::time(last)));
        page.field("First seen", &format!("{} ago, at {}", ago(first, now), table::time(first)));
        page.field("Stalled", &boot.stalled);
        page.field("SMBIOS", &boot.smbios);
    }
    page.text
}

#[cfg(test)]
mod tests {
    use firesteel_resources::Condition;
    use firesteel_resources::discovered_host::BELONGS_TO_HOST;

    use super::*;

    #[test]
    fn the_machine_of_a_host_is_not_offered_for_adoption() {
        let mut machine = DiscoveredHost::default();
        machine.status.boot_mac = "02:00:00:00:00:03".into();
        let page = |machine: &DiscoveredHost| render(Some(machine), None, Timestamp::UNIX_EPOCH, 80);
        assert!(page(&machine).contains("Next:         firesteel adopt 02:00:00:00:00:03 --name NAME\n"));
        machine.status.conditions =
            vec![Condition::new(BELONGS_TO_HOST, true, "WrongBootMAC", "this machine is host default/c01")];
        let text = page(&machine);
        assert!(text.contains("Host:         this machine is host default/c01\n") && !text.contains("adopt"), "{text}");
    }

    #[test]
    fn the_page_says_how_far_it_came_and_why_not_further() {
        let boot = UnknownHost {
            mac: "02:00:00:00:00:03".into(),
            stage: "loader snponly.efi fetched by TFTP".into(),
            stalled: "Secure Boot refuses an unsigned loader".into(),
            ..UnknownHost::default()
        };
        let text = render(None, Some(&boot), Timestamp::UNIX_EPOCH, 80);
        let wanted = "Boot MAC:     02:00:00:00:00:03\n\
                      State:        stalled\n\
                      Last stage:   loader snponly.efi fetched by TFTP, 0s ago, at\n\
                      \x20             1970-01-01T00:00:00Z\n\
                      First seen:   0s ago, at 1970-01-01T00:00:00Z\n\
                      Stalled:      Secure Boot refuses an unsigned loader\n";
        assert_eq!(text, wanted);
    }
}
