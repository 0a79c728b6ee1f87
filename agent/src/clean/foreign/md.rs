//! Members of md arrays (kernel, include/uapi/linux/raid/md_p.h): superblocks 0.90, 1.0, 1.1 and 1.2.

use super::{Holding, Kind, Owner, View, le32, le64, text};

const MAGIC: u32 = 0xa92b_4efc;

pub(super) fn find(view: &View<'_>) -> Option<Holding> {
    version_1(view).or_else(|| version_0(view))
}

/// 1.1 at the start, 1.2 at 4 KiB, 1.0 at least 8 KiB before the end on a boundary of 4 KiB. The set's
/// name is `host:name` where mdadm knew its host.
fn version_1(view: &View<'_>) -> Option<Holding> {
    let sectors = view.size_bytes / 512;
    let last = sectors.checked_sub(16).map(|sector| (sector & !7) * 512);
    for offset in [Some(0), Some(4096), last].into_iter().flatten() {
        let Some(superblock) = view.at(offset, 256) else { continue };
        // `super_offset` says where it stands: a copy elsewhere is none.
        let is_here = le64(superblock, 144) == Some(offset / 512);
        if le32(superblock, 0) != Some(MAGIC) || le32(superblock, 4) != Some(1) || !is_here {
            continue;
        }
        let set = text(superblock.get(32..64)?);
        let (host, name) = set.split_once(':').unwrap_or(("", set.as_str()));
        // What mdadm writes when it is told to name no host, or did not know its own.
        let is_nobody = matches!(host, "" | "any" | "localhost" | "localhost.localdomain" | "(none)");
        let owner = if is_nobody { Owner::Unnamed } else { Owner::Host(host.to_owned()) };
        return Some(Holding { kind: Kind::Md, name: name.to_owned(), owner, offset });
    }
    None
}

/// 0.90 in the last 64 KiB boundary with 64 KiB behind it, in the byte order of its maker; it knows the
/// number of its array and no host.
fn version_0(view: &View<'_>) -> Option<Holding> {
    let offset = (view.size_bytes & !0xffff).checked_sub(0x1_0000)?;
    let superblock = view.at(offset, 128)?;
    let words: Vec<[u8; 4]> = superblock.chunks_exact(4).filter_map(|word| word.first_chunk().copied()).collect();
    let read: fn([u8; 4]) -> u32 = match words.first().copied()? {
        magic if u32::from_le_bytes(magic) == MAGIC => u32::from_le_bytes,
        magic if u32::from_be_bytes(magic) == MAGIC => u32::from_be_bytes,
        _ => return None,
    };
    let word = |index: usize| words.get(index).copied().map(read);
    if (word(1)?, word(2)?) != (0, 90) {
        return None;
    }
    Some(Holding { kind: Kind::Md, name: format!("md{}", word(11)?), owner: Owner::Unnamed, offset })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{disk, look};
    use super::*;

    const SIZE: usize = 4 << 20;

    fn superblock(sector: u64, set: &str) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
        bytes[32..32 + set.len()].copy_from_slice(set.as_bytes());
        bytes[144..152].copy_from_slice(&sector.to_le_bytes());
        bytes
    }

    #[test]
    fn versions_with_a_host_name_in_each_place() {
        for at in [0, 4096, SIZE - 8192] {
            let bytes = disk(SIZE, &[(at, &superblock(at as u64 / 512, "storage-3:data"))]);
            let found = look(&bytes);
            assert_eq!(found[0].to_string(), "md RAID \"data\" of host \"storage-3\"");
            assert_eq!(found[0].offset, at as u64);
        }
        let moved = disk(SIZE, &[(4096, &superblock(0, "x:y"))]);
        assert_eq!(look(&moved), [], "the superblock says that it stands elsewhere");
        let nobody = look(&disk(SIZE, &[(0, &superblock(0, "any:0"))]));
        assert_eq!((nobody[0].name.as_str(), &nobody[0].owner), ("0", &Owner::Unnamed));
    }

    #[test]
    fn the_old_version_in_both_byte_orders() {
        for big in [false, true] {
            let order = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
            let words = [MAGIC, 0, 90, 0, 0, 1, 2, 1, 3, 2, 2, 127];
            let bytes: Vec<u8> = words.into_iter().flat_map(order).collect();
            let found = look(&disk(SIZE, &[(SIZE - 0x1_0000, &bytes)]));
            assert_eq!(found[0].to_string(), "md RAID \"md127\"");
        }
    }
}
