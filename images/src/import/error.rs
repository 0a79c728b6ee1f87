//! Why an image is not imported, and what a person can do about it.

use std::io;

use super::bounds::BoundExceeded;
use super::checksum::Checksum;
use super::content::ContentFault;
use super::decoder::HistoryTooLong;
use super::format::{ImportFormat, Unsupported};
use super::qcow2::Qcow2Error;
use super::store::StoreError;
use firesteel_facts::Sha256;

/// Why an import ended without an image.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("the image cannot be used")]
    Unsupported(#[from] Unsupported),
    #[error("the image is declared as {declared}, but it is {found}")]
    Declared { declared: ImportFormat, found: ImportFormat },
    #[error("the image is {inner} inside {outer}; only raw and qcow2 may be compressed")]
    Nested { outer: ImportFormat, inner: ImportFormat },
    #[error(transparent)]
    Content(#[from] ContentFault),
    #[error("reading the image")]
    Source { source: io::Error },
    #[error("{}", failed_at(*format, *at_bytes, source))]
    Decode { format: ImportFormat, at_bytes: u64, source: io::Error },
    #[error("expanding the image, which is {format}")]
    Expand { format: ImportFormat, source: io::Error },
    #[error("expanding the image")]
    History(#[from] HistoryTooLong),
    #[error("the image costs too much to import")]
    Exceeded(#[from] BoundExceeded),
    #[error("reading the image's disk")]
    Qcow2(#[from] Qcow2Error),
    #[error("the image's checksum is {found}, not {expected}")]
    Checksum { expected: Checksum, found: Checksum },
    #[error("the image's sha256 once it is uncompressed is {found}, not {expected}")]
    Uncompressed { expected: Sha256, found: Sha256 },
    #[error("compressing the image")]
    Compress { source: io::Error },
    #[error("storing the image")]
    Store(#[from] StoreError),
}

impl ImportError {
    /// Whether the same bytes will fail again.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        // A full disk may have room again.
        !matches!(self, Self::Store(_) | Self::Source { .. })
    }

    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unsupported(_) => "give the address of a raw or qcow2 disk image, as it is or in gzip, xz or zstd",
            Self::Declared { .. } => "correct the declared format, or the address",
            Self::Nested { .. } => "compress the image once only",
            Self::Source { .. } => "see that the source can be read to its end",
            Self::Content(fault) => fault.help(),
            Self::Expand { format: ImportFormat::Qcow2, .. } | Self::Qcow2(_) => {
                "convert the image to raw where it comes from, if you trust it"
            }
            Self::Expand { .. } => "see that the appliance has memory to spare, and try again",
            Self::Decode { .. } => {
                "download it again from its publisher, with its checksum; if that fits, the file was published damaged"
            }
            Self::History(error) => error.help(),
            Self::Exceeded(_) => "use a smaller image; docs/reference/limits.md says what an image may have",
            Self::Checksum { .. } => {
                "correct the checksum if the publisher has a new one; else the file is not what was published"
            }
            Self::Uncompressed { .. } => {
                "the publisher's two digests contradict each other: fetch the stream's metadata again, and tell its publisher"
            }
            Self::Compress { .. } => "this is a fault of the appliance: report it with its log",
            Self::Store(error) => error.help(),
        }
    }
}

/// What a decoder's error says, and where in the file.
fn failed_at(format: ImportFormat, at_bytes: u64, source: &io::Error) -> String {
    if source.kind() == io::ErrorKind::UnexpectedEof {
        format!("the {format} stream ends in the middle, at byte {at_bytes} of the file")
    } else {
        format!("the {format} stream is not valid at byte {at_bytes} of the file")
    }
}
