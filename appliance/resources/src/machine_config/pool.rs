//! `MachineConfigPool`: the machines of a role. Its name is the last part of the URL that its stubs lead to.

use firesteel_kube_types::{Cause, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kind::{AGE, Kind, KindColumn, KindScope, RuleVerdict, column};
use crate::selector::{self, Selector};
use crate::shape::{CelRule, Field, Shape};
use crate::{label, reference};

pub const KIND: Kind = Kind {
    short_names: &["mcp"],
    scope: KindScope::Cluster,
    has_status: true,
    columns: &[
        column("Config", ".status.configuration.name", "The rendered config", 0),
        column("Updated", r#".status.conditions[?(@.type=="Updated")].status"#, "All machines have it", 0),
        column(
            "Updating",
            r#".status.conditions[?(@.type=="Updating")].status"#,
            "Some machine does not have it yet",
            0,
        ),
        column("Degraded", r#".status.conditions[?(@.type=="Degraded")].status"#, "The config cannot be given", 0),
        count("MachineCount", ".status.machineCount", "Machines of the pool"),
        count("ReadyMachineCount", ".status.readyMachineCount", "Machines that are ready"),
        count("UpdatedMachineCount", ".status.updatedMachineCount", "Machines that have the current config"),
        count("DegradedMachineCount", ".status.degradedMachineCount", "Machines that cannot get it"),
        AGE,
    ],
    about: "The machines of a role, and which configs they get.",
    rules: |new, _| judge(new),
    ..Kind::new(super::GROUP, "v1", "MachineConfigPool", "machineconfigpools", "machineconfigpool", &SHAPE)
};

const fn count(name: &'static str, json_path: &'static str, description: &'static str) -> KindColumn {
    KindColumn { type_: "number", ..column(name, json_path, description, 0) }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPool {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: MachineConfigPoolSpec,
    /// Is made of more than the appliance reads.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub status: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolSpec {
    /// Which configs are rendered. Without it, none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_selector: Option<Selector>,
    /// The rendered config that is wanted, as upstream's controller notes it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub configuration: Value,
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Value>,
}

const NOT_RUNNING: &str = "running nodes are not changed by the appliance";
const UNACTED: [(&str, &str); 5] = [
    ("nodeSelector", "which hosts are of a pool their group says, or who made their stub"),
    ("maxUnavailable", NOT_RUNNING),
    ("paused", NOT_RUNNING),
    ("pinnedImageSets", "container images are not fetched onto nodes"),
    ("osImageStream", "which image a host gets its group or set says"),
];

fn judge(new: &Value) -> RuleVerdict {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    for name in ["machineConfigSelector", "nodeSelector"] {
        if let Err(why) = Selector::read(&spec[name]) {
            causes.push(Cause::invalid_value(&format!("spec.{name}"), &spec[name], &why.to_string()));
        }
    }
    // A null or a false asks for nothing.
    let is_set = |name: &str| !matches!(spec[name], Value::Null | Value::Bool(false));
    let unacted = UNACTED.iter().filter(|(name, _)| is_set(name));
    let unacted = unacted.map(|(name, why)| format!("spec.{name} is accepted but not acted on: {why}")).collect();
    RuleVerdict { causes, unacted }
}

const CONFIGURATION: Shape = Shape::object(&[
    Field::new("apiVersion", Shape::TEXT).about("The API version of the object."),
    Field::new("fieldPath", Shape::TEXT).about("The part of the object that is meant."),
    Field::new("kind", Shape::TEXT).about("The kind of the object."),
    Field::new("name", Shape::TEXT).about("The name of the object."),
    Field::new("namespace", Shape::TEXT).about("The namespace of the object."),
    Field::new("resourceVersion", Shape::TEXT).about("The revision of the object that is meant."),
    Field::new("source", Shape::list(&reference::REFERENCE_SHAPE).atomic())
        .about("The configs that it was rendered from."),
    Field::new("uid", Shape::TEXT).about("The UID of the object."),
])
.atomic();

const OS_STREAM: Shape = Shape::object(&[Field::required(
    "name",
    Shape::TEXT.chars_min(1).chars_max(253).ruled_by(&[CelRule {
        cel: "!format.dns1123Subdomain().validate(self).hasValue()",
        message: "a RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
                  and end with an alphanumeric character.",
        holds: |value, _| value.as_str().is_none_or(label::is_subdomain),
    }]),
)
.about("The name of the stream.")]);

const PINNED: Shape = Shape::object(&[Field::required(
    "name",
    Shape::TEXT.chars_min(1).chars_max(253).matching(
        r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])(\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9]))*$",
    ),
)
.about("The name of the set.")]);

