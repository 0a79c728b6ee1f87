//! What happens to an object between a request and the store. Pure: time, identity and randomness
//! come in, the object to store or the refusal comes out.
//!
//! Objects are stored without `metadata.resourceVersion`, which is the store's revision and is put
//! in when an object is shown ([`super::stored::shown`]).

use std::collections::BTreeSet;

use firesteel_kube_types::{Cause, ObjectMeta};
use firesteel_store::Revision;
use serde_json::{Map, Value, json};

use crate::model::field_validation::{FieldValidation, STRICT_ERROR, judge_unknown};
use crate::model::kind::{KindInfo, is_namespace, is_secret};
use crate::model::meta::{self, whole_seconds};
use crate::model::name;
use crate::model::status::Status;
use crate::object::apply::{self, ApplyManager, Owners};
use crate::object::terms::{
    CreationStamp, CurrentObject, ObjectPart, ObjectTarget, PreparedWrite, UpdateBody, WriteEffect, WriteTerms,
};
use crate::object::{changed_by, scale};

/// How often Kubernetes checks the metadata of an updated custom resource. It lists each finding that many times, and
/// clients leave out what they have read already.
const CUSTOM_METADATA_CHECKS: usize = 3;
/// How often it checks what changed in the metadata.
const CUSTOM_CHANGE_CHECKS: usize = 2;
/// Kubernetes' limit of a generated name's first part.
const GENERATED_BASE_MAX: usize = 248;

pub(crate) fn prepare_create(
    target: ObjectTarget<'_>,
    body: Value,
    birth: &CreationStamp,
    WriteTerms { validation, author }: WriteTerms<'_>,
    owners: Owners<'_>,
) -> Result<PreparedWrite, Status> {
    let kind = target.kind;
    let mut object = shape(target, body)?;
    let (mut meta, mut unknown) = metadata(target, &object)?;
    if !meta.resource_version.is_empty() {
        return Err(Status::with_reason(500, "", "resourceVersion should not be set on objects to be created"));
    }
    if meta.name.is_empty() && !target.name.is_empty() {
        meta.name = target.name.into();
    }
    if meta.name.is_empty() && !meta.generate_name.is_empty() {
        let base: String = meta.generate_name.chars().take(GENERATED_BASE_MAX).collect();
        meta.name = format!("{base}{}", birth.suffix);
    }
    meta.namespace = target.namespace.into();
    meta.uid.clone_from(&birth.uid);
    meta.creation_timestamp = Some(whole_seconds(birth.now));
    meta.generation = i64::from(kind.has_generation);
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;

    let mut causes = Vec::new();
    if meta.name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let faults = name::check_name(kind.name_rule, &meta.name);
        causes.extend(faults.iter().map(|text| Cause::invalid_json("metadata.name", &json!(meta.name), text)));
    }
    causes.extend(name::check_metadata(&meta));
    if kind.has_status {
        object.remove("status");
    }
    let (mut value, warnings) = admit(kind, object, &meta, None, causes, &mut unknown, validation)?;
    let warnings = judge_unknown(kind, unknown, validation, warnings)?;
    changed_by::sign(kind, &mut value, None, author);
    if kind.tracks_owners {
        let entries = match owners {
            Owners::Tracked(writer) => {
                let writer = ApplyManager { now: birth.now, ..writer };
                apply::track(kind, ObjectPart::Main, None, &value, &Value::Null, writer)
            }
            Owners::Decided(entries) => entries,
        };
        put_owners(&mut value, Value::Array(entries));
    }
    Ok(PreparedWrite { value, warnings, effect: WriteEffect::Store })
}

