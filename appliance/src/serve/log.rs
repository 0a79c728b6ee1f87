//! The appliance's log on standard error, which a thread of its own writes. The newest lines stay in memory.
//!
//! ```text
//! events of all threads ──lines──► queue ──► thread ──► standard error
//!                           └────► the newest lines ──► GET /firesteel.dev/log
//! ```
//!
//! A log is often a file, and a write to a file may wait for the disk. The threads that answer machines and users do
//! not wait, as long as the queue has room. A thread that logs when the queue is full waits, so no line is lost while
//! the process lives. A process that is killed loses the lines in the queue; one that ends writes them, for at most a
//! second.

use anyhow::Context as _;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};

use super::recent_log::{KeptLogWriter, RecentLog};
use super::settings::Settings;

/// How many lines may wait for the disk. A line has some hundred bytes, so they are part of the [process's own
/// memory](super::memory).
const LINES_MAX: usize = 10_000;

/// The log of this process.
#[derive(Debug)]
pub(super) struct StartedLog {
    /// Must live as long as there is something to log: when it is dropped, it writes the lines that wait.
    pub(super) _guard: WorkerGuard,
    pub(super) recent: RecentLog,
}

/// Starts the log.
///
/// # Errors
/// When `--log` is not a filter, or this process has a log already.
pub(super) fn start(settings: &Settings) -> anyhow::Result<StartedLog> {
    let filter = tracing_subscriber::EnvFilter::try_new(&settings.log)
        .with_context(|| format!("--log {}: not a log filter", settings.log))?;
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(false)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("log")
        .finish(std::io::stderr());
    let recent = RecentLog::default();
    let kept = recent.clone();
    let writer = move || KeptLogWriter { log: lines.clone(), recent: kept.clone() };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let started = if settings.log_json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
    started.map_err(|error| anyhow::anyhow!("could not start the log: {error}"))?;
    Ok(StartedLog { _guard: guard, recent })
}
