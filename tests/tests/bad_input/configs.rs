//! The config server as hosts meet it: over its real listener, with TLS, with tokens that are not what they should be,
//! with pools that contradict each other, and with stubs that somebody changed.

use std::{net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_appliance::http::agent::AgentServer;
use firesteel_appliance::http::config::{self, ConfigServer};
use firesteel_appliance::http::connection_admission::Standings;
use firesteel_appliance::http::connection_table::ClientClass;
use firesteel_appliance::http::images::ImageFiles;
use firesteel_appliance::http::server::{HttpTimeouts, Server};
use firesteel_appliance::metrics::RequestMetrics;
use firesteel_appliance::serve::data_dir::DataDir;
use firesteel_appliance::serve::pki::Pki;
use firesteel_images::import::ImageStore;
use firesteel_kube::{ObjectPart, Objects};
use firesteel_resources::{MachineConfigPool, SecretReference, bare_metal_host::ProvisioningState};
use firesteel_tests::honest;
use firesteel_wire::hand_off::KernelArgumentEdit;
use firesteel_wire::{AgentPlan, AgentReport, PlanStep, PublicKey, StepReceipt, StepReport};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::agent::{Agent, End, REMOTE, done};
use crate::appliance::{Appliance, NAMESPACE, until};
use crate::images::{noise, published};

const IGNITION: &str = "application/vnd.coreos.ignition+json;version=3.3.0, */*;q=0.1";
const ORIGIN: &str = "https://192.0.2.1:22623/config/";

/// Who asks is on this machine.
fn owner() -> Standings {
    Standings::new(|_| ClientClass::Owner)
}

/// An appliance with its listeners, and a client that trusts it.
struct Site {
    appliance: Appliance,
    configs: SocketAddr,
    agents: SocketAddr,
    client: reqwest::Client,
    pools: Objects<Value>,
    machine_configs: Objects<Value>,
    _data: tempfile::TempDir,
}

impl Site {
    async fn start(change: impl FnOnce(&mut firesteel_config_server::ConfigSettings)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let folder = DataDir::open(data.path()).unwrap();
        let pki = Pki::open(&folder, &["127.0.0.1".parse().unwrap()], Timestamp::now()).unwrap();
        let mut settings = firesteel_config_server::ConfigSettings::default();
        change(&mut settings);
        let appliance = Appliance::start_serving(data.path(), pki.trust().clone(), settings).await;
        let server = ConfigServer::new(appliance.configs.clone());
        let images = ImageFiles::new(ImageStore::open(&data.path().join("images")).unwrap());
        let agent = AgentServer::new(appliance.control.clone(), server.clone(), images, owner());
        let configs = listen(&pki, move |request, remote| server.clone().handle(request, remote)).await;
        let agents = listen(&pki, move |request, remote| agent.clone().handle(request, remote)).await;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(ca_der(&pki.ca_pem())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder().tls_backend_preconfigured(tls).build().unwrap();
        let group = "machineconfiguration.openshift.io";
        Self {
            pools: Objects::new(&appliance.core, group, "MachineConfigPool").unwrap(),
            machine_configs: Objects::new(&appliance.core, group, "MachineConfig").unwrap(),
            appliance,
            configs,
            agents,
            client,
            _data: data,
        }
    }

    async fn pool(&self, name: &str) {
        let selector = json!({"matchLabels": {"machineconfiguration.openshift.io/role": name}});
        let pool = json!({"metadata": {"name": name}, "spec": {"machineConfigSelector": selector}});
        self.pools.create(&pool).await.unwrap();
    }

    async fn machine_config(&self, name: &str, role: &str, spec: Value) {
        let labels = json!({"machineconfiguration.openshift.io/role": role});
        let object = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        self.machine_configs.create(&object).await.unwrap();
    }

    /// A pool with a file in its config.
    async fn worker(&self) {
        self.pool("worker").await;
        self.machine_config("00-worker", "worker", json!({"config": file("3.2.0", "/etc/role", "worker")})).await;
        until("the pool is rendered", async || {
            let pool = self.pools.get("", "worker").await.unwrap().unwrap();
            pool["status"]["configuration"]["name"].as_str().is_some_and(|name| name.starts_with("rendered-worker-"))
        })
        .await;
    }

    async fn condition(&self, pool: &str, kind: &str) -> Value {
        let pool = self.pools.get("", pool).await.unwrap().unwrap();
        let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    }

    /// Installs a host that boots by this stub; its token.
    async fn install(&self, name: &str, mac: &str, key: u8, image: &firesteel_resources::Image, stub: &str) -> String {
        self.installation(name, mac, key, image, stub).await.0
    }

    /// The same with the plan.
    async fn installation(
        &self,
        name: &str,
        mac: &str,
        key: u8,
        image: &firesteel_resources::Image,
        stub: &str,
    ) -> (String, Vec<PlanStep>) {
        let (token, plan, _agent) = self.planned(name, mac, key, image, stub).await;
        (token, plan.steps)
    }

    /// The same with the agent that has the plan.
    async fn planned(
        &self,
        name: &str,
        mac: &str,
        key: u8,
        image: &firesteel_resources::Image,
        stub: &str,
    ) -> (String, AgentPlan, Agent) {
        let user_data = SecretReference { name: stub.to_owned(), namespace: NAMESPACE.into() };
        let image = Some(image.clone());
        self.appliance.add_with(name, mac, image, |host| host.spec.user_data = Some(user_data)).await;
        // A managed one is made where there is a host, and the host must not be quicker.
        until("the stub is there", async || self.appliance.secrets.get(NAMESPACE, stub).await.unwrap().is_some()).await;
        let mut agent = Agent::boot(&self.appliance, mac, key).await;
        let End::WritePlan(plan) = agent.work(&self.appliance, name).await else {
            panic!("{}", self.appliance.error(name).await);
        };
        let stub: Value = serde_json::from_slice(&handed_off(&plan.steps, "ignition/config.ign")).unwrap();
        let merge = &stub["ignition"]["config"]["merge"][0];
        let report = String::from_utf8(handed_off(&plan.steps, "firesteel/report.conf")).unwrap();
        let token = match merge["httpHeaders"][0]["value"].as_str() {
            Some(bearer) => bearer.strip_prefix("Bearer ").unwrap().to_owned(),
            None => merge["source"].as_str().unwrap().split_once("?token=").unwrap().1.to_owned(),
        };
        let lines: Vec<&str> = report.lines().collect();
        let told = format!("FIRESTEEL_REPORT_TOKEN={token}");
        assert_eq!(lines, ["FIRESTEEL_REPORT_URL=https://192.0.2.1:8443/first-boot-failed", told.as_str()]);
        let ca = handed_off(&plan.steps, "firesteel/ca.crt");
        assert!(ca.starts_with(b"-----BEGIN CERTIFICATE-----"));
        (token, plan, agent)
    }

    /// The agent that booted with this key says that it did all of the plan, and leaves.
    async fn complete(&self, name: &str, agent: &Agent, key: u8, plan: &AgentPlan) {
        let done = |(index, step): (usize, &PlanStep)| done(u32::try_from(index).unwrap(), step.name(), true);
        let steps: Vec<StepReport> = plan.steps.iter().enumerate().map(done).collect();
        let receipts = plan.steps.iter().zip(&steps).map(|(step, done)| {
            let (evidence, step) = (honest::evidence(step, &[]), done.step.clone());
            StepReceipt { plan: plan.number, index: done.index, step, started_ms: 1, ended_ms: 2, span: None, evidence }
        });
        let report = AgentReport {
            token: agent.token.clone(),
            key: PublicKey([key; 32]),
            boot_id: format!("boot-{key}"),
            // After all that it said before.
            sequence: 1000,
            uptime_ms: 1_000_000,
            plan: plan.number,
            receipts: receipts.collect(),
            steps,
            neighbours: Vec::new(),
            idle: false,
            leaving: true,
            log: Vec::new(),
        };
        self.appliance.control.agents.report(report, REMOTE).await.unwrap();
        until("the host is provisioned", async || {
            self.appliance.status(name).await.provisioning.state == ProvisioningState::Provisioned
        })
        .await;
    }

    /// A CA that is not this appliance's.
    fn another_ca() -> String {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::open(&DataDir::open(folder.path()).unwrap(), &[], Timestamp::now()).unwrap();
        pki.ca_pem()
    }

    async fn user_data(&self, name: &str) -> String {
        let secret = self.appliance.secrets.get(NAMESPACE, name).await.unwrap();
        secret.and_then(|secret| String::from_utf8(secret.user_data()?.to_vec()).ok()).unwrap_or_default()
    }

    /// Another pool with a file in its config.
    async fn infra(&self) {
        self.pool("infra").await;
        self.machine_config("00-infra", "infra", json!({"config": file("3.2.0", "/etc/role", "infra")})).await;
    }

    async fn lead(&self, secret: &str, content: &[u8]) {
        let write = |secret: &mut firesteel_resources::Secret| {
            let bytes = firesteel_resources::secret::SecretBytes(content.to_vec());
            secret.data.insert("userData".to_owned(), bytes);
        };
        self.appliance.secrets.modify(NAMESPACE, secret, ObjectPart::Main, write).await.unwrap();
    }

    async fn ask(&self, method: &str, path: &str, accept: &str, token: Option<&str>) -> Answer {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, format!("https://{}{path}", self.configs));
        if !accept.is_empty() {
            request = request.header("Accept", accept);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        Answer::of(request.send().await.unwrap()).await
    }

    async fn get(&self, path: &str, token: &str) -> Answer {
        self.ask("GET", path, IGNITION, Some(token)).await
    }

    /// What the OS sends when it runs, by the config that it fetched.
    async fn report_running(&self, config: &[u8]) {
        let config: Value = serde_json::from_slice(config).unwrap();
        let files = config["storage"]["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == "/etc/firesteel/instance.json").unwrap();
        let data = file["contents"]["source"].as_str().unwrap().rsplit(',').next().unwrap();
        let instance: Value = serde_json::from_slice(&STANDARD.decode(data).unwrap()).unwrap();
        let (uid, nonce) = (instance["host"].as_str().unwrap(), instance["nonce"].as_str().unwrap());
        self.appliance.control.instances.running(uid, nonce, REMOTE).await.unwrap();
    }

    async fn events(&self, name: &str) -> Vec<(String, String)> {
        let journal = self.appliance.journal(name).await;
        journal.status.timeline.into_iter().map(|event| (event.event, event.detail)).collect()
    }
}

fn ca_der(pem: &str) -> rustls::pki_types::CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject as _;
    rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

async fn listen<H, F>(pki: &Pki, handler: H) -> SocketAddr
where
    H: Fn(http::Request<firesteel_appliance::http::server::RequestBody>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = http::Response<firesteel_appliance::http::body::ResponseBody>> + Send + 'static,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tls = (*pki.server).clone();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let server = Server {
        name: "config",
        listener,
        tls: Some(Arc::new(tls)),
        share: config::CONNECTIONS,
        standings: owner(),
        requests: RequestMetrics::default(),
        patience: HttpTimeouts::default(),
    };
    tokio::spawn(server.run(handler));
    address
}

struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.unwrap().to_vec() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Refused with this status, without a body, and with these words for a person.
    fn assert_refused(&self, status: u16, why: &str) {
        assert_eq!((self.status, self.body.len()), (status, 0), "{}", self.header("x-firesteel-reason"));
        assert_eq!(self.header("content-length"), "0");
        assert!(self.header("x-firesteel-reason").contains(why), "{}", self.header("x-firesteel-reason"));
    }
}

fn handed_off(plan: &[PlanStep], path: &str) -> Vec<u8> {
    let files = plan.iter().find_map(|step| match step {
        PlanStep::HandOff { forms, .. } => forms.as_ref()?.boot_partition.as_ref().map(|boot| &boot.files),
        _ => None,
    });
    let file = files.unwrap().iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"));
    STANDARD.decode(&file.content_base64).unwrap()
}

fn arguments_in(plan: &[PlanStep]) -> KernelArgumentEdit {
    let forms = plan.iter().find_map(|step| match step {
        PlanStep::HandOff { forms, .. } => forms.clone(),
        _ => None,
    });
    forms.unwrap().arguments.unwrap_or_default()
}

/// A stub that leads to one config.
fn stub(version: &str, config: &str) -> Vec<u8> {
    let merge = json!([{"source": format!("{ORIGIN}{config}")}]);
    json!({"ignition": {"version": version, "config": {"merge": merge}}}).to_string().into_bytes()
}

fn file(version: &str, path: &str, contents: &str) -> Value {
    let source = format!("data:,{contents}");
    json!({"ignition": {"version": version}, "storage": {"files": [{"path": path, "contents": {"source": source}}]}})
}

/// S1.19
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_methods_and_unknown_pools_are_answered_as_upstream_does() {
    let site = Site::start(|settings| settings.without_token = true).await;
    site.worker().await;
    let served = site.ask("GET", "/config/worker", IGNITION, None).await;
    assert_eq!((served.status, served.header("content-type")), (200, "application/json"));
    assert_eq!(served.header("content-length"), served.body.len().to_string());
    let head = site.ask("HEAD", "/config/worker", IGNITION, None).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), served.body.len().to_string());
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("GET", "/", 404),
        ("GET", "/config", 400),
        ("GET", "/config/", 400),
        ("POST", "/config/worker", 405),
        ("DELETE", "/healthz", 405),
        ("GET", "/config/nobody", 404),
        ("HEAD", "/config/nobody", 404),
    ] {
        let answer = site.ask(method, path, "", None).await;
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{method} {path}");
    }
    // A pool without machine configs is there, and has nothing that could be served.
    site.pool("empty").await;
    until("the empty pool is known", async || site.condition("empty", "RenderDegraded").await["status"] == "True")
        .await;
    site.ask("GET", "/config/empty", "", None).await.assert_refused(500, "no machine config is selected");
}

