//! Follows the objects, and runs one [`Follower`] for each stream.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use firesteel_facts::{Architecture, Sha256};
use firesteel_kube::{Core, ObjectChange, ObjectName, Objects, RecordedEvent, Recorder, Status};
use firesteel_resources::{BootImageStream, Secret};
use firesteel_runtime::{ControllerError, Ending, Runtime};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;
use tokio::sync::{Notify, SetOnce, mpsc};

use crate::{depot::Depot, follower::Follower, references};

/// Who says so in events.
const COMPONENT: &str = "firesteel";
/// Between two looks at what the store holds against its quota.
const ROOM_EVERY: Duration = Duration::from_secs(600);

/// Called with the raw digests of images that are gone from the store.
pub type Forget = Box<dyn Fn(&[Sha256]) + Send + Sync>;

/// What the process gives.
pub struct StreamControllerConfig {
    pub core: Core,
    pub runtime: Arc<dyn Runtime>,
    pub depot: Arc<dyn Depot>,
    /// The most that the store of images may hold.
    pub quota_bytes: Option<u64>,
    /// What is fetched where neither stream nor hosts say: that of the appliance's own machine.
    pub own_architecture: Option<Architecture>,
    pub tells_events: bool,
    pub forget: Forget,
}

impl fmt::Debug for StreamControllerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamControllerConfig").field("quota_bytes", &self.quota_bytes).finish_non_exhaustive()
    }
}

/// What follows all streams. Clones are cheap.
#[derive(Clone, Debug)]
pub struct StreamController {
    pub(crate) inner: Arc<StreamControllerParts>,
}

#[derive(Debug)]
pub(crate) struct StreamControllerParts {
    pub(crate) config: StreamControllerConfig,
    pub(crate) streams: Objects<BootImageStream>,
    pub(crate) config_maps: Objects<Value>,
    pub(crate) secrets: Objects<Secret>,
    hardware: Objects<Value>,
    pub(crate) groups: Objects<Value>,
    /// Kinds whose objects name images.
    pub(crate) namers: Vec<Objects<Value>>,
    followed: Mutex<HashMap<String, FollowedStream>>,
    /// Architectures of hosts.
    fleet: Mutex<BTreeMap<ObjectName, Architecture>>,
    /// All hardware has been read since the start.
    pub(crate) fleet_read: SetOnce<()>,
    /// One at a time makes room.
    pub(crate) room: tokio::sync::Mutex<()>,
    pub(crate) events: mpsc::Sender<RecordedEvent>,
    events_end: Mutex<Option<mpsc::Receiver<RecordedEvent>>>,
}

/// Events waiting for the database.
const EVENTS_MAX: usize = 256;

/// A stream that is followed.
#[derive(Debug)]
struct FollowedStream {
    uid: String,
    generation: i64,
    wake: Arc<FollowerSignal>,
    /// ConfigMaps and Secrets that it reads.
    reads: Vec<(&'static str, ObjectName)>,
}

/// How a follower is told of something.
#[derive(Debug, Default)]
pub(crate) struct FollowerSignal {
    pub(crate) changed: Notify,
    /// The object is gone, or another one has its name.
    is_over: AtomicBool,
    over: Notify,
}

impl FollowerSignal {
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.over.notify_waiters();
    }

    pub(crate) async fn ended(&self) {
        let over = self.over.notified();
        tokio::pin!(over);
        // Before the flag is read: an end in between is not missed.
        over.as_mut().enable();
        if !self.is_over.load(Ordering::SeqCst) {
            over.await;
        }
    }
}

const CONFIG_MAP: &str = "ConfigMap";
pub(crate) const SECRET: &str = "Secret";

