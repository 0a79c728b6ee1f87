//! What the lab tells the person in front of it, line by line, on standard error; results alone go
//! to standard output.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Prints one line for the reader. A closed stream is no error: then it is lost, as it should be.
pub fn print_status(text: &str) {
    drop(writeln!(io::stderr(), "{}lab: {text}", erase()));
}

/// A line of another program, as it is.
pub fn pass_on(line: &str) {
    drop(writeln!(io::stderr(), "{}{line}", erase()));
}

/// Prints a line that the next one replaces; on a terminal only.
pub fn say_for_now(text: &str) {
    if io::stderr().is_terminal() {
        drop(write!(io::stderr(), "{}lab: {text}", erase()));
    }
}

/// One line of a result. A reader that has gone is no error of ours.
pub fn print(text: &str) {
    drop(writeln!(io::stdout(), "{text}"));
}

fn erase() -> &'static str {
    if io::stderr().is_terminal() { "\r\u{1b}[K" } else { "" }
}

/// A long step: says what begins, and how long it took.
#[derive(Debug)]
pub struct ProgressStep {
    what: String,
    since: Instant,
}

impl ProgressStep {
    #[must_use]
    pub fn begin(what: impl Into<String>) -> Self {
        let what = what.into();
        print_status(&format!("{what} …"));
        Self { what, since: Instant::now() }
    }

    /// How long it takes so far.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    pub fn end(self) {
        self.end_with("done");
    }

    pub fn end_with(self, result: &str) {
        print_status(&format!("{}: {result} ({})", self.what, seconds(self.since.elapsed())));
    }
}

/// `4.2 s`, `3 min 7 s`.
#[must_use]
pub fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..=119 => format!("{:.1} s", time.as_secs_f64()),
        long => format!("{} min {} s", long / 60, long % 60),
    }
}

/// `3.4 MB`, in powers of ten as disks are sold.
#[must_use]
pub fn bytes(count: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let value = count as f64;
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        assert_eq!(seconds(Duration::from_millis(4_240)), "4.2 s");
        assert_eq!(seconds(Duration::from_secs(187)), "3 min 7 s");
        assert_eq!([bytes(999), bytes(14_200_000), bytes(4_294_967_296)], ["999 B", "14.2 MB", "4.29 GB"]);
    }
}
