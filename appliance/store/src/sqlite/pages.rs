//! Pages of the file that hold nothing, which the file system gets back.

use rusqlite::Connection;

/// Free pages that the file keeps, 2 MiB: what is written next takes them.
const KEPT_PAGES: u32 = 512;
/// Free pages beyond these that are given back after a step of compaction.
const STEP_PAGES: u32 = 500;

/// How many there are.
pub(super) fn free(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
}

/// Gives free pages back to the file system, at most so many. Each of them is a row of the statement.
pub(super) fn give_back(connection: &Connection, pages: u32) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Gives the file system some of what is free beyond what the next changes will use again. What was forgotten before
/// stays forgotten where that fails.
pub(super) fn give_rest_back(connection: &Connection) {
    let given = free(connection).and_then(|pages| match pages.saturating_sub(KEPT_PAGES) {
        0 => Ok(()),
        rest => give_back(connection, rest.min(STEP_PAGES)),
    });
    if let Err(error) = given {
        tracing::debug!(%error, "free pages of the database are not given back");
    }
}
