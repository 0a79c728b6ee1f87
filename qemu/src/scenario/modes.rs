//! The mode of the network changes while one host is written and another one boots: Managed, Unmanaged, Disabled, and
//! Managed again. A listener on the bridge hears no DHCP packet of the appliance outside Managed, the write goes on, and
//! the address that is removed by hand comes back.

use anyhow::{Context as _, ensure};
use firesteel_lab_image::PackedFormat;
use serde_json::Value;

use crate::attack::dhcp_watch::DhcpWatch;
use crate::demo::check;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware};
use crate::manifests;
use crate::net::{APPLIANCE_ADDRESS, BRIDGE, has_address, remove_address};
use crate::progress::print_status;

const WRITTEN: &str = "written";
const BOOTING: &str = "booting";
const OBJECT: &str = "provisioning-configuration";
const MIB: u64 = 1 << 20;

pub(super) async fn modes(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let host = || DesiredHost { image: Some(image.clone()), ..DesiredHost::default() };
    let watch = DhcpWatch::start(BRIDGE)?;
    lab.add_machine(HostPlan::new(WRITTEN, MachineFirmware::Bios, DiskBus::Virtio)).await?;
    lab.apply_host(WRITTEN, &host()).await?;
    wait_written(lab, 1).await?;
    ensure!(watch.heard() > 0, "the listener hears no DHCP where there is some");
    lab.add_machine(HostPlan::new(BOOTING, MachineFirmware::Uefi, DiskBus::Sata)).await?;
    lab.apply_host(BOOTING, &host()).await?;
    lab.wait_for(BOOTING, "its loader", |view| view.count("loader") > 0).await?;

    set_mode(lab, "Unmanaged").await?;
    let silent_from = watch.heard();
    let at = written_bytes(lab).await?;
    let ended = lab.view(WRITTEN).await?.count("write_end");
    ensure!(ended == 0, "the write ended before the mode changed: the image is too small for this disk");
    wait_written(lab, at / MIB + 16).await?;
    print_status("Unmanaged: the write goes on");
    set_mode(lab, "Disabled").await?;
    remove_address(APPLIANCE_ADDRESS, BRIDGE).await.context("removing the address")?;
    wait_address().await?;
    print_status(&format!("Disabled: {APPLIANCE_ADDRESS} was removed by hand, and is back"));
    lab.wait_for(WRITTEN, "the end of the write", |view| view.count("write_end") > 0).await?;
    print_status("Disabled: the write came to its end");
    let heard = watch.heard() - silent_from;
    ensure!(heard == 0, "the appliance sent {heard} DHCP packets outside of Managed");

    set_mode(lab, "Managed").await?;
    for name in [WRITTEN, BOOTING] {
        let view = lab.wait_running(name, 1).await?;
        check(name, &view)?;
        ensure!(view.count("write_start") == 1, "{name} was written {} times", view.count("write_start"));
    }
    ensure!(watch.heard() > silent_from + heard, "no DHCP packet came in Managed again");
    print_status("Managed: both hosts run, and each was written once");
    Ok(())
}

/// Gives the network another mode, and waits until it is served so.
async fn set_mode(lab: &Lab, mode: &str) -> anyhow::Result<()> {
    lab.apply(&manifests::provisioning_in(mode)).await?;
    let what = format!("the mode {mode} to be served");
    let is_served = |object: &Value| {
        let status = &object["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_complete = conditions.iter().any(|condition| condition["reason"] == "DeployComplete");
        is_complete
            && object["spec"]["provisioningNetwork"] == mode
            && status["observedGeneration"] == object["metadata"]["generation"]
    };
    lab.wait_object("provisionings", OBJECT, &what, is_served).await?;
    Ok(())
}

/// The bytes of the image that the host has written.
async fn written_bytes(lab: &Lab) -> anyhow::Result<u64> {
    let view = lab.view(WRITTEN).await?;
    Ok(view.progress().map_or(0, |progress| progress.done_bytes))
}

/// Waits until so much of the image is written, or all of it.
async fn wait_written(lab: &Lab, mib: u64) -> anyhow::Result<()> {
    let is_so = |view: &crate::host_view::HostView| {
        let is_writing = view.count("write_start") > 0;
        let done = view.progress().map_or(0, |progress| progress.done_bytes);
        view.count("write_end") > 0 || is_writing && done >= mib * MIB
    };
    lab.wait_for(WRITTEN, "its image to be written", is_so).await?;
    Ok(())
}

async fn wait_address() -> anyhow::Result<()> {
    let limit = std::time::Duration::from_secs(60);
    let back = async {
        while !has_address(APPLIANCE_ADDRESS, BRIDGE).await? {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(limit, back).await.context("the address did not come back within a minute")?
}
