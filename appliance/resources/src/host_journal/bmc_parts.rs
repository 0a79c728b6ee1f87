//! What a BMC says of interfaces, drives and volumes, and the hardware record that upstream's clients see of it.
//!
//! The kernel's names and paths are not known to a BMC, so none of it names a disk for any plan: those are made from
//! [`HardwareRecord`](crate::HardwareRecord) alone, which only an agent fills.

use serde::{Deserialize, Serialize};

use super::{BmcProcessor, BmcRecord};
use crate::HardwareDetails;
use crate::hardware_data::{BiosInfo, Cpu, FirmwareInfo, Nic, Storage, StorageType, SystemVendor};
use crate::zero::is_zero;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcInterfaceRecord {
    pub name: String,
    pub mac: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mbps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_link: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcDriveRecord {
    pub name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// `HDD`, `SSD`, `SMR`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub media: String,
    /// `SATA`, `SAS`, `NVMe` and others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub health: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcVolumeRecord {
    pub name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// `RAID0`, `RAID1` and others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub raid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub health: String,
}

impl BmcRecord {
    /// Returns upstream's record of it. Drives have the names of the BMC; where it names none, its volumes stand for
    /// them.
    #[must_use]
    pub fn details(&self) -> HardwareDetails {
        let of_modules = || self.modules.iter().map(|module| module.mib).sum();
        let drives = || self.drives.iter().map(BmcDriveRecord::shown).collect();
        let volumes = || self.volumes.iter().map(BmcVolumeRecord::shown).collect();
        HardwareDetails {
            system_vendor: SystemVendor {
                manufacturer: self.manufacturer.clone(),
                product_name: self.model.clone(),
                serial_number: self.serial.clone(),
            },
            firmware: FirmwareInfo { bios: BiosInfo { version: self.bios_version.clone(), ..BiosInfo::default() } },
            ram_mebibytes: self.memory_mib.unwrap_or_else(of_modules),
            nics: self.interfaces.iter().map(BmcInterfaceRecord::shown).collect(),
            storage: if self.drives.is_empty() { volumes() } else { drives() },
            cpu: self.cpu(),
            hostname: String::new(),
        }
    }

    /// All processors as one: the threads of all, else their cores, else how many there are.
    fn cpu(&self) -> Cpu {
        let is_cpu = |processor: &&BmcProcessor| processor.kind.is_empty() || processor.kind == "CPU";
        let processors: Vec<&BmcProcessor> = self.processors.iter().filter(is_cpu).collect();
        let sum = |of: fn(&BmcProcessor) -> Option<u32>| {
            processors.iter().filter_map(|processor| of(processor)).fold(0_u32, u32::saturating_add)
        };
        let known = [sum(|processor| processor.threads), sum(|processor| processor.cores)];
        let count = known.into_iter().find(|count| *count > 0).or(self.processor_count).unwrap_or_default();
        let first = processors.first();
        Cpu {
            arch: first.map(|processor| processor.arch.clone()).unwrap_or_default(),
            model: first.map(|processor| processor.model.clone()).unwrap_or_default(),
            clock_megahertz: first.and_then(|processor| processor.mhz).map(f64::from).unwrap_or_default(),
            flags: Vec::new(),
            count,
        }
    }
}

impl BmcInterfaceRecord {
    fn shown(&self) -> Nic {
        let speed_gbps = self.mbps.unwrap_or_default() / 1000;
        Nic { name: self.name.clone(), mac: self.mac.clone(), speed_gbps, ..Nic::default() }
    }
}

impl BmcDriveRecord {
    fn shown(&self) -> Storage {
        let type_ = match (self.protocol.as_str(), self.media.as_str()) {
            ("NVMe", _) => Some(StorageType::Nvme),
            (_, "SSD") => Some(StorageType::Ssd),
            (_, "HDD" | "SMR") => Some(StorageType::Hdd),
            _ => None,
        };
        Storage {
            name: self.name.clone(),
            rotational: type_ == Some(StorageType::Hdd),
            type_,
            size_bytes: i64::try_from(self.bytes).unwrap_or(i64::MAX),
            vendor: self.manufacturer.clone(),
            model: self.model.clone(),
            serial_number: self.serial.clone(),
            wwn: self.wwn.clone(),
            ..Storage::default()
        }
    }
}

impl BmcVolumeRecord {
    fn shown(&self) -> Storage {
        Storage {
            name: self.name.clone(),
            size_bytes: i64::try_from(self.bytes).unwrap_or(i64::MAX),
            model: self.raid.clone(),
            wwn: self.wwn.clone(),
            ..Storage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_journal::BmcModule;

    fn processor(kind: &str, threads: Option<u32>, cores: Option<u32>) -> BmcProcessor {
        let (arch, model) = ("x86_64".to_owned(), format!("{kind} model"));
        BmcProcessor { kind: kind.to_owned(), arch, model, threads, cores, mhz: Some(3000), ..BmcProcessor::default() }
    }

    #[test]
    fn processors_count_by_their_threads_and_accelerators_do_not() {
        for (processors, count) in [
            (vec![processor("CPU", Some(64), Some(32)), processor("", Some(64), None)], 128),
            (vec![processor("CPU", None, Some(32)), processor("GPU", Some(9000), Some(9000))], 32),
            (vec![processor("CPU", None, None)], 2),
            (Vec::new(), 2),
        ] {
            let record = BmcRecord { processors, processor_count: Some(2), ..BmcRecord::default() };
            assert_eq!(record.details().cpu.count, count, "{:?}", record.processors);
        }
        let cpu = BmcRecord { processors: vec![processor("CPU", Some(8), None)], ..BmcRecord::default() }.details().cpu;
        assert_eq!((cpu.arch.as_str(), cpu.model.as_str(), cpu.clock_megahertz), ("x86_64", "CPU model", 3000.0));
    }

    #[test]
    fn drives_stand_for_the_storage_and_volumes_where_no_drive_is_named() {
        let drive = |media: &str, protocol: &str| BmcDriveRecord {
            name: "Bay 0".into(),
            bytes: 480,
            media: media.into(),
            protocol: protocol.into(),
            serial: "S".into(),
            ..BmcDriveRecord::default()
        };
        let volumes =
            vec![BmcVolumeRecord { name: "system".into(), raid: "RAID1".into(), ..BmcVolumeRecord::default() }];
        for (drive, type_, rotational) in [
            (drive("SSD", "NVMe"), Some(StorageType::Nvme), false),
            (drive("SSD", "SATA"), Some(StorageType::Ssd), false),
            (drive("HDD", "SAS"), Some(StorageType::Hdd), true),
            (drive("", ""), None, false),
        ] {
            let record = BmcRecord { drives: vec![drive], volumes: volumes.clone(), ..BmcRecord::default() };
            let shown = record.details().storage;
            assert_eq!((shown.len(), shown[0].type_, shown[0].rotational), (1, type_, rotational));
            assert_eq!((shown[0].serial_number.as_str(), shown[0].size_bytes), ("S", 480));
        }
        let shown = BmcRecord { volumes, ..BmcRecord::default() }.details().storage;
        assert_eq!((shown[0].name.as_str(), shown[0].model.as_str()), ("system", "RAID1"));
        let huge = BmcDriveRecord { bytes: u64::MAX, ..BmcDriveRecord::default() };
        let record = BmcRecord { drives: vec![huge], ..BmcRecord::default() };
        assert_eq!(record.details().storage[0].size_bytes, i64::MAX);
    }

    #[test]
    fn memory_is_what_the_summary_says_or_else_all_modules() {
        let modules = vec![BmcModule { mib: 32768, ..BmcModule::default() }; 2];
        let record = BmcRecord { modules, ..BmcRecord::default() };
        assert_eq!(record.details().ram_mebibytes, 65536);
        assert_eq!(BmcRecord { memory_mib: Some(7), ..record }.details().ram_mebibytes, 7);
    }
}
