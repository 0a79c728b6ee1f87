//! One life of the appliance: the real control on the store that outlives it, and the real DHCP
//! engine on leases that do, too.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_appliance::serve::controllers::{ControllersConfig, HostControllers};
use firesteel_appliance::serve::{dhcp_clients, kinds};
use firesteel_boot::{
    AskerRule, BootFile, BootFileSet, Endpoints, HostNetwork, KernelArguments, Sealer, ServedBootFiles,
};
use firesteel_config_server::ConfigSettings;
use firesteel_control::{Acquiring, Control, ImageFault, Images};
use firesteel_dhcp::{
    self as dhcp, DhcpEngine, DhcpRequester, Ipv4Network, Lease, LeaseChange, Pool, QuarantinedAddress, Subnet,
};
use firesteel_facts::{Mac, Sha256};
use firesteel_images::import::{AcquisitionStage, ImageRequest};
use firesteel_kube::{Core, Objects};
use firesteel_plan::host::ReadyImage;
use firesteel_resources::{BareMetalHost, Halt, Secret};
use firesteel_runtime::{Live, Runtime, StoreClock};
use firesteel_store::{MemoryMedium, Store};
use jiff::Timestamp;
use ring::{digest, hmac, signature::Ed25519KeyPair};
use tokio::sync::oneshot;

use crate::bmc::Driver;
use crate::executor::{Executor, Life, lock};
use crate::laws::{Laws, Point};
use crate::random::Random;
use crate::world::{Out, Outbox};

pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Digest of the agent in the ramdisk.
pub(crate) const AGENT: Sha256 = Sha256([3; 32]);
pub(crate) const BOOT_FILES: BootFileSet = BootFileSet {
    kernel: BootFile { sha256: Sha256([1; 32]), bytes: 8 << 20 },
    initramfs: BootFile { sha256: Sha256([2; 32]), bytes: 12 << 20 },
    agent: Some(AGENT),
};
pub(crate) const ENDPOINTS: Endpoints = Endpoints { address: ADDRESS, http_port: 8080, agent_port: 8443 };
/// Short, so that leases end while hosts run.
const LEASE_TIME: Duration = Duration::from_secs(600);
/// Fewer than machines, so that some hosts wait for others.
pub(crate) const AT_ONCE: usize = 4;
/// Fewer than machines and starving strangers together.
const POOL_ADDRESSES: u8 = 60;

/// What is on the leases' disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    pub(crate) leases: BTreeMap<Mac, Lease>,
    rests: BTreeMap<Ipv4Addr, Timestamp>,
}

impl Leases {
    pub(crate) fn write(&mut self, changes: &[LeaseChange]) {
        for change in changes {
            match change.clone() {
                LeaseChange::Keep(lease) => {
                    self.leases.retain(|_, other| other.address != lease.address);
                    self.rests.remove(&lease.address);
                    self.leases.insert(lease.mac, lease);
                }
                LeaseChange::Forget(mac) => {
                    self.leases.remove(&mac);
                }
                LeaseChange::Rest(QuarantinedAddress { address, until }) => {
                    self.rests.insert(address, until);
                }
            }
        }
    }
}

pub(crate) struct Appliance {
    pub(crate) life: u64,
    pub(crate) control: Control,
    pub(crate) controllers: HostControllers,
    pub(crate) hosts: Objects<BareMetalHost>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) halts: Objects<Halt>,
    pub(crate) core: Core,
    pub(crate) store: Store,
    pub(crate) engine: DhcpEngine,
    pub(crate) boot: firesteel_net::dhcp::Boot,
    pub(crate) events: firesteel_net::dhcp::DhcpEventSink,
}

/// What outlives the process, and what it runs on.
pub(crate) struct Ground<'a> {
    pub(crate) memory: &'a MemoryMedium,
    pub(crate) leases: &'a Leases,
    pub(crate) laws: &'a Arc<Mutex<Laws>>,
    pub(crate) executor: &'a Executor,
    pub(crate) outbox: &'a Outbox,
    pub(crate) deaf_after: Option<Duration>,
}

/// How hosts reach the appliance.
fn network() -> Live<HostNetwork> {
    Live::new(HostNetwork {
        endpoints: ENDPOINTS,
        asker_rule: AskerRule::Lease,
        hosts_have_dns: false,
        work_hold: None,
    })
}

