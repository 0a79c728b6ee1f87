//! A clock that is wrong, for a process: libfaketime (Debian's package `libfaketime`), preloaded. The programs of the
//! tests are linked dynamically, so that it takes; time that only goes forward stays as it is.

#![allow(clippy::expect_used, reason = "a test that cannot have it fails by panicking")]

use std::{fs, path::Path};

/// Where Debian puts it, by the machine.
const LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"];

/// How far the clock of a process is ahead of this machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrongBy {
    /// Negative: behind.
    pub seconds: i64,
}

impl WrongBy {
    /// A clock that is right.
    pub const NOTHING: Self = Self { seconds: 0 };

    #[must_use]
    pub const fn hours(hours: i64) -> Self {
        Self { seconds: hours * 3600 }
    }

    #[must_use]
    pub const fn days(days: i64) -> Self {
        Self::hours(24 * days)
    }

    /// Of 365 days.
    #[must_use]
    pub const fn years(years: i64) -> Self {
        Self::days(365 * years)
    }

    /// Whether a process here can have a wrong clock.
    #[must_use]
    pub fn is_possible() -> bool {
        library().is_some()
    }

    /// What a process needs in its environment to have this clock; nothing where it is right.
    ///
    /// # Panics
    /// When there is no libfaketime: see [`Self::is_possible`].
    #[must_use]
    pub fn environment(self) -> Vec<(&'static str, String)> {
        if self == Self::NOTHING {
            return Vec::new();
        }
        let library = library().expect("libfaketime is installed: apt-get install libfaketime");
        vec![
            ("LD_PRELOAD", library.to_owned()),
            ("FAKETIME", format!("{:+}", self.seconds)),
            // Timers and waits are not part of what is wrong.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }

    /// Removes what the library leaves of a process that was killed.
    pub fn tidy(self, process: u32) {
        if self != Self::NOTHING {
            for name in [format!("faketime_shm_{process}"), format!("sem.faketime_sem_{process}")] {
                // It may have removed it itself.
                drop(fs::remove_file(Path::new("/dev/shm").join(name)));
            }
        }
    }
}

fn library() -> Option<&'static str> {
    LIBRARIES.into_iter().find(|library| Path::new(library).exists())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
    use std::process::Command;

    use super::*;

    /// Whether it takes at all: what follows from a wrong clock is worth nothing where there is none.
    #[test]
    fn a_process_has_the_clock_that_it_is_given() {
        if !WrongBy::is_possible() {
            return println!("skipped: no libfaketime here");
        }
        let shown = |wrong: WrongBy| -> i64 {
            let output = Command::new("date").arg("+%s").envs(wrong.environment()).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        };
        let right = shown(WrongBy::NOTHING);
        for wrong in [WrongBy::years(20), WrongBy::years(-20)] {
            let off = shown(wrong) - right - wrong.seconds;
            assert!((0..3600).contains(&off), "{wrong:?} {off}");
        }
    }
}
