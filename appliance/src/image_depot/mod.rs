//! The image store and outward connections, as streams need them ([`Depot`]) and as hosts need them ([`Images`]): the
//! same folder, the same downloads, one quota.
//!
//! ```text
//! DATA/images/             stored images, and downloads under way (firesteel_images)
//! DATA/streams/NAME        metadata from an operator or a bundle, for spec.source.file
//! DATA/streams/followed/   the last document read of each stream, for bundles
//! ```

mod folder;
mod make_room;
mod os_image;
mod os_image_store;
mod quota;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use firesteel_control::{AcquiredImage, Acquiring, ImageFault, Images};
use firesteel_facts::Sha256;
use firesteel_images::catalogue::DOCUMENT_BYTES_MAX;
use firesteel_images::import::{
    Acquired, Acquirer, AcquisitionStage, ArtifactError, ArtifactRequest, ImageRequest, ImageStore, StoredArtifact,
    WebClient,
};
use firesteel_streams::{
    Depot, DepotArtifact, DepotError, DepotFailure, Doing, FreedRoom, MetadataSource, Referrers, StreamController, Tell,
};

pub use folder::StreamFolder;
pub use make_room::is_named;
pub use os_image::{CachedOsImage, OsImageView};
pub use os_image_store::{OsImageFault, OsImages};
pub use quota::Quota;

/// The appliance's own depot.
#[derive(Clone, Debug)]
pub struct OwnDepot {
    acquirer: Acquirer,
    folder: StreamFolder,
}

impl OwnDepot {
    /// Opens the depot in the data folder `data`. `web` fetches what is not stored.
    ///
    /// # Errors
    /// When its folders cannot be opened.
    pub fn open(data: &Path, web: WebClient) -> anyhow::Result<Self> {
        let images = ImageStore::open(&data.join("images")).context("could not open the image store")?;
        let acquirer = Acquirer::new(images, Some(&data.join("import")), web);
        Ok(Self::new(acquirer, StreamFolder::open(&data.join("streams"))?))
    }

    #[must_use]
    pub fn new(acquirer: Acquirer, folder: StreamFolder) -> Self {
        Self { acquirer, folder }
    }

    #[must_use]
    pub fn store(&self) -> &ImageStore {
        self.acquirer.store()
    }

    #[must_use]
    pub fn acquirer(&self) -> &Acquirer {
        &self.acquirer
    }
}

/// The path at which hosts fetch stored images.
#[must_use]
pub fn served(stored: &StoredArtifact) -> String {
    match stored {
        StoredArtifact::Image(image) => format!("/images/{}.raw.zst", image.meta.stream_sha256),
        StoredArtifact::File(file) => format!("/images/{}", file.meta.sha256),
    }
}

fn found(acquired: Acquired, wanted: &ArtifactRequest) -> DepotArtifact {
    let served = served(&acquired.stored);
    let (raw_sha256, is_proven, bytes) = match &acquired.stored {
        StoredArtifact::Image(image) => {
            let source = image.meta.sources.iter().find(|source| source.sha256 == wanted.sha256);
            let raw = image.meta.raw_sha256;
            (Some(raw), wanted.uncompressed_sha256 == Some(raw), source.map_or(0, |source| source.bytes))
        }
        StoredArtifact::File(file) => (None, true, file.meta.bytes),
    };
    DepotArtifact {
        raw_sha256,
        bytes,
        served,
        signature: acquired.signature,
        is_seen_here: acquired.is_seen_here,
        is_proven,
    }
}

fn fault(error: &ArtifactError) -> DepotFailure {
    DepotFailure {
        message: error.explain(),
        is_permanent: error.is_permanent(),
        is_full: error.is_full(),
        is_signature: matches!(error, ArtifactError::Signature { .. }),
        is_busy: error.is_busy(),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, DepotError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| DepotError::Task(error.to_string()))
}

impl Depot for OwnDepot {
    fn document<'a>(&'a self, place: &'a MetadataSource) -> Doing<'a, Result<Vec<u8>, DepotError>> {
        Box::pin(async move {
            match place {
                MetadataSource::Url(url) => {
                    let got = self.acquirer.document(url, DOCUMENT_BYTES_MAX).await;
                    got.map_err(|error| {
                        let help = error.help();
                        let text = format!("{:#}; {help}", anyhow::Error::new(error).context("could not get metadata"));
                        DepotError::Document(text)
                    })
                }
                MetadataSource::File(name) => {
                    let (folder, name) = (self.folder.clone(), name.clone());
                    let read = blocking(move || folder.read(&name)).await?;
                    read.map_err(|error| DepotError::Document(format!("{error:#}")))
                }
            }
        })
    }

