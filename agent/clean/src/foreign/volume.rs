//! Where the bytes of a disk, partition, logical volume or array lie. Reads only, each disk in chunks that are kept for
//! a while: recognisers look at the same places again and again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use firesteel_images::write::{AlignedBuffer, DiskReader};
use firesteel_sysfs::disks::KernelPartition;
use std::io;

use super::{gap::VolumeReadError, raid_layout::Stripes, thin::Thin};

/// What is read of a disk at once.
const CHUNK_BYTES: u64 = 64 << 10;
/// Chunks that are kept: 32 MiB.
const CHUNKS_MAX: usize = 512;
/// The most that is read in one scan. A disk with a hundred partitions needs 300 MiB.
const READ_BYTES_MAX: u64 = 8 << 30;
/// Volumes in volumes, and pieces beside each other, that one read may go through.
const DEPTH_MAX: u32 = 16;

/// A disk that can be read, with what the kernel shows of it.
pub struct DiskSource<'a> {
    pub reader: &'a dyn DiskReader,
    pub size_bytes: u64,
    /// Logical block: 512 or 4096.
    pub block_bytes: u32,
    /// The kernel's own list of its partitions; empty where it is not known.
    pub partitions: Vec<KernelPartition>,
}

impl std::fmt::Debug for DiskSource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskSource").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct BlockVolume {
    pub(super) size_bytes: u64,
    pub(super) layout: VolumeLayout,
}

#[derive(Debug)]
pub(super) enum VolumeLayout {
    /// A disk by its number in the scan.
    Disk(usize),
    Part {
        of: Rc<BlockVolume>,
        offset: u64,
    },
    /// One behind the other; what no piece covers is elsewhere.
    Pieces(Vec<VolumePiece>),
    Striped(Stripes<Rc<BlockVolume>>),
    Thin(Thin<Rc<BlockVolume>>),
}

#[derive(Debug)]
pub(super) struct VolumePiece {
    /// Where it begins in the volume.
    pub(super) at: u64,
    pub(super) size_bytes: u64,
    pub(super) of: Rc<BlockVolume>,
    pub(super) offset: u64,
}

impl BlockVolume {
    pub(super) fn part(of: &Rc<Self>, offset: u64, size_bytes: u64) -> Rc<Self> {
        let offset = offset.min(of.size_bytes);
        let size_bytes = size_bytes.min(of.size_bytes - offset);
        Rc::new(Self { size_bytes, layout: VolumeLayout::Part { of: Rc::clone(of), offset } })
    }

    /// The disks that it lies on.
    pub(super) fn disks(&self) -> BTreeSet<usize> {
        let mut disks = BTreeSet::new();
        self.add_disks(&mut disks, 0);
        disks
    }

    fn add_disks(&self, disks: &mut BTreeSet<usize>, depth: u32) {
        if depth > DEPTH_MAX {
            return;
        }
        match &self.layout {
            VolumeLayout::Disk(number) => {
                disks.insert(*number);
            }
            VolumeLayout::Part { of, .. } => of.add_disks(disks, depth + 1),
            VolumeLayout::Pieces(pieces) => pieces.iter().for_each(|piece| piece.of.add_disks(disks, depth + 1)),
            VolumeLayout::Striped(stripes) => {
                stripes.members.iter().flatten().for_each(|member| member.add_disks(disks, depth + 1));
            }
            VolumeLayout::Thin(thin) => thin.data.add_disks(disks, depth + 1),
        }
    }

    /// Disk and offset of its first byte, where all of it lies behind that in one piece.
    pub(super) fn place(&self) -> Option<(usize, u64)> {
        match &self.layout {
            VolumeLayout::Disk(number) => Some((*number, 0)),
            VolumeLayout::Part { of, offset } => of.place().map(|(disk, at)| (disk, at.saturating_add(*offset))),
            VolumeLayout::Pieces(pieces) => match pieces.as_slice() {
                [only] if only.at == 0 && only.size_bytes == self.size_bytes => {
                    only.of.place().map(|(disk, at)| (disk, at.saturating_add(only.offset)))
                }
                _ => None,
            },
            VolumeLayout::Striped(_) | VolumeLayout::Thin(_) => None,
        }
    }

    /// Where one byte lies: in which volume below this one, at which offset, and how many follow it there.
    fn mapped_range(&self, at: u64) -> Option<(&Rc<Self>, u64, u64)> {
        match &self.layout {
            VolumeLayout::Disk(_) | VolumeLayout::Thin(_) => None,
            VolumeLayout::Part { of, offset } => Some((of, offset.checked_add(at)?, self.size_bytes.checked_sub(at)?)),
            VolumeLayout::Pieces(pieces) => {
                let index = pieces.partition_point(|piece| piece.at <= at).checked_sub(1)?;
                let piece = &pieces[index];
                let inside = at - piece.at;
                let left = piece.size_bytes.checked_sub(inside).filter(|left| *left > 0)?;
                Some((&piece.of, piece.offset.checked_add(inside)?, left))
            }
            VolumeLayout::Striped(stripes) => stripes.locate(at),
        }
    }
}

/// Chunks by disk and number.
type Chunks = HashMap<(usize, u64), Rc<Vec<u8>>>;

/// The disks of one scan.
#[derive(Debug)]
pub(super) struct Disks<'a> {
    pub(super) sources: &'a [&'a DiskSource<'a>],
    chunks: RefCell<Chunks>,
    read_bytes: Cell<u64>,
}

