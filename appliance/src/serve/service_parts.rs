//! What the services of the provisioning network are made of. It is there before the first of them runs, and after the
//! last one stopped: the controllers of hosts work on without a network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use firesteel_boot::HostNetwork;
use firesteel_control::Control;
use firesteel_dial::Dialer;
use firesteel_facts::WorkHold;
use firesteel_kube::Core;
use firesteel_net::tftp::HostsAt;
use firesteel_runtime::{Live, lock};
use rustls::ServerConfig;

use super::build_time::certificate_time;
use super::controllers::HostControllers;
use super::data_dir::DataDir;
use super::pki::Pki;
use super::settings::Settings;
use crate::http::agent::AgentServer;
use crate::http::boot::BootServer;
use crate::http::boot_files::{BootFiles, KeptBootFiles};
use crate::http::client_classes;
use crate::http::config::ConfigServer;
use crate::http::connection_admission::Standings;
use crate::http::images::ImageFiles;
use crate::http::operators::Operators;
use crate::image_depot::OsImages;
use crate::metrics::Metrics;
use crate::outbound::datagram_listeners;

/// What services are made of.
pub(super) struct ServiceParts {
    pub(super) settings: Settings,
    pub(super) data: DataDir,
    pub(super) core: Core,
    pub(super) controllers: HostControllers,
    pub(super) files: BootFiles,
    pub(super) kept: Option<KeptBootFiles>,
    pub(super) images: ImageFiles,
    pub(super) os_images: OsImages,
    pub(super) metrics: Metrics,
    pub(super) pki: Pki,
    pub(super) dialer: Dialer,
    pub(super) operators: Operators,
    /// The listener of the API.
    pub(super) api: SocketAddr,
    pub(super) host_network: Live<HostNetwork>,
    /// The lock under which the network is replaced.
    pub(super) changes: Mutex<()>,
}

firesteel_runtime::opaque_debug!(ServiceParts);

impl ServiceParts {
    pub(super) fn control(&self) -> &Control {
        &self.controllers.control
    }

    pub(super) fn host_network(&self) -> Live<HostNetwork> {
        self.host_network.clone()
    }

    /// Returns the function that knows which hosts are at an address.
    pub(super) fn hosts_at(&self) -> HostsAt {
        let control = self.control().clone();
        Arc::new(move |address| control.network.hosts_at(address))
    }

    /// Returns the classes of clients of a listener at this address.
    pub(super) fn standings(&self, address: Ipv4Addr) -> Standings {
        client_classes::client_classes(address.into(), self.hosts_at())
    }

    pub(super) fn boot_server(&self) -> BootServer {
        BootServer {
            control: self.control().clone(),
            files: self.files.clone(),
            kept: self.kept.clone(),
            images: self.images.clone(),
            refused: Arc::default(),
            mismatched: Arc::default(),
        }
    }

    pub(super) fn config_server(&self) -> ConfigServer {
        ConfigServer::new(self.controllers.configs.clone())
    }

    pub(super) fn agent_server(&self, address: Ipv4Addr) -> AgentServer {
        let standings = self.standings(address);
        AgentServer::new(self.control().clone(), self.config_server(), self.images.clone(), standings)
    }

    /// Returns TLS for agents and first boots. They speak HTTP/1.1; what is not offered cannot be abused.
    pub(super) fn agent_tls(&self) -> Arc<ServerConfig> {
        let mut tls = (*self.pki.server).clone();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(tls)
    }

    /// Says why no host begins work for which it boots into the agent, or that hosts may.
    pub(super) fn hold_work(&self, hold: Option<WorkHold>) {
        let _held = lock(&self.changes);
        let now = self.host_network.now();
        if now.work_hold != hold {
            self.host_network.replace(HostNetwork { work_hold: hold, ..(*now).clone() });
            self.control().network_changed();
        }
    }

    /// Takes in how hosts reach the appliance from now on: the server's certificate names the address, nothing that
    /// users name leads to a listener there, and stubs and tokens are made for it.
    pub(super) fn network_changed(&self, network: HostNetwork) {
        let _held = lock(&self.changes);
        let address = network.endpoints.address;
        self.certify(Some(address));
        let now = self.host_network.now();
        let network = HostNetwork { work_hold: now.work_hold.clone(), ..network };
        if *now == network {
            return;
        }
        self.dialer.set_listeners(self.own_listeners(address));
        self.operators.set_own(IpAddr::V4(address));
        self.os_images.cached().set_address(address);
        self.host_network.replace(network);
        self.controllers.configs.network_changed();
        self.control().network_changed();
    }

    /// Takes in that no network is served any more: the server's certificate names no address of one.
    pub(super) fn network_stopped(&self) {
        let _held = lock(&self.changes);
        self.certify(None);
    }

    /// Has the server's certificate name this address of the network.
    fn certify(&self, address: Option<Ipv4Addr>) {
        if let Err(error) = self.pki.set_network_address(address.map(IpAddr::V4), certificate_time()) {
            tracing::error!(
                ?address,
                error = format!("{error:#}"),
                "could not make a certificate for the address; agents trust the key all the same, other clients do not"
            );
        }
    }

    /// Returns the listeners of this process: connections to addresses from users must not go there.
    fn own_listeners(&self, address: Ipv4Addr) -> Vec<SocketAddr> {
        own_listeners(&self.settings, address, self.api)
    }
}

/// Returns the listeners of a process that serves machines at this address.
pub(super) fn own_listeners(settings: &Settings, address: Ipv4Addr, api: SocketAddr) -> Vec<SocketAddr> {
    let named = settings.config_host.as_deref().and_then(config_address);
    let addresses = [IpAddr::V4(address)].into_iter().chain(named);
    let config_ports = [Some(settings.config_port), settings.config_plain_port].into_iter().flatten();
    let ports: Vec<u16> = [settings.http_port, settings.agent_port].into_iter().chain(config_ports).collect();
    let of_ports = addresses.flat_map(|address| ports.iter().map(move |port| SocketAddr::from((address, *port))));
    of_ports.chain([api]).chain(datagram_listeners()).collect()
}

/// Parses the address that stubs name; `None` if it is a DNS name.
pub(super) fn config_address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}
