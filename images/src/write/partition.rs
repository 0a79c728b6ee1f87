//! One more partition on a disk that was just written, with its content: the content first, then the table, so that
//! no reader finds a partition without its content.
//!
//! ```text
//! free space, from the disk's end -> content written, flushed, read back
//!   -> backup table written, flushed -> primary table written, flushed -> both read back
//! ```
//!
//! A failure leaves the old table or, between the two, a primary that does not know the new partition yet; the caller
//! decides what becomes of the disk.

use std::io;

use firesteel_facts::Guid;

use super::disk::{AlignedBuffer, WritableDisk, read_unaligned};
use super::gpt::{GptError, GptTable, HEAD_BYTES, Partition};
use super::signature::EDGE_BYTES;

/// Partitions begin at whole MiB, as every tool makes them.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// What the new partition is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartition {
    pub name: String,
    pub type_guid: Guid,
    pub guid: Guid,
    /// Whole MiB.
    pub size_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error(
        "the disk has no free space of {wanted} bytes for the partition {name:?}: the largest between its partitions has \
         {largest}. Use a larger disk or an image whose partitions leave room"
    )]
    NoSpace { name: String, wanted: u64, largest: u64 },
    #[error("a content of {bytes} bytes does not fit a partition of {size_bytes}")]
    Content { bytes: u64, size_bytes: u64 },
    #[error("the partition table cannot take the partition")]
    Table { source: GptError },
    #[error("reading the start of the disk")]
    Read { source: io::Error },
    #[error("writing {bytes} bytes at {offset}")]
    Write { offset: u64, bytes: usize, source: io::Error },
    #[error("flushing the disk's cache")]
    Flush { source: io::Error },
    #[error("opening the disk for reading back")]
    Reopen { source: io::Error },
    #[error("reading back at {offset}")]
    ReadBack { offset: u64, source: io::Error },
    #[error("the disk did not keep what was written at {offset}")]
    Differs { offset: u64 },
}

/// Where the partition goes: at the end of the last free space that is large enough, so that the partitions before it
/// can still grow. Pure.
pub fn place(table: &GptTable, wanted: &NewPartition) -> Result<Partition, AddError> {
    let block = u64::from(table.block_bytes);
    let alignment = ALIGNMENT_BYTES / block;
    let blocks = wanted.size_bytes.div_ceil(block).max(1);
    let mut taken: Vec<(u64, u64)> = table.partitions.iter().map(|one| (one.first_lba, one.last_lba)).collect();
    taken.sort_unstable();
    taken.push((table.last_usable_lba.saturating_add(1), u64::MAX));
    let (mut free_from, mut found, mut largest) = (table.first_usable_lba, None, 0);
    for (first, last) in taken {
        // From here up to the next partition; both ends at whole MiB, as far as the partition's end allows.
        let start = free_from.next_multiple_of(alignment);
        let end = first / alignment * alignment;
        let free = end.saturating_sub(start);
        largest = largest.max(free);
        if free >= blocks {
            found = Some((end - blocks) / alignment * alignment);
        }
        free_from = free_from.max(last.saturating_add(1));
        if last == u64::MAX {
            break;
        }
    }
    let no_space = || AddError::NoSpace {
        name: wanted.name.clone(),
        wanted: wanted.size_bytes,
        largest: largest.saturating_mul(block),
    };
    let first_lba = found.ok_or_else(no_space)?;
    let used: Vec<u32> = table.partitions.iter().map(|one| one.number).collect();
    let number = (1..=table.entry_count).find(|number| !used.contains(number));
    let full = || AddError::Table { source: GptError::EntriesFull { count: table.entry_count } };
    Ok(Partition {
        number: number.ok_or_else(full)?,
        name: wanted.name.clone(),
        type_guid: wanted.type_guid,
        guid: wanted.guid,
        first_lba,
        last_lba: first_lba + blocks - 1,
    })
}

