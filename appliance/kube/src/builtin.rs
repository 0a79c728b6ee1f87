//! Kubernetes' own kinds, as far as they are served.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::apply::{ListType, Schema};
use crate::kind::{Admitted, Cell, Column, KindInfo, NameRule};
use crate::status::Cause;

/// All of them, for a [`crate::Registry`].
pub fn kinds() -> Vec<KindInfo> {
    vec![namespace(), secret(), config_map(), event()]
}

const fn column(name: &'static str, column_type: &'static str, path: &'static str) -> Column {
    Column { name, column_type, description: "", priority: 0, cell: Cell::Path(path) }
}

const AGE: Column = column("Age", "date", ".metadata.creationTimestamp");

pub fn namespace() -> KindInfo {
    KindInfo {
        short_names: &["ns"],
        has_generation: false,
        unconditional_update: true,
        strategic_merge: true,
        name_rule: NameRule::Label,
        columns: vec![column("Status", "string", ".status.phase"), AGE],
        ..KindInfo::cluster("", "v1", "Namespace", "namespaces")
    }
    .with_fields(namespace_fields())
    .admitting(|value, old| {
        // Set at birth; a change of them is not a client's to make.
        value["spec"] = old.map_or_else(|| json!({ "finalizers": ["kubernetes"] }), |old| old["spec"].clone());
        if old.is_none() {
            value["status"] = json!({ "phase": "Active" });
        }
        Ok(Admitted { warnings: Vec::new(), unknown_fields: retain_fields(value, &["spec", "status"]) })
    })
}

pub fn secret() -> KindInfo {
    KindInfo {
        has_generation: false,
        has_status: false,
        unconditional_update: true,
        strategic_merge: true,
        selectable: &["type"],
        columns: vec![
            column("Type", "string", ".type"),
            Column { cell: Cell::Computed(count_data), ..column("Data", "integer", "") },
            AGE,
        ],
        ..KindInfo::namespaced("", "v1", "Secret", "secrets")
    }
    .with_fields(Schema::object([
        ("data", texts()),
        ("stringData", texts()),
        ("type", Schema::Text),
        ("immutable", Schema::Boolean),
    ]))
    .admitting(admit_secret)
}

pub fn config_map() -> KindInfo {
    KindInfo {
        short_names: &["cm"],
        has_generation: false,
        has_status: false,
        unconditional_update: true,
        strategic_merge: true,
        columns: vec![Column { cell: Cell::Computed(count_data), ..column("Data", "integer", "") }, AGE],
        ..KindInfo::namespaced("", "v1", "ConfigMap", "configmaps")
    }
    .with_fields(Schema::object([("data", texts()), ("binaryData", texts()), ("immutable", Schema::Boolean)]))
    .admitting(|value, old| {
        let mut causes = Vec::new();
        for field in ["data", "binaryData"] {
            check_text_map(value, field, &mut causes);
        }
        check_immutable(value, old, &["data", "binaryData"], &mut causes);
        let unknown_fields = retain_fields(value, &["data", "binaryData", "immutable"]);
        if causes.is_empty() { Ok(Admitted { warnings: Vec::new(), unknown_fields }) } else { Err(causes) }
    })
}

/// Something that happened to an object.
pub fn event() -> KindInfo {
    KindInfo {
        short_names: &["ev"],
        has_generation: false,
        has_status: false,
        unconditional_update: true,
        strategic_merge: true,
        name_rule: NameRule::PathSegment,
        selectable: &[
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
            "involvedObject.fieldPath",
            "reason",
            "type",
        ],
        columns: vec![
            column("Last Seen", "date", ".lastTimestamp"),
            column("Type", "string", ".type"),
            column("Reason", "string", ".reason"),
            Column { cell: Cell::Computed(involved), ..column("Object", "string", "") },
            column("Message", "string", ".message"),
        ],
        ..KindInfo::namespaced("", "v1", "Event", "events")
    }
}

fn texts() -> Schema {
    Schema::map(Schema::Text)
}

fn namespace_fields() -> Schema {
    let condition = ["type", "status", "reason", "message", "lastTransitionTime"].map(|name| (name, Schema::Text));
    let conditions = Schema::list(Schema::object(condition), ListType::Keyed(&["type"]));
    Schema::object([
        ("spec", Schema::object([("finalizers", Schema::list(Schema::Text, ListType::Atomic))])),
        ("status", Schema::object([("phase", Schema::Text), ("conditions", conditions)])),
    ])
}

fn admit_secret(value: &mut Value, old: Option<&Value>) -> Result<Admitted, Vec<Cause>> {
    let mut causes = Vec::new();
    check_text_map(value, "stringData", &mut causes);
    check_text_map(value, "data", &mut causes);
    for (key, data) in value["data"].as_object().into_iter().flatten() {
        if data.as_str().is_none_or(|text| BASE64.decode(text).is_err()) {
            causes.push(Cause::invalid(&format!("data[{key}]"), &json!("<hidden>"), "must be base64"));
        }
    }
    if let Some(Value::Object(texts)) = value.as_object_mut().and_then(|object| object.remove("stringData")) {
        let data: Map<String, Value> =
            texts.into_iter().map(|(key, text)| (key, json!(BASE64.encode(text.as_str().unwrap_or(""))))).collect();
        match value["data"].as_object_mut() {
            Some(existing) => existing.extend(data),
            None => value["data"] = Value::Object(data),
        }
    }
    if value["type"].as_str().unwrap_or("").is_empty() {
        value["type"] = old.map_or_else(|| json!("Opaque"), |old| old["type"].clone());
    }
    if let Some(old) = old
        && old["type"] != value["type"]
    {
        causes.push(Cause::invalid("type", &value["type"], "field is immutable"));
    }
    check_immutable(value, old, &["data"], &mut causes);
    let unknown_fields = retain_fields(value, &["data", "type", "immutable"]);
    if causes.is_empty() { Ok(Admitted { warnings: Vec::new(), unknown_fields }) } else { Err(causes) }
}

/// Values must be strings; an absent map stays absent.
fn check_text_map(value: &mut Value, field: &str, causes: &mut Vec<Cause>) {
    match &value[field] {
        Value::Null => {
            value.as_object_mut().map(|object| object.remove(field));
        }
        Value::Object(map) => {
            let bad = map.iter().filter(|(_, item)| !item.is_string());
            causes.extend(bad.map(|(key, _)| Cause {
                reason: "FieldValueTypeInvalid".into(),
                message: "Invalid value: must be of type string".into(),
                field: format!("{field}[{key}]"),
            }));
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => causes.push(Cause {
            reason: "FieldValueTypeInvalid".into(),
            message: "Invalid value: must be of type object".into(),
            field: field.into(),
        }),
    }
}

fn check_immutable(value: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old["immutable"] == json!(true)) else { return };
    for field in fields.iter().copied().chain(["immutable"]) {
        if value[field] != old[field] {
            causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
}

/// Drops the top-level fields that a kind does not have, and names them.
fn retain_fields(value: &mut Value, known: &[&str]) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Value::Object(object) = value {
        object.retain(|key, _| {
            let keep = known.contains(&key.as_str()) || matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
            if !keep {
                unknown.push(key.clone());
            }
            keep
        });
    }
    unknown
}

fn count_data(value: &Value) -> Value {
    let count = |field: &str| value[field].as_object().map_or(0, Map::len);
    json!(count("data") + count("binaryData"))
}

fn involved(value: &Value) -> Value {
    let object = &value["involvedObject"];
    let kind = object["kind"].as_str().unwrap_or("").to_lowercase();
    json!(format!("{kind}/{}", object["name"].as_str().unwrap_or("")))
}
