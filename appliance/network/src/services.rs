//! The services that a Provisioning object asks for (upstream's table, S0-2.3), with what each needs to know.
//!
//! | service | Managed | Unmanaged | Disabled |
//! |---|---|---|---|
//! | address on the interface | yes | yes | if one is given |
//! | boot files, agents, configs by HTTP | yes | yes | yes, on the API's address if no other is given |
//! | TFTP | yes | yes | no |
//! | DHCP | yes | no | no |
//! | cache of the OS image | if a URL is given | the same | the same |
//! | sensors | if they are asked for | the same | the same |
//!
//! A service that is wanted and cannot run, because its interface is not there, is a [`ServiceFault`]; the others run.

use std::net::{IpAddr, Ipv4Addr};

use firesteel_facts::Mac;
use firesteel_resources::provisioning::{NetworkMode, ProvisioningNetwork, unserved};

/// A service of the provisioning network, in the order in which services start: a client is directed to a service only
/// once that runs. They stop in the opposite order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceName {
    /// Keeps the address on the interface.
    Address,
    /// Boot files, agents and configs by HTTP.
    Http,
    ImageCache,
    Sensors,
    Tftp,
    Dhcp,
}

impl ServiceName {
    pub const ALL: [Self; 6] = [Self::Address, Self::Http, Self::ImageCache, Self::Sensors, Self::Tftp, Self::Dhcp];

    /// Returns the word for logs, metrics and conditions.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Http => "http",
            Self::ImageCache => "image-cache",
            Self::Sensors => "sensors",
            Self::Tftp => "tftp",
            Self::Dhcp => "dhcp",
        }
    }
}

/// What is known of an interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceFacts {
    pub name: String,
    /// The kernel's number: an interface that vanished and returned has another one, and old sockets do not serve it.
    pub index: u32,
    /// Is absent where the link has no Ethernet address.
    pub mac: Option<Mac>,
    pub addresses: Vec<Ipv4Addr>,
}

/// What the flags of the process say of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// `--interface`, which wins over the object.
    pub interface: Option<String>,
    /// The address of the API, at which hosts reach the appliance if the network has no address.
    pub api_address: IpAddr,
    /// There are files that boot hosts into the agent.
    pub has_boot_files: bool,
}

/// An interface that serves: its name and the kernel's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedLink {
    pub name: String,
    pub index: u32,
}

/// The address that is kept on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAddress {
    pub link: ServedLink,
    pub address: Ipv4Addr,
    /// Is absent where the object names no network: then the address is looked for and never put.
    pub prefix_length: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TftpPlan {
    pub link: ServedLink,
    pub address: Ipv4Addr,
}

/// What DHCP serves. All but link and address changes while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DhcpPlan {
    pub link: ServedLink,
    pub address: Ipv4Addr,
    pub network: Ipv4Addr,
    pub prefix_length: u8,
    /// The first and the last address that is leased.
    pub range: (Ipv4Addr, Ipv4Addr),
    pub gateway: Option<Ipv4Addr>,
    /// Whether the appliance's address is handed out as DNS server.
    pub dns: bool,
    /// Time servers: the addresses of the object, and those that its names have now.
    pub ntp: Vec<Ipv4Addr>,
}

/// How sensors are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorPlan {
    /// Seconds between two readings of a host.
    pub every_s: u32,
    /// Whether the default alerts are published.
    pub with_alerts: bool,
}

/// The services that run, or are to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePlan {
    pub address: Option<KeptAddress>,
    /// Where boot files, agents and configs are served.
    pub http: Option<Ipv4Addr>,
    /// The URL of the OS image, with its digest.
    pub image_cache: Option<String>,
    pub sensors: Option<SensorPlan>,
    pub tftp: Option<TftpPlan>,
    pub dhcp: Option<DhcpPlan>,
}

impl ServicePlan {
    /// Says whether it has this service.
    #[must_use]
    pub fn has(&self, name: ServiceName) -> bool {
        match name {
            ServiceName::Address => self.address.is_some(),
            ServiceName::Http => self.http.is_some(),
            ServiceName::ImageCache => self.image_cache.is_some(),
            ServiceName::Sensors => self.sensors.is_some(),
            ServiceName::Tftp => self.tftp.is_some(),
            ServiceName::Dhcp => self.dhcp.is_some(),
        }
    }

