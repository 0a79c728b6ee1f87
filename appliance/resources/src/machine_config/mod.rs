//! `MachineConfig` and `MachineConfigPool` (machineconfiguration.openshift.io/v1): what the machines of a role are
//! configured with. The configs that a pool selects are rendered into the one that is served to a host when its
//! Ignition asks; shape and names are upstream's. Running nodes are not changed: no daemon of the appliance's runs on
//! them.

pub mod pool;

use firesteel_kube_types::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::companions::CONDITIONS_ONLY;
use crate::kind::{AGE, Kind, KindScope, RuleVerdict, column};
use crate::shape::{Field, Shape};

pub(super) const GROUP: &str = "machineconfiguration.openshift.io";
/// Upstream's own `rendered-…` objects are selected by no pool: they lack the role's label.
pub const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

pub const KIND: Kind = Kind {
    short_names: &["mc"],
    scope: KindScope::Cluster,
    columns: &[
        column(
            "GeneratedByController",
            r".metadata.annotations.machineconfiguration\.openshift\.io/generated-by-controller-version",
            "Version of the controller that made it; empty if a person did",
            0,
        ),
        column("IgnitionVersion", ".spec.config.ignition.version", "Version of the Ignition config", 0),
        AGE,
    ],
    about: "A part of what the machines of a role are configured with.",
    rules: |new, _| RuleVerdict { causes: Vec::new(), unacted: unacted(&new["spec"]) },
    ..Kind::new(GROUP, "v1", "MachineConfig", "machineconfigs", "machineconfig", &SHAPE)
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfig {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: MachineConfigSpec,
}

/// What of it Ignition does not do, the host's own first-boot service does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigSpec {
    /// An Ignition config of any version that Ignition had.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub config: Value,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_none")]
    pub kernel_arguments: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel_type: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fips: bool,
    #[serde(rename = "osImageURL", skip_serializing_if = "String::is_empty")]
    pub os_image_url: String,
    #[serde(rename = "baseOSExtensionsContainerImage", skip_serializing_if = "String::is_empty")]
    pub base_os_extensions_container_image: String,
}

/// Null is none, as upstream's tools write it.
fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The appliance hands these on in the config that it serves; only an OS with upstream's first-boot service acts on
/// them.
const LEFT_TO_THE_OS: [&str; 6] =
    ["kernelArguments", "kernelType", "extensions", "fips", "osImageURL", "baseOSExtensionsContainerImage"];

fn unacted(spec: &Value) -> Vec<String> {
    let asks = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Number(_) | Value::Object(_) => true,
    };
    let set = LEFT_TO_THE_OS.iter().filter(|name| asks(&spec[**name]));
    set.map(|name| {
        format!(
            "spec.{name} is handed to the host and not acted on by the appliance: the OS's own first-boot service \
             does, where it has one"
        )
    })
    .collect()
}

const SPEC: Shape = Shape::object(&[
    Field::new("baseOSExtensionsContainerImage", Shape::TEXT).about("Where the packages of extensions come from."),
    Field::new("config", Shape::object(&[]).open()).about("An Ignition config."),
    Field::new("extensions", Shape::list(&Shape::TEXT).atomic()).about("Groups of packages that the OS gets besides."),
    Field::new("fips", Shape::BOOLEAN).about("Whether the OS is in FIPS mode."),
    Field::new("kernelArguments", Shape::list(&Shape::TEXT).atomic().nullable()).about("Arguments of the kernel."),
    Field::new("kernelType", Shape::TEXT).about("Which kernel the OS has: default, realtime or 64k-pages."),
    Field::new("osImageURL", Shape::TEXT).about("The container image that the OS is brought to."),
]);

const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "What is wanted."),
    Field::status(CONDITIONS_ONLY, "What becomes of this object."),
]);
