//! What streams need of network and disk: documents, artifacts, room. The process brings it ([`Depot`]), and so does a
//! test.

use std::collections::{BTreeSet, HashSet};
use std::{future::Future, pin::Pin, sync::Arc};

use firesteel_facts::Sha256;
use firesteel_images::import::{AcquisitionStage, ArtifactRequest, SignatureState};

/// Work that touches network or disk.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// Hears how far a download is.
pub type Tell = Arc<dyn Fn(AcquisitionStage) + Send + Sync>;

/// Where a stream's metadata is, other than in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataSource {
    Url(String),
    /// A plain name in the appliance's folder of streams.
    File(String),
}

/// An artifact that is in the store, verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepotArtifact {
    /// The digest of what is written to a disk, where it is one.
    pub raw_sha256: Option<Sha256>,
    /// The length of what was downloaded.
    pub bytes: u64,
    /// The path at which hosts get it.
    pub served: String,
    pub signature: SignatureState,
    /// This appliance saw that the image is the artifact; otherwise a bundle says so.
    pub is_seen_here: bool,
    /// The image has the digest that the stream gives for the expanded bytes, whether it was fetched or came by a
    /// bundle.
    pub is_proven: bool,
}

/// Why something is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepotFailure {
    /// The text for people, with all causes, and what to do.
    pub message: String,
    /// It will fail again until something is changed.
    pub is_permanent: bool,
    /// The store has no room.
    pub is_full: bool,
    /// The signature is not that of the key.
    pub is_signature: bool,
    /// Another task is downloading it: nothing is wrong.
    pub is_busy: bool,
}

/// Why the depot could not do what was asked. The texts are for people, with all causes, and say what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DepotError {
    /// A stream's metadata cannot be had.
    #[error("{0}")]
    Document(String),
    /// The store of images, or the folder of streams, cannot be read or written.
    #[error("{0}")]
    Store(String),
    /// What objects refer to cannot be read.
    #[error("{0}")]
    Objects(String),
    #[error("the work ended badly: {0}")]
    Task(String),
}

/// An image as an object names it, whose digest may be of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName {
    pub url: String,
    /// Hexadecimal digits of any length, the address of a file with digests, or empty.
    pub checksum: String,
}

/// What objects refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    pub digests: HashSet<Sha256>,
    pub images: BTreeSet<ImageName>,
}

impl InUse {
    pub fn add(&mut self, other: Self) {
        self.digests.extend(other.digests);
        self.images.extend(other.images);
    }
}

/// Knows what objects refer to.
pub trait Referrers: Send + Sync {
    /// Reads what is in use now.
    fn in_use(&self) -> Doing<'_, Result<InUse, DepotError>>;
}

/// What making room did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreedRoom {
    /// Images that are gone, by their raw digests.
    pub images: Vec<Sha256>,
    pub bytes: u64,
    /// Why there still is not enough.
    pub shortfall: Option<String>,
}

/// The appliance's store of images, and its way out.
pub trait Depot: Send + Sync {
    /// A stream's metadata as it is now.
    fn document<'a>(&'a self, place: &'a MetadataSource) -> Doing<'a, Result<Vec<u8>, DepotError>>;

    /// Keeps what was read last of a stream, for bundles.
    fn keep<'a>(&'a self, stream: &'a str, document: Vec<u8>) -> Doing<'a, Result<(), DepotError>>;

    /// What is in the store of an artifact; nothing goes out.
    fn find_artifact<'a>(
        &'a self,
        wanted: &'a ArtifactRequest,
    ) -> Doing<'a, Result<Option<DepotArtifact>, DepotFailure>>;

    /// Brings an artifact into the store. What was downloaded stays where this is dropped or fails, and is gone on
    /// with.
    fn fetch<'a>(&'a self, wanted: &'a ArtifactRequest, tell: Tell) -> Doing<'a, Result<DepotArtifact, DepotFailure>>;

    /// Removes what is unused, as far as room is short for so many bytes more. What is in use is asked for again once
    /// it is chosen what goes and no request gets that any more: an object may have come to name it meanwhile.
    fn make_room<'a>(
        &'a self,
        referrers: &'a dyn Referrers,
        quota_bytes: Option<u64>,
        coming_bytes: u64,
    ) -> Doing<'a, Result<FreedRoom, DepotError>>;
}
