//! The OS image of the Provisioning object in the image store: found and read again, or fetched; removed unless a host
//! uses it.

use std::sync::{Arc, Mutex};

use firesteel_facts::Sha256;
use firesteel_images::import::{AcquisitionStage, ImageMeta, PinnedImageError, PinnedImageRequest, StoreError};
use firesteel_resources::provisioning::OsImageSource;
use firesteel_runtime::{Runtime, lock};
use firesteel_streams::{DepotError, StreamController, Tell};

use super::os_image::CachedOsImage;
use super::{OwnDepot, blocking, make_room};

/// Why the OS image is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsImageFault {
    /// The text for people, with all causes, and what to do.
    pub message: String,
    /// It has another digest, or is no image.
    pub is_permanent: bool,
}

/// Gets the OS image. Clones share it.
#[derive(Clone)]
pub struct OsImages {
    depot: OwnDepot,
    streams: StreamController,
    runtime: Arc<dyn Runtime>,
    cached: CachedOsImage,
}

firesteel_runtime::opaque_debug!(OsImages);

impl OsImages {
    #[must_use]
    pub fn new(depot: OwnDepot, streams: StreamController, runtime: Arc<dyn Runtime>, cached: CachedOsImage) -> Self {
        Self { depot, streams, runtime, cached }
    }

    /// Returns the image as the rest of the process sees it.
    #[must_use]
    pub fn cached(&self) -> &CachedOsImage {
        &self.cached
    }

    #[must_use]
    pub fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    /// Says whether an image is in the store. A store that cannot be read is said to have it: nothing is fetched again
    /// for that.
    pub async fn has(&self, raw_sha256: Sha256) -> bool {
        let store = self.depot.store().clone();
        let found = blocking(move || store.by_raw(&raw_sha256)).await;
        !matches!(found, Ok(Ok(None)))
    }

    /// Returns the stored image, fetching it where it is not there or is damaged.
    ///
    /// # Errors
    /// Why it is not there.
    pub async fn acquire(&self, source: &OsImageSource, tell: Tell) -> Result<ImageMeta, OsImageFault> {
        let request = PinnedImageRequest { url: source.url.clone(), sha256: source.sha256 };
        self.discard_damaged(source.sha256).await;
        let total: Arc<Mutex<Option<u64>>> = Arc::default();
        let heard = Arc::clone(&total);
        let tell: Tell = Arc::new(move |stage| {
            if let AcquisitionStage::Downloading { total_bytes: Some(bytes), .. } = stage {
                *lock(&heard) = Some(bytes);
            }
            tell(stage);
        });
        let acquirer = self.depot.acquirer();
        let error = match acquirer.acquire_pinned(&request, Arc::clone(&tell)).await {
            Ok(stored) => return Ok(stored.meta),
            Err(error) => error,
        };
        if !error.is_full() {
            return Err(fault(&error));
        }
        let coming = lock(&total).unwrap_or(0).saturating_mul(2);
        match self.streams.make_room(coming).await {
            Ok(None) => {
                let stored = acquirer.acquire_pinned(&request, tell).await;
                stored.map(|stored| stored.meta).map_err(|error| fault(&error))
            }
            Ok(Some(why)) => Err(OsImageFault { message: format!("{}; {why}", error.explain()), is_permanent: false }),
            Err(failed) => {
                tracing::warn!(error = %failed, "could not make room for the OS image; the next attempt tries again");
                Err(fault(&error))
            }
        }
    }

    /// Reads the stored image again, if there is one, and removes it where the disk changed it.
    async fn discard_damaged(&self, sha256: Sha256) {
        let store = self.depot.store().clone();
        let checked = blocking(move || -> Result<Option<Sha256>, StoreError> {
            let Some(image) = store.by_source(&sha256.into())? else { return Ok(None) };
            let raw_sha256 = image.meta.raw_sha256;
            if store.is_intact(&raw_sha256)? != Some(false) {
                return Ok(None);
            }
            store.remove(&raw_sha256)?;
            Ok(Some(raw_sha256))
        });
        match checked.await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(raw_sha256))) => {
                tracing::error!(%raw_sha256, "the disk changed the stored OS image; it is fetched again");
            }
            Ok(Err(error)) => {
                let error = anyhow::Error::new(error);
                tracing::warn!(error = format!("{error:#}"), "could not read the stored OS image again");
            }
            Err(error) => tracing::warn!(%error, "could not read the stored OS image again"),
        }
    }

    /// Removes an image that no object names; says whether it went.
    ///
    /// # Errors
    /// When objects or the store cannot be read: then it stays.
    pub async fn remove(&self, raw_sha256: &Sha256) -> Result<bool, DepotError> {
        make_room::remove_one(self.depot.store(), &self.streams, raw_sha256).await
    }
}

fn fault(error: &PinnedImageError) -> OsImageFault {
    OsImageFault { message: error.explain(), is_permanent: error.is_permanent() }
}
