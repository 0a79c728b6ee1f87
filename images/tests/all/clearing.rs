//! What a disk held before: found in every partition, cleared, and proven to be gone. The rest of the disk stays.

use std::cell::RefCell;
use std::ops::Range;

use firesteel_facts::Guid;
use firesteel_images::write::gpt::GptError;
use firesteel_images::write::{
    Aborted, ClearError, ReadTableError, Unattended, WritableDisk, WriteControl, WritePhase, WriteProgress, gpt,
    metadata, read_table,
};

use crate::disks::{Fault, TestDisk, partition};

const MIB: usize = 1 << 20;

/// What is found on a disk, as people read it.
fn names(disk: &TestDisk) -> Vec<String> {
    let found = metadata::inspect(&*disk.reader().unwrap(), disk.size_bytes(), disk.block_bytes());
    found.iter().map(ToString::to_string).collect()
}

/// A disk of zeros with a GPT.
fn gpt_disk(bytes: usize, partitions: &[gpt::Partition], faults: &[Fault]) -> TestDisk {
    let disk = TestDisk::new(bytes, 512, faults);
    disk.put(0, &vec![0; bytes]);
    let (head, backup_offset, backup) = gpt::create(bytes as u64, 512, Guid([1; 16]), partitions).unwrap();
    disk.put(0, &head);
    disk.put(usize::try_from(backup_offset).unwrap(), &backup);
    disk
}