const SPEC: Shape = Shape::object(&[
    Field::new("configuration", CONFIGURATION).about("The rendered config that is wanted."),
    Field::new("machineConfigSelector", selector::SHAPE).about("Which configs are rendered."),
    Field::new("maxUnavailable", Shape::INTEGER_OR_TEXT).about("How many nodes are updated at a time."),
    Field::new("nodeSelector", selector::SHAPE).about("Which nodes are of this pool."),
    Field::new("osImageStream", OS_STREAM).about("The stream of OS images that the nodes follow."),
    Field::new("paused", Shape::BOOLEAN).about("Whether nodes are left as they are."),
    Field::new("pinnedImageSets", Shape::list(&PINNED).keyed_by(&["name"]).items_max(100))
        .about("Sets of container images that are kept on the nodes."),
]);

const EXPIRY: Shape = Shape::object(&[
    Field::required("bundle", Shape::TEXT).about("The bundle that the certificate is in."),
    Field::new("expiry", Shape::TIME).about("When it ends."),
    Field::required("subject", Shape::TEXT).about("Whose it is."),
]);

const CONDITION: Shape = Shape::object(&[
    Field::new("lastTransitionTime", Shape::TIME.nullable()).about("When the status changed last."),
    Field::new("message", Shape::TEXT).about("The reason, for people."),
    Field::new("reason", Shape::TEXT).about("The reason, as one word."),
    Field::status(Shape::TEXT, "Whether it is so: True, False or Unknown."),
    Field::new("type", Shape::TEXT).about("What this is about."),
]);

const COUNT: Shape = Shape::INT64.min(0);

/// Two numbers of which the first is the larger.
fn at_least(value: &Value, more: &str, less: &str) -> bool {
    match (value[more].as_i64(), value[less].as_i64()) {
        (Some(more), Some(less)) => more >= less,
        _ => true,
    }
}

const SYNCHRONIZER: Shape = Shape::object(&[
    Field::required("availableMachineCount", COUNT).about("Machines that are available."),
    Field::required("machineCount", COUNT).about("Machines that there are."),
    Field::new(
        "observedGeneration",
        COUNT.ruled_by(&[CelRule {
            cel: "self >= oldSelf || (self == 0 && oldSelf > 0)",
            message: "observedGeneration must not move backwards except to zero",
            holds: |value, old| match (value.as_i64(), old.and_then(Value::as_i64)) {
                (Some(new), Some(old)) => new >= old || new == 0,
                _ => true,
            },
        }]),
    )
    .about("The generation of the object that this was found of."),
    Field::required("poolSynchronizerType", Shape::one_of(&["PinnedImageSets"]).chars_max(256))
        .about("What is synchronised."),
    Field::required("readyMachineCount", COUNT).about("Machines that are ready."),
    Field::required("unavailableMachineCount", COUNT).about("Machines that are not available."),
    Field::required("updatedMachineCount", COUNT).about("Machines that have what is wanted."),
])
.ruled_by(&[
    CelRule {
        cel: "self.machineCount >= self.updatedMachineCount",
        message: "machineCount must be greater than or equal to updatedMachineCount",
        holds: |value, _| at_least(value, "machineCount", "updatedMachineCount"),
    },
    CelRule {
        cel: "self.machineCount >= self.availableMachineCount",
        message: "machineCount must be greater than or equal to availableMachineCount",
        holds: |value, _| at_least(value, "machineCount", "availableMachineCount"),
    },
    CelRule {
        cel: "self.machineCount >= self.unavailableMachineCount",
        message: "machineCount must be greater than or equal to unavailableMachineCount",
        holds: |value, _| at_least(value, "machineCount", "unavailableMachineCount"),
    },
    CelRule {
        cel: "self.machineCount >= self.readyMachineCount",
        message: "machineCount must be greater than or equal to readyMachineCount",
        holds: |value, _| at_least(value, "machineCount", "readyMachineCount"),
    },
    CelRule {
        cel: "self.availableMachineCount >= self.readyMachineCount",
        message: "availableMachineCount must be greater than or equal to readyMachineCount",
        holds: |value, _| at_least(value, "availableMachineCount", "readyMachineCount"),
    },
]);

const STATUS: Shape = Shape::object(&[
    Field::new("certExpirys", Shape::list(&EXPIRY).atomic()).about("When the certificates in the config end."),
    Field::new("conditions", Shape::list(&CONDITION).atomic()).about("How the pool is."),
    Field::new("configuration", CONFIGURATION).about("The rendered config that machines have."),
    Field::new("degradedMachineCount", Shape::INT32).about("Machines that cannot get it."),
    Field::new("machineCount", Shape::INT32).about("Machines of the pool."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("osImageStream", OS_STREAM).about("The stream of OS images that the nodes follow now."),
    Field::new("poolSynchronizersStatus", Shape::list(&SYNCHRONIZER).keyed_by(&["poolSynchronizerType"]))
        .about("How far the pool's own synchronisers are."),
    Field::new("readyMachineCount", Shape::INT32).about("Machines that are ready."),
    Field::new("unavailableMachineCount", Shape::INT32).about("Machines that are not available."),
    Field::new("updatedMachineCount", Shape::INT32).about("Machines that have the current config."),
]);

const SHAPE: Shape =
    Shape::object(&[Field::required("spec", SPEC).about("What is wanted."), Field::status(STATUS, "What is so.")]);
