//! What both readers of filesystems promise, whatever the filesystem is.

use std::sync::atomic::{AtomicU64, Ordering};

use firesteel_steps::filesystem::{FilesystemError, ImageFilesystem, PartitionBytes};

use super::disks::Counting;

const NAMES_MAX: usize = 64;
const BYTES_MAX: u64 = 9000;
/// Some of the paths that a survey asks for, with those of the seeds.
const PATHS: [&str; 10] = [
    "",
    "boot",
    "loader",
    "loader/entries",
    "loader/a.conf",
    "loader/long-name.conf",
    "boot/loader/a.conf",
    "held/a",
    "etc/cloud/cloud.cfg",
    "../EFI/./Linux",
];

pub(super) fn disk_of(input: &[u8]) -> Counting {
    let mut bytes = input.to_vec();
    bytes.resize(input.len().next_multiple_of(512), 0);
    Counting { bytes, read: AtomicU64::new(0) }
}

pub(super) fn open<'a>(kind: &str, disk: &'a Counting) -> Result<ImageFilesystem<'a>, FilesystemError> {
    ImageFilesystem::open(kind, PartitionBytes::new(disk, 512, 0, disk.bytes.len() as u64)?)
}

pub(super) fn check(kind: &str, input: &[u8]) {
    let disk = disk_of(input);
    let Ok(filesystem) = open(kind, &disk) else { return };
    for path in PATHS {
        look(&filesystem, path);
        for name in filesystem.names(path, NAMES_MAX).unwrap_or_default().iter().take(8) {
            look(&filesystem, &format!("{path}/{name}"));
        }
    }
    let read = disk.read.load(Ordering::Relaxed);
    assert!(read <= disk.bytes.len() as u64, "{read} bytes were read of a disk of {}", disk.bytes.len());
}

fn look(filesystem: &ImageFilesystem<'_>, path: &str) {
    let names = filesystem.names(path, NAMES_MAX).unwrap_or_default();
    assert!(names.len() <= NAMES_MAX && names.is_sorted());
    let is_name = |name: &String| !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    assert!(names.iter().all(is_name), "{names:?}");
    let number = filesystem.file(path);
    assert!(number.is_err() || names.is_empty(), "a file has no names below it");
    // What was read costs something, so that later reading may end earlier, and in nothing else differ.
    let Ok(all) = filesystem.read(path, BYTES_MAX) else { return };
    assert!(number.is_ok() && all.len() as u64 <= BYTES_MAX);
    match filesystem.read(path, 7) {
        Ok(start) => assert!(start == all[..all.len().min(7)], "the start of a file is another one"),
        Err(error) => assert!(matches!(error, FilesystemError::TooMany { .. }), "{error}"),
    }
}
