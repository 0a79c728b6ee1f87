//! `firesteel adopt MAC|UUID --name NAME`: a discovered machine becomes a BareMetalHost.

use anyhow::bail;
use firesteel_resources::DiscoveredHost;
use serde_json::json;

use super::{Client, get, kinds, print_text, table::clean};

/// # Errors
/// When no machine, or more than one, has this MAC or UUID, or the appliance refuses the host.
pub(crate) async fn run(client: &Client, machine: &str, name: &str) -> anyhow::Result<()> {
    let all = get::discovered(client).await?;
    let found: Vec<&DiscoveredHost> = all.iter().filter(|candidate| is(candidate, machine)).collect();
    let found = match found.as_slice() {
        [one] => *one,
        [] => {
            let known: Vec<String> = all.iter().map(|machine| clean(&machine.status.boot_mac)).collect();
            bail!(
                "no discovered machine has MAC or UUID {machine}; discovered are: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
        }
        several => {
            let macs: Vec<&str> = several.iter().map(|machine| machine.status.boot_mac.as_str()).collect();
            bail!("several machines have UUID {machine}: adopt one by its MAC ({})", macs.join(", "));
        }
    };
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

fn is(candidate: &DiscoveredHost, machine: &str) -> bool {
    let normal = |mac: &str| mac.to_ascii_lowercase().replace('-', ":");
    let mac = normal(machine);
    normal(&candidate.status.boot_mac) == mac
        || candidate.status.macs.iter().any(|other| normal(other) == mac)
        || (!candidate.status.uuid.is_empty() && candidate.status.uuid.eq_ignore_ascii_case(machine))
}
