//! Disk images: from any format that people publish to bytes on a disk that are proven to be
//! those bytes.
//!
//! ```text
//! raw | gzip | xz | zstd | qcow2 --import--> one zstd stream + digests --write--> disk
//!            (appliance)                       (ImageStore)            (agent)
//! ```
//!
//! Two features, so that the agent in the ramdisk contains no parser of foreign formats:
//! `import` (formats, downloads, the store) and `write` (the disk writer, partition tables,
//! signatures). This crate knows no resource kind and no agent protocol: its callers map.

pub mod digest;
pub mod http;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "write")]
pub mod write;

pub use digest::Sha256;
