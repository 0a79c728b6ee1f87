//! `firesteel serve`: builds every part, starts them, and ends when the first one does.
//!
//! ```text
//! settings ─► data folder ─► keys, certificates ─► store ─► kinds ─► Provisioning
//!                                                              │
//!   DHCP ─┐                                                    ▼
//!   TFTP ─┤──► control (queue, steps, effects) ◄────── core (objects)
//!   HTTP ─┤                                                    ▲
//!  agents ┘                                             API ───┘
//! ```
//!
//! All tasks live in one set: the first that fails, or panics, ends the process, and whoever
//! supervises it starts it again; every part goes on from what is on disk.

pub mod data_dir;
pub mod kinds;
pub mod memory;
pub mod network;
pub mod pki;
pub mod settings;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_boot::{Endpoints, KernelArguments, Sealer};
use firesteel_control::{Config, Control, RedfishDriver, runtime::Tokio};
use firesteel_images::import::{Acquirer, ImageStore};
use firesteel_kube::{Api, Core};
use firesteel_store::{Compactor, Durability, Retention, Store};
use jiff::Timestamp;
use ring::hmac;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

use crate::backup::{Backups, serve::log_lineage};
use crate::http::{
    agent::AgentServer,
    api::{self, AdminToken},
    boot::{BootFiles, BootServer},
    known::Known,
    server::{API_CONNECTIONS, CONNECTIONS, Patience, Server},
};
use data_dir::DataDir;
use pki::Pki;
use settings::Settings;

/// How long we listen for another DHCP server before we become one.
const LISTEN_FOR_OTHERS: Duration = Duration::from_secs(3);

/// Runs the appliance until a signal, or until a part of it fails.
///
/// # Errors
/// What kept a part from starting, or ended it.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    start_log(&settings)?;
    // Libraries that make their own TLS clients ask for the process's provider.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed already");
    }
    let data = DataDir::open(&settings.data)?;
    let core = open_store(&data, settings.durability).await?;
    let network = network::open(&core, &settings).await?;
    let endpoints =
        Endpoints { address: network.address, http_port: settings.http_port, agent_port: settings.agent_port };
    let addresses = [IpAddr::V4(network.address), IpAddr::V4(Ipv4Addr::LOCALHOST), settings.api.ip()];
    let pki = Pki::open(&data, &addresses, Timestamp::now())?;
    let admin = admin_access(&data, &settings, &pki)?;
    let files = BootFiles::load(&settings.boot_files, &settings.loaders)?;
    let images = ImageStore::open(&data.path("images")).context("opening the image store")?;
    let control = Control::new(control_config(&data, &settings, &core, &pki, endpoints, images.clone())?)
        .map_err(|status| anyhow::anyhow!(status.message))?;
    let mut tasks = JoinSet::new();
    let known = Known::default();
    let services = network::Services::open(&network, &settings, &data, &control, (&files, &known), endpoints).await?;
    listen(
        &mut tasks,
        &settings,
        endpoints,
        &pki,
        (&core, admin, Backups::new(core.store().clone(), data.path(""))),
        (
            AgentServer::new(control.clone(), known.clone()),
            BootServer { control: control.clone(), files, images: Arc::new(images) },
        ),
        &known,
    )
    .await?;
    services.spawn(&mut tasks, &core, known);
    let looped = control.clone();
    tasks.spawn(async move { looped.run().await.map_err(|error| anyhow::anyhow!(error)) });
    let compactor = core.store().clone();
    tasks.spawn(async move { compact(compactor).await });
    for part in memory::PARTS {
        tracing::debug!(part = part.what, kib_max = part.bytes >> 10, "memory");
    }
    tracing::info!(
        address = %network.address, interface = %network.interface, api = %settings.api,
        memory_mib_max = memory::BOUND_BYTES >> 20,
        "Firesteel serves; `firesteel get hosts` shows what it knows"
    );
    until_signal(tasks).await
}

fn start_log(settings: &Settings) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&settings.log)
        .with_context(|| format!("--log {}: not a log filter", settings.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if settings.log_json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
    started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))
}

async fn open_store(data: &DataDir, durability: Durability) -> anyhow::Result<Core> {
    let store = Store::open_with(&data.path("resources.db"), durability).context("opening the store")?;
    log_lineage(store.lineage());
    let core = Core::new(store, kinds::registry());
    core.ensure_namespace("default").await.map_err(|status| anyhow::anyhow!(status.message))?;
    core.publish_kinds().await.map_err(|status| anyhow::anyhow!(status.message))?;
    // Deletions of namespaces that a crash interrupted.
    core.resume().await.map_err(|status| anyhow::anyhow!(status.message))?;
    Ok(core)
}

