#![allow(clippy::unwrap_used, reason = "tests")]
use firesteel_contents::DiskContents;
use firesteel_images::write::gpt::{self as images, Partition};

use super::super::{DiskSource, MemoryDisk, Scan, scan, tests::scan_disks};

const SIZE: usize = 32 << 20;
const LINUX: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";
const GPFS: &str = "37affc90-ef7d-4e96-91c3-2d7ae055b174";
const VMFS: &str = "aa31e02a-400f-11db-9590-000c2911d1b8";
const GUID: &str = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f";

fn partition(number: u32, kind: &str, first_mib: u64, mib: u64) -> Partition {
    Partition {
        number,
        name: String::new(),
        type_guid: kind.parse().unwrap(),
        guid: "11111111-2222-3333-4444-555555555555".parse().unwrap(),
        first_lba: first_mib * 2048,
        last_lba: (first_mib + mib) * 2048 - 1,
    }
}

fn with_table(partitions: &[Partition]) -> Vec<u8> {
    let (head, backup_at, backup) = images::create(SIZE as u64, 512, GUID.parse().unwrap(), partitions).unwrap();
    let mut bytes = vec![0; SIZE];
    bytes[..head.len()].copy_from_slice(&head);
    let at = usize::try_from(backup_at).unwrap();
    bytes[at..at + backup.len()].copy_from_slice(&backup);
    bytes
}

/// Checksums of the header at this block and of its entries, as they are now.
fn seal(bytes: &mut [u8], lba: usize) {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let at = lba * 512;
    let entries = word(bytes, at + 72) * 512;
    let length = word(bytes, at + 80) * word(bytes, at + 84);
    let sum = crc32fast::hash(&bytes[entries..entries + length]);
    bytes[at + 88..at + 92].copy_from_slice(&sum.to_le_bytes());
    bytes[at + 16..at + 20].fill(0);
    let sum = crc32fast::hash(&bytes[at..at + 92]);
    bytes[at + 16..at + 20].copy_from_slice(&sum.to_le_bytes());
}

fn one(bytes: &[u8]) -> Scan {
    scan_disks(&[bytes]).remove(0)
}

fn texts(contents: &DiskContents) -> Vec<String> {
    contents.findings.iter().map(|found| format!("{}: {found}", found.place)).collect()
}

fn entry(kind: u8, first: u32, blocks: u32) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, kind, 0, 0, 0];
    bytes.extend(first.to_le_bytes());
    bytes.extend(blocks.to_le_bytes());
    bytes
}

fn classic(bytes: &mut [u8], at: usize, entries: &[Vec<u8>]) {
    for (index, entry) in entries.iter().enumerate() {
        bytes[at + 446 + 16 * index..at + 462 + 16 * index].copy_from_slice(entry);
    }
    bytes[at + 510..at + 512].copy_from_slice(&[0x55, 0xaa]);
}

