//! What is wrong with one field of an object.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why one field was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported", …
    pub reason: String,
    /// "Required value", "Invalid value: \"x\": must be …"; without the field.
    pub message: String,
    /// "spec.online".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    pub fn required(field: &str, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".into() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired".into(), message, field: field.into() }
    }

    /// `value` is shown as JSON: strings in quotes.
    pub fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {value}: {detail}"),
            field: field.into(),
        }
    }

    pub fn not_supported(field: &str, value: &Value, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
        Self {
            reason: "FieldValueNotSupported".into(),
            message: format!("Unsupported value: {value}: supported values: {supported}"),
            field: field.into(),
        }
    }

    pub fn forbidden(field: &str, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden".into(), message: format!("Forbidden: {detail}"), field: field.into() }
    }
}
