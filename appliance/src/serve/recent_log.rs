//! The newest lines of the log, in memory: a support bundle has them, wherever the supervisor of this process keeps its
//! standard error.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of the kept lines, with what each takes besides. It is [a part of the bound](super::memory).
pub const RECENT_LOG_BYTES_MAX: usize = 2 << 20;
/// The longest line that is kept whole.
const LINE_BYTES_MAX: usize = 16 << 10;
/// What a line takes besides its bytes.
const LINE_BYTES: usize = 48;

/// The newest lines of the log. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RecentLog(Arc<Mutex<RecentLines>>);

#[derive(Debug, Default)]
struct RecentLines {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// How many lines made room for newer ones.
    dropped: u64,
}

impl RecentLog {
    /// Keeps a line, with its line feed; the oldest make room.
    fn push(&self, line: &[u8]) {
        let mut kept = line[..line.len().min(LINE_BYTES_MAX)].to_vec();
        if kept.len() < line.len() {
            kept.extend_from_slice("…\n".as_bytes());
        }
        let mut recent = self.lock();
        recent.bytes += kept.len() + LINE_BYTES;
        recent.lines.push_back(kept.into_boxed_slice());
        while recent.bytes > RECENT_LOG_BYTES_MAX {
            let Some(oldest) = recent.lines.pop_front() else { break };
            recent.bytes -= oldest.len() + LINE_BYTES;
            recent.dropped += 1;
        }
    }

    /// Returns the last lines, the oldest first, or all that are kept.
    #[must_use]
    pub fn last(&self, lines: Option<usize>) -> Vec<u8> {
        let recent = self.lock();
        let skipped = recent.lines.len().saturating_sub(lines.unwrap_or(usize::MAX));
        let mut text = Vec::new();
        recent.lines.iter().skip(skipped).for_each(|line| text.extend_from_slice(line));
        text
    }

    /// Returns how many lines of this process are not kept any more.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, RecentLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes each line to two places: to the log, and to the lines that are kept. Each write is one line.
#[derive(Debug)]
pub(super) struct KeptLogWriter<W> {
    pub(super) log: W,
    pub(super) recent: RecentLog,
}

impl<W: Write> Write for KeptLogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.recent.push(line);
        // The rest of a line that was written in part would be taken for a line of its own.
        self.log.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.log.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_the_log_has_all() {
        let recent = RecentLog::default();
        let mut writer = KeptLogWriter { log: Vec::new(), recent: recent.clone() };
        for number in 0..3 {
            writer.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        assert_eq!(String::from_utf8(recent.last(None)).unwrap(), "line 0\nline 1\nline 2\n");
        assert_eq!(String::from_utf8(recent.last(Some(1))).unwrap(), "line 2\n");
        assert_eq!(writer.log.len(), 21);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let recent = RecentLog::default();
        let long = vec![b'x'; 1 << 20];
        (0..500).for_each(|_| recent.push(&long));
        let text = recent.last(None);
        assert!(text.len() <= RECENT_LOG_BYTES_MAX && text.ends_with("x…\n".as_bytes()), "{}", text.len());
        assert!(recent.dropped() > 300);
        (0..100_000).for_each(|_| recent.push(b"\n"));
        assert!(recent.last(None).len() <= RECENT_LOG_BYTES_MAX / LINE_BYTES, "empty lines count, too");
    }
}
