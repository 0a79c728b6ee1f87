//! The record of this host's hardware, as the kernel shows it in sysfs and procfs. Every reader takes the
//! roots as a value, so that tests can give it recorded trees of other machines.
//!
//! ```text
//! sysfs, procfs ─┐
//! SMBIOS table  ─┼─► one reader for each part ─► Inventory (bounded, with notes on what was left out)
//! Probe (ioctl) ─┤
//! Port (drives) ─┘
//! ```
//!
//! `firesteel_linux_host` calls it for the step `inspect`. It changes nothing, and knows neither plans nor what the
//! record is for. All texts come from firmware and drives, which anyone may have written. They are cut, and control
//! characters are removed, before they leave this crate.

pub mod bmc;
pub mod capabilities;
pub mod cpu;
pub mod drive;
pub mod health;
pub mod memory;
pub mod nics;
pub mod numa;
pub mod nvme;
pub mod parts;
pub mod pci;
pub mod smbios;
pub mod system;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

use firesteel_contents::DiskContents;
use firesteel_drives::port::Port;
use firesteel_sysfs::attach::{self, CommandSet};
use firesteel_sysfs::{Roots, bytes, disks, vpd};
use firesteel_wire::limits::DISKS_MAX;
use firesteel_wire::parts::DiskCapabilities;
use firesteel_wire::text::field;
use firesteel_wire::{Inventory, InventoryDisk, PartitionTableRecord};

/// Disks that are looked into at once.
const READERS_MAX: usize = 16;

