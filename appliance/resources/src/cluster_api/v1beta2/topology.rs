//! The shape of a Cluster's topology: a whole cluster by a class and variables in v1beta2.

use crate::shape::{Field, Shape};

use super::super::common;
use super::{machine, machine_set};

const CLASS_REF: Shape = Shape::object(&[
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(253).matching(common::SUBDOMAIN)).about("The name."),
    Field::new("namespace", Shape::TEXT.chars_min(1).chars_max(63).matching(common::LABEL))
        .about("The namespace of the object that is meant."),
]);

const UNHEALTHY_MACHINE_CONDITION: Shape = Shape::object(&[
    Field::required("status", Shape::one_of(&["True", "False", "Unknown"])).about("True, False or Unknown."),
    Field::required("timeoutSeconds", Shape::INT32.min(0)).about("How long it must have been so."),
    Field::required(
        "type",
        Shape::TEXT.chars_min(1).chars_max(316).matching(common::CONDITION_TYPE).ruled_by(&[common::NOT_OWN]),
    )
    .about("The type."),
]);

const UNHEALTHY_NODE_CONDITION: Shape = Shape::object(&[
    Field::required("status", Shape::TEXT.chars_min(1)).about("True, False or Unknown."),
    Field::required("timeoutSeconds", Shape::INT32.min(0)).about("How long it must have been so."),
    Field::required("type", Shape::TEXT.chars_min(1)).about("The type."),
]);

const CHECKS: Shape = Shape::object(&[
    Field::new("nodeStartupTimeoutSeconds", Shape::INT32.min(0)).about("How long a machine may take to become a node."),
    Field::new(
        "unhealthyMachineConditions",
        Shape::list(&UNHEALTHY_MACHINE_CONDITION).items_min(1).items_max(100).atomic(),
    )
    .about("Conditions of a machine by which it is broken."),
    Field::new("unhealthyNodeConditions", Shape::list(&UNHEALTHY_NODE_CONDITION).items_min(1).items_max(100).atomic())
        .about("Conditions of a node by which its machine is broken."),
])
.fields_min(1);

const TEMPLATE_REF: Shape = Shape::object(&[
    Field::required("apiVersion", Shape::TEXT.chars_min(1).chars_max(317).matching(common::API_VERSION))
        .about("Group and version of the object that is meant."),
    Field::required("kind", Shape::TEXT.chars_min(1).chars_max(63).matching(common::KIND))
        .about("The kind of the object that is meant."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(253).matching(common::SUBDOMAIN)).about("The name."),
]);

const TRIGGER_IF: Shape = Shape::object(&[
    Field::new("unhealthyInRange", Shape::TEXT.chars_min(1).chars_max(32).matching(common::RANGE))
        .about("Machines are replaced while the number of broken ones is within this range."),
    Field::new("unhealthyLessThanOrEqualTo", Shape::INTEGER_OR_TEXT)
        .about("Machines are replaced while no more than so many are broken."),
])
.fields_min(1);

const REMEDIATION: Shape = Shape::object(&[
    Field::new("templateRef", TEMPLATE_REF).about("What is made to repair a machine."),
    Field::new("triggerIf", TRIGGER_IF).about("When machines are replaced at all."),
])
.fields_min(1);

const HEALTH_CHECK: Shape = Shape::object(&[
    Field::new("checks", CHECKS).about("What a machine is judged by."),
    Field::new("enabled", Shape::BOOLEAN).about("Whether machines are watched and replaced."),
    Field::new("remediation", REMEDIATION).about("How broken machines are replaced."),
])
.fields_min(1);

const OVERRIDE: Shape = Shape::object(&[
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(256)).about("The name."),
    Field::required("value", Shape::ANY).about("The value."),
]);

const VARIABLES: Shape =
    Shape::object(&[Field::new("overrides", Shape::list(&OVERRIDE).items_min(1).items_max(1000).keyed_by(&["name"]))
        .about("Variables with values of their own here.")])
    .fields_min(1);

const CONTROL_PLANE: Shape = Shape::object(&[
    Field::new("deletion", machine::DELETION).about("How machines are deleted."),
    Field::new("healthCheck", HEALTH_CHECK).about("Which machines are replaced because they do not work."),
    Field::new("metadata", machine_set::METADATA).about("Labels and annotations."),
    machine::READINESS_GATES,
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    Field::new("rollout", common::ROLLOUT).about("How machines are replaced when their template changes."),
    common::TAINTS,
    Field::new("variables", VARIABLES).about("Values for the variables of the class."),
])
.fields_min(1);

