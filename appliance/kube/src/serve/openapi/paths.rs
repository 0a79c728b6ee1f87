//! The operations on a kind, for the `paths` of an OpenAPI v3 document. kubectl finds there which
//! kind a plural means, and whether the server checks fields and knows dry runs.

use serde_json::{Map, Value, json};

use super::{group_version_kind, meta, reference, schema_name};
use crate::model::kind::{self, KindInfo};
use crate::model::kind_parts::Writers;
use crate::object::scale;

/// "/api/v1", "/apis/metal3.io/v1alpha1".
pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

pub(super) fn add(kind: &KindInfo, paths: &mut Map<String, Value>) {
    let root = root(kind.group, kind.version);
    if kind.review.is_some() {
        let own = schema_name(kind);
        let ask = with_body(operation(kind, "create", "", CREATE, &own), &["application/json"], &own);
        paths.insert(format!("{root}/{}", kind.plural), json!({ "post": ask }));
        return;
    }
    let list = format!("{}List", schema_name(kind));
    let base = if kind.namespaced {
        let all = json!({ "get": operation(kind, "list", "ForAllNamespaces", LIST, &list) });
        paths.insert(format!("{root}/{}", kind.plural), all);
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{root}/{}", kind.plural)
    };
    let own = schema_name(kind);
    let mut collection = json!({ "get": operation(kind, "list", "", LIST, &list) });
    let mut object = json!({ "get": operation(kind, "read", "", &[], &own) });
    let mut status = json!({ "get": operation(kind, "read", "Status", &[], &own) });
    if kind.writers == Writers::Everyone {
        collection["post"] = with_body(operation(kind, "create", "", CREATE, &own), &["application/json"], &own);
        if !kind::is_namespace(kind) {
            collection["delete"] = operation(kind, "deletecollection", "", LIST, meta::STATUS);
        }
        object["delete"] =
            with_body(operation(kind, "delete", "", DELETE, meta::STATUS), &["application/json"], meta::DELETE_OPTIONS);
    }
    if kind.writers != Writers::Controllers {
        object["put"] = with_body(operation(kind, "replace", "", CREATE, &own), &["application/json"], &own);
        object["patch"] = with_body(operation(kind, "patch", "", PATCH, &own), patch_types(kind), meta::PATCH);
        status["put"] = with_body(operation(kind, "replace", "Status", CREATE, &own), &["application/json"], &own);
        status["patch"] = with_body(operation(kind, "patch", "Status", PATCH, &own), patch_types(kind), meta::PATCH);
    }
    let namespace = path_parameter("namespace", "The namespace of the object.");
    let name = path_parameter("name", "The name of the object.");
    collection["parameters"] = if kind.namespaced { json!([namespace]) } else { json!([]) };
    object["parameters"] = if kind.namespaced { json!([name, namespace]) } else { json!([name]) };
    status["parameters"] = object["parameters"].clone();
    if kind.has_status {
        paths.insert(format!("{base}/{{name}}/status"), status);
    }
    if kind.scale.is_some() {
        let parameters = object["parameters"].clone();
        paths.insert(format!("{base}/{{name}}/scale"), scale_item(kind, parameters));
    }
    paths.insert(format!("{base}/{{name}}"), object);
    paths.insert(base, collection);
}

fn scale_item(kind: &KindInfo, parameters: Value) -> Value {
    let scale = scale::kind();
    let name = schema_name(&scale);
    let of_scale = |mut operation: Value| {
        operation["x-kubernetes-group-version-kind"] = group_version_kind(&scale);
        operation
    };
    let mut item = json!({ "parameters": parameters });
    item["get"] = of_scale(operation(kind, "read", "Scale", &[], &name));
    if kind.writers == Writers::Everyone {
        let put = operation(kind, "replace", "Scale", CREATE, &name);
        item["put"] = of_scale(with_body(put, &["application/json"], &name));
        let types = ["application/json-patch+json", "application/merge-patch+json"];
        item["patch"] = of_scale(with_body(operation(kind, "patch", "Scale", PATCH, &name), &types, meta::PATCH));
    }
    item
}

/// What a PATCH may be; strategic ones for Kubernetes' own kinds alone.
fn patch_types(kind: &KindInfo) -> &'static [&'static str] {
    const OWN: &[&str] = &[
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
    if kind.strategic_merge { OWN } else { &OWN[..3] }
}

type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter = ("dryRun", "string", "All: everything is checked and nothing stored.");
const FIELD_MANAGER: Parameter = ("fieldManager", "string", "Who makes this change.");
const FIELD_VALIDATION: Parameter =
    ("fieldValidation", "string", "What to do with unknown fields: Ignore, Warn (the default) or Strict.");
const FORCE: Parameter = ("force", "boolean", "Take fields that others applied. For apply patches.");
const CREATE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const DELETE: &[Parameter] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "How long the object has to end."),
    ("propagationPolicy", "string", "What happens to objects that this one owns: Background, Foreground or Orphan."),
];
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean", "Tell the revision from time to time. For watches."),
    ("continue", "string", "Go on with a list where its last part ended."),
    ("fieldSelector", "string", "Fields that the objects must have."),
    ("labelSelector", "string", "Labels that the objects must have."),
    ("limit", "integer", "At most so many objects in one answer."),
    ("resourceVersion", "string", "The revision to read, or to watch from."),
    ("resourceVersionMatch", "string", "How that revision is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that are there."),
    ("timeoutSeconds", "integer", "How long the watch is to last."),
    ("watch", "boolean", "Stay, and tell what changes."),
];

fn path_parameter(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "string" });
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
}

fn operation(kind: &KindInfo, action: &str, part: &str, parameters: &[Parameter], answer: &str) -> Value {
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, type_, description)| {
            json!({ "name": name, "in": "query", "description": description, "schema": { "type": type_ } })
        })
        .collect();
    let content = json!({ "application/json": { "schema": reference(answer) } });
    json!({
        "operationId": operation_id(kind, action, part),
        "parameters": parameters,
        "responses": { "200": { "description": "OK", "content": content } },
        "x-kubernetes-action": match action { "read" => "get", "create" => "post", "replace" => "put", other => other },
        "x-kubernetes-group-version-kind": group_version_kind(kind),
    })
}

fn with_body(mut operation: Value, media_types: &[&str], schema: &str) -> Value {
    let content: Map<String, Value> =
        media_types.iter().map(|name| ((*name).to_owned(), json!({ "schema": reference(schema) }))).collect();
    operation["requestBody"] = json!({ "content": content });
    operation
}

/// "patchMetal3IoV1alpha1NamespacedBareMetalHost".
fn operation_id(kind: &KindInfo, action: &str, part: &str) -> String {
    let group = if kind.group.is_empty() { "core" } else { kind.group };
    let words: String = group.split(['.', '-']).chain([kind.version]).map(capital).collect();
    let namespaced = if kind.namespaced && part != "ForAllNamespaces" { "Namespaced" } else { "" };
    format!("{action}{words}{namespaced}{}{part}", kind.kind)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
