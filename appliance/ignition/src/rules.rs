//! What a spec 3 config may hold: first the types of everything that has a name, then the rules.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Findings, source};

/// Newest version of the spec that is known here.
const MINOR_MAX: u64 = 5;

enum Rule {
    Text,
    Flag,
    Whole,
    Number,
    List(&'static Rule),
    /// Fields; those with `true` must be there.
    Object(&'static [(&'static str, bool, &'static Rule)]),
}

use Rule::{Flag, List, Number, Object, Text, Whole};

static TEXTS: Rule = List(&Text);
static RESOURCE: Rule = Object(&[
    ("source", false, &Text),
    ("compression", false, &Text),
    ("httpHeaders", false, &List(&Object(&[("name", true, &Text), ("value", false, &Text)]))),
    ("verification", false, &Object(&[("hash", false, &Text)])),
]);
static RESOURCES: Rule = List(&RESOURCE);
static OWNER: Rule = Object(&[("id", false, &Whole), ("name", false, &Text)]);

static CONFIG: Rule = Object(&[
    (
        "ignition",
        true,
        &Object(&[
            ("version", true, &Text),
            ("config", false, &Object(&[("merge", false, &RESOURCES), ("replace", false, &RESOURCE)])),
            ("timeouts", false, &Object(&[("httpResponseHeaders", false, &Whole), ("httpTotal", false, &Whole)])),
            ("security", false, &Object(&[("tls", false, &Object(&[("certificateAuthorities", false, &RESOURCES)]))])),
            (
                "proxy",
                false,
                &Object(&[("httpProxy", false, &Text), ("httpsProxy", false, &Text), ("noProxy", false, &TEXTS)]),
            ),
        ]),
    ),
    ("storage", false, &STORAGE),
    (
        "systemd",
        false,
        &Object(&[(
            "units",
            false,
            &List(&Object(&[
                ("name", true, &Text),
                ("enabled", false, &Flag),
                ("mask", false, &Flag),
                ("contents", false, &Text),
                ("dropins", false, &List(&Object(&[("name", true, &Text), ("contents", false, &Text)]))),
            ])),
        )]),
    ),
    ("passwd", false, &PASSWD),
    ("kernelArguments", false, &Object(&[("shouldExist", false, &TEXTS), ("shouldNotExist", false, &TEXTS)])),
]);

static STORAGE: Rule = Object(&[
    (
        "files",
        false,
        &List(&Object(&[
            ("path", true, &Text),
            ("overwrite", false, &Flag),
            ("contents", false, &RESOURCE),
            ("append", false, &RESOURCES),
            ("mode", false, &Whole),
            ("user", false, &OWNER),
            ("group", false, &OWNER),
        ])),
    ),
    (
        "directories",
        false,
        &List(&Object(&[
            ("path", true, &Text),
            ("overwrite", false, &Flag),
            ("mode", false, &Whole),
            ("user", false, &OWNER),
            ("group", false, &OWNER),
        ])),
    ),
    (
        "links",
        false,
        &List(&Object(&[
            ("path", true, &Text),
            ("overwrite", false, &Flag),
            ("target", true, &Text),
            ("hard", false, &Flag),
            ("user", false, &OWNER),
            ("group", false, &OWNER),
        ])),
    ),
    (
        "disks",
        false,
        &List(&Object(&[
            ("device", true, &Text),
            ("wipeTable", false, &Flag),
            (
                "partitions",
                false,
                &List(&Object(&[
                    ("label", false, &Text),
                    ("number", false, &Whole),
                    ("sizeMiB", false, &Whole),
                    ("startMiB", false, &Whole),
                    ("typeGuid", false, &Text),
                    ("guid", false, &Text),
                    ("wipePartitionEntry", false, &Flag),
                    ("shouldExist", false, &Flag),
                    ("resize", false, &Flag),
                ])),
            ),
        ])),
    ),
    (
        "raid",
        false,
        &List(&Object(&[
            ("name", true, &Text),
            ("level", false, &Text),
            ("devices", false, &TEXTS),
            ("spares", false, &Whole),
            ("options", false, &TEXTS),
        ])),
    ),
    (
        "filesystems",
        false,
        &List(&Object(&[
            ("device", true, &Text),
            ("format", false, &Text),
            ("path", false, &Text),
            ("wipeFilesystem", false, &Flag),
            ("label", false, &Text),
            ("uuid", false, &Text),
            ("options", false, &TEXTS),
            ("mountOptions", false, &TEXTS),
        ])),
    ),
    (
        "luks",
        false,
        &List(&Object(&[
            ("name", true, &Text),
            ("device", false, &Text),
            ("keyFile", false, &RESOURCE),
            ("label", false, &Text),
            ("uuid", false, &Text),
            ("options", false, &TEXTS),
            ("discard", false, &Flag),
            ("openOptions", false, &TEXTS),
            ("wipeVolume", false, &Flag),
            (
                "clevis",
                false,
                &Object(&[
                    (
                        "tang",
                        false,
                        &List(&Object(&[
                            ("url", true, &Text),
                            ("thumbprint", false, &Text),
                            ("advertisement", false, &Text),
                        ])),
                    ),
                    ("tpm2", false, &Flag),
                    ("threshold", false, &Whole),
                    (
                        "custom",
                        false,
                        &Object(&[("pin", false, &Text), ("config", false, &Text), ("needsNetwork", false, &Flag)]),
                    ),
                ]),
            ),
            ("cex", false, &Object(&[("enabled", false, &Flag)])),
        ])),
    ),
]);

static PASSWD: Rule = Object(&[
    (
        "users",
        false,
        &List(&Object(&[
            ("name", true, &Text),
            ("passwordHash", false, &Text),
            ("sshAuthorizedKeys", false, &TEXTS),
            ("uid", false, &Whole),
            ("gecos", false, &Text),
            ("homeDir", false, &Text),
            ("noCreateHome", false, &Flag),
            ("primaryGroup", false, &Text),
            ("groups", false, &TEXTS),
            ("noUserGroup", false, &Flag),
            ("noLogInit", false, &Flag),
            ("shell", false, &Text),
            ("shouldExist", false, &Flag),
            ("system", false, &Flag),
        ])),
    ),
    (
        "groups",
        false,
        &List(&Object(&[
            ("name", true, &Text),
            ("gid", false, &Number),
            ("passwordHash", false, &Text),
            ("shouldExist", false, &Flag),
            ("system", false, &Flag),
        ])),
    ),
]);

pub(super) fn check(config: &Value) -> Findings {
    let mut findings = Findings::default();
    let Some(version) = config.pointer("/ignition/version").and_then(Value::as_str) else {
        findings.error("ignition.version: is needed, such as \"3.3.0\"".to_owned());
        return findings;
    };
    if let Some(fault) = version_fault(version) {
        findings.error(format!("ignition.version: {fault}"));
        return findings;
    }
    shape(config, &CONFIG, "", &mut findings);
    if findings.errors.is_empty() {
        sources(config, "", &mut findings);
        paths(config, &mut findings);
        units(config, &mut findings);
    }
    findings
}

fn version_fault(version: &str) -> Option<String> {
    if version.starts_with("2.") || version.starts_with("1.") {
        return Some(format!("is spec {}, which is not supported yet: use spec 3", &version[..1]));
    }
    let parts: Vec<Option<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_slice() {
        [Some(3), Some(minor), Some(0)] if *minor <= MINOR_MAX => None,
        _ => Some(format!("is none of 3.0.0 to 3.{MINOR_MAX}.0")),
    }
}

fn shape(value: &Value, rule: &Rule, path: &str, findings: &mut Findings) {
    if value.is_null() {
        return;
    }
    let wanted = match rule {
        Text if value.is_string() => return,
        Flag if value.is_boolean() => return,
        Whole if value.is_i64() || value.is_u64() => return,
        Number if value.is_number() => return,
        List(item) => match value.as_array() {
            Some(list) => {
                for (index, entry) in list.iter().enumerate() {
                    shape(entry, item, &format!("{path}[{index}]"), findings);
                }
                return;
            }
            None => "a list",
        },
        Object(fields) => match value.as_object() {
            Some(map) => return object(map, fields, path, findings),
            None => "an object",
        },
        Text => "a text",
        Flag => "true or false",
        Whole => "a whole number",
        Number => "a number",
    };
    findings.error(format!("{}: must be {wanted}", place(path)));
}

fn object(map: &Map<String, Value>, fields: &[(&str, bool, &Rule)], path: &str, findings: &mut Findings) {
    for (name, needed, rule) in fields {
        match map.get(*name) {
            Some(value) if !(value.is_null() && *needed) => shape(value, rule, &join(path, name), findings),
            _ if *needed => findings.error(format!("{}: is needed", join(path, name))),
            _ => {}
        }
    }
    for name in map.keys().filter(|name| fields.iter().all(|(known, ..)| known != name)) {
        findings.warning(format!("{}: is not known to spec 3 and will be ignored", join(path, name)));
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the config" } else { path }
}

/// Every `source`, wherever it stands, and the digest beside it.
fn sources(value: &Value, path: &str, findings: &mut Findings) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let path = join(path, name);
                match (name.as_str(), inner) {
                    ("source", Value::String(text)) => {
                        if let Some(fault) = source::fault(text) {
                            findings.error(format!("{path}: {fault}"));
                        }
                    }
                    ("hash", Value::String(text)) => {
                        if let Some(fault) = hash_fault(text) {
                            findings.error(format!("{path}: {fault}"));
                        }
                    }
                    ("compression", Value::String(text)) if !matches!(text.as_str(), "" | "gzip") => {
                        findings.error(format!("{path}: must be empty or gzip"));
                    }
                    _ => sources(inner, &path, findings),
                }
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                sources(inner, &format!("{path}[{index}]"), findings);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn hash_fault(hash: &str) -> Option<String> {
    let digits = match hash.split_once('-') {
        Some(("sha256", digits)) if digits.len() == 64 => digits,
        Some(("sha512", digits)) if digits.len() == 128 => digits,
        _ => return Some("must be sha256- or sha512- and the digest in hexadecimal".to_owned()),
    };
    (!digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| "the digest is not hexadecimal".to_owned())
}

/// Files, directories and links: absolute paths, each once, with modes that exist.
fn paths(config: &Value, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for section in ["files", "directories", "links"] {
        let list = config["storage"][section].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, entry) in list.iter().enumerate() {
            let place = format!("storage.{section}[{index}]");
            let path = entry["path"].as_str().unwrap_or_default();
            if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
                findings.error(format!("{place}.path: is not an absolute path"));
            }
            if !seen.insert(path.trim_end_matches('/').to_owned()) {
                findings.error(format!("{place}.path: is in the config twice"));
            }
            if entry["mode"].as_i64().is_some_and(|mode| !(0..=0o7777).contains(&mode)) {
                findings.error(format!("{place}.mode: must be from 0 to 4095 (decimal for octal 7777)"));
            }
        }
    }
    for section in ["disks", "filesystems"] {
        let list = config["storage"][section].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, entry) in list.iter().enumerate() {
            let device = entry["device"].as_str().unwrap_or_default();
            if !device.starts_with('/') {
                findings.error(format!("storage.{section}[{index}].device: is not an absolute path"));
            }
        }
    }
}

const UNIT_TYPES: [&str; 11] =
    ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];

fn units(config: &Value, findings: &mut Findings) {
    let mut seen = HashSet::new();
    let list = config["systemd"]["units"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, unit) in list.iter().enumerate() {
        let name = unit["name"].as_str().unwrap_or_default();
        let place = format!("systemd.units[{index}]");
        let known = name.rsplit_once('.').is_some_and(|(stem, kind)| !stem.is_empty() && UNIT_TYPES.contains(&kind));
        if !known || name.contains('/') {
            findings.error(format!("{place}.name: is no unit name, such as x.service"));
        }
        if !seen.insert(name) {
            findings.error(format!("{place}.name: is in the config twice"));
        }
        let dropins = unit["dropins"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (number, dropin) in dropins.iter().enumerate() {
            let name = dropin["name"].as_str().unwrap_or_default();
            if !name.ends_with(".conf") || name.contains('/') {
                findings.error(format!("{place}.dropins[{number}].name: must end in .conf"));
            }
        }
    }
}
