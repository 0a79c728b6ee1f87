//! Images on their way into the store. One fetch serves every host that wants the same image.

use std::{error::Error, future::Future, pin::Pin, sync::Arc};

use firesteel_images::import::{AcquireError, Acquirer, Format, ImageMeta, ImportError, Request, Stage};
use firesteel_plan::host::{ImageSeen, ReadyImage};
use firesteel_resources::{
    Image,
    bare_metal_host::{ChecksumType, ImageFormat},
};
use jiff::Timestamp;

use crate::{Control, HostKey, views::ImageKey};

/// Why an image is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFault {
    /// For people, with all causes.
    pub message: String,
    /// Only an edit can help.
    pub permanent: bool,
}

impl ImageFault {
    #[must_use]
    pub fn of(error: &AcquireError) -> Self {
        Self { message: error.explain(), permanent: is_permanent(error) }
    }
}

/// An acquisition under way.
pub type Acquiring<'a> = Pin<Box<dyn Future<Output = Result<ReadyImage, ImageFault>> + Send + 'a>>;

/// How images get into the store.
pub trait Images: Send + Sync {
    /// Returns the image that is stored for this request, fetching it where it is not.
    fn acquire<'a>(&'a self, request: &'a Request, progress: Arc<dyn Fn(Stage) + Send + Sync>) -> Acquiring<'a>;
}

impl Images for Acquirer {
    fn acquire<'a>(&'a self, request: &'a Request, progress: Arc<dyn Fn(Stage) + Send + Sync>) -> Acquiring<'a> {
        Box::pin(async move {
            match Acquirer::acquire(self, request, progress).await {
                Ok(stored) => Ok(ready(&stored.meta)),
                Err(error) => Err(ImageFault::of(&error)),
            }
        })
    }
}

/// What is known of one wanted image.
#[derive(Clone, Debug)]
pub(crate) enum ImageView {
    Fetching { done_bytes: u64, total_bytes: Option<u64>, progress_at: Timestamp },
    Ready(ReadyImage),
    Failed { message: String, permanent: bool, at: Timestamp },
}

impl ImageView {
    /// For counting.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Fetching { .. } => "fetching",
            Self::Ready(_) => "ready",
            Self::Failed { .. } => "failed",
        }
    }
}

pub(crate) fn key_of(image: &Image) -> ImageKey {
    ImageKey {
        url: image.url.clone(),
        checksum: image.checksum.clone(),
        checksum_type: image.checksum_type.map(checksum_word).unwrap_or_default().to_owned(),
    }
}

fn checksum_word(kind: ChecksumType) -> &'static str {
    match kind {
        ChecksumType::Md5 => "md5",
        ChecksumType::Sha256 => "sha256",
        ChecksumType::Sha512 => "sha512",
        ChecksumType::Auto => "auto",
    }
}

impl Control {
    pub(crate) fn image_seen(&self, image: &Image) -> ImageSeen {
        match self.views().images.get(&key_of(image)) {
            None => ImageSeen::Unknown,
            Some(ImageView::Fetching { done_bytes, total_bytes, progress_at }) => {
                ImageSeen::Fetching { done_bytes: *done_bytes, total_bytes: *total_bytes, progress_at: *progress_at }
            }
            Some(ImageView::Ready(ready)) => ImageSeen::Ready(ready.clone()),
            Some(ImageView::Failed { message, permanent, at }) => {
                ImageSeen::Failed { message: message.clone(), permanent: *permanent, at: *at }
            }
        }
    }

    /// Starts to fetch an image unless it is there or on its way.
    pub(crate) fn fetch_image(&self, image: &Image) {
        let key = key_of(image);
        {
            let mut views = self.views();
            if matches!(views.images.get(&key), Some(ImageView::Fetching { .. } | ImageView::Ready(_))) {
                return;
            }
            let view = ImageView::Fetching { done_bytes: 0, total_bytes: None, progress_at: self.now() };
            views.images.insert(key.clone(), view);
        }
        let request = Request {
            url: image.url.clone(),
            checksum: image.checksum.clone(),
            checksum_type: key.checksum_type.clone(),
            declared: image.format.and_then(declared),
        };
        let control = self.clone();
        self.spawn(async move { control.acquire(key, request).await });
    }