fn control_config(
    data: &DataDir,
    settings: &Settings,
    core: &Core,
    pki: &Pki,
    endpoints: Endpoints,
    images: ImageStore,
) -> anyhow::Result<Config> {
    let consoles = settings.console.iter().map(|console| format!("console={console}"));
    let kernel_arguments = KernelArguments::new(consoles).context("--console")?;
    let mut bmc_tls = firesteel_bmc::Tls::default();
    if let Some(path) = &settings.bmc_ca {
        bmc_tls.authorities = certificates(path)?;
    }
    Ok(Config {
        core: core.clone(),
        runtime: Arc::new(Tokio::new()),
        images: Arc::new(Acquirer::new(images, Some(&data.path("import"))).context("preparing image downloads")?),
        bmc: Arc::new(RedfishDriver),
        endpoints,
        sealer: Sealer::new(&data.secret_key("token.key")?),
        nonce_key: hmac::Key::new(hmac::HMAC_SHA256, &data.secret_key("nonce.key")?),
        receipt_key: data.receipt_key()?,
        ca_pem: pki.ca_pem.clone(),
        pin_sha256: pki.pin_sha256.clone(),
        kernel_arguments,
        bmc_tls,
    })
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).with_context(|| format!("reading --bmc-ca {}", path.display()))?.collect();
    let found = found.with_context(|| format!("reading --bmc-ca {}", path.display()))?;
    anyhow::ensure!(!found.is_empty(), "--bmc-ca {} holds no certificate in PEM", path.display());
    Ok(found)
}

/// The admin's token, in a kubeconfig that `firesteel` and `kubectl` read; made at the first start.
fn admin_access(data: &DataDir, settings: &Settings, pki: &Pki) -> anyhow::Result<AdminToken> {
    let token = hex::encode(data.secret_key("admin.token")?);
    let server = match settings.api.ip() {
        ip if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, settings.api.port())),
        ip => SocketAddr::from((ip, settings.api.port())),
    };
    let name = "firesteel";
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority-data": STANDARD.encode(&pki.ca_pem),
        }}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin", "namespace": "default"}}],
        "current-context": name,
    });
    // JSON is YAML, so every reader of kubeconfigs takes it.
    data.write_private("admin.kubeconfig", serde_json::to_string_pretty(&config)?.as_bytes())?;
    AdminToken::new(&token).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))
}

/// Binds the three listeners and starts them.
async fn listen(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    settings: &Settings,
    endpoints: Endpoints,
    pki: &Pki,
    (core, admin, backups): (&Core, AdminToken, Backups),
    (agent, boot): (AgentServer, BootServer),
    known: &Known,
) -> anyhow::Result<()> {
    let bind = async |what: &'static str, address: SocketAddr, flag: &str| -> anyhow::Result<TcpListener> {
        TcpListener::bind(address).await.with_context(|| format!("listening for {what} at {address} (see --{flag})"))
    };
    let provisioning = |port: u16| SocketAddr::from((endpoints.address, port));
    let http = bind("boot files", provisioning(endpoints.http_port), "http-port").await?;
    let agents = bind("agents", provisioning(endpoints.agent_port), "agent-port").await?;
    let people = bind("the API", settings.api, "api").await?;

    let server = |name, listener, share, tls| {
        let (is_known, patience) = (known.is_known(), Patience::default());
        Server { name, listener, tls, share, is_known, patience }
    };
    let on_boot = move |request, remote| boot.clone().handle(request, remote);
    tasks.spawn(server("boot", http, CONNECTIONS, None).run(on_boot));
    // Agents and first boots speak HTTP/1.1, and what is not offered cannot be abused.
    let mut agent_tls = (*pki.server).clone();
    agent_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let on_agent = move |request, remote| agent.clone().handle(request, remote);
    tasks.spawn(server("agent", agents, CONNECTIONS, Some(Arc::new(agent_tls))).run(on_agent));
    let kube = Api::new(core.clone());
    let on_api = move |request, _| api::handle(kube.clone(), backups.clone(), admin.clone(), request);
    tasks.spawn(server("API", people, API_CONNECTIONS, Some(Arc::clone(&pki.server))).run(on_api));
    Ok(())
}

/// Keeps the store's history short, for as long as the process lives.
async fn compact(store: Store) -> anyhow::Result<()> {
    let mut compactor = Compactor::new(Retention::default());
    let started = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let now_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let through = compactor.observe(now_ms, store.current());
        if let Err(error) = store.compact(through).await {
            tracing::warn!(%error, "compacting the store");
        }
    }
}

async fn until_signal(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        ended = tasks.join_next() => match ended {
            Some(Ok(Ok(()))) | None => anyhow::bail!("a part of the appliance ended by itself"),
            Some(Ok(Err(error))) => return Err(error),
            Some(Err(error)) => return Err(error).context("a part of the appliance panicked"),
        },
    }
    tracing::info!("stopping: every host goes on from where it is at the next start");
    Ok(())
}
