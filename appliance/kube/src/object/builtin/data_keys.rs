//! The names under which Secrets and ConfigMaps keep values: they become file names, so they are as narrow as
//! Kubernetes has them (`IsConfigMapKey` in apimachinery's validation).

use firesteel_kube_types::Cause;
use serde_json::{Map, Value, json};

const KEY_CHARS_MAX: usize = 253;

/// Adds what is wrong with the names below these fields; a name may stand below one of them only.
pub(super) fn check(value: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    for field in fields {
        let values = value[*field].as_object().into_iter().flat_map(Map::keys);
        for key in values {
            let path = format!("{field}[{key}]");
            causes.extend(faults(key).into_iter().map(|why| Cause::invalid_json(&path, &json!(key), &why)));
        }
    }
    let [first, others @ ..] = fields else { return };
    for key in value[*first].as_object().into_iter().flat_map(Map::keys) {
        for other in others.iter().filter(|other| value[**other].get(key).is_some()) {
            let why = format!("duplicate of key present in {other}");
            causes.push(Cause::invalid_json(&format!("{first}[{key}]"), &json!(key), &why));
        }
    }
}

fn faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if key.len() > KEY_CHARS_MAX {
        faults.push(format!("must be no more than {KEY_CHARS_MAX} characters"));
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." | ".." => faults.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(value: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        check(value, &["data", "binaryData"], &mut causes);
        causes
    }

    #[test]
    fn names_are_as_narrow_as_upstreams() {
        for good in ["a", "A.b-c_9", ".hidden", "a..b", &"k".repeat(KEY_CHARS_MAX)] {
            assert!(faults(good).is_empty(), "{good}");
        }
        for bad in ["", "a b", "a/b", "ä", "a\n", ".", "..", "..a", &"k".repeat(KEY_CHARS_MAX + 1)] {
            assert_eq!(faults(bad).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_name_stands_once_and_the_path_says_where() {
        let found = causes(&json!({ "data": { "a": "1", "b/": "2" }, "binaryData": { "a": "" } }));
        let fields: Vec<&str> = found.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["data[b/]", "data[a]"]);
        assert!(found[1].message.ends_with("duplicate of key present in binaryData"), "{found:?}");
    }
}
