//! Objects for code in the same process: typed, by the same rules as over HTTP, on the store
//! directly.
//!
//! A type is anything that serde can turn into the kind's JSON and back; it must keep what it does
//! not know (or the kind must not have such fields), since an update stores what it encodes; and it must
//! read an object that has its metadata alone, which is what is kept of one that goes unseen.
//!
//! [`Objects::subscribe`] is how a controller follows a kind: everything that exists first, then
//! each change, for ever, whatever happens to the watch below.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firesteel_store::{
    ChangeKind, Damage, EventStream, ListRange, ObjectKey, PAGE_OBJECTS_MAX, PageRead, Position, Revision,
    StoreReadError, WatchError,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    model::{field_validation::FieldValidation, kind::KindInfo, status::Status},
    object::{
        core::Core,
        options::{self, Preconditions, WriteOptions, WriteOrigin},
        store_errors, stored, stored_object,
        terms::{ObjectPart, ObjectTarget},
    },
};

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

/// What a subscriber is told.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectChange<T> {
    /// The object exists and looks like this now.
    Applied(T),
    /// The object is gone; this was its last state, or only its metadata if it went unseen.
    Deleted(T),
    /// Everything that existed at the subscription has been told. Comes once.
    Synced,
    /// The stored object is not a `T`, or damaged: something for a log and a condition, not to be passed over. It is
    /// there all the same.
    Undecodable { name: ObjectName, error: String },
}

impl<T: Serialize + DeserializeOwned> Objects<T> {
    /// The kind is named by group and Kind: `("metal3.io", "BareMetalHost")`.
    pub fn new(core: &Core, group: &str, kind: &str) -> Result<Self, Status> {
        let found = core.registry().by_kind(group, kind).cloned();
        let kind =
            found.ok_or_else(|| Status::internal(format!("no kind {kind:?} in group {group:?} is registered")))?;
        Ok(Self { core: core.clone(), kind, options: OWN, of: PhantomData })
    }

    /// The same, and what is written by it may use the store's reserve when room is short.
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
        let (objects, revision) = self.list_raw(namespace).await?;
        let mut list = Vec::with_capacity(objects.len());
        for object in objects {
            list.push(stored::of_this_process(stored::shown(stored::decode(&object)?, object.revision))?);
        }
        Ok((list, revision))
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

    /// Changes the object as it stands, again if somebody else was faster. `change` must be
    /// repeatable. `None` if there is no such object.
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
        match self.core.delete(target, &Preconditions::default(), self.options).await {
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
        let mut changes = ObjectSubscription {
            objects: self.clone(),
            known: BTreeMap::new(),
            damaged: BTreeSet::new(),
            queue: std::collections::VecDeque::new(),
            relist: Some(RelistState::default()),
            watch: None,
            synced: false,
        };
        match changes.list_on().await {
            // It is tried again by whoever waits for the first change.
            Err(status) if !status.is_unreadable() => Err(status),
            Ok(()) | Err(_) => Ok(changes),
        }
    }

    async fn replace(&self, object: &T, part: ObjectPart) -> Result<T, Status> {
        let body = self.encode(object)?;
        let (namespace, name) = names(&body);
        let target = self.target(&namespace, &name);
        self.core.change_as(target, part, options::ObjectUpdate::Replace(&body), self.options).await
    }

