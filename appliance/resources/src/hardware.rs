//! The appliance's full record of a host's hardware, as one inspection found it.
//!
//! `HardwareData` (upstream's kind) is a projection of it: [`HardwareRecord::details`]. The record
//! keeps what upstream's kind has no field for and what decides which disk is written: every
//! stable identity, read-only and removable flags, signatures, and which boot the facts are from.

pub mod changes;
mod disk_contents;
pub mod neighbour;
pub mod parts;

pub use firesteel_facts::{FirmwareMode, Transport};

use firesteel_contents::DiskContents;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hardware_data::{
    BiosInfo, Cpu, FirmwareInfo, HardwareDetails, Nic, Storage, StorageType, SystemVendor, Vlan,
};
use crate::mac::normal_mac;
use crate::zero::is_zero;
use neighbour::NeighbourRecord;
use parts::{CapabilitiesRecord, HealthRecord, PartsRecord};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareRecord {
    /// The boot in which the inspection ran.
    pub attempt: u64,
    /// Number of the plan that asked for it.
    pub plan: u32,
    pub inspected_at: Timestamp,
    /// The store's timeline in which it was stored; zero: before there were any.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeline: u32,
    pub system: SystemRecord,
    pub firmware: FirmwareRecord,
    pub cpu: CpuRecord,
    pub memory: MemoryRecord,
    pub nics: Vec<NicRecord>,
    pub disks: Vec<DiskRecord>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Is absent where the agent does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Box<PartsRecord>>,
    /// What differs from the inspection before, in words ([`changes::changes`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemRecord {
    pub manufacturer: String,
    pub product: String,
    pub serial: String,
    /// Lower-case SMBIOS UUID.
    pub uuid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sku: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub family: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirmwareRecord {
    pub mode: FirmwareMode,
    pub vendor: String,
    pub version: String,
    pub date: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
    /// No platform key is enrolled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_mode: Option<bool>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// The UEFI entry that started the inspection's boot.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub booted_from: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuRecord {
    pub arch: String,
    pub model: String,
    #[serde(rename = "clockMHz")]
    pub clock_mhz: f64,
    pub flags: Vec<String>,
    pub count: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub sockets: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub cores: u32,
    /// Logical processors that are switched off.
    #[serde(skip_serializing_if = "is_zero")]
    pub offline: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub microcode: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryRecord {
    /// What the kernel manages.
    pub total_mib: u64,
    /// What SMBIOS says is plugged in; 0 where it says nothing.
    pub installed_mib: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NicRecord {
    pub name: String,
    pub mac: String,
    pub ip: Vec<String>,
    pub driver: String,
    pub model: String,
    pub pci_address: String,
    pub speed_mbps: u64,
    pub link: bool,
    /// The host booted from this one.
    pub boot: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// `half` or `full`; empty without link.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub duplex: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
    /// The other end of its cable; absent where no switch was heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<Box<NeighbourRecord>>,
}

/// A whole disk. `device` is what the kernel called it in that boot and is never trusted later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskRecord {
    pub device: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by_path: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_id: Vec<String>,
    pub size_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub logical_block_bytes: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub physical_block_bytes: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_with_extension: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_vendor_extension: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,
    pub rotational: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub read_only: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub removable: bool,
    pub transport: Transport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
    /// Is absent where the agent does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableRecord>,
    /// What stands on it, and what of that a guard may stop at; absent where the agent does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<Box<DiskContents>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// PCI address of what it is attached to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub controller: String,
    /// Is absent where the agent does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<CapabilitiesRecord>>,
    /// Is absent where the drive does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Box<HealthRecord>>,
}

/// The partition table at a disk's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum TableRecord {
    /// No GPT: nothing of ours stands there.
    None,
    /// `guid` is the disk's, which an installation of ours marks.
    Gpt { guid: String },
    /// It was read and is `damaged`, so nothing boots from it; otherwise it could not be read, and what
    /// stands there is unknown.
    Unreadable {
        why: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        damaged: bool,
    },
}

impl HardwareRecord {
    /// Upstream's view: one NIC row per IP family, CPU flags sorted without repeats, disks by
    /// their by-path names.
    #[must_use]
    pub fn details(&self) -> HardwareDetails {
        let mut flags = self.cpu.flags.clone();
        flags.sort_unstable();
        flags.dedup();
        let ram = if self.memory.installed_mib > 0 { self.memory.installed_mib } else { self.memory.total_mib };
        HardwareDetails {
            system_vendor: SystemVendor {
                manufacturer: self.system.manufacturer.clone(),
                product_name: self.system.product.clone(),
                serial_number: self.system.serial.clone(),
            },
            firmware: FirmwareInfo {
                bios: BiosInfo {
                    vendor: self.firmware.vendor.clone(),
                    version: self.firmware.version.clone(),
                    date: self.firmware.date.clone(),
                },
            },
            ram_mebibytes: ram.min(i64::MAX.unsigned_abs()),
            nics: self.nics.iter().flat_map(NicRecord::rows).collect(),
            storage: self.disks.iter().map(DiskRecord::storage).collect(),
            cpu: Cpu {
                arch: self.cpu.arch.clone(),
                model: self.cpu.model.clone(),
                clock_megahertz: self.cpu.clock_mhz,
                flags,
                count: self.cpu.count,
            },
            hostname: self.hostname.clone(),
        }
    }
}

impl NicRecord {
    fn rows(&self) -> Vec<Nic> {
        let row = |ip: &str| Nic {
            name: self.name.clone(),
            model: self.model.clone(),
            // One that is none would have the whole record refused.
            mac: normal_mac(&self.mac).unwrap_or_default(),
            ip: ip.to_owned(),
            speed_gbps: self.speed_mbps / 1000,
            pxe: self.boot,
            pci_address: self.pci_address.clone(),
            vlan_id: self.neighbour.as_ref().map(|near| near.port_vlan).filter(is_vlan).unwrap_or(0),
            vlans: self.link_vlans(),
            lldp: self.neighbour.as_ref().map(|neighbour| neighbour.lldp()),
        };
        let first = |v6: bool| self.ip.iter().find(|ip| ip.contains(':') == v6);
        let rows: Vec<Nic> = [first(false), first(true)].into_iter().flatten().map(|ip| row(ip)).collect();
        if rows.is_empty() { vec![row("")] } else { rows }
    }
}

impl NicRecord {
    /// VLANs on the link: those that the kernel has, and those that only the switch speaks of.
    fn link_vlans(&self) -> Vec<Vlan> {
        let mut vlans = self.vlans.clone();
        for vlan in self.neighbour.iter().flat_map(|neighbour| &neighbour.vlans) {
            if vlans.iter().all(|known| known.id != vlan.id) {
                vlans.push(vlan.clone());
            }
        }
        vlans.retain(|vlan| is_vlan(&vlan.id));
        vlans.sort_by_key(|vlan| vlan.id);
        vlans
    }
}

/// IEEE 802.1Q: 4095 is reserved, and the kind takes none.
fn is_vlan(id: &u16) -> bool {
    *id < 4095
}

impl DiskRecord {
    fn storage(&self) -> Storage {
        let name = if self.by_path.is_empty() { &self.device } else { &self.by_path };
        let mut alternate_names: Vec<String> =
            [&self.device].into_iter().chain(&self.by_id).filter(|other| *other != name).cloned().collect();
        alternate_names.sort_unstable();
        Storage {
            name: name.clone(),
            alternate_names,
            rotational: self.rotational,
            type_: Some(match (self.transport, self.rotational) {
                (Transport::Nvme, _) => StorageType::Nvme,
                (_, true) => StorageType::Hdd,
                (_, false) => StorageType::Ssd,
            }),
            size_bytes: i64::try_from(self.size_bytes).unwrap_or(i64::MAX),
            vendor: self.vendor.clone(),
            model: self.model.clone(),
            serial_number: self.serial.clone(),
            wwn: self.wwn.clone(),
            wwn_vendor_extension: self.wwn_vendor_extension.clone(),
            wwn_with_extension: self.wwn_with_extension.clone(),
            hctl: self.hctl.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dual_stack_nic_has_two_rows() {
        let ip = ["fe80::1", "192.0.2.7", "192.0.2.8"].map(str::to_owned).to_vec();
        let vlans = vec![Vlan { id: 5, name: "eth0.5".into() }];
        let neighbour = NeighbourRecord {
            attempt: 1,
            switch_id: "00:1c:73:aa:bb:cc".into(),
            port_id: "Ethernet1".into(),
            switch_name: "leaf".into(),
            port_vlan: 100,
            vlans: vec![Vlan { id: 7, name: "pxe".into() }, Vlan { id: 5, name: "five".into() }],
            ..NeighbourRecord::default()
        };
        let neighbour = Some(Box::new(neighbour));
        let nic = NicRecord {
            name: "eth0".into(),
            ip,
            boot: true,
            speed_mbps: 25_000,
            vlans,
            neighbour,
            ..NicRecord::default()
        };
        let rows = HardwareRecord { nics: vec![nic, NicRecord::default()], ..HardwareRecord::default() }.details().nics;
        let ips: Vec<&str> = rows.iter().map(|row| row.ip.as_str()).collect();
        assert_eq!(ips, ["192.0.2.7", "fe80::1", ""]);
        assert!(rows[0].pxe && rows[0].speed_gbps == 25);
        let vlan = |id: u16, name: &str| Vlan { id, name: name.into() };
        assert_eq!(rows[0].vlans, [vlan(5, "eth0.5"), vlan(7, "pxe")]);
        assert_eq!((&rows[0].vlans, rows[2].vlans.len()), (&rows[1].vlans, 0));
        let lldp = rows[1].lldp.clone().unwrap_or_default();
        assert_eq!((&*lldp.switch_id, &*lldp.port_id), ("00:1c:73:aa:bb:cc", "Ethernet1"));
        assert_eq!((&*lldp.switch_system_name, rows[1].vlan_id, &rows[2].lldp), ("leaf", 100, &None));
    }

    #[test]
    fn disks_go_by_path_and_flags_are_sorted() {
        let disk = DiskRecord {
            device: "/dev/nvme0n1".into(),
            by_path: "/dev/disk/by-path/pci-0000:00:04.0-nvme-1".into(),
            by_id: vec!["/dev/disk/by-id/nvme-QEMU_1".into()],
            transport: Transport::Nvme,
            ..DiskRecord::default()
        };
        let cpu = CpuRecord { flags: ["sse", "aes", "sse"].map(str::to_owned).to_vec(), ..CpuRecord::default() };
        let details = HardwareRecord { disks: vec![disk], cpu, ..HardwareRecord::default() }.details();
        assert_eq!(details.cpu.flags, ["aes", "sse"]);
        assert_eq!(details.storage[0].name, "/dev/disk/by-path/pci-0000:00:04.0-nvme-1");
        assert_eq!(details.storage[0].alternate_names, ["/dev/disk/by-id/nvme-QEMU_1", "/dev/nvme0n1"]);
        assert_eq!(details.storage[0].type_, Some(StorageType::Nvme));
    }
}
