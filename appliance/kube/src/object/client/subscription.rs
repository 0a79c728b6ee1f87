//! How a controller follows a kind: lists and watches of the store, made one sequence of changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use firesteel_store::{
    ChangeKind, Damage, EventStream, ListRange, ObjectKey, PageRead, Position, Revision, StoreReadError, WatchError,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{ObjectName, Objects};
use crate::model::status::Status;
use crate::object::{store_errors, stored, stored_object};

/// A change that a subscriber gets.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectChange<T> {
    /// The object exists and looks like this now.
    Applied(T),
    /// The object is gone; this was its last state, or only its metadata if it went unseen.
    Deleted(T),
    /// Everything that existed at the subscription has come before this. Comes once.
    Synced,
    /// The stored object is not a `T`, or damaged: something for a log and a condition, not to be passed over. It is
    /// there all the same.
    Undecodable { name: ObjectName, error: String },
}

/// Objects that a subscription reads at once when it lists them: a part of many is in memory.
const RELIST_PAGE: usize = 256;

/// Time between two reads of a list that is damaged.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A subscription. It keeps the metadata of all objects of the kind, to see after a gap what is gone.
#[derive(Debug)]
pub struct ObjectSubscription<T> {
    objects: Objects<T>,
    known: Known,
    /// Known objects that were damaged when they were listed.
    damaged: BTreeSet<ObjectName>,
    queue: VecDeque<PendingChange>,
    /// The progress of a list; `None` while changes are watched.
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
    /// Lists the first objects. An unreadable list is read again when the subscriber waits for the first change.
    pub(super) async fn begin(objects: Objects<T>) -> Result<Self, Status> {
        let mut changes = Self {
            objects,
            known: Known::new(),
            damaged: BTreeSet::new(),
            queue: VecDeque::new(),
            relist: Some(RelistState::default()),
            watch: None,
            synced: false,
        };
        match changes.list_on().await {
            Err(status) if !status.is_unreadable() => Err(status),
            Ok(()) | Err(_) => Ok(changes),
        }
    }

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
                        tracing::error!(%kind, error = %status.message, "could not follow a kind; it is listed again in some seconds");
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

    /// Lists some more objects, and queues what differs from what the subscriber has; behind the last ones it
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
        let watch = match read.page.remaining {
            0 => match store.watch(&kind, read.page.revision).await {
                Err(WatchError::Compacted { .. } | WatchError::Damaged(_)) => {
                    self.list_again();
                    return Ok(());
                }
                watch => Some(watch.map_err(store_errors::watch_failed)?),
            },
            _ => None,
        };
        let relist = self.queue_page(read);
        if watch.is_none() {
            self.relist = Some(relist);
            return Ok(());
        }
        self.watch = watch;
        for (name, (last, bytes)) in relist.gone {
            self.damaged.remove(&name);
            let key = ObjectKey::new(&kind, &name.namespace, &name.name);
            self.queue.push_back(PendingChange::Deleted(key, last, bytes));
        }
        if !std::mem::replace(&mut self.synced, true) {
            self.queue.push_back(PendingChange::Synced);
        }
        Ok(())
    }

    /// Queues what differs on a page, and returns where the next one begins.
    fn queue_page(&mut self, PageRead { page, damaged, last }: PageRead) -> RelistState {
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
        relist
    }
}

/// What is kept of an object that exists.
fn metadata_only(bytes: &Bytes, revision: Revision) -> Bytes {
    stored_object::metadata_only(bytes, revision).map_or_else(|| bytes.clone(), Bytes::from)
}
