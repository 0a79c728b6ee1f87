//! What an inspection found. Read by the agent from the kernel alone (sysfs, procfs, ioctls).

pub use firesteel_facts::{FirmwareMode, Transport};

use firesteel_contents::DiskContents;
use serde::{Deserialize, Serialize};

use crate::parts::{DiskCapabilities, HardwareParts, Health, is_zero};

/// The whole hardware record of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    pub system: InventorySystem,
    pub firmware: InventoryFirmware,
    pub cpu: InventoryCpu,
    pub memory: InstalledMemory,
    #[serde(default)]
    pub nics: Vec<InventoryNic>,
    #[serde(default)]
    pub disks: Vec<InventoryDisk>,
    /// Kernel host name at the time of the inspection.
    #[serde(default)]
    pub hostname: String,
    /// The parts of the host. Older agents do not send them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Box<HardwareParts>>,
}

/// SMBIOS type 1 and 2, from `/sys/class/dmi/id`. Empty where the firmware says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventorySystem {
    #[serde(default)]
    pub manufacturer: String,
    #[serde(default)]
    pub product: String,
    #[serde(default)]
    pub serial: String,
    /// The SMBIOS UUID in lower case.
    #[serde(default)]
    pub uuid: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sku: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub family: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryFirmware {
    pub mode: FirmwareMode,
    #[serde(default)]
    pub vendor: String,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub date: String,
    /// UEFI only: whether Secure Boot is enforced; absent where the firmware does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
    /// UEFI only: whether no platform key is enrolled, so that any program may enrol one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_mode: Option<bool>,
    /// `5.22`, by SMBIOS type 0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// UEFI only: the entry that started this boot, `Boot0003 UEFI PXEv4`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub booted_from: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InventoryCpu {
    /// `x86_64`, `aarch64`, `s390x`: as Rust names it.
    #[serde(default)]
    pub arch: String,
    #[serde(default)]
    pub model: String,
    /// Highest clock in MHz; 0 where unknown.
    #[serde(default)]
    pub clock_mhz: f64,
    /// The flags, sorted and without repeats.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Logical CPUs that are online.
    #[serde(default)]
    pub count: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sockets: u32,
    /// Cores of all sockets that have a CPU online.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cores: u32,
    /// Logical CPUs that are there and switched off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offline: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub microcode: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledMemory {
    /// What the kernel manages (`MemTotal`), in MiB.
    #[serde(default)]
    pub total_mib: u64,
    /// Installed memory by SMBIOS type 17, in MiB; 0 where unknown.
    #[serde(default)]
    pub installed_mib: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryNic {
    pub name: String,
    /// The address in lower case with colons; the permanent one where the driver gives it.
    pub mac: String,
    #[serde(default)]
    pub ip: Vec<String>,
    #[serde(default)]
    pub driver: String,
    /// `<vendor> <device>` as hexadecimal PCI ids, or empty.
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub pci_address: String,
    /// Mbit/s; 0 where unknown or without link.
    #[serde(default)]
    pub speed_mbps: u64,
    #[serde(default)]
    pub link: bool,
    /// Whether the host booted from this NIC.
    #[serde(default)]
    pub boot: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// `half` or `full`; empty where unknown or without link.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub duplex: String,
    /// VLANs that the kernel has on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<InventoryVlan>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryVlan {
    pub id: u16,
    #[serde(default)]
    pub name: String,
}

/// A whole disk. Names are what the kernel gave in this boot; identity is `wwn`, or `serial` with
/// `model` and `size_bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryDisk {
    /// Kernel name with path, `/dev/nvme0n1`. Not stable between boots.
    pub device: String,
    /// `/dev/disk/by-path/…` as udev would name it, or empty.
    #[serde(default)]
    pub by_path: String,
    /// Further stable names (`/dev/disk/by-id/…`).
    #[serde(default)]
    pub by_id: Vec<String>,
    #[serde(default)]
    pub size_bytes: u64,
    #[serde(default)]
    pub logical_block_bytes: u32,
    #[serde(default)]
    pub physical_block_bytes: u32,
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub vendor: String,
    #[serde(default)]
    pub serial: String,
    /// `0x…` for NAA names, `eui.…` or `nvme.…` for NVMe; empty where the disk has none.
    #[serde(default)]
    pub wwn: String,
    #[serde(default)]
    pub wwn_with_extension: String,
    #[serde(default)]
    pub wwn_vendor_extension: String,
    /// `host:channel:target:lun` for SCSI and SATA disks, else empty.
    #[serde(default)]
    pub hctl: String,
    #[serde(default)]
    pub rotational: bool,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub removable: bool,
    #[serde(default)]
    pub transport: Transport,
    /// Signatures found on the disk and its partitions, such as `gpt`, `ext4`, `LVM2_member`.
    #[serde(default)]
    pub signatures: Vec<String>,
    /// The partition table at the disk's start. Older agents do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<PartitionTableRecord>,
    /// What stands on it, and what of that a guard may stop at; absent from agents that do not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Box<DiskContents>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// PCI address of what it is attached to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller: String,
    /// What the drive can do. Older agents do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<DiskCapabilities>>,
    /// The drive's health; absent where the drive was not asked, or does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Box<Health>>,
}

impl InventoryDisk {
    /// Returns the WWN with its extension where there is one: two volumes of one array may differ in that alone.
    #[must_use]
    pub fn full_wwn(&self) -> &str {
        if self.wwn_with_extension.is_empty() { &self.wwn } else { &self.wwn_with_extension }
    }
}

/// What stands where a partition table would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartitionTableRecord {
    /// No GUID partition table.
    None,
    /// The GUID of the whole disk, lower case with hyphens: what [`crate::PlanStep::WriteImage`] put there.
    Gpt { guid: String },
    /// The content was read and is `damaged`, or it could not be read and is not known. Older agents leave this out:
    /// then it may not have been read.
    Unreadable {
        why: String,
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        damaged: bool,
    },
}
