//! The only module of this crate that makes system calls on disks: open, sizes, direct I/O,
//! zeroing, flushing, re-reading the partition table.

#![allow(unsafe_code, reason = "ioctl has no safe form; each call states why it is sound")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::{errno::Errno, fcntl::OFlag};

use super::disk::{ALIGNMENT_BYTES, AlignedBuffer, DiskReader, WritableDisk};

mod ioctl {
    // Numbers from the kernel's include/uapi/linux/fs.h.
    nix::ioctl_read!(blkgetsize64, 0x12, 114, usize);
    nix::ioctl_read_bad!(blksszget, nix::request_code_none!(0x12, 104), i32);
    nix::ioctl_read_bad!(blkroget, nix::request_code_none!(0x12, 94), i32);
    nix::ioctl_none!(blkrrpart, 0x12, 95);
    nix::ioctl_write_ptr_bad!(blkzeroout, nix::request_code_none!(0x12, 127), [u64; 2]);
}

/// A whole disk, opened exclusively: nothing on it is mounted, assembled or opened so by others.
#[derive(Debug)]
pub struct ExclusiveDisk {
    path: PathBuf,
    file: File,
    kind: DiskFileKind,
    number: u64,
    size_bytes: u64,
    block_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskFileKind {
    Block,
    Regular,
}

/// Why a disk could not be opened for writing.
#[derive(Debug, thiserror::Error)]
pub enum DiskOpenError {
    #[error("{path} is in use: something on it is mounted or assembled, or another program has it")]
    Busy { path: PathBuf },
    #[error("opening {path} exclusively for direct I/O")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path} is not a block device")]
    NotABlockDevice { path: PathBuf },
    #[error("asking {path} for its size")]
    Size { path: PathBuf, source: io::Error },
    #[error("{path} is read-only")]
    ReadOnly { path: PathBuf },
    #[error("{path} has blocks of {block_bytes} bytes; disks have 512 or 4096")]
    BlockSize { path: PathBuf, block_bytes: i64 },
}

impl ExclusiveDisk {
    /// Opens a whole disk such as `/dev/nvme0n1`.
    pub fn open(path: &Path) -> Result<Self, DiskOpenError> {
        let own = || path.to_path_buf();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags((OFlag::O_DIRECT | OFlag::O_EXCL | OFlag::O_CLOEXEC).bits())
            .open(path)
            .map_err(|source| match source.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EBUSY) => DiskOpenError::Busy { path: own() },
                Some(Errno::EROFS) => DiskOpenError::ReadOnly { path: own() },
                _ => DiskOpenError::Open { path: own(), source },
            })?;
        let metadata = file.metadata().map_err(|source| DiskOpenError::Size { path: own(), source })?;
        if !metadata.file_type().is_block_device() {
            return Err(DiskOpenError::NotABlockDevice { path: own() });
        }
        let size = |errno: Errno| DiskOpenError::Size { path: own(), source: errno.into() };
        let (mut bytes, mut block, mut read_only) = (0_usize, 0_i32, 0_i32);
        // SAFETY: the descriptor is open and BLKGETSIZE64 writes one u64 (the kernel's `size_t` on
        // the 64-bit targets that we build for) to the pointer, which is valid for the call.
        unsafe { ioctl::blkgetsize64(file.as_raw_fd(), &raw mut bytes) }.map_err(size)?;
        // SAFETY: as above; BLKSSZGET writes one int.
        unsafe { ioctl::blksszget(file.as_raw_fd(), &raw mut block) }.map_err(size)?;
        // SAFETY: as above; BLKROGET writes one int.
        unsafe { ioctl::blkroget(file.as_raw_fd(), &raw mut read_only) }.map_err(size)?;
        if read_only != 0 {
            return Err(DiskOpenError::ReadOnly { path: own() });
        }
        if block != 512 && block != 4096 {
            return Err(DiskOpenError::BlockSize { path: own(), block_bytes: i64::from(block) });
        }
        let block_bytes = block.unsigned_abs();
        Ok(Self {
            path: own(),
            file,
            kind: DiskFileKind::Block,
            number: metadata.rdev(),
            size_bytes: bytes as u64,
            block_bytes,
        })
    }

    /// Opens a file that stands for a disk of its length (rounded down to whole blocks).
    pub fn open_file(path: &Path, block_bytes: u32) -> Result<Self, DiskOpenError> {
        let own = || path.to_path_buf();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // Some filesystems (tmpfs of older kernels, overlays) know no direct I/O; for files, and
        // only for files, the page cache will do.
        let file = options
            .clone()
            .custom_flags(OFlag::O_DIRECT.bits())
            .open(path)
            .or_else(|_| options.open(path))
            .map_err(|source| DiskOpenError::Open { path: own(), source })?;
        let metadata = file.metadata().map_err(|source| DiskOpenError::Size { path: own(), source })?;
        if !metadata.is_file() {
            return Err(DiskOpenError::NotABlockDevice { path: own() });
        }
        let block = u64::from(block_bytes);
        if block != 512 && block != 4096 {
            return Err(DiskOpenError::BlockSize { path: own(), block_bytes: i64::from(block_bytes) });
        }
        let size_bytes = metadata.len() / block * block;
        Ok(Self { path: own(), file, kind: DiskFileKind::Regular, number: metadata.ino(), size_bytes, block_bytes })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's number of the opened disk (`st_rdev`), which means no other disk as long as it is open;
    /// the inode of a file that stands for a disk.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Makes the kernel read the partition table of this disk again.
    pub fn reread_partitions(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open; BLKRRPART takes no argument.
        unsafe { ioctl::blkrrpart(self.file.as_raw_fd()) }.map(drop).map_err(io::Error::from)
    }

    fn zero_by_device(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        match self.kind {
            // SAFETY: the descriptor is open; BLKZEROOUT reads two u64 (start, length).
            DiskFileKind::Block => unsafe { ioctl::blkzeroout(self.file.as_raw_fd(), &[offset, bytes]) }.map(drop),
            DiskFileKind::Regular => {
                let flags =
                    nix::fcntl::FallocateFlags::FALLOC_FL_PUNCH_HOLE | nix::fcntl::FallocateFlags::FALLOC_FL_KEEP_SIZE;
                let (offset, bytes) = (
                    i64::try_from(offset).map_err(|_| Errno::EOVERFLOW)?,
                    i64::try_from(bytes).map_err(|_| Errno::EOVERFLOW)?,
                );
                nix::fcntl::fallocate(&self.file, flags, offset, bytes)
            }
        }
    }

    fn zero_by_writing(&self, offset: u64, bytes: u64) -> io::Result<()> {
        const PIECE_BYTES: u64 = 1 << 20;
        let zeros = AlignedBuffer::new(1 << 20);
        let mut done = 0;
        while done < bytes {
            let piece = PIECE_BYTES.min(bytes - done);
            let slice = &zeros[..usize::try_from(piece).map_err(io::Error::other)?];
            self.file.write_all_at(slice, offset + done)?;
            done += piece;
        }
        Ok(())
    }
}