/// S1.20: upstream's vectors, over TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstreams_vectors_of_the_header_accept_hold_over_the_wire() {
    let Some(vectors) = firesteel_fixtures::bytes("vectors/mcs-accept-header.json") else { return };
    let site = Site::start(|settings| settings.without_token = true).await;
    site.worker().await;
    let vectors: Value = serde_json::from_slice(&vectors).unwrap();
    for vector in vectors.as_array().unwrap() {
        let answer = site.ask("GET", "/config/worker", vector["accept"].as_str().unwrap(), None).await;
        assert_eq!(u64::from(answer.status), vector["http"].as_u64().unwrap(), "{vector}");
        let version = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default()["ignition"]["version"].clone();
        assert_eq!(version, vector["served"], "{vector}");
    }
    let old = "application/vnd.coreos.ignition+json;version=3.0.0";
    let served = site.ask("GET", "/config/worker", old, None).await;
    let config: Value = serde_json::from_slice(&served.body).unwrap();
    assert_eq!(config["ignition"]["version"], "3.0.0", "nothing in it needs more");
    // What a 3.0 client cannot read is named, and never 500.
    let newer = json!({"ignition": {"version": "3.3.0"}, "storage": {"disks": [{"device": "/dev/sdb",
        "partitions": [{"number": 1, "resize": true, "sizeMiB": 100}]}]}});
    site.machine_config("50-disks", "worker", json!({"config": newer})).await;
    until("it is rendered", async || site.ask("GET", "/config/worker", old, None).await.status != 200).await;
    site.ask("GET", "/config/worker", old, None).await.assert_refused(406, "storage.disks[0].partitions[0].resize");
}

