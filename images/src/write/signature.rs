//! What stood on a disk before: the magic bytes of partition tables, filesystems, RAID members,
//! volumes and encrypted containers, and where each keeps them. Pure.

use std::fmt;

/// How much of the start and of the end of a disk or partition holds nearly every signature: ZFS
/// labels take 512 KiB at each end, all others less.
pub const EDGE_BYTES: u64 = 1 << 20;

/// One signature that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskSignature {
    /// The name in blkid, such as `gpt`, `ext4` or `LVM2_member`.
    pub name: String,
    /// Where the magic bytes stand, from the start of the disk.
    pub offset: u64,
}

impl fmt::Display for DiskSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.offset)
    }
}

/// Magic bytes at a fixed distance from the start.
struct Magic {
    name: &'static str,
    offset: u64,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, offset, bytes }
}

const MD_MAGIC: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const LUKS_SECOND: &[u8] = b"SKUL\xba\xbe";

/// Offsets from libblkid's knowledge of each format; each is where that format's own
/// specification puts its magic.
const FROM_START: &[Magic] = &[
    magic("xfs", 0, b"XFSB"),
    magic("crypto_LUKS", 0, b"LUKS\xba\xbe"),
    magic("squashfs", 0, b"hsqs"),
    magic("ceph_bluestore", 0, b"bluestore block device"),
    magic("ntfs", 3, b"NTFS    "),
    magic("exfat", 3, b"EXFAT   "),
    magic("BitLocker", 3, b"-FVE-FS-"),
    magic("vfat", 54, b"FAT12   "),
    magic("vfat", 54, b"FAT16   "),
    magic("vfat", 82, b"FAT32   "),
    magic("LVM2_member", 24, b"LVM2 001"),
    magic("LVM2_member", 512 + 24, b"LVM2 001"),
    magic("LVM2_member", 1024 + 24, b"LVM2 001"),
    magic("LVM2_member", 1536 + 24, b"LVM2 001"),
    magic("stratis", 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("linux_raid_member", 0, MD_MAGIC),
    magic("linux_raid_member", 4096, MD_MAGIC),
    magic("f2fs", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    magic("swap", 4086, b"SWAPSPACE2"),
    magic("swap", 4086, b"SWAP-SPACE"),
    magic("swap", 65526, b"SWAPSPACE2"),
    magic(
        "bcache",
        4096 + 24,
        &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81],
    ),
    magic("iso9660", 32769, b"CD001"),
    magic("gfs2", 65536, &[0x01, 0x16, 0x19, 0x70]),
    magic("btrfs", 0x1_0040, b"_BHRfS_M"),
    magic("crypto_LUKS", 0x4000, LUKS_SECOND),
    magic("crypto_LUKS", 0x8000, LUKS_SECOND),
    magic("crypto_LUKS", 0x1_0000, LUKS_SECOND),
    magic("crypto_LUKS", 0x2_0000, LUKS_SECOND),
    magic("crypto_LUKS", 0x4_0000, LUKS_SECOND),
    magic("crypto_LUKS", 0x8_0000, LUKS_SECOND),
];

/// Copies that lie deeper than [`EDGE_BYTES`]: each costs one more small read.
const DEEP: &[Magic] = &[
    magic("VMFS_volume", 1 << 20, &[0x0d, 0xd0, 0x01, 0xc0]),
    magic("crypto_LUKS", 0x10_0000, LUKS_SECOND),
    magic("crypto_LUKS", 0x20_0000, LUKS_SECOND),
    magic("crypto_LUKS", 0x40_0000, LUKS_SECOND),
    magic("btrfs", (64 << 20) + 64, b"_BHRfS_M"),
    magic("btrfs", (256 << 30) + 64, b"_BHRfS_M"),
];

/// Magic bytes at a distance from the end.
const FROM_END: &[Magic] = &[
    magic("ddf_raid_member", 512, &[0xde, 0x11, 0xde, 0x11]),
    magic("isw_raid_member", 1024, b"Intel Raid ISM Cfg Sig. "),
];

/// Length of a ZFS label; two stand at the start and two at the end.
const ZFS_LABEL_BYTES: u64 = 256 << 10;
const ZFS_UBERBLOCK: u64 = 0x00ba_b10c;

/// Places to look at besides the edges: offset and length from the start of the disk or partition.
pub fn deep_places() -> impl Iterator<Item = (u64, usize)> {
    DEEP.iter().map(|magic| (magic.offset, magic.bytes.len()))
}

/// What the bytes of a deep place are.
#[must_use]
pub fn name_of_deep(offset: u64, bytes: &[u8]) -> Option<&'static str> {
    DEEP.iter().find(|magic| magic.offset == offset && bytes.starts_with(magic.bytes)).map(|magic| magic.name)
}