impl WritableDisk for ExclusiveDisk {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn zero_at(&self, offset: u64, bytes: u64) -> io::Result<()> {
        // BLKZEROOUT promises zeros (unlike a discard): by a command of the drive where it has
        // one, else the kernel writes them.
        match self.zero_by_device(offset, bytes) {
            Ok(()) => Ok(()),
            Err(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOTTY | Errno::EREMOTEIO) => {
                self.zero_by_writing(offset, bytes)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn reader(&self) -> io::Result<Box<dyn DiskReader>> {
        let mut options = OpenOptions::new();
        options.read(true);
        let direct = options.clone().custom_flags((OFlag::O_DIRECT | OFlag::O_CLOEXEC).bits()).open(&self.path);
        let file = match (self.kind, direct) {
            (_, Ok(file)) => file,
            (DiskFileKind::Regular, Err(_)) => options.open(&self.path)?,
            (DiskFileKind::Block, Err(error)) => return Err(error),
        };
        // The name must not have come to mean another disk in the meantime.
        let (ours, opened) = (self.file.metadata()?, file.metadata()?);
        if (ours.rdev(), ours.ino(), ours.dev()) != (opened.rdev(), opened.ino(), opened.dev()) {
            return Err(io::Error::other(format!("{} is another disk than before", self.path.display())));
        }
        Ok(Box::new(DeviceReader { file }))
    }
}

#[derive(Debug)]
struct DeviceReader {
    file: File,
}

impl DiskReader for DeviceReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

/// Reads from a disk that others may use, for inspections: neither exclusive nor writable.
#[derive(Debug)]
pub struct Inspected {
    file: File,
    /// The disk's number, as [`ExclusiveDisk::number`].
    pub number: u64,
    pub size_bytes: u64,
    pub block_bytes: u32,
}

impl Inspected {
    /// Opens a disk for reading past the page cache.
    pub fn open(path: &Path) -> Result<Self, DiskOpenError> {
        let own = || path.to_path_buf();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_DIRECT | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits())
            .open(path)
            .map_err(|source| DiskOpenError::Open { path: own(), source })?;
        let metadata = file.metadata().map_err(|source| DiskOpenError::Size { path: own(), source })?;
        if !metadata.file_type().is_block_device() {
            return Err(DiskOpenError::NotABlockDevice { path: own() });
        }
        let size = |errno: Errno| DiskOpenError::Size { path: own(), source: errno.into() };
        let (mut bytes, mut block) = (0_usize, 0_i32);
        // SAFETY: as in `ExclusiveDisk::open`.
        unsafe { ioctl::blkgetsize64(file.as_raw_fd(), &raw mut bytes) }.map_err(size)?;
        // SAFETY: as in `ExclusiveDisk::open`.
        unsafe { ioctl::blksszget(file.as_raw_fd(), &raw mut block) }.map_err(size)?;
        if block <= 0 || ALIGNMENT_BYTES as i64 % i64::from(block) != 0 {
            return Err(DiskOpenError::BlockSize { path: own(), block_bytes: i64::from(block) });
        }
        Ok(Self { file, number: metadata.rdev(), size_bytes: bytes as u64, block_bytes: block.unsigned_abs() })
    }
}

impl DiskReader for Inspected {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}
