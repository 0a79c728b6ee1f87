//! Follows one stream: asks its source, and fetches what is wanted, both at the same time. What is decided is
//! [`memory`](crate::stream_record)'s; the status is written by one at a time, and only when it changed.

mod fetch;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use firesteel_facts::{Architecture, Sha256};
use firesteel_images::openpgp::Keyring;
use firesteel_kube::{EventSubject, ObjectPart, RecordedEvent, Status};
use firesteel_resources::{
    boot_image_stream::{BootImageStreamStatus, DEGRADED, STAMPED, STORED},
    condition::CONDITIONS_MAX,
};
use firesteel_runtime::Runtime;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    StreamController,
    controller::{FollowerSignal, SECRET, lock},
    depot::{DepotError, MetadataSource},
    offer::{self, OfferError},
    stream_record::{KeyringError, StreamRecord},
};

/// Files are read this often: nobody tells when one is replaced.
const FILE_EVERY: Duration = Duration::from_secs(10);
/// What the store holds is seen this often; what is not there any more is fetched again.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// After an error of the resource store.
const STORE_RETRY: Duration = Duration::from_secs(30);
/// Nothing is waited for longer, whatever the clock says.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Why a stream's metadata cannot be had or understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SourceError {
    #[error(transparent)]
    Depot(DepotError),
    #[error("there is no ConfigMap {namespace}/{name}: make it, or correct spec.source")]
    NoConfigMap { namespace: String, name: String },
    #[error("the ConfigMap {namespace}/{name} has no key {key}: add it, or correct spec.source.configMap.key")]
    NoKey { namespace: String, name: String, key: String },
    #[error(transparent)]
    Offer(OfferError),
}

/// The keys that a spec names, as they are now.
struct FoundKeys {
    /// Of their bytes.
    sha256: Option<Sha256>,
    keyring: Result<Option<Arc<Keyring>>, KeyringError>,
}

pub(crate) struct Follower {
    streams: StreamController,
    name: String,
    uid: String,
    wake: Arc<FollowerSignal>,
    memory: Mutex<StreamRecord>,
    /// There may be something else to fetch.
    fetchable: Notify,
    /// One writes at a time: an older status would come after a newer one.
    written: tokio::sync::Mutex<Option<BootImageStreamStatus>>,
}

impl Follower {
    pub(crate) fn new(streams: StreamController, name: &str, uid: &str, wake: Arc<FollowerSignal>) -> Self {
        Self {
            streams,
            name: name.to_owned(),
            uid: uid.to_owned(),
            wake,
            memory: Mutex::default(),
            fetchable: Notify::new(),
            written: tokio::sync::Mutex::new(None),
        }
    }

    /// Until the stream is gone.
    pub(crate) async fn run(self) {
        tokio::select! {
            biased;
            () = self.wake.ended() => tracing::debug!(stream = self.name, "the stream is gone"),
            () = self.ask_on() => {}
            () = self.fetch_on() => {}
        }
    }

