//! The store on one SQLite file: schema, connections, threads.
//!
//! `log` has one row for each revision that is still kept; `object` points each existing key at the
//! row with its newest state. A value is therefore stored once. A row may go when the change that
//! replaced it is compacted; rows that are the newest state of an object stay forever.
//!
//! ```sql
//! log(revision PRIMARY KEY, grp, resource, namespace, name, op, previous, value, sealed)
//! object(grp, resource, namespace, name PRIMARY KEY) -> revision
//! sum(revision) -> kind, head, sum    -- the checksums of each row of log, in a page of their own
//! kind(id) -> grp, resource, objects, sum     -- what `object` has of each kind
//! meta(key) -> value      -- schema, revision (the counter), compacted, the same for kinds with a
//!                         -- shorter history, store (who this is), newest_ms and age_ms (what was
//!                         -- recorded of time; absent until it was); seal, sealing (key ids),
//!                         -- resealed, scrub, one row for each kind that is sealed; unsummed
//! meta_copy(key) -> value -- the same, inverted
//! epoch(number) -> timeline, continues, began, began_ms   -- one row for the making and each restore
//! epoch_copy(number)      -- the same, inverted
//! ```
//!
//! `sealed` says whether the value is as a [`SealingKeys`] sealed it; [`reseal`] is about that, and [`scrub`] about
//! what was in the file before. Changes up to `unsummed` may have no checksum yet; [`stored_row`], [`heads`], [`tally`]
//! and [`histories`] say what is compared, and when.
//!
//! A database made by an earlier program is brought to the newest schema when it is opened, in one
//! transaction; one made by a newer program is refused and left as it is.
//!
//! One thread writes, with `synchronous=FULL` in WAL mode; some others read. The file beside the
//! database named `.lock` keeps a second process out, whose watchers would see nothing.

mod apply;
mod backup;
mod checksum_upgrade;
mod compact;
mod faults;
mod heads;
mod histories;
mod kind_accounts;
mod kind_rows;
mod low_space;
mod meta_rows;
mod pages;
mod read;
mod reseal;
mod scrub;
mod stored_row;
mod tally;
#[cfg(test)]
mod tests;
mod write;
mod writer;

pub use backup::{RestoreContext, RestoredStore, StoreSnapshot, restore, revision_of};
pub(crate) use backup::{size_bytes, snapshot};
pub use checksum_upgrade::CheckedChanges;
pub(crate) use checksum_upgrade::check_changes;
pub use faults::file_is_damaged;
pub(crate) use read::{count, history, object, page};
pub use reseal::Resealed;
pub(crate) use scrub::ScrubStep;
pub(crate) use tally::kinds;
pub(crate) use write::StoreWriterCommand;
pub(crate) use writer::Commit;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::mpsc;

use crate::damage::DamageBook;
use crate::durability::Durability;
use crate::error::StoreOpenError;
use crate::high_water::HighWater;
use crate::hub::Hub;
use crate::lineage::{Epoch, Lineage};
use crate::recorded_time::RecordedTime;
use crate::seal::{KeyId, SealingKeys};
use crate::store_room::StoreRoom;
use crate::types::{GroupResource, Revision};

/// What makes each schema out of the one before; the first one out of an empty file. A step that
/// was in a release is never changed: the next one is added, with a fixture in `tests`.
const STEPS: [&str; 6] = [SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_4, SCHEMA_5, heads::SCHEMA_6];
/// The newest schema that this program reads and writes.
const SCHEMA: i64 = STEPS.len() as i64;
/// How the rows of `meta` begin that say how much of one kind's history is gone: GROUP/RESOURCE follows.
const COMPACTED_KIND: &str = "compacted ";
/// Commits that may wait for the writer; callers beyond wait for a place.
const WRITE_QUEUE_MAX: usize = 1024;
/// Reads that may wait for a reader thread.
const READ_QUEUE_MAX: usize = 1024;
/// Readers. More than the lists that run at once on a small machine only cost memory.
const READERS: usize = 4;
/// How long one connection waits for another.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pages that one connection keeps, in KiB.
const CACHE_KIB: usize = 2048;
/// How SQLite names the mode in which free pages go back to the file system when they are asked for.
const INCREMENTAL_VACUUM: i64 = 2;
/// What all connections keep.
pub(crate) const CACHES_BYTES: usize = (READERS + 1) * CACHE_KIB * 1024;

