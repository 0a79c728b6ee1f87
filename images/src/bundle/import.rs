//! From a bundle into the store (S1.25), as a stream, each blob verified before it is published; or verified alone.

use std::io::{self, Read, Write};

use firesteel_facts::{Hasher, Sha256};
use tar::{Archive, Entry, EntryType};
use tempfile::NamedTempFile;

use super::export::MANIFEST;
use super::manifest::{BlobContent, BundleBlob, BundleManifest, MANIFEST_BYTES_MAX, bundle_sources};
use super::{BundleError, BundleProgress};
use crate::catalogue;
use crate::import::bounds::RAW_BYTES_MAX;
use crate::import::pack::PackedImage;
use crate::import::read::{expand, fill};
use crate::import::room_limited_writer::RoomLimitedWriter;
use crate::import::{
    FileMeta, ImageStore, ImportFormat, ImportNotes, RecordOrigin, SourceRecord, StoreError, StoredFileRole,
};

const BUFFER_BYTES: usize = 1 << 20;
/// The end of an archive is filled up to a record, 10 KiB for GNU tar; more than this is something else.
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleImportReport {
    /// The images, by raw digest; also those that were there before.
    pub images: Vec<Sha256>,
    /// The files, by digest.
    pub files: Vec<Sha256>,
    /// Name and digest of the stream metadata, which is among the store's files.
    pub streams: Vec<(String, Sha256)>,
    /// What the manifest names and the store does not have from it, with the reason.
    pub unused: Vec<Unused>,
    /// What is wrong with the archive itself, from where on nothing was read.
    pub ended: Option<String>,
}

impl BundleImportReport {
    /// Whether everything of the bundle is in the store.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unused.is_empty() && self.ended.is_none()
    }
}

/// A blob that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    pub digest: Sha256,
    pub reason: String,
}

/// Why a blob is not taken.
enum BlobRefusal {
    /// The next one may be good.
    Blob(String),
    /// There is no next one.
    Archive(String),
    Store(StoreError),
}

/// Reads a bundle to its end. What is verified is in the store when this returns; an error means that nothing is.
pub fn import(
    bundle: impl Read,
    store: &ImageStore,
    progress: &dyn Fn(BundleProgress),
) -> Result<BundleImportReport, BundleError> {
    walk(bundle, Some(store), RAW_BYTES_MAX, progress)
}

/// Reads a bundle to its end without a store: says what an import would take.
pub fn verify(bundle: impl Read, progress: &dyn Fn(BundleProgress)) -> Result<BundleImportReport, BundleError> {
    walk(bundle, None, RAW_BYTES_MAX, progress)
}

pub(super) fn walk(
    bundle: impl Read,
    store: Option<&ImageStore>,
    raw_bytes_max: u64,
    progress: &dyn Fn(BundleProgress),
) -> Result<BundleImportReport, BundleError> {
    let mut archive = Archive::new(bundle);
    let mut report = BundleImportReport::default();
    let failed = |source| BundleError::Read { source };
    let mut entries = archive.entries().map_err(failed)?.raw(true);
    let mut first = match entries.next() {
        None => return Err(BundleError::NoManifest),
        Some(Err(error)) if is_no_archive(&error) => return Err(BundleError::NoManifest),
        Some(entry) => entry.map_err(failed)?,
    };
    if name_fault(&first, MANIFEST).is_some() || first.size() > MANIFEST_BYTES_MAX {
        return Err(BundleError::NoManifest);
    }
    let mut head = Vec::new();
    first.read_to_end(&mut head).map_err(failed)?;
    let manifest = BundleManifest::parse(&head)?;
    let blobs = manifest.blobs();
    let mut progress =
        Counting { tell: progress, done_bytes: 0, total_bytes: blobs.iter().map(|blob| blob.bytes).sum() };
    for blob in &blobs {
        if let Some(reason) = &report.ended {
            report.unused.push(Unused { digest: blob.digest, reason: format!("not read: {reason}") });
            continue;
        }
        let taken = match entries.next() {
            None => Err(BlobRefusal::Archive("the archive ends before it".to_owned())),
            Some(Err(error)) => Err(BlobRefusal::Archive(damaged(&error))),
            Some(Ok(mut entry)) => match start(&entry, blob, raw_bytes_max) {
                Ok(()) => take(&mut progress.over(&mut entry), blob, store, &mut report),
                Err(refusal) => Err(refusal),
            },
        };
        let (reason, is_end) = match taken {
            Ok(()) => continue,
            Err(BlobRefusal::Blob(reason)) => (reason, false),
            Err(BlobRefusal::Archive(reason)) => (reason, true),
            Err(BlobRefusal::Store(error)) => (format!("{}; {}", error, error.help()), true),
        };
        report.unused.push(Unused { digest: blob.digest, reason: reason.clone() });
        report.ended = is_end.then_some(reason);
    }
    if report.ended.is_none() {
        report.ended = match entries.next() {
            None => None,
            Some(Ok(_)) => Some("the archive has an entry that its manifest does not name".to_owned()),
            Some(Err(error)) => Some(damaged(&error)),
        };
    }
    if report.ended.is_none() && !ends_in_padding(archive.into_inner()) {
        report.ended = Some("something follows the end of the archive".to_owned());
    }
    Ok(report)
}