/// A sector with a classic table: kind, first block and blocks of each entry.
fn classic_sector(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut sector = vec![0; 512];
    for (index, (kind, first, blocks)) in entries.iter().enumerate() {
        sector[446 + index * 16 + 4] = *kind;
        sector[446 + index * 16 + 8..446 + index * 16 + 12].copy_from_slice(&first.to_le_bytes());
        sector[446 + index * 16 + 12..446 + index * 16 + 16].copy_from_slice(&blocks.to_le_bytes());
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// Notes all progress.
#[derive(Default)]
struct Noted(RefCell<Vec<WriteProgress>>);

impl WriteControl for Noted {
    fn checkpoint(&self, progress: WriteProgress) -> Result<(), Aborted> {
        self.0.borrow_mut().push(progress);
        Ok(())
    }
}

/// The disk of the next two tests: partitions from 1 MiB and from 10 MiB on.
fn disk_of_many_signatures() -> TestDisk {
    let disk = gpt_disk(96 * MIB, &[partition(1, "a", 2048, 20_479), partition(2, "b", 20_480, 180_000)], &[]);
    let (first, second) = (MIB, 10 * MIB);
    disk.put(first + 0x438, &[0x53, 0xef]);
    disk.put(first + 0x460, &[0x40]);
    disk.put(second, b"XFSB");
    disk.put(second + 512 + 24, b"LVM2 001");
    disk.put(second + (64 << 20) + 64, b"_BHRfS_M");
    // md 0.90 at the end of the first partition (9 MiB long), md 1.0 at the end of the second.
    disk.put(first + 9 * MIB - 0x1_0000, &[0xfc, 0x4e, 0x2b, 0xa9]);
    disk.put(second + 159_504 * 512, &[0xfc, 0x4e, 0x2b, 0xa9]);
    disk
}

#[test]
fn old_signatures_are_found_and_cleared_in_every_partition() {
    let disk = disk_of_many_signatures();
    let expected = [
        "gpt at 512",
        "ext4 at 1049656",
        "linux_raid_member at 10420224",
        "xfs at 10485760",
        "LVM2_member at 10486296",
        "btrfs at 77594688",
        "linux_raid_member at 92151808",
        "gpt at 100662784",
    ];
    assert_eq!(names(&disk), expected);
    let cleared = metadata::clear(&disk, &Unattended).unwrap();
    assert_eq!(cleared.names(), expected);
    assert_eq!(names(&disk), Vec::<String>::new());
    // Again: nothing left to find, and that is no error.
    let again = metadata::clear(&disk, &Unattended).unwrap();
    assert_eq!((again.found, again.verified_bytes), (vec![], 2 << 20));
}

#[test]
fn clearing_says_how_far_it_is_and_spares_what_holds_no_signature() {
    let disk = disk_of_many_signatures();
    // Data between the edges of both partitions.
    disk.put(3 * MIB, &vec![0xd1; 5 * MIB]);
    disk.put(12 * MIB, &vec![0xd1; 50 * MIB]);
    disk.put(74 * MIB + 4096, &vec![0xd1; 8 * MIB]);
    let before = disk.bytes();
    let control = Noted::default();
    let cleared = metadata::clear(&disk, &control).unwrap();
    // The tables go last. The second partition ends in the middle of 4 KiB.
    let end = 180_001 * 512;
    let areas: [Range<usize>; 6] = [
        MIB..2 * MIB,
        9 * MIB..11 * MIB,
        74 * MIB..74 * MIB + 4096,
        (end - MIB) / 4096 * 4096..end.next_multiple_of(4096),
        0..MIB,
        95 * MIB..96 * MIB,
    ];
    let mut steps = vec![0];
    steps.extend(areas.iter().scan(0, |sum, area| {
        *sum += area.len() as u64;
        Some(*sum)
    }));
    let total_bytes = steps[6];
    let progress =
        |done_bytes: &u64| WriteProgress { phase: WritePhase::Clearing, done_bytes: *done_bytes, total_bytes };
    assert_eq!(control.0.into_inner(), steps.iter().map(progress).collect::<Vec<_>>());
    assert_eq!(cleared.verified_bytes, total_bytes);
    let mut expected = before;
    for area in areas {
        expected[area].fill(0);
    }
    assert!(disk.bytes() == expected, "more or less was cleared");
}

/// Of a disk whose start was overwritten, the backup still says where the partitions were.
#[test]
fn the_backup_table_leads_to_the_partitions_too() {
    let disk = gpt_disk(32 * MIB, &[partition(1, "a", 20_480, 40_959)], &[]);
    disk.put(10 * MIB, b"XFSB");
    disk.put(0, &vec![0; MIB]);
    assert_eq!(names(&disk), ["xfs at 10485760", "gpt at 33553920"]);
    metadata::clear(&disk, &Unattended).unwrap();
    assert_eq!(disk.bytes()[10 * MIB..][..4], [0; 4]);
    // Damaged entries lead nowhere, and the header is still something that firmware looks at.
    let disk = gpt_disk(32 * MIB, &[partition(1, "a", 20_480, 40_959)], &[]);
    disk.put(10 * MIB, b"XFSB");
    disk.put(0, &vec![0; MIB]);
    disk.put(32 * MIB - 33 * 512, &[7; 16]);
    assert_eq!(names(&disk), ["gpt at 33553920"]);
}

#[test]
fn an_edge_that_cannot_be_read_is_named_by_where_it_begins() {
    let faults = [Fault::ReadError((10 << 20) + 5), Fault::ReadError((30 << 20) - 5)];
    let disk = gpt_disk(64 * MIB, &[partition(1, "a", 20_480, 61_439)], &faults);
    assert_eq!(names(&disk), ["gpt at 512", "unreadable at 10485760", "unreadable at 30408704", "gpt at 67108352"]);
}

#[test]
fn logical_partitions_are_followed_but_not_in_circles() {
    let disk = TestDisk::new(64 * MIB, 512, &[]);
    disk.put(0, &vec![0; 64 * MIB]);
    disk.put(0, &classic_sector(&[(0x05, 20_000, 80_000)]));
    // Each link points to the other.
    disk.put(20_000 * 512, &classic_sector(&[(0x83, 63, 8192), (0x05, 10_000, 10_000)]));
    disk.put(30_000 * 512, &classic_sector(&[(0x83, 63, 8192), (0x05, 0, 10_000)]));
    disk.put((30_000 + 63) * 512, b"XFSB");
    let cleared = metadata::clear(&disk, &Unattended).unwrap();
    assert_eq!(cleared.names(), ["dos at 510", "xfs at 15392256"]);
    assert_eq!(disk.bytes()[(30_000 + 63) * 512..][..4], [0; 4]);
}

/// The link in the disk's last block is one, and a link behind the disk ends the chain.
#[test]
fn a_chain_may_go_through_the_last_block() {
    for (second, expected) in [(111_071, vec!["dos at 510", "xfs at 15392256"]), (111_072, vec!["dos at 510"])] {
        let disk = TestDisk::new(64 * MIB, 512, &[]);
        disk.put(0, &vec![0; 64 * MIB]);
        disk.put(0, &classic_sector(&[(0x0f, 20_000, 80_000)]));
        disk.put(20_000 * 512, &classic_sector(&[(0x83, 63, 100), (0x85, second, 1)]));
        disk.put(64 * MIB - 512, &classic_sector(&[(0x05, 10_000, 10_000)]));
        disk.put(30_000 * 512, &classic_sector(&[(0x83, 63, 8192)]));
        disk.put((30_000 + 63) * 512, b"XFSB");
        assert_eq!(names(&disk), expected, "{second}");
    }
}

#[test]
fn what_is_not_cleared_is_named_by_its_place() {
    for place in [700, (23 << 20) + 900] {
        let disk = TestDisk::new(24 * MIB, 512, &[Fault::ReadsWrong(place)]);
        disk.put(0, &vec![0; 24 * MIB]);
        let error = metadata::clear(&disk, &Unattended).unwrap_err();
        assert!(matches!(error, ClearError::NotZero { offset } if offset == place), "{place}: {error:?}");
    }
}

#[test]
fn a_table_is_read_from_a_disk_or_is_said_to_be_absent_or_damaged() {
    let read = |disk: &TestDisk| read_table(&*disk.reader().unwrap(), disk.size_bytes(), disk.block_bytes());
    let parts = [partition(1, "a", 2048, 4095), partition(2, "b", 4096, 8191)];
    let disk = gpt_disk(8 * MIB, &parts, &[]);
    assert_eq!(read(&disk).unwrap().unwrap().partitions, parts);
    disk.put(1024, &[7]);
    let damaged = read(&disk);
    assert!(matches!(damaged, Err(ReadTableError::Damaged { source: GptError::EntriesChecksum })), "{damaged:?}");
    assert!(read(&TestDisk::new(64 << 10, 512, &[])).unwrap().is_none(), "a disk smaller than a table's MiB");
    let unreadable = read(&gpt_disk(8 * MIB, &parts, &[Fault::ReadError(2000)]));
    assert!(matches!(unreadable, Err(ReadTableError::Read { .. })), "{unreadable:?}");
}