/// Signatures in the first bytes of a disk or partition; offsets from its start.
#[must_use]
pub fn in_start(bytes: &[u8]) -> Vec<DiskSignature> {
    let mut found: Vec<DiskSignature> =
        FROM_START.iter().filter(|magic| holds(bytes, magic.offset, magic.bytes)).map(named).collect();
    if holds(bytes, 0x438, &[0x53, 0xef]) {
        found.push(DiskSignature { name: ext_generation(bytes).to_owned(), offset: 0x438 });
    }
    for label in [0, ZFS_LABEL_BYTES] {
        found.extend(zfs_label(bytes, label).map(|offset| DiskSignature { name: "zfs_member".to_owned(), offset }));
    }
    found
}

/// Signatures in the last bytes of a disk or partition of `size_bytes`; offsets from its start.
#[must_use]
pub fn in_end(bytes: &[u8], size_bytes: u64) -> Vec<DiskSignature> {
    let Some(base) = size_bytes.checked_sub(bytes.len() as u64) else { return Vec::new() };
    let mut found = Vec::new();
    let mut look = |name: &str, offset: Option<u64>, magic: &[u8]| {
        let inside = offset.and_then(|offset| offset.checked_sub(base));
        if let (Some(offset), Some(inside)) = (offset, inside)
            && holds(bytes, inside, magic)
        {
            found.push(DiskSignature { name: name.to_owned(), offset });
        }
    };
    for magic in FROM_END {
        look(magic.name, size_bytes.checked_sub(magic.offset), magic.bytes);
    }
    // md superblocks (kernel, drivers/md/md.c): version 1.0 at least 8 KiB before the end on a
    // 4 KiB boundary, version 0.90 on the last 64 KiB boundary with 64 KiB behind it.
    let sectors = size_bytes / 512;
    look("linux_raid_member", sectors.checked_sub(16).map(|sector| (sector & !7) * 512), MD_MAGIC);
    look("linux_raid_member", (size_bytes & !0xffff).checked_sub(0x1_0000), MD_MAGIC);
    let aligned = size_bytes / ZFS_LABEL_BYTES * ZFS_LABEL_BYTES;
    for label in [2, 1].into_iter().filter_map(|count| aligned.checked_sub(count * ZFS_LABEL_BYTES)) {
        let inside = label.checked_sub(base).and_then(|inside| zfs_label(bytes, inside));
        found.extend(inside.map(|offset| DiskSignature { name: "zfs_member".to_owned(), offset: base + offset }));
    }
    found
}

fn named(magic: &Magic) -> DiskSignature {
    DiskSignature { name: magic.name.to_owned(), offset: magic.offset }
}

fn holds(bytes: &[u8], offset: u64, magic: &[u8]) -> bool {
    let Ok(offset) = usize::try_from(offset) else { return false };
    offset.checked_add(magic.len()).and_then(|end| bytes.get(offset..end)) == Some(magic)
}

/// A ZFS label's uberblocks fill its second half, in slots of at least 1 KiB, in either byte order.
fn zfs_label(bytes: &[u8], label: u64) -> Option<u64> {
    let slots = (0..128).map(|slot| label + ZFS_LABEL_BYTES / 2 + slot * 1024);
    let mut marked = slots
        .filter(|&at| holds(bytes, at, &ZFS_UBERBLOCK.to_le_bytes()) || holds(bytes, at, &ZFS_UBERBLOCK.to_be_bytes()));
    marked.next()
}

