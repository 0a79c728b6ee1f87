//! One import: detect, expand, pack, compare, publish.

use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
};

use super::{
    checksum::{Checksum, SourceHasher},
    format::{self, Format, HEAD_BYTES, Unsupported},
    pack::{self, PackError},
    qcow2::{self, Qcow2Error},
    read::{EXPANSION_FREE_BYTES, Expansion, Source, expand, fill},
    spare::Sparing,
    store::{ImageStore, SourceRecord, StoreError, StoredImage, Witness},
};
use crate::digest::{Hasher, Sha256};

/// Largest source file; the same bound as for downloads.
const SOURCE_BYTES_MAX: u64 = 256 << 30;

/// Turns sources into stored images.
#[derive(Clone, Debug)]
pub struct Importer {
    store: ImageStore,
    expansion_free_bytes: u64,
}

/// What the owner says of a source.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Kept in the metadata without user, password, query and fragment.
    pub url: String,
    /// Of the bytes as given; nothing is stored unless it fits.
    pub expected: Option<Checksum>,
    /// A declared format, `raw` or `qcow2`: another content is an error. `None` goes by content.
    pub declared: Option<Format>,
    /// Of the bytes once the outer compression is taken off; nothing is stored unless it fits.
    pub uncompressed_sha256: Option<Sha256>,
    /// Noted as they are.
    pub release: String,
    pub signed_by: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the source that were read.
    pub source_bytes: u64,
    /// Bytes of the raw image that were packed.
    pub raw_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("the image cannot be used")]
    Unsupported(#[from] Unsupported),
    #[error("the image is declared as {declared}, but it is {found}")]
    Declared { declared: Format, found: Format },
    #[error("the image is {inner} inside {outer}; only raw and qcow2 may be compressed")]
    Nested { outer: Format, inner: Format },
    #[error("reading the image")]
    Source { source: io::Error },
    #[error("expanding the image, which is {format}")]
    Expand { format: Format, source: io::Error },
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
    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unsupported(_) => "give the address of a raw or qcow2 disk image, as it is or in gzip, xz or zstd",
            Self::Declared { .. } => "correct the declared format, or the address",
            Self::Nested { .. } => "compress the image once only",
            Self::Source { .. } => "see that the source can be read to its end",
            Self::Expand { format: Format::Qcow2, .. } | Self::Qcow2(_) => {
                "convert the image to raw where it comes from, if you trust it"
            }
            Self::Expand { .. } => "the file is cut, damaged or made to harm: get it anew from its publisher",
            Self::Checksum { .. } => {
                "correct the checksum if the publisher has a new one; else the file is not what was published"
            }
            Self::Uncompressed { .. } => {
                "the publisher's two digests contradict each other: get the stream's metadata anew, and tell its publisher"
            }
            Self::Compress { .. } => "this is a fault of the appliance",
            Self::Store(error) => error.help(),
        }
    }
}

impl Importer {
    #[must_use]
    pub fn new(store: ImageStore) -> Self {
        Self { store, expansion_free_bytes: EXPANSION_FREE_BYTES }
    }

    /// The same, where an image may expand to this many bytes whatever it came from.
    #[must_use]
    pub fn with_expansion_free(self, expansion_free_bytes: u64) -> Self {
        Self { expansion_free_bytes, ..self }
    }

    #[must_use]
    pub fn store(&self) -> &ImageStore {
        &self.store
    }

