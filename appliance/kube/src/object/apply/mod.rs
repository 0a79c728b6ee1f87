//! Who owns which field of an object, and server-side apply, which decides by it. Pure.
//!
//! ```text
//!   create, PUT, patch ─► track ─────────────┐
//!                                            ├─► managedFields, stored with the object
//!   apply ─► merge ─► conflicts? ─► prune ───┘
//! ```
//!
//! Both compare the object as it was with the object as it is to be, path by path: a [`FieldSet`].
//! Which paths there are says the kind's [`Schema`]; fields are named as in the version in which they
//! were written ([`versions`]).

mod apply_fast_path;
mod check;
mod managed;
mod set;
mod versions;
mod walk;

pub(crate) use crate::model::field_schema::Schema;

use firesteel_kube_types::{Cause, CauseReason};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    codec::{json::JsonDocument, yaml},
    model::{
        field_validation::FieldValidation,
        kind::{KindInfo, is_secret},
        status::{self, Status},
    },
    object::{
        apply::{
            managed::{ManagedFields, ManagedFieldsEntry, ManagedOperation},
            set::FieldSet,
            versions::{VersionedChange, VersionedFields},
            walk::Difference,
        },
        terms::{ObjectPart, ObjectTarget},
    },
};

/// The media type of an applied object.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
/// Owner of everything that nobody is known to own when an object is applied for the first time.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose own earlier way of applying is looked at.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Conflicts that are told: an answer that nobody reads is only large.
const CONFLICTS_MAX: usize = 256;
/// What the server alone sets; an applied object says nothing by them.
const SERVER_FIELDS: [&str; 8] = [
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct ApplyManager<'a> {
    pub manager: &'a str,
    pub now: Timestamp,
}

/// Where a write's ownership comes from.
#[derive(Clone, Debug)]
pub enum Owners<'a> {
    /// From what the write changes.
    Tracked(ApplyManager<'a>),
    /// It was decided with the object.
    Decided(Vec<Value>),
}

/// The entries of an object after a plain write: `old` became `new`. `sent` are the entries that the
/// client sent with it.
pub(crate) fn track(
    kind: &KindInfo,
    part: ObjectPart,
    old: Option<&Value>,
    new: &Value,
    sent: &Value,
    writer: ApplyManager<'_>,
) -> Vec<Value> {
    let nothing = json!({});
    let changes = VersionedChange::new(kind, part, old.unwrap_or(&nothing), new);
    let mine = ManagedFieldsEntry::new(writer.manager, ManagedOperation::Update, &kind.api_version(), part);
    if let Some(old) = old {
        let stored = &old["metadata"]["managedFields"];
        // As the client got them, or as it cannot change them; and all in the same words.
        let as_stored = sent.is_null() || part == ObjectPart::Status || sent == stored;
        if as_stored
            && kind.versions.is_empty()
            && let Some(entries) = apply_fast_path::entries(stored, &mine, changes.own(), writer.now)
        {
            return entries;
        }
    }
    let mut managed = match old {
        None => ManagedFields::default(),
        Some(old) => entries(part, &old["metadata"]["managedFields"], sent),
    };
    // An object that nobody's fields are known of stays so, until it is applied.
    if managed.0.is_empty() && old.is_some() {
        return Vec::new();
    }
    update(&mut managed, mine, writer, &changes);
    managed.write()
}

/// Whether the entries that a client sent differ from the stored ones in more than times.
pub(crate) fn changes_owners(part: ObjectPart, stored: &Value, sent: &Value) -> bool {
    if sent.is_null() || sent == stored {
        return false;
    }
    let own = ManagedFields::read(stored).unwrap_or_default();
    !entries(part, stored, sent).owns_alike(&own)
}

/// Whether two lists of entries name the same owners of the same fields.
pub(crate) fn own_alike(one: &Value, other: &Value) -> bool {
    one == other
        || ManagedFields::read(one).unwrap_or_default().owns_alike(&ManagedFields::read(other).unwrap_or_default())
}

/// The entries that a write starts from. Clients may rewrite them, except by a subresource; those who
/// do not know of them, or spoil them, change nothing. One empty entry clears them all.
fn entries(part: ObjectPart, stored: &Value, sent: &Value) -> ManagedFields {
    let own = || ManagedFields::read(stored).unwrap_or_default();
    if part != ObjectPart::Main || sent == stored {
        return own();
    }
    if *sent == json!([{}]) {
        return ManagedFields::default();
    }
    ManagedFields::read(sent).filter(|managed| !managed.0.is_empty()).unwrap_or_else(own)
}

