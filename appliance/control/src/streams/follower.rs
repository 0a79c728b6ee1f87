//! Follows one stream: asks its source, and fetches what is wanted, both at the same time. What is decided is
//! [`memory`](super::memory)'s; the status is written by one at a time, and only when it changed.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use firesteel_images::{Sha256, catalogue::Architecture, import::Stage, openpgp::Keyring};
use firesteel_kube::{Occurrence, Part, Regarding, Status};
use firesteel_resources::{
    boot_image_stream::{Artifact, BootImageStreamStatus, DEGRADED, STAMPED, STORED},
    condition::CONDITIONS_MAX,
};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

use super::{
    SECRET, Streams, Wake,
    depot::{Fault, Place},
    lock,
    memory::{Memory, Underway},
    offer, tell,
};
use crate::runtime::Runtime;

/// Progress is written this often at most: each write goes to the disk and to all who watch.
const TOLD_EVERY: Duration = Duration::from_secs(3);
/// How often a download under way is looked at.
const TICK: Duration = Duration::from_secs(1);
/// And so often until it is known how much room it takes: a fast one would be over before the first tick.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// Files are read this often: nobody tells when one is replaced.
const FILE_EVERY: Duration = Duration::from_secs(10);
/// What the store holds is seen this often; what is not there any more is fetched again.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// Room is made for so much more of what has no end that is known. All objects are read each time, and the smallest quotas
/// have some times as much.
const ROOM_AHEAD: u64 = 128 << 20;
/// After an error of the resource store.
const STORE_RETRY: Duration = Duration::from_secs(30);
/// Nothing is waited for longer, whatever the clock says.
const WAIT_MAX: Duration = Duration::from_secs(3600);

pub(super) struct Follower {
    streams: Streams,
    name: String,
    uid: String,
    wake: Arc<Wake>,
    memory: Mutex<Memory>,
    /// There may be something else to fetch.
    fetchable: Notify,
    /// One writes at a time: an older status would come after a newer one.
    written: tokio::sync::Mutex<Option<BootImageStreamStatus>>,
}

/// Why a fetch ended without a result.
enum Broken {
    /// It is not wanted any more.
    Unwanted,
    NoRoom(String),
}

