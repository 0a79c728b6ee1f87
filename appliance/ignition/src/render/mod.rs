//! A pool's machine configs as one, as the machine-config-operator renders them, and completed for one client.
//!
//! ```text
//! MachineConfig… ─► render (order, merge, contradictions) ─► Rendered ─┐
//! annotations, bundles, files of the appliance ─► Additions ───────────┴─► serve ─► bytes in the client's version
//! ```
//!
//! The callers' kinds are not known here: they are mapped to [`RenderableConfig`]. Differences from upstream, each
//! where it would lose or mix up what an owner wrote:
//!
//! - Contents from a new source replace the old ones whole, with compression, digest and headers; upstream resets the
//!   compression alone, and that also where the source stays.
//! - Machine configs that contradict each other are an error that names both: two kernel types, an argument that one
//!   adds and another removes, two configs that are valid alone and not together.
//! - A file to which is only appended is not made to overwrite, which Ignition would refuse.

mod merge;
mod merge_conflict;
mod serve;

use std::fmt;

use serde_json::{Value, json};

use crate::spec3;
use crate::stub::spec2::{self, DuplicatePolicy, Sectors, Spec2Options};
use crate::version::Semver;
use crate::{CONFIG_BYTES_MAX, SpecVersion, pem};

pub use merge::merge;
pub use serve::{Additions, CertificateFile, ServeError, ServedRendering, serve};

/// The role whose machine configs are the base of every other pool's.
const WORKER: &str = "worker";
/// Most machine configs of one pool. Upstream's largest clusters have about a hundred.
pub const MACHINE_CONFIGS_MAX: usize = 1000;
/// File modes of machine configs have no special bits (upstream's bug 2038240).
const MODE_MAX: u64 = 0o777;

/// A machine config as far as rendering needs it.
#[derive(Clone, Default, PartialEq)]
pub struct RenderableConfig {
    pub name: String,
    /// The role in the label `machineconfiguration.openshift.io/role`.
    pub role: String,
    /// Whether a controller made it, which has no say in the OS image (upstream's `generated-by-controller-version`).
    pub generated: bool,
    /// An Ignition config of spec 2 or 3; `None`, null or empty for none.
    pub config: Option<Value>,
    pub kernel_arguments: Vec<String>,
    pub extensions: Vec<String>,
    pub fips: bool,
    /// `default`, `realtime`, `64k-pages`, or empty.
    pub kernel_type: String,
    pub os_image_url: String,
    /// The field `baseOSExtensionsContainerImage`.
    pub extensions_image: String,
}

/// The config may hold secrets.
impl fmt::Debug for RenderableConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenderableConfig").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// The images of a pool whose machine configs name none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub os_image_url: String,
    pub extensions_image: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelType {
    #[default]
    Default,
    Realtime,
    Pages64k,
}

impl KernelType {
    fn read(text: &str) -> Option<Self> {
        match text {
            "" | "default" => Some(Self::Default),
            "realtime" => Some(Self::Realtime),
            "64k-pages" => Some(Self::Pages64k),
            _ => None,
        }
    }

    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Realtime => "realtime",
            Self::Pages64k => "64k-pages",
        }
    }
}

/// What a pool's hosts get.
#[derive(Clone, PartialEq)]
pub struct Rendered {
    /// `rendered-POOL-DIGEST`: the same for the same content.
    pub name: String,
    /// Spec 3.5, valid.
    pub config: Value,
    pub kernel_arguments: Vec<String>,
    pub extensions: Vec<String>,
    pub fips: bool,
    pub kernel_type: KernelType,
    pub os_image_url: String,
    pub extensions_image: String,
    /// The machine configs in it, in the order in which they were merged.
    pub sources: Vec<String>,
    /// What is in a machine config and has no effect.
    pub notes: Vec<String>,
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered").field("name", &self.name).field("sources", &self.sources).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolRenderError {
    #[error("no machine config is selected by the pool")]
    Empty,
    #[error("the pool selects more than {MACHINE_CONFIGS_MAX} machine configs")]
    Many,
    #[error("machine config {name}: {fault}")]
    Invalid { name: String, fault: String },
    #[error("machine configs {first} and {second} contradict each other: {fault}")]
    Contradiction { first: String, second: String, fault: String },
    #[error("the rendered config has {0} bytes, more than {CONFIG_BYTES_MAX}: let hosts fetch large files by URL")]
    Large(usize),
}