const DELETION: Shape = Shape::object(&[
    Field::new("nodeDeletionTimeoutSeconds", Shape::INT32.min(0))
        .about("How long the deletion of the node is tried; 0 is for ever."),
    Field::new("nodeDrainTimeoutSeconds", Shape::INT32.min(0))
        .about("How long emptying the node may take; 0 is for ever."),
    Field::new("nodeVolumeDetachTimeoutSeconds", Shape::INT32.min(0))
        .about("How long volumes may take to be detached; 0 is for ever."),
    Field::new("order", Shape::one_of(&["Random", "Newest", "Oldest"]))
        .about("Which machines go first: Random, Newest or Oldest."),
])
.fields_min(1);

const HEALTH_CHECK_REMEDIATION: Shape = Shape::object(&[
    Field::new("maxInFlight", Shape::INTEGER_OR_TEXT).about("How many machines may be replaced at once."),
    Field::new("templateRef", TEMPLATE_REF).about("What is made to repair a machine."),
    Field::new("triggerIf", TRIGGER_IF).about("When machines are replaced at all."),
])
.fields_min(1);

const MACHINE_DEPLOYMENT_HEALTH_CHECK: Shape = Shape::object(&[
    Field::new("checks", CHECKS).about("What a machine is judged by."),
    Field::new("enabled", Shape::BOOLEAN).about("Whether machines are watched and replaced."),
    Field::new("remediation", HEALTH_CHECK_REMEDIATION).about("How broken machines are replaced."),
])
.fields_min(1);

const ROLLING_UPDATE: Shape = Shape::object(&[
    Field::new("maxSurge", Shape::INTEGER_OR_TEXT).about("How many machines there may be beyond the wanted ones."),
    Field::new("maxUnavailable", Shape::INTEGER_OR_TEXT).about("How many machines may be missing."),
])
.fields_min(1);

const STRATEGY: Shape = Shape::object(&[
    Field::new("rollingUpdate", ROLLING_UPDATE).about("How many machines may be missing or too many meanwhile."),
    Field::required("type", Shape::one_of(&["RollingUpdate", "OnDelete"])).about("The type."),
])
.fields_min(1);

const ROLLOUT: Shape = Shape::object(&[
    Field::new("after", Shape::TIME).about("Machines made before this time are replaced."),
    Field::new("strategy", STRATEGY).about("How machines are replaced by new ones."),
])
.fields_min(1);

const MACHINE_DEPLOYMENT: Shape = Shape::object(&[
    common::CLASS,
    Field::new("deletion", DELETION).about("How machines are deleted."),
    common::FAILURE_DOMAIN,
    Field::new("healthCheck", MACHINE_DEPLOYMENT_HEALTH_CHECK)
        .about("Which machines are replaced because they do not work."),
    Field::new("metadata", machine_set::METADATA).about("Labels and annotations."),
    Field::new("minReadySeconds", Shape::INT32.min(0)).about("How long a machine must be ready to count as available."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(63).matching(common::SUBDOMAIN)).about("The name."),
    machine::READINESS_GATES,
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    Field::new("rollout", ROLLOUT).about("How machines are replaced when their template changes."),
    common::TAINTS,
    Field::new("variables", VARIABLES).about("Values for the variables of the class."),
]);

const MACHINE_POOL: Shape = Shape::object(&[
    common::CLASS,
    Field::new("deletion", machine::DELETION).about("How machines are deleted."),
    Field::new(
        "failureDomains",
        Shape::list(&Shape::TEXT.chars_min(1).chars_max(256)).items_min(1).items_max(100).atomic(),
    )
    .about("The parts of the infrastructure that fail as a whole."),
    Field::new("metadata", machine_set::METADATA).about("Labels and annotations."),
    Field::new("minReadySeconds", Shape::INT32.min(0)).about("How long a machine must be ready to count as available."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(63).matching(common::SUBDOMAIN)).about("The name."),
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    common::TAINTS,
    Field::new("variables", VARIABLES).about("Values for the variables of the class."),
]);

const WORKERS: Shape = Shape::object(&[
    Field::new("machineDeployments", Shape::list(&MACHINE_DEPLOYMENT).items_min(1).items_max(2000).keyed_by(&["name"]))
        .about("Sets of machines that are replaced step by step."),
    Field::new("machinePools", Shape::list(&MACHINE_POOL).items_min(1).items_max(2000).keyed_by(&["name"]))
        .about("Sets of machines that the infrastructure manages as one."),
])
.fields_min(1);

pub(super) const TOPOLOGY: Shape = Shape::object(&[
    Field::required("classRef", CLASS_REF).about("The class that the cluster is made from."),
    Field::new("controlPlane", CONTROL_PLANE).about("The machines of the control plane."),
    Field::new("variables", Shape::list(&OVERRIDE).items_min(1).items_max(1000).keyed_by(&["name"]))
        .about("Values for the variables of the class."),
    Field::required("version", Shape::TEXT.chars_min(1).chars_max(256)).about("The Kubernetes version."),
    Field::new("workers", WORKERS).about("The machines that do the work."),
]);