impl Follower {
    pub(super) fn new(streams: Streams, name: &str, uid: &str, wake: Arc<Wake>) -> Self {
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
    pub(super) async fn run(self) {
        tokio::select! {
            biased;
            () = self.wake.ended() => tracing::debug!(stream = self.name, "the stream is gone"),
            () = self.ask_on() => {}
            () = self.fetch_on() => {}
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
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
        let (sha256, keyring) = self.keyring().await?;
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
        if self.memory().is_look_due(self.uptime(), LOOK_EVERY) {
            self.look().await;
        }
        self.write().await?;
        self.fetchable.notify_one();
        let memory = self.memory();
        let asks_at = if spec.paused { Duration::MAX } else { memory.ask_at() };
        let reads_at =
            if spec.source.file.is_empty() || spec.paused { Duration::MAX } else { self.uptime() + FILE_EVERY };
        Ok(asks_at.min(reads_at).min(self.uptime() + LOOK_EVERY))
    }

    async fn document(&self) -> Result<Result<Vec<u8>, String>, Status> {
        let source = self.memory().spec.source.clone();
        let depot = &self.streams.inner.config.depot;
        let Some(map) = source.config_map else {
            let place = if source.url.is_empty() { Place::File(source.file) } else { Place::Url(source.url) };
            return Ok(depot.document(&place).await);
        };
        let found = self.streams.inner.config_maps.get(&map.namespace, &map.name).await?;
        let Some(found) = found else {
            return Ok(Err(format!(
                "there is no ConfigMap {}/{}: make it, or correct spec.source",
                map.namespace, map.name
            )));
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
            None => Err(format!(
                "the ConfigMap {}/{} has no key {}: add it, or correct spec.source.configMap.key",
                map.namespace, map.name, map.key
            )),
        })
    }

    /// Takes in what the source gave.
    async fn take(&self, document: Result<Vec<u8>, String>, is_due: bool) {
        let times = (self.uptime(), self.now());
        let read = document.and_then(|bytes| {
            let fleet = self.wanted_architectures();
            let spec = self.memory().spec.clone();
            let sha256 = Sha256::of(&bytes);
            if self.memory().is_known(sha256, &fleet) {
                return Ok(None);
            }
            let offer = offer::read(&bytes, &spec, &fleet).map_err(|error| error.to_string())?;
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
            self.tell(true, "ReleaseWithdrawn", format!("{release} was taken back: it is given to no host any more"));
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
    #[allow(clippy::type_complexity, reason = "two answers of one look")]
    async fn keyring(&self) -> Result<(Option<Sha256>, Result<Option<Arc<Keyring>>, String>), Status> {
        let keyring = self.memory().spec.keyring.clone();
        let Some(keyring) = keyring else { return Ok((None, Ok(None))) };
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
            return Ok((None, Err(format!("{at} with the keys is not there: make it, or correct spec.keyring"))));
        };
        // Armored keys may stand one after the other.
        let bytes = values.join(&b'\n');
        let parsed = Keyring::parse(&bytes).map(|keyring| Some(Arc::new(keyring)));
        Ok((Some(Sha256::of(&bytes)), parsed.map_err(|error| format!("{at} with the keys cannot be used: {error}"))))
    }

    /// Sees what the store has of all that is known.
    async fn look(&self) {
        let artifacts = self.memory().artifacts();
        for (release, artifact) in artifacts {
            let wanted = {
                let memory = self.memory();
                // Without the keys nobody can say whether what is there would be good.
                let is_unknown = memory.troubles.keyring.is_some() && !artifact.signature_location.is_empty();
                memory.wanted(&release, &artifact).filter(|_| !is_unknown)
            };
            let Some(wanted) = wanted else { continue };
            match self.streams.inner.config.depot.look(&wanted).await {
                Ok(Some(found)) => self.memory().found(&release, &artifact.sha256, &found),
                Ok(None) => self.memory().missing(&release, &artifact.sha256),
                Err(fault) => {
                    tracing::warn!(stream = self.name, error = %fault.message, "looking into the image store");
                }
            }
        }
        let now = self.uptime();
        self.memory().looked(now);
    }

    async fn fetch_on(&self) {
        loop {
            let next = self.memory().next(self.uptime());
            let Some((release, artifact)) = next else {
                let until = self.memory().next_at(self.uptime()).unwrap_or(Duration::MAX);
                self.wait(until, &self.fetchable).await;
                continue;
            };
            self.fetch(&release, &artifact).await;
            if let Err(status) = self.write().await {
                tracing::warn!(stream = self.name, error = %status.message, "telling of a download");
            }
        }
    }

    async fn fetch(&self, release: &str, artifact: &Artifact) {
        let sha256 = &artifact.sha256;
        let (wanted, terms) = {
            let memory = self.memory();
            (memory.wanted(release, artifact), memory.terms(release, sha256))
        };
        let Some(wanted) = wanted else {
            let message = format!("{sha256} is no sha256: remove the status of this stream");
            let fault = Fault { message, is_permanent: true, ..Fault::default() };
            let now = self.uptime();
            self.memory().failed(release, sha256, &fault, now);
            return;
        };
        // What each attempt brings before it is known how long it is going to be would fill a store that is full.
        if self.streams.inner.config.quota_bytes.is_some() {
            match self.streams.make_room(0).await {
                Ok(None) => {}
                Ok(Some(shortfall)) => return self.has_no_room(release, sha256, shortfall),
                Err(error) => tracing::warn!(%error, "making room"),
            }
        }
        tracing::info!(stream = self.name, release, url = wanted.url, "fetching");
        let stage: Arc<Mutex<Option<Stage>>> = Arc::default();
        let heard = Arc::clone(&stage);
        let tell: super::Tell = Arc::new(move |stage| *lock(&heard) = Some(stage));
        let depot = Arc::clone(&self.streams.inner.config.depot);
        let ended = tokio::select! {
            biased;
            ended = depot.fetch(&wanted, tell) => Ok(ended),
            broken = self.watch(release, artifact, &stage) => Err(broken),
        };
        match ended {
            Ok(Ok(found)) => {
                let mut memory = self.memory();
                memory.troubles.room = None;
                if memory.terms(release, sha256) == terms {
                    tracing::info!(stream = self.name, release, url = wanted.url, "fetched and verified");
                    memory.found(release, sha256, &found);
                } else {
                    tracing::info!(stream = self.name, release, url = wanted.url, "fetched, and to be judged anew");
                    memory.put_back(release, sha256);
                }
            }
            Ok(Err(fault)) => self.failed(release, artifact, fault).await,
            Err(Broken::Unwanted) => self.memory().put_back(release, sha256),
            Err(Broken::NoRoom(message)) => self.has_no_room(release, sha256, message),
        }
    }

    fn has_no_room(&self, release: &str, sha256: &str, message: String) {
        tracing::warn!(stream = self.name, release, %message, "no room");
        let fault = Fault { message, is_full: true, ..Fault::default() };
        let now = self.uptime();
        self.memory().failed(release, sha256, &fault, now);
    }

    async fn failed(&self, release: &str, artifact: &Artifact, fault: Fault) {
        if fault.is_busy {
            tracing::debug!(stream = self.name, release, error = %fault.message, "waiting");
        } else {
            tracing::warn!(stream = self.name, release, error = %fault.message, "fetching failed");
        }
        let mut fault = fault;
        if fault.is_full {
            // The next attempt has what this makes.
            let coming = artifact.total_bytes.unwrap_or(0).saturating_mul(2);
            match self.streams.make_room(coming).await {
                Ok(Some(shortfall)) => fault.message = shortfall,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "making room"),
            }
        }
        if fault.is_permanent {
            self.tell(true, "ArtifactRefused", format!("{}: {}", tell::name_of(release, artifact), fault.message));
        }
        let now = self.uptime();
        self.memory().failed(release, &artifact.sha256, &fault, now);
    }

    /// Tells of a download until it is not to go on.
    async fn watch(&self, release: &str, artifact: &Artifact, stage: &Mutex<Option<Stage>>) -> Broken {
        let mut rate = super::rate::Rate::default();
        // So far there is room.
        let mut room_until: Option<u64> = None;
        let (mut told_at, mut total) = (None, artifact.total_bytes);
        let tells_from = self.uptime() + TICK;
        loop {
            let is_quick = matches!(*lock(stage), None | Some(Stage::Downloading { .. }));
            let is_early = is_quick && room_until.is_none();
            self.runtime().sleep_until(self.uptime() + if is_early { FIRST_LOOK } else { TICK }).await;
            if !self.memory().is_wanted(release, artifact) {
                return Broken::Unwanted;
            }
            let Some(now_at) = *lock(stage) else { continue };
            let underway = underway(now_at, &mut rate, self.uptime(), &mut total);
            if let Some((coming, until)) = coming(now_at, &artifact.part, room_until) {
                match self.streams.make_room(coming).await {
                    Ok(None) => {
                        self.memory().troubles.room = None;
                    }
                    Ok(Some(shortfall)) => return Broken::NoRoom(shortfall),
                    // Nothing is known of the room: the disk says when it is full.
                    Err(error) => tracing::warn!(%error, "making room"),
                }
                room_until = Some(until);
            }
            let is_due = self.uptime() >= told_at.map_or(tells_from, |at: Duration| at + TOLD_EVERY);
            self.memory().underway(release, &artifact.sha256, &underway);
            if is_due {
                told_at = Some(self.uptime());
                if let Err(status) = self.write().await {
                    tracing::debug!(stream = self.name, error = %status.message, "telling of a download");
                }
            }
        }
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
        let done = self.streams.inner.streams.modify("", &self.name, Part::Status, |stream| {
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
            self.tell(false, "ReleaseStamped", format!("{release}: all of it is here and verified"));
        }
        *written = Some(status);
        Ok(())
    }

    fn tell(&self, is_warning: bool, reason: &str, message: String) {
        if !self.streams.inner.config.tells_events {
            return;
        }
        let regarding = Regarding {
            api_version: "firesteel.dev/v1alpha1".to_owned(),
            kind: "BootImageStream".to_owned(),
            namespace: String::new(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        };
        let happened = Occurrence { regarding, is_warning, reason: reason.to_owned(), message, at: self.now() };
        if self.streams.inner.events.try_send(happened).is_err() {
            tracing::debug!(stream = self.name, "too many events are waiting");
        }
    }
}

/// What is about to come in of a download, and up to which of its bytes that is said; `None` where nothing is known, or
/// there is room.
fn coming(stage: Stage, part: &str, room_until: Option<u64>) -> Option<(u64, u64)> {
    let Stage::Downloading { done_bytes, total_bytes } = stage else { return None };
    if room_until.is_some_and(|until| done_bytes < until) {
        return None;
    }
    match total_bytes {
        Some(total) => {
            // What is downloaded stays until it is packed beside it; a file is moved.
            let packed = if super::releases::role(part).is_some() { 0 } else { total };
            Some((total.saturating_sub(done_bytes).saturating_add(packed), u64::MAX))
        }
        // The server has not answered yet.
        None if done_bytes == 0 => None,
        None => Some((ROOM_AHEAD, done_bytes.saturating_add(ROOM_AHEAD))),
    }
}

/// What is told of a stage. The total stays known while the bytes are packed.
fn underway(stage: Stage, rate: &mut super::rate::Rate, now: Duration, total: &mut Option<u64>) -> Underway {
    let plain = |done_bytes, total_bytes, message| Underway { done_bytes, total_bytes, message, ..Underway::default() };
    match stage {
        Stage::Rereading { done_bytes, total_bytes: kept } => plain(
            kept,
            *total,
            format!("reading again what was downloaded before: {}%", tell::percent(done_bytes, kept)),
        ),
        Stage::Downloading { done_bytes, total_bytes } => {
            *total = total_bytes.or(*total);
            rate.observe(now, done_bytes);
            let speed = rate.speed(done_bytes, total_bytes);
            Underway { done_bytes, total_bytes, speed, message: String::new() }
        }
        Stage::Importing { source_bytes, .. } => {
            let done = total.unwrap_or(source_bytes);
            let percent = tell::percent(source_bytes, done);
            plain(done, *total, format!("downloaded; checked and packed for disks: {percent}%"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a length nothing was asked for, and a download went on beyond the quota.
    #[test]
    fn room_is_made_for_what_is_known_and_piece_by_piece_for_what_is_not() {
        let stage = |done_bytes, total_bytes| Stage::Downloading { done_bytes, total_bytes };
        assert_eq!(coming(stage(0, None), "disk", None), None);
        assert_eq!(coming(stage(10, Some(100)), "disk", None), Some((190, u64::MAX)), "it is packed beside itself");
        assert_eq!(coming(stage(10, Some(100)), "iso", None), Some((90, u64::MAX)));
        assert_eq!(coming(stage(20, Some(100)), "disk", Some(u64::MAX)), None, "it is made once");
        let first = coming(stage(10, None), "disk", None);
        assert_eq!(first, Some((ROOM_AHEAD, 10 + ROOM_AHEAD)));
        let until = first.map(|(_, until)| until);
        assert_eq!(coming(stage(ROOM_AHEAD, None), "disk", until), None);
        assert_eq!(coming(stage(10 + ROOM_AHEAD, None), "disk", until), Some((ROOM_AHEAD, 10 + 2 * ROOM_AHEAD)));
        assert_eq!(coming(Stage::Rereading { done_bytes: 1, total_bytes: 2 }, "disk", None), None);
    }
}
