//! Objects for code in the same process: typed, by the same rules as over HTTP, on the store
//! directly.
//!
//! A type is anything that serde can turn into the kind's JSON and back; it must keep what it does
//! not know (or the kind must not have such fields), since an update stores what it encodes; and it must
//! read an object that has its metadata alone, which is what is kept of one that goes unseen.
//!
//! [`Objects::subscribe`] is how a controller follows a kind: everything that exists first, then each change, forever,
//! whatever happens to the watch below.

mod subscription;

pub use subscription::{ObjectChange, ObjectSubscription};

use std::marker::PhantomData;
use std::sync::Arc;

use firesteel_store::{ListRange, ObjectKey, PAGE_OBJECTS_MAX, Position, Revision};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::model::field_validation::FieldValidation;
use crate::model::kind::KindInfo;
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::options::{self, Preconditions, WriteOptions};
use crate::object::terms::{ObjectPart, ObjectTarget};
use crate::object::{store_errors, stored};

/// Tries of [`Objects::modify`]: more than anything that is not a fight between two writers needs.
const MODIFY_TRIES: usize = 16;

/// The objects of one kind, as `T`.
#[derive(Debug)]
pub struct Objects<T> {
    core: Core,
    kind: Arc<KindInfo>,
    options: WriteOptions<'static>,
    // `fn` keeps the handle Send and Sync whatever T is.
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Objects<T> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), kind: self.kind.clone(), options: self.options, of: PhantomData }
    }
}

/// Where an object is. The namespace is empty for kinds without namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    pub namespace: String,
    pub name: String,
}

impl From<ObjectKey> for ObjectName {
    fn from(key: ObjectKey) -> Self {
        Self { namespace: key.namespace, name: key.name }
    }
}

impl<T: Serialize + DeserializeOwned> Objects<T> {
    /// The kind is named by group and Kind: `("metal3.io", "BareMetalHost")`.
    pub fn new(core: &Core, group: &str, kind: &str) -> Result<Self, Status> {
        let found = core.registry().by_kind(group, kind).cloned();
        let kind =
            found.ok_or_else(|| Status::internal(format!("no kind {kind:?} in group {group:?} is registered")))?;
        // Controllers write what their types have; a field too many is the type's mistake.
        let options = WriteOptions { validation: FieldValidation::Strict, ..WriteOptions::default() };
        Ok(Self { core: core.clone(), kind, options, of: PhantomData })
    }

    /// Lets the writes of this client use the store's reserve when room is short.
    #[must_use]
    pub fn with_reserve(self) -> Self {
        Self { options: WriteOptions { from_reserve: true, ..self.options }, ..self }
    }

