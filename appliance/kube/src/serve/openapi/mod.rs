//! What the served kinds look like, in the two forms in which clients ask: OpenAPI v3, one document
//! for each group and version, and OpenAPI v2 (Swagger) for older ones.
//!
//! ```text
//!   Registry ─► schemas + paths (v3) ─► swagger (v2, JSON) ─► gnostic (v2, protobuf)
//! ```
//!
//! Pure, and made once: the kinds do not change while a server runs. A kind's own part is
//! [`KindInfo::schema`]; what is alike for all kinds ([`meta`]) is brought here.

mod gnostic;
mod meta;
mod paths;
mod swagger;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::model::kind::KindInfo;
use crate::model::registry::Registry;
use crate::object::scale;
use crate::serve::document::OpenApiDocument;

/// Where the schemas of a v3 document are, as references name the place.
const SCHEMAS: &str = "#/components/schemas/";

/// All documents of one server, as they are sent.
#[derive(Debug)]
pub(crate) struct Documents {
    /// The documents by their paths below `/openapi/v3/`, as in "apis/metal3.io/v1alpha1".
    v3: BTreeMap<String, OpenApiDocument>,
    v3_index: OpenApiDocument,
    v2_json: OpenApiDocument,
    v2_protobuf: OpenApiDocument,
}

impl Documents {
    pub(crate) fn of(registry: &Registry) -> Self {
        let parts: Vec<(String, Value)> = group_versions(registry)
            .into_iter()
            .map(|(group, version)| {
                let kinds = registry.kinds().iter().map(AsRef::as_ref);
                let kinds: Vec<&KindInfo> =
                    kinds.filter(|kind| kind.group == group && kind.version == version).collect();
                (paths::root(group, version)[1..].to_owned(), document(&kinds))
            })
            .collect();
        let v2 = swagger::document(parts.iter().map(|(_, document)| document));
        let v3: BTreeMap<String, OpenApiDocument> = parts
            .into_iter()
            .map(|(path, value)| (path, OpenApiDocument::new(value.to_string().into_bytes())))
            .collect();
        let paths: Map<String, Value> = v3
            .iter()
            .map(|(path, document)| {
                let url = format!("/openapi/v3/{path}?hash={}", document.hash);
                (path.clone(), json!({ "serverRelativeURL": url }))
            })
            .collect();
        Self {
            v3_index: OpenApiDocument::new(json!({ "paths": paths }).to_string().into_bytes()),
            v2_protobuf: OpenApiDocument::new(gnostic::encode(&v2)),
            v2_json: OpenApiDocument::new(v2.to_string().into_bytes()),
            v3,
        }
    }

    pub(crate) fn index(&self) -> &OpenApiDocument {
        &self.v3_index
    }

    /// `path` as in "apis/metal3.io/v1alpha1".
    pub(crate) fn v3(&self, path: &str) -> Option<&OpenApiDocument> {
        self.v3.get(path)
    }

    pub(crate) fn v2(&self, protobuf: bool) -> &OpenApiDocument {
        if protobuf { &self.v2_protobuf } else { &self.v2_json }
    }
}

fn group_versions(registry: &Registry) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for kind in registry.kinds() {
        if !found.contains(&(kind.group, kind.version)) {
            found.push((kind.group, kind.version));
        }
    }
    found
}

/// The v3 document of kinds of one group and version.
fn document(kinds: &[&KindInfo]) -> Value {
    let mut schemas = meta::schemas();
    let mut all = Map::new();
    for kind in kinds {
        schemas.insert(schema_name(kind), kind_schema(kind));
        if kind.review.is_none() {
            schemas.insert(format!("{}List", schema_name(kind)), list_schema(kind));
        }
        if kind.scale.is_some() {
            let scale = scale::kind();
            schemas.insert(
                schema_name(&scale),
                kind_schema(&KindInfo { schema: scale::schema().into(), ..(*scale).clone() }),
            );
        }
        paths::add(kind, &mut all);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Firesteel", "version": env!("CARGO_PKG_VERSION") },
        "paths": all,
        "components": { "schemas": schemas },
    })
}

/// The name of a schema, as Kubernetes has it: "io.k8s.api.core.v1.Secret", "io.metal3.v1alpha1.BareMetalHost".
fn schema_name(kind: &KindInfo) -> String {
    let (version, name) = (kind.version, kind.kind);
    match kind.group.strip_suffix(".k8s.io") {
        _ if kind.group.is_empty() => format!("io.k8s.api.core.{version}.{name}"),
        Some(group) => format!("io.k8s.api.{group}.{version}.{name}"),
        // Kubernetes' own groups from before it named them by domains.
        None if !kind.group.contains('.') => format!("io.k8s.api.{}.{version}.{name}", kind.group),
        None => {
            let reversed: Vec<&str> = kind.group.rsplit('.').collect();
            format!("{}.{version}.{name}", reversed.join("."))
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{name}") })
}

/// A reference with a description of its own.
fn described(name: &str, description: &str) -> Value {
    json!({ "allOf": [reference(name)], "description": description })
}

fn group_version_kind(kind: &KindInfo) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind })
}

