//! A depot that a test controls, a fast clock, and access to the stored objects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use firesteel_appliance::serve::kinds::registry;
use firesteel_facts::{Architecture, Sha256};
use firesteel_images::import::{AcquisitionStage, ArtifactRequest, SignatureState};
use firesteel_kube::{Core, Objects};
use firesteel_resources::{BootImageStream, condition::find_condition};
use firesteel_runtime::{Ending, Runtime, Task, Tokio};
use firesteel_store::{MemoryMedium, Store};
use firesteel_streams::{
    Depot, DepotArtifact, DepotError, DepotFailure, Doing, FreedRoom, InUse, MetadataSource, Referrers,
    StreamController, StreamControllerConfig, Tell,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// How many times faster than the wall clock the streams' clock runs.
const FASTER: u32 = 100;
/// The time limit for what never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A clock that runs fast.
#[derive(Debug)]
struct Fast {
    started: Instant,
    tokio: Tokio,
}

impl Runtime for Fast {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed() * FASTER
    }

    fn sleep_until(&self, uptime: Duration) -> Task {
        let left = uptime.saturating_sub(self.uptime()) / FASTER;
        Box::pin(tokio::time::sleep(left))
    }

    fn entropy(&self) -> u128 {
        self.tokio.entropy()
    }

    fn spawn(&self, task: Task) -> Ending {
        self.tokio.spawn(task)
    }
}

/// What happens to a download.
#[derive(Clone)]
pub(crate) enum Fate {
    Good,
    Bad(DepotFailure),
    /// Reports these stages, and then waits until the test lets it go on.
    Stages(Vec<AcquisitionStage>),
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) documents: HashMap<String, Result<Vec<u8>, String>>,
    pub(crate) asked: Vec<String>,
    pub(crate) kept: HashMap<String, Vec<u8>>,
    pub(crate) stored: HashMap<Sha256, DepotArtifact>,
    pub(crate) fates: HashMap<Sha256, Fate>,
    pub(crate) fetched: Vec<ArtifactRequest>,
    pub(crate) shortfall: Option<String>,
    pub(crate) in_use: Vec<InUse>,
    pub(crate) gone: Vec<Sha256>,
    pub(crate) forgotten: Vec<Sha256>,
}

/// The fake depot.
#[derive(Default)]
pub(crate) struct Shop {
    state: Mutex<State>,
    pub(crate) go_on: Notify,
}

impl Shop {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn fetched(&self, url: &str) -> usize {
        self.state().fetched.iter().filter(|wanted| wanted.url == url).count()
    }
}

pub(crate) fn fault(message: &str) -> DepotFailure {
    DepotFailure { message: message.to_owned(), ..DepotFailure::default() }
}

fn found(wanted: &ArtifactRequest) -> DepotArtifact {
    let signature = match (&wanted.signature_url, &wanted.keyring) {
        (None, _) => SignatureState::None,
        (Some(_), None) => SignatureState::Unverified,
        (Some(_), Some(keyring)) => SignatureState::Good { fingerprint: keyring.fingerprints()[0].clone() },
    };
    DepotArtifact {
        raw_sha256: wanted.role.is_none().then(|| Sha256::of(wanted.url.as_bytes())),
        bytes: 1000,
        served: format!("/images/{}", wanted.sha256),
        signature,
        is_seen_here: true,
        is_proven: false,
    }
}

impl Depot for Shop {
    fn document<'a>(&'a self, place: &'a MetadataSource) -> Doing<'a, Result<Vec<u8>, DepotError>> {
        Box::pin(async move {
            let (MetadataSource::Url(name) | MetadataSource::File(name)) = place;
            let mut state = self.state();
            state.asked.push(name.clone());
            let found = state.documents.get(name).cloned().unwrap_or_else(|| Err(format!("no source has {name}")));
            found.map_err(DepotError::Document)
        })
    }

    fn keep<'a>(&'a self, stream: &'a str, document: Vec<u8>) -> Doing<'a, Result<(), DepotError>> {
        Box::pin(async move {
            self.state().kept.insert(stream.to_owned(), document);
            Ok(())
        })
    }

    fn find_artifact<'a>(
        &'a self,
        wanted: &'a ArtifactRequest,
    ) -> Doing<'a, Result<Option<DepotArtifact>, DepotFailure>> {
        Box::pin(async move { Ok(self.state().stored.get(&wanted.sha256).cloned()) })
    }

    fn fetch<'a>(&'a self, wanted: &'a ArtifactRequest, tell: Tell) -> Doing<'a, Result<DepotArtifact, DepotFailure>> {
        Box::pin(async move {
            let fate = {
                let mut state = self.state();
                state.fetched.push(wanted.clone());
                state.fates.get(&wanted.sha256).cloned().unwrap_or(Fate::Good)
            };
            match fate {
                Fate::Good => {}
                Fate::Bad(fault) => return Err(fault),
                Fate::Stages(stages) => {
                    for stage in stages {
                        tell(stage);
                        tokio::time::sleep(Duration::from_millis(40)).await;
                    }
                    self.go_on.notified().await;
                }
            }
            let found = found(wanted);
            self.state().stored.insert(wanted.sha256, found.clone());
            Ok(found)
        })
    }

    fn make_room<'a>(
        &'a self,
        referrers: &'a dyn Referrers,
        _: Option<u64>,
        _: u64,
    ) -> Doing<'a, Result<FreedRoom, DepotError>> {
        Box::pin(async move {
            let in_use = referrers.in_use().await?;
            let mut state = self.state();
            state.in_use.push(in_use);
            let images = std::mem::take(&mut state.gone);
            state.stored.retain(|_, found| found.raw_sha256.is_none_or(|raw| !images.contains(&raw)));
            Ok(FreedRoom { images, bytes: 0, shortfall: state.shortfall.clone() })
        })
    }
}

