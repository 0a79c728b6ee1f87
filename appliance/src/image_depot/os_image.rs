//! The OS image that the Provisioning object names, as the rest of the process sees it: which one it is, how far it is,
//! and which requests mean it (S0.12).
//!
//! ```text
//! serve/services/image_cache ──► CachedOsImage ──► HostImages: a host names it by URL or digest, and waits for it
//!                                      ├─────────► ImageFiles: /images/NAME/cached-NAME
//!                                      └─────────► conditions of the Provisioning object
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use firesteel_control::{AcquiredImage, ImageFault};
use firesteel_facts::Sha256;
use firesteel_images::import::{AcquisitionStage, ImageMeta, ImageRequest};
use firesteel_network::{OsImageReport, OsImageState};
use firesteel_resources::provisioning::OsImageSource;
use firesteel_streams::ImageName;
use tokio::sync::watch;

use super::make_room::is_named;
use crate::http::images::IMAGES_PATH;

/// What is known of the cached image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsImageView {
    pub source: OsImageSource,
    pub state: OsImageState,
    /// Where its acquisition is, while one is under way.
    stage: Option<AcquisitionStage>,
    /// Is there only while it is [`OsImageState::Ready`].
    image: Option<ImageMeta>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SharedOsImage {
    /// The address at which hosts reach this appliance.
    address: Option<Ipv4Addr>,
    view: Option<OsImageView>,
}

/// The cached image. Clones share it.
#[derive(Clone, Debug)]
pub struct CachedOsImage(Arc<watch::Sender<SharedOsImage>>);

impl Default for CachedOsImage {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(SharedOsImage::default())))
    }
}

/// How a request for an image means the cached one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CachedImageMatch {
    /// The path at which this appliance serves it names it; this is the name in it.
    Path(String),
    /// Its digest names it.
    Digest,
}

impl CachedOsImage {
    /// Sets the address at which hosts reach this appliance.
    pub fn set_address(&self, address: Ipv4Addr) {
        self.0.send_if_modified(|shared| shared.address.replace(address) != Some(address));
    }

    /// Publishes which image it is, how it is, and the image itself once it is stored and has its digest.
    pub fn publish(&self, source: &OsImageSource, state: OsImageState, image: Option<ImageMeta>) {
        let image = image.filter(|_| state == OsImageState::Ready);
        let view = Some(OsImageView { source: source.clone(), state, stage: None, image });
        self.0.send_if_modified(|shared| {
            let is_new = shared.view != view;
            shared.view = view;
            is_new
        });
    }

    /// Takes in where its acquisition is.
    pub fn note_stage(&self, stage: AcquisitionStage) {
        let state = match stage {
            AcquisitionStage::Waiting { ahead, .. } => OsImageState::Waiting { ahead },
            AcquisitionStage::Rereading { .. } => OsImageState::Checking,
            AcquisitionStage::Downloading { done_bytes, total_bytes } => {
                OsImageState::Downloading { done_bytes, total_bytes }
            }
            AcquisitionStage::Importing { .. } => OsImageState::Importing,
        };
        self.0.send_if_modified(|shared| {
            // A stage that is reported after the end says nothing new.
            let Some(view) = shared.view.as_mut().filter(|view| is_under_way(&view.state)) else { return false };
            let is_new = view.stage != Some(stage);
            (view.stage, view.state) = (Some(stage), state);
            is_new
        });
    }

    /// Forgets the image: none is cached from now on. Returns what was stored of it.
    #[must_use]
    pub fn take(&self) -> Option<ImageMeta> {
        let mut image = None;
        self.0.send_if_modified(|shared| match shared.view.take() {
            Some(view) => {
                image = view.image;
                true
            }
            None => false,
        });
        image
    }

    #[must_use]
    pub fn view(&self) -> Option<OsImageView> {
        self.0.borrow().view.clone()
    }

