//! What one transaction of the writer does: each change is judged before anything of it is written, and counted.

use bytes::Bytes;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::faults::{in_words, is_structural};
use super::stored_row::{RowFound, RowHead, code, kind_id, put_sum, stored_columns};
use super::writer::Commit;
use super::{Database, compact, integer, meta, revision, tally};
use crate::damage::DamageBook;
use crate::error::CommitError;
use crate::meter::{Meter, MeteredChange, QuotaAllowance};
use crate::seal::SealingKeys;
use crate::store_room::{ChangeBudget, ReserveUse, StoreRoom};
use crate::types::{ChangeKind, GroupResource, ObjectKey, Op, Revision, StoreEvent, WritePrecondition};

/// What became of a batch.
pub(super) struct BatchResult {
    pub(super) start: Revision,
    pub(super) outcomes: Vec<Result<Revision, CommitError>>,
    pub(super) events: Vec<StoreEvent>,
    /// Kinds with a change whose previous value cannot be read, and the last such change.
    pub(super) cuts: Vec<(GroupResource, Revision)>,
    pub(super) current: Revision,
}

/// Writes what may be written of a batch. `counted` has what the meter took in of it, also where it fails.
pub(super) fn batch(
    database: &mut Database,
    meter: &mut Meter,
    commits: &[Commit],
    mut budget: ChangeBudget,
    counted: &mut Vec<MeteredChange>,
) -> rusqlite::Result<BatchResult> {
    let Database { connection, keyring, damages, room } = database;
    let keyring = keyring.as_deref();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let start = meta(&transaction, "revision")?;
    if meter.revision() != start {
        *meter = compact::measure(&transaction, damages)?;
    }
    let mut current = start;
    let mut outcomes = Vec::with_capacity(commits.len());
    let mut events = Vec::with_capacity(commits.len());
    let mut cuts = Vec::new();
    for Commit { op, guards, terms, .. } in commits {
        let judged = match broken(damages, op, guards) {
            Some(refused) => Err(refused),
            None => check(&transaction, op, guards)?,
        };
        let previous = match judged {
            Ok(previous) => previous,
            Err(refused) => {
                outcomes.push(Err(refused));
                continue;
            }
        };
        if let Err(refused) = check_allowances(&transaction, meter, op, previous, &terms.allowances)? {
            outcomes.push(Err(refused));
            continue;
        }
        if terms.spending == ReserveUse::Ordinary && !budget.takes(op.value().len()) {
            outcomes.push(Err(CommitError::Full(room.as_deref().map_or_else(String::new, StoreRoom::why_refused))));
            continue;
        }
        current = Revision(current.0 + 1);
        let AppliedChange { event, change, is_cut } = write(&transaction, keyring, op, previous, current)?;
        if is_cut {
            cuts.push((event.key.kind.clone(), current));
        }
        meter.apply(&change);
        counted.push(change);
        events.push(event);
        outcomes.push(Ok(current));
    }
    if current != start {
        transaction.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'revision'")?.execute([integer(current)])?;
        transaction.commit()?;
    }
    Ok(BatchResult { start, outcomes, events, cuts, current })
}

/// The refusal of a change that would be judged by a damaged list: what seems to be absent may be there.
fn broken(damages: &DamageBook, op: &Op, guards: &[WritePrecondition]) -> Option<CommitError> {
    let mut kinds = guards.iter().map(WritePrecondition::key).chain([op.key()]).map(|key| &key.kind);
    kinds.find_map(|kind| {
        let why = damages.why_broken(kind)?;
        Some(CommitError::Damaged(format!("the list of {kind} is damaged: {why}")))
    })
}

/// Whether a change adds no more than may be.
fn check_allowances(
    transaction: &Transaction<'_>,
    meter: &Meter,
    op: &Op,
    previous: Revision,
    allowances: &[QuotaAllowance],
) -> rusqlite::Result<Result<(), CommitError>> {
    if allowances.is_empty() {
        return Ok(Ok(()));
    }
    let replaced: Option<i64> = transaction
        .prepare_cached("SELECT length(value) FROM log WHERE revision = ?1")?
        .query_row([integer(previous)], |row| row.get(0))
        .optional()?;
    let replaced = replaced.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let change = MeteredChange::of(op.key(), op.event_kind(), op.value().len(), replaced);
    let exceeded = meter.check(&change, allowances);
    Ok(if exceeded.is_empty() { Ok(()) } else { Err(CommitError::Exceeds { key: op.key().clone(), exceeded }) })
}

