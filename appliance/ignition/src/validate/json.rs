//! A config's JSON, read so that every program reads the same: a name that stands twice in one object is refused.
//!
//! Ignition (Go's encoding/json) merges both, most others take the last. A config that we add a file or a token to
//! would mean something else afterwards, without a word.

use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value, error::Category};

/// What is wrong with a config's bytes. The text shows a place and never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    #[error("{0}")]
    RepeatedName(String),
    #[error("not JSON: {0}")]
    Syntax(String),
}

/// Reads a config.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, JsonFault> {
    serde_json::from_slice(bytes).map(|UniqueKeyValue(value)| value).map_err(|error| match error.classify() {
        Category::Data => JsonFault::RepeatedName(error.to_string()),
        Category::Io | Category::Syntax | Category::Eof => JsonFault::Syntax(error.to_string()),
    })
}

struct UniqueKeyValue(Value);

impl<'de> Deserialize<'de> for UniqueKeyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeyVisitor).map(UniqueKeyValue)
    }
}

struct UniqueKeyVisitor;

impl<'de> Visitor<'de> for UniqueKeyVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(UniqueKeyValue(value)) = entries.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, UniqueKeyValue(value))) = entries.next_entry::<String, UniqueKeyValue>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!("{name} stands twice in one object: keep one of them")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}
