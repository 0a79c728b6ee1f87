//! Leads from an artifact of a stream to what is stored (S1.5): eligible only once the bytes match `sha256`, the
//! signature where there is one and a key, and `uncompressed-sha256` where there is one.
//!
//! ```text
//! Wanted --already stored?--------------------------------------------> Acquired
//!    |                                                                      ^
//!    +-- .sig --> Verifier --+                                              |
//!    +-- Fetch (partial) ----+-- disk: Importer (expand, compare, pack) ----+
//!                            +-- kernel, initramfs, rootfs, iso: as it is --+
//! ```

use std::{fs::File, io, path::PathBuf, sync::Arc, time::SystemTime};

use firesteel_facts::{Sha256, shown_url};

use super::acquire::{AcquireError, Acquirer, chain, waiting};
use super::error::ImportError;
use super::fetch::{Fetch, FetchError, SignatureCheck, Tell, VerifiedDownload, fetch_small};
use super::importer::{ImportSource, Importer};
use super::store::{
    FileMeta, ImportNotes, RecordOrigin, SourceRecord, StoreError, StoredFile, StoredFileRole, StoredImage,
    without_secrets,
};
use crate::catalogue::{Artifact, ArtifactPart};
use crate::http::HttpError;
use crate::openpgp::{Keyring, SIGNATURE_BYTES_MAX, SignatureError};

/// The owner in the lanes: streams belong to the operator of the appliance.
const OWNER: &str = "";

/// An artifact as it is to be in the store.
#[derive(Clone, Debug)]
pub struct ArtifactRequest {
    pub url: String,
    /// The digest of the bytes as downloaded.
    pub sha256: Sha256,
    pub uncompressed_sha256: Option<Sha256>,
    /// Where the detached signature is, where the stream gives one.
    pub signature_url: Option<String>,
    /// Keys that may have made it. Without keys a signature is not looked at.
    pub keyring: Option<Arc<Keyring>>,
    /// The role of a file that is kept as it is; without one it is the image of a disk, which is packed for the writer.
    pub role: Option<StoredFileRole>,
    pub release: String,
}

impl ArtifactRequest {
    #[must_use]
    pub fn of(artifact: &Artifact, keyring: Option<Arc<Keyring>>) -> Self {
        Self {
            url: artifact.location.as_str().to_owned(),
            sha256: artifact.sha256,
            uncompressed_sha256: artifact.uncompressed_sha256,
            signature_url: artifact.signature.as_ref().map(|location| location.as_str().to_owned()),
            keyring,
            role: match artifact.part {
                ArtifactPart::Disk => None,
                ArtifactPart::Kernel => Some(StoredFileRole::Kernel),
                ArtifactPart::Initramfs => Some(StoredFileRole::Initramfs),
                ArtifactPart::Rootfs => Some(StoredFileRole::Rootfs),
                ArtifactPart::Iso => Some(StoredFileRole::Iso),
            },
            release: artifact.release.clone(),
        }
    }

    /// Where the signature must be good.
    pub(super) fn signed(&self) -> Option<(&str, &Arc<Keyring>)> {
        Some((self.signature_url.as_deref()?, self.keyring.as_ref()?))
    }
}

/// What is in the store now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredArtifact {
    Image(StoredImage),
    File(StoredFile),
}

/// What is known of an artifact's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureState {
    /// The stream gives none.
    None,
    /// There is an unchecked one: no key is configured, or only a bundle says where the image comes from.
    Unverified,
    Good {
        fingerprint: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    pub stored: StoredArtifact,
    pub signature: SignatureState,
    /// Whether it was seen here; else a bundle says that this image is the artifact. One that was seen here comes first.
    /// A file that is kept as it is needs no such statement: its digest, which was compared here, is the artifact's.
    pub is_seen_here: bool,
}

/// Each `url` is shown without its secrets.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("{url} is being downloaded already")]
    Busy { url: String },
    #[error("downloading")]
    Http { source: HttpError },
    #[error("downloading the signature")]
    SignatureHttp { source: HttpError },
    #[error("checking the signature of {url}")]
    Signature { url: String, source: SignatureError },
    #[error("the sha256 of {url} is {found}, not {expected}")]
    Digest { url: String, expected: Sha256, found: Sha256 },
    #[error("the sha256 of {url} once it is uncompressed is {found}, not {expected}")]
    Uncompressed { url: String, expected: Sha256, found: Sha256 },
    #[error(transparent)]
    Import(AcquireError),
    #[error("using the image folder")]
    Store(#[from] StoreError),
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the import of {url} ended unexpectedly")]
    Ended { url: String },
}