/// Gives what changed to the writer (`mine` is its entry), and takes it from all others.
fn update(
    managed: &mut ManagedFields,
    mine: ManagedFieldsEntry,
    writer: ApplyManager<'_>,
    changes: &VersionedChange<'_>,
) {
    for entry in &mut managed.0 {
        let found = changes.in_version(&entry.api_version);
        let fields = std::mem::take(&mut entry.fields).difference(&found.removed);
        entry.fields = if entry.is_same(&mine) { fields } else { fields.difference(&found.set) };
    }
    let taken = &changes.own().set;
    if taken.is_empty() {
        return;
    }
    if managed.find(&mine).is_none() {
        managed.0.push(mine.clone());
    }
    if let Some(entry) = managed.find(&mine) {
        entry.fields = std::mem::take(&mut entry.fields).union(taken);
        entry.time = Some(writer.now);
    }
}

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
pub(crate) struct ApplyResult {
    pub(crate) object: Value,
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

    /// The object as it is after the apply; or who else owns what would change.
    pub(crate) fn apply_to(
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
            let nobody =
                ManagedFieldsEntry::new(BEFORE_FIRST_APPLY, ManagedOperation::Update, &kind.api_version(), part);
            update(&mut managed, nobody, writer, &VersionedChange::new(kind, part, &nothing, live));
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

    /// kubectl's own record stays true, for whoever goes on applying in the old way.
    fn record_last_applied(&self, object: &mut Value) {
        let mut record = self.object.clone();
        if let Some(annotations) = record["metadata"]["annotations"].as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
        object["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{record}\n"));
    }
}

fn check_form(kind: &KindInfo, object: &Value) -> Result<(), Status> {
    let mut faults = check::faults(&kind.fields, object, is_secret(kind));
    let text = match faults.len() {
        0 => return Ok(()),
        1 => faults.remove(0),
        _ => format!("errors:\n  {}", faults.join("\n  ")),
    };
    let word = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let place = format!("{}/{}; {}, Kind={}", word("namespace"), word("name"), group_version(kind), kind.kind);
    Err(Status::with_reason(500, "", format!("failed to create typed patch object ({place}): {text}")))
}

/// As Go prints it: the core group is an empty word.
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

/// Fields of one manager that an apply would change.
#[derive(Debug)]
struct Conflict {
    with: String,
    fields: FieldSet,
}

impl Conflict {
    fn of(entry: &ManagedFieldsEntry, changed: &FieldSet) -> Option<Self> {
        let fields = entry.fields.intersection(changed);
        (!fields.is_empty()).then(|| Self { with: entry.shown(), fields })
    }

    fn subtract_allowed(&self, allowed: &FieldSet) -> Option<Self> {
        let fields = self.fields.clone().difference(allowed);
        (!fields.is_empty()).then(|| Self { with: self.with.clone(), fields })
    }
}

fn refusal(conflicts: &[Conflict]) -> Status {
    let count: usize = conflicts.iter().map(|conflict| conflict.fields.len()).sum();
    let mut told: Vec<(&str, Vec<String>)> =
        conflicts.iter().map(|conflict| (conflict.with.as_str(), conflict.fields.paths(CONFLICTS_MAX))).collect();
    told.sort();
    let mut left = CONFLICTS_MAX;
    told.retain_mut(|(_, paths)| {
        paths.truncate(left);
        left -= paths.len();
        !paths.is_empty()
    });
    let message = match told.as_slice() {
        [(with, paths)] if count == 1 => format!("1 conflict: conflict with {with}: {}", paths.concat()),
        all => {
            let texts = all.iter().map(|(with, paths)| format!("conflicts with {with}:\n- {}", paths.join("\n- ")));
            format!("{count} conflicts: {}", texts.collect::<Vec<_>>().join("\n"))
        }
    };
    let causes = told.iter().flat_map(|(with, paths)| {
        paths.iter().map(move |path| Cause {
            reason: CauseReason::FieldManagerConflict,
            message: format!("conflict with {with}"),
            field: path.clone(),
        })
    });
    let status = Status::with_reason(409, "Conflict", format!("Apply failed with {message}"));
    causes.fold(status, Status::with_cause)
}

