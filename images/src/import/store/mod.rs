//! Images that hosts are written from and files that they boot from: one folder, two files for each (S1-11: the
//! catalogue's entries that are downloaded and verified; S1.5).
//!
//! ```text
//! <raw sha256>.raw.zst       the stream of an image
//! <raw sha256>.json          ImageMeta; the image exists when this file does
//! <sha256>.file              a file that is served as it is: kernel, initramfs, rootfs, ISO, stream metadata
//! <sha256>.file.json         FileMeta; the file exists when this file does
//! partial-<sha256>           a download on its way, named by what it must become, with partial-<sha256>.json
//! incoming-*                 being written
//! ```
//!
//! Streams and files never change once they are there: plans name them by digest. Several processes may use one folder
//! at a time. Locks (flock) are on the data files: exclusive by the writer of an `incoming-` or `partial-` file and by
//! the remover of something ([`PendingRemovals`]), shared by the holder of a [`StoreLease`]. An unlocked `incoming-`
//! file is left over and goes.

mod files;
mod images;
mod lease;
mod meta;
mod pending_removals;
mod removals;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use firesteel_facts::Sha256;
use serde::{Serialize, de::DeserializeOwned};
use tempfile::NamedTempFile;

use crate::collect::StoreItem;

pub use files::StoredFile;
pub use images::StoredImage;
pub use lease::StoreLease;
pub use meta::{
    FileMeta, ImageMeta, ImportNotes, RecordOrigin, SourceRecord, StoreError, StoredFileRole, without_secrets,
};
pub use pending_removals::PendingRemovals;
pub use removals::{Collected, Unfinished};

const INCOMING: &str = "incoming-";
const PARTIAL: &str = "partial-";
const STREAM: &str = ".raw.zst";
const FILE: &str = ".file";
const META: &str = ".json";
/// A metadata file is about 1 kB; more than this is not one of ours.
const META_BYTES_MAX: u64 = 1 << 20;

/// A folder of images.
#[derive(Clone, Debug)]
pub struct ImageStore {
    dir: PathBuf,
}

impl ImageStore {
    /// Opens the folder, makes it where it is missing, and removes what crashed imports left. Partial downloads stay:
    /// the next import of the same goes on with them.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(|source| StoreError::Open { path: dir.to_path_buf(), source })?;
        let store = Self { dir: dir.to_path_buf() };
        for name in store.names()? {
            let is_file = name.strip_suffix(FILE).is_some_and(|digits| digits.parse::<Sha256>().is_ok());
            let stem = name.strip_suffix(STREAM).or_else(|| is_file.then_some(&name));
            let orphan = stem.is_some_and(|stem| !store.dir.join(format!("{stem}{META}")).exists());
            if name.starts_with(INCOMING) || orphan {
                store.remove_unlocked(&name)?;
            }
            let of_partial = name.strip_suffix(META).filter(|stem| stem.starts_with(PARTIAL));
            if of_partial.is_some_and(|stem| !store.dir.join(stem).exists()) {
                remove_if_there(&store.dir.join(&name))?;
            }
        }
        store.remove_done()?;
        Ok(store)
    }

    /// Removes downloads whose image is here: a kill came between the two, and they are of no use any more.
    fn remove_done(&self) -> Result<(), StoreError> {
        let names = self.names()?;
        let mut partials: HashSet<Sha256> =
            names.iter().filter_map(|name| name.strip_prefix(PARTIAL)?.parse().ok()).collect();
        if partials.is_empty() {
            return Ok(());
        }
        let of_images = self.list()?.into_iter().flat_map(|image| image.meta.sources);
        let of_files = self.files()?.into_iter().flat_map(|file| file.meta.sources);
        for source in of_images.chain(of_files) {
            for digest in [Some(source.sha256), source.uncompressed_sha256].into_iter().flatten() {
                if source.witness == RecordOrigin::Here && partials.remove(&digest) {
                    // One that is locked is wanted again, by other keys.
                    let _is_gone = self.discard(StoreItem::Partial(digest))?;
                }
            }
        }
        Ok(())
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file to write to; gone when dropped, locked until then.
    pub(crate) fn incoming(&self) -> Result<NamedTempFile, StoreError> {
        let failed = |source| StoreError::Create { path: self.dir.clone(), source };
        let file = tempfile::Builder::new().prefix(INCOMING).tempfile_in(&self.dir).map_err(failed)?;
        file.as_file().lock().map_err(failed)?;
        Ok(file)
    }

    pub(crate) fn write_error(&self, path: &Path, source: io::Error) -> StoreError {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            StoreError::Full { path: self.dir.clone() }
        } else {
            StoreError::Write { path: path.to_path_buf(), source }
        }
    }

    pub(crate) fn partial_path(&self, sha256: &Sha256) -> PathBuf {
        self.dir.join(format!("{PARTIAL}{sha256}"))
    }

    /// Puts a small file in its place, whole or not at all.
    pub(crate) fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
        let text =
            serde_json::to_vec_pretty(value).map_err(|source| StoreError::Meta { path: path.to_path_buf(), source })?;
        let mut file = self.incoming()?;
        let written = file.write_all(&text).and_then(|()| file.as_file().sync_all());
        written.map_err(|source| self.write_error(path, source))?;
        let persisted = file.persist(path);
        persisted.map_err(|error| StoreError::Publish { path: path.to_path_buf(), source: error.error })?;
        self.sync_dir()
    }

    /// Reads a file of JSON; gives `None` where it is missing or none of ours: one that a disk damaged must not stand
    /// before all others, and the next import of the same replaces it.
    fn read_json<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>, StoreError> {
        let bytes = match read_bounded(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Read { path: path.to_path_buf(), source }),
        };
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "metadata that cannot be read is left alone");
                Ok(None)
            }
        }
    }

    /// Puts a finished file in its place, then its metadata. The lock is held until the metadata is there, lest another
    /// process takes the file for an orphan.
    fn place(
        &self,
        incoming: NamedTempFile,
        path: &Path,
        meta_path: &Path,
        meta: &impl Serialize,
    ) -> Result<(), StoreError> {
        let synced = incoming.as_file().sync_all();
        synced.map_err(|source| self.write_error(path, source))?;
        let failed =
            |error: tempfile::PersistError| StoreError::Publish { path: path.to_path_buf(), source: error.error };
        let kept = incoming.persist(path).map_err(failed)?;
        let written = self.write_json(meta_path, meta);
        if written.is_err() {
            drop(fs::remove_file(path));
        }
        drop(kept);
        written
    }

    pub(crate) fn sync_dir(&self) -> Result<(), StoreError> {
        let synced = File::open(&self.dir).and_then(|dir| dir.sync_all());
        synced.map_err(|source| StoreError::Write { path: self.dir.clone(), source })
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let failed = |source| StoreError::Read { path: self.dir.clone(), source };
        let entries = fs::read_dir(&self.dir).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn remove_unlocked(&self, name: &str) -> Result<(), StoreError> {
        let path = self.dir.join(name);
        let unlocked = match File::open(&path) {
            Ok(file) => file.try_lock().is_ok().then_some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(StoreError::Read { path, source }),
        };
        if unlocked.is_some() { remove_if_there(&path) } else { Ok(()) }
    }
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Remove { path: path.to_path_buf(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(META_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
