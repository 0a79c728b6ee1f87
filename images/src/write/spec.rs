//! What a write has to bring about.

use firesteel_facts::Guid;
use firesteel_facts::Sha256;

/// What to write: the promises that the source must keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteSpec {
    /// Length of the raw image; a multiple of 512.
    pub raw_bytes: u64,
    pub raw_sha256: Sha256,
    /// Length of the compressed stream.
    pub stream_bytes: u64,
    pub stream_sha256: Sha256,
    /// The GUID that the disk gets, if the image has a GPT.
    pub disk_guid: Guid,
}
