//! The parts of control, wired up: each has what it needs, and none of them knows this.

use std::sync::{Arc, Mutex};

use firesteel_boot::{HostNetwork, KernelArguments, Sealer, ServedBootFiles};
use firesteel_handoff::ConfigOrigins;
use firesteel_kube::{Objects, Status};
use firesteel_resources::{BareMetalHost, Secret};
use firesteel_runtime::{Handles, ImageIndex, InstanceKey, Live, ServedConfigs, opaque_debug};
use jiff::SignedDuration;
use ring::signature::Ed25519KeyPair;
use tokio::sync::mpsc;

use crate::agents::AgentConversations;
use crate::bmc_logins::BmcLogins;
use crate::bmc_sensors::SensorReads;
use crate::bmc_work::BmcWork;
use crate::boot::BootDecisions;
use crate::boot_observations::BootObserver;
use crate::console::readers::ConsoleReaders;
use crate::discovered_watch::DiscoveredWatch;
use crate::discovery::UnownedMachines;
use crate::halt_watch::HaltWatch;
use crate::hand_off::HandOffReader;
use crate::hardware_store::HardwareStore;
use crate::image_fetches::ImageFetches;
use crate::images::Images;
use crate::instances::InstanceReports;
use crate::network_log::NetworkLog;
use crate::notes::JournalNote;
use crate::power::BmcDriver;
use crate::receipts::ReceiptKeeper;
use crate::reconciler::HostReconciler;
use crate::shared::Shared;
use crate::unowned_objects::UnownedObjects;

/// Network events waiting for the database, and as many stages of boots. A boot makes about ten.
const NOTES_MAX: usize = 4096;

/// What the appliance gives to its control loop.
pub struct ControlConfig {
    /// What it shares with the other controllers.
    pub handles: Handles,
    pub images: Arc<dyn Images>,
    pub bmc: Arc<dyn BmcDriver>,
    /// How hosts reach the appliance now.
    pub host_network: Live<HostNetwork>,
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
    pub origins: Live<ConfigOrigins>,
    /// The time from an installation to the deadline of its token, which `firesteel extend-token` can put off.
    pub token_life: SignedDuration,
    pub pin_sha256: Arc<str>,
    pub kernel_arguments: Arc<KernelArguments>,
    /// How BMC certificates are judged, unless a host says otherwise.
    pub bmc_tls: Arc<firesteel_bmc::Tls>,
    /// Hosts that are inspected, provisioned or deprovisioned at a time.
    pub hosts_at_once: usize,
}

opaque_debug!(ControlConfig, ControlParts, AgentConversations, BootDecisions, BootObserver);
opaque_debug!(ImageFetches, InstanceReports, NetworkLog, SensorReads);

/// The parts of control. Those that listeners call are public.
pub struct ControlParts {
    pub network: NetworkLog,
    pub observations: BootObserver,
    pub boots: BootDecisions,
    pub agents: AgentConversations,
    pub instances: InstanceReports,
    pub images: ImageFetches,
    pub sensors: SensorReads,
    pub(crate) shared: Arc<Shared>,
    pub(crate) halts: HaltWatch,
    pub(crate) discovered: DiscoveredWatch,
    pub(crate) reconciler: HostReconciler,
    pub(crate) notes_end: Mutex<Option<mpsc::Receiver<JournalNote>>>,
    pub(crate) stages_end: Mutex<Option<mpsc::Receiver<JournalNote>>>,
}

