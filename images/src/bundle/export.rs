//! Exports from the store into a bundle (S1.25), as a stream: only the manifest and stream metadata are kept in memory.

use std::io::{self, Read, Write};

use firesteel_facts::{Hasher, Sha256};
use tar::{Builder, EntryType, Header};

use super::manifest::{BundleManifest, FORMAT, StreamEntry};
use super::{BundleError, BundleProgress};
use crate::import::{FileMeta, ImageMeta, ImageStore, StoreLease};

pub(super) const MANIFEST: &str = "manifest.json";

/// What is to be in a bundle.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Name of the stream and its metadata.
    pub streams: Vec<(String, Vec<u8>)>,
    /// The images, by raw digest.
    pub images: Vec<Sha256>,
    /// The files, by digest.
    pub files: Vec<Sha256>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub manifest: BundleManifest,
    /// The size of manifest and blobs.
    pub bytes: u64,
}

/// Writes a bundle. The same contents give the same bytes. After an error what was written is no bundle.
pub fn export(
    store: &ImageStore,
    contents: &Contents,
    out: impl Write,
    progress: &dyn Fn(BundleProgress),
) -> Result<Exported, BundleError> {
    // All are held before the first byte is written: none may be collected meanwhile.
    let images = contents.images.iter().map(|raw| image(store, raw)).collect::<Result<Vec<_>, _>>()?;
    let files = contents.files.iter().map(|digest| file(store, digest)).collect::<Result<Vec<_>, _>>()?;
    let stream = |(name, document): &(String, Vec<u8>)| StreamEntry {
        name: name.clone(),
        sha256: Sha256::of(document),
        bytes: document.len() as u64,
    };
    let manifest = BundleManifest {
        format: FORMAT,
        streams: contents.streams.iter().map(stream).collect(),
        images: images.iter().map(|(meta, _)| meta.clone()).collect(),
        files: files.iter().map(|(meta, _)| meta.clone()).collect(),
    };
    let failed = |source| BundleError::Write { source };
    let head = manifest.to_bytes().map_err(|error| failed(io::Error::other(error)))?;
    // What we would refuse to read we do not write.
    BundleManifest::parse(&head)?;
    let blobs = manifest.blobs();
    let total_bytes = head.len() as u64 + blobs.iter().map(|blob| blob.bytes).sum::<u64>();
    let mut done_bytes = 0;
    let mut builder = Builder::new(out);
    append(&mut builder, MANIFEST, head.len() as u64, &head[..]).map_err(failed)?;
    done_bytes += head.len() as u64;
    let documents = contents.streams.iter().map(|(_, document)| BlobSource::Bytes(document));
    let leases = images.iter().map(|(_, lease)| lease).chain(files.iter().map(|(_, lease)| lease));
    for (blob, source) in blobs.iter().zip(documents.chain(leases.map(BlobSource::Held))) {
        let mut checked = CheckedReader {
            inner: source.reader(),
            hasher: Hasher::new(),
            seen: &mut |bytes| {
                done_bytes += bytes;
                progress(BundleProgress { done_bytes, total_bytes });
            },
        };
        append(&mut builder, &blob.digest.to_string(), blob.bytes, &mut checked).map_err(failed)?;
        let found = checked.hasher.finish();
        if found != blob.digest {
            return Err(BundleError::Damaged { digest: blob.digest, found });
        }
    }
    builder.into_inner().and_then(|mut out| out.flush()).map_err(failed)?;
    Ok(Exported { manifest, bytes: total_bytes })
}

fn image(store: &ImageStore, raw: &Sha256) -> Result<(ImageMeta, StoreLease), BundleError> {
    let missing = || BundleError::Missing { digest: *raw };
    let lease = store.lease_image(raw)?.ok_or_else(missing)?;
    Ok((store.by_raw(raw)?.ok_or_else(missing)?.meta, lease))
}

fn file(store: &ImageStore, digest: &Sha256) -> Result<(FileMeta, StoreLease), BundleError> {
    let missing = || BundleError::Missing { digest: *digest };
    let lease = store.lease_file(digest)?.ok_or_else(missing)?;
    Ok((store.file(digest)?.ok_or_else(missing)?.meta, lease))
}

enum BlobSource<'a> {
    Bytes(&'a [u8]),
    Held(&'a StoreLease),
}

impl<'a> BlobSource<'a> {
    fn reader(&self) -> Box<dyn Read + 'a> {
        match self {
            Self::Bytes(bytes) => Box::new(*bytes),
            Self::Held(lease) => Box::new(lease.file()),
        }
    }
}

struct CheckedReader<'a, 'b> {
    inner: Box<dyn Read + 'a>,
    hasher: Hasher,
    seen: &'b mut dyn FnMut(u64),
}

impl Read for CheckedReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..bytes]);
        (self.seen)(bytes as u64);
        Ok(bytes)
    }
}

fn append(builder: &mut Builder<impl Write>, name: &str, bytes: u64, data: impl Read) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    let mut data = data.take(bytes);
    builder.append(&header, &mut data)?;
    // The archive would say one length and have another.
    if data.limit() == 0 { Ok(()) } else { Err(io::Error::other(format!("{name} is shorter than {bytes} bytes"))) }
}
