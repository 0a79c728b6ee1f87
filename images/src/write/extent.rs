//! Whether the partitions of an image end within it. Pure.
//!
//! The file of an image that was cut, or whose table was made for a larger disk, has a partition whose end is missing: the
//! filesystem in it boots, and fails when it is used. The protective entry of a GPT is no partition: it covers the disk
//! that the image was made on.

use std::fmt;

use super::gpt::GptTable;
use super::mbr::{self, MbrEntry};

/// Which partition of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionName {
    Gpt {
        number: u32,
    },
    /// An entry of a classic table (MBR) or of a chain of logical partitions, by its first block.
    Classic {
        first_block: u64,
    },
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpt { number } => write!(f, "GPT partition {number}"),
            Self::Classic { first_block } => write!(f, "the MBR partition at block {first_block}"),
        }
    }
}

/// A partition of an image that ends behind the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{partition} ends at byte {end_bytes}, but the image ends at byte {image_bytes}: a part of it is missing")]
pub struct PartitionBeyondEnd {
    pub partition: PartitionName,
    pub end_bytes: u64,
    pub image_bytes: u64,
}

impl PartitionBeyondEnd {
    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        "download or build the image again, whole; if it was shortened, shrink its last partition first"
    }
}

/// Holds the partitions of a GPT against the length of the image that it is from.
///
/// # Errors
/// The first partition that ends behind the image.
pub fn check_table(table: &GptTable, image_bytes: u64) -> Result<(), PartitionBeyondEnd> {
    table.partitions.iter().try_for_each(|partition| {
        let start = partition.offset_bytes(table.block_bytes);
        let end_bytes = start.saturating_add(partition.size_bytes(table.block_bytes));
        check_end(PartitionName::Gpt { number: partition.number }, end_bytes, image_bytes)
    })
}

/// Holds the entries of a classic table, if there is one at the start of `head`, against the length of the image.
///
/// # Errors
/// The first partition that ends behind the image.
pub fn check_classic(head: &[u8], block_bytes: u32, image_bytes: u64) -> Result<(), PartitionBeyondEnd> {
    let entries = mbr::parse(head).unwrap_or_default();
    let mut partitions = entries.iter().filter(|entry| entry.kind != mbr::PROTECTIVE);
    partitions.try_for_each(|entry| check_entry(entry, 0, block_bytes, image_bytes))
}

/// Holds one entry, whose first block counts from `base`, against the length of the image.
///
/// # Errors
/// The partition ends behind the image.
pub fn check_entry(entry: &MbrEntry, base: u64, block_bytes: u32, image_bytes: u64) -> Result<(), PartitionBeyondEnd> {
    let first_block = base.saturating_add(entry.first);
    let end_bytes = first_block.saturating_add(entry.blocks).saturating_mul(u64::from(block_bytes));
    check_end(PartitionName::Classic { first_block }, end_bytes, image_bytes)
}

fn check_end(partition: PartitionName, end_bytes: u64, image_bytes: u64) -> Result<(), PartitionBeyondEnd> {
    if end_bytes > image_bytes { Err(PartitionBeyondEnd { partition, end_bytes, image_bytes }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::write::gpt;
    use firesteel_facts::Guid;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_partition_may_end_with_the_image_and_not_one_block_behind_it() {
        let partition = |number, first_lba, last_lba| gpt::Partition {
            number,
            name: String::new(),
            type_guid: Guid([1; 16]),
            guid: Guid([2; 16]),
            first_lba,
            last_lba,
        };
        for block_bytes in [512_u32, 4096] {
            let mib = MIB / u64::from(block_bytes);
            let partitions = [partition(1, mib, 2 * mib - 1), partition(3, 2 * mib, 6 * mib - 1)];
            let (head, ..) = gpt::create(8 * MIB, block_bytes, Guid([3; 16]), &partitions).unwrap();
            let table = gpt::parse(&head, block_bytes).unwrap().unwrap();
            assert_eq!(check_table(&table, 6 * MIB), Ok(()));
            let error = check_table(&table, 6 * MIB - 512).unwrap_err();
            assert_eq!((error.partition, error.end_bytes), (PartitionName::Gpt { number: 3 }, 6 * MIB));
            let text = error.to_string();
            assert!(
                text.contains("GPT partition 3 ends at byte 6291456, but the image ends at byte 6290944"),
                "{text}"
            );
            // The protective entry covers 8 MiB.
            assert_eq!(check_classic(&head, block_bytes, MIB), Ok(()));
        }
    }

    #[test]
    fn a_classic_partition_counts_in_blocks_of_the_disk() {
        let mut sector = [0; 512];
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(check_classic(&sector, 512, 512), Ok(()), "no partition");
        sector[446 + 4] = 0x83;
        sector[446 + 8..446 + 16].copy_from_slice(&[8, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(check_classic(&sector, 512, 1032 * 512), Ok(()));
        let beyond = PartitionBeyondEnd {
            partition: PartitionName::Classic { first_block: 8 },
            end_bytes: 1032 * 512,
            image_bytes: 1031 * 512,
        };
        assert_eq!(check_classic(&sector, 512, 1031 * 512), Err(beyond));
        assert!(check_classic(&sector, 4096, 1032 * 512).is_err());
        // A hybrid table has partitions beside the protective entry.
        sector[462 + 4] = mbr::PROTECTIVE;
        sector[462 + 8..462 + 16].copy_from_slice(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(check_classic(&sector, 512, 1032 * 512), Ok(()));
        assert_eq!(check_classic(&sector, 512, 1031 * 512), Err(beyond));
        // Numbers without measure.
        let entry = MbrEntry { flag: 0, kind: 0x83, first: u64::MAX, blocks: u64::MAX };
        assert!(check_entry(&entry, u64::MAX, 4096, u64::MAX - 1).is_err());
    }
}
