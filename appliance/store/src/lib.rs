//! The store of objects: keys, revisions, compare-and-swap, watch, compaction. `firesteel_kube` calls it for objects,
//! and the appliance for backup, restore and upkeep.
//!
//! An object is bytes under a [`ObjectKey`]. One counter, the [`Revision`], numbers every change of every
//! object in the order in which they became durable, and **one revision is one event of one
//! object**, so that a watch can resume after any revision without splitting a change in two.
//!
//! ```text
//!   commit ──► queue ──► writer thread: checks, writes, one fsync per batch ──► answers
//!                                   │
//!                                   └──► hub: recent events in memory ──► all live watches
//!   get, list, a watch's history ──► reader threads (snapshots of the same database)
//! ```
//!
//! History is kept until it is compacted, in small steps between other writes ([`Compactor`] says
//! when). Until then a list can be read, and paged through, as of any revision, and a watch can start
//! at any. If a kind's objects change often and their past is of little use, more of its history may
//! go ([`Store::compact_kind`]). No kind's history is longer than [`HistoryLimits`] say, whatever its age. The log of a
//! database exceeds [`LOG_BYTES_MAX`] no longer than a reader reads. [`RECENT_BYTES_MAX`] bounds what watches share in
//! memory.
//!
//! Existing objects are counted by namespace and kind, and a change may be bound to what is allowed there
//! ([`QuotaAllowance`]).
//!
//! A copy of all that is there at one revision can be made at any time ([`Store::snapshot`]). When it becomes a
//! store again ([`restore`]), it begins another epoch of its [`Lineage`], whose revisions are above
//! any that a client saw.
//!
//! Values of kinds that the caller names are sealed on disk ([`SealingKeys`]).
//!
//! When room is short, ordinary changes are refused before the database fails, and those that matter go on
//! with a reserve ([`StoreRoom`]).
//!
//! Each value has a checksum, which is compared whenever it is read. What is damaged is an error that
//! names its object, and never an absence ([`DamageReport`]).
//!
//! What is acknowledged is on disk. Nothing here knows what the bytes mean: no kinds, no JSON, and no clock but the one
//! that times flushes ([`Flushes`]); the caller gives all other times ([`RecordedTime`]). The futures need no
//! particular runtime, because threads of the store do the work.
//!
//! A second backend, [`memory`], does the same without file and threads, for simulations that kill
//! the process at every write.

mod compactor;
#[cfg(test)]
mod conformance;
mod damage;
mod durability;
mod error;
mod flushes;
mod high_water;
mod hub;
mod lineage;
pub mod memory;
mod meter;
mod reads;
mod recorded_time;
mod reserve;
mod seal;
mod sqlite;
mod store;
mod store_room;
mod types;
mod watch;

pub use compactor::{Compactor, Retention};
pub use damage::{DAMAGES_MAX, Damage, DamageCause, DamageReport, PageRead};
pub use durability::Durability;
pub use error::{
    CommitError, ResealError, RestoreError, SnapshotError, StoreOpenError, StoreReadError, WatchError, disk_is_full,
    disk_is_full_at_start,
};
pub use flushes::{FLUSH_BOUNDS_US, Flushes};
pub use high_water::{HighWater, LOG_BYTES_MAX};
pub use hub::{HubEvent, RECENT_BYTES_MAX, WATCH_EVENTS_MAX};
pub use lineage::{Epoch, Lineage};
pub use memory::MemoryMedium;
pub use meter::{AllowanceScope, CommitTerms, Exceeded, HistoryLimits, Measure, QuotaAllowance, StoredUsage};
pub use recorded_time::RecordedTime;
pub use seal::{KEY_BYTES, KeyId, SealingKeys, ValueSealError};
pub use sqlite::{
    CheckedChanges, Resealed, RestoreContext, RestoredStore, StoreSnapshot, file_is_damaged, restore, revision_of,
};
pub use store::Store;
pub use store_room::{DiskBytes, LookAtDisk, ReserveUse, StorageStatus, StoreRoom};
pub use types::{
    ChangeKind, GroupResource, ListPage, ListRange, ObjectKey, Op, Position, Revision, StoreEvent, StoredObject,
    WritePrecondition,
};
pub use watch::EventStream;

/// The largest object. Above every request body that the API takes (3 MiB), below what would let a
/// handful of objects fill the memory of a small machine.
pub const OBJECT_BYTES_MAX: usize = 4 << 20;

/// The memory for pages of the database, of all threads together.
pub const CACHES_BYTES: usize = sqlite::CACHES_BYTES;

/// The most objects of one page of [`Store::list`].
pub const PAGE_OBJECTS_MAX: usize = 10_000;
