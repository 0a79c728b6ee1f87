//! The parts of a host that decide nothing about its disks, and the bound on the whole record.

use firesteel_contents::DiskContents;
use firesteel_sysfs::Roots;
use firesteel_wire::limits::{FIELD_BYTES_MAX, INVENTORY_BYTES_MAX, NOTES_MAX};
use firesteel_wire::parts::{HardwareParts, ManagementInterface};
use firesteel_wire::{Inventory, text};

use super::{Probe, bmc, numa, nvme::NvmeControllers, pci, smbios, system};

/// Reads all parts; `table` is the SMBIOS structure table, and `notes` are those of the other readers.
#[must_use]
pub fn read(
    roots: &Roots,
    probe: &dyn Probe,
    table: &[u8],
    nvme: NvmeControllers,
    mut notes: Vec<String>,
) -> HardwareParts {
    if table.is_empty() {
        notes.push("the firmware shows no SMBIOS table: board, sockets and memory modules are not known".to_owned());
    }
    let (processors, more) = smbios::processor::processors(table);
    notes.extend(left_out("processors", processors.len(), more));
    let (modules, more) = smbios::memory::modules(table);
    notes.extend(left_out("memory modules", modules.len(), more));
    let (numa, note) = numa::read(roots);
    notes.extend(note);
    let (pci, note) = pci::read(roots);
    notes.extend(note);
    notes.extend(nvme.notes);
    notes.truncate(NOTES_MAX);
    let management = smbios::management::interfaces(table);
    // Where the firmware knows of none, looking for one would take the driver a while.
    let has_ipmi = management.iter().any(|way| matches!(way, ManagementInterface::Ipmi { .. }));
    HardwareParts {
        board: smbios::platform::board(table),
        chassis: smbios::platform::chassis(table),
        processors,
        memory: smbios::memory::array(table),
        modules,
        numa,
        pci,
        nvme: nvme.listed,
        management,
        bmc: if has_ipmi { bmc::read(probe) } else { Vec::new() },
        tpm: system::read_tpm(roots),
        notes: notes.into_iter().map(|note| text::clean(&note, FIELD_BYTES_MAX)).collect(),
    }
}

fn left_out(what: &str, listed: usize, more: usize) -> Option<String> {
    (more > 0).then(|| format!("{} {what}, of which {listed} are listed", listed + more))
}

