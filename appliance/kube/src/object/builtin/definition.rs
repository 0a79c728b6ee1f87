//! The served kinds as CustomResourceDefinitions, for clients that look there: Cluster API and its
//! tools read versions and labels from them. A view: the kinds are compiled in, and what others may
//! change of these objects is labels and annotations.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::model::kind::KindInfo;
use crate::model::kind_parts::{AdmittedObject, Cell, PrinterColumn, Writers};
use crate::model::registry::Registry;
use crate::model::schema::{object, text, texts};

pub(crate) fn custom_resource_definition() -> KindInfo {
    KindInfo {
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        has_status: false,
        writers: Writers::ControllersButLabels,
        description: "A kind that this server has beside Kubernetes' own.",
        schema: Arc::new(schema()),
        columns: vec![PrinterColumn {
            name: "Created At",
            column_type: "string",
            description: "When the server first had the kind",
            priority: 0,
            cell: Cell::Path(".metadata.creationTimestamp"),
        }],
        ..KindInfo::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
    }
    .admitting(|value, old| {
        // What was compiled in is what it is. [`crate::publish`] writes it past this hook.
        for part in ["spec", "status"] {
            if let Some(old) = old {
                value[part] = old[part].clone();
            }
        }
        Ok(AdmittedObject::default())
    })
}

/// All kinds of a server but Kubernetes' own, each with all its versions.
pub(crate) fn definitions(registry: &Registry, now: Timestamp) -> Vec<Value> {
    registry.stored_kinds().filter(|kind| kind.is_custom()).map(|kind| definition(registry, kind, now)).collect()
}

fn definition(registry: &Registry, kind: &KindInfo, now: Timestamp) -> Value {
    let same = registry.kinds().iter().filter(|other| (other.group, other.plural) == (kind.group, kind.plural));
    let versions: Vec<Value> = same.map(|version| version_value(version)).collect();
    let mut metadata = json!({ "name": format!("{}.{}", kind.plural, kind.group) });
    for (name, value) in kind.definition_labels {
        metadata["labels"][*name] = json!(value);
    }
    // The conversion is made by this server; there is no webhook that could be named.
    let conversion = if versions.len() > 1 {
        json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"] } })
    } else {
        json!({ "strategy": "None" })
    };
    let names = names(kind);
    let condition = |type_: &str, reason: &str, message: &str| {
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({ "type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "versions": versions,
            "conversion": conversion,
        },
        "status": {
            "acceptedNames": names,
            "storedVersions": [kind.version],
            "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
        },
    })
}

fn names(kind: &KindInfo) -> Value {
    let mut names = json!({
        "plural": kind.plural, "singular": kind.singular_name(),
        "kind": kind.kind, "listKind": format!("{}List", kind.kind),
    });
    for (name, list) in [("shortNames", kind.short_names), ("categories", kind.categories)] {
        if !list.is_empty() {
            names[name] = json!(list);
        }
    }
    names
}

fn version_value(kind: &KindInfo) -> Value {
    let mut schema = kind.schema.as_ref().clone();
    let mut properties = Map::from_iter([
        ("apiVersion".to_owned(), json!({ "type": "string" })),
        ("kind".to_owned(), json!({ "type": "string" })),
        ("metadata".to_owned(), json!({ "type": "object" })),
    ]);
    if let Value::Object(own) = schema["properties"].take() {
        properties.extend(own);
    }
    schema["properties"] = Value::Object(properties);
    if !kind.description.is_empty() {
        schema["description"] = json!(kind.description);
    }
    let mut version = json!({
        "name": kind.version, "served": true, "storage": kind.is_stored(), "schema": { "openAPIV3Schema": schema },
    });
    if let Some(warning) = kind.deprecation() {
        version["deprecated"] = json!(true);
        version["deprecationWarning"] = json!(warning);
    }
    let columns: Vec<Value> = kind.columns.iter().filter_map(column).collect();
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = json!(columns);
    }
    if kind.has_status {
        version["subresources"]["status"] = json!({});
    }
    if let Some(scale) = kind.scale {
        let mut paths = json!({ "specReplicasPath": scale.spec_replicas, "statusReplicasPath": scale.status_replicas });
        if !scale.label_selector.is_empty() {
            paths["labelSelectorPath"] = json!(scale.label_selector);
        }
        version["subresources"]["scale"] = paths;
    }
    version
}

/// A computed cell has no path, so no definition can name it.
fn column(column: &PrinterColumn) -> Option<Value> {
    let Cell::Path(path) = column.cell else { return None };
    let mut value = json!({ "name": column.name, "type": column.column_type, "jsonPath": path });
    if !column.description.is_empty() {
        value["description"] = json!(column.description);
    }
    if column.priority > 0 {
        value["priority"] = json!(column.priority);
    }
    Some(value)
}

fn schema() -> Value {
    let mut names = object(&[
        ("kind", "The kind, as objects name it."),
        ("listKind", "The kind of its lists."),
        ("plural", "Its name in URLs."),
        ("singular", "Its name on command lines."),
    ]);
    names["properties"]["shortNames"] = texts("Shorter names for command lines.");
    names["properties"]["categories"] = texts("Names for several kinds at once.");
    let any = |description: &str| json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": description });
    let version = json!({ "type": "object", "properties": {
        "name": text("The version, as in v1alpha1."),
        "served": { "type": "boolean", "description": "Whether the API has it." },
        "storage": { "type": "boolean", "description": "Whether objects are stored in it." },
        "deprecated": { "type": "boolean", "description": "Whether it is going away." },
        "deprecationWarning": text("The warning for its clients."),
        "schema": any("The fields of the objects."),
        "subresources": any("The parts of the objects that have URLs of their own."),
        "additionalPrinterColumns": { "type": "array", "items": any("A column."), "description": "Columns of kubectl get." },
    } });
    let mut spec = object(&[("group", "The group of the kind."), ("scope", "Namespaced or Cluster.")]);
    spec["properties"]["names"] = names;
    spec["properties"]["versions"] =
        json!({ "type": "array", "items": version, "description": "The versions of the kind." });
    spec["properties"]["conversion"] = any("How one version becomes another.");
    json!({ "type": "object", "properties": { "spec": spec, "status": any("What the server says of the kind.") } })
}
