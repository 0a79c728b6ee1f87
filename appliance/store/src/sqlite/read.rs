//! Reads on a snapshot of the database. Each function is one transaction.
//!
//! What is damaged is never left out: a value is compared with its checksum, and one that differs, or
//! cannot be read, is an error that names its object.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::faults::{in_words, is_structural};
use super::stored_row::{self, RowFound, RowHead, head_checksum, stored_columns};
use super::{Database, compacted, integer, meta, revision};
use crate::damage::{Damage, DamageBook, DamageCause, PageRead};
use crate::error::StoreReadError;
use crate::types::{
    ChangeKind, GroupResource, ListPage, ListRange, ObjectKey, Position, Revision, StoreEvent, StoredObject,
};

/// The heads of the changes with these numbers, of which one that is missing is a row of nothing.
macro_rules! replaced_sql {
    ($numbers:literal) => {
        concat!(
            "SELECT i.revision, l.namespace, l.name, coalesce(l.op, 0), coalesce(l.previous, 0),
               (SELECT s.head FROM sum s WHERE s.revision = i.revision),
               i.revision > (SELECT value FROM meta WHERE key = 'unsummed')
             FROM ",
            $numbers,
            " i LEFT JOIN log l ON l.revision = i.revision"
        )
    };
}

/// The changes with these numbers, each with what was before it.
macro_rules! history_sql {
    ($numbers:literal) => {
        concat!(
            "SELECT i.revision, l.namespace, l.name, ",
            stored_columns!("l"),
            ", ",
            stored_columns!("p"),
            " FROM ",
            $numbers,
            " i LEFT JOIN log l ON l.revision = i.revision LEFT JOIN log p ON p.revision = l.previous
             ORDER BY i.revision"
        )
    };
}

impl From<rusqlite::Error> for StoreReadError {
    fn from(error: rusqlite::Error) -> Self {
        if is_structural(&error) { Self::Structure(in_words(&error)) } else { Self::Database(error.to_string()) }
    }
}

pub(crate) fn object(database: &mut Database, key: &ObjectKey) -> Result<Option<StoredObject>, StoreReadError> {
    check_kind(&database.damages, &key.kind)?;
    let place = params![&*key.kind.group, &*key.kind.resource, key.namespace, key.name];
    let sql = concat!(
        "SELECT o.revision, ",
        stored_columns!("l"),
        " FROM object o LEFT JOIN log l ON l.revision = o.revision
          WHERE o.grp = ?1 AND o.resource = ?2 AND o.namespace = ?3 AND o.name = ?4"
    );
    let connection = &database.connection;
    let found = connection
        .prepare_cached(sql)?
        .query_row(place, |row| Ok((row.get::<_, i64>(0)?, RowFound::of(row, 1))))
        .optional();
    let found = match found {
        Err(error) if is_structural(&error) => {
            database.damages.structure(&in_words(&error));
            // Where it stands may be known all the same.
            let at = connection
                .prepare_cached(
                    "SELECT revision FROM object WHERE grp = ?1 AND resource = ?2 AND namespace = ?3 AND name = ?4",
                )?
                .query_row(place, |row| row.get::<_, i64>(0))
                .optional()?;
            at.map(|at| (at, RowFound::Unreadable(in_words(&error))))
        }
        found => found?,
    };
    let Some((at, row)) = found else { return Ok(None) };
    match row.open(database.keyring.as_deref(), key, at) {
        Ok((value, _)) => Ok(Some(StoredObject { key: key.clone(), revision: revision(at), value })),
        Err(cause) => {
            let damage = Damage { key: key.clone(), revision: revision(at), cause };
            database.damages.found(&damage);
            Err(StoreReadError::Damaged(vec![damage]))
        }
    }
}

/// The objects that stand since a revision or before it and come after a place, in order and with their values.
const EXISTS: &str = concat!(
    "SELECT o.namespace, o.name, o.revision, ",
    stored_columns!("l"),
    " FROM object o LEFT JOIN log l ON l.revision = o.revision
    WHERE o.grp = ?1 AND o.resource = ?2 AND o.revision <= ?3 AND (?4 IS NULL OR o.namespace = ?4)
      AND (o.namespace, o.name) > (?5, ?6) ORDER BY o.namespace, o.name LIMIT ?7"
);