const SCHEMA_1: &str = "
    CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO meta VALUES ('schema', 1), ('revision', 0), ('compacted', 0);
    CREATE TABLE log(
        revision INTEGER PRIMARY KEY,
        grp TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        op INTEGER NOT NULL,
        previous INTEGER NOT NULL,
        value BLOB NOT NULL);
    CREATE INDEX log_kind ON log(grp, resource, revision);
    CREATE TABLE object(
        grp TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        revision INTEGER NOT NULL,
        PRIMARY KEY (grp, resource, namespace, name)) WITHOUT ROWID;
";

/// What is written is either plain or sealed, and says which.
const SCHEMA_2: &str = "
    ALTER TABLE log ADD COLUMN sealed INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX log_sealed ON log(revision) WHERE sealed <> 0;
    INSERT INTO meta VALUES ('scrub', 0);
";

/// Who the store is, and its restores.
const SCHEMA_3: &str = "
    CREATE TABLE epoch(
        number INTEGER PRIMARY KEY,
        timeline INTEGER NOT NULL,
        continues INTEGER NOT NULL,
        began INTEGER NOT NULL,
        began_ms INTEGER NOT NULL);
    INSERT INTO epoch VALUES (1, 1 + abs(random() % 4294967295), 0, 0, 0);
    INSERT INTO meta VALUES ('store', 1 + abs(random() % 16777215));
";

/// `meta` may have a row for each kind with a history of its own length ([`compacted_name`]). A program
/// that does not look at it would tell a history with holes, so this is another schema.
const SCHEMA_4: &str = "";

/// `meta` has a row for each kind whose values were all sealed once, and have been sealed since. A program that
/// does not know these rows would write values in the clear that no later one looks for, so this is another schema.
const SCHEMA_5: &str = "";

pub(crate) type ReadJob = Box<dyn FnOnce(&mut Database) + Send>;

/// One thread's connection, what opens the values behind it, and what is known to be damaged.
pub(crate) struct Database {
    pub(crate) connection: Connection,
    pub(crate) keyring: Option<Arc<SealingKeys>>,
    pub(crate) damages: Arc<DamageBook>,
    /// Without, a change is written until the disk refuses it.
    pub(crate) room: Option<Arc<StoreRoom>>,
}

/// The open database: queues to its threads. Dropping it waits for the writer's current batch.
#[derive(Debug)]
pub(crate) struct Sqlite {
    pub(crate) commands: Option<mpsc::Sender<StoreWriterCommand>>,
    pub(crate) reads: Option<mpsc::Sender<ReadJob>>,
    pub(crate) path: PathBuf,
    pub(crate) lineage: Lineage,
    /// The recorded time as of the opening.
    pub(crate) recorded: RecordedTime,
    pub(crate) damages: Arc<DamageBook>,
    pub(crate) room: Option<Arc<StoreRoom>>,
    threads: Vec<JoinHandle<()>>,
    _lock: File,
}

