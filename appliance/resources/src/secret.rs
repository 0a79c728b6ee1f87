//! A thin version of Kubernetes' Secret: what the appliance reads from one.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_kube_types::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Annotation: when the owner's stub was changed, and how.
pub const STUB_UPGRADED: &str = "firesteel.dev/stub-upgraded";
/// Key of a host's user data, and the older name that some tools still write.
pub const USER_DATA_KEYS: [&str; 2] = ["userData", "value"];
/// Key of a host's metadata.
pub const META_DATA_KEYS: [&str; 1] = ["metaData"];
/// Key of network data in OpenStack's format, and the older name that some tools still write.
pub const NETWORK_DATA_KEYS: [&str; 2] = ["networkData", "value"];
/// Type of Secrets that `GET /config/<name>` serves.
pub const CONFIG_TYPE: &str = "firesteel.dev/config";
/// Key of the served Ignition config in a Secret of [`CONFIG_TYPE`].
pub const CONFIG_KEY: &str = "config.ign";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Secret {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, SecretBytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
}

impl Secret {
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).map(|bytes| bytes.0.as_slice())
    }

    /// What the OS gets: the first of [`USER_DATA_KEYS`].
    #[must_use]
    pub fn user_data(&self) -> Option<&[u8]> {
        USER_DATA_KEYS.iter().find_map(|key| self.get(key))
    }

    /// User name and password of a BMC, white space trimmed (upstream); `None` where either is
    /// missing, empty or no text.
    #[must_use]
    pub fn credentials(&self) -> Option<(String, String)> {
        let text = |key| {
            let text = std::str::from_utf8(self.get(key)?).ok()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        Some((text("username")?, text("password")?))
    }
}

/// Bytes that show only their length when printed; base64 in JSON.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretBytes(pub Vec<u8>);

impl std::fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretBytes({} bytes)", self.0.len())
    }
}

impl Serialize for SecretBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for SecretBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A null value is an empty one, as Kubernetes reads it.
        let mut text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        text.retain(|character| !character.is_ascii_whitespace());
        STANDARD.decode(text).map(Self).map_err(|_| serde::de::Error::custom("expected base64"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn credentials_are_trimmed_and_never_shown() {
        let text = r#"{"metadata":{"name":"a"},"data":{"username":"YWRtaW4K","password":"c2VjcmV0"}}"#;
        let secret: Secret = serde_json::from_str(text).unwrap();
        assert_eq!(secret.credentials(), Some(("admin".into(), "secret".into())));
        assert!(!format!("{secret:?}").contains("secret"));
        let blank: Secret = serde_json::from_str(r#"{"data":{"username":"IA==","password":"c2VjcmV0"}}"#).unwrap();
        assert_eq!(blank.credentials(), None);
    }

    #[test]
    fn user_data_has_two_names() {
        let old: Secret = serde_json::from_str(r#"{"data":{"value":"YQ=="}}"#).unwrap();
        assert_eq!(old.user_data(), Some(b"a".as_slice()));
        let both: Secret = serde_json::from_str(r#"{"data":{"value":"YQ==","userData":"Yg=="}}"#).unwrap();
        assert_eq!(both.user_data(), Some(b"b".as_slice()));
    }
}
