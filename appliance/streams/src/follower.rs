//! Follows one stream: asks its source, and fetches what is wanted, both at the same time. The [`StreamRecord`]
//! decides; the status is written by one at a time, and only when it changed.

mod fetch;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use firesteel_facts::{Architecture, Sha256};
use firesteel_images::openpgp::Keyring;
use firesteel_kube::{EventSubject, ObjectPart, Status};
use firesteel_resources::boot_image_stream::{BootImageStreamStatus, DEGRADED, STAMPED, STORED};
use firesteel_resources::condition::{CONDITIONS_MAX, Condition};
use firesteel_runtime::{Runtime, lock};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

use crate::StreamController;
use crate::controller::{FollowerSignal, SECRET};
use crate::depot::{DepotError, MetadataSource};
use crate::offer::{self, OfferError};
use crate::stream_record::{ReadingTime, StreamKeysError, StreamRecord};

/// Files are read this often: no event comes when one is replaced.
const FILE_EVERY: Duration = Duration::from_secs(10);
/// What the store holds is seen this often; what is not there any more is fetched again.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// The pause after an error of the resource store.
const STORE_RETRY: Duration = Duration::from_secs(30);
/// Nothing is waited for longer, whatever the clock says.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Why a stream's metadata cannot be had or understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum StreamSourceError {
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
    /// The digest of their bytes.
    sha256: Option<Sha256>,
    keyring: Result<Option<Arc<Keyring>>, StreamKeysError>,
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

    /// Runs until the stream is gone.
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
                    tracing::warn!(stream = self.name, error = %status.message, "could not follow a stream; it is tried again in half a minute");
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

    async fn document(&self) -> Result<Result<Vec<u8>, StreamSourceError>, Status> {
        let source = self.memory().spec.source.clone();
        let depot = &self.streams.inner.config.depot;
        let Some(map) = source.config_map else {
            let place =
                if source.url.is_empty() { MetadataSource::File(source.file) } else { MetadataSource::Url(source.url) };
            return Ok(depot.document(&place).await.map_err(StreamSourceError::Depot));
        };
        let found = self.streams.inner.config_maps.get(&map.namespace, &map.name).await?;
        let Some(found) = found else {
            return Ok(Err(StreamSourceError::NoConfigMap { namespace: map.namespace, name: map.name }));
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
            None => Err(StreamSourceError::NoKey { namespace: map.namespace, name: map.name, key: map.key }),
        })
    }

    /// Takes in what the source gave.
    async fn take(&self, document: Result<Vec<u8>, StreamSourceError>, is_due: bool) {
        let at = ReadingTime { uptime: self.uptime(), time: self.now() };
        let read = document.and_then(|bytes| {
            let fleet = self.wanted_architectures();
            let spec = self.memory().spec.clone();
            let sha256 = Sha256::of(&bytes);
            if self.memory().is_known(sha256, &fleet) {
                return Ok(None);
            }
            let offer = offer::read(&bytes, &spec, &fleet).map_err(StreamSourceError::Offer)?;
            Ok(Some((bytes, sha256, offer, fleet)))
        });
        let (bytes, news) = match read {
            Ok(None) => {
                let mut memory = self.memory();
                if is_due || memory.troubles.source.is_some() {
                    memory.checked(at);
                }
                return;
            }
            Ok(Some((bytes, sha256, offer, fleet))) => (bytes, self.memory().take(offer, sha256, &fleet, at)),
            Err(error) => {
                let error = error.to_string();
                let mut memory = self.memory();
                // A file is read every few seconds: the same is said once.
                if memory.troubles.source.as_ref() != Some(&error) {
                    tracing::warn!(stream = self.name, %error, "could not read a stream's metadata; it is tried again");
                }
                memory.source_failed(error, at.uptime);
                return;
            }
        };
        for release in &news.withdrawn {
            tracing::warn!(stream = self.name, release, "the stream took a release back");
            let text = format!("{release} was taken back: it is given to no host any more");
            self.record_stream_event(true, "ReleaseWithdrawn", text);
        }
        if let Err(error) = self.streams.inner.config.depot.keep(&self.name, bytes).await {
            tracing::warn!(stream = self.name, %error, "could not keep a stream's metadata; bundles lack it until its next change");
        }
    }

    /// Lists the architectures of the hosts, and those that are here; the spec has its own.
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
            return Ok(FoundKeys { sha256: None, keyring: Err(StreamKeysError::Missing { at }) });
        };
        // Armored keys may stand one after the other.
        let bytes = values.join(&b'\n');
        let parsed = Keyring::parse(&bytes).map(|keyring| Some(Arc::new(keyring)));
        let keyring = parsed.map_err(|error| StreamKeysError::Unusable { at, error: error.to_string() });
        Ok(FoundKeys { sha256: Some(Sha256::of(&bytes)), keyring })
    }

    /// Sees what the store has of all that is known.
    async fn check_store(&self) {
        let artifacts = self.memory().artifacts();
        for (release, artifact) in artifacts {
            let wanted = {
                let memory = self.memory();
                // Without the keys it is unknown whether what is there would be good.
                let is_unknown = memory.troubles.keyring.is_some() && !artifact.signature_location.is_empty();
                memory.wanted(&release, &artifact).filter(|_| !is_unknown)
            };
            let Some(wanted) = wanted else { continue };
            match self.streams.inner.config.depot.find_artifact(&wanted).await {
                Ok(Some(found)) => self.memory().found(&release, &artifact.sha256, &found),
                Ok(None) => self.memory().missing(&release, &artifact.sha256),
                Err(fault) => {
                    tracing::warn!(stream = self.name, error = %fault.message, "could not look into the image store; it is tried again in five minutes");
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
        let stamped = self.memory().conclude(at);
        let status = self.memory().status.clone();
        if written.as_ref() == Some(&status) {
            return Ok(());
        }
        // This future may be dropped while it waits, and then it is unknown what is stored.
        *written = None;
        let (uid, ours) = (&self.uid, &status);
        let done = self.streams.inner.streams.modify("", &self.name, ObjectPart::Status, |stream| {
            if stream.metadata.uid == *uid {
                let is_ours = |one: &Condition| [STAMPED, DEGRADED, STORED].contains(&one.type_.as_str());
                let foreign = std::mem::take(&mut stream.status.conditions);
                stream.status = ours.clone();
                stream.status.conditions.retain(is_ours);
                stream.status.conditions.extend(foreign.into_iter().filter(|one| !is_ours(one)));
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
        let regarding = EventSubject {
            api_version: "firesteel.dev/v1alpha1".to_owned(),
            kind: "BootImageStream".to_owned(),
            namespace: String::new(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        };
        self.streams.inner.events.record_about(regarding, reason, is_warning, message);
    }
}
