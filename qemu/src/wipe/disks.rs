//! Raw disk files: filled with a pattern, or with another system's signature, and what is left of it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use firesteel_lab_foreign_disks as foreign;

/// Eight bytes that no filesystem, no zeros and no noise have in a row by chance.
pub(super) const PATTERN: [u8; 8] = *b"\xf1wIpE\x0d\xa5\x7e";
const PIECE_BYTES: usize = 1 << 20;

/// A disk full of the pattern.
pub(super) fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let piece = PATTERN.repeat(PIECE_BYTES / PATTERN.len());
    let mut file = File::create(path)?;
    for _ in 0..bytes / PIECE_BYTES as u64 {
        file.write_all(&piece)?;
    }
    file.sync_all()
}

/// How many times the pattern stands anywhere in the file, at any offset.
pub(super) fn patterns_left(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let (mut window, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    let mut count = 0;
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(count);
        }
        window.extend_from_slice(&piece[..read]);
        count += window.windows(PATTERN.len()).filter(|bytes| *bytes == PATTERN).count() as u64;
        // One that lies over the edge of two pieces is counted with the second.
        window.drain(..window.len().saturating_sub(PATTERN.len() - 1));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlantedContent {
    Ceph,
    Zfs,
    Vmfs,
    ForeignLvm,
    LocalLvm,
}

impl PlantedContent {
    pub(super) const ALL: [Self; 5] = [Self::Ceph, Self::Zfs, Self::Vmfs, Self::ForeignLvm, Self::LocalLvm];

    /// The serial number of its disk.
    pub(super) fn serial(self) -> &'static str {
        match self {
            Self::Ceph => "CEPH",
            Self::Zfs => "ZFS",
            Self::Vmfs => "VMFS",
            Self::ForeignLvm => "LVM-FOREIGN",
            Self::LocalLvm => "LVM-LOCAL",
        }
    }

    /// What the refusal must name; `None` where there must be none.
    pub(super) fn objection(self) -> Option<&'static str> {
        match self {
            Self::Ceph => Some("Ceph"),
            Self::Zfs => Some("ZFS"),
            Self::Vmfs => Some("VMFS"),
            Self::ForeignLvm => Some("of host \"web-7\""),
            Self::LocalLvm => None,
        }
    }

    /// Puts its superblock onto a disk of the pattern.
    pub(super) fn plant(self, path: &Path) -> io::Result<()> {
        let file = File::options().write(true).open(path)?;
        for (at, bytes) in self.pieces() {
            file.write_all_at(&bytes, at)?;
        }
        file.sync_all()
    }

    fn pieces(self) -> Vec<(u64, Vec<u8>)> {
        match self {
            // src/os/bluestore/bluestore_types.cc: the label's first line, with the OSD's UUID.
            Self::Ceph => {
                let mut label = b"bluestore block device\n11111111-2222-3333-4444-555555555555\n".to_vec();
                label.resize(4096, 0);
                vec![(0, label)]
            }
            // An uberblock of the first label.
            Self::Zfs => vec![((128 << 10) + (7 << 10), 0x00ba_b10c_u64.to_le_bytes().to_vec())],
            // The volume's head.
            Self::Vmfs => {
                let mut head = vec![0; 512];
                head[..4].copy_from_slice(&0xc001_d00d_u32.to_le_bytes());
                vec![(1 << 20, head)]
            }
            Self::ForeignLvm => foreign::physical_volume("of-web-7", Some("web-7")),
            Self::LocalLvm => foreign::physical_volume("local", None),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_pattern_that_is_left_anywhere_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fill(&path, 2 << 20).unwrap();
        assert_eq!(patterns_left(&path).unwrap(), (2 << 20) / 8);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0; 2 << 20], 0).unwrap();
        assert_eq!(patterns_left(&path).unwrap(), 0);
        // Over the edge of two pieces, at no multiple of its length.
        file.write_all_at(&PATTERN, (1 << 20) - 3).unwrap();
        assert_eq!(patterns_left(&path).unwrap(), 1);
    }
}
