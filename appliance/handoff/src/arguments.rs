//! The network of a first boot as kernel arguments, which dracut reads in the initramfs (dracut.cmdline(7), "Network").
//! coreos-installer writes the same beside a config; NetworkManager keeps what came up that way. Pure.
//!
//! Two programs read them, and their words mean more there than the manual says:
//!
//! | | NetworkManager (`nmi-cmdline-reader.c`) | dracut's own (`network-legacy`) |
//! |---|---|---|
//! | several `ip=` of a link | one profile; a word disables the family that has no address yet, and `dhcp` leaves IPv6 to the router's advertisements | tried in their order until one works |
//! | `nameserver=` of IPv6 | with or without brackets | as it stands, into `resolv.conf` |
//!
//! So fixed addresses come first, those of IPv4 before those of IPv6, since the appliance is reached by IPv4; then one
//! word for what comes by itself, which leaves alone what is fixed.

use std::net::IpAddr;

use firesteel_wire::NetworkPlan;
use firesteel_wire::network::{BondMode, InterfaceAddress, LinkKind, NetworkLink};

use crate::cloud::hash_word;

/// Arguments for all links of the plan. NICs get names of their own, by which the arguments after them speak of them;
/// the kernel's are not known here.
pub(crate) fn of(plan: &NetworkPlan, resolvers: &[IpAddr], host: &str) -> Vec<String> {
    let mut arguments = vec!["rd.neednet=1".to_owned()];
    for link in &plan.links {
        arguments.extend(link_argument(plan, link));
    }
    for link in &plan.links {
        arguments.extend(addresses(plan, link, host));
    }
    for route in plan.routes.iter().filter(|route| route.to.prefix > 0) {
        let Some(via) = route.via else { continue };
        let on = route.on.as_ref().map(|on| format!(":{}", name(plan, on))).unwrap_or_default();
        let to = bracketed(route.to.ip, &route.to.to_string());
        arguments.push(format!("rd.route={to}:{}{on}", shown(via)));
    }
    arguments.extend(resolvers.iter().map(|ip| format!("nameserver={ip}")));
    arguments
}

/// `nic0`, `bond0`, and for a VLAN what carries it with the number, in which dracut finds the number.
fn name(plan: &NetworkPlan, link: &str) -> String {
    let place = plan.links.iter().position(|other| other.name == link).unwrap_or_default();
    match plan.links.get(place).map(|link| &link.kind) {
        Some(LinkKind::Vlan { id, on }) => format!("{}.{id}", name(plan, on)),
        Some(LinkKind::Bond { .. }) => format!("bond{place}"),
        Some(LinkKind::Nic { .. }) | None => format!("nic{place}"),
    }
}

fn link_argument(plan: &NetworkPlan, link: &NetworkLink) -> Option<String> {
    let own = name(plan, &link.name);
    match &link.kind {
        LinkKind::Nic { mac } => Some(format!("ifname={own}:{mac}")),
        LinkKind::Bond { mode, members, miimon_ms, lacp_fast, hash, primary, mac: _ } => {
            let members: Vec<String> = members.iter().map(|member| name(plan, member)).collect();
            let mut options = format!("mode={},miimon={miimon_ms}", mode.word());
            if *mode == BondMode::Lacp {
                options += &format!(",lacp_rate={}", if *lacp_fast { "fast" } else { "slow" });
            }
            if mode.has_hash_policy() {
                options += &format!(",xmit_hash_policy={}", hash_word(*hash));
            }
            if let Some(primary) = primary {
                options += &format!(",primary={}", name(plan, primary));
            }
            let mtu = link.mtu.map(|mtu| format!(":{mtu}")).unwrap_or_default();
            Some(format!("bond={own}:{}:{options}{mtu}", members.join(",")))
        }
        LinkKind::Vlan { on, .. } => Some(format!("vlan={own}:{}", name(plan, on))),
    }
}

fn addresses(plan: &NetworkPlan, link: &NetworkLink, host: &str) -> Vec<String> {
    let own = name(plan, &link.name);
    let ending = ending(link);
    let mut arguments = Vec::new();
    let (v4, v6): (Vec<&InterfaceAddress>, Vec<&InterfaceAddress>) =
        link.addresses.iter().partition(|address| address.ip.is_ipv4());
    for (index, address) in v4.iter().enumerate().chain(v6.iter().enumerate()) {
        // One gateway of its family is enough.
        let gateway = gateway(plan, link, address).filter(|_| index == 0).map(shown).unwrap_or_default();
        let mask = match address.ip {
            IpAddr::V4(_) => mask(address.prefix),
            IpAddr::V6(_) => address.prefix.to_string(),
        };
        arguments.push(format!("ip={}::{gateway}:{mask}:{host}:{own}:none{ending}", shown(address.ip)));
    }
    // One of them: NetworkManager's `dhcp` includes IPv6's own, as the kernel does elsewhere; `auto6` behind it would
    // take IPv4 away.
    if link.dhcp4 {
        arguments.push(format!("ip={own}:dhcp{ending}"));
    } else if link.slaac {
        arguments.push(format!("ip={own}:auto6{ending}"));
    }
    arguments
}

/// `[:[<mtu>][:<macaddr>]]`. A NIC's address is its own, by which it is found.
fn ending(link: &NetworkLink) -> String {
    let mac = match &link.kind {
        LinkKind::Bond { mac, .. } => mac.as_ref(),
        LinkKind::Nic { .. } | LinkKind::Vlan { .. } => None,
    };
    match (link.mtu, mac) {
        (None, None) => String::new(),
        (Some(mtu), None) => format!(":{mtu}"),
        (mtu, Some(mac)) => format!(":{}:{mac}", mtu.map(|mtu| mtu.to_string()).unwrap_or_default()),
    }
}

fn gateway(plan: &NetworkPlan, link: &NetworkLink, address: &InterfaceAddress) -> Option<IpAddr> {
    let own = plan.routes.iter().filter(|route| route.on.as_deref() == Some(&link.name));
    own.filter(|route| route.to.prefix == 0)
        .filter_map(|route| route.via)
        .find(|via| via.is_ipv4() == address.ip.is_ipv4())
}

/// `255.255.255.0` for 24.
fn mask(prefix: u8) -> String {
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    std::net::Ipv4Addr::from(bits).to_string()
}

fn shown(ip: IpAddr) -> String {
    bracketed(ip, &ip.to_string())
}

/// Colons separate the fields of an argument, so an IPv6 address stands in brackets.
fn bracketed(ip: IpAddr, text: &str) -> String {
    if ip.is_ipv4() { text.to_owned() } else { format!("[{text}]") }
}
