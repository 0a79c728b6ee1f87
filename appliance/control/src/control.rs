//! The handle that the listeners call, and the loop behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use firesteel_boot::{AskerRule, Endpoints, KernelArguments, Mac, Sealer, ServedBootFiles};
use firesteel_handoff::Origins;
use firesteel_kube::{Change, Objects, Status};
use firesteel_plan::journal;
use firesteel_resources::{BareMetalHost, DiscoveredHost, Halt, HardwareData, ObjectMeta, Receipt, Secret};
use firesteel_runtime::{
    ControllerError, Events, Handles, HostKey, ImageIndex, IndexVersion, InstanceKey, Journals, Loop, Queue,
    ServedConfigs, StepLock, Tasks, key_of, sleep,
};
use jiff::{SignedDuration, Timestamp};
use ring::signature::Ed25519KeyPair;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use crate::{
    boot_watch::{self, BootWatch, UnknownHost},
    clock_doubt,
    first_boots::FirstBoots,
    images::Images,
    leases::LiveLeases,
    logs::HostLogs,
    metrics::Metrics,
    notes,
    power::BmcDriver,
    strangers::RememberedStrangers,
    views::{Identity, Views},
};

/// Hosts that are stepped at the same time: a step waits for the disk (fsync), not for the CPU.
const STEPPERS: usize = 4;
/// How often a step that somebody waits for is made again where others wrote in between.
const STEPS_NOW_MAX: usize = 20;
/// Network events waiting for the database, and as many stages of boots. A boot makes about ten.
const NOTES_MAX: usize = 4096;

/// Between two looks at a host of which something is damaged.
const DAMAGE_LOOKED_AT: Duration = Duration::from_secs(60);

/// What the appliance gives to its control loop.
pub struct Config {
    /// What it shares with the other controllers.
    pub handles: Handles,
    pub images: Arc<dyn Images>,
    pub bmc: Arc<dyn BmcDriver>,
    pub endpoints: Endpoints,
    /// Which askers for boot scripts may be hosts.
    pub asker_rule: AskerRule,
    /// What is served to boot the agent.
    pub boot_files: ServedBootFiles,
    pub sealer: Arc<Sealer>,
    pub instance_key: InstanceKey,
    pub receipt_key: Ed25519KeyPair,
    /// The images of boot image streams.
    pub index: Arc<dyn ImageIndex>,
    /// The configs that are served to hosts.
    pub served: Arc<dyn ServedConfigs>,
    /// Where they are found.
    pub origins: Arc<Origins>,
    /// From an installation to the deadline of its token, which `firesteel rehandoff` can put off.
    pub token_life: SignedDuration,
    pub pin_sha256: String,
    pub kernel_arguments: KernelArguments,
    /// How BMC certificates are judged, unless a host says otherwise.
    pub bmc_tls: firesteel_bmc::Tls,
    /// Hosts that are inspected, provisioned or deprovisioned at a time.
    pub hosts_at_once: usize,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// Shared by listeners and loop; clones are cheap.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) hosts: Objects<BareMetalHost>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) hardware: Objects<HardwareData>,
    pub(crate) discovered: Objects<DiscoveredHost>,
    pub(crate) halts: Objects<Halt>,
    pub(crate) receipts: Objects<Receipt>,
    pub(crate) journals: Journals,
    pub(crate) logs: HostLogs,
    pub(crate) boot_watch: BootWatch,
    pub(crate) leases: LiveLeases,
    pub(crate) first_boots: FirstBoots,
    pub(crate) strangers: Mutex<RememberedStrangers>,
    /// One reads which machines are remembered, and the others wait for that.
    pub(crate) strangers_reading: AsyncMutex<()>,
    pub(crate) metrics: Metrics,
    pub(crate) queue: Arc<Queue<HostKey>>,
    views: Mutex<Views>,
    pub(crate) started_at: Timestamp,
    notes: mpsc::Sender<notes::Note>,
    notes_end: Mutex<Option<mpsc::Receiver<notes::Note>>>,
    stages: mpsc::Sender<notes::Note>,
    stages_end: Mutex<Option<mpsc::Receiver<notes::Note>>>,
    tasks: Tasks,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A step under way. It ends with this, also where nobody waits for it any more: whoever asked for a boot
/// script may have hung up. The host would never be stepped again, so one that was broken off is made up for.
struct Stepping<'a> {
    control: &'a Control,
    key: HostKey,
    lock: Option<StepLock>,
    is_over: bool,
}

