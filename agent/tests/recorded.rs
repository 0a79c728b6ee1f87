//! Inspections of real machines, from recorded `/sys` and `/proc` trees. They are not part of this
//! repository; where they are missing the test says so.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use firesteel_agent::inspect::{Probe, Roots, inventory};
use firesteel_wire::{Disk, Inventory, Transport};

struct NoSystemCalls;

impl Probe for NoSystemCalls {
    fn permanent_mac(&self, _: &str) -> Option<[u8; 6]> {
        None
    }
    fn addresses(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn table(&self, _: &Path) -> firesteel_wire::Table {
        firesteel_wire::Table::None
    }

    fn signatures(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
    fn hostname(&self) -> String {
        "recorded".into()
    }
}

fn inspect(snapshot: &str) -> Option<Inventory> {
    let snapshots = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures/ghw/snapshots");
    let archive = snapshots.join(format!("linux-amd64-{snapshot}.tar.gz"));
    if !archive.exists() {
        eprintln!("skipped: {} is not here", archive.display());
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let unpacked = Command::new("tar")
        .args(["--no-same-owner", "-xzf"])
        .arg(&archive)
        .arg("-C")
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(unpacked.success());
    let roots = Roots { sys: folder.path().join("sys"), proc: folder.path().join("proc"), dev: "/dev".into() };
    let inventory = inventory(&roots, &NoSystemCalls, "00:00:00:00:00:00");
    assert!(inventory.cpu.flags.windows(2).all(|two| two[0] < two[1]), "flags are sorted, without repeats");
    Some(inventory)
}

fn names(disks: &[Disk]) -> Vec<(&str, &str)> {
    disks.iter().map(|disk| (disk.device.as_str(), disk.by_path.trim_start_matches("/dev/disk/by-path/"))).collect()
}

#[test]
fn a_laptop_with_one_nvme_disk_and_a_mapper_on_it() {
    let Some(inventory) = inspect("415ee03b8c4d1c4f07ae2e9d8b3d3d6d") else { return };
    assert_eq!(names(&inventory.disks), [("/dev/nvme0n1", "pci-0000:04:00.0-nvme-1")]);
    assert_eq!(inventory.disks[0].transport, Transport::Nvme);
    assert!(!inventory.disks[0].rotational);
}

#[test]
fn a_workstation_with_three_sata_disks_under_lvm() {
    let Some(inventory) = inspect("61797caf7c0b6bca1725ad7975ed4773") else { return };
    let devices: Vec<_> = inventory.disks.iter().map(|disk| disk.device.as_str()).collect();
    assert_eq!(devices, ["/dev/sda", "/dev/sdb", "/dev/sdc"]);
    assert!(inventory.disks.iter().all(|disk| !disk.hctl.is_empty() && disk.size_bytes > 0));
}

#[test]
fn a_virtual_machine() {
    let Some(inventory) = inspect("accel") else { return };
    assert_eq!(names(&inventory.disks), [("/dev/vda", "pci-0000:04:00.0")]);
    assert_eq!(inventory.disks[0].transport, Transport::Virtio);
}
