//! Drives and volumes of a system (DSP0268: `Storage`, `Drive`, `Volume`, `SimpleStorage`).

use serde::Deserialize;

use super::{RedfishLink, RedfishStatus, lenient};

/// A storage controller with what is attached to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishStorage {
    #[serde(deserialize_with = "lenient")]
    pub drives: Option<Vec<RedfishLink>>,
    #[serde(deserialize_with = "lenient")]
    pub volumes: Option<RedfishLink>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishDrive {
    #[serde(deserialize_with = "lenient")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub capacity_bytes: Option<u64>,
    /// `HDD`, `SSD`, `SMR`.
    #[serde(deserialize_with = "lenient")]
    pub media_type: Option<String>,
    /// `SATA`, `SAS`, `NVMe` and others.
    #[serde(deserialize_with = "lenient")]
    pub protocol: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub manufacturer: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub serial_number: Option<String>,
    /// Version of the firmware.
    #[serde(deserialize_with = "lenient")]
    pub revision: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub identifiers: Option<Vec<DurableIdentifier>>,
    #[serde(deserialize_with = "lenient")]
    pub status: Option<RedfishStatus>,
}

/// A name that a drive or a volume keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DurableIdentifier {
    #[serde(deserialize_with = "lenient")]
    pub durable_name: Option<String>,
    /// `NAA`, `EUI`, `UUID` and others.
    #[serde(deserialize_with = "lenient")]
    pub durable_name_format: Option<String>,
}

/// A volume, mostly a RAID set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishVolume {
    #[serde(deserialize_with = "lenient")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub capacity_bytes: Option<u64>,
    #[serde(rename = "RAIDType", deserialize_with = "lenient")]
    pub raid_type: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub identifiers: Option<Vec<DurableIdentifier>>,
    #[serde(deserialize_with = "lenient")]
    pub status: Option<RedfishStatus>,
}

/// What services without `Storage` have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SimpleStorage {
    #[serde(deserialize_with = "lenient")]
    pub devices: Option<Vec<SimpleStorageDevice>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SimpleStorageDevice {
    #[serde(deserialize_with = "lenient")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub capacity_bytes: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub manufacturer: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub status: Option<RedfishStatus>,
}
