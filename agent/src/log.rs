//! The log that travels with the reports: the agent's own lines and the kernel's, numbered,
//! bounded, and free of secrets from the start: a line is redacted before it is kept or shown.
//!
//! What does not fit goes, oldest first; the gap shows in the sequence numbers.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firesteel_os as os;
use firesteel_wire::limits::{LOG_BACKLOG_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX};
use firesteel_wire::{LogLine, LogSource};
use tracing::{Level, Metadata, field::Field, span};

use crate::console;

/// Longest record that the kernel gives in one read of `/dev/kmsg` (CONSOLE_EXT_LOG_MAX).
const KMSG_RECORD_BYTES_MAX: usize = 8192;
/// Shorter secrets would blank out ordinary words.
const SECRET_BYTES_MIN: usize = 8;

/// The lines that the appliance has not acknowledged yet.
#[derive(Debug)]
pub struct AgentLog {
    secrets: Vec<String>,
    lines: Mutex<AgentLogBuffer>,
}

#[derive(Debug)]
struct AgentLogBuffer {
    kept: VecDeque<LogLine>,
    next_sequence: u64,
}

impl AgentLog {
    /// Starts a log. Texts in `secrets` never enter it.
    #[must_use]
    pub fn new(first_sequence: u64, secrets: Vec<String>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SECRET_BYTES_MIN).collect();
        Self {
            secrets,
            lines: Mutex::new(AgentLogBuffer { kept: VecDeque::new(), next_sequence: first_sequence.max(1) }),
        }
    }

    /// Adds one line and returns its text as it was kept.
    pub fn add(&self, source: LogSource, severity: u8, uptime: Duration, text: &str) -> String {
        let text = clean(text, &self.secrets);
        let uptime_ms = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = lines.next_sequence;
        lines.next_sequence += 1;
        if lines.kept.len() >= LOG_BACKLOG_MAX {
            lines.kept.pop_front();
        }
        lines.kept.push_back(LogLine { sequence, uptime_ms, source, severity, text: text.clone() });
        text
    }

    /// The oldest lines that were not acknowledged, as many as one report takes.
    #[must_use]
    pub fn pending(&self) -> Vec<LogLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.kept.iter().take(LOG_LINES_MAX).cloned().collect()
    }

    /// Drops every line up to this number.
    pub fn acknowledge(&self, sequence: u64) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while lines.kept.front().is_some_and(|line| line.sequence <= sequence) {
            lines.kept.pop_front();
        }
    }

    /// The text without secrets and control characters, and not too long.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        clean(text, &self.secrets)
    }
}

fn clean(text: &str, secrets: &[String]) -> String {
    let mut text = text.trim_end().to_owned();
    // Before the cut: half a secret would pass unnoticed.
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), "[redacted]");
        }
    }
    let mut text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.len() > LOG_LINE_BYTES_MAX {
        let mut end = LOG_LINE_BYTES_MAX - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Takes the lines of `tracing`: into the log, and those that people care about to the console.
#[derive(Debug)]
pub struct LogSubscriber {
    log: Arc<AgentLog>,
    debug: bool,
}

impl LogSubscriber {
    #[must_use]
    pub fn new(log: Arc<AgentLog>, debug: bool) -> Self {
        Self { log, debug }
    }
}

impl tracing::Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("firesteel");
        let most = match (ours, self.debug) {
            (true, true) => Level::DEBUG,
            (true, false) => Level::INFO,
            (false, true) => Level::INFO,
            (false, false) => Level::WARN,
        };
        metadata.is_event() && *metadata.level() <= most
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = EventText::default();
        event.record(&mut text);
        let level = *event.metadata().level();
        let severity = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        let uptime = os::clock::uptime();
        let kept = self.log.add(LogSource::Agent, severity, uptime, &text.0);
        console::line(uptime, &kept);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct EventText(String);

impl tracing::field::Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let separator = if self.0.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let done = match field.name() {
            "message" => write!(self.0, "{separator}{value:?}"),
            name => write!(self.0, "{separator}{name} {value:?}"),
        };
        debug_assert!(done.is_ok());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// One record of `/dev/kmsg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLine {
    pub severity: u8,
    pub uptime: Duration,
    pub text: String,
}

