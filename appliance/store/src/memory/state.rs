//! The tables of a store in memory, and what a change does to them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::damage::{Damage, DamageCause};
use crate::error::{CommitError, StoreReadError};
use crate::lineage::{Epoch, Lineage, first_revision};
use crate::meter::{HistoryLimits, HistorySize, Meter, MeteredChange, StoredUsage};
use crate::recorded_time::RecordedTime;
use crate::types::{
    ChangeKind, GroupResource, ListRange, ObjectKey, Op, Position, Revision, StoreEvent, StoredObject,
    WritePrecondition,
};

#[derive(Clone, Debug, Default)]
pub(super) struct MemoryStoreState {
    pub(super) lineage: Lineage,
    pub(super) recorded: RecordedTime,
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    pub(super) compacted_kinds: BTreeMap<GroupResource, Revision>,
    pub(super) log: BTreeMap<Revision, MemoryLogRow>,
    pub(super) objects: BTreeMap<ObjectKey, Revision>,
    pub(super) meter: Meter,
    /// Rows that are not as they were written.
    pub(super) damaged: BTreeSet<Revision>,
}

#[derive(Clone, Debug)]
pub(super) struct MemoryLogRow {
    pub(super) key: ObjectKey,
    pub(super) kind: ChangeKind,
    pub(super) previous: Revision,
    pub(super) value: Bytes,
}

impl MemoryStoreState {
    /// Keeps the objects alone, and begins another epoch.
    pub(super) fn restore(&mut self, timeline: u32, now_ms: i64, replaced: Revision) {
        let continues = self.revision;
        let began = first_revision(continues, 0, Some(replaced));
        let standing: BTreeSet<Revision> = self.objects.values().copied().collect();
        self.log.retain(|revision, _| standing.contains(revision));
        (self.revision, self.compacted) = (began, began);
        self.compacted_kinds.clear();
        self.meter = self.measure();
        self.lineage.epochs.push(Epoch { timeline, continues, began, began_ms: now_ms });
    }

    pub(super) fn object(&self, key: &ObjectKey) -> Option<StoredObject> {
        let revision = *self.objects.get(key)?;
        let value = self.log.get(&revision)?.value.clone();
        Some(StoredObject { key: key.clone(), revision, value })
    }

    /// Where the object stands if the change may be made; zero if it does not exist.
    pub(super) fn check(&self, op: &Op, guards: &[WritePrecondition]) -> Result<Revision, CommitError> {
        for guard in guards {
            guard.check(self.objects.get(guard.key()).copied())?;
        }
        op.check(self.objects.get(op.key()).copied())
    }

    /// A change of what stands at `previous`, as far as it is counted.
    pub(super) fn measured(&self, op: &Op, previous: Revision) -> MeteredChange {
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
    pub(super) fn damage(&self, key: &ObjectKey, revision: Revision) -> Option<Damage> {
        let is_damaged = self.damaged.contains(&revision);
        is_damaged.then(|| Damage { key: key.clone(), revision, cause: DamageCause::Checksum })
    }

    pub(super) fn apply(&mut self, op: &Op, previous: Revision) -> StoreEvent {
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

    /// The part of a list after a position, at a revision that exists and is kept still.
    pub(super) fn after(
        &self,
        range: ListRange<'_>,
    ) -> Result<(Revision, BTreeMap<Position, Revision>), StoreReadError> {
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

    pub(super) fn check_kept(&self, kind: &GroupResource, at: Revision) -> Result<(), StoreReadError> {
        let oldest = self.oldest(kind);
        if at < oldest { Err(StoreReadError::Compacted { oldest }) } else { Ok(()) }
    }

    /// Forgets history, of all kinds or of one.
    pub(super) fn compact(&mut self, kind: Option<&GroupResource>, through: Revision) -> Revision {
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
    pub(super) fn shorten(&mut self, kind: &GroupResource, limits: HistoryLimits) -> Option<Revision> {
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
