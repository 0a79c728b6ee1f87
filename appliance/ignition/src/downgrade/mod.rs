//! A config as an older client reads it (S1-6): from any spec 3 up to 3.5 to 3.4, …, 3.0 and 2.2. What cannot be said
//! in the older version is an error that names the field. Upstream's rules (coreos/ign-converter), and:
//!
//! - 3.0 is served where nothing needs more; upstream cannot.
//! - What upstream's converter drops in silence, such as `wipePartitionEntry` on the way to 2.2, is an error here.
//! - A field whose value says no more than its absence goes without one.

mod spec2;

use serde_json::{Map, Value};

use crate::SpecVersion;
use crate::fields::{FieldError, join};
use crate::spec3::{self, NEW, SPECIAL_BITS};

/// Writes a valid config of spec 3 in another version.
///
/// # Errors
/// When something in it cannot be said there, or it is no spec 3 config that is known.
pub fn convert(mut config: Value, to: SpecVersion) -> Result<Value, FieldError> {
    let version = config.pointer("/ignition/version").and_then(Value::as_str).and_then(SpecVersion::named);
    match version.filter(|version| *version >= SpecVersion::V3_0) {
        None => return Err(FieldError::new("ignition.version", "must be 3.0.0 to 3.5.0")),
        Some(from) if from < to => drop(spec3::lift(&mut config, from)),
        Some(_) => {}
    }
    spec3::prune(&mut config);
    // What 2.2 can say is less than what 3.0 can, so that one is on the way to the other.
    let step = to.max(SpecVersion::V3_0);
    for new in NEW.iter().filter(|new| new.since > step) {
        new.each(&mut config, |map, name, place| match map.remove(name) {
            Some(value) if !(new.says_nothing)(&value) => Err(unsupported_field(place, new.since)),
            Some(_) | None => Ok(()),
        })?;
    }
    values(&config, "", step)?;
    required(&mut config, step)?;
    spec3::set_version(&mut config, step);
    if to == SpecVersion::V2_2 { spec2::convert(config) } else { Ok(config) }
}

fn unsupported_field(place: &str, since: SpecVersion) -> FieldError {
    FieldError::new(place, format!("needs a client that reads {since}"))
}

/// Values that are new: of addresses, digests, modes, formats.
fn values(value: &Value, place: &str, to: SpecVersion) -> Result<(), FieldError> {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let place = join(place, name);
                match new_value(name, inner, &place).filter(|since| *since > to) {
                    Some(since) => return Err(unsupported_field(&place, since)),
                    None => values(inner, &place, to)?,
                }
            }
            Ok(())
        }
        Value::Array(list) => {
            let entries = list.iter().enumerate();
            entries.into_iter().try_for_each(|(index, inner)| values(inner, &format!("{place}[{index}]"), to))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn new_value(name: &str, value: &Value, place: &str) -> Option<SpecVersion> {
    match (name, value) {
        ("source", Value::String(url)) if url.starts_with("arn:") => Some(SpecVersion::V3_4),
        ("source", Value::String(url)) if url.starts_with("gs:") => Some(SpecVersion::V3_2),
        ("hash", Value::String(hash)) if hash.starts_with("sha256-") => Some(SpecVersion::V3_1),
        ("format", Value::String(format)) if format == "none" => Some(SpecVersion::V3_3),
        ("mode", Value::Number(mode)) if place.starts_with("storage.") => {
            mode.as_u64().filter(|mode| mode & SPECIAL_BITS != 0).map(|_| SpecVersion::V3_4)
        }
        _ => None,
    }
}

/// What older versions demand and newer ones do not. A config that was merged has it.
fn required(config: &mut Value, to: SpecVersion) -> Result<(), FieldError> {
    if to < SpecVersion::V3_3 {
        spec3::each(config, "storage.links", |map, name, place| entries_have(&map[name], place, &["target"]))?;
        spec3::each(config, "storage.raid", |map, name, place| entries_have(&map[name], place, &["level", "devices"]))?;
        spec3::each(config, "storage.luks.*.clevis.custom", |map, name, place| {
            has(&map[name], place, &["pin", "config"])
        })?;
    }
    if to < SpecVersion::V3_1 {
        // Without a source there is nothing that replaces the config.
        spec3::each(config, "ignition.config.replace", |map, name, _| {
            map.retain(|other, value| other != name || value.get("source").is_some());
            Ok(())
        })?;
        let sources =
            |map: &mut Map<String, Value>, name: &str, place: &str| entries_have(&map[name], place, &["source"]);
        spec3::each(config, "ignition.config.merge", sources)?;
        spec3::each(config, "ignition.security.tls.certificateAuthorities", sources)?;
    }
    Ok(())
}

fn entries_have(list: &Value, place: &str, names: &[&str]) -> Result<(), FieldError> {
    let mut entries = list.as_array().into_iter().flatten().enumerate();
    entries.try_for_each(|(index, entry)| has(entry, &format!("{place}[{index}]"), names))
}

fn has(entry: &Value, place: &str, names: &[&str]) -> Result<(), FieldError> {
    match names.iter().find(|name| entry.get(**name).is_none()) {
        Some(name) => Err(FieldError::new(&join(place, name), "is needed by the client's version")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
