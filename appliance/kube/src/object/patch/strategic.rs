//! Kubernetes' strategic merge patch: a merge patch in which some lists are merged item by item, and
//! which may carry directives beside fields. For Kubernetes' own kinds alone, as upstream.
//!
//! Which lists are merged, and by what, is Kubernetes' own table, cut to the kinds that are served.
//! The order of a merged list is the stored one; `$setElementOrder` is read over.

use serde_json::{Map, Value, json};

use crate::model::status::Status;

/// Lists of objects, with the key of their items.
const KEYED: [(&str, &str); 4] =
    [("ownerReferences", "uid"), ("secrets", "name"), ("imagePullSecrets", "name"), ("conditions", "type")];
/// Lists of texts in which each stands once.
const SETS: [&str; 1] = ["finalizers"];

/// Comparisons of items that one merge of two lists may take: those of a thousand with each other.
const COMPARISONS_MAX: usize = 1 << 20;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

pub(super) fn apply_to(object: &mut Value, patch: &Value) -> Result<(), Status> {
    match (object, patch) {
        (Value::Object(target), Value::Object(patch)) => merge_maps(target, patch),
        (target, patch) => {
            *target = without_directives(patch);
            Ok(())
        }
    }
}

fn merge_maps(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Status> {
    match patch.get(DIRECTIVE).map(|word| word.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("replace") => {
            *target = fields_of(patch);
            return Ok(());
        }
        Some(other) => {
            return Err(Status::bad_request(format!("Unknown patch type found: {other}")));
        }
    }
    if let Some(retained) = patch.get(RETAIN) {
        let Value::Array(retained) = retained else { return Err(bad_format("$retainKeys must be a list")) };
        check_lengths(target.len(), retained.len())?;
        target.retain(|key, _| retained.iter().any(|kept| kept == key));
    }
    for (key, gone) in patch {
        let Some(field) = key.strip_prefix(DELETE_FROM) else { continue };
        let Value::Array(gone) = gone else { return Err(bad_format("$deleteFromPrimitiveList must be a list")) };
        if let Some(Value::Array(list)) = target.get_mut(field) {
            check_lengths(list.len(), gone.len())?;
            list.retain(|item| !gone.contains(item));
        }
    }
    for (key, value) in patch.iter().filter(|(key, _)| !is_directive(key)) {
        merge_field(target, key, value)?;
    }
    Ok(())
}

fn merge_field(target: &mut Map<String, Value>, key: &str, value: &Value) -> Result<(), Status> {
    if value.is_null() {
        target.remove(key);
        return Ok(());
    }
    if value.get(DIRECTIVE).is_some_and(|word| word == "delete") {
        target.remove(key);
        return Ok(());
    }
    let old = target.entry(key).or_insert(Value::Null);
    match (old, value) {
        (Value::Array(list), Value::Array(patch)) if SETS.contains(&key) => {
            check_lengths(list.len(), patch.len())?;
            for item in patch {
                if !list.contains(item) {
                    list.push(item.clone());
                }
            }
        }
        (old, Value::Array(patch)) => match KEYED.iter().find(|(field, _)| *field == key) {
            Some((_, by)) => {
                let list = match old.take() {
                    Value::Array(list) => list,
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Vec::new(),
                };
                *old = Value::Array(merge_items(list, patch, by)?);
            }
            None => *old = without_directives(value),
        },
        (Value::Object(old), Value::Object(patch)) => merge_maps(old, patch)?,
        // Merged with nothing, so that what stands for "no such field" does not stay.
        (old, Value::Object(patch)) => {
            let mut fresh = Map::new();
            merge_maps(&mut fresh, patch)?;
            *old = Value::Object(fresh);
        }
        (old, value) => old.clone_from(value),
    }
    Ok(())
}

fn merge_items(mut list: Vec<Value>, patch: &[Value], by: &str) -> Result<Vec<Value>, Status> {
    check_lengths(list.len(), patch.len())?;
    // One such item says that the others are the whole list.
    let only_directive = |item: &Value| item.as_object().is_some_and(|map| map.len() == 1);
    if patch.iter().any(|item| item[DIRECTIVE] == "replace" && only_directive(item)) {
        list.clear();
    }
    for item in patch {
        let Value::Object(fields) = item else { return Err(bad_format("an item of a merged list must be an object")) };
        if fields.len() == 1 && fields.get(DIRECTIVE).is_some_and(|word| word == "replace") {
            continue;
        }
        let Some(key) = fields.get(by) else {
            return Err(Status::invalid_patch(&format!("map: {item} does not contain declared merge key: {by}")));
        };
        let found = list.iter().position(|old| old.get(by) == Some(key));
        if fields.get(DIRECTIVE).is_some_and(|word| word == "delete") {
            list.retain(|old| old.get(by) != Some(key));
            continue;
        }
        match found.and_then(|at| list.get_mut(at)) {
            Some(old) => apply_to(old, item)?,
            None => {
                let mut fresh = json!({});
                apply_to(&mut fresh, item)?;
                list.push(fresh);
            }
        }
    }
    Ok(list)
}

/// Each item of a patch is compared with all of the list, which grows by it.
fn check_lengths(list: usize, patch: usize) -> Result<(), Status> {
    if list.saturating_add(patch).saturating_mul(patch) > COMPARISONS_MAX {
        return Err(bad_format("its lists are too long to be merged"));
    }
    Ok(())
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE || key == RETAIN || key.starts_with(DELETE_FROM) || key.starts_with(ORDER)
}

fn fields_of(patch: &Map<String, Value>) -> Map<String, Value> {
    let fields = patch.iter().filter(|(key, value)| !is_directive(key) && !value.is_null());
    fields.map(|(key, value)| (key.clone(), without_directives(value))).collect()
}

fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(fields_of(map)),
        Value::Array(list) => Value::Array(list.iter().map(without_directives).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn bad_format(text: &str) -> Status {
    Status::bad_request(format!("invalid strategic merge patch: {text}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn patched(mut object: Value, patch: Value) -> Value {
        apply_to(&mut object, &patch).unwrap();
        object
    }

    #[test]
    fn lists_are_merged_by_their_keys() {
        let object = json!({"metadata": {"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "x"}, {"uid": "2", "name": "y"}]}});
        let patch = json!({"metadata": {
            "finalizers": ["c", "a"],
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["c", "a"],
            "ownerReferences": [{"uid": "2", "name": "z"}, {"$patch": "delete", "uid": "1"}, {"uid": "3", "name": "new"}],
        }});
        let owners = json!([{"uid": "2", "name": "z"}, {"uid": "3", "name": "new"}]);
        assert_eq!(patched(object, patch), json!({"metadata": {"finalizers": ["a", "c"], "ownerReferences": owners}}));
    }

    #[test]
    fn directives_replace_delete_and_retain() {
        let object = json!({"data": {"a": "1", "b": "2"}, "secrets": [{"name": "x"}], "other": [1, 2]});
        assert_eq!(
            patched(object.clone(), json!({"data": {"$patch": "replace", "c": "3"}}))["data"],
            json!({"c": "3"})
        );
        assert_eq!(
            patched(object.clone(), json!({"data": {"$retainKeys": ["a"], "a": "9"}}))["data"],
            json!({"a": "9"})
        );
        assert_eq!(patched(object.clone(), json!({"data": {"$patch": "delete"}})).get("data"), None);
        assert_eq!(
            patched(object.clone(), json!({"data": {"a": null, "c": "3"}}))["data"],
            json!({"b": "2", "c": "3"})
        );
        let replaced = patched(object.clone(), json!({"secrets": [{"$patch": "replace"}, {"name": "y"}]}));
        assert_eq!(replaced["secrets"], json!([{"name": "y"}]));
        assert_eq!(patched(object, json!({"other": [3]}))["other"], json!([3]), "a plain list is replaced");
    }

    #[test]
    fn nothing_of_a_directive_is_stored() {
        let patch =
            json!({"data": {"a": {"$patch": "merge", "x": null, "y": 1}}, "list": [{"$patch": "x", "z": null}]});
        assert_eq!(patched(json!({}), patch), json!({"data": {"a": {"y": 1}}, "list": [{}]}));
    }

    #[test]
    fn malformed_and_endless_ones_are_refused() {
        for (patch, code) in [
            (json!({"data": {"$patch": "melt"}}), 400),
            (json!({"$retainKeys": 1}), 400),
            (json!({"$deleteFromPrimitiveList/x": 1}), 400),
            (json!({"ownerReferences": ["x"]}), 400),
            (json!({"ownerReferences": [{"name": "x"}]}), 422),
            // Each is compared with each.
            (json!({"finalizers": (0..5000).map(|n| n.to_string()).collect::<Vec<_>>()}), 400),
            (json!({"ownerReferences": (0..5000).map(|n| json!({"uid": n.to_string()})).collect::<Vec<_>>()}), 400),
        ] {
            assert_eq!(
                apply_to(&mut json!({"data": {}, "finalizers": ["x"]}), &patch).unwrap_err().code,
                code,
                "{patch}"
            );
        }
    }
}
