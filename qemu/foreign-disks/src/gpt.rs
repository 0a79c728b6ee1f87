//! Tables with GUIDs, sound and altered.

use super::{ForeignDisk, MIB, Piece, USUAL_BYTES, crc32, fields, vmfs};

pub(super) const VMFS: &str = "aa31e02a-400f-11db-9590-000c2911d1b8";
pub(super) const LINUX: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";
pub(super) const EFI: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
/// The GUID of a table that belongs to others.
const OTHERS: &str = "0d0e0f10-1112-4314-9516-1718191a1b1c";
const HEADER_BYTES: usize = 92;

#[derive(Clone, Debug)]
pub(super) struct TestPartition {
    pub(super) kind: &'static str,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// What a table says of itself.
#[derive(Clone, Debug)]
pub(super) struct Gpt {
    pub(super) disk_bytes: u64,
    pub(super) block: u64,
    pub(super) guid: &'static str,
    pub(super) first_usable: u64,
    pub(super) entry_count: u32,
    pub(super) entry_size: u32,
    pub(super) partitions: Vec<TestPartition>,
}

/// One copy's header, before its checksum is made.
#[derive(Clone, Debug)]
pub(super) struct TestGptHeader {
    pub(super) signature: [u8; 8],
    pub(super) revision: u32,
    pub(super) header_size: u32,
    pub(super) my_lba: u64,
    pub(super) alternate_lba: u64,
    pub(super) first_usable: u64,
    pub(super) last_usable: u64,
    pub(super) entries_lba: u64,
    pub(super) entry_count: u32,
    pub(super) entry_size: u32,
    /// What is added to the right checksums.
    pub(super) crc_error: u32,
    pub(super) entries_crc_error: u32,
}

/// The parts of a table on a disk.
#[derive(Clone, Debug)]
pub(super) struct GptPieces {
    pub(super) protective: Vec<Piece>,
    pub(super) primary: Vec<Piece>,
    pub(super) backup: Vec<Piece>,
}

impl GptPieces {
    pub(super) fn all(self) -> Vec<Piece> {
        [self.protective, self.primary, self.backup].concat()
    }
}

impl Gpt {
    /// One partition of this type from 2 to 7 MiB.
    pub(super) fn of(kind: &'static str) -> Self {
        let partitions = vec![TestPartition { kind, first: 2 * MIB / 512, last: 7 * MIB / 512 - 1 }];
        Self {
            disk_bytes: USUAL_BYTES,
            block: 512,
            guid: OTHERS,
            first_usable: 2048,
            entry_count: 128,
            entry_size: 128,
            partitions,
        }
    }

    fn last_lba(&self) -> u64 {
        self.disk_bytes / self.block - 1
    }

    fn entries_blocks(&self) -> u64 {
        (u64::from(self.entry_count) * u64::from(self.entry_size)).div_ceil(self.block)
    }

    fn entries(&self) -> Vec<u8> {
        let size = self.entry_size as usize;
        let mut bytes = vec![0; size * self.entry_count as usize];
        for (number, partition) in (1_u8..).zip(&self.partitions) {
            let entry = fields(
                size.max(128),
                &[
                    (0, &guid(partition.kind)),
                    (16, &[number; 16]),
                    (32, &partition.first.to_le_bytes()),
                    (40, &partition.last.to_le_bytes()),
                ],
            );
            let at = (usize::from(number) - 1) * size;
            bytes[at..at + size].copy_from_slice(&entry[..size]);
        }
        bytes
    }

    fn header(&self, is_backup: bool) -> TestGptHeader {
        let last = self.last_lba();
        let (my_lba, alternate_lba) = if is_backup { (last, 1) } else { (1, last) };
        TestGptHeader {
            signature: *b"EFI PART",
            revision: 0x1_0000,
            header_size: 92,
            my_lba,
            alternate_lba,
            first_usable: self.first_usable,
            last_usable: last - 1 - self.entries_blocks(),
            entries_lba: if is_backup { last - self.entries_blocks() } else { 2 },
            entry_count: self.entry_count,
            entry_size: self.entry_size,
            crc_error: 0,
            entries_crc_error: 0,
        }
    }

    /// Its bytes; `alter` changes the headers before their checksums are made, and knows which one is the backup.
    pub(super) fn write_with(&self, alter: &dyn Fn(&mut TestGptHeader, bool)) -> GptPieces {
        let entries = self.entries();
        let copy = |is_backup: bool| {
            let sound = self.header(is_backup);
            let mut header = sound.clone();
            alter(&mut header, is_backup);
            let at = sound.my_lba * self.block;
            vec![(sound.entries_lba * self.block, entries.clone()), (at, header.bytes(self.guid, &entries))]
        };
        let blocks = u32::try_from(self.last_lba()).unwrap_or(u32::MAX);
        let protective = super::classic::table(&[super::classic::TestMbrEntry::of(0xee, 1, blocks)]);
        GptPieces { protective: vec![(0, protective)], primary: copy(false), backup: copy(true) }
    }

