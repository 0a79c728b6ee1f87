//! An appliance in a folder: everything but the sockets, with a clock that can be wrong.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use firesteel_appliance::serve::controllers::{ControllersConfig, HostControllers};
use firesteel_appliance::serve::kinds;
use firesteel_appliance::serve::sealing::{self, KeyFile};
use firesteel_boot::{
    AskerRule, BootFile, BootFileSet, Endpoints, HostNetwork, KernelArguments, Sealer, ServedBootFiles,
};
use firesteel_cli::describe_page;
use firesteel_config_server::{ConfigController, ConfigSettings};
use firesteel_control::{Control, SchemeDriver};
use firesteel_facts::Sha256;
use firesteel_images::http::DownloadLimits;
use firesteel_images::import::{Acquirer, ImageStore, ImportBounds};
use firesteel_kube::{Core, Objects, Status, lifecycle};
use firesteel_resources::secret::{CONFIG_KEY, CONFIG_TYPE, SecretBytes};
use firesteel_resources::{
    BareMetalHost, BareMetalHostStatus, DiscoveredHost, HardwareData, HostJournal, Image, Receipt, Secret,
};
use firesteel_runtime::{ControllerError, Ending, HostTrust, Live, Runtime, StoreClock, Task, Tokio};
use firesteel_store::Durability;
use firesteel_tests::dialing;
use jiff::{SignedDuration, Timestamp};
use ring::{hmac, signature::Ed25519KeyPair};

pub(crate) const NAMESPACE: &str = "default";
pub(crate) const BOOT_FILES: BootFileSet = BootFileSet {
    kernel: BootFile { sha256: Sha256([1; 32]), bytes: 8 << 20 },
    initramfs: BootFile { sha256: Sha256([2; 32]), bytes: 12 << 20 },
    agent: None,
};
pub(crate) const ENDPOINTS: Endpoints =
    Endpoints { address: Ipv4Addr::new(192, 0, 2, 1), http_port: 8080, agent_port: 8443 };
/// As patient as the product, so that a machine under load changes no verdict.
pub(crate) const LIMITS: DownloadLimits = DownloadLimits {
    bytes_max: 8 << 20,
    stall: Duration::from_secs(30),
    trickle: Duration::from_mins(5),
    attempts_max: 2,
    pause: Duration::from_millis(1),
};
/// Less than the bombs of these tests expand to.
pub(crate) const IMAGE_BYTES_MAX: u64 = 16 << 20;
/// Nothing here takes so long; a wait that does is a failure.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Tokio's time, with a clock on the wall that stands still until a test moves it, or lets time pass.
struct Clock {
    tokio: Tokio,
    began: Timestamp,
    ahead_s: Arc<AtomicI64>,
    passed_s: Arc<AtomicU64>,
}

impl Clock {
    fn passed(&self) -> Duration {
        Duration::from_secs(self.passed_s.load(Ordering::SeqCst))
    }
}

impl Runtime for Clock {
    fn now(&self) -> Timestamp {
        self.began + SignedDuration::from_secs(self.ahead_s.load(Ordering::SeqCst)) + self.passed()
    }

    fn uptime(&self) -> Duration {
        self.tokio.uptime() + self.passed()
    }

    fn sleep_until(&self, uptime: Duration) -> Task {
        self.tokio.sleep_until(uptime.saturating_sub(self.passed()))
    }

    fn entropy(&self) -> u128 {
        self.tokio.entropy()
    }

    fn spawn(&self, task: Task) -> Ending {
        self.tokio.spawn(task)
    }
}

pub(crate) const RECEIPT_SEED: [u8; 32] = [9; 32];

pub(crate) struct Appliance {
    pub(crate) core: Core,
    pub(crate) control: Control,
    pub(crate) configs: ConfigController,
    pub(crate) hosts: Objects<BareMetalHost>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) discovered: Objects<DiscoveredHost>,
    pub(crate) hardware: Objects<HardwareData>,
    journals: Objects<HostJournal>,
    pub(crate) receipts: Objects<Receipt>,
    /// How far the clock on the wall is ahead; nothing else minds.
    pub(crate) ahead_s: Arc<AtomicI64>,
    /// How much time has passed, by each clock.
    pub(crate) passed_s: Arc<AtomicU64>,
    pub(crate) clock: StoreClock,
    pub(crate) trust: HostTrust,
    looped: tokio::task::JoinHandle<Result<(), ControllerError>>,
    /// What becomes of objects by their owners and namespaces.
    lives: tokio::task::JoinHandle<Result<(), Status>>,
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.looped.abort();
        self.lives.abort();
    }
}

