//! Where the bytes are: the medium, and a second sparse file for what is only in the cache.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use thiserror::Error;

use crate::cache::{CacheMode, DiskWriteCache, Loss};

/// The bytes that are moved from cache to medium in one go.
const PIECE_BYTES: u64 = 1 << 20;

#[derive(Debug, Error)]
pub enum MediumError {
    #[error("opening the disk {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

#[derive(Debug)]
pub(crate) struct Medium {
    file: File,
    cached: File,
    cache: DiskWriteCache,
    bytes: u64,
}

impl Medium {
    /// The medium is the file `path`, which exists. The cache's file has no name and is gone with us.
    pub(crate) fn open(path: &Path, mode: CacheMode) -> Result<Self, MediumError> {
        let failed = |source| MediumError::Open { path: path.to_owned(), source };
        let file = File::options().read(true).write(true).open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let cache_path = path.with_extension("cache");
        let mut options = File::options();
        let cached = options.read(true).write(true).create(true).truncate(true).open(&cache_path).map_err(failed)?;
        std::fs::remove_file(&cache_path).map_err(failed)?;
        cached.set_len(bytes).map_err(failed)?;
        Ok(Self { file, cached, cache: DiskWriteCache::new(mode), bytes })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let range = offset..offset + buffer.len() as u64;
        for (piece, is_cached) in self.cache.read(&range) {
            let part = &mut buffer[index(piece.start - offset)..index(piece.end - offset)];
            let from = if is_cached { &self.cached } else { &self.file };
            from.read_exact_at(part, piece.start)?;
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let range = offset..offset + data.len() as u64;
        self.target(&range).write_all_at(data, offset)
    }

    pub(crate) fn zero(&mut self, range: &Range<u64>) -> io::Result<()> {
        zero(self.target(range), range)
    }

    fn target(&mut self, range: &Range<u64>) -> &File {
        if self.cache.write(range) { &self.cached } else { &self.file }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let due = self.cache.flush();
        self.keep(&due)
    }

    /// What is in the cache is gone, but for what `loss` spares. Gives the number of bytes lost.
    pub(crate) fn power_cut(&mut self, loss: Loss) -> io::Result<u64> {
        let before = self.cache.unflushed_bytes();
        let kept = self.cache.power_cut(loss);
        self.keep(&kept)?;
        Ok(before - kept.iter().map(|range| range.end - range.start).sum::<u64>())
    }

    fn keep(&self, ranges: &[Range<u64>]) -> io::Result<()> {
        let mut buffer = vec![0; index(PIECE_BYTES)];
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at + PIECE_BYTES);
                let piece = &mut buffer[..index(end - at)];
                self.cached.read_exact_at(piece, at)?;
                if piece.iter().all(|byte| *byte == 0) {
                    zero(&self.file, &(at..end))?;
                } else {
                    self.file.write_all_at(piece, at)?;
                }
                at = end;
            }
        }
        Ok(())
    }
}

/// Zeros that take no space, where the filesystem can do that.
fn zero(file: &File, range: &Range<u64>) -> io::Result<()> {
    let (start, bytes) = (as_offset(range.start)?, as_offset(range.end - range.start)?);
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    match fallocate(file, punch, start, bytes) {
        Ok(()) => return Ok(()),
        Err(Errno::EOPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    let zeros = vec![0; index((range.end - range.start).min(PIECE_BYTES))];
    let mut at = range.start;
    while at < range.end {
        let piece = &zeros[..index((range.end - at).min(PIECE_BYTES))];
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

fn as_offset(bytes: u64) -> io::Result<i64> {
    i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Offsets inside buffers, which are at most a request long.
pub(crate) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 64 * 1024;

    fn medium(mode: CacheMode) -> (tempfile::TempDir, PathBuf, Medium) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.raw");
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let medium = Medium::open(&path, mode).unwrap();
        (folder, path, medium)
    }

    fn whole(medium: &Medium) -> Vec<u8> {
        let mut all = vec![1; index(SIZE)];
        medium.read(0, &mut all).unwrap();
        all
    }

    #[derive(Clone, Debug)]
    enum Act {
        Write(u64, u64, u8),
        Zero(u64, u64),
        Flush,
        Cut,
    }

    fn act() -> impl Strategy<Value = Act> {
        let place = (0..SIZE - 9000, 1..9000_u64);
        prop_oneof![
            4 => (place.clone(), 1..255_u8).prop_map(|((offset, bytes), fill)| Act::Write(offset, bytes, fill)),
            2 => place.prop_map(|(offset, bytes)| Act::Zero(offset, bytes)),
            1 => Just(Act::Flush),
            1 => Just(Act::Cut),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against the plainest model: what is read is what was written last, and a cut takes back
        /// everything since the last flush.
        #[test]
        fn a_cut_takes_back_what_was_not_flushed(acts in prop::collection::vec(act(), 1..40)) {
            let (_folder, path, mut medium) = medium(CacheMode::Volatile);
            let (mut now, mut durable) = (vec![0; index(SIZE)], vec![0; index(SIZE)]);
            for act in acts {
                match act {
                    Act::Write(offset, bytes, fill) => {
                        medium.write(offset, &vec![fill; index(bytes)]).unwrap();
                        now[index(offset)..index(offset + bytes)].fill(fill);
                    }
                    Act::Zero(offset, bytes) => {
                        medium.zero(&(offset..offset + bytes)).unwrap();
                        now[index(offset)..index(offset + bytes)].fill(0);
                    }
                    Act::Flush => {
                        medium.flush().unwrap();
                        durable.clone_from(&now);
                    }
                    Act::Cut => {
                        medium.power_cut(Loss::All).unwrap();
                        now.clone_from(&durable);
                    }
                }
                prop_assert!(whole(&medium) == now);
                prop_assert!(std::fs::read(&path).unwrap() == durable);
            }
        }
    }

    #[test]
    fn what_a_cut_spares_is_on_the_medium() {
        let (_folder, path, mut medium) = medium(CacheMode::Volatile);
        medium.write(0, &[9; 64 * 1024]).unwrap();
        let lost = medium.power_cut(Loss::Some { seed: 4 }).unwrap();
        let durable = std::fs::read(path).unwrap();
        assert!(lost > 0 && lost < SIZE, "{lost}");
        assert_eq!(durable.iter().filter(|byte| **byte == 9).count() as u64, SIZE - lost);
        assert_eq!(whole(&medium), durable);
    }

    #[test]
    fn a_disk_that_ignores_flushes_shows_its_data_until_the_power_goes() {
        let (_folder, _, mut medium) = medium(CacheMode::IgnoresFlush);
        medium.write(512, &[7; 512]).unwrap();
        medium.flush().unwrap();
        assert_eq!(whole(&medium)[512], 7);
        assert_eq!(medium.power_cut(Loss::All).unwrap(), 512);
        assert_eq!(whole(&medium)[512], 0);
    }
}
