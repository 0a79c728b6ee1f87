//! The one writer: takes what queued up during the last fsync as one transaction.
//!
//! Each change is checked before anything of it is written, so a refused one leaves no trace and
//! the others of its batch go on. A failure of the database itself refuses the whole batch; where the disk is full,
//! those of it that matter are tried one by one with the reserve ([`short`]).

use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, ToSql, Transaction, TransactionBehavior, params};
use tokio::sync::{mpsc, oneshot};

use super::read::Stored;
use super::{Database, compacted, compacted_name, in_words, integer, meta, reseal, revision, scrub, short};
use crate::error::{CommitError, ResealError};
use crate::hub::Hub;
use crate::recorded::RecordedTime;
use crate::room::{ChangeBudget, Spending};
use crate::seal::Keyring;
use crate::types::{Event, EventKind, GroupResource, Guard, Key, Op, Revision};

/// Changes in one transaction. Enough to hide an fsync, few enough that nobody waits long for it.
const BATCH_MAX: usize = 256;
/// Bytes of values from which on no more go into it: a transaction has to fit into the log.
const BATCH_BYTES: usize = 4 << 20;
/// Log rows gone over in one step of compaction, so that writers wait milliseconds, not seconds.
const COMPACT_STEP: u64 = 500;

#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) op: Op,
    pub(crate) guards: Vec<Guard>,
    pub(crate) spending: Spending,
    pub(crate) answer: oneshot::Sender<Result<Revision, CommitError>>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Commit(Commit),
    /// Forgets one step of the history, of all kinds or of one, up to a revision; answers with what is
    /// compacted now.
    Compact {
        kind: Option<GroupResource>,
        through: Revision,
        answer: oneshot::Sender<Result<Revision, CommitError>>,
    },
    /// Keeps what is said of time in the place of what was recorded before.
    RecordTime {
        time: RecordedTime,
        answer: oneshot::Sender<Result<(), CommitError>>,
    },
    /// Seals the next values by the keyring's first key.
    Reseal {
        answer: oneshot::Sender<Result<reseal::ResealStep, ResealError>>,
    },
    /// Removes a part of what is in the file and is no row.
    Scrub {
        /// Free on the disk.
        free_bytes: u64,
        answer: oneshot::Sender<Result<scrub::ScrubStep, ResealError>>,
    },
    /// Finds out whether anything can be written.
    Probe {
        answer: oneshot::Sender<Result<(), CommitError>>,
    },
}

pub(super) fn run(mut database: Database, mut queue: mpsc::Receiver<Command>, hub: &Hub) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(command) = queue.blocking_recv() {
        let (mut other, mut bytes) = (None, 0);
        let mut next = Some(command);
        while let Some(command) = next.take() {
            match command {
                Command::Commit(commit) => {
                    bytes += commit.op.value().len();
                    batch.push(commit);
                }
                Command::Compact { .. }
                | Command::RecordTime { .. }
                | Command::Reseal { .. }
                | Command::Scrub { .. }
                | Command::Probe { .. } => other = Some(command),
            }
            if other.is_none() && batch.len() < BATCH_MAX && bytes < BATCH_BYTES {
                next = queue.try_recv().ok();
            }
        }
        if !batch.is_empty() {
            write_batch(&mut database, &mut batch, hub);
        }
        if let Some(other) = other {
            obey(&mut database, other, hub);
        }
    }
    hub.close();
}

/// Does what is no change of an object.
fn obey(database: &mut Database, command: Command, hub: &Hub) {
    match command {
        Command::Commit(commit) => write_batch(database, &mut vec![commit], hub),
        Command::Compact { kind, through, answer } => {
            let (kind, through) = (kind.as_ref(), through.min(hub.published()));
            let result = compact_step(&mut database.connection, kind, through);
            if let Ok(compacted) = &result {
                hub.set_compacted(kind, *compacted);
                if let Err(error) = short::give_rest_back(&database.connection) {
                    tracing::debug!(%error, "free pages of the database are not given back");
                }
            }
            answer_to(answer, result.map_err(|error| CommitError::Database(error.to_string())));
        }
        Command::RecordTime { time, answer } => {
            let recorded = record_time(&mut database.connection, time);
            answer_to(answer, recorded.map_err(|error| refusal(&error)));
        }
        Command::Reseal { answer } => answer_to(answer, reseal::step(database)),
        Command::Scrub { free_bytes, answer } => {
            answer_to(answer, scrub::step(&mut database.connection, free_bytes));
        }
        Command::Probe { answer } => answer_to(answer, short::probe(database, hub)),
    }
}

