//! One more partition on a disk that was written: where it goes, and that nothing else changes.

use firesteel_facts::Guid;
use firesteel_images::write::gpt::{self, GptTable, Partition};
use firesteel_images::write::partition::{AddError, NewPartition, add, fill, place};
use proptest::prelude::*;

use crate::disks::{Fault, TestDisk, partition};

const MIB: u64 = 1 << 20;

fn wanted(mib: u64) -> NewPartition {
    let type_guid = "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7".parse().unwrap();
    NewPartition { name: "config-2".into(), type_guid, guid: Guid([7; 16]), size_bytes: mib * MIB }
}

/// The tables of a disk of so many MiB with these partitions: number, first and last MiB (inclusive).
fn made(mib: u64, block_bytes: u32, partitions: &[(u32, u64, u64)]) -> (Vec<u8>, u64, Vec<u8>) {
    let blocks = MIB / u64::from(block_bytes);
    let made: Vec<Partition> = partitions
        .iter()
        .map(|(number, first, last)| partition(*number, "old", first * blocks, (last + 1) * blocks - 1))
        .collect();
    gpt::create(mib * MIB, block_bytes, Guid([1; 16]), &made).unwrap()
}

fn table(mib: u64, partitions: &[(u32, u64, u64)]) -> GptTable {
    gpt::parse(&made(mib, 512, partitions).0, 512).unwrap().unwrap()
}

fn disk(mib: u64, block_bytes: u32, partitions: &[(u32, u64, u64)], faults: &[Fault]) -> (TestDisk, GptTable) {
    let (head, backup_at, backup) = made(mib, block_bytes, partitions);
    let bytes = usize::try_from(mib * MIB).unwrap();
    let disk = TestDisk::new(bytes, block_bytes, faults);
    disk.put(0, &head);
    disk.put(usize::try_from(backup_at).unwrap(), &backup);
    (disk, gpt::parse(&head, block_bytes).unwrap().unwrap())
}

/// Both tables as they stand on a disk.
fn tables(disk: &TestDisk, block_bytes: u32) -> (GptTable, GptTable) {
    let (bytes, block) = (disk.bytes(), block_bytes as usize);
    let primary = gpt::parse(&bytes, block_bytes).unwrap().unwrap();
    let last = bytes.len() / block - 1;
    let backup = gpt::parse_backup_header(&bytes[last * block..], last as u64, block_bytes).unwrap().unwrap();
    let entries = usize::try_from(backup.entries_lba).unwrap() * block;
    let backup = backup.with_entries(&bytes[entries..]).unwrap();
    (primary, backup)
}

#[test]
fn it_stands_at_the_end_in_both_tables_and_holds_its_content() {
    for block_bytes in [512, 4096] {
        let (disk, table) = disk(128, block_bytes, &[(1, 1, 10), (4, 11, 20)], &[]);
        let before = disk.bytes();
        let content = vec![0x5a; 10_000];
        let (made, found) = add(&disk, &table, &wanted(64), &content).unwrap();
        assert!(found == content);
        // Up to the last whole MiB before the backup table.
        assert_eq!((made.number, made.offset_bytes(block_bytes)), (2, 63 * MIB));
        assert_eq!(made.size_bytes(block_bytes), 64 * MIB);
        let (primary, backup) = tables(&disk, block_bytes);
        assert_eq!(primary.partitions, backup.partitions);
        assert_eq!((primary.disk_guid, primary.last_usable_lba), (table.disk_guid, table.last_usable_lba));
        let names: Vec<_> = primary.partitions.iter().map(|one| (one.number, one.name.as_str())).collect();
        assert_eq!(names, [(1, "old"), (2, "config-2"), (4, "old")]);
        let after = disk.bytes();
        let own = usize::try_from(63 * MIB).unwrap();
        assert!(after[own..own + content.len()] == content);
        let edge = 1 << 20;
        let end = own + (64 << 20);
        assert!(after[edge..own] == before[edge..own], "what others hold is not touched");
        let is_clear = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        assert!(is_clear(&after[own + content.len()..own + edge]) && is_clear(&after[end - edge..end]));
        assert!(after[own + edge..end - edge] == before[own + edge..end - edge], "what is not used is not written");
    }
}

#[test]
fn without_space_nothing_is_written() {
    let (disk, table) = disk(128, 512, &[(1, 1, 30), (2, 60, 126)], &[]);
    let error = add(&disk, &table, &wanted(64), &[1; 512]).unwrap_err();
    let AddError::NoSpace { largest, .. } = error else { panic!("{error:?}") };
    assert_eq!(largest, 29 * MIB, "the gap between the two");
    assert!(error.to_string().contains("no free space of 67108864 bytes"), "{error}");
    assert_eq!(disk.writes(), 0);
}

