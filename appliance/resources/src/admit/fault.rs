//! Which field of an object is not what its type takes. A decoder says what is wrong, and not where.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decode;
use crate::shape::join;

/// Fields that are looked at in one object or list: beyond that the field around them is named.
const LOOKED_AT_MAX: usize = 64;
/// Levels of fields.
const DEPTH_MAX: usize = 8;

/// The path of the innermost field without which the object can be decoded; empty where there is no such field.
pub(super) fn field<T: DeserializeOwned>(object: &Value) -> String {
    let (mut path, mut pointer) = (String::new(), String::new());
    if decode::<T>(object).is_ok() {
        return path;
    }
    for _ in 0..DEPTH_MAX {
        let Some(inside) = object.pointer(&pointer) else { break };
        let Some((next_path, next_pointer)) = step::<T>(object, inside, &path, &pointer) else { break };
        (path, pointer) = (next_path, next_pointer);
    }
    path
}

fn step<T: DeserializeOwned>(object: &Value, inside: &Value, path: &str, pointer: &str) -> Option<(String, String)> {
    match inside {
        Value::Object(fields) => fields.keys().take(LOOKED_AT_MAX).find_map(|name| {
            let mut without = object.clone();
            without.pointer_mut(pointer)?.as_object_mut()?.remove(name);
            let escaped = name.replace('~', "~0").replace('/', "~1");
            decode::<T>(&without).is_ok().then(|| (join(path, name), format!("{pointer}/{escaped}")))
        }),
        Value::Array(items) => (0..items.len().min(LOOKED_AT_MAX)).find_map(|index| {
            let mut without = object.clone();
            without.pointer_mut(pointer)?.as_array_mut()?.remove(index);
            decode::<T>(&without).is_ok().then(|| (format!("{path}[{index}]"), format!("{pointer}/{index}")))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::BareMetalHost;

    #[test]
    fn the_innermost_field_is_named() {
        let of = |object: Value| field::<BareMetalHost>(&object);
        assert_eq!(of(json!({"spec": {"online": 3, "description": "a"}})), "spec.online");
        assert_eq!(of(json!({"status": {"errorCount": -1}})), "status.errorCount");
        let conditions = json!([{"type": "A", "status": "True"}, {"type": "B", "status": "Maybe"}]);
        assert_eq!(of(json!({"status": {"conditions": conditions}})), "status.conditions[1].status");
        assert_eq!(of(json!({"metadata": {"annotations": {"a/b~c": 1}}})), "metadata.annotations.a/b~c");
        assert_eq!(of(json!({"spec": {"online": true}})), "", "nothing is wrong");
        assert_eq!(of(json!({"spec": {"online": 1, "description": 2}})), "spec", "more than one field");
    }
}
