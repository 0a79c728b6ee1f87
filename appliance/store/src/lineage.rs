//! Which store this is, and what became of it: every restore of a backup begins another timeline.
//!
//! ```text
//!   timeline a   1 ── 2 ── … ── 900 ── 901 ── … ── 1200      what was written after the backup is lost
//!                                 └─ backup
//!   timeline b                         1000900 ── 1000901    restored: goes on from 900, epoch 2
//! ```
//!
//! A number alone cannot order what was written against the store, because a backup may be restored twice: both lives
//! would be "epoch 2". A timeline is drawn at random, so a place (timeline, revision) is one moment of one history,
//! forever.

use crate::types::Revision;

/// A restored store begins at least this far above its backup: revisions never go back for a client
/// that saw what was lost.
const EPOCH_REVISIONS: u64 = 1_000_000;
/// Changes in one millisecond, at most, that a lost history can have had: ten times what the store
/// commits on the fastest disks.
const CHANGES_PER_MS: u64 = 100;
/// No timeline of a store grows beyond that: 44 bits, so that a place fits into a disk's mark.
const REVISION_MAX: u64 = (1 << 44) - 1;

/// One store from its first start through all its restores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The store's number, drawn when it was made; 24 bits, never zero.
    pub store: u32,
    /// The epochs, at least one; the last one is written now.
    pub epochs: Vec<Epoch>,
}

/// The life of a store from its making or a restore to the next restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The timeline's number, drawn when it began; never zero.
    pub timeline: u32,
    /// The last revision of the epoch before that this one goes on from; zero in the first.
    pub continues: Revision,
    /// The revision at which it began.
    pub began: Revision,
    /// When, in Unix milliseconds; zero in the first.
    pub began_ms: i64,
}

impl Default for Lineage {
    /// The lineage of every store in memory: a simulation draws nothing by itself.
    fn default() -> Self {
        Self::new(1, 1)
    }
}

impl Lineage {
    pub(crate) fn new(store: u32, timeline: u32) -> Self {
        let first = Epoch { timeline, continues: Revision(0), began: Revision(0), began_ms: 0 };
        Self { store, epochs: vec![first] }
    }

    /// The timeline that is written now.
    pub fn timeline(&self) -> u32 {
        self.epochs.last().map_or(0, |epoch| epoch.timeline)
    }

    /// The last revision of each timeline that this store knows; of the current one it is `current`.
    pub fn known(&self, current: Revision) -> impl Iterator<Item = (u32, Revision)> {
        let next = self.epochs.iter().skip(1).map(|epoch| epoch.continues).chain([current]);
        self.epochs.iter().map(|epoch| epoch.timeline).zip(next)
    }
}

/// Where a store begins that is restored from a backup of revision `from`, made `age_ms` ago, while
/// the store that it replaces, if that is still there, stands at `replaced`.
pub(crate) fn first_revision(from: Revision, age_ms: i64, replaced: Option<Revision>) -> Revision {
    let lost_max = u64::try_from(age_ms).unwrap_or(0).saturating_mul(CHANGES_PER_MS);
    let newest = from.0.saturating_add(lost_max).min(REVISION_MAX / 2).max(from.0);
    let newest = newest.max(replaced.unwrap_or_default().0);
    Revision(newest.saturating_add(EPOCH_REVISIONS).min(REVISION_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_begins_above_all_that_was_lost() {
        assert_eq!(first_revision(Revision(900), 0, None), Revision(1_000_900));
        assert_eq!(first_revision(Revision(900), -5, None), Revision(1_000_900), "a clock that went back");
        assert_eq!(first_revision(Revision(900), 60_000, None), Revision(7_000_900));
        assert_eq!(first_revision(Revision(900), 0, Some(Revision(5_000_000))), Revision(6_000_000));
        assert!(first_revision(Revision(900), i64::MAX, None).0 <= REVISION_MAX);
    }

    #[test]
    fn each_timeline_is_known_up_to_where_the_next_one_left_it() {
        let mut lineage = Lineage::new(5, 11);
        assert_eq!(lineage.known(Revision(40)).collect::<Vec<_>>(), [(11, Revision(40))]);
        let epoch = Epoch { timeline: 22, continues: Revision(30), began: Revision(1_000_030), began_ms: 7 };
        lineage.epochs.push(epoch);
        let known: Vec<_> = lineage.known(Revision(1_000_031)).collect();
        assert_eq!(known, [(11, Revision(30)), (22, Revision(1_000_031))]);
        assert_eq!(lineage.timeline(), 22);
    }
}
