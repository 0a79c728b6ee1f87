//! Disk images: from any format that people publish to bytes on a disk that are proven to be
//! those bytes. The appliance, control and the boot image streams import; the agent's steps write.
//!
//! ```text
//! stream metadata --catalogue--> artifact --+
//! raw | gzip | xz | zstd | qcow2 -----------+--import--> one zstd stream + digests --write--> disk
//!            (appliance)                                 (ImageStore)            (agent)
//!                                                        |  ^      |
//!                                            collect <---+  +------+--> bundle (a file, for sites without a network)
//! ```
//!
//! It has two features, so that the agent in the ramdisk contains no parser of foreign formats: `import` (stream
//! metadata, formats, downloads, signatures, the store, bundles) and `write` (the disk writer, partition tables,
//! signatures; imports use its readers of tables and signatures). This crate knows no host, no resource kind and no
//! agent protocol: its callers map.

#[cfg(feature = "import")]
pub mod bundle;
#[cfg(feature = "import")]
pub mod catalogue;
#[cfg(feature = "import")]
pub mod collect;
pub mod http;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "import")]
pub mod openpgp;
#[cfg(any(feature = "import", feature = "write"))]
pub mod write;
