//! Hosts whose agent must not go the way of their firmware: over a tagged VLAN, over a bond. The proof is the switch's,
//! which counts what went over them, and the host's own timeline.

use anyhow::{Context as _, ensure};
use firesteel_lab_image::PackedFormat;
use serde_json::json;

use crate::demo::check;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig, PATIENCE};
use crate::machine::{DiskBus, MachineFirmware};
use crate::net::NETWORK_CIDR;
use crate::progress::{bytes, print_status};
use crate::switch::{SwitchMode, VLAN_ID, VLAN_ROUTER};

/// Less than any form of the image has, and more than everything else of a host's agent.
const IMAGE_BYTES_MIN: u64 = 40 << 20;

/// A fixed address in a tagged VLAN, whose router leads to the appliance.
pub(super) async fn vlan(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let name = "vlan-1";
    let machine =
        HostPlan { switch: Some(SwitchMode::Vlan), ..HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio) };
    lab.add_machine(machine).await?;
    let mac = lab.machine(name)?.config().mac;
    let data = json!({
        "links": [
            {"id": "nic", "type": "phy", "ethernet_mac_address": mac},
            {"id": "prov", "type": "vlan", "vlan_link": "nic", "vlan_id": VLAN_ID},
        ],
        "networks": [{
            "id": "prov-v4", "type": "ipv4", "link": "prov", "ip_address": "10.88.0.50", "netmask": "255.255.255.0",
            "routes": [{"network": NETWORK_CIDR, "gateway": VLAN_ROUTER}],
        }],
    });
    install(lab, config, name, "networkData", data.to_string(), "VLAN 100 on nic").await?;
    let sent = counted(lab, name, "vlan sent ")?;
    ensure!(sent >= IMAGE_BYTES_MIN, "only {sent} bytes went over VLAN {VLAN_ID}: not the image");
    print_status(&format!("{name}: the switch sent {} tagged", bytes(sent)));
    Ok(())
}

/// Two NICs as one by LACP, with DHCP over it.
pub(super) async fn bond(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let name = "bond-1";
    let machine =
        HostPlan { switch: Some(SwitchMode::Bond), ..HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio) };
    lab.add_machine(machine).await?;
    let machine = lab.machine(name)?.config();
    let second = machine.switched.into_iter().flatten().next().context("the machine has one NIC only")?;
    let data = format!(
        "interfaces:\n\
         - {{name: nic1, type: ethernet, identifier: mac-address, mac-address: '{}'}}\n\
         - {{name: nic2, type: ethernet, identifier: mac-address, mac-address: '{second}'}}\n\
         - name: bond\n  type: bond\n  state: up\n  ipv4: {{enabled: true, dhcp: true}}\n  link-aggregation:\n    \
         mode: 802.3ad\n    port: [nic1, nic2]\n    options: {{lacp_rate: fast, xmit_hash_policy: layer3+4}}\n",
        machine.mac
    );
    let log = lab.switch_log(name)?;
    install(lab, config, name, "nmstate", data, "802.3ad of nic1, nic2").await?;
    let seen = log.wait_for("lag of 2 ports with 52:54:00:77:01:01", 0, PATIENCE).await?;
    ensure!(seen.is_some(), "the switch never had an aggregation of two ports:\n{}", log.tail(20));
    print_status(&format!("{name}: the switch aggregated both ports by LACP"));
    Ok(())
}

/// Installs the machine; the agent's way must have been that of the network data.
async fn install(
    lab: &mut Lab,
    config: &LabConfig,
    name: &str,
    field: &'static str,
    network_data: String,
    way: &str,
) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let wish = DesiredHost { image: Some(image), network_data: Some((field, network_data)), ..DesiredHost::default() };
    lab.apply_host(name, &wish).await?;
    let view = lab.wait_running(name, 1).await?;
    let went = view.timeline().into_iter().find(|event| event.key() == "agent_network");
    let went = went.context("the timeline has no agent_network")?;
    print_status(&format!("{name}: {}", went.detail));
    ensure!(went.detail.contains(way), "the agent's way was another one: {}", went.detail);
    ensure!(view.count("agent_network_failed") == 0, "the network data did not lead to the appliance at once");
    check(name, &view)
}

/// The last number behind this word in what the switch said.
fn counted(lab: &Lab, name: &str, word: &str) -> anyhow::Result<u64> {
    let text = lab.switch_log(name)?.text().context("reading what the switch said")?;
    let last = text.rsplit(word).next().filter(|_| text.contains(word)).context("the switch counted nothing")?;
    let digits: String = last.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().context("the switch's count")
}
