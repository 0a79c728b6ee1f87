//! The provisioning network of one lab: a bridge with the appliance's address and one tap per
//! machine, made with `ip` inside the lab's own network namespace (see `sandbox`). The kernel takes the
//! devices away when the namespace's last process has ended; a lab that ends before removes its own, for
//! the next one in the same namespace.

use std::{net::Ipv4Addr, process::Stdio};

use thiserror::Error;
use tokio::process::Command;

/// The appliance's address, and the bridge's.
pub const APPLIANCE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub const NETWORK_CIDR: &str = "10.77.0.0/24";
pub const DHCP_RANGE: &str = "10.77.0.50,10.77.0.200";
pub const BRIDGE: &str = "br0";
/// A bridge without an address of its own takes the lowest of its ports, which changes with each
/// new tap and leaves clients with a stale ARP entry.
const BRIDGE_MAC: &str = "52:54:00:77:00:fe";
/// The ends of a cable to another bridge: at this bridge, and there.
const CABLE: (&str, &str) = ("cable0", "cable1");

#[derive(Debug, Error)]
pub enum NetError {
    #[error("running ip")]
    Run(#[source] std::io::Error),
    #[error("ip {command}: {message}")]
    Refused { command: String, message: String },
}

/// The bridge; taps are added to it.
#[derive(Debug)]
pub struct LabBridge(());

impl LabBridge {
    /// Makes the bridge. Must be called inside the lab's namespace.
    pub async fn create() -> Result<Self, NetError> {
        ip("link set lo up").await?;
        ip(&format!("link add {BRIDGE} address {BRIDGE_MAC} type bridge stp_state 0 forward_delay 0")).await?;
        ip(&format!("addr add {APPLIANCE_ADDRESS}/24 dev {BRIDGE}")).await?;
        ip(&format!("link set {BRIDGE} up")).await?;
        Ok(Self(()))
    }

    /// A tap on the bridge that QEMU can open. The name's length is at most 15.
    pub async fn add_tap(&self, name: &str) -> Result<(), NetError> {
        ip(&format!("tuntap add {name} mode tap")).await?;
        ip(&format!("link set {name} master {BRIDGE} up")).await.map(drop)
    }

    /// What lies behind a router on this network.
    pub async fn add_route(&self, cidr: &str, via: Ipv4Addr) -> Result<(), NetError> {
        ip(&format!("route replace {cidr} via {via}")).await.map(drop)
    }

    /// A wire from the bridge into the network namespace of a process, where it is called `inside`.
    /// Both ends go with that process.
    pub async fn add_wire(&self, outside: &str, inside: &str, pid: u32) -> Result<(), NetError> {
        ip(&format!("link add {outside} type veth peer name {inside} netns {pid}")).await?;
        ip(&format!("link set {outside} master {BRIDGE} up")).await.map(drop)
    }

    /// A cable between this bridge and another one of the same namespace.
    pub async fn join(&self, bridge: &str) -> Result<(), NetError> {
        let (own, other) = CABLE;
        ip(&format!("link add {own} type veth peer name {other}")).await?;
        ip(&format!("link set {other} master {bridge} up")).await?;
        ip(&format!("link set {own} master {BRIDGE} up")).await.map(drop)
    }

    /// Takes the bridge away, and what is connected to it.
    pub async fn remove(self) -> Result<(), NetError> {
        let ports = ip(&format!("-o link show master {BRIDGE}")).await?;
        for port in ports.lines().filter_map(port_name) {
            ip(&format!("link delete {port}")).await?;
        }
        ip(&format!("link delete {BRIDGE}")).await.map(drop)
    }
}

/// Takes an address from an interface, as a person does by hand.
pub async fn remove_address(address: Ipv4Addr, interface: &str) -> Result<(), NetError> {
    ip(&format!("addr del {address}/24 dev {interface}")).await.map(drop)
}

/// Says whether an interface has an address.
pub async fn has_address(address: Ipv4Addr, interface: &str) -> Result<bool, NetError> {
    let shown = ip(&format!("-o -4 addr show dev {interface}")).await?;
    Ok(shown.split_whitespace().any(|word| word.split('/').next() == Some(&address.to_string())))
}

/// The port's name in a line such as `7: tap1: <BROADCAST,…` or `9: wire0@if8: <…`.
fn port_name(line: &str) -> Option<&str> {
    let name = line.split(": ").nth(1)?;
    name.split('@').next()
}

/// What `ip` printed.
async fn ip(command: &str) -> Result<String, NetError> {
    let output = Command::new("ip")
        .args(command.split(' '))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(NetError::Run)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NetError::Refused { command: command.to_owned(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_what_ip_prints() {
        assert_eq!(port_name("7: tap1: <BROADCAST,MULTICAST> mtu 1500 master br0 state DOWN"), Some("tap1"));
        assert_eq!(port_name("9: wire0@if8: <BROADCAST> mtu 1500 link-netnsid 0"), Some("wire0"));
        assert_eq!(port_name(""), None);
    }
}