/// What can be owned at all, and by a write of this part.
fn ownable(kind: &KindInfo, part: ObjectPart, mut set: FieldSet) -> FieldSet {
    match part {
        ObjectPart::Main | ObjectPart::Scale => {
            for name in ["apiVersion", "kind"] {
                set.children.remove(&set::field(name));
            }
            if kind.has_status {
                set.children.remove(&set::field("status"));
            }
            let metadata = set::field("metadata");
            if let Some(node) = set.children.get_mut(&metadata) {
                node.member = false;
                for name in SERVER_FIELDS.iter().chain(&["name", "namespace"]) {
                    node.below.children.remove(&set::field(name));
                }
                if node.below.is_empty() {
                    set.children.remove(&metadata);
                }
            }
        }
        ObjectPart::Status => {
            let status = set::field("status");
            set.children.retain(|key, _| *key == status);
        }
    }
    set
}

fn within(kind: &KindInfo, part: ObjectPart, found: Difference) -> Difference {
    Difference {
        added: ownable(kind, part, found.added),
        modified: ownable(kind, part, found.modified),
        removed: ownable(kind, part, found.removed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::object::apply::{apply_fast_path, set};
    use proptest::prelude::*;

    fn toys() -> KindInfo {
        KindInfo::namespaced("example.org", "v1", "Toy", "toys")
    }

    /// The long way, whatever the change is.
    fn tracked(part: ObjectPart, old: &Value, new: &Value, writer: ApplyManager<'_>) -> Vec<Value> {
        let mut managed = ManagedFields::read(&old["metadata"]["managedFields"]).unwrap();
        let mine = ManagedFieldsEntry::new(writer.manager, ManagedOperation::Update, "example.org/v1", part);
        update(&mut managed, mine, writer, &VersionedChange::new(&toys(), part, old, new));
        managed.write()
    }

    #[test]
    fn of_many_conflicts_the_first_are_told_and_all_are_counted() {
        let mut fields = FieldSet::default();
        (0..5000).for_each(|number| fields.insert(&[set::field("spec"), set::field(&format!("f{number}"))]));
        let refused = refusal(&[Conflict { with: "\"m\"".into(), fields }]);
        assert!(refused.message.starts_with("Apply failed with 5000 conflicts: conflicts with \"m\":\n- .spec.f0\n"));
        assert_eq!((refused.causes().len(), refused.message.lines().count()), (CONFLICTS_MAX, CONFLICTS_MAX + 1));
    }

    fn values() -> impl Strategy<Value = Value> {
        let field = || prop::option::of(0..3);
        (field(), field(), field()).prop_map(|(a, b, c): (Option<i32>, Option<i32>, Option<i32>)| {
            let mut value = json!({});
            for (name, number) in [("a", a), ("b", b), ("c", c)] {
                if let Some(number) = number {
                    value[name] = json!(number);
                }
            }
            value
        })
    }

    proptest! {
        /// However often who writes what: what is short for one write comes to the same as all of it.
        #[test]
        fn the_short_way_ends_where_the_long_one_does(
            writes in prop::collection::vec((0_usize..3, any::<bool>(), values(), 0_i64..3), 1..12)
        ) {
            let mut object = json!({"metadata": {"name": "a"}, "spec": {}, "status": {}});
            let (mut now, mut short) = (1_700_000_000, 0);
            for (number, (writer, is_status, value, pause)) in writes.into_iter().enumerate() {
                now += pause;
                let now_at = Timestamp::from_second(now).unwrap();
                let writer = ApplyManager { manager: ["x", "y", "z"][writer], now: now_at };
                let (part, field) = if is_status { (ObjectPart::Status, "status") } else { (ObjectPart::Main, "spec") };
                let mut new = object.clone();
                new[field] = value;
                let entries = if number == 0 {
                    track(&toys(), part, None, &new, &Value::Null, writer)
                } else {
                    let entries = track(&toys(), part, Some(&object), &new, &Value::Null, writer);
                    let toys = toys();
                    let changes = VersionedChange::new(&toys, part, &object, &new);
                    let (update, version) = (ManagedOperation::Update, "example.org/v1");
                    let mine = ManagedFieldsEntry::new(writer.manager, update, version, part);
                    let stored = &object["metadata"]["managedFields"];
                    short += usize::from(apply_fast_path::entries(stored, &mine, changes.own(), writer.now).is_some());
                    prop_assert_eq!(&entries, &tracked(part, &object, &new, writer));
                    entries
                };
                new["metadata"]["managedFields"] = json!(entries);
                object = new;
            }
            // Not asserted: most sequences have such a write, and none has to.
            prop_assert!(short < 12);
        }
    }
}