    async fn list_raw(
        &self,
        namespace: Option<&str>,
    ) -> Result<(Vec<firesteel_store::StoredObject>, Revision), Status> {
        let kind = self.kind.group_resource();
        let (mut objects, mut at, mut after): (Vec<_>, Option<Revision>, Option<Position>) = (Vec::new(), None, None);
        loop {
            let range = ListRange { kind: &kind, namespace, at, after: after.as_ref() };
            let page = self.core.store().list(range, PAGE_OBJECTS_MAX).await;
            let page = page.map_err(store_errors::read_failed)?;
            at = Some(page.revision);
            after = page.items.last().map(|object| object.key.position());
            objects.extend(page.items);
            if page.remaining == 0 {
                return Ok((objects, page.revision));
            }
        }
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

/// Controllers write what their types have; a field too many is the type's mistake.
const OWN: WriteOptions<'static> = WriteOptions {
    validation: FieldValidation::Strict,
    dry_run: false,
    manager: options::OWN_MANAGER,
    from_reserve: false,
    origin: WriteOrigin::Own,
    author: options::OWN_MANAGER,
    bytes: 0,
};

/// Objects that a subscription reads at once when it lists them: a part of many is in memory.
const RELIST_PAGE: usize = 256;

/// Between two looks at a list that is damaged.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A subscription. It keeps the metadata of all objects of the kind, to see after a gap what is gone.
#[derive(Debug)]
pub struct ObjectSubscription<T> {
    objects: Objects<T>,
    known: Known,
    /// Of what is known, what was damaged when it was listed.
    damaged: BTreeSet<ObjectName>,
    queue: std::collections::VecDeque<PendingChange>,
    /// On the way through all objects.
    relist: Option<RelistState>,
    watch: Option<EventStream>,
    synced: bool,
}

type Known = BTreeMap<ObjectName, (Revision, Bytes)>;

#[derive(Debug, Default)]
struct RelistState {
    at: Option<Revision>,
    after: Option<Position>,
    /// What was known before and has not been seen again yet.
    gone: Known,
}

#[derive(Debug)]
enum PendingChange {
    Applied(ObjectKey, Revision, Bytes),
    Deleted(ObjectKey, Revision, Bytes),
    Damaged(Damage),
    Synced,
}

impl<T: Serialize + DeserializeOwned> ObjectSubscription<T> {
    /// Waits for the next change. An error means that the store failed; it may be called again.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Result<ObjectChange<T>, Status> {
        loop {
            if let Some(pending) = self.queue.pop_front() {
                return Ok(self.into_change(pending));
            }
            if self.relist.is_some() {
                match self.list_on().await {
                    Err(status) if status.is_unreadable() => {
                        let kind = &self.objects.kind.kind;
                        tracing::error!(%kind, error = %status.message, "a kind cannot be followed");
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                    listed => listed?,
                }
                continue;
            }
            let Some(watch) = &mut self.watch else {
                self.list_again();
                continue;
            };
            match watch.next().await {
                Ok(event) => {
                    let (key, revision, value) = (event.key.clone(), event.revision, event.value.clone());
                    let name = ObjectName::from(key.clone());
                    self.damaged.remove(&name);
                    match event.kind {
                        ChangeKind::Created | ChangeKind::Updated => {
                            self.known.insert(name, (revision, metadata_only(&value, revision)));
                            self.queue.push_back(PendingChange::Applied(key, revision, value));
                        }
                        ChangeKind::Deleted => {
                            self.known.remove(&name);
                            self.queue.push_back(PendingChange::Deleted(key, revision, value));
                        }
                    }
                }
                Err(WatchError::Lagged) => {
                    // What was missed is history, and cheaper to read than everything.
                    let (kind, from) = (self.objects.kind.group_resource(), watch.position());
                    self.watch = match self.objects.core.store().watch(&kind, from).await {
                        Ok(watch) => Some(watch),
                        Err(WatchError::Compacted { .. } | WatchError::Damaged(_)) => None,
                        Err(error) => return Err(store_errors::watch_failed(error)),
                    };
                }
                Err(WatchError::Compacted { .. } | WatchError::Damaged(_)) => self.watch = None,
                Err(error) => {
                    self.watch = None;
                    return Err(store_errors::watch_failed(error));
                }
            }
        }
    }