/// A PUT, or what a patch made of the stored object.
pub(crate) fn prepare_update(
    target: ObjectTarget<'_>,
    part: ObjectPart,
    current: &CurrentObject,
    body: UpdateBody,
    WriteTerms { validation, author }: WriteTerms<'_>,
    owners: Owners<'_>,
) -> Result<PreparedWrite, Status> {
    let (kind, revision, current): (_, _, &Value) = (target.kind, current.revision, &current.value);
    let is_sent = matches!(body, UpdateBody::Sent(_));
    let (UpdateBody::Sent(body) | UpdateBody::Patched(body)) = body;
    let mut object = shape(target, body)?;
    let sent = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    let sent = sent.map_or(Value::Null, Value::take);
    let (new_meta, mut unknown) = metadata(target, &object)?;
    let old_meta = meta::read(current).map(|(meta, _)| meta).unwrap_or_default();
    if is_sent {
        check_uid(target, &new_meta, &old_meta)?;
    }
    check_revision(target, &new_meta, revision)?;

    let mut causes = Vec::new();
    let meta = match part {
        ObjectPart::Main => next_metadata(new_meta, &old_meta, kind, &mut causes),
        ObjectPart::Status | ObjectPart::Scale => old_meta.clone(),
    };
    match part {
        ObjectPart::Main | ObjectPart::Scale if kind.has_status => {
            put_or_remove(&mut object, "status", current.get("status").cloned())
        }
        ObjectPart::Main | ObjectPart::Scale => {}
        ObjectPart::Status => {
            let status = object.remove("status");
            let rest = current.as_object().into_iter().flatten().filter(|(key, _)| *key != "status");
            object = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
            put_or_remove(&mut object, "status", status);
            unknown.clear();
        }
    }
    let (mut value, warnings) = admit(kind, object, &meta, Some(current), causes, &mut unknown, validation)?;
    let warnings = judge_unknown(kind, unknown, validation, warnings)?;

    if kind.has_generation && differs_outside(&value, current, &["metadata", "status"]) {
        value["metadata"]["generation"] = json!(old_meta.generation.saturating_add(1));
    }
    changed_by::sign(kind, &mut value, Some(current), author);
    let changed = differs_outside(&value, current, &["metadata"])
        || differs_outside(&value["metadata"], &current["metadata"], &["managedFields"]);
    let owners_changed = kind.tracks_owners && own(target, part, current, &mut value, &sent, changed, owners);
    let effect = if meta.is_deleting() && finalizers_left(kind, &value) == 0 {
        WriteEffect::Remove
    } else if changed || owners_changed {
        WriteEffect::Store
    } else {
        WriteEffect::None
    };
    Ok(PreparedWrite { value, warnings, effect })
}

/// The metadata of a body that has to be of the object of the URL, and to say so.
pub(crate) fn identified(target: ObjectTarget<'_>, body: &Value) -> Result<ObjectMeta, Status> {
    let object = shape(target, body.clone())?;
    let (meta, _) = metadata(target, &object)?;
    if meta.name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    Ok(meta)
}

/// Checks type and place of a body.
fn shape(target: ObjectTarget<'_>, body: Value) -> Result<Map<String, Value>, Status> {
    let kind = target.kind;
    let Value::Object(mut object) = body else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {})",
            kind.kind
        )));
    };
    say_type(kind, &mut object);
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
    if text("kind").is_empty() {
        return Err(Status::bad_request("Object 'Kind' is missing in the request body"));
    }
    if text("kind") != kind.kind {
        let found = text("kind");
        let cause = Cause::invalid_json("kind", &json!(found), &format!("must be {}", kind.kind));
        let name = object.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or(""));
        return Err(Status::invalid(kind.group, found, name, vec![cause]));
    }
    if text("apiVersion") != kind.api_version() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            text("apiVersion"),
            kind.api_version()
        )));
    }
    Ok(object)
}

/// What the URL says need not be said again, for Kubernetes' own kinds: clients with types of them leave it out.
pub(crate) fn say_type(kind: &KindInfo, object: &mut Map<String, Value>) {
    if kind.is_custom() {
        return;
    }
    for (key, value) in [("apiVersion", kind.api_version()), ("kind", kind.kind.to_owned())] {
        let said = object.entry(key).or_insert(Value::Null);
        if said.is_null() || said == "" {
            *said = Value::String(value);
        }
    }
}

