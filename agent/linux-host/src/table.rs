//! What stands where a disk's partition table would, for inspections: read past the page cache from a disk that others
//! may use, with nothing mounted. The disk's GUID marks the installation.

use std::error::Error;

use firesteel_images::write::{DiskReader, ReadTableError, read_table};
use firesteel_wire::{PartitionTableRecord, text::field};

/// The primary table: without it, nothing boots from the disk.
pub(crate) fn read(reader: &dyn DiskReader, size_bytes: u64, block_bytes: u32) -> PartitionTableRecord {
    match read_table(reader, size_bytes, block_bytes) {
        Ok(Some(table)) => PartitionTableRecord::Gpt { guid: table.disk_guid.to_string() },
        Ok(None) => PartitionTableRecord::None,
        Err(error @ ReadTableError::Damaged { .. }) => {
            PartitionTableRecord::Unreadable { why: error_text(&error), damaged: true }
        }
        Err(error @ ReadTableError::Read { .. }) => unreadable_table(&error),
    }
}

/// The disk did not give its first blocks: what stands there is unknown, and not to be taken for damaged.
pub(crate) fn unreadable_table(error: &dyn Error) -> PartitionTableRecord {
    PartitionTableRecord::Unreadable { why: error_text(error), damaged: false }
}

/// Shows the innermost cause too, which says most.
fn error_text(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = if std::ptr::eq(cause, error) { error.to_string() } else { format!("{error}: {cause}") };
    field(&text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::{fs::File, io, os::unix::fs::FileExt as _};

    use firesteel_facts::Guid;
    use firesteel_images::write::gpt;

    use super::*;

    const BYTES: u64 = 16 << 20;

    /// An image file in the place of a disk.
    struct Image(File);

    impl DiskReader for Image {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.0.read_exact_at(buffer, offset)
        }
    }

    fn image(block_bytes: u32) -> (Image, Guid) {
        let guid: Guid = "abcdef12-3456-8782-8d15-9e26af3fffff".parse().unwrap();
        let (head, backup_at, backup) = gpt::create(BYTES, block_bytes, guid, &[]).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES).unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(&backup, backup_at).unwrap();
        (Image(file), guid)
    }

    #[test]
    fn the_guid_is_told_as_it_was_written() {
        for block_bytes in [512, 4096] {
            let (image, guid) = image(block_bytes);
            assert_eq!(read(&image, BYTES, block_bytes), PartitionTableRecord::Gpt { guid: guid.to_string() });
            assert_eq!(guid.to_string(), "abcdef12-3456-8782-8d15-9e26af3fffff", "the marks are in this form");
        }
    }

    #[test]
    fn a_cleared_disk_has_none_and_a_damaged_table_is_called_so() {
        let (image, _) = image(512);
        image.0.write_all_at(&[0xff], 512 + 60).unwrap();
        let damaged = read(&image, BYTES, 512);
        assert!(
            matches!(&damaged, PartitionTableRecord::Unreadable { why, damaged: true } if !why.is_empty()),
            "{damaged:?}"
        );
        image.0.write_all_at(&[0; 64 << 10], 0).unwrap();
        assert_eq!(read(&image, BYTES, 512), PartitionTableRecord::None, "the backup at the end boots nothing");
    }

    #[test]
    fn a_disk_that_gives_too_little_or_an_error_is_unread_and_not_damaged() {
        struct Failing;
        impl DiskReader for Failing {
            fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
                Err(io::Error::from_raw_os_error(nix::libc::EIO))
            }
        }
        let (short, _) = image(512);
        short.0.set_len(100).unwrap();
        for disk in [&short as &dyn DiskReader, &Failing] {
            let unread = read(disk, BYTES, 512);
            assert!(
                matches!(&unread, PartitionTableRecord::Unreadable { why, damaged: false } if !why.is_empty()),
                "{unread:?}"
            );
        }
    }
}
