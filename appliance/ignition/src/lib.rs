//! Ignition configs, spec 3 (<https://coreos.github.io/ignition/specs/>). This crate checks them before a disk is
//! touched, and completes them for one host. Control, the config server and the hand-over call it.
//!
//! - [`validate`] says what Ignition would refuse, and what it would ignore.
//! - [`with_config_token`] gives a host's own copy of a stub its token; a stub that fetches nothing from
//!   us is handed over byte for byte.
//! - [`with_files`] adds files to a config that we serve.
//! - [`stub`] reads user data in the forms it comes in, makes managed stubs, lifts spec 2 to 3.2, rotates the CA.
//! - [`version_negotiation`] says which version a client of the config server reads, [`downgrade`] writes a config in
//!   it.
//! - [`render`] merges a pool's machine configs and completes them for one client.
//!
//! All of it is pure. It knows neither kinds nor hosts: it takes text and values, and returns them.

mod data_url;
pub mod downgrade;
mod fields;
#[cfg(test)]
mod fixtures;
mod pem;
pub mod render;
mod spec3;
pub mod stub;
mod validate;
mod version;
pub mod version_negotiation;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

pub use fields::FieldError;
pub use pem::{PemError, StubAuthority};
pub use validate::data_url_is_valid;
pub use version::SpecVersion;

/// Largest config. Ignition itself has no bound; boot partitions and agents' plans do.
pub const CONFIG_BYTES_MAX: usize = 2 << 20;

/// What an examination found; fit for use when `errors` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFindings {
    /// Each names the place, `storage.files[2].path: …`, and shows no value: configs have secrets in them, and a
    /// host's status is seen by more people than its user data.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

/// Errors, and warnings, that are named; the first few are what a user can work on.
const FINDINGS_MAX: usize = 64;
/// Most characters of one finding: names in the config may be as long as the config.
const FINDING_CHARS_MAX: usize = 256;

impl ConfigFindings {
    fn error(&mut self, text: String) {
        add(&mut self.errors, &text);
    }

    fn warning(&mut self, text: String) {
        add(&mut self.warnings, &text);
    }
}

/// Adds a finding as one line that moves no cursor, whatever the names in the config are.
fn add(list: &mut Vec<String>, text: &str) {
    let shown = |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    match list.len() {
        0..FINDINGS_MAX => list.push(text.chars().take(FINDING_CHARS_MAX).map(shown).collect()),
        FINDINGS_MAX => list.push("there are more".to_owned()),
        _ => {}
    }
}

/// A file that is added to a config.
#[derive(Clone, PartialEq, Eq)]
pub struct NewFile {
    pub path: String,
    pub mode: u32,
    pub contents: Vec<u8>,
}

/// Contents may be a host's nonce.
impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile").field("path", &self.path).field("mode", &self.mode).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnitionError {
    #[error("the config is not valid: {0}")]
    Invalid(String),
    #[error("the config is not valid: {0}")]
    Json(#[from] validate::JsonFault),
    #[error("{path} is in the config already, and the appliance needs it: remove it from the config")]
    Taken { path: String },
    #[error("the config could not be encoded")]
    Encode,
}

/// Examines a config.
#[must_use]
pub fn validate(config: &[u8]) -> ConfigFindings {
    validate::bytes(config)
}

/// The names of the configs below the origins that the config merges with or is replaced by, each once. As the config
/// server reads a path: its last part.
#[must_use]
pub fn fetched_from(config: &[u8], origins: &[impl AsRef<str>]) -> Vec<String> {
    let Ok(mut value) = validate::read(config) else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for source in own_sources(&mut value, origins) {
        let url = source["source"].as_str().unwrap_or_default();
        let Some(rest) = origins.iter().find_map(|origin| path_below(url, origin.as_ref())) else { continue };
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// What of a URL lies below an origin. Scheme and host are the same in whatever letters (RFC 3986, section 6.2.2.1); a
/// path is not.
fn path_below<'a>(url: &'a str, origin: &str) -> Option<&'a str> {
    let host = origin.find("://").map_or(0, |at| at + 3);
    let path = origin[host..].find('/').map_or(origin.len(), |at| host + at);
    let (head, rest) = url.split_at_checked(path)?;
    if head.eq_ignore_ascii_case(&origin[..path]) { rest.strip_prefix(&origin[path..]) } else { None }
}

fn is_own(resource: &Value, origins: &[impl AsRef<str>]) -> bool {
    let is_below = |source: &str| origins.iter().any(|origin| path_below(source, origin.as_ref()).is_some());
    resource["source"].as_str().is_some_and(is_below)
}

