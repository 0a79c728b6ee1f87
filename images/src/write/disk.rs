//! What the writer needs of a disk. Two implementations: [`ExclusiveDisk`](super::ExclusiveDisk) for real ones,
//! and the tests' disk that drops writes, alters reads and fails on request.

use std::io;

/// A disk that is open for writing, exclusively.
///
/// Offsets and lengths are multiples of [`WritableDisk::block_bytes`]; buffers come from
/// [`AlignedBuffer`].
pub trait WritableDisk: Send + Sync {
    fn size_bytes(&self) -> u64;
    /// Logical block: 512 or 4096.
    fn block_bytes(&self) -> u32;
    /// Writes all of it, past the page cache.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes the range read as zeros, by whatever way the device guarantees it.
    fn zero_at(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Returns when everything written is on the medium, not only in the drive's cache.
    fn flush(&self) -> io::Result<()>;
    /// A fresh descriptor that reads from the medium, past the page cache.
    fn reader(&self) -> io::Result<Box<dyn DiskReader>>;
}

/// Reads from the medium. The same rules for offsets and buffers as for [`WritableDisk`].
pub trait DiskReader: Send + Sync {
    /// Fills the buffer or fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Every disk's logical block divides this, and so does every alignment that direct I/O asks for.
pub const ALIGNMENT_BYTES: usize = 4096;

/// Memory that direct I/O accepts: starts at a multiple of [`ALIGNMENT_BYTES`].
pub struct AlignedBuffer {
    storage: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.bytes)
    }
}

impl AlignedBuffer {
    /// Zeroed memory of this length.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let storage = vec![0; bytes + ALIGNMENT_BYTES];
        let address = storage.as_ptr().addr();
        let start = address.next_multiple_of(ALIGNMENT_BYTES) - address;
        Self { storage, start, bytes }
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.bytes]
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.bytes]
    }
}

/// Reads a range of any offset and length by reading whole blocks around it.
pub(crate) fn read_unaligned(
    reader: &dyn DiskReader,
    block_bytes: u32,
    offset: u64,
    bytes: usize,
) -> io::Result<Vec<u8>> {
    let block = block_bytes as usize;
    let start = offset / u64::from(block_bytes) * u64::from(block_bytes);
    let lead = usize::try_from(offset - start).map_err(io::Error::other)?;
    let mut buffer = AlignedBuffer::new((lead + bytes).next_multiple_of(block));
    reader.read_at(start, &mut buffer)?;
    Ok(buffer[lead..lead + bytes].to_vec())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Mutex;

    use super::*;

    /// Every byte is the number of its block of 512; notes what is asked for.
    struct Numbered(Mutex<Vec<(u64, usize)>>);

    impl DiskReader for Numbered {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.0.lock().unwrap().push((offset, buffer.len()));
            for (byte, at) in buffer.iter_mut().zip(offset..) {
                *byte = u8::try_from(at / 512 % 256).unwrap();
            }
            Ok(())
        }
    }

    #[test]
    fn a_range_is_read_with_the_whole_blocks_around_it_and_no_more() {
        for (block_bytes, offset, bytes, asked) in [
            (512, 0, 512, (0, 512)),
            (512, 1024, 1024, (1024, 1024)),
            (512, 1000, 100, (512, 1024)),
            (512, 1536 + 64, 8, (1536, 512)),
            (4096, 1024, 3072, (0, 4096)),
            (4096, 8192 + 4000, 200, (8192, 8192)),
            (4096, 40_960, 1, (40_960, 4096)),
        ] {
            let reader = Numbered(Mutex::default());
            let read = read_unaligned(&reader, block_bytes, offset, bytes).unwrap();
            let expected: Vec<u8> = (offset..).take(bytes).map(|at| u8::try_from(at / 512).unwrap()).collect();
            assert_eq!(read, expected, "{offset}");
            assert_eq!(reader.0.into_inner().unwrap(), [asked], "{offset}");
        }
    }

    #[test]
    fn a_buffer_shows_its_length_and_not_its_content() {
        assert_eq!(format!("{:?}", AlignedBuffer::new(512)), "AlignedBuffer(512 bytes)");
    }
}
