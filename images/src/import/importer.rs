//! One import: detect, expand, pack, compare, publish.

use std::fs::File;
use std::io::{self, Read, Seek as _};

use firesteel_facts::{Hasher, Sha256};

use super::bounds::{ImportBounds, ImportMeter};
use super::checksum::{Checksum, SourceHasher};
use super::error::ImportError;
use super::format::{self, HEAD_BYTES, ImportFormat};
use super::gzip::TrailingBytes;
use super::import_queue::IMPORTS_AT_ONCE;
use super::processor::time_of_thread;
use super::read::{MeteredSource, expand, expand_counting, fill};
use super::store::{ImageStore, ImportNotes, RecordOrigin, SourceRecord, StoredImage, without_secrets};
use super::work::{CheckedDisk, ImportProgress, ImportWork, SPOOL_BYTES, unreadable};
use super::{decoder, pack, qcow2};

/// What is read at once of what is put aside, and kept of what is read.
const BUFFERS_BYTES: usize = 4 << 20;
/// One import holds a decoder, or after it the tables of a qcow2 image, and what is being packed.
const IMPORT_BYTES_MAX: usize = {
    let (decoder, tables) = (decoder::DECODER_BYTES_MAX, qcow2::MEMORY_BYTES_MAX);
    (if decoder > tables { decoder } else { tables }) + pack::PACK_BYTES_MAX + BUFFERS_BYTES
};
/// The most memory that the imports of one process take, as many as there may be at a time.
pub const MEMORY_BYTES_MAX: usize = IMPORTS_AT_ONCE * IMPORT_BYTES_MAX;

/// Turns sources into stored images.
#[derive(Clone, Debug)]
pub struct Importer {
    store: ImageStore,
    bounds: ImportBounds,
}

/// What the owner says of a source.
#[derive(Clone, Debug, Default)]
pub struct ImportSource {
    /// The address; the metadata keeps it without user, password, query and fragment.
    pub url: String,
    /// The checksum of the bytes as given; nothing is stored unless it fits.
    pub expected: Option<Checksum>,
    /// A declared format, `raw` or `qcow2`: another content is an error, and bytes that do not look like a disk are none.
    /// `None` goes by content.
    pub declared: Option<ImportFormat>,
    /// The digest of the bytes once the outer compression is taken off; nothing is stored unless it fits.
    pub uncompressed_sha256: Option<Sha256>,
    /// The release and the signer, noted as they are.
    pub release: String,
    pub signed_by: String,
}

impl Importer {
    #[must_use]
    pub fn new(store: ImageStore) -> Self {
        Self { store, bounds: ImportBounds::default() }
    }

    /// Sets other bounds.
    #[must_use]
    pub fn with_bounds(self, bounds: ImportBounds) -> Self {
        Self { bounds, ..self }
    }

    #[must_use]
    pub fn store(&self) -> &ImageStore {
        &self.store
    }

    /// Reads a source to its end and stores the image. Blocks; uses some cores. The caller sees to it that no more than
    /// [`IMPORTS_AT_ONCE`] run in one process.
    pub fn import(
        &self,
        source: impl Read,
        origin: &ImportSource,
        progress: &dyn Fn(ImportProgress),
    ) -> Result<StoredImage, ImportError> {
        let began = time_of_thread();
        let clock = || time_of_thread().saturating_sub(began);
        let meter = ImportMeter::new(self.bounds, &clock);
        let mut source = MeteredSource::new(source, SourceHasher::new(origin.expected.as_ref()), &meter);
        let packed = match self.pack(&mut source, &meter, origin, progress) {
            // What is too much is not read to its end.
            Err(error @ ImportError::Exceeded(_)) => return Err(error),
            packed => packed,
        };
        let drained = source.drain();
        let (sha256, found) = source.into_hasher().finish();
        let fits = origin.expected.as_ref().is_none_or(|expected| *expected == found);
        let NewImage { packed, incoming, formats, uncompressed_sha256, notes } = match packed {
            // A truncated or altered download also fails to expand: the checksum is the reason
            // that helps.
            Err(
                ImportError::Expand { .. }
                | ImportError::Decode { .. }
                | ImportError::History(_)
                | ImportError::Content(_)
                | ImportError::Qcow2(_)
                | ImportError::Unsupported(_),
            ) if drained.is_ok() && !fits => {
                return Err(checksum_error(origin, found));
            }
            result => result?,
        };
        drained.map_err(|error| unreadable(ImportFormat::Raw, error))?;
        if !fits {
            return Err(checksum_error(origin, found));
        }
        if let Some(expected) = origin.uncompressed_sha256 {
            // What is not compressed is its own expansion.
            let found = uncompressed_sha256.unwrap_or(sha256);
            if found != expected {
                return Err(ImportError::Uncompressed { expected, found });
            }
        }
        let record = SourceRecord {
            url: without_secrets(&origin.url),
            formats,
            bytes: meter.source_bytes(),
            sha256,
            checksum: origin.expected.as_ref().map(ToString::to_string).unwrap_or_default(),
            uncompressed_sha256,
            release: origin.release.clone(),
            signed_by: origin.signed_by.clone(),
            witness: RecordOrigin::Here,
            notes,
        };
        Ok(self.store.publish(incoming, &packed, vec![record])?)
    }

