//! What differs between two inspections of one host, in words. Pure.
//!
//! Things are found again by what stays with them: disks by their world-wide name or serial number, NICs by
//! MAC, memory modules by slot, PCI functions by place. What differs between any two boots (kernel names, addresses,
//! memory that the kernel manages) is no change.

use std::{collections::BTreeMap, fmt::Display};

use super::parts::{ModuleRecord, PartsRecord, PciRecord};
use super::{DiskRecord, HardwareRecord, NicRecord};

/// Most changes that are listed; a swap of a whole board has more, and needs no list.
pub const CHANGES_MAX: usize = 32;
/// Longest text of one change; the longest that is real is about half of it.
const CHANGE_BYTES_MAX: usize = 512;

/// The changes from `old` to `new`, what matters most first. When there are too many, the last line
/// says how many more.
#[must_use]
pub fn changes(old: &HardwareRecord, new: &HardwareRecord) -> Vec<String> {
    let mut found = HardwareChanges::default();
    machine(&mut found, old, new);
    for (before, after) in paired(&old.disks, &new.disks, disk_key) {
        found.compare("disk", before, after, disk_name, disk_details);
    }
    for (before, after) in paired(&old.nics, &new.nics, |nic| nic.mac.clone()) {
        found.compare("NIC", before, after, nic_name, nic_details);
    }
    // An agent that does not tell says nothing of what is there.
    if let (Some(old), Some(new)) = (old.parts.as_deref(), new.parts.as_deref()) {
        parts(&mut found, old, new);
    }
    found.into_lines()
}

fn machine(found: &mut HardwareChanges, old: &HardwareRecord, new: &HardwareRecord) {
    found.text("system serial", &old.system.serial, &new.system.serial);
    found.text("system UUID", &old.system.uuid, &new.system.uuid);
    found.text("product", &old.system.product, &new.system.product);
    found.text("firmware version", &old.firmware.version, &new.firmware.version);
    if old.firmware.mode != new.firmware.mode {
        found.add(format!("the host booted by {:?}, before by {:?}", new.firmware.mode, old.firmware.mode));
    }
    let enforced = |state: Option<bool>| state.map_or("", |on| if on { "on" } else { "off" });
    found.text("Secure Boot", enforced(old.firmware.secure_boot), enforced(new.firmware.secure_boot));
    found.text("processor", &old.cpu.model, &new.cpu.model);
    found.number("sockets", old.cpu.sockets, new.cpu.sockets);
    found.number("logical processors", old.cpu.count, new.cpu.count);
    found.number("MiB of installed memory", old.memory.installed_mib, new.memory.installed_mib);
}

fn parts(found: &mut HardwareChanges, old: &PartsRecord, new: &PartsRecord) {
    found.text("board serial", &old.board.serial, &new.board.serial);
    let version = |parts: &PartsRecord| parts.tpm.as_ref().map_or_else(String::new, |tpm| format!("{} ", tpm.version));
    if old.tpm != new.tpm {
        let (before, after) = (version(old), version(new));
        found.add(match (&old.tpm, &new.tpm) {
            (_, None) => format!("the TPM {before}is gone"),
            (None, _) => format!("a TPM {after}was added"),
            _ => format!("the TPM is {after}now, before it was {before}"),
        });
    }
    let slot = |module: &ModuleRecord| format!("{}/{}", module.bank, module.locator);
    for (before, after) in paired(&old.modules, &new.modules, slot) {
        found.compare("memory module", before, after, module_name, module_details);
    }
    for (before, after) in paired(&old.pci, &new.pci, pci_key) {
        found.compare("PCI function", before, after, pci_name, |_| Vec::new());
    }
}

fn disk_key(disk: &DiskRecord) -> String {
    let name = if disk.wwn_with_extension.is_empty() { &disk.wwn } else { &disk.wwn_with_extension };
    match (name.is_empty(), disk.serial.is_empty()) {
        (false, _) => name.clone(),
        (true, false) => format!("{} {}", disk.model, disk.serial),
        (true, true) => disk.by_path.clone(),
    }
}

fn disk_name(disk: &DiskRecord) -> String {
    let at = disk.by_path.strip_prefix("/dev/disk/by-path/").unwrap_or(&disk.device);
    format!("{} serial {:?} at {at}", disk.model, disk.serial)
}

