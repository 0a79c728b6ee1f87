//! The shape of a MachineSet in v1beta2.

use crate::shape::{Field, Shape};

use super::super::common;
use super::machine;

const DELETION: Shape = Shape::object(&[Field::new("order", Shape::one_of(&["Random", "Newest", "Oldest"]))
    .about("Which machines go first: Random, Newest or Oldest.")])
.fields_min(1);

const MACHINE_NAMING: Shape =
    Shape::object(&[Field::new("template", Shape::TEXT.chars_min(1).chars_max(256)).about("The form of the names.")])
        .fields_min(1);

pub(super) const METADATA: Shape = common::METADATA.fields_min(1);

const TEMPLATE: Shape = Shape::object(&[
    Field::new("metadata", METADATA).about("Labels and annotations."),
    Field::required("spec", machine::SPEC).about("What is wanted."),
]);

const SPEC: Shape = Shape::object(&[
    common::CLUSTER_NAME,
    Field::new("deletion", DELETION).about("How machines are deleted."),
    Field::new("machineNaming", MACHINE_NAMING).about("How machines are named."),
    Field::new("replicas", Shape::INT32).about("How many machines there are to be."),
    Field::required("selector", common::SELECTOR).about("Which machines are counted."),
    Field::required("template", TEMPLATE).about("What machines are made from."),
]);

const V1BETA1: Shape = Shape::object(&[
    Field::new("availableReplicas", Shape::INT32).about("How many machines have been ready for long enough."),
    common::OLD_CONDITIONS,
    common::FAILURE_MESSAGE,
    common::FAILURE_REASON,
    Field::new("fullyLabeledReplicas", Shape::INT32).about("How many machines have all labels of the template."),
    Field::new("readyReplicas", Shape::INT32).about("How many machines are ready."),
]);

const DEPRECATED: Shape =
    Shape::object(&[Field::new("v1beta1", V1BETA1).about("What is left of the status of v1beta1.")]);

const STATUS: Shape = Shape::object(&[
    Field::new("availableReplicas", Shape::INT32).about("How many machines have been ready for long enough."),
    common::CONDITIONS,
    Field::new("deprecated", DEPRECATED).about("What is left of older versions of the status."),
    Field::new("observedGeneration", Shape::INT64.min(1)).about("The generation of the object that this was found of."),
    Field::new("readyReplicas", Shape::INT32).about("How many machines are ready."),
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    Field::new("selector", Shape::TEXT.chars_min(1).chars_max(4096)).about("Which machines are counted."),
    Field::new("upToDateReplicas", Shape::INT32).about("How many machines are as the template has them."),
    Field::new("versions", Shape::list(&common::VERSION_COUNT).items_min(1).items_max(100).keyed_by(&["version"]))
        .about("How many machines have which Kubernetes version."),
])
.fields_min(1);

pub(crate) const SHAPE: Shape =
    Shape::object(&[Field::required("spec", SPEC).about("What is wanted."), Field::status(STATUS, "What was found.")]);
