//! Files of a filesystem that an image brought, read without the kernel: the maker of the image chose
//! each of its bytes, and a kernel that mounts it reads them with all its rights.
//!
//! ```text
//! disk ─► PartitionBytes (bounds, work) ─┬─► ext4: superblock ─► inodes ─► blocks ─► folders ─┐
//!                                        └─► fat: boot sector ─► chains ─► folders ───────────┴─► names, files
//! ```
//!
//! Nothing here writes, and nothing follows a number that was not compared with its bounds first. What one filesystem
//! may cost is bounded as a whole ([`WORK_BYTES_MAX`]), so that no circle in it has to be recognised. Checksums are not
//! compared: the read-back of the image has excluded chance, and a hostile filesystem has right ones.
//!
//! Own code rather than crates. The one for ext4 (`ext4-view` 1.0.0) refuses inline data, and allocates for as many
//! groups as the superblock says. The one for FAT (`fatfs` 0.3.6) multiplies numbers of the boot sector and subtracts
//! from those of clusters without looking for an overflow, which ends the agent; a chain of clusters has no bound.

mod ext4;
mod fat;
mod fields;
mod medium;
#[cfg(test)]
pub(crate) mod tests;

use std::io;

pub use ext4::Ext4Reader;
pub use fat::FatReader;
pub use medium::{PartitionBytes, WORK_BYTES_MAX};

/// Largest folder that is read to find a name in it. The folders that a survey looks into have some kilobytes; FAT
/// allows 2 MiB.
pub const FOLDER_BYTES_MAX: u64 = 2 << 20;

#[derive(Debug, thiserror::Error)]
pub enum FilesystemError {
    #[error("could not read the disk at byte {at}")]
    Read { at: u64, source: io::Error },
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("{0} is not read here")]
    Unsupported(&'static str),
    #[error(
        "its journal holds changes that were not written back: unmount the filesystem cleanly where the image is made"
    )]
    Unsettled,
    #[error("it has more than {most} {what}")]
    TooMany { most: u64, what: &'static str },
    /// Nothing lies at the path, or nothing that is reached inside the filesystem.
    #[error("there is no such file")]
    Absent,
    #[error("it is not a plain file")]
    NotPlain,
}

/// A filesystem of one of the kinds that are read here.
#[derive(Debug)]
pub enum ImageFilesystem<'a> {
    Ext4(Ext4Reader<'a>),
    Fat(FatReader<'a>),
}

/// Whether filesystems of this kind (the kernel's name of the driver) are read here.
#[must_use]
pub fn is_readable(kind: &str) -> bool {
    matches!(kind, "ext4" | "vfat")
}

impl<'a> ImageFilesystem<'a> {
    /// Reads the filesystem's own numbers, and compares them with the partition.
    ///
    /// # Errors
    /// When the disk fails, or the filesystem is damaged or of a kind that is not read here.
    pub fn open(kind: &str, bytes: PartitionBytes<'a>) -> Result<Self, FilesystemError> {
        match kind {
            "ext4" => Ok(Self::Ext4(Ext4Reader::open(bytes)?)),
            "vfat" => Ok(Self::Fat(FatReader::open(bytes)?)),
            _ => Err(FilesystemError::Unsupported("a filesystem of this kind")),
        }
    }

    /// Names in a folder, sorted; none where there is no such folder. Links are followed inside the filesystem.
    ///
    /// # Errors
    /// When the folder cannot be read to its end, or has more than `most` names.
    pub fn names(&self, path: &str, most: usize) -> Result<Vec<String>, FilesystemError> {
        let names = match self {
            Self::Ext4(reader) => reader.names(path, most),
            Self::Fat(reader) => reader.names(path, most),
        };
        let mut names = match names {
            Err(FilesystemError::Absent) => Vec::new(),
            names => names?,
        };
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// What identifies the plain file at a path in this filesystem.
    ///
    /// # Errors
    /// Fails if no plain file lies there, or if it cannot be found out.
    pub fn file(&self, path: &str) -> Result<u64, FilesystemError> {
        match self {
            Self::Ext4(reader) => reader.file(path),
            Self::Fat(reader) => reader.file(path),
        }
    }

    /// The first `bytes_max` bytes of a plain file.
    ///
    /// # Errors
    /// As for [`Self::file`], and when its content cannot be read.
    pub fn read(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, FilesystemError> {
        match self {
            Self::Ext4(reader) => reader.read(path, bytes_max),
            Self::Fat(reader) => reader.read(path, bytes_max),
        }
    }
}
