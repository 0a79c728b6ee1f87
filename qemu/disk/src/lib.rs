//! A disk of the lab with faults: a file served by NBD on a Unix socket, to which QEMU connects.
//!
//! ```text
//!  QEMU ── nbd ──► server ── fault table: perform, alter, drop, fail, delay?          (pure)
//!                    │   └── gauge: how far is the writer; is a stop reached?         (pure)
//!                    └────── medium ── cache: which bytes would a power cut lose?     (pure)
//!                               └───── two sparse files: the medium, and what is in the cache
//! ```
//!
//! What a real disk does and a file does not: it has a volatile cache whose content is gone after a
//! power cut unless it was flushed, it fails at some places, and it may lie. [`Disk`] is the handle:
//! it arms faults, cuts and restores the power, and can hold the machine still at an exact point of
//! its work ([`Stop`]), so that whoever kills something there kills it there every time.
//!
//! The crate knows no machine, no appliance and no scenario.

mod cache;
mod fault;
mod gauge;
mod medium;
pub mod nbd;
mod ranges;
mod server;

pub use cache::{CacheMode, Loss};
pub use fault::{Fault, FaultKind};
pub use gauge::{Seen, Stop};
pub use medium::MediumError;
pub use server::{Disk, DiskError, DiskPlan};

/// What a client asks of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    /// Zeros without data: write-zeroes and discard.
    Zero,
    Flush,
}

/// One request, already checked against the size of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub command: Command,
    pub offset: u64,
    pub bytes: u64,
    /// The answer may come only when the data is durable.
    pub durable: bool,
}

impl Request {
    #[must_use]
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.bytes
    }

    #[must_use]
    pub fn changes(&self) -> bool {
        matches!(self.command, Command::Write | Command::Zero)
    }
}
