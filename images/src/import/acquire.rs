//! Leads from an address to a stored image: checksum, download, import (issue 1; of issue 6 the downloads that outlive
//! their process, S1.5). Asynchronous; the work on the bytes runs on a blocking thread. Where the owner gives a SHA-256, the
//! download lands in a partial file, which another process goes on with after a kill. Artifacts of a stream come by
//! [`super::artifact`].

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firesteel_dial::{WebClient, WebLogin};
use firesteel_facts::{Sha256, shown_url};

use super::bounds::ImportBounds;
use super::checksum::{Checksum, ChecksumError, FILE_BYTES_MAX};
use super::error::ImportError;
use super::fetch::{Fetch, FetchError, Tell, fetch_small};
use super::format::ImportFormat;
use super::import_queue::Lanes;
use super::importer::{ImportSource, Importer};
use super::local::{self, LocalError};
use super::partial::Partial;
use super::room_limited_writer::RoomLimitedWriter;
use super::stage::AcquisitionStage;
use super::store::{ImageStore, StoreError, StoredImage};
use crate::http::{Download, DownloadClient, DownloadLimits, HttpError};

/// What to get; the fields of an image as an owner writes them.
#[derive(Clone, Debug, Default)]
pub struct ImageRequest {
    /// `http`, `https` or `file`.
    pub url: String,
    /// Hexadecimal digits, the address of a checksum file, or empty.
    pub checksum: String,
    /// `md5`, `sha256`, `sha512`, `auto` or empty.
    pub checksum_type: String,
    pub declared: Option<ImportFormat>,
    /// The login for the origins of image and checksum.
    pub login: Option<WebLogin>,
    /// The owner's name: owners share places and turns. Empty: the operator of this process.
    pub owner: String,
}

/// Each `url` is shown without its secrets.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    #[error("{url} is neither http, https nor file")]
    Scheme { url: String },
    #[error("downloading")]
    Http(#[from] HttpError),
    #[error("using a local image")]
    Local(#[from] LocalError),
    #[error("understanding the checksum")]
    Checksum(#[from] ChecksumError),
    #[error("the checksum file {url} is not text")]
    ChecksumFile { url: String },
    #[error("importing {url}")]
    Import { url: String, source: Box<ImportError> },
    #[error("using the image folder")]
    Store(#[from] StoreError),
    #[error("writing the download to {path}")]
    Spool { path: PathBuf, source: std::io::Error },
    #[error("the import of {url} ended unexpectedly")]
    Ended { url: String },
    #[error("as many images are under way or wait already as may, of this owner or in all")]
    Crowded,
}

impl AcquireError {
    /// What happened, with all causes, and what a person can do about it.
    #[must_use]
    pub fn explain(&self) -> String {
        format!("{}; {}", chain(self), self.help())
    }

    /// Whether the store has no room for it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Import { source, .. } => matches!(**source, ImportError::Store(StoreError::Full { .. })),
            Self::Store(error) => matches!(error, StoreError::Full { .. }),
            Self::Scheme { .. }
            | Self::Http(_)
            | Self::Local(_)
            | Self::Checksum(_)
            | Self::ChecksumFile { .. }
            | Self::Spool { .. }
            | Self::Ended { .. }
            | Self::Crowded => false,
        }
    }

    pub(super) fn of_fetch(error: FetchError, url: &str) -> Self {
        let import = |source| Self::Import { url: shown_url(url), source: Box::new(source) };
        match error {
            FetchError::Http(error) => error.into(),
            FetchError::Store(error) => error.into(),
            FetchError::Digest { expected, found } => {
                import(ImportError::Checksum { expected: expected.into(), found: found.into() })
            }
            // Without keys no signature is looked at, and who meets a busy file goes another way.
            FetchError::Signature(_) | FetchError::Busy | FetchError::Ended => Self::Ended { url: shown_url(url) },
        }
    }

    pub(super) fn help(&self) -> &'static str {
        match self {
            Self::Scheme { .. } => "give an http, https or file address",
            Self::Http(error) => error.help(),
            Self::Local(_) => "only plain files below the appliance's folder for local images are used: put it there",
            Self::Checksum(_) | Self::ChecksumFile { .. } => {
                "give the checksum itself, or the address of a checksum file that names the image"
            }
            Self::Import { source, .. } => source.help(),
            Self::Store(error) => error.help(),
            Self::Spool { .. } => "see that the folder's disk works, and that the appliance may write there",
            Self::Ended { .. } => "this is a fault of the appliance: see its log",
            Self::Crowded => "wait: it is asked for again as soon as one of them has ended",
        }
    }
}