    /// The digest of what a file holds once its compression is taken off, whatever it is.
    pub(super) fn expanded_sha256(&self, mut file: File) -> Result<Sha256, ImportError> {
        let began = time_of_thread();
        let clock = || time_of_thread().saturating_sub(began);
        let meter = ImportMeter::new(self.bounds, &clock);
        let length = file.metadata().map_err(|source| ImportError::Source { source })?.len();
        meter.source(length)?;
        let head = head_of(&mut file).map_err(|source| ImportError::Source { source })?;
        file.rewind().map_err(|source| ImportError::Source { source })?;
        // What is no image to write can be compressed or not all the same.
        let format = format::detect(&head).unwrap_or(ImportFormat::Raw);
        let mut expanded = expand(format, file).map_err(|error| unreadable(format, error))?;
        let (mut hasher, mut buffer) = (Hasher::new(), vec![0; SPOOL_BYTES]);
        loop {
            match fill(&mut expanded, &mut buffer).map_err(|error| unreadable(format, error))? {
                0 => return Ok(hasher.finish()),
                bytes => {
                    meter.raw(bytes as u64, bytes as u64)?;
                    hasher.update(&buffer[..bytes]);
                }
            }
        }
    }

    fn pack(
        &self,
        source: &mut (impl Read + ?Sized),
        meter: &ImportMeter<'_>,
        origin: &ImportSource,
        progress: &dyn Fn(ImportProgress),
    ) -> Result<NewImage, ImportError> {
        let mut incoming = self.store.incoming()?;
        let head = head_of(source).map_err(|error| unreadable(ImportFormat::Raw, error))?;
        let outer = format::detect(&head)?;
        if let Some(bytes) = decoder::promise(outer, &head).and_then(|promise| promise.expanded_bytes) {
            self.bounds.check_promise(bytes)?;
        }
        let source = io::Cursor::new(head).chain(source);
        let is_declared = origin.declared.is_some();
        let work = ImportWork { store: &self.store, bounds: self.bounds, outer, is_declared, meter, progress };
        let mut formats = vec![outer];
        let mut uncompressed_sha256 = None;
        let trailing = TrailingBytes::default();
        let disk = match outer {
            ImportFormat::Raw => {
                check_declared(origin, ImportFormat::Raw)?;
                work.pack_stream(source, &mut incoming)?
            }
            ImportFormat::Qcow2 => {
                check_declared(origin, ImportFormat::Qcow2)?;
                work.pack_qcow2(source, &mut incoming)?.0
            }
            ImportFormat::Gzip | ImportFormat::Xz | ImportFormat::Zstd => {
                let failed = |error| unreadable(outer, error);
                let mut raw = expand_counting(outer, source, &trailing).map_err(failed)?;
                let head = head_of(&mut raw).map_err(failed)?;
                let inner = format::detect(&head)?;
                check_declared(origin, inner)?;
                formats.push(inner);
                let raw = io::Cursor::new(head).chain(raw);
                let (disk, given) = match inner {
                    ImportFormat::Raw => {
                        let disk = work.pack_stream(raw, &mut incoming)?;
                        let given = disk.packed.given_sha256;
                        (disk, given)
                    }
                    ImportFormat::Qcow2 => work.pack_qcow2(raw, &mut incoming)?,
                    ImportFormat::Gzip | ImportFormat::Xz | ImportFormat::Zstd => {
                        return Err(ImportError::Nested { outer, inner });
                    }
                };
                uncompressed_sha256 = Some(given);
                disk
            }
        };
        let CheckedDisk { packed, is_backup_table_missing } = disk;
        let notes = ImportNotes { trailing_bytes: trailing.get(), is_backup_table_missing };
        Ok(NewImage { packed, incoming, formats, uncompressed_sha256, notes })
    }
}

/// An image that is ready to be published.
struct NewImage {
    packed: pack::PackedImage,
    incoming: tempfile::NamedTempFile,
    formats: Vec<ImportFormat>,
    /// Where there was a compression to take off.
    uncompressed_sha256: Option<Sha256>,
    notes: ImportNotes,
}

fn head_of(source: &mut (impl Read + ?Sized)) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let bytes = fill(source, &mut head)?;
    head.truncate(bytes);
    Ok(head)
}

fn check_declared(origin: &ImportSource, found: ImportFormat) -> Result<(), ImportError> {
    match origin.declared {
        Some(declared) if declared != found => Err(ImportError::Declared { declared, found }),
        Some(_) | None => Ok(()),
    }
}

fn checksum_error(origin: &ImportSource, found: Checksum) -> ImportError {
    // Asked only where a checksum was expected and differs.
    let expected = origin.expected.clone().unwrap_or_else(|| found.clone());
    ImportError::Checksum { expected, found }
}
