//! Events in their two groups: objects are stored as the older one has them, and those of
//! events.k8s.io are the same with other names.

use firesteel_kube_types::Cause;
use serde_json::{Map, Value, json};

use super::{event_columns, schemas, shaped};
use crate::model::convert::VersionConversion;
use crate::model::kind::KindInfo;
use crate::model::kind_parts::{AdmittedObject, NameRule};

/// Names of events.k8s.io and what the same is called in the older form.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];
const SAME: [&str; 7] = ["eventTime", "series", "reportingInstance", "action", "reason", "related", "type"];
/// The longest of an event's words, as Kubernetes has it.
const WORD_BYTES_MAX: usize = 128;

/// Something that happened to an object.
pub fn event() -> KindInfo {
    let kind = KindInfo {
        selectable: &[
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        columns: event_columns::columns(),
        ..common("")
    }
    .admitting(|value, _| admitted(check_place(value, "involvedObject")));
    shaped(kind, "Something that happened to an object.", schemas::event())
}

/// Events in the group that newer clients use.
pub(super) fn new_event() -> KindInfo {
    let kind = KindInfo {
        selectable: &[
            "regarding.kind",
            "regarding.name",
            "regarding.namespace",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        columns: event_columns::columns(),
        stored_at: Some(("", "events")),
        conversion: Some(VersionConversion {
            to_stored: |event| renamed(event, |(new, old)| (new, old)),
            from_stored: |event| renamed(event, |(new, old)| (old, new)),
            annotation: "",
            fits_stored: |_| false,
            fits: |_| false,
        }),
        ..common("events.k8s.io")
    }
    .admitting(|value, old| {
        let mut causes = check_place(value, "regarding");
        if old.is_none() {
            causes.extend(check_new(value));
        }
        admitted(causes)
    });
    let mut schema = schemas::event();
    if let Value::Object(properties) = schema["properties"].take() {
        let name = |old: &str| RENAMED.iter().find(|(_, stored)| *stored == old).map_or(old, |(new, _)| new).to_owned();
        let properties: Map<String, Value> =
            properties.into_iter().map(|(old, property)| (name(&old), property)).collect();
        schema["properties"] = Value::Object(properties);
    }
    schema["required"] = json!(["eventTime"]);
    shaped(kind, "Something that happened to an object.", schema)
}

fn common(group: &'static str) -> KindInfo {
    KindInfo {
        short_names: &["ev"],
        has_generation: false,
        has_status: false,
        unconditional_update: true,
        strategic_merge: true,
        has_short_history: true,
        name_rule: NameRule::PathSegment,
        ..KindInfo::namespaced(group, "v1", "Event", "events")
    }
}

fn renamed(
    event: &Value,
    names: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Map<String, Value> {
    let renamed = RENAMED.iter().map(|pair| names(*pair));
    let all = renamed.chain(SAME.iter().map(|name| (*name, *name)));
    all.filter_map(|(from, to)| Some((to.to_owned(), event.get(from)?.clone()))).collect()
}

fn admitted(causes: Vec<Cause>) -> Result<AdmittedObject, Vec<Cause>> {
    if causes.is_empty() { Ok(AdmittedObject::default()) } else { Err(causes) }
}

/// An event is in the namespace of its object; one of an object in none is in `default`.
fn check_place(value: &Value, field: &str) -> Vec<Cause> {
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let of_object = value[field]["namespace"].as_str().unwrap_or_default();
    let fits = of_object == namespace || of_object.is_empty() && matches!(namespace, "default" | "kube-system");
    let field = format!("{field}.namespace");
    let cause = || Cause::invalid_json(&field, &json!(of_object), "does not match event.namespace");
    if fits { Vec::new() } else { vec![cause()] }
}

/// What Kubernetes wants of new events of this group.
fn check_new(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["reportingController", "reportingInstance", "action", "reason"] {
        let text = value[field].as_str().unwrap_or_default();
        if text.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if text.len() > WORD_BYTES_MAX {
            causes.push(Cause::invalid_json(field, &json!(text), "can have at most 128 characters"));
        }
    }
    if !matches!(value["type"].as_str(), Some("Normal" | "Warning")) {
        causes.push(Cause::invalid_json("type", &value["type"], "has invalid value: "));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_lost_between_the_groups() {
        let old = schemas::event();
        let names = old["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        for name in names {
            let known = SAME.contains(&name) || RENAMED.iter().any(|(_, stored)| *stored == name);
            assert!(known, "{name}");
        }
        let event = json!({ "note": "a", "regarding": { "name": "b" }, "series": { "count": 3 }, "metadata": {} });
        let stored = renamed(&event, |(new, old)| (new, old));
        assert_eq!(stored["message"], "a");
        assert_eq!(
            Value::Object(stored.clone()),
            json!({ "message": "a", "involvedObject": { "name": "b" }, "series": { "count": 3 } })
        );
        let back = renamed(&Value::Object(stored), |(new, old)| (old, new));
        assert_eq!(Value::Object(back), json!({ "note": "a", "regarding": { "name": "b" }, "series": { "count": 3 } }));
    }
}
