//! One file whose digest is known, from a server into a [`Partial`]: resumed, checked while it comes, begun again when
//! the server's file changed, never a mixture of two (S1.5).
//!
//! ```text
//! partial file --reread--> DownloadChecks <--update-- Download --append--> partial file --every 32 MiB--> disk
//!                            | sha256, signature
//!                            v
//!                     VerifiedDownload | FetchError (what is wrong is removed, what is only cut stays)
//! ```

use std::sync::Arc;

use firesteel_facts::{Hasher, Sha256, shown_url};

use super::partial::Partial;
use super::stage::AcquisitionStage;
use super::store::{ImageStore, StoreError};
use crate::http::{Download, DownloadClient, DownloadLimits, HttpError};
use crate::openpgp::{Keyring, SignatureError, VerifiedSignature, Verifier};

/// Times that a file may change on its server before we give up: it is uploaded over and over.
const RESTARTS_MAX: u32 = 3;
/// A small file comes within so many stalls, five minutes: all attempts that bring nothing take less. One byte now and
/// then is no stall, and would delay the file for days.
const SMALL_STALLS: u32 = 10;
/// The bytes between two reports of progress while what is there already is read.
const REPORTED_BYTES: u64 = 16 << 20;

pub(crate) type Tell = Arc<dyn Fn(AcquisitionStage) + Send + Sync>;

/// A detached signature with the keys that may have made it.
#[derive(Clone, Debug)]
pub(crate) struct SignatureCheck {
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) signature: Arc<[u8]>,
    pub(crate) now_s: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) store: ImageStore,
    pub(crate) client: DownloadClient,
    pub(crate) limits: DownloadLimits,
    pub(crate) url: String,
    pub(crate) sha256: Sha256,
    pub(crate) signature: Option<SignatureCheck>,
    /// Whether what came stays after an error that another attempt may outlive. After a kill it stays in any case, and so
    /// does what an earlier attempt left.
    pub(crate) keeps_parts: bool,
    /// The digest may be that of what the file holds once it is expanded: any whole file is taken then, and who expands
    /// it compares.
    pub(crate) may_be_expanded: bool,
}

/// A file that is whole and has the digest and the signature that it must have.
#[derive(Debug)]
pub(crate) struct VerifiedDownload {
    pub(crate) partial: Partial,
    pub(crate) signed: Option<VerifiedSignature>,
    /// The digest of its bytes: the one that was asked for, unless that may be the digest of what it holds.
    pub(crate) sha256: Sha256,
    /// Its bytes came in more than one part.
    pub(crate) in_parts: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("another download of it is under way")]
    Busy,
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("its sha256 is {found}, not {expected}")]
    Digest { expected: Sha256, found: Sha256 },
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error("the download ended unexpectedly")]
    Ended,
}

struct DownloadChecks {
    hasher: Hasher,
    verifier: Option<Verifier>,
}

impl DownloadChecks {
    fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        if let Some(verifier) = &mut self.verifier {
            verifier.update(bytes);
        }
    }
}

impl Fetch {
    pub(crate) async fn run(&self, tell: &Tell) -> Result<VerifiedDownload, FetchError> {
        // Before the first byte: a signature that cannot become good ends it here.
        self.checks()?;
        let (store, sha256, url) = (self.store.clone(), self.sha256, self.url.clone());
        let opened = blocking(move || Partial::open(&store, &sha256, &url)).await??;
        let mut partial = opened.ok_or(FetchError::Busy)?;
        // Who began it may come again for it.
        let keeps_parts = self.keeps_parts || partial.bytes() > 0;
        let (mut restarts, mut is_doubted) = (0, false);
        loop {
            let ended;
            (partial, ended) = self.attempt(partial, tell).await?;
            match ended {
                Ok((checks, in_parts)) => match self.judge(checks) {
                    Ok((sha256, signed)) => return Ok(VerifiedDownload { partial, signed, sha256, in_parts }),
                    // Parts of two files may have come together where the server gives no names to them: once more,
                    // from the start.
                    Err(FetchError::Digest { .. }) if in_parts && !is_doubted => is_doubted = true,
                    Err(error) => return Err(removed(partial, error).await),
                },
                Err(FetchError::Http(HttpError::Changed { why, .. })) if restarts < RESTARTS_MAX => {
                    tracing::info!(
                        url = shown_url(&self.url),
                        why,
                        "the file changed on its server; its download begins again"
                    );
                }
                Err(error) if is_hopeless(&error) || !keeps_parts => return Err(removed(partial, error).await),
                Err(error) => return Err(error),
            }
            restarts += 1;
            partial = blocking(move || partial.restart().map(|()| partial)).await??;
        }
    }

    fn checks(&self) -> Result<DownloadChecks, SignatureError> {
        let verifier =
            self.signature.as_ref().map(|check| Verifier::new(&check.keyring, &check.signature, check.now_s));
        Ok(DownloadChecks { hasher: Hasher::new(), verifier: verifier.transpose()? })
    }

    /// Gives the digest, and what signed it.
    fn judge(&self, checks: DownloadChecks) -> Result<(Sha256, Option<VerifiedSignature>), FetchError> {
        let found = checks.hasher.finish();
        if found != self.sha256 && !self.may_be_expanded {
            return Err(FetchError::Digest { expected: self.sha256, found });
        }
        Ok((found, checks.verifier.map(Verifier::finish).transpose()?))
    }

