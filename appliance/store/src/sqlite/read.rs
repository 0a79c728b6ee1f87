//! Reads on a snapshot of the database. Each function is one transaction.

use bytes::Bytes;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{Database, compacted, integer, meta, revision, write};
use crate::error::ReadError;
use crate::seal::{KeyId, Keyring};
use crate::types::{Event, EventKind, GroupResource, Key, Object, Page, Range, Revision};

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.to_string())
    }
}

pub(crate) fn object(database: &mut Database, key: &Key) -> Result<Option<Object>, ReadError> {
    let found = database
        .connection
        .prepare_cached(
            "SELECT o.revision, l.value, l.sealed FROM object o JOIN log l ON l.revision = o.revision
             WHERE o.grp = ?1 AND o.resource = ?2 AND o.namespace = ?3 AND o.name = ?4",
        )?
        .query_row(params![&*key.kind.group, &*key.kind.resource, key.namespace, key.name], |row| {
            Ok((revision(row.get(0)?), Stored::of(row, 1)?))
        })
        .optional()?;
    let Some((revision, value)) = found else { return Ok(None) };
    Ok(Some(Object { key: key.clone(), revision, value: value.open(database.keyring.as_deref(), key)? }))
}

/// What existed at a revision after a place, in no order: the objects that have not changed since, the
/// first of them only, and of each that has, the state that its first later change replaced.
const EXISTED: &str = "
    SELECT * FROM (
        SELECT namespace, name, revision FROM object
        WHERE grp = ?1 AND resource = ?2 AND revision <= ?3 AND (?4 IS NULL OR namespace = ?4)
          AND (namespace, name) > (?5, ?6) ORDER BY namespace, name LIMIT ?7)
  UNION ALL
    SELECT namespace, name, previous FROM log
    WHERE grp = ?1 AND resource = ?2 AND revision > ?3 AND previous > 0 AND previous <= ?3
      AND (?4 IS NULL OR namespace = ?4) AND (namespace, name) > (?5, ?6)
";

/// The same where nothing has changed since, in order and with the values.
const EXISTS: &str = "
    SELECT o.namespace, o.name, o.revision, l.value, l.sealed FROM object o JOIN log l ON l.revision = o.revision
    WHERE o.grp = ?1 AND o.resource = ?2 AND o.revision <= ?3 AND (?4 IS NULL OR o.namespace = ?4)
      AND (o.namespace, o.name) > (?5, ?6) ORDER BY o.namespace, o.name LIMIT ?7
";

impl Range<'_> {
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

/// Objects in order; `remaining` is 1 where there are more.
pub(crate) fn page(database: &mut Database, range: Range<'_>, limit: usize) -> Result<Page, ReadError> {
    let keyring = database.keyring.as_deref();
    let transaction = database.connection.transaction()?;
    let (at, current) = kept(&transaction, range.kind, range.at)?;
    // One more tells whether there are more; its value is not read.
    let asked = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let key = |row: &Row<'_>| -> rusqlite::Result<Key> {
        Ok(Key { kind: range.kind.clone(), namespace: row.get(0)?, name: row.get(1)? })
    };
    let mut rows: Vec<(Key, Revision, Option<Stored>)>;
    if at == current {
        let mut count = 0;
        rows = range.rows(&transaction, EXISTS, at, asked, |row| {
            count += 1;
            let value = if count > limit { None } else { Some(Stored::of(row, 3)?) };
            Ok((key(row)?, revision(row.get(2)?), value))
        })?;
    } else {
        let sql = format!("{EXISTED} ORDER BY namespace, name LIMIT ?7");
        rows = range.rows(&transaction, &sql, at, asked, |row| Ok((key(row)?, revision(row.get(2)?), None)))?;
    }
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut of_revision = transaction.prepare_cached("SELECT value, sealed FROM log WHERE revision = ?1")?;
    let mut items = Vec::with_capacity(rows.len());
    for (key, revision, value) in rows {
        let value = match value {
            Some(value) => value,
            None => of_revision.query_row([integer(revision)], |row| Stored::of(row, 0))?,
        };
        let value = value.open(keyring, &key)?;
        items.push(Object { key, revision, value });
    }
    Ok(Page { items, revision: at, remaining: more.into() })
}

