//! `firesteel adopt MAC|UUID --name NAME`: makes a BareMetalHost from a discovered machine.

use anyhow::bail;
use firesteel_resources::DiscoveredHost;
use serde_json::json;

use super::{ApiClient, get, kinds, print_text, table::clean};

/// # Errors
/// When no machine, or more than one, has this MAC or UUID, or the appliance refuses the host.
pub(crate) async fn run(client: &ApiClient, machine: &str, name: &str) -> anyhow::Result<()> {
    let all = get::discovered(client).await?;
    let found = choose(&all, machine)?;
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name},
        "spec": {"online": true, "bootMACAddress": found.status.boot_mac},
    });
    client.create(&kinds::collection(kinds::by_name("hosts")?, &client.namespace), &host).await?;
    print_text(&format!(
        "{}/{name} created for {}; follow it with `firesteel watch {name}`\n",
        "baremetalhost",
        clean(&found.status.boot_mac)
    ));
    Ok(())
}

/// Finds the one machine with this MAC or UUID. Cloned mainboards share a UUID, so it may fit several.
fn choose<'a>(all: &'a [DiscoveredHost], machine: &str) -> anyhow::Result<&'a DiscoveredHost> {
    let found: Vec<&DiscoveredHost> = all.iter().filter(|candidate| is(candidate, machine)).collect();
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
    use super::*;

    #[test]
    fn a_uuid_that_two_machines_share_adopts_neither() {
        let machine = |mac: &str, uuid: &str| {
            let mut machine = DiscoveredHost::default();
            (machine.status.boot_mac, machine.status.uuid) = (mac.into(), uuid.into());
            machine
        };
        let all = [machine("02:00:00:00:00:01", "SAME"), machine("02:00:00:00:00:02", "same"), machine("x", "other")];
        let error = choose(&all, "same").unwrap_err().to_string();
        assert!(error.contains("adopt one by its MAC (02:00:00:00:00:01, 02:00:00:00:00:02)"), "{error}");
        assert_eq!(choose(&all, "02-00-00-00-00-02").unwrap().status.boot_mac, "02:00:00:00:00:02");
        assert_eq!(choose(&all, "other").unwrap().status.boot_mac, "x");
        assert!(choose(&all, "nobody").unwrap_err().to_string().contains("discovered are: 02:00:00:00:00:01"));
        assert!(choose(&[], "same").unwrap_err().to_string().contains("start it from the network first"));
    }
}
