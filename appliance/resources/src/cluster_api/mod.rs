//! Cluster API's Cluster, Machine and MachineSet (cluster.x-k8s.io) in v1beta1 and v1beta2. Objects are
//! stored as v1beta2; [`convert`] says what v1beta1 has elsewhere.
//!
//! ```text
//!   v1beta1 ─► shape ─► convert ─► defaults and rules of v1beta2 ─► convert ─► v1beta1
//!   v1beta2 ─► shape ──────────► defaults and rules
//! ```
//!
//! Upstream's webhooks speak v1beta2 alone, so what they refuse in an object of v1beta1 is named as
//! v1beta2 names it. What depends on a ClusterClass is not here: such a topology is checked as far as
//! its own words go, and nothing comes of it.

pub mod convert;

mod columns;
mod common;
mod metadata;
mod rules;
mod taints;
mod topology;
mod v1beta1;
mod v1beta2;

use firesteel_kube_types::{Cause, CauseReason, ScaleSubresource};
use serde_json::Value;

use crate::kind::{Kind, StoredAs};
use crate::shape::{self, Shape};

const GROUP: &str = "cluster.x-k8s.io";
const V1BETA1: &str = "v1beta1";
const V1BETA2: &str = "v1beta2";
/// The annotation in which upstream keeps what the other version cannot hold.
const KEPT: &str = "cluster.x-k8s.io/conversion-data";
/// The label of machines and sets that names their cluster.
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Labels by which providers find the versions of the contract that a kind fulfils.
const CONTRACTS: &[(&str, &str)] = &[("cluster.x-k8s.io/v1beta1", "v1beta1"), ("cluster.x-k8s.io/v1beta2", "v1beta2")];
const NO_CONTROLLER: Option<&str> = Some("there is no controller of Cluster API here yet");

pub const CLUSTER: Kind = Kind {
    short_names: &["cl"],
    columns: columns::CLUSTER,
    about: "A Kubernetes cluster: its network, its control plane, its infrastructure.",
    complete: rules::complete_cluster,
    rules: rules::cluster,
    ..kind(V1BETA2, "Cluster", "clusters", "cluster", &v1beta2::cluster::SHAPE)
};

pub const CLUSTER_V1BETA1: Kind = Kind {
    columns: columns::CLUSTER_V1BETA1,
    complete: rules::complete_references,
    rules: rules::durations,
    stored_as: Some(StoredAs {
        kind: &CLUSTER,
        conversion: convert::CLUSTER,
        annotation: KEPT,
        fits_stored: |object| fits(&v1beta2::cluster::SHAPE, object),
        fits: |object| fits(&v1beta1::cluster::SHAPE, object),
    }),
    ..older(&CLUSTER, &v1beta1::cluster::SHAPE)
};

pub const MACHINE: Kind = Kind {
    short_names: &["ma"],
    columns: columns::MACHINE,
    about: "A machine that is to be a node of a cluster.",
    complete: rules::complete_machine,
    rules: rules::machine,
    labels: cluster_label,
    ..kind(V1BETA2, "Machine", "machines", "machine", &v1beta2::machine::SHAPE)
};

pub const MACHINE_V1BETA1: Kind = Kind {
    columns: columns::MACHINE_V1BETA1,
    complete: rules::complete_references,
    rules: rules::durations,
    stored_as: Some(StoredAs {
        kind: &MACHINE,
        conversion: convert::MACHINE,
        annotation: KEPT,
        fits_stored: |object| fits(&v1beta2::machine::SHAPE, object),
        fits: |object| fits(&v1beta1::machine::SHAPE, object),
    }),
    ..older(&MACHINE, &v1beta1::machine::SHAPE)
};

pub const MACHINE_SET: Kind = Kind {
    short_names: &["ms"],
    columns: columns::MACHINE_SET,
    about: "A number of machines that are made from one template.",
    complete: rules::complete_machine_set,
    rules: rules::machine_set,
    labels: cluster_label,
    scale: Some(ScaleSubresource {
        spec_replicas: ".spec.replicas",
        status_replicas: ".status.replicas",
        label_selector: ".status.selector",
    }),
    ..kind(V1BETA2, "MachineSet", "machinesets", "machineset", &v1beta2::machine_set::SHAPE)
};

pub const MACHINE_SET_V1BETA1: Kind = Kind {
    columns: columns::MACHINE_SET_V1BETA1,
    complete: rules::complete_references,
    rules: rules::durations,
    stored_as: Some(StoredAs {
        kind: &MACHINE_SET,
        conversion: convert::MACHINE_SET,
        annotation: KEPT,
        fits_stored: |object| fits(&v1beta2::machine_set::SHAPE, object),
        fits: |object| fits(&v1beta1::machine_set::SHAPE, object),
    }),
    ..older(&MACHINE_SET, &v1beta1::machine_set::SHAPE)
};

const fn kind(
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    shape: &'static Shape,
) -> Kind {
    Kind {
        categories: &["cluster-api"],
        has_status: true,
        definition_labels: CONTRACTS,
        without_controller: NO_CONTROLLER,
        ..Kind::new(GROUP, version, kind, plural, singular, shape)
    }
}

/// The v1beta1 version of a kind.
const fn older(stored: &Kind, shape: &'static Shape) -> Kind {
    Kind { version: V1BETA1, shape, is_deprecated: true, ..*stored }
}

fn cluster_label(object: &Value) -> Vec<(&'static str, String)> {
    let name = object["spec"]["clusterName"].as_str().map(str::to_owned);
    name.map(|name| (CLUSTER_NAME, name)).into_iter().collect()
}

/// Whether an object has the fields and the types of a shape. Bounds do not count: an object may have come
/// from a version that has others.
fn fits(shape: &Shape, object: &Value) -> bool {
    let mut whole = object.clone();
    let is_type = |cause: &Cause| cause.reason == CauseReason::FieldValueTypeInvalid;
    shape::conform(shape, &mut whole).is_empty() && !shape::check(shape, &whole, None).iter().any(is_type)
}
