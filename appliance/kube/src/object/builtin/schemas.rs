//! The shapes of Kubernetes' own kinds, without what all kinds have in common.

use serde_json::{Value, json};

use crate::model::schema::{boolean, byte_map, integer, micro_time, object, text, text_map, time};

pub(super) fn namespace() -> Value {
    let mut finalizers = crate::model::schema::texts("Who has to do something before the namespace goes.");
    finalizers["x-kubernetes-list-type"] = json!("atomic");
    let mut status = object(&[("phase", "Active, or Terminating when it is being deleted.")]);
    status["description"] = json!("How the namespace is.");
    let mut conditions = json!({ "type": "array", "items": condition(), "description": "What keeps it from going." });
    keyed_by(&mut conditions, "type");
    status["properties"]["conditions"] = conditions;
    json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "finalizers": finalizers }, "description": "What the namespace is to be." },
        "status": status,
    } })
}

pub(super) fn secret() -> Value {
    json!({ "type": "object", "properties": {
        "data": byte_map("Names and values; the values in base64."),
        "immutable": boolean("Whether the values can never be changed."),
        "stringData": text_map("Names and values as they are; added to data, and never shown."),
        "type": text("What the secret is for; Opaque if nothing else is said. It does not change."),
    } })
}

pub(super) fn config_map() -> Value {
    json!({ "type": "object", "properties": {
        "binaryData": byte_map("Names and values that are no text; the values in base64."),
        "data": text_map("Names and values."),
        "immutable": boolean("Whether the values can never be changed."),
    } })
}

pub(super) fn service_account() -> Value {
    let mut secrets =
        json!({ "type": "array", "items": reference("A Secret."), "description": "Secrets of the program." });
    keyed_by(&mut secrets, "name");
    let pull = json!({ "type": "array", "items": object(&[("name", "The name of the Secret.")]), "description": "Secrets for fetching images." });
    json!({ "type": "object", "properties": {
        "automountServiceAccountToken": boolean("Whether pods get a token of this account."),
        "imagePullSecrets": pull,
        "secrets": secrets,
    } })
}

pub(super) fn resource_quota() -> Value {
    let mut scopes =
        crate::model::schema::texts("Which objects it is about; scopes are about pods, so it limits nothing.");
    scopes["x-kubernetes-list-type"] = json!("atomic");
    let requirement = json!({ "type": "object", "properties": {
        "operator": text("How the scope is compared."),
        "scopeName": text("The scope."),
        "values": crate::model::schema::texts("What it is compared with."),
    } });
    let selector = json!({ "type": "object", "description": "The same in other words.", "properties": {
        "matchExpressions": { "type": "array", "items": requirement, "description": "All of these." },
    } });
    let spec = json!({ "type": "object", "description": "What it limits.", "properties": {
        "hard": text_map("The most of each: count/PLURAL.GROUP, firesteel.dev/objects, firesteel.dev/bytes."),
        "scopes": scopes,
        "scopeSelector": selector,
    } });
    let status = json!({ "type": "object", "description": "What is used.", "properties": {
        "hard": text_map("The limits that were looked at."),
        "used": text_map("What is used of each."),
    } });
    json!({ "type": "object", "properties": { "spec": spec, "status": status } })
}

pub(super) fn lease() -> Value {
    let mut spec = object(&[
        ("holderIdentity", "Who holds it."),
        ("preferredHolder", "Who should hold it next."),
        ("strategy", "How the holder is found."),
    ]);
    spec["description"] = json!("Who holds it, and how long.");
    spec["properties"]["acquireTime"] = micro_time("When the holder got it.");
    spec["properties"]["leaseDurationSeconds"] = integer("How long others wait after the last renewal.");
    spec["properties"]["leaseTransitions"] = integer("How often the holder changed.");
    spec["properties"]["renewTime"] = micro_time("When the holder said last that it holds it.");
    json!({ "type": "object", "properties": { "spec": spec } })
}

pub(super) fn event() -> Value {
    let mut involved = reference("The object that it happened to.");
    involved["x-kubernetes-map-type"] = json!("atomic");
    let mut source = object(&[("component", "The program."), ("host", "The machine that it runs on.")]);
    source["description"] = json!("Who saw it.");
    let series = json!({ "type": "object", "description": "The same again and again.", "properties": {
        "count": integer("How often."),
        "lastObservedTime": micro_time("When it happened last."),
    } });
    json!({ "type": "object", "required": ["metadata", "involvedObject"], "properties": {
        "action": text("What was done about it."),
        "count": integer("How often it happened."),
        "eventTime": micro_time("When it was seen first."),
        "firstTimestamp": time("When it was seen first, in older clients' words."),
        "involvedObject": involved,
        "lastTimestamp": time("When it happened last."),
        "message": text("What happened, for people."),
        "reason": text("What happened, as one word."),
        "related": reference("Another object that has to do with it."),
        "reportingComponent": text("Who saw it."),
        "reportingInstance": text("Which of them, where there are several."),
        "series": series,
        "source": source,
        "type": text("Normal or Warning."),
    } })
}

/// A reference to any object.
fn reference(description: &str) -> Value {
    let mut schema = object(&[
        ("apiVersion", "The API version of the object."),
        ("fieldPath", "The part of the object that is meant."),
        ("kind", "The kind of the object."),
        ("name", "The name of the object."),
        ("namespace", "The namespace of the object."),
        ("resourceVersion", "The revision of the object that is meant."),
        ("uid", "The UID of the object."),
    ]);
    schema["description"] = json!(description);
    schema
}

fn condition() -> Value {
    let mut schema = object(&[
        ("message", "The reason, for people."),
        ("reason", "The reason, as one word."),
        ("status", "True, False or Unknown."),
        ("type", "What this is about."),
    ]);
    schema["properties"]["lastTransitionTime"] = time("When the status changed last.");
    schema["required"] = json!(["type", "status"]);
    schema
}

/// Makes a field the key of a list's items, so that each may have its own owner.
fn keyed_by(list: &mut Value, key: &str) {
    list["x-kubernetes-list-type"] = json!("map");
    list["x-kubernetes-list-map-keys"] = json!([key]);
    list["x-kubernetes-patch-strategy"] = json!("merge");
    list["x-kubernetes-patch-merge-key"] = json!(key);
}
