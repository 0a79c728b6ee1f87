//! A download that outlives its process: the bytes so far in a file that is named by the digest which they must have in
//! the end, beside a record of where they come from (issue 6, line 6; S1.5).
//!
//! ```text
//! partial-<sha256>        the bytes; locked by its writer
//! partial-<sha256>.json   PartialDownloadRecord: which address, what the server calls the bytes, how many are safe
//! ```
//!
//! Every [`FLUSH_BYTES`] the file is flushed to the disk and then the record is written, so a record never promises
//! more than the disk holds. What came after the last record is cut off at the next opening: after a crash of the
//! machine it may be zeros.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use firesteel_facts::Sha256;
use serde::{Deserialize, Serialize};
use tempfile::{NamedTempFile, TempPath};

use super::room_limited_writer::Room;
use super::store::{FileMeta, ImageStore, StoreError, StoredFile, read_bounded, remove_if_there};
use crate::http::Validator;

/// A kill or a loss of power costs at most so many bytes of a download: at 100 MB/s a third of a second, while a flush
/// for each costs a disk a few percent of its time.
pub const FLUSH_BYTES: u64 = 32 << 20;
const BUFFER_BYTES: usize = 1 << 20;
/// The file may be published or removed between opening and locking it; each time another one did all the work.
const OPEN_ATTEMPTS: usize = 16;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartialDownloadRecord {
    /// The digest of the address, which may hold a password.
    address_sha256: Sha256,
    validator: Option<Validator>,
    total_bytes: Option<u64>,
    flushed_bytes: u64,
}

/// The writer's hold on a partial file.
#[derive(Debug)]
pub(crate) struct Partial {
    store: ImageStore,
    file: File,
    path: PathBuf,
    record: PartialDownloadRecord,
    bytes: u64,
}

