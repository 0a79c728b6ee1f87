//! The parts that serve machines: the provisioning network, boot files, agents, and the control loop behind them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use firesteel_boot::{AskerRule, Endpoints, KernelArguments, Sealer, ServedBootFiles};
use firesteel_config_server::ConfigSettings;
use firesteel_control::{Control, Images, SchemeDriver};
use firesteel_kube::{Core, logs::Logs};
use firesteel_resources::NetworkMode;
use jiff::SignedDuration;
use ring::hmac;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{net::TcpListener, task::JoinSet};

use super::ServeContext;
use super::controllers::{ControllersConfig, HostControllers};
use super::network::{self, ServedNetwork};
use super::pki::Pki;
use super::settings::Settings;
use super::streams::FollowedStreams;
use crate::http::agent::AgentServer;
use crate::http::boot::BootServer;
use crate::http::boot_files::{self, BootFiles};
use crate::http::client_classes;
use crate::http::config::{self, ConfigServer};
use crate::http::connection_admission::Standings;
use crate::http::images::ImageFiles;
use crate::http::server::{CONNECTIONS, HttpTimeouts, Server};
use crate::metrics::Metrics;
use crate::outbound::{OutboundRuntime, datagram_listeners};
use firesteel_net::tftp::HostsAt;

/// The services for machines: bound and ready, but not answering yet.
#[derive(Debug)]
pub struct MachineServices {
    controllers: HostControllers,
    services: network::Services,
    listeners: Listeners,
    standings: Standings,
}

#[derive(Debug)]
struct Listeners {
    http: TcpListener,
    agents: TcpListener,
    /// The listeners of the config server; `true` means with TLS.
    configs: Vec<(TcpListener, bool)>,
    agent_tls: rustls::ServerConfig,
    boot: BootServer,
    agent: AgentServer,
    config: ConfigServer,
}

impl MachineServices {
    /// # Errors
    /// When a part cannot be made ready: files, another DHCP server, a port.
    pub(super) async fn open(
        context: &ServeContext<'_>,
        network: &ServedNetwork,
        pki: &Pki,
        streams: &FollowedStreams,
        way_out: &OutboundRuntime,
    ) -> anyhow::Result<Self> {
        let ServeContext { settings, data, .. } = context;
        let endpoints =
            Endpoints { address: network.address, http_port: settings.http_port, agent_port: settings.agent_port };
        let boot_files_folder = settings.boot_files.as_deref().context("--boot-files is needed to serve machines")?;
        let files = BootFiles::load(boot_files_folder, &settings.loaders)?;
        let kept = boot_files::keep(&data.path("boot"), boot_files_folder, &files).unwrap_or_else(|error| {
            tracing::warn!(
                "could not keep the boot files for a later upgrade: {error}; boots under way then start again"
            );
            None
        });
        let images = ImageFiles::new(streams.store());
        let boot_files = ServedBootFiles { current: files.set(), kept: kept.as_ref().map(|kept| kept.set) };
        let config = controllers_config(context, network, pki, endpoints, boot_files, streams.for_hosts(), way_out)?;
        let controllers = HostControllers::new(config)?;
        let control = &controllers.control;
        let asked = control.clone();
        let hosts: HostsAt = Arc::new(move |address| asked.network.hosts_at(address));
        let standings = client_classes::client_classes(network.address.into(), Arc::clone(&hosts));
        let services = network::Services::open(network, settings, data, control, &files, hosts, endpoints).await?;
        // Agents and first boots speak HTTP/1.1; what is not offered cannot be abused.
        let mut agent_tls = (*pki.server).clone();
        agent_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = ConfigServer::new(controllers.configs.clone());
        let listeners = Listeners {
            http: bind("boot files", endpoints, endpoints.http_port, "http-port").await?,
            agents: bind("agents", endpoints, endpoints.agent_port, "agent-port").await?,
            configs: config_listeners(endpoints, settings).await?,
            agent_tls,
            boot: BootServer {
                control: control.clone(),
                files,
                kept,
                images: images.clone(),
                refused: Arc::default(),
                mismatched: Arc::default(),
            },
            agent: AgentServer::new(control.clone(), config.clone(), images, standings.clone()),
            config,
        };
        Ok(Self { controllers, services, listeners, standings })
    }

    /// The control loop of the hosts.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.controllers.control
    }

    /// The logs of the hosts.
    #[must_use]
    pub fn logs(&self) -> Arc<dyn Logs> {
        Arc::new(self.control().logs())
    }

    /// Starts all services.
    pub fn spawn(self, tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core, metrics: &Metrics) {
        let Self { controllers, services, listeners, standings } = self;
        let Listeners { http, agents, configs, agent_tls, boot, agent, config } = listeners;
        let agent_tls = Arc::new(agent_tls);
        let counted = metrics.requests().clone();
        let server = |name, listener, tls| {
            let (standings, requests) = (standings.clone(), counted.clone());
            Server { name, listener, tls, share: CONNECTIONS, standings, patience: HttpTimeouts::default(), requests }
        };
        metrics.with_controllers(&controllers, boot.images.store().clone());
        let requests = metrics.requests().clone();
        let on_boot = move |request, remote| requests.clone().counted("boot", boot.clone().handle(request, remote));
        tasks.spawn(server("boot", http, None).run(on_boot));
        let requests = metrics.requests().clone();
        let on_agent = move |request, remote| requests.clone().counted("agent", agent.clone().handle(request, remote));
        tasks.spawn(server("agent", agents, Some(Arc::clone(&agent_tls))).run(on_agent));
        for (listener, is_secure) in configs {
            let (requests, config) = (metrics.requests().clone(), config.clone());
            let on_config =
                move |request, remote| requests.clone().counted("config", config.clone().handle(request, remote));
            let tls = is_secure.then(|| Arc::clone(&agent_tls));
            let server = Server { share: config::CONNECTIONS, ..server("config", listener, tls) };
            tasks.spawn(server.run(on_config));
        }
        services.spawn(tasks, core);
        tasks.spawn(async move { controllers.run().await.map_err(anyhow::Error::from) });
    }
}

