//! Follows the objects, and runs one [`Follower`] for each stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_facts::{Architecture, Sha256};
use firesteel_kube::{Core, ObjectChange, ObjectName, Objects, Status};
use firesteel_resources::{BootImageStream, ObjectMeta, Secret};
use firesteel_runtime::{ControllerError, Ending, Events, Runtime, follow, follow_objects, lock, opaque_debug, sleep};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;
use tokio::sync::{Notify, SetOnce};

use crate::{depot::Depot, follower::Follower, references};

/// The time between two looks at what the store holds against its quota.
const ROOM_EVERY: Duration = Duration::from_secs(600);

/// Is called with the raw digests of images that are gone from the store.
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

opaque_debug!(StreamControllerConfig);

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
    pub(crate) events: Events,
}

/// A stream that is followed.
#[derive(Debug)]
struct FollowedStream {
    uid: String,
    generation: i64,
    wake: Arc<FollowerSignal>,
    /// ConfigMaps and Secrets that it reads.
    reads: Vec<(&'static str, ObjectName)>,
}

/// Tells a follower that something changed, or that its stream is gone.
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
        let namers = references::KINDS.into_iter().map(|(group, kind)| Objects::new(core, group, kind));
        let inner = StreamControllerParts {
            streams: Objects::new(core, "firesteel.dev", "BootImageStream")?,
            config_maps: Objects::new(core, "", CONFIG_MAP)?,
            secrets: Objects::new(core, "", SECRET)?,
            hardware: Objects::new(core, "metal3.io", "HardwareData")?,
            groups: Objects::new(core, "firesteel.dev", "HostGroup")?,
            namers: namers.collect::<Result<_, _>>()?,
            followed: Mutex::default(),
            fleet: Mutex::default(),
            fleet_read: SetOnce::new(),
            room: tokio::sync::Mutex::new(()),
            events: Events::new(core, Arc::clone(&config.runtime), config.tells_events),
            config,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs until the store fails.
    ///
    /// # Errors
    /// What failed.
    pub fn run(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(async move {
            tokio::select! {
                ended = self.follow_streams() => ended,
                ended = self.follow_config_maps() => ended,
                ended = self.follow_secrets() => ended,
                ended = self.follow_hardware() => ended,
                ended = self.keep_to_quota() => ended,
                ended = self.inner.events.run() => ended,
            }
        })
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

    fn changed(&self, kind: &'static str, object: ObjectName) {
        let object = (kind, object);
        self.wake(|followed| followed.reads.contains(&object));
    }

    async fn follow_config_maps(&self) -> Result<(), ControllerError> {
        follow_objects(&self.inner.config_maps, |map| self.changed(CONFIG_MAP, name_of(&map))).await
    }

    async fn follow_secrets(&self) -> Result<(), ControllerError> {
        let changed = |secret: Secret| {
            let ObjectMeta { namespace, name, .. } = secret.metadata;
            self.changed(SECRET, ObjectName { namespace, name });
        };
        follow_objects(&self.inner.secrets, changed).await
    }

    /// Streams that name no architectures follow those of the hosts.
    async fn follow_hardware(&self) -> Result<(), ControllerError> {
        let take = |change: ObjectChange<Value>| {
            let before = self.fleet();
            match change {
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
                    // A watch that began again says so again.
                    let _known_before = self.inner.fleet_read.set(());
                }
                ObjectChange::Undecodable { .. } => {}
            }
            if self.fleet() != before {
                self.wake(|_| true);
            }
        };
        follow(&self.inner.hardware, take).await
    }

    /// The architectures that hosts have.
    pub(crate) fn fleet(&self) -> BTreeSet<Architecture> {
        lock(&self.inner.fleet).values().copied().collect()
    }

    async fn keep_to_quota(&self) -> Result<(), ControllerError> {
        loop {
            sleep(&*self.inner.config.runtime, ROOM_EVERY).await;
            if self.inner.config.quota_bytes.is_some() {
                match self.make_room(0).await {
                    Ok(None) => {}
                    Ok(Some(shortfall)) => tracing::warn!(%shortfall, "the image store is over its quota"),
                    Err(error) => {
                        tracing::warn!(%error, "could not look at the room of the image store; it is tried again in ten minutes")
                    }
                }
            }
        }
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
