//! The shape of a JSON document: which fields exist, of which type, which are required.
//!
//! One constant tree per kind (and one for Ignition configs) gives the list of unknown fields,
//! the type errors with their field paths, and later the kind's OpenAPI schema. A test compares
//! the trees with upstream's schemas. Meaning beyond types is not known here.

use serde_json::{Map, Value};

use crate::{cause::Cause, meta::normal_mac};

/// Most findings of one kind for one document: beyond that nobody reads on.
pub const FINDINGS_MAX: usize = 64;

#[derive(Debug)]
pub enum Shape {
    Boolean,
    Integer {
        min: Option<i64>,
        max: Option<i64>,
    },
    Number,
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// RFC 3339.
    Time,
    /// A MAC address with colons; upstream's pattern for some fields is not anchored.
    Mac {
        anchored: bool,
    },
    /// Anything at all.
    Any,
    Map(&'static Shape),
    List(&'static Shape),
    Object(&'static [Field]),
}

impl Shape {
    pub const INTEGER: Self = Self::Integer { min: None, max: None };
    /// An integer of at least 0.
    pub const NATURAL: Self = Self::Integer { min: Some(0), max: None };
}

#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub required: bool,
    pub shape: &'static Shape,
    /// Of a list: the fields that tell its items apart, so that each item may have its own owner.
    pub list_keys: &'static [&'static str],
    /// Of an object: it has one owner as a whole.
    pub is_atomic: bool,
}

impl Field {
    #[must_use]
    pub const fn new(name: &'static str, shape: &'static Shape) -> Self {
        Self { name, required: false, shape, list_keys: &[], is_atomic: false }
    }

    #[must_use]
    pub const fn required(name: &'static str, shape: &'static Shape) -> Self {
        Self { required: true, ..Self::new(name, shape) }
    }

    #[must_use]
    pub const fn keyed_by(self, list_keys: &'static [&'static str]) -> Self {
        Self { list_keys, ..self }
    }

    #[must_use]
    pub const fn atomic(self) -> Self {
        Self { is_atomic: true, ..self }
    }
}

/// What is wrong with a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Paths of fields that the shape does not have.
    pub unknown: Vec<String>,
    pub causes: Vec<Cause>,
}

/// Compares a document with a shape. `path` is put before every field's name; empty for a whole
/// document. A `null` counts as absent.
#[must_use]
pub fn check(shape: &Shape, path: &str, value: &Value) -> Findings {
    let mut findings = Findings::default();
    walk(shape, path, value, &mut findings);
    findings.unknown.truncate(FINDINGS_MAX);
    findings.causes.truncate(FINDINGS_MAX);
    findings
}

/// Compares a whole object with a shape that leaves out some of its fields.
#[must_use]
pub fn check_without(shape: &Shape, left_out: &[&str], map: &Map<String, Value>) -> Findings {
    let mut findings = Findings::default();
    match shape {
        Shape::Object(fields) => {
            let fields = Fields { fields, left_out };
            object(&fields, "", map, &mut findings);
        }
        // Nothing could be left out of these.
        Shape::Boolean
        | Shape::Integer { .. }
        | Shape::Number
        | Shape::Text
        | Shape::OneOf(_)
        | Shape::Time
        | Shape::Mac { .. }
        | Shape::Any
        | Shape::Map(_)
        | Shape::List(_) => walk(shape, "", &Value::Object(map.clone()), &mut findings),
    }
    findings.unknown.truncate(FINDINGS_MAX);
    findings.causes.truncate(FINDINGS_MAX);
    findings
}

/// Removes the fields that the shape does not have (Kubernetes' pruning).
pub fn prune(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Object(fields), Value::Object(map)) => {
            map.retain(|name, _| fields.iter().any(|field| field.name == name));
            for field in *fields {
                if let Some(value) = map.get_mut(field.name) {
                    prune(field.shape, value);
                }
            }
        }
        (Shape::List(item), Value::Array(values)) => values.iter_mut().for_each(|value| prune(item, value)),
        (Shape::Map(item), Value::Object(map)) => map.values_mut().for_each(|value| prune(item, value)),
        _ => {}
    }
}

