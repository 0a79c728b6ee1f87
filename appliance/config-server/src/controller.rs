//! The handle that the listeners call, and the loops behind it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use firesteel_boot::{Endpoints, Sealer};
use firesteel_handoff::ConfigOrigins;
use firesteel_kube::{Core, ObjectChange, Objects, Status};
use firesteel_plan::instance::TokenAge;
use firesteel_resources::{MachineConfig, MachineConfigPool, Secret};
use firesteel_runtime::{
    ConfigsNotReady, ControllerError, Events, HostEvent, HostEvents, HostInbox, HostKey, HostQueue, HostTable,
    InstanceKey, Journals, Loop, Pending, Runtime, ServedConfigs, StoreClock, Tasks, Trust,
};
use firesteel_wire::hand_off::KernelArgumentEdit;
use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::{
    pools::{PoolMember, Pools},
    refusal::Refusals,
    settings::ConfigSettings,
};

/// The group of pools and what they are rendered from.
const MACHINE_CONFIGS: &str = "machineconfiguration.openshift.io";

/// What the process gives to its config server.
pub struct ConfigServerConfig {
    pub core: Core,
    pub runtime: Arc<dyn Runtime>,
    pub clock: StoreClock,
    /// The CA that hosts trust.
    pub trust: Trust,
    pub events: Events,
    pub journals: Journals,
    /// The hosts that there are.
    pub hosts: HostEvents,
    /// Looks at a host that fetched its config.
    pub queue: Arc<HostQueue<HostKey>>,
    /// Opens the tokens of hosts.
    pub sealer: Arc<Sealer>,
    pub instance_key: InstanceKey,
    pub endpoints: Endpoints,
    pub settings: ConfigSettings,
}

impl fmt::Debug for ConfigServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigServerConfig").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Serves configs. Clones share it.
#[derive(Clone)]
pub struct ConfigController {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    config: ConfigServerConfig,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) pool_objects: Objects<MachineConfigPool>,
    pub(crate) config_objects: Objects<MachineConfig>,
    pub(crate) pools: Pools,
    pub(crate) origins: Arc<ConfigOrigins>,
    hosts: Mutex<HostTable<ServedHost>>,
    inbox: HostInbox,
    /// How often who is no host of ours was refused a config.
    strangers: Mutex<Refusals>,
    asked: Family<ConfigRequestLabels, Counter>,
    tasks: Tasks,
}

