//! The appliance's full record of a host's hardware, as one inspection found it.
//!
//! `HardwareData` (upstream's kind) is a projection of it: [`HardwareRecord::details`]. The record
//! keeps what upstream's kind has no field for and what decides which disk is written: every
//! stable identity, read-only and removable flags, signatures, and which boot the facts are from.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    hardware_data::{BiosInfo, Cpu, FirmwareInfo, HardwareDetails, Nic, Storage, StorageType, SystemVendor},
    meta::is_zero,
};

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
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemRecord {
    pub manufacturer: String,
    pub product: String,
    pub serial: String,
    /// Lower-case SMBIOS UUID.
    pub uuid: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirmwareMode {
    #[default]
    Bios,
    Uefi,
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
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Nvme,
    Sata,
    Sas,
    Scsi,
    Virtio,
    Usb,
    Mmc,
    #[default]
    Other,
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
    /// Absent where the agent does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableRecord>,
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
            ram_mebibytes: ram,
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
            mac: self.mac.clone(),
            ip: ip.to_owned(),
            speed_gbps: self.speed_mbps / 1000,
            pxe: self.boot,
            pci_address: self.pci_address.clone(),
            ..Nic::default()
        };
        let first = |v6: bool| self.ip.iter().find(|ip| ip.contains(':') == v6);
        let rows: Vec<Nic> = [first(false), first(true)].into_iter().flatten().map(|ip| row(ip)).collect();
        if rows.is_empty() { vec![row("")] } else { rows }
    }
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
        let nic = NicRecord { name: "eth0".into(), ip, boot: true, speed_mbps: 25_000, ..NicRecord::default() };
        let rows = HardwareRecord { nics: vec![nic, NicRecord::default()], ..HardwareRecord::default() }.details().nics;
        let ips: Vec<&str> = rows.iter().map(|row| row.ip.as_str()).collect();
        assert_eq!(ips, ["192.0.2.7", "fe80::1", ""]);
        assert!(rows[0].pxe && rows[0].speed_gbps == 25);
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
