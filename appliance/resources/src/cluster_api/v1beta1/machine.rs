//! The shape of a Machine in v1beta1.

use crate::shape::{Field, Shape};

use super::super::common;

pub(super) use crate::reference::REFERENCE_SHAPE as CONFIG_REF;

const BOOTSTRAP: Shape = Shape::object(&[
    Field::new("configRef", CONFIG_REF).about("The object from which the bootstrap data is made."),
    Field::new("dataSecretName", Shape::TEXT.chars_min(0).chars_max(253)).about("The Secret with the bootstrap data."),
]);

pub(super) const NODE_DELETION_TIMEOUT: Field =
    Field::new("nodeDeletionTimeout", Shape::TEXT).about("How long the deletion of the node is tried; 0 is for ever.");
pub(super) const NODE_DRAIN_TIMEOUT: Field =
    Field::new("nodeDrainTimeout", Shape::TEXT).about("How long emptying the node may take; 0 is for ever.");
pub(super) const NODE_VOLUME_DETACH_TIMEOUT: Field = Field::new("nodeVolumeDetachTimeout", Shape::TEXT)
    .about("How long volumes may take to be detached; 0 is for ever.");
pub(super) const READINESS_GATES: Field =
    Field::new("readinessGates", Shape::list(&common::READINESS_GATE).items_max(32).keyed_by(&["conditionType"]))
        .about("Further conditions that must hold for the machine to be ready.");

pub(super) const SPEC: Shape = Shape::object(&[
    Field::required("bootstrap", BOOTSTRAP).about("Where the data comes from that makes the machine a node."),
    common::CLUSTER_NAME,
    common::FAILURE_DOMAIN,
    Field::required("infrastructureRef", CONFIG_REF).about("The object that stands for the infrastructure."),
    NODE_DELETION_TIMEOUT,
    NODE_DRAIN_TIMEOUT,
    NODE_VOLUME_DETACH_TIMEOUT,
    Field::new("providerID", Shape::TEXT.chars_min(1).chars_max(512))
        .about("The name of the machine at its infrastructure."),
    READINESS_GATES,
    common::TAINTS,
    Field::new("version", Shape::TEXT.chars_min(1).chars_max(256)).about("The Kubernetes version."),
]);

const V1BETA2: Shape = Shape::object(&[common::CONDITIONS]);

const PHASES: [&str; 8] =
    ["Pending", "Provisioning", "Provisioned", "Running", "Deleting", "Deleted", "Failed", "Unknown"];

const STATUS: Shape = Shape::object(&[
    Field::new("addresses", Shape::list(&common::ADDRESS))
        .about("The addresses of the machine, as its infrastructure reports them."),
    Field::new("bootstrapReady", Shape::BOOLEAN).about("Whether the bootstrap data has been made."),
    Field::new("certificatesExpiryDate", Shape::TIME).about("When the certificates of the machine end."),
    common::OLD_CONDITIONS,
    Field::new("deletion", common::DELETION).about("How far the deletion is."),
    common::FAILURE_MESSAGE,
    common::FAILURE_REASON,
    Field::new("infrastructureReady", Shape::BOOLEAN).about("Whether the infrastructure is there."),
    Field::new("lastUpdated", Shape::TIME).about("When the phase changed last."),
    Field::new("nodeInfo", common::NODE_INFO).about("What the node says of itself."),
    Field::new("nodeRef", CONFIG_REF).about("The node that the machine became."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("phase", Shape::one_of(&PHASES)).about("Where it is, in one word."),
    Field::new("v1beta2", V1BETA2).about("What v1beta2 has in its status."),
]);

pub(crate) const SHAPE: Shape =
    Shape::object(&[Field::spec(SPEC, "What is wanted."), Field::status(STATUS, "What was found.")]);
