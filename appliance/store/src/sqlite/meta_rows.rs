//! Numbers in rows of `meta`, and how large a step of the writer is beside other writes.

use rusqlite::{Connection, OptionalExtension as _, params};

/// Rows that one step goes over, so that writers wait milliseconds, not seconds.
pub(super) const STEP_ROWS: i64 = 500;
/// Bytes of values after which a step takes no further row. One value has [`crate::OBJECT_BYTES_MAX`] at most.
pub(super) const STEP_BYTES: i64 = 1 << 20;

/// A row of `meta` that may be missing.
pub(super) fn value(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}

pub(super) fn put(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute(params![name, value]).map(drop)
}

pub(crate) fn remove(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([name]).map(drop)
}
