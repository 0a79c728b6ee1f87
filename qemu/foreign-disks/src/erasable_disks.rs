//! Disks that go: empty ones, ordinary ones, and those that this host wrote, with any damage.

use super::gpt::{EFI, Gpt, LINUX, TestPartition};
use super::volumes::TestPhysicalVolume;
use super::{ForeignDisk, MIB, Piece, USUAL_BYTES, array, classic};

/// The GUID that an installation of this host gave its table.
const OWN: &str = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f";

/// Bytes without any order, from a fixed start.
fn noise(at: u64, bytes: usize) -> Piece {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ at;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    (at, words.take(bytes / 8).flatten().collect())
}

/// A former system disk: boot partition and root, with something in them.
fn system() -> Gpt {
    let partitions = vec![
        TestPartition { kind: EFI, first: 2048, last: 8191 },
        TestPartition { kind: LINUX, first: 8192, last: 14_335 },
    ];
    Gpt { guid: OWN, partitions, ..Gpt::of(LINUX) }
}

fn contents() -> Vec<Piece> {
    let superblock = super::fields(1024, &[(56, &[0x53, 0xef]), (120, b"root")]);
    vec![noise(MIB, 64 << 10), (4 * MIB + 1024, superblock), noise(6 * MIB, 64 << 10)]
}

fn own(name: &str, table: Vec<Piece>) -> ForeignDisk {
    ForeignDisk { own_names: vec![OWN.into()], ..ForeignDisk::erased(name, table) }.and(contents())
}

/// Nothing of it says whose it is, but the host's journal does.
fn vacant(name: &str, pieces: Vec<Piece>) -> ForeignDisk {
    ForeignDisk { was_vacant: true, ..ForeignDisk::erased(name, pieces) }
}

pub(super) fn all() -> Vec<ForeignDisk> {
    let mut all = plain();
    all.extend(damaged());
    all.extend(planted());
    all
}

fn plain() -> Vec<ForeignDisk> {
    let linear = TestPhysicalVolume::of("lvm-linear").with("data", "", &[(0, 4)]).with("more", "", &[(9, 2), (5, 3)]);
    let luks = super::fields(4096, &[(0, b"LUKS\xba\xbe\x00\x01"), (8, b"aes"), (40, b"xts-plain64"), (72, b"sha256")]);
    vec![
        ForeignDisk::erased("empty", Vec::new()),
        ForeignDisk::erased("noise", vec![noise(0, 8 << 20)]),
        ForeignDisk::erased("zeros-and-noise", vec![noise(3 * MIB, 1 << 20)]),
        ForeignDisk::erased("luks", vec![(0, luks), noise(4096, 64 << 10)]),
        ForeignDisk::erased("gpt-linux", Gpt::of(LINUX).write().all()).and(contents()),
        ForeignDisk::erased("mbr-linux", classic::ordinary()).and(contents()),
        ForeignDisk::erased("lvm-linear", linear.pieces()).and([noise(2 * MIB, 64 << 10)]).larger(),
    ]
}

/// Former system disks of this host. A table's GUID is its mark as long as one copy is sound.
fn damaged() -> Vec<ForeignDisk> {
    let sound = system().write();
    let (protective, primary, backup) = (sound.protective.clone(), sound.primary.clone(), sound.backup.clone());
    let entries = [noise(1024, 16 << 10)];
    let backup_entries = [noise(USUAL_BYTES - 512 - (16 << 10), 16 << 10)];
    let grown = own("own-grown", sound.clone().all());
    vec![
        own("own-sound", sound.clone().all()),
        own("own-no-backup", [protective.clone(), primary.clone()].concat()),
        own("own-no-primary", [protective.clone(), backup.clone()].concat()),
        own("own-no-protective", [primary, backup].concat()),
        own("own-primary-entries", sound.clone().all()).and(entries),
        own("own-backup-entries", sound.clone().all()).and(backup_entries),
        own("own-primary-crc", sound.clone().all()).flipped(512 + 16),
        own("own-noise-at-start", sound.clone().all()).and([noise(0, 64 << 10)]),
        ForeignDisk { bytes: 2 * USUAL_BYTES, ..grown },
        // What a tenant made on the host's own disk, and what it broke there.
        own("own-with-zfs", sound.clone().all()).and([((128 << 10) + 4 * MIB, 0x00ba_b10c_u64.to_le_bytes().to_vec())]),
        own("own-broken-lvm", sound.all()).and([(4 * MIB + 512, b"LABELONE".to_vec())]),
    ]
}

/// The journal says that these were blank, or this host's, before their last owner got them.
fn planted() -> Vec<ForeignDisk> {
    let unsound = |header: &mut super::gpt::TestGptHeader, _| header.crc_error = 7;
    let both = system().write_with(&unsound);
    let no_entries = system().write_with(&|header: &mut super::gpt::TestGptHeader, _| header.entries_crc_error = 7);
    let foreign = TestPhysicalVolume::of("vac-lvm-label").with("data", "", &[(0, 4)]);
    let huge = system().write_with(&|header: &mut super::gpt::TestGptHeader, _| header.entry_size = 1 << 31);
    vec![
        vacant("vac-both-headers", both.all()).and(contents()),
        vacant("vac-both-entries", no_entries.all()).and(contents()),
        vacant("vac-signatures", vec![(512, b"EFI PART".to_vec()), (USUAL_BYTES - 512, b"EFI PART".to_vec())]),
        vacant("vac-huge-entries", huge.all()),
        vacant("vac-endless-chain", classic::endless()),
        vacant("vac-lvm-label", foreign.pieces()).flipped(4096 + 6).larger(),
        vacant("vac-md-checksum", array::unsound("vac-md-checksum")),
        vacant("vac-protective", system().write().protective),
        vacant("vac-tables-noise", system().write().all()).and([
            noise(512, 512),
            noise(1024, 16 << 10),
            noise(USUAL_BYTES - 512 - (16 << 10), 16 << 10),
            noise(USUAL_BYTES - 512, 512),
        ]),
    ]
}
