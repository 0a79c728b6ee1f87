//! The superblock and the group descriptors: the numbers by which everything else is found.

use crate::filesystem::FilesystemError;
use crate::filesystem::fields::{joined, product, sum, u16_at, u32_at};

pub(super) const SUPERBLOCK_AT: u64 = 1024;
pub(super) const SUPERBLOCK_BYTES: usize = 1024;

const MAGIC: u16 = 0xef53;
/// 64 KiB.
const LOG_BLOCK_MAX: u32 = 6;
/// A filesystem of the first revision has inodes of this size, and no features.
const OLD_INODE_BYTES: u64 = 128;
const OLD_DESCRIPTOR_BYTES: u64 = 32;
const LARGE_DESCRIPTOR_BYTES: u64 = 64;

// `s_feature_incompat`: a reader that does not know one of them must not read.
const INCOMPAT_COMPRESSION: u32 = 0x1;
const INCOMPAT_RECOVER: u32 = 0x4;
const INCOMPAT_JOURNAL_DEVICE: u32 = 0x8;
const INCOMPAT_META_GROUPS: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_LARGE_FOLDERS: u32 = 0x4000;
/// Types in folders, extents, a block against double mounts, flexible groups, large attributes, the seed of checksums,
/// inline data, encryption (of other files), folders without difference of case.
const INCOMPAT_READ: u32 = 0x2
    | INCOMPAT_META_GROUPS
    | 0x40
    | INCOMPAT_64BIT
    | 0x100
    | 0x200
    | 0x400
    | 0x2000
    | INCOMPAT_LARGE_FOLDERS
    | 0x8000
    | 0x1_0000
    | 0x2_0000;
const COMPAT_SPARSE_SUPER2: u32 = 0x200;
const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;

/// The numbers of a filesystem, compared with one another and with the partition.
#[derive(Debug)]
pub(super) struct Ext4Shape {
    pub(super) block_bytes: u64,
    pub(super) blocks: u64,
    pub(super) inode_bytes: u64,
    pub(super) descriptor_bytes: u64,
    pub(super) has_large_folders: bool,
    first_data_block: u64,
    blocks_per_group: u64,
    groups: u64,
    inodes: u32,
    inodes_per_group: u32,
    /// The block of descriptors from which on they lie in their groups, with that feature.
    meta_groups_from: Option<u64>,
    copies: SuperblockCopies,
}

/// Which groups begin with a copy of the superblock.
#[derive(Debug)]
enum SuperblockCopies {
    All,
    Powers,
    Two([u32; 2]),
}

impl Ext4Shape {
    pub(super) fn read(superblock: &[u8], partition_bytes: u64) -> Result<Self, FilesystemError> {
        let word = |at: usize| u32_at(superblock, at);
        if u16_at(superblock, 0x38)? != MAGIC {
            return Err(FilesystemError::Damaged("it has no superblock"));
        }
        let is_old = word(0x4c)? == 0;
        let [compat, incompat, ro_compat] = [word(0x5c)?, word(0x60)?, word(0x64)?];
        if is_old && [compat, incompat, ro_compat] != [0; 3] {
            // The kernel takes them for what they say, and others know none here.
            return Err(FilesystemError::Damaged("it is of the first revision, and has features"));
        }
        check_features(incompat)?;
        let is_large = incompat & INCOMPAT_64BIT != 0;
        let log_block = word(0x18)?;
        if log_block > LOG_BLOCK_MAX {
            return Err(FilesystemError::Damaged("its blocks have no size that blocks may have"));
        }
        let shape = Self {
            block_bytes: 1024 << log_block,
            blocks: joined(if is_large { word(0x150)? } else { 0 }, word(0x4)?),
            inode_bytes: if is_old { OLD_INODE_BYTES } else { u64::from(u16_at(superblock, 0x58)?) },
            descriptor_bytes: if is_large { u64::from(u16_at(superblock, 0xfe)?) } else { OLD_DESCRIPTOR_BYTES },
            has_large_folders: incompat & INCOMPAT_LARGE_FOLDERS != 0,
            first_data_block: u64::from(word(0x14)?),
            blocks_per_group: u64::from(word(0x20)?),
            groups: 0,
            inodes: word(0)?,
            inodes_per_group: word(0x28)?,
            meta_groups_from: (incompat & INCOMPAT_META_GROUPS != 0).then_some(u64::from(word(0x104)?)),
            copies: if compat & COMPAT_SPARSE_SUPER2 != 0 {
                SuperblockCopies::Two([word(0x24c)?, word(0x250)?])
            } else if ro_compat & RO_COMPAT_SPARSE_SUPER != 0 {
                SuperblockCopies::Powers
            } else {
                SuperblockCopies::All
            },
        };
        shape.checked(is_large, partition_bytes)
    }

