//! What the database does when room is short: it forgets its history and gives the pages back, refuses ordinary
//! changes, and takes room of the reserve for those that matter.
//!
//! ```text
//!   a batch comes ──► room for all of it? ──no──► history forgotten, pages given back, log cut
//!                                                    │
//!   ordinary changes: within the budget, or refused ◄┘
//!   others: tried; while the disk is full, a piece of the reserve is given back and they are tried again
//! ```

use std::time::{Duration, Instant};

use super::writer::{Commit, StoreWriter, refusal};
use super::{Database, compact, pages};
use crate::error::{CommitError, disk_is_full, disk_is_full_at_start};
use crate::high_water::pending_pages;
use crate::hub::Hub;
use crate::store_room::{ChangeBudget, ReserveUse, StoreRoom};
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
/// How long all these rounds together wait for readers: changes wait as long.
const GIVE_WAIT_MAX: Duration = Duration::from_secs(1);

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
pub(super) fn make_room_for_batch(writer: &mut StoreWriter, hub: &Hub, batch: &[Commit]) -> ChangeBudget {
    let bytes: usize = batch.iter().map(|commit| commit.op.value().len()).sum();
    look_at_log(writer);
    let Some(room) = writer.database.room.clone() else { return ChangeBudget::default() };
    room.add_pending_pages(pending_pages(&writer.database.connection));
    if !room.admits(bytes) {
        // Ordinary changes are refused next, and a large value is what room is short for.
        let is_pressing =
            bytes >= LARGE_BYTES || batch.iter().any(|commit| commit.terms.spending == ReserveUse::Ordinary);
        make_room(writer, hub, is_pressing);
        room.add_pending_pages(pending_pages(&writer.database.connection));
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
pub(super) fn make_room(writer: &mut StoreWriter, hub: &Hub, is_pressing: bool) {
    let through = hub.published();
    let compacted = crate::sqlite::compacted(&writer.database.connection, None);
    let kept = compacted.map_or(0, |from| through.0.saturating_sub(from.0));
    // Nothing is taken out of a file whose structure is damaged: what is freed may be in use.
    if writer.database.damages.has_structure() {
        return;
    }
    if is_pressing || kept >= FORGOTTEN_MIN {
        forget(writer, hub, through);
    }
    // Without room for the log in the database nothing is given back, and what is free is used up.
    let pending = pending_pages(&writer.database.connection);
    if writer.database.room.as_ref().is_some_and(|room| !room.let_grow(pending)) {
        return;
    }
    if let Err(error) = give_back(writer) {
        tracing::debug!(%error, "free pages of the database are not given back");
    }
}

fn look_at_log(writer: &mut StoreWriter) {
    if let Err(error) = writer.water.look(&writer.database.connection) {
        tracing::debug!(%error, "the database's log is taken in as before");
    }
}

fn forget(writer: &mut StoreWriter, hub: &Hub, through: Revision) {
    for _ in 0..FORGET_STEPS_MAX {
        match compact::step(&mut writer.database.connection, &mut writer.meter, None, through) {
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

/// Gives free pages back, round by round. While a reader keeps the log from being cut, each round would only make the
/// log longer. When the time for waiting is used up, the first reader ends it.
fn give_back(writer: &mut StoreWriter) -> rusqlite::Result<()> {
    let connection = &writer.database.connection;
    let (mut before, mut wait) = (u32::MAX, GIVE_WAIT_MAX);
    for _ in 0..GIVE_ROUNDS_MAX {
        let begun = Instant::now();
        if !writer.water.cut(connection, wait)? {
            break;
        }
        wait = wait.saturating_sub(begun.elapsed());
        let free = pages::free(connection)?;
        if free == 0 || free >= before {
            break;
        }
        pages::give_back(connection, GIVEN_PAGES)?;
        before = free;
    }
    Ok(())
}

/// Writes something that says nothing, with the reserve where that is needed: whether anything can be stored.
pub(super) fn probe(writer: &mut StoreWriter, hub: &Hub) -> Result<(), CommitError> {
    const SQL: &str = "INSERT INTO meta VALUES ('probe', 1) ON CONFLICT DO UPDATE SET value = 1 - value";
    look_at_log(writer);
    let written = loop {
        match writer.database.connection.execute(SQL, []) {
            Err(error) if disk_is_full(&error) && release(&writer.database, 0) => make_room(writer, hub, false),
            written => break written,
        }
    };
    note(&writer.database, written.as_ref().err().map(crate::sqlite::faults::in_words));
    written.map(drop).map_err(|error| refusal(&writer.database.damages, &error))
}
