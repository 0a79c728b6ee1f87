//! Whether an applied object has its kind's form, in the words of Kubernetes, which prints Go's
//! values: clients and people know these sentences.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{set::shown as shown_element, walk::element};
use crate::model::field_schema::{ListType, Schema};

/// Most faults of one object: longer answers are not read.
const FAULTS_MAX: usize = 32;

/// Letters of one fault: a place can be as long as the object, and have many faults in it.
const FAULT_CHARS_MAX: usize = 2048;

/// How a value is shown.
type Shown = fn(&Value) -> String;

/// Where a value stands; written down only where something is wrong.
#[derive(Clone, Copy)]
enum ApplyLocation<'a> {
    Root,
    Field(&'a ApplyLocation<'a>, &'a str),
    /// An item with a key.
    Element(&'a ApplyLocation<'a>, &'a str),
    Item(&'a ApplyLocation<'a>, usize),
}

impl fmt::Display for ApplyLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, key) => write!(f, "{parent}{}", shown_element(key)),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[derive(Default)]
struct ApplyFaults(Vec<String>);

impl ApplyFaults {
    fn push(&mut self, place: &ApplyLocation<'_>, text: fmt::Arguments<'_>) {
        if !self.are_enough() {
            self.0.push(format!("{place}: {text}").chars().take(FAULT_CHARS_MAX).collect());
        }
    }

    fn are_enough(&self) -> bool {
        self.0.len() >= FAULTS_MAX
    }
}

/// Lists the faults of an object. `hides`: values are not shown.
pub(super) fn faults(schema: &Schema, object: &Value, hides: bool) -> Vec<String> {
    let shown: Shown = if hides { |_| "<hidden>".to_owned() } else { go_value };
    let mut faults = ApplyFaults::default();
    check(schema, object, &ApplyLocation::Root, shown, &mut faults);
    faults.0
}

fn check(schema: &Schema, value: &Value, place: &ApplyLocation<'_>, shown: Shown, faults: &mut ApplyFaults) {
    if value.is_null() || faults.are_enough() {
        return;
    }
    let unstructured = || format!("&value.valueUnstructured{{Value:{}}}", shown(value));
    match (schema, value) {
        (Schema::Any, _)
        | (Schema::Boolean, Value::Bool(_))
        | (Schema::Number, Value::Number(_))
        | (Schema::Text, Value::String(_)) => {}
        (Schema::Atomic(inner), _) => check(inner, value, place, shown, faults),
        (Schema::Object(_), Value::Object(fields)) => {
            for (name, value) in fields {
                let place = ApplyLocation::Field(place, name);
                match schema.field(name) {
                    Some((schema, _)) => check(schema, value, &place, shown, faults),
                    None => faults.push(&place, format_args!("field not declared in schema")),
                }
            }
        }
        (Schema::List(item, list_type), Value::Array(items)) => {
            check_items(item, list_type, items, place, shown, faults);
        }
        (Schema::Boolean, _) => faults.push(place, format_args!("expected boolean, got &{{{}}}", shown(value))),
        (Schema::Number, _) => {
            faults.push(place, format_args!("expected numeric (int or float), got {}", go_type(value)));
        }
        (Schema::Text, _) => faults.push(place, format_args!("expected string, got {}", unstructured())),
        (Schema::Object(_), _) => faults.push(place, format_args!("expected map, got &{{{}}}", shown(value))),
        (Schema::List(..), _) => faults.push(place, format_args!("expected list, got &{{{}}}", shown(value))),
    }
}

fn check_items(
    schema: &Schema,
    list_type: &ListType,
    items: &[Value],
    list: &ApplyLocation<'_>,
    shown: Shown,
    faults: &mut ApplyFaults,
) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let known = element(list_type, item);
        match (list_type, &known) {
            (ListType::Keyed(keys), None) => {
                let missing =
                    keys.iter().find(|key| item.get(*key).is_none_or(Value::is_null)).map_or("", String::as_str);
                let text = "associative list with keys has an element that omits key field";
                let rest = "(and doesn't have default value)";
                faults.push(list, format_args!("element {index}: {text} {missing:?} {rest}"));
            }
            (ListType::Set, None) => {
                let text = "associative list without keys has an element that's a map type";
                faults.push(list, format_args!("element {index}: {text}"));
            }
            _ => {}
        }
        let place = match &known {
            Some(key) if !seen.insert(key.clone()) => {
                faults.push(list, format_args!("duplicate entries for key {}", shown_element(key)));
                continue;
            }
            Some(key) => ApplyLocation::Element(list, key),
            None => ApplyLocation::Item(list, index),
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
