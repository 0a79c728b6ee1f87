//! Stream metadata: which images an OS stream has now, and which of them a host wants (S1-2.2; S1.5, S1.6).
//!
//! ```text
//! bytes --read--> SourceDocument --+-- Stream (stream metadata as Fedora CoreOS and RHCOS publish it)
//!                                  +-- BootImages (the ConfigMap coreos-bootimages: streams and their stamp)
//! Stream --choose--> Artifact (address, digests, signature) --import::artifact--> ImageStore
//! ```
//!
//! Pure: no file, no socket, no clock. The metadata is trusted by its digests only, so everything else in it is
//! hostile: one entry that is missing a part, has a wrong type, or names an address that we do not fetch is a
//! [`StreamEntryFault`] of that entry, and all others count. What is not even a stream is an error of the whole.

mod boot_images;
mod choose;
mod json;
mod location;
mod parse;
mod text;
mod types;

pub use boot_images::{BootImages, OPERATOR_HASH_KEY, RELEASE_KEY, STAMP_KEY, STREAM_KEY, STREAMS_KEY, StampState};
pub use choose::{NoChoice, PxeFiles, disk_image, iso, pxe};
pub use location::{ArtifactUrl, LOCATION_BYTES_MAX, LocationError};
pub use parse::{FaultCause, StreamEntryFault, StreamEntryPath, StreamError, StreamMetadata};
pub use types::{Artifact, ArtifactKind, ArtifactPart};

pub(crate) use text::{is_name, shown};

use firesteel_facts::Architecture;
use json::Json;

/// The longest document. The largest published one has 62 kB for four architectures and thirty platforms.
pub const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// Values in one document: the largest published one has 1,500; each costs some memory however short it is written.
const VALUES_MAX: usize = 100_000;

/// What the bytes of a source are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceDocument {
    Stream(StreamMetadata),
    BootImages(BootImages),
}

/// Reads stream metadata, or a ConfigMap that holds some.
pub fn read(bytes: &[u8]) -> Result<SourceDocument, StreamError> {
    let json = parse_json(bytes)?;
    let kind = json.object().and_then(|object| object.get("kind").ok().flatten()).and_then(Json::text);
    if kind == Some("ConfigMap") {
        return BootImages::of_object(&json).map(SourceDocument::BootImages);
    }
    StreamMetadata::of_json(&json).map(SourceDocument::Stream)
}

/// Reads stream metadata alone.
pub fn read_stream(bytes: &[u8]) -> Result<StreamMetadata, StreamError> {
    StreamMetadata::of_json(&parse_json(bytes)?)
}

fn parse_json(bytes: &[u8]) -> Result<Json, StreamError> {
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(StreamError::TooLong { bytes: bytes.len() });
    }
    Json::parse(bytes, VALUES_MAX).map_err(|error| StreamError::Json { why: shown(&error.to_string()) })
}

/// Reads any bytes and chooses from what was read. For fuzzing: never panics, and what comes out keeps its promises.
pub fn check(bytes: &[u8]) {
    let streams: Vec<StreamMetadata> = match read(bytes) {
        Ok(SourceDocument::Stream(stream)) => vec![stream],
        Ok(SourceDocument::BootImages(images)) => images.streams.into_values().filter_map(Result::ok).collect(),
        Err(error) => {
            assert!(!error.to_string().chars().any(char::is_control), "an error is one plain line: {error:?}");
            return;
        }
    };
    for stream in &streams {
        for artifact in &stream.artifacts {
            assert!(artifact.location.as_str().starts_with("http"), "{artifact:?}");
            assert!(matches!(artifact.sector_bytes, 512 | 4096) && is_name(&artifact.release), "{artifact:?}");
        }
        for fault in &stream.faults {
            assert!(!fault.to_string().chars().any(char::is_control), "a fault is one plain line: {fault:?}");
        }
        for architecture in Architecture::ALL {
            for sector_bytes in [0, 512, 520, 4096] {
                if let Ok(found) = disk_image(stream, architecture, sector_bytes) {
                    assert!(found.architecture == architecture && found.sector_bytes == sector_bytes, "{found:?}");
                }
            }
            drop((pxe(stream, architecture), iso(stream, architecture)));
        }
    }
}