    /// Says how the image is, for conditions.
    #[must_use]
    pub fn report(&self) -> Option<OsImageReport> {
        self.view().map(|view| OsImageReport { name: view.source.name, url: view.source.url, state: view.state })
    }

    /// Returns the image behind a name of [`IMAGES_PATH`], such as `os.qcow2/cached-os.qcow2`; it is there only once it
    /// has its digest.
    #[must_use]
    pub fn served(&self, name: &str) -> Option<ImageMeta> {
        let view = self.view()?;
        let path = view.source.served_path();
        (path.strip_prefix(IMAGES_PATH) == Some(name)).then_some(view.image).flatten()
    }

    /// Answers a host's request that means the cached image: waits for it as long as it is on its way. `None` where the
    /// request means another image, or names by its digest one that the cache cannot get.
    pub async fn acquire(
        &self,
        request: &ImageRequest,
        progress: &(dyn Fn(AcquisitionStage) + Send + Sync),
    ) -> Option<Result<AcquiredImage, ImageFault>> {
        let mut changes = self.0.subscribe();
        loop {
            let shared = changes.borrow_and_update().clone();
            let meaning = means(&shared, request)?;
            let by_path = matches!(meaning, CachedImageMatch::Path(_));
            match answer(&shared, &meaning, request) {
                CachedImageAnswer::Image(image) => return Some(Ok(image)),
                CachedImageAnswer::Fault(fault) => return by_path.then_some(Err(fault)),
                CachedImageAnswer::Wait(stage) => stage.into_iter().for_each(progress),
            }
            if changes.changed().await.is_err() {
                return None;
            }
        }
    }
}

fn is_under_way(state: &OsImageState) -> bool {
    match state {
        OsImageState::Checking
        | OsImageState::Waiting { .. }
        | OsImageState::Downloading { .. }
        | OsImageState::Importing => true,
        OsImageState::Ready | OsImageState::Failing { .. } | OsImageState::Refused { .. } => false,
    }
}

/// What a request for the cached image gets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CachedImageAnswer {
    Image(AcquiredImage),
    Fault(ImageFault),
    Wait(Option<AcquisitionStage>),
}

/// Says whether a request means the cached image.
fn means(shared: &SharedOsImage, request: &ImageRequest) -> Option<CachedImageMatch> {
    let own = cached_name(&request.url).filter(|(host, _)| is_own(host, shared));
    if let Some((_, name)) = own {
        return Some(CachedImageMatch::Path(name));
    }
    let source = &shared.view.as_ref()?.source;
    let digest = request.checksum.trim().parse::<Sha256>().ok()?;
    (digest == source.sha256).then_some(CachedImageMatch::Digest)
}

/// Returns host and image name of an address such as `http://HOST:PORT/images/NAME/cached-NAME`.
fn cached_name(url: &str) -> Option<(String, String)> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let (authority, path) = rest.split_once('/')?;
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (name, file) = path.strip_prefix(IMAGES_PATH.trim_start_matches('/'))?.split_once('/')?;
    if name.is_empty() || file.strip_prefix("cached-") != Some(name) {
        return None;
    }
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let host = if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { authority };
    Some((host.trim_start_matches('[').trim_end_matches(']').to_owned(), name.to_owned()))
}

/// Says whether a host is this appliance. Upstream's installer writes `localhost`, where each host of the control plane
/// has a cache of its own; that means the cache here only while there is one.
fn is_own(host: &str, shared: &SharedOsImage) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => shared.view.is_some(),
        Ok(address) => shared.address.map(IpAddr::V4) == Some(address),
        Err(_) => host.eq_ignore_ascii_case("localhost") && shared.view.is_some(),
    }
}