/// Reads the metadata and compares it with the URL.
fn metadata(target: ObjectTarget<'_>, object: &Map<String, Value>) -> Result<(ObjectMeta, Vec<String>), Status> {
    let kind = target.kind;
    let holder = json!({ "metadata": object.get("metadata").unwrap_or(&Value::Null) });
    let (meta, unknown) = meta::read(&holder).map_err(|cause| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: metadata: {}",
            kind.kind, kind.version, kind.kind, cause.message
        ))
    })?;
    if !meta.namespace.is_empty() && meta.namespace != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !meta.name.is_empty() && !target.name.is_empty() && meta.name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta.name, target.name
        )));
    }
    Ok((meta, unknown))
}

/// Another identity is a conflict where the object is replaced, and a fault of its metadata where it is patched.
fn check_uid(target: ObjectTarget<'_>, new: &ObjectMeta, old: &ObjectMeta) -> Result<(), Status> {
    if new.uid.is_empty() || new.uid == old.uid {
        return Ok(());
    }
    Err(Status::conflict(target.kind, target.name, &other_identity(target, &new.uid, &old.uid)))
}

fn check_revision(target: ObjectTarget<'_>, new: &ObjectMeta, revision: Revision) -> Result<(), Status> {
    let kind = target.kind;
    if new.resource_version.is_empty() {
        if kind.unconditional_update {
            return Ok(());
        }
        let cause = Cause::invalid_json("metadata.resourceVersion", &json!(0), "must be specified for an update");
        let plural = kind.group_resource().to_string();
        let mut status = Status::invalid(kind.group, kind.plural, target.name, vec![cause]);
        status.message = format!(
            "{plural} {:?} is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
            target.name
        );
        return Err(status);
    }
    match new.resource_version.parse::<u64>() {
        Ok(number) if number == revision.0 => Ok(()),
        Ok(_) => Err(Status::modified(kind, target.name)),
        Err(_) => Err(Status::bad_request(format!("invalid resource version {:?}", new.resource_version))),
    }
}

/// The message of Kubernetes' store, key and all.
fn other_identity(target: ObjectTarget<'_>, asked: &str, found: &str) -> String {
    let ObjectTarget { kind, namespace, name, .. } = target;
    let group = if kind.is_custom() { format!("apiextensions.kubernetes.io/{}/", kind.group) } else { String::new() };
    let namespace = if kind.namespaced { format!("{namespace}/") } else { String::new() };
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{namespace}{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {found}",
        kind.plural
    )
}

/// What of the metadata a client may change.
fn next_metadata(mut new: ObjectMeta, old: &ObjectMeta, kind: &KindInfo, causes: &mut Vec<Cause>) -> ObjectMeta {
    let mut immutable = |field: &str, asked: &str| {
        let cause = Cause::invalid_json(field, &json!(asked), "field is immutable");
        causes.extend(std::iter::repeat_n(cause, if kind.is_custom() { CUSTOM_CHANGE_CHECKS } else { 1 }));
    };
    if !new.uid.is_empty() && new.uid != old.uid {
        immutable("metadata.uid", &new.uid);
    }
    if let Some(asked) = new.deletion_timestamp.take()
        && old.deletion_timestamp.as_ref() != Some(&asked)
    {
        immutable("metadata.deletionTimestamp", &asked.to_string());
    }
    new.name.clone_from(&old.name);
    new.namespace.clone_from(&old.namespace);
    new.uid.clone_from(&old.uid);
    new.resource_version = String::new();
    new.generation = old.generation;
    new.generate_name.clone_from(&old.generate_name);
    new.creation_timestamp.clone_from(&old.creation_timestamp);
    new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    let before: BTreeSet<&String> = old.finalizers.iter().collect();
    let added = new.finalizers.iter().filter(|name| old.is_deleting() && !before.contains(name));
    let added: Vec<String> = added.map(|name| format!("{name:?}")).collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", &detail));
    }
    let found = name::check_metadata(&new);
    for _ in 0..if kind.is_custom() { CUSTOM_METADATA_CHECKS } else { 1 } {
        causes.extend(found.iter().cloned());
    }
    new
}

