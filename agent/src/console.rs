//! Lines for whoever stands before the machine or reads its serial console: what happens and how
//! far it is. PID 1 made the console this process's standard output.

use std::{io::Write, time::Duration};

/// Writes one line. A console that cannot be written to must never stop the work.
pub fn line(uptime: Duration, text: &str) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "firesteel [{:>8.2}] {text}\r", uptime.as_secs_f64());
    drop(written.and_then(|()| out.flush()));
}

/// Bytes for people, with one decimal.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.1} GB", value / 1e9),
    }
}
