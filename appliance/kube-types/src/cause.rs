//! Why an object is refused, in Kubernetes' words: one cause per field, as `kubectl` prints them
//! from `details.causes` of a 422 answer.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is wrong, in one of Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CauseReason {
    FieldValueRequired,
    FieldValueInvalid,
    FieldValueNotSupported,
    FieldValueForbidden,
    FieldValueTypeInvalid,
    FieldValueTooLong,
    FieldValueTooMany,
    FieldValueDuplicate,
    /// Another owner has the field, and the apply is not forced.
    FieldManagerConflict,
    /// The namespace is going, and takes no new objects.
    NamespaceTerminating,
    /// A client asked for a revision that is to come.
    ResourceVersionTooLarge,
    /// What is stored cannot be read.
    UnexpectedServerResponse,
}

/// What is wrong with one field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    pub reason: CauseReason,
    /// The message without the field, as Kubernetes has it; [`fmt::Display`] puts the field in front.
    pub message: String,
    /// `spec.bmc.address`, `spec.networkInterfaces[0].name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    #[must_use]
    pub fn required(field: &str, what: &str) -> Self {
        let message = if what.is_empty() { "Required value".to_owned() } else { format!("Required value: {what}") };
        Self { reason: CauseReason::FieldValueRequired, message, field: field.to_owned() }
    }

    #[must_use]
    pub fn invalid(field: &str, value: &str, why: &str) -> Self {
        let message = format!("Invalid value: {value:?}: {why}");
        Self { reason: CauseReason::FieldValueInvalid, message, field: field.to_owned() }
    }

    /// A value of any type, as JSON.
    #[must_use]
    pub fn invalid_json(field: &str, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { reason: CauseReason::FieldValueInvalid, message, field: field.to_owned() }
    }

    /// A value of any type, as Kubernetes shows it: numbers bare, texts in quotes, and what is larger not
    /// at all.
    #[must_use]
    pub fn invalid_value(field: &str, value: &Value, why: &str) -> Self {
        let message = match value {
            Value::Object(_) | Value::Array(_) => format!("Invalid value: {why}"),
            Value::String(text) => format!("Invalid value: {text:?}: {why}"),
            Value::Null | Value::Bool(_) | Value::Number(_) => format!("Invalid value: {value}: {why}"),
        };
        Self { reason: CauseReason::FieldValueInvalid, message, field: field.to_owned() }
    }

    #[must_use]
    pub fn not_supported(field: &str, value: &str, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {value:?}: supported values: {}", list.join(", "));
        Self { reason: CauseReason::FieldValueNotSupported, message, field: field.to_owned() }
    }

    /// Refuses a value of any type, as JSON, and names the supported ones.
    #[must_use]
    pub fn not_supported_json(field: &str, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", list.join(", "));
        Self { reason: CauseReason::FieldValueNotSupported, message, field: field.to_owned() }
    }

    #[must_use]
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self { reason: CauseReason::FieldValueForbidden, message: format!("Forbidden: {why}"), field: field.to_owned() }
    }

    /// The value has another JSON type than the field.
    #[must_use]
    pub fn type_invalid(field: &str, found: &str, wanted: &str) -> Self {
        let message = format!("Invalid value: {found:?}: {field} in body must be of type {wanted}: {found:?}");
        Self { reason: CauseReason::FieldValueTypeInvalid, message, field: field.to_owned() }
    }

    #[must_use]
    pub fn too_long(field: &str, bytes_max: usize) -> Self {
        let unit = if bytes_max == 1 { "byte" } else { "bytes" };
        let message = format!("Too long: may not be more than {bytes_max} {unit}");
        Self { reason: CauseReason::FieldValueTooLong, message, field: field.to_owned() }
    }

    /// More items than there may be.
    #[must_use]
    pub fn too_many(field: &str, items: usize, items_max: usize) -> Self {
        let unit = if items_max == 1 { "item" } else { "items" };
        let message = format!("Too many: {items}: must have at most {items_max} {unit}");
        Self { reason: CauseReason::FieldValueTooMany, message, field: field.to_owned() }
    }

    /// A value of any type, as JSON.
    #[must_use]
    pub fn duplicate_value(field: &str, value: &Value) -> Self {
        let message = format!("Duplicate value: {value}");
        Self { reason: CauseReason::FieldValueDuplicate, message, field: field.to_owned() }
    }

    #[must_use]
    pub fn duplicate(field: &str, value: &str) -> Self {
        Self {
            reason: CauseReason::FieldValueDuplicate,
            message: format!("Duplicate value: {value:?}"),
            field: field.to_owned(),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// One text for all causes: `field: text`, or `[a, b]` for several.
#[must_use]
pub fn summary(causes: &[Cause]) -> String {
    let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
    if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) }
}
