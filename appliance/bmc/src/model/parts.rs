//! What is below the service and its systems: managers, processors, memory, firmware.

use serde::Deserialize;

use super::{RedfishLink, lenient};

/// `Status` of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishStatus {
    #[serde(deserialize_with = "lenient")]
    pub state: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub health: Option<String>,
    /// Health of the resource and all below it.
    #[serde(alias = "HealthRollUp", deserialize_with = "lenient")]
    pub health_rollup: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MemorySummary {
    #[serde(rename = "TotalSystemMemoryGiB", deserialize_with = "lenient")]
    pub total_gib: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProcessorSummary {
    #[serde(deserialize_with = "lenient")]
    pub count: Option<u32>,
    #[serde(deserialize_with = "lenient")]
    pub model: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Manager {
    #[serde(deserialize_with = "lenient")]
    pub model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub firmware_version: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub status: Option<RedfishStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SecureBoot {
    /// What the next boot does.
    #[serde(rename = "SecureBootEnable", deserialize_with = "lenient")]
    pub enable: Option<bool>,
    /// What the last boot did: `Enabled`, `Disabled`.
    #[serde(rename = "SecureBootCurrentBoot", deserialize_with = "lenient")]
    pub current_boot: Option<String>,
    /// `SetupMode`, `UserMode`, `AuditMode`, `DeployedMode`.
    #[serde(rename = "SecureBootMode", deserialize_with = "lenient")]
    pub mode: Option<String>,
}

/// A memory module.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishMemory {
    #[serde(deserialize_with = "lenient")]
    pub device_locator: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub id: Option<String>,
    #[serde(rename = "CapacityMiB", deserialize_with = "lenient")]
    pub capacity_mib: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub memory_device_type: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub operating_speed_mhz: Option<u32>,
    #[serde(deserialize_with = "lenient")]
    pub manufacturer: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub part_number: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub serial_number: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub status: Option<RedfishStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishProcessor {
    #[serde(deserialize_with = "lenient")]
    pub socket: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub manufacturer: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub total_cores: Option<u32>,
    #[serde(deserialize_with = "lenient")]
    pub total_threads: Option<u32>,
    #[serde(rename = "MaxSpeedMHz", deserialize_with = "lenient")]
    pub max_speed_mhz: Option<u32>,
    /// `CPU`, `GPU`, `FPGA` and others.
    #[serde(deserialize_with = "lenient")]
    pub processor_type: Option<String>,
    /// `x86-64`, `ARM-A64` and others.
    #[serde(deserialize_with = "lenient")]
    pub instruction_set: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub status: Option<RedfishStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct UpdateService {
    #[serde(deserialize_with = "lenient")]
    pub firmware_inventory: Option<RedfishLink>,
}

/// One firmware of the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Software {
    #[serde(deserialize_with = "lenient")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub version: Option<String>,
}
