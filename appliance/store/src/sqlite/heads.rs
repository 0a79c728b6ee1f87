//! What a database says of itself: the schema that brings checksums, and whether the counters of `meta`
//! and the restores of `epoch` can be believed. Everything else depends on them, so a database in which they are
//! damaged is not opened.

use rusqlite::{Connection, OptionalExtension as _};

use super::stored_row::{RowFound, stored_columns};
use super::{integer, meta};
use crate::types::{GroupResource, ObjectKey, Revision};

/// Checksums: of each row of `log` one of its head (key, revision, kind of the change, revision before), by which
/// it is followed, and one of all of it. `kind` counts what `object` has of each kind, so that a row that is lost or
/// altered there is noticed; what an older program wrote is counted and summed later, step by step (see
/// [`super::checksum_upgrade`]).
/// `meta_copy` has each number of `meta` a second time, inverted, and `epoch_copy` those of `epoch`; triggers keep
/// them with every write.
pub(super) const SCHEMA_6: &str = "
    CREATE TABLE kind(
        id INTEGER PRIMARY KEY,
        grp TEXT NOT NULL, resource TEXT NOT NULL,
        objects INTEGER NOT NULL,
        sum INTEGER NOT NULL,
        at_namespace TEXT, at_name TEXT);
    CREATE TABLE sum(
        revision INTEGER PRIMARY KEY,
        kind INTEGER NOT NULL, head INTEGER NOT NULL, sum INTEGER NOT NULL);
    CREATE TRIGGER log_gone AFTER DELETE ON log BEGIN
        DELETE FROM sum WHERE revision = OLD.revision;
    END;
    WITH RECURSIVE found(grp, resource) AS (
        SELECT grp, resource FROM (SELECT grp, resource FROM object ORDER BY grp, resource LIMIT 1)
      UNION ALL
        SELECT
            (SELECT o.grp FROM object o WHERE (o.grp, o.resource) > (f.grp, f.resource)
             ORDER BY o.grp, o.resource LIMIT 1),
            (SELECT o.resource FROM object o WHERE (o.grp, o.resource) > (f.grp, f.resource)
             ORDER BY o.grp, o.resource LIMIT 1)
        FROM found f WHERE f.grp IS NOT NULL)
    INSERT INTO kind(grp, resource, objects, sum, at_namespace, at_name)
        SELECT grp, resource, 0, 0, '', '' FROM found WHERE grp IS NOT NULL;
    INSERT INTO meta SELECT 'unsummed', value FROM meta WHERE key = 'revision';
    CREATE TABLE meta_copy(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO meta_copy SELECT key, ~value FROM meta;
    CREATE TRIGGER meta_made AFTER INSERT ON meta BEGIN
        INSERT INTO meta_copy VALUES (NEW.key, ~NEW.value) ON CONFLICT DO UPDATE SET value = excluded.value;
    END;
    CREATE TRIGGER meta_set AFTER UPDATE ON meta BEGIN
        UPDATE meta_copy SET value = ~NEW.value WHERE key = NEW.key;
    END;
    CREATE TRIGGER meta_gone AFTER DELETE ON meta BEGIN
        DELETE FROM meta_copy WHERE key = OLD.key;
    END;
    CREATE TABLE epoch_copy(
        number INTEGER PRIMARY KEY,
        timeline INTEGER NOT NULL, continues INTEGER NOT NULL, began INTEGER NOT NULL, began_ms INTEGER NOT NULL);
    INSERT INTO epoch_copy SELECT number, ~timeline, ~continues, ~began, ~began_ms FROM epoch;
    CREATE TRIGGER epoch_made AFTER INSERT ON epoch BEGIN
        INSERT INTO epoch_copy VALUES (NEW.number, ~NEW.timeline, ~NEW.continues, ~NEW.began, ~NEW.began_ms);
    END;
";

const COUNTERS_AGREE: &str = "
    SELECT (SELECT count(*) FROM meta) = (SELECT count(*) FROM meta_copy) AND NOT EXISTS (
        SELECT 1 FROM meta m LEFT JOIN meta_copy c ON c.key = m.key WHERE c.value IS NOT ~m.value)";
const EPOCHS_AGREE: &str = "
    SELECT (SELECT count(*) FROM epoch) = (SELECT count(*) FROM epoch_copy) AND NOT EXISTS (
        SELECT 1 FROM epoch e LEFT JOIN epoch_copy c ON c.number = e.number
        WHERE (c.timeline, c.continues, c.began, c.began_ms)
            IS NOT (~e.timeline, ~e.continues, ~e.began, ~e.began_ms))";

/// Whether the list of its tables is gone: a file that is new has one page at most. It would be taken for a new one.
pub(super) fn is_emptied(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    Ok(tables == 0 && pages > 1)
}

/// Whether a schema that is too new for this program is none: a newer program has the copy, too, or nothing of it.
pub(super) fn is_schema_damaged(connection: &Connection, found: i64) -> bool {
    let copy = connection.query_row("SELECT ~value FROM meta_copy WHERE key = 'schema'", [], |row| row.get(0));
    copy.is_ok_and(|copy: i64| copy != found)
}

/// Why the counters cannot be believed.
pub(super) fn fault(connection: &Connection) -> rusqlite::Result<Option<String>> {
    for (agree, what) in [(COUNTERS_AGREE, "counters"), (EPOCHS_AGREE, "restores on record")] {
        if !connection.query_row(agree, [], |row| row.get::<_, bool>(0))? {
            return Ok(Some(format!("its {what} and their copies differ")));
        }
    }
    let counted = meta(connection, "revision")?;
    let newest = newest(connection)?;
    Ok(newest
        .filter(|newest| *newest > counted)
        .map(|newest| format!("its change {newest} is newer than the store, which counts {counted}")))
}

/// The newest change that is there as it was written.
fn newest(connection: &Connection) -> rusqlite::Result<Option<Revision>> {
    let sql = concat!(
        "SELECT l.revision, l.grp, l.resource, l.namespace, l.name, ",
        stored_columns!("l"),
        " FROM log l ORDER BY l.revision DESC LIMIT 1"
    );
    let found = connection
        .query_row(sql, [], |row| {
            let kind = GroupResource::new(&row.get::<_, String>(1)?, &row.get::<_, String>(2)?);
            let key = ObjectKey { kind, namespace: row.get(3)?, name: row.get(4)? };
            Ok((crate::sqlite::revision(row.get(0)?), key, RowFound::of(row, 5)))
        })
        .optional();
    Ok(match found {
        Ok(Some((revision, key, RowFound::Row(stored)))) => {
            stored.check(&key, integer(revision)).is_ok().then_some(revision)
        }
        // A row that cannot be read is damaged by itself, and says nothing about the counter.
        Ok(_) => None,
        Err(error) if crate::sqlite::faults::is_structural(&error) => None,
        Err(error) => return Err(error),
    })
}
