//! Parsers of partition tables and signatures against hostile bytes.

use firesteel_facts::Guid;
use firesteel_images::write::gpt::{self, GptError};
use firesteel_images::write::{mbr, signature};
use proptest::prelude::*;

use crate::disks::partition;

const MIB: usize = 1 << 20;

fn table() -> Vec<u8> {
    let parts = [partition(1, "EFI System", 2048, 4095), partition(3, "wurzel-größe", 4096, 30_000)];
    gpt::create(16 << 20, 512, Guid([1; 16]), &parts).unwrap().0
}

#[test]
fn a_table_reads_as_it_was_made() {
    let read = gpt::parse(&table(), 512).unwrap().unwrap();
    assert_eq!(read.partitions.len(), 2);
    assert_eq!((read.partitions[1].number, read.partitions[1].name.as_str()), (3, "wurzel-größe"));
    assert_eq!(read.partitions[0].offset_bytes(512), MIB as u64);
    assert_eq!(read.partitions[0].size_bytes(512), MIB as u64);
    assert_eq!(gpt::parse(&table(), 4096), Ok(None));
    assert_eq!(gpt::block_bytes_of(&table()), Some(512));
}

#[test]
fn a_table_with_a_wrong_checksum_is_damaged() {
    let mut bytes = table();
    bytes[512 + 40] ^= 1;
    assert_eq!(gpt::parse(&bytes, 512), Err(GptError::HeaderChecksum));
    let mut bytes = table();
    bytes[1024 + 60] ^= 1;
    assert_eq!(gpt::parse(&bytes, 512), Err(GptError::EntriesChecksum));
}

#[test]
fn a_disk_that_is_too_small_for_the_partitions_is_refused() {
    let mut head = table();
    let read = gpt::parse(&head, 512).unwrap().unwrap();
    let smallest = (30_000 + 34) * 512;
    assert!(matches!(
        gpt::complete(&mut head, &read, smallest - 512, Guid::default()),
        Err(GptError::DiskTooSmall { .. })
    ));
    let completion = gpt::complete(&mut head, &read, smallest, Guid::default()).unwrap();
    assert_eq!(completion.last_usable_lba, 30_000);
}

#[test]
fn a_partition_may_end_at_the_last_block_and_a_disk_have_no_more_than_its_tables() {
    let last = (16 << 20) / 512 - 34;
    let create = |last| gpt::create(16 << 20, 512, Guid([1; 16]), &[partition(1, "root", 2048, last)]);
    let (head, ..) = create(last).unwrap();
    assert_eq!(gpt::parse(&head, 512).unwrap().unwrap().partitions[0].size_bytes(512), (last - 2047) * 512);
    assert!(create(last + 1).is_err());
    // The first MiB, and at the end 32 blocks of entries and the header.
    let empty = |blocks: u64| gpt::create(blocks * 512, 512, Guid([1; 16]), &[]);
    assert!(empty(2048 + 32 + 1).is_ok());
    assert!(matches!(empty(2048 + 32), Err(GptError::DiskTooSmall { blocks: 2080, .. })));
}

/// The same table with some header field changed and the checksum made right again.
fn with_field(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut head = table();
    head[512 + at..512 + at + bytes.len()].copy_from_slice(bytes);
    let length = u32::from_le_bytes(head[512 + 12..512 + 16].try_into().unwrap()) as usize;
    if let Some(header) = head.get(512..512 + length).filter(|header| header.len() >= 92) {
        let mut header = header.to_vec();
        header[16..20].fill(0);
        let checksum = crc32fast::hash(&header);
        head[512 + 16..512 + 20].copy_from_slice(&checksum.to_le_bytes());
    }
    head
}

#[test]
fn fields_that_point_nowhere_are_refused() {
    for (at, value) in
        [(24, 2_u64), (24, u64::MAX), (40, 5000), (48, 5000), (72, 0), (72, 1), (72, 2000), (72, u64::MAX)]
    {
        let result = gpt::parse(&with_field(at, &value.to_le_bytes()), 512);
        assert!(result.is_err(), "field at {at} with {value}: {result:?}");
    }
    for (at, value) in
        [(12, 0_u32), (12, 91), (12, 513), (12, u32::MAX), (80, 0), (80, u32::MAX), (84, 64), (84, 129), (84, 8192)]
    {
        let result = gpt::parse(&with_field(at, &value.to_le_bytes()), 512);
        assert!(result.is_err(), "field at {at} with {value}: {result:?}");
    }
}

proptest! {
    #[test]
    fn tables_never_panic(
        at in 0_usize..92,
        field in prop::collection::vec(any::<u8>(), 1..9),
        entries in prop::collection::vec((0_usize..128, any::<u64>(), any::<u64>()), 0..3),
        kept in 0_usize..MIB,
    ) {
        let mut bytes = with_field(at, &field);
        gpt::check(&bytes);
        for (entry, first, last) in entries {
            let place = 1024 + entry * 128;
            bytes[place] = 1;
            bytes[place + 32..place + 40].copy_from_slice(&first.to_le_bytes());
            bytes[place + 40..place + 48].copy_from_slice(&last.to_le_bytes());
        }
        let entries_crc = crc32fast::hash(&bytes[1024..1024 + 128 * 128]);
        bytes[512 + 88..512 + 92].copy_from_slice(&entries_crc.to_le_bytes());
        let mut header = bytes[512..604].to_vec();
        header[16..20].fill(0);
        bytes[512 + 16..512 + 20].copy_from_slice(&crc32fast::hash(&header).to_le_bytes());
        gpt::check(&bytes);
        gpt::check(&bytes[..kept]);
    }

    #[test]
    fn signatures_and_boot_sectors_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        signature::check(&bytes);
        drop(mbr::parse(&bytes));
    }
}
