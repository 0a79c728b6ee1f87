//! What a bundle says that it holds (S1.25: images, metadata, digests).

use std::collections::HashSet;

use firesteel_facts::Sha256;
use serde::{Deserialize, Serialize};

use crate::catalogue::{DOCUMENT_BYTES_MAX, LOCATION_BYTES_MAX, is_name, shown};
use crate::import::{FileMeta, ImageMeta, RAW_BYTES_MAX, RecordOrigin, SourceRecord, StoredFileRole};

/// The version of this form. Another one is refused, not guessed.
pub const FORMAT: u32 = 1;
/// A manifest of a hundred images has 100 kB.
pub const MANIFEST_BYTES_MAX: u64 = 8 << 20;
/// Blobs of one bundle.
pub const ITEMS_MAX: usize = 4096;
/// The limit is that of downloads.
const BLOB_BYTES_MAX: u64 = 256 << 30;
/// The most sources of one image in a bundle.
const SOURCES_MAX: usize = 32;
const SECTOR_BYTES: u64 = 512;

/// One stream's metadata as it was imported, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamEntry {
    pub name: String,
    pub sha256: Sha256,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleManifest {
    pub format: u32,
    pub streams: Vec<StreamEntry>,
    pub images: Vec<ImageMeta>,
    pub files: Vec<FileMeta>,
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("it is not JSON of the form that is expected: {why}")]
    Json { why: String },
    #[error("it has the format {found}, and this appliance reads {FORMAT}: use an appliance of the same version")]
    Format { found: u32 },
    #[error("it has {found} blobs, more than {ITEMS_MAX}")]
    TooMany { found: usize },
    #[error("it names {digest} twice")]
    Twice { digest: Sha256 },
    #[error("{digest} has {bytes} bytes; between 1 and {max} are expected")]
    Bytes { digest: Sha256, bytes: u64, max: u64 },
    #[error("{digest}: {text} is no {what}")]
    Text { digest: Sha256, what: &'static str, text: String },
    #[error("{digest}: a file with the role of stream metadata stands among the files")]
    Role { digest: Sha256 },
}

/// What a blob of the archive becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BundleBlob<'a> {
    pub(super) digest: Sha256,
    pub(super) bytes: u64,
    pub(super) what: BlobContent<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlobContent<'a> {
    Stream(&'a StreamEntry),
    Image(&'a ImageMeta),
    File(&'a FileMeta),
}

impl BundleManifest {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self =
            serde_json::from_slice(bytes).map_err(|error| ManifestError::Json { why: shown(&error.to_string()) })?;
        manifest.check()?;
        Ok(manifest)
    }

    pub(super) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    /// Lists the blobs in the order of the archive.
    pub(super) fn blobs(&self) -> Vec<BundleBlob<'_>> {
        let streams = self.streams.iter().map(|entry| BundleBlob {
            digest: entry.sha256,
            bytes: entry.bytes,
            what: BlobContent::Stream(entry),
        });
        let images = self.images.iter().map(|meta| BundleBlob {
            digest: meta.stream_sha256,
            bytes: meta.stream_bytes,
            what: BlobContent::Image(meta),
        });
        let files = self.files.iter().map(|meta| BundleBlob {
            digest: meta.sha256,
            bytes: meta.bytes,
            what: BlobContent::File(meta),
        });
        streams.chain(images).chain(files).collect()
    }

    /// What is written of it is shown and stored, so all of it is judged before the first blob is taken.
    fn check(&self) -> Result<(), ManifestError> {
        if self.format != FORMAT {
            return Err(ManifestError::Format { found: self.format });
        }
        let blobs = self.blobs();
        if blobs.len() > ITEMS_MAX {
            return Err(ManifestError::TooMany { found: blobs.len() });
        }
        let (mut digests, mut raws) = (HashSet::new(), HashSet::new());
        for blob in &blobs {
            let digest = blob.digest;
            if !digests.insert(digest) {
                return Err(ManifestError::Twice { digest });
            }
            let bounded = |bytes, max| {
                if (1..=max).contains(&bytes) { Ok(()) } else { Err(ManifestError::Bytes { digest, bytes, max }) }
            };
            match &blob.what {
                BlobContent::Stream(entry) => {
                    bounded(entry.bytes, DOCUMENT_BYTES_MAX as u64)?;
                    name(digest, "name of a stream", &entry.name)?;
                }
                BlobContent::Image(meta) => {
                    bounded(meta.stream_bytes, BLOB_BYTES_MAX)?;
                    bounded(meta.raw_bytes, RAW_BYTES_MAX)?;
                    if !meta.raw_bytes.is_multiple_of(SECTOR_BYTES) {
                        let (bytes, max) = (meta.raw_bytes, RAW_BYTES_MAX);
                        return Err(ManifestError::Bytes { digest: meta.raw_sha256, bytes, max });
                    }
                    if !raws.insert(meta.raw_sha256) {
                        return Err(ManifestError::Twice { digest: meta.raw_sha256 });
                    }
                    sources(digest, &meta.sources)?;
                }
                BlobContent::File(meta) => {
                    bounded(meta.bytes, BLOB_BYTES_MAX)?;
                    if meta.role == StoredFileRole::Stream || !meta.name.is_empty() {
                        return Err(ManifestError::Role { digest });
                    }
                    sources(digest, &meta.sources)?;
                }
            }
        }
        Ok(())
    }
}

fn name(digest: Sha256, what: &'static str, text: &str) -> Result<(), ManifestError> {
    if is_name(text) { Ok(()) } else { Err(ManifestError::Text { digest, what, text: shown(text) }) }
}

fn sources(digest: Sha256, sources: &[SourceRecord]) -> Result<(), ManifestError> {
    if sources.len() > SOURCES_MAX {
        return Err(ManifestError::TooMany { found: sources.len() });
    }
    for source in sources {
        let plain = |text: &str| text.len() <= LOCATION_BYTES_MAX && !text.chars().any(char::is_control);
        for (what, text) in [("address", &source.url), ("checksum", &source.checksum)] {
            if !plain(text) {
                return Err(ManifestError::Text { digest, what, text: shown(text) });
            }
        }
        for (what, text) in [("release", &source.release), ("fingerprint", &source.signed_by)] {
            if !text.is_empty() {
                name(digest, what, text)?;
            }
        }
    }
    Ok(())
}

/// The sources as a bundle's word. What another appliance checked, this one did not.
pub(super) fn bundle_sources(sources: &[SourceRecord]) -> Vec<SourceRecord> {
    let stated = |source: &SourceRecord| SourceRecord { witness: RecordOrigin::Bundle, ..source.clone() };
    sources.iter().map(stated).collect()
}
