//! The store without a file: what a dead process leaves behind, kept in this one.
//!
//! [`MemoryMedium`] is the medium: clones share it, and each [`crate::Store::in_memory`] on it is one life
//! of a process. Everything happens on the caller's thread and at once, so that a simulation on one
//! thread and a fake clock is the same in each run. [`StoreFaults`] may delay each operation, refuse it,
//! or never let it end, as a process that dies in it.
//!
//! ```text
//!   commit ──► StoreFaults::before_commit ──► check, log, publish ──► StoreFaults::after_commit ──► answer
//!   reads  ──► StoreFaults::before_read   ──► the state as it is now
//! ```
//!
//! It has the tables of the disk ([`crate::Store::open`]) as maps: `log` by revision, `objects` pointing into it. It
//! passes the same conformance suite.

mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::damage::{DamageBook, PageRead};
use crate::error::{CommitError, StoreReadError};
use crate::hub::Hub;
use crate::lineage::Lineage;
use crate::meter::{QuotaAllowance, StoredUsage};
use crate::recorded_time::RecordedTime;
use crate::types::{
    GroupResource, ListPage, ListRange, ObjectKey, Op, Revision, StoreEvent, StoredObject, WritePrecondition,
};

use self::state::{MemoryLogRow, MemoryStoreState};

/// What a fault makes its operation wait for; one that never ends is a process that has died.
pub type Wait<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What becomes of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedOutcome {
    Stored,
    /// The medium refuses it: nothing is stored, the caller hears of a failure.
    Refused,
    /// It is stored, and the caller hears of a failure all the same.
    StoredUnheard,
}

/// What a test lets happen to the operations of one [`MemoryMedium`].
pub trait StoreFaults: fmt::Debug + Send + Sync {
    fn before_read(&self) -> Wait<()>;
    fn before_commit(&self, op: &Op) -> Wait<InjectedOutcome>;
    /// The change is durable and not published yet.
    fn after_commit(&self, event: &StoreEvent) -> Wait<()>;
}

/// The medium. What is in it outlives every store that was opened on it.
#[derive(Clone, Debug, Default)]
pub struct MemoryMedium {
    state: Arc<Mutex<MemoryStoreState>>,
    faults: Option<Arc<dyn StoreFaults>>,
}

impl MemoryMedium {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds faults, which look at each operation.
    #[must_use]
    pub fn with_faults(&self, faults: Arc<dyn StoreFaults>) -> Self {
        Self { state: self.state.clone(), faults: Some(faults) }
    }

    /// A copy that goes its own way, as a backup does.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.lock().clone())), faults: self.faults.clone() }
    }

    /// The medium of a store that was restored from this one, as [`crate::restore`] does it.
    #[must_use]
    pub fn restored(&self, timeline: u32, now_ms: i64, replaced: Revision) -> Self {
        let copy = self.copy();
        copy.lock().restore(timeline, now_ms, replaced);
        copy
    }

    /// How many rows there are of a kind.
    #[cfg(test)]
    pub(crate) fn rows(&self, kind: &GroupResource) -> usize {
        self.lock().log.values().filter(|row| row.key.kind == *kind).count()
    }

    pub(crate) fn lineage(&self) -> Lineage {
        self.lock().lineage.clone()
    }

    pub(crate) fn recorded(&self) -> RecordedTime {
        self.lock().recorded
    }

    /// Damages the stored newest value of an object: from then on, reads of it fail.
    pub fn damage(&self, key: &ObjectKey) {
        let mut state = self.lock();
        if let Some(revision) = state.objects.get(key).copied() {
            state.damaged.insert(revision);
        }
    }

    /// An object as it stands, without faults and without a store.
    pub fn peek(&self, key: &ObjectKey) -> Option<StoredObject> {
        self.lock().object(key)
    }

    fn lock(&self) -> MutexGuard<'_, MemoryStoreState> {
        // A change is applied after its last check, so nothing half done is seen after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open store on a [`MemoryMedium`].
#[derive(Debug)]
pub(crate) struct OpenMemoryStore {
    memory: MemoryMedium,
    hub: Arc<Hub>,
    pub(crate) damages: DamageBook,
}

impl OpenMemoryStore {
    pub(crate) fn new(memory: &MemoryMedium) -> (Arc<Self>, Arc<Hub>) {
        let hub = {
            let state = memory.lock();
            let hub = Hub::new(state.revision, state.compacted);
            state.compacted_kinds.iter().for_each(|(kind, compacted)| hub.set_compacted(Some(kind), *compacted));
            Arc::new(hub)
        };
        (Arc::new(Self { memory: memory.clone(), hub: hub.clone(), damages: DamageBook::default() }), hub)
    }

    async fn before_read(&self) {
        if let Some(faults) = &self.memory.faults {
            faults.before_read().await;
        }
    }

    pub(crate) async fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>, StoreReadError> {
        self.before_read().await;
        let (object, damage) = {
            let state = self.memory.lock();
            let object = state.object(key);
            let damage = object.as_ref().and_then(|object| state.damage(key, object.revision));
            (object, damage)
        };
        match damage {
            Some(damage) => {
                self.damages.found(&damage);
                Err(StoreReadError::Damaged(vec![damage]))
            }
            None => Ok(object),
        }
    }