    /// Takes the settings of one service, or that it is not there, from another plan.
    pub(crate) fn take_from(&mut self, other: &Self, name: ServiceName) {
        match name {
            ServiceName::Address => self.address.clone_from(&other.address),
            ServiceName::Http => self.http = other.http,
            ServiceName::ImageCache => self.image_cache.clone_from(&other.image_cache),
            ServiceName::Sensors => self.sensors = other.sensors,
            ServiceName::Tftp => self.tftp.clone_from(&other.tftp),
            ServiceName::Dhcp => self.dhcp.clone_from(&other.dhcp),
        }
    }

    /// Says which askers for boot scripts may be hosts: where another server does DHCP, no lease says which address
    /// belongs to which host.
    #[must_use]
    pub fn leases_addresses(&self) -> bool {
        self.dhcp.is_some()
    }

    /// Says whether hosts have DNS before their OS runs. Another DHCP server is assumed to name DNS servers.
    #[must_use]
    pub fn hosts_have_dns(&self) -> bool {
        self.dhcp.as_ref().is_none_or(|dhcp| dhcp.dns)
    }

    /// Takes in the kernel's numbers of the interfaces, by their names: one that vanished and returned has another.
    pub(crate) fn refresh_link(&mut self, interfaces: &[InterfaceFacts]) {
        let links = [
            self.address.as_mut().map(|kept| &mut kept.link),
            self.tftp.as_mut().map(|tftp| &mut tftp.link),
            self.dhcp.as_mut().map(|dhcp| &mut dhcp.link),
        ];
        for link in links.into_iter().flatten() {
            if let Some(found) = interfaces.iter().find(|interface| interface.name == link.name) {
                link.index = found.index;
            }
        }
    }

    /// Returns the interface that serves.
    pub(crate) fn link(&self) -> Option<&ServedLink> {
        self.address.as_ref().map(|kept| &kept.link)
    }
}

/// Why wanted services cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceFault {
    /// The object cannot be served at all; the text names the field.
    #[error("{0}")]
    Unserved(String),
    #[error(
        "spec.provisioningInterface: name the provisioning interface there, by its MAC in \
             spec.provisioningMacAddresses, or by --interface"
    )]
    NoInterfaceNamed,
    #[error(
        "spec.provisioningNetwork: hosts boot from this network by boot files, and the appliance has none: start it \
             with --boot-files, or set Disabled to drive hosts by their BMCs alone"
    )]
    NoBootFiles,
    #[error("{field}: there is no network interface {name}; it is served when it appears")]
    InterfaceMissing { field: &'static str, name: String },
    #[error("spec.provisioningMacAddresses: no network interface has one of the MAC addresses {}; it is served when it \
             appears", .0.join(", "))]
    NoSuchMac(Vec<String>),
}

/// What [`plan_services`] decides by.
#[derive(Clone, Copy, Debug)]
pub struct ServicePlanInput<'a> {
    pub network: &'a ProvisioningNetwork,
    /// `spec.provisioningOSDownloadURL`; empty if there is none.
    pub os_image_url: &'a str,
    pub sensors: Option<SensorPlan>,
    /// The addresses that the names of time servers have now.
    pub named_time_servers: &'a [Ipv4Addr],
    pub settings: &'a NetworkSettings,
    pub interfaces: &'a [InterfaceFacts],
}

