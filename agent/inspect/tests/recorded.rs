//! Inspections of real machines, from recorded `/sys` and `/proc` trees. They are not part of this
//! repository; where they are missing the test says so. What is expected was written by hand from
//! the trees' files.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, process::Command};

use firesteel_inspect::{Probe, cpu, inventory};
use firesteel_sysfs::Roots;
use firesteel_wire::parts::{HardwareParts, NumaNode, PciDevice};
use firesteel_wire::{Inventory, InventoryDisk, Transport};

struct NoSystemCalls;

impl Probe for NoSystemCalls {
    fn permanent_mac(&self, _: &str) -> Option<[u8; 6]> {
        None
    }
    fn addresses(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn table(&self, _: &Path) -> firesteel_wire::PartitionTableRecord {
        firesteel_wire::PartitionTableRecord::None
    }

    fn signatures(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
    fn hostname(&self) -> String {
        "recorded".into()
    }
    fn nic_firmware(&self, _: &str) -> String {
        String::new()
    }
    fn nvme_identify(&self, _: &Path, _: u8, _: u32) -> Option<Vec<u8>> {
        None
    }
}

fn inspect(snapshot: &str) -> Option<Inventory> {
    let archive = firesteel_fixtures::path(&format!("ghw/snapshots/linux-amd64-{snapshot}.tar.gz"))?;
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
    let notes = &parts(&inventory).notes;
    assert_eq!(notes.len(), 1, "the trees have no SMBIOS table: {notes:?}");
    Some(inventory)
}

fn parts(inventory: &Inventory) -> &HardwareParts {
    inventory.parts.as_deref().unwrap()
}

fn names(disks: &[InventoryDisk]) -> Vec<(&str, &str)> {
    disks.iter().map(|disk| (disk.device.as_str(), disk.by_path.trim_start_matches("/dev/disk/by-path/"))).collect()
}

/// Logical CPUs, sockets, cores and those that are switched off.
fn processors(inventory: &Inventory) -> [u32; 4] {
    let cpu = &inventory.cpu;
    [cpu.count, cpu.sockets, cpu.cores, cpu.offline]
}

fn one_node(cpus: &str, memory_mib: u64) -> [NumaNode; 1] {
    [NumaNode { id: 0, cpus: cpus.into(), memory_mib, distances: vec![10] }]
}

/// Address, class, ids and driver.
fn pci<'a>(inventory: &'a Inventory, class: &str) -> Vec<[&'a str; 5]> {
    let of_class = parts(inventory).pci.iter().filter(|device| device.class.starts_with(class));
    of_class.map(|one| [&*one.address, &*one.class_name, &*one.vendor, &*one.device, &*one.driver]).collect()
}

#[test]
fn a_laptop_with_one_nvme_disk_and_a_mapper_on_it() {
    let Some(inventory) = inspect("415ee03b8c4d1c4f07ae2e9d8b3d3d6d") else { return };
    assert_eq!(names(&inventory.disks), [("/dev/nvme0n1", "pci-0000:04:00.0-nvme-1")]);
    let disk = &inventory.disks[0];
    assert_eq!((disk.transport, disk.rotational, disk.controller.as_str()), (Transport::Nvme, false, "0000:04:00.0"));
    assert_eq!((disk.size_bytes, disk.wwn.as_str()), (2_000_409_264 * 512, "eui.002538bc21b15601"));
    assert_eq!(disk.by_id, ["/dev/disk/by-id/nvme-eui.002538bc21b15601"]);
    assert!(!disk.capabilities.as_ref().unwrap().identified, "nobody could ask the drive");

    // Four cores with two threads (ids 0, 4, 8, 12) and eight with one (16 to 23).
    assert_eq!(processors(&inventory), [16, 1, 12, 0]);
    assert_eq!(inventory.cpu.model, "12th Gen Intel(R) Core(TM) i7-1270P");
    assert_eq!(inventory.cpu.microcode, "0x437");
    assert_eq!(inventory.memory.total_mib, 31_779);
    assert_eq!(parts(&inventory).numa, one_node("0-15", 31_779));

    assert_eq!(parts(&inventory).pci.len(), 23);
    assert_eq!(pci(&inventory, "01"), [["0000:04:00.0", "NVMe controller", "144d", "a80a", "nvme"]]);
    assert_eq!(pci(&inventory, "03"), [["0000:00:02.0", "VGA compatible controller", "8086", "46a6", "i915"]]);
    assert_eq!(pci(&inventory, "02"), [["0000:00:14.3", "Network controller", "8086", "51f0", "iwlwifi"]]);
    let wireless = parts(&inventory).pci.iter().find(|one| one.address == "0000:00:14.3").unwrap();
    // The tree has no files of them; the alias is pci:v00008086d000051F0sv00008086sd00000090bc02sc80i00.
    assert_eq!((&*wireless.subsystem_vendor, &*wireless.subsystem_device), ("8086", "0090"));
    assert_eq!(wireless.numa_node, None, "-1 is none");
}

#[test]
fn a_workstation_with_three_sata_disks_under_lvm() {
    let Some(inventory) = inspect("61797caf7c0b6bca1725ad7975ed4773") else { return };
    let disks: Vec<_> =
        inventory.disks.iter().map(|disk| (&*disk.device, &*disk.hctl, disk.size_bytes / 512)).collect();
    let expected = [
        ("/dev/sda", "0:0:0:0", 500_118_192),
        ("/dev/sdb", "4:0:0:0", 1_953_525_168),
        ("/dev/sdc", "5:0:0:0", 976_773_168),
    ];
    assert_eq!(disks, expected);
    assert_eq!(inventory.disks.iter().map(|disk| disk.rotational).collect::<Vec<_>>(), [false, true, false]);
    assert!(inventory.disks.iter().all(|disk| disk.controller == "0000:01:00.1"));

    assert_eq!(processors(&inventory), [12, 1, 6, 0]);
    assert_eq!(inventory.cpu.model, "AMD Ryzen 5 1600 Six-Core Processor");
    assert_eq!(inventory.memory.total_mib, 32_009);
    assert_eq!(parts(&inventory).numa, one_node("0-11", 0), "the tree has no meminfo of the node");

    assert_eq!(parts(&inventory).pci.len(), 43);
    let sata = |address: &'static str, device: &'static str| [address, "SATA controller (AHCI)", "1022", device, ""];
    assert_eq!(pci(&inventory, "01"), [sata("0000:01:00.1", "43b7"), sata("0000:0c:00.2", "7901")]);
    let nic = |address: &'static str, vendor: &'static str, device: &'static str| {
        [address, "Ethernet controller", vendor, device, ""]
    };
    let nics = [
        nic("0000:03:00.0", "10ec", "8168"),
        nic("0000:06:00.0", "8086", "1521"),
        nic("0000:06:00.1", "8086", "1521"),
        nic("0000:08:00.0", "10ec", "8168"),
    ];
    assert_eq!(pci(&inventory, "02"), nics);
    assert_eq!(pci(&inventory, "03"), [["0000:0a:00.0", "VGA compatible controller", "1002", "6758", ""]]);
    assert_eq!(pci(&inventory, "10"), [["0000:0b:00.2", "Encryption controller", "1022", "1456", ""]]);
}

