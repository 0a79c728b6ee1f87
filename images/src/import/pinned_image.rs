//! An image whose address comes with one SHA-256, of which is not known whether it is that of the file or of what the
//! file holds once its compression is taken off (S0.12). Upstream's installer gives the latter, people often the former.
//! Either proves the image; where neither fits, nothing is stored.

use firesteel_facts::{Sha256, shown_url};

use super::acquire::{AcquireError, Acquirer, chain, waiting};
use super::error::ImportError;
use super::fetch::{Fetch, FetchError, Tell, VerifiedDownload};
use super::importer::ImportSource;
use super::store::StoredImage;

/// The owner in the lanes: the operator of the appliance.
const OWNER: &str = "";

/// An image that is to be in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedImageRequest {
    /// `http` or `https`.
    pub url: String,
    /// The digest of the file, or of what it holds.
    pub sha256: Sha256,
}

/// Why a pinned image is not there. Each `url` is shown without its secrets.
#[derive(Debug, thiserror::Error)]
pub enum PinnedImageError {
    #[error("{url} is being downloaded already")]
    Busy { url: String },
    #[error("the sha256 of {url} is {found}{}, not {expected}", of_content(*uncompressed))]
    Digest {
        url: String,
        expected: Sha256,
        found: Sha256,
        /// The digest of what the file holds, where it could be expanded.
        uncompressed: Option<Sha256>,
    },
    #[error(transparent)]
    Acquire(AcquireError),
}

fn of_content(digest: Option<Sha256>) -> String {
    digest.map(|digest| format!(" (and {digest} once it is uncompressed)")).unwrap_or_default()
}

impl PinnedImageError {
    /// What happened, with all causes, and what a person can do about it.
    #[must_use]
    pub fn explain(&self) -> String {
        format!("{}; {}", chain(self), self.help())
    }

    /// Whether the same address and digest will fail again.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Digest { .. } => true,
            Self::Busy { .. } => false,
            Self::Acquire(AcquireError::Scheme { .. }) => true,
            Self::Acquire(AcquireError::Import { source, .. }) => source.is_permanent(),
            Self::Acquire(_) => false,
        }
    }

    /// Whether the store has no room for it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_full())
    }

    /// Whether nothing is wrong but that others are under way: it is to be tried again.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Acquire(AcquireError::Crowded))
    }

    fn help(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "wait for the other download; this one looks again by itself",
            Self::Digest { .. } => {
                "give the sha256 that the publisher states for this file, or the address of the file that has it"
            }
            Self::Acquire(error) => error.help(),
        }
    }
}

impl Acquirer {
    /// Returns the image that is stored for an address with its digest, downloading it only where it is not there. A
    /// download that ends in the middle stays, and the next call goes on with it.
    ///
    /// # Errors
    /// When it cannot be had, is no image, or has another digest.
    pub async fn acquire_pinned(
        &self,
        request: &PinnedImageRequest,
        progress: Tell,
    ) -> Result<StoredImage, PinnedImageError> {
        let url = || shown_url(&request.url);
        let (store, sha256) = (self.store().clone(), request.sha256);
        let looked = tokio::task::spawn_blocking(move || store.used_by_source(&sha256.into())).await;
        let looked = looked.map_err(|_| PinnedImageError::Acquire(AcquireError::Ended { url: url() }))?;
        if let Some(image) = looked.map_err(|error| PinnedImageError::Acquire(error.into()))? {
            return Ok(image);
        }
        let _place = self.lanes.place(OWNER).ok_or(PinnedImageError::Acquire(AcquireError::Crowded))?;
        let mut is_doubted = false;
        loop {
            let pass = self.lanes.downloads.enter(OWNER, waiting(&progress, 0)).await;
            let fetched = self.pinned_fetch(request).run(&progress).await;
            let fetched = fetched.map_err(|error| of_fetch(error, &request.url))?;
            drop(pass);
            let in_parts = fetched.in_parts;
            match self.import_pinned(request, fetched, progress.clone()).await {
                // Parts of two files may have come together where the server gives no names to them: once more, from
                // the start.
                Err(PinnedImageError::Digest { .. }) if in_parts && !is_doubted => is_doubted = true,
                imported => return imported,
            }
        }
    }

    fn pinned_fetch(&self, request: &PinnedImageRequest) -> Fetch {
        Fetch {
            store: self.store().clone(),
            client: self.client.clone(),
            limits: self.limits,
            url: request.url.clone(),
            sha256: request.sha256,
            signature: None,
            keeps_parts: true,
            may_be_expanded: true,
        }
    }

    async fn import_pinned(
        &self,
        request: &PinnedImageRequest,
        fetched: VerifiedDownload,
        progress: Tell,
    ) -> Result<StoredImage, PinnedImageError> {
        let (expected, found) = (request.sha256, fetched.sha256);
        let is_of_file = found == expected;
        let origin = ImportSource {
            url: request.url.clone(),
            expected: Some(found.into()),
            uncompressed_sha256: (!is_of_file).then_some(expected),
            ..ImportSource::default()
        };
        let imported = self.import_partial(fetched.partial, origin, OWNER, progress, true).await;
        imported.map_err(|error| {
            // A page of a server in the place of the file is no image: its digest is the reason that helps.
            if let AcquireError::Import { source, .. } = &error
                && !is_of_file
                && is_of_bytes(source)
            {
                let uncompressed = content_of(source).filter(|content| *content != found);
                return PinnedImageError::Digest { url: shown_url(&request.url), expected, found, uncompressed };
            }
            PinnedImageError::Acquire(error)
        })
    }
}

/// The digest of what a file held, where it was expanded and that was not what was wanted.
fn content_of(error: &ImportError) -> Option<Sha256> {
    if let ImportError::Uncompressed { found, .. } = error { Some(*found) } else { None }
}

/// Whether an import failed by what the bytes are, and not by what they cost or by this machine.
fn is_of_bytes(error: &ImportError) -> bool {
    error.is_permanent() && !matches!(error, ImportError::Exceeded(_) | ImportError::Compress { .. })
}

fn of_fetch(error: FetchError, url: &str) -> PinnedImageError {
    if matches!(error, FetchError::Busy) {
        return PinnedImageError::Busy { url: shown_url(url) };
    }
    PinnedImageError::Acquire(AcquireError::of_fetch(error, url))
}
