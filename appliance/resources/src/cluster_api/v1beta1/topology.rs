//! The shape of a Cluster's topology: a whole cluster by a class and variables in v1beta1.

use crate::shape::{Field, Shape};

use super::super::common;
use super::{machine, machine_set};

const UNHEALTHY_CONDITION: Shape = Shape::object(&[
    Field::required("status", Shape::TEXT.chars_min(1)).about("True, False or Unknown."),
    Field::required("timeout", Shape::TEXT).about("How long it must have been so."),
    Field::required("type", Shape::TEXT.chars_min(1)).about("The type."),
]);

const UNHEALTHY_MACHINE_CONDITION: Shape = Shape::object(&[
    Field::required("status", Shape::one_of(&["True", "False", "Unknown"])).about("True, False or Unknown."),
    Field::required("timeout", Shape::TEXT).about("How long it must have been so."),
    Field::required(
        "type",
        Shape::TEXT.chars_min(1).chars_max(316).matching(common::CONDITION_TYPE).ruled_by(&[common::NOT_OWN]),
    )
    .about("The type."),
]);

const MACHINE_HEALTH_CHECK: Shape = Shape::object(&[
    Field::new("enable", Shape::BOOLEAN).about("Whether machines are watched and replaced."),
    Field::new("maxUnhealthy", Shape::INTEGER_OR_TEXT).about("Beyond how many broken machines none is replaced."),
    Field::new("nodeStartupTimeout", Shape::TEXT).about("How long a machine may take to become a node."),
    Field::new("remediationTemplate", machine::CONFIG_REF).about("What is made to repair a machine."),
    Field::new("unhealthyConditions", Shape::list(&UNHEALTHY_CONDITION).items_max(100))
        .about("Conditions of a node by which its machine is broken."),
    Field::new(
        "unhealthyMachineConditions",
        Shape::list(&UNHEALTHY_MACHINE_CONDITION).items_min(1).items_max(100).atomic(),
    )
    .about("Conditions of a machine by which it is broken."),
    Field::new("unhealthyRange", Shape::TEXT.chars_min(1).chars_max(32).matching(common::RANGE))
        .about("Machines are replaced while the number of broken ones is within this range."),
]);

const OVERRIDE: Shape = Shape::object(&[
    Field::new("definitionFrom", Shape::TEXT.chars_max(256)).about("Where the variable is defined. Not used any more."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(256)).about("The name."),
    Field::required("value", Shape::ANY).about("The value."),
]);

const VARIABLES: Shape =
    Shape::object(&[Field::new("overrides", Shape::list(&OVERRIDE).items_max(1000).keyed_by(&["name"]))
        .about("Variables with values of their own here.")]);

const CONTROL_PLANE: Shape = Shape::object(&[
    Field::new("machineHealthCheck", MACHINE_HEALTH_CHECK)
        .about("Which machines are replaced because they do not work."),
    Field::new("metadata", machine_set::METADATA).about("Labels and annotations."),
    machine::NODE_DELETION_TIMEOUT,
    machine::NODE_DRAIN_TIMEOUT,
    machine::NODE_VOLUME_DETACH_TIMEOUT,
    machine::READINESS_GATES,
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    Field::new("rollout", common::ROLLOUT).about("How machines are replaced when their template changes."),
    common::TAINTS,
    Field::new("variables", VARIABLES).about("Values for the variables of the class."),
]);

const REMEDIATION: Shape = Shape::object(&[
    Field::new("maxInFlight", Shape::INTEGER_OR_TEXT).about("How many machines may be replaced at once.")
]);

const ROLLING_UPDATE: Shape = Shape::object(&[
    Field::new("deletePolicy", Shape::one_of(&["Random", "Newest", "Oldest"]))
        .about("Which machines go first: Random, Newest or Oldest."),
    Field::new("maxSurge", Shape::INTEGER_OR_TEXT).about("How many machines there may be beyond the wanted ones."),
    Field::new("maxUnavailable", Shape::INTEGER_OR_TEXT).about("How many machines may be missing."),
]);

const STRATEGY: Shape = Shape::object(&[
    Field::new("remediation", REMEDIATION).about("How broken machines are replaced."),
    Field::new("rollingUpdate", ROLLING_UPDATE).about("How many machines may be missing or too many meanwhile."),
    Field::new("type", Shape::one_of(&["RollingUpdate", "OnDelete"])).about("The type."),
]);

const MACHINE_DEPLOYMENT: Shape = Shape::object(&[
    common::CLASS,
    common::FAILURE_DOMAIN,
    Field::new("machineHealthCheck", MACHINE_HEALTH_CHECK)
        .about("Which machines are replaced because they do not work."),
    Field::new("metadata", machine_set::METADATA).about("Labels and annotations."),
    Field::new("minReadySeconds", Shape::INT32).about("How long a machine must be ready to count as available."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(63)).about("The name."),
    machine::NODE_DELETION_TIMEOUT,
    machine::NODE_DRAIN_TIMEOUT,
    machine::NODE_VOLUME_DETACH_TIMEOUT,
    machine::READINESS_GATES,
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    Field::new("rollout", common::ROLLOUT).about("How machines are replaced when their template changes."),
    Field::new("strategy", STRATEGY).about("How machines are replaced by new ones."),
    common::TAINTS,
    Field::new("variables", VARIABLES).about("Values for the variables of the class."),
]);

const MACHINE_POOL: Shape = Shape::object(&[
    common::CLASS,
    Field::new("failureDomains", Shape::list(&Shape::TEXT.chars_min(1).chars_max(256)).items_max(100))
        .about("The parts of the infrastructure that fail as a whole."),
    Field::new("metadata", machine_set::METADATA).about("Labels and annotations."),
    Field::new("minReadySeconds", Shape::INT32).about("How long a machine must be ready to count as available."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(63)).about("The name."),
    machine::NODE_DELETION_TIMEOUT,
    machine::NODE_DRAIN_TIMEOUT,
    machine::NODE_VOLUME_DETACH_TIMEOUT,
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    common::TAINTS,
    Field::new("variables", VARIABLES).about("Values for the variables of the class."),
]);

const WORKERS: Shape = Shape::object(&[
    Field::new("machineDeployments", Shape::list(&MACHINE_DEPLOYMENT).items_max(2000).keyed_by(&["name"]))
        .about("Sets of machines that are replaced step by step."),
    Field::new("machinePools", Shape::list(&MACHINE_POOL).items_max(2000).keyed_by(&["name"]))
        .about("Sets of machines that the infrastructure manages as one."),
]);

pub(super) const TOPOLOGY: Shape = Shape::object(&[
    Field::required("class", Shape::TEXT.chars_min(1).chars_max(253))
        .about("The name of the class that it is made from."),
    Field::new("classNamespace", Shape::TEXT.chars_min(1).chars_max(63).matching(common::LABEL))
        .about("The namespace of the class."),
    Field::new("controlPlane", CONTROL_PLANE).about("The machines of the control plane."),
    Field::new("rolloutAfter", Shape::TIME).about("The whole cluster is replaced after this time. Not used any more."),
    Field::new("variables", Shape::list(&OVERRIDE).items_max(1000).keyed_by(&["name"]))
        .about("Values for the variables of the class."),
    Field::required("version", Shape::TEXT.chars_min(1).chars_max(256)).about("The Kubernetes version."),
    Field::new("workers", WORKERS).about("The machines that do the work."),
]);
