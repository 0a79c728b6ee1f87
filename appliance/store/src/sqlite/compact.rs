//! Forgetting history: up to a revision, and what is beyond a kind's limits. In steps, so that writers wait
//! milliseconds.

use rusqlite::{Connection, ToSql, Transaction, TransactionBehavior, params};

use super::kind_rows::if_whole;
use super::stored_row::code;
use super::{compacted, compacted_name, integer, meta, revision};
use crate::damage::DamageBook;
use crate::meter::{HistorySize, Meter, StoredUsage};
use crate::types::{ChangeKind, GroupResource, Revision};

/// Log rows gone over in one step, so that writers wait milliseconds, not seconds.
const COMPACT_STEP: u64 = 500;

/// A row that is gone: its kind, and the bytes of its value.
type Gone = (GroupResource, u64);

/// Goes over the next rows, of all kinds or of one, up to `through`: what they replaced goes, and so do
/// deletions.
pub(super) fn step(
    connection: &mut Connection,
    meter: &mut Meter,
    kind: Option<&GroupResource>,
    through: Revision,
) -> rusqlite::Result<Revision> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = compacted(&transaction, kind)?;
    if through <= from {
        return Ok(from);
    }
    let to = match kind {
        Some(kind) => last_of_step(&transaction, kind, from, through)?,
        None => through.min(Revision(from.0 + COMPACT_STEP)),
    };
    if to == from {
        // Nothing is written where nothing happened.
        return Ok(from);
    }
    forget(transaction, meter, kind, from, to)?;
    Ok(to)
}

/// Goes over the oldest rows of a kind until so much is gone, or a step is over; `None` where nothing can go.
pub(super) fn limit_step(
    connection: &mut Connection,
    meter: &mut Meter,
    kind: &GroupResource,
    excess: &HistorySize,
) -> rusqlite::Result<Option<Revision>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = compacted(&transaction, Some(kind))?;
    let to = last_to_go(&transaction, kind, from, excess)?;
    if to == from {
        return Ok(None);
    }
    forget(transaction, meter, Some(kind), from, to)?;
    Ok(Some(to))
}

/// Counts all that there is. It is summed up here, and not by the database, which may need room on the disk for that.
/// Where the file's structure is damaged, which is noted, nothing is counted of what was there before.
pub(super) fn measure(connection: &Connection, damages: &DamageBook) -> rusqlite::Result<Meter> {
    let current = meta(connection, "revision")?;
    Ok(if_whole(count(connection, current), damages)?.unwrap_or_else(|| Meter::at(current)))
}

fn count(connection: &Connection, current: Revision) -> rusqlite::Result<Meter> {
    let mut meter = Meter::at(current);
    let mut rows = connection.prepare(
        "SELECT l.grp, l.resource, l.namespace, o.revision IS NOT NULL, length(l.value)
         FROM log l LEFT JOIN object o ON o.grp = l.grp AND o.resource = l.resource
           AND o.namespace = l.namespace AND o.name = l.name AND o.revision = l.revision",
    )?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let kind = GroupResource::new(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?);
        let namespace: String = row.get(2)?;
        let bytes = unsigned(row.get(4)?);
        if row.get(3)? {
            meter.count_standing(&kind, &namespace, StoredUsage { objects: 1, bytes });
        } else {
            meter.count_history(&kind, HistorySize { revisions: 1, bytes });
        }
    }
    Ok(meter)
}