    /// Objects in order; `remaining` is 1 where there are more.
    pub(crate) async fn page(&self, range: ListRange<'_>, limit: usize) -> Result<PageRead, StoreReadError> {
        self.before_read().await;
        let state = self.memory.lock();
        let (revision, rest) = state.after(range)?;
        let remaining = (rest.len() > limit).into();
        let (mut items, mut damaged, mut last) = (Vec::new(), Vec::new(), None);
        for (place, stands) in rest.into_iter().take(limit) {
            let key = ObjectKey { kind: range.kind.clone(), namespace: place.namespace, name: place.name };
            last = Some(key.position());
            match (state.damage(&key, stands), state.log.get(&stands)) {
                (Some(damage), _) => damaged.push(damage),
                (None, Some(row)) => items.push(StoredObject { key, revision: stands, value: row.value.clone() }),
                (None, None) => {}
            }
        }
        if revision == state.revision {
            damaged.iter().for_each(|damage| self.damages.found(damage));
        }
        Ok(PageRead { page: ListPage { items, revision, remaining }, damaged, last })
    }

    pub(crate) fn kinds(&self) -> Vec<GroupResource> {
        let kinds: BTreeSet<GroupResource> = self.memory.lock().objects.keys().map(|key| key.kind.clone()).collect();
        kinds.into_iter().collect()
    }

    pub(crate) async fn count(&self, range: ListRange<'_>) -> Result<u64, StoreReadError> {
        self.before_read().await;
        Ok(self.memory.lock().after(range)?.1.len() as u64)
    }

    /// The events of a kind in (after, through], at most `limit`, in order.
    pub(crate) async fn history(
        &self,
        kind: &GroupResource,
        after: Revision,
        through: Revision,
        limit: usize,
    ) -> Result<Vec<StoreEvent>, StoreReadError> {
        self.before_read().await;
        let state = self.memory.lock();
        state.check_kept(kind, after)?;
        if after >= through {
            return Ok(Vec::new());
        }
        let rows = state.log.range(Revision(after.0 + 1)..=through).filter(|(_, row)| row.key.kind == *kind);
        let rows: Vec<(&Revision, &MemoryLogRow)> = rows.take(limit).collect();
        let damage = |(at, row): &(&Revision, &MemoryLogRow)| {
            state.damage(&row.key, **at).or_else(|| state.damage(&row.key, row.previous))
        };
        if let Some(damage) = rows.iter().find_map(damage) {
            return Err(StoreReadError::Damaged(vec![damage]));
        }
        let event = |(revision, row): (&Revision, &MemoryLogRow)| StoreEvent {
            revision: *revision,
            kind: row.kind,
            key: row.key.clone(),
            value: row.value.clone(),
            previous: state.log.get(&row.previous).map(|row| row.value.clone()),
        };
        Ok(rows.into_iter().map(event).collect())
    }

    pub(crate) fn usage(&self, namespace: &str) -> BTreeMap<GroupResource, StoredUsage> {
        self.memory.lock().meter.usage(namespace)
    }

    pub(crate) async fn commit(
        &self,
        op: Op,
        guards: Vec<WritePrecondition>,
        allowances: Vec<QuotaAllowance>,
    ) -> Result<Revision, CommitError> {
        let fate = match &self.memory.faults {
            Some(faults) => faults.before_commit(&op).await,
            None => InjectedOutcome::Stored,
        };
        if fate == InjectedOutcome::Refused {
            return Err(CommitError::Database("the medium refused the change".to_owned()));
        }
        let event = {
            let mut state = self.memory.lock();
            let previous = state.check(&op, &guards)?;
            let exceeded = state.meter.check(&state.measured(&op, previous), &allowances);
            if !exceeded.is_empty() {
                return Err(CommitError::Exceeds { key: op.key().clone(), exceeded });
            }
            let start = state.revision;
            let event = state.apply(&op, previous);
            let is_cut = state.damaged.contains(&previous);
            let cuts = is_cut.then(|| (event.key.kind.clone(), event.revision));
            self.damages.settled(&event.key);
            if fate == InjectedOutcome::Stored {
                if start != self.hub.published() {
                    // An earlier change was reported as failed and had become durable after all.
                    self.hub.skip_to(start);
                }
                self.hub.publish(vec![event.clone()], cuts.as_slice(), event.revision);
                let kind = &event.key.kind;
                if let Some(compacted) = state.shorten(kind, self.hub.history_limits()) {
                    self.hub.set_compacted(Some(kind), compacted);
                }
            }
            event
        };
        if let Some(faults) = &self.memory.faults {
            faults.after_commit(&event).await;
        }
        if fate == InjectedOutcome::StoredUnheard {
            return Err(CommitError::Database("the medium failed after the change".to_owned()));
        }
        Ok(event.revision)
    }

    /// Never refuses: no caller waits for this change.
    pub(crate) fn record_time(&self, time: RecordedTime) {
        self.memory.lock().recorded = time;
    }

    pub(crate) fn compact(&self, kind: Option<&GroupResource>, through: Revision) -> Revision {
        let compacted = self.memory.lock().compact(kind, through.min(self.hub.published()));
        self.hub.set_compacted(kind, compacted);
        compacted
    }
}

impl Drop for OpenMemoryStore {
    fn drop(&mut self) {
        self.hub.close();
    }
}
