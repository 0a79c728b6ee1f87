//! Seals values that are in the clear, and seals values again by the next key, in steps between other writes.
//!
//! ```text
//!   each row, by revision: sealed by the new key    meta.sealing = its id, meta.resealed = how far
//!   the last one: meta.seal = its id, a row of meta for each kind, meta.scrub = due
//!   scrub: nothing of what was before is in the file                                  meta.scrub = 0
//! ```
//!
//! Each step is one transaction that says how far it came, so a process that dies goes on from there. The old key stays
//! in the keyring until the last row is sealed. Rows that are written meanwhile are sealed by the new key already.

#[cfg(test)]
mod tests;

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::damage::DamageBook;
use crate::error::{ResealError, StoreOpenError};
use crate::seal::{KeyId, SealingKeys};
use crate::sqlite::faults::{in_words, is_structural};
use crate::sqlite::kind_rows::if_whole;
use crate::sqlite::meta_rows::{STEP_BYTES, STEP_ROWS, put, remove, value};
use crate::sqlite::stored_row::{RowFound, RowHead, kind_id, put_sum, stored_columns};
use crate::sqlite::{Database, low_space, meta, scrub};
use crate::types::{GroupResource, ObjectKey, Revision};

/// Rows of `meta`: the key that opens the database; the one that is to, while it is changed; the revision up to which
/// that one seals.
const SEAL: &str = "seal";
const SEALING: &str = "sealing";
const RESEALED: &str = "resealed";
/// How the rows begin that each name a kind that is sealed: GROUP/RESOURCE follows.
const SEALED_KIND: &str = "sealed ";
/// What they say: that its values are being sealed, or that all are.
const UNDER_WAY: i64 = 0;
const DONE: i64 = 1;

/// What became of the sealed values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Values that were sealed or sealed again.
    pub values: usize,
    /// Objects with a value that no key opens: it is damaged, and was left as it is.
    pub damaged: Vec<ObjectKey>,
}

/// What one step did, and whether it was the last one.
#[derive(Debug)]
pub(crate) struct ResealStep {
    pub(crate) resealed: Resealed,
    pub(crate) is_over: bool,
}

/// Judges whether the database can be served from with this keyring. What is not sealed yet does not hinder that.
pub(super) fn at_start(path: &Path, database: &mut Database) -> Result<(), StoreOpenError> {
    let failed = |source| StoreOpenError::Database { path: path.to_owned(), source };
    let keyring = database.keyring.as_deref();
    let given = keyring.map_or_else(Vec::new, SealingKeys::ids);
    // What cannot be looked through may hold sealed values.
    if if_whole(has_sealed(&database.connection), &database.damages).map_err(failed)?.unwrap_or(true) {
        for name in [SEAL, SEALING] {
            let needed = key_id(&database.connection, name).map_err(failed)?;
            if let Some(needed) = needed.filter(|needed| !given.contains(needed)) {
                return Err(StoreOpenError::Key { path: path.to_owned(), needed, given });
            }
        }
    }
    // Nothing is written to a file whose structure is damaged that need not be.
    if database.damages.has_structure() {
        return Ok(());
    }
    low_space::at_start(database.room.as_deref(), || keep_marks(&database.connection, keyring)).map_err(failed)
}

/// The key without which the database is of no use, also where it is of an earlier schema.
pub(super) fn needed_key(connection: &Connection) -> rusqlite::Result<Option<KeyId>> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('log') WHERE name = 'sealed')";
    if !connection.query_row(sql, [], |row| row.get::<_, bool>(0))? || !has_sealed(connection)? {
        return Ok(None);
    }
    key_id(connection, SEAL)
}

