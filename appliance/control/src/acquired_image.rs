//! What the store of images gives for a request.

use firesteel_images::import::{ImageMeta, ImageRequest};
use firesteel_plan::host::ReadyImage;

/// An image that is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcquiredImage {
    /// What a host's plan names of it.
    pub ready: ReadyImage,
    /// What was odd about it, a sentence for each.
    pub warnings: Vec<String>,
}

impl AcquiredImage {
    #[must_use]
    pub fn of(meta: &ImageMeta, request: &ImageRequest) -> Self {
        let source = meta.source_of(&request.url, &request.checksum);
        let notes = source.map(|source| source.notes).unwrap_or_default();
        Self { ready: ready(meta), warnings: notes.sentences() }
    }
}

impl From<ReadyImage> for AcquiredImage {
    fn from(ready: ReadyImage) -> Self {
        Self { ready, warnings: Vec::new() }
    }
}

/// What a host's plan names of a stored image.
fn ready(meta: &ImageMeta) -> ReadyImage {
    ReadyImage {
        raw_sha256: meta.raw_sha256.to_string(),
        raw_bytes: meta.raw_bytes,
        stream_sha256: meta.stream_sha256.to_string(),
        stream_bytes: meta.stream_bytes,
    }
}
