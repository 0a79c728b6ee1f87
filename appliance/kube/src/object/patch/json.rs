//! JSON patch: RFC 6902, with what Kubernetes' own implementation does beside it, and with bounds:
//! a few operations can copy a document into itself, or nest it, without end.

use json_patch::PatchOperation;
use serde_json::{Value, json};

use super::not_of_type;
use crate::codec::body::BODY_BYTES_MAX;
use crate::codec::json::DEPTH_MAX;
use crate::model::status::Status;

/// Operations of one patch, as Kubernetes has it.
const OPERATIONS_MAX: usize = 10_000;
/// Bytes of all copies that one patch makes: an object is no larger than a body.
const COPIED_BYTES_MAX: usize = BODY_BYTES_MAX;
/// Values that all operations of one patch move or look through: some tenths of a second, and many times what
/// the largest object has.
const VISITED_MAX: usize = 1 << 24;

#[derive(Clone, Debug)]
pub struct Operations(Vec<PatchOperation>);

impl Operations {
    pub(super) fn parse(patch: Value) -> Result<Self, Status> {
        let Value::Array(list) = patch else { return Err(not_of_type(&patch, "[]handlers.jsonPatchOp")) };
        if list.len() > OPERATIONS_MAX {
            let text =
                format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", list.len());
            return Err(Status::with_reason(413, "RequestEntityTooLarge", format!("Request entity too large: {text}")));
        }
        list.into_iter().map(operation).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn apply_to(&self, object: &mut Value) -> Result<(), Status> {
        let (mut copied, mut visited) = (0_usize, 0_usize);
        for operation in &self.0 {
            visited = visited.saturating_add(moved_by(object, operation));
            if visited > VISITED_MAX {
                let text = "Request entity too large: the operations of the patch move too much";
                return Err(Status::with_reason(413, "RequestEntityTooLarge", text));
            }
            match operation {
                // Clients say so that a field must be absent; the RFC and the crate refuse it.
                PatchOperation::Test(test) if test.value.is_null() && object.pointer(test.path.as_str()).is_none() => {
                    continue;
                }
                PatchOperation::Add(add) => drop(check_depth(add.path.count(), &add.value)?),
                PatchOperation::Replace(replace) => drop(check_depth(replace.path.count(), &replace.value)?),
                PatchOperation::Copy(copy) => {
                    let value = object.pointer(copy.from.as_str()).unwrap_or(&Value::Null);
                    check_depth(copy.path.count(), value)?;
                    copied = copied.saturating_add(value.to_string().len());
                    if copied > COPIED_BYTES_MAX {
                        return Err(Status::too_large(COPIED_BYTES_MAX));
                    }
                }
                PatchOperation::Move(moved) => {
                    let value = object.pointer(moved.from.as_str()).unwrap_or(&Value::Null);
                    visited = visited.saturating_add(check_depth(moved.path.count(), value)?);
                }
                PatchOperation::Remove(_) | PatchOperation::Test(_) => {}
            }
            json_patch::patch_unsafe(object, std::slice::from_ref(operation)).map_err(|_| Status::rejected())?;
        }
        Ok(())
    }
}

fn operation(mut value: Value) -> Result<PatchOperation, Status> {
    if !value.is_object() {
        return Err(not_of_type(&value, "handlers.jsonPatchOp"));
    }
    if value["op"] == "test" && value.get("value").is_none() {
        value["value"] = json!(null);
    }
    serde_json::from_value(value).map_err(|_| Status::rejected())
}

/// Items that stand behind where an operation takes something out of a list or puts it in.
fn moved_by(object: &Value, operation: &PatchOperation) -> usize {
    let items = |path: &str| {
        let Some((list, place)) = path.rsplit_once('/') else { return 0 };
        let list = object.pointer(list).and_then(Value::as_array);
        list.map_or(0, |list| place.parse().map_or(0, |place| list.len().saturating_sub(place)))
    };
    match operation {
        PatchOperation::Add(add) => items(add.path.as_str()),
        PatchOperation::Remove(remove) => items(remove.path.as_str()),
        PatchOperation::Copy(copy) => items(copy.path.as_str()),
        PatchOperation::Move(moved) => items(moved.from.as_str()).saturating_add(items(moved.path.as_str())),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// How many values there are, unless they are nested too deep.
fn check_depth(levels_above: usize, value: &Value) -> Result<usize, Status> {
    let (depth, count) = extent(value);
    if levels_above.saturating_add(depth) > DEPTH_MAX {
        return Err(Status::rejected());
    }
    Ok(count)
}

/// Levels and values. Bounded by the bound of depth itself, and by the parser's for what was parsed.
fn extent(value: &Value) -> (usize, usize) {
    let all = |(depth, count): (usize, usize), (levels, values): (usize, usize)| (depth.max(levels), count + values);
    let below = match value {
        Value::Object(map) => map.values().map(extent).fold((0, 0), all),
        Value::Array(list) => list.iter().map(extent).fold((0, 0), all),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return (0, 1),
    };
    (below.0 + 1, below.1 + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn patched(mut object: Value, operations: Value) -> Result<Value, Status> {
        Operations::parse(operations)?.apply_to(&mut object)?;
        Ok(object)
    }

    #[test]
    fn operations_are_applied_in_order() {
        let result = patched(
            json!({"a": {"b": 1}, "list": [1, 2]}),
            json!([
                {"op": "test", "path": "/a/b", "value": 1},
                {"op": "add", "path": "/list/-", "value": 3},
                {"op": "remove", "path": "/list/0"},
                {"op": "replace", "path": "/a/b", "value": 2},
                {"op": "copy", "from": "/a", "path": "/c"},
                {"op": "move", "from": "/a/b", "path": "/x~1y"},
            ]),
        );
        assert_eq!(result.unwrap(), json!({"a": {}, "c": {"b": 2}, "list": [2, 3], "x/y": 2}));
    }

    #[test]
    fn the_null_of_a_missing_field_is_there() {
        let test = |path: &str, value: Value| json!([{"op": "test", "path": path, "value": value}]);
        let object = json!({"metadata": {"name": "a", "none": null}});
        assert!(patched(object.clone(), test("/metadata/finalizers", json!(null))).is_ok());
        assert!(patched(object.clone(), test("/x/y/z", json!(null))).is_ok());
        assert!(patched(object.clone(), test("/metadata/none", json!(null))).is_ok());
        assert!(patched(object.clone(), json!([{"op": "test", "path": "/metadata/finalizers"}])).is_ok());
        assert_eq!(patched(object.clone(), test("/metadata/name", json!(null))).unwrap_err().code, 422);
        assert_eq!(patched(object, test("/metadata/finalizers", json!([]))).unwrap_err().code, 422);
    }

    #[test]
    fn what_cannot_be_done_is_rejected_and_what_is_no_patch_is_bad() {
        for bad in [
            json!([{"op": "remove", "path": "/nope"}]),
            json!([{"op": "replace", "path": "/nope", "value": 1}]),
            json!([{"op": "add", "path": "/nope/x", "value": 1}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
            json!([{"op": "jump", "path": "/a"}]),
            json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
        ] {
            let refused = patched(json!({"a": {"c": 1}}), bad.clone()).unwrap_err();
            assert_eq!(refused.code, 422, "{bad}");
            assert_eq!(refused.message, "the server rejected our request due to an error in our request");
        }
        for bad in [json!({}), json!(1), json!(["x"])] {
            assert_eq!(patched(json!({}), bad.clone()).unwrap_err().code, 400, "{bad}");
        }
    }

    #[test]
    fn a_patch_cannot_grow_an_object_without_end() {
        let many = vec![json!({"op": "test", "path": "/a"}); OPERATIONS_MAX + 1];
        assert_eq!(patched(json!({}), json!(many)).unwrap_err().code, 413);
        let copies: Vec<Value> =
            (0..40).map(|number| json!({"op": "copy", "from": "/a", "path": format!("/a/{number}")})).collect();
        assert_eq!(patched(json!({"a": {"x": "y".repeat(1000)}}), json!(copies)).unwrap_err().code, 413);
        let list = json!({"a": vec![0; 10_000]});
        let there_and_back =
            [json!({"op": "move", "from": "/a", "path": "/b"}), json!({"op": "move", "from": "/b", "path": "/a"})];
        let moves: Vec<Value> = there_and_back.iter().cycle().take(5000).cloned().collect();
        assert_eq!(patched(list.clone(), json!(moves)).unwrap_err().code, 413, "each looks at all of it");
        assert!(patched(list.clone(), json!(moves[..100])).is_ok());
        let removals = vec![json!({"op": "remove", "path": "/a/0"}); 5000];
        assert_eq!(patched(list.clone(), json!(removals)).unwrap_err().code, 413, "each moves all behind it");
        assert!(patched(list, json!(removals[..100])).is_ok());
        let mut path = String::new();
        let mut deep = Vec::new();
        for _ in 0..500 {
            path.push_str("/a");
            deep.push(json!({"op": "add", "path": path, "value": {}}));
        }
        assert_eq!(patched(json!({}), json!(deep)).unwrap_err().code, 422);
    }
}