    /// Images are gone from the store, by their raw digests: who wants one has it fetched again.
    pub fn images_removed(&self, raw_sha256: &[String]) {
        let is_gone = |view: &ImageView| match view {
            ImageView::Ready(ready) => raw_sha256.contains(&ready.raw_sha256),
            ImageView::Fetching { .. } | ImageView::Failed { .. } => false,
        };
        self.views().images.retain(|_, view| !is_gone(view));
    }

    async fn acquire(&self, key: ImageKey, request: Request) {
        tracing::info!(url = %key.url, "fetching an image");
        let progress = {
            let (control, key) = (self.clone(), key.clone());
            Arc::new(move |stage: Stage| control.image_progress(&key, stage))
        };
        let view = match self.config().images.acquire(&request, progress).await {
            Ok(ready) => {
                tracing::info!(url = %key.url, raw_sha256 = %ready.raw_sha256, "the image is ready");
                ImageView::Ready(ready)
            }
            Err(ImageFault { message, permanent }) => {
                tracing::warn!(url = %key.url, error = %message, "fetching an image failed");
                ImageView::Failed { message, permanent, at: self.now() }
            }
        };
        self.inner.metrics.image_fetched(matches!(view, ImageView::Ready(_)));
        let waiting: Vec<HostKey> = {
            let mut views = self.views();
            views.images.insert(key, view);
            views.hosts.keys().cloned().collect()
        };
        waiting.iter().for_each(|host| self.inner.queue.wake(host));
    }

    fn image_progress(&self, key: &ImageKey, stage: Stage) {
        let (done, total) = match stage {
            Stage::Downloading { done_bytes, total_bytes } => (done_bytes, total_bytes),
            // What is there already is read again: that much of the image has come, though its length is not known yet.
            Stage::Rereading { done_bytes, .. } => (done_bytes, None),
            Stage::Importing { source_bytes, .. } => (source_bytes, None),
        };
        if let Some(ImageView::Fetching { done_bytes, total_bytes, progress_at }) = self.views().images.get_mut(key)
            && (*done_bytes, *total_bytes) != (done, total)
        {
            (*done_bytes, *total_bytes, *progress_at) = (done, total, self.now());
        }
    }
}

/// Formats are recognised by content; a declared one is only compared with what is found.
fn declared(format: ImageFormat) -> Option<Format> {
    match format {
        ImageFormat::Raw => Some(Format::Raw),
        ImageFormat::Qcow2 => Some(Format::Qcow2),
        ImageFormat::Vdi | ImageFormat::Vmdk | ImageFormat::LiveIso => None,
    }
}

/// What a host's plan names of a stored image.
#[must_use]
pub fn ready(meta: &ImageMeta) -> ReadyImage {
    ReadyImage {
        raw_sha256: meta.raw_sha256.to_string(),
        raw_bytes: meta.raw_bytes,
        stream_sha256: meta.stream_sha256.to_string(),
        stream_bytes: meta.stream_bytes,
    }
}

/// Whether only an edit can help: the bytes are not what the owner said, or no image at all.
fn is_permanent(error: &AcquireError) -> bool {
    match error {
        AcquireError::Scheme { .. }
        | AcquireError::Checksum(_)
        | AcquireError::ChecksumFile { .. }
        | AcquireError::Local(_) => true,
        // A full disk may have room again.
        AcquireError::Import { source, .. } => !matches!(**source, ImportError::Store(_)),
        AcquireError::Http(_) | AcquireError::Store(_) | AcquireError::Spool { .. } | AcquireError::Ended { .. } => {
            false
        }
    }
}

/// An error with all its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
