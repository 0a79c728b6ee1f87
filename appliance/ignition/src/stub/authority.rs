//! Rotation of the CA in a stub (S1-3.3, S1.22).
//!
//! A stub of ours has one entry in `certificateAuthorities`, and during an overlap this one entry is a bundle of the
//! new CA and the old one (the spec allows several certificates in a source). Two entries would do as well for
//! Ignition; but upstream, and people, take a stub with two entries for a customised one and leave it alone, and so
//! would we at the next rotation. An entry is recognised as ours when every certificate in it is one of ours, now or
//! earlier.
//!
//! These are left alone, with a reason: several entries; an entry with foreign certificates beside ours or with several
//! of them; one that is fetched, pinned by a digest or packed; a single unknown CA of a stub that also fetches from
//! elsewhere by HTTPS, for there it may be the other server's.
//!
//! Only the text of this one value changes; every other byte of the stub stays.

use serde_json::Value;

use super::{json_edit, managed_stub::Endpoint};
use crate::pem::{self, StubAuthority};
use crate::{data_url, path_below};

/// What became of a stub's CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StubCaChange {
    /// The stub has none, or the caller did not ask.
    None,
    /// The CA is what it should be.
    Current,
    /// The CA was replaced.
    Rotated,
    LeftAlone(LeftAlone),
}

/// Why a CA was not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftAlone {
    #[error("the stub has {0} certificate authorities, so it is customised: replace ours in it by hand")]
    Several(usize),
    #[error(
        "the stub's certificate authority is a bundle with other certificates than ours: replace ours in it by hand"
    )]
    OwnBundle,
    #[error("the stub's certificate authority is not ours, and the stub fetches from other servers too")]
    Foreign,
    #[error("the stub does not fetch from this config server, and its certificate authority is not ours")]
    Elsewhere,
    #[error("the stub fetches its certificate authority from a URL: renew it there")]
    Fetched,
    #[error("the stub pins its certificate authority by a digest: replace both by hand")]
    Pinned,
    #[error("the stub's certificate authority is compressed: replace it by hand")]
    Compressed,
    #[error("the stub's certificate authority cannot be read")]
    Unreadable,
    #[error("a field on the way to the certificate authority is in the stub twice or in another case: mend it")]
    Doubtful,
}

const PATH: [&str; 4] = ["ignition", "security", "tls", "certificateAuthorities"];

/// The stub's text with the present CA, and what was done. `None` when nothing changed.
#[must_use]
pub fn rotate(text: &str, endpoints: &[Endpoint], authority: &StubAuthority) -> (Option<String>, StubCaChange) {
    match examine(text, endpoints, authority) {
        Ok(StubCaEntry::None) => (None, StubCaChange::None),
        Ok(StubCaEntry::Current) => (None, StubCaChange::Current),
        Err(reason) => (None, StubCaChange::LeftAlone(reason)),
        Ok(StubCaEntry::Replaceable(source)) => {
            let place = json_edit::range(text, source);
            let mut changed = text.to_owned();
            changed.replace_range(place, &Value::from(authority.source()).to_string());
            (Some(changed), StubCaChange::Rotated)
        }
    }
}

enum StubCaEntry<'a> {
    None,
    Current,
    /// The text of the value to replace, quotes included.
    Replaceable(&'a str),
}

fn examine<'a>(text: &'a str, endpoints: &[Endpoint], authority: &StubAuthority) -> Result<StubCaEntry<'a>, LeftAlone> {
    let doubtful = |_: json_edit::AmbiguousName| LeftAlone::Doubtful;
    let Some(list) = json_edit::at(text, &PATH).map_err(doubtful)? else { return Ok(StubCaEntry::None) };
    let entry = match json_edit::entries(list) {
        None if list == "null" => return Ok(StubCaEntry::None),
        None => return Err(LeftAlone::Unreadable),
        Some(entries) => match entries[..] {
            [] => return Ok(StubCaEntry::None),
            [entry] => entry,
            _ => return Err(LeftAlone::Several(entries.len())),
        },
    };
    let given = |text: Option<&str>| text.is_some_and(|text| text != "null" && text != "\"\"");
    if given(json_edit::at(entry, &["verification", "hash"]).map_err(doubtful)?) {
        return Err(LeftAlone::Pinned);
    }
    if given(json_edit::member(entry, "compression").map_err(doubtful)?) {
        return Err(LeftAlone::Compressed);
    }
    let Some(source) = json_edit::member(entry, "source").map_err(doubtful)? else { return Err(LeftAlone::Unreadable) };
    let url: String = serde_json::from_str(source).map_err(|_| LeftAlone::Unreadable)?;
    if !url.starts_with("data:") {
        return Err(LeftAlone::Fetched);
    }
    let bundle = data_url::decode(&url).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(LeftAlone::Unreadable)?;
    let held = pem::fingerprints(&bundle).map_err(|_| LeftAlone::Unreadable)?;
    if authority.is_current(&held) {
        return Ok(StubCaEntry::Current);
    }
    if !authority.knows_all(&held) {
        if held.len() > 1 {
            return Err(LeftAlone::OwnBundle);
        }
        fetches_from_us_alone(text, endpoints)?;
    }
    Ok(StubCaEntry::Replaceable(source))
}

/// Whether the stub fetches from us alone: only then may a single CA that is not known be an old one of ours.
fn fetches_from_us_alone(text: &str, endpoints: &[Endpoint]) -> Result<(), LeftAlone> {
    fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                for (name, inner) in map {
                    match inner.as_str() {
                        Some(url) if name == "source" => found.push(url),
                        Some(_) | None => walk(inner, found),
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|inner| walk(inner, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let value: Value = serde_json::from_str(text).map_err(|_| LeftAlone::Unreadable)?;
    let mut sources = Vec::new();
    walk(&value, &mut sources);
    let is_ours = |url: &str| endpoints.iter().any(|endpoint| path_below(url, &endpoint.configs()).is_some());
    let (ours, others): (Vec<&str>, Vec<&str>) =
        sources.into_iter().filter(|url| path_below(url, "https://").is_some()).partition(|url| is_ours(url));
    if ours.is_empty() {
        return Err(LeftAlone::Elsewhere);
    }
    if others.is_empty() { Ok(()) } else { Err(LeftAlone::Foreign) }
}
