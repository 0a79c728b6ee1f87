//! The one writer: takes what queued up during the last fsync as one transaction.
//!
//! Each change is checked before anything of it is written, so a refused one leaves no trace and
//! the others of its batch go on. A failure of the database itself refuses the whole batch; where the disk is full,
//! those of it that matter are tried one by one with the reserve ([`low_space`]). Where one of them meets a damaged
//! part of the file, the others do not pay for it.
//!
//! It counts what it writes ([`Meter`](crate::meter::Meter)), keeps the history of each kind within its limits, and the
//! write-ahead log below its high-water mark ([`HighWater`](crate::high_water::HighWater)).

use std::collections::BTreeMap;
use std::time::Instant;

use rusqlite::{Connection, TransactionBehavior, params};
use tokio::sync::{mpsc, oneshot};

use super::apply::{self, BatchResult};
use super::faults::{in_words, is_structural};
use super::writer::{Commit, StoreWriter, refusal};
use super::{checksum_upgrade, compact, low_space, pages, reseal, scrub};
use crate::error::{self, CommitError, ResealError};
use crate::hub::Hub;
use crate::meter::StoredUsage;
use crate::recorded_time::RecordedTime;
use crate::store_room::{ChangeBudget, ReserveUse};
use crate::types::{GroupResource, Revision};

/// Changes in one transaction: enough to hide an fsync, few enough that no caller waits long for it.
const BATCH_MAX: usize = 256;
/// Bytes of the values in one transaction, but for the last of them: it is in the log as a whole before anything of
/// it can leave.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Steps by which histories are shortened after one transaction.
const LIMIT_STEPS: usize = 4;

#[derive(Debug)]
pub(crate) enum StoreWriterCommand {
    Commit(Commit),
    /// Forgets one step of the history, of all kinds or of one, up to a revision; answers with what is
    /// compacted now.
    Compact {
        kind: Option<GroupResource>,
        through: Revision,
        answer: oneshot::Sender<Result<Revision, CommitError>>,
    },
    /// Says what stands in a namespace, by kind.
    Usage {
        namespace: String,
        answer: oneshot::Sender<BTreeMap<GroupResource, StoredUsage>>,
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
        /// Free bytes on the disk.
        free_bytes: u64,
        answer: oneshot::Sender<Result<scrub::ScrubStep, ResealError>>,
    },
    /// Brings one step of what an older program left up to date; false where nothing is left.
    Settle {
        answer: oneshot::Sender<Result<bool, CommitError>>,
    },
    /// Finds out whether anything can be written.
    Probe {
        answer: oneshot::Sender<Result<(), CommitError>>,
    },
}

pub(super) fn run(mut writer: StoreWriter, mut queue: mpsc::Receiver<StoreWriterCommand>, hub: &Hub) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(command) = queue.blocking_recv() {
        let (mut aside, mut bytes) = (None, 0);
        let mut next = Some(command);
        while let Some(command) = next.take() {
            match command {
                StoreWriterCommand::Commit(commit) => {
                    bytes += commit.op.value().len();
                    batch.push(commit);
                }
                StoreWriterCommand::Compact { .. }
                | StoreWriterCommand::Usage { .. }
                | StoreWriterCommand::RecordTime { .. }
                | StoreWriterCommand::Reseal { .. }
                | StoreWriterCommand::Scrub { .. }
                | StoreWriterCommand::Settle { .. }
                | StoreWriterCommand::Probe { .. } => aside = Some(command),
            }
            if aside.is_none() && batch.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
                next = queue.try_recv().ok();
            }
        }
        if !batch.is_empty() {
            writer.write_batch(&mut batch, hub);
        }
        if let Some(aside) = aside {
            writer.run_command(aside, hub);
        }
        writer.shorten(hub);
        writer.water.keep(&writer.database.connection);
    }
    hub.close();
}

impl StoreWriter {
    /// Does what is no change of an object.
    fn run_command(&mut self, command: StoreWriterCommand, hub: &Hub) {
        match command {
            StoreWriterCommand::Commit(commit) => self.write_batch(&mut vec![commit], hub),
            StoreWriterCommand::Compact { kind, through, answer } => {
                // Nothing is taken out of a file whose structure is damaged: what is freed may be in use.
                let most = if self.database.damages.has_structure() { Revision(0) } else { hub.published() };
                let (kind, through) = (kind.as_ref(), through.min(most));
                let result = compact::step(&mut self.database.connection, &mut self.meter, kind, through);
                if let Ok(compacted) = &result {
                    hub.set_compacted(kind, *compacted);
                    self.give_rest_back();
                }
                answer_to(answer, result.map_err(|error| refusal(&self.database.damages, &error)));
            }
            StoreWriterCommand::Usage { namespace, answer } => answer_to(answer, self.meter.usage(&namespace)),
            StoreWriterCommand::RecordTime { time, answer } => {
                let recorded = record_time(&mut self.database.connection, time);
                answer_to(answer, recorded.map_err(|error| refusal(&self.database.damages, &error)));
            }
            StoreWriterCommand::Reseal { answer } => answer_to(answer, self.reseal()),
            StoreWriterCommand::Scrub { free_bytes, answer } => {
                answer_to(answer, self.scrub(free_bytes));
            }
            StoreWriterCommand::Settle { answer } => {
                let step = checksum_upgrade::step(&mut self.database.connection);
                answer_to(answer, step.map_err(|error| refusal(&self.database.damages, &error)));
            }
            StoreWriterCommand::Probe { answer } => answer_to(answer, low_space::probe(self, hub)),
        }
    }

