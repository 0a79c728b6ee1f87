//! Boot image streams in the process that serves: the store of images, and who follows the streams into it.

use std::sync::{Arc, OnceLock};

use firesteel_control::{Control, Images};
use firesteel_facts::Sha256;
use firesteel_images::import::ImageStore;
use firesteel_kube::Core;
use firesteel_streams::{StreamController, StreamControllerConfig};
use tokio::task::JoinSet;

use super::{data_dir::DataDir, settings::Settings};
use crate::{
    image_depot::{HostImages, OwnDepot, texts},
    outbound::OutboundRuntime,
};

/// Ready; nothing is asked yet.
#[derive(Debug)]
pub struct FollowedStreams {
    depot: OwnDepot,
    streams: StreamController,
    /// Who knows which images are there, once there is one.
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
                control.images_removed(&texts(gone));
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
        let streams = StreamController::new(config).map_err(|status| anyhow::anyhow!(status.message))?;
        Ok(Self { depot, streams, control })
    }

    /// What is stored.
    #[must_use]
    pub fn store(&self) -> ImageStore {
        self.depot.store().clone()
    }

    /// How hosts get their images.
    #[must_use]
    pub fn for_hosts(&self) -> Arc<dyn Images> {
        Arc::new(HostImages::new(self.depot.clone(), self.streams.clone()))
    }

    /// Tells the control loop of images that are gone.
    #[must_use]
    pub fn with_control(self, control: &Control) -> Self {
        if self.control.set(control.clone()).is_err() {
            tracing::debug!("the control loop is told already");
        }
        self
    }

    /// Starts to follow.
    pub fn spawn(self, tasks: &mut JoinSet<anyhow::Result<()>>) {
        tasks.spawn(async move { self.streams.run().await.map_err(anyhow::Error::from) });
    }
}
