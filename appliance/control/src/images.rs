//! Images on their way into the store. One fetch serves every host that wants the same image.

use std::{collections::HashMap, error::Error, future::Future, pin::Pin, sync::Arc};

use firesteel_facts::shown_url;
use firesteel_images::import::{AcquireError, Acquirer, Format, Request, Stage, WebLogin};
use firesteel_plan::host::{ImageSeen, ReadyImage};
use firesteel_resources::{
    BareMetalHost, Image, Secret,
    bare_metal_host::{ChecksumType, ImageFormat, annotations::IMAGE_LOGIN},
};
use firesteel_runtime::{HostKey, key_of};
use jiff::Timestamp;

use crate::{
    Control,
    acquired_image::AcquiredImage,
    views::{ImageKey, LoginSecret},
};

/// Images of which something is known. Each change of an address leaves one behind that nobody wants any more.
const IMAGES_MAX: usize = 16_384;

/// Why an image is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFault {
    /// For people, with all causes.
    pub message: String,
    /// Only an edit can help.
    pub permanent: bool,
    /// Nothing is wrong with it: too many others are under way, and it is to be asked for again.
    pub crowded: bool,
}

impl ImageFault {
    #[must_use]
    pub fn of(error: &AcquireError) -> Self {
        let crowded = matches!(error, AcquireError::Crowded);
        Self { message: error.explain(), permanent: is_permanent(error), crowded }
    }
}

/// An acquisition under way.
pub type Acquiring<'a> = Pin<Box<dyn Future<Output = Result<AcquiredImage, ImageFault>> + Send + 'a>>;

/// How images get into the store.
pub trait Images: Send + Sync {
    /// Returns the image that is stored for this request, fetching it where it is not.
    fn acquire<'a>(&'a self, request: &'a Request, progress: Arc<dyn Fn(Stage) + Send + Sync>) -> Acquiring<'a>;
}

impl Images for Acquirer {
    fn acquire<'a>(&'a self, request: &'a Request, progress: Arc<dyn Fn(Stage) + Send + Sync>) -> Acquiring<'a> {
        Box::pin(async move {
            match Acquirer::acquire(self, request, progress).await {
                Ok(stored) => Ok(AcquiredImage::of(&stored.meta, request)),
                Err(error) => Err(ImageFault::of(&error)),
            }
        })
    }
}

/// What is known of one wanted image.
#[derive(Clone, Debug)]
pub(crate) enum ImageView {
    /// So many others come before it, since then.
    Waiting {
        ahead: u32,
        moved_at: Timestamp,
    },
    Fetching {
        done_bytes: u64,
        total_bytes: Option<u64>,
        progress_at: Timestamp,
    },
    Ready(ReadyImage),
    Failed {
        message: String,
        permanent: bool,
        at: Timestamp,
    },
}

impl ImageView {
    /// Takes in where the acquisition is. What is new about it is progress.
    fn go_on(&mut self, stage: Stage, now: Timestamp) {
        let next = match stage {
            Stage::Waiting { ahead, .. } => Self::Waiting { ahead, moved_at: now },
            Stage::Downloading { done_bytes, total_bytes } => {
                Self::Fetching { done_bytes, total_bytes, progress_at: now }
            }
            // What is there already is read again: that much of the image has come, though its length is not known yet.
            Stage::Rereading { done_bytes, .. } => Self::Fetching { done_bytes, total_bytes: None, progress_at: now },
            // A disk may be much longer than its file: then it is its bytes that become more.
            Stage::Importing { source_bytes, raw_bytes } => {
                Self::Fetching { done_bytes: source_bytes.max(raw_bytes), total_bytes: None, progress_at: now }
            }
        };
        let is_same = match (&*self, &next) {
            (Self::Waiting { ahead, .. }, Self::Waiting { ahead: new, .. }) => ahead == new,
            (
                Self::Fetching { done_bytes, total_bytes, .. },
                Self::Fetching { done_bytes: new_done, total_bytes: new_total, .. },
            ) => (done_bytes, total_bytes) == (new_done, new_total),
            // One that has ended hears nothing more.
            (Self::Ready(_) | Self::Failed { .. }, _) => true,
            (Self::Waiting { .. } | Self::Fetching { .. }, _) => false,
        };
        if !is_same {
            *self = next;
        }
    }

    /// For counting.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Fetching { .. } => "fetching",
            Self::Ready(_) => "ready",
            Self::Failed { .. } => "failed",
        }
    }
}