    fn into_change(&self, pending: PendingChange) -> ObjectChange<T> {
        let (key, revision, bytes, change): (_, _, _, fn(T) -> ObjectChange<T>) = match pending {
            PendingChange::Applied(key, revision, bytes) => (key, revision, bytes, ObjectChange::Applied),
            PendingChange::Deleted(key, revision, bytes) => (key, revision, bytes, ObjectChange::Deleted),
            PendingChange::Damaged(damage) => {
                let error = damage.to_string();
                return ObjectChange::Undecodable { name: damage.key.into(), error };
            }
            PendingChange::Synced => return ObjectChange::Synced,
        };
        match self.objects.core.read_as(&key, revision, &bytes) {
            Ok(object) => change(object),
            Err(status) => ObjectChange::Undecodable { name: key.into(), error: status.message },
        }
    }

    /// Begins to list, and what was known has to be seen again.
    fn list_again(&mut self) {
        let mut gone = self.relist.take().unwrap_or_default().gone;
        gone.append(&mut self.known);
        self.relist = Some(RelistState { gone, ..RelistState::default() });
        self.watch = None;
    }

    /// Lists some more objects, and queues what differs from what was told; behind the last ones it
    /// watches from there. Nothing is changed here before all that is waited for is there.
    async fn list_on(&mut self) -> Result<(), Status> {
        let Some(RelistState { at, after, .. }) = &self.relist else { return Ok(()) };
        let (kind, store) = (self.objects.kind.group_resource(), self.objects.core.store());
        let range = ListRange { at: *at, after: after.as_ref(), ..ListRange::all(&kind) };
        let read = match store.page_with_damaged(range, RELIST_PAGE).await {
            // It took too long, and is forgotten.
            Err(StoreReadError::Compacted { .. }) if at.is_some() => {
                self.list_again();
                return Ok(());
            }
            read => read.map_err(store_errors::read_failed)?,
        };
        let PageRead { page, damaged, last } = read;
        let watch = match page.remaining {
            0 => match store.watch(&kind, page.revision).await {
                Err(WatchError::Compacted { .. } | WatchError::Damaged(_)) => {
                    self.list_again();
                    return Ok(());
                }
                watch => Some(watch.map_err(store_errors::watch_failed)?),
            },
            _ => None,
        };
        let mut relist = self.relist.take().unwrap_or_default();
        relist.at = Some(page.revision);
        relist.after = last;
        for damage in damaged {
            let name = ObjectName::from(damage.key.clone());
            // What was known of it says whose deletion it is that comes later.
            let bytes = match relist.gone.remove(&name) {
                Some((_, bytes)) => bytes,
                None => Bytes::from(stored::bare(&self.objects.kind, &damage.key).to_string()),
            };
            self.known.insert(name.clone(), (damage.revision, bytes));
            if self.damaged.insert(name) {
                self.queue.push_back(PendingChange::Damaged(damage));
            }
        }
        for object in page.items {
            let name = ObjectName::from(object.key.clone());
            self.damaged.remove(&name);
            let before = relist.gone.remove(&name);
            self.known.insert(name, (object.revision, metadata_only(&object.value, object.revision)));
            if before.is_none_or(|(revision, _)| revision != object.revision) {
                self.queue.push_back(PendingChange::Applied(object.key, object.revision, object.value));
            }
        }
        if watch.is_none() {
            self.relist = Some(relist);
            return Ok(());
        }
        self.watch = watch;
        for (name, (last, bytes)) in relist.gone {
            self.damaged.remove(&name);
            self.queue.push_back(PendingChange::Deleted(
                ObjectKey::new(&kind, &name.namespace, &name.name),
                last,
                bytes,
            ));
        }
        if !std::mem::replace(&mut self.synced, true) {
            self.queue.push_back(PendingChange::Synced);
        }
        Ok(())
    }
}

/// What is kept of an object that exists.
fn metadata_only(bytes: &Bytes, revision: Revision) -> Bytes {
    stored_object::metadata_only(bytes, revision).map_or_else(|| bytes.clone(), Bytes::from)
}

fn names(value: &Value) -> (String, String) {
    let text = |key: &str| value["metadata"][key].as_str().unwrap_or("").to_owned();
    (text("namespace"), text("name"))
}
