//! What may be written when room is short, and by whom.
//!
//! ```text
//!   the disk:  │ used │          free          │ kept │ reserve (a file) │
//!                      ordinary changes end here ┘      │
//!                      what matters goes on here ─────┴──► piece by piece; its last part at a start
//! ```
//!
//! Ordinary changes are refused while SQLite still has room, so that none of them fails in the middle. What
//! matters on a full disk ([`ReserveUse::Reserved`]: leases of known hosts, halts, deletions, the planner's memory)
//! goes on in what is kept, and then in a file that is given back to the file system in pieces. Others may have
//! taken all that is free; the file is what they cannot take.
//!
//! One [`StoreRoom`] is shared by all databases of a folder.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::reserve::ReserveFile;

/// The reserve on a disk that is not small: some thousand small changes, or a deletion of the largest object.
const RESERVE_BYTES: u64 = 8 << 20;
/// The share of a small disk: one part in so many.
const RESERVE_SHARE: u64 = 6;
/// What ordinary changes leave free beside it.
const KEPT_BYTES: u64 = 4 << 20;
const KEPT_SHARE: u64 = 12;
/// The part of the reserve that a start alone may use: it makes the files beside both databases again.
const START_BYTES: u64 = 512 << 10;
/// What is set aside at once: no writer waits for more of it to be on the disk.
const REFILL_BYTES: u64 = 1 << 20;
/// The least that is given back at once.
const PIECE_BYTES: u64 = 64 << 10;
/// Pages of tables and indexes that any change rewrites, in the log and behind it.
const CHANGE_BYTES: u64 = 16 << 10;
/// A usual object: while there is no room for one, changes are said to be refused, though a smaller one may be taken.
const SMALL_BYTES: usize = 8 << 10;

/// Whether a change may be stored with what is kept for emergencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveUse {
    /// It is refused when room is short.
    Ordinary,
    /// It is one of those that a full disk must not stop.
    Reserved,
}

/// What a file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskBytes {
    pub free: u64,
    pub total: u64,
}

/// Looks at the file system of the data folder.
pub type LookAtDisk = Box<dyn Fn() -> io::Result<DiskBytes> + Send + Sync>;

/// What can be stored now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageStatus {
    pub reserve_bytes: u64,
    /// Bytes of the reserve when it is whole.
    pub reserve_bytes_full: u64,
    /// Why ordinary changes are refused.
    pub refused: Option<String>,
    /// Why even leases, halts and deletions are not stored, for each database of which this is so.
    pub unwritable: Option<String>,
}

/// How much of a disk is kept from ordinary changes. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiskLimit {
    reserve: u64,
    kept: u64,
}

impl DiskLimit {
    fn of(total: u64) -> Self {
        Self { reserve: RESERVE_BYTES.min(total / RESERVE_SHARE), kept: KEPT_BYTES.min(total / KEPT_SHARE) }
    }

    /// What ordinary changes may use, where the reserve holds so much and the databases will need `owed` bytes to put
    /// what is in their logs in its place.
    fn ordinary_room(self, free: u64, held: u64, owed: u64) -> u64 {
        free.saturating_sub(self.kept).saturating_sub(self.reserve.saturating_sub(held)).saturating_sub(owed)
    }

    /// How much the reserve may grow.
    fn growth(self, free: u64, held: u64) -> u64 {
        self.reserve.saturating_sub(held).min(free.saturating_sub(self.kept))
    }

    /// What of the reserve stays for a start.
    fn floor(self) -> u64 {
        START_BYTES.min(self.reserve / 4)
    }
}

/// What a batch of ordinary changes may still use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChangeBudget {
    /// Bytes that ordinary changes may still use; `None` for no limit.
    left: Option<u64>,
}

impl ChangeBudget {
    /// Takes what a change with a value of so many bytes needs; false where there is not enough.
    pub(crate) fn takes(&mut self, bytes: usize) -> bool {
        let Some(left) = &mut self.left else { return true };
        match left.checked_sub(needed(bytes)) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => false,
        }
    }
}

/// A value is written twice: to the log, and from there to its place.
fn needed(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(2).saturating_add(CHANGE_BYTES)
}

/// The room of one data folder.
pub struct StoreRoom {
    look: LookAtDisk,
    limit: DiskLimit,
    reserve: Mutex<ReserveFile>,
    owed: AtomicU64,
    /// Why the last change that matters was not stored, by database.
    failed: Mutex<BTreeMap<&'static str, String>>,
}