/// Goes one step on: seals the next rows.
pub(super) fn step(database: &mut Database) -> Result<ResealStep, ResealError> {
    let keyring = database.keyring.clone().ok_or(ResealError::NoKeyring)?;
    let id = *keyring.ids().first().ok_or(ResealError::NoKeyring)?;
    if is_sealed(&database.connection, &keyring, id).map_err(unwritable)? {
        return Ok(ResealStep { resealed: Resealed::default(), is_over: true });
    }
    check_structure(&database.damages, ResealError::Damaged)?;
    // What was there is overwritten with zeros, not only let go.
    database.connection.pragma_update(None, "secure_delete", true).map_err(unwritable)?;
    let transaction =
        database.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unwritable)?;
    let resealed = seal_next(&transaction, &keyring, id)?;
    transaction.commit().map_err(unwritable)?;
    Ok(ResealStep { resealed, is_over: false })
}

fn unwritable(error: rusqlite::Error) -> ResealError {
    let words = in_words(&error);
    if is_structural(&error) { ResealError::Damaged(words) } else { ResealError::Database(words) }
}

/// Refuses to move anything in a file whose structure is damaged: what seems free may be in use.
pub(super) fn check_structure(damages: &DamageBook, refusal: fn(String) -> ResealError) -> Result<(), ResealError> {
    if damages.has_structure() {
        return Err(refusal("the database's file is damaged: stop the appliance and restore a backup".into()));
    }
    Ok(())
}

