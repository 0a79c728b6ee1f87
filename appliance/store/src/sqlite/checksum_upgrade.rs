//! Adds checksums to what an older program left without, and compares every kept change with its own: in small steps
//! beside the work.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::faults::{in_words, is_structural};
use super::stored_row::{RowFound, RowHead, kind_id, put_sum, stored_columns};
use super::{Database, integer, meta, revision, tally};
use crate::error::StoreReadError;
use crate::types::{GroupResource, ObjectKey, Revision};

/// Changes and bytes of one step: writers wait milliseconds for it.
const SUM_STEP: usize = 64;
const SUM_STEP_BYTES: usize = 1 << 20;
/// Changes that are compared at once.
const CHECK_STEP: usize = 64;

/// One step of what an older program left; false where nothing is left.
pub(super) fn step(connection: &mut Connection) -> rusqlite::Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let unsummed = meta(&transaction, "unsummed")?;
    let more = if unsummed > Revision(0) {
        let next = sum_step(&transaction, unsummed)?;
        transaction.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'unsummed'")?.execute([integer(next)])?;
        true
    } else {
        tally::count_step(&transaction)?
    };
    if more {
        transaction.commit()?;
    }
    Ok(more)
}

/// Sums the newest of the changes up to one; the first of those that are left, zero for none.
fn sum_step(transaction: &Transaction<'_>, up_to: Revision) -> rusqlite::Result<Revision> {
    let mut changes = transaction.prepare_cached(
        "SELECT revision, grp, resource, namespace, name, op, previous, sealed, value FROM log
         WHERE revision <= ?1 ORDER BY revision DESC LIMIT ?2",
    )?;
    let most = i64::try_from(SUM_STEP).unwrap_or(i64::MAX);
    let mut rows = changes.query(params![integer(up_to), most])?;
    let (mut bytes, mut next) = (0, Revision(0));
    let mut read = 0;
    while let Some(row) = rows.next()? {
        let kind = GroupResource::new(&row.get::<_, String>(1)?, &row.get::<_, String>(2)?);
        let key = ObjectKey { kind, namespace: row.get(3)?, name: row.get(4)? };
        let head = RowHead { revision: row.get(0)?, op: row.get(5)?, previous: row.get(6)?, sealed: row.get(7)? };
        let value: Vec<u8> = row.get(8)?;
        let id = kind_id(transaction, &key.kind)?;
        put_sum(transaction, id, &key, head, &value)?;
        bytes += value.len();
        read += 1;
        next = Revision(revision(head.revision).0.saturating_sub(1));
        if bytes >= SUM_STEP_BYTES {
            return Ok(next);
        }
    }
    // Fewer than were asked for: they were the last.
    Ok(if read < SUM_STEP { Revision(0) } else { next })
}

/// What came of comparing some changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckedChanges {
    /// The revision up to which changes were compared.
    pub through: Revision,
    pub changes: usize,
    /// Changes that are not what was written.
    pub damaged: usize,
    /// There are none after them.
    pub is_over: bool,
}

/// Compares the next changes after a revision with their checksums. What is damaged is in the log; if it is the newest
/// state of an object, reads find it too.
pub(crate) fn check_changes(database: &mut Database, after: Revision) -> Result<CheckedChanges, StoreReadError> {
    let transaction = database.connection.transaction()?;
    let most = i64::try_from(CHECK_STEP).unwrap_or(i64::MAX);
    let revisions = transaction
        .prepare_cached("SELECT revision FROM sum WHERE revision > ?1 ORDER BY revision LIMIT ?2")?
        .query_map(params![integer(after), most], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut checked = CheckedChanges { through: after, is_over: revisions.len() < CHECK_STEP, ..Default::default() };
    for at in revisions {
        checked.changes += 1;
        checked.through = revision(at);
        if let Some(why) = fault(&transaction, at)? {
            tracing::error!(revision = at, "a change is not kept as it was written: {why}");
            checked.damaged += 1;
        }
    }
    Ok(checked)
}

/// What is wrong with a change, in words.
fn fault(transaction: &Transaction<'_>, at: i64) -> Result<Option<String>, StoreReadError> {
    let sql = concat!(
        "SELECT l.grp, l.resource, l.namespace, l.name, ",
        stored_columns!("l"),
        " FROM log l WHERE l.revision = ?1"
    );
    let found = transaction
        .prepare_cached(sql)?
        .query_row([at], |row| {
            let kind = GroupResource::new(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?);
            let key = ObjectKey { kind, namespace: row.get(2)?, name: row.get(3)? };
            Ok((key, RowFound::of(row, 4)))
        })
        .optional();
    let (key, row) = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Some("its row is missing".into())),
        Err(error) if is_structural(&error) => return Ok(Some(in_words(&error))),
        Err(error) => return Err(error.into()),
    };
    let cause = match row {
        RowFound::Row(stored) => stored.check(&key, at).err().map(|cause| cause.to_string()),
        RowFound::Nothing => Some("its row is missing".to_owned()),
        RowFound::Unreadable(why) => Some(why),
    };
    Ok(cause.map(|cause| format!("{key}: {cause}")))
}
