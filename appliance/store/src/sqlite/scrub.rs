//! Leaves nothing in the file that is no row, in steps between other writes.
//!
//! When values are sealed, what they were before lies on in free pages, in free places of pages that are in use, and
//! in the write-ahead log. `VACUUM` would rewrite the whole file while all writers wait. So the log moves to pages of
//! its own instead, a part in each step, and what it leaves is overwritten with zeros (`secure_delete`):
//!
//! ```text
//!   DUE       leftovers of an earlier scrub go; log_next is made, and two triggers that keep it true to log
//!   COPYING   log_next gets the next rows; at the end it takes log's name, and log becomes log_old
//!   EMPTYING  log_old loses its next rows; at the end it goes, and the small tables move in one step
//!   FREEING   the next free pages leave the file; at the end the write-ahead log is cut
//! ```
//!
//! Each step is one transaction, with the stage in `meta.scrub`: a process that dies goes on from there, and readers
//! see one log or the other, each of them whole. A row that changes meanwhile begins the scrub again.
//!
//! The copy takes as much room as the log has, for a while. It is not begun where there is less, and given up where
//! others need the room.

use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

use super::meta_rows::{STEP_BYTES, STEP_ROWS, put, value};
use super::{PATIENCE, pages};
use crate::error::ResealError;
use crate::high_water::cut_log;

/// The row of `meta` with the stage.
const SCRUB: &str = "scrub";
const NOTHING: i64 = 0;
/// Triggers have the number as well.
const DUE: i64 = 1;
const COPYING: i64 = 2;
const EMPTYING: i64 = 3;
const FREEING: i64 = 4;

/// Left free on the disk for everything else that is written.
const RESERVE_BYTES: u64 = 64 << 20;
/// Free pages that one step gives back.
const STEP_PAGES: u32 = 500;
/// How long writers wait in one step for those who read from the write-ahead log.
const LOG_WAIT: Duration = Duration::from_millis(250);

const TRIGGERS: &str = "
    CREATE TRIGGER log_next_gone AFTER DELETE ON log BEGIN
        DELETE FROM log_next WHERE revision = old.revision;
    END;
    CREATE TRIGGER log_next_stale AFTER UPDATE ON log BEGIN
        UPDATE meta SET value = 1 WHERE key = 'scrub';
    END;
";
const NO_TRIGGERS: &str = "DROP TRIGGER IF EXISTS log_next_gone; DROP TRIGGER IF EXISTS log_next_stale;";
/// Whether the copy of the log has the same rows.
const IS_SAME: &str = "
    SELECT (SELECT count(*) FROM log) = (SELECT count(*) FROM log_next)
       AND (SELECT coalesce(sum(revision), 0) FROM log) = (SELECT coalesce(sum(revision), 0) FROM log_next)
";

/// How it stands after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScrubStep {
    /// There are more.
    Next,
    /// The write-ahead log is read from, and cannot be cut yet.
    Busy,
    /// Nothing is left to do.
    Over,
}

/// Notes that something was written over that the file is to hold no trace of.
pub(super) fn is_due(connection: &Connection) -> rusqlite::Result<()> {
    put(connection, SCRUB, DUE)
}

