//! What a host is known as: its SMBIOS UUID and serial number, as far as they tell machines apart. What makers leave in
//! by the thousand tells nothing.

use std::fmt;

use firesteel_facts::Guid;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// UUIDs that makers leave in by the thousand.
const PLACEHOLDER_UUIDS: [&str; 3] = [
    "03000200-0400-0500-0006-000700080009",
    "12345678-1234-5678-90ab-cddeefaabbcc",
    "12345678-1234-1234-1234-123456789abc",
];
/// Serial numbers of the same kind, in lower case.
const PLACEHOLDER_SERIALS: [&str; 14] = [
    "to be filled by o.e.m.",
    "default string",
    "system serial number",
    "serial number",
    "not specified",
    "not applicable",
    "none",
    "n/a",
    "na",
    "unknown",
    "invalid",
    "empty",
    "0123456789",
    "123456789",
];

/// What a host is known as; empty where nothing usable was said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KnownIdentity {
    /// UUID in lower case.
    pub uuid: String,
    pub serial: String,
    pub accepted_at: Timestamp,
}

impl KnownIdentity {
    /// Takes what is usable of what a machine says.
    #[must_use]
    pub fn of(uuid: &str, serial: &str, accepted_at: Timestamp) -> Self {
        Self {
            uuid: usable_uuid(uuid).unwrap_or_default(),
            serial: usable_serial(serial).unwrap_or_default(),
            accepted_at,
        }
    }

    /// Takes in what an accepted inspection says; what it does not say usably stays known.
    #[must_use]
    pub fn renewed(self, uuid: &str, serial: &str, accepted_at: Timestamp) -> Self {
        let said = Self::of(uuid, serial, accepted_at);
        let or_known = |said: String, known: String| if said.is_empty() { known } else { said };
        Self { uuid: or_known(said.uuid, self.uuid), serial: or_known(said.serial, self.serial), accepted_at }
    }
}

/// Says in words what is known.
impl fmt::Display for KnownIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uuid.as_str() {
            "" => f.write_str("no usable SMBIOS UUID")?,
            uuid => write!(f, "the SMBIOS UUID {uuid}")?,
        }
        match self.serial.as_str() {
            "" => Ok(()),
            serial => write!(f, " and the serial number {serial}"),
        }
    }
}

/// The UUID in lower case, if it tells machines apart.
#[must_use]
pub fn usable_uuid(uuid: &str) -> Option<String> {
    let uuid = uuid.trim().to_ascii_lowercase();
    let has_form = uuid.parse::<Guid>().is_ok();
    let mut digits = uuid.bytes().filter(|byte| *byte != b'-');
    let first = digits.next();
    let is_one_digit = digits.all(|digit| Some(digit) == first);
    (has_form && !is_one_digit && !PLACEHOLDER_UUIDS.contains(&uuid.as_str())).then_some(uuid)
}

/// The serial number, if it tells machines apart.
#[must_use]
pub(crate) fn usable_serial(serial: &str) -> Option<String> {
    let serial = serial.trim();
    let lower = serial.to_ascii_lowercase();
    let first = lower.chars().next()?;
    let tells = lower.chars().any(|character| character != first) && !PLACEHOLDER_SERIALS.contains(&lower.as_str());
    tells.then(|| serial.to_owned())
}