/// `spec.bmc` + `address` → `spec.bmc.address`.
#[must_use]
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn walk(shape: &Shape, path: &str, value: &Value, findings: &mut Findings) {
    if value.is_null() {
        return;
    }
    match shape {
        Shape::Any => {}
        Shape::Boolean => expect(value.is_boolean(), "boolean", path, value, findings),
        Shape::Number => expect(value.is_number(), "number", path, value, findings),
        Shape::Text => expect(value.is_string(), "string", path, value, findings),
        Shape::Integer { min, max } => integer(*min, *max, path, value, findings),
        Shape::OneOf(words) => match value.as_str() {
            Some(word) if words.contains(&word) => {}
            Some(word) => findings.causes.push(Cause::not_supported(path, word, words)),
            None => expect(false, "string", path, value, findings),
        },
        Shape::Time => text_rule(path, value, findings, |text| {
            (text.parse::<jiff::Timestamp>().is_err()).then_some("must be a time as in RFC 3339")
        }),
        Shape::Mac { .. } => text_rule(path, value, findings, |text| {
            (text.contains('-') || normal_mac(text).is_none())
                .then_some("must be a MAC address such as 52:54:00:12:34:56")
        }),
        Shape::Map(item) => match value.as_object() {
            Some(map) => map.iter().for_each(|(name, value)| walk(item, &join(path, name), value, findings)),
            None => expect(false, "object", path, value, findings),
        },
        Shape::List(item) => match value.as_array() {
            Some(values) => {
                for (index, value) in values.iter().enumerate() {
                    walk(item, &format!("{path}[{index}]"), value, findings);
                }
            }
            None => expect(false, "array", path, value, findings),
        },
        Shape::Object(fields) => match value.as_object() {
            Some(map) => object(&Fields { fields, left_out: &[] }, path, map, findings),
            None => expect(false, "object", path, value, findings),
        },
    }
}

/// What an object may have, and what of it others look after.
struct Fields<'a> {
    fields: &'a [Field],
    left_out: &'a [&'a str],
}

fn object(expected: &Fields<'_>, path: &str, map: &Map<String, Value>, findings: &mut Findings) {
    let fields = expected.fields;
    for (name, value) in map.iter().filter(|(name, _)| !expected.left_out.contains(&name.as_str())) {
        match fields.iter().find(|field| field.name == name) {
            Some(field) => walk(field.shape, &join(path, name), value, findings),
            None if findings.unknown.len() < FINDINGS_MAX => findings.unknown.push(join(path, name)),
            None => {}
        }
    }
    for field in fields.iter().filter(|field| field.required) {
        if map.get(field.name).is_none_or(Value::is_null) {
            findings.causes.push(Cause::required(&join(path, field.name), ""));
        }
    }
}

fn integer(min: Option<i64>, max: Option<i64>, path: &str, value: &Value, findings: &mut Findings) {
    // Kubernetes takes 1.0 as an integer; so do the clients that write it.
    #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53, checked beside")]
    let number =
        value.as_i64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64));
    let Some(number) = number else {
        return expect(false, "integer", path, value, findings);
    };
    if let Some(min) = min.filter(|min| number < *min) {
        let why = format!("{path} in body should be greater than or equal to {min}");
        findings.causes.push(Cause::invalid(path, &number.to_string(), &why));
    }
    if let Some(max) = max.filter(|max| number > *max) {
        let why = format!("{path} in body should be less than or equal to {max}");
        findings.causes.push(Cause::invalid(path, &number.to_string(), &why));
    }
}

fn text_rule(path: &str, value: &Value, findings: &mut Findings, rule: impl Fn(&str) -> Option<&'static str>) {
    match value.as_str() {
        Some(text) => {
            if let Some(why) = rule(text) {
                findings.causes.push(Cause::invalid(path, text, why));
            }
        }
        None => expect(false, "string", path, value, findings),
    }
}

fn expect(good: bool, wanted: &str, path: &str, value: &Value, findings: &mut Findings) {
    if !good && findings.causes.len() < FINDINGS_MAX {
        findings.causes.push(Cause::type_invalid(path, type_name(value), wanted));
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHAPE: Shape = Shape::Object(&[
        Field::required("online", &Shape::Boolean),
        Field::new("size", &Shape::NATURAL),
        Field::new("mode", &Shape::OneOf(&["a", "b"])),
        Field::new("list", &Shape::List(&Shape::Object(&[Field::required("mac", &Shape::Mac { anchored: true })]))),
    ]);

    #[test]
    fn every_kind_of_finding_has_its_path() {
        let value =
            json!({"online": "yes", "size": -1, "mode": "c", "foo": 1, "list": [{"mac": "x", "bar": null}, {}]});
        let findings = check(&SHAPE, "spec", &value);
        assert_eq!(findings.unknown, ["spec.foo", "spec.list[0].bar"]);
        let texts: Vec<String> = findings.causes.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 5, "{texts:?}");
        assert!(texts.iter().any(|text| text
            == "spec.online: Invalid value: \"string\": spec.online in body must be of type boolean: \"string\""));
        assert!(texts.iter().any(|text| text == "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\""));
        assert!(texts.iter().any(|text| text == "spec.list[1].mac: Required value"));
    }

    #[test]
    fn pruning_removes_what_is_unknown_only() {
        let mut value = json!({"online": true, "foo": 1, "list": [{"mac": "52:54:00:12:34:56", "bar": 1}]});
        prune(&SHAPE, &mut value);
        assert_eq!(value, json!({"online": true, "list": [{"mac": "52:54:00:12:34:56"}]}));
        assert_eq!(check(&SHAPE, "", &value), Findings::default());
    }
}
