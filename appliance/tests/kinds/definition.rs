//! A CustomResourceDefinition, and Kubernetes' verdict on an object by it. It is written from the words of the
//! definition alone, so that it shares no mistake with the shapes that it is compared with.

use std::collections::BTreeSet;

use regex::bytes::RegexBuilder;
use serde_json::{Map, Value, json};

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The object is accepted; this is what is stored.
    Taken(Value),
    /// Strict validation refuses it for unknown fields.
    Unknown(String),
    /// The fields that are wrong.
    Wrong(BTreeSet<String>),
}

pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    version: String,
    has_status: bool,
    schema: Value,
}

/// Tells whether the kind has rules beside its definition.
pub(crate) fn has_rules(kind: &str) -> bool {
    [
        "HostClaim",
        "HostDeployPolicy",
        "HostFirmwareComponents",
        "DataImage",
        "BMCEventSubscription",
        "HostNetworkAttachment",
        "MachineConfiguration",
        "MachineConfigPool",
    ]
    .contains(&kind)
}

impl Definition {
    pub(crate) fn of(crd: &Value) -> Self {
        let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            group: text(&spec["group"]),
            kind: text(&spec["names"]["kind"]),
            namespaced: spec["scope"] == "Namespaced",
            version: text(&version["name"]),
            has_status: version["subresources"].get("status").is_some(),
            schema: version["schema"]["openAPIV3Schema"].clone(),
        }
    }

    pub(crate) fn is_of(&self, object: &Value) -> bool {
        object["apiVersion"] == format!("{}/{}", self.group, self.version) && object["kind"] == self.kind
    }

    /// Returns the object with defaults and without unknown fields.
    pub(crate) fn conformed(&self, object: &Value) -> Value {
        let mut object = object.clone();
        prune(&self.schema, "", &mut object, &mut Vec::new());
        fill(&self.schema, &mut object);
        object
    }

    /// Decides what happens when the object is created.
    pub(crate) fn judge(&self, object: &Value) -> Verdict {
        let mut object = object.clone();
        if self.has_status {
            object.as_object_mut().unwrap().remove("status");
        }
        let mut unknown = Vec::new();
        prune(&self.schema, "", &mut object, &mut unknown);
        fill(&self.schema, &mut object);
        let mut wrong = BTreeSet::new();
        check(&self.schema, "", &object, &mut wrong);
        match (unknown.is_empty(), wrong.is_empty()) {
            (false, _) => Verdict::Unknown(unknown.join(", ")),
            (true, false) => Verdict::Wrong(wrong),
            (true, true) => Verdict::Taken(object),
        }
    }

    /// Makes an object that follows the definition in part.
    pub(crate) fn chance(&self, dice: &mut Dice) -> Value {
        let mut object = value(&self.schema, dice);
        if !object.is_object() {
            object = json!({});
        }
        let Value::Object(map) = &mut object else { panic!("a kind is an object") };
        map.insert("apiVersion".to_owned(), json!(format!("{}/{}", self.group, self.version)));
        map.insert("kind".to_owned(), json!(self.kind));
        if self.has_status {
            map.remove("status");
        }
        object
    }
}

fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn child<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema["properties"].get(name).or_else(|| schema.get("additionalProperties").filter(|values| values.is_object()))
}

fn at(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn prune(schema: &Value, path: &str, value: &mut Value, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) if schema["type"] == "object" => map.retain(|name, value| {
            if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                return true;
            }
            match child(schema, name) {
                Some(child) => {
                    prune(child, &at(path, name), value, unknown);
                    true
                }
                None if is_open(schema) => true,
                None => {
                    unknown.push(format!("{:?}", at(path, name)));
                    false
                }
            }
        }),
        Value::Array(items) if schema["type"] == "array" => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(&schema["items"], &format!("{path}[{index}]"), item, unknown);
            }
        }
        _ => {}
    }
}

/// Removes nulls that the schema does not allow, and adds defaults.
fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) if schema["type"] == "object" => {
            map.retain(|name, value| {
                let child = child(schema, name).filter(|_| name != "metadata");
                !(value.is_null()
                    && child.is_some_and(|child| child["nullable"] != true && child.get("default").is_none()))
            });
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let missing = map.get(name).is_none_or(|value| value.is_null() && property["nullable"] != true);
                if let Some(default) = property.get("default").filter(|_| missing) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(child) = child(schema, name) {
                    fill(child, value);
                }
            }
        }
        Value::Array(items) if schema["type"] == "array" => {
            items.iter_mut().for_each(|item| fill(&schema["items"], item))
        }
        _ => {}
    }
}

