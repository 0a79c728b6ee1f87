//! The handle that the listeners call, and the loops behind it.

use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_boot::{HostNetwork, Sealer};
use firesteel_handoff::ConfigOrigins;
use firesteel_kube::{ObjectChange, Objects, Status};
use firesteel_plan::instance::TokenAge;
use firesteel_resources::{MachineConfig, MachineConfigPool, Secret};
use firesteel_runtime::{
    ControllerError, Handles, HostEvent, HostInbox, HostTable, InstanceKey, Live, Loop, Tasks, follow, lock,
    opaque_debug,
};
use futures_util::future::BoxFuture;
use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};

use crate::pools::{PoolMember, Pools};
use crate::{refusal::Refusals, settings::ConfigSettings};

/// The group of pools and what they are rendered from.
const MACHINE_CONFIGS: &str = "machineconfiguration.openshift.io";

/// What the process gives to its config server.
pub struct ConfigServerConfig {
    /// What it shares with the other controllers.
    pub handles: Handles,
    /// Opens the tokens of hosts.
    pub sealer: Arc<Sealer>,
    pub instance_key: InstanceKey,
    /// How hosts reach the appliance now.
    pub host_network: Live<HostNetwork>,
    pub settings: ConfigSettings,
}

opaque_debug!(ConfigServerConfig, ConfigController);

/// Serves configs. Clones share it.
#[derive(Clone)]
pub struct ConfigController {
    pub(crate) inner: Arc<ConfigServerParts>,
}

pub(crate) struct ConfigServerParts {
    config: ConfigServerConfig,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) pool_objects: Objects<MachineConfigPool>,
    pub(crate) config_objects: Objects<MachineConfig>,
    pub(crate) pools: Pools,
    pub(crate) origins: Live<ConfigOrigins>,
    hosts: Mutex<HostTable<ServedHost>>,
    inbox: HostInbox,
    /// How often clients that are no hosts of ours were refused a config.
    strangers: Mutex<Refusals>,
    asked: Family<ConfigRequestLabels, Counter>,
    tasks: Tasks,
}

/// What is kept of a host.
#[derive(Debug, Default)]
pub(crate) struct ServedHost {
    /// The host as its pool sees it; absent until the first step.
    pub(crate) member: Option<PoolMember>,
    /// How often its config was refused.
    pub(crate) refusals: Refusals,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConfigRequestLabels {
    outcome: &'static str,
}

impl ConfigController {
    /// # Errors
    /// When the registry lacks a kind that is needed, or the settings are wrong.
    pub fn new(config: ConfigServerConfig) -> Result<Self, Status> {
        let core = &config.handles.core;
        let origins = config.settings.origins(&config.host_network.now());
        let origins = origins.map_err(|error| Status::bad_request(format!("--config-host: {error}")))?;
        let inbox = config.handles.hosts.subscribe();
        Ok(Self {
            inner: Arc::new(ConfigServerParts {
                secrets: Objects::new(core, "", "Secret")?,
                pool_objects: Objects::new(core, MACHINE_CONFIGS, "MachineConfigPool")?,
                config_objects: Objects::new(core, MACHINE_CONFIGS, "MachineConfig")?,
                pools: Pools::default(),
                origins: Live::new(origins),
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
    pub fn run(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(async move {
            let loops: Vec<Loop> = vec![
                Box::pin(self.clone().follow_hosts()),
                Box::pin(self.clone().follow_secrets()),
                Box::pin(self.clone().follow_pools()),
            ];
            self.inner.tasks.run(&*self.handles().runtime, loops).await
        })
    }

    /// Returns where configs are found, for control, which hands a host its stub.
    #[must_use]
    pub fn origins(&self) -> Live<ConfigOrigins> {
        self.inner.origins.clone()
    }

    /// Takes in that hosts reach the appliance in another way: stubs and tokens are made for it from now on.
    pub fn network_changed(&self) {
        let config = self.config();
        match config.settings.origins(&config.host_network.now()) {
            Ok(origins) => self.inner.origins.replace(origins),
            Err(error) => tracing::error!(%error, "could not say where configs are served now; the old places stay"),
        }
        self.inner.pools.wake();
    }

    /// Registers what is counted of requests.
    pub fn register_metrics(&self, to: &mut Registry) {
        let configs = "Configs that hosts asked for, by what they got: served, head, or why they were refused";
        to.register("firesteel_config_requests", configs, self.inner.asked.clone());
    }

    pub(crate) fn config(&self) -> &ConfigServerConfig {
        &self.inner.config
    }

    /// Counts a request for a config; `outcome` is a word of ours.
    pub fn count(&self, outcome: &'static str) {
        self.inner.asked.get_or_create(&ConfigRequestLabels { outcome }).inc();
    }

    pub(crate) fn handles(&self) -> &Handles {
        &self.config().handles
    }

    pub(crate) fn token_age(&self) -> TokenAge {
        TokenAge { age_s: self.handles().clock.age_s(), life: self.config().settings.token_life }
    }

    /// The hosts as control knows them by now, for a few instructions: never across an await.
    pub(crate) fn hosts(&self) -> MutexGuard<'_, HostTable<ServedHost>> {
        let mut hosts = lock(&self.inner.hosts);
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
        lock(&self.inner.strangers)
    }

    async fn follow_hosts(self) -> Result<(), ControllerError> {
        loop {
            self.inner.inbox.changed().await;
            drop(self.hosts());
        }
    }

    /// User data in a Secret may lead to a pool.
    async fn follow_secrets(self) -> Result<(), ControllerError> {
        let take = |change: ObjectChange<Secret>| match change {
            ObjectChange::Applied(secret) => self.inner.pools.secret_seen(&secret, &self.inner.origins.now().urls),
            ObjectChange::Deleted(secret) => self.inner.pools.on_secret_deleted(&secret),
            ObjectChange::Synced | ObjectChange::Undecodable { .. } => {}
        };
        follow(&self.inner.secrets, take).await
    }
}