/// Whether nothing but zeros follows, and not too many.
fn ends_in_padding(archive: impl Read) -> bool {
    let mut tail = Vec::new();
    let read = archive.take(TAIL_BYTES_MAX).read_to_end(&mut tail);
    read.is_ok() && tail.iter().all(|byte| *byte == 0) && (tail.len() as u64) < TAIL_BYTES_MAX
}

/// Whether the archive's reader did not like what it read (these are its kinds), and not the system failed to read it.
fn is_no_archive(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    [InvalidData, InvalidInput, Other, UnexpectedEof].contains(&error.kind())
}

/// Errors of readers quote what they read.
fn shown(error: &io::Error) -> String {
    catalogue::shown(&error.to_string())
}

fn damaged(error: &io::Error) -> String {
    format!("the archive is damaged: {}", shown(error))
}

/// What is wrong with an entry that should be a plain file of this name.
fn name_fault<R: Read>(entry: &Entry<'_, R>, name: &str) -> Option<String> {
    let header = entry.header();
    if header.entry_type() != EntryType::Regular {
        return Some(format!("the archive has no plain file {name} at its place, but something else"));
    }
    let found = header.path_bytes();
    (*found != *name.as_bytes()).then(|| {
        let found = catalogue::shown(&String::from_utf8_lossy(&found));
        format!("the archive has {found} in the place of {name}")
    })
}

/// Whether an entry is the blob that the manifest has at its place.
fn start<R: Read>(entry: &Entry<'_, R>, blob: &BundleBlob<'_>, raw_bytes_max: u64) -> Result<(), BlobRefusal> {
    if let Some(reason) = name_fault(entry, &blob.digest.to_string()) {
        return Err(BlobRefusal::Archive(reason));
    }
    if entry.size() != blob.bytes {
        let reason = format!("it has {} bytes in the archive, and {} in the manifest", entry.size(), blob.bytes);
        return Err(BlobRefusal::Archive(reason));
    }
    match &blob.what {
        BlobContent::Image(meta) if meta.raw_bytes > raw_bytes_max => {
            Err(BlobRefusal::Blob(format!("it has {} raw bytes, more than {raw_bytes_max}", meta.raw_bytes)))
        }
        BlobContent::Image(_) | BlobContent::Stream(_) | BlobContent::File(_) => Ok(()),
    }
}

fn take(
    data: &mut impl Read,
    blob: &BundleBlob<'_>,
    store: Option<&ImageStore>,
    report: &mut BundleImportReport,
) -> Result<(), BlobRefusal> {
    match &blob.what {
        BlobContent::Stream(named) => {
            let mut document = Vec::new();
            let incoming = copy(data, blob, store, &mut |copied| copied.read_to_end(&mut document).map(drop))?;
            catalogue::read(&document).map_err(|error| BlobRefusal::Blob(error.to_string()))?;
            let meta = FileMeta {
                sha256: blob.digest,
                bytes: blob.bytes,
                role: StoredFileRole::Stream,
                name: named.name.clone(),
                sources: vec![stream_source(blob)],
            };
            publish_file(store, incoming, meta)?;
            report.streams.push((named.name.clone(), blob.digest));
        }
        BlobContent::Image(meta) => {
            let mut raw = None;
            let incoming = copy(data, blob, store, &mut |copied| {
                raw = Some(expanded(copied, meta.raw_bytes));
                Ok(())
            })?;
            let raw = raw.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
            let (raw_bytes, raw_sha256) =
                raw.map_err(|error| BlobRefusal::Blob(format!("it does not expand: {}", shown(&error))))?;
            if (raw_bytes, raw_sha256) != (meta.raw_bytes, meta.raw_sha256) {
                let reason = format!(
                    "it expands to {raw_bytes} bytes with sha256 {raw_sha256}, and the manifest says {} and {}",
                    meta.raw_bytes, meta.raw_sha256
                );
                return Err(BlobRefusal::Blob(reason));
            }
            let packed = PackedImage {
                raw_bytes,
                raw_sha256,
                given_sha256: raw_sha256,
                stream_bytes: blob.bytes,
                stream_sha256: blob.digest,
            };
            if let (Some(store), Some(incoming)) = (store, incoming) {
                store.publish(incoming, &packed, bundle_sources(&meta.sources)).map_err(BlobRefusal::Store)?;
            }
            report.images.push(raw_sha256);
        }
        BlobContent::File(meta) => {
            let incoming = copy(data, blob, store, &mut |_| Ok(()))?;
            let meta = FileMeta { sources: bundle_sources(&meta.sources), ..(*meta).clone() };
            publish_file(store, incoming, meta)?;
            report.files.push(blob.digest);
        }
    }
    Ok(())
}