    fn memory(&self) -> MutexGuard<'_, StreamRecord> {
        lock(&self.memory)
    }

    fn runtime(&self) -> &dyn Runtime {
        &*self.streams.inner.config.runtime
    }

    fn uptime(&self) -> Duration {
        self.runtime().uptime()
    }

    fn now(&self) -> Timestamp {
        self.runtime().now()
    }

    /// Waits for the time, or for a change.
    async fn wait(&self, until: Duration, changed: &Notify) {
        let until = until.min(self.uptime() + WAIT_MAX);
        tokio::select! {
            () = changed.notified() => {}
            () = self.runtime().sleep_until(until) => {}
        }
    }

    async fn ask_on(&self) {
        // Which architectures are wanted may be the hosts' to say.
        self.streams.inner.fleet_read.wait().await;
        loop {
            let next = match self.ask().await {
                Ok(next) => next,
                Err(status) => {
                    tracing::warn!(stream = self.name, error = %status.message, "following a stream");
                    self.uptime() + STORE_RETRY
                }
            };
            self.wait(next, &self.wake.changed).await;
        }
    }

    /// Reads the object, asks the source if it is time, and sees what is here. Returns when to do so again.
    async fn ask(&self) -> Result<Duration, Status> {
        let found = self.streams.inner.streams.get("", &self.name).await?;
        let Some(stream) = found.filter(|stream| stream.metadata.uid == self.uid) else {
            return Ok(self.uptime() + WAIT_MAX);
        };
        self.memory().load(&stream);
        let FoundKeys { sha256, keyring } = self.keyring().await?;
        self.memory().set_keyring(sha256, keyring);
        let fleet = self.wanted_architectures();
        let (spec, is_due) = {
            let memory = self.memory();
            let is_due = memory.ask_at() <= self.uptime() || memory.is_of_another_fleet(&fleet);
            (memory.spec.clone(), is_due)
        };
        // What costs nothing to read is read each time.
        let is_near = spec.source.url.is_empty();
        if !spec.paused && (is_due || is_near) {
            let document = self.document().await?;
            self.take(document, is_due).await;
        }
        if self.memory().is_store_check_due(self.uptime(), LOOK_EVERY) {
            self.check_store().await;
        }
        self.write().await?;
        self.fetchable.notify_one();
        let memory = self.memory();
        let asks_at = if spec.paused { Duration::MAX } else { memory.ask_at() };
        let reads_at =
            if spec.source.file.is_empty() || spec.paused { Duration::MAX } else { self.uptime() + FILE_EVERY };
        Ok(asks_at.min(reads_at).min(self.uptime() + LOOK_EVERY))
    }

    async fn document(&self) -> Result<Result<Vec<u8>, SourceError>, Status> {
        let source = self.memory().spec.source.clone();
        let depot = &self.streams.inner.config.depot;
        let Some(map) = source.config_map else {
            let place =
                if source.url.is_empty() { MetadataSource::File(source.file) } else { MetadataSource::Url(source.url) };
            return Ok(depot.document(&place).await.map_err(SourceError::Depot));
        };
        let found = self.streams.inner.config_maps.get(&map.namespace, &map.name).await?;
        let Some(found) = found else {
            return Ok(Err(SourceError::NoConfigMap { namespace: map.namespace, name: map.name }));
        };
        // Upstream's list is read whole, with its stamp; any other ConfigMap by the key that is named.
        let data = &found["data"];
        let is_list = ["streams", "releaseVersion", "MCOVersionHash"].iter().any(|key| data.get(key).is_some());
        if is_list {
            let list = serde_json::json!({"kind": "ConfigMap", "data": data});
            return Ok(Ok(list.to_string().into_bytes()));
        }
        Ok(match data[&map.key].as_str() {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => Err(SourceError::NoKey { namespace: map.namespace, name: map.name, key: map.key }),
        })
    }

    /// Takes in what the source gave.
    async fn take(&self, document: Result<Vec<u8>, SourceError>, is_due: bool) {
        let times = (self.uptime(), self.now());
        let read = document.and_then(|bytes| {
            let fleet = self.wanted_architectures();
            let spec = self.memory().spec.clone();
            let sha256 = Sha256::of(&bytes);
            if self.memory().is_known(sha256, &fleet) {
                return Ok(None);
            }
            let offer = offer::read(&bytes, &spec, &fleet).map_err(SourceError::Offer)?;
            Ok(Some((bytes, sha256, offer, fleet)))
        });
        let (bytes, news) = match read {
            Ok(None) => {
                let mut memory = self.memory();
                if is_due || memory.troubles.source.is_some() {
                    memory.checked(times);
                }
                return;
            }
            Ok(Some((bytes, sha256, offer, fleet))) => (bytes, self.memory().take(offer, sha256, &fleet, times)),
            Err(error) => {
                let error = error.to_string();
                let mut memory = self.memory();
                // A file is read every few seconds: the same is said once.
                if memory.troubles.source.as_ref() != Some(&error) {
                    tracing::warn!(stream = self.name, %error, "reading a stream's metadata");
                }
                memory.source_failed(error, times.0);
                return;
            }
        };
        for release in &news.withdrawn {
            tracing::warn!(stream = self.name, release, "the stream took a release back");
            self.record_stream_event(
                true,
                "ReleaseWithdrawn",
                format!("{release} was taken back: it is given to no host any more"),
            );
        }
        if let Err(error) = self.streams.inner.config.depot.keep(&self.name, bytes).await {
            tracing::warn!(stream = self.name, %error, "keeping a stream's metadata for bundles");
        }
    }

    /// Those of the hosts, and those that are here; the spec has its own.
    fn wanted_architectures(&self) -> Vec<Architecture> {
        let mut wanted = self.streams.fleet();
        let known = self.memory().artifacts();
        wanted.extend(known.iter().filter_map(|(_, artifact)| artifact.architecture.parse::<Architecture>().ok()));
        if wanted.is_empty() {
            wanted.extend(self.streams.inner.config.own_architecture);
        }
        wanted.into_iter().collect()
    }

    /// The keys that the spec names, and the digest of their bytes.
    async fn keyring(&self) -> Result<FoundKeys, Status> {
        let keyring = self.memory().spec.keyring.clone();
        let Some(keyring) = keyring else { return Ok(FoundKeys { sha256: None, keyring: Ok(None) }) };
        let (namespace, name) = (&keyring.namespace, &keyring.name);
        let inner = &self.streams.inner;
        let values: Option<Vec<Vec<u8>>> = if keyring.kind == SECRET {
            let secret = inner.secrets.get(namespace, name).await?;
            secret.map(|secret| secret.data.values().map(|value| value.0.clone()).collect())
        } else {
            let map = inner.config_maps.get(namespace, name).await?;
            let texts = |map: Value| -> Vec<Vec<u8>> {
                let data = map["data"].as_object().cloned().unwrap_or_default();
                data.values().filter_map(Value::as_str).map(|text| text.as_bytes().to_vec()).collect()
            };
            map.map(texts)
        };
        let at = format!("the {} {namespace}/{name}", keyring.kind);
        let Some(values) = values else {
            return Ok(FoundKeys { sha256: None, keyring: Err(KeyringError::Missing { at }) });
        };
        // Armored keys may stand one after the other.
        let bytes = values.join(&b'\n');
        let parsed = Keyring::parse(&bytes).map(|keyring| Some(Arc::new(keyring)));
        let keyring = parsed.map_err(|error| KeyringError::Unusable { at, error: error.to_string() });
        Ok(FoundKeys { sha256: Some(Sha256::of(&bytes)), keyring })
    }

    /// Sees what the store has of all that is known.
    async fn check_store(&self) {
        let artifacts = self.memory().artifacts();
        for (release, artifact) in artifacts {
            let wanted = {
                let memory = self.memory();
                // Without the keys nobody can say whether what is there would be good.
                let is_unknown = memory.troubles.keyring.is_some() && !artifact.signature_location.is_empty();
                memory.wanted(&release, &artifact).filter(|_| !is_unknown)
            };
            let Some(wanted) = wanted else { continue };
            match self.streams.inner.config.depot.find_artifact(&wanted).await {
                Ok(Some(found)) => self.memory().found(&release, &artifact.sha256, &found),
                Ok(None) => self.memory().missing(&release, &artifact.sha256),
                Err(fault) => {
                    tracing::warn!(stream = self.name, error = %fault.message, "looking into the image store");
                }
            }
        }
        let now = self.uptime();
        self.memory().store_checked(now);
    }

    /// Writes the status if it changed.
    async fn write(&self) -> Result<(), Status> {
        let mut written = self.written.lock().await;
        let at = self.now();
        let (status, stamped) = {
            let mut memory = self.memory();
            let stamped = memory.conclude(at);
            (memory.status.clone(), stamped)
        };
        if written.as_ref() == Some(&status) {
            return Ok(());
        }
        // Who waits for this may be dropped, and then nobody knows what is stored.
        *written = None;
        let (uid, ours) = (&self.uid, &status);
        let done = self.streams.inner.streams.modify("", &self.name, ObjectPart::Status, |stream| {
            if stream.metadata.uid == *uid {
                let foreign = std::mem::take(&mut stream.status.conditions);
                stream.status = ours.clone();
                let foreign =
                    foreign.into_iter().filter(|one| ![STAMPED, DEGRADED, STORED].contains(&one.type_.as_str()));
                stream.status.conditions.retain(|one| [STAMPED, DEGRADED, STORED].contains(&one.type_.as_str()));
                stream.status.conditions.extend(foreign);
                stream.status.conditions.truncate(CONDITIONS_MAX);
            }
        });
        done.await?;
        for release in stamped {
            tracing::info!(stream = self.name, release, "all of a release is verified");
            self.record_stream_event(false, "ReleaseStamped", format!("{release}: all of it is here and verified"));
        }
        *written = Some(status);
        Ok(())
    }

    fn record_stream_event(&self, is_warning: bool, reason: &str, message: String) {
        if !self.streams.inner.config.tells_events {
            return;
        }
        let regarding = EventSubject {
            api_version: "firesteel.dev/v1alpha1".to_owned(),
            kind: "BootImageStream".to_owned(),
            namespace: String::new(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        };
        let happened = RecordedEvent { regarding, is_warning, reason: reason.to_owned(), message, at: self.now() };
        if self.streams.inner.events.try_send(happened).is_err() {
            tracing::debug!(stream = self.name, "too many events are waiting");
        }
    }
}