/// Is empty where the drive does not say, which is no change.
fn health(disk: &DiskRecord) -> &'static str {
    match disk.health.as_ref().and_then(|health| health.failing) {
        Some(true) => "failing",
        Some(false) => "good",
        None => "",
    }
}

fn disk_details(disk: &DiskRecord) -> Vec<(&'static str, String)> {
    let hidden = disk.capabilities.as_ref().and_then(|can| can.hidden_bytes);
    let hidden = hidden.map_or_else(String::new, |bytes| bytes.to_string());
    vec![
        ("place", disk.by_path.clone()),
        ("size in bytes", disk.size_bytes.to_string()),
        ("firmware", disk.firmware.clone()),
        ("read-only", disk.read_only.to_string()),
        ("health", health(disk).to_owned()),
        ("hidden bytes", hidden),
    ]
}

fn nic_name(nic: &NicRecord) -> String {
    format!("{} ({})", nic.mac, nic.driver)
}

fn nic_details(nic: &NicRecord) -> Vec<(&'static str, String)> {
    let link = if nic.link { "up" } else { "down" };
    // Without link there is no speed.
    let speed = if nic.speed_mbps == 0 { String::new() } else { nic.speed_mbps.to_string() };
    vec![
        ("place", nic.pci_address.clone()),
        ("link", link.to_owned()),
        ("Mbit/s", speed),
        ("firmware", nic.firmware.clone()),
    ]
}

fn module_name(module: &ModuleRecord) -> String {
    format!("{} of {} MiB, serial {:?}", module.locator, module.size_mib, module.serial)
}

fn module_details(module: &ModuleRecord) -> Vec<(&'static str, String)> {
    vec![
        ("serial", module.serial.clone()),
        ("MiB", module.size_mib.to_string()),
        ("MT/s", module.configured_mts.to_string()),
    ]
}

fn pci_key(device: &PciRecord) -> String {
    format!("{} {}:{}", device.address, device.vendor, device.device)
}

fn pci_name(device: &PciRecord) -> String {
    format!("{} ({}:{} {})", device.address, device.vendor, device.device, device.class_name)
}

/// Each thing of both lists with its counterpart, by key; of several with one key the first go together.
fn paired<'a, T>(
    old: &'a [T],
    new: &'a [T],
    key: impl Fn(&T) -> String,
) -> impl Iterator<Item = (Option<&'a T>, Option<&'a T>)> {
    let mut by_key: BTreeMap<String, (Vec<&T>, Vec<&T>)> = BTreeMap::new();
    for thing in old {
        by_key.entry(key(thing)).or_default().0.push(thing);
    }
    for thing in new {
        by_key.entry(key(thing)).or_default().1.push(thing);
    }
    by_key.into_values().flat_map(|(old, new)| {
        let count = old.len().max(new.len());
        (0..count).map(|index| (old.get(index).copied(), new.get(index).copied())).collect::<Vec<_>>()
    })
}

#[derive(Debug, Default)]
struct HardwareChanges {
    lines: Vec<String>,
    more: usize,
}

impl HardwareChanges {
    fn add(&mut self, mut line: String) {
        line.truncate(line.floor_char_boundary(CHANGE_BYTES_MAX));
        if self.lines.len() < CHANGES_MAX { self.lines.push(line) } else { self.more += 1 }
    }

    /// What one of the two did not say has not changed.
    fn text(&mut self, what: &str, old: &str, new: &str) {
        if old != new && !old.is_empty() && !new.is_empty() {
            self.add(format!("{what}: {new}, before {old}"));
        }
    }

    fn number<T: Display + Default + PartialEq>(&mut self, what: &str, old: T, new: T) {
        if old != new && old != T::default() && new != T::default() {
            self.add(format!("{new} {what}, before {old}"));
        }
    }

