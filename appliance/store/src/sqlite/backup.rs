//! A copy of the database as of one revision, made while others write, and what makes a store of
//! such a copy again.
//!
//! The copy is SQLite's own `VACUUM INTO`: one read transaction, as long as the local disk needs, however slowly a
//! client fetches the copy later; and nothing of a deleted row is in it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::{CACHE_KIB, COMPACTED_KIND, SCHEMA, heads, integer, lineage, meta, migrate, schema, tally};
use crate::error::{RestoreError, SnapshotError};
use crate::lineage::{Lineage, first_revision};
use crate::types::{GroupResource, Revision};

/// A finished copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSnapshot {
    /// All changes up to this one are in it, and no other.
    pub revision: Revision,
    pub schema: i64,
    pub lineage: Lineage,
    pub bytes: u64,
}

/// What a restore made of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredStore {
    /// Number of the epoch that begins.
    pub epoch: usize,
    pub timeline: u32,
    /// The revision of the backup.
    pub from: Revision,
    /// Where the store goes on; everything before counts as compacted.
    pub began: Revision,
    /// How many objects of each kind were left out, since nothing opens them.
    pub forgotten: BTreeMap<GroupResource, usize>,
}

/// What the restorer knows.
#[derive(Clone, Copy, Debug)]
pub struct RestoreContext {
    /// The timeline's number, drawn at random, not zero.
    pub timeline: u32,
    pub now_ms: i64,
    /// When the backup was made.
    pub made_ms: i64,
    /// Where the store stands that is replaced.
    pub replaced: Option<Revision>,
    /// The key of sealed values is lost: objects with them are left out.
    pub forgets_sealed: bool,
}

pub(crate) fn snapshot(database: &Path, into: &Path) -> Result<StoreSnapshot, SnapshotError> {
    let file = |source| SnapshotError::File { path: into.to_owned(), source };
    // SQLite takes an empty file; made here, no other user can read it.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(into).map_err(file)?;
    let copied = (|| {
        let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.pragma_update(None, "cache_size", format!("-{CACHE_KIB}"))?;
        connection.execute("VACUUM INTO ?1", [into.to_string_lossy()])?;
        let copy = Connection::open_with_flags(into, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok((meta(&copy, "revision")?, schema(&copy)?, lineage(&copy)?))
    })();
    let (revision, schema, lineage) = copied.map_err(SnapshotError::Database)?;
    let bytes = std::fs::metadata(into).map_err(file)?.len();
    Ok(StoreSnapshot { revision, schema, lineage, bytes })
}

/// How large the next copy will be at most: the pages of the database.
pub(crate) fn size_bytes(database: &Path) -> rusqlite::Result<u64> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok(u64::try_from(number("page_count")?.saturating_mul(number("page_size")?)).unwrap_or(u64::MAX))
}

/// Where the store in this file stands, of whatever schema it is.
pub fn revision_of(database: &Path) -> Option<Revision> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
    meta(&connection, "revision").ok()
}

/// Makes a store of the copy in this file: judges it, brings it to the newest schema, forgets its
/// history, and begins another epoch. When this returns, the file is on disk.
pub fn restore(copy: &Path, how: &RestoreContext) -> Result<RestoredStore, RestoreError> {
    let database = |source| RestoreError::Database { source };
    let mut connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(database)?;
    let found = schema(&connection).map_err(|_| RestoreError::NotOurs)?;
    if found > SCHEMA {
        return Err(RestoreError::Schema { found, known: SCHEMA });
    }
    judge(&connection)?;
    migrate(&mut connection).map_err(database)?;
    let restored = begin(&mut connection, how).map_err(database)?;
    // One file, without a log beside it.
    connection.pragma_update(None, "journal_mode", "DELETE").map_err(database)?;
    drop(connection);
    File::open(copy).and_then(|file| file.sync_all()).map_err(|source| RestoreError::Sync { source })?;
    Ok(restored)
}

/// What SQLite and the tables say of themselves.
fn judge(connection: &Connection) -> Result<(), RestoreError> {
    let database = |source| RestoreError::Database { source };
    let text: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(database)?;
    if text != "ok" {
        return Err(RestoreError::Damaged { what: text });
    }
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(database);
    // Earlier schemas say nothing a second time.
    if schema(connection).map_err(database)? >= 6
        && let Some(what) = heads::fault(connection).map_err(database)?
    {
        return Err(RestoreError::Damaged { what });
    }
    let lost = count("SELECT count(*) FROM object o LEFT JOIN log l USING (revision) WHERE l.revision IS NULL")?;
    if lost > 0 {
        return Err(RestoreError::Damaged { what: format!("{lost} objects have no content") });
    }
    let newest = count("SELECT coalesce(max(revision), 0) FROM log")?;
    if newest > integer(meta(connection, "revision").map_err(database)?) {
        return Err(RestoreError::Damaged { what: format!("revision {newest} is newer than the store") });
    }
    Ok(())
}

/// Leaves out what a lost key sealed; says how many objects of each kind that are.
fn forget_sealed(transaction: &Connection) -> rusqlite::Result<BTreeMap<GroupResource, usize>> {
    let sealed = "revision IN (SELECT revision FROM log WHERE sealed <> 0)";
    let counted = format!("SELECT grp, resource, count(*) FROM object WHERE {sealed} GROUP BY grp, resource");
    let forgotten = transaction
        .prepare(&counted)?
        .query_map([], |row| {
            let kind = GroupResource::new(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?);
            Ok((kind, usize::try_from(row.get::<_, i64>(2)?).unwrap_or(usize::MAX)))
        })?
        .collect::<rusqlite::Result<BTreeMap<_, _>>>()?;
    transaction.execute(&format!("DELETE FROM object WHERE {sealed}"), [])?;
    Ok(forgotten)
}

fn begin(connection: &mut Connection, how: &RestoreContext) -> rusqlite::Result<RestoredStore> {
    let transaction = connection.transaction()?;
    let from = meta(&transaction, "revision")?;
    let began = first_revision(from, how.now_ms.saturating_sub(how.made_ms), how.replaced);
    let forgotten = if how.forgets_sealed {
        tally::recount(&transaction)?;
        forget_sealed(&transaction)?
    } else {
        BTreeMap::new()
    };
    transaction.execute("DELETE FROM log WHERE revision NOT IN (SELECT revision FROM object)", [])?;
    transaction.execute("UPDATE meta SET value = ?1 WHERE key IN ('revision', 'compacted')", [integer(began)])?;
    transaction.execute("DELETE FROM meta WHERE key LIKE ?1 || '%'", [COMPACTED_KIND])?;
    transaction.execute(
        "INSERT INTO epoch(timeline, continues, began, began_ms) VALUES (?1, ?2, ?3, ?4)",
        params![how.timeline, integer(from), integer(began), how.now_ms],
    )?;
    let epoch = lineage(&transaction)?.epochs.len();
    transaction.commit()?;
    Ok(RestoredStore { epoch, timeline: how.timeline, from, began, forgotten })
}