impl Appliance {
    pub(crate) fn start(life: u64, seed: u64, ground: &Ground<'_>) -> Self {
        let executor = ground.executor.clone();
        let store = Store::in_memory(ground.memory);
        let clock = executor.clone();
        let core = Core::with_clock(store.clone(), kinds::registry(), Arc::new(move || clock.wall()));
        let runtime: Arc<dyn Runtime> = Arc::new(Life {
            executor: executor.clone(),
            number: life,
            random: Mutex::new(Random::new(seed ^ life)),
            deaf_after: ground.deaf_after,
        });
        let config = ControllersConfig {
            clock: StoreClock::new(&core, Arc::clone(&runtime), Timestamp::UNIX_EPOCH),
            core: core.clone(),
            runtime,
            images: Arc::new(Shop {
                outbox: Arc::clone(ground.outbox),
                laws: Arc::clone(ground.laws),
                executor: executor.clone(),
            }),
            bmc: Arc::new(Driver {
                life,
                outbox: Arc::clone(ground.outbox),
                laws: Arc::clone(ground.laws),
                executor: executor.clone(),
            }),
            host_network: network(),
            boot_files: ServedBootFiles { current: BOOT_FILES, kept: None },
            sealer: Sealer::new(&[7; 32]),
            nonce_key: hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]),
            receipt_key: Ed25519KeyPair::from_seed_unchecked(&[9; 32]).expect("a seed has 32 bytes"),
            trust: "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n".into(),
            configs: ConfigSettings::default(),
            pin_sha256: "ab".repeat(32),
            kernel_arguments: KernelArguments::default(),
            bmc_tls: firesteel_bmc::Tls::default(),
            // Nobody forgets them here.
            hosts_at_once: AT_ONCE,
            boot_image_minimum: firesteel_plan::skew::MinimumVersions::default(),
            tells_events: false,
        };
        let controllers = HostControllers::new(config).expect("the registry has all kinds");
        let control = controllers.control.clone();
        let (running, outbox) = (controllers.clone(), Arc::clone(ground.outbox));
        let prepared = core.clone();
        executor.spawn(
            life,
            Box::pin(async move {
                // A refused write at the start is tried again by the next life.
                let ready = prepared.ensure_namespace("default").await.map_err(|status| status.message);
                let ended = match ready {
                    Ok(()) => running.run().await.map_err(|error| error.to_string()),
                    Err(error) => Err(error),
                };
                lock(&outbox).push(Out::Ended { life, error: ended.err().unwrap_or_default() });
            }),
        );
        for lease in ground.leases.leases.values() {
            control.network.leased(lease.mac, lease.address, lease.expires_at);
        }
        let engine = DhcpEngine::new(
            dhcp_config(),
            ground.leases.leases.values().cloned().collect(),
            ground
                .leases
                .rests
                .iter()
                .map(|(address, until)| QuarantinedAddress { address: *address, until: *until })
                .collect(),
            executor.wall(),
        );
        Self {
            life,
            hosts: Objects::new(&core, "metal3.io", "BareMetalHost").expect("the kind is registered"),
            secrets: Objects::new(&core, "", "Secret").expect("the kind is registered"),
            halts: Objects::new(&core, "firesteel.dev", "Halt").expect("the kind is registered"),
            core,
            store,
            engine: engine.expect("the configuration is fit"),
            boot: dhcp_clients::boot_answers(network(), false),
            events: dhcp_clients::dhcp_events(control.clone(), network(), false),
            control,
            controllers,
        }
    }

    pub(crate) fn boot_answer(&self) -> impl Fn(&DhcpRequester) -> Option<dhcp::BootAnswer> + use<> {
        let boot = Arc::clone(&self.boot);
        move |client| boot(client)
    }
}

fn dhcp_config() -> dhcp::DhcpConfig {
    let pool = Pool { first: Ipv4Addr::new(10, 77, 0, 10), last: Ipv4Addr::new(10, 77, 0, 9 + POOL_ADDRESSES) };
    dhcp::DhcpConfig {
        server_address: ADDRESS,
        local: Subnet { network: Ipv4Network::of(ADDRESS, 24), pool: Some(pool), router: None },
        relayed: Vec::new(),
        dns: Vec::new(),
        ntp: Vec::new(),
        domain: None,
        lease_time: LEASE_TIME,
        reservations: BTreeMap::new(),
        known: None,
    }
}

/// A wanted image on its way.
#[derive(Debug)]
pub(crate) struct ImageAsk {
    pub(crate) request: ImageRequest,
    pub(crate) reply: oneshot::Sender<Result<ReadyImage, ImageFault>>,
}

/// Where images come from.
struct Shop {
    outbox: Outbox,
    laws: Arc<Mutex<Laws>>,
    executor: Executor,
}

impl Images for Shop {
    fn acquire<'a>(
        &'a self,
        request: &'a ImageRequest,
        _: Arc<dyn Fn(AcquisitionStage) + Send + Sync>,
    ) -> Acquiring<'a> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            lock(&self.outbox).push(Out::Image(ImageAsk { request: request.clone(), reply }));
            let image = answer.await;
            if lock(&self.laws).passes(Point::Effect) {
                self.executor.halt();
                return std::future::pending().await;
            }
            let gone = || ImageFault { message: "the server is gone".into(), permanent: false, crowded: false };
            image.unwrap_or_else(|_| Err(gone())).map(Into::into)
        })
    }
}

/// The image behind an address: the same bytes each time.
pub(crate) fn image_of(url: &str) -> ReadyImage {
    let hex = |text: &str| {
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    ReadyImage {
        raw_sha256: hex(url),
        raw_bytes: 1 << 30,
        stream_sha256: hex(&format!("{url}.zst")),
        stream_bytes: 1 << 28,
    }
}
