//! JSON of stream metadata (S1-2.2) as it is written, with keys that stand twice: serde_json's own values keep the last one silently, and which of
//! two digests counts must not be a matter of chance.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

#[derive(Clone, Debug)]
pub(super) enum Json {
    /// Null, a number or a boolean: stream metadata has none that counts.
    Other,
    Text(String),
    List,
    Object(JsonObject),
}

#[derive(Clone, Debug)]
pub(super) struct JsonObject(Vec<(String, Json)>);

/// A key stands twice in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DuplicateJsonKey;

impl Json {
    /// Reads JSON that has at most so many values in all.
    pub(super) fn parse(bytes: &[u8], values_max: usize) -> Result<Self, serde_json::Error> {
        let left = Cell::new(values_max);
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let json = JsonNodeBudget(&left).deserialize(&mut reader)?;
        reader.end()?;
        Ok(json)
    }

    pub(super) fn object(&self) -> Option<&JsonObject> {
        match self {
            Self::Object(object) => Some(object),
            Self::Other | Self::Text(_) | Self::List => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other | Self::List | Self::Object(_) => None,
        }
    }
}

impl JsonObject {
    pub(super) fn get(&self, key: &str) -> Result<Option<&Json>, DuplicateJsonKey> {
        let mut found = self.0.iter().filter(|(name, _)| name == key);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(DuplicateJsonKey),
            (first, None) => Ok(first.map(|(_, value)| value)),
        }
    }

    /// Each key once, in order; a key that stands twice has no value.
    pub(super) fn entries(&self) -> Vec<(&str, Result<&Json, DuplicateJsonKey>)> {
        let mut sorted: Vec<&(String, Json)> = self.0.iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let groups = sorted.chunk_by(|a, b| a.0 == b.0);
        groups
            .filter_map(|group| {
                let (name, value) = group.first()?;
                Some((name.as_str(), if group.len() == 1 { Ok(value) } else { Err(DuplicateJsonKey) }))
            })
            .collect()
    }
}

struct JsonNodeBudget<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for JsonNodeBudget<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| D::Error::custom("the document has too many values"))?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonNodeBudget<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        while list.next_element_seed(JsonNodeBudget(self.0))?.is_some() {}
        Ok(Json::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            entries.push((key, map.next_value_seed(JsonNodeBudget(self.0))?));
        }
        Ok(Json::Object(JsonObject(entries)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_key_that_stands_twice_has_no_value_and_too_many_values_are_refused() {
        let json = Json::parse(br#"{"b": 1, "a": "x", "b": "y", "c": [1, {"d": null}]}"#, 8).unwrap();
        let object = json.object().unwrap();
        assert_eq!(object.get("a").unwrap().unwrap().text(), Some("x"));
        assert!(object.get("b").is_err() && object.get("z").unwrap().is_none());
        let names: Vec<(&str, bool)> =
            object.entries().into_iter().map(|(name, value)| (name, value.is_ok())).collect();
        assert_eq!(names, [("a", true), ("b", false), ("c", true)]);
        assert!(Json::parse(b"[1, 2, 3]", 3).is_err());
        assert!(Json::parse(b"[1, 2]", 3).is_ok());
        assert!(Json::parse(b"{} x", 3).is_err());
        assert!(Json::parse(&[b'['; 100_000], 200_000).is_err(), "deep nesting ends");
    }
}