/// S1.23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_served_to_its_own_hosts_until_they_run() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    site.infra().await;
    let (_origin, image) = published(noise(2 << 20));
    let token = site.install("one", "02:00:00:00:07:01", 1, &image, "worker-user-data-managed").await;
    let other = site.install("two", "02:00:00:00:07:02", 2, &image, "infra-user-data-managed").await;

    site.ask("GET", "/config/worker", IGNITION, None).await.assert_refused(401, "only for the token of its host");
    site.get("/config/worker", "nonsense").await.assert_refused(401, "not a token");
    let mut forged = token.clone();
    let last = if forged.pop() == Some('A') { 'B' } else { 'A' };
    forged.push(last);
    assert_eq!(site.get("/config/worker", &forged).await.status, 401);
    site.get("/config/worker", &other).await.assert_refused(403, "does not fetch the config worker");

    // HEAD changes nothing, and a refused one is not told.
    let refused = site.ask("HEAD", "/config/nobody", IGNITION, Some(&token)).await;
    assert_eq!(refused.status, 403);
    let told = site.events("one").await.into_iter().filter(|(event, _)| event == "config_refused").count();
    assert_eq!(told, 0);
    let head = site.ask("HEAD", "/config/worker", IGNITION, Some(&token)).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(site.appliance.journal("one").await.status.instance, None);

    // Repeats are answered alike, by header and by URL.
    let first = site.get("/config/worker", &token).await;
    assert_eq!(first.status, 200);
    let again = site.ask("GET", &format!("/config/worker?token={token}"), IGNITION, None).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    let record = site.appliance.journal("one").await.status.instance.unwrap();
    assert!(record.config_fetched_at.is_some() && record.running_at.is_none());
    assert_eq!(record.config, "worker");
    assert!(record.rendered.starts_with("rendered-worker-"), "{record:?}");
    let fetched = site.events("one").await.iter().filter(|(event, _)| event == "config_fetched").count();
    assert_eq!(fetched, 1, "once in the timeline");

    site.get("/config/nobody", &token).await.assert_refused(403, "does not fetch the config nobody");
    site.report_running(&first.body).await;
    site.get("/config/worker", &token).await.assert_refused(403, "has reported that it runs");
    for _ in 0..20 {
        assert_eq!(site.get("/config/worker", &token).await.status, 403);
    }
    let told: Vec<_> = site.events("one").await.into_iter().filter(|(event, _)| event == "config_refused").collect();
    assert_eq!(told.len(), 1, "a flood is one line: {told:?}");
    assert!(site.events("two").await.iter().any(|(event, detail)| {
        event == "config_refused" && detail.contains("127.0.0.1 was refused its config worker")
    }));
    // The OS runs as it was rendered: the pool counts it.
    until("the pool counts its machine", async || {
        let pool = site.pools.get("", "worker").await.unwrap().unwrap();
        pool["status"]["machineCount"] == 1
    })
    .await;
}

