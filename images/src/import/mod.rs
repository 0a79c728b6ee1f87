//! Leads from what people publish to what hosts are written from: any supported format becomes one
//! zstd stream of independent frames of the raw image, with digests of both, named by digest.
//!
//! ```text
//! url --acquire--> file --Importer--> detect -> expand -> pack --> ImageStore        (so many at a time: lane)
//!                          checksum of the bytes as downloaded ----^ nothing is kept before it fits
//! artifact of a stream --artifact--> partial file --> the same, or a file as it is
//! ```
//!
//! S1.5: an image is eligible only after its bytes match `sha256` and `uncompressed-sha256`; S1-11: what is in the store is
//! downloaded and verified, and says whether this appliance saw it or only a bundle names it.
//!
//! Everything happens in this process: no parser runs as a child, none runs on a host. The bytes
//! are hostile until their checksum fits, and also then: every reader is bounded, in memory by [`MEMORY_BYTES_MAX`],
//! and in what it gives and takes by [`ImportBounds`].

pub mod acquire;
mod artifact;
pub(crate) mod bounds;
pub mod checksum;
pub mod content;
mod decoder;
mod error;
mod fetch;
pub mod format;
mod gzip;
mod import_queue;
mod importer;
mod local;
pub(crate) mod pack;
mod partial;
mod pinned_image;
mod processor;
pub mod qcow2;
pub mod read;
pub(crate) mod room_limited_writer;
mod stage;
mod store;
mod stored_lookup;
mod work;

pub use firesteel_dial::{WebClient, WebLogin};

pub use acquire::{AcquireError, Acquirer, ImageRequest};
pub use artifact::{Acquired, ArtifactError, ArtifactRequest, SignatureState, StoredArtifact};
pub use bounds::{ALLOCATED_BYTES_MAX, BoundExceeded, ImportBounds, ImportCost, RAW_BYTES_MAX, SOURCE_BYTES_MAX};
pub use checksum::{Algorithm, Checksum, ChecksumError};
pub use content::{ContentFault, Lookalike};
pub use decoder::HistoryTooLong;
pub use error::ImportError;
pub use format::{ImportFormat, detect};
pub use import_queue::{DOWNLOADS_AT_ONCE, IMPORTS_AT_ONCE, PLACES_MAX};
pub use importer::{ImportSource, Importer, MEMORY_BYTES_MAX};
pub use local::LocalError;
pub use pack::FRAME_BYTES;
pub use partial::FLUSH_BYTES;
pub use pinned_image::{PinnedImageError, PinnedImageRequest};
pub use stage::AcquisitionStage;
pub use store::{
    Collected, FileMeta, ImageMeta, ImageStore, ImportNotes, PendingRemovals, RecordOrigin, SourceRecord, StoreError,
    StoreLease, StoredFile, StoredFileRole, StoredImage, Unfinished, without_secrets,
};
pub use work::ImportProgress;