/// A list that can go where the record is too large, and whether there was anything in it.
type Sacrifice = (&'static str, fn(&mut Inventory) -> bool);

/// What is missed least goes first. Disks and NICs themselves stay: they are bounded in number, and their
/// texts in length.
const SACRIFICES: [Sacrifice; 8] = [
    ("PCI functions", |inventory| emptied(&mut parts_of(inventory).pci)),
    ("VLANs", |inventory| emptied_all(inventory.nics.iter_mut().map(|nic| &mut nic.vlans))),
    ("memory modules", |inventory| emptied(&mut parts_of(inventory).modules)),
    ("processors", |inventory| emptied(&mut parts_of(inventory).processors)),
    ("NVMe controllers", |inventory| emptied(&mut parts_of(inventory).nvme)),
    ("further names of disks", |inventory| emptied_all(inventory.disks.iter_mut().map(|disk| &mut disk.by_id))),
    ("filesystems of disks", |inventory| {
        contents(inventory).map(DiskContents::forget_plain).filter(|had| *had).count() > 0
    }),
    ("contents of disks", |inventory| inventory.disks.iter_mut().filter_map(|disk| disk.contents.take()).count() > 0),
];

fn contents(inventory: &mut Inventory) -> impl Iterator<Item = &mut DiskContents> {
    inventory.disks.iter_mut().filter_map(|disk| disk.contents.as_deref_mut())
}

fn parts_of(inventory: &mut Inventory) -> &mut HardwareParts {
    inventory.parts.get_or_insert_default()
}

fn emptied<T>(list: &mut Vec<T>) -> bool {
    let had_any = !list.is_empty();
    list.clear();
    had_any
}

fn emptied_all<'a, T: 'a>(lists: impl Iterator<Item = &'a mut Vec<T>>) -> bool {
    lists.filter_map(|list| emptied(list).then_some(())).count() > 0
}

/// Empties lists until the record fits into a report, and notes each.
pub fn fit(inventory: &mut Inventory) {
    for (what, sacrifice) in SACRIFICES {
        if bytes(inventory) <= INVENTORY_BYTES_MAX {
            return;
        }
        if sacrifice(inventory) {
            parts_of(inventory).notes.push(format!("{what} are not listed: the record would be too large to be sent"));
        }
    }
}

/// Counts the bytes of the inventory as JSON.
fn bytes(inventory: &Inventory) -> usize {
    serde_json::to_vec(inventory).map_or(usize::MAX, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_contents::{ContentKind, ContentOwner, OrdinaryContent, ProtectedContent};
    use firesteel_wire::limits::{DISKS_MAX, MODULES_MAX, NICS_MAX, PCI_DEVICES_MAX, VLANS_MAX};
    use firesteel_wire::parts::{MemoryModule, PciDevice};
    use firesteel_wire::{InventoryDisk, InventoryNic, InventoryVlan};

    use super::*;

    #[test]
    fn a_full_record_of_a_real_size_fits_as_it_is() {
        let pci = PciDevice {
            address: "0000:af:00.1".into(),
            class: "020000".into(),
            class_name: "Ethernet controller".into(),
            vendor: "8086".into(),
            device: "1592".into(),
            subsystem_vendor: "8086".into(),
            subsystem_device: "0002".into(),
            driver: "ice".into(),
            numa_node: Some(1),
        };
        let module = MemoryModule {
            locator: "DIMM_P0_A0".into(),
            bank: "P0 CHANNEL A".into(),
            size_mib: 65_536,
            kind: "DDR5".into(),
            form: "DIMM".into(),
            speed_mts: 5600,
            configured_mts: 4800,
            ranks: 2,
            ecc: true,
            manufacturer: "Samsung".into(),
            serial: "80CE012346514C8C21".into(),
            part: "M321R8GA0PB0-CWMKH".into(),
        };
        let disk = InventoryDisk {
            device: "/dev/nvme100n1".into(),
            by_path: "/dev/disk/by-path/pci-0000:af:00.0-nvme-1".into(),
            by_id: vec!["/dev/disk/by-id/nvme-SAMSUNG_MZQL21T9HCJR-00A07_S64GNE0R801234".into(); 3],
            model: "SAMSUNG MZQL21T9HCJR-00A07".into(),
            serial: "S64GNE0R801234".into(),
            wwn: "eui.36344730528012340025384e00000001".into(),
            capabilities: Some(Box::default()),
            ..InventoryDisk::default()
        };
        let mut inventory = Inventory { disks: vec![disk; DISKS_MAX], ..Inventory::default() };
        inventory.nics = vec![InventoryNic { driver: "ice".into(), ..InventoryNic::default() }; NICS_MAX];
        let parts =
            HardwareParts { pci: vec![pci; PCI_DEVICES_MAX], modules: vec![module; 192], ..HardwareParts::default() };
        inventory.parts = Some(Box::new(parts));
        let before = inventory.clone();
        fit(&mut inventory);
        assert!(inventory == before, "{} bytes", bytes(&before));
    }

    #[test]
    fn a_record_of_long_texts_is_cut_to_what_can_be_sent_and_says_so() {
        let long = "x".repeat(FIELD_BYTES_MAX);
        let module = MemoryModule { part: long.clone(), serial: long.clone(), ..MemoryModule::default() };
        let vlan = InventoryVlan { id: 1, name: long.clone() };
        let disk = InventoryDisk { by_id: vec![long.clone(); 3], ..InventoryDisk::default() };
        let mut inventory = Inventory {
            nics: vec![InventoryNic { vlans: vec![vlan; VLANS_MAX], ..InventoryNic::default() }; NICS_MAX],
            disks: vec![disk; DISKS_MAX],
            parts: Some(Box::new(HardwareParts { modules: vec![module; MODULES_MAX], ..HardwareParts::default() })),
            ..Inventory::default()
        };
        fit(&mut inventory);
        assert!(bytes(&inventory) <= INVENTORY_BYTES_MAX);
        assert_eq!(inventory.disks.len(), DISKS_MAX);
        let notes = inventory.parts.unwrap().notes;
        assert_eq!(notes.len(), 2, "what went is enough: {notes:?}");
        assert!(notes[0].starts_with("VLANs are not listed"), "{notes:?}");
    }

    #[test]
    fn what_may_stop_an_erasure_stays_longest() {
        let long = "x".repeat(FIELD_BYTES_MAX);
        let finding = |count: usize| ProtectedContent {
            place: long.clone(),
            kind: ContentKind::Vmfs,
            name: "x".repeat(count),
            owner: ContentOwner::Unnamed,
        };
        let plain = OrdinaryContent { place: long.clone(), name: long.clone() };
        let with = |findings: usize, plains: usize| {
            let contents = DiskContents {
                findings: vec![finding(1); findings],
                plain: vec![plain.clone(); plains],
                ..DiskContents::default()
            };
            let disk = InventoryDisk { contents: Some(Box::new(contents)), ..InventoryDisk::default() };
            let mut inventory = Inventory { disks: vec![disk; DISKS_MAX], ..Inventory::default() };
            fit(&mut inventory);
            assert!(bytes(&inventory) <= INVENTORY_BYTES_MAX);
            inventory.disks.remove(0).contents
        };
        let kept = with(1, 4).unwrap();
        assert_eq!((kept.findings.len(), kept.plain.len(), kept.more), (1, 0, 4));
        assert_eq!(with(8, 0), None, "the agent's own guard is left");
    }
}