impl Appliance {
    pub(crate) async fn start(data: &Path) -> Self {
        Self::start_with(data, LIMITS).await
    }

    pub(crate) async fn start_with(data: &Path, limits: DownloadLimits) -> Self {
        Self::start_whole(data, limits, "a certificate".into(), ConfigSettings::default()).await
    }

    /// One whose config server is set up so.
    pub(crate) async fn start_serving(data: &Path, trust: HostTrust, configs: ConfigSettings) -> Self {
        Self::start_whole(data, LIMITS, trust, configs).await
    }

    async fn start_whole(data: &Path, limits: DownloadLimits, trust: HostTrust, configs: ConfigSettings) -> Self {
        let database = data.join("resources.db");
        let key_file = KeyFile::open(&data.join(sealing::DEFAULT_FILE), &database).unwrap();
        let store = key_file.open_store(&database, Durability::default()).unwrap();
        let core = Core::new(store, kinds::registry());
        core.ensure_namespace("default").await.unwrap();
        Self::start_on(core, data, limits, trust, configs)
    }

    /// One that starts with what another one stored.
    pub(crate) fn start_after(before: Self, data: &Path) -> Self {
        let core = before.core.clone();
        drop(before);
        Self::start_on(core, data, LIMITS, "a certificate".into(), ConfigSettings::default())
    }

