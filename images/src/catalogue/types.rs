//! What an artifact is: the words of stream metadata (S1-2.2) as types.

use std::fmt;

use firesteel_facts::{Architecture, Sha256};
use serde::{Deserialize, Serialize};

use super::location::ArtifactUrl;

/// What an artifact is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// The image of a disk, plain or compressed: `raw`, `raw.gz`, `raw.xz`, `raw.zst`, each also with `4k.` before it.
    Metal,
    Iso,
    Pxe,
    /// What other platforms take (qcow2, vmdk, ova, …): known, not chosen.
    Other,
}

impl fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metal => "metal",
            Self::Iso => "iso",
            Self::Pxe => "pxe",
            Self::Other => "other",
        })
    }
}

/// Which file of its format an artifact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactPart {
    Disk,
    Kernel,
    Initramfs,
    Rootfs,
    /// What stream metadata calls the `disk` of the format `iso`.
    Iso,
}

impl fmt::Display for ArtifactPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disk => "disk",
            Self::Kernel => "kernel",
            Self::Initramfs => "initramfs",
            Self::Rootfs => "rootfs",
            Self::Iso => "iso",
        })
    }
}

/// Sectors of most disks.
pub(super) const PLAIN_SECTOR_BYTES: u32 = 512;
/// Sectors of 4 KiB native disks, for which formats carry [`FOUR_K`].
pub(super) const FOUR_K_SECTOR_BYTES: u32 = 4096;
const FOUR_K: &str = "4k.";

/// One file that a stream names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    pub architecture: Architecture,
    /// The platform, such as `metal` or `openstack`.
    pub platform: String,
    pub kind: ArtifactKind,
    /// The format as the stream names it: `4k.raw.gz`.
    pub format: String,
    pub part: ArtifactPart,
    /// The size of a sector of the disks that it is made for.
    pub sector_bytes: u32,
    pub release: String,
    pub location: ArtifactUrl,
    /// The digest of the bytes as downloaded.
    pub sha256: Sha256,
    /// The digest of the bytes once the outer compression is taken off.
    pub uncompressed_sha256: Option<Sha256>,
    /// Where the detached OpenPGP signature of the bytes as downloaded is.
    pub signature: Option<ArtifactUrl>,
}

/// Kind and sector size of a format's name.
pub(super) fn of_format(name: &str) -> (ArtifactKind, u32) {
    let (sector_bytes, plain) = match name.strip_prefix(FOUR_K) {
        Some(plain) => (FOUR_K_SECTOR_BYTES, plain),
        None => (PLAIN_SECTOR_BYTES, name),
    };
    let kind = match plain {
        "raw" | "raw.gz" | "raw.xz" | "raw.zst" => ArtifactKind::Metal,
        "iso" => ArtifactKind::Iso,
        "pxe" => ArtifactKind::Pxe,
        _ => ArtifactKind::Other,
    };
    (kind, sector_bytes)
}