/// The list without the values. It has all that existed then, but for those that have changed since.
const EXISTS_BARE: &str = "
    SELECT namespace, name, revision FROM object
    WHERE grp = ?1 AND resource = ?2 AND revision <= ?3 AND (?4 IS NULL OR namespace = ?4)
      AND (namespace, name) > (?5, ?6) ORDER BY namespace, name LIMIT ?7
";

impl ListRange<'_> {
    /// Namespace and name of a place before the first one. Names are never empty, so (namespace, "") stands
    /// before every object of it.
    fn start(&self) -> (&str, &str) {
        self.after.map_or((self.namespace.unwrap_or(""), ""), |at| (at.namespace.as_str(), at.name.as_str()))
    }

    fn rows<T>(
        &self,
        transaction: &Transaction<'_>,
        sql: &str,
        at: Revision,
        limit: i64,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let (namespace, name) = self.start();
        let range =
            params![&*self.kind.group, &*self.kind.resource, integer(at), self.namespace, namespace, name, limit];
        transaction.prepare_cached(sql)?.query_map(range, read)?.collect()
    }
}

/// An object of a page: where it is, where it stands, and its row where that was read.
type Listed = (ObjectKey, i64, Option<RowFound>);

/// Objects in order; `remaining` is 1 where there are more.
pub(crate) fn page(database: &mut Database, range: ListRange<'_>, limit: usize) -> Result<PageRead, StoreReadError> {
    let Database { connection, keyring, damages, .. } = database;
    check_kind(damages, range.kind)?;
    let transaction = connection.transaction()?;
    let (at, current) = check_revision_bounds(&transaction, damages, range.kind, range.at)?;
    // One more object than the limit shows whether there are more; its value is not read.
    let mut rows = if at == current {
        newest(&transaction, damages, range, at, limit)?
    } else {
        existed(&transaction, range, at, current, limit)?
    };
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(|(key, ..)| key.position());
    let (mut items, mut damaged) = (Vec::with_capacity(rows.len()), Vec::new());
    for (key, stands, row) in rows {
        let row = match row {
            Some(row) => row,
            None => row_at(&transaction, damages, stands)?,
        };
        let revision = revision(stands);
        match row.open(keyring.as_deref(), &key, stands) {
            Ok((value, _)) => items.push(StoredObject { key, revision, value }),
            Err(cause) => damaged.push(Damage { key, revision, cause }),
        }
    }
    // What was replaced since is not damage of an object.
    if at == current {
        damaged.iter().for_each(|damage| damages.found(damage));
    }
    Ok(PageRead { page: ListPage { items, revision: at, remaining: more.into() }, damaged, last })
}