/// Has what the rows in (from, to] replaced go, and deletions among them, and says that it is gone.
fn forget(
    transaction: Transaction<'_>,
    meter: &mut Meter,
    kind: Option<&GroupResource>,
    from: Revision,
    to: Revision,
) -> rusqlite::Result<()> {
    let (first, last, deleted) = (integer(from), integer(to), code(ChangeKind::Deleted));
    let (group, resource) = kind.map_or(("", ""), |kind| (&*kind.group, &*kind.resource));
    let (rows, range): (&str, &[&dyn ToSql]) = match kind {
        Some(_) => (
            "c.grp = ?3 AND c.resource = ?4 AND c.revision > ?1 AND c.revision <= ?2",
            &[&first, &last, &group, &resource],
        ),
        None => ("c.revision > ?1 AND c.revision <= ?2", &[&first, &last]),
    };
    let gone = "RETURNING grp, resource, length(value)";
    // A number in a row that is damaged must not cost another object its value.
    let replaced = format!(
        "DELETE FROM log WHERE revision IN (
             SELECT p.revision FROM log c JOIN log p ON p.revision = c.previous AND p.revision < c.revision
             WHERE {rows} AND (p.grp, p.resource, p.namespace, p.name) = (c.grp, c.resource, c.namespace, c.name))
         {gone}"
    );
    let deletions = format!(
        "DELETE FROM log AS c WHERE {rows} AND c.op = {deleted} AND NOT EXISTS (
             SELECT 1 FROM object o WHERE o.revision = c.revision
               AND (o.grp, o.resource, o.namespace, o.name) = (c.grp, c.resource, c.namespace, c.name))
         {gone}"
    );
    let mut freed = delete(&transaction, &replaced, range)?;
    freed.extend(delete(&transaction, &deletions, range)?);
    transaction.execute(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
        params![compacted_name(kind), last],
    )?;
    transaction.commit()?;
    freed.iter().for_each(|(kind, bytes)| meter.freed(kind, *bytes));
    Ok(())
}

/// Deletes rows; returns what they were.
fn delete(transaction: &Transaction<'_>, sql: &str, range: &[&dyn ToSql]) -> rusqlite::Result<Vec<Gone>> {
    transaction
        .prepare_cached(sql)?
        .query_map(range, |row| {
            let kind = GroupResource::new(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?);
            Ok((kind, unsigned(row.get(2)?)))
        })?
        .collect()
}

/// The last of a kind's next rows that one step goes over; `from` if there is none.
fn last_of_step(
    transaction: &Transaction<'_>,
    kind: &GroupResource,
    from: Revision,
    through: Revision,
) -> rusqlite::Result<Revision> {
    let rows = COMPACT_STEP.cast_signed();
    let last: Option<i64> = transaction.query_row(
        "SELECT max(revision) FROM (SELECT revision FROM log WHERE grp = ?1 AND resource = ?2
         AND revision > ?3 AND revision <= ?4 ORDER BY revision LIMIT ?5)",
        params![&*kind.group, &*kind.resource, integer(from), integer(through), rows],
        |row| row.get(0),
    )?;
    Ok(last.map_or(from, revision))
}

/// The row of a kind up to which enough goes, or the last of a step.
fn last_to_go(
    transaction: &Transaction<'_>,
    kind: &GroupResource,
    from: Revision,
    excess: &HistorySize,
) -> rusqlite::Result<Revision> {
    let mut rows = transaction.prepare_cached(
        "SELECT l.revision, l.op, length(l.value), length(p.value)
         FROM log l LEFT JOIN log p ON p.revision = l.previous
         WHERE l.grp = ?1 AND l.resource = ?2 AND l.revision > ?3 ORDER BY l.revision LIMIT ?4",
    )?;
    let mut rows = rows.query(params![&*kind.group, &*kind.resource, integer(from), COMPACT_STEP.cast_signed()])?;
    let (mut to, mut gone) = (from, HistorySize::default());
    while let Some(row) = rows.next()? {
        to = revision(row.get(0)?);
        if let Some(bytes) = row.get::<_, Option<i64>>(3)? {
            gone.add(unsigned(bytes));
        }
        if row.get::<_, i64>(1)? == code(ChangeKind::Deleted) {
            gone.add(unsigned(row.get(2)?));
        }
        if gone.covers(excess) {
            break;
        }
    }
    Ok(to)
}

fn unsigned(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or(0)
}
