//! Images are fetched for hosts. One fetch serves every host that wants the same image.

use std::sync::Arc;

use firesteel_facts::shown_url;
use firesteel_images::import::{AcquisitionStage, ImageRequest, WebLogin};
use firesteel_kube::Objects;
use firesteel_plan::host::ImageInputs;
use firesteel_resources::{BareMetalHost, Image, Secret, bare_metal_host::annotations::IMAGE_LOGIN};
use firesteel_runtime::{HostKey, key_of};

use crate::images::{AcquiredImage, IMAGES_MAX, ImageFault, Images, forget_one, go_on, image_key, is_under_way};
use crate::shared::Shared;
use crate::views::{ImageKey, LoginSecret};

/// The host that asked first for an image. An event tells it what is odd about the image.
struct ImageAsker {
    host: HostKey,
    uid: String,
}

/// Fetches the images that hosts want.
#[derive(Clone)]
pub struct ImageFetches {
    pub(crate) shared: Arc<Shared>,
    pub(crate) images: Arc<dyn Images>,
    pub(crate) secrets: Objects<Secret>,
}

impl ImageFetches {
    pub(crate) fn image_seen(&self, host: &BareMetalHost, image: &Image) -> ImageInputs {
        self.shared.views().images.get(&image_key(host, image)).cloned().unwrap_or(ImageInputs::Unknown)
    }

    /// Starts to fetch a host's image unless it is there or on its way.
    pub(crate) fn fetch_image(&self, host: &BareMetalHost, image: &Image) {
        let key = image_key(host, image);
        {
            let mut views = self.shared.views();
            let is_there = |view: &ImageInputs| is_under_way(view) || matches!(view, ImageInputs::Ready(_));
            if views.images.get(&key).is_some_and(is_there) {
                return;
            }
            if views.images.len() >= IMAGES_MAX {
                forget_one(&mut views.images);
            }
            let view = ImageInputs::Fetching { done_bytes: 0, total_bytes: None, progress_at: self.shared.now() };
            views.images.insert(key.clone(), view);
        }
        let request = ImageRequest {
            url: image.url.clone(),
            checksum: image.checksum.clone(),
            checksum_type: key.checksum_type.clone(),
            declared: key.declared,
            login: None,
            owner: host.metadata.namespace.clone(),
        };
        let fetches = self.clone();
        let asker = ImageAsker { host: key_of(host), uid: host.metadata.uid.clone() };
        self.shared.tasks.spawn_outward(async move { fetches.acquire(key, request, asker).await });
    }

    /// Images are gone from the store, by their raw digests: who wants one has it fetched again.
    pub fn images_removed(&self, raw_sha256: &[String]) {
        let is_gone =
            |view: &ImageInputs| matches!(view, ImageInputs::Ready(ready) if raw_sha256.contains(&ready.raw_sha256));
        let mut views = self.shared.views();
        views.removed_images.add(raw_sha256);
        views.images.retain(|_, view| !is_gone(view));
    }

    async fn acquire(&self, key: ImageKey, request: ImageRequest, asker: ImageAsker) {
        let url = shown_url(&key.url);
        tracing::info!(url, "the fetch of an image begins");
        let progress = {
            let (fetches, key) = (self.clone(), key.clone());
            Arc::new(move |stage: AcquisitionStage| fetches.image_progress(&key, stage))
        };
        let began = self.shared.views().removed_images.now();
        let acquired = match self.image_login(key.login.as_ref()).await {
            Ok(login) => self.images.acquire(&ImageRequest { login, ..request }, progress).await,
            Err(fault) => Err(fault),
        };
        let view = match acquired {
            Ok(AcquiredImage { ready, warnings }) => {
                tracing::info!(url, raw_sha256 = %ready.raw_sha256, "the image is ready");
                for warning in warnings {
                    let text = format!("the image {url}: {warning}");
                    self.shared.events.record_event(&asker.host, &asker.uid, "ImageWarning", true, text);
                }
                ImageInputs::Ready(ready)
            }
            Err(ImageFault { message, crowded: true, .. }) => {
                tracing::debug!(url, error = %message, "the image is to be asked for again");
                self.shared.views().images.remove(&key);
                return;
            }
            Err(ImageFault { message, permanent, .. }) => {
                tracing::warn!(url, error = %message, "could not fetch an image; the hosts that want it say when it is tried again");
                ImageInputs::Failed { message, permanent, at: self.shared.now() }
            }
        };
        self.shared.metrics.image_fetched(matches!(view, ImageInputs::Ready(_)));
        let waiting: Vec<HostKey> = {
            let mut views = self.shared.views();
            if let ImageInputs::Ready(ready) = &view
                && views.removed_images.has_since(began, &ready.raw_sha256)
            {
                // Who removed it found nothing to forget. It is asked for again.
                views.images.remove(&key);
            } else {
                views.images.insert(key, view);
            }
            views.hosts.keys().cloned().collect()
        };
        waiting.iter().for_each(|host| self.shared.queue.wake(host));
    }

    /// The login for an image, as its Secret has it now. A Secret that is missing may come.
    async fn image_login(&self, secret: Option<&LoginSecret>) -> Result<Option<WebLogin>, ImageFault> {
        let Some(LoginSecret { namespace, name }) = secret else { return Ok(None) };
        let fault = |message: String| ImageFault { message, permanent: false, crowded: false };
        let read = self.secrets.get(namespace, name).await;
        let found = read.map_err(|status| fault(format!("could not read the Secret {name}: {}", status.message)))?;
        match found.as_ref().and_then(Secret::credentials) {
            Some((username, password)) => Ok(Some(WebLogin { username, password })),
            None => Err(fault(format!(
                "the Secret {name}, which the annotation {IMAGE_LOGIN} names, has no username and password or does not \
                 exist: create it in the host's namespace, or remove the annotation"
            ))),
        }
    }

    fn image_progress(&self, key: &ImageKey, stage: AcquisitionStage) {
        let now = self.shared.now();
        if let Some(view) = self.shared.views().images.get_mut(key) {
            go_on(view, stage, now);
        }
    }
}
