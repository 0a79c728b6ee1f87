//! Which object a write is about, and what the rules make of it.

use jiff::Timestamp;
use serde_json::Value;

use crate::model::{field_validation::FieldValidation, kind::KindInfo};

/// The URL's part of a request on one object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectTarget<'a> {
    pub kind: &'a KindInfo,
    /// Empty for kinds without namespaces.
    pub namespace: &'a str,
    /// Empty where the URL names no object.
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

/// What the body of an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateBody {
    /// What a client sent to replace the object.
    Sent,
    /// What a patch made of the stored object.
    Patched,
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