    /// One step of it. All is counted again when the last one is over.
    fn reseal(&mut self) -> Result<reseal::ResealStep, ResealError> {
        let step = reseal::step(&mut self.database)?;
        self.resized |= step.resealed.values > 0;
        if step.is_over && std::mem::take(&mut self.resized) {
            self.meter.mark_stale();
        }
        Ok(step)
    }

    fn scrub(&mut self, free_bytes: u64) -> Result<scrub::ScrubStep, ResealError> {
        reseal::check_structure(&self.database.damages, ResealError::Scrub)?;
        scrub::step(&mut self.database.connection, free_bytes)
    }

    fn give_rest_back(&self) {
        if !self.database.damages.has_structure() {
            pages::give_rest_back(&self.database.connection);
        }
    }

    /// Has histories that are too long go from their beginning.
    fn shorten(&mut self, hub: &Hub) {
        let limits = hub.history_limits();
        if self.database.damages.has_structure() {
            return;
        }
        for _ in 0..LIMIT_STEPS {
            let Some(kind) = self.grown.first().cloned() else { return };
            let Some(excess) = self.meter.excess(&kind, limits) else {
                self.grown.remove(&kind);
                continue;
            };
            match compact::limit_step(&mut self.database.connection, &mut self.meter, &kind, &excess) {
                Ok(Some(compacted)) => {
                    hub.set_compacted(Some(&kind), compacted);
                    self.give_rest_back();
                }
                Ok(None) => {
                    self.grown.remove(&kind);
                }
                Err(error) => {
                    // Where the file is damaged that is noted, and is the last try.
                    let failed = refusal(&self.database.damages, &error);
                    if !matches!(failed, CommitError::Full(_)) {
                        tracing::warn!(error = %failed, %kind, "could not shorten the history of a kind; trying again");
                    }
                    return;
                }
            }
        }
    }

    fn write_batch(&mut self, batch: &mut Vec<Commit>, hub: &Hub) {
        let budget = low_space::make_room_for_batch(self, hub, batch);
        match self.try_batch(batch, budget, hub) {
            Ok(()) => {}
            Err(error) if error::disk_is_full(&error) => self.without_room(batch, hub, &error),
            // One of them met the damage; the others are not to pay for it.
            Err(error) if batch.len() > 1 && is_structural(&error) => {
                for commit in std::mem::take(batch) {
                    self.write_batch(&mut vec![commit], hub);
                }
            }
            Err(error) => self.refuse(batch, &error),
        }
    }

    /// Stores the changes and answers them; none of them where the database fails.
    fn try_batch(&mut self, batch: &mut Vec<Commit>, budget: ChangeBudget, hub: &Hub) -> rusqlite::Result<()> {
        let began = Instant::now();
        let applied = self.apply(batch, budget);
        match &applied {
            Ok(applied) if applied.current != applied.start => {
                hub.flushes.flushed(began.elapsed());
                low_space::note(&self.database, None);
            }
            Ok(_) => {}
            Err(_) => hub.flushes.failed(),
        }
        let BatchResult { start, outcomes, events, cuts, current } = applied?;
        if start != hub.published() {
            // An earlier batch was reported as failed and had become durable after all.
            hub.skip_to(start);
        }
        self.grown.extend(events.iter().map(|event| event.key.kind.clone()));
        hub.publish(events, &cuts, current);
        for (commit, outcome) in batch.drain(..).zip(outcomes) {
            if outcome.is_ok() {
                self.database.damages.settled(commit.op.key());
            }
            answer_to(commit.answer, outcome);
        }
        Ok(())
    }

    /// The disk is full: ordinary changes are refused, and each of the others is tried with more and more of the
    /// reserve.
    fn without_room(&mut self, batch: &mut Vec<Commit>, hub: &Hub, error: &rusqlite::Error) {
        let mut reserved = Vec::new();
        for commit in batch.drain(..) {
            match commit.terms.spending {
                ReserveUse::Ordinary => answer_to(commit.answer, Err(CommitError::Full(in_words(error)))),
                ReserveUse::Reserved => reserved.push(commit),
            }
        }
        for commit in reserved {
            let bytes = commit.op.value().len();
            let mut one = vec![commit];
            let tried = loop {
                match self.try_batch(&mut one, ChangeBudget::default(), hub) {
                    Err(error) if error::disk_is_full(&error) && low_space::release(&self.database, bytes) => {
                        low_space::make_room(self, hub, false);
                    }
                    tried => break tried,
                }
            };
            if let Err(error) = tried {
                self.refuse(&mut one, &error);
            }
        }
    }

    /// The database fails, and even what matters cannot be stored.
    fn refuse(&self, batch: &mut Vec<Commit>, error: &rusqlite::Error) {
        tracing::error!(%error, changes = batch.len(), "cannot write to the database");
        // A part of the file that is damaged does not keep the rest from being written.
        if !is_structural(error) {
            low_space::note(&self.database, Some(in_words(error)));
        }
        for commit in batch.drain(..) {
            answer_to(commit.answer, Err(refusal(&self.database.damages, error)));
        }
    }

    /// Writes what may be written of a batch, and counts it.
    fn apply(&mut self, batch: &[Commit], budget: ChangeBudget) -> rusqlite::Result<BatchResult> {
        let mut counted = Vec::with_capacity(batch.len());
        let applied = apply::batch(&mut self.database, &mut self.meter, batch, budget, &mut counted);
        match &applied {
            Ok(applied) => self.meter.reached(applied.current),
            // If it is durable after all, the revision says so, and all is counted again.
            Err(_) => counted.iter().rev().for_each(|change| self.meter.revert(change)),
        }
        applied
    }
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
