//! Reading the partition table of a disk, to find a partition on it.

use std::io;

use super::disk::{DiskReader, read_unaligned};
use super::gpt::{self, GptError, GptTable, HEAD_BYTES};

#[derive(Debug, thiserror::Error)]
pub enum ReadTableError {
    #[error("reading the start of the disk")]
    Read { source: io::Error },
    #[error("the disk's partition table is damaged")]
    Damaged { source: GptError },
}

/// The primary GPT of a disk; `None` where it has none. The backup is not consulted: on a disk
/// just written both are known to be good, on any other disk nothing should be looked for.
pub fn read_table(
    reader: &dyn DiskReader,
    size_bytes: u64,
    block_bytes: u32,
) -> Result<Option<GptTable>, ReadTableError> {
    let bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX).min(HEAD_BYTES);
    let head = read_unaligned(reader, block_bytes, 0, bytes).map_err(|source| ReadTableError::Read { source })?;
    gpt::parse(&head, block_bytes).map_err(|source| ReadTableError::Damaged { source })
}
