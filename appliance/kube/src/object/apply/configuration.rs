//! Server-side apply: an object that a client applies, and what it makes of the stored one.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::check::faults;
use super::conflict::{Conflict, refusal};
use super::managed::{ManagedFields, ManagedFieldsEntry, ManagedOperation};
use super::set::{self, FieldSet};
use super::versions::{self, VersionedChange, VersionedFields};
use super::{ApplyManager, SERVER_FIELDS, own_alike, ownable, update, walk};
use crate::codec::json::JsonDocument;
use crate::codec::yaml;
use crate::model::field_validation::FieldValidation;
use crate::model::kind::{KindInfo, is_secret};
use crate::model::status::{self, Status};
use crate::object::terms::{ObjectPart, ObjectTarget};

/// Owner of everything without a known owner when an object is applied for the first time.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose own earlier way of applying is looked at.
const KUBECTL: &str = "kubectl";
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object that a client applies.
#[derive(Clone, Debug)]
pub struct Configuration {
    object: Value,
    resource_version: String,
    uid: String,
    duplicates: Vec<String>,
}

/// What an apply makes of an object.
#[derive(Debug)]
pub struct ApplyResult {
    /// The object without its owners.
    pub object: Value,
    pub(crate) managed: Vec<Value>,
}

/// Applies any bytes to no object, and to what became of that. For fuzzing.
pub fn check(kind: &KindInfo, bytes: &[u8]) {
    let Ok(configuration) = Configuration::parse(kind, ObjectPart::Main, bytes) else { return };
    let target = ObjectTarget { kind, namespace: "default", name: "a" };
    let (one, two) = (
        ApplyManager { manager: "one", now: Timestamp::UNIX_EPOCH },
        ApplyManager { manager: "two", now: Timestamp::UNIX_EPOCH },
    );
    let Ok(made) = configuration.create(target, one) else { return };
    let mut live = made.object;
    live["metadata"]["managedFields"] = Value::Array(made.managed);
    // Applied again by the same one, nothing changes; by another, who says the same, only who owns it.
    for (writer, same_owners) in [(one, true), (two, false), (two, true)] {
        let again = configuration.apply_to(kind, ObjectPart::Main, &live, false, writer);
        let mut again = again.unwrap_or_else(|status| panic!("it conflicts with itself: {status}"));
        let managed = Value::Array(std::mem::take(&mut again.managed));
        let stored = std::mem::replace(&mut live["metadata"]["managedFields"], managed);
        if same_owners {
            let now = &live["metadata"]["managedFields"];
            assert!(own_alike(&stored, now), "{stored} became {now}");
        }
        again.object["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
        assert_eq!(again.object, live);
    }
}

impl Configuration {
    pub fn parse(kind: &KindInfo, part: ObjectPart, bytes: &[u8]) -> Result<Self, Status> {
        let JsonDocument { value: mut object, duplicates } = match crate::codec::json::read(bytes) {
            Ok(document) => document,
            Err(_) => {
                let value = yaml::read_object(bytes)
                    .map_err(|error| Status::bad_request(status::one_line(&format!("error decoding YAML: {error}"))))?;
                JsonDocument { value, ..JsonDocument::default() }
            }
        };
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        if (group, version, text("kind")) != (kind.group, kind.version, kind.kind) {
            let found = format!("{group}/{version}, Kind={}", text("kind"));
            return Err(Status::bad_request(status::one_line(&format!("invalid object type: {found}"))));
        }
        let metadata = &object["metadata"];
        if metadata.get("managedFields").is_some_and(|entries| !entries.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        check_form(kind, &object)?;
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        let (resource_version, uid) = (text("resourceVersion"), text("uid"));
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|key, _| !SERVER_FIELDS.contains(&key.as_str()));
            // The status endpoint writes nothing of it.
            if part == ObjectPart::Status {
                metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace"));
            }
        }
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|key, _| match part {
                ObjectPart::Main | ObjectPart::Scale => key != "status" || !kind.has_status,
                ObjectPart::Status => matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"),
            });
        }
        Ok(Self { object, resource_version, uid, duplicates })
    }

    /// Warnings about what the client said twice, or the refusal that it asked for.
    pub(crate) fn judge_duplicates(&self, kind: &KindInfo, validation: FieldValidation) -> Result<Vec<String>, Status> {
        JsonDocument { value: Value::Null, duplicates: self.duplicates.clone() }.judge(kind, validation)
    }

    /// The object for a place where there is none yet.
    pub(crate) fn create(&self, target: ObjectTarget<'_>, writer: ApplyManager<'_>) -> Result<ApplyResult, Status> {
        let kind = target.kind;
        if !self.uid.is_empty() {
            let detail = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                self.uid
            );
            return Err(Status::conflict(kind, target.name, &detail));
        }
        if !self.resource_version.is_empty() {
            return Err(Status::modified(kind, target.name));
        }
        if self.object["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
            return Err(Status::bad_request("name must be provided"));
        }
        let mut entry =
            ManagedFieldsEntry::new(writer.manager, ManagedOperation::Apply, &kind.api_version(), ObjectPart::Main);
        entry.fields = ownable(kind, ObjectPart::Main, walk::paths_of(&kind.fields, &self.object));
        entry.time = Some(writer.now);
        Ok(ApplyResult { object: self.object.clone(), managed: ManagedFields(vec![entry]).write() })
    }

    /// The object as it is after the apply; or who else owns what would change. Clients that show what an apply would
    /// do use it, too.
    pub fn apply_to(
        &self,
        kind: &KindInfo,
        part: ObjectPart,
        live: &Value,
        force: bool,
        writer: ApplyManager<'_>,
    ) -> Result<ApplyResult, Status> {
        let mut applied = match self.merge_into(kind, part, live, force, writer) {
            Ok(applied) => applied,
            Err(conflicts) => {
                // Until now it applied by itself, with its own record of what it had set.
                let own = if writer.manager == KUBECTL { last_applied(kind, part, live) } else { FieldSet::default() };
                let left: Vec<Conflict> =
                    conflicts.iter().filter_map(|conflict| conflict.subtract_allowed(&own)).collect();
                if !left.is_empty() {
                    return Err(refusal(&left));
                }
                self.merge_into(kind, part, live, true, writer).map_err(|conflicts| refusal(&conflicts))?
            }
        };
        if writer.manager == KUBECTL && live["metadata"]["annotations"][LAST_APPLIED].is_string() {
            self.record_last_applied(&mut applied.object);
        }
        let metadata = &mut applied.object["metadata"];
        for (key, value) in [("resourceVersion", &self.resource_version), ("uid", &self.uid)] {
            if !value.is_empty() {
                metadata[key] = json!(value);
            }
        }
        Ok(applied)
    }

    fn merge_into(
        &self,
        kind: &KindInfo,
        part: ObjectPart,
        live: &Value,
        force: bool,
        writer: ApplyManager<'_>,
    ) -> Result<ApplyResult, Vec<Conflict>> {
        let schema = &kind.fields;
        let mut managed = ManagedFields::read(&live["metadata"]["managedFields"]).unwrap_or_default();
        if managed.0.is_empty() {
            let nothing = json!({});
            let unowned =
                ManagedFieldsEntry::new(BEFORE_FIRST_APPLY, ManagedOperation::Update, &kind.api_version(), part);
            update(&mut managed, unowned, writer, &VersionedChange::new(kind, part, &nothing, live));
        }
        let mine = ManagedFieldsEntry::new(writer.manager, ManagedOperation::Apply, &kind.api_version(), part);
        let before = managed.find(&mine).cloned().unwrap_or_else(|| mine.clone());
        managed.0.retain(|entry| !entry.is_same(&mine));

        let asked = walk::paths_of(schema, &self.object);
        let mut object = walk::merge(schema, live, &self.object);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        // An object has a name, said or not: its metadata is never without an owner.
        let mut own = asked.clone();
        own.insert(&[set::field("metadata"), set::field("name")]);
        let entries = managed.0.iter().map(|entry| entry.api_version.as_str());
        if versions::are_of_one_version(kind, entries.chain([before.api_version.as_str()])) {
            let owned = managed.0.iter().fold(own, |owned, entry| owned.union(&entry.fields));
            let gone = walk::with_named_parents(schema, &before.fields);
            walk::remove(schema, &mut object, &gone.difference(&walk::with_named_parents(schema, &owned)));
        } else {
            let api_version = kind.api_version();
            let mine = VersionedFields { api_version: &api_version, fields: &own };
            let owned: Vec<VersionedFields<'_>> = managed.0.iter().map(VersionedFields::from).chain([mine]).collect();
            object = versions::prune(kind, &object, &VersionedFields::from(&before), &owned);
        }

        let changes = VersionedChange::new(kind, part, live, &object);
        let found = |entry: &ManagedFieldsEntry| changes.in_version(&entry.api_version);
        let conflicts: Vec<Conflict> =
            managed.0.iter().filter_map(|entry| Conflict::of(entry, &found(entry).set)).collect();
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        for entry in &mut managed.0 {
            let found = changes.in_version(&entry.api_version);
            entry.fields = std::mem::take(&mut entry.fields).difference(&found.set).difference(&found.removed);
        }
        let time = if changes.own().is_empty() { before.time } else { Some(writer.now) };
        managed.0.push(ManagedFieldsEntry { fields: ownable(kind, part, asked), time, ..mine });
        Ok(ApplyResult { object, managed: managed.write() })
    }

    /// Keeps kubectl's own record true, for users who go on applying in the old way.
    fn record_last_applied(&self, object: &mut Value) {
        let mut record = self.object.clone();
        if let Some(annotations) = record["metadata"]["annotations"].as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
        object["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{record}\n"));
    }
}

