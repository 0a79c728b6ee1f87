//! How much there is of each kind, standing and as history, and what it may come to. Pure.
//!
//! ```text
//!   a change by its lengths ([`MeteredChange`]) ──► apply ──► standing: objects and bytes, by kind and namespace
//!                                                   └──► history: revisions and bytes, by kind
//!   compaction: so many rows are gone ───────► freed
//!   check: may a change add so much?      excess: how much history has to go?
//! ```
//!
//! Lengths are those of the stored values: of sealed ones, of what lies in the database.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store_room::ReserveUse;
use crate::types::{ChangeKind, GroupResource, ObjectKey, Revision};

/// History beyond these goes, whatever its age: who watches or pages from before it lists again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Bytes of one kind's old values. A kind of which much stands may have a quarter of that, if it is more.
    pub bytes: u64,
    /// Revisions of one kind.
    pub revisions: u64,
}

/// The share of a kind's objects that its history may have: one part in so many.
const STANDING_PARTS: u64 = 4;
/// A history that is too long is shortened by one part in so many, so that not each change has to shorten it again.
const HYSTERESIS_PARTS: u64 = 4;

impl Default for HistoryLimits {
    /// Some seconds of the fastest writing, for a client that pages through a list.
    fn default() -> Self {
        Self { bytes: 4 << 20, revisions: 10_000 }
    }
}

/// What stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredUsage {
    pub objects: u64,
    pub bytes: u64,
}

/// What is kept of the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistorySize {
    pub(crate) revisions: u64,
    pub(crate) bytes: u64,
}

impl HistorySize {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.revisions += 1;
        self.bytes += bytes;
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.revisions >= other.revisions && self.bytes >= other.bytes
    }
}

/// What the objects of a change's namespace may come to. Only a change that adds to them is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaAllowance {
    /// Who set it, for the refusal.
    pub quota: String,
    /// What it limits, for the refusal.
    pub word: String,
    pub measure: Measure,
    pub scope: AllowanceScope,
    pub most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Objects,
    Bytes,
}

/// Which kinds an allowance is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowanceScope {
    Only(GroupResource),
    AllBut(Arc<[GroupResource]>),
}

impl AllowanceScope {
    #[must_use]
    pub fn covers(&self, kind: &GroupResource) -> bool {
        match self {
            Self::Only(only) => only == kind,
            Self::AllBut(others) => !others.contains(kind),
        }
    }
}

impl QuotaAllowance {
    /// What of it is used, of what stands in the namespace.
    #[must_use]
    pub fn used(&self, standing: &BTreeMap<GroupResource, StoredUsage>) -> u64 {
        standing.iter().filter(|(kind, _)| self.scope.covers(kind)).map(|(_, usage)| self.measure.of(usage)).sum()
    }
}

impl Measure {
    fn of(self, usage: &StoredUsage) -> u64 {
        match self {
            Self::Objects => usage.objects,
            Self::Bytes => usage.bytes,
        }
    }
}

/// An allowance that a change would have exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub quota: String,
    pub word: String,
    pub requested: u64,
    pub used: u64,
    pub most: u64,
}

/// A change, as far as it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MeteredChange {
    pub(crate) kind: GroupResource,
    pub(crate) namespace: String,
    pub(crate) event: ChangeKind,
    pub(crate) bytes: u64,
    /// Bytes of the value that it replaces.
    pub(crate) previous: u64,
}

/// What a change adds, or takes away.
struct UsageDelta {
    objects: i64,
    bytes: i64,
    history_revisions: i64,
    history_bytes: i64,
}

impl MeteredChange {
    pub(crate) fn of(key: &ObjectKey, event: ChangeKind, bytes: usize, previous: usize) -> Self {
        let (bytes, previous) = (bytes as u64, previous as u64);
        Self { kind: key.kind.clone(), namespace: key.namespace.clone(), event, bytes, previous }
    }