/// Every value that has to be is sealed by this key.
fn is_sealed(connection: &Connection, keyring: &SealingKeys, id: KeyId) -> rusqlite::Result<bool> {
    if key_id(connection, SEAL)? != Some(id) || key_id(connection, SEALING)?.is_some() {
        return Ok(false);
    }
    for kind in keyring.kinds() {
        if value(connection, &mark(kind))? != Some(DONE) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the marks of kinds away that this program writes in the clear; gives a database all that was never written to.
fn keep_marks(connection: &Connection, keyring: Option<&SealingKeys>) -> rusqlite::Result<()> {
    let kinds = keyring.map(SealingKeys::kinds).unwrap_or_default();
    let wanted: Vec<String> = kinds.iter().map(mark).collect();
    let found: Vec<String> = connection
        .prepare("SELECT key FROM meta WHERE key LIKE ?1 || '%'")?
        .query_map([SEALED_KIND], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    for foreign in found.iter().filter(|name| !wanted.contains(name)) {
        remove(connection, foreign)?;
    }
    let Some(id) = keyring.and_then(|keyring| keyring.ids().first().copied()) else { return Ok(()) };
    if meta(connection, "revision")? > Revision(0) || key_id(connection, SEAL)? == Some(id) {
        return Ok(());
    }
    put(connection, SEAL, number(id))?;
    wanted.iter().try_for_each(|name| put(connection, name, DONE))
}

/// Seals the rows after the last one that the steps before came to, or notes that there are no more.
fn seal_next(transaction: &Transaction<'_>, keyring: &SealingKeys, id: KeyId) -> Result<Resealed, ResealError> {
    let after = reseal_position(transaction, keyring, id).map_err(unwritable)?;
    let rows = next_rows(transaction, keyring, after).map_err(unwritable)?;
    let Some(last) = rows.last().map(|row| row.revision) else {
        finish(transaction, keyring, id).map_err(unwritable)?;
        return Ok(Resealed::default());
    };
    let mut resealed = Resealed::default();
    for row in rows.into_iter().filter(|row| row.is_due) {
        seal_row(transaction, keyring, id, row, &mut resealed)?;
    }
    put(transaction, SEALING, number(id)).map_err(unwritable)?;
    put(transaction, RESEALED, last).map_err(unwritable)?;
    Ok(resealed)
}

/// The revision up to which the steps before came. Another key than theirs, or a further kind, begins again.
fn reseal_position(transaction: &Connection, keyring: &SealingKeys, id: KeyId) -> rusqlite::Result<i64> {
    let mut is_same = key_id(transaction, SEALING)? == Some(id);
    for name in keyring.kinds().iter().map(mark) {
        if value(transaction, &name)?.is_none() {
            put(transaction, &name, UNDER_WAY)?;
            is_same = false;
        }
    }
    Ok(if is_same { value(transaction, RESEALED)?.unwrap_or(0) } else { 0 })
}

/// A row of the log that may have to be sealed.
struct LogRow {
    revision: i64,
    key: ObjectKey,
    /// It is sealed, perhaps by another key, or should be.
    is_due: bool,
}

fn next_rows(transaction: &Connection, keyring: &SealingKeys, after: i64) -> rusqlite::Result<Vec<LogRow>> {
    let mut statement = transaction.prepare_cached(
        "SELECT revision, grp, resource, namespace, name, sealed, length(value) FROM log
         WHERE revision > ?1 ORDER BY revision LIMIT ?2",
    )?;
    let mut found = statement.query([after, STEP_ROWS])?;
    let (mut rows, mut bytes) = (Vec::new(), 0_i64);
    while let Some(row) = found.next()? {
        let kind = GroupResource::new(&row.get::<_, String>(1)?, &row.get::<_, String>(2)?);
        let key = ObjectKey { kind, namespace: row.get(3)?, name: row.get(4)? };
        let is_due = row.get::<_, bool>(5)? || keyring.seals(&key);
        if is_due {
            bytes += row.get::<_, i64>(6)?;
        }
        rows.push(LogRow { revision: row.get(0)?, key, is_due });
        if bytes >= STEP_BYTES {
            break;
        }
    }
    Ok(rows)
}

fn seal_row(
    transaction: &Transaction<'_>,
    keyring: &SealingKeys,
    id: KeyId,
    LogRow { revision, key, .. }: LogRow,
    resealed: &mut Resealed,
) -> Result<(), ResealError> {
    let sql = concat!("SELECT ", stored_columns!("l"), " FROM log l WHERE l.revision = ?1");
    let stored = transaction
        .prepare_cached(sql)
        .and_then(|mut one| one.query_row([revision], |row| Ok(RowFound::of(row, 0))))
        .map_err(unwritable)?;
    if stored.sealed_by() == Some(id) {
        return Ok(());
    }
    let (value, head) = match stored.open(Some(keyring), &key, revision) {
        Ok(opened) => opened,
        Err(cause) => {
            tracing::error!(%key, revision, "a stored value is not sealed, and left as it is: {cause}");
            resealed.damaged.push(key);
            return Ok(());
        }
    };
    let sealed = keyring.seal(&key, &value).map_err(|error| ResealError::Database(error.to_string()))?;
    transaction
        .prepare_cached("UPDATE log SET value = ?1, sealed = 1 WHERE revision = ?2")
        .and_then(|mut one| one.execute(params![sealed, revision]))
        .and_then(|_| kind_id(transaction, &key.kind))
        .and_then(|kind| put_sum(transaction, kind, &key, RowHead { sealed: true, ..head }, &sealed))
        .map_err(unwritable)?;
    resealed.values += 1;
    Ok(())
}

/// All rows are sealed: notes it, and that what was before is to be scrubbed.
fn finish(transaction: &Connection, keyring: &SealingKeys, id: KeyId) -> rusqlite::Result<()> {
    put(transaction, SEAL, number(id))?;
    remove(transaction, SEALING)?;
    remove(transaction, RESEALED)?;
    keyring.kinds().iter().try_for_each(|kind| put(transaction, &mark(kind), DONE))?;
    scrub::is_due(transaction)
}

fn mark(kind: &GroupResource) -> String {
    format!("{SEALED_KIND}{}/{}", kind.group, kind.resource)
}

fn number(id: KeyId) -> i64 {
    i64::from_be_bytes(id.0)
}

/// The key that this row of `meta` names.
fn key_id(connection: &Connection, name: &str) -> rusqlite::Result<Option<KeyId>> {
    Ok(value(connection, name)?.map(|number| KeyId(number.to_be_bytes())))
}

fn has_sealed(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM log WHERE sealed <> 0)", [], |row| row.get(0))
}
