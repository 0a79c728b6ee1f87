//! Packs an image from the bytes of a source: what is compressed is expanded as it comes, and a qcow2 image is put
//! aside first, for its tables lead here and there. The disk is looked at on its way.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write as _};

use firesteel_facts::{Hasher, Sha256};

use super::bounds::{BoundExceeded, ImportBounds, ImportMeter};
use super::content::{ContentFault, DiskWatch, WatchedImage};
use super::decoder::HistoryTooLong;
use super::error::ImportError;
use super::format::ImportFormat;
use super::pack::{self, PackError, RawImage, Unmapped};
use super::qcow2;
use super::read::{DecodeFailed, SourceFailed, fill};
use super::room_limited_writer::RoomLimitedWriter;
use super::store::ImageStore;

/// What is put aside is read in pieces of so many bytes.
pub(super) const SPOOL_BYTES: usize = 1 << 20;

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// Bytes of the source that were read.
    pub source_bytes: u64,
    /// Bytes of the raw image that were packed.
    pub raw_bytes: u64,
}

/// A disk that was packed and looked at.
pub(super) struct CheckedDisk {
    pub(super) packed: pack::PackedImage,
    /// It has a GPT without a second one at its end.
    pub(super) is_backup_table_missing: bool,
}

/// One import under way.
pub(super) struct ImportWork<'a> {
    pub(super) store: &'a ImageStore,
    pub(super) bounds: ImportBounds,
    /// The format of the source as it is.
    pub(super) outer: ImportFormat,
    /// The owner declared a format: the disk is one whatever its bytes look like.
    pub(super) is_declared: bool,
    pub(super) meter: &'a ImportMeter<'a>,
    pub(super) progress: &'a dyn Fn(ImportProgress),
}

impl ImportWork<'_> {
    /// Packs a raw image as it comes.
    pub(super) fn pack_stream(
        &self,
        mut raw: impl Read,
        incoming: &mut tempfile::NamedTempFile,
    ) -> Result<CheckedDisk, ImportError> {
        self.pack_image(&mut Unmapped(&mut raw), self.outer, incoming)
    }

    fn pack_image(
        &self,
        image: &mut dyn RawImage,
        format: ImportFormat,
        incoming: &mut tempfile::NamedTempFile,
    ) -> Result<CheckedDisk, ImportError> {
        let path = incoming.path().to_path_buf();
        let (meter, progress) = (self.meter, self.progress);
        let mut raw_bytes = 0;
        let mut seen = |bytes: u64, data_bytes: u64| {
            raw_bytes += bytes;
            progress(ImportProgress { source_bytes: meter.source_bytes(), raw_bytes });
            meter.raw(bytes, data_bytes)
        };
        let mut watched = WatchedImage { image, watch: DiskWatch::new(self.is_declared) };
        let packed = pack::pack(&mut watched, &mut RoomLimitedWriter::new(incoming.as_file()), &mut seen);
        let packed = packed.map_err(|error| match error {
            PackError::Read { source } => unreadable(format, source),
            PackError::Exceeded(exceeded) => exceeded.into(),
            PackError::Compress { source } => ImportError::Compress { source },
            PackError::Write { source } => self.store.write_error(&path, source).into(),
        })?;
        let is_backup_table_missing = watched.watch.finish()?;
        Ok(CheckedDisk { packed, is_backup_table_missing })
    }

    /// A qcow2 image is read here and there, so it is put into a file first. Returns the digest of that file too.
    pub(super) fn pack_qcow2(
        &self,
        source: impl Read,
        incoming: &mut tempfile::NamedTempFile,
    ) -> Result<(CheckedDisk, Sha256), ImportError> {
        let (mut spooled, sha256) = self.spool(source)?;
        let rewound = spooled.as_file_mut().seek(SeekFrom::Start(0)).and_then(|_| spooled.as_file().try_clone());
        let file: File = rewound.map_err(|source| ImportError::Source { source })?;
        let mut reader = qcow2::Qcow2Reader::open(BufReader::new(file))?;
        self.bounds.check_promise(reader.header().disk_bytes)?;
        Ok((self.pack_image(&mut reader, ImportFormat::Qcow2, incoming)?, sha256))
    }

    /// Takes the source, so that its decoder is gone when the image's tables come.
    fn spool(&self, mut source: impl Read) -> Result<(tempfile::NamedTempFile, Sha256), ImportError> {
        let mut hasher = Hasher::new();
        let spooled = self.store.incoming()?;
        let path = spooled.path().to_path_buf();
        let mut spool = RoomLimitedWriter::new(spooled.as_file());
        let mut buffer = vec![0; SPOOL_BYTES];
        // What is not compressed is only read.
        let format = if self.outer == ImportFormat::Qcow2 { ImportFormat::Raw } else { self.outer };
        loop {
            let bytes = fill(&mut source, &mut buffer).map_err(|error| unreadable(format, error))?;
            if bytes == 0 {
                break;
            }
            self.meter.spooled(bytes as u64)?;
            hasher.update(&buffer[..bytes]);
            spool.write_all(&buffer[..bytes]).map_err(|source| self.store.write_error(&path, source))?;
            (self.progress)(ImportProgress { source_bytes: self.meter.source_bytes(), raw_bytes: 0 });
        }
        drop(spool);
        Ok((spooled, hasher.finish()))
    }
}

impl<R: Read + Seek> RawImage for qcow2::Qcow2Reader<R> {
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fill(self, buffer)
    }

    fn skip_zeros(&mut self, bytes: u64) -> io::Result<bool> {
        qcow2::Qcow2Reader::skip_zeros(self, bytes).map_err(io::Error::other)
    }
}

/// Why the bytes of a source, or of what it holds, cannot be had: an error of what reads them, or of what bounds that.
pub(super) fn unreadable(format: ImportFormat, error: io::Error) -> ImportError {
    let (format, error) = match error.downcast::<SourceFailed>() {
        Ok(SourceFailed(error)) => (ImportFormat::Raw, error),
        Err(error) => (format, error),
    };
    let error = match error.downcast::<DecodeFailed>() {
        Ok(DecodeFailed { at_bytes, source }) => return ImportError::Decode { format, at_bytes, source },
        Err(error) => error,
    };
    let error = match error.downcast::<ContentFault>() {
        Ok(fault) => return fault.into(),
        Err(error) => error,
    };
    let error = match error.downcast::<BoundExceeded>() {
        Ok(exceeded) => return exceeded.into(),
        Err(error) => error,
    };
    let source = match error.downcast::<HistoryTooLong>() {
        Ok(error) => return error.into(),
        Err(error) => error,
    };
    match format {
        ImportFormat::Raw => ImportError::Source { source },
        ImportFormat::Gzip | ImportFormat::Xz | ImportFormat::Zstd | ImportFormat::Qcow2 => {
            ImportError::Expand { format, source }
        }
    }
}
