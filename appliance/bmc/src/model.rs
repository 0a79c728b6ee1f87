//! Redfish's JSON as far as it is used. Every field is optional: real services leave things out,
//! send `null`, or an empty string, and none of that may hide the rest.

mod parts;
mod storage;

use firesteel_facts::Mac;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use parts::{
    Manager, MemorySummary, ProcessorSummary, RedfishMemory, RedfishProcessor, RedfishStatus, SecureBoot, Software,
    UpdateService,
};
pub use storage::{DurableIdentifier, RedfishDrive, RedfishStorage, RedfishVolume, SimpleStorage, SimpleStorageDevice};

/// A list in an answer; a BMC has no hundred systems or NICs.
pub const MEMBERS_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RedfishLink {
    #[serde(rename = "@odata.id", default, deserialize_with = "lenient")]
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ServiceRoot {
    #[serde(deserialize_with = "lenient")]
    pub redfish_version: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub vendor: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub product: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub systems: Option<RedfishLink>,
    #[serde(deserialize_with = "lenient")]
    pub update_service: Option<RedfishLink>,
    #[serde(deserialize_with = "lenient")]
    pub session_service: Option<RedfishLink>,
    #[serde(deserialize_with = "lenient")]
    pub links: Option<RootLinks>,
    /// What queries the service takes.
    #[serde(rename = "ProtocolFeaturesSupported", deserialize_with = "lenient")]
    pub features: Option<Value>,
}

impl ServiceRoot {
    /// Whether it is a service's root at all: each names its version (DSP0266, section 6.2) or its systems.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.redfish_version.is_some() || self.systems.is_some()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RootLinks {
    #[serde(deserialize_with = "lenient")]
    pub sessions: Option<RedfishLink>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Collection {
    #[serde(deserialize_with = "lenient")]
    pub members: Option<Vec<RedfishLink>>,
}

/// A session that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RedfishSession {
    #[serde(rename = "@odata.id", deserialize_with = "lenient")]
    pub link: Option<String>,
    #[serde(rename = "Id", deserialize_with = "lenient")]
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishSystem {
    #[serde(deserialize_with = "lenient")]
    pub power_state: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub manufacturer: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub serial_number: Option<String>,
    #[serde(rename = "UUID", deserialize_with = "lenient")]
    pub uuid: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub boot: Option<Boot>,
    #[serde(deserialize_with = "lenient")]
    pub actions: Option<Actions>,
    #[serde(deserialize_with = "lenient")]
    pub ethernet_interfaces: Option<RedfishLink>,
    #[serde(rename = "@odata.etag", deserialize_with = "lenient")]
    pub etag: Option<String>,
    #[serde(rename = "@Redfish.Settings", deserialize_with = "lenient")]
    pub settings: Option<RedfishSettings>,
    #[serde(deserialize_with = "lenient")]
    pub links: Option<SystemLinks>,
    #[serde(deserialize_with = "lenient")]
    pub secure_boot: Option<RedfishLink>,
    #[serde(deserialize_with = "lenient")]
    pub processors: Option<RedfishLink>,
    #[serde(deserialize_with = "lenient")]
    pub memory: Option<RedfishLink>,
    #[serde(deserialize_with = "lenient")]
    pub storage: Option<RedfishLink>,
    #[serde(deserialize_with = "lenient")]
    pub simple_storage: Option<RedfishLink>,
    #[serde(rename = "SKU", deserialize_with = "lenient")]
    pub sku: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub asset_tag: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub bios_version: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub status: Option<RedfishStatus>,
    #[serde(deserialize_with = "lenient")]
    pub memory_summary: Option<MemorySummary>,
    #[serde(deserialize_with = "lenient")]
    pub processor_summary: Option<ProcessorSummary>,
}

impl RedfishSystem {
    /// What the resource's own reset action takes; empty: not said.
    #[must_use]
    pub fn resets_allowed(&self) -> &[String] {
        let reset = self.actions.as_ref().and_then(|actions| actions.reset.as_ref());
        reset.and_then(|reset| reset.types_allowed.as_deref()).unwrap_or_default()
    }
}

/// `@Redfish.RedfishSettings` (DSP0266, section 9.10).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RedfishSettings {
    #[serde(deserialize_with = "lenient")]
    pub settings_object: Option<RedfishLink>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SystemLinks {
    #[serde(deserialize_with = "lenient")]
    pub managed_by: Option<Vec<RedfishLink>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Boot {
    #[serde(rename = "BootSourceOverrideEnabled", deserialize_with = "lenient")]
    pub enabled: Option<String>,
    #[serde(rename = "BootSourceOverrideTarget", deserialize_with = "lenient")]
    pub target: Option<String>,
    #[serde(rename = "BootSourceOverrideMode", deserialize_with = "lenient")]
    pub mode: Option<String>,
    #[serde(rename = "BootSourceOverrideTarget@Redfish.AllowableValues", deserialize_with = "lenient")]
    pub targets_allowed: Option<Vec<String>>,
    /// Is present (as `null` too) where the service has the property.
    #[serde(rename = "HttpBootUri", deserialize_with = "present")]
    pub http_boot_uri: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Actions {
    #[serde(rename = "#ComputerSystem.Reset", deserialize_with = "lenient")]
    pub reset: Option<ResetActionInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResetActionInfo {
    #[serde(deserialize_with = "lenient")]
    pub target: Option<String>,
    #[serde(rename = "ResetType@Redfish.AllowableValues", deserialize_with = "lenient")]
    pub types_allowed: Option<Vec<String>>,
    /// The resource that lists the allowed types instead (DSP0266, section 9.6.3).
    #[serde(rename = "@Redfish.ActionInfo", deserialize_with = "lenient")]
    pub info: Option<String>,
}

/// `ActionInfo`: what an action's parameters may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ActionInfo {
    #[serde(deserialize_with = "lenient")]
    pub parameters: Option<Vec<Parameter>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Parameter {
    #[serde(deserialize_with = "lenient")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub allowable_values: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EthernetInterface {
    #[serde(rename = "MACAddress", deserialize_with = "lenient")]
    pub mac: Option<String>,
    #[serde(rename = "PermanentMACAddress", deserialize_with = "lenient")]
    pub permanent_mac: Option<String>,
    #[serde(rename = "Id", deserialize_with = "lenient")]
    pub id: Option<String>,
    #[serde(rename = "SpeedMbps", deserialize_with = "lenient")]
    pub speed_mbps: Option<u64>,
    /// `LinkUp`, `LinkDown`, `NoLink`.
    #[serde(rename = "LinkStatus", deserialize_with = "lenient")]
    pub link_status: Option<String>,
}

/// Says that a field is there, whatever it holds.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A field of a wrong type is as good as absent: one vendor's odd field must not cost the host its power control.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

/// A Redfish error's first message (DSP0266 section 8.6), if the body is one.
#[must_use]
pub fn error_message(body: &[u8]) -> Option<String> {
    error_text(body).map(|text| crate::error::plain_text(&text))
}

/// Whether one of a Redfish error's message identifiers has `part` in it, whatever its registry and version.
#[must_use]
pub fn has_message_id(body: &[u8], part: &str) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return false };
    let Some(error) = value.get("error") else { return false };
    let told = error.get("@Message.ExtendedInfo").and_then(Value::as_array).into_iter().flatten();
    let ids = told.take(MEMBERS_MAX).filter_map(|info| info.get("MessageId")?.as_str());
    ids.chain(error.get("code").and_then(Value::as_str)).any(|id| id.contains(part))
}

/// The text of a Redfish error as the BMC wrote it.
pub(crate) fn error_text(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error")?;
    let extended = error.get("@Message.ExtendedInfo").and_then(|list| list.get(0)).and_then(|info| info.get("Message"));
    let message = extended.or_else(|| error.get("message"))?.as_str()?;
    Some(message.to_owned())
}

/// Reads `aa:bb:…` or `AA-BB-…`; all zeros means none.
#[must_use]
pub fn parse_mac(text: &str) -> Option<Mac> {
    text.parse().ok().filter(|mac| *mac != Mac([0; 6]))
}

/// Reads `body` as each resource: an entry for fuzzing.
pub fn check(body: &[u8]) {
    use crate::decide::{BmcBootMode, NextBootSource, PowerAction, WantedBootOverride, plan_boot, plan_power};
    let root: Option<ServiceRoot> = serde_json::from_slice(body).ok();
    let system: Option<RedfishSystem> = serde_json::from_slice(body).ok();
    if let (Some(root), Some(system)) = (root, system) {
        let quirks = crate::quirks::quirks_of(&crate::quirks::QuirkSubject::of(&root, &system));
        for action in PowerAction::ALL {
            drop(plan_power(&system, action, quirks));
        }
        for target in NextBootSource::ALL {
            drop(plan_boot(
                &system,
                &WantedBootOverride { mode: Some(BmcBootMode::Uefi), ..WantedBootOverride::once(target) },
                quirks,
            ));
        }
    }
    drop(serde_json::from_slice::<Collection>(body));
    let kinds: [fn(&[u8]) -> bool; 10] = [
        |body: &[u8]| serde_json::from_slice::<RedfishStorage>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<RedfishDrive>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<RedfishVolume>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<SimpleStorage>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<Manager>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<SecureBoot>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<RedfishMemory>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<RedfishProcessor>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<Software>(body).is_ok(),
        |body: &[u8]| serde_json::from_slice::<ActionInfo>(body).is_ok(),
    ];
    for reads in kinds {
        reads(body);
    }
    assert!(!has_message_id(body, "a") || !body.is_empty());
    crate::body::check(body);
    crate::sensors::check(body);
    crate::tls::check(body);
    let interface: Option<EthernetInterface> = serde_json::from_slice(body).ok();
    if let Some(mac) = interface.and_then(|interface| parse_mac(&interface.mac?)) {
        assert_ne!(mac, Mac([0; 6]), "no interface has this address");
    }
    if let Some(message) = error_message(body) {
        assert!(message.len() <= crate::error::BMC_TEXT_CHARS_MAX && message.is_ascii());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn odd_fields_do_not_hide_the_others() {
        let system: RedfishSystem = serde_json::from_str(
            r##"{"PowerState":"On","SerialNumber":null,"Model":7,"Boot":"none","Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/x","ResetType@Redfish.AllowableValues":"On"}}}"##,
        )
        .unwrap();
        assert_eq!(system.power_state.as_deref(), Some("On"));
        assert_eq!((system.serial_number, system.model, system.boot), (None, None, None));
        assert_eq!(system.actions.unwrap().reset.unwrap().target.as_deref(), Some("/redfish/v1/x"));
    }

    #[test]
    fn error_messages_are_the_most_specific_and_plain() {
        let body = br#"{"error":{"code":"Base.1.0.GeneralError","message":"general","@Message.ExtendedInfo":[{"Message":"the \u001b[31mreason"}]}}"#;
        assert_eq!(error_message(body).as_deref(), Some("the ?[31mreason"));
        assert_eq!(error_message(br#"{"error":{"message":"general"}}"#).as_deref(), Some("general"));
        assert_eq!(error_message(b"<html>"), None);
    }

    #[test]
    fn macs() {
        assert_eq!(parse_mac("AA:bb:00:01:02:03"), Some(Mac([0xaa, 0xbb, 0, 1, 2, 3])));
        for text in
            ["", "00:00:00:00:00:00", "aa:bb:cc:dd:ee", "aa:bb:cc:dd:ee:ff:00", "+a:bb:cc:dd:ee:ff", "aabbccddeeff"]
        {
            assert_eq!(parse_mac(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..200)) {
            check(&body);
        }

        #[test]
        fn near_systems_do_not_panic(state in ".{0,10}", target in ".{0,10}", allowed in prop::collection::vec(".{0,8}", 0..4)) {
            let body = serde_json::json!({
                "PowerState": state,
                "Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideTarget@Redfish.AllowableValues": allowed},
                "Actions": {"#ComputerSystem.Reset": {"target": target, "ResetType@Redfish.AllowableValues": allowed}},
            });
            check(body.to_string().as_bytes());
        }
    }
}
