//! From what people publish to what hosts are written from: any supported format becomes one
//! zstd stream of independent frames of the raw image, with digests of both, named by digest.
//!
//! ```text
//! url --acquire--> file --Importer--> detect -> expand -> pack --> ImageStore
//!                          checksum of the bytes as downloaded ----^ nothing is kept before it fits
//! ```
//!
//! Everything happens in this process: no parser runs as a child, none runs on a host. The bytes
//! are hostile until their checksum fits, and also then: every reader is bounded.

pub mod acquire;
pub mod checksum;
pub mod format;
mod importer;
mod local;
mod pack;
pub mod qcow2;
pub mod read;
mod spare;
mod store;

pub use acquire::{AcquireError, Acquirer, Request, Stage};
pub use checksum::{Algorithm, Checksum, ChecksumError};
pub use format::{Format, detect};
pub use importer::{ImportError, Importer, Origin, Progress};
pub use local::LocalError;
pub use pack::FRAME_BYTES;
pub use store::{ImageMeta, ImageStore, SourceRecord, StoreError, StoredImage};
