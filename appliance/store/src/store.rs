//! The handle that everybody uses, on one of two backends that pass the same `conformance` suite:
//! the SQLite file that a process serves from, and [`MemoryMedium`] for simulations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{oneshot, watch};

use crate::damage::{Damage, DamageBook, DamageReport, PageRead};
use crate::durability::Durability;
use crate::error::{CommitError, ResealError, SnapshotError, StoreOpenError, StoreReadError, WatchError};
use crate::flushes::Flushes;
use crate::hub::Hub;
use crate::lineage::Lineage;
use crate::memory::{MemoryMedium, OpenMemoryStore};
use crate::meter::{self, CommitTerms, Exceeded, HistoryLimits, MeteredChange, QuotaAllowance, StoredUsage};
use crate::reads::Reads;
use crate::recorded_time::RecordedTime;
use crate::seal::{KeyId, SealingKeys};
use crate::sqlite::{self, CheckedChanges, Commit, Resealed, ScrubStep, Sqlite, StoreSnapshot, StoreWriterCommand};
use crate::store_room::{ReserveUse, StorageStatus, StoreRoom};
use crate::types::{GroupResource, ListPage, ListRange, ObjectKey, Op, Revision, StoredObject, WritePrecondition};
use crate::watch::EventStream;
use crate::{OBJECT_BYTES_MAX, PAGE_OBJECTS_MAX};

/// Steps of a scrub that wait for readers, a quarter of a second each.
const SCRUB_WAITS_MAX: u32 = 40;

/// An open store. Clones share it; it closes with the last one.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<StoreCore>,
}

#[derive(Debug)]
struct StoreCore {
    backend: StoreBackend,
    hub: Arc<Hub>,
    lineage: Lineage,
    recorded: Mutex<RecordedTime>,
}

#[derive(Debug)]
enum StoreBackend {
    Sqlite(Sqlite),
    Memory(Arc<OpenMemoryStore>),
}

impl Store {
    /// Opens the database file, or makes it. Blocks for some milliseconds.
    pub fn open(path: &Path) -> Result<Self, StoreOpenError> {
        Self::open_with(path, Durability::PowerCut)
    }

    /// Opens a store with another durability; see there for its uses.
    pub fn open_with(path: &Path, durability: Durability) -> Result<Self, StoreOpenError> {
        Self::open_sealed(path, durability, None)
    }

    /// Opens a store that seals values of chosen kinds on disk. What is written from now on is sealed; what is there in
    /// the clear, or by an older key of the keyring, stays as it is until [`Store::reseal`].
    pub fn open_sealed(
        path: &Path,
        durability: Durability,
        keyring: Option<Arc<SealingKeys>>,
    ) -> Result<Self, StoreOpenError> {
        Self::open_in(path, durability, keyring, None)
    }

    /// Opens a store in a folder whose room is kept for what matters.
    pub fn open_in(
        path: &Path,
        durability: Durability,
        keyring: Option<Arc<SealingKeys>>,
        room: Option<Arc<StoreRoom>>,
    ) -> Result<Self, StoreOpenError> {
        let (sqlite, hub) = Sqlite::open(path, durability, keyring, room)?;
        let (lineage, recorded) = (sqlite.lineage.clone(), Mutex::new(sqlite.recorded));
        Ok(Self { inner: Arc::new(StoreCore { backend: StoreBackend::Sqlite(sqlite), hub, lineage, recorded }) })
    }

    /// The key without which the database cannot be opened; none where nothing in it is sealed, or where
    /// there is no database.
    pub fn needs_key(path: &Path) -> Result<Option<KeyId>, StoreOpenError> {
        Sqlite::needs_key(path)
    }

    /// Opens a store on what is in this process's memory. One at a time: the watchers of another
    /// would not hear of changes.
    pub fn in_memory(memory: &MemoryMedium) -> Self {
        let (opened, hub) = OpenMemoryStore::new(memory);
        let (lineage, recorded) = (memory.lineage(), Mutex::new(memory.recorded()));
        Self { inner: Arc::new(StoreCore { backend: StoreBackend::Memory(opened), hub, lineage, recorded }) }
    }

