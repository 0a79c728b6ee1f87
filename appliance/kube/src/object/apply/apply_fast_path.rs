//! The most frequent write by far: a controller changes values that it owns already. Then nothing
//! changes but the time of its entry, and the others need not be read for that.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::managed::{ManagedFieldsEntry, ManagedOperation};
use super::set::{FieldSet, SELF};
use super::versions::Changed;
use crate::model::meta::rfc3339;

/// The entries after such a write; `None` if it is none, and has to be tracked.
pub(super) fn entries(
    stored: &Value,
    mine: &ManagedFieldsEntry,
    changed: &Changed,
    now: Timestamp,
) -> Option<Vec<Value>> {
    let stored = stored.as_array()?;
    if !changed.removed.is_empty() || changed.set.is_empty() {
        return None;
    }
    let index = stored.iter().position(|entry| is_of(entry, mine))?;
    for (other, entry) in stored.iter().enumerate() {
        let fields = entry["fieldsV1"].as_object()?;
        let fits = if other == index { holds(fields, &changed.set) } else { !meets(fields, &changed.set) };
        if !fits {
            return None;
        }
    }
    let mut entries = stored.clone();
    let mut own = entries.remove(index);
    own["time"] = json!(rfc3339(now));
    let place = entries.iter().position(|entry| order(entry, &own) == Ordering::Greater).unwrap_or(entries.len());
    entries.insert(place, own);
    Some(entries)
}

fn is_of(entry: &Value, mine: &ManagedFieldsEntry) -> bool {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    mine.operation == ManagedOperation::Update
        && text("operation") == "Update"
        && text("manager") == mine.manager
        && text("apiVersion") == mine.api_version
        && text("subresource") == mine.subresource
}

/// The order in which entries are written. Their times all have one format.
fn order(one: &Value, other: &Value) -> Ordering {
    let key = |entry: &'_ Value| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
    };
    key(one).cmp(&key(other))
}

fn is_member(fields: &Map<String, Value>) -> bool {
    fields.is_empty() || fields.contains_key(SELF)
}

/// Whether all paths of a set are among these fields.
fn holds(fields: &Map<String, Value>, set: &FieldSet) -> bool {
    set.children.iter().all(|(key, node)| {
        let Some(Value::Object(fields)) = fields.get(key) else { return false };
        (!node.member || is_member(fields)) && holds(fields, &node.below)
    })
}

/// Whether a path of a set is among these fields.
fn meets(fields: &Map<String, Value>, set: &FieldSet) -> bool {
    set.children.iter().any(|(key, node)| {
        let Some(Value::Object(fields)) = fields.get(key) else { return false };
        (node.member && is_member(fields)) || meets(fields, &node.below)
    })
}