/// S1.23: a packed stub of a version without headers opens its config by its URL; what becomes of the Secret after
/// the installation began neither ends the token nor lets it open more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_token_opens_is_settled_with_the_installation() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    site.infra().await;
    let (_origin, image) = published(noise(2 << 20));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &stub("3.0.0", "worker/")).unwrap();
    let packed = STANDARD.encode(gzip.finish().unwrap());
    site.appliance.add_secret("packed", "userData", packed.as_bytes()).await;
    let token = site.install("host", "02:00:00:00:07:41", 1, &image, "packed").await;
    let ask = async |config: &str| site.ask("GET", &format!("/config/{config}?token={token}"), IGNITION, None).await;
    let first = ask("worker").await;
    assert_eq!(first.status, 200, "{}", first.header("x-firesteel-reason"));
    site.lead("packed", &stub("3.3.0", "infra")).await;
    ask("infra").await.assert_refused(403, "does not fetch the config infra");
    assert_eq!(ask("worker").await.body, first.body, "repeats are answered alike");
    site.appliance.secrets.delete(NAMESPACE, "packed").await.unwrap();
    assert_eq!(ask("worker").await.body, first.body, "repeats are answered alike");
    ask("infra").await.assert_refused(403, "does not fetch the config infra");
}

/// A host's own config that adds a pool's gets both, by its one token; S1.30: the kernel arguments of both are set by the
/// agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_that_fetches_another_passes_the_token_on() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    site.infra().await;
    let arguments = json!({"ignition": {"version": "3.3.0"}, "kernelArguments": {"shouldExist": ["mitigations=off"]}});
    site.machine_config("50-arguments", "infra", json!({"config": arguments})).await;
    let own = json!({"ignition": {"version": "3.3.0", "config": {"merge": [{"source": format!("{ORIGIN}worker")}]}},
        "kernelArguments": {"shouldExist": ["quiet", "two words"], "shouldNotExist": ["splash"]}});
    site.appliance.add_config("own", own.to_string().as_bytes()).await;
    site.appliance.add_secret("user-data", "userData", &stub("3.2.0", "own")).await;
    let (_origin, image) = published(noise(2 << 20));
    let (token, steps) = site.installation("host", "02:00:00:00:07:51", 1, &image, "user-data").await;
    let arguments = arguments_in(&steps);
    assert_eq!((arguments.append, arguments.delete), (vec!["quiet".to_owned()], vec!["splash".to_owned()]));
    let served = site.get("/config/own", &token).await;
    assert_eq!(served.status, 200, "{}", served.header("x-firesteel-reason"));
    let config: Value = serde_json::from_slice(&served.body).unwrap();
    let merge = &config["ignition"]["config"]["merge"][0];
    assert_eq!(merge["httpHeaders"], json!([{"name": "Authorization", "value": format!("Bearer {token}")}]));
    assert_eq!(site.get("/config/worker", &token).await.status, 200);
    // Its pool counts it by what was rendered, whatever else it fetches.
    assert_eq!(site.get("/config/own", &token).await.status, 200);
    let record = site.appliance.journal("host").await.status.instance.unwrap();
    assert!(record.rendered.starts_with("rendered-worker-"), "{record:?}");
    site.get("/config/infra", &token).await.assert_refused(403, "does not fetch the config infra");
    // The pool's own, where the stub leads there.
    until("the pool is rendered with all", async || {
        let given = site.pools.get("", "infra").await.unwrap().unwrap();
        given["status"]["configuration"]["source"].as_array().is_some_and(|source| source.len() == 2)
    })
    .await;
    let (_, steps) = site.installation("other", "02:00:00:00:07:52", 2, &image, "infra-user-data-managed").await;
    assert_eq!(arguments_in(&steps).append, ["mitigations=off"]);
}

