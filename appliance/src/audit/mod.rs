//! The audit log: who sent which request to the API, and what came of it.
//!
//! ```text
//!   request ─► AuditedRequest (pure) ─► answer ─► AuditRecord, if it is one to keep ─► queue ─► thread ─► audit.jsonl
//!                                                                                                  └────► who follows
//! ```
//!
//! Kept are all writes, all requests that were refused because of who sent them (401, 403), and all reads of Secrets,
//! backups included; bodies are never kept. The kernel gets a record within moments of the answer. No request waits for
//! the disk: a record that finds no room is counted, and the log gets the count when there is room again. The same
//! holds for refusals beyond a caller's allowance, but never for a request that may have changed something. A request
//! whose client goes away before the answer has a record too ([`AuditGuard`]): it may have been carried out.

mod file;
mod follow;
mod record;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context as _;
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{broadcast, oneshot};

pub use record::{AuditCaller, AuditOutcome, AuditedRequest};

use file::{FILE_BYTES_MAX, LogFiles};
use follow::AuditFollower;
use record::Flood;

/// Records that wait for the disk: one second of the fastest writing, in about 2 MiB.
const QUEUE_MAX: usize = 4096;
/// How many records a follower may be behind before it is cut off.
const FOLLOW_MAX: usize = 1024;

/// The audit log. Clones share it.
#[derive(Clone, Debug)]
pub struct Audit(Arc<AuditQueue>);

#[derive(Debug)]
struct AuditQueue {
    queue: SyncSender<AuditWriterCommand>,
    lost: Arc<AtomicU64>,
    lost_ever: Arc<AtomicU64>,
    flood: Mutex<Flood>,
}

/// A request that is being answered; it gets its record even if the answer never comes.
#[derive(Debug)]
pub struct AuditGuard<'a> {
    audit: &'a Audit,
    asked: &'a AuditedRequest,
    who: AuditCaller<'a>,
    is_answered: bool,
}

enum AuditWriterCommand {
    Line(Bytes),
    Read(oneshot::Sender<std::io::Result<AuditFollower>>),
}

impl Audit {
    /// Opens the log in a folder, which is made if it is missing, and appends to it.
    ///
    /// # Errors
    /// When the folder or the file cannot be made.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let files = LogFiles::open(folder, FILE_BYTES_MAX)
            .with_context(|| format!("could not open the audit log in {}", folder.display()))?;
        let (queue, commands) = sync_channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let lost_ever = Arc::new(AtomicU64::new(0));
        let ever = Arc::clone(&lost_ever);
        let run = move || {
            let (live, _) = broadcast::channel(FOLLOW_MAX);
            let mut writer = AuditWriter { files, live, lost: counted, lost_ever: ever, is_failing: false };
            while let Ok(command) = commands.recv() {
                match command {
                    AuditWriterCommand::Line(line) => writer.write(line),
                    // This runs between two lines: what is read ends where what is followed begins.
                    AuditWriterCommand::Read(answer) => drop(answer.send(writer.reading())),
                }
            }
        };
        thread::Builder::new().name("audit".into()).spawn(run).context("could not start the audit log's thread")?;
        Ok(Self(Arc::new(AuditQueue { queue, lost, lost_ever, flood: Mutex::default() })))
    }

    /// Makes a guard that records the request and its answer if they are to be kept; if the guard is dropped before,
    /// the record says that there was no answer.
    #[must_use]
    pub fn begin<'a>(&'a self, asked: &'a AuditedRequest, who: AuditCaller<'a>) -> AuditGuard<'a> {
        AuditGuard { audit: self, asked, who, is_answered: false }
    }

    /// The number of records lost since the start, including those whose loss the log states.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.lost_ever.load(Ordering::Relaxed)
    }

    fn note(&self, asked: &AuditedRequest, who: &AuditCaller<'_>, outcome: &AuditOutcome<'_>, now: Timestamp) {
        let Some(record) = asked.record(who, outcome, now) else { return };
        let line = record.line();
        let mut flood = self.0.flood.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(suppressed) = flood.admit(asked.limit(who, outcome), line.len(), now) else { return };
        drop(flood);
        if suppressed > 0 {
            self.send(record::count("suppressed", suppressed, now));
        }
        self.send(line);
    }

    fn send(&self, line: Bytes) {
        match self.0.queue.try_send(AuditWriterCommand::Line(line)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.0.lost_ever.fetch_add(1, Ordering::Relaxed);
                if self.0.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::error!("could not write the audit log in time: records are lost, and counted");
                }
            }
        }
    }

    /// Reads the log, and with `follow` what is added. `tail` limits it to the last lines.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn read(
        &self,
        tail: Option<usize>,
        follow: bool,
    ) -> std::io::Result<impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + use<>> {
        let gone = || std::io::Error::other("the audit log has ended");
        let (answer, reading) = oneshot::channel();
        let (queue, command) = (self.0.queue.clone(), AuditWriterCommand::Read(answer));
        // The queue may be full, and a reader can wait.
        tokio::task::spawn_blocking(move || queue.send(command)).await?.map_err(|_| gone())?;
        let mut reading = reading.await.map_err(|_| gone())??;
        if let Some(lines) = tail {
            reading = tokio::task::spawn_blocking(move || reading.last(lines)).await??;
        }
        Ok(reading.stream(follow))
    }
}

impl AuditGuard<'_> {
    pub fn answered(mut self, outcome: &AuditOutcome<'_>) {
        self.is_answered = true;
        self.audit.note(self.asked, &self.who, outcome, Timestamp::now());
    }
}

impl Drop for AuditGuard<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.audit.note(self.asked, &self.who, &AuditOutcome::UNANSWERED, Timestamp::now());
        }
    }
}

struct AuditWriter {
    files: LogFiles,
    live: broadcast::Sender<Bytes>,
    lost: Arc<AtomicU64>,
    lost_ever: Arc<AtomicU64>,
    is_failing: bool,
}

impl AuditWriter {
    fn write(&mut self, line: Bytes) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && !self.put(record::count("lost", lost, Timestamp::now())) {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
            self.lost_ever.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if !self.put(line) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.lost_ever.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn put(&mut self, line: Bytes) -> bool {
        match self.files.append(&line) {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the audit log is written again");
                }
                // There may be no follower.
                drop(self.live.send(line));
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "could not write the audit log: records are lost, and counted");
                }
                false
            }
        }
    }

    fn reading(&self) -> std::io::Result<AuditFollower> {
        Ok(AuditFollower { parts: self.files.parts()?, live: self.live.subscribe() })
    }
}

#[cfg(test)]
mod tests;
