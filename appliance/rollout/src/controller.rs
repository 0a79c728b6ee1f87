//! The handle, the hosts as groups and policy see them, and the loops behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_kube::{Objects, Status};
use firesteel_plan::{policy::Trigger, skew::MinimumVersions};
use firesteel_resources::{BareMetalHost, HostGroup, MachineConfiguration, Secret};
use firesteel_runtime::{
    ControllerError, Handles, HostEvent, HostInbox, HostTable, ImageIndex, IndexVersion, Loop, Tasks, follow_index,
    follow_objects, lock, opaque_debug,
};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::groups::{GroupCandidate, Groups, MemoryUnreadable};
use crate::policy::PolicyController;

/// What the process gives to the rollout of images.
pub struct RolloutConfig {
    /// What it shares with the other controllers.
    pub handles: Handles,
    /// The images of boot image streams.
    pub index: Arc<dyn ImageIndex>,
    /// Boot images that are older stand against an upgrade.
    pub boot_image_minimum: MinimumVersions,
}

opaque_debug!(RolloutConfig, RolloutController);

/// Leads hosts to their images. Clones share it.
#[derive(Clone)]
pub struct RolloutController {
    pub(crate) inner: Arc<RolloutParts>,
}

pub(crate) struct RolloutParts {
    config: RolloutConfig,
    pub(crate) hosts: Objects<BareMetalHost>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) host_groups: Objects<HostGroup>,
    /// Groups of which each is decoded by itself: one that cannot be read holds nothing up.
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

impl RolloutController {
    /// # Errors
    /// When the registry lacks a kind that is needed.
    pub fn new(config: RolloutConfig) -> Result<Self, Status> {
        let core = &config.handles.core;
        let inbox = config.handles.hosts.subscribe();
        Ok(Self {
            inner: Arc::new(RolloutParts {
                hosts: Objects::new(core, "metal3.io", "BareMetalHost")?.with_reserve(),
                secrets: Objects::new(core, "", "Secret")?,
                host_groups: Objects::new(core, "firesteel.dev", "HostGroup")?,
                group_values: Objects::new(core, "firesteel.dev", "HostGroup")?,
                configurations: Objects::new(core, "operator.openshift.io", "MachineConfiguration")?,
                configuration_values: Objects::new(core, "operator.openshift.io", "MachineConfiguration")?,
                machine_api_sets: Objects::new(core, "machine.openshift.io", "MachineSet")?,
                cluster_api_sets: Objects::new(core, "cluster.x-k8s.io", "MachineSet")?,
                groups: Groups::new(Arc::clone(&config.handles.runtime)),
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
    pub fn run(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(async move {
            let loops: Vec<Loop> = vec![
                Box::pin(self.clone().follow_hosts()),
                Box::pin(self.clone().follow_secrets()),
                Box::pin(self.clone().follow_index()),
                Box::pin(self.clone().follow_groups()),
                Box::pin(self.clone().run_groups()),
                Box::pin(self.clone().follow_values(Trigger::PolicyChanged, |parts| &parts.configuration_values)),
                Box::pin(self.clone().follow_values(Trigger::MachineSetChanged, |parts| &parts.machine_api_sets)),
                Box::pin(self.clone().follow_values(Trigger::MachineSetChanged, |parts| &parts.cluster_api_sets)),
                Box::pin(self.clone().run_policy()),
            ];
            self.inner.tasks.run(&*self.handles().runtime, loops).await
        })
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

    pub(crate) fn handles(&self) -> &Handles {
        &self.config().handles
    }

    /// The hosts as control knows them by now, for a few instructions: never across an await.
    pub(crate) fn known(&self) -> MutexGuard<'_, HostTable<RolloutHost>> {
        let mut known = lock(&self.inner.known);
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
                        self.put_place(&key, host, GroupCandidate::unreadable(&uid, MemoryUnreadable.to_string()));
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

    /// A stub of a set may be in a Secret: everything that may have read it is looked at again.
    async fn follow_secrets(self) -> Result<(), ControllerError> {
        let changed = |secret: Secret| {
            let metadata = &secret.metadata;
            if self.inner.policy.follows_secret(&metadata.namespace, &metadata.name) {
                self.inner.policy.ring(Trigger::StubChanged);
                self.inner.groups.wake(&metadata.namespace);
            }
        };
        follow_objects(&self.inner.secrets, changed).await
    }

    /// Looks again at whatever depends on the images of streams.
    async fn follow_index(self) -> Result<(), ControllerError> {
        let changed = |known: IndexVersion, now: IndexVersion| {
            if now.images != known.images {
                self.inner.policy.ring(Trigger::CatalogueChanged);
                self.inner.groups.wake_all();
            }
        };
        follow_index(&*self.config().index, changed).await;
        Ok(())
    }
}
