//! The only module of this crate that makes system calls on disks: open, sizes, direct I/O,
//! zeroing, flushing, re-reading the partition table.

#![allow(unsafe_code, reason = "ioctl has no safe form; each call states why it is sound")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag};

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

/// Why the system did not open a disk for writing.
fn not_opened(path: &Path, source: io::Error) -> DiskOpenError {
    let path = path.to_path_buf();
    match source.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBUSY) => DiskOpenError::Busy { path },
        Some(Errno::EROFS) => DiskOpenError::ReadOnly { path },
        _ => DiskOpenError::Open { path, source },
    }
}

impl ExclusiveDisk {
    /// Opens a whole disk such as `/dev/nvme0n1`.
    pub fn open(path: &Path) -> Result<Self, DiskOpenError> {
        let own = || path.to_path_buf();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlag::O_DIRECT.union(OFlag::O_EXCL).bits())
            .open(path)
            .map_err(|source| not_opened(path, source))?;
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
                let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE.union(FallocateFlags::FALLOC_FL_KEEP_SIZE);
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
        let direct = options.clone().custom_flags(OFlag::O_DIRECT.bits()).open(&self.path);
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
            .custom_flags(OFlag::O_DIRECT.union(OFlag::O_NONBLOCK).bits())
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
        if !is_aligned_block(block) {
            return Err(DiskOpenError::BlockSize { path: own(), block_bytes: i64::from(block) });
        }
        Ok(Self { file, number: metadata.rdev(), size_bytes: bytes as u64, block_bytes: block.unsigned_abs() })
    }
}

/// Whether aligned memory and offsets are whole blocks of this length.
fn is_aligned_block(block: i32) -> bool {
    block > 0 && ALIGNMENT_BYTES as i64 % i64::from(block) == 0
}

impl DiskReader for Inspected {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const MIB: usize = 1 << 20;

    /// A file that stands for a disk, full of ones. Its folder goes with the first part.
    fn file_disk(bytes: usize, block_bytes: u32) -> (tempfile::TempDir, ExclusiveDisk) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, vec![1; bytes]).unwrap();
        let disk = ExclusiveDisk::open_file(&path, block_bytes).unwrap();
        (dir, disk)
    }

    fn content(disk: &ExclusiveDisk) -> Vec<u8> {
        std::fs::read(disk.path()).unwrap()
    }

    #[test]
    fn a_file_stands_for_a_disk_of_whole_blocks() {
        for (block_bytes, size_bytes) in [(512, 19_968), (4096, 16_384)] {
            let (dir, disk) = file_disk(20_000, block_bytes);
            assert_eq!((disk.size_bytes(), disk.block_bytes()), (size_bytes, block_bytes));
            let path = dir.path().join("disk");
            assert_eq!((disk.path(), disk.number()), (&*path, std::fs::metadata(&path).unwrap().ino()));
            assert!(disk.reread_partitions().is_err(), "a file has no partitions that the kernel knows");
            for bad in [0, 511, 1024, 8192] {
                let error = ExclusiveDisk::open_file(&path, bad).unwrap_err();
                let is_named =
                    matches!(error, DiskOpenError::BlockSize { block_bytes, .. } if block_bytes == i64::from(bad));
                assert!(is_named, "{bad}");
            }
            // Neither the file nor its folder is a block device.
            let opened = [
                ExclusiveDisk::open(&path).map(drop),
                Inspected::open(&path).map(drop),
                ExclusiveDisk::open_file(Path::new("/dev/null"), 512).map(drop),
            ];
            for result in opened {
                assert!(matches!(result, Err(DiskOpenError::NotABlockDevice { .. })), "{result:?}");
            }
        }
    }

    #[test]
    fn what_is_written_and_zeroed_is_what_is_read() {
        let (_dir, disk) = file_disk(4 * MIB, 4096);
        let mut data = AlignedBuffer::new(8192);
        data.fill(7);
        disk.write_at(4096, &data).unwrap();
        disk.zero_at(MIB as u64, 2 * MIB as u64).unwrap();
        disk.flush().unwrap();
        let mut expected = vec![1; 4 * MIB];
        expected[4096..12_288].fill(7);
        expected[MIB..3 * MIB].fill(0);
        assert!(content(&disk) == expected);
        let mut read = AlignedBuffer::new(4 * MIB);
        disk.reader().unwrap().read_at(0, &mut read).unwrap();
        assert!(*read == expected[..]);
        assert!(disk.reader().unwrap().read_at(4096, &mut read).is_err(), "the disk ends before the buffer is full");
    }

    #[test]
    fn where_the_device_cannot_zero_zeros_are_written_to_the_byte() {
        for bytes in [512, MIB, MIB + 512, 2 * MIB + 4096] {
            let (_dir, disk) = file_disk(4 * MIB, 512);
            disk.zero_by_writing(4096, bytes as u64).unwrap();
            let mut expected = vec![1; 4 * MIB];
            expected[4096..4096 + bytes].fill(0);
            assert!(content(&disk) == expected, "{bytes}");
        }
    }

    #[test]
    fn a_name_that_came_to_mean_another_file_is_not_read() {
        let (dir, disk) = file_disk(MIB, 512);
        let other = dir.path().join("other");
        std::fs::write(&other, vec![1; MIB]).unwrap();
        std::fs::rename(other, disk.path()).unwrap();
        let error = disk.reader().err().unwrap();
        assert!(error.to_string().ends_with("is another disk than before"), "{error}");
    }

    #[test]
    fn a_flush_that_the_system_refuses_is_an_error() {
        let (_dir, disk) = file_disk(MIB, 512);
        // Of this device there is nothing to flush, which the system says.
        let file = File::open("/dev/null").unwrap();
        assert!(ExclusiveDisk { file, ..disk }.flush().is_err());
    }

    #[test]
    fn a_busy_and_a_read_only_disk_are_errors_of_their_own() {
        let path = Path::new("/dev/sda");
        let why = |number: Errno| not_opened(path, io::Error::from_raw_os_error(number as i32));
        assert!(matches!(why(Errno::EBUSY), DiskOpenError::Busy { path: named } if named == path));
        assert!(matches!(why(Errno::EROFS), DiskOpenError::ReadOnly { path: named } if named == path));
        let DiskOpenError::Open { path: named, source } = why(Errno::EACCES) else { panic!("another error") };
        assert_eq!((&*named, source.raw_os_error()), (path, Some(Errno::EACCES as i32)));
    }

    #[test]
    fn blocks_fit_aligned_memory_or_are_refused() {
        for (block, is_aligned) in
            [(1, true), (512, true), (2048, true), (4096, true), (0, false), (-512, false), (520, false), (8192, false)]
        {
            assert_eq!(is_aligned_block(block), is_aligned, "{block}");
        }
    }
}