fn asked(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

fn key_of(range: ListRange<'_>, row: &Row<'_>) -> rusqlite::Result<ObjectKey> {
    Ok(ObjectKey { kind: range.kind.clone(), namespace: row.get(0)?, name: row.get(1)? })
}

/// What stands now, with its values unless one of them cannot be read: then each is read by itself.
fn newest(
    transaction: &Transaction<'_>,
    damages: &DamageBook,
    range: ListRange<'_>,
    at: Revision,
    limit: usize,
) -> Result<Vec<Listed>, StoreReadError> {
    let mut count = 0;
    let whole = range.rows(transaction, EXISTS, at, asked(limit), |row| {
        count += 1;
        let value = (count <= limit).then(|| RowFound::of(row, 3));
        Ok((key_of(range, row)?, row.get(2)?, value))
    });
    match whole {
        Err(error) if is_structural(&error) => {
            damages.structure(&in_words(&error));
            bare(transaction, range, at, limit)
        }
        whole => Ok(whole?),
    }
}

fn bare(
    transaction: &Transaction<'_>,
    range: ListRange<'_>,
    at: Revision,
    limit: usize,
) -> Result<Vec<Listed>, StoreReadError> {
    let rows =
        range.rows(transaction, EXISTS_BARE, at, asked(limit), |row| Ok((key_of(range, row)?, row.get(2)?, None)));
    Ok(rows?)
}

/// What existed at a revision: the objects that have not changed since, and of each that has, the state that its
/// first later change replaced.
fn existed(
    transaction: &Transaction<'_>,
    range: ListRange<'_>,
    at: Revision,
    current: Revision,
    limit: usize,
) -> Result<Vec<Listed>, StoreReadError> {
    let mut all: BTreeMap<Position, i64> = BTreeMap::new();
    for (key, stands, _) in bare(transaction, range, at, limit)? {
        all.insert(key.position(), stands);
    }
    all.extend(replaced(transaction, range, at, current)?);
    let key = |place: Position| ObjectKey { kind: range.kind.clone(), namespace: place.namespace, name: place.name };
    Ok(all.into_iter().map(|(place, stands)| (key(place), stands, None)).collect())
}

/// What stood at a revision and was replaced since. Where a change since cannot be believed, that revision counts as
/// forgotten: its readers begin again at the newest.
fn replaced(
    transaction: &Transaction<'_>,
    range: ListRange<'_>,
    at: Revision,
    current: Revision,
) -> Result<Vec<(Position, i64)>, StoreReadError> {
    let sql = if at < meta(transaction, "unsummed")? {
        replaced_sql!("(SELECT revision FROM log WHERE grp = ?1 AND resource = ?2 AND revision > ?3)")
    } else {
        replaced_sql!(
            "(SELECT revision FROM sum WHERE revision > ?3
              AND kind = (SELECT id FROM kind WHERE grp = ?1 AND resource = ?2))"
        )
    };
    let forgotten = || StoreReadError::Compacted { oldest: current };
    let (namespace, name) = range.start();
    let mut changes = transaction.prepare_cached(sql)?;
    let mut rows = changes.query(params![&*range.kind.group, &*range.kind.resource, integer(at)])?;
    let mut replaced = Vec::new();
    while let Some(row) = rows.next()? {
        let place: Option<Position> = match (row.get(1)?, row.get(2)?) {
            (Some(namespace), Some(name)) => Some(Position { namespace, name }),
            _ => None,
        };
        let place = place.ok_or_else(forgotten)?;
        let head = RowHead { revision: row.get(0)?, op: row.get(3)?, previous: row.get(4)?, sealed: false };
        let key = ObjectKey::new(range.kind, &place.namespace, &place.name);
        let (sum, is_due): (Option<i64>, bool) = (row.get(5)?, row.get(6)?);
        if sum.map_or(is_due, |sum| sum != i64::from(head_checksum(&key, head))) {
            return Err(forgotten());
        }
        let is_asked = range.namespace.is_none_or(|namespace| namespace == place.namespace)
            && (place.namespace.as_str(), place.name.as_str()) > (namespace, name);
        if head.previous > 0 && head.previous <= integer(at) && is_asked {
            replaced.push((place, head.previous));
        }
    }
    Ok(replaced)
}

/// One row of `log`, whatever is wrong with it.
fn row_at(transaction: &Transaction<'_>, damages: &DamageBook, stands: i64) -> Result<RowFound, StoreReadError> {
    let sql = concat!("SELECT ", stored_columns!("l"), " FROM log l WHERE l.revision = ?1");
    let found = transaction.prepare_cached(sql)?.query_row([stands], |row| Ok(RowFound::of(row, 0))).optional();
    match found {
        Ok(found) => Ok(found.unwrap_or(RowFound::Nothing)),
        Err(error) if is_structural(&error) => {
            damages.structure(&in_words(&error));
            Ok(RowFound::Unreadable(in_words(&error)))
        }
        Err(error) => Err(error.into()),
    }
}

/// A kind whose list is damaged would hide objects.
fn check_kind(damages: &DamageBook, kind: &GroupResource) -> Result<(), StoreReadError> {
    match damages.why_broken(kind) {
        Some(why) => Err(StoreReadError::Broken { kind: kind.clone(), why }),
        None => Ok(()),
    }
}

