#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firesteel_facts::Guid;
use proptest::prelude::*;

use super::*;
use crate::write::PartitionName;

const MIB: usize = 1 << 20;

/// What is said of an image that comes in such pieces, and of the same with its holes skipped.
fn judged_in(image: &[u8], piece_bytes: usize, is_declared: bool) -> Result<bool, ContentFault> {
    let (mut read, mut skipped) = (DiskWatch::new(is_declared), DiskWatch::new(is_declared));
    let by_reading = image.chunks(piece_bytes).try_for_each(|piece| read.bytes(piece)).and_then(|()| read.finish());
    let mut pieces = image.chunks(piece_bytes);
    let by_skipping = pieces
        .try_for_each(|piece| {
            if piece.len() == piece_bytes && piece.iter().all(|byte| *byte == 0) {
                skipped.zeros(piece.len() as u64)
            } else {
                skipped.bytes(piece)
            }
        })
        .and_then(|()| skipped.finish());
    assert_eq!(by_reading, by_skipping, "holes change nothing");
    by_reading
}

fn judged(image: &[u8]) -> Result<bool, ContentFault> {
    let judged = judged_in(image, 4 * MIB, false);
    assert_eq!(judged, judged_in(image, MIB, false), "nor does the length of the pieces");
    judged
}

/// A disk of so many MiB with partitions: first and last block.
fn gpt_disk(mib: usize, block_bytes: u32, partitions: &[(u64, u64)]) -> Vec<u8> {
    let made: Vec<gpt::Partition> = partitions
        .iter()
        .zip(1..)
        .map(|((first, last), number)| gpt::Partition {
            number,
            name: String::new(),
            type_guid: Guid([1; 16]),
            guid: Guid([2; 16]),
            first_lba: *first,
            last_lba: *last,
        })
        .collect();
    let (head, backup_at, backup) = gpt::create((mib * MIB) as u64, block_bytes, Guid([3; 16]), &made).unwrap();
    let mut disk = vec![0; mib * MIB];
    disk[..head.len()].copy_from_slice(&head);
    let backup_at = usize::try_from(backup_at).unwrap();
    disk[backup_at..backup_at + backup.len()].copy_from_slice(&backup);
    disk
}

/// Writes a table of entries (kind, first, blocks) into a sector.
fn put_classic(disk: &mut [u8], sector: usize, entries: &[(u8, u32, u32)]) {
    let sector = &mut disk[sector * 512..(sector + 1) * 512];
    for ((kind, first, blocks), entry) in entries.iter().zip(sector[446..510].chunks_exact_mut(16)) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&blocks.to_le_bytes());
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
}

fn beyond(result: Result<bool, ContentFault>) -> PartitionBeyondEnd {
    let Err(ContentFault::Partition(beyond)) = result else { panic!("no partition ends behind it: {result:?}") };
    beyond
}

/// The end of the last partition was missing, and the image was imported, written and booted.
#[test]
fn a_gpt_partition_that_ends_behind_the_image_is_found_at_its_end() {
    for block_bytes in [512_u32, 4096] {
        let mib = u64::from((1 << 20) / block_bytes);
        let disk = gpt_disk(12, block_bytes, &[(mib, 2 * mib - 1), (2 * mib, 10 * mib - 1)]);
        assert_eq!(judged(&disk), Ok(false));
        // Only the backup is cut off.
        assert_eq!(judged(&disk[..10 * MIB]), Ok(true), "a warning");
        let cut = beyond(judged(&disk[..10 * MIB - 4096]));
        assert_eq!(cut.partition, PartitionName::Gpt { number: 2 });
        assert_eq!((cut.end_bytes, cut.image_bytes), (10 << 20, (10 << 20) - 4096));
    }
}

#[test]
fn a_backup_is_missing_where_it_is_not_where_the_table_says() {
    let mut disk = gpt_disk(3, 512, &[(2048, 4095)]);
    assert_eq!(judged(&disk), Ok(false));
    let header = disk.len() - 512;
    disk[header + 40] ^= 1;
    assert_eq!(judged(&disk), Ok(true), "its checksum is wrong");
    // A table that lies whole in the first MiB.
    let small = gpt_disk(2, 512, &[(100, 200)]);
    assert_eq!(judged(&small[..MIB / 2]), Ok(true));
}

