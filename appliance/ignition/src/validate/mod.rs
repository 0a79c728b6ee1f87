//! What Ignition would say of a config, before a disk is touched.
//!
//! ```text
//! bytes ─► json (each name once) ─► version ─► shape (types; what this version does not know is cut off)
//!                                                │ a config of known fields with the right types
//!                                                ▼
//!       ignition · storage (nodes, disks, raid, filesystems, luks) · systemd · passwd · kernel arguments
//! ```
//!
//! The rules are those of coreos/ignition's `config/v3_N/types` (`Validate`, `Key`, `IgnoreDuplicates`), each cited
//! where it stands. Spec 3.0 to 3.3 get the verdict of Ignition 2.14, which is Debian 12's; 3.4 and 3.5 that of the
//! releases that read them. What an older release lets pass and a newer one refuses is a warning.
//!
//! Deliberately stricter than Ignition, because others than Ignition read and change these configs, and would read
//! something else: a name that stands twice in an object, or in another case than the spec's (`Path`); text that is
//! not Unicode; the number `-0`; nesting deeper than 127; more than [`super::CONFIG_BYTES_MAX`] bytes, or more than
//! [`disks::PARTITIONS_MAX`] partitions of a disk.

mod data_url;
mod disks;
mod filesystems;
mod ignition;
mod json;
mod kernel_arguments;
mod luks;
mod nodes;
mod passwd;
mod path;
mod raid;
mod resource;
mod schema;
mod shape;
mod systemd;
mod unit_file;
mod url;
mod version;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{CONFIG_BYTES_MAX, ConfigFindings};

pub use data_url::is_valid as data_url_is_valid;
pub(crate) use json::{JsonFault, read};
pub(crate) use version::minor;

/// Examines a config as it was given.
pub(crate) fn bytes(config: &[u8]) -> ConfigFindings {
    let mut findings = ConfigFindings::default();
    if config.len() > CONFIG_BYTES_MAX {
        let bytes = config.len();
        findings.error(format!("the config has {bytes} bytes, more than {CONFIG_BYTES_MAX}: fetch the rest by merge"));
        return findings;
    }
    match json::read(config) {
        Ok(mut value) => examine(&mut value, &mut findings),
        Err(fault) => findings.error(fault.to_string()),
    }
    findings
}

fn examine(config: &mut Value, findings: &mut ConfigFindings) {
    let version = config.pointer("/ignition/version").and_then(Value::as_str).unwrap_or_default();
    let minor = match version::minor(version) {
        Ok(minor) => minor,
        Err(fault) => return findings.error(format!("ignition.version: {fault}")),
    };
    shape::check(config, &schema::CONFIG, minor, findings);
    // Ignition too stops at a wrong type: a rule would judge half a config.
    if findings.errors.is_empty() {
        let root = ConfigLocation { place: String::new(), value: config };
        let rules = &mut Rules { minor, findings };
        ignition::check(rules, &root.object("ignition"));
        let storage = root.object("storage");
        nodes::check(rules, &storage);
        disks::check(rules, &storage);
        raid::check(rules, &storage);
        filesystems::check(rules, &storage);
        luks::check(rules, &storage);
        systemd::check(rules, &root.object("systemd"));
        systemd::conflicts(rules, &root);
        passwd::check(rules, &root.object("passwd"));
        kernel_arguments::check(rules, &root.object("kernelArguments"));
    }
    // What the schema requires is a warning; where a rule says the same, it is an error.
    let ConfigFindings { errors, warnings } = findings;
    warnings.retain(|warning| !warning.ends_with(": is needed") || !errors.contains(warning));
}

/// One examination: the version's minor number, and what was found.
struct Rules<'f> {
    minor: u8,
    findings: &'f mut ConfigFindings,
}

impl Rules<'_> {
    /// `field` may be empty: the fault is of the whole.
    fn error(&mut self, at: &ConfigLocation<'_>, field: &str, text: &str) {
        self.findings.error(format!("{}: {text}", join(&at.place, field)));
    }

    fn warning(&mut self, at: &ConfigLocation<'_>, field: &str, text: &str) {
        self.findings.warning(format!("{}: {text}", join(&at.place, field)));
    }

    fn error_if_some(&mut self, at: &ConfigLocation<'_>, field: &str, fault: Option<&str>) {
        if let Some(text) = fault {
            self.error(at, field, text);
        }
    }

    /// Each value of `field` once among the entries, and those that were `seen` before. Entries without one are alike,
    /// as in Ignition.
    fn unique<'v>(&mut self, entries: &[ConfigLocation<'v>], field: &str, seen: &mut HashSet<&'v str>) {
        for entry in entries {
            if !seen.insert(entry.text(field).unwrap_or_default()) {
                self.error(entry, field, "is in the config twice");
            }
        }
    }

    /// Each text of a list once.
    fn unique_texts<'v>(&mut self, at: &ConfigLocation<'v>, field: &str, seen: &mut HashSet<&'v str>) {
        for (index, text) in at.texts(field).into_iter().enumerate() {
            if !seen.insert(text) {
                self.error(at, &format!("{field}[{index}]"), "is in the config twice");
            }
        }
    }
}

/// A part of the config and where it stands, such as `storage.files[2]`. A part that is not there is empty.
struct ConfigLocation<'v> {
    place: String,
    value: &'v Value,
}

impl<'v> ConfigLocation<'v> {
    fn get(&self, field: &str) -> Option<&'v Value> {
        self.value.as_object().and_then(|map: &Map<String, Value>| map.get(field))
    }

    fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    fn text(&self, field: &str) -> Option<&'v str> {
        self.get(field).and_then(Value::as_str)
    }

    /// A text that is not empty.
    fn filled(&self, field: &str) -> Option<&'v str> {
        self.text(field).filter(|text| !text.is_empty())
    }

    fn whole(&self, field: &str) -> Option<i64> {
        self.get(field).and_then(Value::as_i64)
    }

    fn is(&self, field: &str, wanted: bool) -> bool {
        self.get(field).and_then(Value::as_bool) == Some(wanted)
    }

    fn object(&self, field: &str) -> ConfigLocation<'v> {
        ConfigLocation { place: join(&self.place, field), value: self.get(field).unwrap_or(&Value::Null) }
    }

    fn list(&self, field: &str) -> Vec<ConfigLocation<'v>> {
        let place = join(&self.place, field);
        let entry = |(index, value)| ConfigLocation { place: format!("{place}[{index}]"), value };
        self.values(field).iter().enumerate().map(entry).collect()
    }

    /// A list of texts; what is null is empty, as in Ignition.
    fn texts(&self, field: &str) -> Vec<&'v str> {
        self.values(field).iter().map(|value| value.as_str().unwrap_or_default()).collect()
    }

    fn values(&self, field: &str) -> &'v [Value] {
        self.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}

fn join(place: &str, field: &str) -> String {
    match (place, field) {
        ("", field) => field.to_owned(),
        (place, "") => place.to_owned(),
        (place, field) => format!("{place}.{field}"),
    }
}

#[cfg(test)]
mod tests;