async fn bind(what: &str, endpoints: Endpoints, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((endpoints.address, port));
    TcpListener::bind(address).await.with_context(|| format!("could not listen for {what} at {address} (see --{flag})"))
}

/// Binds to the provisioning address, and to the address that stubs name if that is another one.
async fn config_listeners(endpoints: Endpoints, settings: &Settings) -> anyhow::Result<Vec<(TcpListener, bool)>> {
    let named = settings.config_host.as_deref().and_then(config_address);
    let addresses: BTreeSet<IpAddr> = [IpAddr::V4(endpoints.address)].into_iter().chain(named).collect();
    let ports = [Some((settings.config_port, true)), settings.config_plain_port.map(|port| (port, false))];
    let mut bound = Vec::new();
    for address in addresses {
        for (port, is_secure) in ports.into_iter().flatten() {
            let at = SocketAddr::from((address, port));
            let listener = TcpListener::bind(at).await;
            bound.push((
                listener.with_context(|| format!("could not listen for configs at {at} (see --config-port)"))?,
                is_secure,
            ));
        }
    }
    Ok(bound)
}

/// Returns the listeners of this process: connections to addresses from users must not go there.
pub(super) fn own_listeners(network: &ServedNetwork, settings: &Settings, api: SocketAddr) -> Vec<SocketAddr> {
    let named = settings.config_host.as_deref().and_then(config_address);
    let addresses = [IpAddr::V4(network.address)].into_iter().chain(named);
    let config_ports = [Some(settings.config_port), settings.config_plain_port].into_iter().flatten();
    let ports: Vec<u16> = [settings.http_port, settings.agent_port].into_iter().chain(config_ports).collect();
    let of_ports = addresses.flat_map(|address| ports.iter().map(move |port| SocketAddr::from((address, *port))));
    of_ports.chain([api]).chain(datagram_listeners()).collect()
}

/// Parses the address that stubs name; `None` if it is a DNS name.
pub(super) fn config_address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn config_settings(network: &ServedNetwork, settings: &Settings) -> ConfigSettings {
    ConfigSettings {
        host: settings.config_host.clone(),
        port: settings.config_port,
        plain_port: settings.config_plain_port,
        // Another DHCP server is assumed to name DNS servers.
        hosts_have_dns: network.network.mode != NetworkMode::Managed || network.network.dns,
        without_token: settings.config_without_token,
        token_life: SignedDuration::from_hours(24 * i64::from(settings.config_token_days)),
    }
}

/// If another server does DHCP, no lease says which address belongs to which host.
fn asker_rule(mode: NetworkMode) -> AskerRule {
    match mode {
        NetworkMode::Managed => AskerRule::Lease,
        NetworkMode::Unmanaged | NetworkMode::Disabled => AskerRule::FirstAsker,
    }
}

fn controllers_config(
    context: &ServeContext<'_>,
    network: &ServedNetwork,
    pki: &Pki,
    endpoints: Endpoints,
    boot_files: ServedBootFiles,
    images: Arc<dyn Images>,
    way_out: &OutboundRuntime,
) -> anyhow::Result<ControllersConfig> {
    let ServeContext { settings, data, core, clock, .. } = context;
    let consoles = settings.console.iter().map(|console| format!("console={console}"));
    let kernel_arguments = KernelArguments::new(consoles).context("--console")?;
    let mut bmc_tls = firesteel_bmc::Tls::default();
    if let Some(path) = &settings.bmc_ca {
        bmc_tls.authorities = certificates(path)?;
    }
    let drivers = SchemeDriver::new(way_out.dialer().clone());
    let drivers = if settings.no_bmc_consoles { drivers.without_consoles() } else { drivers };
    Ok(ControllersConfig {
        core: core.clone(),
        runtime: Arc::new(way_out.runtime()),
        clock: clock.clone(),
        images,
        bmc: Arc::new(drivers),
        endpoints,
        asker_rule: asker_rule(network.network.mode),
        boot_files,
        sealer: Sealer::new(&data.secret_key("token.key")?),
        nonce_key: hmac::Key::new(hmac::HMAC_SHA256, &data.secret_key("nonce.key")?),
        receipt_key: data.receipt_key()?,
        trust: pki.trust().clone(),
        configs: config_settings(network, settings),
        pin_sha256: pki.pin_sha256.clone(),
        kernel_arguments,
        bmc_tls,
        hosts_at_once: settings.hosts_at_once,
        boot_image_minimum: settings.boot_image_minimum,
        tells_events: true,
    })
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .with_context(|| format!("could not read --bmc-ca {}", path.display()))?
        .collect();
    let found = found.with_context(|| format!("could not read --bmc-ca {}", path.display()))?;
    anyhow::ensure!(!found.is_empty(), "--bmc-ca {} holds no certificate in PEM", path.display());
    Ok(found)
}
