//! The shape of a Cluster in v1beta1.

use crate::shape::{Field, Shape};

use super::super::common;
use super::{machine, topology};

const PODS: Shape = Shape::object(&[Field::required(
    "cidrBlocks",
    Shape::list(&Shape::TEXT.chars_min(1).chars_max(43)).items_max(100),
)
.about("Address ranges.")]);

const CLUSTER_NETWORK: Shape = Shape::object(&[
    Field::new("apiServerPort", Shape::INT32).about("The port that the API server listens at."),
    Field::new("pods", PODS).about("The addresses of pods."),
    Field::new("serviceDomain", Shape::TEXT.chars_min(1).chars_max(253)).about("The domain of services."),
    Field::new("services", PODS).about("The addresses of services."),
]);

const CONTROL_PLANE_ENDPOINT: Shape = Shape::object(&[
    Field::new("host", Shape::TEXT.chars_max(512)).about("The name or address."),
    Field::new("port", Shape::INT32).about("The port."),
]);

const SPEC: Shape = Shape::object(&[
    Field::new("availabilityGates", Shape::list(&common::READINESS_GATE).items_max(32).keyed_by(&["conditionType"]))
        .about("Further conditions that must hold for the cluster to be available."),
    Field::new("clusterNetwork", CLUSTER_NETWORK).about("The network within the cluster."),
    Field::new("controlPlaneEndpoint", CONTROL_PLANE_ENDPOINT).about("Where the API of the cluster is reached."),
    Field::new("controlPlaneRef", machine::CONFIG_REF).about("The object that stands for the control plane."),
    Field::new("infrastructureRef", machine::CONFIG_REF).about("The object that stands for the infrastructure."),
    Field::new("paused", Shape::BOOLEAN).about("Nothing is done for the cluster and what belongs to it."),
    Field::new("topology", topology::TOPOLOGY).about("The whole cluster, described by a class and its variables."),
]);

const FAILURE_DOMAIN: Shape = Shape::object(&[
    Field::new("attributes", Shape::map(&Shape::TEXT)).about("What the infrastructure says of the failure domain."),
    Field::new("controlPlane", Shape::BOOLEAN).about("Whether machines of the control plane may be there."),
]);

const V1BETA2: Shape = Shape::object(&[
    common::CONDITIONS,
    Field::new("controlPlane", common::CONTROL_PLANE).about("The machines of the control plane."),
    Field::new("workers", common::CONTROL_PLANE).about("The machines that do the work."),
]);

const STATUS: Shape = Shape::object(&[
    common::OLD_CONDITIONS,
    Field::new("controlPlaneReady", Shape::BOOLEAN).about("Whether the control plane takes requests."),
    Field::new("failureDomains", Shape::map(&FAILURE_DOMAIN))
        .about("The parts of the infrastructure that fail as a whole."),
    common::FAILURE_MESSAGE,
    common::FAILURE_REASON,
    Field::new("infrastructureReady", Shape::BOOLEAN).about("Whether the infrastructure is there."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("phase", Shape::one_of(&["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"]))
        .about("Where it is, in one word."),
    Field::new("v1beta2", V1BETA2).about("What v1beta2 has in its status."),
]);

pub(crate) const SHAPE: Shape =
    Shape::object(&[Field::spec(SPEC, "What is wanted."), Field::status(STATUS, "What was found.")]);
