//! Volumes of dm-thin pools: where the pool's metadata says that a block of a volume lies (kernel,
//! drivers/md/dm-thin-metadata.c and drivers/md/persistent-data/dm-btree-internal.h). Reads one node for each level of
//! a tree, each from the metadata volume, which the caller reads.

use super::{gap::VolumeReadError, le32, le64};

const NODE_BYTES: usize = 4096;
const MAGIC: u64 = 27_022_010;
const MAPPING_ROOT_AT: usize = 320;
const BLOCK_SECTORS_AT: usize = 336;
const KEYS_AT: usize = 32;
const LEAF: u32 = 2;
/// Levels of one tree: five hold all that a metadata volume of 16 GiB can name.
const LEVELS_MAX: usize = 10;
const UNCLEAR: VolumeReadError = VolumeReadError::Unclear("a thin volume whose pool's metadata cannot be read");

/// Fills a buffer from this place of the metadata volume.
type ReadMetadata<'a> = &'a dyn Fn(u64, &mut [u8]) -> Result<(), VolumeReadError>;

/// One volume of a pool, with the volumes that hold the pool's metadata and data.
#[derive(Debug)]
pub(super) struct Thin<V> {
    pub(super) metadata: V,
    pub(super) data: V,
    /// The volume's number in its pool.
    pub(super) device: u64,
}

impl<V> Thin<V> {
    /// Where a byte of the volume lies in the pool's data, and how many follow it there; no place for a block that was
    /// never written, which reads as zeros.
    pub(super) fn locate(&self, read: ReadMetadata<'_>, at: u64) -> Result<(Option<u64>, u64), VolumeReadError> {
        let superblock = node(read, 0)?;
        let block_bytes = u64::from(le32(&superblock, BLOCK_SECTORS_AT).unwrap_or(0)) * 512;
        if le64(&superblock, 32) != Some(MAGIC) || block_bytes == 0 {
            return Err(UNCLEAR);
        }
        let root = le64(&superblock, MAPPING_ROOT_AT).ok_or(UNCLEAR)?;
        let left = block_bytes - at % block_bytes;
        // A volume that was made and never begun has no tree.
        let Some(tree) = find(read, root, self.device)? else { return Ok((None, left)) };
        let place = find(read, tree, at / block_bytes)?;
        // The lower 24 bits count snapshots.
        let offset = |value: u64| (value >> 24).checked_mul(block_bytes)?.checked_add(at % block_bytes);
        Ok((place.and_then(offset), left))
    }
}

/// The value of a key in a tree.
fn find(read: ReadMetadata<'_>, root: u64, key: u64) -> Result<Option<u64>, VolumeReadError> {
    let mut block = root;
    for _ in 0..LEVELS_MAX {
        let node = node(read, block)?;
        let word = |at: usize| le32(&node, at).unwrap_or(0);
        let (used, most) = (word(16) as usize, word(20) as usize);
        let values_at = most.checked_mul(8).and_then(|bytes| bytes.checked_add(KEYS_AT)).ok_or(UNCLEAR)?;
        if le64(&node, 8) != Some(block) || used > most || values_at + used * 8 > NODE_BYTES {
            return Err(UNCLEAR);
        }
        let entry = |index: usize| Some((le64(&node, KEYS_AT + index * 8)?, le64(&node, values_at + index * 8)?));
        let found = (0..used).filter_map(entry).take_while(|(first, _)| *first <= key).last();
        let Some((first, value)) = found else { return Ok(None) };
        if word(4) & LEAF != 0 {
            return Ok((first == key).then_some(value));
        }
        block = value;
    }
    Err(UNCLEAR)
}

fn node(read: ReadMetadata<'_>, block: u64) -> Result<Vec<u8>, VolumeReadError> {
    let mut node = vec![0; NODE_BYTES];
    let at = block.checked_mul(NODE_BYTES as u64).ok_or(UNCLEAR)?;
    match read(at, &mut node) {
        Err(VolumeReadError::Elsewhere) => Err(UNCLEAR),
        Err(gap) => Err(gap),
        Ok(()) => Ok(node),
    }
}