/// ext2, ext3 and ext4 share their magic; the features tell them apart.
fn ext_generation(bytes: &[u8]) -> &'static str {
    const COMPATIBLE_JOURNAL: u8 = 0x04;
    /// Extents are 0x40, block numbers of 64 bits are 0x80.
    const INCOMPATIBLE_EXTENTS_64BIT: u8 = 0xc0;
    const INCOMPATIBLE_FLEX_GROUPS: u8 = 0x02;
    let feature = |offset: usize| bytes.get(offset).copied().unwrap_or(0);
    if feature(0x460) & INCOMPATIBLE_EXTENTS_64BIT != 0 || feature(0x461) & INCOMPATIBLE_FLEX_GROUPS != 0 {
        "ext4"
    } else if feature(0x45c) & COMPATIBLE_JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    }
}

/// Looks for signatures in any bytes. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    drop(in_start(bytes));
    for size_bytes in [0, bytes.len() as u64, u64::MAX] {
        drop(in_end(bytes, size_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    const UBERBLOCK: [u8; 8] = [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0];
    const MD: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];

    /// A MiB of zeros with these bytes at this place.
    fn area(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut area = vec![0; MIB];
        area[at..at + bytes.len()].copy_from_slice(bytes);
        area
    }

    fn shown(found: &[DiskSignature]) -> Vec<String> {
        found.iter().map(ToString::to_string).collect()
    }

    /// The places are those that blkid prints.
    #[test]
    fn every_signature_at_the_start_is_found_in_its_place_and_in_no_other() {
        let bcache = [0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];
        let rows: [(&str, usize, &[u8]); 33] = [
            ("xfs", 0, b"XFSB"),
            ("crypto_LUKS", 0, b"LUKS\xba\xbe"),
            ("squashfs", 0, b"hsqs"),
            ("ceph_bluestore", 0, b"bluestore block device"),
            ("ntfs", 3, b"NTFS    "),
            ("exfat", 3, b"EXFAT   "),
            ("BitLocker", 3, b"-FVE-FS-"),
            ("vfat", 54, b"FAT12   "),
            ("vfat", 54, b"FAT16   "),
            ("vfat", 82, b"FAT32   "),
            ("LVM2_member", 24, b"LVM2 001"),
            ("LVM2_member", 536, b"LVM2 001"),
            ("LVM2_member", 1048, b"LVM2 001"),
            ("LVM2_member", 1560, b"LVM2 001"),
            ("stratis", 516, b"!Stra0tis\x86\xff\x02^Arh"),
            ("linux_raid_member", 0, &MD),
            ("linux_raid_member", 4096, &MD),
            ("f2fs", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
            ("ext2", 1080, &[0x53, 0xef]),
            ("swap", 4086, b"SWAPSPACE2"),
            ("swap", 4086, b"SWAP-SPACE"),
            ("swap", 65_526, b"SWAPSPACE2"),
            ("bcache", 4120, &bcache),
            ("iso9660", 32_769, b"CD001"),
            ("gfs2", 65_536, &[0x01, 0x16, 0x19, 0x70]),
            ("btrfs", 65_600, b"_BHRfS_M"),
            ("crypto_LUKS", 16_384, b"SKUL\xba\xbe"),
            ("crypto_LUKS", 524_288, b"SKUL\xba\xbe"),
            // The second half of either label, in either byte order.
            ("zfs_member", 128 * KIB, &UBERBLOCK),
            ("zfs_member", 133 * KIB, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]),
            ("zfs_member", 255 * KIB, &UBERBLOCK),
            ("zfs_member", 384 * KIB, &UBERBLOCK),
            ("zfs_member", 511 * KIB, &UBERBLOCK),
        ];
        for (name, at, bytes) in rows {
            assert_eq!(shown(&in_start(&area(at, bytes))), [format!("{name} at {at}")]);
            assert_eq!(in_start(&area(at + 1, bytes)), [], "{name} one byte behind {at}");
        }
        for nowhere in [127 * KIB, 256 * KIB, 383 * KIB, 512 * KIB] {
            assert_eq!(in_start(&area(nowhere, &UBERBLOCK)), [], "{nowhere}");
        }
        assert_eq!(in_start(&area(0, b"XFSB")[..3]), [], "a part of it");
    }

    #[test]
    fn features_tell_the_generations_of_ext_apart() {
        for (at, features, name) in [
            (0x460, 0x40, "ext4"),
            (0x460, 0x80, "ext4"),
            (0x461, 0x02, "ext4"),
            (0x45c, 0x04, "ext3"),
            (0x460, 0x3f, "ext2"),
            (0x461, 0xfd, "ext2"),
            (0x45c, 0xfb, "ext2"),
        ] {
            let mut bytes = area(0x438, &[0x53, 0xef]);
            bytes[at] = features;
            assert_eq!(shown(&in_start(&bytes)), [format!("{name} at 1080")], "{features:#x} at {at:#x}");
        }
    }

    #[test]
    fn every_signature_at_the_end_is_found_in_its_place_and_in_no_other() {
        // The region is 10 MiB and three sectors long, and is looked at from here on.
        let (size, base) = (10 * MIB + 1536, 9 * MIB + 1536);
        let rows: [(&str, usize, &[u8]); 9] = [
            ("ddf_raid_member", size - 512, &[0xde, 0x11, 0xde, 0x11]),
            ("isw_raid_member", size - 1024, b"Intel Raid ISM Cfg Sig. "),
            ("linux_raid_member", 10 * MIB - 8192, &MD),
            ("linux_raid_member", 10 * MIB - 65_536, &MD),
            ("zfs_member", 10 * MIB - 384 * KIB, &UBERBLOCK),
            ("zfs_member", 10 * MIB - 257 * KIB, &UBERBLOCK),
            ("zfs_member", 10 * MIB - 128 * KIB, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]),
            ("zfs_member", 10 * MIB - 123 * KIB, &UBERBLOCK),
            ("zfs_member", 10 * MIB - KIB, &UBERBLOCK),
        ];
        for (name, at, bytes) in rows {
            assert_eq!(shown(&in_end(&area(at - base, bytes), size as u64)), [format!("{name} at {at}")]);
            assert_eq!(in_end(&area(at - base + 1, bytes), size as u64), [], "{name} one byte behind {at}");
        }
        for nowhere in [10 * MIB - 385 * KIB, 10 * MIB - 256 * KIB, 10 * MIB - 129 * KIB, 10 * MIB] {
            assert_eq!(in_end(&area(nowhere - base, &UBERBLOCK), size as u64), [], "{nowhere}");
        }
        // A region that is shorter than its end is none, and one of a sector has no room for the others.
        assert_eq!(in_end(&area(0, &MD), 512), []);
        assert_eq!(shown(&in_end(&area(0, &[0xde, 0x11, 0xde, 0x11])[..512], 512)), ["ddf_raid_member at 0"]);
    }

    #[test]
    fn copies_lie_deep() {
        let places: Vec<(u64, usize)> = deep_places().collect();
        let expected = [(1 << 20, 4), (1 << 20, 6), (2 << 20, 6), (4 << 20, 6), (67_108_928, 8), (274_877_907_008, 8)];
        assert_eq!(places, expected);
        for (offset, bytes, name) in [
            (1 << 20, &[0x0d, 0xd0, 0x01, 0xc0][..], Some("VMFS_volume")),
            (1 << 20, b"SKUL\xba\xbe", Some("crypto_LUKS")),
            (4 << 20, b"SKUL\xba\xbe", Some("crypto_LUKS")),
            (4 << 20, &[0x0d, 0xd0, 0x01, 0xc0, 0, 0], None),
            (67_108_928, b"_BHRfS_M", Some("btrfs")),
            (67_108_928, b"_BHRfS_", None),
            (67_108_864, b"_BHRfS_M", None),
            (274_877_907_008, b"_BHRfS_M", Some("btrfs")),
        ] {
            assert_eq!(name_of_deep(offset, bytes), name, "{offset}");
        }
    }
}