    pub fn kind(&self) -> &KindInfo {
        &self.kind
    }

    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<T>, Status> {
        match self.core.get_as(self.target(namespace, name)).await {
            Ok(object) => Ok(Some(object)),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// All objects, of one namespace or of all, and the revision of this list.
    pub async fn list(&self, namespace: Option<&str>) -> Result<(Vec<T>, Revision), Status> {
        let kind = self.kind.group_resource();
        let (mut list, mut at, mut after): (Vec<T>, Option<Revision>, Option<Position>) = (Vec::new(), None, None);
        loop {
            let range = ListRange { kind: &kind, namespace, at, after: after.as_ref() };
            let page = self.core.store().list(range, PAGE_OBJECTS_MAX).await;
            let page = page.map_err(store_errors::read_failed)?;
            for object in &page.items {
                list.push(stored::of_this_process(stored::shown(stored::decode(object)?, object.revision))?);
            }
            if page.remaining == 0 {
                return Ok((list, page.revision));
            }
            (at, after) = (Some(page.revision), page.items.last().map(|object| object.key.position()));
        }
    }

    /// How many objects there are, of one namespace or of all; nothing of them is read.
    pub async fn count(&self, namespace: Option<&str>) -> Result<u64, Status> {
        let kind = self.kind.group_resource();
        let range = ListRange { kind: &kind, namespace, at: None, after: None };
        self.core.store().count(range).await.map_err(store_errors::read_failed)
    }

    pub async fn create(&self, object: &T) -> Result<T, Status> {
        let body = self.encode(object)?;
        let (namespace, name) = names(&body);
        let target = self.target(&namespace, &name);
        stored::of_this_process(self.core.create(target, body, self.options).await?.value)
    }

    /// Stores spec and metadata, if the object is still at its `metadata.resourceVersion`.
    pub async fn update(&self, object: &T) -> Result<T, Status> {
        self.replace(object, ObjectPart::Main).await
    }

    /// Stores the status, if the object is still at its `metadata.resourceVersion`.
    pub async fn update_status(&self, object: &T) -> Result<T, Status> {
        self.replace(object, ObjectPart::Status).await
    }

    /// Changes the object as it stands, again if another write was faster. `change` must be repeatable. `None` if there
    /// is no such object.
    pub async fn modify(
        &self,
        namespace: &str,
        name: &str,
        part: ObjectPart,
        change: impl Fn(&mut T),
    ) -> Result<Option<T>, Status> {
        for _ in 0..MODIFY_TRIES {
            let Some(mut object) = self.get(namespace, name).await? else { return Ok(None) };
            change(&mut object);
            match self.replace(&object, part).await {
                Err(status) if status.is_conflict() => {}
                Err(status) if status.is_not_found() => return Ok(None),
                Ok(written) => return Ok(Some(written)),
                Err(status) => return Err(status),
            }
        }
        Err(Status::modified(&self.kind, name))
    }

    /// Deletes by the rules: an object with finalizers is marked and stays. Absence is success.
    pub async fn delete(&self, namespace: &str, name: &str) -> Result<(), Status> {
        let target = self.target(namespace, name);
        match self.core.delete(target, &Preconditions::default(), None, self.options).await {
            Err(status) if !status.is_not_found() => Err(status),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Deletes the object of this uid; another one that has taken its name stays.
    pub async fn delete_exact(&self, namespace: &str, name: &str, uid: &str) -> Result<(), Status> {
        let target = self.target(namespace, name);
        self.core.delete_exactly(target, uid, None, self.options).await.map(drop)
    }

    /// Follows the kind in all namespaces. The current objects come first, then `Synced`. Where the list of the kind is
    /// damaged nothing comes, and neither does `Synced`: who waits for it does nothing.
    pub async fn subscribe(&self) -> Result<ObjectSubscription<T>, Status> {
        ObjectSubscription::begin(self.clone()).await
    }

    async fn replace(&self, object: &T, part: ObjectPart) -> Result<T, Status> {
        let body = self.encode(object)?;
        let (namespace, name) = names(&body);
        let target = self.target(&namespace, &name);
        self.core.change_as(target, part, options::ObjectUpdate::Replace(&body), self.options).await
    }

    fn target<'a>(&'a self, namespace: &'a str, name: &'a str) -> ObjectTarget<'a> {
        let namespace = if self.kind.namespaced { namespace } else { "" };
        ObjectTarget { kind: &self.kind, namespace, name }
    }

    fn encode(&self, object: &T) -> Result<Value, Status> {
        let mut value = serde_json::to_value(object)
            .map_err(|error| Status::internal(format!("cannot encode a {}: {error}", self.kind.kind)))?;
        if let Value::Object(object) = &mut value {
            // A type's default says nothing here: there is one answer.
            for (name, word) in [("apiVersion", self.kind.api_version()), ("kind", self.kind.kind.to_owned())] {
                let said = object.entry(name).or_insert(Value::Null);
                if said.as_str().is_none_or(str::is_empty) {
                    *said = Value::String(word);
                }
            }
        }
        Ok(value)
    }
}

fn names(value: &Value) -> (String, String) {
    let text = |key: &str| value["metadata"][key].as_str().unwrap_or("").to_owned();
    (text("namespace"), text("name"))
}
