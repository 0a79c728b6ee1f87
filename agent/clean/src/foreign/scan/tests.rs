use super::super::md::tests::{sealed, superblock};
use super::super::tests::scan_disks;
use super::super::{DiskSource, MemoryDisk, Scan, scan, scan_beside};

const SIZE: usize = 8 << 20;

fn texts(scan: &Scan) -> Vec<String> {
    scan.contents.findings.iter().map(|found| format!("{}: {found}", found.place)).collect()
}

/// A member of version 1.2 with its data behind 1 MiB.
fn member(level: i32, role: u8, members: u32) -> Vec<u8> {
    let mut bytes = superblock(8, "any:data");
    bytes.resize(258, 0);
    bytes[16] = 7;
    bytes[72..76].copy_from_slice(&level.to_le_bytes());
    let used: u64 = if level == 0 { 0 } else { 8000 };
    bytes[80..88].copy_from_slice(&used.to_le_bytes());
    bytes[88..92].copy_from_slice(&128_u32.to_le_bytes());
    bytes[92..96].copy_from_slice(&members.to_le_bytes());
    bytes[128..136].copy_from_slice(&2048_u64.to_le_bytes());
    bytes[136..144].copy_from_slice(&8192_u64.to_le_bytes());
    bytes[220] = 1;
    bytes[256] = role;
    let mut disk = vec![0; SIZE];
    disk[4096..4096 + 258].copy_from_slice(&sealed(bytes));
    disk
}

#[test]
fn what_cannot_be_read_is_said() {
    let short = vec![0; SIZE / 2];
    let memory = MemoryDisk(&short);
    let scan = scan(&DiskSource { reader: &memory, size_bytes: SIZE as u64, block_bytes: 512, partitions: vec![] });
    assert_eq!(scan.contents.unread.len(), 1, "{scan:?}");
    assert!(scan.contents.unread[0].failed && scan.contents.unread[0].place == "the disk");
    assert!(!scan.contents.is_blank());
}

#[test]
fn a_label_that_is_found_and_not_understood_is_both() {
    let mut imsm = vec![0; SIZE];
    imsm[SIZE - 1024..SIZE - 1000].copy_from_slice(b"Intel Raid ISM Cfg Sig. ");
    let mut altered = member(1, 0, 2);
    altered[4096 + 220] ^= 1;
    for bytes in [imsm, altered] {
        assert_eq!(scan_disks(&[&bytes])[0].contents.unread.len(), 1);
    }
}

#[test]
fn a_mirror_is_looked_into_on_each_member() {
    let mut bytes = member(1, 0, 2);
    bytes[1 << 20..(1 << 20) + 22].copy_from_slice(b"bluestore block device");
    let scan = &scan_disks(&[&bytes])[0];
    assert_eq!(texts(scan), ["the disk: md RAID \"data\"", "array \"data\": Ceph"]);
    assert!(scan.looked.iter().any(|looked| looked.size_bytes == 8000 * 512), "{:?}", scan.looked);
    let both = scan_disks(&[&bytes, &member(1, 1, 2)]);
    assert!(both.iter().all(|scan| scan.looked.iter().any(|looked| looked.place == "array \"data\"")));
}

#[test]
fn stripes_are_looked_into_with_all_members() {
    // VMFS's head is 1 MiB behind the start: chunk 16 of 64 KiB, the ninth on the first member.
    let (mut first, second) = (member(0, 0, 2), member(0, 1, 2));
    let at = (1 << 20) + 8 * (64 << 10);
    first[at..at + 4].copy_from_slice(&[0x0d, 0xd0, 0x01, 0xc0]);
    let both = scan_disks(&[&first, &second]);
    for scan in &both {
        assert!(texts(scan).contains(&"array \"data\": VMFS".to_owned()), "{:?}", texts(scan));
        assert!(!scan.is_partial);
    }
    assert!(scan_disks(&[&second])[0].is_partial);
}

#[test]
fn a_missing_part_may_lie_on_a_disk_that_cannot_be_read() {
    let first = member(0, 0, 2);
    let second = vec![0; SIZE / 2];
    let (whole, short) = (MemoryDisk(&first), MemoryDisk(&second));
    let source = |reader| DiskSource { reader, size_bytes: SIZE as u64, block_bytes: 512, partitions: vec![] };
    let mut scans = scan_beside(&[&source(&whole), &source(&short)]);
    let why = scans[1].failure().expect("half of it cannot be read").to_owned();
    let unreadable = [("/dev/sdb".to_owned(), why)];
    scans[0].remark_missing(&unreadable);
    let remarks = &scans[0].contents.unread;
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(!remarks[0].failed && remarks[0].why.contains("/dev/sdb, which could not be read"), "{remarks:?}");
    // Nothing is missing: what cannot be read elsewhere is of no weight.
    let mut complete = scan(&source(&MemoryDisk(&[0; SIZE])));
    complete.remark_missing(&unreadable);
    assert!(complete.contents.is_blank(), "{complete:?}");
}

#[test]
fn a_label_of_the_last_partition_is_not_one_of_the_whole_disk() {
    // A classic partition up to the disk's end, with a superblock 1.0: its place says that it is the partition's.
    let mut bytes = vec![0; SIZE];
    let first = 2048_u32;
    let blocks = u32::try_from(SIZE / 512).unwrap_or(0) - first;
    bytes[446 + 4] = 0xfd;
    bytes[446 + 8..446 + 12].copy_from_slice(&first.to_le_bytes());
    bytes[446 + 12..446 + 16].copy_from_slice(&blocks.to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    let at = SIZE - 8192;
    let sector = (at as u64) / 512 - u64::from(first);
    bytes[at..at + 256].copy_from_slice(&superblock(sector, "any:0"));
    let scan = &scan_disks(&[&bytes])[0];
    assert!(scan.contents.unread.is_empty(), "{:?}", scan.contents);
    assert_eq!(texts(scan)[0], "partition 1: md RAID \"0\"");
}
