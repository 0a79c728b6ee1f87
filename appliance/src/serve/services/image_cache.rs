//! The OS image of the Provisioning object as a service: looks for it in the image store, reads it again, fetches it
//! where it is not there, and removes what it replaced ([`OsImageKeeper`] decides when).
//!
//! A download that is stopped stays in the image store, and the next start goes on with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use firesteel_facts::Sha256;
use firesteel_images::import::{AcquisitionStage, ImageMeta};
use firesteel_network::{OsImageKeeper, OsImageOutcome, OsImageState, OsImageStep};
use firesteel_resources::provisioning::OsImageSource;
use tokio::sync::{oneshot, watch};

use super::ServiceTasks;
use crate::image_depot::texts;
use crate::serve::service_parts::ServiceParts;

/// Gives another address to the service.
#[derive(Debug)]
pub(super) struct ImageCacheControl {
    source: watch::Sender<OsImageSource>,
}

impl ImageCacheControl {
    /// Takes in another address.
    ///
    /// # Errors
    /// When the address is malformed, which admission refuses.
    pub(super) fn adjust(&self, url: &str) -> anyhow::Result<()> {
        let source = parse(url)?;
        self.source.send_if_modified(|now| {
            let is_new = *now != source;
            *now = source;
            is_new
        });
        Ok(())
    }
}

fn parse(url: &str) -> anyhow::Result<OsImageSource> {
    OsImageSource::parse(url).map_err(|faults| {
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("spec.provisioningOSDownloadURL {}", texts.join(", and "))
    })
}

/// Starts to keep the image.
///
/// # Errors
/// When the address is malformed.
pub(super) fn start(
    tasks: &mut ServiceTasks,
    parts: &Arc<ServiceParts>,
    url: &str,
) -> anyhow::Result<ImageCacheControl> {
    let source = parse(url)?;
    let (sender, sources) = watch::channel(source.clone());
    let work = ImageCacheWork {
        parts: Arc::clone(parts),
        keeper: OsImageKeeper::new(source),
        sources,
        image: None,
        begun: Instant::now(),
    };
    parts.os_images.cached().publish(work.keeper.source(), OsImageState::Checking, None);
    tasks.spawn(work.run());
    Ok(ImageCacheControl { source: sender })
}

/// Removes the image of a service that was stopped, unless a host uses it.
pub(super) async fn remove(parts: &Arc<ServiceParts>) {
    let image = parts.os_images.cached().take();
    if let Some(image) = image {
        remove_images(parts, &[image.raw_sha256]).await;
    }
}

async fn remove_images(parts: &Arc<ServiceParts>, images: &[Sha256]) {
    for raw_sha256 in images {
        match parts.os_images.remove(raw_sha256).await {
            Ok(true) => tracing::info!(%raw_sha256, "an OS image that is not wanted any more was removed"),
            Ok(false) => tracing::info!(
                %raw_sha256,
                "an OS image that is not wanted any more stays as long as hosts use it, or until room is short"
            ),
            Err(error) => tracing::warn!(
                %raw_sha256, %error,
                "could not remove an OS image that is not wanted any more; it goes when room is short"
            ),
        }
    }
    // A host that names it by the path of the cache gets the other one from now on.
    parts.control().images.images_removed(&texts(images));
}

struct ImageCacheWork {
    parts: Arc<ServiceParts>,
    keeper: OsImageKeeper,
    sources: watch::Receiver<OsImageSource>,
    /// What is stored of it.
    image: Option<ImageMeta>,
    /// Times are counted from here: no change of the clock moves them.
    begun: Instant,
}

impl ImageCacheWork {
    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            let uptime = self.begun.elapsed();
            let state = self.keeper.state(uptime);
            self.parts.os_images.cached().publish(self.keeper.source(), state, self.image.clone());
            match self.keeper.step(uptime) {
                OsImageStep::Acquire => self.acquire().await?,
                OsImageStep::Remove(images) => {
                    remove_images(&self.parts, &images).await;
                    self.keeper.removed();
                }
                OsImageStep::Look(raw_sha256) => {
                    let is_there = self.parts.os_images.has(raw_sha256).await;
                    self.keeper.looked(self.begun.elapsed(), is_there);
                }
                OsImageStep::Wait(until) => {
                    let pause = until.saturating_sub(uptime);
                    tokio::select! {
                        changed = self.sources.changed() => changed.context("its control is gone")?,
                        () = tokio::time::sleep(pause) => {}
                    }
                }
                OsImageStep::WaitForEdit => self.sources.changed().await.context("its control is gone")?,
            }
            let source = self.sources.borrow_and_update().clone();
            self.keeper.set_source(source);
        }
    }

    /// Acquires it, until another address comes.
    async fn acquire(&mut self) -> anyhow::Result<()> {
        self.image = None;
        let cached = self.parts.os_images.cached();
        cached.publish(self.keeper.source(), OsImageState::Checking, None);
        let reached_bytes = Arc::new(AtomicU64::new(0));
        let (heard, reached) = (cached.clone(), Arc::clone(&reached_bytes));
        let tell = Arc::new(move |stage: AcquisitionStage| {
            if let AcquisitionStage::Downloading { done_bytes, .. } = stage {
                reached.fetch_max(done_bytes, Ordering::Relaxed);
            }
            heard.note_stage(stage);
        });
        let (answer, acquired) = oneshot::channel();
        let (images, source) = (self.parts.os_images.clone(), self.keeper.source().clone());
        // The origin decides what it sends. The task ends with its handle.
        let task = self.parts.os_images.runtime().spawn_outward(Box::pin(async move {
            // Without a receiver another address came.
            drop(answer.send(images.acquire(&source, tell).await));
        }));
        let outcome = tokio::select! {
            changed = self.sources.changed() => return changed.context("its control is gone"),
            outcome = acquired => outcome.context("the task that fetches the OS image ended")?,
        };
        drop(task);
        let name = &self.keeper.source().name;
        let outcome = match outcome {
            Ok(image) => {
                tracing::info!(name, raw_sha256 = %image.raw_sha256, "the OS image is there, and has its digest");
                let raw_sha256 = image.raw_sha256;
                self.image = Some(image);
                OsImageOutcome::Stored(raw_sha256)
            }
            Err(fault) if fault.is_permanent => {
                tracing::error!(name, error = fault.message, "the OS image is not served");
                OsImageOutcome::Refused(fault.message)
            }
            Err(fault) => {
                tracing::warn!(name, error = fault.message, "could not get the OS image; it is tried again");
                let reached_bytes = reached_bytes.load(Ordering::Relaxed);
                OsImageOutcome::Failed { why: fault.message, reached_bytes }
            }
        };
        self.keeper.acquired(self.begun.elapsed(), outcome);
        Ok(())
    }
}
