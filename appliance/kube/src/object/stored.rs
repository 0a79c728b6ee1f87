//! Objects as the store has them: to bytes and back, and with the revision put in.

use bytes::Bytes;
use firesteel_store::{ObjectKey, Revision, StoredObject};
use serde::de::{DeserializeOwned, value::MapDeserializer};
use serde_json::{Value, json};

use crate::model::{kind::KindInfo, status::Status};

/// The object as clients see it.
pub(crate) fn shown(mut value: Value, revision: Revision) -> Value {
    value["metadata"]["resourceVersion"] = json!(revision.to_string());
    value
}

/// What is known of an object that cannot be read.
pub(crate) fn bare(kind: &KindInfo, key: &ObjectKey) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": key.name },
    });
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = json!(key.namespace);
    }
    object
}

/// The object as a type, with the revision in its metadata as [`shown`] puts it there.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value, revision: Revision) -> Result<T, Status> {
    let metadata = value["metadata"].as_object().into_iter().flatten().filter(|(name, _)| *name != OWNERS);
    let metadata = metadata.map(|(name, value)| (name.clone(), value.clone())).collect();
    let metadata = shown(json!({ "metadata": Value::Object(metadata) }), revision)["metadata"].take();
    let fields = value.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| (name.as_str(), if name == "metadata" { &metadata } else { value }));
    T::deserialize(MapDeserializer::new(fields)).map_err(|error: serde_json::Error| not_its_type(&error))
}

/// Types of this process do not see who owns which field, and change nothing of it.
pub(crate) fn of_this_process<T: DeserializeOwned>(mut value: Value) -> Result<T, Status> {
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove(OWNERS);
    }
    serde_json::from_value(value).map_err(|error| not_its_type(&error))
}

const OWNERS: &str = "managedFields";

pub(crate) fn not_its_type(error: &serde_json::Error) -> Status {
    Status::internal(format!("a stored object does not have its type's form: {error}"))
}

pub(crate) fn encode(value: &Value) -> Result<Bytes, Status> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| Status::internal(format!("cannot encode the object: {error}")))
}

pub(crate) fn encode_stored(kind: &KindInfo, value: &Value) -> Result<Bytes, Status> {
    encode(kind.to_stored(value).as_ref().unwrap_or(value))
}

/// A stored object as clients of this version get it.
pub(crate) fn decode_shown(
    kind: &KindInfo,
    key: &ObjectKey,
    bytes: &Bytes,
    revision: Revision,
) -> Result<Value, Status> {
    Ok(shown(kind.read_stored(decode_bytes(key, bytes)?), revision))
}

pub(crate) fn decode(object: &StoredObject) -> Result<Value, Status> {
    decode_bytes(&object.key, &object.value)
}

pub(crate) fn decode_bytes(key: &ObjectKey, bytes: &Bytes) -> Result<Value, Status> {
    serde_json::from_slice(bytes).map_err(|error| Status::internal(format!("stored object {key} is not JSON: {error}")))
}