/// Decides which services run. A fault means that those that need the interface are left out.
#[must_use]
pub fn plan_services(input: ServicePlanInput<'_>) -> (ServicePlan, Option<ServiceFault>) {
    let network = input.network;
    let mut plan = ServicePlan {
        image_cache: (!input.os_image_url.is_empty()).then(|| input.os_image_url.to_owned()),
        sensors: input.sensors,
        ..ServicePlan::default()
    };
    let Some(address) = network.address else {
        // Disabled, without an address of its own.
        return match input.settings.api_address {
            IpAddr::V4(api) if !api.is_unspecified() => (ServicePlan { http: Some(api), ..plan }, None),
            IpAddr::V4(_) if input.settings.has_boot_files => {
                (plan, Some(ServiceFault::Unserved(API_IS_UNSPECIFIED.to_owned())))
            }
            IpAddr::V4(_) => (plan, None),
            // Nothing is there that hosts would fetch.
            IpAddr::V6(_) if !input.settings.has_boot_files => (plan, None),
            IpAddr::V6(_) => (plan, Some(ServiceFault::Unserved(API_IS_IPV6.to_owned()))),
        };
    };
    let IpAddr::V4(address) = address else {
        let why = unserved(network).unwrap_or_else(|| "spec.provisioningIP: must be an IPv4 address".to_owned());
        return (plan, Some(ServiceFault::Unserved(why)));
    };
    if let Some(why) = unserved(network) {
        return (plan, Some(ServiceFault::Unserved(why)));
    }
    if network.mode != NetworkMode::Disabled && !input.settings.has_boot_files {
        return (plan, Some(ServiceFault::NoBootFiles));
    }
    plan.http = Some(address);
    let link = match link(network, input.settings, input.interfaces) {
        Ok(link) => link,
        // An address that some interface has serves HTTP without a name.
        Err(ServiceFault::NoInterfaceNamed) if network.mode == NetworkMode::Disabled => return (plan, None),
        Err(fault) => return (plan, Some(fault)),
    };
    let prefix_length = network.cidr.map(|block| block.prefix_len());
    plan.address = Some(KeptAddress { link: link.clone(), address, prefix_length });
    if network.mode != NetworkMode::Disabled {
        plan.tftp = Some(TftpPlan { link: link.clone(), address });
    }
    if network.mode == NetworkMode::Managed {
        plan.dhcp = dhcp_plan(&input, link, address);
    }
    (plan, None)
}

const API_IS_UNSPECIFIED: &str = "spec.provisioningIP: without it hosts reach the appliance at the API's address, and \
                                  --api names none that they could reach; give an address here, or one by --api";

const API_IS_IPV6: &str = "spec.provisioningIP: without it hosts reach the appliance at the API's address, and only \
                           IPv4 is served yet; give an address here, or an IPv4 address by --api";

fn dhcp_plan(input: &ServicePlanInput<'_>, link: ServedLink, address: Ipv4Addr) -> Option<DhcpPlan> {
    let network = input.network;
    let block = network.cidr?;
    let (first, last) = network.range?;
    let gateway = network.gateway.and_then(v4);
    let mut ntp = network.ntp_servers.clone();
    ntp.extend(input.named_time_servers.iter().filter(|server| !network.ntp_servers.contains(server)));
    ntp.truncate(firesteel_facts::SERVERS_MAX);
    Some(DhcpPlan {
        link,
        address,
        network: v4(block.network())?,
        prefix_length: block.prefix_len(),
        range: (v4(first)?, v4(last)?),
        gateway,
        dns: network.dns,
        ntp,
    })
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// Finds the interface: by the flag, by the object's name, or by the first of its MAC addresses that is there.
fn link(
    network: &ProvisioningNetwork,
    settings: &NetworkSettings,
    interfaces: &[InterfaceFacts],
) -> Result<ServedLink, ServiceFault> {
    let named = |field: &'static str, name: &str| {
        let found = interfaces.iter().find(|interface| interface.name == name).map(served_link);
        found.ok_or_else(|| ServiceFault::InterfaceMissing { field, name: name.to_owned() })
    };
    if let Some(name) = &settings.interface {
        return named("--interface", name);
    }
    if !network.interface.is_empty() {
        return named("spec.provisioningInterface", &network.interface);
    }
    if network.mac_addresses.is_empty() {
        return Err(ServiceFault::NoInterfaceNamed);
    }
    let wanted = network.mac_addresses.iter().filter_map(|text| text.parse::<Mac>().ok());
    let found = wanted.filter_map(|mac| interfaces.iter().find(|interface| interface.mac == Some(mac)));
    found.map(served_link).next().ok_or_else(|| ServiceFault::NoSuchMac(network.mac_addresses.clone()))
}

fn served_link(interface: &InterfaceFacts) -> ServedLink {
    ServedLink { name: interface.name.clone(), index: interface.index }
}

#[cfg(test)]
mod tests;