/// S1.23: who shows no token of a host is told of, though no host is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_told_of_on_the_provisioning_object() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    let provisionings: Objects<Value> = Objects::new(&site.appliance.core, "metal3.io", "Provisioning").unwrap();
    let spec = json!({"provisioningIP": "192.0.2.1", "provisioningNetworkCIDR": "192.0.2.0/24",
        "provisioningDHCPRange": "192.0.2.10,192.0.2.100"});
    let object = json!({"metadata": {"name": "provisioning-configuration"}, "spec": spec});
    provisionings.create(&object).await.unwrap();
    for token in [None, Some("nonsense"), Some("nonsense")] {
        assert_eq!(site.ask("GET", "/config/worker", IGNITION, token).await.status, 401);
    }
    let events: Objects<Value> = Objects::new(&site.appliance.core, "", "Event").unwrap();
    let told = async || {
        let (events, _) = events.list(None).await.unwrap();
        let of_it =
            |event: &Value| event["involvedObject"]["kind"] == "Provisioning" && event["reason"] == "ConfigRefused";
        events.into_iter().filter(of_it).collect::<Vec<_>>()
    };
    until("it is told", async || !told().await.is_empty()).await;
    let told = told().await;
    assert_eq!(told.len(), 1, "a flood is one event");
    assert!(told[0]["message"].as_str().unwrap().contains("127.0.0.1 was refused the config worker"), "{}", told[0]);
}

/// S1.23: the deadline, and how it is put off without a word to the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_at_its_deadline_unless_that_is_put_off() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    let (_origin, image) = published(noise(2 << 20));
    let token = site.install("late", "02:00:00:00:07:11", 1, &image, "worker-user-data-managed").await;
    until("its token is counted", async || site.appliance.journal("late").await.status.token_count.is_some()).await;
    // A clock that is wrong by decades neither ends it nor has it live on.
    for ahead_s in [20 * 365 * 24 * 3600, 0] {
        site.appliance.ahead_s.store(ahead_s, std::sync::atomic::Ordering::SeqCst);
        // HEAD has no step look at the host, which is late by such a clock.
        let head = site.ask("HEAD", "/config/worker", IGNITION, Some(&token)).await;
        assert_eq!(head.status, 200, "{ahead_s}");
    }
    site.appliance.passed_s.store(31 * 24 * 3600, std::sync::atomic::Ordering::SeqCst);
    site.get("/config/worker", &token).await.assert_refused(401, "deadline is over");
    // What is not installed has no token to renew.
    let wish = |word: &'static str| {
        move |host: &mut firesteel_resources::BareMetalHost| {
            host.metadata.annotations.insert("firesteel.dev/extend-token".to_owned(), word.to_owned());
        }
    };
    site.appliance.hosts.modify(NAMESPACE, "late", ObjectPart::Main, wish("first")).await.unwrap();
    until("the wish is answered", async || site.appliance.journal("late").await.status.token_extension.is_some()).await;
    let answer = site.appliance.journal("late").await.status.token_extension.unwrap();
    assert!(answer.refused.contains("no OS of this appliance is installed"), "{answer:?}");
    until("the annotation goes", async || {
        let host = site.appliance.hosts.get(NAMESPACE, "late").await.unwrap().unwrap();
        !host.metadata.annotations.contains_key("firesteel.dev/extend-token")
    })
    .await;
}

