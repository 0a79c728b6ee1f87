//! Wires up the controllers of hosts: each gets what it needs, and none knows another.

use std::{fmt, sync::Arc};

use firesteel_boot::{HostNetwork, KernelArguments, Sealer, ServedBootFiles};
use firesteel_config_server::{ConfigController, ConfigServerConfig, ConfigSettings};
use firesteel_control::{BmcDriver, Control, ControlConfig, Images};
use firesteel_kube::{Core, Status};
use firesteel_plan::skew::MinimumVersions;
use firesteel_rollout::{RolloutConfig, RolloutController};
use firesteel_runtime::{ControllerError, Handles, HostTrust, InstanceKey, Live, Runtime, StoreClock};
use firesteel_sensors::{SensorController, SensorControllerConfig};
use firesteel_streams::StreamIndex;
use futures_util::future::BoxFuture;
use ring::{hmac, signature::Ed25519KeyPair};

use super::sensor_reader::HostSensorReader;

/// What the appliance gives to its controllers.
pub struct ControllersConfig {
    pub core: Core,
    pub runtime: Arc<dyn Runtime>,
    pub clock: StoreClock,
    pub images: Arc<dyn Images>,
    pub bmc: Arc<dyn BmcDriver>,
    /// How hosts reach the appliance now.
    pub host_network: Live<HostNetwork>,
    /// The files that boot the agent.
    pub boot_files: ServedBootFiles,
    pub sealer: Sealer,
    pub nonce_key: hmac::Key,
    pub receipt_key: Ed25519KeyPair,
    /// The CA that hosts trust.
    pub trust: HostTrust,
    /// The settings of the config server.
    pub configs: ConfigSettings,
    pub pin_sha256: String,
    pub kernel_arguments: KernelArguments,
    /// How BMC certificates are verified, unless a host overrides it.
    pub bmc_tls: firesteel_bmc::Tls,
    /// How many hosts are inspected, provisioned or deprovisioned at a time.
    pub hosts_at_once: usize,
    /// The oldest boot images that do not block an upgrade.
    pub boot_image_minimum: MinimumVersions,
    /// Whether events are created in the API for what happens to hosts; another part must delete old ones.
    pub tells_events: bool,
}

impl fmt::Debug for ControllersConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllersConfig").field("host_network", &self.host_network).finish_non_exhaustive()
    }
}

/// All controllers. Clones share them.
#[derive(Clone, Debug)]
pub struct HostControllers {
    pub control: Control,
    pub configs: ConfigController,
    pub rollout: RolloutController,
    /// Reads nothing before a service has it do so.
    pub sensors: SensorController,
    index: StreamIndex,
}

impl HostControllers {
    /// # Errors
    /// When the registry lacks a kind that is needed, or the settings of the config server are wrong.
    pub fn new(config: ControllersConfig) -> Result<Self, Status> {
        let handles = Handles::new(&config.core, config.runtime, config.clock, config.trust, config.tells_events)?;
        let index = StreamIndex::new(&config.core, Arc::clone(&handles.runtime))?;
        let instance_key = InstanceKey::new(config.nonce_key);
        let token_life = config.configs.token_life;
        let sealer = Arc::new(config.sealer);
        let configs = ConfigController::new(ConfigServerConfig {
            handles: handles.clone(),
            sealer: Arc::clone(&sealer),
            instance_key: instance_key.clone(),
            host_network: config.host_network.clone(),
            settings: config.configs,
        })?;
        let rollout = RolloutController::new(RolloutConfig {
            handles: handles.clone(),
            index: Arc::new(index.clone()),
            boot_image_minimum: config.boot_image_minimum,
        })?;
        let control = Control::new(ControlConfig {
            handles: handles.clone(),
            images: config.images,
            bmc: config.bmc,
            host_network: config.host_network,
            boot_files: config.boot_files,
            sealer,
            instance_key,
            receipt_key: Arc::new(config.receipt_key),
            index: Arc::new(index.clone()),
            served: Arc::new(configs.clone()),
            origins: configs.origins(),
            token_life,
            pin_sha256: config.pin_sha256.into(),
            kernel_arguments: Arc::new(config.kernel_arguments),
            bmc_tls: Arc::new(config.bmc_tls),
            hosts_at_once: config.hosts_at_once,
        })?;
        let sensors = SensorController::new(SensorControllerConfig {
            runtime: handles.runtime,
            hosts: handles.hosts,
            queue: handles.queue,
            board: handles.sensors,
            reader: Arc::new(HostSensorReader::new(control.sensors.clone())),
        });
        Ok(Self { control, configs, rollout, sensors, index })
    }

    /// Runs all until the first of them fails.
    ///
    /// # Errors
    /// The failure of the first one.
    pub fn run(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                ended = self.control.run() => ended,
                ended = self.configs.run() => ended,
                ended = self.rollout.run() => ended,
                ended = self.sensors.follow_hosts() => ended,
                ended = self.index.run() => ended,
            }
        })
    }
}
