//! Kubernetes' own kinds, as far as they are served. Their shapes are in [`schemas`].

mod data_keys;
pub(crate) mod definition;
mod event_columns;
mod events;
mod facades;
pub(crate) mod reviews;
mod schemas;

pub use events::event;
pub use facades::{pod, pod_body};

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use firesteel_kube_types::Cause;
use serde_json::{Map, Value, json};

use crate::model::kind::KindInfo;
use crate::model::kind_parts::{AdmittedObject, Cell, IssueSubresource, NameRule, PrinterColumn};
use crate::model::schema;
use crate::object::quota;

/// All of them, for a [`crate::Registry`].
pub fn kinds() -> Vec<KindInfo> {
    let own = [namespace(), secret(), config_map(), service_account(), resource_quota(), event(), lease()];
    let others = [events::new_event(), facades::node(), facades::service()];
    own.into_iter().chain(others).chain(reviews::kinds()).chain([definition::custom_resource_definition()]).collect()
}

/// Adds a schema: unknown fields are dropped, and values of another type are refused.
fn shaped(kind: KindInfo, description: &'static str, schema: Value) -> KindInfo {
    let kind = KindInfo { description, ..kind.with_schema(schema) };
    let (own, rules) = (Arc::clone(&kind.schema), Arc::clone(&kind.admit));
    kind.admitting(move |value, old| {
        let found = schema::conform(&own, value);
        if !found.causes.is_empty() {
            return Err(found.causes);
        }
        let mut admitted = rules(value, old)?;
        admitted.unknown_fields.extend(found.unknown);
        Ok(admitted)
    })
}

const fn column(name: &'static str, column_type: &'static str, path: &'static str) -> PrinterColumn {
    PrinterColumn { name, column_type, description: "", priority: 0, cell: Cell::Path(path) }
}

const AGE: PrinterColumn = column("Age", "date", ".metadata.creationTimestamp");

/// The label by which selectors find a namespace by its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

pub fn namespace() -> KindInfo {
    let kind = KindInfo {
        short_names: &["ns"],
        has_generation: false,
        unconditional_update: true,
        strategic_merge: true,
        name_rule: NameRule::Label,
        columns: vec![column("Status", "string", ".status.phase"), AGE],
        own_labels: |namespace| {
            vec![(NAMESPACE_NAME, namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned())]
        },
        ..KindInfo::cluster("", "v1", "Namespace", "namespaces")
    }
    .admitting(|value, old| {
        // Set at birth; a change of them is not a client's to make.
        value["spec"] = old.map_or_else(|| json!({ "finalizers": ["kubernetes"] }), |old| old["spec"].clone());
        if old.is_none() {
            value["status"] = json!({ "phase": "Active" });
        }
        Ok(AdmittedObject::default())
    });
    shaped(kind, "A room for objects: names in one do not meet those in another.", schemas::namespace())
}

pub fn secret() -> KindInfo {
    let kind = KindInfo {
        has_generation: false,
        has_status: false,
        unconditional_update: true,
        strategic_merge: true,
        selectable: &["type"],
        columns: vec![
            column("Type", "string", ".type"),
            PrinterColumn { cell: Cell::Computed(count_data), ..column("Data", "integer", "") },
            AGE,
        ],
        ..KindInfo::namespaced("", "v1", "Secret", "secrets")
    }
    .admitting(admit_secret);
    shaped(kind, "What only some may know: passwords, keys, tokens.", schemas::secret())
}

pub fn config_map() -> KindInfo {
    let kind = KindInfo {
        short_names: &["cm"],
        has_generation: false,
        has_status: false,
        unconditional_update: true,
        strategic_merge: true,
        columns: vec![PrinterColumn { cell: Cell::Computed(count_data), ..column("Data", "integer", "") }, AGE],
        ..KindInfo::namespaced("", "v1", "ConfigMap", "configmaps")
    }
    .admitting(|value, old| {
        let mut causes = Vec::new();
        data_keys::check(value, &["data", "binaryData"], &mut causes);
        check_immutable(value, old, &["data", "binaryData"], &mut causes);
        if causes.is_empty() { Ok(AdmittedObject::default()) } else { Err(causes) }
    });
    shaped(kind, "Settings as names and values.", schemas::config_map())
}

/// What is asked of a service account.
pub const TOKEN_REQUEST: IssueSubresource =
    IssueSubresource { subresource: "token", group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" };

/// A name that a program can have.
pub fn service_account() -> KindInfo {
    let kind = KindInfo {
        short_names: &["sa"],
        requests: &[TOKEN_REQUEST],
        has_generation: false,
        has_status: false,
        unconditional_update: true,
        strategic_merge: true,
        columns: vec![AGE],
        ..KindInfo::namespaced("", "v1", "ServiceAccount", "serviceaccounts")
    };
    shaped(kind, "A name for a program.", schemas::service_account())
}

/// What clients may have in a namespace.
pub fn resource_quota() -> KindInfo {
    let kind = KindInfo {
        short_names: &["quota"],
        has_generation: false,
        unconditional_update: true,
        strategic_merge: true,
        columns: vec![PrinterColumn { cell: Cell::Computed(quota::shown), ..column("Request", "string", "") }, AGE],
        ..KindInfo::namespaced("", "v1", "ResourceQuota", "resourcequotas")
    }
    .admitting(|value, _| quota::admit(value));
    let kind = shaped(kind, "What clients may have in a namespace.", schemas::resource_quota());
    let whole = Arc::clone(&kind.admit);
    kind.admitting(move |value, old| {
        quota::say_as_texts(value);
        whole(value, old)
    })
}

/// Leases, each held by one of several programs at a time, by compare-and-swap.
pub fn lease() -> KindInfo {
    let kind = KindInfo {
        has_generation: false,
        has_status: false,
        strategic_merge: true,
        has_short_history: true,
        columns: vec![column("Holder", "string", ".spec.holderIdentity"), AGE],
        ..KindInfo::namespaced("coordination.k8s.io", "v1", "Lease", "leases")
    };
    shaped(kind, "What one of several programs holds at a time.", schemas::lease())
}

fn admit_secret(value: &mut Value, old: Option<&Value>) -> Result<AdmittedObject, Vec<Cause>> {
    let mut causes = Vec::new();
    if let Some(Value::Object(texts)) = value.as_object_mut().and_then(|object| object.remove("stringData")) {
        let data: Map<String, Value> =
            texts.into_iter().map(|(key, text)| (key, json!(BASE64.encode(text.as_str().unwrap_or(""))))).collect();
        match value["data"].as_object_mut() {
            Some(existing) => existing.extend(data),
            None => value["data"] = Value::Object(data),
        }
    }
    data_keys::check(value, &["data"], &mut causes);
    if value["type"].as_str().unwrap_or("").is_empty() {
        value["type"] = old.map_or_else(|| json!("Opaque"), |old| old["type"].clone());
    }
    if let Some(old) = old
        && old["type"] != value["type"]
    {
        causes.push(Cause::invalid_json("type", &value["type"], "field is immutable"));
    }
    check_immutable(value, old, &["data"], &mut causes);
    if causes.is_empty() { Ok(AdmittedObject::default()) } else { Err(causes) }
}

fn check_immutable(value: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old["immutable"] == json!(true)) else { return };
    for field in fields.iter().copied().chain(["immutable"]) {
        if value[field] != old[field] {
            causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
}

fn count_data(value: &Value) -> Value {
    let count = |field: &str| value[field].as_object().map_or(0, Map::len);
    json!(count("data") + count("binaryData"))
}
