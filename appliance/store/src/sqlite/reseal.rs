//! From values in the clear to sealed ones, and from one key to the next.
//!
//! ```text
//!   one transaction: every value sealed by the new key, meta.seal = its id, meta.scrub = 1
//!   VACUUM: the file is written anew without free space     (in free space lies what was before)
//!   wal_checkpoint(TRUNCATE): so is the log
//!   meta.scrub = 0
//! ```
//!
//! A process that dies in between goes on from there when the database is opened the next time:
//! whoever changes the key keeps the old one in the keyring until all of this is over.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::read::Stored;
use super::{Database, meta};
use crate::error::{OpenError, ResealError};
use crate::seal::{KeyId, Keyring};
use crate::types::{GroupResource, Key, Revision};

/// What became of the sealed values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Values that were sealed, or sealed anew.
    pub values: usize,
    /// Objects with a value that no key opens: it is damaged, and was left as it is.
    pub damaged: Vec<Key>,
}

/// What a database needs before it is served from: the right key, and nothing left of an earlier one.
pub(super) fn at_start(path: &Path, database: &mut Database) -> Result<(), OpenError> {
    let failed = |source| OpenError::Database { path: path.to_owned(), source };
    let given = database.keyring.as_ref().map_or_else(Vec::new, |keyring| keyring.ids());
    let needed = sealed_by(&database.connection).map_err(failed)?;
    if let Some(needed) = needed
        && !given.contains(&needed)
        && has_sealed(&database.connection).map_err(failed)?
    {
        return Err(OpenError::Key { path: path.to_owned(), needed, given });
    }
    let Some(keyring) = database.keyring.clone() else { return Ok(()) };
    let is_done = needed == given.first().copied()
        && meta(&database.connection, "scrub").map_err(failed)? == Revision(0)
        && !has_plain(&database.connection, keyring.kinds()).map_err(failed)?;
    if is_done {
        return Ok(());
    }
    match all(database) {
        Ok(resealed) if resealed.values > 0 => {
            tracing::info!(values = resealed.values, "secrets in the database are sealed");
            Ok(())
        }
        Ok(_) => Ok(()),
        // They are sealed; an appliance that does not start would help nobody.
        Err(error @ ResealError::Scrub(_)) => {
            tracing::error!(%error, "tried again at the next start");
            Ok(())
        }
        Err(source) => Err(OpenError::Seal { path: path.to_owned(), source }),
    }
}

/// The key without which the database is of no use, also where it is of an earlier schema.
pub(super) fn needed_key(connection: &Connection) -> rusqlite::Result<Option<KeyId>> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'log_sealed')";
    if !connection.query_row(sql, [], |row| row.get::<_, bool>(0))? || !has_sealed(connection)? {
        return Ok(None);
    }
    sealed_by(connection)
}

/// Everything sealed by the keyring's first key, and nothing else left in the file.
pub(super) fn all(database: &mut Database) -> Result<Resealed, ResealError> {
    let keyring = database.keyring.clone().ok_or(ResealError::NoKeyring)?;
    let resealed = seal(&mut database.connection, &keyring)?;
    if meta(&database.connection, "revision").map_err(unwritable)? > Revision(0) {
        scrub(&database.connection)?;
    }
    Ok(resealed)
}

fn unwritable(error: rusqlite::Error) -> ResealError {
    ResealError::Database(super::in_words(&error))
}

fn seal(connection: &mut Connection, keyring: &Keyring) -> Result<Resealed, ResealError> {
    let id = *keyring.ids().first().ok_or(ResealError::NoKeyring)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unwritable)?;
    let mut resealed = Resealed::default();
    for (revision, key) in to_seal(&transaction, keyring.kinds(), id).map_err(unwritable)? {
        let stored = transaction
            .prepare_cached("SELECT value, sealed FROM log WHERE revision = ?1")
            .and_then(|mut one| one.query_row([revision], |row| Stored::of(row, 0)))
            .map_err(unwritable)?;
        let Ok(value) = stored.open(Some(keyring), &key) else {
            tracing::error!(%key, revision, "the stored value does not open with any key; it is left as it is");
            resealed.damaged.push(key);
            continue;
        };
        let sealed = keyring.seal(&key, &value).map_err(|error| ResealError::Database(error.to_string()))?;
        transaction
            .prepare_cached("UPDATE log SET value = ?1, sealed = 1 WHERE revision = ?2")
            .and_then(|mut one| one.execute(params![sealed, revision]))
            .map_err(unwritable)?;
        resealed.values += 1;
    }
    let put = |name: &str, value: i64| {
        let sql = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
        transaction.execute(sql, params![name, value]).map_err(unwritable)
    };
    put("seal", i64::from_be_bytes(id.0))?;
    put("scrub", 1)?;
    transaction.commit().map_err(unwritable)?;
    Ok(resealed)
}

/// Rows that are sealed by another key, or not at all and should be.
fn to_seal(transaction: &Transaction<'_>, kinds: &[GroupResource], id: KeyId) -> rusqlite::Result<Vec<(i64, Key)>> {
    let mut rows = transaction
        .prepare(
            "SELECT revision, grp, resource, namespace, name FROM log
             WHERE sealed <> 0 AND substr(value, 2, 8) <> ?1",
        )?
        .query_map([&id.0[..]], |row| {
            let kind = GroupResource::new(&row.get::<_, String>(1)?, &row.get::<_, String>(2)?);
            Ok((row.get(0)?, Key { kind, namespace: row.get(3)?, name: row.get(4)? }))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for kind in kinds {
        let mut plain = transaction
            .prepare("SELECT revision, namespace, name FROM log WHERE grp = ?1 AND resource = ?2 AND sealed = 0")?;
        let found = plain.query_map([&*kind.group, &*kind.resource], |row| {
            Ok((row.get(0)?, Key { kind: kind.clone(), namespace: row.get(1)?, name: row.get(2)? }))
        })?;
        for row in found {
            rows.push(row?);
        }
    }
    Ok(rows)
}

/// Leaves nothing in the file and its log that is no row.
fn scrub(connection: &Connection) -> Result<(), ResealError> {
    let failed = |error: rusqlite::Error| ResealError::Scrub(super::in_words(&error));
    connection.execute_batch("VACUUM").map_err(failed)?;
    let is_busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    if is_busy {
        return Err(ResealError::Scrub("somebody reads from it for a long time".into()));
    }
    connection.execute("UPDATE meta SET value = 0 WHERE key = 'scrub'", []).map_err(failed)?;
    Ok(())
}

/// The key that every sealed value of the database opens with; none before the first.
fn sealed_by(connection: &Connection) -> rusqlite::Result<Option<KeyId>> {
    let id =
        connection.query_row("SELECT value FROM meta WHERE key = 'seal'", [], |row| row.get::<_, i64>(0)).optional()?;
    Ok(id.map(|id| KeyId(id.to_be_bytes())))
}

fn has_sealed(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM log WHERE sealed <> 0)", [], |row| row.get(0))
}

fn has_plain(connection: &Connection, kinds: &[GroupResource]) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM log WHERE grp = ?1 AND resource = ?2 AND sealed = 0)";
    for kind in kinds {
        if connection.query_row(sql, [&*kind.group, &*kind.resource], |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}
