//! The parts of control, wired up: each has what it needs, and none of them knows this.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use firesteel_boot::{AskerRule, Endpoints, KernelArguments, Sealer, ServedBootFiles};
use firesteel_handoff::ConfigOrigins;
use firesteel_kube::{Objects, Status};
use firesteel_resources::{BareMetalHost, Secret};
use firesteel_runtime::{Handles, ImageIndex, InstanceKey, ServedConfigs};
use jiff::SignedDuration;
use ring::signature::Ed25519KeyPair;
use tokio::sync::mpsc;

use crate::{
    agents::AgentConversations, bmc_logins::BmcLogins, bmc_work::BmcWork, boot::BootDecisions,
    boot_observations::BootObservations, console::readers::ConsoleReaders, discovery::UnownedMachines,
    halt_watch::HaltWatch, hand_off::HandOffReader, hardware_store::HardwareStore, image_fetches::ImageFetches,
    images::Images, instances::InstanceReports, network_log::NetworkLog, notes::JournalNote, power::BmcDriver,
    receipts::ReceiptKeeper, reconciler::HostReconciler, shared::Shared, unowned_objects::UnownedObjects,
};

/// Network events waiting for the database, and as many stages of boots. A boot makes about ten.
const NOTES_MAX: usize = 4096;

/// What the appliance gives to its control loop.
pub struct ControlConfig {
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
    pub receipt_key: Arc<Ed25519KeyPair>,
    /// The images of boot image streams.
    pub index: Arc<dyn ImageIndex>,
    /// The configs that are served to hosts.
    pub served: Arc<dyn ServedConfigs>,
    /// Where they are found.
    pub origins: Arc<ConfigOrigins>,
    /// From an installation to the deadline of its token, which `firesteel extend-token` can put off.
    pub token_life: SignedDuration,
    pub pin_sha256: Arc<str>,
    pub kernel_arguments: Arc<KernelArguments>,
    /// How BMC certificates are judged, unless a host says otherwise.
    pub bmc_tls: Arc<firesteel_bmc::Tls>,
    /// Hosts that are inspected, provisioned or deprovisioned at a time.
    pub hosts_at_once: usize,
}

impl fmt::Debug for ControlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlConfig").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// What the appliance has of control.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) network: NetworkLog,
    pub(crate) observations: BootObservations,
    pub(crate) boots: BootDecisions,
    pub(crate) agents: AgentConversations,
    pub(crate) instances: InstanceReports,
    pub(crate) images: ImageFetches,
    pub(crate) halts: HaltWatch,
    pub(crate) reconciler: HostReconciler,
    pub(crate) notes_end: Mutex<Option<mpsc::Receiver<JournalNote>>>,
    pub(crate) stages_end: Mutex<Option<mpsc::Receiver<JournalNote>>>,
}

impl Parts {
    pub(crate) fn new(config: &ControlConfig) -> Result<Self, Status> {
        let core = &config.handles.core;
        let (notes, notes_end) = mpsc::channel(NOTES_MAX);
        let (stages, stages_end) = mpsc::channel(NOTES_MAX);
        let shared = Arc::new(Shared::new(config.handles.clone(), config.hosts_at_once, notes, stages));
        let tools = Tools::new(config, &shared)?;
        let machines = UnownedMachines {
            shared: Arc::clone(&shared),
            unowned: tools.unowned.clone(),
            observations: tools.observations.clone(),
            first_boots: Arc::default(),
        };
        let agents = AgentConversations {
            shared: Arc::clone(&shared),
            machines: machines.clone(),
            observations: tools.observations.clone(),
            receipts: tools.receipts.clone(),
            hardware: tools.hardware.clone(),
            sealer: Arc::clone(&config.sealer),
        };
        let reconciler = reconciler(config, &shared, &tools);
        let boots = boots(config, &shared, &tools, machines, reconciler.clone());
        let halts = HaltWatch { shared: Arc::clone(&shared), halts: Objects::new(core, "firesteel.dev", "Halt")? };
        let Tools { network, observations, images, instances, .. } = tools;
        Ok(Self {
            shared,
            network,
            observations,
            boots,
            agents,
            instances,
            images,
            halts,
            reconciler,
            notes_end: Mutex::new(Some(notes_end)),
            stages_end: Mutex::new(Some(stages_end)),
        })
    }
}