/// What is kept of a host.
#[derive(Debug, Default)]
pub(crate) struct ServedHost {
    /// As its pool sees it; absent until the first step.
    pub(crate) member: Option<PoolMember>,
    /// How often its config was refused.
    pub(crate) refusals: Refusals,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConfigRequestLabels {
    outcome: &'static str,
}

impl fmt::Debug for ConfigController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigController").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl ConfigController {
    /// # Errors
    /// When the registry lacks a kind that is needed, or the settings are wrong.
    pub fn new(config: ConfigServerConfig) -> Result<Self, Status> {
        let core = &config.core;
        let origins = config.settings.origins(&config.endpoints);
        let origins = origins.map_err(|error| Status::bad_request(format!("--config-host: {error}")))?;
        let inbox = config.hosts.subscribe();
        Ok(Self {
            inner: Arc::new(Inner {
                secrets: Objects::new(core, "", "Secret")?,
                pool_objects: Objects::new(core, MACHINE_CONFIGS, "MachineConfigPool")?,
                config_objects: Objects::new(core, MACHINE_CONFIGS, "MachineConfig")?,
                pools: Pools::default(),
                origins: Arc::new(origins),
                hosts: Mutex::new(HostTable::new(inbox.clone())),
                inbox,
                strangers: Mutex::default(),
                asked: Family::default(),
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
            Box::pin(self.clone().follow_pools()),
        ];
        self.inner.tasks.run(&*self.config().runtime, loops).await
    }

    /// Where configs are found, for who hands a host its stub.
    #[must_use]
    pub fn origins(&self) -> Arc<ConfigOrigins> {
        Arc::clone(&self.inner.origins)
    }

    /// Counts a request that was refused before anything looked for a config; `outcome` is a word of ours.
    pub fn config_refused(&self, outcome: &'static str) {
        self.count(outcome);
    }

    /// Names what is counted of requests.
    pub fn register_metrics(&self, to: &mut Registry) {
        let configs = "Configs that hosts asked for, by what they got: served, head, or why they were refused";
        to.register("firesteel_config_requests", configs, self.inner.asked.clone());
    }

    pub(crate) fn config(&self) -> &ConfigServerConfig {
        &self.inner.config
    }

    /// A config was asked for; the outcomes are words of ours.
    pub(crate) fn count(&self, outcome: &'static str) {
        self.inner.asked.get_or_create(&ConfigRequestLabels { outcome }).inc();
    }

    pub(crate) fn events(&self) -> &Events {
        &self.config().events
    }

    /// The wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.config().runtime.now()
    }

    pub(crate) fn token_age(&self) -> TokenAge {
        TokenAge { age_s: self.config().clock.age_s(), life: self.config().settings.token_life }
    }

    /// Waits until all hosts have been read after a start. `false`: they were not in time.
    pub(crate) async fn knows_hosts(&self) -> bool {
        self.config().hosts.knows_hosts(&*self.config().runtime).await
    }

    /// The hosts as control knows them by now, for a few instructions: never across an await.
    pub(crate) fn hosts(&self) -> MutexGuard<'_, HostTable<ServedHost>> {
        let mut hosts = self.inner.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, event) in hosts.update() {
            match event {
                HostEvent::Stepped(stepped) => {
                    let metadata = &stepped.host.metadata;
                    if let Some(host) = hosts.of(&key, &metadata.uid) {
                        let member = PoolMember::of(&stepped.host, &stepped.memory, &stepped.journal);
                        self.note_member(host, member);
                    }
                }
                HostEvent::Gone => self.inner.pools.host_changed(true),
                HostEvent::Present { .. }
                | HostEvent::MemoryUnreadable { .. }
                | HostEvent::Undecodable { .. }
                | HostEvent::Decodable => {}
            }
        }
        hosts
    }

    /// Takes in what a step found of a host.
    fn note_member(&self, host: &mut ServedHost, member: PoolMember) {
        let before = host.member.replace(member.clone());
        let is_elsewhere = before.as_ref().is_none_or(|before| before.user_data != member.user_data);
        if before != Some(member) {
            self.inner.pools.host_changed(is_elsewhere);
        }
    }

    pub(crate) fn strangers(&self) -> MutexGuard<'_, Refusals> {
        self.inner.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow_hosts(self) -> Result<(), ControllerError> {
        loop {
            self.inner.inbox.changed().await;
            drop(self.hosts());
        }
    }

    /// User data in a Secret may lead to a pool.
    async fn follow_secrets(self) -> Result<(), ControllerError> {
        let mut changes = self.inner.secrets.subscribe().await?;
        loop {
            match changes.next().await? {
                ObjectChange::Applied(secret) => self.inner.pools.secret_seen(&secret, &self.inner.origins.urls),
                ObjectChange::Deleted(secret) => self.inner.pools.on_secret_deleted(&secret),
                ObjectChange::Synced | ObjectChange::Undecodable { .. } => {}
            }
        }
    }
}

impl ServedConfigs for ConfigController {
    fn check<'a>(&'a self, key: &'a HostKey, names: &'a [String]) -> Pending<'a, Result<(), ConfigsNotReady>> {
        Box::pin(async move {
            if !self.inner.pools.are_read(&*self.config().runtime).await {
                return Err(ConfigsNotReady::PoolsNotRead);
            }
            let checked = self.check_rendered(key, names).await;
            checked.map_err(|refusal| ConfigsNotReady::Refused(refusal.to_string()))
        })
    }

    fn kernel_arguments<'a>(
        &'a self,
        namespace: &'a str,
        names: &'a [String],
    ) -> Pending<'a, Result<KernelArgumentEdit, Status>> {
        Box::pin(self.kernel_arguments_of(namespace, names))
    }
}