/// The resources that point below one of the origins: spec 3's `merge`, spec 2's `append`, and `replace`.
fn own_sources<'a>(config: &'a mut Value, origins: &[impl AsRef<str>]) -> Vec<&'a mut Value> {
    let list_of_sources = match config.pointer("/ignition/version").and_then(Value::as_str) {
        Some(version) if is_spec_2(version) => "append",
        Some(_) | None => "merge",
    };
    let Some(section) = config.pointer_mut("/ignition/config").and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, value) in section {
        if name == list_of_sources {
            let list = value.as_array_mut().into_iter().flatten();
            found.extend(list.filter(|item| is_own(item, origins)));
        } else if name == "replace" && is_own(value, origins) {
            found.push(value);
        }
    }
    found
}

fn is_spec_2(version: &str) -> bool {
    version.starts_with("2.")
}

/// The host's own copy: every config source below an origin gets the header `Authorization: Bearer TOKEN`. Where the
/// config's version has no headers (before 3.1.0) its URL gets the token, which the client's log then shows.
///
/// # Errors
/// When the config is not JSON.
pub fn with_config_token(config: &[u8], origins: &[impl AsRef<str>], token: &str) -> Result<Vec<u8>, IgnitionError> {
    let mut value = validate::read(config)?;
    let version = value.pointer("/ignition/version").and_then(Value::as_str).unwrap_or_default().to_owned();
    let own = own_sources(&mut value, origins);
    if own.is_empty() {
        return Ok(config.to_vec());
    }
    let has_headers = validate::minor(&version) != Ok(0) && !is_spec_2(&version);
    for resource in own {
        let Some(resource) = resource.as_object_mut() else { continue };
        if !has_headers {
            if let Some(Value::String(source)) = resource.get_mut("source") {
                *source = url_with_token(source, token);
            }
        } else if let Value::Array(headers) = member(resource, "httpHeaders", json!([])) {
            headers.retain(|header| {
                !header["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case("authorization"))
            });
            headers.push(json!({"name": "Authorization", "value": format!("Bearer {token}")}));
        }
    }
    serde_json::to_vec(&value).map_err(|_| IgnitionError::Encode)
}

/// The URL with the parameter `token`, once.
fn url_with_token(url: &str, token: &str) -> String {
    let (rest, fragment) = url.split_once('#').map_or((url, None), |(rest, fragment)| (rest, Some(fragment)));
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let others = query.split('&').filter(|part| !part.is_empty() && part.split('=').next() != Some("token"));
    let query: String = others.fold(String::new(), |all, part| format!("{all}{part}&"));
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    format!("{path}?{query}token={token}{fragment}")
}

/// The config with further files, which must not be there already.
///
/// # Errors
/// When the config is not valid, has one of the paths, or something that a file does not go with, such as a link above
/// it.
pub fn with_files(config: &[u8], files: &[NewFile]) -> Result<Vec<u8>, IgnitionError> {
    refuse_invalid(config)?;
    let mut value = validate::read(config)?;
    for file in files {
        let lists = ["files", "directories", "links"].iter().filter_map(|list| value["storage"][list].as_array());
        if lists.flatten().any(|node| node["path"] == file.path.as_str()) {
            return Err(IgnitionError::Taken { path: file.path.clone() });
        }
        let root = value.as_object_mut().ok_or(IgnitionError::Encode)?;
        let storage = member(root, "storage", json!({})).as_object_mut().ok_or(IgnitionError::Encode)?;
        let list = member(storage, "files", json!([])).as_array_mut().ok_or(IgnitionError::Encode)?;
        list.push(json!({
            "path": file.path,
            "mode": file.mode,
            "overwrite": true,
            "contents": {"source": format!("data:;base64,{}", STANDARD.encode(&file.contents))},
        }));
    }
    let more = serde_json::to_vec(&value).map_err(|_| IgnitionError::Encode)?;
    refuse_invalid(&more)?;
    Ok(more)
}

/// A member of an object, made where there is none. Null is none: Ignition takes it so.
fn member<'a>(object: &'a mut Map<String, Value>, name: &str, empty: Value) -> &'a mut Value {
    let value = object.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = empty;
    }
    value
}

fn refuse_invalid(config: &[u8]) -> Result<(), IgnitionError> {
    let findings = validate(config);
    if findings.errors.is_empty() { Ok(()) } else { Err(IgnitionError::Invalid(findings.errors.join("; "))) }
}

#[cfg(test)]
mod tests;
