//! The values of Secrets in a comparison: that one changed is shown, and not what it is. Pure.

use serde_json::Value;

const MASK: &str = "***";
const BEFORE: &str = "*** (before)";
const AFTER: &str = "*** (after)";
/// The record of kubectl's own apply holds the whole Secret.
const RECORD: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// Hides the values of a Secret in both of its states; other objects stay as they are.
pub(super) fn hide(before: &mut Value, after: &mut Value) {
    let is_secret = |object: &Value| object["apiVersion"] == "v1" && object["kind"] == "Secret";
    if !is_secret(before) && !is_secret(after) {
        return;
    }
    for part in ["/data", "/stringData"] {
        let (old, new) = (before.pointer(part).cloned(), after.pointer(part).cloned());
        for (object, other, mark) in [(&mut *before, &new, BEFORE), (&mut *after, &old, AFTER)] {
            for (key, value) in object.pointer_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
                let other = other.as_ref().and_then(|part| part.get(key));
                let is_changed = other.is_some_and(|other| other != value);
                *value = Value::String(if is_changed { mark } else { MASK }.to_owned());
            }
        }
    }
    let is_changed = before.pointer(RECORD) != after.pointer(RECORD);
    for (object, mark) in [(before, BEFORE), (after, AFTER)] {
        if let Some(record) = object.pointer_mut(RECORD) {
            *record = Value::String(if is_changed { mark } else { MASK }.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_shows_which_values_changed_and_none_of_them() {
        let secret =
            |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data});
        let mut before = secret(json!({"same": "c2FtZQ==", "changed": "b2xk", "gone": "Z29uZQ=="}));
        before["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"b2xk\"}"});
        let mut after = secret(json!({"same": "c2FtZQ==", "changed": "bmV3", "new": "bmV3"}));
        hide(&mut before, &mut after);
        assert_eq!(before["data"], json!({"same": "***", "changed": "*** (before)", "gone": "***"}));
        assert_eq!(after["data"], json!({"same": "***", "changed": "*** (after)", "new": "***"}));
        assert!(!before.to_string().contains("b2xk"), "{before}");
    }

    #[test]
    fn other_objects_are_shown() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        let (mut before, mut after) = (Value::Null, map.clone());
        hide(&mut before, &mut after);
        assert_eq!((before, after), (Value::Null, map));
        let mut new = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "b"}});
        hide(&mut Value::Null, &mut new);
        assert_eq!(new["data"]["a"], "***");
    }
}
