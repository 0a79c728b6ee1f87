//! The shape of a Machine in v1beta2.

use crate::shape::{Field, Shape};

use super::super::common;

pub(super) const CONFIG_REF: Shape = Shape::object(&[
    Field::required("apiGroup", Shape::TEXT.chars_min(1).chars_max(253).matching(common::SUBDOMAIN))
        .about("The group of the object that is meant."),
    Field::required("kind", Shape::TEXT.chars_min(1).chars_max(63).matching(common::KIND))
        .about("The kind of the object that is meant."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(253).matching(common::SUBDOMAIN)).about("The name."),
]);

const BOOTSTRAP: Shape = Shape::object(&[
    Field::new("configRef", CONFIG_REF).about("The object from which the bootstrap data is made."),
    Field::new("dataSecretName", Shape::TEXT.chars_min(0).chars_max(253)).about("The Secret with the bootstrap data."),
]);

pub(super) const DELETION: Shape = Shape::object(&[
    Field::new("nodeDeletionTimeoutSeconds", Shape::INT32.min(0))
        .about("How long the deletion of the node is tried; 0 is for ever."),
    Field::new("nodeDrainTimeoutSeconds", Shape::INT32.min(0))
        .about("How long emptying the node may take; 0 is for ever."),
    Field::new("nodeVolumeDetachTimeoutSeconds", Shape::INT32.min(0))
        .about("How long volumes may take to be detached; 0 is for ever."),
])
.fields_min(1);

pub(super) const GATES: Shape =
    Shape::list(&common::READINESS_GATE).items_min(1).items_max(32).keyed_by(&["conditionType"]);

pub(super) const READINESS_GATES: Field =
    Field::new("readinessGates", GATES).about("Further conditions that must hold for the machine to be ready.");

pub(super) const SPEC: Shape = Shape::object(&[
    Field::required("bootstrap", BOOTSTRAP).about("Where the data comes from that makes the machine a node."),
    common::CLUSTER_NAME,
    Field::new("deletion", DELETION).about("How machines are deleted."),
    common::FAILURE_DOMAIN,
    Field::required("infrastructureRef", CONFIG_REF).about("The object that stands for the infrastructure."),
    Field::new("minReadySeconds", Shape::INT32.min(0)).about("How long a machine must be ready to count as available."),
    Field::new("providerID", Shape::TEXT.chars_min(1).chars_max(512))
        .about("The name of the machine at its infrastructure."),
    READINESS_GATES,
    common::TAINTS,
    Field::new("version", Shape::TEXT.chars_min(1).chars_max(256)).about("The Kubernetes version."),
]);

const V1BETA1: Shape = Shape::object(&[common::OLD_CONDITIONS, common::FAILURE_MESSAGE, common::FAILURE_REASON]);

pub(super) const DEPRECATED: Shape =
    Shape::object(&[Field::new("v1beta1", V1BETA1).about("What is left of the status of v1beta1.")]);

const INITIALIZATION: Shape = Shape::object(&[
    Field::new("bootstrapDataSecretCreated", Shape::BOOLEAN).about("Whether the bootstrap data has been made."),
    Field::new("infrastructureProvisioned", Shape::BOOLEAN).about("Whether the infrastructure is there."),
])
.fields_min(1);

const NODE_REF: Shape =
    Shape::object(&[
        Field::required("name", Shape::TEXT.chars_min(1).chars_max(253).matching(common::SUBDOMAIN)).about("The name.")
    ]);

const PHASES: [&str; 9] =
    ["Pending", "Provisioning", "Provisioned", "Running", "Updating", "Deleting", "Deleted", "Failed", "Unknown"];

const STATUS: Shape = Shape::object(&[
    Field::new("addresses", Shape::list(&common::ADDRESS).items_max(256).atomic())
        .about("The addresses of the machine, as its infrastructure reports them."),
    Field::new("certificatesExpiryDate", Shape::TIME).about("When the certificates of the machine end."),
    common::CONDITIONS,
    Field::new("deletion", common::DELETION).about("How far the deletion is."),
    Field::new("deprecated", DEPRECATED).about("What is left of older versions of the status."),
    common::FAILURE_DOMAIN,
    Field::new("initialization", INITIALIZATION).about("How far the first setup is."),
    Field::new("lastUpdated", Shape::TIME).about("When the phase changed last."),
    Field::new("nodeInfo", common::NODE_INFO).about("What the node says of itself."),
    Field::new("nodeRef", NODE_REF).about("The node that the machine became."),
    Field::new("observedGeneration", Shape::INT64.min(1)).about("The generation of the object that this was found of."),
    Field::new("phase", Shape::one_of(&PHASES)).about("Where it is, in one word."),
])
.fields_min(1);

pub(crate) const SHAPE: Shape =
    Shape::object(&[Field::required("spec", SPEC).about("What is wanted."), Field::status(STATUS, "What was found.")]);
