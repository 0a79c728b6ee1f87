//! The store of images and the way out, as streams need them ([`Depot`]), and as hosts need them ([`Images`]): the same
//! folder, the same downloads, one quota.
//!
//! ```text
//! DATA/images/             what is stored, and downloads on their way (firesteel_images)
//! DATA/streams/NAME        metadata that an operator or a bundle puts there, for spec.source.file
//! DATA/streams/followed/   what was read last of each stream, for bundles
//! ```

mod folder;
mod quota;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use firesteel_control::{
    Acquiring, ImageFault, Images, ready,
    streams::{Depot, Doing, Fault, Found, ImageName, InUse, Made, Place, Streams, Tell},
};
use firesteel_images::{
    Sha256,
    catalogue::DOCUMENT_BYTES_MAX,
    collect::Item,
    import::{
        Acquired, Acquirer, ArtifactError, ImageMeta, ImageStore, Request, Stage, Stored, Wanted, WebClient,
        without_secrets,
    },
};

pub use folder::StreamFolder;
pub use quota::Quota;

/// The appliance's own.
#[derive(Clone, Debug)]
pub struct OwnDepot {
    acquirer: Acquirer,
    folder: StreamFolder,
}

impl OwnDepot {
    /// `data`: the data folder. `web` fetches what is not there.
    ///
    /// # Errors
    /// When its folders cannot be opened.
    pub fn open(data: &Path, web: WebClient) -> anyhow::Result<Self> {
        let images = ImageStore::open(&data.join("images")).context("opening the image store")?;
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

/// The path at which hosts get what is stored.
#[must_use]
pub fn served(stored: &Stored) -> String {
    match stored {
        Stored::Image(image) => format!("/images/{}.raw.zst", image.meta.stream_sha256),
        Stored::File(file) => format!("/images/{}", file.meta.sha256),
    }
}

fn found(acquired: Acquired, wanted: &Wanted) -> Found {
    let served = served(&acquired.stored);
    let (raw_sha256, is_proven, bytes) = match &acquired.stored {
        Stored::Image(image) => {
            let source = image.meta.sources.iter().find(|source| source.sha256 == wanted.sha256);
            let raw = image.meta.raw_sha256;
            (Some(raw), wanted.uncompressed_sha256 == Some(raw), source.map_or(0, |source| source.bytes))
        }
        Stored::File(file) => (None, true, file.meta.bytes),
    };
    Found { raw_sha256, bytes, served, signature: acquired.signature, is_seen_here: acquired.is_seen_here, is_proven }
}

fn fault(error: &ArtifactError) -> Fault {
    Fault {
        message: error.explain(),
        is_permanent: error.is_permanent(),
        is_full: error.is_full(),
        is_signature: matches!(error, ArtifactError::Signature { .. }),
        is_busy: error.is_busy(),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| format!("the work ended badly: {error}"))
}

impl Depot for OwnDepot {
    fn document<'a>(&'a self, place: &'a Place) -> Doing<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            match place {
                Place::Url(url) => {
                    let got = self.acquirer.document(url, DOCUMENT_BYTES_MAX).await;
                    got.map_err(|error| {
                        let help = error.help();
                        format!("{:#}; {help}", anyhow::Error::new(error).context("getting the metadata"))
                    })
                }
                Place::File(name) => {
                    let (folder, name) = (self.folder.clone(), name.clone());
                    blocking(move || folder.read(&name)).await?.map_err(|error| format!("{error:#}"))
                }
            }
        })
    }

    fn keep<'a>(&'a self, stream: &'a str, document: Vec<u8>) -> Doing<'a, Result<(), String>> {
        let (folder, stream) = (self.folder.clone(), stream.to_owned());
        Box::pin(async move {
            blocking(move || folder.keep(&stream, &document)).await?.map_err(|error| format!("{error:#}"))
        })
    }

    fn look<'a>(&'a self, wanted: &'a Wanted) -> Doing<'a, Result<Option<Found>, Fault>> {
        Box::pin(async move {
            let (acquirer, asked) = (self.acquirer.clone(), wanted.clone());
            let looked = blocking(move || acquirer.stored_artifact(&asked).map_err(ArtifactError::from)).await;
            let looked = looked.map_err(|message| Fault { message, ..Fault::default() })?;
            Ok(looked.map_err(|error| fault(&error))?.map(|acquired| found(acquired, wanted)))
        })
    }

    fn fetch<'a>(&'a self, wanted: &'a Wanted, tell: Tell) -> Doing<'a, Result<Found, Fault>> {
        Box::pin(async move {
            let acquired = self.acquirer.acquire_artifact(wanted, tell).await.map_err(|error| fault(&error))?;
            Ok(found(acquired, wanted))
        })
    }

    fn make_room<'a>(
        &'a self,
        in_use: &'a InUse,
        quota_bytes: Option<u64>,
        coming_bytes: u64,
    ) -> Doing<'a, Result<Made, String>> {
        let (store, in_use) = (self.store().clone(), in_use.clone());
        Box::pin(async move { blocking(move || make_room(&store, in_use, quota_bytes, coming_bytes)).await? })
    }
}

