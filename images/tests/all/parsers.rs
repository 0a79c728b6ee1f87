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
    assert_eq!(empty(2048 + 32), Err(GptError::DiskTooSmall { needed: 2081, blocks: 2080 }));
    // The number of a partition is its entry, of which there are 128.
    for (number, is_taken) in [(0, false), (1, true), (128, true), (129, false)] {
        let made = gpt::create(16 << 20, 512, Guid([1; 16]), &[partition(number, "root", 2048, 4095)]);
        match made {
            Ok((head, ..)) => {
                assert!(is_taken && gpt::parse(&head, 512).unwrap().unwrap().partitions[0].number == number)
            }
            Err(error) => assert!(!is_taken && error == GptError::EntryShape { count: number, bytes: 128 }, "{error}"),
        }
    }
}

#[test]
fn a_new_table_says_where_everything_is() {
    for (block_bytes, first_usable, last_usable) in [(512, 34, 32_734), (4096, 6, 4090)] {
        let parts = [partition(1, "boot", first_usable, first_usable), partition(128, "root", 3000, last_usable)];
        let (head, backup_at, backup) = gpt::create(16 << 20, block_bytes, Guid([1; 16]), &parts).unwrap();
        let table = gpt::parse(&head, block_bytes).unwrap().unwrap();
        let last = (16 << 20) / u64::from(block_bytes) - 1;
        assert_eq!((table.disk_guid, table.block_bytes), (Guid([1; 16]), block_bytes));
        assert_eq!((table.first_usable_lba, table.last_usable_lba), (first_usable, last_usable));
        assert_eq!((table.entries_lba, table.alternate_lba), (2, last));
        assert_eq!((table.entry_count, table.entry_bytes), (128, 128));
        assert_eq!(table.partitions, parts);
        assert_eq!(backup_at, (last_usable + 1) * u64::from(block_bytes));
        assert_eq!(backup.len(), 16_384 + block_bytes as usize);
        // The protective entry is the only one, from block 1 to the disk's end.
        let mut entries = vec![0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0];
        entries.extend_from_slice(&u32::try_from(last).unwrap().to_le_bytes());
        entries.resize(64, 0);
        assert_eq!(head[446..510], entries);
        assert!(head[..446].iter().all(|&byte| byte == 0));
    }
}

/// Makes the checksums of a table right again.
fn sum_up(head: &mut [u8]) {
    let entries = crc32fast::hash(&head[1024..1024 + 128 * 128]);
    head[512 + 88..512 + 92].copy_from_slice(&entries.to_le_bytes());
    sum_up_header(head);
}

