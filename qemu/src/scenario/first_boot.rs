//! First boots with Ignition that are not the usual ones: over a network that the hand-off sets up, with a config that
//! Ignition refuses, from a config drive.

use anyhow::{Context as _, ensure};
use firesteel_lab_image::{OsImageSystem, PackedFormat};
use serde_json::{Value, json};

use super::console;
use crate::artefacts::VERSION;
use crate::demo::check;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware};
use crate::manifests::{self, UserData};
use crate::progress::print_status;

/// An address outside the range that DHCP gives.
const ADDRESS: &str = "10.77.0.210";
const GATEWAY: &str = "10.77.0.1";
/// No Ignition knows it.
const REFUSED: &str = r#"{"ignition": {"version": "9.0.0"}}"#;

/// One NIC with a fixed address, as OpenStack's network data says it.
pub(super) fn fixed_address(mac: &str, address: &str) -> String {
    json!({
        "links": [{"id": "prov", "type": "phy", "ethernet_mac_address": mac}],
        "networks": [{
            "id": "prov-v4", "type": "ipv4", "link": "prov", "ip_address": address, "netmask": "255.255.255.0",
            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": GATEWAY}],
        }],
        "services": [],
    })
    .to_string()
}

/// Network data become arguments of the first boot: Ignition fetches from the address that they say.
pub(super) async fn network(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let name = "fixed-1";
    lab.add_machine(HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio)).await?;
    let mac = lab.machine(name)?.config().mac;
    let wish = DesiredHost {
        image: Some(image),
        os_network_data: Some(fixed_address(&mac, ADDRESS)),
        ..DesiredHost::default()
    };
    lab.apply_host(name, &wish).await?;
    let view = lab.wait_running(name, 1).await?;
    check(name, &view)?;
    let fetched = view.timeline().into_iter().find(|event| event.key() == "config_fetched");
    let detail = fetched.context("the timeline has no config_fetched")?.detail;
    ensure!(detail.contains(ADDRESS), "the config was not fetched from {ADDRESS}: {detail}");
    let console_text = lab.serial(name)?.text()?;
    ensure!(console_text.contains(&format!("ip={ADDRESS}")), "the kernel was not given the address");
    print_status(&format!("{name}: Ignition fetched its config from {ADDRESS}"));
    Ok(())
}

/// Ignition refuses what it fetches: the host shows it with the end of the log, and is not called running.
pub(super) async fn fails(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let refused = lab.folder().join("refused.ign");
    std::fs::write(&refused, REFUSED).context("writing a config")?;
    let url = lab.publish_file("configs", &refused, Vec::new())?;
    let name = "refused-1";
    lab.add_machine(HostPlan::new(name, MachineFirmware::Uefi, DiskBus::Sata)).await?;
    let wish = DesiredHost { image: Some(image), user_data: UserData::Merging(url), ..DesiredHost::default() };
    lab.apply_host(name, &wish).await?;
    let log = failure(lab, name).await?;
    ensure!(log.contains("unsupported config version"), "the log does not say why Ignition refused:\n{log}");
    let view = lab.view(name).await?;
    ensure!(view.count("running") == 0, "a host whose first boot failed is called running");
    console(lab, name, "reported that the first boot failed", 0).await?;
    print_status(&format!("{name}: the host shows what Ignition refused"));
    Ok(())
}

/// Ignition on OpenStack's platform, from a config drive. What its stub leads to is not there at first, which the host
/// reports; then it is, and the next boot succeeds.
pub(super) async fn openstack(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image_of_system(OsImageSystem::Openstack)?)?;
    let name = "openstack-1";
    lab.add_machine(HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio)).await?;
    let wish = DesiredHost { image: Some(image), user_data: UserData::Unserved, ..DesiredHost::default() };
    lab.apply_host(name, &wish).await?;
    let log = failure(lab, name).await?;
    ensure!(log.contains("ignition"), "the log is not Ignition's:\n{log}");
    print_status(&format!("{name}: without a config the first boot failed, and the host shows it"));

    let served = manifests::served_config(&format!("{name}-config"), &manifests::final_config(name, None));
    lab.apply(&manifests::yaml(&[served])).await?;
    let position = lab.serial(name)?.position()?;
    lab.appliance.cli(&["reboot", name, "--hard", "--yes"]).await?;
    let view = lab.wait_running(name, 1).await?;
    check(name, &view)?;
    let form = view.receipts().iter().find(|receipt| receipt["evidence"]["kind"] == "files_handed_off");
    let form = &form.context("there is no receipt of the hand-off")?["evidence"]["form"];
    ensure!(form == "config_drive", "the hand-off was {form}, not a config drive");
    console(lab, name, &format!("firesteel: {name} runs image {VERSION}"), position).await?;
    print_status(&format!("{name}: with it, the next boot was configured from the config drive"));
    Ok(())
}

/// Waits for the report of a failed first boot; the log that came with it, as the host shows it.
async fn failure(lab: &Lab, name: &str) -> anyhow::Result<String> {
    lab.wait_for(name, "the report of the failed first boot", |view| view.count("first_boot_failed") > 0).await?;
    let described = lab.appliance.json(&["describe", "host", name]).await?;
    let log = lines(&described["journal"]["status"]["instance"]["failed"]["log"]);
    ensure!(!log.is_empty(), "the host does not show the log of its first boot");
    Ok(log)
}

fn lines(value: &Value) -> String {
    let all = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    all.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_line_by_line() {
        assert_eq!(lines(&json!(["a", "b"])), "a\nb");
        assert_eq!(lines(&Value::Null), "");
        assert!(fixed_address("52:54:00:77:01:01", ADDRESS).contains("\"ip_address\":\"10.77.0.210\""));
    }
}
