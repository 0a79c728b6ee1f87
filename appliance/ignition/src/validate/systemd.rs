//! Units and their drop-ins (`types/unit.go`, `systemd.go`, `config.go`; `shared/validations/unit.go`).

use std::collections::{HashMap, HashSet};

use super::unit_file::{self, UnitFile};
use super::{ConfigLocation, Rules, path};

pub(super) fn check(rules: &mut Rules<'_>, systemd: &ConfigLocation<'_>) {
    let units = systemd.list("units");
    for unit in &units {
        name(rules, unit);
        let contents = contents(rules, unit);
        if unit.is("enabled", true) && contents.is_some_and(|contents| !contents.installs) {
            rules.warning(unit, "contents", "has no [Install] section: to enable the unit does nothing");
        }
        let dropins = unit.list("dropins");
        for dropin in &dropins {
            self::contents(rules, dropin);
            if path::extension(dropin.text("name").unwrap_or_default()) != ".conf" {
                rules.error(dropin, "name", "must end in .conf");
            }
        }
        rules.unique(&dropins, "name", &mut HashSet::new());
    }
    rules.unique(&units, "name", &mut HashSet::new());
    instances(rules, &units);
}

fn name(rules: &mut Rules<'_>, unit: &ConfigLocation<'_>) {
    let name = unit.text("name").unwrap_or_default();
    match path::extension(name) {
        ".service" | ".socket" | ".device" | ".mount" | ".automount" | ".swap" | ".target" | ".path" | ".timer"
        | ".snapshot" | ".slice" | ".scope" => {
            if name.contains('/') || name.starts_with('.') {
                rules.warning(unit, "name", "is no name that systemd looks for");
            }
        }
        _ => rules.error(unit, "name", "is no unit name, such as x.service"),
    }
}

/// The unit file, where there is one that can be read.
fn contents(rules: &mut Rules<'_>, at: &ConfigLocation<'_>) -> Option<UnitFile> {
    match unit_file::read(at.filled("contents")?) {
        Ok(unit) => Some(unit),
        Err(fault) => {
            rules.error(at, "contents", fault);
            None
        }
    }
}

/// `x@y.service` is enabled by the `[Install]` section of `x@.service`.
fn instances(rules: &mut Rules<'_>, units: &[ConfigLocation<'_>]) {
    let by_name: HashMap<&str, &ConfigLocation<'_>> =
        units.iter().filter_map(|unit| Some((unit.text("name")?, unit))).collect();
    for unit in units.iter().filter(|unit| unit.is("enabled", true)) {
        let Some(template) = unit.text("name").and_then(template_of) else { continue };
        let contents = by_name.get(format!("{template}@.service").as_str()).and_then(|unit| unit.filled("contents"));
        if contents.is_some_and(|text| unit_file::read(text).is_ok_and(|unit| !unit.installs)) {
            rules.warning(unit, "enabled", "does nothing: its template has no [Install] section");
        }
    }
}

/// What stands before the `@` of an instance.
fn template_of(name: &str) -> Option<&str> {
    let (template, instance) = name.strip_suffix(".service")?.split_once('@')?;
    (!template.is_empty() && !instance.is_empty()).then_some(template)
}

/// Nodes at the paths that units are written to. Ignition 2.14, and with it Debian 12, lets the later one win.
pub(super) fn conflicts(rules: &mut Rules<'_>, config: &ConfigLocation<'_>) {
    let mut paths = HashSet::new();
    for unit in config.object("systemd").list("units") {
        let file = format!("/etc/systemd/system/{}", unit.text("name").unwrap_or_default());
        for dropin in unit.list("dropins").iter().filter(|dropin| dropin.filled("contents").is_some()) {
            paths.insert(format!("{file}.d/{}", dropin.text("name").unwrap_or_default()));
        }
        if unit.filled("contents").is_some() {
            paths.insert(file);
        }
    }
    let storage = config.object("storage");
    for node in ["files", "directories", "links"].into_iter().flat_map(|list| storage.list(list)) {
        if !paths.contains(node.text("path").unwrap_or_default()) {
            continue;
        }
        if rules.minor >= 4 {
            rules.error(&node, "path", "is that of a systemd unit or drop-in of the config");
        } else {
            rules.warning(&node, "path", "is that of a systemd unit or drop-in: Ignition 2.15 and newer refuse it");
        }
    }
}