fn image_key(host: &BareMetalHost, image: &Image) -> ImageKey {
    let metadata = &host.metadata;
    let name = metadata.annotation(IMAGE_LOGIN).filter(|name| !name.is_empty());
    ImageKey {
        url: image.url.clone(),
        checksum: image.checksum.clone(),
        checksum_type: image.checksum_type.map(checksum_word).unwrap_or_default().to_owned(),
        declared: image.format.and_then(declared),
        login: name.map(|name| LoginSecret { namespace: metadata.namespace.clone(), name: name.to_owned() }),
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
    pub(crate) fn image_seen(&self, host: &BareMetalHost, image: &Image) -> ImageSeen {
        match self.views().images.get(&image_key(host, image)) {
            None => ImageSeen::Unknown,
            Some(ImageView::Waiting { ahead, moved_at }) => ImageSeen::Waiting { ahead: *ahead, moved_at: *moved_at },
            Some(ImageView::Fetching { done_bytes, total_bytes, progress_at }) => {
                ImageSeen::Fetching { done_bytes: *done_bytes, total_bytes: *total_bytes, progress_at: *progress_at }
            }
            Some(ImageView::Ready(ready)) => ImageSeen::Ready(ready.clone()),
            Some(ImageView::Failed { message, permanent, at }) => {
                ImageSeen::Failed { message: message.clone(), permanent: *permanent, at: *at }
            }
        }
    }

    /// Starts to fetch a host's image unless it is there or on its way.
    pub(crate) fn fetch_image(&self, host: &BareMetalHost, image: &Image) {
        let key = image_key(host, image);
        {
            let mut views = self.views();
            let is_there = |view: &ImageView| match view {
                ImageView::Waiting { .. } | ImageView::Fetching { .. } | ImageView::Ready(_) => true,
                ImageView::Failed { .. } => false,
            };
            if views.images.get(&key).is_some_and(is_there) {
                return;
            }
            if views.images.len() >= IMAGES_MAX {
                forget_one(&mut views.images);
            }
            let view = ImageView::Fetching { done_bytes: 0, total_bytes: None, progress_at: self.now() };
            views.images.insert(key.clone(), view);
        }
        let request = Request {
            url: image.url.clone(),
            checksum: image.checksum.clone(),
            checksum_type: key.checksum_type.clone(),
            declared: key.declared,
            login: None,
            owner: host.metadata.namespace.clone(),
        };
        let (control, asker) = (self.clone(), (key_of(host), host.metadata.uid.clone()));
        self.spawn_outward(async move { control.acquire(key, request, asker).await });
    }

    /// Images are gone from the store, by their raw digests: who wants one has it fetched again.
    pub fn images_removed(&self, raw_sha256: &[String]) {
        let is_gone = |view: &ImageView| match view {
            ImageView::Ready(ready) => raw_sha256.contains(&ready.raw_sha256),
            ImageView::Waiting { .. } | ImageView::Fetching { .. } | ImageView::Failed { .. } => false,
        };
        let mut views = self.views();
        views.removed_images.add(raw_sha256);
        views.images.retain(|_, view| !is_gone(view));
    }

    /// `asker`: the host that asked first, and the UID of its object. An event tells it what is odd about the image.
    async fn acquire(&self, key: ImageKey, request: Request, (host, uid): (HostKey, String)) {
        let url = shown_url(&key.url);
        tracing::info!(url, "fetching an image");
        let progress = {
            let (control, key) = (self.clone(), key.clone());
            Arc::new(move |stage: Stage| control.image_progress(&key, stage))
        };
        let began = self.views().removed_images.now();
        let acquired = match self.image_login(key.login.as_ref()).await {
            Ok(login) => self.config().images.acquire(&Request { login, ..request }, progress).await,
            Err(fault) => Err(fault),
        };
        let view = match acquired {
            Ok(AcquiredImage { ready, warnings }) => {
                tracing::info!(url, raw_sha256 = %ready.raw_sha256, "the image is ready");
                for warning in warnings {
                    self.events().tell_of(&host, &uid, "ImageWarning", true, format!("the image {url}: {warning}"));
                }
                ImageView::Ready(ready)
            }
            Err(ImageFault { message, crowded: true, .. }) => {
                tracing::debug!(url, error = %message, "the image is to be asked for again");
                self.views().images.remove(&key);
                return;
            }
            Err(ImageFault { message, permanent, .. }) => {
                tracing::warn!(url, error = %message, "fetching an image failed");
                ImageView::Failed { message, permanent, at: self.now() }
            }
        };
        self.inner.metrics.image_fetched(matches!(view, ImageView::Ready(_)));
        let waiting: Vec<HostKey> = {
            let mut views = self.views();
            if let ImageView::Ready(ready) = &view
                && views.removed_images.has_since(began, &ready.raw_sha256)
            {
                // Who removed it found nothing to forget. It is asked for again.
                views.images.remove(&key);
            } else {
                views.images.insert(key, view);
            }
            views.hosts.keys().cloned().collect()
        };
        waiting.iter().for_each(|host| self.inner.queue.wake(host));
    }

    /// The login for an image, as its Secret has it now. A Secret that is missing may come.
    async fn image_login(&self, secret: Option<&LoginSecret>) -> Result<Option<WebLogin>, ImageFault> {
        let Some(LoginSecret { namespace, name }) = secret else { return Ok(None) };
        let fault = |message: String| ImageFault { message, permanent: false, crowded: false };
        let read = self.inner.secrets.get(namespace, name).await;
        let found = read.map_err(|status| fault(format!("could not read the Secret {name}: {}", status.message)))?;
        match found.as_ref().and_then(Secret::credentials) {
            Some((username, password)) => Ok(Some(WebLogin { username, password })),
            None => Err(fault(format!(
                "the Secret {name}, which the annotation {IMAGE_LOGIN} names, has no username and password or does not \
                 exist: create it in the host's namespace, or remove the annotation"
            ))),
        }
    }

    fn image_progress(&self, key: &ImageKey, stage: Stage) {
        let now = self.now();
        if let Some(view) = self.views().images.get_mut(key) {
            view.go_on(stage, now);
        }
    }
}

/// Formats are recognised by content; a declared one is compared with what is found, and says that it is a disk whatever
/// its bytes look like.
fn declared(format: ImageFormat) -> Option<Format> {
    match format {
        ImageFormat::Raw => Some(Format::Raw),
        ImageFormat::Qcow2 => Some(Format::Qcow2),
        ImageFormat::Vdi | ImageFormat::Vmdk | ImageFormat::LiveIso => None,
    }
}

/// Whether only an edit can help: the bytes are not what the owner said, or no image at all.
fn is_permanent(error: &AcquireError) -> bool {
    match error {
        AcquireError::Scheme { .. }
        | AcquireError::Checksum(_)
        | AcquireError::ChecksumFile { .. }
        | AcquireError::Local(_) => true,
        AcquireError::Import { source, .. } => source.is_permanent(),
        AcquireError::Http(_)
        | AcquireError::Store(_)
        | AcquireError::Spool { .. }
        | AcquireError::Ended { .. }
        | AcquireError::Crowded => false,
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

/// Forgets an image that is not under way. Who wants it asks for it again, and what is stored is found at once.
fn forget_one(images: &mut HashMap<ImageKey, ImageView>) {
    let is_over = |view: &ImageView| match view {
        ImageView::Ready(_) | ImageView::Failed { .. } => true,
        ImageView::Waiting { .. } | ImageView::Fetching { .. } => false,
    };
    let over = images.iter().find(|(_, view)| is_over(view)).map(|(key, _)| key.clone());
    if let Some(key) = over {
        images.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    /// They grew with each edit of a host.
    #[test]
    fn an_image_that_is_over_is_forgotten_and_none_that_is_under_way() {
        let key = |url: &str| ImageKey {
            url: url.to_owned(),
            checksum: String::new(),
            checksum_type: String::new(),
            declared: None,
            login: None,
        };
        let at = Timestamp::UNIX_EPOCH;
        let mut images = HashMap::from([
            (key("a"), ImageView::Waiting { ahead: 1, moved_at: at }),
            (key("b"), ImageView::Fetching { done_bytes: 0, total_bytes: None, progress_at: at }),
            (key("c"), ImageView::Failed { message: String::new(), permanent: true, at }),
        ]);
        forget_one(&mut images);
        assert!(images.len() == 2 && !images.contains_key(&key("c")));
        forget_one(&mut images);
        assert_eq!(images.len(), 2, "they would be fetched twice");
    }

    /// A queue that moves, and a disk that is hashed long after its file was read, counted as standing still.
    #[test]
    fn waiting_and_importing_are_progress() {
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let mut view = ImageView::Fetching { done_bytes: 0, total_bytes: None, progress_at: at(0) };
        let mut progress = |stage, seconds| {
            view.go_on(stage, at(seconds));
            match &view {
                ImageView::Waiting { ahead, moved_at } => (u64::from(*ahead), *moved_at),
                ImageView::Fetching { done_bytes, progress_at, .. } => (*done_bytes, *progress_at),
                ImageView::Ready(_) | ImageView::Failed { .. } => (0, at(0)),
            }
        };
        assert_eq!(progress(Stage::Waiting { ahead: 3, done_bytes: 0 }, 1), (3, at(1)));
        assert_eq!(progress(Stage::Waiting { ahead: 3, done_bytes: 0 }, 2), (3, at(1)), "nothing moved");
        assert_eq!(progress(Stage::Waiting { ahead: 2, done_bytes: 0 }, 3), (2, at(3)));
        assert_eq!(progress(Stage::Downloading { done_bytes: 9, total_bytes: Some(9) }, 4), (9, at(4)));
        assert_eq!(progress(Stage::Waiting { ahead: 2, done_bytes: 9 }, 5), (2, at(5)));
        assert_eq!(progress(Stage::Importing { source_bytes: 9, raw_bytes: 0 }, 6), (9, at(6)));
        assert_eq!(progress(Stage::Importing { source_bytes: 9, raw_bytes: 4096 }, 7), (4096, at(7)));
        assert_eq!(progress(Stage::Importing { source_bytes: 9, raw_bytes: 4096 }, 8), (4096, at(7)));
        let mut ready = ImageView::Ready(ReadyImage::default());
        ready.go_on(Stage::Waiting { ahead: 1, done_bytes: 0 }, at(9));
        assert!(matches!(ready, ImageView::Ready(_)), "it has ended");
    }
}