/// Goes one step on, where so many bytes are free on the disk.
pub(super) fn step(connection: &mut Connection, free_bytes: u64) -> Result<ScrubStep, ResealError> {
    let stage = value(connection, SCRUB).map_err(failed)?.unwrap_or(NOTHING);
    if stage == NOTHING {
        return Ok(ScrubStep::Over);
    }
    connection.pragma_update(None, "secure_delete", true).map_err(failed)?;
    // A table that gets another name takes nothing along that names it elsewhere.
    connection.pragma_update(None, "legacy_alter_table", true).map_err(failed)?;
    if stage == FREEING {
        return free(connection);
    }
    if stage == DUE {
        check_room(connection, free_bytes)?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let done = match stage {
        COPYING if free_bytes < RESERVE_BYTES => give_up(&transaction).map(|()| true),
        COPYING => copy(&transaction),
        EMPTYING => empty(&transaction).map(|()| true),
        _ => begin(&transaction).map(|()| true),
    };
    let is_true_to_log = done.and_then(|is_true| transaction.commit().map(|()| is_true)).map_err(failed)?;
    if !is_true_to_log {
        // The caller waits before the next try: a damaged log may differ each time.
        let text = "the copy of the log in the database has other rows than the log, which may be damaged";
        return Err(ResealError::Scrub(text.to_owned()));
    }
    Ok(ScrubStep::Next)
}

fn failed(error: rusqlite::Error) -> ResealError {
    ResealError::Scrub(crate::sqlite::faults::in_words(&error))
}

/// Whether a copy can be begun. What an earlier one left can be removed without room.
fn check_room(connection: &Connection, free_bytes: u64) -> Result<(), ResealError> {
    if has_table(connection, "log_old").map_err(failed)? || has_table(connection, "log_next").map_err(failed)? {
        return Ok(());
    }
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    let bytes = number("page_count")?.saturating_mul(number("page_size")?);
    let needed = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(RESERVE_BYTES);
    if free_bytes < needed {
        let text = format!(
            "for a while this takes {needed} free bytes on the disk of the database, where {free_bytes} are free"
        );
        return Err(ResealError::Scrub(text));
    }
    Ok(())
}

/// Removes a part of what an earlier scrub left, or makes the place to copy to.
fn begin(transaction: &Connection) -> rusqlite::Result<()> {
    if has_table(transaction, "log_old")? {
        return drop_next(transaction).map(drop);
    }
    if has_table(transaction, "log_next")? {
        return give_up(transaction);
    }
    let made: String =
        transaction
            .query_row("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'log'", [], |row| row.get(0))?;
    transaction.execute_batch(&format!("CREATE TABLE log_next{}", after_name(&made)))?;
    for (name, sql) in parts(transaction, "index", "log")? {
        let unique = if sql.starts_with("CREATE UNIQUE") { "UNIQUE " } else { "" };
        // Names of indexes are unique, and the log has its own until it goes.
        let name = name.strip_suffix("_b").map_or_else(|| format!("{name}_b"), str::to_owned);
        transaction.execute_batch(&format!("CREATE {unique}INDEX {name} ON log_next{}", after_name(&sql)))?;
    }
    transaction.execute_batch(TRIGGERS)?;
    put(transaction, SCRUB, COPYING)
}

/// Makes of the copy a leftover, which is removed before another one is begun.
fn give_up(transaction: &Connection) -> rusqlite::Result<()> {
    transaction.execute_batch(NO_TRIGGERS)?;
    transaction.execute_batch("ALTER TABLE log_next RENAME TO log_old")?;
    put(transaction, SCRUB, DUE)
}

/// Copies the next rows; where there are none, the copy takes the log's place. False where it has other rows: then it
/// is made again.
fn copy(transaction: &Connection) -> rusqlite::Result<bool> {
    let after: i64 = transaction.query_row("SELECT coalesce(max(revision), 0) FROM log_next", [], |row| row.get(0))?;
    if let Some(last) = last_of_step(transaction, "log", after)? {
        let sql = "INSERT INTO log_next SELECT * FROM log WHERE revision > ?1 AND revision <= ?2";
        return transaction.execute(sql, params![after, last]).map(|_| true);
    }
    if !transaction.query_row(IS_SAME, [], |row| row.get::<_, bool>(0))? {
        return put(transaction, SCRUB, DUE).map(|()| false);
    }
    transaction.execute_batch(NO_TRIGGERS)?;
    let kept = parts(transaction, "trigger", "log")?;
    for (name, _) in &kept {
        transaction.execute_batch(&format!("DROP TRIGGER {name}"))?;
    }
    transaction.execute_batch("ALTER TABLE log RENAME TO log_old; ALTER TABLE log_next RENAME TO log;")?;
    for (_, sql) in &kept {
        transaction.execute_batch(sql)?;
    }
    put(transaction, SCRUB, EMPTYING).map(|()| true)
}

/// Empties what the log left; where it is gone, the other tables move.
fn empty(transaction: &Connection) -> rusqlite::Result<()> {
    if has_table(transaction, "log_old")? && !drop_next(transaction)? {
        return Ok(());
    }
    let others: Vec<(String, String)> = transaction
        .prepare(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name <> 'log' AND name NOT LIKE 'sqlite_%'",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (name, made) in others {
        move_table(transaction, &name, &made)?;
    }
    put(transaction, SCRUB, FREEING)
}

/// Removes the next rows of `log_old`, and itself when it has none. Returns whether it is gone.
fn drop_next(transaction: &Connection) -> rusqlite::Result<bool> {
    if let Some(last) = last_of_step(transaction, "log_old", 0)? {
        transaction.execute("DELETE FROM log_old WHERE revision <= ?1", [last])?;
        return Ok(false);
    }
    transaction.execute_batch("DROP TABLE log_old")?;
    Ok(true)
}

/// Moves the rows into pages of their own.
fn move_table(transaction: &Connection, name: &str, made: &str) -> rusqlite::Result<()> {
    let mut with = parts(transaction, "index", name)?;
    with.extend(parts(transaction, "trigger", name)?);
    transaction.execute_batch(&format!(
        "CREATE TABLE scrubbed{}; INSERT INTO scrubbed SELECT * FROM {name};
         DROP TABLE {name}; ALTER TABLE scrubbed RENAME TO {name};",
        after_name(made)
    ))?;
    with.iter().try_for_each(|(_, sql)| transaction.execute_batch(sql))
}

/// Gives the next free pages back. Where there are no more, cuts the write-ahead log, and all is done.
fn free(connection: &Connection) -> Result<ScrubStep, ResealError> {
    let before = pages::free(connection).map_err(failed)?;
    if before > 0 {
        pages::give_back(connection, STEP_PAGES).map_err(failed)?;
        if pages::free(connection).map_err(failed)? < before {
            return Ok(ScrubStep::Next);
        }
    }
    if !cut_log(connection, LOG_WAIT, PATIENCE).map_err(failed)? {
        return Ok(ScrubStep::Busy);
    }
    put(connection, SCRUB, NOTHING).map_err(failed)?;
    connection.pragma_update(None, "secure_delete", false).map_err(failed)?;
    Ok(ScrubStep::Over)
}

/// The last row that one step takes, of those after this one.
fn last_of_step(transaction: &Connection, table: &str, after: i64) -> rusqlite::Result<Option<i64>> {
    let sql = format!("SELECT revision, length(value) FROM {table} WHERE revision > ?1 ORDER BY revision LIMIT ?2");
    let mut statement = transaction.prepare(&sql)?;
    let mut rows = statement.query([after, STEP_ROWS])?;
    let (mut last, mut bytes) = (None, 0_i64);
    while let Some(row) = rows.next()? {
        last = Some(row.get(0)?);
        bytes += row.get::<_, i64>(1)?;
        if bytes >= STEP_BYTES {
            break;
        }
    }
    Ok(last)
}

fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1)";
    connection.query_row(sql, [name], |row| row.get(0))
}

/// Name and text of the indexes or triggers of a table; those that come with its key have no text.
fn parts(connection: &Connection, kind: &str, table: &str) -> rusqlite::Result<Vec<(String, String)>> {
    connection
        .prepare("SELECT name, sql FROM sqlite_master WHERE type = ?1 AND tbl_name = ?2 AND sql IS NOT NULL")?
        .query_map([kind, table], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// The rest of a statement that makes a table or an index, after the names. It begins with a bracket.
fn after_name(sql: &str) -> &str {
    sql.find('(').map_or("", |bracket| &sql[bracket..])
}
