//! What a host is made of beyond what decides where an image goes: board, sockets, memory modules,
//! PCI functions, NVMe controllers, the way to its BMC. From SMBIOS, sysfs and identify commands.
//!
//! Older agents do not send any of this; a record without it says nothing. Unknown numbers are 0, texts that the
//! firmware left out are empty; both are left out.

pub use firesteel_facts::{FormatErase, HiddenArea, SanitizeMethod};

use serde::{Deserialize, Serialize};

/// The parts beside [`crate::Inventory`]'s own fields. Each list is bounded by [`crate::limits`]; `notes` says what was
/// left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HardwareParts {
    pub board: Mainboard,
    pub chassis: Chassis,
    /// Sockets with a processor in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<InventoryProcessor>,
    pub memory: MemoryArray,
    /// Slots with a module in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<MemoryModule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<NumaNode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<PciDevice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvme: Vec<NvmeController>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub management: Vec<ManagementInterface>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bmc: Vec<BmcNetwork>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<InventoryTpm>,
    /// What the record does not show and why, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// SMBIOS type 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mainboard {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub product: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub asset_tag: String,
}

/// SMBIOS type 3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chassis {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    /// The kind of case, such as `Rack Mount Chassis` or `Blade`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub asset_tag: String,
}

/// SMBIOS type 4: one socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InventoryProcessor {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub socket: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    /// The name that the maker gave the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub cores: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub threads: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_mhz: u32,
}

/// SMBIOS types 16 and 19, all arrays of system memory together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryArray {
    #[serde(skip_serializing_if = "is_zero")]
    pub slots: u32,
    /// The most that fits, in MiB.
    #[serde(skip_serializing_if = "is_zero")]
    pub capacity_mib: u64,
    /// Address ranges that memory answers at, in MiB.
    #[serde(skip_serializing_if = "is_zero")]
    pub mapped_mib: u64,
    /// `none`, `parity`, `single-bit ECC`, `multi-bit ECC`, `CRC`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_correction: String,
}

/// SMBIOS type 17.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryModule {
    /// What is printed beside the slot: `DIMM_A1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub locator: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bank: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub size_mib: u64,
    /// The kind of memory, such as `DDR4`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The form factor, such as `DIMM` or `SODIMM`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub form: String,
    /// What the module can do, in MT/s.
    #[serde(skip_serializing_if = "is_zero")]
    pub speed_mts: u32,
    /// What it is run at, in MT/s.
    #[serde(skip_serializing_if = "is_zero")]
    pub configured_mts: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ranks: u8,
    /// Whether the module is wider than its data.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub ecc: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub part: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NumaNode {
    pub id: u32,
    /// The kernel's list: `0-7,16-23`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpus: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_mib: u64,
    /// The distances to each node in the order of ids, by the kernel's scale (10 is near).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciDevice {
    pub address: String,
    /// Class, subclass and programming interface, six hexadecimal digits.
    pub class: String,
    /// The class in words; empty for one that has no name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class_name: String,
    /// Four hexadecimal digits, like the three that follow.
    pub vendor: String,
    pub device: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subsystem_vendor: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subsystem_device: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub driver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// The security feature set of an ATA disk, as it stood at the inspection (ACS-4, section 7.13.7.59).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AtaSecurity {
    /// A password is set.
    pub enabled: bool,
    pub locked: bool,
    /// No change until the next power cycle.
    pub frozen: bool,
    pub enhanced_erase: bool,
    /// What the drive says an erase takes; 0 where it does not say.
    #[serde(skip_serializing_if = "is_zero")]
    pub erase_minutes: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub enhanced_erase_minutes: u32,
}

/// What a disk says that it can do. Nothing of it was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCapabilities {
    /// The kernel can discard blocks of it.
    pub discard: bool,
    /// Whether the drive writes zeroes by itself.
    pub write_zeroes: bool,
    /// The drive promises that discarded blocks are read as zeroes.
    pub discard_zeroes: bool,
    /// What the drive says of itself (ATA or NVMe identify) was read: without that nothing that follows
    /// is known, and an empty list means nothing.
    pub identified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sanitize: Vec<SanitizeMethod>,
    /// NVMe only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub format: Vec<FormatErase>,
    /// ATA only: absent where the drive has no such feature set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ata_security: Option<AtaSecurity>,
    /// ATA only: feature sets by which part of the disk can be hidden.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_areas: Vec<HiddenArea>,
    /// What the drive has beyond what it shows; absent where it does not report it. ATA only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_bytes: Option<u64>,
}

/// How a drive is, by its own word. Absent and 0 is what it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Whether the drive expects to fail, or has failed in part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<bool>,
    /// The warnings in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<i16>,
    #[serde(skip_serializing_if = "is_zero")]
    pub power_on_hours: u64,
    /// The used part of the life that the maker expects; more than 100 is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_percent: Option<u8>,
    #[serde(skip_serializing_if = "is_zero")]
    pub unsafe_shutdowns: u64,
    /// Errors that the drive could not correct.
    #[serde(skip_serializing_if = "is_zero")]
    pub media_errors: u64,
    /// Sectors that were replaced by spare ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub reallocated: u64,
    /// Sectors that cannot be read, and wait to be replaced.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmeController {
    /// The kernel's name in this boot: `nvme0`.
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// The transport, such as `pcie` or `tcp`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub transport: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pci_address: String,
    /// Most namespaces that it supports.
    #[serde(skip_serializing_if = "is_zero")]
    pub namespaces_max: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub total_bytes: u64,
    /// The part of `total_bytes` that is in no namespace.
    #[serde(skip_serializing_if = "is_zero")]
    pub unallocated_bytes: u64,
    /// The controller was asked which namespaces exist; without it only attached ones are listed.
    pub identified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NvmeNamespace>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmeNamespace {
    pub id: u32,
    /// Unattached namespaces hold data that no disk of this host shows.
    pub attached: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub size_bytes: u64,
}

/// Ways from this host to its BMC: SMBIOS types 38 and 42.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ManagementInterface {
    Ipmi {
        /// `KCS`, `SMIC`, `BT`, `SSIF`, or a number.
        interface: String,
        /// The version, such as `2.0`.
        version: String,
    },
    /// Redfish over a network between host and BMC (DSP0270).
    Redfish {
        /// Where the BMC answers; empty where it must be looked for.
        address: String,
        port: u16,
        /// The VLAN; 0 is untagged.
        vlan: u16,
        hostname: String,
    },
}

/// Where the BMC is on its own network, by what it reports to this host (IPMI).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BmcNetwork {
    pub channel: u8,
    /// The address in lower case with colons.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ipv4: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub prefix_bits: u32,
    /// The VLAN; 0 is untagged.
    #[serde(skip_serializing_if = "is_zero")]
    pub vlan: u16,
    /// The addresses, such as `fd00::7/64`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InventoryTpm {
    /// `1.2` or `2.0`; empty where the driver does not say.
    pub version: String,
}

pub(crate) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}