    pub(super) fn write(&self) -> GptPieces {
        self.write_with(&|_, _| {})
    }
}

impl TestGptHeader {
    fn bytes(&self, disk_guid: &str, entries: &[u8]) -> Vec<u8> {
        let entries_crc = (crc32(u32::MAX, entries) ^ u32::MAX).wrapping_add(self.entries_crc_error);
        let mut bytes = fields(
            512,
            &[
                (0, &self.signature),
                (8, &self.revision.to_le_bytes()),
                (12, &self.header_size.to_le_bytes()),
                (24, &self.my_lba.to_le_bytes()),
                (32, &self.alternate_lba.to_le_bytes()),
                (40, &self.first_usable.to_le_bytes()),
                (48, &self.last_usable.to_le_bytes()),
                (56, &guid(disk_guid)),
                (72, &self.entries_lba.to_le_bytes()),
                (80, &self.entry_count.to_le_bytes()),
                (84, &self.entry_size.to_le_bytes()),
                (88, &entries_crc.to_le_bytes()),
            ],
        );
        let crc = (crc32(u32::MAX, &bytes[..HEADER_BYTES]) ^ u32::MAX).wrapping_add(self.crc_error);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The GUID as tables write it: the first three parts with their last byte first.
pub(super) fn guid(text: &str) -> [u8; 16] {
    uuid::Uuid::parse_str(text).map(|guid| guid.to_bytes_le()).unwrap_or_default()
}

fn held(name: &str, gpt: &Gpt) -> ForeignDisk {
    ForeignDisk::stays(name, "VMFS", gpt.write().all()).and(vmfs(2 * MIB))
}

pub(super) fn erased_before() -> Vec<ForeignDisk> {
    let gpt = || Gpt::of(VMFS);
    let other = |first, last| TestPartition { kind: LINUX, first, last };
    let with = |partition: TestPartition| {
        let mut gpt = gpt();
        gpt.partitions.push(partition);
        gpt
    };
    let written = gpt().write();
    // The disk grew: the copy that was at its end is in its middle.
    let small = Gpt { disk_bytes: USUAL_BYTES, ..gpt() }.write();
    let grown = ForeignDisk { bytes: 2 * USUAL_BYTES, ..ForeignDisk::stays("gpt-grown", "VMFS", small.protective) };
    vec![
        held("gpt-early-entry", &with(other(40, 47))),
        held("gpt-2048-entries", &Gpt { entry_count: 2048, ..gpt() }),
        held("gpt-lba-2-63", &with(other(1 << 63, (1 << 63) + 7))),
        ForeignDisk::stays("gpt-backup-only", "VMFS", [written.protective, written.backup].concat()).and(vmfs(2 * MIB)),
        grown.and(small.backup).and(vmfs(2 * MIB)),
    ]
}

pub(super) fn all() -> Vec<ForeignDisk> {
    let gpt = || Gpt::of(VMFS);
    let written = gpt().write();
    let large = Gpt {
        block: 4096,
        first_usable: 256,
        partitions: vec![TestPartition { kind: VMFS, first: 512, last: 1791 }],
        ..gpt()
    };
    let mut all = erased_before();
    all.extend([
        held("gpt-sound", &gpt()),
        held("gpt-plain-type", &Gpt::of(LINUX)),
        // No reader of 512-byte blocks finds this table: it was written where blocks are larger.
        held("gpt-blocks-of-4096", &large),
        held("gpt-256-byte-entries", &Gpt { entry_size: 256, ..gpt() }),
        ForeignDisk::stays("gpt-no-protective", "VMFS", [written.primary.clone(), written.backup.clone()].concat())
            .and(vmfs(2 * MIB)),
        ForeignDisk::stays("gpt-primary-only", "VMFS", [written.protective, written.primary].concat())
            .and(vmfs(2 * MIB)),
        overlapping(),
    ]);
    all.extend(altered());
    all
}

/// Every entry says the whole disk, and the last of them the VMFS.
fn overlapping() -> ForeignDisk {
    let whole = TestPartition { kind: LINUX, first: 2048, last: 14_335 };
    let mut gpt = Gpt::of(VMFS);
    gpt.partitions.splice(0..0, std::iter::repeat_n(whole, 100));
    ForeignDisk::stays("gpt-overlapping", "VMFS", gpt.write().all()).and(vmfs(2 * MIB))
}

type Change = fn(&mut TestGptHeader);

/// A sound table in which one single field is another one, in both copies, with the right checksums of what stands
/// there. Whether it is read or not understood, the disk stays.
fn altered() -> Vec<ForeignDisk> {
    let changes: [(&str, Change); 12] = [
        ("signature", |header| header.signature[3] = b'X'),
        ("revision", |header| header.revision = 0x7_0000),
        ("header-size", |header| header.header_size = u32::MAX),
        ("header-crc", |header| header.crc_error = 1),
        ("my-lba", |header| header.my_lba += 1),
        ("alternate", |header| header.alternate_lba = u64::MAX),
        ("first-usable", |header| header.first_usable = u64::MAX),
        ("last-usable", |header| header.last_usable = 1),
        ("entries-lba", |header| header.entries_lba = 1 << 63),
        ("entry-count", |header| header.entry_count = u32::MAX),
        ("entry-size", |header| header.entry_size = 1 << 31),
        ("entries-crc", |header| header.entries_crc_error = 1),
    ];
    let made = |(field, change): (&str, Change)| {
        let both = Gpt::of(VMFS).write_with(&|header, _| change(header)).all();
        ForeignDisk::stays(&format!("gpt+{field}"), "", both).and(vmfs(2 * MIB))
    };
    // In the first copy alone: systems go by the second.
    let first = |(field, change): (&str, Change)| {
        let alter = |header: &mut TestGptHeader, is_backup: bool| {
            if !is_backup {
                change(header);
            }
        };
        let pieces = Gpt::of(VMFS).write_with(&alter).all();
        ForeignDisk::stays(&format!("gpt1+{field}"), "VMFS", pieces).and(vmfs(2 * MIB))
    };
    let firsts = [changes[0], changes[3], changes[11]];
    changes.into_iter().map(made).chain(firsts.into_iter().map(first)).collect()
}
