//! The life of objects after their birth: dependents go after their owners, before them, or stay;
//! namespaces empty themselves; events are forgotten.
//!
//! ```text
//!   store's events ─► [`Life`] ─┬─► graph (who belongs to whom) ─► collect ─► decide ─┬─► core
//!                               ├─► namespaces ───────────────────────────────────────┤
//!                               └─► expiry of events ─────────────────────────────────┘
//! ```
//!
//! What is to be done follows from the stored objects alone: a process that ends in the middle reads
//! them again at its next start and goes on. Everything is done by the rules of [`crate::object::core`], with
//! the uid of the object that was looked at, so that two that do it at once do it once.

mod collect;
mod decide;
mod expiry;
mod graph;
mod namespaces;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use firesteel_store::{
    ChangeKind, EventStream, GroupResource, HubEvent, ListRange, ObjectKey, PageRead, Revision, StoreReadError,
    WatchError,
};
use futures_util::future::BoxFuture;

use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::lifecycle::collect::CollectOutcome;
use crate::object::lifecycle::decide::LifeObject;
use crate::object::lifecycle::expiry::Expiry;
use crate::object::lifecycle::graph::Graph;
use crate::object::lifecycle::namespaces::Namespaces;
use crate::object::options::{Preconditions, WriteOptions};
use crate::object::store_errors::{read_failed, watch_failed};
use crate::object::terms::ObjectTarget;

/// Objects read at once at the start.
const PAGE: usize = 500;
/// Time between two passes: a storm of changes is taken in handfuls.
const PAUSE: Duration = Duration::from_millis(10);
/// Time before an object is looked at again whose change failed.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two looks for events that are too old, where nothing happens.
const QUIET: Duration = Duration::from_secs(30);
/// Events that go in one step.
const EXPIRED: usize = 100;
/// The longest wait for an event that should be there. One that is read from the database, and not
/// out of memory, may turn out to be none.
const EVENT_WAIT: Duration = Duration::from_millis(100);

/// What follows the events of all kinds and does what they lead to. One for each store.
#[derive(Debug)]
pub struct Life {
    core: Core,
    feeds: Vec<KindEvents>,
    /// Everything up to there is known.
    known: Revision,
    graph: Graph,
    namespaces: Namespaces,
    expiry: Expiry,
    again: Vec<ObjectKey>,
}

/// The events of one kind.
#[derive(Debug)]
struct KindEvents {
    resource: GroupResource,
    stream: EventStream,
}

