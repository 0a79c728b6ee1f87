//! The provisioning network of one lab: a bridge with the appliance's address and one tap per
//! machine, made with `ip` inside the lab's own network namespace (see `sandbox`). There is nothing
//! to remove: the kernel takes the devices away when the namespace's last process has ended.

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

#[derive(Debug, Error)]
pub enum NetError {
    #[error("running ip")]
    Run(#[source] std::io::Error),
    #[error("ip {command}: {message}")]
    Refused { command: String, message: String },
}

/// The bridge; taps are added to it.
#[derive(Debug)]
pub struct Network(());

impl Network {
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
        ip(&format!("link set {name} master {BRIDGE} up")).await
    }

    /// A wire from the bridge into the network namespace of a process, where it is called `inside`.
    /// Both ends go with that process.
    pub async fn add_wire(&self, outside: &str, inside: &str, pid: u32) -> Result<(), NetError> {
        ip(&format!("link add {outside} type veth peer name {inside} netns {pid}")).await?;
        ip(&format!("link set {outside} master {BRIDGE} up")).await
    }

    pub async fn remove_tap(&self, name: &str) -> Result<(), NetError> {
        ip(&format!("link delete {name}")).await
    }
}

async fn ip(command: &str) -> Result<(), NetError> {
    let output = Command::new("ip")
        .args(command.split(' '))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(NetError::Run)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NetError::Refused { command: command.to_owned(), message })
}
