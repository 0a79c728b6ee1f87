//! The store without a file: what a dead process leaves behind, kept in this one.
//!
//! [`MemoryMedium`] is the medium: clones share it, and each [`crate::Store::in_memory`] on it is one life
//! of a process. Everything happens on the caller's thread and at once, so that a simulation on one
//! thread and a fake clock is the same in each run. [`StoreFaults`] may delay each operation, refuse it,
//! or never let it end, as a process that dies in it.
//!
//! ```text
//!   commit ──► Faults::before_commit ──► check, log, publish ──► Faults::after_commit ──► answer
//!   reads  ──► Faults::before_read   ──► the state as it is now
//! ```
//!
//! The same tables as on disk ([`crate::Store::open`]), as maps: `log` by revision, `objects`
//! pointing into it. It passes the same conformance suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::damage::{Damage, DamageBook, DamageCause, PageRead};
use crate::error::{CommitError, StoreReadError};
use crate::hub::Hub;
use crate::lineage::{Epoch, Lineage, first_revision};
use crate::meter::{HistoryLimits, HistorySize, Meter, MeteredChange, QuotaAllowance, StoredUsage};
use crate::recorded_time::RecordedTime;
use crate::types::{
    ChangeKind, GroupResource, ListPage, ListRange, ObjectKey, Op, Position, Revision, StoreEvent, StoredObject,
    WritePrecondition,
};

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
    /// The change is durable; nobody has been told.
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

    /// The same medium, with operations that these faults look at.
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
        {
            let mut state = copy.lock();
            let continues = state.revision;
            let began = first_revision(continues, 0, Some(replaced));
            let standing: BTreeSet<Revision> = state.objects.values().copied().collect();
            state.log.retain(|revision, _| standing.contains(revision));
            (state.revision, state.compacted) = (began, began);
            state.compacted_kinds.clear();
            state.meter = state.measure();
            state.lineage.epochs.push(Epoch { timeline, continues, began, began_ms: now_ms });
        }
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

    /// Damages what an object's newest value is kept as: whoever reads it is told so from then on.
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

#[derive(Clone, Debug)]
struct MemoryStoreState {
    lineage: Lineage,
    recorded: RecordedTime,
    revision: Revision,
    compacted: Revision,
    compacted_kinds: BTreeMap<GroupResource, Revision>,
    log: BTreeMap<Revision, MemoryLogRow>,
    objects: BTreeMap<ObjectKey, Revision>,
    meter: Meter,
    /// Rows that are not as they were written.
    damaged: BTreeSet<Revision>,
}

impl Default for MemoryStoreState {
    /// Every medium is of the same store: a simulation draws nothing by itself.
    fn default() -> Self {
        Self {
            lineage: Lineage::new(1, 1),
            recorded: RecordedTime::default(),
            revision: Revision(0),
            compacted: Revision(0),
            compacted_kinds: BTreeMap::new(),
            log: BTreeMap::new(),
            objects: BTreeMap::new(),
            meter: Meter::default(),
            damaged: BTreeSet::new(),
        }
    }
}

#[derive(Clone, Debug)]
struct MemoryLogRow {
    key: ObjectKey,
    kind: ChangeKind,
    previous: Revision,
    value: Bytes,
}

impl MemoryStoreState {
    fn object(&self, key: &ObjectKey) -> Option<StoredObject> {
        let revision = *self.objects.get(key)?;
        let value = self.log.get(&revision)?.value.clone();
        Some(StoredObject { key: key.clone(), revision, value })
    }

    /// Where the object stands if the change may be made; zero if it does not exist.
    fn check(&self, op: &Op, guards: &[WritePrecondition]) -> Result<Revision, CommitError> {
        for guard in guards {
            guard.check(self.objects.get(guard.key()).copied())?;
        }
        op.check(self.objects.get(op.key()).copied())
    }

    /// A change of what stands at `previous`, as far as it is counted.
    fn measured(&self, op: &Op, previous: Revision) -> MeteredChange {
        let replaced = self.log.get(&previous).map_or(0, |row| row.value.len());
        MeteredChange::of(op.key(), op.event_kind(), op.value().len(), replaced)
    }

    /// Counts all that there is.
    fn measure(&self) -> Meter {
        let mut meter = Meter::at(self.revision);
        for (revision, row) in &self.log {
            let (kind, bytes) = (&row.key.kind, row.value.len() as u64);
            if self.objects.get(&row.key) == Some(revision) {
                meter.count_standing(kind, &row.key.namespace, StoredUsage { objects: 1, bytes });
            } else {
                meter.count_history(kind, HistorySize { revisions: 1, bytes });
            }
        }
        meter
    }

    /// What is wrong with a row.
    fn damage(&self, key: &ObjectKey, revision: Revision) -> Option<Damage> {
        let is_damaged = self.damaged.contains(&revision);
        is_damaged.then(|| Damage { key: key.clone(), revision, cause: DamageCause::Checksum })
    }

