//! Whether an applied object has its kind's form, in the words of Kubernetes, which prints Go's
//! values: clients and people know these sentences.

use serde_json::Value;

use super::schema::{ListType, Schema};
use super::walk::element;

/// Most faults of one object: beyond that nobody reads on.
const FAULTS_MAX: usize = 32;

/// How a value is shown.
type Shown = fn(&Value) -> String;

/// `hides`: values are not told.
pub(super) fn faults(schema: &Schema, object: &Value, hides: bool) -> Vec<String> {
    let shown: Shown = if hides { |_| "<hidden>".to_owned() } else { go_value };
    let mut faults = Vec::new();
    check(schema, object, "", shown, &mut faults);
    faults.truncate(FAULTS_MAX);
    faults
}

fn check(schema: &Schema, value: &Value, path: &str, shown: Shown, faults: &mut Vec<String>) {
    if value.is_null() || faults.len() >= FAULTS_MAX {
        return;
    }
    let mut expect = |good: bool, text: String| {
        if !good {
            faults.push(format!("{path}: expected {text}"));
        }
        good
    };
    let unstructured = || format!("&value.valueUnstructured{{Value:{}}}", shown(value));
    match schema {
        Schema::Any => {}
        Schema::Boolean => drop(expect(value.is_boolean(), format!("boolean, got &{{{}}}", shown(value)))),
        Schema::Number => drop(expect(value.is_number(), format!("numeric (int or float), got {}", go_type(value)))),
        Schema::Text => drop(expect(value.is_string(), format!("string, got {}", unstructured()))),
        Schema::Atomic(inner) => check(inner, value, path, shown, faults),
        Schema::Object(_) => {
            if !expect(value.is_object(), format!("map, got &{{{}}}", shown(value))) {
                return;
            }
            for (name, value) in value.as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                match schema.field(name) {
                    Some((schema, _)) => check(schema, value, &path, shown, faults),
                    None => faults.push(format!("{path}: field not declared in schema")),
                }
            }
        }
        Schema::List(item, list_type) => {
            if expect(value.is_array(), format!("list, got &{{{}}}", shown(value))) {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                check_items((item, list_type), items, path, shown, faults);
            }
        }
    }
}

fn check_items(
    (schema, list_type): (&Schema, &ListType),
    items: &[Value],
    path: &str,
    shown: Shown,
    faults: &mut Vec<String>,
) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let known = element(list_type, item);
        match (list_type, &known) {
            (ListType::Keyed(keys), None) => {
                let missing =
                    keys.iter().find(|key| item.get(*key).is_none_or(Value::is_null)).map_or("", String::as_str);
                faults.push(format!(
                    "{path}: element {index}: associative list with keys has an element that omits key field {missing:?} (and doesn't have default value)"
                ));
            }
            (ListType::Set, None) => {
                faults.push(format!(
                    "{path}: element {index}: associative list without keys has an element that's a map type"
                ));
            }
            _ => {}
        }
        let place = match &known {
            Some(key) if !seen.insert(key.clone()) => {
                faults.push(format!("{path}: duplicate entries for key {}", super::set::shown(key)));
                continue;
            }
            Some(key) => format!("{path}{}", super::set::shown(key)),
            None => format!("{path}[{index}]"),
        };
        check(schema, item, &place, shown, faults);
    }
}

fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(list) => format!("[{}]", list.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields: Vec<String> = map.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_fault_is_told_with_its_path() {
        let text = || json!({ "type": "string" });
        let item = json!({ "type": "object", "properties": { "type": text(), "count": { "type": "integer" } } });
        let items = json!({
            "type": "array", "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        });
        let schema = Schema::of(&json!({
            "type": "object",
            "properties": {
                "on": { "type": "boolean" }, "name": text(), "items": items, "free": {},
                "set": { "type": "array", "items": text(), "x-kubernetes-list-type": "set" },
            },
        }));
        let good = json!({"on": null, "name": "x", "items": [{"type": "A", "count": 1}], "set": ["a"], "free": [{}]});
        assert_eq!(faults(&schema, &good, false), Vec::<String>::new());
        let bad = json!({
            "on": "no", "name": 1, "zz": 1, "set": ["a", "a", {}],
            "items": [{"count": 1}, {"type": "A", "count": "x"}, {"type": "A"}],
        });
        let expected = [
            ".items: element 0: associative list with keys has an element that omits key field \"type\" (and doesn't have default value)",
            ".items[type=\"A\"].count: expected numeric (int or float), got string",
            ".items: duplicate entries for key [type=\"A\"]",
            ".name: expected string, got &value.valueUnstructured{Value:1}",
            ".on: expected boolean, got &{no}",
            ".set: duplicate entries for key [=\"a\"]",
            ".set: element 2: associative list without keys has an element that's a map type",
            ".set[2]: expected string, got &value.valueUnstructured{Value:map[]}",
            ".zz: field not declared in schema",
        ];
        assert_eq!(faults(&schema, &bad, false), expected);

        let hidden = faults(&schema, &json!({"on": "k9", "name": ["k9"], "items": "k9", "set": "k9"}), true);
        assert!(hidden.len() >= 4 && hidden.iter().all(|fault| !fault.contains("k9")), "{hidden:?}");
    }
}
