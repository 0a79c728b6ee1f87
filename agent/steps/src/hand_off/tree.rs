//! The files of one filesystem of the image, for looking: by the agent's own readers where there is one for its kind,
//! and else by the kernel, mounted for as long as it takes.

use anyhow::Context;
use firesteel_host::PartitionPlace;
use firesteel_os::confined_folder::{Folder, is_absent};

use super::{mounted::within, written_disk::HandOffDisk};
use crate::filesystem::{self, FilesystemError, ImageFilesystem, PartitionBytes};

/// A filesystem that was looked into.
#[derive(Clone)]
pub(super) struct SurveyedVolume {
    pub(super) place: PartitionPlace,
    pub(super) kind: &'static str,
    /// The name for people, such as `partition 2`.
    pub(super) name: String,
}

pub(super) enum VolumeTree<'a> {
    Read(ImageFilesystem<'a>),
    Mounted(&'a Folder),
}

/// What identifies a plain file in its filesystem.
pub(super) type FileNumber = (u64, u64);

/// Works with the files of a filesystem. The kernel mounts it only where nothing else reads its kind.
pub(super) fn in_volume<T>(
    site: &HandOffDisk<'_>,
    volume: &SurveyedVolume,
    work: impl FnOnce(&VolumeTree<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let place = &volume.place;
    if filesystem::is_readable(volume.kind) {
        let bytes = PartitionBytes::new(site.reader(), site.table.block_bytes, place.offset_bytes, place.size_bytes)?;
        return work(&VolumeTree::Read(ImageFilesystem::open(volume.kind, bytes)?));
    }
    let device = site.job.host.partition_device(&site.disk, place)?;
    within(site.job.host, &device, volume.kind, true, |folder| work(&VolumeTree::Mounted(folder)))
}

impl VolumeTree<'_> {
    /// The plain file at a path; `None` where nothing or something else lies.
    pub(super) fn file(&self, path: &str) -> anyhow::Result<Option<FileNumber>> {
        match self {
            Self::Read(filesystem) => match filesystem.file(path) {
                Ok(number) => Ok(Some((0, number))),
                Err(FilesystemError::Absent | FilesystemError::NotPlain) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::Mounted(folder) => match folder.inode_inside(path) {
                Ok(number) => Ok(Some(number)),
                Err(error) if is_absent(&error) || error.kind() == std::io::ErrorKind::InvalidData => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Names in a folder, sorted; none where there is no such folder.
    pub(super) fn names(&self, path: &str, most: usize) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Read(filesystem) => Ok(filesystem.names(path, most)?),
            Self::Mounted(folder) => Ok(folder.names_inside(path, most)?),
        }
    }

    /// The content of a plain file, up to so many bytes.
    pub(super) fn read(&self, path: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Read(filesystem) => filesystem.read(path, bytes_max).with_context(|| format!("reading {path}")),
            Self::Mounted(folder) => folder.read_inside(path, bytes_max).with_context(|| format!("reading {path}")),
        }
    }
}