    /// What was recorded of time, last of all by this process.
    pub fn recorded_time(&self) -> RecordedTime {
        *self.inner.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps these times in the place of what was recorded before. They are no change of an object and take no
    /// revision. When this returns `Ok`, they are on disk.
    pub async fn record_time(&self, time: RecordedTime) -> Result<(), CommitError> {
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => {
                let answered = command(sqlite, |answer| StoreWriterCommand::RecordTime { time, answer }).await;
                answered.unwrap_or(Err(CommitError::Closed))?;
            }
            StoreBackend::Memory(opened) => opened.record_time(time),
        }
        *self.inner.recorded.lock().unwrap_or_else(PoisonError::into_inner) = time;
        Ok(())
    }

    /// Who this store is, and its restores.
    pub fn lineage(&self) -> &Lineage {
        &self.inner.lineage
    }

    /// Copies the database as of one revision into a new file, while others write. Every change that
    /// was acknowledged before is in it. Blocks for as long as the disk needs.
    pub fn snapshot(&self, into: &Path) -> Result<StoreSnapshot, SnapshotError> {
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => sqlite::snapshot(&sqlite.path, into),
            StoreBackend::Memory(_) => Err(SnapshotError::InMemory),
        }
    }

    /// How much room the next copy needs at most. Blocks for a moment.
    pub fn snapshot_bytes_max(&self) -> Result<u64, SnapshotError> {
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => sqlite::size_bytes(&sqlite.path).map_err(SnapshotError::Database),
            StoreBackend::Memory(_) => Err(SnapshotError::InMemory),
        }
    }

    /// How often and how fast changes went to the disk. A store in memory counts none.
    pub fn flushes(&self) -> Flushes {
        self.inner.hub.flushes.read()
    }

    /// The newest revision that every watcher has been given.
    pub fn current(&self) -> Revision {
        self.inner.hub.published()
    }

    /// Waits until the store has reached a revision.
    pub async fn reached(&self, revision: Revision) -> Result<(), StoreReadError> {
        let mut progress = self.inner.hub.progress();
        progress.wait_for(|current| *current >= revision).await.map(drop).map_err(|_| StoreReadError::Closed)
    }

    pub async fn get(&self, key: &ObjectKey) -> Result<Option<StoredObject>, StoreReadError> {
        self.reads()?.object(key).await
    }

    /// Objects in the order of namespace and name, of at most `limit`, and how many there are after them.
    pub async fn list(&self, range: ListRange<'_>, limit: usize) -> Result<ListPage, StoreReadError> {
        let mut page = self.page(range, limit).await?;
        if let Some(last) = page.items.last().filter(|_| page.remaining > 0) {
            let last = last.key.position();
            page.remaining = self.count(ListRange { at: Some(page.revision), after: Some(&last), ..range }).await?;
        }
        Ok(page)
    }

    /// Reads a page without a count: `remaining` is 1 where there are more. Counting takes longer than reading a page.
    ///
    /// A page with a damaged object is an error that names it, for it would seem to be absent.
    pub async fn page(&self, range: ListRange<'_>, limit: usize) -> Result<ListPage, StoreReadError> {
        let PageRead { page, damaged, .. } = self.page_with_damaged(range, limit).await?;
        if damaged.is_empty() { Ok(page) } else { Err(StoreReadError::Damaged(damaged)) }
    }

    /// Reads a page with its damaged objects, for callers that can handle them.
    pub async fn page_with_damaged(&self, range: ListRange<'_>, limit: usize) -> Result<PageRead, StoreReadError> {
        self.reads()?.page(range, limit.clamp(1, PAGE_OBJECTS_MAX)).await
    }

    /// What is known to be damaged. What is read is compared each time, and noted here.
    pub fn damage(&self) -> DamageReport {
        self.damages().report()
    }

    /// The damaged objects of a kind, in one namespace or in all, that are known.
    pub fn damaged(&self, kind: &GroupResource, namespace: Option<&str>) -> Vec<Damage> {
        let mut damaged = self.damages().report().objects;
        damaged.retain(|damage| {
            damage.key.kind == *kind && namespace.is_none_or(|namespace| damage.key.namespace == namespace)
        });
        damaged
    }

    /// Moves with each change of what is known to be damaged.
    pub fn damage_changes(&self) -> watch::Receiver<u64> {
        self.damages().changes()
    }

    /// The kinds that objects are of, or were once.
    pub async fn kinds(&self) -> Result<Vec<GroupResource>, StoreReadError> {
        self.reads()?.kinds().await
    }

    /// Compares a handful of changes after a revision with their checksums, old states included; who
    /// goes on from where it ended has compared all of them in the end.
    pub async fn check_changes(&self, after: Revision) -> Result<CheckedChanges, StoreReadError> {
        self.reads()?.check_changes(after).await
    }

    /// One small step of what a database of an older program lacks; false where nothing is left to do.
    pub async fn add_missing_checksums(&self) -> Result<bool, CommitError> {
        let StoreBackend::Sqlite(sqlite) = &self.inner.backend else { return Ok(false) };
        command(sqlite, |answer| StoreWriterCommand::Settle { answer }).await.unwrap_or(Err(CommitError::Closed))
    }

    fn damages(&self) -> &DamageBook {
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => &sqlite.damages,
            StoreBackend::Memory(opened) => &opened.damages,
        }
    }

    /// How many objects there are.
    pub async fn count(&self, range: ListRange<'_>) -> Result<u64, StoreReadError> {
        self.reads()?.count(range).await
    }

    /// Makes one change if it may be made and every guard holds. When this returns `Ok`, the change
    /// is on disk and live watchers have been given it. A deletion may use the reserve.
    pub async fn commit(&self, op: Op, guards: Vec<WritePrecondition>) -> Result<Revision, CommitError> {
        let spending = if matches!(op, Op::Delete { .. }) { ReserveUse::Reserved } else { ReserveUse::Ordinary };
        self.commit_on(CommitTerms { spending, allowances: Vec::new() }, op, guards).await
    }

    /// Commits a change on other terms.
    pub async fn commit_on(
        &self,
        terms: CommitTerms,
        op: Op,
        guards: Vec<WritePrecondition>,
    ) -> Result<Revision, CommitError> {
        if op.value().len() > OBJECT_BYTES_MAX {
            return Err(CommitError::TooLarge { key: op.key().clone(), bytes: op.value().len() });
        }
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => {
                let commit = |answer| StoreWriterCommand::Commit(Commit { op, guards, terms, answer });
                command(sqlite, commit).await.unwrap_or(Err(CommitError::Closed))
            }
            StoreBackend::Memory(opened) => opened.commit(op, guards, terms.allowances).await,
        }
    }

    /// What stands in a namespace, by kind, with all changes that were asked for before.
    pub async fn usage(&self, namespace: &str) -> Result<BTreeMap<GroupResource, StoredUsage>, StoreReadError> {
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => {
                let usage = |answer| StoreWriterCommand::Usage { namespace: namespace.to_owned(), answer };
                command(sqlite, usage).await.ok_or(StoreReadError::Closed)
            }
            StoreBackend::Memory(opened) => Ok(opened.usage(namespace)),
        }
    }

    /// What a change would exceed that is not made; it would replace a value of so many bytes.
    pub async fn exceeded_by(
        &self,
        op: &Op,
        replaced_bytes: usize,
        allowances: &[QuotaAllowance],
    ) -> Result<Vec<Exceeded>, StoreReadError> {
        let key = op.key();
        let change = MeteredChange::of(key, op.event_kind(), op.value().len(), replaced_bytes);
        Ok(meter::exceeded(&change, &self.usage(&key.namespace).await?, allowances))
    }

    /// A revision after which no object of a kind has changed: what was read of the kind then, or later, is as it is.
    pub fn changed(&self, kind: &GroupResource) -> Revision {
        self.inner.hub.changed(kind)
    }

    /// How much history of each kind is kept from the next change on. Beyond that it goes by itself, as
    /// [`Store::compact_kind`] has it go.
    pub fn limit_history(&self, limits: HistoryLimits) {
        self.inner.hub.set_history_limits(limits);
    }

    /// The events of a kind after `from`, without gap or repeat: the history, then live ones.
    pub async fn watch(&self, kind: &GroupResource, from: Revision) -> Result<EventStream, WatchError> {
        let reads = self.reads().map_err(|_| WatchError::Closed)?;
        EventStream::start(self.inner.hub.clone(), &reads, kind.clone(), from).await
    }

    /// Forgets the history up to a revision (inclusive), in small steps between other writes. Lists
    /// and watches from before it get `Compacted` from then on; those at it still work. Returns up to where
    /// it is gone now.
    pub async fn compact(&self, through: Revision) -> Result<Revision, CommitError> {
        self.compact_part(None, through).await
    }

    /// Forgets history of one kind alone, which is then shorter than that of the others. It goes up to the last change
    /// of the kind that is not after `through`, which it returns: a reader who asks for what comes after that change
    /// misses nothing.
    pub async fn compact_kind(&self, kind: &GroupResource, through: Revision) -> Result<Revision, CommitError> {
        self.compact_part(Some(kind), through).await
    }

    async fn compact_part(&self, kind: Option<&GroupResource>, through: Revision) -> Result<Revision, CommitError> {
        let through = through.min(self.current());
        let sqlite = match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => sqlite,
            StoreBackend::Memory(opened) => return Ok(opened.compact(kind, through)),
        };
        let mut compacted = Revision(0);
        loop {
            let answered =
                command(sqlite, |answer| StoreWriterCommand::Compact { kind: kind.cloned(), through, answer }).await;
            let next = answered.unwrap_or(Err(CommitError::Closed))?;
            if next >= through || next == compacted {
                return Ok(next);
            }
            compacted = next;
        }
    }

    /// Seals every value of the keyring's kinds, old ones of the history included, by its first key: in small steps
    /// between other writes. What is done stays done when this is dropped or the process dies; the next call goes on
    /// from there, and costs next to nothing where all is done. [`Store::scrub`] then removes what was before.
    pub async fn reseal(&self) -> Result<Resealed, ResealError> {
        let StoreBackend::Sqlite(sqlite) = &self.inner.backend else { return Err(ResealError::NoKeyring) };
        let mut all = Resealed::default();
        loop {
            let answered = command(sqlite, |answer| StoreWriterCommand::Reseal { answer }).await;
            let step = answered.unwrap_or(Err(ResealError::Closed))?;
            all.values += step.resealed.values;
            all.damaged.extend(step.resealed.damaged);
            if step.is_over {
                return Ok(all);
            }
        }
    }

    /// Leaves nothing in the files of what values were before they were sealed, in small steps as well. For a while it
    /// takes as much room as the database has; `free_bytes` is asked before each step how much is free on the disk.
    pub async fn scrub(&self, free_bytes: impl Fn() -> u64) -> Result<(), ResealError> {
        let StoreBackend::Sqlite(sqlite) = &self.inner.backend else { return Err(ResealError::NoKeyring) };
        let mut waits = 0;
        while waits < SCRUB_WAITS_MAX {
            let free_bytes = free_bytes();
            let answered = command(sqlite, |answer| StoreWriterCommand::Scrub { free_bytes, answer }).await;
            match answered.unwrap_or(Err(ResealError::Closed))? {
                ScrubStep::Next => {}
                ScrubStep::Busy => waits += 1,
                ScrubStep::Over => return Ok(()),
            }
        }
        Err(ResealError::Scrub("a backup or a long list reads from it".into()))
    }

    /// Finds out whether anything can be stored, with the reserve where that is needed.
    pub async fn probe(&self) -> Result<(), CommitError> {
        let StoreBackend::Sqlite(sqlite) = &self.inner.backend else { return Ok(()) };
        command(sqlite, |answer| StoreWriterCommand::Probe { answer }).await.unwrap_or(Err(CommitError::Closed))
    }

    /// What can be stored now; `None` for a store without a [`StoreRoom`].
    pub fn storage(&self) -> Option<StorageStatus> {
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.room.as_deref().map(StoreRoom::standing),
            StoreBackend::Memory(_) => None,
        }
    }

    fn reads(&self) -> Result<Reads, StoreReadError> {
        match &self.inner.backend {
            StoreBackend::Sqlite(sqlite) => sqlite.reads.clone().map(Reads::Sqlite).ok_or(StoreReadError::Closed),
            StoreBackend::Memory(opened) => Ok(Reads::Memory(opened.clone())),
        }
    }
}

/// What the writer answers; `None` where the store is closed.
async fn command<T>(sqlite: &Sqlite, command: impl FnOnce(oneshot::Sender<T>) -> StoreWriterCommand) -> Option<T> {
    let (answer, result) = oneshot::channel();
    sqlite.commands.as_ref()?.send(command(answer)).await.ok()?;
    result.await.ok()
}
