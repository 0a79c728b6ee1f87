//! Kinds that clients look for and that have no objects of their own here.
//!
//! A pod is another form of an object of some kind, made for `kubectl logs`: the kind's owner says
//! which and how. Nodes and services are empty lists: some clients do not start without them.

use serde_json::{Map, Value, json};

use super::{AGE, column, shaped};
use crate::convert::Conversion;
use crate::kind::{KindInfo, Writers};
use crate::schema::{object, text};

/// Pods as a view of the objects of a stored kind: `(group, plural)`. `body` makes what is beside
/// `apiVersion`, `kind` and `metadata`.
pub fn pod(stored: (&'static str, &'static str), body: fn(&Value) -> Map<String, Value>) -> KindInfo {
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
        stored_at: Some(stored),
        conversion: Some(Conversion {
            // Nobody writes one.
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

pub(super) fn node() -> KindInfo {
    let kind = KindInfo {
        short_names: &["no"],
        has_generation: false,
        has_status: false,
        writers: Writers::Controllers,
        columns: vec![AGE],
        ..KindInfo::cluster("", "v1", "Node", "nodes")
    };
    shaped(kind, "A machine of a cluster. There are none here: the list is empty.", json!({ "type": "object" }))
}

pub(super) fn service() -> KindInfo {
    let spec = json!({ "type": "object", "properties": { "type": text("Who can reach it.") } });
    let kind = KindInfo {
        short_names: &["svc"],
        has_generation: false,
        has_status: false,
        writers: Writers::Controllers,
        columns: vec![AGE],
        ..KindInfo::namespaced("", "v1", "Service", "services")
    };
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    shaped(kind, "A service of a cluster. There are none here: the list is empty.", schema)
}
