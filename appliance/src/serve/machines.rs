//! What serves machines: the provisioning network, boot files, agents, and the control loop behind them.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::Context as _;
use firesteel_boot::{Endpoints, KernelArguments, Sealer};
use firesteel_control::{Config, Control, Images, SchemeDriver, runtime::Tokio};
use firesteel_kube::{Core, logs::Logs};
use ring::hmac;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    data_dir::DataDir,
    network::{self, Served},
    pki::Pki,
    settings::Settings,
    streams::FollowedStreams,
};
use crate::http::{
    agent::AgentServer,
    boot::{BootFiles, BootServer},
    known::Known,
    server::{CONNECTIONS, Patience, Server},
};
use crate::metrics::Metrics;

/// Bound and ready; no machine is answered yet.
#[derive(Debug)]
pub struct Machines {
    control: Control,
    services: network::Services,
    listeners: Listeners,
    known: Known,
}

#[derive(Debug)]
struct Listeners {
    http: TcpListener,
    agents: TcpListener,
    agent_tls: rustls::ServerConfig,
    boot: BootServer,
    agent: AgentServer,
}

impl Machines {
    /// # Errors
    /// What kept a part from being made ready: files, another DHCP server, a port.
    pub async fn open(
        network: &Served,
        settings: &Settings,
        data: &DataDir,
        core: &Core,
        (pki, streams): (&Pki, &FollowedStreams),
    ) -> anyhow::Result<Self> {
        let endpoints =
            Endpoints { address: network.address, http_port: settings.http_port, agent_port: settings.agent_port };
        let boot_files = settings.boot_files.as_deref().context("--boot-files is needed to serve machines")?;
        let files = BootFiles::load(boot_files, &settings.loaders)?;
        let images = streams.store();
        let control = Control::new(control_config(data, settings, core, pki, endpoints, streams.for_hosts())?)
            .map_err(|status| anyhow::anyhow!(status.message))?;
        let known = Known::default();
        let services = network::Services::open(network, settings, data, &control, (&files, &known), endpoints).await?;
        // Agents and first boots speak HTTP/1.1, and what is not offered cannot be abused.
        let mut agent_tls = (*pki.server).clone();
        agent_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let listeners = Listeners {
            http: bind("boot files", endpoints, endpoints.http_port, "http-port").await?,
            agents: bind("agents", endpoints, endpoints.agent_port, "agent-port").await?,
            agent_tls,
            boot: BootServer { control: control.clone(), files, images: Arc::new(images) },
            agent: AgentServer::new(control.clone(), known.clone()),
        };
        Ok(Self { control, services, listeners, known })
    }

    /// Which addresses are those of hosts.
    #[must_use]
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// What works on the hosts.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// What the hosts say.
    #[must_use]
    pub fn logs(&self) -> Arc<dyn Logs> {
        Arc::new(self.control.logs())
    }

    /// Starts all of it.
    pub fn spawn(self, tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core, metrics: &Metrics) {
        let Self { control, services, listeners, known } = self;
        let Listeners { http, agents, agent_tls, boot, agent } = listeners;
        let server = |name, listener, tls| {
            let (is_known, patience) = (known.is_known(), Patience::default());
            Server { name, listener, tls, share: CONNECTIONS, is_known, patience }
        };
        metrics.with_control(&control, (*boot.images).clone());
        let requests = metrics.requests().clone();
        let on_boot = move |request, remote| requests.clone().counted("boot", boot.clone().handle(request, remote));
        tasks.spawn(server("boot", http, None).run(on_boot));
        let requests = metrics.requests().clone();
        let on_agent = move |request, remote| requests.clone().counted("agent", agent.clone().handle(request, remote));
        tasks.spawn(server("agent", agents, Some(Arc::new(agent_tls))).run(on_agent));
        services.spawn(tasks, core, known.clone());
        tasks.spawn(async move { control.run().await.map_err(|error| anyhow::anyhow!(error)) });
    }
}

async fn bind(what: &str, endpoints: Endpoints, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((endpoints.address, port));
    TcpListener::bind(address).await.with_context(|| format!("listening for {what} at {address} (see --{flag})"))
}

fn control_config(
    data: &DataDir,
    settings: &Settings,
    core: &Core,
    pki: &Pki,
    endpoints: Endpoints,
    images: Arc<dyn Images>,
) -> anyhow::Result<Config> {
    let consoles = settings.console.iter().map(|console| format!("console={console}"));
    let kernel_arguments = KernelArguments::new(consoles).context("--console")?;
    let mut bmc_tls = firesteel_bmc::Tls::default();
    if let Some(path) = &settings.bmc_ca {
        bmc_tls.authorities = certificates(path)?;
    }
    let drivers = SchemeDriver::default();
    let drivers = if settings.no_bmc_consoles { drivers.without_consoles() } else { drivers };
    Ok(Config {
        core: core.clone(),
        runtime: Arc::new(Tokio::new()),
        images,
        bmc: Arc::new(drivers),
        endpoints,
        sealer: Sealer::new(&data.secret_key("token.key")?),
        nonce_key: hmac::Key::new(hmac::HMAC_SHA256, &data.secret_key("nonce.key")?),
        receipt_key: data.receipt_key()?,
        ca_pem: pki.ca_pem.clone(),
        pin_sha256: pki.pin_sha256.clone(),
        kernel_arguments,
        bmc_tls,
        hosts_at_once: settings.hosts_at_once,
        tells_events: true,
    })
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).with_context(|| format!("reading --bmc-ca {}", path.display()))?.collect();
    let found = found.with_context(|| format!("reading --bmc-ca {}", path.display()))?;
    anyhow::ensure!(!found.is_empty(), "--bmc-ca {} holds no certificate in PEM", path.display());
    Ok(found)
}
