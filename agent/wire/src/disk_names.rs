//! A disk's identity under the names that the protocol has for its fields.

use firesteel_facts::DiskIdentity;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
struct SentIdentity<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    wwn: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    serial: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    size_bytes: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    by_path: &'a str,
}

#[derive(Deserialize)]
struct ReceivedIdentity {
    #[serde(default)]
    wwn: String,
    #[serde(default)]
    serial: String,
    #[serde(default)]
    model: String,
    size_bytes: u64,
    #[serde(default)]
    by_path: String,
}

pub(crate) fn serialize<S: Serializer>(disk: &DiskIdentity, serializer: S) -> Result<S::Ok, S::Error> {
    let DiskIdentity { wwn, serial, model, size_bytes, by_path } = disk;
    SentIdentity { wwn, serial, model, size_bytes: *size_bytes, by_path }.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DiskIdentity, D::Error> {
    let ReceivedIdentity { wwn, serial, model, size_bytes, by_path } = ReceivedIdentity::deserialize(deserializer)?;
    Ok(DiskIdentity { wwn, serial, model, size_bytes, by_path })
}
