//! Walks over objects by their schema: which paths one has, how two differ, two merged, some removed.
//!
//! Objects are never refused here: where a value does not have the schema's form, or items of a list have no distinct
//! keys, it is one value with one owner.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{FieldSet, FieldSetNode, by_keys, by_value, field};
use crate::model::field_schema::{ListType, Schema};

/// Levels below which a value has one owner: no schema of Kubernetes is as deep, and what is written
/// about a level takes one too where it is stored.
const LEVELS_MAX: usize = 48;

/// How one object became another.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

/// A value as it is owned.
enum OwnedValue<'a> {
    Leaf,
    Object(&'a Map<String, Value>),
    List(Vec<(String, &'a Value)>),
}

fn form<'a>(schema: &Schema, value: &'a Value, level: usize) -> OwnedValue<'a> {
    if level >= LEVELS_MAX {
        return OwnedValue::Leaf;
    }
    match (schema, value) {
        (Schema::Any | Schema::Object(_), Value::Object(map)) => OwnedValue::Object(map),
        (Schema::List(_, list_type), Value::Array(items)) => {
            keyed(list_type, items).map_or(OwnedValue::Leaf, OwnedValue::List)
        }
        _ => OwnedValue::Leaf,
    }
}

/// The items with their keys; `None` if these are not distinct.
fn keyed<'a>(list_type: &ListType, items: &'a [Value]) -> Option<Vec<(String, &'a Value)>> {
    let keyed: Option<Vec<_>> = items.iter().map(|item| Some((element(list_type, item)?, item))).collect();
    let keyed = keyed?;
    let mut seen: Vec<&str> = keyed.iter().map(|(key, _)| key.as_str()).collect();
    seen.sort_unstable();
    (!seen.windows(2).any(|pair| pair[0] == pair[1])).then_some(keyed)
}

pub(super) fn element(list_type: &ListType, item: &Value) -> Option<String> {
    match list_type {
        ListType::Atomic => None,
        ListType::Set => by_value(item),
        ListType::Keyed(keys) => by_keys(item, keys),
    }
}

fn field_schema<'a>(schema: &'a Schema, name: &str) -> (&'a Schema, bool) {
    schema.field(name).unwrap_or((&Schema::Any, false))
}

/// The paths that an applied object sets: what has a value, not what leads there.
pub(crate) fn paths_of(schema: &Schema, object: &Value) -> FieldSet {
    let mut root = FieldSetNode::default();
    leaves(schema, object, 0, &mut root);
    root.below
}

fn leaves(schema: &Schema, value: &Value, level: usize, node: &mut FieldSetNode) {
    let mut child = |key: String, schema: &Schema, value: &Value, member: bool| {
        let mut below = FieldSetNode::default();
        leaves(schema, value, level + 1, &mut below);
        below.member |= member;
        if below.member || !below.below.is_empty() {
            node.below.children.insert(key, below);
        }
    };
    match form(schema, value, level) {
        OwnedValue::Leaf => node.member = true,
        OwnedValue::Object(map) => {
            for (name, value) in map {
                let (schema, named) = field_schema(schema, name);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                child(field(name), schema, value, empty || !named);
            }
        }
        OwnedValue::List(items) => items.into_iter().for_each(|(key, item)| child(key, schema.item(), item, true)),
    }
}

pub(crate) fn difference(schema: &Schema, old: &Value, new: &Value) -> Difference {
    let mut found = Difference::default();
    compare(schema, Some(old), Some(new), &mut Vec::new(), &mut found);
    found
}

