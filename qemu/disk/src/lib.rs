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
//! power cut unless it was flushed, it fails at some places, and it may lie. [`FaultyDisk`] is the handle:
//! it arms faults, cuts and restores the power, and can hold the machine still at an exact point of
//! its work ([`StopPoint`]), so that a test that kills something there kills it there every time.
//!
//! The lab calls it. The crate knows no machine, no appliance and no scenario.

mod cache;
mod fault;
mod gauge;
mod medium;
pub mod nbd;
mod ranges;
mod server;

pub use cache::{CacheMode, Loss};
pub use fault::{DiskFault, FaultKind};
pub use gauge::{DiskCounters, StopPoint};
pub use medium::MediumError;
pub use server::{FaultyDisk, FaultyDiskError, FaultyDiskPlan};

/// What a client asks of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCommand {
    Read,
    Write,
    /// Zeros without data: write-zeroes and discard.
    Zero,
    Flush,
}

/// One request, already checked against the size of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    pub command: DiskCommand,
    pub offset: u64,
    pub bytes: u64,
    /// The answer may come only when the data is durable.
    pub durable: bool,
}

impl DiskRequest {
    #[must_use]
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.bytes
    }

    #[must_use]
    pub fn changes(&self) -> bool {
        matches!(self.command, DiskCommand::Write | DiskCommand::Zero)
    }
}