    fn start_on(core: Core, data: &Path, limits: DownloadLimits, trust: HostTrust, configs: ConfigSettings) -> Self {
        let images = ImageStore::open(&data.join("images")).unwrap();
        let acquirer = Acquirer::new(images, Some(&data.join("import")), dialing::web());
        let bounds = ImportBounds { logical_bytes: IMAGE_BYTES_MAX, ..ImportBounds::default() };
        let (ahead_s, passed_s) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
        let runtime: Arc<dyn Runtime> = Arc::new(Clock {
            tokio: Tokio::new(),
            began: Timestamp::now(),
            ahead_s: Arc::clone(&ahead_s),
            passed_s: Arc::clone(&passed_s),
        });
        let clock = StoreClock::new(&core, Arc::clone(&runtime), Timestamp::UNIX_EPOCH);
        let config = ControllersConfig {
            core: core.clone(),
            runtime,
            clock: clock.clone(),
            images: Arc::new(acquirer.with_limits(limits).with_bounds(bounds)),
            bmc: Arc::new(SchemeDriver::new(dialing::dialer())),
            // There is no DHCP here.
            host_network: Live::new(HostNetwork {
                endpoints: ENDPOINTS,
                asker_rule: AskerRule::FirstAsker,
                hosts_have_dns: false,
                work_hold: None,
            }),
            boot_files: ServedBootFiles { current: BOOT_FILES, kept: None },
            sealer: Sealer::new(&[7; 32]),
            nonce_key: hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]),
            receipt_key: Ed25519KeyPair::from_seed_unchecked(&RECEIPT_SEED).unwrap(),
            trust: trust.clone(),
            configs,
            pin_sha256: "ab".repeat(32),
            kernel_arguments: KernelArguments::default(),
            bmc_tls: firesteel_bmc::Tls::default(),
            hosts_at_once: firesteel_plan::admission::AT_ONCE,
            boot_image_minimum: firesteel_plan::skew::MinimumVersions::default(),
            tells_events: true,
        };
        let running = HostControllers::new(config).unwrap();
        let lives = tokio::spawn(lifecycle::run(core.clone()));
        Self {
            control: running.control.clone(),
            configs: running.configs.clone(),
            hosts: Objects::new(&core, "metal3.io", "BareMetalHost").unwrap(),
            secrets: Objects::new(&core, "", "Secret").unwrap(),
            discovered: Objects::new(&core, "firesteel.dev", "DiscoveredHost").unwrap(),
            hardware: Objects::new(&core, "metal3.io", "HardwareData").unwrap(),
            journals: Objects::new(&core, "firesteel.dev", "HostJournal").unwrap(),
            receipts: Objects::new(&core, "firesteel.dev", "Receipt").unwrap(),
            ahead_s,
            passed_s,
            clock,
            trust,
            looped: tokio::spawn(async move { running.run().await }),
            lives,
            core,
        }
    }

    /// A host without BMC, so that it is the test who switches it on.
    pub(crate) async fn add(&self, name: &str, mac: &str, image: Option<Image>) {
        self.add_with(name, mac, image, |_| {}).await;
    }

    pub(crate) async fn add_with(
        &self,
        name: &str,
        mac: &str,
        image: Option<Image>,
        change: impl FnOnce(&mut BareMetalHost),
    ) {
        let mut host = BareMetalHost::default();
        name.clone_into(&mut host.metadata.name);
        NAMESPACE.clone_into(&mut host.metadata.namespace);
        host.spec.online = true;
        mac.clone_into(&mut host.spec.boot_mac_address);
        host.spec.image = image;
        change(&mut host);
        self.hosts.create(&host).await.unwrap();
        // A machine that boots before its host is known is a stranger, and starts again.
        until(&format!("{name} is known"), async || self.journal(name).await.status.reason.is_some()).await;
    }

    pub(crate) async fn add_secret(&self, name: &str, key: &str, content: &[u8]) {
        self.add_typed("", name, key, content).await;
    }

    /// A config that is served to hosts.
    pub(crate) async fn add_config(&self, name: &str, content: &[u8]) {
        self.add_typed(CONFIG_TYPE, name, CONFIG_KEY, content).await;
    }

    async fn add_typed(&self, kind: &str, name: &str, key: &str, content: &[u8]) {
        let mut secret = Secret { type_: kind.to_owned(), ..Secret::default() };
        name.clone_into(&mut secret.metadata.name);
        NAMESPACE.clone_into(&mut secret.metadata.namespace);
        secret.data.insert(key.to_owned(), SecretBytes(content.to_vec()));
        self.secrets.create(&secret).await.unwrap();
    }

    pub(crate) async fn status(&self, name: &str) -> BareMetalHostStatus {
        self.hosts.get(NAMESPACE, name).await.unwrap().and_then(|host| host.status).unwrap_or_default()
    }

    pub(crate) async fn journal(&self, name: &str) -> HostJournal {
        self.journals.get(NAMESPACE, name).await.unwrap().unwrap_or_default()
    }

    /// What `firesteel describe host NAME` prints, without its line breaks.
    pub(crate) async fn page(&self, name: &str) -> String {
        let host = self.hosts.get(NAMESPACE, name).await.unwrap().unwrap();
        describe_page(&host, &self.journal(name).await, Timestamp::now(), 4000)
    }

    /// Has the planner look at the host: the test's clock goes ahead, and nothing that waits by another knows it.
    pub(crate) async fn touch(&self, name: &str) {
        let change = |host: &mut BareMetalHost| {
            let count = host.metadata.annotations.get("touched").and_then(|count| count.parse().ok()).unwrap_or(0_u32);
            host.metadata.annotations.insert("touched".to_owned(), (count + 1).to_string());
        };
        self.hosts.modify(NAMESPACE, name, firesteel_kube::ObjectPart::Main, change).await.unwrap();
    }

    /// Asks for something by an annotation.
    pub(crate) async fn annotate(&self, name: &str, key: &str, value: &str) {
        let change = |host: &mut BareMetalHost| {
            host.metadata.annotations.insert(key.to_owned(), value.to_owned());
        };
        self.hosts.modify(NAMESPACE, name, firesteel_kube::ObjectPart::Main, change).await.unwrap();
    }

    /// Waits for the host's status to show an error.
    pub(crate) async fn error(&self, name: &str) -> String {
        let mut error = String::new();
        until(&format!("{name} shows an error"), async || {
            error = self.status(name).await.error_message;
            !error.is_empty()
        })
        .await;
        error
    }

    /// The host shows an error that says what happened and what to do, in its status and to a person.
    pub(crate) async fn assert_told(&self, name: &str, parts: &[&str]) {
        let error = self.error(name).await;
        let page = self.page(name).await;
        for part in parts {
            assert!(error.contains(part), "{name}: no {part:?} in the status: {error}");
            assert!(page.contains(part), "{name}: no {part:?} on the page:\n{page}");
        }
        let receipts = self.journal(name).await.status.receipts;
        assert!(receipts.iter().all(|receipt| receipt.step == "inspect"), "{name}: something was done: {receipts:?}");
    }
}

/// Looks again and again until the condition holds; fails the test when it never does.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + WAIT_MAX;
    while !condition().await {
        assert!(tokio::time::Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What lies in the folder of images.
pub(crate) fn images_in(data: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data.join("images")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