impl ArtifactError {
    /// What happened, with all causes, and what a person can do about it.
    #[must_use]
    pub fn explain(&self) -> String {
        format!("{}; {}", chain(self), self.help())
    }

    /// Whether the same artifact will fail again: other metadata, another key or another server is needed.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Signature { .. } | Self::Digest { .. } | Self::Uncompressed { .. } => true,
            Self::Import(AcquireError::Import { source, .. }) => source.is_permanent(),
            Self::Busy { .. }
            | Self::Http { .. }
            | Self::SignatureHttp { .. }
            | Self::Import(_)
            | Self::Store(_)
            | Self::Read { .. }
            | Self::Ended { .. } => false,
        }
    }

    /// Whether nothing is wrong but that others are under way: it is to be tried again.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Import(AcquireError::Crowded))
    }

    /// Whether the store has no room for it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, StoreError::Full { .. }),
            Self::Import(error) => error.is_full(),
            Self::Busy { .. }
            | Self::Http { .. }
            | Self::SignatureHttp { .. }
            | Self::Signature { .. }
            | Self::Digest { .. }
            | Self::Uncompressed { .. }
            | Self::Read { .. }
            | Self::Ended { .. } => false,
        }
    }

    fn help(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "wait for the other download; this one looks again by itself",
            Self::Http { source, .. } | Self::SignatureHttp { source, .. } => source.help(),
            Self::Signature { source, .. } => source.help(),
            Self::Digest { .. } => {
                "fetch the stream's metadata again; if it did not change, the server has another file than it says"
            }
            Self::Uncompressed { .. } => "the stream's two digests contradict each other: tell its publisher",
            Self::Import(error) => error.help(),
            Self::Store(error) => error.help(),
            Self::Read { .. } => "see that the image folder's disk works",
            Self::Ended { .. } => "this is a fault of the appliance: see its log",
        }
    }

    fn of_fetch(error: FetchError, url: &str) -> Self {
        let url = shown_url(url);
        match error {
            FetchError::Busy => Self::Busy { url },
            FetchError::Http(source) => Self::Http { source },
            FetchError::Store(error) => error.into(),
            FetchError::Digest { expected, found } => Self::Digest { url, expected, found },
            FetchError::Signature(source) => Self::Signature { url, source },
            FetchError::Ended => Self::Ended { url },
        }
    }
}

impl Acquirer {
    /// Returns what is stored for an artifact, downloading it only where it is not there.
    pub async fn acquire_artifact(&self, wanted: &ArtifactRequest, progress: Tell) -> Result<Acquired, ArtifactError> {
        let url = &wanted.url;
        let (acquirer, asked) = (self.clone(), wanted.clone());
        let looked = tokio::task::spawn_blocking(move || acquirer.stored_artifact(&asked)).await;
        if let Some(found) = looked.map_err(|_| ArtifactError::Ended { url: shown_url(url) })?? {
            return Ok(found);
        }
        let _place = self.lanes.place(OWNER).ok_or(ArtifactError::Import(AcquireError::Crowded))?;
        let pass = self.lanes.downloads.enter(OWNER, waiting(&progress, 0)).await;
        let fetch = Fetch {
            store: self.store().clone(),
            client: self.client.clone(),
            limits: self.limits,
            url: url.clone(),
            sha256: wanted.sha256,
            signature: self.signature(wanted).await?,
            // The stream wants it until it says otherwise.
            keeps_parts: true,
            may_be_expanded: false,
        };
        let fetched = fetch.run(&progress).await.map_err(|error| ArtifactError::of_fetch(error, url))?;
        drop(pass);
        let signed_by = fetched.signed.as_ref().map(|signed| signed.fingerprint.clone()).unwrap_or_default();
        let signature = state(wanted, &signed_by);
        let stored = match wanted.role {
            None => {
                let origin = ImportSource {
                    url: url.clone(),
                    expected: Some(wanted.sha256.into()),
                    declared: None,
                    uncompressed_sha256: wanted.uncompressed_sha256,
                    release: wanted.release.clone(),
                    signed_by,
                };
                let imported = self.import_partial(fetched.partial, origin, OWNER, progress, true).await;
                StoredArtifact::Image(imported.map_err(|error| of_import(error, url))?)
            }
            Some(role) => {
                let (wanted, importer) = (wanted.clone(), self.importer.clone());
                let pass = self.lanes.imports.enter(OWNER, waiting(&progress, fetched.partial.bytes())).await;
                let task = move || {
                    let kept = keep_file(&importer, fetched, &wanted, role, signed_by);
                    drop(pass);
                    kept
                };
                let kept = tokio::task::spawn_blocking(task).await;
                StoredArtifact::File(kept.map_err(|_| ArtifactError::Ended { url: shown_url(url) })??)
            }
        };
        Ok(Acquired { stored, signature, is_seen_here: true })
    }