/// S1.23: the token on the disk of an installed host opens again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_that_passed_is_put_off_for_a_host_that_is_installed() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    let (_origin, image) = published(noise(2 << 20));
    let stub = "worker-user-data-managed";
    let (token, plan, agent) = site.planned("late", "02:00:00:00:07:12", 1, &image, stub).await;
    site.complete("late", &agent, 1, &plan).await;
    site.appliance.passed_s.store(31 * 24 * 3600, std::sync::atomic::Ordering::SeqCst);
    site.get("/config/worker", &token).await.assert_refused(401, "deadline is over");
    let wish = |host: &mut firesteel_resources::BareMetalHost| {
        host.metadata.annotations.insert("firesteel.dev/extend-token".to_owned(), "first".to_owned());
    };
    site.appliance.hosts.modify(NAMESPACE, "late", ObjectPart::Main, wish).await.unwrap();
    until("the wish is answered", async || site.appliance.journal("late").await.status.token_extension.is_some()).await;
    let answer = site.appliance.journal("late").await.status.token_extension.unwrap();
    assert!(answer.until.is_some(), "{answer:?}");
    assert_eq!(site.get("/config/worker", &token).await.status, 200);
    site.appliance.passed_s.store(62 * 24 * 3600, std::sync::atomic::Ordering::SeqCst);
    site.get("/config/worker", &token).await.assert_refused(401, "deadline is over");
}

/// S1.24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_boot_that_failed_is_told_on_the_host_with_the_end_of_its_log() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    let (_origin, image) = published(noise(2 << 20));
    let token = site.install("broken", "02:00:00:00:07:21", 1, &image, "worker-user-data-managed").await;
    let report = async |token: Option<&str>, body: Vec<u8>| {
        let url = format!("https://{}/first-boot-failed", site.agents);
        let mut request = site.client.post(url).header("Content-Type", "text/plain").body(body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let log = b"ignition[712]: GET https://192.0.2.1:22623/config/worker: attempt #5\n\x1b[31mIgnition failed: \
                disks: no such device /dev/sdz\x1b[0m\n";
    assert_eq!(report(None, log.to_vec()).await, 401);
    assert_eq!(report(Some("nonsense"), log.to_vec()).await, 401);
    assert_eq!(report(Some(&token), vec![b'x'; (16 << 10) + 1]).await, 413);
    assert_eq!(report(Some(&token), log.to_vec()).await, 204);
    assert_eq!(report(Some(&token), log.to_vec()).await, 204, "the same again");
    let failed = site.appliance.journal("broken").await.status.instance.unwrap().failed.unwrap();
    let text = failed.log.join("\n");
    assert!(text.contains("Ignition failed: disks: no such device /dev/sdz"), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
    let told = site.events("broken").await.into_iter().filter(|(event, _)| event == "first_boot_failed").count();
    assert_eq!(told, 1);
    // Who fails may try again with the same token; who runs may not report a failure any more.
    let config = site.get("/config/worker", &token).await;
    assert_eq!(config.status, 200);
    site.report_running(&config.body).await;
    assert_eq!(report(Some(&token), log.to_vec()).await, 403);
}

/// What bad input gets: pools that contradict themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contradiction_is_told_on_its_pool_and_the_others_go_on() {
    let site = Site::start(|settings| settings.without_token = true).await;
    site.worker().await;
    let before = site.ask("GET", "/config/worker", IGNITION, None).await.body;
    site.machine_config("10-realtime", "worker", json!({"kernelType": "realtime"})).await;
    site.machine_config("20-large", "worker", json!({"kernelType": "64k-pages"})).await;
    until("the contradiction is told", async || {
        let told = site.condition("worker", "RenderDegraded").await;
        let text = told["message"].as_str().unwrap_or_default().to_owned();
        told["status"] == "True" && text.contains("10-realtime") && text.contains("20-large")
    })
    .await;
    assert_eq!(site.condition("worker", "Degraded").await["reason"], "RenderFailed");
    let after = site.ask("GET", "/config/worker", IGNITION, None).await;
    assert_eq!((after.status, after.body), (200, before), "what was rendered before is served");
    // Another pool, with arguments of a kernel that an older client is not told of.
    site.pool("infra").await;
    let config = json!({"ignition": {"version": "3.3.0"}, "kernelArguments": {"shouldExist": ["quiet"]}});
    site.machine_config("00-infra", "infra", json!({"config": config, "kernelArguments": null})).await;
    until("the other one is rendered", async || site.ask("GET", "/config/infra", IGNITION, None).await.status == 200)
        .await;
    let old = site.ask("GET", "/config/infra", "application/vnd.coreos.ignition+json;version=3.2.0", None).await;
    let old: Value = serde_json::from_slice(&old.body).unwrap();
    assert_eq!(old["kernelArguments"], Value::Null, "S1.30: moved to where its first boot looks");
    // Mended, it is rendered anew.
    site.machine_configs.delete("", "20-large").await.unwrap();
    until("it is mended", async || site.condition("worker", "RenderDegraded").await["status"] == "False").await;
    let warned = site.condition("worker", "ServedWithoutToken").await;
    assert_eq!((&warned["status"], &warned["reason"]), (&json!("True"), &json!("OperatorSetting")));
}

/// A pool that no host can be given is told before a host asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_appliances_own_is_told_on_its_pool() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    let taken = file("3.2.0", "/etc/firesteel/instance.json", "mine");
    site.machine_config("60-taken", "worker", json!({"config": taken})).await;
    until("it is told", async || site.condition("worker", "RenderDegraded").await["status"] == "True").await;
    let told = site.condition("worker", "RenderDegraded").await;
    assert!(told["message"].as_str().unwrap().contains("/etc/firesteel/instance.json"), "{told}");
}