    /// Reads a source to its end and stores the image. Blocks; uses all cores.
    pub fn import(
        &self,
        source: impl Read,
        origin: &Origin,
        progress: &dyn Fn(Progress),
    ) -> Result<StoredImage, ImportError> {
        let count = Cell::new(0);
        let mut source = Source::new(source, SourceHasher::new(origin.expected.as_ref()), &count, SOURCE_BYTES_MAX);
        let packed = self.pack(&mut source, &count, origin, progress);
        let drained = source.drain();
        let (sha256, found) = source.into_hasher().finish();
        let fits = origin.expected.as_ref().is_none_or(|expected| *expected == found);
        let Made { packed, incoming, formats, uncompressed_sha256 } = match packed {
            // A truncated or altered download also fails to expand: the checksum is the reason
            // that helps.
            Err(ImportError::Expand { .. } | ImportError::Qcow2(_) | ImportError::Unsupported(_))
                if drained.is_ok() && !fits =>
            {
                return Err(checksum_error(origin, found));
            }
            result => result?,
        };
        drained.map_err(|source| ImportError::Source { source })?;
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
            bytes: count.get(),
            sha256,
            checksum: origin.expected.as_ref().map(ToString::to_string).unwrap_or_default(),
            uncompressed_sha256,
            release: origin.release.clone(),
            signed_by: origin.signed_by.clone(),
            witness: Witness::Here,
        };
        Ok(self.store.publish(incoming, &packed, vec![record])?)
    }

    fn pack(
        &self,
        source: &mut (impl Read + ?Sized),
        count: &Cell<u64>,
        origin: &Origin,
        progress: &dyn Fn(Progress),
    ) -> Result<Made, ImportError> {
        let mut seen = |raw_bytes| progress(Progress { source_bytes: count.get(), raw_bytes });
        let mut incoming = self.store.incoming()?;
        let head = head_of(source).map_err(|source| ImportError::Source { source })?;
        let outer = format::detect(&head)?;
        let source = io::Cursor::new(head).chain(source);
        let mut formats = vec![outer];
        let mut uncompressed_sha256 = None;
        let packed = match outer {
            Format::Raw => {
                check_declared(origin, Format::Raw)?;
                self.pack_stream(&mut self.bounded(source, count), outer, &mut incoming, &mut seen)?
            }
            Format::Qcow2 => {
                check_declared(origin, Format::Qcow2)?;
                self.pack_qcow2(source, outer, count, &mut incoming, &mut seen)?.0
            }
            Format::Gzip | Format::Xz | Format::Zstd => {
                let failed = |source| ImportError::Expand { format: outer, source };
                let mut raw = self.bounded(expand(outer, source).map_err(failed)?, count);
                let head = head_of(&mut raw).map_err(failed)?;
                let inner = format::detect(&head)?;
                check_declared(origin, inner)?;
                formats.push(inner);
                let mut raw = io::Cursor::new(head).chain(raw);
                let (packed, given) = match inner {
                    Format::Raw => {
                        let packed = self.pack_stream(&mut raw, outer, &mut incoming, &mut seen)?;
                        (packed, packed.given_sha256)
                    }
                    Format::Qcow2 => self.pack_qcow2(raw, outer, count, &mut incoming, &mut seen)?,
                    Format::Gzip | Format::Xz | Format::Zstd => return Err(ImportError::Nested { outer, inner }),
                };
                uncompressed_sha256 = Some(given);
                packed
            }
        };
        Ok(Made { packed, incoming, formats, uncompressed_sha256 })
    }

    fn bounded<'a, R: Read>(&self, inner: R, source_bytes: &'a Cell<u64>) -> Expansion<'a, R> {
        Expansion::new(inner, source_bytes, self.expansion_free_bytes)
    }

    fn pack_stream(
        &self,
        raw: &mut dyn Read,
        format: Format,
        incoming: &mut tempfile::NamedTempFile,
        seen: &mut dyn FnMut(u64),
    ) -> Result<pack::Packed, ImportError> {
        let path = incoming.path().to_path_buf();
        pack::pack(raw, &mut Sparing::new(incoming.as_file()), seen).map_err(|error| match error {
            PackError::Read { source } if format == Format::Raw => ImportError::Source { source },
            PackError::Read { source } => ImportError::Expand { format, source },
            PackError::Compress { source } => ImportError::Compress { source },
            PackError::Write { source } => self.store.write_error(&path, source).into(),
        })
    }

    /// A qcow2 image is read here and there, so it is put into a file first. Returns the digest of that file too.
    fn pack_qcow2(
        &self,
        mut source: impl Read,
        outer: Format,
        count: &Cell<u64>,
        incoming: &mut tempfile::NamedTempFile,
        seen: &mut dyn FnMut(u64),
    ) -> Result<(pack::Packed, Sha256), ImportError> {
        let mut hasher = Hasher::new();
        let mut spooled = self.store.incoming()?;
        let path = spooled.path().to_path_buf();
        let mut spool = Sparing::new(spooled.as_file());
        let mut buffer = vec![0; 1 << 20];
        loop {
            let bytes = fill(&mut source, &mut buffer).map_err(|source| match outer {
                Format::Raw | Format::Qcow2 => ImportError::Source { source },
                Format::Gzip | Format::Xz | Format::Zstd => ImportError::Expand { format: outer, source },
            })?;
            if bytes == 0 {
                break;
            }
            hasher.update(&buffer[..bytes]);
            spool.write_all(&buffer[..bytes]).map_err(|source| self.store.write_error(&path, source))?;
            seen(0);
        }
        drop(spool);
        let rewound = spooled.as_file_mut().seek(SeekFrom::Start(0)).and_then(|_| spooled.as_file().try_clone());
        let file: File = rewound.map_err(|source| ImportError::Source { source })?;
        let reader = qcow2::Reader::open(BufReader::new(file))?;
        let mut raw = self.bounded(reader, count);
        Ok((self.pack_stream(&mut raw, Format::Qcow2, incoming, seen)?, hasher.finish()))
    }
}

/// An image that is ready to be published.
struct Made {
    packed: pack::Packed,
    incoming: tempfile::NamedTempFile,
    formats: Vec<Format>,
    /// Where there was a compression to take off.
    uncompressed_sha256: Option<Sha256>,
}

fn head_of(source: &mut (impl Read + ?Sized)) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let bytes = fill(source, &mut head)?;
    head.truncate(bytes);
    Ok(head)
}

fn check_declared(origin: &Origin, found: Format) -> Result<(), ImportError> {
    match origin.declared {
        Some(declared) if declared != found => Err(ImportError::Declared { declared, found }),
        Some(_) | None => Ok(()),
    }
}

fn checksum_error(origin: &Origin, found: Checksum) -> ImportError {
    // Asked only where a checksum was expected and differs.
    let expected = origin.expected.clone().unwrap_or_else(|| found.clone());
    ImportError::Checksum { expected, found }
}

/// Addresses of private mirrors carry passwords and signatures.
#[must_use]
pub fn without_secrets(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut parsed) => {
            parsed.set_query(None);
            parsed.set_fragment(None);
            // Fails only where an address cannot have them.
            parsed.set_username("").and_then(|()| parsed.set_password(None)).unwrap_or(());
            parsed.to_string()
        }
        Err(_) => url.to_owned(),
    }
}
