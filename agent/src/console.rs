//! Lines for a person at the machine or at its serial console: what happens and how far it is. PID 1 made the console
//! this process's standard output.

use std::{io::Write, time::Duration};

/// Writes one line. A console that cannot be written to must never stop the work.
pub fn line(uptime: Duration, text: &str) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "firesteel [{:>8.2}] {text}\r", uptime.as_secs_f64());
    drop(written.and_then(|()| out.flush()));
}