impl ControlParts {
    pub(crate) fn new(config: ControlConfig) -> Result<Self, Status> {
        let core = config.handles.core.clone();
        let (notes, notes_end) = mpsc::channel(NOTES_MAX);
        let (stages, stages_end) = mpsc::channel(NOTES_MAX);
        let all = Arc::new(Shared::new(config.handles.clone(), config.hosts_at_once, notes, stages));
        let shared = || Arc::clone(&all);
        // What the planner says of hosts goes on when room is short, or no host could be deleted then.
        let hosts: Objects<BareMetalHost> = Objects::new(&core, "metal3.io", "BareMetalHost")?.with_reserve();
        let secrets: Objects<Secret> = Objects::new(&core, "", "Secret")?;
        let network = NetworkLog { shared: shared() };
        let observations = BootObserver { shared: shared(), network: network.clone(), boot_files: config.boot_files };
        let unowned = UnownedObjects::new(shared(), Objects::new(&core, "firesteel.dev", "DiscoveredHost")?);
        let hardware = HardwareStore { hardware: Objects::new(&core, "metal3.io", "HardwareData")? };
        let receipts = Objects::new(&core, "firesteel.dev", "Receipt")?.with_reserve();
        let receipts = ReceiptKeeper { shared: shared(), receipts, receipt_key: Arc::clone(&config.receipt_key) };
        let machines = UnownedMachines {
            shared: shared(),
            unowned: unowned.clone(),
            observations: observations.clone(),
            first_boots: Arc::default(),
        };
        let agents = AgentConversations {
            shared: shared(),
            machines: machines.clone(),
            observations: observations.clone(),
            receipts: receipts.clone(),
            hardware: hardware.clone(),
            sealer: Arc::clone(&config.sealer),
        };
        let halts = HaltWatch { shared: shared(), halts: Objects::new(&core, "firesteel.dev", "Halt")? };
        let reconciler = reconciler(&config, &all, HostObjects { hosts, secrets, unowned, hardware, receipts });
        let boots = BootDecisions {
            shared: shared(),
            network: network.clone(),
            observations: observations.clone(),
            reconciler: reconciler.clone(),
            machines,
            boot_files: config.boot_files,
            host_network: config.host_network,
            pin_sha256: config.pin_sha256,
            kernel_arguments: config.kernel_arguments,
            sealer: config.sealer,
        };
        Ok(Self {
            network,
            observations,
            boots,
            agents,
            instances: reconciler.instances.clone(),
            images: reconciler.images.clone(),
            sensors: sensor_reads(&all, &reconciler),
            shared: Arc::clone(&all),
            halts,
            discovered: DiscoveredWatch { shared: shared(), unowned: reconciler.unowned.clone() },
            reconciler,
            notes_end: Mutex::new(Some(notes_end)),
            stages_end: Mutex::new(Some(stages_end)),
        })
    }
}

/// Makes the reader of sensors, which logs in as the reconciler does.
fn sensor_reads(shared: &Arc<Shared>, reconciler: &HostReconciler) -> SensorReads {
    let (logins, hosts) = (reconciler.bmc.logins.clone(), reconciler.hosts.clone());
    SensorReads { shared: Arc::clone(shared), logins, hosts }
}

/// Where the reconciler reads and writes what it knows of hosts.
struct HostObjects {
    hosts: Objects<BareMetalHost>,
    secrets: Objects<Secret>,
    unowned: UnownedObjects,
    hardware: HardwareStore,
    receipts: ReceiptKeeper,
}

fn reconciler(config: &ControlConfig, shared: &Arc<Shared>, objects: HostObjects) -> HostReconciler {
    let HostObjects { hosts, secrets, unowned, hardware, receipts } = objects;
    let shared = || Arc::clone(shared);
    let logins = BmcLogins {
        shared: shared(),
        secrets: secrets.clone(),
        bmc: Arc::clone(&config.bmc),
        bmc_tls: Arc::clone(&config.bmc_tls),
    };
    let consoles = ConsoleReaders { shared: shared(), logins: logins.clone(), hosts: hosts.clone() };
    let host_network = config.host_network.clone();
    let bmc = BmcWork { shared: shared(), logins, consoles: consoles.clone(), host_network: host_network.clone() };
    let images = ImageFetches { shared: shared(), images: Arc::clone(&config.images), secrets: secrets.clone() };
    let instances = InstanceReports {
        shared: shared(),
        hosts: hosts.clone(),
        sealer: Arc::clone(&config.sealer),
        instance_key: config.instance_key.clone(),
        token_life: config.token_life,
    };
    let reader = HandOffReader {
        shared: shared(),
        secrets: secrets.clone(),
        index: Arc::clone(&config.index),
        served: Arc::clone(&config.served),
        origins: config.origins.clone(),
    };
    HostReconciler {
        shared: shared(),
        hosts,
        secrets,
        unowned,
        hardware,
        images,
        receipts,
        bmc,
        consoles,
        instances,
        reader,
        host_network,
    }
}
