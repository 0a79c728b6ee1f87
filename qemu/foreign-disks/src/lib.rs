//! Disks that hold something of another host, of a cluster, or of this host itself, written byte by byte.
//!
//! ```text
//! gpt, classic, volumes, array, labels, own ─► ForeignDisk {name, pieces, ExpectedFate} ─► a sparse raw file
//! ```
//!
//! No tool is needed, so that each field can be wrong by itself: a guard is judged by what real tools never write.
//! This module knows neither the guard nor the machine.

mod array;
mod classic;
mod erasable_disks;
mod gpt;
mod labels;
mod volumes;

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path};

/// The smallest that has room for VMFS behind a table; files are sparse.
const USUAL_BYTES: u64 = 8 << 20;
/// A size with room for volumes.
const MEMBER_BYTES: u64 = 2 * USUAL_BYTES;
const MIB: u64 = 1 << 20;

/// Bytes and their place.
type Piece = (u64, Vec<u8>);

/// What must become of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExpectedFate {
    /// It is not this host's: it stays, byte by byte. The refusal must hold this text.
    Stays(&'static str),
    #[default]
    Erased,
}

/// A disk that is zeros but for its pieces; a later piece covers an earlier one.
#[derive(Clone, Debug, Default)]
pub struct ForeignDisk {
    /// Its serial number: short enough for SCSI's page of identifiers.
    pub name: String,
    pub bytes: u64,
    pub pieces: Vec<Piece>,
    pub fate: ExpectedFate,
    /// What the plan says of the disk besides.
    pub own_names: Vec<String>,
    pub was_vacant: bool,
}

impl ForeignDisk {
    fn stays(name: &str, says: &'static str, pieces: Vec<Piece>) -> Self {
        Self { name: name.to_owned(), bytes: USUAL_BYTES, pieces, fate: ExpectedFate::Stays(says), ..Self::default() }
    }

    fn erased(name: &str, pieces: Vec<Piece>) -> Self {
        Self { name: name.to_owned(), bytes: USUAL_BYTES, pieces, ..Self::default() }
    }

    fn larger(self) -> Self {
        Self { bytes: MEMBER_BYTES, ..self }
    }

    /// Puts these bytes over what there is.
    fn and(mut self, pieces: impl IntoIterator<Item = Piece>) -> Self {
        self.pieces.extend(pieces);
        self
    }

    /// One byte becomes another one.
    fn flipped(self, at: u64) -> Self {
        let byte = self.byte(at) ^ 0x5a;
        self.and([(at, vec![byte])])
    }

    fn byte(&self, at: u64) -> u8 {
        let inside = |(from, bytes): &Piece| bytes.get(usize::try_from(at.checked_sub(*from)?).ok()?).copied();
        self.pieces.iter().rev().find_map(inside).unwrap_or(0)
    }

    /// What a refusal says of it.
    pub fn expected_text(&self) -> &'static str {
        if let ExpectedFate::Stays(says) = self.fate { says } else { "" }
    }

    /// Makes the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.bytes)?;
        self.write_over(&file)
    }

    /// Writes the pieces into a file that there is.
    pub fn write_over(&self, file: &File) -> io::Result<()> {
        self.pieces.iter().try_for_each(|(at, bytes)| file.write_all_at(bytes, *at))
    }
}

/// Tables, labels, and what is of one disk alone.
pub fn single() -> Vec<ForeignDisk> {
    [gpt::all(), classic::all(), labels::all(), erasable_disks::all()].concat()
}

/// Members of groups and arrays: what is looked for on all disks of a machine.
pub fn members() -> Vec<ForeignDisk> {
    [volumes::all(), array::all()].concat().into_iter().map(ForeignDisk::larger).collect()
}

/// The disks that a guard erases which takes what a strict reader of tables refuses for an empty disk.
pub fn erased_before() -> Vec<ForeignDisk> {
    let members = volumes::erased_before().into_iter().map(ForeignDisk::larger).collect();
    [gpt::erased_before(), classic::erased_before(), members, labels::erased_before()].concat()
}

/// A table with one partition, from 2 to 7 MiB.
pub fn linux_table() -> Vec<Piece> {
    gpt::Gpt::of(gpt::LINUX).write().all()
}

/// A physical volume of 16 MiB, of another host where one is named, whose group has one logical volume.
pub fn physical_volume(name: &'static str, system: Option<&'static str>) -> Vec<Piece> {
    volumes::TestPhysicalVolume::of_system(name, system).pieces()
}

/// Both superblocks of VMFS, of a volume that begins here.
pub fn vmfs(at: u64) -> Vec<Piece> {
    let (mut volume, mut filesystem) = (vec![0; 512], vec![0; 512]);
    volume[..4].copy_from_slice(&0xc001_d00d_u32.to_le_bytes());
    volume[0x12..0x17].copy_from_slice(b"LUN-7");
    filesystem[..4].copy_from_slice(&0x2fab_f15e_u32.to_le_bytes());
    filesystem[0x1d..0x27].copy_from_slice(b"datastore1");
    vec![(at + MIB, volume), (at + 2 * MIB, filesystem)]
}

/// The label of a Ceph OSD: the first line with the OSD's UUID, then the map without entries.
fn bluestore(at: u64) -> Vec<Piece> {
    let mut label = b"bluestore block device\n11111111-2222-3333-4444-555555555555\n".to_vec();
    label.resize(4096, 0);
    vec![(at, label)]
}

/// CRC-32 with the usual polynomial, from this start, without the last inversion.
fn crc32(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1)))
    })
}

/// Letters and digits that belong to this name: two disks must not be taken for parts of one.
fn unique(name: &str, salt: u8, length: usize) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnopqrstuvwxyz0123456";
    let mut state = crc32(u32::MAX, &[name.as_bytes(), &[salt]].concat());
    let letter = |index: usize| {
        state = crc32(state, &index.to_le_bytes());
        char::from(LETTERS[(state % 32) as usize])
    };
    (0..length).map(letter).collect()
}

/// Puts numbers of any width at their places, in the byte order that they come in.
fn fields(length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (at, field) in fields {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_short_and_nothing_lies_behind_the_end() {
        let all = [single(), members()].concat();
        let names: BTreeSet<&str> = all.iter().map(|made| made.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for made in &all {
            assert!(made.name.len() <= 20, "{}", made.name);
            let end = made.pieces.iter().map(|(at, bytes)| at + bytes.len() as u64).max().unwrap_or(0);
            assert!(end <= made.bytes, "{}: {end}", made.name);
        }
        let before: Vec<_> = erased_before();
        assert!(before.len() >= 16 && before.iter().all(|made| names.contains(made.name.as_str())));
        assert!(before.iter().all(|made| made.fate != ExpectedFate::Erased));
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(u32::MAX, b"123456789") ^ u32::MAX, 0xcbf4_3926);
    }

    #[test]
    fn a_later_piece_covers_an_earlier_one_and_one_byte_can_be_altered() {
        let made = ForeignDisk::erased("x", vec![(10, vec![1, 2, 3])]).and([(11, vec![9])]);
        assert_eq!([made.byte(10), made.byte(11), made.byte(12), made.byte(13)], [1, 9, 3, 0]);
        assert_eq!(made.flipped(11).byte(11), 9 ^ 0x5a);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        ForeignDisk { bytes: 4096, pieces: vec![(10, vec![1, 2])], ..ForeignDisk::default() }.write(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), &bytes[9..13]), (4096, &[0, 1, 2, 0][..]));
    }
}