fn make_room(store: &ImageStore, in_use: InUse, quota: Option<u64>, coming: u64) -> Result<Made, String> {
    let failed = |error| format!("{:#}", anyhow::Error::new(error).context("looking at the image store"));
    let images = store.list().map_err(failed)?;
    let named = images.iter().filter(|image| in_use.images.iter().any(|name| is_named(&image.meta, name)));
    let mut digests = in_use.digests;
    digests.extend(named.map(|image| image.meta.raw_sha256));
    let collected = store.collect_for(&digests, quota, coming).map_err(failed)?;
    let gone = collected.removed.iter().filter_map(|removal| match removal.item {
        Item::Image(raw) => Some(raw),
        Item::File(_) | Item::Partial(_) => None,
    });
    Ok(Made {
        images: gone.collect(),
        bytes: collected.removed.iter().map(|removal| removal.bytes).sum(),
        shortfall: collected.shortfall.map(|shortfall| shortfall.reason),
    })
}

/// Whether an object means this image: by a digest of any kind, or, where it gives none, by where it comes from.
#[must_use]
pub fn is_named(image: &ImageMeta, name: &ImageName) -> bool {
    let checksum = name.checksum.trim();
    if checksum.is_empty() || checksum.contains("://") {
        let url = without_secrets(&name.url);
        return image.sources.iter().any(|source| source.url == url);
    }
    let is_digest = |text: &str| text.eq_ignore_ascii_case(checksum);
    let of_source = image.sources.iter().any(|source| {
        let given = source.checksum.split_once(':').map_or("", |(_, digits)| digits);
        is_digest(given) || is_digest(&source.sha256.to_string())
    });
    of_source || is_digest(&image.raw_sha256.to_string())
}

/// Images for hosts, by the same store: where it is full, room is made once.
pub struct HostImages {
    depot: OwnDepot,
    streams: Streams,
}

impl std::fmt::Debug for HostImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostImages").field("depot", &self.depot).finish_non_exhaustive()
    }
}

impl HostImages {
    #[must_use]
    pub fn new(depot: OwnDepot, streams: Streams) -> Self {
        Self { depot, streams }
    }
}

impl Images for HostImages {
    fn acquire<'a>(&'a self, request: &'a Request, progress: Arc<dyn Fn(Stage) + Send + Sync>) -> Acquiring<'a> {
        Box::pin(async move {
            let total: Arc<Mutex<Option<u64>>> = Arc::default();
            let heard = Arc::clone(&total);
            let tell: Arc<dyn Fn(Stage) + Send + Sync> = Arc::new(move |stage| {
                if let Stage::Downloading { total_bytes: Some(bytes), .. } = stage {
                    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
                }
                progress(stage);
            });
            let acquirer = &self.depot.acquirer;
            let error = match acquirer.acquire(request, Arc::clone(&tell)).await {
                Ok(stored) => return Ok(ready(&stored.meta)),
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
                    tracing::warn!(error = %failed, "making room");
                    Err(ImageFault::of(&error))
                }
            }
        })
    }
}

/// For the images that are gone.
#[must_use]
pub fn texts(digests: &[Sha256]) -> Vec<String> {
    digests.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_images::import::{Checksum, Importer, Origin};

    use super::*;

    #[test]
    fn an_image_is_in_use_by_any_digest_and_by_its_address() {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        let mut bytes = vec![7; 4 << 20];
        bytes[510] = 0x55;
        bytes[511] = 0xaa;
        let sha512 = hex::encode(ring::digest::digest(&ring::digest::SHA512, &bytes));
        let origin = Origin {
            url: "https://me:secret@a.example/disk.raw?token=1".to_owned(),
            expected: Some(Checksum::parse(&sha512, "sha512").unwrap()),
            ..Origin::default()
        };
        let image = Importer::new(store.clone()).import(&bytes[..], &origin, &|_| {}).unwrap();
        let name = |url: &str, checksum: &str| ImageName { url: url.to_owned(), checksum: checksum.to_owned() };
        let sha256 = Sha256::of(&bytes).to_string();
        for named in [
            name("x", &sha512),
            name("x", &sha256.to_uppercase()),
            name("https://a.example/disk.raw", ""),
            name("https://a.example/disk.raw?token=2", "https://a.example/SHA512SUMS"),
        ] {
            assert!(is_named(&image.meta, &named), "{named:?}");
            let in_use = InUse { images: [named].into(), ..InUse::default() };
            let made = make_room(&store, in_use, Some(0), 0).unwrap();
            assert!(made.images.is_empty() && made.shortfall.unwrap().contains("in use"));
        }
        assert!(!is_named(&image.meta, &name("https://a.example/disk.raw", &"0".repeat(64))));
        let made = make_room(&store, InUse::default(), Some(0), 0).unwrap();
        assert_eq!((made.images, made.shortfall), (vec![image.meta.raw_sha256], None));
    }
}
