//! How a write fails, and what it leaves behind.

use std::io;

use super::{control::Aborted, extent::PartitionBeyondEnd, gpt::GptError, metadata::ClearError, stream::SourceError};
use firesteel_facts::Sha256;

/// What a failed write left behind.
#[derive(Debug)]
pub enum DiskState {
    /// Nothing on the disk was changed.
    Unchanged,
    /// Partly written, and both partition tables are proven to be zeros: it cannot boot.
    Cleared,
    /// Partly written, and clearing the tables failed as well.
    Unproven(ClearError),
}

/// A write that failed, with what it left on the disk.
#[derive(Debug, thiserror::Error)]
#[error("{failure}; {}", match state {
    DiskState::Unchanged => "the disk was not changed",
    DiskState::Cleared => "the disk was partly written and its partition tables were cleared again",
    DiskState::Unproven(_) => "the disk was partly written and its partition tables could not be cleared",
})]
pub struct WriteError {
    #[source]
    pub failure: WriteFailure,
    pub state: DiskState,
}

impl WriteError {
    #[must_use]
    pub fn disk_changed(&self) -> bool {
        !matches!(self.state, DiskState::Unchanged)
    }
}

/// What a write failed at.
#[derive(Debug, thiserror::Error)]
pub enum WriteFailure {
    #[error("{raw_bytes} bytes are not a disk image: it must have whole sectors of 512 bytes")]
    NotWholeSectors { raw_bytes: u64 },
    #[error("the image of {raw_bytes} bytes does not fit the disk of {disk_bytes} bytes")]
    DoesNotFit { raw_bytes: u64, disk_bytes: u64 },
    #[error("the image's partition table is for blocks of {image} bytes, but the disk has blocks of {disk}")]
    BlockSize { image: u32, disk: u32 },
    #[error("the image's partition table cannot be used")]
    Table { source: GptError },
    #[error(transparent)]
    Partition(#[from] PartitionBeyondEnd),
    #[error("clearing what the disk held before")]
    Clear { source: ClearError },
    #[error("getting the image")]
    Source { source: SourceError },
    #[error("writing {bytes} bytes at {offset}")]
    Write { offset: u64, bytes: u64, source: io::Error },
    #[error("zeroing {bytes} bytes at {offset}")]
    Zero { offset: u64, bytes: u64, source: io::Error },
    #[error("flushing the disk's cache")]
    Flush { source: io::Error },
    #[error("opening the disk for reading back")]
    Reopen { source: io::Error },
    #[error("reading back at {offset}")]
    ReadBack { offset: u64, source: io::Error },
    #[error("the disk holds an image with sha256 {found}, not {expected}: it did not keep what was written")]
    ReadBackDigest { expected: Sha256, found: Sha256 },
    #[error("the disk did not keep what was written at {offset}")]
    ReadBackDiffers { offset: u64 },
    #[error(transparent)]
    Aborted(#[from] Aborted),
}
