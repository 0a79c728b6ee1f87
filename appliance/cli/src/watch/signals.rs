//! Signals about the terminal, while a watch has its screen.

use anyhow::Context as _;
use nix::sys::signal::{Signal as SystemSignal, raise};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A shell gives the exit code of a program that a signal ended as this and the signal's number.
const SIGNAL_CODE: i32 = 128;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminalSignal {
    Resized,
    /// The user stops the program for now (Ctrl-Z).
    Suspend,
    /// The user ends the program (Ctrl-C), or the terminal is gone.
    End {
        code: i32,
    },
}

/// The signals of a terminal, which do nothing by themselves from now on.
#[derive(Debug)]
pub(super) struct TerminalSignals {
    resized: Signal,
    suspend: Signal,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl TerminalSignals {
    /// # Errors
    /// When the system lets no handler be set.
    pub(super) fn new() -> anyhow::Result<Self> {
        let handled = |kind: SignalKind| signal(kind).context("could not handle the signals of the terminal");
        Ok(Self {
            resized: handled(SignalKind::window_change())?,
            suspend: handled(SignalKind::from_raw(SystemSignal::SIGTSTP as i32))?,
            interrupt: handled(SignalKind::interrupt())?,
            terminate: handled(SignalKind::terminate())?,
            hang_up: handled(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> TerminalSignal {
        let end = |kind: SignalKind| TerminalSignal::End { code: SIGNAL_CODE + kind.as_raw_value() };
        tokio::select! {
            _ = self.resized.recv() => TerminalSignal::Resized,
            _ = self.suspend.recv() => TerminalSignal::Suspend,
            _ = self.interrupt.recv() => end(SignalKind::interrupt()),
            _ = self.terminate.recv() => end(SignalKind::terminate()),
            _ = self.hang_up.recv() => end(SignalKind::hangup()),
        }
    }
}

/// Stops the process until the user goes on with it.
pub(super) fn suspend() {
    // A process may always stop itself.
    raise(SystemSignal::SIGSTOP).ok();
}
