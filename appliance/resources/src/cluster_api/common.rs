//! What both versions have alike.

use serde_json::Value;

use crate::condition::{self, CONDITIONS_MAX};
use crate::shape::{CelRule, Field, Shape};

pub(super) use crate::condition::TYPE_PATTERN as CONDITION_TYPE;

/// A name that may have a domain before it.
pub(super) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

/// A label's value.
pub(super) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// A label of a domain name.
pub(super) const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// A range such as [3-5].
pub(super) const RANGE: &str = r"^\[[0-9]+-[0-9]+\]$";

/// A domain name.
pub(super) const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The name of a kind.
pub(super) const KIND: &str = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

/// A group and a version.
pub(super) const API_VERSION: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[a-z]([-a-z0-9]*[a-z0-9])?$";

/// Conditions that the controllers of health checks make themselves.
const OWN_CONDITIONS: [&str; 5] =
    ["Ready", "Available", "HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated"];

pub(super) const NOT_OWN: CelRule = CelRule {
    cel: "!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])",
    message: "type must not be one of: Ready, Available, HealthCheckSucceeded, OwnerRemediated, ExternallyRemediated",
    holds: |value: &Value, _| value.as_str().is_none_or(|name| !OWN_CONDITIONS.contains(&name)),
};

pub(super) const READINESS_GATE: Shape = Shape::object(&[
    Field::required("conditionType", Shape::TEXT.chars_min(1).chars_max(316).matching(CONDITION_TYPE))
        .about("The type of the condition."),
    Field::new("polarity", Shape::one_of(&["Positive", "Negative"]))
        .about("Whether the condition is good when true, or when false."),
]);

const TAINT: Shape = Shape::object(&[
    Field::required("effect", Shape::one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]))
        .about("What the taint does to pods that do not tolerate it."),
    Field::required("key", Shape::TEXT.chars_min(1).chars_max(317).matching(QUALIFIED_NAME)).about("The key."),
    Field::required("propagation", Shape::one_of(&["Always", "OnInitialization"]))
        .about("Whether the taint is kept on the node, or set once."),
    Field::new("value", Shape::TEXT.chars_min(1).chars_max(63).matching(LABEL_VALUE)).about("The value."),
]);

