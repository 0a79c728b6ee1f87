//! What a BMC says of its machine: versions, health, Secure Boot, memory, processors, network interfaces, drives,
//! firmware.
//!
//! Every part costs requests, and slow BMCs take a second for each. So it is read within a time and in
//! the order of use, and what was left out is said. A part that the service does not have is absent; one that it
//! refuses is named in [`BmcInventory::left_out`]. All texts are foreign: plain and bounded.

mod storage;

use std::time::Duration;

use tokio::time::Instant;

use crate::client::{RedfishClient, path_of, shown};
use crate::decide::BmcBootMode;
use crate::error::Error;
use crate::model::{
    Collection, MEMBERS_MAX, RedfishLink, RedfishMemory, RedfishProcessor, RedfishStatus, RedfishSystem, SecureBoot,
    Software, UpdateService,
};

pub use storage::{BmcDrive, BmcInterface, BmcVolume, DRIVES_MAX, VOLUMES_MAX};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BmcInventory {
    pub vendor: Option<String>,
    pub product: Option<String>,
    pub redfish_version: Option<String>,
    pub manager_model: Option<String>,
    pub manager_firmware: Option<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub uuid: Option<String>,
    pub sku: Option<String>,
    pub asset_tag: Option<String>,
    pub bios_version: Option<String>,
    pub boot_mode: Option<BmcBootMode>,
    pub secure_boot: Option<SecureBootSeen>,
    /// Health of the system and all in it: `OK`, `Warning`, `Critical`.
    pub health: Option<String>,
    pub manager_health: Option<String>,
    pub memory_mib: Option<u64>,
    pub processor_count: Option<u32>,
    pub modules: Vec<BmcMemoryModule>,
    pub processors: Vec<Socket>,
    pub interfaces: Vec<BmcInterface>,
    pub drives: Vec<BmcDrive>,
    pub volumes: Vec<BmcVolume>,
    pub firmware: Vec<FirmwareVersion>,
    /// What is not in here, and why.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecureBootSeen {
    /// Secure Boot is on at the next boot.
    pub is_enabled: Option<bool>,
    /// Secure Boot was on in the last boot.
    pub was_enabled: Option<bool>,
    pub mode: Option<String>,
}

/// A memory module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BmcMemoryModule {
    pub slot: String,
    pub mib: u64,
    pub kind: Option<String>,
    pub mhz: Option<u32>,
    pub manufacturer: Option<String>,
    pub part: Option<String>,
    pub serial: Option<String>,
    pub health: Option<String>,
}

/// A processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    pub socket: String,
    /// `CPU`, `GPU`, `FPGA` and others.
    pub kind: Option<String>,
    /// `x86_64` or `aarch64`.
    pub arch: Option<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub cores: Option<u32>,
    pub threads: Option<u32>,
    pub mhz: Option<u32>,
    pub health: Option<String>,
}

/// One firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareVersion {
    pub name: String,
    pub version: Option<String>,
}

/// The members of one list, as far as time allowed.
struct PartialMemberList<T> {
    members: Vec<T>,
    left_out: Option<String>,
}

impl RedfishClient {
    /// Reads all of it, and stops asking after `within`.
    ///
    /// # Errors
    /// What keeps the system itself from being read; anything else is left out.
    pub async fn inventory(&self, within: Duration) -> Result<BmcInventory, Error> {
        let until = Instant::now() + within;
        let (system, _) = self.read_system().await?;
        let managers = self.managers(&system).await?;
        let mut seen = self.of_system(&system);
        if let Some(manager) = managers.first() {
            seen.manager_model = shown(manager.model.as_deref());
            seen.manager_firmware = shown(manager.firmware_version.as_deref());
            seen.manager_health = health(manager.status.as_ref());
        }
        if let Some(path) = path_of(system.secure_boot.as_ref()) {
            seen.secure_boot = self.get(&path).await?.json_if_there::<SecureBoot>().map(secure_boot);
        }
        let processors = self.part("processors", system.processors.as_ref(), until).await?;
        seen.processors = processors.members.iter().map(socket).collect();
        let modules = self.part("memory modules", system.memory.as_ref(), until).await?;
        // An empty slot is a member too.
        seen.modules = modules.members.iter().map(module).filter(|module| module.mib > 0).collect();
        let interfaces = self.interfaces(&system, until).await?;
        seen.interfaces = interfaces.members;
        let storage = self.storage(&system, until).await?;
        (seen.drives, seen.volumes) = (storage.drives, storage.volumes);
        let update = match path_of(self.root.update_service.as_ref()) {
            Some(path) => self.get(&path).await?.json_if_there::<UpdateService>().unwrap_or_default(),
            None => UpdateService::default(),
        };
        let firmware = self.part("firmware versions", update.firmware_inventory.as_ref(), until).await?;
        seen.firmware = firmware.members.iter().map(version).filter(|version| !version.name.is_empty()).collect();
        let parts = [processors.left_out, modules.left_out, interfaces.left_out].into_iter().flatten();
        seen.left_out.extend(parts.chain(storage.left_out).chain(firmware.left_out));
        Ok(seen)
    }