impl fmt::Debug for StoreRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRoom").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl StoreRoom {
    /// Takes over the reserve in this file, or sets it aside as far as there is room. Never fails: a start must not
    /// depend on it.
    pub fn open(reserve: &Path, look: LookAtDisk) -> Self {
        let limit = match look() {
            Ok(disk) => DiskLimit::of(disk.total),
            Err(error) => {
                tracing::warn!(%error, "the disk of the data folder cannot be looked at: no room is set aside");
                DiskLimit { reserve: 0, kept: 0 }
            }
        };
        let mut file = ReserveFile::open(reserve);
        if file.bytes() > limit.reserve {
            file.shrink(file.bytes() - limit.reserve, 0);
        }
        let room = Self { look, limit, reserve: Mutex::new(file), owed: AtomicU64::new(0), failed: Mutex::default() };
        room.refill();
        room
    }

    /// Sets aside what is missing of the reserve, as far as there is room. Blocks.
    pub fn refill(&self) {
        let Ok(disk) = (self.look)() else { return };
        let held = self.reserve().bytes();
        let growth = self.limit.growth(disk.free, held);
        let wanted = held + growth;
        // Less is not worth a flush, unless it makes the reserve whole.
        if growth == 0 || (growth < PIECE_BYTES && wanted < self.limit.reserve) {
            return;
        }
        loop {
            // Writers ask for its length between two parts.
            let mut reserve = self.reserve();
            let to = wanted.min(reserve.bytes() + REFILL_BYTES);
            if to <= reserve.bytes() {
                return;
            }
            if let Err(error) = reserve.grow(to) {
                tracing::debug!(%error, "the reserve on the disk is not filled");
                return;
            }
        }
    }

    /// Gives back at least so many bytes of the reserve; false if none is left for writes.
    pub fn release(&self, bytes: u64) -> bool {
        self.reserve().shrink(bytes.max(PIECE_BYTES), self.limit.floor())
    }

    /// Releases what a start needs, to the last byte.
    pub fn release_for_start(&self) -> bool {
        self.reserve().shrink(PIECE_BYTES, 0)
    }

    /// Whether there is room for an ordinary change with so many bytes.
    pub fn admits(&self, bytes: usize) -> bool {
        self.budget().takes(bytes)
    }

    /// Why there is none.
    pub fn why_refused(&self) -> String {
        let kib = (self.look)().map_or(0, |disk| disk.free >> 10);
        format!(
            "the disk is full: {kib} KiB are free, which are kept for leases, halts and deletions; free space on the \
             disk of the data folder, or delete objects"
        )
    }

    /// Notes whether a change that matters could be stored in a database, which is named for people.
    pub fn noted(&self, database: &'static str, failure: Option<String>) {
        let mut failed = self.failed();
        match failure {
            Some(why) => drop(failed.insert(database, why)),
            None => drop(failed.remove(database)),
        }
    }

    /// Whether such a change of this database could not be stored the last time.
    pub fn has_failed(&self, database: &'static str) -> bool {
        self.failed().contains_key(database)
    }

    /// What can be stored now.
    pub fn standing(&self) -> StorageStatus {
        let unwritable: Vec<String> = self.failed().iter().map(|(name, why)| format!("{name}: {why}")).collect();
        // The lock is let go before the next line asks for it again.
        let reserve_bytes = self.reserve().bytes();
        StorageStatus {
            reserve_bytes,
            reserve_bytes_full: self.limit.reserve,
            refused: (!self.admits(SMALL_BYTES)).then(|| self.why_refused()),
            unwritable: (!unwritable.is_empty()).then(|| unwritable.join("; ")),
        }
    }

    /// Whether the disk has so many bytes free, whatever they are kept for.
    pub(crate) fn can_grow(&self, bytes: u64) -> bool {
        (self.look)().map_or(true, |disk| disk.total == 0 || disk.free >= bytes)
    }

    /// Gives as much of the reserve back as the disk lacks of so many bytes; false where that is more than there is,
    /// and nothing is given then. For what gives back more than it takes.
    pub(crate) fn let_grow(&self, bytes: u64) -> bool {
        let Some(disk) = (self.look)().ok().filter(|disk| disk.total > 0) else { return true };
        if disk.free >= bytes {
            return true;
        }
        let missing = bytes - disk.free + PIECE_BYTES;
        let mut reserve = self.reserve();
        let floor = self.limit.floor();
        reserve.bytes().saturating_sub(floor) >= missing && reserve.shrink(missing, floor)
    }

    pub(crate) fn budget(&self) -> ChangeBudget {
        let held = self.reserve().bytes();
        let owed = self.owed.load(Ordering::Relaxed);
        // A disk that does not say what it has is written until it refuses.
        let disk = (self.look)().ok().filter(|disk| disk.total > 0);
        ChangeBudget { left: disk.map(|disk| self.limit.ordinary_room(disk.free, held, owed)) }
    }

    /// Notes by how much a database will grow when its log is put in its place.
    pub(crate) fn add_pending_pages(&self, bytes: u64) {
        self.owed.store(bytes, Ordering::Relaxed);
    }

    fn reserve(&self) -> MutexGuard<'_, ReserveFile> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Arc;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A disk whose free room the test says.
    fn disk(total: u64, free: u64) -> (Arc<AtomicU64>, LookAtDisk) {
        let shared = Arc::new(AtomicU64::new(free));
        let looked = Arc::clone(&shared);
        (shared, Box::new(move || Ok(DiskBytes { free: looked.load(Ordering::Relaxed), total })))
    }

    #[test]
    fn a_small_disk_keeps_a_share_and_a_large_one_a_few_mebibytes() {
        assert_eq!(DiskLimit::of(48 * MIB), DiskLimit { reserve: 8 * MIB, kept: 4 * MIB });
        assert_eq!(DiskLimit::of(24 * MIB), DiskLimit { reserve: 4 * MIB, kept: 2 * MIB });
        assert_eq!(DiskLimit::of(u64::MAX), DiskLimit { reserve: 8 * MIB, kept: 4 * MIB });
        assert_eq!(DiskLimit::of(0), DiskLimit { reserve: 0, kept: 0 });
    }

    #[test]
    fn ordinary_changes_leave_what_is_kept_owed_and_missing_of_the_reserve() {
        let limit = DiskLimit::of(48 * MIB);
        assert_eq!(limit.ordinary_room(20 * MIB, 8 * MIB, 0), 16 * MIB);
        assert_eq!(limit.ordinary_room(20 * MIB, 5 * MIB, 0), 13 * MIB, "what is missing of the reserve comes first");
        assert_eq!(limit.ordinary_room(20 * MIB, 8 * MIB, 10 * MIB), 6 * MIB, "the log has to be put in its place");
        assert_eq!(limit.ordinary_room(3 * MIB, 8 * MIB, 0), 0);
        assert_eq!((limit.growth(6 * MIB, 5 * MIB), limit.growth(40 * MIB, 5 * MIB)), (2 * MIB, 3 * MIB));
        assert_eq!((limit.growth(4 * MIB, 0), limit.growth(40 * MIB, 8 * MIB)), (0, 0));
    }

    #[test]
    fn a_budget_is_used_up_change_by_change() {
        let mut budget = ChangeBudget { left: Some(3 * CHANGE_BYTES + 2000) };
        assert!(budget.takes(1000) && !budget.takes(usize::MAX >> 20) && budget.takes(0) && budget.takes(0));
        assert!(!budget.takes(0));
        assert!(ChangeBudget { left: None }.takes(1 << 30));
    }

    #[test]
    fn the_reserve_is_set_aside_used_and_filled_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let (free, look) = disk(48 * MIB, 40 * MIB);
        let room = StoreRoom::open(&path, look);
        let whole =
            StorageStatus { reserve_bytes: 8 * MIB, reserve_bytes_full: 8 * MIB, refused: None, unwritable: None };
        assert_eq!(room.standing(), whole);
        assert!(room.admits(1 << 20));

        free.store(4 * MIB + 100_000, Ordering::Relaxed);
        assert!(room.admits(1000) && !room.admits(1 << 20), "small changes go on for longer");
        free.store(0, Ordering::Relaxed);
        assert!(room.standing().refused.is_some_and(|why| why.contains("disk is full")));
        let mut given = 0;
        while room.release(MIB) {
            given += 1;
        }
        assert_eq!((given, room.standing().reserve_bytes), (8, START_BYTES), "a start has its part still");
        assert!(room.release_for_start());
        room.refill();
        assert_eq!(room.standing().reserve_bytes, START_BYTES - PIECE_BYTES, "there is no room for it");
        free.store(40 * MIB, Ordering::Relaxed);
        room.refill();
        assert_eq!(room.standing(), whole);
    }

    #[test]
    fn a_log_is_put_in_its_place_with_the_reserve_where_that_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let (free, look) = disk(48 * MIB, 40 * MIB);
        let room = StoreRoom::open(&folder.path().join("reserve"), look);
        assert!(room.can_grow(40 * MIB) && room.let_grow(40 * MIB));
        free.store(0, Ordering::Relaxed);
        assert!(!room.can_grow(1) && !room.let_grow(9 * MIB));
        assert_eq!(room.standing().reserve_bytes, 8 * MIB, "what would not be enough is not given");
        assert!(room.let_grow(MIB));
        assert_eq!(room.standing().reserve_bytes, 7 * MIB - PIECE_BYTES);
    }

    #[test]
    fn what_could_not_be_stored_is_named_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let room = StoreRoom::open(&folder.path().join("reserve"), disk(0, 0).1);
        room.noted("leases", Some("read-only".into()));
        room.noted("objects", Some("full".into()));
        assert_eq!(room.standing().unwritable.as_deref(), Some("leases: read-only; objects: full"));
        room.noted("leases", None);
        assert!(room.has_failed("objects") && !room.has_failed("leases"));
        room.noted("objects", None);
        assert_eq!(room.standing().unwritable, None);
    }
}
