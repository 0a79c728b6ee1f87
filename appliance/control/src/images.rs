//! Images on their way into the store. One fetch serves every host that wants the same image.

use std::{collections::HashMap, error::Error, future::Future, pin::Pin, sync::Arc};

use firesteel_images::import::{AcquireError, Acquirer, AcquisitionStage, ImageMeta, ImageRequest, ImportFormat};
use firesteel_plan::host::{ImageInputs, ReadyImage};
use firesteel_resources::bare_metal_host::{ChecksumType, ImageFormat, annotations::IMAGE_LOGIN};
use firesteel_resources::{BareMetalHost, Image};
use jiff::Timestamp;

use crate::views::{ImageKey, LoginSecret};

/// Images of which something is known. Each change of an address leaves one behind that no host wants any more.
pub(crate) const IMAGES_MAX: usize = 16_384;

/// Why an image is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFault {
    /// The text for people, with all causes.
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

/// What the store of images gives for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcquiredImage {
    /// What a host's plan names of it.
    pub ready: ReadyImage,
    /// What was odd about it, a sentence for each.
    pub warnings: Vec<String>,
}

impl AcquiredImage {
    #[must_use]
    pub fn of(meta: &ImageMeta, request: &ImageRequest) -> Self {
        let source = meta.source_of(&request.url, &request.checksum);
        let ready = ReadyImage {
            raw_sha256: meta.raw_sha256.to_string(),
            raw_bytes: meta.raw_bytes,
            stream_sha256: meta.stream_sha256.to_string(),
            stream_bytes: meta.stream_bytes,
        };
        Self { ready, warnings: source.map(|source| source.notes).unwrap_or_default().sentences() }
    }
}

impl From<ReadyImage> for AcquiredImage {
    fn from(ready: ReadyImage) -> Self {
        Self { ready, warnings: Vec::new() }
    }
}

/// An acquisition under way.
pub type Acquiring<'a> = Pin<Box<dyn Future<Output = Result<AcquiredImage, ImageFault>> + Send + 'a>>;

/// How images get into the store.
pub trait Images: Send + Sync {
    /// Returns the image that is stored for this request, fetching it where it is not.
    fn acquire<'a>(
        &'a self,
        request: &'a ImageRequest,
        progress: Arc<dyn Fn(AcquisitionStage) + Send + Sync>,
    ) -> Acquiring<'a>;
}

impl Images for Acquirer {
    fn acquire<'a>(
        &'a self,
        request: &'a ImageRequest,
        progress: Arc<dyn Fn(AcquisitionStage) + Send + Sync>,
    ) -> Acquiring<'a> {
        Box::pin(async move {
            match Acquirer::acquire(self, request, progress).await {
                Ok(stored) => Ok(AcquiredImage::of(&stored.meta, request)),
                Err(error) => Err(ImageFault::of(&error)),
            }
        })
    }
}

/// Takes in where the acquisition of an image is. What is new about it is progress.
pub(crate) fn go_on(view: &mut ImageInputs, stage: AcquisitionStage, now: Timestamp) {
    let fetching = |done_bytes, total_bytes| ImageInputs::Fetching { done_bytes, total_bytes, progress_at: now };
    let next = match stage {
        AcquisitionStage::Waiting { ahead, .. } => ImageInputs::Waiting { ahead, moved_at: now },
        AcquisitionStage::Downloading { done_bytes, total_bytes } => fetching(done_bytes, total_bytes),
        // What is there already is read again: that much of the image has come, though its length is not known yet.
        AcquisitionStage::Rereading { done_bytes, .. } => fetching(done_bytes, None),
        // A disk may be much longer than its file: then it is its bytes that become more.
        AcquisitionStage::Importing { source_bytes, raw_bytes } => fetching(source_bytes.max(raw_bytes), None),
    };
    let is_same = match (&*view, &next) {
        (ImageInputs::Waiting { ahead, .. }, ImageInputs::Waiting { ahead: new, .. }) => ahead == new,
        (
            ImageInputs::Fetching { done_bytes, total_bytes, .. },
            ImageInputs::Fetching { done_bytes: new_done, total_bytes: new_total, .. },
        ) => (done_bytes, total_bytes) == (new_done, new_total),
        // One that has ended hears nothing more.
        _ => !is_under_way(view),
    };
    if !is_same {
        *view = next;
    }
}