    fn apply(&mut self, op: &Op, previous: Revision) -> StoreEvent {
        let change = self.measured(op, previous);
        self.meter.apply(&change);
        self.revision = Revision(self.revision.0 + 1);
        self.meter.reached(self.revision);
        let (key, revision) = (op.key().clone(), self.revision);
        let kind = op.event_kind();
        if kind == ChangeKind::Deleted {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key.clone(), revision);
        }
        let value = op.value().clone();
        self.log.insert(revision, MemoryLogRow { key: key.clone(), kind, previous, value: value.clone() });
        let previous = self.log.get(&previous).filter(|_| !self.damaged.contains(&previous));
        let previous = previous.map(|row| row.value.clone());
        StoreEvent { revision, kind, key, value, previous }
    }

    /// What existed at a revision, in the order of a list: what has not changed since, and of what
    /// has, the state that its first later change replaced.
    fn existed(&self, kind: &GroupResource, namespace: Option<&str>, at: Revision) -> BTreeMap<Position, Revision> {
        let is_asked =
            |key: &ObjectKey| key.kind == *kind && namespace.is_none_or(|namespace| namespace == key.namespace);
        let standing =
            self.of_kind(kind).filter(|(key, revision)| is_asked(key) && **revision <= at).map(|(k, r)| (k, *r));
        let replaced = if at < self.revision { Some(self.log.range(Revision(at.0 + 1)..)) } else { None };
        let replaced = replaced
            .into_iter()
            .flatten()
            .filter(|(_, row)| row.previous.0 > 0 && row.previous <= at && is_asked(&row.key))
            .map(|(_, row)| (&row.key, row.previous));
        standing.chain(replaced).map(|(key, revision)| (key.position(), revision)).collect()
    }

    /// The same after a place, at a revision that must be known still and already.
    fn after(&self, range: ListRange<'_>) -> Result<(Revision, BTreeMap<Position, Revision>), StoreReadError> {
        let at = range.at.unwrap_or(self.revision);
        if at > self.revision {
            return Err(StoreReadError::Future { current: self.revision });
        }
        self.check_kept(range.kind, at)?;
        let mut rest = self.existed(range.kind, range.namespace, at);
        if let Some(after) = range.after {
            rest = rest.split_off(after);
            rest.remove(after);
        }
        Ok((at, rest))
    }

    fn of_kind(&self, kind: &GroupResource) -> impl Iterator<Item = (&ObjectKey, &Revision)> {
        let first = ObjectKey { kind: kind.clone(), namespace: String::new(), name: String::new() };
        let kind = kind.clone();
        self.objects.range(first..).take_while(move |(key, _)| key.kind == kind)
    }

    fn oldest(&self, kind: &GroupResource) -> Revision {
        self.compacted_kinds.get(kind).map_or(self.compacted, |own| self.compacted.max(*own))
    }

    fn check_kept(&self, kind: &GroupResource, at: Revision) -> Result<(), StoreReadError> {
        let oldest = self.oldest(kind);
        if at < oldest { Err(StoreReadError::Compacted { oldest }) } else { Ok(()) }
    }

    /// Of all kinds, or of one.
    fn compact(&mut self, kind: Option<&GroupResource>, through: Revision) -> Revision {
        let through = through.min(self.revision);
        let from = kind.map_or(self.compacted, |kind| self.oldest(kind));
        if through <= from {
            return from;
        }
        let (mut gone, mut deletions, mut last) = (BTreeSet::new(), Vec::new(), from);
        let is_asked = |key: &ObjectKey| kind.is_none_or(|kind| key.kind == *kind);
        let rows = self.log.range(Revision(from.0 + 1)..=through).filter(|(_, row)| is_asked(&row.key));
        for (revision, row) in rows {
            last = *revision;
            gone.insert(row.previous);
            if row.kind == ChangeKind::Deleted {
                deletions.push(*revision);
            }
        }
        for revision in gone.into_iter().chain(deletions) {
            if let Some(row) = self.log.remove(&revision) {
                self.meter.freed(&row.key.kind, row.value.len() as u64);
            }
        }
        let (known, to) = match kind {
            Some(kind) => (self.compacted_kinds.entry(kind.clone()).or_default(), last),
            None => (&mut self.compacted, through),
        };
        *known = to;
        to
    }

    /// Has a kind's history that is too long go from its beginning; up to where it is gone now.
    fn shorten(&mut self, kind: &GroupResource, limits: HistoryLimits) -> Option<Revision> {
        let excess = self.meter.excess(kind, limits)?;
        let from = self.oldest(kind);
        let (mut to, mut gone) = (from, HistorySize::default());
        for (revision, row) in self.log.range(Revision(from.0 + 1)..).filter(|(_, row)| row.key.kind == *kind) {
            to = *revision;
            if let Some(replaced) = self.log.get(&row.previous) {
                gone.add(replaced.value.len() as u64);
            }
            if row.kind == ChangeKind::Deleted {
                gone.add(row.value.len() as u64);
            }
            if gone.covers(&excess) {
                break;
            }
        }
        (to > from).then(|| self.compact(Some(kind), to))
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

    /// Never refused: it is no change that anybody waits for.
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
