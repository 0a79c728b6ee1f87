//! Files that are served as they are, by digest: the parts of `pxe` and the `iso` (S1-2.2), and stream metadata.

use std::{fs, path::PathBuf};

use firesteel_facts::Sha256;
use tempfile::NamedTempFile;

use super::meta::{FileMeta, StoreError, note};
use super::{FILE, ImageStore, META};

/// A file with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub meta: FileMeta,
    pub path: PathBuf,
}

impl ImageStore {
    /// All files, sorted by digest.
    pub fn files(&self) -> Result<Vec<StoredFile>, StoreError> {
        let mut names = self.names()?;
        names.sort();
        let stem = |name: &str| name.strip_suffix(META)?.strip_suffix(FILE)?.parse::<Sha256>().ok();
        names.iter().filter_map(|name| self.file(&stem(name)?).transpose()).collect()
    }

    /// The file with this digest.
    pub fn file(&self, sha256: &Sha256) -> Result<Option<StoredFile>, StoreError> {
        let Some(meta) = self.read_json::<FileMeta>(&self.file_meta_path(sha256))? else { return Ok(None) };
        let path = self.file_path(sha256);
        let whole = fs::metadata(&path).is_ok_and(|found| found.len() == meta.bytes);
        Ok((whole && meta.sha256 == *sha256).then_some(StoredFile { meta, path }))
    }

    /// Puts a file whose digest was checked in its place, then its metadata. Where it is there already, only the new
    /// sources are noted.
    pub(crate) fn publish_file(&self, incoming: NamedTempFile, meta: FileMeta) -> Result<StoredFile, StoreError> {
        let meta_path = self.file_meta_path(&meta.sha256);
        let lease = self.lease_file(&meta.sha256)?;
        if let Some(mut known) = self.file(&meta.sha256)? {
            meta.sources.into_iter().for_each(|source| note(&mut known.meta.sources, source));
            self.write_json(&meta_path, &known.meta)?;
            drop(lease);
            return Ok(known);
        }
        let mut own = FileMeta { sources: Vec::new(), ..meta.clone() };
        meta.sources.into_iter().for_each(|source| note(&mut own.sources, source));
        let path = self.file_path(&own.sha256);
        self.place(incoming, &path, &meta_path, &own)?;
        Ok(StoredFile { meta: own, path })
    }

    pub(super) fn file_meta_path(&self, sha256: &Sha256) -> PathBuf {
        self.dir.join(format!("{sha256}{FILE}{META}"))
    }

    pub(super) fn file_path(&self, sha256: &Sha256) -> PathBuf {
        self.dir.join(format!("{sha256}{FILE}"))
    }
}
