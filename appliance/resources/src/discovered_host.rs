//! `DiscoveredHost` (firesteel.dev/v1alpha1): a machine that netbooted and has no owner yet.
//! Cluster scoped, named by the MAC that booted, with hyphens. It is inspected and never written
//! to; it goes when it is adopted.

use firesteel_kube_types::ObjectMeta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, ConditionStatus, find_condition};
use crate::hardware::HardwareRecord;
use crate::kind::{AGE, FIRESTEEL, Kind, KindScope, STATUS_ONLY, V1ALPHA1, column};

/// The machine is one that the BMC of a host drives: it is not to be adopted as a second host.
pub const BELONGS_TO_HOST: &str = "BelongsToHost";

pub const KIND: Kind = Kind {
    short_names: &["dh"],
    scope: KindScope::Cluster,
    has_status: true,
    columns: &[
        column("MAC", ".status.bootMac", "MAC that booted", 0),
        column("UUID", ".status.uuid", "SMBIOS UUID", 0),
        column("Product", ".status.product", "Product name", 0),
        column("Address", ".status.address", "Leased address", 0),
        column("Hint", r#".status.conditions[?(@.type=="BelongsToHost")].message"#, "Whose machine it is", 1),
        AGE,
    ],
    about: "A machine that booted from the network and has no owner yet.",
    read_only: true,
    ..Kind::new(FIRESTEEL, V1ALPHA1, "DiscoveredHost", "discoveredhosts", "discoveredhost", &STATUS_ONLY)
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveredHost {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub status: DiscoveredHostStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveredHostStatus {
    /// MAC of the interface that booted.
    pub boot_mac: String,
    pub macs: Vec<String>,
    /// SMBIOS UUID; empty until the agent said hello.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub product: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// Boots whose agents said hello.
    pub boots: u32,
    /// The agent of the newest boot that said hello.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<DiscoveryBinding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareRecord>,
    /// Is set where an earlier owner let the machine go without cleaning it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncleaned: Option<TombstoneStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl DiscoveredHostStatus {
    /// Says whose machine it is, where it is the machine of a host.
    #[must_use]
    pub fn host_hint(&self) -> Option<&str> {
        let condition = find_condition(&self.conditions, BELONGS_TO_HOST)?;
        (condition.status == ConditionStatus::True).then_some(condition.message.as_str())
    }
}

/// The agent that a boot's token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryBinding {
    /// Its number: the time when it began, in milliseconds.
    pub boot: u64,
    /// Ed25519 public key, hexadecimal.
    pub key: String,
    pub boot_id: String,
    pub bound_at: Timestamp,
}

/// The tombstone of a host that was let go with a disk that was not cleaned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TombstoneStatus {
    /// `namespace/name` of the host that was.
    pub host: String,
    /// Identity of the disk that still holds its data.
    pub disk: String,
    /// A consumer's data is left there: the disks that are meant are erased before the machine's next host is
    /// installed. Otherwise it is only shown; an owner who creates the host again keeps the data.
    pub of_tenant: bool,
    pub reason: String,
    pub at: Timestamp,
}

/// The object's name for a MAC: `52-54-00-12-34-56`.
#[must_use]
pub fn object_name(mac: &str) -> String {
    mac.to_ascii_lowercase().replace(':', "-")
}
