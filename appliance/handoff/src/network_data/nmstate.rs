//! A desired state of nmstate (<https://nmstate.io/devel/yaml_api.html>): interfaces of the types ethernet, vlan and
//! bond, routes, and resolvers (read, not needed).

use firesteel_wire::NetworkPlan;
use firesteel_wire::network::{HashPolicy, InterfaceAddress, LinkKind, NetworkLink, NetworkRoute};
use serde_json::json;

use super::error::NetworkDataError;
use super::node::{NetworkDataNode, NetworkDataObject};
use super::openstack::{MIIMON_MS, hash, lacp_rate, miimon, mode};

const MAIN_TABLE: u64 = 254;
/// The keys of an interface of any type; what a type adds follows at its reader.
const INTERFACE_KEYS: [&str; 13] = [
    "name",
    "type",
    "state",
    "description",
    "identifier",
    "profile-name",
    "mac-address",
    "mtu",
    "ipv4",
    "ipv6",
    "vlan",
    "link-aggregation",
    "accept-all-mac-addresses",
];

pub(super) fn plan(root: &NetworkDataNode<'_>) -> Result<NetworkPlan, NetworkDataError> {
    let root = root.object(&["interfaces", "routes", "dns-resolver"])?;
    let mut links = Vec::new();
    for node in root.need("interfaces")?.list()? {
        links.push(interface(&node)?);
    }
    let mut routes = Vec::new();
    if let Some(node) = root.get("routes") {
        for node in node.object(&["config"])?.items("config")? {
            routes.push(route(&node)?);
        }
    }
    if let Some(node) = root.get("dns-resolver")
        && let Some(node) = node.object(&["config"])?.get("config")
    {
        let config = node.object(&["server", "search"])?;
        config.name_servers("server")?;
        config.items("search")?.iter().try_for_each(|domain| domain.text().map(drop))?;
    }
    Ok(NetworkPlan { links, routes })
}

#[derive(Clone, Copy, PartialEq)]
enum InterfaceType {
    Ethernet,
    Vlan,
    Bond,
}

fn interface(node: &NetworkDataNode<'_>) -> Result<NetworkLink, NetworkDataError> {
    let interface = node.object(&INTERFACE_KEYS)?;
    let name = interface.need("name")?.text()?;
    if let Some(state) = interface.get("state") {
        state.word(&[("up", ())])?;
    }
    if let Some(all) = interface.get("accept-all-mac-addresses") {
        all.only(&json!(false))?;
    }
    let types = [("ethernet", InterfaceType::Ethernet), ("vlan", InterfaceType::Vlan), ("bond", InterfaceType::Bond)];
    let type_ = interface.need("type")?.word(&types)?;
    for (key, of) in [("vlan", InterfaceType::Vlan), ("link-aggregation", InterfaceType::Bond)] {
        if type_ != of && interface.get(key).is_some() {
            return interface.fail(key, "is not of this type of interface");
        }
    }
    let kind = match type_ {
        InterfaceType::Ethernet => ethernet(&interface)?,
        InterfaceType::Vlan => vlan(&interface)?,
        InterfaceType::Bond => bond(&interface)?,
    };
    let mut link = NetworkLink::new(name, kind);
    link.mtu = interface.get("mtu").map(|mtu| mtu.number()).transpose()?;
    if let Some(node) = interface.get("ipv4") {
        family(&node, true, &mut link)?;
    }
    if let Some(node) = interface.get("ipv6") {
        family(&node, false, &mut link)?;
    }
    Ok(link)
}

/// An interface's name is that of the installed OS, so the hardware address must be there.
fn ethernet(interface: &NetworkDataObject<'_>) -> Result<LinkKind, NetworkDataError> {
    if let Some(identifier) = interface.get("identifier") {
        identifier.word(&[("mac-address", ()), ("name", ())])?;
    }
    match interface.get("mac-address") {
        Some(mac) => Ok(LinkKind::Nic { mac: mac.mac()? }),
        None => interface.fail("mac-address", "is missing: the ramdisk knows NICs by it, not by name"),
    }
}