fn answer(shared: &SharedOsImage, meaning: &CachedImageMatch, request: &ImageRequest) -> CachedImageAnswer {
    let fault = |message: String| {
        // An edit of the Provisioning object helps, too: the host looks again by itself.
        CachedImageAnswer::Fault(ImageFault { message, permanent: false, crowded: false })
    };
    let Some(view) = &shared.view else {
        return fault(
            "spec.image.url names the OS image of this appliance, and the Provisioning object names none: set its \
             spec.provisioningOSDownloadURL, or name another image"
                .to_owned(),
        );
    };
    let name = &view.source.name;
    if let CachedImageMatch::Path(asked) = meaning
        && asked != name
    {
        return fault(format!(
            "spec.image.url names the OS image {asked} of this appliance, and the Provisioning object names {name} \
             (spec.provisioningOSDownloadURL): name that one"
        ));
    }
    match (&view.state, &view.image) {
        (OsImageState::Ready, Some(image)) => {
            let asked = ImageName { url: String::new(), checksum: request.checksum.clone() };
            let is_digest = !asked.checksum.trim().is_empty() && !asked.checksum.contains("://");
            if is_digest && !is_named(image, &asked) {
                return CachedImageAnswer::Fault(ImageFault {
                    message: format!(
                        "spec.image.checksum {} is not that of the OS image {name}, which is {}: correct it",
                        asked.checksum.trim(),
                        view.source.sha256
                    ),
                    permanent: true,
                    crowded: false,
                });
            }
            CachedImageAnswer::Image(AcquiredImage::of(image, request))
        }
        (OsImageState::Failing { why, .. } | OsImageState::Refused { why }, _) => {
            fault(format!("the OS image {name} of this appliance is not there: {why}"))
        }
        (
            OsImageState::Ready
            | OsImageState::Checking
            | OsImageState::Waiting { .. }
            | OsImageState::Downloading { .. }
            | OsImageState::Importing,
            _,
        ) => CachedImageAnswer::Wait(view.stage),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Mutex;

    use firesteel_images::import::{ImageStore, ImportSource, Importer};

    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

    fn image(dir: &std::path::Path) -> ImageMeta {
        let mut bytes = vec![7; 4 << 20];
        (bytes[510], bytes[511]) = (0x55, 0xaa);
        let store = ImageStore::open(dir).unwrap();
        Importer::new(store).import(&bytes[..], &ImportSource::default(), &|_| {}).unwrap().meta
    }

    fn source(image: &ImageMeta) -> OsImageSource {
        let sha256 = image.sources[0].sha256;
        OsImageSource::parse(&format!("http://a.example/os.qcow2.gz?sha256={sha256}")).unwrap()
    }

    fn request(url: &str, checksum: &str) -> ImageRequest {
        ImageRequest { url: url.to_owned(), checksum: checksum.to_owned(), ..ImageRequest::default() }
    }

    const PATH: &str = "http://10.77.0.1:8080/images/os.qcow2/cached-os.qcow2";

    #[test]
    fn addresses_of_the_cache_are_known_in_upstreams_form() {
        let name = |url: &str| cached_name(url);
        let found = |host: &str| Some((host.to_owned(), "os.qcow2".to_owned()));
        assert_eq!(name(PATH), found("10.77.0.1"));
        assert_eq!(name("http://localhost/images/os.qcow2/cached-os.qcow2?x"), found("localhost"));
        assert_eq!(name("http://[::1]:6181/images/os.qcow2/cached-os.qcow2"), found("::1"));
        assert_eq!(name("http://[fd00::1]/images/os.qcow2/cached-os.qcow2"), found("fd00::1"));
        for other in [
            "http://10.77.0.1/images/os.qcow2/cached-other.qcow2",
            "http://10.77.0.1/images/os.qcow2",
            "http://10.77.0.1/images//cached-",
            "ftp://10.77.0.1/images/os.qcow2/cached-os.qcow2",
        ] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_host_gets_the_cached_image_by_its_path_or_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let image = image(dir.path());
        let source = source(&image);
        let digest = source.sha256.to_string();
        let cached = CachedOsImage::default();
        cached.set_address(OWN);
        cached.publish(&source, OsImageState::Ready, Some(image.clone()));
        let sums = format!("{PATH}.md5sum");
        for request in [
            request(PATH, &digest),
            request(PATH, &sums),
            request("http://localhost:6181/images/os.qcow2/cached-os.qcow2", &digest),
            request("http://elsewhere.example/disk", &digest),
        ] {
            let acquired = cached.acquire(&request, &|_| {}).await.unwrap().unwrap();
            assert_eq!(acquired.ready.raw_sha256, image.raw_sha256.to_string(), "{request:?}");
        }
        let wrong = cached.acquire(&request(PATH, &"0".repeat(64)), &|_| {}).await.unwrap().unwrap_err();
        assert!(wrong.permanent && wrong.message.contains(&digest), "{wrong:?}");
        let other = PATH.replace("os.qcow2", "new.qcow2");
        let other = cached.acquire(&request(&other, &sums), &|_| {}).await.unwrap().unwrap_err();
        assert!(!other.permanent && other.message.contains("names os.qcow2"), "{other:?}");
        let foreign = request("http://192.0.2.1/images/os.qcow2/cached-os.qcow2", &sums);
        assert_eq!(cached.acquire(&foreign, &|_| {}).await, None, "another appliance's is fetched from there");
        assert_eq!(cached.served("os.qcow2/cached-os.qcow2"), Some(image));
        assert_eq!(cached.served("os.qcow2"), None);
    }

    #[tokio::test]
    async fn a_host_waits_for_an_image_on_its_way_and_fails_with_the_reason_of_one_that_does_not_come() {
        let dir = tempfile::tempdir().unwrap();
        let image = image(dir.path());
        let source = source(&image);
        let cached = CachedOsImage::default();
        cached.set_address(OWN);
        let by_path = request(PATH, &format!("{PATH}.sha256sum"));
        let none = cached.acquire(&by_path, &|_| {}).await.unwrap().unwrap_err();
        assert!(none.message.contains("names none"), "{none:?}");
        cached.publish(&source, OsImageState::Checking, None);
        let stages = Arc::new(Mutex::new(Vec::new()));
        let (waiting, heard) = (cached.clone(), Arc::clone(&stages));
        let host = tokio::spawn(async move {
            waiting.acquire(&by_path, &|stage| heard.lock().unwrap().push(stage)).await.unwrap()
        });
        let stage = AcquisitionStage::Downloading { done_bytes: 5, total_bytes: Some(9) };
        while stages.lock().unwrap().last() != Some(&stage) {
            cached.note_stage(stage);
            tokio::task::yield_now().await;
        }
        let state = OsImageState::Downloading { done_bytes: 5, total_bytes: Some(9) };
        assert_eq!(cached.report().unwrap().state, state);
        assert_eq!(cached.served("os.qcow2/cached-os.qcow2"), None, "it is not served before it has its digest");
        cached.publish(&source, OsImageState::Ready, Some(image.clone()));
        assert_eq!(host.await.unwrap().unwrap().ready.raw_sha256, image.raw_sha256.to_string());
        cached.note_stage(stage);
        assert_eq!(cached.report().unwrap().state, OsImageState::Ready, "it has ended");
        // One that is refused is served by no name, and a host that names another origin asks that.
        cached.publish(&source, OsImageState::Refused { why: "is b, not a".to_owned() }, Some(image));
        assert_eq!(cached.served("os.qcow2/cached-os.qcow2"), None);
        let by_digest = request("http://elsewhere.example/disk", &source.sha256.to_string());
        assert_eq!(cached.acquire(&by_digest, &|_| {}).await, None);
        let by_path = request(PATH, &by_digest.checksum);
        let refused = cached.acquire(&by_path, &|_| {}).await.unwrap().unwrap_err();
        assert!(!refused.permanent && refused.message.contains("is b, not a"), "{refused:?}");
    }
}