pub(super) const ADDRESS: Shape = Shape::object(&[
    Field::required("address", Shape::TEXT.chars_min(1).chars_max(256)).about("The address."),
    Field::required("type", Shape::one_of(&["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]))
        .about("The type."),
]);

const CONDITION: Shape = Shape::object(&[
    Field::required("lastTransitionTime", Shape::TIME).about("When the status of the condition changed last."),
    Field::new("message", Shape::TEXT.chars_min(1).chars_max(10_240)).about("The reason, for people."),
    Field::new("reason", Shape::TEXT.chars_min(1).chars_max(256)).about("The reason, as one word."),
    Field::new("severity", Shape::TEXT.chars_max(32)).about("How bad it is that the condition is false."),
    Field::required("status", Shape::TEXT).about("True, False or Unknown."),
    Field::required("type", Shape::TEXT.chars_min(1).chars_max(256)).about("The type."),
]);

pub(super) const DELETION: Shape = Shape::object(&[
    Field::new("nodeDrainStartTime", Shape::TIME).about("When the node began to be emptied."),
    Field::new("waitForNodeVolumeDetachStartTime", Shape::TIME).about("When volumes began to be waited for."),
    Field::new("waitForPreDrainHookStartTime", Shape::TIME).about("When hooks before emptying began to be waited for."),
    Field::new("waitForPreTerminateHookStartTime", Shape::TIME)
        .about("When hooks before the end began to be waited for."),
]);

const SWAP: Shape = Shape::object(&[Field::new("capacity", Shape::INT64).about("How much swap there is, in bytes.")]);

pub(super) const NODE_INFO: Shape = Shape::object(&[
    Field::required("architecture", Shape::TEXT).about("The architecture of the processor."),
    Field::required("bootID", Shape::TEXT).about("The identity of the node's current boot."),
    Field::required("containerRuntimeVersion", Shape::TEXT).about("The version of the container runtime."),
    Field::required("kernelVersion", Shape::TEXT).about("The version of the kernel."),
    Field::required("kubeProxyVersion", Shape::TEXT).about("The version of kube-proxy. Not set any more."),
    Field::required("kubeletVersion", Shape::TEXT).about("The version of the kubelet."),
    Field::required("machineID", Shape::TEXT).about("The identity of the operating system's installation."),
    Field::required("operatingSystem", Shape::TEXT).about("The operating system of the node."),
    Field::required("osImage", Shape::TEXT).about("The name of the operating system's release."),
    Field::new("swap", SWAP).about("The node's swap."),
    Field::required("systemUUID", Shape::TEXT).about("The identity of the hardware."),
]);

/// Metadata of a template.
pub(super) const METADATA: Shape = Shape::object(&[
    Field::new("annotations", Shape::map(&Shape::TEXT)).about("Notes of tools and people."),
    Field::new("labels", Shape::map(&Shape::TEXT)).about("Labels that selectors look at."),
]);

pub(super) const CLASS: Field = Field::required("class", Shape::TEXT.chars_min(1).chars_max(256))
    .about("The name of the class that it is made from.");
pub(super) const CLUSTER_NAME: Field = Field::required("clusterName", Shape::TEXT.chars_min(1).chars_max(63))
    .about("The cluster that it belongs to. It does not change.");
pub(super) const CONDITIONS: Field =
    Field::new("conditions", condition::LIST_SHAPE.items_max(CONDITIONS_MAX)).about("What is true of the object now.");
pub(super) const FAILURE_DOMAIN: Field = Field::new("failureDomain", Shape::TEXT.chars_min(1).chars_max(256))
    .about("The part of the infrastructure that fails as a whole.");
pub(super) const FAILURE_MESSAGE: Field = Field::new("failureMessage", Shape::TEXT.chars_min(1).chars_max(10_240))
    .about("Why it cannot go on, for people. Not set any more.");
pub(super) const FAILURE_REASON: Field =
    Field::new("failureReason", Shape::TEXT).about("Why it cannot go on, as one word. Not set any more.");
/// Conditions of v1beta1 alone; v1beta2 keeps them apart.
pub(super) const OLD_CONDITIONS: Field =
    Field::new("conditions", Shape::list(&CONDITION)).about("What is true of the object now.");
pub(super) const TAINTS: Field =
    Field::new("taints", Shape::list(&TAINT).items_min(1).items_max(64).keyed_by(&["key", "effect"]))
        .about("What keeps pods off the node.");

pub(super) use crate::selector::SHAPE as SELECTOR;

pub(super) const VERSION_COUNT: Shape = Shape::object(&[
    Field::new("replicas", Shape::INT32.min(1)).about("How many machines there are."),
    Field::required("version", Shape::TEXT.chars_min(1).chars_max(256)).about("The Kubernetes version."),
]);

pub(super) const ROLLOUT: Shape =
    Shape::object(&[Field::new("after", Shape::TIME).about("Machines made before this time are replaced.")])
        .fields_min(1);

const UPGRADE_STEP: Shape = Shape::object(&[
    Field::required("version", Shape::TEXT.chars_min(1).chars_max(256)).about("The Kubernetes version.")
]);

pub(super) const CONTROL_PLANE: Shape = Shape::object(&[
    Field::new("availableReplicas", Shape::INT32).about("How many machines have been ready for long enough."),
    Field::new("desiredReplicas", Shape::INT32).about("How many machines there are to be."),
    Field::new("readyReplicas", Shape::INT32).about("How many machines are ready."),
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    Field::new("upToDateReplicas", Shape::INT32).about("How many machines are as the template has them."),
    Field::new("upgradePlan", Shape::list(&UPGRADE_STEP).items_min(1).items_max(32).atomic())
        .about("The versions that lie before it."),
    Field::new("versions", Shape::list(&VERSION_COUNT).items_min(1).items_max(32).atomic())
        .about("How many machines have which Kubernetes version."),
]);