/// How many objects there are.
pub(crate) fn count(database: &mut Database, range: Range<'_>) -> Result<u64, ReadError> {
    let transaction = database.connection.transaction()?;
    let (at, _) = kept(&transaction, range.kind, range.at)?;
    let sql = format!("SELECT count(*) FROM ({EXISTED})");
    let counted: Vec<i64> = range.rows(&transaction, &sql, at, i64::MAX, |row| row.get(0))?;
    Ok(counted.into_iter().filter_map(|count| u64::try_from(count).ok()).sum())
}

/// The revision that is asked for, which must be known still and already, and the newest one.
fn kept(
    transaction: &Transaction<'_>,
    kind: &GroupResource,
    at: Option<Revision>,
) -> Result<(Revision, Revision), ReadError> {
    let current = meta(transaction, "revision")?;
    let at = at.unwrap_or(current);
    if at > current {
        return Err(ReadError::Future { current });
    }
    check_kept(transaction, kind, at)?;
    Ok((at, current))
}

/// The events of a kind in (after, through], at most `limit`, in order.
pub(crate) fn history(
    database: &mut Database,
    kind: &GroupResource,
    after: Revision,
    through: Revision,
    limit: usize,
) -> Result<Vec<Event>, ReadError> {
    let keyring = database.keyring.as_deref();
    let transaction = database.connection.transaction()?;
    check_kept(&transaction, kind, after)?;
    let events = transaction
        .prepare_cached(
            "SELECT l.revision, l.op, l.namespace, l.name, l.value, l.sealed, p.value, p.sealed
             FROM log l LEFT JOIN log p ON p.revision = l.previous
             WHERE l.grp = ?1 AND l.resource = ?2 AND l.revision > ?3 AND l.revision <= ?4
             ORDER BY l.revision LIMIT ?5",
        )?
        .query_map(
            params![
                &*kind.group,
                &*kind.resource,
                integer(after),
                integer(through),
                i64::try_from(limit).unwrap_or(i64::MAX)
            ],
            |row| {
                let key = Key { kind: kind.clone(), namespace: row.get(2)?, name: row.get(3)? };
                let previous =
                    if row.get_ref(6)?.as_blob_or_null()?.is_some() { Some(Stored::of(row, 6)?) } else { None };
                Ok((revision(row.get(0)?), event_kind(row.get(1)?)?, key, Stored::of(row, 4)?, previous))
            },
        )?
        .map(|row| {
            let (revision, kind, key, value, previous) = row?;
            let value = value.open(keyring, &key)?;
            let previous = previous.map(|value| value.open(keyring, &key)).transpose()?;
            Ok(Event { revision, kind, key, value, previous })
        })
        .collect::<Result<Vec<_>, ReadError>>()?;
    Ok(events)
}

fn check_kept(transaction: &Transaction<'_>, kind: &GroupResource, at: Revision) -> Result<(), ReadError> {
    let oldest = compacted(transaction, Some(kind))?;
    if at < oldest { Err(ReadError::Compacted { oldest }) } else { Ok(()) }
}

fn event_kind(code: i64) -> rusqlite::Result<EventKind> {
    [EventKind::Created, EventKind::Updated, EventKind::Deleted]
        .into_iter()
        .find(|&kind| write::code(kind) == code)
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(1, code))
}

/// A value as it lies in its row.
pub(super) struct Stored {
    value: Vec<u8>,
    sealed: bool,
}

impl Stored {
    /// From a column, and the one after it that says whether it is sealed.
    pub(super) fn of(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        Ok(Self { value: row.get(column)?, sealed: row.get(column + 1)? })
    }

    /// The key that it is sealed by; none of a value in the clear, or of one that is too short to be sealed.
    pub(super) fn sealed_by(&self) -> Option<KeyId> {
        KeyId::named_in(&self.value).filter(|_| self.sealed)
    }

    /// How long it is, as it lies there.
    pub(super) fn bytes(&self) -> usize {
        self.value.len()
    }

    pub(super) fn open(self, keyring: Option<&Keyring>, key: &Key) -> Result<Bytes, ReadError> {
        if !self.sealed {
            return Ok(self.value.into());
        }
        let opened = keyring.and_then(|keyring| keyring.open(key, &self.value).ok());
        opened.ok_or_else(|| ReadError::Sealed { key: key.clone() })
    }
}
