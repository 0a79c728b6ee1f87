//! The store's nouns: plain values, and when a change may be made.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// The number of one change. Zero is "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The set that an object belongs to: an API group and a plural ("metal3.io", "baremetalhosts").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    pub group: Arc<str>,
    pub resource: Arc<str>,
}

impl GroupResource {
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    /// "baremetalhosts.metal3.io", or "secrets" for the group without a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Where one object lives. The namespace is empty for objects that belong to none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub kind: GroupResource,
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(kind: &GroupResource, namespace: &str, name: &str) -> Self {
        Self { kind: kind.clone(), namespace: namespace.into(), name: name.into() }
    }

    /// The place of this key in the order of a list.
    pub fn position(&self) -> Position {
        Position { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A place in the order of a list, from which the next page goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub namespace: String,
    pub name: String,
}

/// One object as it stands: its bytes and the revision that wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    pub key: ObjectKey,
    pub revision: Revision,
    pub value: Bytes,
}

/// One change, to be made if the expectation holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The object must not exist.
    Create { key: ObjectKey, value: Bytes },
    /// The object must stand at `expected`.
    Update { key: ObjectKey, expected: Revision, value: Bytes },
    /// The object must stand at `expected`. `value` is its last state, which watchers are shown.
    Delete { key: ObjectKey, expected: Revision, value: Bytes },
}

impl Op {
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Create { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } => key,
        }
    }

    pub(crate) fn value(&self) -> &Bytes {
        match self {
            Self::Create { value, .. } | Self::Update { value, .. } | Self::Delete { value, .. } => value,
        }
    }

    pub(crate) fn event_kind(&self) -> ChangeKind {
        match self {
            Self::Create { .. } => ChangeKind::Created,
            Self::Update { .. } => ChangeKind::Updated,
            Self::Delete { .. } => ChangeKind::Deleted,
        }
    }
}

/// A condition on another object, checked in the transaction of the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritePrecondition {
    Absent(ObjectKey),
    Present(ObjectKey),
    At(ObjectKey, Revision),
}

impl WritePrecondition {
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Absent(key) | Self::Present(key) | Self::At(key, _) => key,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Created,
    Updated,
    Deleted,
}

/// One change that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEvent {
    pub revision: Revision,
    pub kind: ChangeKind,
    pub key: ObjectKey,
    /// The new state; of a deleted object, its last one.
    pub value: Bytes,
    /// The state before, `None` for a new object. A watcher with a selector needs it to see an
    /// object leave.
    pub previous: Option<Bytes>,
}

/// What of the objects of a kind is asked for, in the order of namespace and name.
#[derive(Clone, Copy, Debug)]
pub struct ListRange<'a> {
    pub kind: &'a GroupResource,
    /// Where; everywhere if none is named.
    pub namespace: Option<&'a str>,
    /// The revision to read at; the newest if it is none.
    pub at: Option<Revision>,
    /// What comes after this place; all from the first one on if none is named.
    pub after: Option<&'a Position>,
}

impl<'a> ListRange<'a> {
    /// All of a kind, as of now.
    pub fn all(kind: &'a GroupResource) -> Self {
        Self { kind, namespace: None, at: None, after: None }
    }
}

/// A part of a list, all of it as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The objects in the order of namespace, then name.
    pub items: Vec<StoredObject>,
    /// The revision at which the list was read.
    pub revision: Revision,
    /// How many objects come after the last one of this page.
    pub remaining: u64,
}
