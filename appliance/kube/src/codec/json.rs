//! JSON from outside: bounded in depth and width, and with the names that it has twice. Pure.
//!
//! If an object has a name twice, the last value counts, as in Kubernetes. The client chooses whether it gets a warning
//! or a refusal.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::model::field_schema::JsonLocation;
use crate::model::field_validation::{self, FieldValidation};
use crate::model::kind::KindInfo;
use crate::model::status::Status;

/// Levels of a document. The deepest schema of Kubernetes has about thirty. Less than the parser takes
/// (128) that will read what was made of it from the store.
pub const DEPTH_MAX: usize = 100;
/// Fields and items of an object, in all. What is made of an object costs by these (owners of fields, rules, copies in
/// memory), whatever its length; no real object has a tenth of them.
pub const VALUES_MAX: usize = 20_000;
/// Most values of a stored document: an object that a client sends back names the owner of each field.
pub const READ_VALUES_MAX: usize = 2 * VALUES_MAX;
/// Most duplicate names that one document's warnings list.
const DUPLICATES_MAX: usize = 16;
/// Most duplicate names that are kept to find out whether they are listed already, and most letters of each: a path can
/// be as long as the document, and can occur as often as it has names.
const DUPLICATES_WRITTEN_MAX: usize = 256;

/// A document, with the paths that it has twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonDocument {
    pub value: Value,
    /// The paths of the duplicates, as "spec.online", "spec.list[0].name".
    pub duplicates: Vec<String>,
}

/// # Errors
/// When the bytes are no JSON, nested deeper than [`DEPTH_MAX`], or have more than [`READ_VALUES_MAX`] values: then
/// nothing behind the last of these is read.
pub fn read(bytes: &[u8]) -> Result<JsonDocument, serde_json::Error> {
    let reading = DocumentReading::default();
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let value = JsonLevel { depth: 0, place: &JsonLocation::Root, reading: &reading }.deserialize(&mut parser)?;
    parser.end()?;
    Ok(JsonDocument { value, duplicates: reading.duplicates.into_inner().listed })
}

/// Refuses an object that is too wide; who owns its fields does not count.
pub(crate) fn check_width(value: &Value) -> Result<(), Status> {
    let mut left = usize::MAX;
    let owners = value.pointer("/metadata/managedFields");
    let has_counted = owners.is_none_or(|owners| fits(owners, &mut left));
    let mut left = VALUES_MAX.saturating_add(if has_counted { usize::MAX - left } else { 0 });
    if fits(value, &mut left) { Ok(()) } else { Err(Status::too_wide(VALUES_MAX)) }
}