fn write_batch(database: &mut Database, batch: &mut Vec<Commit>, hub: &Hub) {
    let budget = short::before(database, hub, batch);
    match try_batch(database, batch, budget, hub) {
        Ok(()) => {}
        Err(error) if short::disk_is_full(&error) => without_room(database, batch, hub, &error),
        Err(error) => refuse(database, batch, &error),
    }
}

/// Stores the changes and answers them; none of them where the database fails.
fn try_batch(
    database: &mut Database,
    batch: &mut Vec<Commit>,
    budget: ChangeBudget,
    hub: &Hub,
) -> rusqlite::Result<()> {
    let began = Instant::now();
    let applied = apply(database, batch, budget);
    match &applied {
        Ok(applied) if applied.current != applied.start => {
            hub.flushes.flushed(began.elapsed());
            short::note(database, None);
        }
        Ok(_) => {}
        Err(_) => hub.flushes.failed(),
    }
    let Applied { start, outcomes, events, current } = applied?;
    if start != hub.published() {
        // An earlier batch was reported as failed and had become durable after all.
        hub.skip_to(start);
    }
    hub.publish(events, current);
    for (commit, outcome) in batch.drain(..).zip(outcomes) {
        answer_to(commit.answer, outcome);
    }
    Ok(())
}

/// The disk is full: ordinary changes are refused, and each of the others is tried with more and more of the reserve.
fn without_room(database: &mut Database, batch: &mut Vec<Commit>, hub: &Hub, error: &rusqlite::Error) {
    let mut reserved = Vec::new();
    for commit in batch.drain(..) {
        match commit.spending {
            Spending::Ordinary => answer_to(commit.answer, Err(CommitError::Full(in_words(error)))),
            Spending::Reserved => reserved.push(commit),
        }
    }
    for commit in reserved {
        let bytes = commit.op.value().len();
        let mut one = vec![commit];
        let tried = loop {
            match try_batch(database, &mut one, ChangeBudget::default(), hub) {
                Err(error) if short::disk_is_full(&error) && short::release(database, bytes) => {
                    short::make_room(database, hub, false);
                }
                tried => break tried,
            }
        };
        if let Err(error) = tried {
            refuse(database, &mut one, &error);
        }
    }
}

/// The database fails, and even what matters cannot be stored.
fn refuse(database: &Database, batch: &mut Vec<Commit>, error: &rusqlite::Error) {
    tracing::error!(%error, changes = batch.len(), "cannot write to the database");
    short::note(database, Some(in_words(error)));
    for commit in batch.drain(..) {
        answer_to(commit.answer, Err(refusal(error)));
    }
}

/// What is said of a failure of the database.
pub(super) fn refusal(error: &rusqlite::Error) -> CommitError {
    let words = in_words(error);
    if short::disk_is_full(error) { CommitError::Full(words) } else { CommitError::Database(words) }
}

fn answer_to<T>(answer: oneshot::Sender<T>, result: T) {
    // The asker may have gone; what is done stays done.
    drop(answer.send(result));
}

fn record_time(connection: &mut Connection, time: RecordedTime) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (key, value) in [("newest_ms", time.newest_ms), ("age_ms", time.age_ms)] {
        transaction
            .prepare_cached("INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value")?
            .execute(params![key, value])?;
    }
    transaction.commit()
}

struct Applied {
    start: Revision,
    outcomes: Vec<Result<Revision, CommitError>>,
    events: Vec<Event>,
    current: Revision,
}

