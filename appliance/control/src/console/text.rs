//! What a serial port says, as lines that may be shown.

use super::lines::{ConsoleLines, LINE_BYTES_MAX};
use super::mask::Mask;

/// One serial port's text: lines without anything hidden or moving in them, and without secrets as far as these are
/// known.
#[derive(Debug, Default)]
pub struct ConsoleText {
    lines: ConsoleLines,
    mask: Mask,
}

impl ConsoleText {
    /// Hides these texts from now on, besides what looks like a secret.
    pub fn hide(&mut self, secrets: impl IntoIterator<Item = String>) {
        self.mask = Mask::new(secrets);
    }

    /// The lines that these bytes end.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        self.lines.feed(bytes, &mut lines);
        self.unrepeated_lines(&lines)
    }

    /// The line that has not ended, as one.
    pub fn flush(&mut self) -> Option<String> {
        let mut lines = Vec::new();
        self.lines.flush(&mut lines);
        self.unrepeated_lines(&lines).pop()
    }

    fn unrepeated_lines(&mut self, lines: &[String]) -> Vec<String> {
        let told = |line: &String| {
            // A word that stands for a shorter one makes a line longer.
            let mut line = self.mask.line(line);
            line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
            line
        };
        lines.iter().map(told).collect()
    }
}
