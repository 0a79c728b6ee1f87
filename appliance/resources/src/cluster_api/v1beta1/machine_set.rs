//! The shape of a MachineSet in v1beta1.

use crate::shape::{Field, Shape};

use super::super::common;
use super::machine;

const MACHINE_NAMING_STRATEGY: Shape =
    Shape::object(&[Field::new("template", Shape::TEXT.chars_min(1).chars_max(256)).about("The form of the names.")]);

pub(super) use super::super::common::METADATA;

const TEMPLATE: Shape = Shape::object(&[
    Field::new("metadata", METADATA).about("Labels and annotations."),
    Field::new("spec", machine::SPEC).about("What is wanted."),
]);

const SPEC: Shape = Shape::object(&[
    common::CLUSTER_NAME,
    Field::new("deletePolicy", Shape::one_of(&["Random", "Newest", "Oldest"]))
        .about("Which machines go first: Random, Newest or Oldest."),
    Field::new("machineNamingStrategy", MACHINE_NAMING_STRATEGY).about("How machines are named."),
    Field::new("minReadySeconds", Shape::INT32).about("How long a machine must be ready to count as available."),
    Field::new("replicas", Shape::INT32).about("How many machines there are to be."),
    Field::required("selector", common::SELECTOR).about("Which machines are counted."),
    Field::new("template", TEMPLATE).about("What machines are made from."),
]);

const V1BETA2: Shape = Shape::object(&[
    Field::new("availableReplicas", Shape::INT32).about("How many machines have been ready for long enough."),
    common::CONDITIONS,
    Field::new("readyReplicas", Shape::INT32).about("How many machines are ready."),
    Field::new("upToDateReplicas", Shape::INT32).about("How many machines are as the template has them."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("availableReplicas", Shape::INT32).about("How many machines have been ready for long enough."),
    common::OLD_CONDITIONS,
    common::FAILURE_MESSAGE,
    common::FAILURE_REASON,
    Field::new("fullyLabeledReplicas", Shape::INT32).about("How many machines have all labels of the template."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("readyReplicas", Shape::INT32).about("How many machines are ready."),
    Field::new("replicas", Shape::INT32).about("How many machines there are."),
    Field::new("selector", Shape::TEXT.chars_min(1).chars_max(4096)).about("Which machines are counted."),
    Field::new("v1beta2", V1BETA2).about("What v1beta2 has in its status."),
    Field::new("versions", Shape::list(&common::VERSION_COUNT).items_min(1).items_max(100).keyed_by(&["version"]))
        .about("How many machines have which Kubernetes version."),
]);

pub(crate) const SHAPE: Shape =
    Shape::object(&[Field::spec(SPEC, "What is wanted."), Field::status(STATUS, "What was found.")]);
