//! What the database does when room is short: it forgets its history and gives the pages back, refuses ordinary
//! changes, and takes room of the reserve for those that matter.
//!
//! ```text
//!   a batch comes ──► room for all of it? ──no──► history forgotten, pages given back, log cut
//!                                                    │
//!   ordinary changes: within the budget, or refused ◄┘
//!   others: tried; while the disk is full, a piece of the reserve is given back and they are tried again
//! ```

use std::time::Duration;

use rusqlite::{Connection, ErrorCode, ffi};

use super::write::Commit;
use super::{BUSY, Database, write};
use crate::error::CommitError;
use crate::hub::Hub;
use crate::room::{ChangeBudget, Spending, StoreRoom};
use crate::types::Revision;

/// How people know this database.
const NAME: &str = "objects";
/// Steps of compaction in a row: the whole history that is kept where nothing is short, several times over.
const FORGET_STEPS_MAX: usize = 200;
/// Changes whose history is not worth the room that it takes to forget them.
const FORGOTTEN_MIN: u64 = 32;
/// Values that are large beside what a change takes anyway.
const LARGE_BYTES: usize = 64 << 10;
/// Pages given back between two cuts of the log, which grows by as many.
const GIVEN_PAGES: u32 = 64;
/// Rounds of that: 64 MiB.
const GIVE_ROUNDS_MAX: usize = 256;
/// Free pages that stay while room is not short: 4 MiB, which the next changes fill again.
const FREE_PAGES: u32 = 1024;
/// Of the others, as many are given back after a step of compaction.
const REST_PAGES: u32 = 500;

/// Whether an error says that the disk is full: also where that came out when the index of the log grew.
pub fn disk_is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE)
}

/// The same while the files beside the database are made.
pub fn disk_is_full_at_start(error: &rusqlite::Error) -> bool {
    disk_is_full(error) || error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Does what a start needs, with more and more of the reserve where the disk is full.
pub(super) fn at_start<T>(
    room: Option<&StoreRoom>,
    mut work: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    loop {
        match work() {
            Err(error) if disk_is_full_at_start(&error) && room.is_some_and(StoreRoom::release_for_start) => {}
            done => return done,
        }
    }
}

/// Looks, before a batch is written, whether there is room for all of it, and makes what room it
/// can where there is not. What comes back is what ordinary changes may use.
pub(super) fn before(database: &mut Database, hub: &Hub, batch: &[Commit]) -> ChangeBudget {
    let bytes: usize = batch.iter().map(|commit| commit.op.value().len()).sum();
    let Some(room) = database.room.clone() else { return ChangeBudget::default() };
    room.owe(owed(&database.connection));
    if !room.admits(bytes) {
        // Ordinary changes are refused next, and a large value is what room is short for.
        let is_pressing = bytes >= LARGE_BYTES || batch.iter().any(|commit| commit.spending == Spending::Ordinary);
        make_room(database, hub, is_pressing);
        room.owe(owed(&database.connection));
    }
    room.budget()
}

/// Takes what a change with so many bytes needs out of the reserve; false where nothing is left of it.
pub(super) fn release(database: &Database, bytes: usize) -> bool {
    database.room.as_ref().is_some_and(|room| room.release(2 * bytes as u64))
}

/// Notes whether a change that matters was stored.
pub(super) fn note(database: &Database, failure: Option<String>) {
    if let Some(room) = &database.room {
        room.noted(NAME, failure);
    }
}

/// Forgets all history, gives pages that are free back to the file system, and cuts the log. As far as that goes: each
/// part of it needs some room itself, so that a history of a few small changes stays where nothing presses.
pub(super) fn make_room(database: &mut Database, hub: &Hub, is_pressing: bool) {
    let through = hub.published();
    let kept = super::compacted(&database.connection, None).map_or(0, |from| through.0.saturating_sub(from.0));
    if is_pressing || kept >= FORGOTTEN_MIN {
        forget(database, hub, through);
    }
    if let Err(error) = give_back(&database.connection) {
        tracing::debug!(%error, "free pages of the database are not given back");
    }
}

fn forget(database: &mut Database, hub: &Hub, through: Revision) {
    for _ in 0..FORGET_STEPS_MAX {
        match write::compact_step(&mut database.connection, None, through) {
            Ok(compacted) => {
                hub.set_compacted(None, compacted);
                if compacted >= through {
                    break;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the history is not forgotten");
                break;
            }
        }
    }
}

fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut before = u32::MAX;
    for _ in 0..GIVE_ROUNDS_MAX {
        cut_log(connection)?;
        let free = free_pages(connection)?;
        if free == 0 || free >= before {
            break;
        }
        give_pages_back(connection, GIVEN_PAGES)?;
        before = free;
    }
    Ok(())
}

/// Gives the file system what is free beyond what the next changes will use again.
pub(super) fn give_rest_back(connection: &Connection) -> rusqlite::Result<()> {
    match free_pages(connection)?.saturating_sub(FREE_PAGES) {
        0 => Ok(()),
        rest => give_pages_back(connection, rest.min(REST_PAGES)),
    }
}

/// Pages of the file that hold nothing.
pub(super) fn free_pages(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
}

/// Gives pages that are free back to the file system, at most so many. Each of them is a row of the statement.
pub(super) fn give_pages_back(connection: &Connection, pages: u32) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Puts what is in the log in its place, and cuts the file if nobody reads in it. Waits for nobody.
fn cut_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    let cut = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(BUSY)?;
    cut
}

/// By how much the file grows when the log is put in its place.
fn owed(connection: &Connection) -> u64 {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap_or(0);
    let pages = u64::try_from(number("page_count").saturating_mul(number("page_size"))).unwrap_or(0);
    let file = connection.path().and_then(|path| std::fs::metadata(path).ok()).map_or(0, |found| found.len());
    pages.saturating_sub(file)
}

/// Writes something that says nothing, with the reserve where that is needed: whether anything can be stored.
pub(super) fn probe(database: &mut Database, hub: &Hub) -> Result<(), CommitError> {
    const SQL: &str = "INSERT INTO meta VALUES ('probe', 1) ON CONFLICT DO UPDATE SET value = 1 - value";
    let written = loop {
        match database.connection.execute(SQL, []) {
            Err(error) if disk_is_full(&error) && release(database, 0) => make_room(database, hub, false),
            written => break written,
        }
    };
    note(database, written.as_ref().err().map(super::in_words));
    written.map(drop).map_err(|error| write::refusal(&error))
}
