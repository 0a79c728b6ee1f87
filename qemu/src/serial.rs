//! What a machine says on its serial port, as a growing log file.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::time::{sleep, timeout};

/// How often a follower looks for more. Files have no notification that is worth its code here.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct SerialLog {
    path: PathBuf,
}

impl SerialLog {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything so far. Bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.path)?).into_owned())
    }

    /// The last lines, without control sequences, for messages about what went wrong.
    #[must_use]
    pub fn tail(&self, lines: usize) -> String {
        let text = plain(&self.text().unwrap_or_default());
        let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// How much there is now, to look only at what comes after.
    pub fn position(&self) -> io::Result<u64> {
        Ok(fs::metadata(&self.path)?.len())
    }

    /// Waits until `wanted` has been written after `position`; the time when it was seen.
    pub async fn wait_for(&self, wanted: &str, position: u64, limit: Duration) -> io::Result<Option<SystemTime>> {
        match timeout(limit, self.follow(wanted, position)).await {
            Ok(seen) => seen.map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn follow(&self, wanted: &str, position: u64) -> io::Result<SystemTime> {
        let mut file = File::open(&self.path).await?;
        tokio::io::AsyncSeekExt::seek(&mut file, io::SeekFrom::Start(position)).await?;
        let mut text = Vec::new();
        loop {
            let before = text.len();
            file.read_to_end(&mut text).await?;
            // The wanted text may begin in what was read earlier.
            let from = before.saturating_sub(wanted.len());
            if contains(&text[from..], wanted.as_bytes()) {
                return Ok(SystemTime::now());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len().max(1)).any(|window| window == wanted)
}

/// Text without terminal control sequences (CSI and single-character escapes).
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                if characters.next() == Some('[') {
                    // A control sequence ends with a letter or one of a few signs.
                    for character in characters.by_ref() {
                        if ('\u{40}'..='\u{7e}').contains(&character) {
                            break;
                        }
                    }
                }
            }
            '\r' => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn finds_text_that_arrives_in_two_pieces_and_only_after_the_position() {
        let folder = tempfile::tempdir().unwrap();
        let log = SerialLog::new(folder.path().join("serial.log"));
        let mut file = fs::File::create(log.path()).unwrap();
        file.write_all(b"Linux version 1\n").unwrap();
        let position = log.position().unwrap();
        let (found, ()) = tokio::join!(log.wait_for("Linux version", position, Duration::from_secs(20)), async {
            file.write_all(b"...Linux ver").unwrap();
            tokio::task::yield_now().await;
            file.write_all(b"sion 2\n").unwrap();
        });
        assert!(found.unwrap().is_some());
        assert!(log.wait_for("never", 0, Duration::ZERO).await.unwrap().is_none());
    }

    #[test]
    fn a_tail_reads_like_text() {
        assert_eq!(plain("\u{1b}[2J\u{1b}[01;01HBdsDxe: \u{1b}[0mloading\r\nok\u{1b}"), "BdsDxe: loading\nok");
    }
}