#[test]
fn a_gap_before_the_end_will_do() {
    let table = table(256, &[(1, 1, 10), (2, 200, 254)]);
    let made = place(&table, &wanted(64)).unwrap();
    assert_eq!((made.offset_bytes(512) / MIB, made.number), (136, 3));
}

#[test]
fn a_content_larger_than_its_partition_is_refused_before_anything_is_written() {
    let (disk, table) = disk(16, 512, &[(1, 1, 2)], &[]);
    let error = fill(&disk, &table, &table.partitions[0], &vec![1; (2 << 20) + 1]).unwrap_err();
    assert!(matches!(error, AddError::Content { size_bytes: 2_097_152, .. }), "{error}");
    assert_eq!(disk.writes(), 0);
    let whole = vec![0x5a; 2 << 20];
    assert_eq!(fill(&disk, &table, &table.partitions[0], &whole).unwrap(), whole, "it may be as large");
    assert!(disk.bytes()[1 << 20..3 << 20] == whole);
}

#[test]
fn what_the_disk_did_not_keep_is_named_by_its_place() {
    let own = 63 * MIB;
    for (fault, place) in [
        (Fault::ReadsWrong(own + 100), own + 100),
        (Fault::Drops(own + 100), own),
        (Fault::ReadsWrong(own + 64 * MIB - 1), own + 64 * MIB - 1),
    ] {
        let (disk, table) = disk(128, 512, &[(1, 1, 10)], &[fault]);
        let error = add(&disk, &table, &wanted(64), &[0x5a; 4096]).unwrap_err();
        assert!(matches!(error, AddError::Differs { offset } if offset == place), "{fault:?}: {error:?}");
    }
}

#[test]
fn a_disk_that_forgets_or_lies_is_caught() {
    let own = 63 * MIB;
    let backup = 128 * MIB - 600;
    for fault in [
        Fault::Drops(own + 100),
        Fault::ReadsWrong(own + 100),
        Fault::WriteError(own),
        Fault::Drops(own + 64 * MIB - 1),
        Fault::Drops(backup),
        Fault::WriteError(backup),
        Fault::Drops(520),
        Fault::FlushError,
        Fault::PowerLoss(1),
        Fault::PowerLoss(2),
    ] {
        let (disk, table) = disk(128, 512, &[(1, 1, 10)], &[fault]);
        let error = add(&disk, &table, &wanted(64), &[0x5a; 4096]);
        assert!(error.is_err(), "{fault:?} was not noticed");
        let primary = gpt::parse(&disk.bytes(), 512);
        assert!(primary.is_ok_and(|table| table.is_some()), "{fault:?} left a table that nobody can read");
    }
}

#[test]
fn a_full_table_takes_no_more() {
    let partitions: Vec<(u32, u64, u64)> =
        (0..128).map(|index| (index + 1, u64::from(index) + 1, u64::from(index) + 1)).collect();
    let table = table(256, &partitions);
    assert!(matches!(place(&table, &wanted(64)), Err(AddError::Table { .. })));
}

proptest! {
    /// Whatever is there, the new partition lies in the usable area, over no other, at a whole MiB.
    #[test]
    fn it_never_lies_over_another(marks in prop::collection::btree_set(1_u64..250, 0..20), mib in 1_u64..80) {
        let marks: Vec<u64> = marks.into_iter().collect();
        let pairs: Vec<(u32, u64, u64)> = marks.chunks_exact(2).zip(1..).map(|(pair, number)| (number, pair[0], pair[1] - 1)).collect();
        let table = table(256, &pairs);
        let free = |at: u64| !pairs.iter().any(|(_, first, last)| (*first..=*last).contains(&at));
        match place(&table, &wanted(mib)) {
            Ok(made) => {
                let first = made.offset_bytes(512) / MIB;
                prop_assert_eq!(made.offset_bytes(512) % MIB, 0);
                prop_assert_eq!(made.size_bytes(512), mib * MIB);
                prop_assert!(made.first_lba >= table.first_usable_lba && made.last_lba <= table.last_usable_lba);
                prop_assert!((first..first + mib).all(free));
            }
            Err(_) => {
                let has_room = (1..=255 - mib).any(|first| (first..first + mib).all(free));
                prop_assert!(!has_room, "there was room");
            }
        }
    }
}