/// What the other parts are made of.
struct Tools {
    hosts: Objects<BareMetalHost>,
    secrets: Objects<Secret>,
    network: NetworkLog,
    observations: BootObservations,
    unowned: UnownedObjects,
    hardware: HardwareStore,
    images: ImageFetches,
    receipts: ReceiptKeeper,
    instances: InstanceReports,
}

impl Tools {
    fn new(config: &ControlConfig, shared: &Arc<Shared>) -> Result<Self, Status> {
        let core = &config.handles.core;
        // What the planner says of hosts goes on when room is short, or no host could be deleted then.
        let hosts: Objects<BareMetalHost> = Objects::new(core, "metal3.io", "BareMetalHost")?.with_reserve();
        let secrets: Objects<Secret> = Objects::new(core, "", "Secret")?;
        let network = NetworkLog { shared: Arc::clone(shared) };
        let observations =
            BootObservations { shared: Arc::clone(shared), network: network.clone(), boot_files: config.boot_files };
        let discovered = Objects::new(core, "firesteel.dev", "DiscoveredHost")?;
        let receipts = Objects::new(core, "firesteel.dev", "Receipt")?.with_reserve();
        Ok(Self {
            unowned: UnownedObjects::new(Arc::clone(shared), discovered),
            hardware: HardwareStore { hardware: Objects::new(core, "metal3.io", "HardwareData")? },
            images: ImageFetches {
                shared: Arc::clone(shared),
                images: Arc::clone(&config.images),
                secrets: secrets.clone(),
            },
            receipts: ReceiptKeeper {
                shared: Arc::clone(shared),
                receipts,
                receipt_key: Arc::clone(&config.receipt_key),
            },
            instances: InstanceReports {
                shared: Arc::clone(shared),
                hosts: hosts.clone(),
                sealer: Arc::clone(&config.sealer),
                instance_key: config.instance_key.clone(),
                token_life: config.token_life,
            },
            hosts,
            secrets,
            network,
            observations,
        })
    }
}

fn reconciler(config: &ControlConfig, shared: &Arc<Shared>, tools: &Tools) -> HostReconciler {
    let logins = BmcLogins {
        shared: Arc::clone(shared),
        secrets: tools.secrets.clone(),
        bmc: Arc::clone(&config.bmc),
        bmc_tls: Arc::clone(&config.bmc_tls),
    };
    let consoles = ConsoleReaders { shared: Arc::clone(shared), logins: logins.clone(), hosts: tools.hosts.clone() };
    let bmc = BmcWork { shared: Arc::clone(shared), logins, consoles: consoles.clone(), endpoints: config.endpoints };
    let reader = HandOffReader {
        shared: Arc::clone(shared),
        secrets: tools.secrets.clone(),
        index: Arc::clone(&config.index),
        served: Arc::clone(&config.served),
        origins: Arc::clone(&config.origins),
    };
    HostReconciler {
        shared: Arc::clone(shared),
        hosts: tools.hosts.clone(),
        secrets: tools.secrets.clone(),
        unowned: tools.unowned.clone(),
        hardware: tools.hardware.clone(),
        images: tools.images.clone(),
        receipts: tools.receipts.clone(),
        bmc,
        consoles,
        instances: tools.instances.clone(),
        reader,
        endpoints: config.endpoints,
    }
}

fn boots(
    config: &ControlConfig,
    shared: &Arc<Shared>,
    tools: &Tools,
    machines: UnownedMachines,
    reconciler: HostReconciler,
) -> BootDecisions {
    BootDecisions {
        shared: Arc::clone(shared),
        network: tools.network.clone(),
        observations: tools.observations.clone(),
        reconciler,
        machines,
        asker_rule: config.asker_rule,
        boot_files: config.boot_files,
        endpoints: config.endpoints,
        pin_sha256: Arc::clone(&config.pin_sha256),
        kernel_arguments: Arc::clone(&config.kernel_arguments),
        sealer: Arc::clone(&config.sealer),
    }
}