#[test]
fn a_table_that_cannot_be_used_is_refused_whatever_is_declared() {
    let mut disk = gpt_disk(3, 512, &[(2048, 4095)]);
    disk[512 + 60] ^= 1;
    for is_declared in [false, true] {
        let fault = judged_in(&disk, 4 * MIB, is_declared).unwrap_err();
        assert_eq!(fault, ContentFault::Table(GptError::HeaderChecksum));
        assert!(fault.to_string().contains("checksum is wrong"), "{fault}");
    }
}

#[test]
fn classic_and_logical_partitions_are_held_against_the_end() {
    let mut disk = vec![0; 12 * MIB];
    // Sectors 2048 to 4096, and an extended one up to 20480 with two logical ones.
    put_classic(&mut disk, 0, &[(0x83, 2048, 2048), (0x05, 4096, 16_384)]);
    put_classic(&mut disk, 4096, &[(0x83, 63, 2048), (0x05, 8192, 8192)]);
    put_classic(&mut disk, 4096 + 8192, &[(0x83, 63, 8129)]);
    assert_eq!(judged(&disk), Ok(false));
    assert_eq!(judged(&disk[..10 * MIB]), Ok(false), "20480 sectors");
    let cut = beyond(judged(&disk[..10 * MIB - 512]));
    assert_eq!(cut.partition, PartitionName::Classic { first_block: 4096 });
    // The last one is longer than the extended one that it lies in.
    put_classic(&mut disk, 4096 + 8192, &[(0x83, 63, 20_000)]);
    let long = beyond(judged(&disk));
    assert_eq!(long.partition, PartitionName::Classic { first_block: 4096 + 8192 + 63 });
    // The protective entry covers the disk that the image was made on.
    put_classic(&mut disk, 0, &[(mbr::PROTECTIVE, 1, u32::MAX), (0, 0, 0)]);
    assert_eq!(judged(&disk), Ok(false));
}

#[test]
fn a_chain_without_end_ends() {
    let mut disk = vec![0; 2 * MIB];
    put_classic(&mut disk, 0, &[(0x05, 2048, 2048)]);
    put_classic(&mut disk, 2048, &[(0x83, 1, 1), (0x05, 0, 2048)]);
    assert_eq!(judged(&disk), Ok(false), "it leads to itself");
    for link in 0..2048_u32 {
        put_classic(&mut disk, 2048 + link as usize, &[(0x83, 1, 1), (0x05, link + 1, 1)]);
    }
    let mut watch = DiskWatch::new(false);
    watch.bytes(&disk).unwrap();
    assert_eq!((watch.logical.len(), watch.chains.len()), (mbr::LOGICAL_MAX, 0));
}

#[test]
fn what_looks_like_something_else_is_a_disk_only_where_that_is_declared() {
    let zeros = vec![0; 3 * MIB];
    let noise: Vec<u8> = (0..3 * MIB).map(|at| u8::try_from(at * 7 % 251).unwrap() | 1).collect();
    let mut odd = gpt_disk(3, 512, &[(2048, 4095)]);
    odd.truncate(2 * MIB + 100);
    let mut vhd = gpt_disk(3, 512, &[(2048, 4095)]);
    vhd.extend_from_slice(b"conectix");
    vhd.resize(3 * MIB + 512, 0);
    for (image, wanted) in [
        (&zeros, Lookalike::Zeros { bytes: MIB as u64 }),
        (&zeros[..4096].to_vec(), Lookalike::Zeros { bytes: 4096 }),
        (&noise, Lookalike::Unknown { bytes: MIB as u64 }),
        (&odd, Lookalike::OddLength { bytes: 2 * MIB as u64 + 100 }),
        (&vhd, Lookalike::VhdFooter { at_bytes: 3 * MIB as u64 }),
    ] {
        let fault = judged(image).unwrap_err();
        assert_eq!(fault, ContentFault::Lookalike(wanted));
        assert!(fault.help().contains("format: raw"), "{fault}; {}", fault.help());
        assert!(judged_in(image, 4 * MIB, true).is_ok(), "{fault}");
    }
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000), at in 440_usize..1100) {
        check(&bytes);
        let mut disk = gpt_disk(2, 512, &[(2048, 2100)]);
        let end = disk.len().min(at + bytes.len());
        disk[at..end].copy_from_slice(&bytes[..end - at]);
        check(&disk);
    }
}
