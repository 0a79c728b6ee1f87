//! A rendered config, completed for one client of the config server (S1-6, upstream's `pkg/server`).
//!
//! Appended in upstream's order: certificate bundles, node annotations, kubeconfig, the appliance's own files, and last
//! the encapsulated machine config, by which the first boot finds what Ignition in the initramfs does not do: the OS
//! image, extensions, and for clients before 3.3.0 the kernel arguments of the config.

use serde_json::{Value, json};

use super::Rendered;
use crate::{NewFile, SpecVersion, data_url, downgrade, fields::FieldError, spec3};

const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
const ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
const ANNOTATION_PREFIX: &str = "machineconfiguration.openshift.io";
/// rw-r--r--, as upstream's.
const MODE: u32 = 0o644;

/// What is added for a pool or a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    pub bundles: Vec<CertificateFile>,
    pub kubeconfig: Option<Vec<u8>>,
    /// The layered image that a node of the pool runs, if it has one.
    pub image: String,
    /// The appliance's own.
    pub files: Vec<NewFile>,
}

/// Certificates at a path. A file of the config that is there already gets these contents, for they are newer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFile {
    pub path: String,
    /// An empty one changes nothing.
    pub pem: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct ServedRendering {
    pub bytes: Vec<u8>,
    pub version: SpecVersion,
    /// Kernel arguments of the config that the client does not understand. The encapsulated machine config has them;
    /// where the OS of the host does not read that, you apply them when you prepare the host (S1.30).
    pub moved_kernel_arguments: Vec<String>,
}

/// The bytes hold join credentials.
impl std::fmt::Debug for ServedRendering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServedRendering {} bytes of {}", self.bytes.len(), self.version)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    #[error("the pool's config cannot be served as {version}: {fault}")]
    Unsaid { version: SpecVersion, fault: FieldError },
    #[error("{path} is in the pool's config already, and the appliance needs it: remove it from the machine config")]
    Taken { path: String },
    #[error("with the appliance's own files the pool's config is not valid: {0}")]
    Invalid(String),
}

impl ServeError {
    /// Answers as upstream does. A 3.0 client, which upstream cannot serve at all, gets an error that names the
    /// client's version.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Unsaid { version: SpecVersion::V3_0, .. } => 406,
            Self::Unsaid { .. } | Self::Taken { .. } | Self::Invalid(_) => 500,
        }
    }
}

/// What a client of this version gets.
///
/// # Errors
/// When the config cannot be said in the version, has a file that is ours, or leaves no place for one.
pub fn serve(rendered: &Rendered, additions: &Additions, version: SpecVersion) -> Result<ServedRendering, ServeError> {
    let unsaid = |fault| ServeError::Unsaid { version, fault };
    let mut config = rendered.config.clone();
    let moved = if version < SpecVersion::V3_3 { move_arguments(&mut config).map_err(unsaid)? } else { Vec::new() };
    for bundle in additions.bundles.iter().filter(|bundle| !bundle.pem.is_empty()) {
        replace(&mut config, &bundle.path, &bundle.pem);
    }
    add(&mut config, ANNOTATIONS, annotations(rendered, &additions.image).as_bytes(), MODE)?;
    if let Some(kubeconfig) = &additions.kubeconfig {
        add(&mut config, KUBECONFIG, kubeconfig, MODE)?;
    }
    for file in &additions.files {
        add(&mut config, &file.path, &file.contents, file.mode)?;
    }
    let arguments: Vec<String> = rendered.kernel_arguments.iter().chain(&moved).cloned().collect();
    let empty = json!({"ignition": {"version": version.text()}});
    let encapsulated = rendered.machine_config(&empty, &arguments).to_string();
    add(&mut config, ENCAPSULATED, encapsulated.as_bytes(), MODE)?;
    let findings = crate::validate(config.to_string().as_bytes());
    if !findings.errors.is_empty() {
        return Err(ServeError::Invalid(findings.errors.join("; ")));
    }
    let served = downgrade::convert(config, version).map_err(unsaid)?;
    Ok(ServedRendering { bytes: served.to_string().into_bytes(), version, moved_kernel_arguments: moved })
}

fn move_arguments(config: &mut Value) -> Result<Vec<String>, FieldError> {
    let mut moved = Vec::new();
    spec3::each(config, "kernelArguments", |map, name, place| {
        let arguments = map.remove(name).unwrap_or_default();
        if !spec3::is_hollow(&arguments["shouldNotExist"]) {
            let reason = "needs a client that reads 3.3.0, for a machine config can only add arguments";
            return Err(FieldError::new(&format!("{place}.shouldNotExist"), reason));
        }
        let added = arguments["shouldExist"].as_array().into_iter().flatten();
        moved.extend(added.filter_map(Value::as_str).map(str::to_owned));
        Ok(())
    })?;
    Ok(moved)
}

fn annotations(rendered: &Rendered, image: &str) -> String {
    let mut annotations = serde_json::Map::new();
    let mut note = |name: &str, value: &str| {
        annotations.insert(format!("{ANNOTATION_PREFIX}/{name}"), Value::from(value));
    };
    for name in ["currentConfig", "desiredConfig", "firstPivotConfig"] {
        note(name, &rendered.name);
    }
    note("state", "Done");
    if !image.is_empty() {
        note("currentImage", image);
        note("desiredImage", image);
    }
    Value::Object(annotations).to_string()
}

fn files(config: &mut Value) -> Option<&mut Vec<Value>> {
    let storage = config.as_object_mut()?.entry("storage").or_insert_with(|| json!({}));
    storage.as_object_mut()?.entry("files").or_insert_with(|| json!([])).as_array_mut()
}

fn file(path: &str, contents: &[u8], mode: u32) -> Value {
    json!({
        "path": path,
        "mode": mode,
        "overwrite": true,
        "contents": {"source": data_url::encode(contents)},
    })
}

fn add(config: &mut Value, path: &str, contents: &[u8], mode: u32) -> Result<(), ServeError> {
    let taken = ["files", "directories", "links"].into_iter().any(|list| {
        config["storage"][list].as_array().is_some_and(|list| list.iter().any(|entry| entry["path"] == path))
    });
    match files(config) {
        Some(files) if !taken => {
            files.push(file(path, contents, mode));
            Ok(())
        }
        Some(_) | None => Err(ServeError::Taken { path: path.to_owned() }),
    }
}

fn replace(config: &mut Value, path: &str, contents: &[u8]) {
    let Some(files) = files(config) else { return };
    match files.iter_mut().find(|file| file["path"] == path) {
        Some(file) => {
            file["contents"] = json!({"source": data_url::encode(contents)});
            file["overwrite"] = Value::Bool(true);
        }
        None => files.push(file(path, contents, MODE)),
    }
}