#[test]
fn a_virtual_machine_with_an_accelerator() {
    let Some(inventory) = inspect("accel") else { return };
    assert_eq!(names(&inventory.disks), [("/dev/vda", "pci-0000:04:00.0")]);
    let disk = &inventory.disks[0];
    assert_eq!((disk.transport, disk.size_bytes), (Transport::Virtio, 20 << 30));
    assert_eq!((disk.rotational, disk.by_id.len()), (true, 0));
    assert_eq!(processors(&inventory), [2, 2, 2, 0]);
    assert_eq!((inventory.cpu.microcode.as_str(), inventory.memory.total_mib), ("0x5003604", 1960));
    assert_eq!(parts(&inventory).numa, one_node("0-1", 1960));
    let accelerator = PciDevice {
        address: "0000:00:04.0".into(),
        class: "120000".into(),
        class_name: "Processing accelerator".into(),
        vendor: "1b36".into(),
        device: "0005".into(),
        subsystem_vendor: "1af4".into(),
        subsystem_device: "1100".into(),
        driver: "fake_pci_driver".into(),
        numa_node: None,
    };
    assert_eq!(
        parts(&inventory).pci.iter().filter(|one| one.class.starts_with("12")).collect::<Vec<_>>(),
        [&accelerator]
    );
    assert_eq!(pci(&inventory, "01").len(), 2, "virtio-blk and AHCI");
}

#[test]
fn a_machine_with_half_of_its_processors_switched_off() {
    let Some(inventory) = inspect("offlineCPUs") else { return };
    assert_eq!(processors(&inventory), [2, 2, 2, 2]);
    assert_eq!((inventory.memory.total_mib, inventory.disks.len()), (7697, 0));
    assert_eq!(parts(&inventory).numa, one_node("0-1", 7697));
}

/// Outputs of other machines, of which the kernel's own files are of use here.
#[test]
fn processors_of_a_virtual_machine_and_flags_that_are_none() {
    let read = |name: &str| firesteel_fixtures::text(&format!("ipa/{name}")).map(|text| cpu::parse(&text, "x86_64"));
    let Some(found) = read("proc-cpuinfo-output.txt") else { return };
    assert_eq!((found.count, found.model.as_str()), (2, "AMD EPYC 7282 16-Core Processor"));
    assert_eq!((found.clock_mhz, found.microcode.as_str()), (2794.748, "0x8301055"));
    assert_eq!(found.flags, ["de", "fpu", "pse", "vme"]);
    let odd = read("illegal-proc-flags.txt").unwrap();
    assert_eq!(odd.flags, ["I", "a", "am", "flag", "not"], "words of the kernel are taken as they are");
    assert_eq!(read("no-proc-flags.txt").unwrap().flags, Vec::<String>::new());
}
