//! Which object a write is about, and what the rules make of it.

use std::sync::Arc;

use firesteel_store::Revision;
use jiff::Timestamp;
use serde_json::Value;

use crate::model::field_validation::FieldValidation;
use crate::model::kind::KindInfo;
use crate::object::stored;

/// The URL's part of a request on one object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectTarget<'a> {
    pub kind: &'a KindInfo,
    /// The namespace; empty for kinds without namespaces.
    pub namespace: &'a str,
    /// The name; empty where the URL names no object.
    pub name: &'a str,
}

/// How a write is judged, and who makes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTerms<'a> {
    pub(crate) validation: FieldValidation,
    /// The caller's name.
    pub(crate) author: &'a str,
}

/// What the outside adds to a new object.
#[derive(Clone, Debug)]
pub(crate) struct CreationStamp {
    pub(crate) now: Timestamp,
    pub(crate) uid: String,
    /// Ends a generated name.
    pub(crate) suffix: String,
}

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    Main,
    Status,
    /// How many there are to be. The change is made to the whole object before it comes here.
    Scale,
}

/// A stored object as it is now, in the version that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct CurrentObject {
    pub(crate) value: Arc<Value>,
    pub(crate) revision: Revision,
    /// Bytes that it has in the store.
    pub(crate) bytes: usize,
}

impl CurrentObject {
    /// The object as clients see it.
    pub(crate) fn shown(&self) -> Value {
        stored::shown(Value::clone(&self.value), self.revision)
    }
}

/// The body of an update.
#[derive(Clone, Debug)]
pub(crate) enum UpdateBody {
    /// What a client sent to replace the object.
    Sent(Value),
    /// What a patch made of the stored object.
    Patched(Value),
}

/// A checked object, ready to be stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PreparedWrite {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
    pub(crate) effect: WriteEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEffect {
    /// The write changes nothing: no revision, no event.
    None,
    Store,
    /// The last finalizer of a deleted object went: the object goes.
    Remove,
}