    /// Reads what is there, downloads the rest, and says whether it came in parts. The partial file comes back whatever
    /// happens, flushed.
    async fn attempt(
        &self,
        partial: Partial,
        tell: &Tell,
    ) -> Result<(Partial, Result<(DownloadChecks, bool), FetchError>), FetchError> {
        let checks = self.checks()?;
        let reported = tell.clone();
        let (partial, checks) = blocking(move || reread(partial, checks, &reported)).await??;
        let in_parts = partial.bytes() > 0;
        let mut hold = PartialHolder { partial: Some(partial), checks, in_parts };
        let result = self.download(&mut hold, tell).await;
        let Some(partial) = hold.partial else { return Err(FetchError::Ended) };
        let (partial, flushed) = blocking(move || flush(partial)).await?;
        let ended = result.and(flushed.map_err(FetchError::from));
        Ok((partial, ended.map(|()| (hold.checks, hold.in_parts))))
    }

    async fn download(&self, hold: &mut PartialHolder, tell: &Tell) -> Result<(), FetchError> {
        let Some(partial) = &mut hold.partial else { return Err(FetchError::Ended) };
        let download = Download::new(self.client.clone(), &self.url, self.limits, None, true)?;
        let mut download = download.from_position(partial.bytes(), partial.validator(), partial.total_bytes());
        tell(downloading(partial));
        let mut is_described = false;
        while let Some(bytes) = download.next().await? {
            let Some(partial) = &mut hold.partial else { return Err(FetchError::Ended) };
            if !is_described {
                partial.describe(download.validator(), download.total_bytes());
                partial.ensure_room()?;
                is_described = true;
            }
            hold.checks.update(&bytes);
            // Some 100 kB into the page cache: not worth a thread of its own.
            let is_due = partial.append(&bytes)?;
            tell(downloading(partial));
            if is_due && let Some(full) = hold.partial.take() {
                let (partial, flushed) = blocking(move || flush(full)).await?;
                hold.partial = Some(partial);
                flushed?;
            }
            hold.in_parts |= download.is_resumed();
        }
        Ok(())
    }
}

/// The partial file changes hands while it is flushed.
struct PartialHolder {
    partial: Option<Partial>,
    checks: DownloadChecks,
    /// The bytes came in more than one part.
    in_parts: bool,
}

fn downloading(partial: &Partial) -> AcquisitionStage {
    AcquisitionStage::Downloading { done_bytes: partial.bytes(), total_bytes: partial.total_bytes() }
}

fn reread(
    mut partial: Partial,
    mut checks: DownloadChecks,
    tell: &Tell,
) -> Result<(Partial, DownloadChecks), StoreError> {
    let total_bytes = partial.bytes();
    if total_bytes > 0 {
        let (mut done_bytes, mut reported_bytes) = (0, 0);
        tell(AcquisitionStage::Rereading { done_bytes, total_bytes });
        partial.reread(&mut |bytes| {
            checks.update(bytes);
            done_bytes += bytes.len() as u64;
            if done_bytes - reported_bytes >= REPORTED_BYTES || done_bytes == total_bytes {
                reported_bytes = done_bytes;
                tell(AcquisitionStage::Rereading { done_bytes, total_bytes });
            }
        })?;
    }
    Ok((partial, checks))
}

fn flush(mut partial: Partial) -> (Partial, Result<(), StoreError>) {
    let flushed = partial.flush();
    (partial, flushed)
}

/// Whether what was downloaded is of no use to the next attempt, or must make room.
fn is_hopeless(error: &FetchError) -> bool {
    match error {
        FetchError::Http(HttpError::TooLarge { .. } | HttpError::Changed { .. } | HttpError::Length { .. })
        | FetchError::Store(StoreError::Full { .. })
        | FetchError::Digest { .. }
        | FetchError::Signature(_) => true,
        FetchError::Http(_) | FetchError::Store(_) | FetchError::Busy | FetchError::Ended => false,
    }
}

async fn removed(partial: Partial, error: FetchError) -> FetchError {
    match blocking(move || partial.remove()).await {
        Ok(Ok(())) => error,
        Ok(Err(failed)) => failed.into(),
        Err(failed) => failed,
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, FetchError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| FetchError::Ended)
}

/// A small file as it is.
pub(crate) async fn fetch_small(
    client: &DownloadClient,
    limits: DownloadLimits,
    url: &str,
    bytes_max: usize,
) -> Result<Vec<u8>, HttpError> {
    let limits = DownloadLimits { bytes_max: bytes_max as u64, ..limits };
    let mut download = Download::new(client.clone(), url, limits, None, false)?;
    let whole = async {
        let mut bytes = Vec::new();
        while let Some(more) = download.next().await? {
            bytes.extend_from_slice(&more);
        }
        Ok::<_, HttpError>(bytes)
    };
    let within = limits.stall * SMALL_STALLS;
    let in_time = tokio::time::timeout(within, whole).await;
    in_time.unwrap_or_else(|_| Err(HttpError::Slow { url: shown_url(url), seconds: within.as_secs() }))
}
