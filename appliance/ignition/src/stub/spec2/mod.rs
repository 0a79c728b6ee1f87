//! Spec 2.0 to 2.4 → 3.2.0, keeping everything: what cannot be kept is an error that names the field.
//!
//! The rules are those of Ignition's migration guide and of coreos/ign-converter, and go further where that drops or
//! refuses what spec 3 can say:
//!
//! - networkd units become the files that Ignition 2 wrote of them.
//! - Partitions in sectors become MiB where the sector size is known, or where they are 0 ("all there is").
//! - A filesystem on which files are put needs a mount point in spec 3. It is taken from the mount unit in the same
//!   config; one that nothing is put on needs none.
//! - A root filesystem that is created again (`name: root` with `mount`) is kept as the filesystem of `/`.
//! - Contents that are appended by several entries become one file's list.
//! - `passwd.users[].create` becomes the user's own fields.
//!
//! ```text
//! convert ─► ignition, storage (filesystems → Mounts; disks, nodes), systemd, networkd, passwd ─► crate::validate
//! ```

mod ignition;
mod mounts;
mod nodes;
mod passwd;
mod storage;
mod units;

use serde_json::Value;

use crate::CONFIG_BYTES_MAX;
use crate::fields::{FieldError, Fields, SparseObject};
use crate::version::Semver;

/// What comes out.
pub const VERSION: &str = "3.2.0";

/// What a config does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec2Options {
    pub sectors: Sectors,
    pub duplicates: DuplicatePolicy,
}

/// The logical sectors of the disks that the config is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sectors {
    /// The size is not known, or there are several.
    Unknown,
    Bytes512,
    Bytes4096,
}

/// A file, unit or user that stands in a config twice. Spec 3 allows each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicatePolicy {
    /// The rule for an owner's stub: a person has to say which is meant.
    Refused,
    /// The rule for machine configs, which is the machine-config-operator's: the last file, the last unit with the
    /// drop-ins of all, the last user with the keys of all.
    LastWins,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("as spec 3.2.0 it would not be valid: {0}")]
    Invalid(String),
}

/// The version that a config says, which decides on a few defaults.
#[derive(Clone, Copy)]
struct Spec2Defaults {
    options: Spec2Options,
    /// Whether a file without a mode gets mode 0, as up to 2.1, and not the default.
    mode_defaults_to_zero: bool,
}

/// Converts a whole config.
///
/// # Errors
/// When a field cannot be kept, is of the wrong type, or the whole would not be valid.
pub fn convert(config: Value, options: Spec2Options) -> Result<Value, ConvertError> {
    let version = config.pointer("/ignition/version").and_then(Value::as_str).and_then(Semver::parse);
    let minor = match version {
        Some(Semver { major: 2, minor: minor @ 0..=4, pre_release: false }) => minor,
        Some(_) | None => return Err(FieldError::new("ignition.version", "must be 2.0.0 to 2.4.0").into()),
    };
    let context = Spec2Defaults { options, mode_defaults_to_zero: minor < 2 };
    let mount_units = units::mount_units(&config);
    let mut root = Fields::of(config, "")?;
    let mut head = root.object("ignition")?;
    let mut storage = root.object("storage")?;
    let mut systemd = root.object("systemd")?;
    let mut networkd = root.object("networkd")?;
    let mut people = root.object("passwd")?;
    root.end()?;
    let network_files = units::networkd(&mut networkd)?;
    networkd.end()?;
    let converted = SparseObject::default()
        .put("ignition", ignition::convert(&mut head)?)
        .object("storage", storage::convert(&mut storage, network_files, &mount_units, context)?)
        .object("systemd", units::systemd(&mut systemd, context)?)
        .object("passwd", passwd::convert(&mut people, context)?);
    for section in [head, storage, systemd, people] {
        section.end()?;
    }
    valid(converted.into())
}

fn valid(config: Value) -> Result<Value, ConvertError> {
    let bytes = config.to_string();
    if bytes.len() > CONFIG_BYTES_MAX {
        return Err(ConvertError::Invalid(format!("it has {} bytes, more than {CONFIG_BYTES_MAX}", bytes.len())));
    }
    let findings = crate::validate(bytes.as_bytes());
    if findings.errors.is_empty() { Ok(config) } else { Err(ConvertError::Invalid(findings.errors.join("; "))) }
}

/// Where something is fetched from, with its headers and digest.
fn resource(fields: &mut Fields) -> Result<SparseObject, FieldError> {
    let source = fields.text("source")?;
    let headers = fields.objects("httpHeaders")?.into_iter().map(|mut header| {
        let written =
            SparseObject::default().put("name", header.needed_text("name")?).some("value", header.text("value")?);
        header.end()?;
        Ok(Value::from(written))
    });
    let headers: Vec<Value> = headers.collect::<Result<_, FieldError>>()?;
    let mut verification = fields.object("verification")?;
    let hash = verification.text("hash")?;
    verification.end()?;
    Ok(SparseObject::default()
        .some("source", source)
        .list("httpHeaders", headers)
        .object("verification", SparseObject::default().some("hash", hash)))
}