/// Reads one record (Documentation/ABI/testing/dev-kmsg). Facility 0 is the kernel; lines that
/// programs wrote themselves are left out.
#[must_use]
pub fn parse_kernel_line(record: &[u8]) -> Option<KernelLine> {
    let record = std::str::from_utf8(record).ok()?;
    let (head, text) = record.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let _sequence: u64 = fields.next()?.parse().ok()?;
    let microseconds: u64 = fields.next()?.parse().ok()?;
    if priority >> 3 != 0 {
        return None;
    }
    let text = text.lines().next().unwrap_or_default().to_owned();
    let severity = u8::try_from(priority & 7).ok()?;
    Some(KernelLine { severity, uptime: Duration::from_micros(microseconds), text })
}

/// Follows the kernel's log without end, from its first line that is younger than `since`. Runs in a thread of its own;
/// ends when the log cannot be read.
pub fn follow_kernel_log(log: &AgentLog, device: &Path, since: Duration) -> std::io::Result<()> {
    let mut kmsg = File::open(device)?;
    let mut record = vec![0; KMSG_RECORD_BYTES_MAX];
    loop {
        match kmsg.read(&mut record) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                if let Some(line) = parse_kernel_line(&record[..bytes]).filter(|line| line.uptime >= since) {
                    log.add(LogSource::Kernel, line.severity, line.uptime, &line.text);
                }
            }
            // EPIPE: the kernel overwrote what was next; the read goes on behind the gap.
            Err(error) if error.kind() == ErrorKind::BrokenPipe || error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Entry for fuzzing: must not panic on any input.
pub fn check(record: &[u8]) {
    if let Some(line) = parse_kernel_line(record) {
        drop(clean(&line.text, &[]));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const TOKEN: &str = "v1.c2VhbGVkLXRva2VuLW9mLXRoaXMtYm9vdA";

    #[test]
    fn secrets_never_enter_even_when_the_line_is_cut_through_them() {
        let log = AgentLog::new(1, vec![TOKEN.to_owned()]);
        let long = format!("{}{TOKEN} tail", "x".repeat(LOG_LINE_BYTES_MAX - 10));
        for text in [format!("got {TOKEN}"), format!("{TOKEN}{TOKEN}"), long] {
            let kept = log.add(LogSource::Kernel, 6, Duration::ZERO, &text);
            assert!(!kept.contains(&TOKEN[..10]), "{kept}");
            assert!(kept.len() <= LOG_LINE_BYTES_MAX);
        }
        assert!(!format!("{:?}", log.pending()).contains(TOKEN));
    }

    #[test]
    fn oldest_lines_go_first_and_acknowledged_lines_are_dropped() {
        let log = AgentLog::new(5, Vec::new());
        for n in 0..LOG_BACKLOG_MAX + 3 {
            log.add(LogSource::Agent, 6, Duration::from_millis(7), &format!("line {n}"));
        }
        let pending = log.pending();
        assert_eq!((pending.len(), pending[0].sequence, pending[0].uptime_ms), (LOG_LINES_MAX, 8, 7));
        log.acknowledge(pending[0].sequence + 1);
        assert_eq!(log.pending()[0].sequence, 10);
        log.acknowledge(u64::MAX);
        assert!(log.pending().is_empty());
    }

    #[test]
    fn kernel_records() {
        let line = parse_kernel_line(b"4,711,12345678,-;nvme nvme0: 2/0/0 queues\n SUBSYSTEM=nvme\n").unwrap();
        assert_eq!((line.severity, line.uptime.as_millis()), (4, 12_345));
        assert_eq!(line.text, "nvme nvme0: 2/0/0 queues");
        assert_eq!(parse_kernel_line(b"12,711,12345678,-;from a program"), None);
        assert_eq!(parse_kernel_line(b"x;y"), None);
    }

    #[test]
    fn control_characters_do_not_reach_consoles() {
        let log = AgentLog::new(1, Vec::new());
        assert_eq!(log.add(LogSource::Agent, 6, Duration::ZERO, "serial \u{1b}[2Jx\n"), "serial  [2Jx");
    }

    proptest::proptest! {
        #[test]
        fn any_record_is_survived(bytes in proptest::collection::vec(0u8.., 0..300), head in "[0-9,;]{0,20}") {
            check(&bytes);
            check(head.as_bytes());
        }
    }
}
