//! Images that hosts are written from: one folder, two files for each image.
//!
//! ```text
//! <raw sha256>.raw.zst    the stream
//! <raw sha256>.json       ImageMeta; the image exists when this file does
//! incoming-*              being written, locked by its writer; what nobody locks is left over
//! ```
//!
//! Streams never change once they are there: plans name them by digest. Several processes may use
//! one folder at a time.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{checksum::Checksum, format::Format, pack::Packed};
use crate::digest::Sha256;

const INCOMING: &str = "incoming-";
const STREAM: &str = ".raw.zst";
const META: &str = ".json";
/// A metadata file is about 1 kB; more than this is not one of ours.
const META_BYTES_MAX: u64 = 1 << 20;
/// Places that one image is remembered to come from; older ones are forgotten first.
const SOURCES_MAX: usize = 32;

/// What is known of a stored image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageMeta {
    /// Of the raw image; the image's name.
    pub raw_sha256: Sha256,
    /// A multiple of 512.
    pub raw_bytes: u64,
    /// Of the compressed stream that hosts fetch.
    pub stream_sha256: Sha256,
    pub stream_bytes: u64,
    /// Where it came from, latest last.
    pub sources: Vec<SourceRecord>,
}

/// One file that gave this image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Address without user, password, query and fragment.
    pub url: String,
    /// Outermost first: `[gzip, raw]`, `[qcow2]`.
    pub formats: Vec<Format>,
    /// Of the bytes as downloaded.
    pub bytes: u64,
    pub sha256: Sha256,
    /// As the owner gave it and as it was found to be, `sha512:…`; empty where none was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum: String,
}

/// An image with the file that holds its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredImage {
    pub meta: ImageMeta,
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("opening the image folder {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is no metadata of an image")]
    Meta { path: PathBuf, source: serde_json::Error },
    #[error("making a file in {path}")]
    Create { path: PathBuf, source: io::Error },
    #[error("no space is left for the image in {path}")]
    Full { path: PathBuf },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("putting {path} in its place")]
    Publish { path: PathBuf, source: io::Error },
    #[error("removing {path}")]
    Remove { path: PathBuf, source: io::Error },
}

impl StoreError {
    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Full { .. } => "remove what is not needed from this filesystem, or use a larger one",
            Self::Open { .. }
            | Self::Read { .. }
            | Self::Meta { .. }
            | Self::Create { .. }
            | Self::Write { .. }
            | Self::Publish { .. }
            | Self::Remove { .. } => "see that the folder's disk works, and that the appliance may write there",
        }
    }
}

/// A folder of images.
#[derive(Clone, Debug)]
pub struct ImageStore {
    dir: PathBuf,
}

impl ImageStore {
    /// Opens the folder, makes it where it is missing, and removes what crashed imports left.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(|source| StoreError::Open { path: dir.to_path_buf(), source })?;
        let store = Self { dir: dir.to_path_buf() };
        for name in store.names()? {
            let orphan = name.strip_suffix(STREAM).is_some_and(|raw| !store.dir.join(format!("{raw}{META}")).exists());
            if name.starts_with(INCOMING) || orphan {
                store.remove_unlocked(&name)?;
            }
        }
        Ok(store)
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All images, sorted by digest.
    pub fn list(&self) -> Result<Vec<StoredImage>, StoreError> {
        let mut names = self.names()?;
        names.sort();
        let digests = names.iter().filter_map(|name| name.strip_suffix(META)?.parse::<Sha256>().ok());
        digests.filter_map(|raw| self.by_raw(&raw).transpose()).collect()
    }