#[test]
fn partitions_are_looked_at_by_content_and_by_type() {
    let mut bytes = with_table(&[partition(1, LINUX, 1, 4), partition(2, GPFS, 5, 4), partition(3, VMFS, 9, 8)]);
    let gfs2 = (1 << 20) + (64 << 10);
    bytes[gfs2..gfs2 + 8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
    let vmfs = (9 << 20) + (1 << 20);
    bytes[vmfs..vmfs + 4].copy_from_slice(&[0x0d, 0xd0, 0x01, 0xc0]);
    bytes[vmfs + 0x12..vmfs + 0x15].copy_from_slice(b"LUN");
    let scan = one(&bytes);
    assert_eq!(texts(&scan.contents), ["partition 1: GFS2", "partition 2: GPFS", "partition 3: VMFS \"LUN\""]);
    assert!(scan.contents.unread.is_empty(), "{:?}", scan.contents);
    assert_eq!((scan.contents.guid.as_str(), scan.looked.len()), (GUID, 4));
    assert_eq!(scan.contents.plain[0].name, "gpt");
}

#[test]
fn a_partition_where_no_partition_may_be_is_looked_at() {
    let mut bytes = with_table(&[partition(1, VMFS, 1, 4)]);
    // Its first usable block is behind the partition.
    for lba in [1, SIZE / 512 - 1] {
        bytes[lba * 512 + 40..lba * 512 + 48].copy_from_slice(&4096_u64.to_le_bytes());
        seal(&mut bytes, lba);
    }
    assert!(images::parse(&bytes[..1 << 20], 512).is_err(), "the reader of images refuses it");
    assert_eq!(texts(&one(&bytes).contents), ["partition 1: VMFS"]);
}

#[test]
fn entries_are_judged_one_by_one() {
    let mut bytes = with_table(&[partition(1, VMFS, 1, 4), partition(2, LINUX, 5, 4)]);
    bytes[1024 + 128 + 32..1024 + 128 + 40].copy_from_slice(&(1_u64 << 63).to_le_bytes());
    seal(&mut bytes, 1);
    let scan = one(&bytes);
    assert_eq!(texts(&scan.contents), ["partition 1: VMFS"]);
    assert!(scan.contents.unread[0].why.contains("outside of the disk"), "{:?}", scan.contents);
}

#[test]
fn many_entries_are_read() {
    let mut bytes = with_table(&[]);
    bytes[512 + 80..512 + 84].copy_from_slice(&2048_u32.to_le_bytes());
    let at = 1024 + 1999 * 128;
    let vmfs = with_table(&[partition(1, VMFS, 8, 4)]);
    bytes[at..at + 128].copy_from_slice(&vmfs[1024..1152]);
    seal(&mut bytes, 1);
    let scan = one(&bytes);
    assert_eq!(texts(&scan.contents), ["partition 2000: VMFS"]);
    assert!(scan.contents.unread.is_empty(), "{:?}", scan.contents);
}

#[test]
fn the_second_copy_counts_at_the_end_and_in_mid_disk() {
    let whole = with_table(&[partition(1, GPFS, 1, 4)]);
    let mut bytes = whole.clone();
    bytes[512 + 60] ^= 0xff;
    let damaged = one(&bytes);
    assert!(texts(&damaged.contents)[0].ends_with("GPFS"));
    assert!(damaged.contents.unread.is_empty(), "one copy is sound: {:?}", damaged.contents);
    assert_eq!(damaged.contents.guid, GUID, "that of the sound one");
    bytes[..1 << 20].fill(0);
    assert!(texts(&one(&bytes).contents)[0].ends_with("GPFS"));
    // A disk that grew: its end is elsewhere now, and the header or the protective entry says where it was.
    for lost in [512..1024, 446..462] {
        let mut grown = whole.clone();
        grown.resize(SIZE + (8 << 20), 0);
        grown[600] ^= 0xff;
        grown[lost].fill(0);
        let scan = one(&grown);
        assert!(texts(&scan.contents).iter().any(|text| text.ends_with("GPFS")), "{:?}", scan.contents);
    }
}

#[test]
fn a_signature_without_a_sound_table_is_not_understood_and_a_lost_table_is_nothing() {
    let whole = with_table(&[partition(1, LINUX, 1, 4)]);
    for at in [512 + 16, 512 + 24, 512 + 56, 512 + 72, 512 + 80, 512 + 84, 512 + 88, 1024 + 32] {
        let mut bytes = whole.clone();
        bytes[SIZE - 512..].fill(0);
        bytes[at] ^= 0x55;
        let scan = one(&bytes);
        assert_eq!(scan.contents.unread.len(), 1, "byte {at}: {:?}", scan.contents);
    }
    let mut bytes = whole.clone();
    bytes[512..1024].fill(0);
    bytes[SIZE - 512..].fill(0);
    assert!(one(&bytes).contents.unread[0].why.contains("protective"), "{:?}", one(&bytes).contents);
    // An interrupted write must not leave the disk stuck.
    bytes[..512].fill(0);
    assert!(one(&bytes).contents.is_blank(), "{:?}", one(&bytes).contents);
}

#[test]
fn a_header_of_extremes_is_read_within_bounds() {
    for (at, bytes) in [(80, [0xff; 8]), (80, [1, 0, 0, 0, 0, 0, 0, 0x80]), (72, [0xff; 8]), (80, [0; 8])] {
        let mut disk = with_table(&[partition(1, VMFS, 1, 4)]);
        disk[SIZE - 512..].fill(0);
        disk[512 + at..512 + at + 8].copy_from_slice(&bytes);
        let scan = one(&disk);
        assert_eq!(scan.contents.unread.len(), 1, "{:?}", scan.contents);
    }
}

#[test]
fn tables_for_the_other_block_size_are_read() {
    let guid = GUID.parse().unwrap();
    let partition = Partition { first_lba: 256, last_lba: 1279, ..partition(1, VMFS, 1, 4) };
    let (head, backup_at, backup) = images::create(SIZE as u64, 4096, guid, &[partition]).unwrap();
    let mut bytes = vec![0; SIZE];
    bytes[..head.len()].copy_from_slice(&head);
    let at = usize::try_from(backup_at).unwrap();
    bytes[at..at + backup.len()].copy_from_slice(&backup);
    assert_eq!(texts(&one(&bytes).contents), ["partition 1: VMFS"]);
    let memory = MemoryDisk(&bytes);
    let source = DiskSource { reader: &memory, size_bytes: SIZE as u64, block_bytes: 4096, partitions: vec![] };
    assert_eq!(texts(&scan(&source).contents), ["partition 1: VMFS"]);
}

#[test]
fn classic_tables_too_also_beside_a_protective_entry() {
    let mut bytes = vec![0; SIZE];
    classic(&mut bytes, 0, &[entry(0xfb, 2048, 0x4000)]);
    assert_eq!(texts(&one(&bytes).contents), ["partition 1: VMFS"]);
    let mut hybrid = with_table(&[partition(1, LINUX, 1, 4)]);
    classic(&mut hybrid, 0, &[entry(0xee, 1, 2047), entry(0xfb, 20_480, 0x4000)]);
    assert_eq!(texts(&one(&hybrid).contents), ["partition 2 (classic table): VMFS"]);
    // A hybrid one whose first GPT is lost: the second copy and the classic entries both count.
    let mut lost = with_table(&[partition(1, GPFS, 1, 4)]);
    classic(&mut lost, 0, &[entry(0xee, 1, 2047), entry(0x83, 20_480, 0x4000)]);
    lost[512..1024].fill(0);
    assert!(texts(&one(&lost).contents).iter().any(|text| text.ends_with("GPFS")));
}

#[test]
fn a_table_without_its_two_last_bytes_or_with_an_odd_flag_is_looked_into() {
    let mut bytes = vec![0; SIZE];
    classic(&mut bytes, 0, &[entry(0xfb, 2048, 0x4000)]);
    bytes[510..512].fill(0);
    assert_eq!(texts(&one(&bytes).contents), ["partition 1: VMFS"]);
    let mut odd = vec![0; SIZE];
    classic(&mut odd, 0, &[entry(0x83, 2048, 0x4000), entry(0xfb, 20_480, 0x4000)]);
    odd[446] = 0x17;
    assert_eq!(texts(&one(&odd).contents), ["partition 2: VMFS"]);
    // The boot sector of a filesystem has code there.
    let mut boot = odd;
    boot[3..11].copy_from_slice(b"NTFS    ");
    assert!(texts(&one(&boot).contents).is_empty());
}

#[test]
fn logical_partitions_are_followed_and_a_circle_of_them_ends() {
    let mut bytes = vec![0; SIZE];
    // An extended partition from 1 MiB; its second link is at 9 MiB, and names itself as the next one.
    classic(&mut bytes, 0, &[entry(0x05, 2048, 50_000)]);
    classic(&mut bytes, 1 << 20, &[entry(0x83, 2048, 8192), entry(0x05, 16_384, 8192)]);
    classic(&mut bytes, 9 << 20, &[entry(0xfb, 2048, 8192), entry(0x05, 16_384, 8192)]);
    let gfs2 = (2 << 20) + (64 << 10);
    bytes[gfs2..gfs2 + 8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
    let scan = one(&bytes);
    assert_eq!(texts(&scan.contents), ["partition 5: GFS2", "partition 6: VMFS"]);
    let why = "a chain of logical partitions that runs in a circle at block 18432";
    assert_eq!(scan.contents.unread[0].why, why);
}

#[test]
fn the_two_hundredth_logical_partition_is_looked_at() {
    let mut bytes = vec![0; SIZE];
    classic(&mut bytes, 0, &[entry(0x0f, 2048, 60_000)]);
    for number in 0..200_u32 {
        let kind = if number == 199 { 0xfb } else { 0x83 };
        let next = if number == 199 { vec![0; 16] } else { entry(0x05, (number + 1) * 64, 64) };
        classic(&mut bytes, (1 << 20) + number as usize * 64 * 512, &[entry(kind, 8, 16), next]);
    }
    let scan = one(&bytes);
    assert_eq!(texts(&scan.contents), ["partition 204: VMFS"]);
    assert!(scan.contents.unread.is_empty(), "{:?}", scan.contents.unread);
    // Cut in the middle, what follows is not known.
    bytes[(1 << 20) + 100 * 64 * 512 + 510] = 0;
    let cut = one(&bytes);
    assert!(cut.contents.unread[0].why.contains("is cut"), "{:?}", cut.contents.unread);
}

#[test]
fn an_extended_partition_that_is_empty_is_ordinary() {
    let mut bytes = vec![0; SIZE];
    classic(&mut bytes, 0, &[entry(0x05, 2048, 50_000)]);
    assert!(one(&bytes).contents.unread.is_empty());
}

#[test]
fn the_kernels_own_list_counts() {
    let mut bytes = vec![0; SIZE];
    let vmfs = (3 << 20) + (1 << 20);
    bytes[vmfs..vmfs + 4].copy_from_slice(&[0x0d, 0xd0, 0x01, 0xc0]);
    let memory = MemoryDisk(&bytes);
    let partitions = vec![super::KernelPartition { number: 7, offset: 3 << 20, size_bytes: 8 << 20 }];
    let scan = scan(&DiskSource { reader: &memory, size_bytes: SIZE as u64, block_bytes: 512, partitions });
    assert_eq!(texts(&scan.contents), ["partition 7: VMFS"]);
}