fn kind_schema(kind: &KindInfo) -> Value {
    let mut schema = kind.schema.as_ref().clone();
    let own = schema["properties"].take();
    let mut properties = type_properties();
    properties.insert("metadata".into(), described(meta::OBJECT_META, meta::METADATA_DESCRIPTION));
    if let Value::Object(own) = own {
        properties.extend(own);
    }
    schema["type"] = json!("object");
    schema["properties"] = Value::Object(properties);
    if !kind.description.is_empty() {
        schema["description"] = json!(kind.description);
    }
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind)]);
    schema
}

fn list_schema(kind: &KindInfo) -> Value {
    let mut properties = type_properties();
    properties.insert("metadata".into(), described(meta::LIST_META, "The revision of the list."));
    properties.insert("items".into(), json!({ "type": "array", "items": reference(&schema_name(kind)) }));
    let mut group_version_kind = group_version_kind(kind);
    group_version_kind["kind"] = json!(format!("{}List", kind.kind));
    json!({
        "type": "object", "description": format!("Objects of the kind {}.", kind.kind),
        "properties": properties, "required": ["items"],
        "x-kubernetes-group-version-kind": [group_version_kind],
    })
}

fn type_properties() -> Map<String, Value> {
    let text = |description: &str| json!({ "type": "string", "description": description });
    Map::from_iter([
        ("apiVersion".to_owned(), text("Group and version of the kind, as in metal3.io/v1alpha1.")),
        ("kind".to_owned(), text("The kind of the object.")),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::object::builtin;

    fn toy(schema: Value) -> Registry {
        let toy = KindInfo { schema: schema.into(), ..KindInfo::namespaced("toys.example.org", "v1", "Toy", "toys") };
        Registry::new(builtin::kinds().into_iter().chain([toy]))
    }

    fn read(document: &OpenApiDocument) -> Value {
        serde_json::from_slice(&document.bytes).unwrap()
    }

    /// Every reference of a document leads to a schema of the same document.
    fn check_references(value: &Value, document: &Value) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(path)) = object.get("$ref") {
                    assert!(!document.pointer(&path[1..]).unwrap_or(&Value::Null).is_null(), "{path} leads nowhere");
                }
                object.values().for_each(|value| check_references(value, document));
            }
            Value::Array(values) => values.iter().for_each(|value| check_references(value, document)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn references_lead_somewhere_and_kinds_can_be_found() {
        let documents = Documents::of(&toy(json!({ "properties": { "spec": { "type": "object" } } })));
        let index = read(documents.index());
        let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
        assert!(paths.contains(&&"api/v1".to_owned()) && paths.contains(&&"apis/toys.example.org/v1".to_owned()));
        for path in paths {
            let document = read(documents.v3(path).unwrap());
            check_references(&document, &document);
        }
        let document = read(documents.v3("apis/toys.example.org/v1").unwrap());
        let schema = &document["components"]["schemas"]["org.example.toys.v1.Toy"];
        let kind = json!({ "group": "toys.example.org", "version": "v1", "kind": "Toy" });
        assert_eq!(schema["x-kubernetes-group-version-kind"], json!([kind]));
        assert_eq!(schema["properties"]["spec"], json!({ "type": "object" }));
        let patch = &document["paths"]["/apis/toys.example.org/v1/namespaces/{namespace}/toys/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
        let names: Vec<&str> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        let v2 = read(documents.v2(false));
        check_references(&v2, &v2);
    }

    #[test]
    fn a_hash_changes_with_its_document_alone() {
        let one = Documents::of(&toy(json!({ "properties": { "spec": { "type": "object" } } })));
        let same = Documents::of(&toy(json!({ "properties": { "spec": { "type": "object" } } })));
        let other = Documents::of(&toy(json!({ "properties": { "spec": { "type": "object", "description": "x" } } })));
        let hash = |documents: &Documents, path: &str| documents.v3(path).unwrap().hash.clone();
        let toys = "apis/toys.example.org/v1";
        assert_eq!(hash(&one, toys), hash(&same, toys));
        assert_ne!(hash(&one, toys), hash(&other, toys));
        assert_eq!(hash(&one, "api/v1"), hash(&other, "api/v1"));
        assert_ne!(one.v2(true).hash, other.v2(true).hash);
    }
}
