//! What each minor version of spec 3 brought (Ignition's "Upgrading Configs" and the schemas), in one table, which both
//! directions use: [`lift`] reads an older config as the newest, [`crate::downgrade`] writes the newest as an older
//! one.

use serde_json::{Map, Value};

use crate::SpecVersion;
use crate::fields::{FieldError, join};

/// A field that is new in a version.
pub(crate) struct VersionedField {
    pub(crate) since: SpecVersion,
    /// `*` stands for every entry of a list.
    path: &'static str,
    /// Whether this value says no more than the field's absence.
    pub(crate) says_nothing: fn(&Value) -> bool,
}

const fn new(since: SpecVersion, path: &'static str, says_nothing: fn(&Value) -> bool) -> VersionedField {
    VersionedField { since, path, says_nothing }
}

pub(crate) static NEW: &[VersionedField] = &[
    new(SpecVersion::V3_1, "ignition.proxy", is_hollow),
    new(SpecVersion::V3_1, "ignition.config.merge.*.compression", is_hollow),
    new(SpecVersion::V3_1, "ignition.config.merge.*.httpHeaders", is_hollow),
    new(SpecVersion::V3_1, "ignition.config.replace.compression", is_hollow),
    new(SpecVersion::V3_1, "ignition.config.replace.httpHeaders", is_hollow),
    new(SpecVersion::V3_1, "ignition.security.tls.certificateAuthorities.*.compression", is_hollow),
    new(SpecVersion::V3_1, "ignition.security.tls.certificateAuthorities.*.httpHeaders", is_hollow),
    new(SpecVersion::V3_1, "storage.files.*.contents.httpHeaders", is_hollow),
    new(SpecVersion::V3_1, "storage.files.*.append.*.httpHeaders", is_hollow),
    new(SpecVersion::V3_1, "storage.filesystems.*.mountOptions", is_hollow),
    new(SpecVersion::V3_2, "storage.luks", is_hollow),
    new(SpecVersion::V3_2, "storage.disks.*.partitions.*.resize", is_false),
    new(SpecVersion::V3_2, "passwd.users.*.shouldExist", is_true),
    new(SpecVersion::V3_2, "passwd.groups.*.shouldExist", is_true),
    new(SpecVersion::V3_3, "kernelArguments", is_hollow),
    new(SpecVersion::V3_4, "storage.luks.*.discard", is_false),
    new(SpecVersion::V3_4, "storage.luks.*.openOptions", is_hollow),
    new(SpecVersion::V3_4, "storage.luks.*.clevis.tang.*.advertisement", is_hollow),
    new(SpecVersion::V3_5, "storage.luks.*.cex", |cex| cex["enabled"] != Value::Bool(true)),
];

fn is_false(value: &Value) -> bool {
    *value == Value::Bool(false)
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

/// Whether a value has nothing but absent fields, empty lists and empty texts.
pub(crate) fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_hollow),
    }
}

/// The bits for set user ID, set group ID and sticky. Before 3.4.0 they were ignored.
pub(crate) const SPECIAL_BITS: u64 = 0o7000;

/// Gets an object, the name of a field, and the field's place.
type Visit<'a> = dyn FnMut(&mut Map<String, Value>, &str, &str) -> Result<(), FieldError> + 'a;

/// The objects that may have the last part of `path`, with their places.
fn each_parent(value: &mut Value, path: &str, place: &str, visit: &mut Visit<'_>) -> Result<(), FieldError> {
    let Some((name, rest)) = path.split_once('.') else {
        return value.as_object_mut().map_or(Ok(()), |map| visit(map, path, place));
    };
    match (name, value) {
        ("*", Value::Array(list)) => {
            for (index, entry) in list.iter_mut().enumerate() {
                each_parent(entry, rest, &format!("{place}[{index}]"), visit)?;
            }
            Ok(())
        }
        (name, Value::Object(map)) => match map.get_mut(name) {
            Some(inner) => each_parent(inner, rest, &join(place, name), visit),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Calls `visit` with every object that has the field, the field's name, and its place.
pub(crate) fn each(
    config: &mut Value,
    path: &str,
    mut visit: impl FnMut(&mut Map<String, Value>, &str, &str) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    each_parent(config, path, "", &mut |map, name, place| {
        if map.contains_key(name) { visit(map, name, &join(place, name)) } else { Ok(()) }
    })
}

/// Visits each element with a function that cannot fail.
pub(crate) fn each_surely(config: &mut Value, path: &str, mut visit: impl FnMut(&mut Map<String, Value>, &str, &str)) {
    drop(each(config, path, |map, name, place| {
        visit(map, name, place);
        Ok(())
    }));
}

impl VersionedField {
    pub(crate) fn each(
        &self,
        config: &mut Value,
        visit: impl FnMut(&mut Map<String, Value>, &str, &str) -> Result<(), FieldError>,
    ) -> Result<(), FieldError> {
        each(config, self.path, visit)
    }
}

/// Reads a valid config of spec 3 as the newest version that is written here, meaning the same.
///
/// A field that is newer than the config was ignored by Ignition; were it kept, it would come to life by the version's
/// change. It is taken out and named in the notes.
pub(crate) fn lift(config: &mut Value, from: SpecVersion) -> Vec<String> {
    let mut notes = Vec::new();
    for new in NEW.iter().filter(|new| new.since > from) {
        each_surely(config, new.path, |map, name, place| {
            if map.remove(name).is_some_and(|value| !is_hollow(&value)) {
                notes.push(format!("{place}: is new in {} and ignored, for the config says {from}", new.since));
            }
        });
    }
    if from < SpecVersion::V3_4 {
        for path in ["storage.files.*.mode", "storage.directories.*.mode"] {
            each_surely(config, path, |map, name, _| {
                if let Some(mode) = map[name].as_u64() {
                    map.insert(name.to_owned(), Value::from(mode & !SPECIAL_BITS));
                }
            });
        }
    }
    set_version(config, SpecVersion::NEWEST);
    notes
}

pub(crate) fn set_version(config: &mut Value, version: SpecVersion) {
    if let Some(Value::Object(head)) = config.get_mut("ignition") {
        head.insert("version".to_owned(), Value::from(version.text()));
    }
}

/// Removes fields that are absent in all but name: `null`, and objects and lists with nothing in them.
pub(crate) fn prune(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, inner| !is_empty(inner));
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
