//! One secret's user data, brought up to date (S1.14 to S1.17, S1.22): spec 2 becomes 3.2, our CA becomes the present
//! one, all else stays. The policy stores what comes out, and names why nothing did.

use serde_json::Value;

use super::authority::{self, StubCaChange};
use super::form::{self, NotIgnition, ParsedUserData, UserDataError};
use super::managed_stub::Endpoint;
use super::spec2::{self, DuplicatePolicy, Sectors, Spec2Options};
use crate::pem::{self, StubAuthority};
use crate::version::Semver;
use crate::{path_below, validate};

/// What is ours, and what is known of the hosts.
#[derive(Clone, Copy, Debug)]
pub struct UpgradeTargets<'a> {
    pub endpoints: &'a [Endpoint],
    /// Our CA; with `None` the stub's CA is not looked at.
    pub authority: Option<&'a StubAuthority>,
    /// Spec 2 counts partitions in the disk's sectors.
    pub sectors: Sectors,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// The bytes stay as they are. The CA may have been left alone with a reason.
    Unchanged {
        version: String,
        authority: StubCaChange,
    },
    Ignored(NotIgnition),
    Changed(Box<StubUpgradeResult>),
    /// The group's image is not changed either (S1.17).
    Refused(UpgradeError),
}

#[derive(Clone, PartialEq, Eq)]
pub struct StubUpgradeResult {
    /// What is to be stored, in the form in which it was.
    pub bytes: Vec<u8>,
    pub from_version: String,
    pub to_version: String,
    /// The digest of the stored bytes, in hexadecimal.
    pub before_sha256: String,
    pub after_sha256: String,
    pub authority: StubCaChange,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// The bytes are an owner's config.
impl std::fmt::Debug for StubUpgradeResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StubUpgradeResult")
            .field("from_version", &self.from_version)
            .field("to_version", &self.to_version)
            .field("before_sha256", &self.before_sha256)
            .field("after_sha256", &self.after_sha256)
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    #[error(transparent)]
    Form(#[from] UserDataError),
    /// Line and column; the text itself may hold secrets.
    #[error("the user data is not valid JSON (line {line}, column {column})")]
    Json { line: usize, column: usize },
    #[error("ignition.version: is needed, for without it this is no Ignition config")]
    NoVersion,
    #[error("ignition.version: is not a version that is known: use 3.2.0 or newer")]
    UnknownVersion,
    /// The config would mean something else afterwards, without a word.
    #[error("it cannot be brought from spec 2 to 3.2.0: {0}")]
    Doubtful(#[from] validate::JsonFault),
    #[error("it cannot be brought from spec 2 to 3.2.0: {0}")]
    Convert(#[from] spec2::ConvertError),
}

/// What is to be done with a secret's user data.
#[must_use]
pub fn upgrade(bytes: &[u8], ours: &UpgradeTargets<'_>) -> Upgrade {
    match attempt(bytes, ours) {
        Ok(upgrade) => upgrade,
        Err(error) => Upgrade::Refused(error),
    }
}

fn attempt(bytes: &[u8], ours: &UpgradeTargets<'_>) -> Result<Upgrade, UpgradeError> {
    let (text, form) = match form::read(bytes)? {
        ParsedUserData::NotIgnition(what) => return Ok(Upgrade::Ignored(what)),
        ParsedUserData::Json { text, form } => (text, form),
    };
    let config: Value = serde_json::from_str(&text)
        .map_err(|error| UpgradeError::Json { line: error.line(), column: error.column() })?;
    let Some(version) = config.pointer("/ignition/version").and_then(Value::as_str) else {
        return Err(UpgradeError::NoVersion);
    };
    let from_version = version.to_owned();
    let (converted, to_version) = match Semver::parse(version) {
        Some(Semver { major: 3, .. }) => (None, from_version.clone()),
        Some(Semver { major: 2, minor: 0..=4, pre_release: false }) => {
            // What stands twice was read as its last above, and Ignition reads both.
            let config = validate::read(text.as_bytes())?;
            let options = Spec2Options { sectors: ours.sectors, duplicates: DuplicatePolicy::Refused };
            (Some(spec2::convert(config, options)?), spec2::VERSION.to_owned())
        }
        Some(_) | None => return Err(UpgradeError::UnknownVersion),
    };
    let notes = converted.as_ref().map(|config| notes(config, ours.endpoints)).unwrap_or_default();
    let converted = converted.map(|config| config.to_string());
    let before = converted.as_deref().unwrap_or(&text);
    let rotate = |authority| authority::rotate(before, ours.endpoints, authority);
    let (rotated, authority) = ours.authority.map_or((None, StubCaChange::None), rotate);
    let Some(text) = rotated.or(converted) else {
        return Ok(Upgrade::Unchanged { version: from_version, authority });
    };
    let after = form::write(&text, form);
    Ok(Upgrade::Changed(Box::new(StubUpgradeResult {
        before_sha256: hex::encode(pem::sha256(bytes)),
        after_sha256: hex::encode(pem::sha256(&after)),
        bytes: after,
        from_version,
        to_version,
        authority,
        notes,
    })))
}

/// The config server answers in the version that is asked for; other servers may not.
fn notes(config: &Value, endpoints: &[Endpoint]) -> Vec<String> {
    let merge = config["ignition"]["config"]["merge"].as_array().into_iter().flatten();
    let sources = merge.chain(config["ignition"]["config"].get("replace")).filter_map(|one| one["source"].as_str());
    let elsewhere = |source: &&str| {
        !source.starts_with("data:")
            && !endpoints.iter().any(|endpoint| path_below(source, &endpoint.configs()).is_some())
    };
    match sources.filter(elsewhere).count() {
        0 => Vec::new(),
        count => vec![format!(
            "{count} of the configs that it fetches come from other servers, which must serve spec 3 from now on"
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_stands_twice_is_not_lost() {
        let unit = |name: &str| format!(r#""systemd":{{"units":[{{"name":"{name}.service","enabled":true}}]}}"#);
        let ours = UpgradeTargets { endpoints: &[], authority: None, sectors: Sectors::Unknown };
        let upgraded = |parts: &[String]| {
            let text = format!(r#"{{"ignition":{{"version":"2.2.0"}},{}}}"#, parts.join(","));
            upgrade(text.as_bytes(), &ours)
        };
        assert!(matches!(upgraded(&[unit("a")]), Upgrade::Changed(_)));
        let Upgrade::Refused(error) = upgraded(&[unit("a"), unit("b")]) else { panic!("one of the units is lost") };
        let told = error.to_string();
        assert!(told.contains("systemd stands twice") && !told.contains("service"), "{told}");
    }
}