    /// The image whose raw bytes have this digest.
    pub fn by_raw(&self, raw: &Sha256) -> Result<Option<StoredImage>, StoreError> {
        let path = self.dir.join(format!("{raw}{META}"));
        let bytes = match read_bounded(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Read { path, source }),
        };
        let meta: ImageMeta = serde_json::from_slice(&bytes).map_err(|source| StoreError::Meta { path, source })?;
        let path = self.stream_path(raw);
        let whole = fs::metadata(&path).is_ok_and(|found| found.len() == meta.stream_bytes);
        Ok((whole && meta.raw_sha256 == *raw).then_some(StoredImage { meta, path }))
    }

    /// The image whose stream has this digest.
    pub fn by_stream(&self, stream: &Sha256) -> Result<Option<StoredImage>, StoreError> {
        Ok(self.list()?.into_iter().find(|image| image.meta.stream_sha256 == *stream))
    }

    /// The image that a download with this checksum gave before.
    pub fn by_source(&self, checksum: &Checksum) -> Result<Option<StoredImage>, StoreError> {
        let text = checksum.to_string();
        let gave = |source: &SourceRecord| source.checksum == text || format!("sha256:{}", source.sha256) == text;
        Ok(self.list()?.into_iter().find(|image| image.meta.sources.iter().any(gave)))
    }

    /// Forgets an image. Hosts that are fetching it keep their open file.
    pub fn remove(&self, raw: &Sha256) -> Result<(), StoreError> {
        for path in [self.dir.join(format!("{raw}{META}")), self.stream_path(raw)] {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::Remove { path, source });
                }
                Ok(()) | Err(_) => {}
            }
        }
        self.sync_dir()
    }

    /// A file to write to; gone when dropped, locked until then.
    pub(crate) fn incoming(&self) -> Result<NamedTempFile, StoreError> {
        let failed = |source| StoreError::Create { path: self.dir.clone(), source };
        let file = tempfile::Builder::new().prefix(INCOMING).tempfile_in(&self.dir).map_err(failed)?;
        file.as_file().lock().map_err(failed)?;
        Ok(file)
    }

    /// Puts a finished stream in its place, then its metadata. Where the image is there already,
    /// only the new source is noted.
    pub(crate) fn publish(
        &self,
        incoming: NamedTempFile,
        packed: &Packed,
        source: SourceRecord,
    ) -> Result<StoredImage, StoreError> {
        if let Some(mut image) = self.by_raw(&packed.raw_sha256)? {
            image.meta.sources.retain(|known| *known != source);
            image.meta.sources.push(source);
            let excess = image.meta.sources.len().saturating_sub(SOURCES_MAX);
            image.meta.sources.drain(..excess);
            self.write_meta(&image.meta)?;
            return Ok(image);
        }
        let path = self.stream_path(&packed.raw_sha256);
        incoming.as_file().sync_all().map_err(|source| self.write_error(&path, source))?;
        let meta = ImageMeta {
            raw_sha256: packed.raw_sha256,
            raw_bytes: packed.raw_bytes,
            stream_sha256: packed.stream_sha256,
            stream_bytes: packed.stream_bytes,
            sources: vec![source],
        };
        readable_by_all(incoming.as_file()).map_err(|source| self.write_error(&path, source))?;
        // The lock is held until the metadata is there, lest another process takes the stream
        // for an orphan.
        let kept =
            incoming.persist(&path).map_err(|error| StoreError::Publish { path: path.clone(), source: error.error })?;
        let written = self.write_meta(&meta);
        if written.is_err() {
            drop(fs::remove_file(&path));
        }
        drop(kept);
        written.map(|()| StoredImage { meta, path })
    }

    pub(crate) fn write_error(&self, path: &Path, source: io::Error) -> StoreError {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            StoreError::Full { path: self.dir.clone() }
        } else {
            StoreError::Write { path: path.to_path_buf(), source }
        }
    }

    fn write_meta(&self, meta: &ImageMeta) -> Result<(), StoreError> {
        let path = self.dir.join(format!("{}{META}", meta.raw_sha256));
        let text = serde_json::to_vec_pretty(meta).map_err(|source| StoreError::Meta { path: path.clone(), source })?;
        let mut file = self.incoming()?;
        let written = file
            .write_all(&text)
            .and_then(|()| readable_by_all(file.as_file()))
            .and_then(|()| file.as_file().sync_all());
        written.map_err(|source| self.write_error(&path, source))?;
        file.persist(&path).map_err(|error| StoreError::Publish { path, source: error.error })?;
        self.sync_dir()
    }

    fn sync_dir(&self) -> Result<(), StoreError> {
        let synced = File::open(&self.dir).and_then(|dir| dir.sync_all());
        synced.map_err(|source| StoreError::Write { path: self.dir.clone(), source })
    }

    fn stream_path(&self, raw: &Sha256) -> PathBuf {
        self.dir.join(format!("{raw}{STREAM}"))
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
        if unlocked.is_some() {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::Remove { path, source });
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Temporary files are made for their owner alone; images are no secret.
fn readable_by_all(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    File::open(path)?.take(META_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