/// Says whether an image is waited for or fetched.
pub(crate) fn is_under_way(view: &ImageInputs) -> bool {
    matches!(view, ImageInputs::Waiting { .. } | ImageInputs::Fetching { .. })
}

/// Returns the word under which an image is counted.
pub(crate) fn word(view: &ImageInputs) -> &'static str {
    match view {
        ImageInputs::Unknown => "unknown",
        ImageInputs::Waiting { .. } => "waiting",
        ImageInputs::Fetching { .. } => "fetching",
        ImageInputs::Ready(_) => "ready",
        ImageInputs::Failed { .. } => "failed",
    }
}

pub(crate) fn image_key(host: &BareMetalHost, image: &Image) -> ImageKey {
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

/// Formats are recognised by content; a declared one is compared with what is found, and says that it is a disk
/// whatever its bytes look like.
fn declared(format: ImageFormat) -> Option<ImportFormat> {
    match format {
        ImageFormat::Raw => Some(ImportFormat::Raw),
        ImageFormat::Qcow2 => Some(ImportFormat::Qcow2),
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
pub(crate) fn forget_one(images: &mut HashMap<ImageKey, ImageInputs>) {
    let over = images.iter().find(|(_, view)| !is_under_way(view)).map(|(key, _)| key.clone());
    over.and_then(|key| images.remove(&key));
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
            (key("a"), ImageInputs::Waiting { ahead: 1, moved_at: at }),
            (key("b"), ImageInputs::Fetching { done_bytes: 0, total_bytes: None, progress_at: at }),
            (key("c"), ImageInputs::Failed { message: String::new(), permanent: true, at }),
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
        let mut view = ImageInputs::Fetching { done_bytes: 0, total_bytes: None, progress_at: at(0) };
        let mut progress = |stage, seconds| {
            go_on(&mut view, stage, at(seconds));
            match &view {
                ImageInputs::Waiting { ahead, moved_at } => (u64::from(*ahead), *moved_at),
                ImageInputs::Fetching { done_bytes, progress_at, .. } => (*done_bytes, *progress_at),
                ImageInputs::Unknown | ImageInputs::Ready(_) | ImageInputs::Failed { .. } => (0, at(0)),
            }
        };
        assert_eq!(progress(AcquisitionStage::Waiting { ahead: 3, done_bytes: 0 }, 1), (3, at(1)));
        assert_eq!(progress(AcquisitionStage::Waiting { ahead: 3, done_bytes: 0 }, 2), (3, at(1)), "nothing moved");
        assert_eq!(progress(AcquisitionStage::Waiting { ahead: 2, done_bytes: 0 }, 3), (2, at(3)));
        assert_eq!(progress(AcquisitionStage::Downloading { done_bytes: 9, total_bytes: Some(9) }, 4), (9, at(4)));
        assert_eq!(progress(AcquisitionStage::Waiting { ahead: 2, done_bytes: 9 }, 5), (2, at(5)));
        assert_eq!(progress(AcquisitionStage::Importing { source_bytes: 9, raw_bytes: 0 }, 6), (9, at(6)));
        assert_eq!(progress(AcquisitionStage::Importing { source_bytes: 9, raw_bytes: 4096 }, 7), (4096, at(7)));
        assert_eq!(progress(AcquisitionStage::Importing { source_bytes: 9, raw_bytes: 4096 }, 8), (4096, at(7)));
        let mut ready = ImageInputs::Ready(ReadyImage::default());
        go_on(&mut ready, AcquisitionStage::Waiting { ahead: 1, done_bytes: 0 }, at(9));
        assert!(matches!(ready, ImageInputs::Ready(_)), "it has ended");
    }
}