    fn delta(&self) -> UsageDelta {
        let (bytes, previous) = (self.bytes.cast_signed(), self.previous.cast_signed());
        match self.event {
            ChangeKind::Created => UsageDelta { objects: 1, bytes, history_revisions: 0, history_bytes: 0 },
            ChangeKind::Updated => {
                UsageDelta { objects: 0, bytes: bytes - previous, history_revisions: 1, history_bytes: previous }
            }
            // What stood before it, and the deletion itself.
            ChangeKind::Deleted => {
                UsageDelta { objects: -1, bytes: -previous, history_revisions: 2, history_bytes: bytes + previous }
            }
        }
    }

    /// How much it adds to what stands.
    fn adds(&self, measure: Measure) -> u64 {
        let delta = self.delta();
        let added = match measure {
            Measure::Objects => delta.objects,
            Measure::Bytes => delta.bytes,
        };
        u64::try_from(added).unwrap_or(0)
    }
}

/// What there is up to a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    revision: Revision,
    kinds: BTreeMap<GroupResource, KindMeter>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KindMeter {
    history: HistorySize,
    standing: StoredUsage,
    namespaces: BTreeMap<String, StoredUsage>,
}

impl Meter {
    pub(crate) fn at(revision: Revision) -> Self {
        Self { revision, kinds: BTreeMap::new() }
    }