    /// What is there of an artifact already. One that is just being removed is waited for, and found gone or kept.
    pub fn stored_artifact(&self, wanted: &ArtifactRequest) -> Result<Option<Acquired>, StoreError> {
        let Some(acquired) = self.known_artifact(wanted)? else { return Ok(None) };
        let lease = match &acquired.stored {
            StoredArtifact::Image(image) => self.store().lease_image(&image.meta.raw_sha256)?,
            StoredArtifact::File(file) => self.store().lease_file(&file.meta.sha256)?,
        };
        Ok(lease.map(|_lease| acquired))
    }

    async fn signature(&self, wanted: &ArtifactRequest) -> Result<Option<SignatureCheck>, ArtifactError> {
        let Some((url, keyring)) = wanted.signed() else { return Ok(None) };
        let bytes = fetch_small(&self.client, self.limits, url, SIGNATURE_BYTES_MAX).await;
        let bytes = bytes.map_err(|source| ArtifactError::SignatureHttp { source })?;
        // A clock before 1970 has seen no signature end.
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Ok(Some(SignatureCheck { keyring: keyring.clone(), signature: bytes.into(), now_s }))
    }
}

/// Publishes a file as it is.
fn keep_file(
    importer: &Importer,
    fetched: VerifiedDownload,
    wanted: &ArtifactRequest,
    role: StoredFileRole,
    signed_by: String,
) -> Result<StoredFile, ArtifactError> {
    let VerifiedDownload { partial, .. } = fetched;
    if let Some(expected) = wanted.uncompressed_sha256 {
        let path = partial.path().to_path_buf();
        let file = File::open(&path).map_err(|source| ArtifactError::Read { path, source })?;
        let found = match importer.expanded_sha256(file) {
            Ok(found) => found,
            // It has the digest that it must have, so it will not expand another time either.
            Err(error) => {
                partial.remove()?;
                let import = AcquireError::Import { url: shown_url(&wanted.url), source: Box::new(error) };
                return Err(ArtifactError::Import(import));
            }
        };
        if found != expected {
            partial.remove()?;
            return Err(ArtifactError::Uncompressed { url: shown_url(&wanted.url), expected, found });
        }
    }
    let bytes = partial.bytes();
    let source = SourceRecord {
        url: without_secrets(&wanted.url),
        formats: Vec::new(),
        bytes,
        sha256: wanted.sha256,
        checksum: format!("sha256:{}", wanted.sha256),
        uncompressed_sha256: wanted.uncompressed_sha256,
        release: wanted.release.clone(),
        signed_by,
        witness: RecordOrigin::Here,
        notes: ImportNotes::default(),
    };
    let meta = FileMeta { sha256: wanted.sha256, bytes, role, name: String::new(), sources: vec![source] };
    Ok(partial.publish(meta)?)
}

fn of_import(error: AcquireError, url: &str) -> ArtifactError {
    if let AcquireError::Import { source, .. } = &error
        && let ImportError::Uncompressed { expected, found } = **source
    {
        return ArtifactError::Uncompressed { url: shown_url(url), expected, found };
    }
    ArtifactError::Import(error)
}

pub(super) fn state(wanted: &ArtifactRequest, signed_by: &str) -> SignatureState {
    match (&wanted.signature_url, signed_by) {
        (None, _) => SignatureState::None,
        (Some(_), "") => SignatureState::Unverified,
        (Some(_), fingerprint) => SignatureState::Good { fingerprint: fingerprint.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_come_again_are_told_apart() {
        let url = || "https://example.com/x".to_owned();
        let zero = Sha256::of(b"");
        assert!(ArtifactError::Digest { url: url(), expected: zero, found: zero }.is_permanent());
        assert!(!ArtifactError::Busy { url: url() }.is_permanent());
        let full = || StoreError::Full { path: PathBuf::from("/x") };
        assert!(ArtifactError::Store(full()).is_full());
        let import = AcquireError::Import { url: url(), source: Box::new(ImportError::Store(full())) };
        let error = ArtifactError::Import(import);
        assert!(error.is_full() && !error.is_permanent());
    }
}