/// What the kernel reports by system calls only.
pub trait Probe: Sync {
    /// The address that the NIC's maker gave it.
    fn permanent_mac(&self, interface: &str) -> Option<[u8; 6]>;
    /// Addresses of an interface with prefix length.
    fn addresses(&self, interface: &str) -> Vec<String>;
    /// Signatures on a disk, such as `gpt`.
    fn signatures(&self, device: &Path) -> Vec<String>;
    /// The partition table of a disk.
    fn table(&self, device: &Path) -> PartitionTableRecord;
    /// What stands on each disk that could be looked at, by its device.
    fn contents(&self) -> Vec<(String, DiskContents)> {
        Vec::new()
    }
    fn hostname(&self) -> String;
    /// Firmware of a NIC in the driver's words; empty where it does not say.
    fn nic_firmware(&self, interface: &str) -> String;
    /// What an NVMe controller answers to identify, 4096 bytes: which structure, of which namespace.
    fn nvme_identify(&self, device: &Path, structure: u8, namespace: u32) -> Option<Vec<u8>>;
    /// How commands reach the drive behind a disk; `None` where none may be sent.
    fn commands(&self, device: &Path) -> Option<Box<dyn Port>> {
        let _ = device;
        None
    }
    /// What the BMC answers to a request that changes nothing, its completion code first; `None` without an answer.
    fn ipmi(&self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>> {
        let _ = (netfn, command, data);
        None
    }
}

/// The whole record. `boot_mac` marks the NIC that the host booted from.
#[must_use]
pub fn inventory(roots: &Roots, probe: &dyn Probe, boot_mac: &str) -> Inventory {
    let table = bytes(&roots.sys.join("firmware/dmi/tables/DMI")).unwrap_or_default();
    let mut notes = Vec::new();
    let (nics, note) = nics::read(roots, probe, boot_mac);
    notes.extend(note);
    let nvme = nvme::NvmeControllers::read(roots, probe);
    let disks = disks_with_contents(roots, probe, &nvme, &mut notes);
    let mut system = system::read_system(roots);
    system::add_model(&mut system, &table);
    let mut inventory = Inventory {
        system,
        firmware: system::read_firmware(roots, &table),
        cpu: cpu::read(roots),
        memory: memory::read(roots, &table),
        nics,
        disks,
        hostname: field(&probe.hostname()),
        parts: Some(Box::new(parts::read(roots, probe, &table, nvme, notes))),
    };
    parts::fit(&mut inventory);
    inventory
}

/// The disks with what only an inspection wants to know: what they can do, and what is on them.
fn disks_with_contents(
    roots: &Roots,
    probe: &dyn Probe,
    nvme: &nvme::NvmeControllers,
    notes: &mut Vec<String>,
) -> Vec<InventoryDisk> {
    let mut disks: Vec<_> = disks::read(roots).into_iter().map(|seen| seen.disk).collect();
    if disks.len() > DISKS_MAX {
        notes.push(format!("{} disks, of which {DISKS_MAX} are listed: no plan can name the others", disks.len()));
        disks.truncate(DISKS_MAX);
    }
    // A disk that sleeps, or fails, must not make all others wait one after the other.
    let share = disks.len().div_ceil(READERS_MAX).max(1);
    thread::scope(|scope| {
        for some in disks.chunks_mut(share) {
            scope.spawn(move || some.iter_mut().for_each(|disk| scan_contents(roots, probe, nvme, disk)));
        }
    });
    let mut contents: BTreeMap<String, DiskContents> = probe.contents().into_iter().collect();
    for disk in &mut disks {
        disk.contents = contents.remove(&disk.device).map(Box::new);
    }
    disks
}

fn scan_contents(roots: &Roots, probe: &dyn Probe, nvme: &nvme::NvmeControllers, disk: &mut InventoryDisk) {
    let device = PathBuf::from(&disk.device);
    disk.signatures = probe.signatures(&device);
    disk.table = Some(probe.table(&device));
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let mut capabilities = capabilities_of(roots, &name, nvme);
    let commands = attach::read(&roots.sys, &name).commands;
    let port = if commands == CommandSet::None { None } else { probe.commands(&device) };
    disk.health = port.and_then(|port| drive::ask(&*port, commands, &mut capabilities)).map(Box::new);
    disk.capabilities = Some(Box::new(capabilities));
}

/// What the disk with this kernel name can do, by what it and its controller say of themselves.
fn capabilities_of(roots: &Roots, name: &str, nvme: &nvme::NvmeControllers) -> DiskCapabilities {
    let block = roots.sys.join("block").join(name);
    let mut found = capabilities::queue(&block);
    let page = |name: &str| bytes(&block.join("device").join(name)).unwrap_or_default();
    capabilities::add_provisioning(&mut found, &page("vpd_pgb2"));
    if let Some(identify) = vpd::ata_identify_data(&page("vpd_pg89")) {
        capabilities::add_ata(&mut found, identify);
    }
    nvme.add_capabilities(&mut found, &block);
    found
}

/// Entry for fuzzing the parsers of foreign bytes: none may panic.
pub fn check(bytes: &[u8]) {
    drop(vpd::unit_serial(bytes));
    drop(vpd::logical_unit_name(bytes));
    drop(vpd::ata_identify(bytes));
    drop(capabilities::nvme(bytes));
    drop((health::nvme(bytes), health::ata(bytes, None), health::scsi(bytes)));
    let text = String::from_utf8_lossy(bytes);
    drop(cpu::parse(&text, "x86_64"));
    let _mib = memory::total_mib(&text);
    let _mib = numa::total_mib(&text);
    drop(nics::vlans(&text));
    drop(pci::in_alias(&text, "sd"));
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A machine whose system calls answer what a test says.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Answers {
        pub(crate) firmware: String,
        /// The answers by structure and namespace.
        pub(crate) nvme: Vec<((u8, u32), Vec<u8>)>,
        /// The answers by network function, command and data.
        pub(crate) ipmi: Vec<(Vec<u8>, Vec<u8>)>,
    }

    impl Probe for Answers {
        fn permanent_mac(&self, _: &str) -> Option<[u8; 6]> {
            None
        }
        fn addresses(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
        fn signatures(&self, _: &Path) -> Vec<String> {
            Vec::new()
        }
        fn table(&self, _: &Path) -> PartitionTableRecord {
            PartitionTableRecord::None
        }
        fn hostname(&self) -> String {
            "host".into()
        }
        fn nic_firmware(&self, _: &str) -> String {
            self.firmware.clone()
        }
        fn nvme_identify(&self, _: &Path, structure: u8, namespace: u32) -> Option<Vec<u8>> {
            let (_, answer) = self.nvme.iter().find(|(asked, _)| *asked == (structure, namespace))?;
            Some(answer.clone())
        }
        fn ipmi(&self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>> {
            let request = [&[netfn, command][..], data].concat();
            let (_, answer) = self.ipmi.iter().find(|(asked, _)| *asked == request)?;
            Some(answer.clone())
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(0u8.., 0..600)) {
            check(&bytes);
        }
    }
}
