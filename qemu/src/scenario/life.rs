//! The life of a host: installed, rebooted with the network first, deleted; and the longer one, in which it is also
//! installed again beside an older copy of itself and rebooted again.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use firesteel_lab_image::PackedFormat;

use super::play::is_cleared;
use crate::artefacts::{NEXT_VERSION, VERSION};
use crate::demo::{check, release};
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig, PATIENCE};
use crate::machine::{BootOverride, BootTarget, DiskBus, DiskConfig, MachineFirmware};
use crate::manifests::{ManifestImage, RootHint};
use crate::progress::print_status;

/// A boot loader that follows the wrong disk is seen long before the right OS is up.
const SETTLE: Duration = Duration::from_secs(5);

/// All lives at once, one machine each.
pub(super) async fn run_lives(lab: &mut Lab, config: &LabConfig, firmwares: &[MachineFirmware]) -> anyhow::Result<()> {
    live_all(lab, config, firmwares, None).await
}

/// All lives at once, each with an image of another version that is written beside an older copy of the disk.
pub(super) async fn beside_copies(
    lab: &mut Lab,
    config: &LabConfig,
    firmwares: &[MachineFirmware],
) -> anyhow::Result<()> {
    let second = lab.publish(config.artefacts.image_of(NEXT_VERSION, PackedFormat::Qcow2)?)?;
    live_all(lab, config, firmwares, Some(second)).await
}

async fn live_all(
    lab: &mut Lab,
    config: &LabConfig,
    firmwares: &[MachineFirmware],
    second: Option<ManifestImage>,
) -> anyhow::Result<()> {
    let first = lab.publish(config.artefacts.image(PackedFormat::Gz)?)?;
    let mut names = Vec::new();
    for firmware in firmwares {
        let name = format!("{firmware}-1");
        let bus = match firmware {
            MachineFirmware::Bios => DiskBus::Virtio,
            MachineFirmware::Uefi => DiskBus::Sata,
        };
        lab.add_machine(HostPlan::new(&name, *firmware, bus)).await?;
        names.push(name);
    }
    let lab = &*lab;
    let all = names.iter().map(|name| {
        let (first, second) = (first.clone(), second.clone());
        async move { live(lab, name, first, second).await.with_context(|| name.clone()) }
    });
    for lived in futures_util::future::join_all(all).await {
        lived?;
    }
    Ok(())
}

async fn live(lab: &Lab, name: &str, first: ManifestImage, second: Option<ManifestImage>) -> anyhow::Result<()> {
    // The one to install to. A copy that comes later stands before it.
    let target = lab.machine(name)?.config().disks[0].clone();
    lab.apply_host(name, &desired_host(name, &target, &first, 1)).await?;
    check(name, &lab.wait_running(name, 1).await?)?;
    print_status(&format!("{name}: installed and running"));
    reach_disk(lab, name, 1).await?;
    print_status(&format!("{name}: booted the network first and reached its disk"));
    let decoy = match second {
        Some(second) => Some(install_beside_a_copy(lab, name, &target, &first, &second).await?),
        None => None,
    };

    release(lab, name).await?;
    lab.power_off(name).await?;
    ensure!(is_cleared(&target.path)?, "the disk of a deleted host still has a partition table");
    print_status(&format!("{name}: deleted; its disk is clear"));
    if let Some((decoy, copied_at)) = decoy {
        ensure!(modified(&decoy)? == copied_at, "a disk that no plan named was written to");
        print_status(&format!("{name}: the other disk is untouched"));
    }
    Ok(())
}

fn desired_host(name: &str, target: &DiskConfig, image: &ManifestImage, generation: u32) -> DesiredHost {
    DesiredHost {
        image: Some(image.clone()),
        hostname: Some(format!("{name}-{generation}")),
        root: Some(RootHint::Serial(target.serial.clone())),
        ..DesiredHost::default()
    }
}

/// Gives the host a copy of its disk, which stands before it, installs it again and starts it. Returns the copy, and
/// when it was made.
async fn install_beside_a_copy(
    lab: &Lab,
    name: &str,
    target: &DiskConfig,
    first: &ManifestImage,
    second: &ManifestImage,
) -> anyhow::Result<(PathBuf, SystemTime)> {
    lab.apply_host(name, &DesiredHost { offline: true, ..desired_host(name, target, first, 1) }).await?;
    let is_off = tokio::time::timeout(PATIENCE, lab.machine(name)?.wait_off()).await.is_ok();
    ensure!(is_off, "the host was not switched off though it shall be offline");
    let decoy = lab.add_copy(name, 0, true)?;
    let copied_at = modified(&decoy)?;
    lab.apply_host(name, &desired_host(name, target, second, 2)).await?;
    check(name, &lab.wait_running(name, 2).await?)?;
    print_status(&format!("{name}: installed again beside its older copy, and running"));
    reach_disk(lab, name, 2).await?;
    print_status(&format!("{name}: reached its own disk though the older copy stands before it"));
    if lab.machine(name)?.config().firmware == MachineFirmware::Uefi {
        // One boot by order of the BMC must leave the firmware's order as the agent set it.
        let once = BootOverride { target: BootTarget::Pxe, once: true };
        lab.machine(name)?.set_boot_override(once).await;
        reach_disk(lab, name, 2).await?;
        reach_disk(lab, name, 2).await?;
        print_status(&format!("{name}: and again, during and after one boot from the network"));
    }
    Ok((decoy, copied_at))
}

/// Restarts with the network first; the OS of this generation must come up, and no other.
async fn reach_disk(lab: &Lab, name: &str, generation: u32) -> anyhow::Result<()> {
    let serial = lab.serial(name)?;
    let position = serial.position()?;
    lab.restart_network_first(name).await?;
    let banner = |generation: u32| {
        let version = if generation == 1 { VERSION } else { NEXT_VERSION };
        format!("firesteel: {name}-{generation} runs image {version}")
    };
    let wanted = banner(generation);
    let Some(_) = serial.wait_for(&wanted, position, PATIENCE).await? else {
        bail!("no {wanted:?} on the console, which ends with:\n{}", serial.tail(25));
    };
    tokio::time::sleep(SETTLE).await;
    let text = serial.text()?;
    let since = text.get(usize::try_from(position)?..).unwrap_or(&text);
    for other in (1..=2).filter(|other| *other != generation) {
        ensure!(!since.contains(&banner(other)), "the older copy was booted");
    }
    Ok(())
}

fn modified(path: &Path) -> anyhow::Result<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).with_context(|| format!("reading {}", path.display()))
}