fn check_form(kind: &KindInfo, object: &Value) -> Result<(), Status> {
    let mut faults = faults(&kind.fields, object, is_secret(kind));
    let text = match faults.len() {
        0 => return Ok(()),
        1 => faults.remove(0),
        _ => format!("errors:\n  {}", faults.join("\n  ")),
    };
    let word = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let place = format!("{}/{}; {}, Kind={}", word("namespace"), word("name"), group_version(kind), kind.kind);
    Err(Status::with_reason(500, "", format!("failed to create typed patch object ({place}): {text}")))
}

/// The version as Go prints it: the core group is an empty word.
fn group_version(kind: &KindInfo) -> String {
    format!("{}/{}", kind.group, kind.version)
}

/// The paths that kubectl set by its old way and that still have the values that it set.
fn last_applied(kind: &KindInfo, part: ObjectPart, live: &Value) -> FieldSet {
    let record = live["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
    let Ok(record @ Value::Object(_)) = serde_json::from_str::<Value>(record) else { return FieldSet::default() };
    // It may have applied in another version.
    let other = record["apiVersion"].as_str().and_then(|name| kind.other_version(name));
    let record = other.map_or(record.clone(), |version| kind.convert_from(version, &record));
    let found = walk::difference(&kind.fields, &record, live);
    let set = walk::paths_of(&kind.fields, &record);
    ownable(kind, part, set.difference(&found.modified).difference(&found.added).difference(&found.removed))
}
