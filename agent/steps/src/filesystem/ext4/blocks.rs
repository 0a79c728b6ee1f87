//! Where a file's blocks lie, by extents or by numbers of blocks, and its content.

use super::{Ext4Reader, inode::Ext4Inode};
use crate::filesystem::FilesystemError;
use crate::filesystem::fields::{index, joined, product, u16_at, u32_at};

const EXTENTS_MAGIC: u16 = 0xf30a;
/// The size of the header, and of each entry behind it.
const EXTENT_BYTES: usize = 12;
/// The largest depth of a tree: even the most blocks that a file may have need no more.
const EXTENTS_DEPTH_MAX: u16 = 5;
/// A longer extent has this many blocks less, and none of them was written.
const WRITTEN_BLOCKS_MAX: u64 = 32_768;
/// Numbers of blocks that stand in the inode, before those of blocks of numbers.
const DIRECT: u64 = 12;

/// Some of a file's blocks, which lie one after the other.
pub(super) struct BlockRun {
    /// The first block; `None` for blocks that lie nowhere and read as zeros.
    pub(super) first: Option<u64>,
    pub(super) blocks: u64,
}

const HOLE: BlockRun = BlockRun { first: None, blocks: 1 };

impl Ext4Reader<'_> {
    /// The first `most` bytes of what an inode holds.
    pub(super) fn content(&self, inode: &Ext4Inode, most: u64) -> Result<Vec<u8>, FilesystemError> {
        let wanted = inode.bytes.min(most);
        if inode.is_inline() {
            let mut content = inode.inline()?;
            content.truncate(index(wanted)?);
            return Ok(content);
        }
        let mut content = Vec::new();
        loop {
            let done = content.len() as u64;
            if done >= wanted {
                return Ok(content);
            }
            let run = self.run_of(inode, done / self.shape.block_bytes)?;
            let bytes = index(product(run.blocks, self.shape.block_bytes)?.min(wanted - done))?;
            match run.first {
                Some(first) => content.extend(self.bytes.read(product(first, self.shape.block_bytes)?, bytes)?),
                None => {
                    self.bytes.charge(bytes as u64)?;
                    content.resize(content.len() + bytes, 0);
                }
            }
        }
    }

    /// Where a block of a file lies, with those behind it that follow one another on the medium too.
    pub(super) fn run_of(&self, inode: &Ext4Inode, logical: u64) -> Result<BlockRun, FilesystemError> {
        let run = if inode.has_extents() { self.by_extents(inode, logical) } else { self.by_numbers(inode, logical) }?;
        match run.first {
            Some(first) if !self.shape.has_blocks(first, run.blocks) => {
                Err(FilesystemError::Damaged("a file's blocks lie outside of the filesystem"))
            }
            Some(_) | None => Ok(run),
        }
    }

    pub(super) fn block(&self, number: u64) -> Result<Vec<u8>, FilesystemError> {
        if !self.shape.has_blocks(number, 1) {
            return Err(FilesystemError::Damaged("a block lies outside of the filesystem"));
        }
        self.bytes.read(product(number, self.shape.block_bytes)?, index(self.shape.block_bytes)?)
    }

    /// Each node says how deep it lies, so that none leads to itself.
    fn by_extents(&self, inode: &Ext4Inode, logical: u64) -> Result<BlockRun, FilesystemError> {
        let mut node = inode.area.to_vec();
        let mut depth = u16_at(&node, 6)?;
        if depth > EXTENTS_DEPTH_MAX {
            return Err(FilesystemError::Damaged("a file's extents are deeper than they may be"));
        }
        loop {
            if u16_at(&node, 0)? != EXTENTS_MAGIC || u16_at(&node, 6)? != depth {
                return Err(FilesystemError::Damaged("a file's extents are not what they should be"));
            }
            let Some(entry) = nearest(&node, logical)? else { return Ok(HOLE) };
            if depth == 0 {
                return leaf(entry, logical);
            }
            let below = joined(u16_at(entry, 8)?, u32_at(entry, 4)?);
            node = self.block(below)?;
            depth -= 1;
        }
    }

    fn by_numbers(&self, inode: &Ext4Inode, logical: u64) -> Result<BlockRun, FilesystemError> {
        let per_block = self.shape.block_bytes / 4;
        let (slot, levels, mut rest) = slot_of(logical, per_block)?;
        let mut number = u32_at(&inode.area, slot * 4)?;
        for level in (0..levels).rev() {
            if number == 0 {
                return Ok(HOLE);
            }
            let node = self.block(u64::from(number))?;
            let span = per_block.pow(level);
            number = u32_at(&node, index(rest / span * 4)?)?;
            rest %= span;
        }
        Ok(BlockRun { first: (number != 0).then_some(u64::from(number)), blocks: 1 })
    }
}

/// The last entry of a node that begins at this block or before.
fn nearest(node: &[u8], logical: u64) -> Result<Option<&[u8]>, FilesystemError> {
    let count = usize::from(u16_at(node, 2)?);
    let entries = node.get(EXTENT_BYTES..EXTENT_BYTES * (count + 1));
    let entries = entries.ok_or(FilesystemError::Damaged("a file has more extents than there is room for"))?;
    let mut found: Option<(u64, &[u8])> = None;
    for entry in entries.chunks_exact(EXTENT_BYTES) {
        let begins = u64::from(u32_at(entry, 0)?);
        if begins <= logical && found.is_none_or(|(best, _)| begins >= best) {
            found = Some((begins, entry));
        }
    }
    Ok(found.map(|(_, entry)| entry))
}

fn leaf(entry: &[u8], logical: u64) -> Result<BlockRun, FilesystemError> {
    let length = u64::from(u16_at(entry, 4)?);
    let is_written = length <= WRITTEN_BLOCKS_MAX;
    let blocks = if is_written { length } else { length - WRITTEN_BLOCKS_MAX };
    // The entry begins at this block or before.
    let passed = logical - u64::from(u32_at(entry, 0)?);
    if passed >= blocks || !is_written {
        return Ok(HOLE);
    }
    let first = joined(u16_at(entry, 6)?, u32_at(entry, 8)?);
    Ok(BlockRun { first: Some(first + passed), blocks: blocks - passed })
}

/// Which number of the inode leads to a block, over how many blocks of numbers, and which of theirs it is.
fn slot_of(logical: u64, per_block: u64) -> Result<(usize, u32, u64), FilesystemError> {
    if logical < DIRECT {
        return Ok((index(logical)?, 0, 0));
    }
    let mut rest = logical - DIRECT;
    for (slot, levels) in [(12, 1), (13, 2), (14, 3)] {
        // At most 2^14 numbers a block.
        let span = per_block.pow(levels);
        if rest < span {
            return Ok((slot, levels, rest));
        }
        rest -= span;
    }
    Err(FilesystemError::Damaged("a file is longer than its blocks can be"))
}
