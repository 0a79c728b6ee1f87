//! Offline bundles: images, files and stream metadata in one file, for sites from which nothing goes out (S1.25).
//!
//! ```text
//! a tar archive, not compressed (the streams in it are)
//!   manifest.json       Manifest: what is in it, with digests and sizes
//!   <sha256>            the blobs, in the manifest's order: stream metadata, streams of images, files
//!
//! ImageStore --export--> any writer        any reader --import--> ImageStore, BundleImportReport
//! ```
//!
//! Names in the archive are digests and nothing else, so no path leads anywhere; only plain entries in the manifest's
//! order are taken (tar entries are read raw: no long names, links, sparse files or attributes exist for us). Each blob
//! is compared with its digest before it is published, and an image's stream is expanded to compare its raw digest.
//! What was verified stays whatever comes after it; the rest is reported with a reason.
//!
//! A bundle proves what its images are, not where they come from: that is noted as a bundle's word
//! ([`RecordOrigin::Bundle`](crate::import::RecordOrigin)), and what was seen here comes before it.

mod export;
mod import;
mod manifest;

pub use export::{Contents, Exported, export};
pub use import::{BundleImportReport, Unused, import, verify};
pub use manifest::{BundleManifest, FORMAT, ITEMS_MAX, MANIFEST_BYTES_MAX, ManifestError, StreamEntry};

use std::io;

use firesteel_facts::Sha256;

use crate::import::StoreError;

/// Where an export or an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleProgress {
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// Why there is no bundle, or nothing came out of one.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("{digest} is not in the image store")]
    Missing { digest: Sha256 },
    #[error("the image store's file of {digest} has changed: its digest is {found}")]
    Damaged { digest: Sha256, found: Sha256 },
    #[error("writing the bundle")]
    Write { source: io::Error },
    #[error("reading the bundle")]
    Read { source: io::Error },
    #[error("this is no bundle: it does not begin with a plain entry manifest.json")]
    NoManifest,
    #[error("using the bundle's manifest")]
    Manifest(#[from] ManifestError),
    #[error("using the image folder")]
    Store(#[from] StoreError),
}

/// Reads any bytes as a bundle, and as a bundle's manifest. For fuzzing: never panics, and what passes keeps the bounds.
pub fn check(bytes: &[u8]) {
    /// Images of an input are small, lest a bomb take a second.
    const CHECKED_RAW_BYTES_MAX: u64 = 1 << 20;
    if let Ok(report) = import::walk(bytes, None, CHECKED_RAW_BYTES_MAX, &|_| {}) {
        let reasons = report.unused.iter().map(|unused| &unused.reason).chain(&report.ended);
        assert!(!reasons.into_iter().any(|text| text.chars().any(char::is_control)), "{report:?}");
        assert!(report.files.len() + report.streams.len() <= bytes.len() / 512, "nothing comes of nothing");
    }
    match BundleManifest::parse(bytes) {
        Ok(manifest) => {
            let blobs = manifest.blobs();
            assert!(blobs.len() <= ITEMS_MAX && blobs.iter().all(|blob| blob.bytes > 0));
            let again = manifest.to_bytes().map(|bytes| BundleManifest::parse(&bytes));
            assert!(matches!(again, Ok(Ok(again)) if again == manifest), "a manifest comes back as it was written");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "an error is one line: {error}"),
    }
}
