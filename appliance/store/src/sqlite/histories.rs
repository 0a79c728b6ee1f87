//! Whether watches find every change that is kept.
//!
//! The history of a kind is read by way of `sum`, which has the number of every change and of its kind. It is
//! compared here with the index `log_kind`, which has the same in other pages, and each number is searched once: a
//! search that leads astray would leave out what it passes. Where the two differ the history up to now is not served.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::kind_rows::{KindRow, if_whole};
use super::stored_row::text;
use super::{integer, meta};
use crate::damage::DamageBook;
use crate::types::{GroupResource, Revision};

/// How many changes there are of a kind, and the sum of their numbers.
type Numbers = (u64, i64);

pub(super) fn check(connection: &Connection, rows: &[KindRow], book: &DamageBook) -> rusqlite::Result<()> {
    let current = meta(connection, "revision")?;
    let unsummed = integer(meta(connection, "unsummed")?);
    let summed = if_whole(summed(connection, unsummed), book)?.flatten();
    let indexed = if_whole(indexed(connection, unsummed), book)?;
    let both = summed.as_ref().zip(indexed.as_ref());
    for row in rows {
        let is_whole = both.is_some_and(|(summed, indexed)| summed.get(&row.id) == indexed.get(&row.kind));
        if !is_whole {
            cut(&row.kind, current, book);
        }
    }
    // Kinds that had no row until now.
    let known = |kind: &GroupResource| rows.iter().any(|row| row.kind == *kind);
    let unknown = indexed.iter().flat_map(BTreeMap::keys).filter(|kind| !known(*kind));
    unknown.for_each(|kind| cut(kind, current, book));
    Ok(())
}

fn cut(kind: &GroupResource, current: Revision, book: &DamageBook) {
    tracing::error!(%kind, "the history of a kind may have gaps; its watches list it again");
    book.set_floor(kind, current);
}

/// The changes by the number of the kind; none where the numbers are not in their order, or a search does not find
/// them.
fn summed(connection: &Connection, unsummed: i64) -> rusqlite::Result<Option<BTreeMap<i64, Numbers>>> {
    let mut summed: BTreeMap<i64, Numbers> = BTreeMap::new();
    let mut changes = connection.prepare("SELECT revision, kind FROM sum ORDER BY revision")?;
    let mut rows = changes.query([])?;
    let (mut last, mut count) = (i64::MIN, 0_u64);
    while let Some(row) = rows.next()? {
        let (at, kind): (i64, i64) = (row.get(0)?, row.get(1)?);
        if at <= last {
            return Ok(None);
        }
        (last, count) = (at, count + 1);
        if at > unsummed {
            add(summed.entry(kind).or_default(), at);
        }
    }
    let sql = "SELECT count(*) FROM sum a CROSS JOIN sum b ON b.revision = a.revision";
    let found: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    Ok((u64::try_from(found) == Ok(count)).then_some(summed))
}

fn indexed(connection: &Connection, unsummed: i64) -> rusqlite::Result<BTreeMap<GroupResource, Numbers>> {
    let mut indexed: BTreeMap<GroupResource, Numbers> = BTreeMap::new();
    // A scrub gives it another name each time.
    let named = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'log' AND name LIKE 'log_kind%'";
    let index: String = connection.query_row(named, [], |row| row.get(0))?;
    let sql = format!("SELECT grp, resource, revision FROM log INDEXED BY {index} ORDER BY grp, resource, revision");
    let mut changes = connection.prepare(&sql)?;
    let mut rows = changes.query([])?;
    let mut kind = GroupResource::new("", "");
    while let Some(row) = rows.next()? {
        let (group, resource) = (text(row, 0)?, text(row, 1)?);
        if (&*kind.group, &*kind.resource) != (group, resource) {
            kind = GroupResource::new(group, resource);
        }
        let at: i64 = row.get(2)?;
        if at > unsummed {
            match indexed.get_mut(&kind) {
                Some(numbers) => add(numbers, at),
                None => add(indexed.entry(kind.clone()).or_default(), at),
            }
        }
    }
    Ok(indexed)
}

fn add(numbers: &mut Numbers, at: i64) {
    *numbers = (numbers.0 + 1, numbers.1.wrapping_add(at));
}
