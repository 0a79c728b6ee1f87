//! `firesteel adopt MAC|UUID --name NAME`: makes a BareMetalHost from a discovered machine. One that is the machine of a
//! host is refused, unless it is forced.

use anyhow::bail;
use firesteel_resources::DiscoveredHost;
use serde_json::json;

use super::describe::machine::uncleaned;
use super::output::print_warning;
use super::unowned_machines::{Strangers, same};
use super::{ApiClient, get, kinds, print_text, table::clean};

/// The name under which the command owns the fields of a new host. An apply of a file without the MAC leaves it there.
pub(super) const MANAGER: &str = "firesteel-adopt";

/// # Errors
/// When no machine, or more than one, has this MAC or UUID, when it is a host's machine and not forced, or when the
/// appliance refuses the host.
pub(crate) async fn run(client: &ApiClient, machine: &str, name: &str, force: bool) -> anyhow::Result<()> {
    // Without the right to list them, that is the answer, and not that there is none.
    let all = Strangers { discovered: get::discovered(client).await?, booting: Strangers::booting(client).await? };
    let found = choose(&all, machine)?;
    if !force {
        check_no_host(found)?;
    }
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name},
        "spec": {"online": true, "bootMACAddress": found.status.boot_mac},
    });
    let hosts = kinds::collection(kinds::by_name("hosts")?, &client.namespace);
    client.create(&format!("{hosts}?fieldManager={MANAGER}"), &host).await?;
    if let Some(left) = &found.status.uncleaned {
        print_warning(&uncleaned(left));
    }
    print_text(&format!(
        "{}/{name} created for {}; follow it with `firesteel watch {name}`\n",
        "baremetalhost",
        clean(&found.status.boot_mac)
    ));
    Ok(())
}

/// Refuses the machine of a host, by what the appliance says of it: it would be a second host for one server.
fn check_no_host(machine: &DiscoveredHost) -> anyhow::Result<()> {
    let Some(hint) = machine.status.host_hint() else { return Ok(()) };
    bail!(
        "could not adopt {}: {}; `--force` makes a second host of it all the same",
        clean(&machine.status.boot_mac),
        clean(hint)
    )
}

/// Finds the one machine with this MAC or UUID. Cloned mainboards share a UUID, so it may fit several.
fn choose<'a>(all: &'a Strangers, machine: &str) -> anyhow::Result<&'a DiscoveredHost> {
    let Strangers { discovered: all, booting } = all;
    let found: Vec<&DiscoveredHost> = all.iter().filter(|candidate| is(candidate, machine)).collect();
    if let Some(boot) = booting.iter().find(|boot| found.is_empty() && same(&boot.mac, machine)) {
        bail!(
            "{machine} was seen ({}) and is not discovered yet: its agent has to inspect it first. If the machine is on, \
             wait until `firesteel get hosts` shows it as discovered; if it is off, start it from the network",
            clean(&boot.stage)
        );
    }
    let macs = |machines: &[&DiscoveredHost]| -> String {
        machines.iter().map(|machine| clean(&machine.status.boot_mac)).collect::<Vec<_>>().join(", ")
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] if all.is_empty() => bail!("no machine was discovered; start it from the network first"),
        [] => {
            let known = macs(&all.iter().collect::<Vec<_>>());
            bail!("no discovered machine has MAC or UUID {machine}; discovered are: {known}")
        }
        several => bail!("several machines have UUID {machine}: adopt one by its MAC ({})", macs(several)),
    }
}

fn is(candidate: &DiscoveredHost, machine: &str) -> bool {
    let normal = |mac: &str| mac.to_ascii_lowercase().replace('-', ":");
    let mac = normal(machine);
    normal(&candidate.status.boot_mac) == mac
        || candidate.status.macs.iter().any(|other| normal(other) == mac)
        || (!candidate.status.uuid.is_empty() && candidate.status.uuid.eq_ignore_ascii_case(machine))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use firesteel_control::UnknownHost;
    use firesteel_resources::Condition;
    use firesteel_resources::discovered_host::BELONGS_TO_HOST;

    use super::*;

    #[test]
    fn the_machine_of_a_host_is_refused_with_the_hint() {
        let mut machine = DiscoveredHost::default();
        machine.status.boot_mac = "02:00:00:00:00:01".into();
        assert!(check_no_host(&machine).is_ok());
        let condition =
            |is_so| Condition::new(BELONGS_TO_HOST, is_so, "WrongBootMAC", "this machine is host default/a");
        machine.status.conditions = vec![condition(true)];
        let error = check_no_host(&machine).unwrap_err().to_string();
        assert!(error.contains("02:00:00:00:00:01: this machine is host default/a; `--force`"), "{error}");
        machine.status.conditions = vec![condition(false)];
        assert!(check_no_host(&machine).is_ok(), "the host is gone");
    }

    #[test]
    fn a_uuid_that_two_machines_share_adopts_neither() {
        let machine = |mac: &str, uuid: &str| {
            let mut machine = DiscoveredHost::default();
            (machine.status.boot_mac, machine.status.uuid) = (mac.into(), uuid.into());
            machine
        };
        let machines = [("02:00:00:00:00:01", "SAME"), ("02:00:00:00:00:02", "same"), ("x", "other")];
        let discovered = machines.map(|(mac, uuid)| machine(mac, uuid)).to_vec();
        let all = Strangers { discovered, ..Strangers::default() };
        let error = choose(&all, "same").unwrap_err().to_string();
        assert!(error.contains("adopt one by its MAC (02:00:00:00:00:01, 02:00:00:00:00:02)"), "{error}");
        assert_eq!(choose(&all, "02-00-00-00-00-02").unwrap().status.boot_mac, "02:00:00:00:00:02");
        assert_eq!(choose(&all, "other").unwrap().status.boot_mac, "x");
        assert!(choose(&all, "nobody").unwrap_err().to_string().contains("discovered are: 02:00:00:00:00:01"));
        let none = Strangers::default();
        assert!(choose(&none, "same").unwrap_err().to_string().contains("start it from the network first"));
    }

    /// The table shows such a machine, and the answer was that there is none.
    #[test]
    fn a_machine_that_boots_is_said_to_be_early() {
        let boot =
            UnknownHost { mac: "02:00:00:00:00:01".into(), stage: "agent registered".into(), ..UnknownHost::default() };
        let all = Strangers { booting: vec![boot], ..Strangers::default() };
        let error = choose(&all, "02-00-00-00-00-01").unwrap_err().to_string();
        assert!(error.contains("(agent registered)") && error.contains("not discovered yet"), "{error}");
        assert!(choose(&all, "02:00:00:00:00:02").unwrap_err().to_string().contains("start it from the network"));
    }
}