impl<'a> Disks<'a> {
    pub(super) fn new(sources: &'a [&'a DiskSource<'a>]) -> Self {
        Self { sources, chunks: RefCell::default(), read_bytes: Cell::new(0) }
    }

    /// Fills the buffer from this place of the volume.
    pub(super) fn read(&self, volume: &BlockVolume, at: u64, buffer: &mut [u8]) -> Result<(), VolumeReadError> {
        self.read_deep(volume, at, buffer, 0)
    }

    fn read_deep(&self, volume: &BlockVolume, at: u64, buffer: &mut [u8], depth: u32) -> Result<(), VolumeReadError> {
        let end = at.checked_add(buffer.len() as u64).ok_or(VolumeReadError::Elsewhere)?;
        if end > volume.size_bytes || depth > DEPTH_MAX {
            return Err(VolumeReadError::Elsewhere);
        }
        if let VolumeLayout::Disk(number) = &volume.layout {
            return self.read_disk(*number, at, buffer);
        }
        if let VolumeLayout::Thin(thin) = &volume.layout {
            return self.read_thin(thin, at, buffer, depth);
        }
        let mut done = 0;
        while done < buffer.len() {
            let (below, offset, left) = volume.mapped_range(at + done as u64).ok_or(VolumeReadError::Elsewhere)?;
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len() - done);
            self.read_deep(below, offset, &mut buffer[done..done + length], depth + 1)?;
            done += length;
        }
        Ok(())
    }

    fn read_thin(
        &self,
        thin: &Thin<Rc<BlockVolume>>,
        at: u64,
        buffer: &mut [u8],
        depth: u32,
    ) -> Result<(), VolumeReadError> {
        let mut done = 0;
        while done < buffer.len() {
            let (place, left) = thin.locate(&|at, node| self.read(&thin.metadata, at, node), at + done as u64)?;
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len() - done);
            let piece = &mut buffer[done..done + length];
            match place {
                Some(offset) => self.read_deep(&thin.data, offset, piece, depth + 1)?,
                None => piece.fill(0),
            }
            done += length;
        }
        Ok(())
    }

    fn read_disk(&self, number: usize, at: u64, buffer: &mut [u8]) -> Result<(), VolumeReadError> {
        let mut done = 0;
        while done < buffer.len() {
            let position = at + done as u64;
            let chunk = self.chunk(number, position / CHUNK_BYTES)?;
            let inside = usize::try_from(position % CHUNK_BYTES).unwrap_or(usize::MAX);
            let Some(bytes) = chunk.get(inside..).filter(|bytes| !bytes.is_empty()) else {
                // A chunk that could not be read whole: the place alone may be readable.
                return self.read_exactly(number, position, &mut buffer[done..]);
            };
            let length = bytes.len().min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&bytes[..length]);
            done += length;
        }
        Ok(())
    }

    /// Reads a chunk; it is empty where the disk does not give all of it.
    fn chunk(&self, number: usize, index: u64) -> Result<Rc<Vec<u8>>, VolumeReadError> {
        let key = (number, index);
        if let Some(chunk) = self.chunks.borrow().get(&key) {
            return Ok(Rc::clone(chunk));
        }
        let source = self.sources.get(number).ok_or(VolumeReadError::Elsewhere)?;
        let start = index.saturating_mul(CHUNK_BYTES);
        let block = u64::from(source.block_bytes);
        // What is no whole block at the end cannot be read directly; no table or label stands there alone.
        let end = (source.size_bytes / block * block).min(start.saturating_add(CHUNK_BYTES));
        let mut buffer = AlignedBuffer::new(usize::try_from(end.saturating_sub(start)).unwrap_or(0));
        self.spend(buffer.len())?;
        let chunk = match source.reader.read_at(start, &mut buffer) {
            Ok(()) => Rc::new(buffer.to_vec()),
            Err(_) => Rc::default(),
        };
        let mut chunks = self.chunks.borrow_mut();
        if chunks.len() >= CHUNKS_MAX {
            chunks.clear();
        }
        chunks.insert(key, Rc::clone(&chunk));
        Ok(chunk)
    }

    /// The blocks around this range alone.
    fn read_exactly(&self, number: usize, at: u64, buffer: &mut [u8]) -> Result<(), VolumeReadError> {
        let source = self.sources.get(number).ok_or(VolumeReadError::Elsewhere)?;
        let block = u64::from(source.block_bytes);
        let start = at / block * block;
        let end = at.saturating_add(buffer.len() as u64).next_multiple_of(block);
        let mut blocks = AlignedBuffer::new(usize::try_from(end - start).unwrap_or(0));
        self.spend(blocks.len())?;
        source.reader.read_at(start, &mut blocks).map_err(VolumeReadError::Failed)?;
        let lead = usize::try_from(at - start).unwrap_or(0);
        let bytes = blocks.get(lead..lead + buffer.len()).ok_or(VolumeReadError::Elsewhere)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn spend(&self, bytes: usize) -> Result<(), VolumeReadError> {
        let spent = self.read_bytes.get().saturating_add(bytes as u64);
        self.read_bytes.set(spent);
        if spent <= READ_BYTES_MAX {
            return Ok(());
        }
        Err(VolumeReadError::Failed(io::Error::other(format!(
            "more than {} GiB would have to be read",
            READ_BYTES_MAX >> 30
        ))))
    }
}
