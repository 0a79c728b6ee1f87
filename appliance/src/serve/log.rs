//! The appliance's log, on the standard error: a thread of its own writes it.
//!
//! ```text
//! events of all threads ──lines──► queue ──► thread ──► standard error
//! ```
//!
//! A log is often a file, and a write to a file waits for the disk where that is flushed. The threads that
//! answer machines and users do not wait with it, for as long as the queue takes lines. Whoever logs
//! when the queue is full waits, so no line is lost while the process lives. One that is killed loses what waits; one
//! that ends takes at most a second to write it.

use anyhow::Context as _;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};

use super::settings::Settings;

/// Lines that wait for the disk at most. A line has some hundred bytes, so they are part of the
/// [process's own memory](super::memory).
const LINES_MAX: usize = 10_000;

/// Starts it. The guard is to live as long as there is something to log: dropped, it writes what still waits.
///
/// # Errors
/// `--log` is no filter, or this process has a log already.
pub(super) fn start(settings: &Settings) -> anyhow::Result<WorkerGuard> {
    let filter = tracing_subscriber::EnvFilter::try_new(&settings.log)
        .with_context(|| format!("--log {}: not a log filter", settings.log))?;
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(false)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("log")
        .finish(std::io::stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines);
    let started = if settings.log_json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
    started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))?;
    Ok(guard)
}
