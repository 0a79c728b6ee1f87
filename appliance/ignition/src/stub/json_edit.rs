//! Where a value stands in a JSON text, so that one value can be changed and every other byte stays.
//!
//! Ignition reads JSON as Go does: names match in any case, and of two equal names the last counts. Where that leaves
//! a doubt which value is meant, it is [`AmbiguousName`], and nothing is changed.

use std::{fmt, ops::Range};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The name stands there twice, or in another case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AmbiguousName;

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedKeysVisitor;
        impl<'de> Visitor<'de> for OrderedKeysVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(OrderedKeysVisitor)
    }
}

/// The text of a member; `None` when `text` is no object or has no such member.
pub(super) fn member<'a>(text: &'a str, name: &str) -> Result<Option<&'a str>, AmbiguousName> {
    let Ok(Members(members)) = serde_json::from_str(text) else { return Ok(None) };
    let mut alike = members.into_iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
    match (alike.next(), alike.next()) {
        (None, _) => Ok(None),
        (Some((found, value)), None) if found == name => Ok(Some(value.get())),
        (Some(_), _) => Err(AmbiguousName),
    }
}

/// The text at the end of a row of members.
pub(super) fn at<'a>(text: &'a str, names: &[&str]) -> Result<Option<&'a str>, AmbiguousName> {
    let mut found = text;
    for name in names {
        match member(found, name)? {
            Some(inner) => found = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// The texts of a list's entries; `None` when it is no list.
pub(super) fn entries(text: &str) -> Option<Vec<&str>> {
    let entries: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(entries.into_iter().map(RawValue::get).collect())
}

/// Where `part`, which was found in `whole`, stands in it.
pub(super) fn range(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}