/// S1.14 to S1.18, S1.22: stubs in Secrets, as they are found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stubs_are_made_lifted_rotated_and_left_alone() {
    let site = Site::start(|_| {}).await;
    let ca = site.appliance.trust.pem();
    let data = ca_source;
    let spec_2 = json!({"ignition": {"version": "2.2.0", "config": {"append": [{"source": format!("{ORIGIN}worker")}]},
        "security": {"tls": {"certificateAuthorities": [{"source": data(&ca)}]}}},
        "systemd": {"units": [{"name": "mine.service", "enabled": true, "contents": "[Service]\n"}]}});
    site.appliance.add_secret("worker-user-data", "userData", spec_2.to_string().as_bytes()).await;
    site.appliance.add_secret("infra-user-data", "userData", b"#cloud-config\nhostname: a\n").await;
    site.worker().await;
    site.infra().await;
    site.appliance.add("host", "02:00:00:00:07:31", None).await;
    let text = async |name: &str| site.user_data(name).await;
    for stub in ["infra-user-data-managed", "worker-user-data-managed"] {
        until("the stub is there", async || !text(stub).await.is_empty()).await;
    }
    let made = text("worker-user-data-managed").await;
    let expected = format!(
        r#"{{"ignition":{{"version":"3.2.0","config":{{"merge":[{{"source":"{ORIGIN}worker"}}]}},"security":{{"tls":{{"certificateAuthorities":[{{"source":"{}"}}]}}}}}}}}"#,
        data(&ca)
    );
    assert_eq!(made, expected);
    let secret = site.appliance.secrets.get(NAMESPACE, "worker-user-data-managed").await.unwrap().unwrap();
    assert_eq!(secret.get("disableTemplating"), Some(&b"true\n"[..]));
    assert_eq!(secret.metadata.owner_references[0].name, "worker");
    until("spec 2 is lifted", async || text("worker-user-data").await.contains(r#""version":"3.2.0""#)).await;
    assert!(text("worker-user-data").await.contains("mine.service"), "the owner's unit stays");
    assert_eq!(text("infra-user-data").await, "#cloud-config\nhostname: a\n");

    // The owner's own spec 3 stub, with a space that no program would write, and one with two CAs.
    let own = expected.replacen("{\"ignition\"", "{ \"ignition\"", 1);
    let two = expected.replacen(
        "certificateAuthorities\":[",
        &format!("certificateAuthorities\":[{{\"source\":\"{}\"}},", data(&ca)),
        1,
    );
    let write = |content: String| {
        move |secret: &mut firesteel_resources::Secret| {
            secret
                .data
                .insert("userData".to_owned(), firesteel_resources::secret::SecretBytes(content.clone().into_bytes()));
        }
    };
    site.appliance.secrets.modify(NAMESPACE, "worker-user-data", ObjectPart::Main, write(own.clone())).await.unwrap();
    site.appliance
        .secrets
        .modify(NAMESPACE, "infra-user-data", ObjectPart::Main, write(two.replace("worker", "infra")))
        .await
        .unwrap();
    let overlap = format!("{}{ca}", Site::another_ca());
    site.appliance.trust.set(firesteel_runtime::TrustBundle { current: overlap.clone(), past: Vec::new() });
    until("the owner's stub is rotated", async || text("worker-user-data").await.contains(&data(&overlap))).await;
    assert_eq!(text("worker-user-data").await, own.replace(&data(&ca), &data(&overlap)), "no other byte changed");
    until("the managed one is rotated", async || text("worker-user-data-managed").await.contains(&data(&overlap)))
        .await;
    until("two CAs are told", async || {
        let told = site.condition("infra", "StubsManaged").await;
        told["message"].as_str().unwrap_or_default().contains("default/infra-user-data: the stub has 2 certificate")
    })
    .await;
    assert_eq!(text("infra-user-data").await, two.replace("worker", "infra"), "left alone");
    // With the pool its stub goes, and the owner's stays.
    let pools: Objects<MachineConfigPool> =
        Objects::new(&site.appliance.core, "machineconfiguration.openshift.io", "MachineConfigPool").unwrap();
    pools.delete("", "worker").await.unwrap();
    until("the managed stub goes", async || text("worker-user-data-managed").await.is_empty()).await;
    assert!(!text("worker-user-data").await.is_empty());
    // A managed one that somebody changed is his.
    let changed = text("infra-user-data-managed").await.replacen("{\"ignition\"", "{ \"ignition\"", 1);
    site.appliance
        .secrets
        .modify(NAMESPACE, "infra-user-data-managed", ObjectPart::Main, write(changed.clone()))
        .await
        .unwrap();
    until("it is nobody else's", async || {
        let secret = site.appliance.secrets.get(NAMESPACE, "infra-user-data-managed").await.unwrap().unwrap();
        secret.metadata.owner_references.is_empty()
    })
    .await;
    pools.delete("", "infra").await.unwrap();
    site.pool("later").await;
    until("the stub of a later pool is made", async || !text("later-user-data-managed").await.is_empty()).await;
    assert_eq!(text("infra-user-data-managed").await, changed);
}

/// S1.22: whoever names a stub only after a rotation has no other chance to trust the new CA.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stub_that_nobody_named_in_a_rotation_trusts_the_new_ca() {
    let site = Site::start(|_| {}).await;
    site.worker().await;
    let (ca, new) = (site.appliance.trust.pem(), Site::another_ca());
    let stub = |config: &str| {
        let merge = json!([{"source": format!("{ORIGIN}{config}")}]);
        let tls = json!({"certificateAuthorities": [{"source": ca_source(&ca)}]});
        let ignition = json!({"version": "3.2.0", "config": {"merge": merge}, "security": {"tls": tls}});
        json!({"ignition": ignition}).to_string().into_bytes()
    };
    for (secret, config) in [("spare", "worker"), ("spare-of-a-secret", "own"), ("fixed", "worker")] {
        site.appliance.add_secret(secret, "userData", &stub(config)).await;
    }
    let fix = |secret: &mut firesteel_resources::Secret| secret.immutable = Some(true);
    site.appliance.secrets.modify(NAMESPACE, "fixed", ObjectPart::Main, fix).await.unwrap();
    site.appliance.trust.set(firesteel_runtime::TrustBundle { current: new.clone(), past: vec![ca.clone()] });
    for secret in ["spare", "spare-of-a-secret"] {
        until("its CA is replaced", async || site.user_data(secret).await.contains(&ca_source(&new))).await;
    }
    // What cannot be changed is right in the host's copy.
    let (_origin, image) = published(noise(2 << 20));
    let (_, steps) = site.installation("host", "02:00:00:00:07:61", 1, &image, "fixed").await;
    let copy = String::from_utf8(handed_off(&steps, "ignition/config.ign")).unwrap();
    assert!(copy.contains(&ca_source(&new)) && !copy.contains(&ca_source(&ca)), "{copy}");
    assert!(site.user_data("fixed").await.contains(&ca_source(&ca)));
}