impl StreamController {
    /// # Errors
    /// When the registry lacks a kind that is needed.
    pub fn new(config: StreamControllerConfig) -> Result<Self, Status> {
        let core = &config.core;
        let mut namers = Vec::new();
        for (group, kind) in references::KINDS {
            namers.push(Objects::new(core, group, kind)?);
        }
        let (events, events_end) = mpsc::channel(EVENTS_MAX);
        let inner = StreamControllerParts {
            streams: Objects::new(core, "firesteel.dev", "BootImageStream")?,
            config_maps: Objects::new(core, "", CONFIG_MAP)?,
            secrets: Objects::new(core, "", SECRET)?,
            hardware: Objects::new(core, "metal3.io", "HardwareData")?,
            groups: Objects::new(core, "firesteel.dev", "HostGroup")?,
            namers,
            followed: Mutex::default(),
            fleet: Mutex::default(),
            fleet_read: SetOnce::new(),
            room: tokio::sync::Mutex::new(()),
            events,
            events_end: Mutex::new(Some(events_end)),
            config,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs until the store fails.
    ///
    /// # Errors
    /// What failed.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let events =
            lock(&self.inner.events_end).take().ok_or(ControllerError::Running("streams are followed already"))?;
        tokio::select! {
            ended = self.follow_streams() => ended,
            ended = self.follow_config_maps() => ended,
            ended = self.follow_secrets() => ended,
            ended = self.follow_hardware() => ended,
            ended = self.keep_to_quota() => ended,
            ended = self.write_events(events) => ended,
        }
    }

    async fn follow_streams(&self) -> Result<(), ControllerError> {
        let mut changes = self.inner.streams.subscribe().await?;
        let mut followers: FuturesUnordered<Ending> = FuturesUnordered::new();
        loop {
            let change = tokio::select! {
                Some(ended) = followers.next() => {
                    ended?;
                    continue;
                }
                change = changes.next() => change?,
            };
            match change {
                ObjectChange::Applied(stream) => followers.extend(self.stream_changed(&stream)),
                ObjectChange::Deleted(stream) => {
                    let name = &stream.metadata.name;
                    let mut followed = lock(&self.inner.followed);
                    if followed.get(name).is_some_and(|known| known.uid == stream.metadata.uid)
                        && let Some(gone) = followed.remove(name)
                    {
                        gone.wake.end();
                    }
                }
                ObjectChange::Synced => {}
                ObjectChange::Undecodable { name, error } => {
                    tracing::error!(stream = %name.name, %error, "a stored stream cannot be read; it is left alone");
                }
            }
        }
    }

    /// Wakes the follower of a stream, or starts one for a stream that is new.
    fn stream_changed(&self, stream: &BootImageStream) -> Option<Ending> {
        let (name, uid, generation) = (&stream.metadata.name, &stream.metadata.uid, stream.metadata.generation);
        let mut followed = lock(&self.inner.followed);
        if let Some(known) = followed.get_mut(name)
            && known.uid == *uid
        {
            known.reads = reads(stream);
            if std::mem::replace(&mut known.generation, generation) != generation {
                known.wake.changed.notify_one();
            }
            return None;
        }
        let wake = Arc::new(FollowerSignal::default());
        let new = FollowedStream { uid: uid.clone(), generation, wake: Arc::clone(&wake), reads: reads(stream) };
        if let Some(before) = followed.insert(name.clone(), new) {
            before.wake.end();
        }
        let follower = Follower::new(self.clone(), name, uid, wake);
        Some(self.inner.config.runtime.spawn_outward(Box::pin(async move { follower.run().await })))
    }

    fn wake(&self, is_concerned: impl Fn(&FollowedStream) -> bool) {
        let followed = lock(&self.inner.followed);
        followed.values().filter(|one| is_concerned(one)).for_each(|one| one.wake.changed.notify_one());
    }

    fn changed(&self, kind: &'static str, namespace: &str, name: &str) {
        let object = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
        self.wake(|followed| followed.reads.contains(&(kind, object.clone())));
    }

    async fn follow_config_maps(&self) -> Result<(), ControllerError> {
        let mut changes = self.inner.config_maps.subscribe().await?;
        loop {
            match changes.next().await? {
                ObjectChange::Applied(map) | ObjectChange::Deleted(map) => {
                    let text = |name: &str| map["metadata"][name].as_str().unwrap_or_default();
                    self.changed(CONFIG_MAP, text("namespace"), text("name"));
                }
                ObjectChange::Synced | ObjectChange::Undecodable { .. } => {}
            }
        }
    }

    async fn follow_secrets(&self) -> Result<(), ControllerError> {
        let mut changes = self.inner.secrets.subscribe().await?;
        loop {
            match changes.next().await? {
                ObjectChange::Applied(secret) | ObjectChange::Deleted(secret) => {
                    self.changed(SECRET, &secret.metadata.namespace, &secret.metadata.name);
                }
                ObjectChange::Synced | ObjectChange::Undecodable { .. } => {}
            }
        }
    }

    /// Streams that name no architectures follow those of the hosts.
    async fn follow_hardware(&self) -> Result<(), ControllerError> {
        let mut changes = self.inner.hardware.subscribe().await?;
        loop {
            let before = self.fleet();
            match changes.next().await? {
                ObjectChange::Applied(hardware) => {
                    let mut fleet = lock(&self.inner.fleet);
                    match references::architecture_of(&hardware) {
                        Some(architecture) => fleet.insert(name_of(&hardware), architecture),
                        None => fleet.remove(&name_of(&hardware)),
                    };
                }
                ObjectChange::Deleted(hardware) => {
                    lock(&self.inner.fleet).remove(&name_of(&hardware));
                }
                ObjectChange::Synced => {
                    // Told again by a watch that began anew.
                    let _known_before = self.inner.fleet_read.set(());
                }
                ObjectChange::Undecodable { .. } => {}
            }
            if self.fleet() != before {
                self.wake(|_| true);
            }
        }
    }

    /// The architectures that hosts have.
    pub(crate) fn fleet(&self) -> BTreeSet<Architecture> {
        lock(&self.inner.fleet).values().copied().collect()
    }

    async fn keep_to_quota(&self) -> Result<(), ControllerError> {
        loop {
            self.sleep(ROOM_EVERY).await;
            if self.inner.config.quota_bytes.is_some() {
                match self.make_room(0).await {
                    Ok(None) => {}
                    Ok(Some(shortfall)) => tracing::warn!(%shortfall, "the image store is over its quota"),
                    Err(error) => tracing::warn!(%error, "looking at the room of the image store"),
                }
            }
        }
    }

    async fn write_events(&self, mut events: mpsc::Receiver<RecordedEvent>) -> Result<(), ControllerError> {
        let mut recorder = Recorder::new(&self.inner.config.core, COMPONENT);
        while let Some(happened) = events.recv().await {
            if let Err(status) = recorder.record(&happened).await {
                tracing::debug!(stream = %happened.regarding.name, error = %status.message, "writing an event");
            }
        }
        Ok(())
    }

    async fn sleep(&self, duration: Duration) {
        let runtime = &self.inner.config.runtime;
        runtime.sleep_until(runtime.uptime() + duration).await;
    }
}

fn name_of(object: &Value) -> ObjectName {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    ObjectName { namespace: text("namespace"), name: text("name") }
}

fn reads(stream: &BootImageStream) -> Vec<(&'static str, ObjectName)> {
    let mut reads = Vec::new();
    if let Some(map) = &stream.spec.source.config_map {
        reads.push((CONFIG_MAP, ObjectName { namespace: map.namespace.clone(), name: map.name.clone() }));
    }
    if let Some(keyring) = &stream.spec.keyring {
        let kind = if keyring.kind == SECRET { SECRET } else { CONFIG_MAP };
        reads.push((kind, ObjectName { namespace: keyring.namespace.clone(), name: keyring.name.clone() }));
    }
    reads
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
