//! Reads on a snapshot of the database. Each function is one transaction.

use bytes::Bytes;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{Database, integer, meta, revision, write};
use crate::error::ReadError;
use crate::seal::Keyring;
use crate::types::{Event, EventKind, GroupResource, Key, Object, Page, Position, Revision};

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

/// What existed at a revision: the objects that have not changed since, and of each that has, the
/// state that its first later change replaced.
const EXISTED: &str = "
    WITH existed(namespace, name, revision) AS (
        SELECT namespace, name, revision FROM object
        WHERE grp = ?1 AND resource = ?2 AND revision <= ?3 AND (?4 IS NULL OR namespace = ?4)
      UNION ALL
        SELECT namespace, name, previous FROM log AS later
        WHERE grp = ?1 AND resource = ?2 AND revision > ?3 AND previous > 0 AND previous <= ?3
          AND (?4 IS NULL OR namespace = ?4))
";

pub(crate) fn list(
    database: &mut Database,
    kind: &GroupResource,
    namespace: Option<&str>,
    at: Option<Revision>,
    after: Option<&Position>,
    limit: usize,
) -> Result<Page, ReadError> {
    let keyring = database.keyring.as_deref();
    let transaction = database.connection.transaction()?;
    let current = meta(&transaction, "revision")?;
    let at = at.unwrap_or(current);
    if at > current {
        return Err(ReadError::Future { current });
    }
    check_kept(&transaction, at)?;

    // Names are never empty, so (namespace, "") stands before every object of it.
    let (after_namespace, after_name) =
        after.map_or((namespace.unwrap_or(""), ""), |p| (p.namespace.as_str(), p.name.as_str()));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let range = params![&*kind.group, &*kind.resource, integer(at), namespace, after_namespace, after_name, limit];
    let sql = if at == current {
        "SELECT o.namespace, o.name, o.revision, l.value, l.sealed FROM object o JOIN log l ON l.revision = o.revision
         WHERE o.grp = ?1 AND o.resource = ?2 AND o.revision <= ?3 AND (?4 IS NULL OR o.namespace = ?4)
           AND (o.namespace, o.name) > (?5, ?6) ORDER BY o.namespace, o.name LIMIT ?7"
            .to_owned()
    } else {
        format!(
            "{EXISTED} SELECT e.namespace, e.name, e.revision, l.value, l.sealed FROM existed e JOIN log l USING (revision)
             WHERE (e.namespace, e.name) > (?5, ?6) ORDER BY e.namespace, e.name LIMIT ?7"
        )
    };
    let items = transaction
        .prepare_cached(&sql)?
        .query_map(range, |row| {
            let key = Key { kind: kind.clone(), namespace: row.get(0)?, name: row.get(1)? };
            Ok((key, revision(row.get(2)?), Stored::of(row, 3)?))
        })?
        .map(|row| {
            let (key, revision, value) = row?;
            let value = value.open(keyring, &key)?;
            Ok(Object { key, revision, value })
        })
        .collect::<Result<Vec<_>, ReadError>>()?;

    let remaining = match items.last() {
        Some(last) if i64::try_from(items.len()).is_ok_and(|len| len >= limit) => transaction
            .prepare_cached(&format!("{EXISTED} SELECT count(*) FROM existed WHERE (namespace, name) > (?5, ?6)"))?
            .query_row(
                params![&*kind.group, &*kind.resource, integer(at), namespace, last.key.namespace, last.key.name],
                |row| row.get::<_, i64>(0),
            )?,
        _ => 0,
    };
    Ok(Page { items, revision: at, remaining: u64::try_from(remaining).unwrap_or(0) })
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
    check_kept(&transaction, after)?;
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

fn check_kept(transaction: &Transaction<'_>, at: Revision) -> Result<(), ReadError> {
    let oldest = meta(transaction, "compacted")?;
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

    pub(super) fn open(self, keyring: Option<&Keyring>, key: &Key) -> Result<Bytes, ReadError> {
        if !self.sealed {
            return Ok(self.value.into());
        }
        let opened = keyring.and_then(|keyring| keyring.open(key, &self.value).ok());
        opened.ok_or_else(|| ReadError::Sealed { key: key.clone() })
    }
}
