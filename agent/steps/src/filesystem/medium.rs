//! The bytes of one partition: no read leaves it, and all reads together are bounded.

use std::{cell::RefCell, collections::BTreeMap};

use firesteel_images::write::{AlignedBuffer, DiskReader};

use super::FilesystemError;
use super::fields::{index, sum};

/// The disk is read in pieces of this size, which every logical block divides.
const CHUNK_BYTES: u64 = 4096;
/// Pieces that stay in memory, 4 MiB: the same inodes and folders are looked at for each path.
const CHUNKS_MAX: usize = 1024;
/// Bytes that may be read of one filesystem, and copied out of what was read, together. What a survey keeps of all
/// filesystems has 16 MiB; a hostile one takes two minutes of the slowest disk, and a second of a fast one.
pub const WORK_BYTES_MAX: u64 = 64 << 20;
/// What a read costs beside its bytes.
const CALL_BYTES: u64 = 64;

/// One partition of a disk, for reading.
pub struct PartitionBytes<'a> {
    reader: &'a dyn DiskReader,
    offset_bytes: u64,
    size_bytes: u64,
    state: RefCell<PartitionState>,
}

struct PartitionState {
    chunks: BTreeMap<u64, Vec<u8>>,
    work_bytes: u64,
}

impl PartitionState {
    fn charge(&mut self, bytes: u64) -> Result<(), FilesystemError> {
        self.work_bytes = self.work_bytes.saturating_add(bytes).saturating_add(CALL_BYTES);
        if self.work_bytes > WORK_BYTES_MAX {
            let what = "MiB of structures and files to look at";
            return Err(FilesystemError::TooMany { most: WORK_BYTES_MAX >> 20, what });
        }
        Ok(())
    }
}

impl std::fmt::Debug for PartitionBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionBytes").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl<'a> PartitionBytes<'a> {
    /// `block_bytes` is the logical block of the disk.
    ///
    /// # Errors
    /// When the partition does not begin at such a block.
    pub fn new(
        reader: &'a dyn DiskReader,
        block_bytes: u32,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Self, FilesystemError> {
        let block = u64::from(block_bytes);
        let is_whole = block > 0 && CHUNK_BYTES.is_multiple_of(block) && offset_bytes.is_multiple_of(block);
        if !is_whole || offset_bytes.checked_add(size_bytes).is_none() {
            return Err(FilesystemError::Damaged("its partition does not begin at a block of the disk"));
        }
        let state = RefCell::new(PartitionState { chunks: BTreeMap::new(), work_bytes: 0 });
        Ok(Self { reader, offset_bytes, size_bytes: size_bytes / block * block, state })
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Counts work that reads nothing, such as a hole.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), FilesystemError> {
        self.state.borrow_mut().charge(bytes)
    }

    pub(super) fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, FilesystemError> {
        let length = u64::try_from(bytes).unwrap_or(u64::MAX);
        let end = sum(at, length)?;
        if end > self.size_bytes {
            return Err(FilesystemError::Damaged("it leads out of its partition"));
        }
        let mut state = self.state.borrow_mut();
        state.charge(length)?;
        let (mut found, mut next) = (Vec::with_capacity(bytes), at);
        while next < end {
            let start = next / CHUNK_BYTES * CHUNK_BYTES;
            if !state.chunks.contains_key(&start) {
                // A disk is slow, and a little of each piece may be asked for.
                state.charge(CHUNK_BYTES)?;
                let chunk = self.fetch(start)?;
                if state.chunks.len() >= CHUNKS_MAX {
                    state.chunks.clear();
                }
                state.chunks.insert(start, chunk);
            }
            let stop = end.min(start + CHUNK_BYTES);
            let (from, to) = (index(next - start)?, index(stop - start)?);
            let piece = state.chunks.get(&start).and_then(|chunk| chunk.get(from..to));
            found.extend_from_slice(piece.ok_or(FilesystemError::Damaged("it leads out of its partition"))?);
            next = stop;
        }
        Ok(found)
    }

    fn fetch(&self, start: u64) -> Result<Vec<u8>, FilesystemError> {
        let bytes = CHUNK_BYTES.min(self.size_bytes - start);
        let mut buffer = AlignedBuffer::new(index(bytes)?);
        // The sum was checked when the partition was taken.
        let at = self.offset_bytes + start;
        self.reader.read_at(at, &mut buffer).map_err(|source| FilesystemError::Read { at, source })?;
        Ok(buffer.to_vec())
    }
}
