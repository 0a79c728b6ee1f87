//! Boot image streams in the process that serves: the image store, and the controller that follows streams into it.

use std::sync::{Arc, OnceLock};

use firesteel_control::{Control, Images};
use firesteel_facts::Sha256;
use firesteel_images::import::ImageStore;
use firesteel_kube::Core;
use firesteel_streams::{StreamController, StreamControllerConfig};
use tokio::task::JoinSet;

use super::{data_dir::DataDir, settings::Settings};
use crate::image_depot::{CachedOsImage, HostImages, OsImages, OwnDepot, texts};
use crate::outbound::OutboundRuntime;

/// The parts that follow streams: ready, but not started.
#[derive(Debug)]
pub struct FollowedStreams {
    depot: OwnDepot,
    streams: StreamController,
    os_images: OsImages,
    /// The control loop, once there is one: it knows which images are stored.
    control: Arc<OnceLock<Control>>,
}

impl FollowedStreams {
    /// # Errors
    /// When the folders cannot be opened, or the registry lacks a kind.
    pub fn open(data: &DataDir, settings: &Settings, core: &Core, way_out: &OutboundRuntime) -> anyhow::Result<Self> {
        let depot = OwnDepot::open(&data.path(""), way_out.web().clone())?;
        let control: Arc<OnceLock<Control>> = Arc::default();
        let told = Arc::clone(&control);
        let forget = move |gone: &[Sha256]| {
            if let Some(control) = told.get() {
                control.images.images_removed(&texts(gone));
            }
        };
        let config = StreamControllerConfig {
            core: core.clone(),
            runtime: Arc::new(way_out.runtime()),
            depot: Arc::new(depot.clone()),
            quota_bytes: settings.image_quota.map(crate::image_depot::Quota::bytes),
            own_architecture: std::env::consts::ARCH.parse().ok(),
            tells_events: true,
            forget: Box::new(forget),
        };
        let streams = StreamController::new(config)?;
        let runtime = Arc::new(way_out.runtime());
        let os_images = OsImages::new(depot.clone(), streams.clone(), runtime, CachedOsImage::default());
        Ok(Self { depot, streams, os_images, control })
    }

    /// The store of images.
    #[must_use]
    pub fn store(&self) -> ImageStore {
        self.depot.store().clone()
    }

    /// Returns the source of images for hosts.
    #[must_use]
    pub fn for_hosts(&self) -> Arc<dyn Images> {
        Arc::new(HostImages::new(self.depot.clone(), self.streams.clone(), self.os_images.cached().clone()))
    }

    /// Returns what gets the OS image of the Provisioning object.
    #[must_use]
    pub fn os_images(&self) -> &OsImages {
        &self.os_images
    }

    /// Makes the control loop learn of removed images.
    #[must_use]
    pub fn with_control(self, control: &Control) -> Self {
        if self.control.set(control.clone()).is_err() {
            tracing::debug!("the control loop is known already");
        }
        self
    }

    /// Starts to follow the streams.
    pub fn spawn(self, tasks: &mut JoinSet<anyhow::Result<()>>) {
        tasks.spawn(async move { self.streams.run().await.map_err(anyhow::Error::from) });
    }
}
