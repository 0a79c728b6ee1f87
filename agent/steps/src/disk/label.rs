//! Filesystem kind and label from a superblock: for the three filesystems on which boot partitions are found, and for
//! those two on which a system or its configuration may lie. Pure: bytes of a partition in, a value out.

/// How much of the start of a partition holds every superblock read here.
pub const START_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesystemLabel {
    /// The kernel's name of the driver that mounts it.
    pub kind: &'static str,
    pub label: String,
}

/// Where btrfs has its superblock (`BTRFS_SUPER_INFO_OFFSET`), and ISO 9660 its first descriptor (sector 16).
pub const BTRFS_AT: u64 = 64 << 10;
pub const ISO9660_AT: u64 = 32 << 10;

/// What stands at [`BTRFS_AT`]: `magic` and `label` of `btrfs_super_block`.
#[must_use]
pub fn btrfs(superblock: &[u8]) -> Option<FilesystemLabel> {
    (superblock.get(64..72)? == b"_BHRfS_M").then_some(())?;
    Some(filesystem("btrfs", superblock.get(299..299 + 256)?))
}

/// What stands at [`ISO9660_AT`]: a primary volume descriptor (ECMA-119, 8.4).
#[must_use]
pub fn iso9660(descriptor: &[u8]) -> Option<FilesystemLabel> {
    (descriptor.get(..6)? == b"\x01CD001").then_some(())?;
    Some(filesystem("iso9660", descriptor.get(40..72)?))
}

/// What stands at the start of a partition.
#[must_use]
pub fn read(start: &[u8]) -> Option<FilesystemLabel> {
    ext(start).or_else(|| xfs(start)).or_else(|| fat(start))
}

/// ext2, ext3 and ext4 (Documentation/filesystems/ext4/super.rst); one driver mounts all.
fn ext(start: &[u8]) -> Option<FilesystemLabel> {
    let superblock = start.get(1024..2048)?;
    (superblock.get(0x38..0x3a)? == [0x53, 0xef]).then(|| filesystem("ext4", &superblock[0x78..0x88]))
}

/// XFS: `sb_fname` of the on-disk superblock (fs/xfs/libxfs/xfs_format.h).
fn xfs(start: &[u8]) -> Option<FilesystemLabel> {
    (start.get(..4)? == b"XFSB").then_some(())?;
    Some(filesystem("xfs", start.get(108..120)?))
}

/// FAT: the label in the boot sector's extended BIOS parameter block (ECMA-107 and its FAT32 heir).
fn fat(start: &[u8]) -> Option<FilesystemLabel> {
    (start.get(510..512)? == [0x55, 0xaa]).then_some(())?;
    let label = if start.get(82..90)? == b"FAT32   " {
        start.get(71..82)?
    } else if matches!(start.get(54..62)?, b"FAT12   " | b"FAT16   ") {
        start.get(43..54)?
    } else {
        return None;
    };
    Some(filesystem("vfat", label))
}

fn filesystem(kind: &'static str, label: &[u8]) -> FilesystemLabel {
    let end = label.iter().position(|&byte| byte == 0).unwrap_or(label.len());
    let label = String::from_utf8_lossy(&label[..end]).trim_end().to_owned();
    let label = if kind == "vfat" && label == "NO NAME" { String::new() } else { label };
    FilesystemLabel { kind, label }
}

/// Entry for fuzzing: must not panic on any input.
pub fn check(bytes: &[u8]) {
    for found in [read(bytes), btrfs(bytes), iso9660(bytes)].into_iter().flatten() {
        assert!(found.label.len() <= 256 * 3, "a label is as long as its field");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn put(bytes: &mut [u8], at: usize, text: &[u8]) {
        bytes[at..at + text.len()].copy_from_slice(text);
    }

    #[test]
    fn three_filesystems() {
        let mut ext = vec![0; START_BYTES];
        put(&mut ext, 1024 + 0x38, &[0x53, 0xef]);
        put(&mut ext, 1024 + 0x78, b"boot");
        assert_eq!(read(&ext).unwrap(), FilesystemLabel { kind: "ext4", label: "boot".into() });
        let mut xfs = vec![0; START_BYTES];
        put(&mut xfs, 0, b"XFSB");
        put(&mut xfs, 108, b"boot-label12");
        assert_eq!(read(&xfs).unwrap(), FilesystemLabel { kind: "xfs", label: "boot-label12".into() });
        let mut fat = vec![0; START_BYTES];
        put(&mut fat, 510, &[0x55, 0xaa]);
        put(&mut fat, 82, b"FAT32   ");
        put(&mut fat, 71, b"BOOT       ");
        assert_eq!(read(&fat).unwrap(), FilesystemLabel { kind: "vfat", label: "BOOT".into() });
        put(&mut fat, 71, b"NO NAME    ");
        assert_eq!(read(&fat).unwrap().label, "");
        assert_eq!(read(&vec![0; START_BYTES]), None);
    }

    #[test]
    fn two_more_that_lie_deeper() {
        let mut superblock = vec![0; START_BYTES];
        put(&mut superblock, 64, b"_BHRfS_M");
        put(&mut superblock, 299, b"fedora\0old");
        assert_eq!(btrfs(&superblock).unwrap(), FilesystemLabel { kind: "btrfs", label: "fedora".into() });
        let mut descriptor = vec![0; START_BYTES];
        put(&mut descriptor, 0, b"\x01CD001\x01");
        put(&mut descriptor, 40, b"config-2                        ");
        assert_eq!(iso9660(&descriptor).unwrap(), FilesystemLabel { kind: "iso9660", label: "config-2".into() });
        assert_eq!((btrfs(&descriptor), iso9660(&superblock)), (None, None));
        assert_eq!((btrfs(&[]), iso9660(&[1])), (None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(0u8.., 0..2200)) {
            check(&bytes);
        }
    }
}