impl Stepping<'_> {
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        self.lock = None;
        if !self.is_over {
            self.control.inner.queue.wake(&self.key);
        }
    }
}

impl Control {
    /// # Errors
    /// When the registry lacks a kind that control needs.
    pub fn new(config: Config) -> Result<Self, Status> {
        let handles = &config.handles;
        let core = &handles.core;
        let (notes, notes_end) = mpsc::channel(NOTES_MAX);
        let (stages, stages_end) = mpsc::channel(NOTES_MAX);
        Ok(Self {
            inner: Arc::new(Inner {
                // What the planner says of hosts goes on when room is short, or no host could be deleted then.
                hosts: Objects::new(core, "metal3.io", "BareMetalHost")?.with_reserve(),
                secrets: Objects::new(core, "", "Secret")?,
                hardware: Objects::new(core, "metal3.io", "HardwareData")?,
                discovered: Objects::new(core, "firesteel.dev", "DiscoveredHost")?,
                halts: Objects::new(core, "firesteel.dev", "Halt")?,
                receipts: Objects::new(core, "firesteel.dev", "Receipt")?.with_reserve(),
                journals: handles.journals.clone(),
                logs: HostLogs::default(),
                boot_watch: BootWatch::default(),
                leases: LiveLeases::default(),
                first_boots: FirstBoots::default(),
                strangers: Mutex::default(),
                strangers_reading: AsyncMutex::default(),
                metrics: Metrics::default(),
                queue: Arc::clone(&handles.queue),
                views: Mutex::new(Views::new(config.hosts_at_once, handles.hosts.clone())),
                started_at: handles.runtime.now(),
                notes,
                notes_end: Mutex::new(Some(notes_end)),
                stages,
                stages_end: Mutex::new(Some(stages_end)),
                tasks: Tasks::default(),
                config,
            }),
        })
    }

