//! The thread that writes leases: queued commits go into one transaction, as far as there is room for them.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use firesteel_dhcp::{CommitId, LeaseChange};
use firesteel_store::{HighWater, ReserveUse, StoreRoom, disk_is_full};
use rusqlite::{Connection, Transaction, params};
use tokio::sync::mpsc::UnboundedSender;

use super::{LeaseCommit, SCHEMA_VERSION};

/// The commits in one transaction; with more, the first of them would wait too long for the last.
const BATCH_MAX: usize = 256;
/// How much of the write-ahead log a lease takes, with the pages of two indexes.
const LEASE_PAGES_BYTES: usize = 16 << 10;
/// The name of this database in messages.
const NAME: &str = "leases";
/// How often a write is tried while nothing can be written, even if there is no lease to write.
const PROBED_EVERY: Duration = Duration::from_secs(5);

/// The state of the thread.
pub(super) struct LeaseWriter {
    pub(super) connection: Connection,
    pub(super) room: Option<Arc<StoreRoom>>,
    pub(super) water: HighWater,
}

impl LeaseWriter {
    /// Runs until the other side is gone.
    pub(super) fn run(mut self, queue: &mpsc::Receiver<LeaseCommit>, answers: &UnboundedSender<(CommitId, bool)>) {
        loop {
            let first = match queue.recv_timeout(PROBED_EVERY) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => {
                    self.probe();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(error) = self.water.look(&self.connection) {
                tracing::debug!(%error, "the write-ahead log of the leases is merged again");
            }
            let mut batch = vec![first];
            batch.extend(queue.try_iter().take(BATCH_MAX - 1));
            for (id, ok) in self.store(batch) {
                if answers.send((id, ok)).is_err() {
                    return;
                }
            }
            self.water.keep(&self.connection);
        }
    }

    /// Writes what there is room for; returns which of the changes are durable.
    fn store(&mut self, batch: Vec<LeaseCommit>) -> Vec<(CommitId, bool)> {
        let (jobs, refused) = self.sort_out(batch);
        let mut answers: Vec<(CommitId, bool)> = refused.iter().map(|job| (job.id, false)).collect();
        if !refused.is_empty() {
            tracing::debug!(leases = refused.len(), "the disk is full: machines that are not known get no lease");
        }
        if jobs.is_empty() {
            return answers;
        }
        let is_reserved = jobs.iter().any(|job| job.spending == ReserveUse::Reserved);
        let written = loop {
            match write_batch(&mut self.connection, &jobs) {
                Err(error) if disk_is_full(&error) && is_reserved && self.release() => {}
                written => break written,
            }
        };
        if let Err(error) = &written {
            tracing::error!(%error, leases = jobs.len(), "could not write leases: none of these is granted");
        }
        if is_reserved || written.is_ok() {
            self.note(written.as_ref().err());
        }
        answers.extend(jobs.iter().map(|job| (job.id, written.is_ok())));
        answers
    }

    /// Separates the commits that there is room for from the others.
    fn sort_out(&self, batch: Vec<LeaseCommit>) -> (Vec<LeaseCommit>, Vec<LeaseCommit>) {
        let Some(room) = &self.room else { return (batch, Vec::new()) };
        let is_short = !room.admits(LEASE_PAGES_BYTES);
        batch.into_iter().partition(|job| !is_short || job.spending == ReserveUse::Reserved)
    }

    /// Tries a write without an effect if the last lease could not be written.
    fn probe(&self) {
        if !self.room.as_ref().is_some_and(|room| room.has_failed(NAME)) {
            return;
        }
        let sql = format!("PRAGMA user_version = {SCHEMA_VERSION}");
        let written = loop {
            match self.connection.execute_batch(&sql) {
                Err(error) if disk_is_full(&error) && self.release() => {}
                written => break written,
            }
        };
        self.note(written.as_ref().err());
    }

    fn release(&self) -> bool {
        self.room.as_ref().is_some_and(|room| room.release(LEASE_PAGES_BYTES as u64))
    }

    fn note(&self, failure: Option<&rusqlite::Error>) {
        if let Some(room) = &self.room {
            room.noted(NAME, failure.map(ToString::to_string));
        }
    }
}

fn write_batch(connection: &mut Connection, batch: &[LeaseCommit]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for change in batch.iter().flat_map(|job| &job.changes) {
        write(&transaction, change)?;
    }
    transaction.commit()
}

fn write(transaction: &Transaction<'_>, change: &LeaseChange) -> rusqlite::Result<()> {
    match change {
        // This replaces the row of the client and the row of the address, as `Keep` requires.
        LeaseChange::Keep(lease) => {
            let address = u32::from(lease.address);
            transaction.prepare_cached("DELETE FROM rest WHERE address = ?1")?.execute(params![address])?;
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO lease (mac, address, expires_ms, hostname) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![lease.mac.0, address, lease.expires_at.as_millisecond(), lease.hostname])?
        }
        LeaseChange::Forget(mac) => {
            transaction.prepare_cached("DELETE FROM lease WHERE mac = ?1")?.execute(params![mac.0])?
        }
        LeaseChange::Rest(rest) => transaction
            .prepare_cached("INSERT OR REPLACE INTO rest (address, until_ms) VALUES (?1, ?2)")?
            .execute(params![u32::from(rest.address), rest.until.as_millisecond()])?,
    };
    Ok(())
}
