//! What the network's controller looks at: the interfaces of this machine, names of time servers, and hosts in work.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use firesteel_control::Control;
use firesteel_facts::Mac;
use firesteel_network::address_keeper::InterfaceLook;
use firesteel_network::{InterfaceFacts, NetworkSurroundings};
use nix::net::if_::InterfaceFlags;

use super::named_time_servers::NamedTimeServers;

/// The bit of CAP_NET_ADMIN in a set of capabilities (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;

/// The surroundings of a process that serves.
pub(in crate::serve) struct ServeSurroundings {
    control: Control,
    time_servers: NamedTimeServers,
}

firesteel_runtime::opaque_debug!(ServeSurroundings);

impl ServeSurroundings {
    pub(in crate::serve) fn new(control: Control) -> Self {
        Self { control, time_servers: NamedTimeServers::default() }
    }
}

impl NetworkSurroundings for ServeSurroundings {
    fn interfaces(&self) -> io::Result<Vec<InterfaceFacts>> {
        interfaces()
    }

    fn time_servers(&self, names: &[String]) -> Vec<Ipv4Addr> {
        self.time_servers.addresses(names)
    }

    fn may_put_addresses(&self) -> bool {
        may_put_addresses()
    }

    fn hosts_in_work(&self) -> Option<Vec<String>> {
        self.control.hosts_in_work()
    }
}

/// Reads the interfaces of this machine.
pub(super) fn interfaces() -> io::Result<Vec<InterfaceFacts>> {
    let mut found: BTreeMap<String, InterfaceFacts> = BTreeMap::new();
    for entry in nix::ifaddrs::getifaddrs()? {
        let name = unlabelled(&entry.interface_name).to_owned();
        // One that vanished between the two calls is none.
        let Ok(index) = nix::net::if_::if_nametoindex(name.as_str()) else { continue };
        let facts = found.entry(name.clone()).or_insert_with(|| InterfaceFacts {
            name,
            index,
            mac: None,
            addresses: Vec::new(),
        });
        let Some(address) = entry.address else { continue };
        facts.addresses.extend(address.as_sockaddr_in().map(|v4| v4.ip()));
        let link = address.as_link_addr().and_then(|link| link.addr());
        facts.mac = facts.mac.or(link.filter(|mac| *mac != [0; 6]).map(Mac));
    }
    Ok(found.into_values().collect())
}

/// Returns the interface of an address that has a label of its own, such as `eth0:1`.
fn unlabelled(name: &str) -> &str {
    name.split_once(':').map_or(name, |(interface, _)| interface)
}

/// Looks whether an interface is on and has an address.
pub(super) fn interface_look(interface: &str, address: Ipv4Addr) -> InterfaceLook {
    let mut look = InterfaceLook { has_address: false, is_up: false };
    let Ok(entries) = nix::ifaddrs::getifaddrs() else { return look };
    for entry in entries.filter(|entry| unlabelled(&entry.interface_name) == interface) {
        look.is_up |= entry.flags.contains(InterfaceFlags::IFF_UP);
        let v4 = entry.address.as_ref().and_then(|address| address.as_sockaddr_in()).map(|v4| v4.ip());
        look.has_address |= v4 == Some(address);
    }
    look
}

/// Says whether this process may change interfaces.
pub(super) fn may_put_addresses() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or_default();
    effective >> CAP_NET_ADMIN & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_label_is_of_its_interface() {
        assert_eq!((unlabelled("eth0:1"), unlabelled("eth0")), ("eth0", "eth0"));
    }

    #[test]
    fn the_loopback_interface_is_there_with_its_address_and_no_mac() {
        let found = interfaces().unwrap_or_default();
        let lo = found.iter().find(|interface| interface.name == "lo");
        assert!(lo.is_some_and(|lo| lo.addresses.contains(&Ipv4Addr::LOCALHOST) && lo.mac.is_none()), "{found:?}");
        let look = interface_look("lo", Ipv4Addr::LOCALHOST);
        assert_eq!(look, InterfaceLook { has_address: true, is_up: true });
        assert!(!interface_look("lo", Ipv4Addr::new(192, 0, 2, 77)).has_address);
        assert!(!interface_look("none0", Ipv4Addr::LOCALHOST).is_up);
    }
}