fn check(schema: &Value, path: &str, value: &Value, wrong: &mut BTreeSet<String>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("number") => value.is_number(),
        Some(other) => panic!("{other}"),
        None if schema["x-kubernetes-int-or-string"] == true => value.is_string() || value.is_i64(),
        None => true,
    };
    let mut fault = |bad: bool| {
        if bad {
            wrong.insert(path.to_owned());
        }
    };
    if !fits {
        return fault(true);
    }
    let number = |word: &str| schema[word].as_f64();
    let size = |word: &str| schema[word].as_u64().and_then(|size| usize::try_from(size).ok());
    fault(schema["enum"].as_array().is_some_and(|words| !words.contains(value)));
    fault(value.as_f64().is_some_and(|found| number("minimum").is_some_and(|min| found < min)));
    fault(value.as_f64().is_some_and(|found| number("maximum").is_some_and(|max| found > max)));
    if let Some(text) = value.as_str() {
        let (chars, pattern) = (text.chars().count(), schema["pattern"].as_str());
        fault(size("minLength").is_some_and(|min| chars < min) || size("maxLength").is_some_and(|max| chars > max));
        let matches =
            |pattern: &str| RegexBuilder::new(pattern).unicode(false).build().unwrap().is_match(text.as_bytes());
        fault(pattern.is_some_and(|pattern| !matches(pattern)));
        fault(schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err());
    }
    if let Some(items) = value.as_array() {
        fault(
            size("minItems").is_some_and(|min| items.len() < min)
                || size("maxItems").is_some_and(|max| items.len() > max),
        );
        for (index, item) in items.iter().enumerate() {
            check(&schema["items"], &format!("{path}[{index}]"), item, wrong);
        }
        wrong.extend(repeated(schema, items).into_iter().map(|index| format!("{path}[{index}]")));
    }
    if let Some(map) = value.as_object().filter(|_| schema["type"] == "object") {
        if size("minProperties").is_some_and(|min| map.len() < min) {
            wrong.insert(path.to_owned());
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !map.contains_key(name) {
                wrong.insert(at(path, name));
            }
        }
        for (name, value) in map.iter().filter(|(name, _)| !(path.is_empty() && *name == "metadata")) {
            if let Some(child) = child(schema, name) {
                check(child, &at(path, name), value, wrong);
            }
        }
    }
}

/// Finds repeated items of a list whose items have keys, or are keys.
fn repeated(schema: &Value, items: &[Value]) -> Vec<usize> {
    let key = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let names = schema["x-kubernetes-list-map-keys"].as_array()?.iter().map(|name| name.as_str().unwrap());
            names.map(|name| item.get(name).cloned()).collect::<Option<Vec<Value>>>()
        }
        Some("set") => Some(vec![item.clone()]),
        _ => None,
    };
    let keys: Vec<_> = items.iter().map(key).collect();
    let is_repeated = |index: &usize| keys[*index].is_some() && keys[..*index].contains(&keys[*index]);
    (0..items.len()).filter(is_repeated).collect()
}

/// Random numbers, the same in each run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: &str) -> Self {
        Self(
            seed.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)),
        )
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.roll(of.len() as u64)).unwrap()].clone()
    }

    /// Returns a number below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Makes a value that mostly follows the schema.
fn value(schema: &Value, dice: &mut Dice) -> Value {
    if dice.roll(40) == 0 {
        return dice.pick(&[json!(null), json!(1), json!("x"), json!(true), json!([]), json!({})]);
    }
    if let Some(words) = schema["enum"].as_array().filter(|_| dice.roll(20) > 0) {
        return dice.pick(words);
    }
    let kind = schema["type"].as_str().unwrap_or(if dice.roll(2) == 0 { "string" } else { "integer" });
    match kind {
        "object" => object(schema, dice),
        "array" => (0..dice.roll(3)).map(|_| value(&schema["items"], dice)).collect(),
        "boolean" => json!(dice.roll(2) == 0),
        "integer" => json!(dice.roll(6000).cast_signed() - 5),
        "number" => json!(dice.roll(1000) as f64 / 8.0),
        _ if schema["format"] == "date-time" => json!("2026-01-02T03:04:05Z"),
        _ => json!(dice.pick(&["", "a", "100-200", "52:54:00:12:34:56", "http://a.example/b"])),
    }
}

fn object(schema: &Value, dice: &mut Dice) -> Value {
    let mut map = Map::new();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let chance = if required.contains(&json!(name)) || name == "spec" { 30 } else { 2 };
        if dice.roll(chance) > 0 {
            map.insert(name.clone(), value(property, dice));
        }
    }
    if schema["additionalProperties"].is_object() {
        for name in ["one", "two"] {
            map.insert(name.to_owned(), value(&schema["additionalProperties"], dice));
        }
    }
    if dice.roll(30) == 0 {
        map.insert("unheardOf".to_owned(), json!(1));
    }
    Value::Object(map)
}
