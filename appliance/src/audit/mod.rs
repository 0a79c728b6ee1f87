//! The audit log: who asked the API for what, and what came of it.
//!
//! ```text
//!   request ─► Asked (pure) ─► answer ─► Record, if it is one to keep ─► queue ─► thread ─► audit.jsonl
//!                                                                                    └────► who follows
//! ```
//!
//! Kept are all writes, all that was refused for who asked (401, 403), and all reading of Secrets, backups
//! included; of bodies, nothing. A record is given to the kernel within moments of the answer; no request
//! waits for the disk, and one that finds no room is counted, and the count is in the log when there is room
//! again. So are refusals beyond what a caller's may fill, but never what may have changed something. A
//! request whose asker goes away before the answer has a record too ([`AuditGuard`]): it may have been done.

mod file;
mod follow;
mod record;

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread,
};

use anyhow::Context as _;
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{broadcast, oneshot};

pub use record::{AuditCaller, AuditOutcome, AuditedRequest};

use file::{FILE_BYTES_MAX, LogFiles};
use follow::AuditFollower;
use record::Flood;

/// Records that wait for the disk: a second of the fastest writing, in about 2 MiB.
const QUEUE_MAX: usize = 4096;
/// Records that a follower may be behind before it is cut off.
const FOLLOW_MAX: usize = 1024;

/// The log. Clones share it.
#[derive(Clone, Debug)]
pub struct Audit(Arc<AuditQueue>);

#[derive(Debug)]
struct AuditQueue {
    queue: SyncSender<AuditWriterCommand>,
    lost: Arc<AtomicU64>,
    lost_ever: Arc<AtomicU64>,
    flood: Mutex<Flood>,
}

/// A request on its way to its answer, on record whatever becomes of it.
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
    /// Goes on with the log in a folder, which is made where it is missing.
    ///
    /// # Errors
    /// When the folder or the file cannot be made.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let files = LogFiles::open(folder, FILE_BYTES_MAX)
            .with_context(|| format!("opening the audit log in {}", folder.display()))?;
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
                    // Between two lines: what is read ends where what is followed begins.
                    AuditWriterCommand::Read(answer) => drop(answer.send(writer.reading())),
                }
            }
        };
        thread::Builder::new().name("audit".into()).spawn(run).context("starting the audit log's thread")?;
        Ok(Self(Arc::new(AuditQueue { queue, lost, lost_ever, flood: Mutex::default() })))
    }

    /// Keeps a record of a request and what comes of it, if it is one to keep: the answer, or, where this is
    /// dropped before, that there was none.
    #[must_use]
    pub fn begin<'a>(&'a self, asked: &'a AuditedRequest, who: AuditCaller<'a>) -> AuditGuard<'a> {
        AuditGuard { audit: self, asked, who, is_answered: false }
    }

    /// Records that were lost since the start, those that the log tells of included.
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
                    tracing::error!("the audit log is slower than the requests; records are lost, and counted");
                }
            }
        }
    }

    /// What is in the log, and with `follow` what comes. `tail` is for the last lines alone.
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
        // The queue may be full, and whoever reads can wait.
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
                // Nobody may be following.
                drop(self.live.send(line));
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "the audit log cannot be written; records are lost, and counted");
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
