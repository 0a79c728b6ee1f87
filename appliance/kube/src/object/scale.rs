//! The scale subresource: how many an object is to have, for clients that know nothing else of its kind.
//!
//! A [`ScaleSubresource`] says where in an object of the kind the numbers are. What clients get and send is
//! autoscaling/v1's Scale; a write of it is a write of one field of the object ([`changed`]). Pure.

use std::sync::{Arc, LazyLock};

use firesteel_kube_types::{Cause, ScaleSubresource};
use serde_json::{Map, Value, json};

use crate::model::field_validation::{self, FieldValidation};
use crate::model::kind::KindInfo;
use crate::model::kind_parts::{Cell, PrinterColumn};
use crate::model::meta::at_path;
use crate::model::schema;
use crate::model::status::{self, Status};
use crate::object::options::ObjectUpdate;
use crate::object::terms::{CurrentObject, ObjectTarget};

pub(crate) const API_VERSION: &str = "autoscaling/v1";
pub(crate) const KIND: &str = "Scale";

/// What of a Scale is shown in a table.
static SHOWN: LazyLock<Arc<KindInfo>> = LazyLock::new(|| {
    let column = |name, column_type, path| PrinterColumn {
        name,
        column_type,
        description: "",
        priority: 0,
        cell: Cell::Path(path),
    };
    Arc::new(KindInfo {
        columns: vec![
            column("Desired", "integer", ".spec.replicas"),
            column("Available", "integer", ".status.replicas"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        ..KindInfo::namespaced("autoscaling", "v1", KIND, "scales")
    })
});

pub(crate) fn kind() -> Arc<KindInfo> {
    Arc::clone(&SHOWN)
}

/// The structural schema of a Scale.
pub(crate) fn schema() -> Value {
    let number = |description: &str| json!({ "type": "integer", "format": "int32", "description": description });
    json!({
        "type": "object", "description": "How many an object is to have, and has.",
        "properties": {
            "spec": { "type": "object", "properties": { "replicas": number("How many there are to be.") } },
            "status": { "type": "object", "properties": {
                "replicas": number("How many there are."),
                "selector": schema::text("The labels of what is counted."),
            } },
        },
    })
}

/// An object as a Scale. `object` is as clients see it, with its revision.
pub(crate) fn shown(kind: &KindInfo, object: &Value) -> Result<Value, Status> {
    let Some(paths) = kind.scale else { return Err(Status::no_route()) };
    let replicas = at_path(object, paths.spec_replicas);
    if replicas.is_null() {
        let message = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
        return Err(Status::internal(message));
    }
    let names = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: Map<String, Value> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), object["metadata"].get(*name)?.clone()))).collect();
    let mut status = json!({ "replicas": at_path(object, paths.status_replicas).as_i64().unwrap_or(0) });
    let selector = if paths.label_selector.is_empty() { &Value::Null } else { at_path(object, paths.label_selector) };
    if let Some(selector) = selector.as_str() {
        status["selector"] = json!(selector);
    }
    Ok(json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": metadata,
        "spec": { "replicas": replicas }, "status": status,
    }))
}

/// The object as a change of its Scale makes it. A revision and a uid that the client names become
/// the object's, to be compared with what is stored; without them the change is made to what is there.
pub(crate) fn changed(
    target: ObjectTarget<'_>,
    current: &CurrentObject,
    change: ObjectUpdate<'_>,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let Some(paths) = target.kind.scale else { return Err(Status::no_route()) };
    let mut object = current.shown();
    let mut scale = match change {
        ObjectUpdate::Replace(body) => body.clone(),
        ObjectUpdate::Patch(patch) => {
            let mut scale = shown(target.kind, &object)?;
            patch.apply_to(&mut scale)?;
            scale
        }
    };
    let warnings = check(target, &mut scale, validation)?;
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    put_at(&mut object, paths.spec_replicas, json!(replicas));
    for name in ["resourceVersion", "uid"] {
        if let Some(text) = scale["metadata"][name].as_str().filter(|text| !text.is_empty()) {
            object["metadata"][name] = json!(text);
        }
    }
    Ok((object, warnings))
}

fn check(target: ObjectTarget<'_>, scale: &mut Value, validation: FieldValidation) -> Result<Vec<String>, Status> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let (version, kind) = (text(&scale["apiVersion"]), text(&scale["kind"]));
    if (version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        let message =
            format!("the data ({version}, Kind={kind}) is not of the expected type ({API_VERSION}, Kind={KIND})");
        return Err(Status::bad_request(status::one_line(&message)));
    }
    let (name, namespace) = (text(&scale["metadata"]["name"]), text(&scale["metadata"]["namespace"]));
    if !name.is_empty() && name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let found = schema::conform(&schema(), scale);
    if !found.causes.is_empty() {
        return Err(Status::invalid("autoscaling", KIND, target.name, found.causes));
    }
    field_validation::judge_unknown(&SHOWN, found.unknown, validation, Vec::new())
}

/// What is wrong with the numbers of an object, however they got there.
pub(crate) fn causes(scale: &ScaleSubresource, object: &Value) -> Vec<Cause> {
    let paths = [scale.spec_replicas, scale.status_replicas];
    let found = paths.iter().filter_map(|path| {
        let number = at_path(object, path);
        let why = match number.as_i64() {
            _ if number.is_null() => return None,
            Some(..0) => "should be a non-negative integer".to_owned(),
            Some(count) if count > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
            Some(_) => return None,
            None => "should be an integer".to_owned(),
        };
        Some(Cause::invalid_json(path, number, &why))
    });
    found.collect()
}

fn put_at(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
}
