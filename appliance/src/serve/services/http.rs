//! The HTTP listeners as one service: boot files and images, agents, and configs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;

use super::ServiceTasks;
use crate::http::config;
use crate::http::server::{CONNECTIONS, HttpTimeouts, Server};
use crate::serve::service_parts::{ServiceParts, config_address};
use crate::serve::settings::Settings;

/// Starts all listeners, or none.
///
/// # Errors
/// When a port is not available.
pub(super) async fn start(
    tasks: &mut ServiceTasks,
    parts: &Arc<ServiceParts>,
    address: Ipv4Addr,
) -> anyhow::Result<()> {
    let settings = &parts.settings;
    let boot = bind("boot files", address, settings.http_port, "http-port").await?;
    let agents = bind("agents", address, settings.agent_port, "agent-port").await?;
    let configs = config_listeners(address, settings).await?;
    let counted = parts.metrics.requests().clone();
    let server = |name, listener, tls| {
        let (standings, requests) = (parts.standings(address), counted.clone());
        Server { name, listener, tls, share: CONNECTIONS, standings, patience: HttpTimeouts::default(), requests }
    };
    let (handler, requests) = (parts.boot_server(), counted.clone());
    let on_boot = move |request, remote| requests.clone().counted("boot", handler.clone().handle(request, remote));
    tasks.spawn(server("boot", boot, None).run(on_boot));
    let (handler, requests) = (parts.agent_server(address), counted.clone());
    let on_agent = move |request, remote| requests.clone().counted("agent", handler.clone().handle(request, remote));
    tasks.spawn(server("agent", agents, Some(parts.agent_tls())).run(on_agent));
    for (listener, is_secure) in configs {
        let (handler, requests) = (parts.config_server(), counted.clone());
        let on_config =
            move |request, remote| requests.clone().counted("config", handler.clone().handle(request, remote));
        let tls = is_secure.then(|| parts.agent_tls());
        let server = Server { share: config::CONNECTIONS, ..server("config", listener, tls) };
        tasks.spawn(server.run(on_config));
    }
    Ok(())
}

async fn bind(what: &str, address: Ipv4Addr, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((address, port));
    TcpListener::bind(address).await.with_context(|| format!("could not listen for {what} at {address} (see --{flag})"))
}

/// Binds to the address of the network, and to the address that stubs name if that is another one. `true` means with
/// TLS.
async fn config_listeners(address: Ipv4Addr, settings: &Settings) -> anyhow::Result<Vec<(TcpListener, bool)>> {
    let named = settings.config_host.as_deref().and_then(config_address);
    let addresses: BTreeSet<IpAddr> = [IpAddr::V4(address)].into_iter().chain(named).collect();
    let ports = [Some((settings.config_port, true)), settings.config_plain_port.map(|port| (port, false))];
    let mut bound = Vec::new();
    for address in addresses {
        for (port, is_secure) in ports.into_iter().flatten() {
            let at = SocketAddr::from((address, port));
            let listener = TcpListener::bind(at).await;
            let listener =
                listener.with_context(|| format!("could not listen for configs at {at} (see --config-port)"));
            bound.push((listener?, is_secure));
        }
    }
    Ok(bound)
}
