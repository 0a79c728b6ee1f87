//! How Ignition merges two configs (coreos/ignition, `config/merge/merge.go`), on JSON:
//!
//! - Objects are merged field by field; of everything that is no object or list, the child's counts where it has one.
//! - Lists whose entries have a key: entries with the same key are merged at the parent's place, others are appended.
//! - Files, directories and links share one set of keys (their paths), arguments to add and to remove another: an entry
//!   of the child removes the parent's with that key from the other lists.
//! - Lists of options and of pieces to append to a file are put one after the other.
//! - A header of the child without a value removes the parent's.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Lists that are put one after the other.
const APPENDED: [&str; 3] = ["append", "options", "mountOptions"];
/// Lists that share their keys with each other.
const SHARED: [&[&str]; 2] = [&["directories", "files", "links"], &["shouldExist", "shouldNotExist"]];

/// The child's config over the parent's, both of one version.
#[must_use]
pub fn merge(parent: Value, child: Value) -> Value {
    match (parent, child) {
        (Value::Object(parent), Value::Object(child)) => Value::Object(objects(parent, child)),
        (parent, Value::Null) => parent,
        (_, child) => child,
    }
}

fn objects(mut parent: Map<String, Value>, child: Map<String, Value>) -> Map<String, Value> {
    // Contents from elsewhere are other contents: how the old ones were packed and what their digest was says nothing.
    if child.get("source").is_some_and(|source| source.is_string() && parent.get("source") != Some(source)) {
        return child;
    }
    for list in SHARED.into_iter().flatten() {
        remove_claimed(&mut parent, &child, list);
    }
    for (name, value) in child {
        let merged = match (name.as_str(), parent.remove(&name), value) {
            (_, Some(old), Value::Null) => old,
            (_, Some(Value::Array(old)), Value::Array(new)) => Value::Array(lists(&name, old, new)),
            (_, Some(old), new) => merge(old, new),
            (_, None, new) => new,
        };
        parent.insert(name, merged);
    }
    parent
}

/// Takes out of the parent's list what the child has in another list of the same keys.
fn remove_claimed(parent: &mut Map<String, Value>, child: &Map<String, Value>, list: &str) {
    let Some(group) = SHARED.into_iter().find(|group| group.contains(&list)) else { return };
    let others = group.iter().filter(|other| **other != list);
    let entries = others.filter_map(|other| Some((*other, child.get(*other)?.as_array()?)));
    let claimed: HashSet<String> = entries.flat_map(|(other, list)| list.iter().map(|item| key(other, item))).collect();
    if let Some(Value::Array(entries)) = parent.get_mut(list) {
        entries.retain(|entry| !claimed.contains(&key(list, entry)));
    }
}

fn lists(name: &str, parent: Vec<Value>, child: Vec<Value>) -> Vec<Value> {
    if APPENDED.contains(&name) {
        return parent.into_iter().chain(child).collect();
    }
    let known: HashSet<String> = parent.iter().map(|entry| key(name, entry)).collect();
    // Of the child's entries with one key the last counts, as in upstream's table; those that are new are all kept.
    let by_key: HashMap<String, &Value> = child.iter().map(|entry| (key(name, entry), entry)).collect();
    let mut merged = Vec::with_capacity(parent.len() + child.len());
    for entry in parent {
        match by_key.get(&key(name, &entry)) {
            None => merged.push(entry),
            Some(new) if name == "httpHeaders" && new["value"].is_null() => {}
            Some(new) => merged.push(merge(entry, (*new).clone())),
        }
    }
    merged.extend(child.into_iter().filter(|entry| !known.contains(&key(name, entry))));
    merged
}

/// What makes an entry of this list the same as another (upstream's `Key()`).
fn key(list: &str, entry: &Value) -> String {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    match (list, entry) {
        (_, Value::String(text)) => text.clone(),
        ("files" | "directories" | "links", _) => text("path"),
        ("disks" | "filesystems", _) => text("device"),
        ("partitions", _) => match (entry["number"].as_i64().unwrap_or(0), entry["label"].as_str()) {
            (0, Some(label)) => format!("label:{label}"),
            (0, None) => String::new(),
            (number, _) => format!("number:{number}"),
        },
        ("tang", _) => text("url"),
        ("merge" | "certificateAuthorities", _) => text("source"),
        (_, _) => text("name"),
    }
}
