//! Finds images by raw digest, by stream, and by what they came from (S1.5: only what was verified is here).

use std::io::Read as _;
use std::{fs, path::PathBuf};

use firesteel_facts::{Hasher, Sha256};
use tempfile::NamedTempFile;

use super::meta::{ImageMeta, SourceRecord, StoreError, note};
use super::{ImageStore, META, STREAM, remove_if_there};
use crate::import::{checksum::Checksum, pack::PackedImage};

/// What is read at once of a stream that is checked.
const CHECKED_AT_ONCE_BYTES: usize = 1 << 20;

/// An image with the file that holds its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredImage {
    pub meta: ImageMeta,
    pub path: PathBuf,
}

impl ImageStore {
    /// All images, sorted by digest.
    pub fn list(&self) -> Result<Vec<StoredImage>, StoreError> {
        let mut names = self.names()?;
        names.sort();
        let digests = names.iter().filter_map(|name| name.strip_suffix(META)?.parse::<Sha256>().ok());
        digests.filter_map(|raw| self.by_raw(&raw).transpose()).collect()
    }

    /// The image whose raw bytes have this digest.
    pub fn by_raw(&self, raw: &Sha256) -> Result<Option<StoredImage>, StoreError> {
        let Some(meta) = self.read_json::<ImageMeta>(&self.image_meta_path(raw))? else { return Ok(None) };
        let path = self.stream_path(raw);
        let whole = fs::metadata(&path).is_ok_and(|found| found.len() == meta.stream_bytes);
        Ok((whole && meta.raw_sha256 == *raw).then_some(StoredImage { meta, path }))
    }

    /// The image whose stream has this digest.
    pub fn by_stream(&self, stream: &Sha256) -> Result<Option<StoredImage>, StoreError> {
        Ok(self.list()?.into_iter().find(|image| image.meta.stream_sha256 == *stream))
    }

    /// The image that a download with this checksum gave before. One that was seen here comes before one of which only
    /// a bundle says so.
    pub fn by_source(&self, checksum: &Checksum) -> Result<Option<StoredImage>, StoreError> {
        self.find_source(&|source| source.has(checksum))
    }

    /// Finds an image as [`Self::by_source`] does, to use it: one that is just being removed is waited for, and found
    /// gone or kept. An object that named it before keeps it from then on.
    pub fn used_by_source(&self, checksum: &Checksum) -> Result<Option<StoredImage>, StoreError> {
        let Some(image) = self.by_source(checksum)? else { return Ok(None) };
        Ok(self.lease_image(&image.meta.raw_sha256)?.map(|_lease| image))
    }

    /// Finds an image as [`Self::by_source`] does, for a source that a function knows.
    pub(crate) fn find_source(&self, gave: &dyn Fn(&SourceRecord) -> bool) -> Result<Option<StoredImage>, StoreError> {
        let here = |source: &SourceRecord| source.witness == super::RecordOrigin::Here;
        let images = self.list()?;
        let seen = images.iter().find(|image| image.meta.sources.iter().any(|source| here(source) && gave(source)));
        let stated = || images.iter().find(|image| image.meta.sources.iter().any(gave));
        Ok(seen.or_else(stated).cloned())
    }

    /// Forgets an image, in use or not. Hosts that are fetching it keep their open file.
    pub fn remove(&self, raw: &Sha256) -> Result<(), StoreError> {
        remove_if_there(&self.image_meta_path(raw))?;
        remove_if_there(&self.stream_path(raw))?;
        self.sync_dir()
    }

    /// Reads an image's stream from the disk, and says whether it still is what was stored; `None` where it is gone. A
    /// disk may have changed it since.
    pub fn is_intact(&self, raw: &Sha256) -> Result<Option<bool>, StoreError> {
        let Some(image) = self.by_raw(raw)? else { return Ok(None) };
        let Some(lease) = self.lease_image(raw)? else { return Ok(None) };
        let failed = |source| StoreError::Read { path: image.path.clone(), source };
        let (mut hasher, mut buffer, mut file) = (Hasher::new(), vec![0; CHECKED_AT_ONCE_BYTES], lease.file());
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => return Ok(Some(hasher.finish() == image.meta.stream_sha256)),
                bytes => hasher.update(&buffer[..bytes]),
            }
        }
    }

    /// Puts a finished stream in its place, then its metadata. Where the image is there already, only the new sources
    /// are noted.
    pub(crate) fn publish(
        &self,
        incoming: NamedTempFile,
        packed: &PackedImage,
        sources: Vec<SourceRecord>,
    ) -> Result<StoredImage, StoreError> {
        let raw = &packed.raw_sha256;
        // It must not be removed while its sources are noted.
        let lease = self.lease_image(raw)?;
        if let Some(mut image) = self.by_raw(raw)? {
            sources.into_iter().for_each(|source| note(&mut image.meta.sources, source));
            self.write_json(&self.image_meta_path(raw), &image.meta)?;
            drop(lease);
            return Ok(image);
        }
        let path = self.stream_path(raw);
        let mut meta = ImageMeta {
            raw_sha256: packed.raw_sha256,
            raw_bytes: packed.raw_bytes,
            stream_sha256: packed.stream_sha256,
            stream_bytes: packed.stream_bytes,
            sources: Vec::new(),
        };
        sources.into_iter().for_each(|source| note(&mut meta.sources, source));
        self.place(incoming, &path, &self.image_meta_path(raw), &meta)?;
        Ok(StoredImage { meta, path })
    }

    pub(super) fn image_meta_path(&self, raw: &Sha256) -> PathBuf {
        self.dir.join(format!("{raw}{META}"))
    }

    pub(super) fn stream_path(&self, raw: &Sha256) -> PathBuf {
        self.dir.join(format!("{raw}{STREAM}"))
    }
}
