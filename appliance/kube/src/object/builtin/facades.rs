//! Kinds that clients look for and that have no objects of their own here.
//!
//! A pod is another form of an object of some kind, made for `kubectl logs`: the kind's owner says
//! which and how. Nodes and services are empty lists: some clients do not start without them.

use serde_json::{Map, Value, json};

use super::{AGE, column, shaped};
use crate::model::convert::VersionConversion;
use crate::model::kind::KindInfo;
use crate::model::kind_parts::Writers;
use crate::model::schema::{object, text};

/// The annotations that name the default container: for kubectl from 1.21 on, and for older ones, which else refuse a
/// pod with several.
const DEFAULT_CONTAINER: [&str; 2] =
    ["kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container"];

/// Pods as a view of the objects of a stored kind. `body` makes what [`pod_body`] makes.
pub fn pod(group: &'static str, plural: &'static str, body: fn(&Value) -> Map<String, Value>) -> KindInfo {
    let container =
        json!({ "type": "array", "items": object(&[("name", "Its name.")]), "description": "What speaks in it." });
    let spec = json!({ "type": "object", "properties": { "containers": container } });
    let status = object(&[("phase", "Whether it runs.")]);
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": status } });
    let kind = KindInfo {
        short_names: &["po"],
        has_generation: false,
        has_status: false,
        has_log: true,
        writers: Writers::Controllers,
        tracks_owners: false,
        selectable: &["status.phase"],
        columns: vec![column("Status", "string", ".status.phase"), AGE],
        stored_at: Some((group, plural)),
        conversion: Some(VersionConversion {
            // Pods are never written.
            to_stored: |_| Map::new(),
            from_stored: body,
            annotation: "",
            fits_stored: |_| false,
            fits: |_| false,
        }),
        ..KindInfo::namespaced("", "v1", "Pod", "pods")
    };
    shaped(kind, "Something that runs and has a log.", schema)
}

/// A pod of these containers, of which the first is the default.
#[must_use]
pub fn pod_body(containers: &[&str], phase: &str) -> Map<String, Value> {
    let first = containers.first().copied().unwrap_or_default();
    let annotations: Map<_, _> = DEFAULT_CONTAINER.map(|name| (name.to_owned(), first.into())).into_iter().collect();
    let containers: Vec<Value> = containers.iter().map(|name| json!({ "name": name })).collect();
    let fields = [
        ("kind", "Pod".into()),
        ("metadata", json!({ "annotations": annotations })),
        ("spec", json!({ "containers": containers })),
        ("status", json!({ "phase": phase })),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A kind of a cluster, without objects.
fn absent(kind: KindInfo, description: &'static str, schema: Value) -> KindInfo {
    let writers = Writers::Controllers;
    let kind = KindInfo { has_generation: false, has_status: false, writers, columns: vec![AGE], ..kind };
    shaped(kind, description, schema)
}

pub(super) fn node() -> KindInfo {
    let kind = KindInfo { short_names: &["no"], ..KindInfo::cluster("", "v1", "Node", "nodes") };
    absent(kind, "A machine of a cluster. There are none here: the list is empty.", json!({ "type": "object" }))
}

pub(super) fn service() -> KindInfo {
    let spec = json!({ "type": "object", "properties": { "type": text("Who can reach it.") } });
    let kind = KindInfo { short_names: &["svc"], ..KindInfo::namespaced("", "v1", "Service", "services") };
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    absent(kind, "A service of a cluster. There are none here: the list is empty.", schema)
}
