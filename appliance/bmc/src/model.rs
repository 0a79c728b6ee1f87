//! Redfish's JSON as far as it is used. Every field is optional: real services leave things out,
//! send `null`, or an empty string, and none of that may hide the rest.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A list in an answer; a BMC has no hundred systems or NICs.
pub const MEMBERS_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Link {
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
    pub systems: Option<Link>,
    #[serde(deserialize_with = "lenient")]
    pub links: Option<RootLinks>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RootLinks {
    #[serde(deserialize_with = "lenient")]
    pub sessions: Option<Link>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Collection {
    #[serde(deserialize_with = "lenient")]
    pub members: Option<Vec<Link>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct System {
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
    pub ethernet_interfaces: Option<Link>,
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
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Actions {
    #[serde(rename = "#ComputerSystem.Reset", deserialize_with = "lenient")]
    pub reset: Option<Reset>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reset {
    #[serde(deserialize_with = "lenient")]
    pub target: Option<String>,
    #[serde(rename = "ResetType@Redfish.AllowableValues", deserialize_with = "lenient")]
    pub types_allowed: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EthernetInterface {
    #[serde(rename = "MACAddress", deserialize_with = "lenient")]
    pub mac: Option<String>,
    #[serde(rename = "PermanentMACAddress", deserialize_with = "lenient")]
    pub permanent_mac: Option<String>,
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

/// The same as the BMC wrote it.
pub(crate) fn error_text(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error")?;
    let extended = error.get("@Message.ExtendedInfo").and_then(|list| list.get(0)).and_then(|info| info.get("Message"));
    let message = extended.or_else(|| error.get("message"))?.as_str()?;
    Some(message.to_owned())
}

/// Reads `aa:bb:…` or `AA-BB-…`; all zeros means none.
#[must_use]
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split([':', '-']);
    for octet in &mut octets {
        let part =
            parts.next().filter(|part| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && octets != [0; 6]).then_some(octets)
}

/// For fuzzing: reads `body` as each resource.
pub fn check(body: &[u8]) {
    let system: Option<System> = serde_json::from_slice(body).ok();
    if let Some(system) = system {
        let quirks = crate::decide::quirks_of(&system);
        for action in crate::decide::PowerAction::ALL {
            drop(crate::decide::plan_power(&system, action));
        }
        drop(crate::decide::plan_boot(
            &system,
            crate::decide::Target::Pxe,
            Some(crate::decide::BootMode::Uefi),
            quirks,
        ));
    }
    drop(serde_json::from_slice::<ServiceRoot>(body));
    drop(serde_json::from_slice::<Collection>(body));
    let interface: Option<EthernetInterface> = serde_json::from_slice(body).ok();
    if let Some(mac) = interface.and_then(|interface| parse_mac(&interface.mac?)) {
        assert_ne!(mac, [0; 6], "no interface has this address");
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
        let system: System = serde_json::from_str(
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
        assert_eq!(parse_mac("AA:bb:00:01:02:03"), Some([0xaa, 0xbb, 0, 1, 2, 3]));
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
