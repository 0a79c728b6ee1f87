//! A file that holds room on the disk until it is needed: given back piece by piece from its end, and filled again
//! when there is room.
//!
//! What is in it looks like chance, so that no file system makes it smaller than it is.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const PIECE_BYTES: usize = 64 << 10;

/// The file, and how long it is.
#[derive(Debug)]
pub(crate) struct ReserveFile {
    path: PathBuf,
    bytes: u64,
}

impl ReserveFile {
    /// Takes over what an earlier process left; a file that is missing is one without bytes.
    pub(crate) fn open(path: &Path) -> Self {
        let bytes = std::fs::metadata(path).map_or(0, |found| found.len());
        Self { path: path.to_owned(), bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds so many bytes, all of them on the disk, or as many as before.
    pub(crate) fn grow(&mut self, to: u64) -> io::Result<()> {
        if to <= self.bytes {
            return Ok(());
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut missing = to - self.bytes;
        let mut seed = to | 1;
        let mut write = || -> io::Result<()> {
            while missing > 0 {
                scramble(&mut piece, &mut seed);
                let count = usize::try_from(missing).map_or(PIECE_BYTES, |missing| missing.min(PIECE_BYTES));
                file.write_all(&piece[..count])?;
                missing -= count as u64;
            }
            file.sync_all()
        };
        let written = write();
        match &written {
            Ok(()) => self.bytes = to,
            Err(_) => drop(file.set_len(self.bytes)),
        }
        written
    }

    /// Gives so many bytes back to the file system, of those above a floor; false if there are none.
    pub(crate) fn shrink(&mut self, by: u64, floor: u64) -> bool {
        let to = self.bytes.saturating_sub(by).max(floor);
        if to >= self.bytes {
            return false;
        }
        let cut = OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(to));
        if let Err(error) = cut {
            tracing::error!(%error, file = %self.path.display(), "the reserve on the disk cannot be used");
            return false;
        }
        self.bytes = to;
        true
    }
}

/// Bytes that no compression makes fewer (xorshift).
fn scramble(piece: &mut [u8], seed: &mut u64) {
    for word in piece.chunks_exact_mut(size_of::<u64>()) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        word.copy_from_slice(&seed.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn it_is_given_back_in_pieces_down_to_its_floor_and_filled_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let length = || std::fs::metadata(&path).unwrap().len();
        let mut reserve = ReserveFile::open(&path);
        reserve.grow(200_000).unwrap();
        assert_eq!((reserve.bytes(), length()), (200_000, 200_000));
        assert!(reserve.shrink(50_000, 120_000) && reserve.shrink(50_000, 120_000));
        assert_eq!((reserve.bytes(), length()), (120_000, 120_000));
        assert!(!reserve.shrink(50_000, 120_000), "the floor is for another purpose");
        assert!(reserve.shrink(500_000, 0));
        let mut again = ReserveFile::open(&path);
        assert_eq!(again.bytes(), 0);
        assert!(!again.shrink(1, 0));
        again.grow(70_000).unwrap();
        assert_eq!(length(), 70_000);
        assert_eq!(ReserveFile::open(&path).bytes(), 70_000, "the next process takes it over");
    }
}
