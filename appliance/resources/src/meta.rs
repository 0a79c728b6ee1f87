//! What every resource carries: our own thin versions of Kubernetes' `ObjectMeta` and references.
//!
//! Fields that the appliance does not read travel in [`ObjectMeta::rest`], so that an object that
//! is decoded and encoded again loses nothing.

use std::collections::BTreeMap;

use firesteel_facts::Mac;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::shape::{Field, Shape};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Empty for cluster-scoped kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set when deletion was asked for; the object goes when its finalizers are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Everything else, such as `managedFields`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ObjectMeta {
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// Kubernetes' `ObjectReference`; upstream uses it for `consumerRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

/// Kubernetes' `SecretReference`. A namespace other than the referrer's own is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

pub(crate) const SECRET_SHAPE: Shape = Shape::object(&[
    Field::new("name", Shape::TEXT).about("The name of the Secret."),
    Field::new("namespace", Shape::TEXT).about("The Secret's namespace; without it, that of this object."),
])
.atomic();

pub(crate) const REFERENCE_SHAPE: Shape = Shape::object(&[
    Field::new("apiVersion", Shape::TEXT).about("The API version of the object."),
    Field::new("fieldPath", Shape::TEXT).about("The part of the object that is meant."),
    Field::new("kind", Shape::TEXT).about("The kind of the object."),
    Field::new("name", Shape::TEXT).about("The name of the object."),
    Field::new("namespace", Shape::TEXT).about("The namespace of the object."),
    Field::new("resourceVersion", Shape::TEXT).about("The revision of the object that is meant."),
    Field::new("uid", Shape::TEXT).about("The UID of the object."),
])
.atomic();

pub(crate) const MAC_PATTERN: &str = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$";
/// As upstream has it in some places.
pub(crate) const MAC_PATTERN_UNANCHORED: &str = "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}";

/// Canonical text of a MAC address, `52:54:00:aa:bb:01`, from any of the usual spellings
/// (colons or hyphens, either case).
#[must_use]
pub fn normal_mac(text: &str) -> Option<String> {
    text.parse().ok().map(|mac: Mac| mac.to_string())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn unknown_metadata_survives_a_round_trip() {
        let text = r#"{"name":"a","managedFields":[{"manager":"kubectl"}],"generateName":"a-"}"#;
        let meta: ObjectMeta = serde_json::from_str(text).unwrap();
        let back = serde_json::to_value(&meta).unwrap();
        assert_eq!(back, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn macs_have_one_spelling() {
        assert_eq!(normal_mac("52-54-00-AA-bb-01").as_deref(), Some("52:54:00:aa:bb:01"));
        for bad in ["", "52:54:00:aa:bb", "52:54:00:aa:bb:zz", "52:54:00:aa:bb:01:02", "5254.00aa.bb01"] {
            assert_eq!(normal_mac(bad), None, "{bad}");
        }
    }
}
