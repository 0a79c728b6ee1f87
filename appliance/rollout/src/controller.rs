//! The handle, the hosts as groups and policy see them, and the loops behind.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use firesteel_kube::{Core, ObjectChange, Objects, Status};
use firesteel_plan::{policy::Trigger, skew::MinimumVersions};
use firesteel_resources::{BareMetalHost, HostGroup, MachineConfiguration, ObjectMeta, Secret};
use firesteel_runtime::{
    ControllerError, Events, HostEvent, HostEvents, HostInbox, HostTable, ImageIndex, IndexVersion, Journals, Loop,
    Runtime, StepLocks, Tasks, Trust, sleep,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    groups::{GroupCandidate, Groups},
    policy::PolicyController,
};

/// What the process gives to the rollout of images.
pub struct RolloutConfig {
    pub core: Core,
    pub runtime: Arc<dyn Runtime>,
    /// The CA that hosts trust.
    pub trust: Trust,
    pub events: Events,
    pub journals: Journals,
    /// The hosts that there are.
    pub hosts: HostEvents,
    pub steps: StepLocks,
    /// The images of boot image streams.
    pub index: Arc<dyn ImageIndex>,
    /// Boot images that are older stand against an upgrade.
    pub boot_image_minimum: MinimumVersions,
}

impl fmt::Debug for RolloutConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolloutConfig").field("boot_image_minimum", &self.boot_image_minimum).finish_non_exhaustive()
    }
}

/// Leads hosts to their images. Clones share it.
#[derive(Clone)]
pub struct RolloutController {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    config: RolloutConfig,
    pub(crate) hosts: Objects<BareMetalHost>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) host_groups: Objects<HostGroup>,
    /// The same, each to be decoded by itself: one that cannot be read holds nothing up.
    pub(crate) group_values: Objects<Value>,
    pub(crate) configurations: Objects<MachineConfiguration>,
    pub(crate) configuration_values: Objects<Value>,
    pub(crate) machine_api_sets: Objects<Value>,
    pub(crate) cluster_api_sets: Objects<Value>,
    pub(crate) groups: Groups,
    pub(crate) policy: PolicyController,
    known: Mutex<HostTable<RolloutHost>>,
    inbox: HostInbox,
    tasks: Tasks,
}

/// What is kept of a host.
#[derive(Debug, Default)]
pub(crate) struct RolloutHost {
    /// Where it stands with images of groups.
    pub(crate) place: Option<GroupCandidate>,
    /// It was stepped since the start.
    pub(crate) is_stepped: bool,
}

/// How groups and sets are at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutSurvey {
    /// Groups of hosts whose rollout halted.
    pub halted_groups: u64,
    /// Sets whose boot images are managed, by `done`, `waiting`, `skipped` or `degraded`.
    pub boot_image_sets: BTreeMap<&'static str, u64>,
    /// Whether boot images are new enough for an upgrade; `None` while nothing looks at that.
    pub boot_images_new_enough: Option<bool>,
}

