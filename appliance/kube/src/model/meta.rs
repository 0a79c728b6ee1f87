//! `metadata`, the part that all objects share.

use firesteel_kube_types::{Cause, CauseReason, ObjectMeta};
use jiff::Timestamp;
use serde::{Deserialize as _, de::value::MapDeserializer};
use serde_json::{Map, Value};

/// Waits until the dependents that block it are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Waits until no dependent names it as an owner any more.
pub(crate) const ORPHAN: &str = "orphan";

/// Most unknown fields that are listed of one object.
const UNKNOWN_MAX: usize = 64;
/// Fields that are there and not read here: `managedFields` is kept beside the rest (see [`crate::object::apply`]), and
/// `selfLink` is accepted and not kept.
const PASSED_OVER: [&str; 2] = ["managedFields", "selfLink"];

/// Reads `metadata` of an object; also names the fields that it should not have.
pub(crate) fn read(object: &Value) -> Result<(ObjectMeta, Vec<String>), Cause> {
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => return Ok((ObjectMeta::default(), Vec::new())),
        Some(metadata) => metadata,
    };
    let read = match metadata {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !PASSED_OVER.contains(&name.as_str()));
            ObjectMeta::deserialize(MapDeserializer::new(fields.map(|(name, value)| (name.as_str(), value))))
        }
        other => ObjectMeta::deserialize(other),
    };
    let mut meta = read.map_err(|error: serde_json::Error| Cause {
        reason: CauseReason::FieldValueTypeInvalid,
        message: format!("Invalid value: {error}"),
        field: "metadata".into(),
    })?;
    let unknown = std::mem::take(&mut meta.rest);
    Ok((meta, unknown.keys().take(UNKNOWN_MAX).map(|key| format!("metadata.{key}")).collect()))
}

pub(crate) fn to_value(meta: &ObjectMeta) -> Value {
    serde_json::to_value(meta).unwrap_or_else(|_| Value::Object(Map::new()))
}

/// The value of a dotted path in an object; `Null` where there is none.
pub(crate) fn at_path<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(object, |value, part| &value[part])
}

/// Cuts a time to seconds, as Kubernetes' times have them.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Seconds, as Kubernetes' times have them.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    whole_seconds(time).to_string()
}