fn sum_up_header(head: &mut [u8]) {
    let length = u32::from_le_bytes(head[512 + 12..512 + 16].try_into().unwrap()) as usize;
    if let Some(header) = head.get(512..512 + length).filter(|header| header.len() >= 92) {
        let mut header = header.to_vec();
        header[16..20].fill(0);
        let checksum = crc32fast::hash(&header);
        head[512 + 16..512 + 20].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The same table with some header field changed and the checksum made right again.
fn with_field(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut head = table();
    head[512 + at..512 + at + bytes.len()].copy_from_slice(bytes);
    sum_up_header(&mut head);
    head
}

#[test]
fn fields_that_point_nowhere_are_refused() {
    let first = || Err(GptError::PartitionPlace { number: 1, first: 2048, last: 4095 });
    let third = || Err(GptError::PartitionPlace { number: 3, first: 4096, last: 30_000 });
    let entries = |lba| Err(GptError::EntriesPlace { lba });
    let wrong_place = |found| Err(GptError::WrongPlace { at: 1, found });
    let in_8_bytes: [(usize, u64, Result<(), GptError>); 17] = [
        (24, 2, wrong_place(2)),
        (24, 1 << 32 | 1, wrong_place(1 << 32 | 1)),
        (24, u64::MAX, wrong_place(u64::MAX)),
        (40, 33, entries(2)),
        (40, 34, Ok(())),
        (40, 2048, Ok(())),
        (40, 2049, first()),
        (40, 5000, first()),
        (48, 30_000, Ok(())),
        (48, 29_999, third()),
        (48, 5000, third()),
        (72, 0, entries(0)),
        (72, 1, entries(1)),
        (72, 2, Ok(())),
        (72, 3, entries(3)),
        (72, 2000, entries(2000)),
        (72, u64::MAX, entries(u64::MAX)),
    ];
    let length = |found| Err(GptError::HeaderLength { found });
    let shape = |count, bytes| Err(GptError::EntryShape { count, bytes });
    let in_4_bytes: [(usize, u32, Result<(), GptError>); 15] = [
        (12, 0, length(0)),
        (12, 91, length(91)),
        (12, 512, Ok(())),
        (12, 513, length(513)),
        (12, u32::MAX, length(u32::MAX)),
        (80, 0, shape(0, 128)),
        (80, 127, Err(GptError::EntriesChecksum)),
        // So many may be, but not before block 34.
        (80, 1024, entries(2)),
        (80, 1025, shape(1025, 128)),
        (80, u32::MAX, shape(u32::MAX, 128)),
        (84, 64, shape(128, 64)),
        (84, 129, shape(128, 129)),
        (84, 192, shape(128, 192)),
        (84, 4096, entries(2)),
        (84, 8192, shape(128, 8192)),
    ];
    let fields = in_8_bytes.into_iter().map(|(at, value, expected)| (at, value.to_le_bytes().to_vec(), expected));
    let fields =
        fields.chain(in_4_bytes.into_iter().map(|(at, value, wanted)| (at, value.to_le_bytes().to_vec(), wanted)));
    for (at, value, expected) in fields {
        let result = gpt::parse(&with_field(at, &value), 512).map(|table| assert!(table.is_some()));
        assert_eq!(result, expected, "field at {at} with {value:?}");
    }
}

#[test]
fn a_partition_is_at_least_a_block_in_the_usable_area() {
    for (first, last, is_taken) in [
        (34, 34, true),
        (33, 40, false),
        (32_734, 32_734, true),
        (32_734, 32_735, false),
        (5000, 4999, false),
        (0, u64::MAX, false),
    ] {
        // In the second entry, which is not used yet.
        let mut head = table();
        head[1024 + 128..1024 + 128 + 32].fill(5);
        head[1024 + 128 + 32..1024 + 128 + 40].copy_from_slice(&u64::to_le_bytes(first));
        head[1024 + 128 + 40..1024 + 128 + 48].copy_from_slice(&u64::to_le_bytes(last));
        sum_up(&mut head);
        let read = gpt::parse(&head, 512).map(|read| {
            let second = &read.unwrap().partitions[1];
            (second.number, second.first_lba, second.last_lba)
        });
        let outside = GptError::PartitionPlace { number: 2, first, last };
        assert_eq!(read, if is_taken { Ok((2, first, last)) } else { Err(outside) });

        // The same when it is added; the number of the asker counts only in the error.
        let (old, mut head) = (gpt::parse(&table(), 512).unwrap().unwrap(), table());
        let added = old.with_partition(&mut head, &partition(7, "new", first, last), 24 << 20);
        let added = added.map(|(new, _)| (new.partitions[1].number, new.partitions[1].first_lba, new.last_usable_lba));
        let outside = GptError::PartitionPlace { number: 7, first, last };
        // The table opens up to the end of the disk of 24 MiB.
        assert_eq!(added, if is_taken { Ok((2, first, 49_118)) } else { Err(outside) });
        assert_eq!(head == table(), !is_taken, "what is refused changes nothing");
    }
}

#[test]
fn letters_of_a_name_that_are_none_are_replaced() {
    let mut head = table();
    for (unit, place) in [0x41_u16, 0xd800, 0x0a, 0x42, 0, 0x43].iter().zip(head[1024 + 56..].chunks_exact_mut(2)) {
        place.copy_from_slice(&unit.to_le_bytes());
    }
    sum_up(&mut head);
    assert_eq!(gpt::parse(&head, 512).unwrap().unwrap().partitions[0].name, "A\u{fffd}\u{fffd}B");
}

/// The image's own backup is cleared only where it lies behind the last partition.
#[test]
fn a_backup_that_overlaps_a_partition_is_no_stale_one() {
    for (alternate, stale) in [
        (0, 0..0),
        (30_000, 0..0),
        (30_032, 0..0),
        (30_033, 30_001 * 512..30_034 * 512),
        (32_767, 32_735 * 512..32_768 * 512),
    ] {
        let mut head = with_field(32, &u64::to_le_bytes(alternate));
        let read = gpt::parse(&head, 512).unwrap().unwrap();
        let completion = gpt::complete(&mut head, &read, 24 << 20, Guid([2; 16])).unwrap();
        assert_eq!(completion.stale, stale, "{alternate}");
        assert_eq!((completion.last_usable_lba, completion.backup_offset), (49_118, 49_119 * 512));
    }
}

#[test]
fn the_protective_entry_covers_the_disk_and_a_hybrid_table_keeps_its_own() {
    let covered = |mbr: &[(usize, u8)], disk_bytes| {
        let mut head = table();
        for (at, byte) in mbr {
            head[*at] = *byte;
        }
        let before = head.clone();
        let read = gpt::parse(&head, 512).unwrap().unwrap();
        gpt::complete(&mut head, &read, disk_bytes, Guid([2; 16])).unwrap();
        let is_kept = head[..512] == before[..512];
        (is_kept, u32::from_le_bytes(head[458..462].try_into().unwrap()))
    };
    assert_eq!(covered(&[], 24 << 20), (false, 49_151));
    assert_eq!(covered(&[], 4 << 40), (false, u32::MAX), "as far as 32 bits reach");
    // A second entry in each place, another kind, and a sector that is no table.
    for entry in [462, 478, 494] {
        assert_eq!(covered(&[(entry + 4, 0x83)], 24 << 20), (true, 32_767), "{entry}");
    }
    assert_eq!(covered(&[(450, 0x83)], 24 << 20), (true, 32_767));
    assert_eq!(covered(&[(511, 0)], 24 << 20), (true, 32_767));
    // The same entry in another place.
    let (is_kept, _) = covered(&[(450, 0), (494 + 4, 0xee)], 24 << 20);
    assert!(!is_kept);
}

/// A sector with entries: flag, kind, first block and blocks.
fn classic(entries: &[(u8, u8, u32, u32)], is_signed: bool) -> Vec<u8> {
    let mut sector = vec![0; 512];
    for ((flag, kind, first, blocks), entry) in entries.iter().zip(sector[446..510].chunks_exact_mut(16)) {
        (entry[0], entry[4]) = (*flag, *kind);
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&blocks.to_le_bytes());
    }
    if is_signed {
        sector[510..].copy_from_slice(&mbr::SIGNATURE);
    }
    sector
}

/// What is read strictly, and what a guard reads, of the same sector: the first blocks of the used entries.
#[test]
fn a_classic_table_is_read_strictly_and_guarded_generously() {
    type Entries = Vec<(u8, u8, u32, u32)>;
    type First = Option<Vec<u64>>;
    let whole = (0x80, 0x83, 8, 100);
    let rows: [(Entries, bool, First, First); 15] = [
        (vec![], true, Some(vec![]), Some(vec![])),
        (vec![], false, None, None),
        (vec![whole, (0, 0x0f, 200, 50)], true, Some(vec![8, 200]), Some(vec![8, 200])),
        (vec![whole, (0, 0x0f, 200, 50)], false, None, Some(vec![8, 200])),
        // Unused: without a kind or without blocks.
        (vec![(0, 0, 8, 100), (0, 0x83, 8, 0), (0, 0x83, 0, 9)], true, Some(vec![0]), Some(vec![0])),
        (vec![whole, (0x80, 0, 0, 0)], false, None, Some(vec![8])),
        // Not what a table has.
        (vec![whole, (1, 0, 0, 0)], true, None, Some(vec![8])),
        (vec![whole, (1, 0, 0, 0)], false, None, None),
        (vec![whole, (0, 0x83, 9, 0)], true, Some(vec![8]), Some(vec![8])),
        (vec![whole, (0, 0x83, 9, 0)], false, None, None),
        (vec![whole, (0, 0x83, 0, 9)], false, None, None),
        (vec![whole, (0, 0, 9, 9)], false, None, None),
        (vec![whole, (0, 0, 0, 9)], false, None, None),
        (vec![whole, (0, 0, 9, 0)], false, None, None),
        (vec![(0x7f, 0x83, 8, 100)], true, None, Some(vec![8])),
    ];
    for (entries, is_signed, read, guarded) in rows {
        let sector = classic(&entries, is_signed);
        let firsts = |found: Vec<mbr::MbrEntry>| found.iter().map(|entry| entry.first).collect::<Vec<_>>();
        assert_eq!(mbr::parse(&sector).map(firsts), read, "{entries:?} {is_signed}");
        assert_eq!(mbr::entries(&sector).map(firsts), guarded, "{entries:?} {is_signed}");
        assert_eq!((mbr::parse(&sector[..511]), mbr::entries(&sector[..511])), (None, None));
    }
    let one = mbr::MbrEntry { flag: 0x80, kind: 0x83, first: 8, blocks: 100 };
    assert_eq!(mbr::parse(&classic(&[whole], true)), Some(vec![one]));
    for (kind, is_extended) in [(0x05, true), (0x0f, true), (0x85, true), (0x83, false), (0xee, false), (0, false)] {
        assert_eq!(mbr::MbrEntry { kind, ..one }.is_extended(), is_extended, "{kind:#x}");
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
        sum_up(&mut bytes);
        gpt::check(&bytes);
        gpt::check(&bytes[..kept]);
    }

    #[test]
    fn signatures_and_boot_sectors_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        signature::check(&bytes);
        drop(mbr::parse(&bytes));
    }
}