/// Runs forever.
///
/// # Errors
/// When the store is closed.
pub fn run(core: Core) -> BoxFuture<'static, Result<(), Status>> {
    Box::pin(async move {
        let store = core.store().clone();
        let mut life = open(&core).await;
        loop {
            let failed = match life.step().await {
                Ok(true) => {
                    if life.graph.is_idle() {
                        tokio::time::sleep(PAUSE).await;
                    }
                    continue;
                }
                Ok(false) => !life.again.is_empty() || life.namespaces.wants_another_turn(),
                Err(status) => {
                    tracing::warn!(error = %status.message, "could not follow the objects; all are read again in a second");
                    tokio::time::sleep(RETRY).await;
                    life = open(&core).await;
                    continue;
                }
            };
            let wait = if failed { RETRY } else { QUIET };
            if let Ok(ended) = tokio::time::timeout(wait, store.reached(Revision(life.known.0 + 1))).await {
                ended.map_err(read_failed)?;
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// A store that cannot be read now may be read later.
fn open(core: &Core) -> BoxFuture<'_, Life> {
    Box::pin(async move {
        loop {
            match Life::open(core).await {
                Ok(life) => return life,
                Err(status) => {
                    tracing::warn!(error = %status.message, "could not read the objects to follow them; it is tried again in a second");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    })
}

impl Life {
    /// Reads all objects as they are now.
    pub async fn open(core: &Core) -> Result<Self, Status> {
        let mut life = Self {
            core: core.clone(),
            feeds: Vec::new(),
            known: Revision(0),
            graph: Graph::default(),
            namespaces: Namespaces::default(),
            expiry: Expiry::default(),
            again: Vec::new(),
        };
        for kind in core.registry().stored_kinds() {
            let resource = kind.group_resource();
            let (mut at, mut after) = (None, None);
            loop {
                let range = ListRange { at, after: after.as_ref(), ..ListRange::all(&resource) };
                // What is damaged is left alone, and so is all that is in its namespace.
                let read = core.store().page_with_damaged(range, PAGE).await.map_err(read_failed)?;
                let PageRead { page, last, .. } = read;
                at = Some(page.revision);
                after = last;
                for object in &page.items {
                    life.seen(&object.key, &object.value);
                    if expiry::is_event(&object.key) {
                        life.expiry.seen(&object.key, expiry::written_at(&object.value, core.now()));
                    }
                }
                if page.remaining == 0 {
                    break;
                }
            }
            let stream = core.store().watch(&resource, at.unwrap_or_default()).await.map_err(watch_failed)?;
            life.feeds.push(KindEvents { resource, stream });
        }
        Ok(life)
    }

    /// Takes in what happened and does a part of what follows from it; whether there is more to do
    /// now. What could not be done is done at the next change, or when this is called again.
    ///
    /// # Errors
    /// When the store fails.
    pub fn step(&mut self) -> BoxFuture<'_, Result<bool, Status>> {
        Box::pin(async move { self.step_over(PAGE).await })
    }

    /// Takes one step with at most so many objects.
    async fn step_over(&mut self, most: usize) -> Result<bool, Status> {
        self.catch_up().await?;
        for key in std::mem::take(&mut self.again) {
            self.graph.enqueue(key);
        }
        let mut early = false;
        for _ in 0..most {
            let Some(key) = self.graph.next() else { break };
            match collect::collect_object(&self.core, &self.graph, self.known, &key).await {
                Ok(CollectOutcome::Done) => {}
                Ok(CollectOutcome::Early) => {
                    self.again.push(key);
                    early = true;
                }
                Err(status) if status.is_unreadable() => {
                    // It is looked at again after the next full read, which the end of the damage leads to.
                    tracing::error!(object = %key, error = %status.message, "could not read an object; it is checked again after the damage ends");
                }
                Err(status) if status.code == 403 || status.code == 422 => {
                    tracing::warn!(object = %key, error = %status.message, "could not delete or edit an object as its owners go; it stays as it is");
                }
                Err(status) => {
                    tracing::warn!(object = %key, error = %status.message, "could not check the owners of an object; it is tried again in a second");
                    self.again.push(key);
                    // The next one would hardly fare better.
                    break;
                }
            }
        }
        let more = self.namespaces.step(&self.core).await? | self.expire().await?;
        Ok(more || early || !self.graph.is_idle() || self.known < self.core.store().current())
    }

    /// Deletes events that are too old or too many; whether there are more of them.
    async fn expire(&mut self) -> Result<bool, Status> {
        for _ in 0..EXPIRED {
            let Some(key) = self.expiry.due(self.core.now()) else { return Ok(false) };
            // Written again in the meantime, it comes back with its event.
            self.expiry.remove_event(&key);
            let Some(kind) = self.core.registry().stored(&key.kind).cloned() else { continue };
            let object = match self.core.store().get(&key).await {
                // It stays until it is deleted unread.
                Ok(None) | Err(StoreReadError::Damaged(_)) => continue,
                Ok(Some(object)) => object,
                Err(error) => return Err(read_failed(error)),
            };
            if object.revision > self.known {
                continue;
            }
            let target = ObjectTarget { kind: &kind, namespace: &key.namespace, name: &key.name };
            let exactly = Preconditions { uid: None, resource_version: Some(object.revision.to_string()) };
            match self.core.delete(target, &exactly, None, WriteOptions::default()).await {
                Err(status) if !status.is_not_found() && !status.is_conflict() => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(true)
    }

    /// Steps until nothing is left to do.
    ///
    /// # Errors
    /// When the store fails.
    pub fn run_until_idle(&mut self) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            while self.step().await? {}
            Ok(())
        })
    }

    /// Reads the events up to the newest one.
    async fn catch_up(&mut self) -> Result<(), Status> {
        let target = self.core.store().current();
        for index in 0..self.feeds.len() {
            while self.feeds[index].stream.position() < target {
                let next = tokio::time::timeout(EVENT_WAIT, self.feeds[index].stream.next()).await;
                match next {
                    Ok(Ok(event)) => self.apply_event(&event),
                    Ok(Err(WatchError::Lagged)) => self.resume(index).await?,
                    Ok(Err(error)) => return Err(watch_failed(error)),
                    Err(_) => {}
                }
            }
        }
        self.known = target;
        Ok(())
    }

    /// What was missed is history.
    async fn resume(&mut self, index: usize) -> Result<(), Status> {
        let feed = &mut self.feeds[index];
        let from = feed.stream.position();
        feed.stream = self.core.store().watch(&feed.resource, from).await.map_err(watch_failed)?;
        Ok(())
    }

    fn apply_event(&mut self, event: &HubEvent) {
        let key = &event.key;
        if event.kind != ChangeKind::Deleted {
            self.seen(key, &event.value);
            if expiry::is_event(key) {
                self.expiry.seen(key, self.core.now());
            }
            return;
        }
        self.expiry.remove_event(key);
        self.namespaces.lost(&key.namespace);
        if namespaces::is_namespace(key) {
            self.namespaces.remove_namespace(&key.name);
        }
        match head_of(key, &event.value) {
            Ok(head) => self.graph.remove_object(key, &head.metadata.uid),
            Err(status) => {
                tracing::error!(error = %status.message, "could not read a deleted object; its dependents stay")
            }
        }
    }

    /// What cannot be read is left alone.
    fn seen(&mut self, key: &ObjectKey, value: &Bytes) {
        match head_of(key, value) {
            Ok(head) => {
                self.graph.seen(key, &head);
                if namespaces::is_namespace(key) {
                    self.namespaces.seen(&key.name, &head.metadata.uid, head.is_going());
                }
            }
            Err(status) => {
                tracing::error!(error = %status.message, "could not read an object; its owners are not followed")
            }
        }
    }
}

/// Why nothing may be deleted in a namespace because something else seems not to be there: an object in it is damaged,
/// and may be the owner of others, or may be what they wait for. What has no namespace is judged as one.
fn doubt_in(core: &Core, namespace: &str) -> Option<String> {
    let concerns =
        |key: &ObjectKey| key.namespace == namespace || (namespaces::is_namespace(key) && key.name == namespace);
    core.store().damage().casts_doubt(concerns)
}

fn head_of(key: &ObjectKey, value: &Bytes) -> Result<LifeObject, Status> {
    serde_json::from_slice(value).map_err(|error| Status::internal(format!("stored object {key} is not JSON: {error}")))
}