    fn compare<T>(
        &mut self,
        what: &str,
        old: Option<&T>,
        new: Option<&T>,
        name: impl Fn(&T) -> String,
        details: impl Fn(&T) -> Vec<(&'static str, String)>,
    ) {
        match (old, new) {
            (Some(old), None) => self.add(format!("{what} {} is gone", name(old))),
            (None, Some(new)) => self.add(format!("{what} {} was added", name(new))),
            (Some(old), Some(new)) => {
                let thing = name(new);
                for ((detail, before), (_, after)) in details(old).iter().zip(details(new)) {
                    self.text(&format!("{what} {thing}, {detail}"), before, &after);
                }
            }
            (None, None) => {}
        }
    }

    fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more changes", self.more));
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(serial: &str, place: &str) -> DiskRecord {
        DiskRecord {
            model: "QEMU".into(),
            serial: serial.into(),
            by_path: format!("/dev/disk/by-path/{place}"),
            size_bytes: 8 << 30,
            ..DiskRecord::default()
        }
    }

    fn nic(mac: &str, link: bool, speed_mbps: u64) -> NicRecord {
        NicRecord { mac: mac.into(), driver: "ice".into(), link, speed_mbps, ..NicRecord::default() }
    }

    fn module(locator: &str, serial: &str) -> ModuleRecord {
        ModuleRecord { locator: locator.into(), serial: serial.into(), size_mib: 16_384, ..ModuleRecord::default() }
    }

    fn host(disks: Vec<DiskRecord>, nics: Vec<NicRecord>, modules: Vec<ModuleRecord>) -> HardwareRecord {
        let parts = PartsRecord { modules, ..PartsRecord::default() };
        HardwareRecord { disks, nics, parts: Some(Box::new(parts)), ..HardwareRecord::default() }
    }

    #[test]
    fn kernel_names_and_their_order_are_no_change() {
        let old = host(vec![disk("1", "a"), disk("2", "b")], vec![nic("x", true, 10), nic("y", false, 0)], vec![]);
        let mut new = host(vec![disk("2", "b"), disk("1", "a")], vec![nic("y", false, 0), nic("x", true, 10)], vec![]);
        new.disks[0].device = "/dev/sdz".into();
        new.memory.total_mib = 7;
        (new.attempt, new.hostname) = (9, "other".into());
        assert_eq!(changes(&old, &new), Vec::<String>::new());
        assert_eq!(changes(&old, &HardwareRecord { parts: None, ..old.clone() }), Vec::<String>::new());
    }

    #[test]
    fn swapped_moved_and_failing_parts_are_told() {
        let old = host(
            vec![disk("1", "a"), disk("2", "b")],
            vec![nic("x", true, 25_000)],
            vec![module("A1", "s1"), module("A2", "s2")],
        );
        let mut new = host(vec![disk("2", "c"), disk("3", "a")], vec![nic("x", false, 0)], vec![module("A1", "s9")]);
        new.disks[1].size_bytes = 1;
        assert_eq!(
            changes(&old, &new),
            [
                "disk QEMU serial \"1\" at a is gone",
                "disk QEMU serial \"2\" at c, place: /dev/disk/by-path/c, before /dev/disk/by-path/b",
                "disk QEMU serial \"3\" at a was added",
                "NIC x (ice), link: down, before up",
                "memory module A1 of 16384 MiB, serial \"s9\", serial: s9, before s1",
                "memory module A2 of 16384 MiB, serial \"s2\" is gone",
            ]
        );
    }

    #[test]
    fn the_machine_itself() {
        let mut old = HardwareRecord::default();
        (old.firmware.version, old.firmware.secure_boot) = ("1.2".into(), Some(false));
        (old.memory.installed_mib, old.cpu.count) = (65_536, 32);
        let mut new = old.clone();
        (new.firmware.version, new.firmware.secure_boot) = ("1.3".into(), Some(true));
        (new.memory.installed_mib, new.cpu.count) = (49_152, 0);
        assert_eq!(
            changes(&old, &new),
            [
                "firmware version: 1.3, before 1.2",
                "Secure Boot: on, before off",
                "49152 MiB of installed memory, before 65536"
            ]
        );
    }

    #[test]
    fn twins_are_counted_and_many_changes_are_bounded() {
        let twin = || disk("same", "a");
        let old = host(vec![twin(), twin()], vec![], vec![]);
        assert_eq!(changes(&old, &host(vec![twin()], vec![], vec![])), ["disk QEMU serial \"same\" at a is gone"]);
        let many = (0..100).map(|number| disk(&number.to_string(), "a")).collect();
        let told = changes(&HardwareRecord::default(), &host(many, vec![], vec![]));
        assert_eq!((told.len(), told[CHANGES_MAX].as_str()), (CHANGES_MAX + 1, "and 68 more changes"));
    }
}