    fn keep<'a>(&'a self, stream: &'a str, document: Vec<u8>) -> Doing<'a, Result<(), DepotError>> {
        let (folder, stream) = (self.folder.clone(), stream.to_owned());
        Box::pin(async move {
            let kept = blocking(move || folder.keep(&stream, &document)).await?;
            kept.map_err(|error| DepotError::Store(format!("{error:#}")))
        })
    }

    fn find_artifact<'a>(
        &'a self,
        wanted: &'a ArtifactRequest,
    ) -> Doing<'a, Result<Option<DepotArtifact>, DepotFailure>> {
        Box::pin(async move {
            let (acquirer, asked) = (self.acquirer.clone(), wanted.clone());
            let looked = blocking(move || acquirer.stored_artifact(&asked).map_err(ArtifactError::from)).await;
            let looked =
                looked.map_err(|error| DepotFailure { message: error.to_string(), ..DepotFailure::default() })?;
            Ok(looked.map_err(|error| fault(&error))?.map(|acquired| found(acquired, wanted)))
        })
    }

    fn fetch<'a>(&'a self, wanted: &'a ArtifactRequest, tell: Tell) -> Doing<'a, Result<DepotArtifact, DepotFailure>> {
        Box::pin(async move {
            let acquired = self.acquirer.acquire_artifact(wanted, tell).await.map_err(|error| fault(&error))?;
            Ok(found(acquired, wanted))
        })
    }

    fn make_room<'a>(
        &'a self,
        referrers: &'a dyn Referrers,
        quota_bytes: Option<u64>,
        coming_bytes: u64,
    ) -> Doing<'a, Result<FreedRoom, DepotError>> {
        Box::pin(make_room::make(self.store(), referrers, quota_bytes, coming_bytes))
    }
}

/// Images for hosts, from the same store: if it is full, room is made once.
pub struct HostImages {
    depot: OwnDepot,
    streams: StreamController,
    os_image: CachedOsImage,
}

impl std::fmt::Debug for HostImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostImages").field("depot", &self.depot).finish_non_exhaustive()
    }
}

impl HostImages {
    #[must_use]
    pub fn new(depot: OwnDepot, streams: StreamController, os_image: CachedOsImage) -> Self {
        Self { depot, streams, os_image }
    }
}

impl Images for HostImages {
    fn acquire<'a>(
        &'a self,
        request: &'a ImageRequest,
        progress: Arc<dyn Fn(AcquisitionStage) + Send + Sync>,
    ) -> Acquiring<'a> {
        Box::pin(async move {
            if let Some(cached) = self.os_image.acquire(request, &*progress).await {
                return cached;
            }
            let total: Arc<Mutex<Option<u64>>> = Arc::default();
            let heard = Arc::clone(&total);
            let tell: Arc<dyn Fn(AcquisitionStage) + Send + Sync> = Arc::new(move |stage| {
                if let AcquisitionStage::Downloading { total_bytes: Some(bytes), .. } = stage {
                    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
                }
                progress(stage);
            });
            let acquirer = &self.depot.acquirer;
            let error = match acquirer.acquire(request, Arc::clone(&tell)).await {
                Ok(stored) => return Ok(AcquiredImage::of(&stored.meta, request)),
                Err(error) => error,
            };
            if !error.is_full() {
                return Err(ImageFault::of(&error));
            }
            let coming = total.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(0).saturating_mul(2);
            match self.streams.make_room(coming).await {
                Ok(None) => Images::acquire(acquirer, request, tell).await,
                Ok(Some(why)) => {
                    Err(ImageFault { message: format!("{}; {why}", error.explain()), permanent: false, crowded: false })
                }
                Err(failed) => {
                    tracing::warn!(error = %failed, "could not make room for an image; the next attempt tries again");
                    Err(ImageFault::of(&error))
                }
            }
        })
    }
}

/// Writes the digests of removed images as texts.
#[must_use]
pub fn texts(digests: &[Sha256]) -> Vec<String> {
    digests.iter().map(ToString::to_string).collect()
}