fn fits(value: &Value, left: &mut usize) -> bool {
    let below = match value {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return true,
    };
    let Some(rest) = left.checked_sub(below) else { return false };
    *left = rest;
    match value {
        Value::Object(fields) => fields.values().all(|value| fits(value, left)),
        Value::Array(items) => items.iter().all(|value| fits(value, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

impl JsonDocument {
    /// Warnings about what was said twice, or the refusal that the client asked for.
    pub(crate) fn judge(&self, kind: &KindInfo, validation: FieldValidation) -> Result<Vec<String>, Status> {
        let texts: Vec<String> = self.duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
        match validation {
            FieldValidation::Strict if !texts.is_empty() => Err(field_validation::strict_refusal(kind, &texts)),
            FieldValidation::Warn => Ok(texts),
            FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
        }
    }
}

/// What was said twice.
#[derive(Default)]
struct DuplicateKeys {
    listed: Vec<String>,
    written: usize,
}

impl DuplicateKeys {
    fn note(&mut self, place: &JsonLocation<'_>) {
        if self.listed.len() >= DUPLICATES_MAX || self.written >= DUPLICATES_WRITTEN_MAX {
            return;
        }
        self.written += 1;
        let path = place.cut();
        if !self.listed.contains(&path) {
            self.listed.push(path);
        }
    }
}

/// What is known of a document while it is read.
#[derive(Default)]
struct DocumentReading {
    duplicates: RefCell<DuplicateKeys>,
    values: Cell<usize>,
}

struct JsonLevel<'a> {
    depth: usize,
    place: &'a JsonLocation<'a>,
    reading: &'a DocumentReading,
}

impl JsonLevel<'_> {
    /// Takes note of one more value.
    fn count<E: serde::de::Error>(&self) -> Result<(), E> {
        let values = self.reading.values.get() + 1;
        if values > READ_VALUES_MAX {
            return Err(E::custom(format_args!("more than {READ_VALUES_MAX} fields and items")));
        }
        self.reading.values.set(values);
        Ok(())
    }

    fn child_depth<E: serde::de::Error>(&self) -> Result<usize, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(format_args!("nested deeper than {DEPTH_MAX} levels")));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for JsonLevel<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonLevel<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.child_depth()?;
        let mut list = Vec::new();
        loop {
            let place = JsonLocation::Item(self.place, list.len());
            match items.next_element_seed(JsonLevel { depth, place: &place, reading: self.reading })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
            self.count::<A::Error>()?;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let depth = self.child_depth()?;
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.count::<A::Error>()?;
            let place = JsonLocation::Field(self.place, &name);
            let value = fields.next_value_seed(JsonLevel { depth, place: &place, reading: self.reading })?;
            if map.contains_key(&name) {
                self.reading.duplicates.try_borrow_mut().map_err(A::Error::custom)?.note(&place);
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_said_twice_is_told_with_its_place_and_the_last_counts() {
        let read = read(br#"{"a":1,"spec":{"b":[{"c":1,"c":2}],"b":[{"c":3,"c":4}]},"a":{"x":1}}"#).unwrap();
        assert_eq!(read.value, json!({"a": {"x": 1}, "spec": {"b": [{"c": 4}]}}));
        assert_eq!(read.duplicates, ["spec.b[0].c", "spec.b", "a"]);
        let many: String = (0..1000).map(|n| format!("\"k{n}\":1,\"k{n}\":2,")).collect();
        let many = super::read(format!("{{{}}}", many.trim_end_matches(',')).as_bytes()).unwrap();
        assert_eq!(many.duplicates.len(), DUPLICATES_MAX);
    }

    #[test]
    fn a_long_place_is_cut() {
        let long = "k".repeat(100_000);
        let text = format!("{{\"{long}\":{{{}\"b\":1,\"b\":2}}}}", "\"a\":1,".repeat(2000));
        let told = read(text.as_bytes()).unwrap().duplicates;
        assert!(!told.is_empty() && told.iter().all(|path| path.chars().count() <= 256), "{}", told.len());
    }

    #[test]
    fn the_depth_is_bounded_and_what_is_read_can_be_stored() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
            let deepest = read(nested(DEPTH_MAX).as_bytes()).unwrap();
            assert!(serde_json::from_str::<Value>(&deepest.value.to_string()).is_ok());
            for levels in [DEPTH_MAX + 1, 100_000] {
                let error = read(nested(levels).as_bytes()).unwrap_err().to_string();
                assert!(error.contains("nested deeper than 100 levels"), "{error}");
            }
        }
    }

    /// 200,000 keys stalled all others for two seconds.
    #[test]
    fn the_width_is_bounded_and_what_is_behind_the_bound_is_not_read() {
        let keys = |count: usize| (0..count).map(|key| format!("\"k{key}\":\"v\"")).collect::<Vec<_>>().join(",");
        let items = |count: usize| vec!["[1]"; count / 2].join(",");
        let wide = |count: usize| [format!("{{{}}}", keys(count)), format!("[{}]", items(count))];
        for text in wide(VALUES_MAX) {
            let value = read(text.as_bytes()).unwrap().value;
            assert!(check_width(&value).is_ok());
            let status = check_width(&json!([value])).unwrap_err();
            assert_eq!((status.code, status.reason), (413, "RequestEntityTooLarge"));
            let owned = json!({ "data": read(wide(VALUES_MAX - 4)[0].as_bytes()).unwrap().value,
                "metadata": { "managedFields": value } });
            assert!(check_width(&owned).is_ok() && read(owned.to_string().as_bytes()).is_ok());
        }
        for text in wide(READ_VALUES_MAX + 2) {
            let cut = format!("{} this is no JSON", &text[..text.len() - 1]);
            for text in [text, cut] {
                let error = read(text.as_bytes()).unwrap_err().to_string();
                assert!(error.contains("more than 40000 fields and items"), "{error}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_reads_as_any_other_parser(text in r#"(\{("a":|"b":)?|\[|\]|\}|1|-0.5e3|true|null|"x\\n"|,){0,9}"#) {
            let other = serde_json::from_str::<Value>(&text);
            prop_assert_eq!(read(text.as_bytes()).ok().map(|read| read.value), other.ok());
        }
    }
}