fn publish_file(
    store: Option<&ImageStore>,
    incoming: Option<NamedTempFile>,
    meta: FileMeta,
) -> Result<(), BlobRefusal> {
    if let (Some(store), Some(incoming)) = (store, incoming) {
        store.publish_file(incoming, meta).map_err(BlobRefusal::Store)?;
    }
    Ok(())
}

/// Copies a blob into the store and compares its digest. `look` may read it as it passes; what it leaves is copied too.
fn copy(
    data: &mut impl Read,
    blob: &BundleBlob<'_>,
    store: Option<&ImageStore>,
    look: &mut dyn FnMut(&mut dyn Read) -> io::Result<()>,
) -> Result<Option<NamedTempFile>, BlobRefusal> {
    let incoming = store.map(ImageStore::incoming).transpose().map_err(BlobRefusal::Store)?;
    let mut sink = io::sink();
    let mut sparing = incoming.as_ref().map(|file| RoomLimitedWriter::new(file.as_file()));
    let out: &mut dyn Write = match &mut sparing {
        Some(file) => file,
        None => &mut sink,
    };
    let mut tee = Tee { inner: data, out, hasher: Hasher::new(), bytes: 0, failed: None };
    let read = look(&mut tee).and_then(|()| io::copy(&mut tee, &mut io::sink()));
    let Tee { hasher, bytes, failed, .. } = tee;
    drop(sparing);
    if let (Some(source), Some(store), Some(file)) = (failed, store, &incoming) {
        return Err(BlobRefusal::Store(store.write_error(file.path(), source)));
    }
    read.map_err(|error| BlobRefusal::Archive(format!("reading it: {}", shown(&error))))?;
    check_blob(blob, bytes, hasher.finish())?;
    Ok(incoming)
}

fn stream_source(blob: &BundleBlob<'_>) -> SourceRecord {
    SourceRecord {
        url: String::new(),
        formats: Vec::new(),
        bytes: blob.bytes,
        sha256: blob.digest,
        checksum: String::new(),
        uncompressed_sha256: None,
        release: String::new(),
        signed_by: String::new(),
        witness: RecordOrigin::Bundle,
        notes: ImportNotes::default(),
    }
}

fn check_blob(blob: &BundleBlob<'_>, bytes: u64, digest: Sha256) -> Result<(), BlobRefusal> {
    if bytes != blob.bytes {
        return Err(BlobRefusal::Archive(format!("the archive ends after {bytes} of its {} bytes", blob.bytes)));
    }
    if digest != blob.digest {
        return Err(BlobRefusal::Blob(format!("its sha256 is {digest}")));
    }
    Ok(())
}

/// Length and digest of what a stream expands to, up to one byte more than it should.
fn expanded(stream: &mut dyn Read, raw_bytes: u64) -> io::Result<(u64, Sha256)> {
    let mut raw = expand(ImportFormat::Zstd, stream)?.take(raw_bytes.saturating_add(1));
    let (mut hasher, mut buffer) = (Hasher::new(), vec![0; BUFFER_BYTES]);
    let mut total = 0;
    loop {
        match fill(&mut raw, &mut buffer)? {
            0 => return Ok((total, hasher.finish())),
            bytes => {
                hasher.update(&buffer[..bytes]);
                total += bytes as u64;
            }
        }
    }
}

struct Counting<'a> {
    tell: &'a dyn Fn(BundleProgress),
    done_bytes: u64,
    total_bytes: u64,
}

impl Counting<'_> {
    fn over<R: Read>(&mut self, inner: R) -> impl Read {
        CountingReader { inner, counting: self }
    }
}

struct CountingReader<'a, 'b, R> {
    inner: R,
    counting: &'a mut Counting<'b>,
}

impl<R: Read> Read for CountingReader<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.counting.done_bytes += bytes as u64;
        let (done_bytes, total_bytes) = (self.counting.done_bytes, self.counting.total_bytes);
        (self.counting.tell)(BundleProgress { done_bytes, total_bytes });
        Ok(bytes)
    }
}

/// Writes and hashes what is read through it.
struct Tee<R, W> {
    inner: R,
    out: W,
    hasher: Hasher,
    bytes: u64,
    /// The failure of a write; a decoder would hide which side failed.
    failed: Option<io::Error>,
}

impl<R: Read, W: Write> Read for Tee<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Err(io::Error::other("the copy could not be written"));
        }
        let bytes = self.inner.read(buffer)?;
        if let Err(error) = self.out.write_all(&buffer[..bytes]) {
            self.failed = Some(error);
            return Err(io::Error::other("the copy could not be written"));
        }
        self.hasher.update(&buffer[..bytes]);
        self.bytes += bytes as u64;
        Ok(bytes)
    }
}
