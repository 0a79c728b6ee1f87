//! Disks for tests: one in memory that fails, forgets or lies where it is told to, and images to
//! write to it.

use std::io;
use std::sync::{Arc, Mutex};

use firesteel_facts::{Guid, Sha256};
use firesteel_images::write::{AlignedBuffer, DiskReader, WritableDisk, WriteSpec, gpt};

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Writing or zeroing this byte fails.
    WriteError(u64),
    /// Reading this byte fails.
    ReadError(u64),
    /// Writes and zeroing that touch this byte are acknowledged and forgotten.
    Drops(u64),
    /// This byte reads as something else.
    ReadsWrong(u64),
    /// Zeroing commands do nothing.
    ZeroLies,
    /// Flushes fail.
    FlushError,
    /// Everything after this many writes fails: power is gone.
    PowerLoss(usize),
}

#[derive(Clone)]
pub(crate) struct TestDisk {
    shared: Arc<Mutex<State>>,
    block_bytes: u32,
}

struct State {
    bytes: Vec<u8>,
    faults: Vec<Fault>,
    writes: usize,
}

impl TestDisk {
    /// A disk full of something.
    pub(crate) fn new(bytes: usize, block_bytes: u32, faults: &[Fault]) -> Self {
        let state = State { bytes: vec![0xd1; bytes], faults: faults.to_vec(), writes: 0 };
        Self { shared: Arc::new(Mutex::new(state)), block_bytes }
    }

    pub(crate) fn put(&self, offset: usize, bytes: &[u8]) {
        self.shared.lock().unwrap().bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// An older installation that boots: valid tables around data that is nowhere zero.
    pub(crate) fn put_old_installation(&self) {
        let bytes = self.bytes().len();
        let old = gpt_image(bytes, self.block_bytes);
        self.put(0, &old[..1 << 20]);
        self.put(bytes - (64 << 10), &old[bytes - (64 << 10)..]);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.shared.lock().unwrap().bytes.clone()
    }

    pub(crate) fn writes(&self) -> usize {
        self.shared.lock().unwrap().writes
    }

    fn change(&self, offset: u64, data: Option<&[u8]>, bytes: u64) -> io::Result<()> {
        let block = u64::from(self.block_bytes);
        assert_eq!((offset % block, bytes % block), (0, 0), "not whole blocks");
        if let Some(data) = data {
            assert_eq!(data.as_ptr().addr() % 512, 0, "memory is not aligned");
        }
        let mut state = self.shared.lock().unwrap();
        state.writes += 1;
        let range = offset..offset + bytes;
        let mut dropped = false;
        for fault in &state.faults {
            match fault {
                Fault::WriteError(at) if range.contains(at) => return Err(io::Error::from_raw_os_error(5)),
                Fault::PowerLoss(after) if state.writes > *after => return Err(io::Error::from_raw_os_error(5)),
                Fault::Drops(at) if range.contains(at) => dropped = true,
                Fault::ZeroLies if data.is_none() => dropped = true,
                _ => {}
            }
        }
        if !dropped {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            match data {
                Some(data) => state.bytes[range].copy_from_slice(data),
                None => state.bytes[range].fill(0),
            }
        }
        Ok(())
    }
}

impl WritableDisk for TestDisk {
    fn size_bytes(&self) -> u64 {
        self.shared.lock().unwrap().bytes.len() as u64
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(offset, Some(data), data.len() as u64)
    }

    fn zero_at(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.change(offset, None, bytes)
    }

    fn flush(&self) -> io::Result<()> {
        let state = self.shared.lock().unwrap();
        let lost = |fault: &Fault| matches!(fault, Fault::PowerLoss(after) if state.writes >= *after);
        if state.faults.contains(&Fault::FlushError) || state.faults.iter().any(lost) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    fn reader(&self) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(self.clone()))
    }
}

impl DiskReader for TestDisk {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let block = u64::from(self.block_bytes);
        assert_eq!((offset % block, buffer.len() as u64 % block), (0, 0), "not whole blocks");
        let state = self.shared.lock().unwrap();
        let range = offset..offset + buffer.len() as u64;
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(
            state.bytes.get(start..start + buffer.len()).ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?,
        );
        for fault in &state.faults {
            match fault {
                Fault::ReadError(at) if range.contains(at) => return Err(io::Error::from_raw_os_error(5)),
                Fault::ReadsWrong(at) if range.contains(at) => buffer[usize::try_from(at - offset).unwrap()] ^= 0x40,
                _ => {}
            }
        }
        Ok(())
    }
}

pub(crate) const DISK_GUID: Guid = Guid([0x42; 16]);

/// A partition of type "Linux filesystem".
pub(crate) fn partition(number: u32, name: &str, first_lba: u64, last_lba: u64) -> gpt::Partition {
    let type_guid = "0fc63daf-8483-4772-8e79-3d69d8477de4".parse().unwrap();
    gpt::Partition { number, name: name.to_owned(), type_guid, guid: Guid([9; 16]), first_lba, last_lba }
}

/// An image with a GPT, two partitions, and data between holes.
pub(crate) fn gpt_image(bytes: usize, block_bytes: u32) -> Vec<u8> {
    let blocks = bytes as u64 / u64::from(block_bytes);
    let first = (1 << 20) / u64::from(block_bytes);
    let parts = [partition(1, "boot", first, blocks / 2), partition(2, "root", blocks / 2 + 1, blocks - 40)];
    let (head, backup_offset, backup) = gpt::create(bytes as u64, block_bytes, Guid([1; 16]), &parts).unwrap();
    let mut image = vec![0; bytes];
    image[..head.len()].copy_from_slice(&head);
    // Boot code, then stretches of data at odd places.
    image[..64].fill(0x90);
    fill(&mut image[(1 << 20) + 4096..(1 << 20) + 300_000]);
    let middle = bytes / 2;
    fill(&mut image[middle..middle + 200_000]);
    let end = usize::try_from(backup_offset).unwrap();
    fill(&mut image[end - 70_000..end]);
    image[end..end + backup.len()].copy_from_slice(&backup);
    image
}

fn fill(bytes: &mut [u8]) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::try_from(index.wrapping_mul(2_654_435_761) >> 7 & 0xff).unwrap() | 1;
    }
}

/// The image as a stream of frames, and what the writer must be told of it.
pub(crate) fn stream_of(image: &[u8]) -> (Vec<u8>, WriteSpec) {
    let stream: Vec<u8> = image.chunks(1 << 20).flat_map(|frame| zstd::encode_all(frame, 1).unwrap()).collect();
    let spec = WriteSpec {
        raw_bytes: image.len() as u64,
        raw_sha256: Sha256::of(image),
        stream_bytes: stream.len() as u64,
        stream_sha256: Sha256::of(&stream),
        disk_guid: DISK_GUID,
    };
    (stream, spec)
}

/// Whether firmware or a kernel would find a partition table or boot code.
pub(crate) fn bootable(disk: &[u8], block_bytes: u32) -> bool {
    let block = block_bytes as usize;
    let last = disk.len() / block - 1;
    let backup = gpt::parse_backup_header(&disk[last * block..][..block], last as u64, block_bytes);
    disk[510..512] == [0x55, 0xaa] || !matches!(gpt::parse(disk, block_bytes), Ok(None)) || !matches!(backup, Ok(None))
}

/// Aligned memory with this content.
pub(crate) fn aligned(bytes: &[u8]) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(bytes.len());
    buffer.copy_from_slice(bytes);
    buffer
}
