//! The shape of a Cluster in v1beta2.

use crate::shape::{Field, Shape};

use super::super::common;
use super::{machine, topology};

const PODS: Shape = Shape::object(&[Field::required(
    "cidrBlocks",
    Shape::list(&Shape::TEXT.chars_min(1).chars_max(43)).items_min(1).items_max(100).atomic(),
)
.about("Address ranges.")]);

const CLUSTER_NETWORK: Shape = Shape::object(&[
    Field::new("apiServerPort", Shape::INT32.min(1).max(65_535)).about("The port that the API server listens at."),
    Field::new("pods", PODS).about("The addresses of pods."),
    Field::new("serviceDomain", Shape::TEXT.chars_min(1).chars_max(253)).about("The domain of services."),
    Field::new("services", PODS).about("The addresses of services."),
])
.fields_min(1);

const CONTROL_PLANE_ENDPOINT: Shape = Shape::object(&[
    Field::new("host", Shape::TEXT.chars_min(1).chars_max(512)).about("The name or address."),
    Field::new("port", Shape::INT32.min(1).max(65_535)).about("The port."),
])
.fields_min(1);

const SPEC: Shape = Shape::object(&[
    Field::new("availabilityGates", machine::GATES)
        .about("Further conditions that must hold for the cluster to be available."),
    Field::new("clusterNetwork", CLUSTER_NETWORK).about("The network within the cluster."),
    Field::new("controlPlaneEndpoint", CONTROL_PLANE_ENDPOINT).about("Where the API of the cluster is reached."),
    Field::new("controlPlaneRef", machine::CONFIG_REF).about("The object that stands for the control plane."),
    Field::new("infrastructureRef", machine::CONFIG_REF).about("The object that stands for the infrastructure."),
    Field::new("paused", Shape::BOOLEAN).about("Nothing is done for the cluster and what belongs to it."),
    Field::new("topology", topology::TOPOLOGY).about("The whole cluster, described by a class and its variables."),
])
.fields_min(1);

const FAILURE_DOMAIN: Shape = Shape::object(&[
    Field::new("attributes", Shape::map(&Shape::TEXT)).about("What the infrastructure says of the failure domain."),
    Field::new("controlPlane", Shape::BOOLEAN).about("The machines of the control plane."),
    Field::required("name", Shape::TEXT.chars_min(1).chars_max(256)).about("The name."),
]);

const INITIALIZATION: Shape = Shape::object(&[
    Field::new("controlPlaneInitialized", Shape::BOOLEAN).about("Whether the control plane takes requests."),
    Field::new("infrastructureProvisioned", Shape::BOOLEAN).about("Whether the infrastructure is there."),
])
.fields_min(1);

const STATUS: Shape = Shape::object(&[
    common::CONDITIONS,
    Field::new("controlPlane", common::CONTROL_PLANE).about("The machines of the control plane."),
    Field::new("deprecated", machine::DEPRECATED).about("What is left of older versions of the status."),
    Field::new("failureDomains", Shape::list(&FAILURE_DOMAIN).items_min(1).items_max(100).keyed_by(&["name"]))
        .about("The parts of the infrastructure that fail as a whole."),
    Field::new("initialization", INITIALIZATION).about("How far the first setup is."),
    Field::new("observedGeneration", Shape::INT64.min(1)).about("The generation of the object that this was found of."),
    Field::new("phase", Shape::one_of(&["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"]))
        .about("Where it is, in one word."),
    Field::new("workers", common::CONTROL_PLANE).about("The machines that do the work."),
])
.fields_min(1);

pub(crate) const SHAPE: Shape =
    Shape::object(&[Field::required("spec", SPEC).about("What is wanted."), Field::status(STATUS, "What was found.")]);