/// Renders a pool.
///
/// # Errors
/// When there is nothing to render, a machine config is invalid, or two contradict each other.
pub fn render(pool: &str, configs: &[RenderableConfig], defaults: &Defaults) -> Result<Rendered, PoolRenderError> {
    match configs.len() {
        0 => return Err(PoolRenderError::Empty),
        1..=MACHINE_CONFIGS_MAX => {}
        _ => return Err(PoolRenderError::Many),
    }
    let mut ordered: Vec<&RenderableConfig> = configs.iter().collect();
    // A pool's own configs come after those for all workers, so that they win.
    ordered.sort_by_key(|config| (config.role != WORKER, &config.name));
    let mut notes = Vec::new();
    let parts = ordered.iter().filter_map(|config| read(config, &mut notes).transpose());
    let parts: Vec<(&str, Value)> = parts.collect::<Result<_, _>>()?;
    let config = merge_conflict::merge_all(&parts)?;
    let kernel_type = merge_conflict::kernel_type(&ordered)?;
    merge_conflict::kernel_arguments(&ordered, &parts)?;
    let all =
        |list: fn(&RenderableConfig) -> &Vec<String>| ordered.iter().flat_map(|config| list(config)).cloned().collect();
    let mut rendered = Rendered {
        name: String::new(),
        config,
        kernel_arguments: all(|config| &config.kernel_arguments),
        extensions: all(|config| &config.extensions),
        fips: ordered.iter().any(|config| config.fips),
        kernel_type,
        os_image_url: last(&ordered, &defaults.os_image_url, |config| &config.os_image_url),
        extensions_image: last(&ordered, &defaults.extensions_image, |config| &config.extensions_image),
        sources: ordered.iter().map(|config| config.name.clone()).collect(),
        notes,
    };
    let content = rendered.spec(&rendered.config, &rendered.kernel_arguments).to_string();
    // 128 bits, as in upstream's names, and short enough for a name.
    rendered.name = format!("rendered-{pool}-{}", hex::encode(&pem::sha256(content.as_bytes())[..16]));
    Ok(rendered)
}

impl Rendered {
    /// `spec` of the machine config that this is.
    fn spec(&self, config: &Value, kernel_arguments: &[String]) -> Value {
        json!({
            "baseOSExtensionsContainerImage": self.extensions_image,
            "config": config,
            "extensions": self.extensions,
            "fips": self.fips,
            "kernelArguments": kernel_arguments,
            "kernelType": self.kernel_type.text(),
            "osImageURL": self.os_image_url,
        })
    }

    /// The machine config that this is, with another Ignition config and other kernel arguments.
    fn machine_config(&self, config: &Value, kernel_arguments: &[String]) -> Value {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": self.name, "creationTimestamp": null},
            "spec": self.spec(config, kernel_arguments),
        })
    }
}

/// The last that a person wrote.
fn last(ordered: &[&RenderableConfig], default: &str, field: fn(&RenderableConfig) -> &String) -> String {
    let mut written = ordered.iter().filter(|config| !config.generated).map(|config| field(config));
    written.rfind(|text| !text.is_empty()).map_or(default, String::as_str).to_owned()
}

/// A machine config's Ignition config in the newest version; `None` when it has none.
fn read<'a>(
    machine: &'a RenderableConfig,
    notes: &mut Vec<String>,
) -> Result<Option<(&'a str, Value)>, PoolRenderError> {
    let invalid = |fault: String| PoolRenderError::Invalid { name: machine.name.clone(), fault };
    let config = match &machine.config {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(map)) if map.is_empty() => return Ok(None),
        Some(config) => config,
    };
    let version = config.pointer("/ignition/version").and_then(Value::as_str).unwrap_or_default();
    let (mut config, version) = match (SpecVersion::named(version), Semver::parse(version)) {
        (Some(version), _) if version >= SpecVersion::V3_0 => (config.clone(), version),
        (_, Some(Semver { major: 2, .. })) => {
            let options = Spec2Options { sectors: Sectors::Unknown, duplicates: DuplicatePolicy::LastWins };
            let converted = spec2::convert(config.clone(), options).map_err(|error| invalid(error.to_string()))?;
            (converted, SpecVersion::V3_2)
        }
        _ => return Err(invalid("ignition.version: must be 2.0.0 to 2.4.0 or 3.0.0 to 3.5.0".to_owned())),
    };
    let findings = crate::validate(config.to_string().as_bytes());
    if !findings.errors.is_empty() {
        return Err(invalid(findings.errors.join("; ")));
    }
    let files = config["storage"]["files"].as_array().into_iter().flatten().enumerate();
    for (index, file) in files {
        if file["mode"].as_u64().is_some_and(|mode| mode > MODE_MAX) {
            return Err(invalid(format!("storage.files[{index}].mode: must be at most 511 (decimal for octal 777)")));
        }
    }
    let lost = spec3::lift(&mut config, version);
    notes.extend(lost.into_iter().map(|note| format!("machine config {}: {note}", machine.name)));
    Ok(Some((&machine.name, config)))
}

#[cfg(test)]
mod tests;