    fn checked(mut self, is_large: bool, partition_bytes: u64) -> Result<Self, FilesystemError> {
        let is_power = |bytes: u64, least: u64| (least..=self.block_bytes).contains(&bytes) && bytes.is_power_of_two();
        let least = if is_large { LARGE_DESCRIPTOR_BYTES } else { OLD_DESCRIPTOR_BYTES };
        if !is_power(self.inode_bytes, OLD_INODE_BYTES) || !is_power(self.descriptor_bytes, least) {
            return Err(FilesystemError::Damaged("its inodes or groups have no size that they may have"));
        }
        if self.blocks_per_group == 0
            || self.inodes_per_group == 0
            || u64::from(self.inodes_per_group) > 8 * self.block_bytes
        {
            return Err(FilesystemError::Damaged("its groups have no blocks, or no inodes"));
        }
        if product(self.blocks, self.block_bytes)? > partition_bytes {
            return Err(FilesystemError::Damaged("it is larger than its partition"));
        }
        let data = self.blocks.checked_sub(self.first_data_block).filter(|blocks| *blocks > 0);
        self.groups = data.ok_or(FilesystemError::Damaged("it has no blocks"))?.div_ceil(self.blocks_per_group);
        Ok(self)
    }

    pub(super) fn size_bytes(&self) -> u64 {
        // No more than the partition has.
        self.blocks * self.block_bytes
    }

    /// The group of an inode, and its place in the group's table.
    pub(super) fn place_of(&self, inode: u32) -> Result<(u64, u64), FilesystemError> {
        let before = inode.checked_sub(1).filter(|_| inode <= self.inodes);
        let before = before.ok_or(FilesystemError::Damaged("it has a name for an inode that is none"))?;
        Ok((u64::from(before / self.inodes_per_group), u64::from(before % self.inodes_per_group)))
    }

    /// Where a group's descriptor lies.
    pub(super) fn descriptor_at(&self, group: u64) -> Result<u64, FilesystemError> {
        if group >= self.groups {
            return Err(FilesystemError::Damaged("an inode is of a group that is not there"));
        }
        let per_block = self.block_bytes / self.descriptor_bytes;
        let number = group / per_block;
        let block = match self.meta_groups_from {
            // The first of them is behind the superblock in any case, which has a block before it where blocks have
            // 1024 bytes.
            Some(from) if number >= from && number > 0 => {
                let first = number * per_block;
                let start = sum(self.first_data_block, product(first, self.blocks_per_group)?)?;
                sum(start, u64::from(self.has_copy(first)))?
            }
            Some(_) | None => SUPERBLOCK_AT / self.block_bytes + 1 + number,
        };
        let at = sum(product(block, self.block_bytes)?, group % per_block * self.descriptor_bytes)?;
        if sum(at, self.descriptor_bytes)? > self.size_bytes() {
            return Err(FilesystemError::Damaged("a group's descriptor lies outside of the filesystem"));
        }
        Ok(at)
    }

    /// The first block of the inodes of the group with this descriptor.
    pub(super) fn table_of(&self, descriptor: &[u8]) -> Result<u64, FilesystemError> {
        let is_large = self.descriptor_bytes >= LARGE_DESCRIPTOR_BYTES;
        let table = joined(if is_large { u32_at(descriptor, 0x28)? } else { 0 }, u32_at(descriptor, 0x8)?);
        if table == 0 || table >= self.blocks {
            return Err(FilesystemError::Damaged("a group's inodes lie outside of the filesystem"));
        }
        Ok(table)
    }

    /// Whether these blocks are some of the filesystem's.
    pub(super) fn has_blocks(&self, first: u64, blocks: u64) -> bool {
        first > 0 && first.checked_add(blocks).is_some_and(|end| end <= self.blocks)
    }

    fn has_copy(&self, group: u64) -> bool {
        let is_power_of = |base: u64| {
            let mut power = base;
            while power < group {
                power = power.saturating_mul(base);
            }
            power == group
        };
        let is_copied = match self.copies {
            SuperblockCopies::All => true,
            SuperblockCopies::Powers => group == 1 || [3, 5, 7].into_iter().any(is_power_of),
            SuperblockCopies::Two(groups) => groups.iter().any(|&one| u64::from(one) == group),
        };
        group == 0 || is_copied
    }
}

fn check_features(incompat: u32) -> Result<(), FilesystemError> {
    if incompat & INCOMPAT_JOURNAL_DEVICE != 0 {
        return Err(FilesystemError::Unsupported("a journal of another filesystem"));
    }
    if incompat & INCOMPAT_RECOVER != 0 {
        return Err(FilesystemError::Unsettled);
    }
    if incompat & INCOMPAT_COMPRESSION != 0 {
        return Err(FilesystemError::Unsupported("a compressed filesystem"));
    }
    if incompat & !INCOMPAT_READ != 0 {
        return Err(FilesystemError::Unsupported("a feature of this ext4 filesystem"));
    }
    Ok(())
}