/// Where the object stands if the change may be made; `Revision(0)` if it does not exist.
fn check(
    transaction: &Transaction<'_>,
    op: &Op,
    guards: &[WritePrecondition],
) -> rusqlite::Result<Result<Revision, CommitError>> {
    for guard in guards {
        if let Err(refused) = guard.check(find(transaction, guard.key())?) {
            return Ok(Err(refused));
        }
    }
    Ok(op.check(find(transaction, op.key())?))
}

fn find(transaction: &Transaction<'_>, key: &ObjectKey) -> rusqlite::Result<Option<Revision>> {
    transaction
        .prepare_cached(
            "SELECT revision FROM object WHERE grp = ?1 AND resource = ?2 AND namespace = ?3 AND name = ?4",
        )?
        .query_row(params![&*key.kind.group, &*key.kind.resource, key.namespace, key.name], |row| {
            row.get(0).map(revision)
        })
        .optional()
}

/// What became of a change.
struct AppliedChange {
    event: StoreEvent,
    change: MeteredChange,
    /// Whether the event lacks the previous value, which cannot be read.
    is_cut: bool,
}

fn write(
    transaction: &Transaction<'_>,
    keyring: Option<&SealingKeys>,
    op: &Op,
    previous: Revision,
    current: Revision,
) -> rusqlite::Result<AppliedChange> {
    let key = op.key();
    let sealed = match keyring.filter(|keyring| keyring.seals(key)) {
        Some(keyring) => {
            let sealed = keyring.seal(key, op.value());
            Some(sealed.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?)
        }
        None => None,
    };
    let (group, resource) = (&*key.kind.group, &*key.kind.resource);
    let kind = op.event_kind();
    let value: &[u8] = sealed.as_deref().unwrap_or(op.value());
    let head =
        RowHead { revision: integer(current), op: code(kind), previous: integer(previous), sealed: sealed.is_some() };
    transaction
        .prepare_cached(
            "INSERT INTO log(revision, grp, resource, namespace, name, op, previous, value, sealed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            head.revision,
            group,
            resource,
            key.namespace,
            key.name,
            head.op,
            head.previous,
            value,
            head.sealed,
        ])?;
    let id = kind_id(transaction, &key.kind)?;
    put_sum(transaction, id, key, head, value)?;
    if kind == ChangeKind::Deleted {
        transaction
            .prepare_cached("DELETE FROM object WHERE grp = ?1 AND resource = ?2 AND namespace = ?3 AND name = ?4")?
            .execute(params![group, resource, key.namespace, key.name])?;
    } else {
        transaction
            .prepare_cached(
                "INSERT INTO object(grp, resource, namespace, name, revision) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET revision = excluded.revision",
            )?
            .execute(params![group, resource, key.namespace, key.name, integer(current)])?;
    }
    tally::note(transaction, id, key, previous, if kind == ChangeKind::Deleted { Revision(0) } else { current })?;
    let (previous, replaced_bytes, is_cut) = previous_value(transaction, keyring, key, previous)?;
    let change = MeteredChange::of(key, kind, value.len(), replaced_bytes);
    let event = StoreEvent { revision: current, kind, key: key.clone(), value: op.value().clone(), previous };
    Ok(AppliedChange { event, change, is_cut })
}

/// What was there before a change, how long it is as it lies there, and whether it is damaged: that is to keep neither
/// this change nor the others of its batch from being written.
fn previous_value(
    transaction: &Transaction<'_>,
    keyring: Option<&SealingKeys>,
    key: &ObjectKey,
    previous: Revision,
) -> rusqlite::Result<(Option<Bytes>, usize, bool)> {
    if previous == Revision(0) {
        return Ok((None, 0, false));
    }
    let at = integer(previous);
    let sql = concat!("SELECT ", stored_columns!("l"), " FROM log l WHERE l.revision = ?1");
    let found = transaction.prepare_cached(sql)?.query_row([at], |row| Ok(RowFound::of(row, 0))).optional();
    let row = match found {
        Ok(found) => found.unwrap_or(RowFound::Nothing),
        Err(error) if is_structural(&error) => RowFound::Unreadable(in_words(&error)),
        Err(error) => return Err(error),
    };
    let bytes = row.bytes();
    match row.open(keyring, key, at) {
        Ok((value, _)) => Ok((Some(value), bytes, false)),
        Err(cause) => {
            tracing::error!(%key, "could not read what was before a change; watches list it again: {cause}");
            Ok((None, bytes, true))
        }
    }
}
