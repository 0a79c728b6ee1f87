//! What a write says beside the object, and what comes of it.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::model::field_validation::FieldValidation;
use crate::model::namespace_quota::NamespaceQuota;
use crate::object::heavy_json::{self, HeavyWork};
use crate::object::patch::Patch;
use crate::object::terms::WriteTerms;

/// The manager's name for writes of this process itself.
const OWN_MANAGER: &str = "firesteel";

#[derive(Clone, Copy, Debug)]
pub struct WriteOptions<'a> {
    pub validation: FieldValidation,
    /// All checks, and nothing stored.
    pub dry_run: bool,
    /// The owner of what is written, in `metadata.managedFields`.
    pub manager: &'a str,
    /// What is written may use the store's reserve when room is short. Deletions always may.
    pub from_reserve: bool,
    pub origin: WriteOrigin<'a>,
    /// The name of the caller, for kinds that keep who changed an object.
    pub author: &'a str,
    /// Bytes of the request's body, where there is one.
    pub bytes: usize,
}

impl<'a> WriteOptions<'a> {
    pub(crate) fn terms(&self) -> WriteTerms<'a> {
        WriteTerms { validation: self.validation, author: self.author }
    }
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        Self {
            validation: FieldValidation::default(),
            dry_run: false,
            manager: OWN_MANAGER,
            from_reserve: false,
            origin: WriteOrigin::Own,
            author: OWN_MANAGER,
            bytes: 0,
        }
    }
}

/// Who writes.
#[derive(Clone, Copy, Debug, Default)]
pub enum WriteOrigin<'a> {
    /// This process itself, which no quota holds up.
    #[default]
    Own,
    /// A client of the API, with what a quota allows where no admin made one for the namespace.
    Client(Option<&'a NamespaceQuota>),
}

impl WriteOrigin<'_> {
    /// Where its heavy work is done.
    pub(crate) fn places(self) -> &'static HeavyWork {
        match self {
            Self::Own => &heavy_json::OWN,
            Self::Client(_) => &heavy_json::CLIENTS,
        }
    }
}

/// What a write made of the object.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredWrite {
    /// The object as it is now; of a removed one, its last state.
    pub value: Value,
    pub warnings: Vec<String>,
    pub removed: bool,
    /// The object as it is sent, where it was stored in the words of the request's version.
    pub(crate) text: Option<Bytes>,
}

/// A change of an existing object.
#[derive(Clone, Copy, Debug)]
pub enum ObjectUpdate<'a> {
    Replace(&'a Value),
    Patch(&'a Patch),
}

/// What a DELETE expects; empty means nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}