/// How many objects there are.
pub(crate) fn count(database: &mut Database, range: ListRange<'_>) -> Result<u64, StoreReadError> {
    check_kind(&database.damages, range.kind)?;
    let transaction = database.connection.transaction()?;
    let (at, current) = check_revision_bounds(&transaction, &database.damages, range.kind, range.at)?;
    let sql = "SELECT count(*) FROM object WHERE grp = ?1 AND resource = ?2 AND revision <= ?3
               AND (?4 IS NULL OR namespace = ?4) AND (namespace, name) > (?5, ?6) LIMIT ?7";
    let counted: Vec<i64> = range.rows(&transaction, sql, at, i64::MAX, |row| row.get(0))?;
    let standing: u64 = counted.into_iter().filter_map(|count| u64::try_from(count).ok()).sum();
    if at == current {
        return Ok(standing);
    }
    Ok(standing + replaced(&transaction, range, at, current)?.len() as u64)
}

/// The revision that is asked for, which must be known still and already, and the newest one.
fn check_revision_bounds(
    transaction: &Transaction<'_>,
    damages: &DamageBook,
    kind: &GroupResource,
    at: Option<Revision>,
) -> Result<(Revision, Revision), StoreReadError> {
    let current = meta(transaction, "revision")?;
    let at = at.unwrap_or(current);
    if at > current {
        return Err(StoreReadError::Future { current });
    }
    // What stands now does not need the history.
    if at < current {
        check_kept(transaction, damages, kind, at)?;
    }
    Ok((at, current))
}

/// The events of a kind in (after, through], at most `limit`, in order. One that is damaged, or whose previous value
/// is, ends it with an error: an event that is left out would be a change that no watch shows.
pub(crate) fn history(
    database: &mut Database,
    kind: &GroupResource,
    after: Revision,
    through: Revision,
    limit: usize,
) -> Result<Vec<StoreEvent>, StoreReadError> {
    let Database { connection, keyring, damages, .. } = database;
    check_kind(damages, kind)?;
    let transaction = connection.transaction()?;
    check_kept(&transaction, damages, kind, after)?;
    let sql = if after < meta(&transaction, "unsummed")? {
        history_sql!(
            "(SELECT revision FROM log WHERE grp = ?1 AND resource = ?2
              AND revision > ?3 AND revision <= ?4 ORDER BY revision LIMIT ?5)"
        )
    } else {
        history_sql!(
            "(SELECT revision FROM sum WHERE revision > ?3 AND revision <= ?4
              AND kind = (SELECT id FROM kind WHERE grp = ?1 AND resource = ?2) ORDER BY revision LIMIT ?5)"
        )
    };
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let range = params![&*kind.group, &*kind.resource, integer(after), integer(through), most];
    let mut changes = transaction.prepare_cached(sql)?;
    let mut rows = changes.query(range)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let at: i64 = row.get(0)?;
        let (Some(namespace), Some(name)) = (row.get(1)?, row.get(2)?) else {
            return Err(StoreReadError::Structure(format!("the row of change {at} is missing")));
        };
        let key = ObjectKey { kind: kind.clone(), namespace, name };
        let damaged = |revision, cause| StoreReadError::Damaged(vec![Damage { key: key.clone(), revision, cause }]);
        let keyring = keyring.as_deref();
        let opened = RowFound::of(row, 3).open(keyring, &key, at);
        let (value, head) = opened.map_err(|cause| damaged(revision(at), cause))?;
        // What was before is kept for as long as the change is.
        let previous = if head.previous == 0 {
            None
        } else {
            let opened = RowFound::of(row, 9).open(keyring, &key, head.previous);
            Some(opened.map_err(|cause| damaged(revision(head.previous), cause))?.0)
        };
        let event_kind = event_kind(head.op).ok_or_else(|| damaged(revision(at), DamageCause::Checksum))?;
        events.push(StoreEvent { revision: revision(at), kind: event_kind, key, value, previous });
    }
    Ok(events)
}

fn check_kept(
    transaction: &Transaction<'_>,
    damages: &DamageBook,
    kind: &GroupResource,
    at: Revision,
) -> Result<(), StoreReadError> {
    let oldest = compacted(transaction, Some(kind))?.max(damages.floor(kind));
    if at < oldest { Err(StoreReadError::Compacted { oldest }) } else { Ok(()) }
}

fn event_kind(code: i64) -> Option<ChangeKind> {
    [ChangeKind::Created, ChangeKind::Updated, ChangeKind::Deleted]
        .into_iter()
        .find(|&kind| stored_row::code(kind) == code)
}