/// Tells of waiting.
pub(super) fn waiting(tell: &Tell, done_bytes: u64) -> impl FnMut(u32) {
    move |ahead| tell(AcquisitionStage::Waiting { ahead, done_bytes })
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some errors quote their cause.
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// Gets images into one store.
#[derive(Clone, Debug)]
pub struct Acquirer {
    pub(super) importer: Importer,
    pub(super) client: DownloadClient,
    pub(super) limits: DownloadLimits,
    local_root: Option<PathBuf>,
    /// Clones share them.
    pub(super) lanes: Lanes,
}

impl Acquirer {
    /// `local_root`: the only folder that `file://` addresses may point into. `web` fetches all others.
    #[must_use]
    pub fn new(store: ImageStore, local_root: Option<&Path>, web: WebClient) -> Self {
        Self {
            importer: Importer::new(store),
            client: web.into(),
            limits: DownloadLimits::default(),
            local_root: local_root.map(Path::to_path_buf),
            lanes: Lanes::default(),
        }
    }

    /// Sets other bounds of downloads.
    #[must_use]
    pub fn with_limits(self, limits: DownloadLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets other bounds of what an image may cost.
    #[must_use]
    pub fn with_bounds(self, bounds: ImportBounds) -> Self {
        Self { importer: self.importer.with_bounds(bounds), ..self }
    }

    #[must_use]
    pub fn store(&self) -> &ImageStore {
        self.importer.store()
    }

    /// Returns the image that is stored for this request, downloading it only when no earlier
    /// download had the same checksum. What is stored, and named by a digest, waits for no turn.
    pub async fn acquire(
        &self,
        request: &ImageRequest,
        progress: Arc<dyn Fn(AcquisitionStage) + Send + Sync>,
    ) -> Result<StoredImage, AcquireError> {
        if let Some(StatedChecksum::Digest(checksum)) = stated(request)?
            && let Some(image) = self.stored(&checksum, request).await?
        {
            return Ok(image);
        }
        let _place = self.lanes.place(&request.owner).ok_or(AcquireError::Crowded)?;
        let pass = self.lanes.downloads.enter(&request.owner, waiting(&progress, 0)).await;
        let expected = self.expected(request).await?;
        if let Some(checksum) = &expected
            && let Some(image) = self.stored(checksum, request).await?
        {
            return Ok(image);
        }
        let sha256 = expected.as_ref().and_then(Checksum::sha256);
        let origin =
            ImportSource { url: request.url.clone(), expected, declared: request.declared, ..ImportSource::default() };
        match scheme(&request.url) {
            "file" => {
                drop(pass);
                let file = local::open(&request.url, self.local_root.as_deref())?;
                self.import(file, origin, &request.owner, progress).await
            }
            "http" | "https" => {
                if let Some(sha256) = sha256 {
                    match self.fetch(request, sha256).run(&progress).await {
                        Ok(fetched) => {
                            drop(pass);
                            return self.import_partial(fetched.partial, origin, &request.owner, progress, false).await;
                        }
                        // Another download of the same is under way: this one goes its own way.
                        Err(FetchError::Busy) => {}
                        Err(error) => return Err(AcquireError::of_fetch(error, &request.url)),
                    }
                }
                let spooled = self.download(request, origin.expected.is_some(), &*progress).await?;
                drop(pass);
                let path = spooled.path().to_path_buf();
                let file = spooled.reopen().map_err(|source| AcquireError::Spool { path, source })?;
                let image = self.import(file, origin, &request.owner, progress).await;
                drop(spooled);
                image
            }
            _ => Err(AcquireError::Scheme { url: shown_url(&request.url) }),
        }
    }

    /// A document that is not kept, such as a stream's metadata: whole, or not at all.
    pub async fn document(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, HttpError> {
        fetch_small(&self.client, self.limits, url, bytes_max).await
    }

    async fn expected(&self, request: &ImageRequest) -> Result<Option<Checksum>, AcquireError> {
        let text = match stated(request)? {
            None => return Ok(None),
            Some(StatedChecksum::Digest(checksum)) => return Ok(Some(checksum)),
            Some(StatedChecksum::Address(text)) => text,
        };
        let bytes = fetch_small(&self.client_for(request), self.limits, text, FILE_BYTES_MAX).await?;
        let content = String::from_utf8(bytes).map_err(|_| AcquireError::ChecksumFile { url: shown_url(text) })?;
        let name = file_name(&request.url);
        Ok(Some(Checksum::find(&content, &name, &request.checksum_type)?))
    }

    /// The client with the request's login.
    fn client_for(&self, request: &ImageRequest) -> DownloadClient {
        self.client.clone().with_login(request.login.clone())
    }

    fn fetch(&self, request: &ImageRequest, sha256: Sha256) -> Fetch {
        Fetch {
            store: self.store().clone(),
            client: self.client_for(request),
            limits: self.limits,
            url: request.url.clone(),
            sha256,
            signature: None,
            // No other attempt may come for a host's image, and its owner knows that nothing stays.
            keeps_parts: false,
            may_be_expanded: false,
        }
    }

    /// Imports what was downloaded. Where it `keeps_parts`, the download stays if another attempt can use it: if the
    /// store has no room now, or the import was not what ended it.
    pub(super) async fn import_partial(
        &self,
        partial: Partial,
        origin: ImportSource,
        owner: &str,
        progress: Tell,
        keeps_parts: bool,
    ) -> Result<StoredImage, AcquireError> {
        let path = partial.path().to_path_buf();
        let file = std::fs::File::open(&path).map_err(|source| AcquireError::Spool { path, source })?;
        let image = self.import(file, origin, owner, progress).await;
        let is_of_use = match &image {
            Err(AcquireError::Import { source, .. }) => matches!(**source, ImportError::Store(_)),
            Err(AcquireError::Ended { .. }) => true,
            Ok(_) | Err(_) => false,
        };
        if !(keeps_parts && is_of_use) {
            partial.remove()?;
        }
        image
    }

    async fn download(
        &self,
        request: &ImageRequest,
        digest_known: bool,
        progress: &(dyn Fn(AcquisitionStage) + Send + Sync),
    ) -> Result<tempfile::NamedTempFile, AcquireError> {
        let mut download = Download::new(self.client_for(request), &request.url, self.limits, None, digest_known)?;
        let spooled = self.store().incoming()?;
        let mut spool = RoomLimitedWriter::new(spooled.as_file());
        while let Some(bytes) = download.next().await? {
            // Some 100 kB into the page cache: not worth a thread of its own.
            spool.write_all(&bytes).map_err(|source| self.store().write_error(spooled.path(), source))?;
            progress(AcquisitionStage::Downloading {
                done_bytes: download.position(),
                total_bytes: download.total_bytes(),
            });
        }
        drop(spool);
        Ok(spooled)
    }

    async fn import(
        &self,
        file: std::fs::File,
        origin: ImportSource,
        owner: &str,
        progress: Tell,
    ) -> Result<StoredImage, AcquireError> {
        let importer = self.importer.clone();
        let url = shown_url(&origin.url);
        let source_bytes = file.metadata().map_or(0, |found| found.len());
        let pass = self.lanes.imports.enter(owner, waiting(&progress, source_bytes)).await;
        // The work goes on when its caller is gone, and so does its turn.
        let task = tokio::task::spawn_blocking(move || {
            let imported = importer.import(file, &origin, &|seen| {
                progress(AcquisitionStage::Importing { source_bytes: seen.source_bytes, raw_bytes: seen.raw_bytes });
            });
            drop(pass);
            imported
        });
        match task.await {
            Ok(Ok(image)) => {
                let notes = image.meta.sources.last().map(|source| source.notes).unwrap_or_default();
                for sentence in notes.sentences() {
                    tracing::warn!(url, "{sentence}");
                }
                Ok(image)
            }
            Ok(Err(source)) => Err(AcquireError::Import { url, source: Box::new(source) }),
            Err(_) => Err(AcquireError::Ended { url }),
        }
    }
}

/// What a request says of the checksum.
enum StatedChecksum<'a> {
    Digest(Checksum),
    /// The address of a file of checksums.
    Address(&'a str),
}

fn stated(request: &ImageRequest) -> Result<Option<StatedChecksum<'_>>, AcquireError> {
    let text = request.checksum.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if matches!(scheme(text), "http" | "https") {
        return Ok(Some(StatedChecksum::Address(text)));
    }
    Ok(Some(StatedChecksum::Digest(Checksum::parse(text, &request.checksum_type)?)))
}

fn scheme(url: &str) -> &str {
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

/// The last part of the address's path, as a checksum file would name it.
fn file_name(url: &str) -> String {
    let path = reqwest::Url::parse(url).map(|url| url.path().to_owned()).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}