    /// The revision up to which the meter counts.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// All changes up to there are counted.
    pub(crate) fn reached(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// Values have other lengths now: it is to be counted again.
    pub(crate) fn mark_stale(&mut self) {
        self.revision = Revision(u64::MAX);
    }

    /// Takes in objects of a kind in a namespace that stand.
    pub(crate) fn count_standing(&mut self, kind: &GroupResource, namespace: &str, usage: StoredUsage) {
        let meter = self.kinds.entry(kind.clone()).or_default();
        meter.standing.objects += usage.objects;
        meter.standing.bytes += usage.bytes;
        let own = meter.namespaces.entry(namespace.to_owned()).or_default();
        own.objects += usage.objects;
        own.bytes += usage.bytes;
    }

    /// Takes in rows of a kind that are history.
    pub(crate) fn count_history(&mut self, kind: &GroupResource, size: HistorySize) {
        let history = &mut self.kinds.entry(kind.clone()).or_default().history;
        history.revisions += size.revisions;
        history.bytes += size.bytes;
    }

    pub(crate) fn apply(&mut self, change: &MeteredChange) {
        self.add(change, &change.delta());
    }

    /// Takes a change back that was not stored after all.
    pub(crate) fn revert(&mut self, change: &MeteredChange) {
        let UsageDelta { objects, bytes, history_revisions, history_bytes } = change.delta();
        let back = UsageDelta {
            objects: -objects,
            bytes: -bytes,
            history_revisions: -history_revisions,
            history_bytes: -history_bytes,
        };
        self.add(change, &back);
    }

    fn add(&mut self, change: &MeteredChange, delta: &UsageDelta) {
        if !self.kinds.contains_key(&change.kind) {
            self.kinds.insert(change.kind.clone(), KindMeter::default());
        }
        let Some(meter) = self.kinds.get_mut(&change.kind) else { return };
        let add = |count: &mut u64, by: i64| *count = count.saturating_add_signed(by);
        add(&mut meter.history.revisions, delta.history_revisions);
        add(&mut meter.history.bytes, delta.history_bytes);
        add(&mut meter.standing.objects, delta.objects);
        add(&mut meter.standing.bytes, delta.bytes);
        let mut own = meter.namespaces.get(&change.namespace).copied().unwrap_or_default();
        add(&mut own.objects, delta.objects);
        add(&mut own.bytes, delta.bytes);
        if own.objects == 0 {
            meter.namespaces.remove(&change.namespace);
        } else {
            meter.namespaces.insert(change.namespace.clone(), own);
        }
    }

    /// A row of the history is gone.
    pub(crate) fn freed(&mut self, kind: &GroupResource, bytes: u64) {
        if let Some(meter) = self.kinds.get_mut(kind) {
            meter.history.revisions = meter.history.revisions.saturating_sub(1);
            meter.history.bytes = meter.history.bytes.saturating_sub(bytes);
        }
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &GroupResource> {
        self.kinds.keys()
    }

    /// How much of a kind's history has to go, where there is more than may be.
    pub(crate) fn excess(&self, kind: &GroupResource, limits: HistoryLimits) -> Option<HistorySize> {
        let KindMeter { history, standing, .. } = self.kinds.get(kind)?;
        let bytes_max = limits.bytes.max(standing.bytes / STANDING_PARTS);
        if history.bytes <= bytes_max && history.revisions <= limits.revisions {
            return None;
        }
        let over = |have: u64, most: u64| {
            if have <= most { 0 } else { have - (most - most / HYSTERESIS_PARTS) }
        };
        Some(HistorySize {
            revisions: over(history.revisions, limits.revisions),
            bytes: over(history.bytes, bytes_max),
        })
    }

    /// What stands in a namespace, by kind.
    pub(crate) fn usage(&self, namespace: &str) -> BTreeMap<GroupResource, StoredUsage> {
        let of_kind =
            |(kind, meter): (&GroupResource, &KindMeter)| Some((kind.clone(), *meter.namespaces.get(namespace)?));
        self.kinds.iter().filter_map(of_kind).collect()
    }

    /// Which allowances a change would exceed; none where it may be made.
    pub(crate) fn check(&self, change: &MeteredChange, allowances: &[QuotaAllowance]) -> Vec<Exceeded> {
        if allowances.is_empty() { Vec::new() } else { exceeded(change, &self.usage(&change.namespace), allowances) }
    }
}

/// Which allowances a change would exceed where so much stands in its namespace.
pub(crate) fn exceeded(
    change: &MeteredChange,
    standing: &BTreeMap<GroupResource, StoredUsage>,
    allowances: &[QuotaAllowance],
) -> Vec<Exceeded> {
    let by = |allowance: &QuotaAllowance| {
        let requested = if allowance.scope.covers(&change.kind) { change.adds(allowance.measure) } else { 0 };
        let used = allowance.used(standing);
        let is_over = requested > 0 && used.saturating_add(requested) > allowance.most;
        is_over.then(|| Exceeded {
            quota: allowance.quota.clone(),
            word: allowance.word.clone(),
            requested,
            used,
            most: allowance.most,
        })
    };
    allowances.iter().filter_map(by).collect()
}

/// The terms of a change.
#[derive(Clone, Debug)]
pub struct CommitTerms {
    /// Whether it may use what is kept for a full disk.
    pub spending: ReserveUse,
    /// It is refused where it adds more to its namespace. That is judged in the transaction of the change: of several
    /// that come at once, no more is stored than fits.
    pub allowances: Vec<QuotaAllowance>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    fn kind(name: &str) -> GroupResource {
        GroupResource::new("", name)
    }

    fn change(name: &str, event: ChangeKind, bytes: usize, previous: usize) -> MeteredChange {
        MeteredChange::of(&ObjectKey::new(&kind(name), "a", "x"), event, bytes, previous)
    }

    #[test]
    fn a_value_stands_until_it_is_replaced_and_is_history_until_it_is_gone() {
        let mut meter = Meter::default();
        meter.apply(&change("maps", ChangeKind::Created, 100, 0));
        meter.apply(&change("maps", ChangeKind::Updated, 30, 100));
        assert_eq!(meter.usage("a")[&kind("maps")], StoredUsage { objects: 1, bytes: 30 });
        assert_eq!(meter.kinds[&kind("maps")].history, HistorySize { revisions: 1, bytes: 100 });
        meter.apply(&change("maps", ChangeKind::Deleted, 40, 30));
        assert!(meter.usage("a").is_empty(), "nothing is kept of a namespace in which nothing is");
        assert_eq!(meter.kinds[&kind("maps")].history, HistorySize { revisions: 3, bytes: 170 });
        meter.freed(&kind("maps"), 100);
        assert_eq!(meter.kinds[&kind("maps")].history, HistorySize { revisions: 2, bytes: 70 });
    }

    #[test]
    fn a_history_that_is_too_long_is_shortened_by_more_than_the_last_change() {
        let limits = HistoryLimits { bytes: 1000, revisions: 8 };
        let mut meter = Meter::default();
        meter.count_history(&kind("maps"), HistorySize { revisions: 8, bytes: 1000 });
        assert_eq!(meter.excess(&kind("maps"), limits), None);
        meter.count_history(&kind("maps"), HistorySize { revisions: 0, bytes: 1 });
        assert_eq!(meter.excess(&kind("maps"), limits), Some(HistorySize { revisions: 0, bytes: 251 }));
        meter.count_history(&kind("maps"), HistorySize { revisions: 1, bytes: 0 });
        assert_eq!(meter.excess(&kind("maps"), limits).unwrap().revisions, 3);
        // What stands has a share: ten thousand hosts have a longer history than three.
        meter.count_standing(&kind("maps"), "a", StoredUsage { objects: 5, bytes: 8000 });
        assert_eq!(meter.excess(&kind("maps"), limits), Some(HistorySize { revisions: 3, bytes: 0 }));
        assert_eq!(meter.excess(&kind("none"), limits), None);
    }

    #[test]
    fn only_what_adds_to_a_limited_kind_is_refused() {
        let mut meter = Meter::default();
        meter.count_standing(&kind("maps"), "a", StoredUsage { objects: 2, bytes: 90 });
        meter.count_standing(&kind("records"), "a", StoredUsage { objects: 50, bytes: 9000 });
        let allowance = |word: &str, measure, scope, most| QuotaAllowance {
            quota: "q".into(),
            word: word.into(),
            measure,
            scope,
            most,
        };
        let allowances = [
            allowance("count/maps", Measure::Objects, AllowanceScope::Only(kind("maps")), 2),
            allowance("bytes", Measure::Bytes, AllowanceScope::AllBut([kind("records")].into()), 100),
        ];
        let exceeded = meter.check(&change("maps", ChangeKind::Created, 20, 0), &allowances);
        let words: Vec<_> = exceeded.iter().map(|found| (found.word.as_str(), found.requested, found.used)).collect();
        assert_eq!(words, [("count/maps", 1, 2), ("bytes", 20, 90)]);
        for fits in [
            change("maps", ChangeKind::Updated, 50, 40),
            change("maps", ChangeKind::Updated, 10, 90),
            change("maps", ChangeKind::Deleted, 9000, 40),
            change("records", ChangeKind::Created, 9000, 0),
            change("secrets", ChangeKind::Created, 10, 0),
        ] {
            assert_eq!(meter.check(&fits, &allowances), [], "{fits:?}");
        }
        assert_eq!(meter.check(&change("maps", ChangeKind::Updated, 51, 40), &allowances)[0].word, "bytes");
        let elsewhere = MeteredChange { namespace: "b".into(), ..change("maps", ChangeKind::Created, 99, 0) };
        assert_eq!(meter.check(&elsewhere, &allowances), []);
    }

    proptest! {
        #[test]
        fn what_is_taken_back_leaves_nothing(changes in prop::collection::vec((0_u8..3, 0_usize..9, 0_usize..9), 1..20)) {
            let mut meter = Meter::default();
            meter.count_standing(&kind("maps"), "a", StoredUsage { objects: 100, bytes: 10_000 });
            let before = meter.clone();
            let changes: Vec<MeteredChange> = changes
                .into_iter()
                .map(|(event, bytes, previous)| match event {
                    0 => change("maps", ChangeKind::Created, bytes, 0),
                    1 => change("maps", ChangeKind::Updated, bytes, previous),
                    _ => change("maps", ChangeKind::Deleted, bytes, previous),
                })
                .collect();
            changes.iter().for_each(|change| meter.apply(change));
            changes.iter().rev().for_each(|change| meter.revert(change));
            prop_assert_eq!(meter, before);
        }
    }
}