/// A store, and the streams of one process on it at a time.
pub(crate) struct Site {
    memory: MemoryMedium,
    pub(crate) core: Core,
    pub(crate) shop: Arc<Shop>,
    running: Option<tokio::task::JoinHandle<()>>,
}

impl Site {
    pub(crate) async fn open() -> Self {
        let memory = MemoryMedium::new();
        let core = Core::new(Store::in_memory(&memory), registry());
        core.ensure_namespace("default").await.unwrap();
        let mut site = Self { memory, core, shop: Arc::default(), running: None };
        site.start();
        site
    }

    fn start(&mut self) {
        let shop = Arc::clone(&self.shop);
        let streams = StreamController::new(StreamControllerConfig {
            core: self.core.clone(),
            runtime: Arc::new(Fast { started: Instant::now(), tokio: Tokio::new() }),
            depot: Arc::clone(&self.shop) as Arc<dyn Depot>,
            quota_bytes: Some(1 << 30),
            own_architecture: Some(Architecture::X86_64),
            tells_events: true,
            forget: Box::new(move |gone| shop.state().forgotten.extend_from_slice(gone)),
        });
        let streams = streams.unwrap();
        self.running = Some(tokio::spawn(async move { panic!("it ended: {:?}", streams.run().await) }));
    }

    /// Restarts as after a kill: what was in memory is lost.
    pub(crate) async fn restart(&mut self) {
        let running = self.running.take().unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled(), "it ended by itself");
        self.core = Core::new(Store::in_memory(&self.memory), registry());
        self.start();
    }

    pub(crate) fn objects<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        group: &str,
        kind: &str,
    ) -> Objects<T> {
        Objects::new(&self.core, group, kind).unwrap()
    }

    pub(crate) fn streams(&self) -> Objects<Value> {
        self.objects("firesteel.dev", "BootImageStream")
    }

    pub(crate) async fn make(&self, name: &str, spec: Value) {
        self.streams().create(&json!({"metadata": {"name": name}, "spec": spec})).await.unwrap();
    }

    pub(crate) async fn get(&self, name: &str) -> BootImageStream {
        self.objects("firesteel.dev", "BootImageStream").get("", name).await.unwrap().unwrap()
    }

    pub(crate) async fn edit(&self, name: &str, change: impl Fn(&mut Value)) {
        self.streams().modify("", name, firesteel_kube::ObjectPart::Main, change).await.unwrap();
    }

    /// Waits until the stream is as it should be.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&BootImageStream) -> bool,
    ) -> BootImageStream {
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let stream = self.get(name).await;
            if is_so(&stream) {
                return stream;
            }
            assert!(Instant::now() < ends_at, "{what} never came: {:#?}", stream.status);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    pub(crate) async fn stamped(&self, name: &str, release: &str) -> BootImageStream {
        self.until(name, "the stamp", |stream| stream.status.release == release && stream.status.stamped).await
    }

    pub(crate) fn offer(&self, place: &str, document: Vec<u8>) {
        self.shop.state().documents.insert(place.to_owned(), Ok(document));
    }
}

/// Returns reason and message of a condition.
pub(crate) fn said(stream: &BootImageStream, type_: &str) -> (String, String) {
    find_condition(&stream.status.conditions, type_)
        .map(|condition| (condition.reason.clone(), condition.message.clone()))
        .unwrap_or_default()
}

pub(crate) fn url(name: &str) -> String {
    format!("https://a.example/{name}")
}

pub(crate) fn digest(name: &str) -> Sha256 {
    Sha256::of(name.as_bytes())
}

fn file(name: &str) -> Value {
    json!({"location": url(name), "sha256": digest(name).to_string(), "signature": url(&format!("{name}.sig"))})
}

/// Makes metadata of a stream with disks for both sector sizes, parts of a network boot and an ISO.
pub(crate) fn metadata(release: &str) -> Vec<u8> {
    let disk = |form: &str| json!({"disk": file(&format!("{release}.{form}"))});
    let part = |name: &str| file(&format!("{release}.{name}"));
    let formats = json!({
        "raw.gz": disk("raw.gz"), "4k.raw.gz": disk("4k.raw.gz"), "iso": {"disk": part("iso")},
        "pxe": {"kernel": part("kernel"), "initramfs": part("initramfs"), "rootfs": part("rootfs")},
    });
    let metal = json!({"metal": {"release": release, "formats": formats}});
    json!({"stream": "stable", "metadata": {"last-modified": "2026-01-01"}, "architectures": {"x86_64": {"artifacts": metal}}})
        .to_string()
        .into_bytes()
}
