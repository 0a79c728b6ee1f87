//! Other ways to a running OS than the demo's.

use anyhow::ensure;
use firesteel_lab_image::PackedFormat;

use crate::bmc::BmcKind;
use crate::demo::{all_blank, check, discover_and_adopt};
use crate::erasure_label::{self, ErasureLabel};
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware, NetBoot};
use crate::manifests;

/// Memory in which the agent must do its whole job.
const SMALL_MEMORY_MIB: u32 = 512;

pub(super) async fn no_bmc(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let name = "stranger-1";
    lab.add_machine(HostPlan { bmc: BmcKind::None, ..HostPlan::new(name, MachineFirmware::Uefi, DiskBus::Scsi) })
        .await?;
    discover_and_adopt(lab, name).await?;
    lab.apply_host(name, &DesiredHost { image: Some(image), ..DesiredHost::default() }).await?;
    check(name, &lab.wait_running(name, 1).await?)?;
    // By hand, too: nothing switches it, so that nothing proves what its agent says of its disks.
    lab.apply(&manifests::erased_in_full(name)).await?;
    lab.apply(&manifests::without_image(name)).await?;
    lab.wait_for(name, "a boot by hand", |view| view.reason().contains("waiting for the host to boot")).await?;
    lab.restart_network_first(name).await?;
    lab.wait_for(name, "its deprovisioning", |view| view.state() == "available").await?;
    all_blank(lab, name)?;
    erasure_label::check(lab, name, ErasureLabel::expected_label(BmcKind::None)).await
}

pub(super) async fn chain(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Gz)?)?;
    let name = "chain-1";
    lab.add_machine(HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio)).await?;
    lab.apply_host(name, &DesiredHost { image: Some(image), ..DesiredHost::default() }).await?;
    let view = lab.wait_running(name, 1).await?;
    let loaded = view.timeline().iter().any(|event| event.key() == "loader" && event.detail.contains("undionly.kpxe"));
    ensure!(loaded, "the timeline has no undionly.kpxe as loader");
    check(name, &view)
}

pub(super) async fn http_boot(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let name = "http-1";
    let machine = HostPlan { net_boot: NetBoot::Http, ..HostPlan::new(name, MachineFirmware::Uefi, DiskBus::Nvme) };
    lab.add_machine(machine).await?;
    lab.apply_host(name, &DesiredHost { image: Some(image), ..DesiredHost::default() }).await?;
    let view = lab.wait_running(name, 1).await?;
    let loaded = view.timeline().iter().any(|event| event.key() == "loader" && event.detail.contains("ipxe.efi"));
    ensure!(loaded, "the timeline has no ipxe.efi as loader");
    check(name, &view)
}

pub(super) async fn three(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let machines = [
        HostPlan::new("three-1", MachineFirmware::Uefi, DiskBus::Nvme),
        HostPlan::new("three-2", MachineFirmware::Bios, DiskBus::Virtio),
        HostPlan::new("three-3", MachineFirmware::Uefi, DiskBus::Sata),
    ];
    let mut names = Vec::new();
    for machine in machines {
        names.push(machine.name.clone());
        lab.add_machine(HostPlan { memory_mib: SMALL_MEMORY_MIB, ..machine }).await?;
    }
    for name in &names {
        lab.apply_host(name, &DesiredHost { image: Some(image.clone()), ..DesiredHost::default() }).await?;
    }
    for name in &names {
        check(name, &lab.wait_running(name, 1).await?)?;
    }
    Ok(())
}
