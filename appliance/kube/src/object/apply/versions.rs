//! One object, and owners who named their fields in different versions of its kind: each set of fields
//! is looked at in the version in which it was written.

use std::cell::OnceCell;

use serde_json::Value;

use super::managed::ManagedFieldsEntry;
use super::set::FieldSet;
use super::walk::{self, Difference};
use super::within;
use crate::model::field_schema::Schema;
use crate::model::kind::KindInfo;
use crate::object::terms::ObjectPart;

/// How an object became another, in every version.
pub(super) struct VersionedChange<'a> {
    kind: &'a KindInfo,
    part: ObjectPart,
    old: &'a Value,
    new: &'a Value,
    own: Changed,
    others: Vec<(String, OnceCell<Changed>)>,
}

/// What changed, with the names of one version.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Fields that were added or modified.
    pub(super) set: FieldSet,
    pub(super) removed: FieldSet,
}

impl Changed {
    fn of(kind: &KindInfo, part: ObjectPart, found: Difference) -> Self {
        let found = within(kind, part, found);
        Self { set: found.added.union(&found.modified), removed: found.removed }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

impl<'a> VersionedChange<'a> {
    pub(super) fn new(kind: &'a KindInfo, part: ObjectPart, old: &'a Value, new: &'a Value) -> Self {
        let own = Changed::of(kind, part, walk::difference(&kind.fields, old, new));
        let others = kind.versions.iter().map(|version| (version.api_version.clone(), OnceCell::new())).collect();
        Self { kind, part, old, new, own, others }
    }

    /// The change in the version of the write.
    pub(super) fn own(&self) -> &Changed {
        &self.own
    }

    /// The change in a version; an unknown version counts as that of the write.
    pub(super) fn in_version(&self, api_version: &str) -> &Changed {
        let Some(version) = self.kind.other_version(api_version) else { return &self.own };
        let Some((_, cell)) = self.others.iter().find(|(name, _)| name == api_version) else { return &self.own };
        cell.get_or_init(|| {
            let [old, new] = [self.old, self.new].map(|object| self.kind.convert_to(version, object));
            Changed::of(self.kind, self.part, walk::difference(&version.fields, &old, &new))
        })
    }
}

/// Fields of an object, named in a version.
pub(super) struct VersionedFields<'a> {
    pub(super) api_version: &'a str,
    pub(super) fields: &'a FieldSet,
}

impl<'a> From<&'a ManagedFieldsEntry> for VersionedFields<'a> {
    fn from(entry: &'a ManagedFieldsEntry) -> Self {
        Self { api_version: &entry.api_version, fields: &entry.fields }
    }
}

/// Whether all of these are named in the version of the write.
pub(super) fn are_of_one_version<'a>(kind: &KindInfo, names: impl IntoIterator<Item = &'a str>) -> bool {
    names.into_iter().all(|name| kind.other_version(name).is_none())
}

/// The object without the fields that the manager applied before (`gone`), except those that are still owned.
/// Everything is removed first, in the version that names it; then each owner, in the version that it uses, gets back
/// what is its own.
pub(super) fn prune(
    kind: &KindInfo,
    object: &Value,
    gone: &VersionedFields<'_>,
    owned: &[VersionedFields<'_>],
) -> Value {
    let mut pruned = in_version(kind, gone.api_version, object, |schema, view| {
        walk::remove(schema, view, &walk::with_named_parents(schema, gone.fields));
    });
    let mut done: Vec<&str> = Vec::new();
    for version in owned.iter().map(|named| named.api_version) {
        if done.contains(&version) {
            continue;
        }
        done.push(version);
        let sets = owned.iter().filter(|named| named.api_version == version);
        let own = sets.fold(FieldSet::default(), |own, named| own.union(named.fields));
        let left = view(kind, version, &pruned);
        pruned = in_version(kind, version, object, |schema, whole| {
            let lost = walk::difference(schema, whole, &left).removed;
            let own = walk::with_named_parents(schema, &own);
            walk::remove(schema, whole, &lost.difference(&own));
        });
    }
    // What has no owner and was not applied came along with what is around it: it stays.
    let left = view(kind, gone.api_version, &pruned);
    in_version(kind, gone.api_version, object, |schema, whole| {
        let lost = walk::difference(schema, whole, &left).removed;
        walk::remove(schema, whole, &lost.intersection(&walk::with_named_parents(schema, gone.fields)));
    })
}

fn view(kind: &KindInfo, api_version: &str, object: &Value) -> Value {
    kind.other_version(api_version).map_or_else(|| object.clone(), |version| kind.convert_to(version, object))
}

fn in_version(kind: &KindInfo, api_version: &str, object: &Value, work: impl FnOnce(&Schema, &mut Value)) -> Value {
    match kind.other_version(api_version) {
        None => {
            let mut object = object.clone();
            work(&kind.fields, &mut object);
            object
        }
        Some(version) => {
            let mut view = kind.convert_to(version, object);
            work(&version.fields, &mut view);
            kind.convert_from(version, &view)
        }
    }
}