fn compare(schema: &Schema, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<String>, found: &mut Difference) {
    if old == new {
        return;
    }
    let forms = (old.map(|old| form(schema, old, path.len())), new.map(|new| form(schema, new, path.len())));
    match forms {
        (Some(OwnedValue::Object(old)), Some(OwnedValue::Object(new))) if !(old.is_empty() && new.is_empty()) => {
            compare_fields(schema, old, new, path, found);
        }
        (Some(OwnedValue::List(old)), Some(OwnedValue::List(new))) if !(old.is_empty() && new.is_empty()) => {
            compare_items(schema, old, new, path, found);
        }
        (None, Some(OwnedValue::Object(new))) if !new.is_empty() => {
            compare_fields(schema, &Map::new(), new, path, found)
        }
        (Some(OwnedValue::Object(old)), None) if !old.is_empty() => {
            compare_fields(schema, old, &Map::new(), path, found)
        }
        (None, Some(OwnedValue::List(new))) if !new.is_empty() => compare_items(schema, Vec::new(), new, path, found),
        (Some(OwnedValue::List(old)), None) if !old.is_empty() => compare_items(schema, old, Vec::new(), path, found),
        (Some(_), Some(_)) => {
            // Forms that have nothing in common: what was inside is gone, what is inside is new.
            descend_only(schema, old, None, path, found);
            descend_only(schema, None, new, path, found);
            found.modified.insert(path);
        }
        (None, _) | (_, None) => {}
    }
    match (old, new) {
        (None, Some(_)) => found.added.insert(path),
        (Some(_), None) => found.removed.insert(path),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// What is below a value that came or went, without the value itself.
fn descend_only(
    schema: &Schema,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<String>,
    found: &mut Difference,
) {
    let level = path.len();
    match (old.map(|old| form(schema, old, level)), new.map(|new| form(schema, new, level))) {
        (Some(OwnedValue::Object(old)), None) => compare_fields(schema, old, &Map::new(), path, found),
        (None, Some(OwnedValue::Object(new))) => compare_fields(schema, &Map::new(), new, path, found),
        (Some(OwnedValue::List(old)), None) => compare_items(schema, old, Vec::new(), path, found),
        (None, Some(OwnedValue::List(new))) => compare_items(schema, Vec::new(), new, path, found),
        _ => {}
    }
}

fn compare_fields(
    schema: &Schema,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Difference,
) {
    let fresh = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(fresh) {
        path.push(field(name));
        compare(field_schema(schema, name).0, old.get(name), new.get(name), path, found);
        path.pop();
    }
}

fn compare_items(
    schema: &Schema,
    old: Vec<(String, &Value)>,
    new: Vec<(String, &Value)>,
    path: &mut Vec<String>,
    found: &mut Difference,
) {
    let mut new: BTreeMap<String, &Value> = new.into_iter().collect();
    let mut step = |key: String, old: Option<&Value>, new: Option<&Value>| {
        path.push(key);
        compare(schema.item(), old, new, path, found);
        path.pop();
    };
    for (key, item) in old {
        let now = new.remove(&key);
        step(key, Some(item), now);
    }
    for (key, item) in new {
        step(key, None, Some(item));
    }
}

/// The live object with the applied one laid over it.
pub(crate) fn merge(schema: &Schema, live: &Value, applied: &Value) -> Value {
    merge_at(schema, Some(live), applied, 0)
}

fn merge_at(schema: &Schema, live: Option<&Value>, applied: &Value, level: usize) -> Value {
    let Some(live) = live else { return applied.clone() };
    match (form(schema, live, level), form(schema, applied, level)) {
        (OwnedValue::Object(live), OwnedValue::Object(applied)) => {
            let mut merged = live.clone();
            for (name, value) in applied {
                let value = merge_at(field_schema(schema, name).0, live.get(name), value, level + 1);
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (OwnedValue::List(live), OwnedValue::List(applied)) => {
            Value::Array(merge_items(schema, &live, &applied, level))
        }
        // An explicit null says nothing about what is inside.
        (OwnedValue::Object(map), OwnedValue::Leaf) if applied.is_null() && !map.is_empty() => live.clone(),
        (OwnedValue::List(list), OwnedValue::Leaf) if applied.is_null() && !list.is_empty() => live.clone(),
        _ => applied.clone(),
    }
}

/// Items of both, in the order of the applied list; those of the live list alone stay where they are
/// between the others.
fn merge_items(schema: &Schema, live: &[(String, &Value)], applied: &[(String, &Value)], level: usize) -> Vec<Value> {
    let known: BTreeMap<&str, &Value> = live.iter().map(|(key, item)| (key.as_str(), *item)).collect();
    let asked: BTreeMap<&str, ()> = applied.iter().map(|(key, _)| (key.as_str(), ())).collect();
    let mut merged = Vec::with_capacity(live.len() + applied.len());
    let mut rest = live.iter().peekable();
    for (key, item) in applied {
        if known.contains_key(key.as_str()) {
            // Everything that stood before it and has no owner here keeps its place.
            while let Some((other, value)) = rest.next_if(|(other, _)| other != key) {
                if !asked.contains_key(other.as_str()) {
                    merged.push((*value).clone());
                }
            }
            rest.next_if(|(other, _)| other == key);
        }
        merged.push(merge_at(schema.item(), known.get(key.as_str()).copied(), item, level + 1));
    }
    let left = rest.filter(|(key, _)| !asked.contains_key(key.as_str()));
    // New items come after all old ones, as Kubernetes puts them.
    let first_new = applied.iter().rposition(|(key, _)| known.contains_key(key.as_str())).map_or(0, |at| at + 1);
    let new = merged.split_off(merged.len() - (applied.len() - first_new));
    merged.extend(left.map(|(_, item)| (*item).clone()));
    merged.extend(new);
    merged
}

/// Takes the set's members out of an object; what becomes empty by that goes too.
pub(crate) fn remove(schema: &Schema, value: &mut Value, gone: &FieldSet) {
    remove_at(schema, value, gone, 0);
}

fn remove_at(schema: &Schema, value: &mut Value, gone: &FieldSet, level: usize) {
    let empty =
        |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    let keys: Option<Vec<String>> = match form(schema, value, level) {
        OwnedValue::List(items) => Some(items.into_iter().map(|(key, _)| key).collect()),
        OwnedValue::Leaf | OwnedValue::Object(_) => None,
    };
    match (value, keys) {
        (Value::Object(map), _) => {
            for (key, node) in &gone.children {
                let Some(name) = key.strip_prefix("f:") else { continue };
                if node.member {
                    map.remove(name);
                } else if let Some(inner) = map.get_mut(name).filter(|inner| !empty(inner)) {
                    remove_at(field_schema(schema, name).0, inner, &node.below, level + 1);
                    if empty(inner) {
                        map.remove(name);
                    }
                }
            }
        }
        (Value::Array(list), Some(keys)) => {
            let mut keys = keys.into_iter();
            list.retain_mut(|item| match keys.next().and_then(|key| gone.children.get(&key)) {
                Some(node) if node.member => false,
                Some(node) => {
                    remove_at(schema.item(), item, &node.below, level + 1);
                    true
                }
                None => true,
            });
        }
        _ => {}
    }
}

/// The set with the named fields that lead to its members: a manager that owns something in a part of an object that
/// always has this name keeps the part.
pub(crate) fn with_named_parents(schema: &Schema, set: &FieldSet) -> FieldSet {
    let mut all = FieldSet::default();
    for (key, node) in &set.children {
        let (below, named) = match key.strip_prefix("f:") {
            Some(name) => field_schema(schema, name),
            None => (schema.item(), false),
        };
        let grown = FieldSetNode {
            member: node.member || (named && !node.below.is_empty()),
            below: with_named_parents(below, &node.below),
        };
        all.children.insert(key.clone(), grown);
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn schema() -> Schema {
        let text = || json!({ "type": "string" });
        let item = json!({ "type": "object", "properties": { "type": text(), "status": text() } });
        let spec = json!({
            "on": { "type": "boolean" },
            "ref": { "type": "object", "x-kubernetes-map-type": "atomic", "properties": { "name": text() } },
            "list": { "type": "array", "items": text() },
            "set": { "type": "array", "items": text(), "x-kubernetes-list-type": "set" },
            "free": { "x-kubernetes-preserve-unknown-fields": true },
            "items": {
                "type": "array", "items": item,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            },
        });
        let spec = json!({ "type": "object", "properties": spec });
        Schema::root(&json!({ "type": "object", "properties": { "spec": spec } }))
    }

    fn items(types: &[&str]) -> Value {
        json!({"spec": {"items": types.iter().map(|name| json!({"type": name})).collect::<Vec<_>>()}})
    }

    #[test]
    fn an_applied_object_sets_its_leaves() {
        let object = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
            "on": true, "ref": {"name": "x"}, "list": [1], "set": ["x"], "free": {"a": {"b": [1]}, "c": {}},
            "items": [{"type": "A", "status": "1"}],
        }});
        let expected = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {
            "f:on": {}, "f:ref": {}, "f:list": {}, "f:set": {"v:\"x\"": {}},
            "f:free": {"f:a": {".": {}, "f:b": {}}, "f:c": {}},
            "f:items": {"k:{\"type\":\"A\"}": {".": {}, "f:type": {}, "f:status": {}}},
        }});
        assert_eq!(paths_of(&schema(), &object).to_v1(), expected);
    }

    #[test]
    fn a_change_is_what_was_added_modified_and_removed() {
        let old =
            json!({"spec": {"on": true, "ref": {"name": "x"}, "items": [{"type": "A", "status": "1"}, {"type": "B"}]}});
        let new = json!({"spec": {"ref": {"name": "y"}, "items": [{"type": "C"}, {"type": "A", "status": "2"}], "set": ["s"]}});
        let found = difference(&schema(), &old, &new);
        let added = json!({"f:spec": {"f:items": {"k:{\"type\":\"C\"}": {".": {}, "f:type": {}}}, "f:set": {".": {}, "v:\"s\"": {}}}});
        let modified = json!({"f:spec": {"f:ref": {}, "f:items": {"k:{\"type\":\"A\"}": {"f:status": {}}}}});
        let removed = json!({"f:spec": {"f:on": {}, "f:items": {"k:{\"type\":\"B\"}": {".": {}, "f:type": {}}}}});
        assert_eq!((found.added.to_v1(), found.modified.to_v1(), found.removed.to_v1()), (added, modified, removed));
    }

    #[test]
    fn items_are_merged_by_key_and_keep_their_places() {
        for (live, applied, merged) in [
            (&["A", "B"][..], &["C"][..], &["A", "B", "C"][..]),
            (&["A", "B"], &["B", "A"], &["B", "A"]),
            (&["A", "B", "C"], &["C", "X"], &["A", "B", "C", "X"]),
            (&["A", "B", "C"], &["A"], &["A", "B", "C"]),
            (&[], &["A"], &["A"]),
        ] {
            assert_eq!(merge(&schema(), &items(live), &items(applied)), items(merged), "{live:?} {applied:?}");
        }
        let merged = merge(
            &schema(),
            &json!({"spec": {"items": [{"type": "A", "status": "1"}], "ref": {"name": "x", "kind": "y"}, "set": ["a"]}}),
            &json!({"spec": {"items": [{"type": "A"}], "ref": {"name": "z"}, "set": ["b", "a"], "free": null}}),
        );
        let expected = json!({"spec": {"items": [{"type": "A", "status": "1"}], "ref": {"name": "z"}, "set": ["b", "a"], "free": null}});
        assert_eq!(merged, expected);
    }

    #[test]
    fn a_named_part_goes_with_the_last_that_was_owned_in_it() {
        let mut object = json!({"metadata": {"name": "n", "labels": {"a": "1", "b": "2"}}, "spec": {"on": true, "items": [{"type": "A"}, {"type": "B"}]}});
        let gone = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:items": {"k:{\"type\":\"A\"}": {".": {}}}, "f:on": {}}});
        remove(&schema(), &mut object, &FieldSet::from_v1(&gone).unwrap());
        assert_eq!(
            object,
            json!({"metadata": {"name": "n", "labels": {"b": "2"}}, "spec": {"items": [{"type": "B"}]}})
        );
        let set = FieldSet::from_v1(&json!({"f:spec": {"f:free": {"f:x": {"f:y": {}}}}})).unwrap();
        let grown = json!({"f:spec": {".": {}, "f:free": {".": {}, "f:x": {"f:y": {}}}}});
        assert_eq!(with_named_parents(&schema(), &set).to_v1(), grown);
    }

    #[test]
    fn items_that_cannot_be_told_apart_are_one_value() {
        let twice = items(&["A", "A"]);
        assert_eq!(paths_of(&schema(), &twice).to_v1(), json!({"f:spec": {"f:items": {}}}));
        let nameless = json!({"spec": {"items": [{"status": "1"}]}});
        assert_eq!(
            difference(&schema(), &items(&["A"]), &nameless).modified.to_v1(),
            json!({"f:spec": {"f:items": {}}})
        );
        let deep = (0..100).fold(json!(1), |inner, _| json!({ "a": inner }));
        let set = paths_of(&schema(), &json!({"spec": {"free": deep}})).to_v1().to_string();
        assert!(set.matches("f:a").count() < LEVELS_MAX, "{set}");
    }

    fn objects() -> impl Strategy<Value = Value> {
        let names = prop::sample::subsequence(vec!["A", "B", "C", "D"], 0..4).prop_shuffle();
        (names, any::<Option<bool>>(), prop::option::of("[xy]")).prop_map(|(names, on, free)| {
            let mut object = items(&names);
            object["spec"]["on"] = json!(on);
            if let Some(free) = free {
                object["spec"]["free"] = json!({ free: 1 });
            }
            object
        })
    }

    proptest! {
        #[test]
        fn merging_and_comparing_agree(live in objects(), applied in objects()) {
            let schema = schema();
            let merged = merge(&schema, &live, &applied);
            prop_assert!(difference(&schema, &live, &merged).removed.is_empty());
            prop_assert_eq!(merge(&schema, &merged, &applied), merged.clone());
            let all = paths_of(&schema, &merged);
            prop_assert_eq!(all.intersection(&paths_of(&schema, &applied)), paths_of(&schema, &applied));
            let found = difference(&schema, &live, &live);
            prop_assert!(found.added.is_empty() && found.modified.is_empty());
        }
    }
}