/// Runs the kind's hook; its word on metadata does not count.
fn admit(
    kind: &KindInfo,
    object: Map<String, Value>,
    meta: &ObjectMeta,
    old: Option<&Value>,
    mut causes: Vec<Cause>,
    unknown: &mut Vec<String>,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let mut metadata = meta::to_value(meta);
    let mut value = Value::Object(object);
    value["metadata"] = metadata.clone();
    // An unknown field is reported before what is wrong with the known ones.
    let typos = if validation == FieldValidation::Strict { kind.fields.unknown(&value) } else { Vec::new() };
    let mut warnings = name::finalizer_warnings(meta, old.unwrap_or(&Value::Null));
    match (kind.admit)(&mut value, old) {
        Ok(admitted) => {
            warnings.extend(admitted.warnings);
            unknown.extend(admitted.unknown_fields);
        }
        // What a kind says of a name that is not there is said already.
        Err(found) => {
            let is_new = |cause: &Cause| !meta.name.is_empty() || cause.field != "metadata.name";
            causes.extend(found.into_iter().filter(is_new));
        }
    }
    for (label, text) in (kind.own_labels)(&value) {
        let faults = name::check_label_value(&text);
        causes.extend(faults.iter().map(|why| Cause::invalid_json("metadata.labels", &json!(text), why)));
        metadata["labels"][label] = json!(text);
    }
    causes.extend(kind.scale.iter().flat_map(|scale| scale::causes(scale, &value)));
    if !causes.is_empty() {
        unknown.extend(typos);
        judge_unknown(kind, std::mem::take(unknown), validation, Vec::new())?;
        return Err(Status::invalid(kind.group, kind.kind, &meta.name, causes));
    }
    value["metadata"] = metadata;
    Ok((value, warnings))
}

/// A patch with unknown fields fails with another status than a PUT, as in Kubernetes.
pub(crate) fn as_patch_error(kind: &KindInfo, status: Status, patched: &Value) -> Status {
    match status.message.find(STRICT_ERROR) {
        Some(at) if status.code == 400 => {
            let detail = status.message[at..].to_owned();
            // Who may change a secret may not be one who may read it.
            let shown = if is_secret(kind) { String::new() } else { patched.to_string() };
            let cause = Cause::invalid_json("patch", &json!(shown), &detail);
            Status::invalid("", "", "", vec![cause])
        }
        _ => status,
    }
}

/// Puts the entries of `metadata.managedFields` into the new object; says whether they changed by
/// more than times. Without a change of either the stored ones stay, so that such a write is none.
fn own(
    target: ObjectTarget<'_>,
    part: ObjectPart,
    current: &Value,
    value: &mut Value,
    sent: &Value,
    changed: bool,
    owners: Owners<'_>,
) -> bool {
    let stored = &current["metadata"]["managedFields"];
    let (owners_changed, entries) = match owners {
        Owners::Tracked(writer) => {
            let owners_changed = apply::changes_owners(part, stored, sent);
            let track = || apply::track(target.kind, part, Some(current), value, sent, writer);
            (owners_changed, (owners_changed || changed).then(track).map(Value::Array))
        }
        Owners::Decided(entries) => {
            let entries = Value::Array(entries);
            let owners_changed = !apply::own_alike(stored, &entries);
            (owners_changed, (owners_changed || changed).then_some(entries))
        }
    };
    put_owners(value, entries.unwrap_or_else(|| stored.clone()));
    owners_changed
}

fn put_owners(value: &mut Value, entries: Value) {
    if entries.as_array().is_some_and(|entries| !entries.is_empty()) {
        value["metadata"]["managedFields"] = entries;
    }
}

fn put_or_remove(object: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(object.insert(key.into(), value)),
        None => drop(object.remove(key)),
    }
}

fn differs_outside(new: &Value, old: &Value, parts: &[&str]) -> bool {
    fn outside<'a>(value: &'a Value, parts: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
        value.as_object().into_iter().flatten().filter(|(key, _)| !parts.contains(&key.as_str()))
    }
    !outside(new, parts).eq(outside(old, parts))
}

/// Finalizers that hold an object; a namespace has its own in `spec` besides.
pub(crate) fn finalizers_left(kind: &KindInfo, value: &Value) -> usize {
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    let own = if is_namespace(kind) { count(&value["spec"]["finalizers"]) } else { 0 };
    count(&value["metadata"]["finalizers"]) + own
}