    /// Runs until the first part fails or panics; everything that control does runs below this.
    ///
    /// # Errors
    /// When the store fails, or a task panicked.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let taken = ControllerError::Running;
        let notes_end = lock(&self.inner.notes_end).take();
        let notes_end = notes_end.ok_or(taken("control is running already: its notes are taken"))?;
        let stages_end = lock(&self.inner.stages_end).take();
        let stages_end = stages_end.ok_or(taken("control is running already: its stages are taken"))?;
        let events = self.events().clone();
        let mut loops: Vec<Loop> = vec![
            Box::pin(self.clone().follow_hosts()),
            Box::pin(self.clone().follow_secrets()),
            Box::pin(self.clone().follow_halts()),
            Box::pin(self.clone().follow_damage()),
            Box::pin(self.clone().follow_index()),
            Box::pin(notes::run(self.clone(), notes_end, stages_end)),
            Box::pin(async move { events.run().await }),
            Box::pin(boot_watch::run(self.clone())),
            Box::pin(clock_doubt::run(self.clone())),
        ];
        for _ in 0..STEPPERS {
            let control = self.clone();
            loops.push(Box::pin(async move { control.step_forever().await }));
        }
        self.inner.tasks.run(&*self.handles().runtime, loops).await
    }

    /// Has something done beside the steps; ends with the control loop.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(task);
    }

    /// The same on threads of their own: what is said to a BMC or an origin of images may take all of a thread's time.
    pub(crate) fn spawn_outward(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn_outward(task);
    }

    /// The views, for a few instructions: never across an await.
    pub(crate) fn views(&self) -> MutexGuard<'_, Views> {
        lock(&self.inner.views)
    }

    /// What all controllers share.
    pub(crate) fn handles(&self) -> &Handles {
        &self.inner.config.handles
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Waits until all hosts have been read after a start. Before that a known host looks like a stranger,
    /// and its agent like one of a host that is gone. `false`: they were not in time.
    pub(crate) async fn knows_hosts(&self) -> bool {
        self.handles().hosts.knows_hosts(&*self.handles().runtime).await
    }

    /// The wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.handles().runtime.now()
    }

    /// How old the store is: by this the deadlines of tokens are counted.
    pub(crate) fn age_s(&self) -> u64 {
        self.handles().clock.age_s()
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        sleep(&*self.handles().runtime, duration).await;
    }

    pub(crate) fn stages(&self) -> &mpsc::Sender<notes::Note> {
        &self.inner.stages
    }

    pub(crate) fn notes(&self) -> &mpsc::Sender<notes::Note> {
        &self.inner.notes
    }

    /// What the agents of the hosts say, their kernels and their consoles.
    #[must_use]
    pub fn logs(&self) -> HostLogs {
        self.inner.logs.clone()
    }

    /// Lists the machines that are no hosts and boot from the network, with how far each came.
    #[must_use]
    pub fn unknown_hosts(&self) -> Vec<UnknownHost> {
        let owned: BTreeSet<Mac> = self.views().by_mac.keys().copied().collect();
        self.inner.boot_watch.unknown(self.now(), |mac| owned.contains(mac))
    }

    /// Where events of the API are recorded.
    pub(crate) fn events(&self) -> &Events {
        &self.handles().events
    }

    async fn step_forever(&self) -> Result<(), ControllerError> {
        // A host cannot be judged before all are known: another one may have its MAC.
        self.handles().hosts.hosts_read().await;
        // Nor whether its disks may be changed.
        self.handles().hosts.halts_read().await;
        loop {
            let key = self.inner.queue.next().await;
            // One step of one host at a time: a second stepper puts it back.
            let Some(stepping) = self.begin_step(&key) else {
                self.inner.queue.wake_in(&key, Duration::from_millis(20));
                continue;
            };
            if let Err(status) = self.step_begun(&key, stepping).await {
                // A conflict means that somebody wrote in between: what they wrote is to be seen first.
                let delay = match (status.is_conflict(), status.is_unreadable()) {
                    (true, _) => Duration::ZERO,
                    // Its end is told.
                    (false, true) => DAMAGE_LOOKED_AT,
                    (false, false) => Duration::from_secs(5),
                };
                if !status.is_conflict() {
                    self.inner.metrics.step_failed();
                    tracing::error!(host = %key, error = %status.message, "stepping a host");
                }
                self.inner.queue.wake_in(&key, delay);
            }
        }
    }

    /// Steps a host at once, for a caller who needs what follows; waits for a step under way. Of a step that was
    /// broken off a write may still be on its way, and others note in the same journal: who comes between is read,
    /// and the step made again.
    pub(crate) async fn step_now(&self, key: &HostKey) -> Result<(), Status> {
        for _ in 1..STEPS_NOW_MAX {
            match self.one_step_now(key).await {
                Err(status) if status.is_conflict() => {}
                result => return result,
            }
        }
        self.one_step_now(key).await
    }

    async fn one_step_now(&self, key: &HostKey) -> Result<(), Status> {
        let stepping = self.wait_for_step(key).await;
        self.step_begun(key, stepping).await
    }

    async fn wait_for_step(&self, key: &HostKey) -> Stepping<'_> {
        let lock = self.handles().steps.wait(key, &*self.handles().runtime).await;
        self.stepping(key, lock)
    }

    async fn step_begun(&self, key: &HostKey, stepping: Stepping<'_>) -> Result<(), Status> {
        let result = self.step(key).await;
        match &result {
            Ok(()) => self.thaw(key),
            Err(status) if status.is_unreadable() => self.freeze(key, status).await,
            Err(_) => {}
        }
        if result.as_ref().is_err_and(|status| !status.is_conflict()) {
            // The others do not wait for a host that cannot say what it does. A write that was not acknowledged may
            // have been made.
            let has_slot = self.has_slot(key).await;
            let next = self.views().slots.cannot_say(key, has_slot);
            next.iter().for_each(|key| self.inner.queue.wake(key));
        }
        stepping.end();
        result
    }

    /// Whether the host has a slot by its stored memory; `None` where that cannot be read.
    async fn has_slot(&self, key: &HostKey) -> Option<bool> {
        let journal = self.inner.journals.read(key).await.ok()?;
        Some(journal.is_some_and(|journal| journal::has_slot(&journal)))
    }

    /// `None` while another step of the host is under way.
    fn begin_step(&self, key: &HostKey) -> Option<Stepping<'_>> {
        self.handles().steps.begin(key).map(|lock| self.stepping(key, lock))
    }

    fn stepping(&self, key: &HostKey, lock: StepLock) -> Stepping<'_> {
        Stepping { control: self, key: key.clone(), lock: Some(lock), is_over: false }
    }

    async fn follow_hosts(self) -> Result<(), ControllerError> {
        let mut changes = self.inner.hosts.subscribe().await?;
        let mut known: BTreeMap<HostKey, ObjectMeta> = BTreeMap::new();
        loop {
            match changes.next().await? {
                Change::Applied(host) => {
                    let key = key_of(&host);
                    self.host_is_readable(&key);
                    // A status is what a step made of the rest: it asks for no other one.
                    let asked = ObjectMeta { resource_version: String::new(), ..host.metadata.clone() };
                    if known.get(&key) == Some(&asked) {
                        continue;
                    }
                    known.insert(key.clone(), asked);
                    let macs: Vec<Mac> = host.spec.boot_mac().iter().filter_map(|mac| mac.parse().ok()).collect();
                    self.views().learn_host(&key, Some(Identity::of(&host.metadata, &macs)));
                    self.forget_discovered(&macs);
                    self.inner.queue.wake(&key);
                }
                Change::Deleted(host) => {
                    let key = key_of(&host);
                    self.host_is_readable(&key);
                    known.remove(&key);
                    let is_current = self.views().hosts.get(&key).is_none_or(|view| view.uid == host.metadata.uid);
                    self.views().host_went(&key, &host.metadata.uid);
                    // Its namesake, which was made since, may have one of its own already.
                    if is_current {
                        self.free_slot(&key);
                    }
                    self.views().consoles.end(&key);
                    self.inner.logs.forget(&key);
                    if let Err(status) = self.inner.journals.remove(&key, &host.metadata.uid).await {
                        tracing::warn!(host = %key, error = %status.message, "removing the journal");
                    }
                    let (control, namespace) = (self.clone(), key.namespace.clone());
                    self.spawn(async move { control.tidy_receipts(&namespace).await });
                    // A step under way may still publish what it decided for it; the next one takes that back.
                    self.inner.queue.wake(&key);
                    self.wake_hosts(|_| true);
                }
                Change::Synced => {
                    tracing::debug!("all hosts are known");
                    // Once: a watch that began anew finds the hosts that were counted before.
                    let hosts: Vec<HostKey> = known.keys().cloned().collect();
                    self.views().slots.expect(hosts);
                    self.handles().hosts.note_hosts_read();
                }
                Change::Undecodable { name, error } => {
                    self.host_is_unreadable(&HostKey { namespace: name.namespace, name: name.name }, &error);
                }
            }
        }
    }

    /// A host that is gone is not worked on any more.
    pub(crate) fn free_slot(&self, key: &HostKey) {
        let next = self.views().slots.forget(key);
        next.iter().for_each(|key| self.inner.queue.wake(key));
    }

    /// Has the host looked at that has this MAC, if any.
    pub(crate) fn wake_owner(&self, mac: Mac) {
        let key = self.views().by_mac.get(&mac).cloned();
        key.iter().for_each(|key| self.inner.queue.wake(key));
    }

    /// Wakes the hosts that may wait for what changed: a Secret of theirs, a MAC that another one had.
    pub(crate) fn wake_hosts(&self, concerned: impl Fn(&HostKey) -> bool) {
        let keys: Vec<HostKey> = self.views().hosts.keys().filter(|key| concerned(key)).cloned().collect();
        keys.iter().for_each(|key| self.inner.queue.wake(key));
    }

    /// Has the hosts looked at again that may have read this Secret.
    fn secret_changed(&self, secret: &ObjectMeta) {
        let namespace = &secret.namespace;
        self.wake_hosts(|key| key.namespace == *namespace);
    }

    /// Looks at the hosts again when streams say another form of hand-over.
    async fn follow_index(self) -> Result<(), ControllerError> {
        let mut changes = self.config().index.changes();
        let mut known = IndexVersion::default();
        loop {
            let now = *changes.borrow_and_update();
            if now.forms != known.forms {
                // One of them may have waited for the right form.
                self.wake_hosts(|_| true);
            }
            known = now;
            if changes.changed().await.is_err() {
                // Its end is that of the streams, which others tell.
                std::future::pending::<()>().await;
            }
        }
    }

    /// A changed Secret may be what a host of its namespace waits for.
    async fn follow_secrets(self) -> Result<(), ControllerError> {
        let mut changes = self.inner.secrets.subscribe().await?;
        loop {
            match changes.next().await? {
                Change::Applied(secret) | Change::Deleted(secret) => self.secret_changed(&secret.metadata),
                Change::Synced | Change::Undecodable { .. } => {}
            }
        }
    }
}

/// Unix milliseconds; 0 before 1970.
pub(crate) fn unix_milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
