//! Disks as the guard sees them: partition tables of any kind, superblocks and labels, logical volumes and arrays.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use firesteel_clean::foreign::{DiskSource, Scan, scan, scan_all};
use firesteel_contents::{OwnershipClaim, objections};
use firesteel_images::write::DiskReader;
use firesteel_sysfs::disks::KernelPartition;

/// Where tables and labels stand: the first bytes of each message are put there, on a disk of zeros.
const PLACES: [usize; 14] =
    [0, 446, 512, 1024, 2048, 4096, 5120, 8192, 16 << 10, 64 << 10, 128 << 10, 1 << 20, (1 << 20) + 4096, 2 << 20];
const DISK_BYTES: usize = 4 << 20;
const TAIL_BYTES: usize = 512 << 10;
/// A disk in memory is read once, or twice in pieces where a read fails.
const READ_BYTES_MAX: u64 = 4 * DISK_BYTES as u64;

/// A disk in memory that counts what is read of it.
pub(super) struct Counting {
    pub(super) bytes: Vec<u8>,
    pub(super) read: AtomicU64,
}

impl DiskReader for Counting {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = self.bytes.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

pub(super) fn check(input: &[u8]) {
    let (first, second) = (disk(input, 0), disk(input, 1));
    for block_bytes in [512, 4096] {
        let partitions = vec![KernelPartition { number: 1, offset: 1 << 20, size_bytes: 1 << 20 }];
        judge(&scan(&DiskSource { reader: &first, size_bytes: DISK_BYTES as u64, block_bytes, partitions }));
        let read = first.read.swap(0, Ordering::Relaxed);
        assert!(read <= READ_BYTES_MAX, "{read} bytes were read of a disk of {DISK_BYTES}");
    }
    let source =
        |reader| DiskSource { reader, size_bytes: DISK_BYTES as u64, block_bytes: 512, partitions: Vec::new() };
    let both = [source(&first as &dyn DiskReader), source(&second)];
    scan_all(&[&both[0], &both[1]]).iter().for_each(judge);
}

fn judge(scan: &Scan) {
    assert!(scan.looked.len() <= 1024);
    for looked in &scan.looked {
        let end = looked.offset.map_or(0, |offset| offset + looked.size_bytes);
        assert!(end <= DISK_BYTES as u64, "{looked:?}");
    }
    let contents = scan.contents.clone().bounded();
    contents.lines().iter().for_each(|line| super::assert_plain(line));
    let names = ["node-1".to_owned()];
    let strict = objections(&contents, OwnershipClaim { names: &names, ..OwnershipClaim::default() });
    let vacant = objections(&contents, OwnershipClaim { names: &names, was_vacant: true, ..OwnershipClaim::default() });
    assert!(vacant.iter().all(|reason| strict.contains(reason)), "vacancy adds no objection");
    assert!(contents.unread.is_empty() || !strict.is_empty() || names.contains(&contents.guid), "{contents:?}");
}

/// Each message is the number of a place and what stands there; every other one counts from the end. Those of the second
/// disk are the later ones.
fn disk(input: &[u8], number: usize) -> Counting {
    let mut bytes = vec![0; DISK_BYTES];
    for message in super::messages(input).skip(number * 4).take(8) {
        let Some((place, content)) = message.split_first() else { continue };
        let place = usize::from(*place);
        let at = PLACES[place / 2 % PLACES.len()];
        let at = if place % 2 == 0 { at } else { DISK_BYTES - at.clamp(512, TAIL_BYTES) };
        let end = (at + content.len()).min(DISK_BYTES);
        bytes[at..end].copy_from_slice(&content[..end - at]);
    }
    super::gpt::sum_up(&mut bytes);
    Counting { bytes, read: AtomicU64::new(0) }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut label = vec![0; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[20] = 32;
    label[24..32].copy_from_slice(b"LVM2 001");
    label[104..106].copy_from_slice(&4096_u16.to_le_bytes());
    label[113] = 0x20;
    let mut area = vec![0; 600];
    area[4..20].copy_from_slice(b" LVM2 x[5A%r0N*>");
    (area[41], area[48]) = (2, 60);
    area[512..541].copy_from_slice(b"vg {\nsystem_id = \"web-7\"\nx {\n");
    let mut array = vec![0; 256];
    array[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    array[32..38].copy_from_slice(b"nas:00");
    array[144] = 8;
    let mut lock = vec![0; 256];
    lock[..8].copy_from_slice(&[1, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
    lock[96..104].copy_from_slice(b"lock_dlm");
    let mut pool = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 36, 0, 0, 0, 36];
    pool.extend(b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0\x04tank\0\0\0\0\0\0\0\0\0\0\0\0");
    let mut links = vec![0; 66];
    links[4] = 5;
    links[8..16].copy_from_slice(&[0, 8, 0, 0, 0, 16, 0, 0]);
    links[64..].copy_from_slice(&[0x55, 0xaa]);
    let mut chain = vec![0; 512];
    chain[446..462].copy_from_slice(&[0, 0, 0, 0, 0xfb, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0, 0]);
    chain[462..478].copy_from_slice(&[0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0]);
    chain[510..].copy_from_slice(&[0x55, 0xaa]);
    let mut header = vec![0; 512];
    header[..8].copy_from_slice(b"EFI PART");
    (header[12], header[24], header[33], header[72], header[80], header[84]) = (92, 1, 0x1f, 2, 4, 128);
    let mut entries = vec![0; 512];
    entries[..16]
        .copy_from_slice(&[0x2a, 0xe0, 0x31, 0xaa, 0x0f, 0x40, 0xdb, 0x11, 0x95, 0x90, 0, 12, 0x29, 0x11, 0xd1, 0xb8]);
    (entries[33], entries[41]) = (8, 16);
    let at = |place: u8, content: &[u8]| [&[place * 2][..], content].concat();
    vec![
        super::joined(&[&at(2, &label), &at(5, &area)]),
        super::joined(&[&at(5, &array)]),
        super::joined(&[&at(9, &lock), &at(11, &[0x0d, 0xd0, 0x01, 0xc0])]),
        super::joined(&[&at(8, &pool)]),
        super::joined(&[&at(5, b"OCFSV2"), &at(0, b"bluestore block device\n")]),
        super::joined(&[&at(1, &links), &at(11, &chain)]),
        super::joined(&[&at(2, &header), &at(3, &entries)]),
    ]
}
