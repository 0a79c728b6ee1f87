//! Long builds by cargo, of which a person sees how far they are. On a terminal cargo shows that itself; elsewhere a line
//! says from time to time how many crates are built, and which is next.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::artefacts::cargo_command;
use crate::progress::{pass_on, print_status};

/// The time between two lines of progress.
const SAY_EVERY: Duration = Duration::from_secs(20);

/// Runs a build in the checkout.
pub fn build(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let mut command = cargo_command("cargo", arguments, environment);
    if io::stderr().is_terminal() {
        return check(command.status().context("running cargo")?, arguments);
    }
    let mut child = command.stderr(Stdio::piped()).spawn().context("running cargo")?;
    let output = child.stderr.take().context("cargo has no output")?;
    let (sender, lines) = mpsc::channel();
    // It ends with cargo's output.
    let reader = thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    follow(&lines, SAY_EVERY);
    ensure!(reader.join().is_ok(), "reading cargo's output came to no end");
    check(child.wait().context("waiting for cargo")?, arguments)
}

fn check(status: ExitStatus, arguments: &[&str]) -> anyhow::Result<()> {
    ensure!(status.success(), "cargo {} failed ({status})", arguments.join(" "));
    Ok(())
}

/// Follows cargo to its end: its progress in few lines, everything else as it is.
fn follow(lines: &Receiver<String>, every: Duration) {
    let mut progress = BuildProgress::default();
    let mut next = Instant::now() + every;
    loop {
        match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(line) if progress.parse_line(&line) => {}
            Ok(line) => pass_on(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= next {
            print_status(&progress.describe());
            next = Instant::now() + every;
        }
    }
}

/// What cargo said so far. Pure.
#[derive(Debug, Default)]
struct BuildProgress {
    crates: u32,
    newest: String,
}

impl BuildProgress {
    /// Whether the line is one of progress and nothing that a person has to see.
    fn parse_line(&mut self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("Compiling" | "Checking") if line.starts_with(' ') => {
                self.crates += 1;
                self.newest = words.next().unwrap_or_default().to_owned();
                true
            }
            Some("Adding" | "Downloaded" | "Downloading" | "Finished" | "Fresh" | "Locking" | "Updating") => {
                line.starts_with(' ')
            }
            Some(_) | None => false,
        }
    }

    fn describe(&self) -> String {
        match self.crates {
            0 => "the build waits, or fetches crates".to_owned(),
            count => format!("still building: {count} crates begun so far, the newest is {}", self.newest),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn progress_is_counted_and_what_went_wrong_is_shown() {
        let mut progress = BuildProgress::default();
        assert_eq!(progress.describe(), "the build waits, or fetches crates");
        for line in [
            "    Updating crates.io index",
            "  Downloaded ring v0.17.14",
            "   Compiling ring v0.17.14",
            "   Compiling firesteel-appliance v0.1.0 (/a/appliance)",
            "    Finished `release` profile [optimized] target(s) in 4m 02s",
        ] {
            assert!(progress.parse_line(line), "{line}");
        }
        for line in [
            "warning: unused variable: `a`",
            "   --> src/main.rs:1:1",
            "error: could not compile `ring` (lib) due to 1 previous error",
            "    Blocking waiting for file lock on build directory",
            "Compiling",
            "",
        ] {
            assert!(!progress.parse_line(line), "{line}");
        }
        assert_eq!(progress.describe(), "still building: 2 crates begun so far, the newest is firesteel-appliance");
    }

    #[test]
    fn a_build_is_followed_to_its_end() {
        let (sender, lines) = mpsc::channel();
        sender.send("   Compiling a v1.0.0".to_owned()).unwrap();
        drop(sender);
        follow(&lines, Duration::ZERO);
        assert!(lines.recv().is_err(), "all was read");
    }
}