/// Ignition takes every answer below 500 for final: what will be there must not be denied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_not_rendered_is_not_denied() {
    let site = Site::start(|settings| settings.without_token = true).await;
    site.pool("new").await;
    site.machine_config("00-new", "new", json!({"config": file("3.2.0", "/etc/role", "new")})).await;
    until("it is served", async || {
        let answer = site.ask("GET", "/config/new", IGNITION, None).await;
        assert!(matches!(answer.status, 200 | 500), "{} {}", answer.status, answer.header("x-firesteel-reason"));
        answer.status == 200
    })
    .await;
    assert_eq!(site.ask("GET", "/config/nobody", IGNITION, None).await.status, 404);
}

/// A parent that cannot be rendered now may lead to what is asked for, and an OS needs its pool's kernel arguments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_waits_for_a_pool_that_is_there_and_not_rendered() {
    let site = Site::start(|_| {}).await;
    site.infra().await;
    site.pool("parent").await;
    until("it has nothing", async || site.condition("parent", "RenderDegraded").await["status"] == "True").await;
    site.appliance.add_secret("user-data", "userData", &stub("3.2.0", "parent")).await;
    let (_origin, image) = published(noise(2 << 20));
    let told = async {
        until("the host waits", async || {
            let events = site.events("host").await;
            events.iter().any(|(event, why)| event == "plan_failed" && why.contains("parent has no config"))
        })
        .await;
        let config = json!({"ignition": {"version": "3.3.0", "config": {"merge": [{"source": format!("{ORIGIN}infra")}]}},
            "kernelArguments": {"shouldExist": ["mitigations=off"]}});
        site.machine_config("00-parent", "parent", json!({"config": config})).await;
    };
    let ((token, steps), ()) =
        tokio::join!(site.installation("host", "02:00:00:00:07:71", 1, &image, "user-data"), told);
    assert_eq!(arguments_in(&steps).append, ["mitigations=off"]);
    assert_eq!(site.get("/config/infra", &token).await.status, 200);
    site.machine_configs.delete("", "00-parent").await.unwrap();
    until("it is gone", async || site.condition("parent", "RenderDegraded").await["status"] == "True").await;
    site.get("/config/infra", &token).await.assert_refused(500, "the pool parent has no config");
}

/// Who may have a config without a token may have it with one that opens nothing; that is told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_opens_nothing_is_no_worse_than_none() {
    let site = Site::start(|settings| settings.without_token = true).await;
    site.worker().await;
    site.infra().await;
    let (_origin, image) = published(noise(2 << 20));
    let token = site.install("host", "02:00:00:00:07:81", 1, &image, "worker-user-data-managed").await;
    let anybodys = site.ask("GET", "/config/worker", IGNITION, None).await.body;
    let served = site.get("/config/worker", "nonsense").await;
    assert_eq!((served.status, &served.body), (200, &anybodys));
    site.get("/config/nobody", "nonsense").await.assert_refused(401, "not a token");
    let own = site.get("/config/worker", &token).await;
    site.report_running(&own.body).await;
    let again = site.get("/config/worker", &token).await;
    assert_eq!((again.status, &again.body), (200, &anybodys), "nothing of its host");
    assert!(site.events("host").await.iter().any(|(event, why)| event == "config_refused" && why.contains("ended")));
    assert_eq!(site.get("/config/infra", &token).await.status, 200);
    // A Secret of the host's own is not everybody's, nor is the pool what is meant by its name.
    site.appliance.add_config("worker", file("3.2.0", "/etc/role", "own").to_string().as_bytes()).await;
    site.get("/config/worker", &token).await.assert_refused(403, "has reported that it runs");
}

fn ca_source(pem: &str) -> String {
    format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(pem))
}
