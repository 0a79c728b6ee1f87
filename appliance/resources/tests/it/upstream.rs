//! Our shapes beside upstream's schemas, upstream's examples through our door, and the
//! machine-readable cases of the provisioning network.

use firesteel_resources::{
    Provisioning, admit,
    kinds::{self, Kind, Scope},
    shape::{Field, Shape},
};
use serde_json::{Value, json};

use crate::fixture;

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// Every difference between a shape and an OpenAPI schema, by path.
fn differences(shape: &Shape, schema: &Value, path: &str, found: &mut Vec<String>) {
    let type_ = schema["type"].as_str().unwrap_or_default();
    let words = |schema: &Value| -> Vec<String> {
        let list = schema["enum"].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let same = match shape {
        Shape::Any => true,
        Shape::Boolean => type_ == "boolean",
        Shape::Number => type_ == "number",
        Shape::Integer { min, max } => {
            let bounds = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
            type_ == "integer" && bounds == (*min, *max)
        }
        Shape::Text => type_ == "string" && schema["enum"].is_null(),
        Shape::OneOf(list) => {
            // An empty word is legal where other tools write it.
            let ours: Vec<&str> = list.to_vec();
            let theirs = words(schema);
            theirs.iter().all(|word| ours.contains(&word.as_str()))
                && ours.iter().all(|word| word.is_empty() || theirs.iter().any(|other| other == word))
        }
        Shape::Time => schema["format"] == "date-time",
        Shape::Mac { .. } => schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("{2}){5}")),
        Shape::Map(item) => {
            differences(item, &schema["additionalProperties"], &format!("{path}.*"), found);
            type_ == "object"
        }
        Shape::List(item) => {
            differences(item, &schema["items"], &format!("{path}[]"), found);
            type_ == "array"
        }
        Shape::Object(fields) => {
            let theirs = schema["properties"].as_object().cloned().unwrap_or_default();
            for name in theirs.keys().filter(|name| fields.iter().all(|field| field.name != *name)) {
                found.push(format!("{path}.{name} is missing here"));
            }
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            for field in *fields {
                let path = format!("{path}.{}", field.name);
                match theirs.get(field.name) {
                    None => found.push(format!("{path} is not upstream's")),
                    Some(schema) => {
                        differences(field.shape, schema, &path, found);
                        owners(field, schema, &path, found);
                    }
                }
                if required.iter().any(|name| name == field.name) != field.required {
                    found.push(format!("{path} differs in being required"));
                }
            }
            type_ == "object"
        }
    };
    if !same {
        found.push(format!("{path} differs"));
    }
}

/// Differences in who may own which part of a field.
fn owners(field: &Field, schema: &Value, path: &str, found: &mut Vec<String>) {
    // What is known of the items is all or nothing.
    let is_any = matches!(field.shape, Shape::List(Shape::Any));
    if !is_any && schema.get("x-kubernetes-list-map-keys").unwrap_or(&json!([])) != &json!(field.list_keys) {
        found.push(format!("{path} differs in its keys"));
    }
    if field.is_atomic != (schema["x-kubernetes-map-type"] == "atomic") {
        found.push(format!("{path} differs in having one owner"));
    }
}

fn compare(kind: &Kind, path: &str) {
    let Some(text) = fixture(path) else { return };
    let crd = documents(&text).into_iter().next().unwrap();
    let version = &crd["spec"]["versions"][0];
    let mut schema = version["schema"]["openAPIV3Schema"].clone();
    for name in ["apiVersion", "kind", "metadata"] {
        schema["properties"].as_object_mut().unwrap().remove(name);
    }
    schema.as_object_mut().unwrap().remove("required");
    let mut found = Vec::new();
    differences(kind.shape, &schema, "", &mut found);
    assert_eq!(found, Vec::<String>::new(), "{}", kind.kind);

    let names = &crd["spec"]["names"];
    assert_eq!(names["kind"], kind.kind);
    assert_eq!(names["plural"], kind.plural);
    assert_eq!(names["singular"], kind.singular);
    assert_eq!(names["listKind"], kind.list_kind);
    assert_eq!(names["shortNames"].as_array().cloned().unwrap_or_default(), kind.short_names);
    assert_eq!(crd["spec"]["scope"] == "Namespaced", kind.scope == Scope::Namespaced);
    assert_eq!(version["subresources"].get("status").is_some(), kind.has_status);
    let columns = version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
    for (column, theirs) in kind.columns.iter().zip(&columns) {
        assert_eq!(
            (column.name, column.json_path, column.type_, i64::from(column.priority)),
            (
                theirs["name"].as_str().unwrap(),
                theirs["jsonPath"].as_str().unwrap(),
                theirs["type"].as_str().unwrap(),
                theirs["priority"].as_i64().unwrap_or(0)
            )
        );
    }
}

#[test]
fn shapes_and_names_are_upstreams() {
    compare(&kinds::BARE_METAL_HOST, "bmo/crds/metal3.io_baremetalhosts.yaml");
    compare(&kinds::HARDWARE_DATA, "bmo/crds/metal3.io_hardwaredata.yaml");
    compare(&kinds::PROVISIONING, "cbo/metal3.io_provisionings.yaml");
}

#[test]
fn upstreams_examples_are_admitted_as_upstream_would() {
    let rows = [
        ("bmo/examples/example-host.yaml", true),
        ("bmo/examples/example-host-bad-credentials.yaml", true),
        ("bmo/examples/metal3-docs.bmh-01.yaml", true),
        ("bmo/examples/metal3-docs.bmh-01-provision.yaml", true),
        // Lacks spec.online, which upstream's schema requires.
        ("bmo/samples/metal3.io_v1alpha1_baremetalhost.yaml", false),
    ];
    for (path, good) in rows {
        let Some(text) = fixture(path) else { return };
        for host in documents(&text).iter().filter(|document| document["kind"] == "BareMetalHost") {
            let admission = admit(&kinds::BARE_METAL_HOST, host, None);
            assert_eq!(admission.causes.is_empty(), good, "{path}: {:?}", admission.causes);
            if !good {
                assert_eq!(admission.unknown_fields, ["spec.foo"]);
            }
        }
    }
}

#[test]
fn the_provisioning_networks_cases_get_their_verdict() {
    let Some(text) = fixture("vectors/provisioning-validation.json") else { return };
    let vectors: Value = serde_json::from_str(&text).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() >= 24);
    for case in cases {
        let mut spec = vectors["bases"][case["base"].as_str().unwrap()].clone();
        for (name, value) in case["override"].as_object().unwrap() {
            spec[name] = value.clone();
        }
        let object = json!({"metadata": {"name": "provisioning-configuration"}, "spec": spec});
        let admission = admit(&kinds::PROVISIONING, &object, None);
        assert_eq!(json!(admission.causes.is_empty()), case["valid"], "{case}: {:?}", admission.causes);
        let typed: Provisioning = serde_json::from_value(object).unwrap();
        assert_eq!(typed.network().is_ok(), admission.causes.is_empty());
    }
}