impl Sqlite {
    pub(crate) fn open(
        path: &Path,
        durability: Durability,
        keyring: Option<Arc<SealingKeys>>,
        room: Option<Arc<StoreRoom>>,
    ) -> Result<(Self, Arc<Hub>), StoreOpenError> {
        let lock = lock(path)?;
        let database = |source| StoreOpenError::Database { path: path.to_owned(), source };
        let mut writing = prepared(path, durability, keyring.clone(), room.clone())?;
        let damages = writing.damages.clone();
        reseal::at_start(path, &mut writing)?;
        let connection = &writing.connection;
        let current = meta(connection, "revision").map_err(database)?;
        let compacted = meta(connection, "compacted").map_err(database)?;
        let lineage = lineage(connection).map_err(database)?;
        let recorded = recorded(connection).map_err(database)?;
        let hub = Arc::new(Hub::new(current, compacted));
        for (kind, compacted) in compacted_kinds(connection).map_err(database)? {
            hub.set_compacted(Some(&kind), compacted);
        }
        for (kind, floor) in damages.floors() {
            hub.set_compacted(Some(&kind), floor);
        }

        let measured = low_space::at_start(room.as_deref(), || compact::measure(connection, &damages));
        let meter = measured.map_err(database)?;
        let grown = meter.kinds().cloned().collect();
        let water = HighWater::of(path, connection, PATIENCE, room.clone()).map_err(database)?;

        let mut threads = Vec::with_capacity(READERS + 1);
        let (commands, queue) = mpsc::channel(WRITE_QUEUE_MAX);
        let writer_hub = hub.clone();
        let writer = writer::StoreWriter { database: writing, meter, water, grown, resized: false };
        threads.push(spawn("store-writer", move || write::run(writer, queue, &writer_hub))?);

        let (reads, queue) = mpsc::channel(READ_QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..READERS {
            let connection = low_space::at_start(room.as_deref(), || connect(path, durability)).map_err(database)?;
            connection.pragma_update(None, "query_only", true).map_err(database)?;
            let (keyring, damages) = (keyring.clone(), damages.clone());
            let (queue, database) = (queue.clone(), Database { connection, keyring, damages, room: None });
            threads.push(spawn("store-reader", move || run_reader(database, &queue))?);
        }
        let (commands, reads, path) = (Some(commands), Some(reads), path.to_owned());
        Ok((Self { commands, reads, path, lineage, recorded, damages, room, threads, _lock: lock }, hub))
    }

    pub(crate) fn needs_key(path: &Path) -> Result<Option<KeyId>, StoreOpenError> {
        if !path.exists() {
            return Ok(None);
        }
        let database = |source| StoreOpenError::Database { path: path.to_owned(), source };
        let connection = connect(path, Durability::default()).map_err(database)?;
        reseal::needed_key(&connection).map_err(database)
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Reads first: a watch that ends sees by it that the store is closed.
        self.reads = None;
        self.commands = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

/// The writer's connection: at the newest schema, and compared with what the database says of itself.
fn prepared(
    path: &Path,
    durability: Durability,
    keyring: Option<Arc<SealingKeys>>,
    room: Option<Arc<StoreRoom>>,
) -> Result<Database, StoreOpenError> {
    let database = |source| StoreOpenError::Database { path: path.to_owned(), source };
    let damaged = |what| StoreOpenError::Damaged { path: path.to_owned(), what };
    let mut connection = low_space::at_start(room.as_deref(), || connect(path, durability)).map_err(database)?;
    if heads::is_emptied(&connection).map_err(database)? {
        return Err(damaged("it has pages and no tables".into()));
    }
    let found = low_space::at_start(room.as_deref(), || migrate(&mut connection)).map_err(database)?;
    if found > SCHEMA {
        return Err(if heads::is_schema_damaged(&connection, found) {
            damaged(format!("it gives its schema as {found}, and its copy of the number differs"))
        } else {
            StoreOpenError::Schema { path: path.to_owned(), found, known: SCHEMA }
        });
    }
    if let Some(what) = heads::fault(&connection).map_err(database)? {
        return Err(damaged(what));
    }
    let damages = Arc::new(DamageBook::default());
    low_space::at_start(room.as_deref(), || tally::at_start(&mut connection, &damages)).map_err(database)?;
    Ok(Database { connection, keyring, damages, room })
}

fn lock(path: &Path) -> Result<File, StoreOpenError> {
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push(".lock");
    let failed = |source| StoreOpenError::Lock { path: path.to_owned(), source };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(failed)?;
    file.try_lock().map_err(|error| failed(error.into()))?;
    Ok(file)
}

fn connect(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    // Has an effect on a new file only, and must come before the first table. On another one SQLite would write the
    // mode that is there once more, which a full disk refuses.
    let mode: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
    if mode != INCREMENTAL_VACUUM {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", durability.synchronous())?;
    connection.pragma_update(None, "foreign_keys", false)?;
    // A negative number is in KiB; a positive one would be in pages.
    connection.pragma_update(None, "cache_size", format!("-{CACHE_KIB}"))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Makes the tables of a new file, or brings those of an old one up to date; returns the schema that
/// is there now, which is a newer one than ours if a newer program made it.
fn migrate(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_master WHERE name = 'meta'", [], |row| row.get(0))?;
    let found: i64 = if tables == 0 { 0 } else { schema(&transaction)? };
    if found >= SCHEMA {
        return Ok(found);
    }
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.execute("UPDATE meta SET value = ?1 WHERE key = 'schema'", [SCHEMA])?;
    transaction.commit()?;
    Ok(SCHEMA)
}

fn schema(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0))
}

/// Reads the lineage of a database whose schema has it; of an older one, as if it were its first epoch.
fn lineage(connection: &Connection) -> rusqlite::Result<Lineage> {
    if schema(connection)? < 3 {
        return Ok(Lineage::new(0, 0));
    }
    let store = connection.query_row("SELECT value FROM meta WHERE key = 'store'", [], |row| row.get(0))?;
    let epochs = connection
        .prepare("SELECT timeline, continues, began, began_ms FROM epoch ORDER BY number")?
        .query_map([], |row| {
            Ok(Epoch {
                timeline: row.get(0)?,
                continues: revision(row.get(1)?),
                began: revision(row.get(2)?),
                began_ms: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Lineage { store, epochs })
}

fn meta(connection: &Connection, key: &str) -> rusqlite::Result<Revision> {
    connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?.query_row([key], |row| row.get(0).map(revision))
}

/// What was recorded of time.
fn recorded(connection: &Connection) -> rusqlite::Result<RecordedTime> {
    let value = |key: &str| {
        let found = connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get::<_, i64>(0));
        found.optional().map(Option::unwrap_or_default)
    };
    Ok(RecordedTime { newest_ms: value("newest_ms")?, age_ms: value("age_ms")? })
}

/// The revision up to which the history is gone: of all kinds, or of one.
fn compacted(connection: &Connection, kind: Option<&GroupResource>) -> rusqlite::Result<Revision> {
    connection
        .prepare_cached("SELECT max(value) FROM meta WHERE key IN ('compacted', ?1)")?
        .query_row([compacted_name(kind)], |row| row.get(0).map(revision))
}

/// Where `meta` says so.
fn compacted_name(kind: Option<&GroupResource>) -> String {
    kind.map_or_else(|| "compacted".into(), |kind| format!("{COMPACTED_KIND}{}/{}", kind.group, kind.resource))
}

/// Kinds of which more is gone than of the others, or was once, and up to where.
fn compacted_kinds(connection: &Connection) -> rusqlite::Result<Vec<(GroupResource, Revision)>> {
    let mut found = Vec::new();
    let mut rows =
        connection.prepare("SELECT substr(key, length(?1) + 1), value FROM meta WHERE key LIKE ?1 || '%'")?;
    let mut rows = rows.query([COMPACTED_KIND])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        if let Some((group, resource)) = kind.split_once('/') {
            found.push((GroupResource::new(group, resource), revision(row.get(1)?)));
        }
    }
    Ok(found)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreOpenError> {
    std::thread::Builder::new().name(name.into()).spawn(run).map_err(StoreOpenError::Thread)
}

fn run_reader(mut database: Database, queue: &Mutex<mpsc::Receiver<ReadJob>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match job {
            Some(job) => job(&mut database),
            None => return,
        }
    }
}

/// SQLite's integers are signed; revisions start at 1 and 2^63 of them do not happen.
fn integer(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

fn revision(integer: i64) -> Revision {
    Revision(u64::try_from(integer).unwrap_or(0))
}