fn vlan(interface: &NetworkDataObject<'_>) -> Result<LinkKind, NetworkDataError> {
    if let Some(mac) = interface.get("mac-address") {
        return mac.fail("a VLAN has the address of what carries it");
    }
    let vlan = interface.need("vlan")?.object(&["base-iface", "id", "protocol"])?;
    if let Some(protocol) = vlan.get("protocol") {
        protocol.word(&[("802.1q", ()), ("802.1Q", ())])?;
    }
    Ok(LinkKind::Vlan { id: vlan.need("id")?.number()?, on: vlan.need("base-iface")?.text()?.to_owned() })
}

fn bond(interface: &NetworkDataObject<'_>) -> Result<LinkKind, NetworkDataError> {
    let bond = interface.need("link-aggregation")?.object(&["mode", "port", "slaves", "options"])?;
    // The older name, which nmstate still takes.
    let ports = bond.get("port").map_or_else(|| bond.need("slaves"), Ok)?.list()?;
    let (mut miimon_ms, mut lacp_fast, mut policy, mut primary) = (MIIMON_MS, false, HashPolicy::default(), None);
    if let Some(node) = bond.get("options") {
        let options = node.object(&["miimon", "lacp_rate", "xmit_hash_policy", "primary"])?;
        if let Some(node) = options.get("miimon") {
            miimon_ms = miimon(&node)?;
        }
        if let Some(node) = options.get("lacp_rate") {
            lacp_fast = lacp_rate(&node)?;
        }
        if let Some(node) = options.get("xmit_hash_policy") {
            policy = hash(&node)?;
        }
        primary = options.get("primary").map(|node| node.text().map(str::to_owned)).transpose()?;
    }
    Ok(LinkKind::Bond {
        mode: mode(&bond.need("mode")?)?,
        members: ports.iter().map(|port| port.text().map(str::to_owned)).collect::<Result<_, _>>()?,
        mac: interface.get("mac-address").map(|mac| mac.mac()).transpose()?,
        miimon_ms,
        lacp_fast,
        hash: policy,
        primary,
    })
}

fn family(node: &NetworkDataNode<'_>, is_v4: bool, link: &mut NetworkLink) -> Result<(), NetworkDataError> {
    let common = ["enabled", "dhcp", "address", "auto-dns", "auto-routes", "auto-gateway", "autoconf"];
    let family = node.object(if is_v4 { &common[..6] } else { &common })?;
    if !family.flag("enabled")? {
        // As in nmstate: what stands beside it is kept for later, and has no effect.
        return Ok(());
    }
    for key in ["auto-routes", "auto-gateway"] {
        if let Some(node) = family.get(key) {
            node.only(&json!(true))?;
        }
    }
    // Servers by DHCP are not used either way.
    family.flag("auto-dns")?;
    let dhcp = family.flag("dhcp")?;
    if is_v4 {
        link.dhcp4 = dhcp;
    } else {
        link.slaac = family.flag("autoconf")?;
        if dhcp {
            return family.fail("dhcp", "the agent speaks no DHCPv6; give the address, or use autoconf");
        }
    }
    let addresses = family.items("address")?;
    if dhcp && !addresses.is_empty() {
        return family.fail("address", "stands beside dhcp: give one of them");
    }
    for node in addresses {
        let address = node.object(&["ip", "prefix-length"])?;
        let field = address.need("ip")?;
        let ip = field.ip()?;
        if ip.is_ipv4() != is_v4 {
            return field.fail("is of another family");
        }
        link.addresses.push(InterfaceAddress { ip, prefix: address.need("prefix-length")?.number()? });
    }
    Ok(())
}

fn route(node: &NetworkDataNode<'_>) -> Result<NetworkRoute, NetworkDataError> {
    let route =
        node.object(&["destination", "next-hop-address", "next-hop-interface", "metric", "table-id", "state"])?;
    if let Some(table) = route.get("table-id") {
        // 0 stands for the main one.
        let number: u64 = table.number()?;
        if ![0, MAIN_TABLE].contains(&number) {
            return table.fail("only the main table is understood");
        }
    }
    if route.get("state").is_some() {
        return route.fail("state", "a new host has no routes to be removed");
    }
    Ok(NetworkRoute {
        to: route.need("destination")?.network()?,
        via: route.get("next-hop-address").map(|via| via.ip()).transpose()?,
        on: route.get("next-hop-interface").map(|on| on.text().map(str::to_owned)).transpose()?,
        metric: route.get("metric").map(|metric| metric.number()).transpose()?,
    })
}