/// Adds the partition with this content at its start, and proves both by reading back. Says where it is, and gives the
/// content as it was read from the medium.
pub fn add(
    disk: &dyn WritableDisk,
    table: &GptTable,
    wanted: &NewPartition,
    content: &[u8],
) -> Result<(Partition, Vec<u8>), AddError> {
    let partition = place(table, wanted)?;
    // Only what the table may take: boot code and whatever else lies behind it is not written again.
    let own_bytes = table.first_usable_lba.saturating_mul(u64::from(table.block_bytes)).min(disk.size_bytes());
    let bytes = usize::try_from(own_bytes).unwrap_or(usize::MAX).min(HEAD_BYTES);
    let reader = disk.reader().map_err(|source| AddError::Reopen { source })?;
    let mut head =
        read_unaligned(&*reader, disk.block_bytes(), 0, bytes).map_err(|source| AddError::Read { source })?;
    drop(reader);
    // Whatever the table forbids is seen before the first byte is written.
    let (new, completion) =
        table.with_partition(&mut head, &partition, disk.size_bytes()).map_err(|source| AddError::Table { source })?;
    let found = fill(disk, &new, &partition, content)?;
    write(disk, completion.backup_offset, &completion.backup)?;
    flush(disk)?;
    write(disk, 0, &head)?;
    flush(disk)?;
    same(disk, completion.backup_offset, &completion.backup)?;
    same(disk, 0, &head)?;
    Ok((partition, found))
}

/// Writes a content to the start of a partition that is there, clears what else could be taken for a filesystem at its
/// edges, and proves both. Gives the content as it was read from the medium.
pub fn fill(
    disk: &dyn WritableDisk,
    table: &GptTable,
    partition: &Partition,
    content: &[u8],
) -> Result<Vec<u8>, AddError> {
    let size_bytes = partition.size_bytes(table.block_bytes);
    let too_large = || AddError::Content { bytes: content.len() as u64, size_bytes };
    let length = |bytes: u64| usize::try_from(bytes).map_err(|_| too_large());
    let padded = length((content.len() as u64).next_multiple_of(u64::from(disk.block_bytes())))?;
    if padded as u64 > size_bytes {
        return Err(too_large());
    }
    let mut start = content.to_vec();
    start.resize(padded.max(length(EDGE_BYTES.min(size_bytes))?), 0);
    let tail_at = size_bytes.saturating_sub(EDGE_BYTES).max(start.len() as u64);
    let tail = vec![0; length(size_bytes - tail_at)?];
    let offset = partition.offset_bytes(table.block_bytes);
    write(disk, offset, &start)?;
    write(disk, offset + tail_at, &tail)?;
    flush(disk)?;
    same(disk, offset + tail_at, &tail)?;
    let mut found = same(disk, offset, &start)?;
    found.truncate(content.len());
    Ok(found)
}

fn write(disk: &dyn WritableDisk, offset: u64, content: &[u8]) -> Result<(), AddError> {
    if content.is_empty() {
        return Ok(());
    }
    let mut buffer = AlignedBuffer::new(content.len().next_multiple_of(disk.block_bytes() as usize));
    buffer[..content.len()].copy_from_slice(content);
    disk.write_at(offset, &buffer).map_err(|source| AddError::Write { offset, bytes: content.len(), source })
}

fn flush(disk: &dyn WritableDisk) -> Result<(), AddError> {
    disk.flush().map_err(|source| AddError::Flush { source })
}

/// Compares what is on the medium, by a fresh descriptor.
fn same(disk: &dyn WritableDisk, offset: u64, expected: &[u8]) -> Result<Vec<u8>, AddError> {
    if expected.is_empty() {
        return Ok(Vec::new());
    }
    let reader = disk.reader().map_err(|source| AddError::Reopen { source })?;
    let mut buffer = AlignedBuffer::new(expected.len().next_multiple_of(disk.block_bytes() as usize));
    reader.read_at(offset, &mut buffer).map_err(|source| AddError::ReadBack { offset, source })?;
    match buffer.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(buffer[..expected.len()].to_vec()),
        Some(index) => Err(AddError::Differs { offset: offset + index as u64 }),
    }
}