fn apply(database: &mut Database, batch: &[Commit], mut budget: ChangeBudget) -> rusqlite::Result<Applied> {
    let room = database.room.clone();
    let keyring = database.keyring.as_deref();
    let transaction = database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let start = meta(&transaction, "revision")?;
    let mut current = start;
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut events = Vec::with_capacity(batch.len());
    for Commit { op, guards, spending, .. } in batch {
        outcomes.push(match check(&transaction, op, guards)? {
            Err(refused) => Err(refused),
            Ok(_) if *spending == Spending::Ordinary && !budget.takes(op.value().len()) => {
                Err(CommitError::Full(room.as_ref().map_or_else(String::new, |room| room.why_refused())))
            }
            Ok(previous) => {
                current = Revision(current.0 + 1);
                events.push(write(&transaction, keyring, op, previous, current)?);
                Ok(current)
            }
        });
    }
    if current != start {
        transaction.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'revision'")?.execute([integer(current)])?;
        transaction.commit()?;
    }
    Ok(Applied { start, outcomes, events, current })
}

/// Where the object stands if the change may be made; `Revision(0)` if it does not exist.
fn check(transaction: &Transaction<'_>, op: &Op, guards: &[Guard]) -> rusqlite::Result<Result<Revision, CommitError>> {
    for guard in guards {
        if let Err(refused) = guard.check(find(transaction, guard.key())?) {
            return Ok(Err(refused));
        }
    }
    Ok(op.check(find(transaction, op.key())?))
}

fn find(transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<Option<Revision>> {
    transaction
        .prepare_cached(
            "SELECT revision FROM object WHERE grp = ?1 AND resource = ?2 AND namespace = ?3 AND name = ?4",
        )?
        .query_row(params![&*key.kind.group, &*key.kind.resource, key.namespace, key.name], |row| {
            row.get(0).map(revision)
        })
        .optional()
}

fn write(
    transaction: &Transaction<'_>,
    keyring: Option<&Keyring>,
    op: &Op,
    previous: Revision,
    current: Revision,
) -> rusqlite::Result<Event> {
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
    transaction
        .prepare_cached(
            "INSERT INTO log(revision, grp, resource, namespace, name, op, previous, value, sealed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            integer(current),
            group,
            resource,
            key.namespace,
            key.name,
            code(kind),
            integer(previous),
            sealed.as_deref().unwrap_or(op.value()),
            sealed.is_some(),
        ])?;
    if kind == EventKind::Deleted {
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
    let previous = transaction
        .prepare_cached("SELECT value, sealed FROM log WHERE revision = ?1")?
        .query_row([integer(previous)], |row| Stored::of(row, 0))
        .optional()?
        .and_then(|stored| {
            // One that is damaged must not keep the others of its batch from being written.
            let opened = stored.open(keyring, key);
            opened.inspect_err(|error| tracing::error!(%error, "watches are not shown what was before")).ok()
        });
    Ok(Event { revision: current, kind, key: key.clone(), value: op.value().clone(), previous })
}

/// How `log.op` says what happened; part of the format on disk.
pub(super) fn code(kind: EventKind) -> i64 {
    match kind {
        EventKind::Created => 1,
        EventKind::Updated => 2,
        EventKind::Deleted => 3,
    }
}

/// Goes over the next rows, of all kinds or of one, up to `through`: what they replaced goes, and so do
/// deletions.
pub(super) fn compact_step(
    connection: &mut Connection,
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
    let (first, last, deleted) = (integer(from), integer(to), code(EventKind::Deleted));
    let (group, resource) = kind.map_or(("", ""), |kind| (&*kind.group, &*kind.resource));
    let (rows, range): (&str, &[&dyn ToSql]) = match kind {
        Some(_) => {
            ("grp = ?3 AND resource = ?4 AND revision > ?1 AND revision <= ?2", &[&first, &last, &group, &resource])
        }
        None => ("revision > ?1 AND revision <= ?2", &[&first, &last]),
    };
    transaction
        .execute(&format!("DELETE FROM log WHERE revision IN (SELECT previous FROM log WHERE {rows})"), range)?;
    transaction.execute(&format!("DELETE FROM log WHERE {rows} AND op = {deleted}"), range)?;
    transaction.execute(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
        params![compacted_name(kind), last],
    )?;
    transaction.commit()?;
    Ok(to)
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
