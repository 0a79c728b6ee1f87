//! The columns of `kubectl get`.

use crate::kind::{AGE, KindColumn, column};

const PAUSED: KindColumn =
    column("Paused", r#".status.conditions[?(@.type=="Paused")].status"#, "Whether nothing is done for it", 10);
const AVAILABLE: KindColumn =
    column("Available", r#".status.conditions[?(@.type=="Available")].status"#, "Whether it is available", 0);
const PHASE: KindColumn = column("Phase", ".status.phase", "Where it is, in one word", 0);
const CLUSTER_NAME: KindColumn = column("Cluster", ".spec.clusterName", "The cluster that it belongs to", 0);
const READY_REPLICAS: KindColumn = number("Ready", ".status.readyReplicas", "Machines that are ready", 0);
const AVAILABLE_REPLICAS: KindColumn =
    number("Available", ".status.availableReplicas", "Machines that are available", 0);

pub(super) const CLUSTER: &[KindColumn] = &[
    column("ClusterClass", ".spec.topology.classRef.name", "The class that the cluster is made from", 0),
    AVAILABLE,
    number(
        "CP Desired",
        ".status.controlPlane.desiredReplicas",
        "Machines of the control plane that there are to be",
        0,
    ),
    number("CP Current", ".status.controlPlane.replicas", "Machines of the control plane", 10),
    number("CP Ready", ".status.controlPlane.readyReplicas", "Machines of the control plane that are ready", 10),
    number(
        "CP Available",
        ".status.controlPlane.availableReplicas",
        "Machines of the control plane that are available",
        0,
    ),
    number(
        "CP Up-to-date",
        ".status.controlPlane.upToDateReplicas",
        "Machines of the control plane that are as they are to be",
        0,
    ),
    number("W Desired", ".status.workers.desiredReplicas", "Workers that there are to be", 0),
    number("W Current", ".status.workers.replicas", "Workers", 10),
    number("W Ready", ".status.workers.readyReplicas", "Workers that are ready", 10),
    number("W Available", ".status.workers.availableReplicas", "Workers that are available", 0),
    number("W Up-to-date", ".status.workers.upToDateReplicas", "Workers that are as they are to be", 0),
    PAUSED,
    PHASE,
    AGE,
    version(".spec.topology.version"),
];

pub(super) const CLUSTER_V1BETA1: &[KindColumn] = &[
    column("ClusterClass", ".spec.topology.class", "The class that the cluster is made from", 0),
    PHASE,
    AGE,
    version(".spec.topology.version"),
];

pub(super) const MACHINE: &[KindColumn] = &[
    CLUSTER_NAME,
    column("Node Name", ".status.nodeRef.name", "The node that it became", 0),
    column("Provider ID", ".spec.providerID", "Its name at its infrastructure", 10),
    column("Failure domain", ".status.failureDomain", "Where it is", 0),
    column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "Whether it is ready", 0),
    AVAILABLE,
    column("Up-to-date", r#".status.conditions[?(@.type=="UpToDate")].status"#, "Whether it is as it is to be", 0),
    column(
        "Internal-IP",
        r#".status.addresses[?(@.type=="InternalIP")].address"#,
        "Its address within the network",
        10,
    ),
    column("External-IP", r#".status.addresses[?(@.type=="ExternalIP")].address"#, "Its address from outside", 10),
    column("OS-Image", ".status.nodeInfo.osImage", "The operating system", 10),
    PAUSED,
    PHASE,
    AGE,
    version(".spec.version"),
];

pub(super) const MACHINE_V1BETA1: &[KindColumn] = &[
    CLUSTER_NAME,
    column("NodeName", ".status.nodeRef.name", "The node that it became", 0),
    column("ProviderID", ".spec.providerID", "Its name at its infrastructure", 0),
    PHASE,
    AGE,
    version(".spec.version"),
];

pub(super) const MACHINE_SET: &[KindColumn] = &[
    CLUSTER_NAME,
    number("Desired", ".spec.replicas", "Machines that there are to be", 0),
    number("Current", ".status.replicas", "Machines", 0),
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    number("Up-to-date", ".status.upToDateReplicas", "Machines that are as the template has them", 0),
    PAUSED,
    AGE,
    version(".spec.template.spec.version"),
];

pub(super) const MACHINE_SET_V1BETA1: &[KindColumn] = &[
    CLUSTER_NAME,
    number("Desired", ".spec.replicas", "Machines that there are to be", 10),
    number("Replicas", ".status.replicas", "Machines", 0),
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    AGE,
    version(".spec.template.spec.version"),
];

const fn version(json_path: &'static str) -> KindColumn {
    column("Version", json_path, "The Kubernetes version", 0)
}

/// A column of numbers.
const fn number(name: &'static str, json_path: &'static str, description: &'static str, priority: i32) -> KindColumn {
    KindColumn { type_: "integer", ..column(name, json_path, description, priority) }
}
