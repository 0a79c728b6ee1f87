//! What a host is made of beyond what decides where an image goes: board, sockets, memory modules,
//! PCI functions, NVMe controllers, the way to its BMC.
//!
//! An older agent leaves all of it out. Unknown numbers are 0 and texts that were not filled in are empty; both are
//! left out.

pub use firesteel_facts::{FormatErase, HiddenArea, SanitizeMethod};

use serde::{Deserialize, Serialize};

use crate::zero::is_zero;

/// Parts beside the record's own fields. Lists and texts are bounded; `notes` says what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartsRecord {
    pub board: BoardRecord,
    pub chassis: ChassisRecord,
    /// Sockets with a processor in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<ProcessorRecord>,
    pub memory: MemoryArrayRecord,
    /// Slots with a module in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<NumaNodeRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<PciRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvme: Vec<NvmeControllerRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub management: Vec<ManagementRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bmc: Vec<BmcNetworkRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<TpmRecord>,
    /// What the record does not show and why, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// SMBIOS type 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BoardRecord {
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
#[serde(rename_all = "camelCase", default)]
pub struct ChassisRecord {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    /// Such as `Rack Mount Chassis`, `Blade`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub asset_tag: String,
}

/// SMBIOS type 4: one socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessorRecord {
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
#[serde(rename_all = "camelCase", default)]
pub struct MemoryArrayRecord {
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
#[serde(rename_all = "camelCase", default)]
pub struct ModuleRecord {
    /// What is printed beside the slot: `DIMM_A1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub locator: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bank: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub size_mib: u64,
    /// Such as `DDR4`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Such as `DIMM`, `SODIMM`.
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
    /// It is wider than its data.
    #[serde(skip_serializing_if = "is_zero")]
    pub ecc: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub part: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NumaNodeRecord {
    pub id: u32,
    /// The kernel's list: `0-7,16-23`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpus: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_mib: u64,
    /// Distance to each node in the order of ids, by the kernel's scale (10 is near).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PciRecord {
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
    /// It computes or draws for programs; the small one of a BMC's console is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub gpu: bool,
}

/// The security feature set of an ATA disk, as it stood at the inspection (ACS-4, section 7.13.7.59).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AtaSecurityRecord {
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
#[serde(rename_all = "camelCase", default)]
pub struct CapabilitiesRecord {
    /// The kernel can discard blocks of it.
    pub discard: bool,
    /// It writes zeroes by itself.
    pub write_zeroes: bool,
    /// The drive promises that discarded blocks are read as zeroes.
    pub discard_zeroes: bool,
    /// What the drive says of itself (ATA or NVMe identify) was read: without that nothing that follows
    /// is known, and an empty list means nothing.
    pub identified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sanitize: Vec<SanitizeMethod>,
    /// NVMe only.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "format_words")]
    pub format: Vec<FormatErase>,
    /// ATA only: absent where the drive has no such feature set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ata_security: Option<AtaSecurityRecord>,
    /// ATA only: feature sets by which part of the disk can be hidden.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_areas: Vec<HiddenArea>,
    /// ATA only: what the drive has beyond what it shows; absent where it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_bytes: Option<u64>,
}

/// How a drive is, by its own word. Absent and 0 is what it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthRecord {
    /// It expects to fail, or has failed in part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<bool>,
    /// Warnings in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<i16>,
    #[serde(skip_serializing_if = "is_zero")]
    pub power_on_hours: u64,
    /// Used part of the life that its maker expects; more than 100 is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_percent: Option<u8>,
    #[serde(skip_serializing_if = "is_zero")]
    pub unsafe_shutdowns: u64,
    /// Errors that the drive could not correct.
    #[serde(skip_serializing_if = "is_zero")]
    pub media_errors: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub reallocated_sectors: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub pending_sectors: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NvmeControllerRecord {
    /// The kernel's name in this boot: `nvme0`.
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// Such as `pcie`, `tcp`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub transport: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pci_address: String,
    /// Most namespaces that it supports.
    #[serde(skip_serializing_if = "is_zero")]
    pub namespaces_max: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub total_bytes: u64,
    /// Bytes of those that are in no namespace.
    #[serde(skip_serializing_if = "is_zero")]
    pub unallocated_bytes: u64,
    /// The controller was asked which namespaces exist; without it only attached ones are listed.
    pub identified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NvmeNamespaceRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NvmeNamespaceRecord {
    pub id: u32,
    /// Unattached namespaces hold data that no disk of this host shows.
    pub attached: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub size_bytes: u64,
}

/// Ways from this host to its BMC: SMBIOS types 38 and 42.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum ManagementRecord {
    Ipmi {
        /// `KCS`, `SMIC`, `BT`, `SSIF`, or a number.
        interface: String,
        /// Such as `2.0`.
        version: String,
    },
    /// Redfish over a network between host and BMC (DSP0270).
    Redfish {
        /// Address at which the BMC answers; empty if it must be looked for.
        address: String,
        port: u16,
        /// The VLAN; 0 stands for untagged frames.
        vlan: u16,
        hostname: String,
    },
}

/// Place of the BMC on its own network, by what it says to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcNetworkRecord {
    pub channel: u8,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ipv4: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub prefix_bits: u32,
    /// The VLAN; 0 stands for untagged frames.
    #[serde(skip_serializing_if = "is_zero")]
    pub vlan: u16,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TpmRecord {
    /// `1.2` or `2.0`; empty where the driver does not say.
    pub version: String,
}

/// The words that a record has for what a format erases with.
mod format_words {
    use firesteel_facts::FormatErase;
    use serde::{Deserialize, Deserializer, Serializer};

    const WORDS: [(FormatErase, &str); 2] = [(FormatErase::UserData, "userData"), (FormatErase::Crypto, "crypto")];

    pub(super) fn serialize<S: Serializer>(kinds: &[FormatErase], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            kinds.iter().filter_map(|kind| WORDS.iter().find(|(known, _)| known == kind)).map(|(_, word)| word),
        )
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FormatErase>, D::Error> {
        let read = |word: &String| WORDS.iter().find(|(_, known)| known == word).map(|(kind, _)| *kind);
        let words = Vec::<String>::deserialize(deserializer)?;
        let unknown = |word: &String| serde::de::Error::unknown_variant(word, &["userData", "crypto"]);
        words.iter().map(|word| read(word).ok_or_else(|| unknown(word))).collect()
    }
}