impl fmt::Debug for RolloutController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolloutController").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl RolloutController {
    /// # Errors
    /// When the registry lacks a kind that is needed.
    pub fn new(config: RolloutConfig) -> Result<Self, Status> {
        let core = &config.core;
        let inbox = config.hosts.subscribe();
        Ok(Self {
            inner: Arc::new(Inner {
                hosts: Objects::new(core, "metal3.io", "BareMetalHost")?.with_reserve(),
                secrets: Objects::new(core, "", "Secret")?,
                host_groups: Objects::new(core, "firesteel.dev", "HostGroup")?,
                group_values: Objects::new(core, "firesteel.dev", "HostGroup")?,
                configurations: Objects::new(core, "operator.openshift.io", "MachineConfiguration")?,
                configuration_values: Objects::new(core, "operator.openshift.io", "MachineConfiguration")?,
                machine_api_sets: Objects::new(core, "machine.openshift.io", "MachineSet")?,
                cluster_api_sets: Objects::new(core, "cluster.x-k8s.io", "MachineSet")?,
                groups: Groups::new(Arc::clone(&config.runtime)),
                policy: PolicyController::default(),
                known: Mutex::new(HostTable::new(inbox.clone())),
                inbox,
                tasks: Tasks::default(),
                config,
            }),
        })
    }

    /// Runs until the store fails, or a part panics.
    ///
    /// # Errors
    /// What failed.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let loops: Vec<Loop> = vec![
            Box::pin(self.clone().follow_hosts()),
            Box::pin(self.clone().follow_secrets()),
            Box::pin(self.clone().follow_index()),
            Box::pin(self.clone().follow_groups()),
            Box::pin(self.clone().run_groups()),
            Box::pin(self.clone().follow_configuration()),
            Box::pin(self.clone().follow_machine_api_sets()),
            Box::pin(self.clone().follow_cluster_api_sets()),
            Box::pin(self.clone().run_policy()),
        ];
        self.inner.tasks.run(&*self.config().runtime, loops).await
    }

    /// How groups and sets are now.
    #[must_use]
    pub fn survey(&self) -> RolloutSurvey {
        let (boot_image_sets, boot_images_new_enough) = self.inner.policy.latest_result();
        RolloutSurvey { halted_groups: self.inner.groups.halted(), boot_image_sets, boot_images_new_enough }
    }

    pub(crate) fn config(&self) -> &RolloutConfig {
        &self.inner.config
    }

    pub(crate) fn events(&self) -> &Events {
        &self.config().events
    }

    /// The wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.config().runtime.now()
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        sleep(&*self.config().runtime, duration).await;
    }

    /// The hosts as control knows them by now, for a few instructions: never across an await.
    pub(crate) fn known(&self) -> MutexGuard<'_, HostTable<RolloutHost>> {
        let mut known = self.inner.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, event) in known.update() {
            match event {
                HostEvent::Stepped(stepped) => {
                    if let Some(host) = known.of(&key, &stepped.host.metadata.uid) {
                        host.is_stepped = true;
                        self.put_place(&key, host, self.place_of(&stepped.host, &stepped.memory, &stepped.journal));
                    }
                }
                HostEvent::MemoryUnreadable { uid } => {
                    if let Some(host) = known.of(&key, &uid) {
                        // Nothing can be said of a host whose memory cannot be read.
                        let why = "its memory cannot be read by this appliance".to_owned();
                        self.put_place(&key, host, GroupCandidate::unreadable(&uid, why));
                    }
                }
                HostEvent::Gone => self.inner.groups.wake(&key.namespace),
                HostEvent::Present { .. } | HostEvent::Undecodable { .. } | HostEvent::Decodable => {}
            }
        }
        known
    }

    async fn follow_hosts(self) -> Result<(), ControllerError> {
        loop {
            self.inner.inbox.changed().await;
            drop(self.known());
        }
    }

    /// A stub of a set may be in a Secret.
    async fn follow_secrets(self) -> Result<(), ControllerError> {
        let mut changes = self.inner.secrets.subscribe().await?;
        loop {
            match changes.next().await? {
                ObjectChange::Applied(secret) | ObjectChange::Deleted(secret) => self.secret_changed(&secret.metadata),
                ObjectChange::Synced | ObjectChange::Undecodable { .. } => {}
            }
        }
    }

    /// Has everything looked at again that may have read this Secret.
    fn secret_changed(&self, secret: &ObjectMeta) {
        if self.inner.policy.follows_secret(&secret.namespace, &secret.name) {
            self.inner.policy.ring(Trigger::StubChanged);
            self.inner.groups.wake(&secret.namespace);
        }
    }

    /// Looks again at whatever depends on the images of streams.
    async fn follow_index(self) -> Result<(), ControllerError> {
        let mut changes = self.config().index.changes();
        let mut known = IndexVersion::default();
        loop {
            let now = *changes.borrow_and_update();
            if now.images != known.images {
                self.inner.policy.ring(Trigger::CatalogueChanged);
                self.inner.groups.wake_all();
            }
            known = now;
            if changes.changed().await.is_err() {
                // Its end is that of the streams, which others tell.
                std::future::pending::<()>().await;
            }
        }
    }
}
