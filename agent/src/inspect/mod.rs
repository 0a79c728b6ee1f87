//! What this host is made of, as the kernel shows it in sysfs and procfs. Every reader takes the
//! roots as a value, so that tests can show it recorded trees of other machines.
//!
//! All texts come from firmware and drives, which anybody may have written: they are cut,
//! and control characters are taken out, before they leave this module.

pub mod by_path;
pub mod cpu;
pub mod disks;
pub mod location;
pub mod memory;
pub mod nics;
pub mod system;
pub mod vpd;

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use firesteel_wire::{
    Inventory, Table,
    limits::{DISKS_MAX, FIELD_BYTES_MAX, NICS_MAX},
};

/// Largest attribute or table that is read; `/proc/cpuinfo` of 1024 CPUs is about 1.5 MB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where the kernel's filesystems are mounted.
#[derive(Clone, Debug)]
pub struct Roots {
    pub sys: PathBuf,
    pub proc: PathBuf,
    pub dev: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), dev: "/dev".into() }
    }
}

/// What the kernel tells by system calls only.
pub trait Probe {
    /// The address that the NIC's maker gave it.
    fn permanent_mac(&self, interface: &str) -> Option<[u8; 6]>;
    /// Addresses of an interface with prefix length.
    fn addresses(&self, interface: &str) -> Vec<String>;
    /// Signatures on a disk, such as `gpt`.
    fn signatures(&self, device: &Path) -> Vec<String>;
    /// The partition table of a disk.
    fn table(&self, device: &Path) -> Table;
    fn hostname(&self) -> String;
}

/// The whole record. `boot_mac` marks the NIC that the host booted from.
#[must_use]
pub fn inventory(roots: &Roots, probe: &dyn Probe, boot_mac: &str) -> Inventory {
    let mut nics = nics::read(roots, probe, boot_mac);
    nics.truncate(NICS_MAX);
    let mut disks: Vec<_> = disks::read(roots).into_iter().map(|seen| seen.disk).collect();
    disks.truncate(DISKS_MAX);
    for disk in &mut disks {
        disk.signatures = probe.signatures(Path::new(&disk.device));
        disk.table = Some(probe.table(Path::new(&disk.device)));
    }
    Inventory {
        system: system::read_system(roots),
        firmware: system::read_firmware(roots),
        cpu: cpu::read(roots),
        memory: memory::read(roots),
        nics,
        disks,
        hostname: field(&probe.hostname()),
    }
}

/// A text of foreign origin: trimmed, printable, at most as long as the protocol allows.
#[must_use]
pub fn field(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut clean = clean.trim().to_owned();
    if clean.len() > FIELD_BYTES_MAX {
        let mut end = FIELD_BYTES_MAX;
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        clean.truncate(end);
    }
    clean
}

/// The bytes of a kernel file, or `None` where it is missing or the driver refuses.
pub(crate) fn bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The whole text of a kernel file, without the limit of a field.
pub(crate) fn text(path: &Path) -> String {
    bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// A one-line attribute; empty where there is none.
pub(crate) fn attribute(path: &Path) -> String {
    field(&text(path))
}

pub(crate) fn number(path: &Path) -> Option<u64> {
    attribute(path).parse().ok()
}

pub(crate) fn flag(path: &Path) -> bool {
    attribute(path) == "1"
}

/// Names in a folder, sorted; empty where it cannot be read.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The last component of where a link points.
pub(crate) fn link_name(link: &Path) -> String {
    fs::read_link(link)
        .ok()
        .and_then(|target| target.file_name().map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_default()
}

/// Entry for fuzzing the parsers of foreign bytes: none may panic.
pub fn check(bytes: &[u8]) {
    drop(vpd::unit_serial(bytes));
    drop(vpd::logical_unit_name(bytes));
    drop(vpd::ata_identify(bytes));
    let _mib = memory::installed_mib(bytes);
    drop(cpu::parse(&String::from_utf8_lossy(bytes), "x86_64"));
    let _mib = memory::total_mib(&String::from_utf8_lossy(bytes));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_short_and_printable() {
        assert_eq!(field("  S/N\t1\u{1b}[2J \n"), "S/N 1 [2J");
        let long = field(&"é".repeat(FIELD_BYTES_MAX));
        assert!(long.len() <= FIELD_BYTES_MAX && long.chars().all(|c| c == 'é'));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(0u8.., 0..600)) {
            check(&bytes);
        }
    }
}