impl Partial {
    /// Opens or makes the file; gives `None` while another download writes it. What came from another address is given
    /// up: that server may have another file under way, and bytes of two files are never mixed.
    pub(crate) fn open(store: &ImageStore, sha256: &Sha256, url: &str) -> Result<Option<Self>, StoreError> {
        let path = store.partial_path(sha256);
        let failed = |source| StoreError::Open { path: path.clone(), source };
        for _ in 0..OPEN_ATTEMPTS {
            let mut options = File::options();
            let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = opened.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
                Err(std::fs::TryLockError::Error(source)) => return Err(failed(source)),
            }
            let found = file.metadata().map_err(failed)?;
            if found.nlink() == 0 {
                continue;
            }
            let address_sha256 = Sha256::of(url.as_bytes());
            // A record that cannot be read is one that a crash cut.
            let record = read_bounded(&record_path(&path)).ok().and_then(|text| {
                let record: PartialDownloadRecord = serde_json::from_slice(&text).ok()?;
                (record.address_sha256 == address_sha256 && record.flushed_bytes <= found.len()).then_some(record)
            });
            let fresh = PartialDownloadRecord { address_sha256, validator: None, total_bytes: None, flushed_bytes: 0 };
            let record = record.unwrap_or(fresh);
            let bytes = record.flushed_bytes;
            let mut partial = Self { store: store.clone(), file, path: path.clone(), record, bytes };
            partial.cut(bytes)?;
            return Ok(Some(partial));
        }
        Ok(None)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn validator(&self) -> Option<Validator> {
        self.record.validator.clone()
    }

    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.record.total_bytes
    }

    /// Notes what the server says of the bytes; it is written with the next flush.
    pub(crate) fn describe(&mut self, validator: Option<&Validator>, total_bytes: Option<u64>) {
        self.record.validator = validator.cloned();
        self.record.total_bytes = total_bytes;
    }

    /// Gives what is there, from the start.
    pub(crate) fn reread(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        let failed = |source| StoreError::Read { path: self.path.clone(), source };
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut left = self.bytes;
        while left > 0 {
            let wanted = usize::try_from(left).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
            self.file.read_exact(&mut buffer[..wanted]).map_err(failed)?;
            take(&buffer[..wanted]);
            left -= wanted as u64;
        }
        self.file.seek(SeekFrom::Start(self.bytes)).map_err(failed).map(drop)
    }

    /// Says early that there is no room for the rest.
    pub(crate) fn ensure_room(&self) -> Result<(), StoreError> {
        let room = Room::of(&self.file).map_err(|source| self.store.write_error(&self.path, source))?;
        let left = self.record.total_bytes.map_or(1, |total| total.saturating_sub(self.bytes));
        if left > room.usable_bytes() { Err(self.store.write_error(&self.path, full())) } else { Ok(()) }
    }

    /// Adds bytes; `true` when it is time for a [`Self::flush`].
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<bool, StoreError> {
        self.file.write_all(bytes).map_err(|source| self.store.write_error(&self.path, source))?;
        self.bytes += bytes.len() as u64;
        Ok(self.bytes - self.record.flushed_bytes >= FLUSH_BYTES)
    }

    /// Makes safe what is there. Blocks as long as the disk takes, and so sets the pace of the download.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if self.record.flushed_bytes == self.bytes {
            return Ok(());
        }
        let failed = |source| self.store.write_error(&self.path, source);
        self.file.sync_data().map_err(failed)?;
        if Room::of(&self.file).map_err(failed)?.usable_bytes() == 0 {
            return Err(failed(full()));
        }
        self.record.flushed_bytes = self.bytes;
        self.store.write_json(&record_path(&self.path), &self.record)
    }

    /// Gives up what is there and begins again.
    pub(crate) fn restart(&mut self) -> Result<(), StoreError> {
        remove_if_there(&record_path(&self.path))?;
        self.record =
            PartialDownloadRecord { validator: None, total_bytes: None, flushed_bytes: 0, ..self.record.clone() };
        self.bytes = 0;
        self.cut(0)
    }

    fn cut(&mut self, bytes: u64) -> Result<(), StoreError> {
        let cut = self.file.set_len(bytes).and_then(|()| self.file.seek(SeekFrom::Start(bytes)));
        cut.map(drop).map_err(|source| StoreError::Write { path: self.path.clone(), source })
    }

    /// Removes file and record.
    pub(crate) fn remove(self) -> Result<(), StoreError> {
        // The record first: a file without one is begun again, a record alone would describe another file.
        remove_if_there(&record_path(&self.path))?;
        remove_if_there(&self.path)
    }

    /// Publishes the file as it is. Its record goes last: after a kill in between nothing is downloaded again.
    pub(crate) fn publish(self, meta: FileMeta) -> Result<StoredFile, StoreError> {
        let (store, record) = (self.store.clone(), record_path(&self.path));
        let published = store.publish_file(self.into_incoming()?, meta);
        remove_if_there(&record)?;
        published
    }

    /// The file, gone when dropped, locked until then. A record without it speaks of no bytes.
    fn into_incoming(self) -> Result<NamedTempFile, StoreError> {
        let own = |source| StoreError::Publish { path: self.path.clone(), source };
        let path = TempPath::try_from_path(&self.path).map_err(own)?;
        Ok(NamedTempFile::from_parts(self.file, path))
    }
}

/// How long a download on its way is going to be, as its server said.
pub(super) fn total_bytes(path: &Path) -> Option<u64> {
    let record: PartialDownloadRecord = serde_json::from_slice(&read_bounded(&record_path(path)).ok()?).ok()?;
    record.total_bytes
}

fn record_path(path: &Path) -> PathBuf {
    path.with_extension("json")
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// A kill while a whole file was put in its place made all of it be downloaded again.
    #[test]
    fn a_kill_before_the_file_is_in_its_place_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        let (bytes, url) = (vec![7_u8; 5000], "https://a.example/kernel");
        let sha256 = Sha256::of(&bytes);
        let mut partial = Partial::open(&store, &sha256, url).unwrap().unwrap();
        partial.append(&bytes).unwrap();
        partial.flush().unwrap();
        // As a process that ends leaves it.
        drop(partial.into_incoming().unwrap().keep().unwrap());
        let partial = Partial::open(&store, &sha256, url).unwrap().unwrap();
        assert_eq!(partial.bytes(), 5000);
        // Where the bytes are gone, the record alone promises nothing.
        drop(partial.into_incoming().unwrap());
        assert_eq!(Partial::open(&store, &sha256, url).unwrap().unwrap().bytes(), 0);
    }
}
