//! Who owns which field of an object, and server-side apply, which decides by it. Pure.
//!
//! ```text
//!   create, PUT, patch ─► track ─────────────┐
//!                                            ├─► managedFields, stored with the object
//!   apply ─► merge ─► conflicts? ─► prune ───┘
//! ```
//!
//! Both compare the object as it was with the object as it is to be, path by path: a [`FieldSet`].
//! The kind's [schema](crate::model::field_schema::Schema) says which paths there are; fields are named as in the
//! version in which they were written ([`versions`]).

mod apply_fast_path;
mod check;
mod configuration;
mod conflict;
mod managed;
mod set;
mod takeover;
mod versions;
mod walk;

pub use configuration::{ApplyResult, Configuration, check};
pub use takeover::{CreatorFields, Takeover};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::kind::KindInfo;
use crate::object::apply::managed::{ManagedFields, ManagedFieldsEntry, ManagedOperation};
use crate::object::apply::set::FieldSet;
use crate::object::apply::versions::VersionedChange;
use crate::object::apply::walk::Difference;
use crate::object::terms::ObjectPart;

/// The media type of an applied object.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
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
    /// Ownership follows from what the write changes.
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
    // If no owners of an object's fields are known, it stays so until it is applied.
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