    fn of_system(&self, system: &RedfishSystem) -> BmcInventory {
        let (vendor, product, redfish_version) = self.service();
        let gib = system.memory_summary.as_ref().and_then(|memory| memory.total_gib);
        let boot_mode = system.boot.as_ref().and_then(|boot| boot.mode.as_deref());
        BmcInventory {
            vendor,
            product,
            redfish_version,
            manufacturer: shown(system.manufacturer.as_deref()),
            model: shown(system.model.as_deref()),
            serial: shown(system.serial_number.as_deref()),
            uuid: shown(system.uuid.as_deref()),
            sku: shown(system.sku.as_deref()),
            asset_tag: shown(system.asset_tag.as_deref()),
            bios_version: shown(system.bios_version.as_deref()),
            boot_mode: boot_mode.and_then(BmcBootMode::parse),
            health: health(system.status.as_ref()),
            memory_mib: gib.and_then(mib_of),
            processor_count: system.processor_summary.as_ref().and_then(|summary| summary.count),
            ..BmcInventory::default()
        }
    }

    /// The members of a list that the system or the service may have.
    async fn part<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        link: Option<&RedfishLink>,
        until: Instant,
    ) -> Result<PartialMemberList<T>, Error> {
        let mut part = PartialMemberList { members: Vec::new(), left_out: None };
        let Some(path) = path_of(link) else { return Ok(part) };
        let answer = self.get(&path).await?;
        if !answer.status.is_success() {
            part.left_out = Some(format!("{name}: the BMC answers {}", answer.status.as_u16()));
            return Ok(part);
        }
        let Some(list) = answer.json_if_there::<Collection>() else {
            part.left_out = Some(format!("{name}: the list is not usable"));
            return Ok(part);
        };
        self.members_of(name, &list.members.unwrap_or_default(), MEMBERS_MAX, until).await
    }

    /// Reads the members that these links lead to, `most` of them, until `until`.
    async fn members_of<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        links: &[RedfishLink],
        most: usize,
        until: Instant,
    ) -> Result<PartialMemberList<T>, Error> {
        let mut part = PartialMemberList { members: Vec::new(), left_out: None };
        let mut asked = 0;
        for link in links.iter().take(most) {
            if Instant::now() >= until {
                break;
            }
            asked += 1;
            let Some(path) = path_of(Some(link)) else { continue };
            part.members.extend(self.get(&path).await?.json_if_there::<T>());
        }
        let missing = links.len() - asked;
        if missing > 0 {
            part.left_out = Some(format!("{name}: {missing} of {} were not asked for", links.len()));
        }
        Ok(part)
    }
}

/// The worse of what is said of the whole and of the part itself.
fn health(status: Option<&RedfishStatus>) -> Option<String> {
    let status = status?;
    shown(status.health_rollup.as_deref().or(status.health.as_deref()))
}

fn mib_of(gib: f64) -> Option<u64> {
    let mib = gib * 1024.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to fit")]
    (mib.is_finite() && (0.0..1e12).contains(&mib)).then_some(mib as u64)
}

fn secure_boot(seen: SecureBoot) -> SecureBootSeen {
    let was_enabled = match seen.current_boot.as_deref() {
        Some("Enabled") => Some(true),
        Some("Disabled") => Some(false),
        Some(_) | None => None,
    };
    SecureBootSeen { is_enabled: seen.enable, was_enabled, mode: shown(seen.mode.as_deref()) }
}

fn module(seen: &RedfishMemory) -> BmcMemoryModule {
    BmcMemoryModule {
        slot: shown(seen.device_locator.as_deref().or(seen.id.as_deref())).unwrap_or_default(),
        mib: seen.capacity_mib.unwrap_or_default(),
        kind: shown(seen.memory_device_type.as_deref()),
        mhz: seen.operating_speed_mhz,
        manufacturer: shown(seen.manufacturer.as_deref()),
        part: shown(seen.part_number.as_deref()),
        serial: shown(seen.serial_number.as_deref()),
        health: health(seen.status.as_ref()),
    }
}

fn socket(seen: &RedfishProcessor) -> Socket {
    Socket {
        socket: shown(seen.socket.as_deref().or(seen.id.as_deref())).unwrap_or_default(),
        kind: shown(seen.processor_type.as_deref()),
        arch: seen.instruction_set.as_deref().and_then(arch).map(str::to_owned),
        manufacturer: shown(seen.manufacturer.as_deref()),
        model: shown(seen.model.as_deref()),
        cores: seen.total_cores,
        threads: seen.total_threads,
        mhz: seen.max_speed_mhz,
        health: health(seen.status.as_ref()),
    }
}

/// The kernel's word for an instruction set (DSP0268, `Processor.InstructionSet`).
fn arch(instruction_set: &str) -> Option<&'static str> {
    match instruction_set {
        "x86-64" => Some("x86_64"),
        "ARM-A64" => Some("aarch64"),
        _ => None,
    }
}

fn version(seen: &Software) -> FirmwareVersion {
    FirmwareVersion {
        name: shown(seen.name.as_deref().or(seen.id.as_deref())).unwrap_or_default(),
        version: shown(seen.version.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_none() {
        assert_eq!(mib_of(1.5), Some(1536));
        assert_eq!((mib_of(-1.0), mib_of(f64::NAN), mib_of(f64::INFINITY), mib_of(1e300)), (None, None, None, None));
    }

    #[test]
    fn the_health_of_all_parts_goes_before_that_of_the_part() {
        let status = |health: Option<&str>, rollup: Option<&str>| RedfishStatus {
            health: health.map(str::to_owned),
            health_rollup: rollup.map(str::to_owned),
            state: None,
        };
        assert_eq!(super::health(Some(&status(Some("OK"), Some("Critical")))).as_deref(), Some("Critical"));
        assert_eq!(super::health(Some(&status(Some("OK"), None))).as_deref(), Some("OK"));
        assert_eq!(super::health(None), None);
    }
}
