//! OpenStack's `network_data.json` (the Nova schema `network_data.json`), with the words that metal3's
//! `Metal3DataTemplate` renders.

use firesteel_wire::NetworkPlan;
use firesteel_wire::network::{BondMode, HashPolicy, InterfaceAddress, LinkKind, NetworkLink, NetworkRoute};

use serde_json::Value;

use super::error::{FieldProblem, NetworkDataError};
use super::node::{NetworkDataNode, NetworkDataObject, default_route};

/// What the kernel's bonding driver takes where nothing is said, as OpenStack's tools do.
pub(super) const MIIMON_MS: u32 = 100;

const LINK_KEYS: [&str; 16] = [
    "id",
    "name",
    "type",
    "mtu",
    "ethernet_mac_address",
    "vif_id",
    "bond_mode",
    "bond_links",
    "bond_miimon",
    "bond_hash_policy",
    "bond_xmit_hash_policy",
    "bond_lacp_rate",
    "bond_primary",
    "vlan_id",
    "vlan_link",
    "vlan_mac_address",
];

const NETWORK_KEYS: [&str; 11] = [
    "id",
    "network_id",
    "link",
    "type",
    "ip_address",
    "netmask",
    "gateway",
    "routes",
    "services",
    "dns_nameservers",
    "dns_search",
];

pub(super) fn plan(root: &NetworkDataNode<'_>) -> Result<NetworkPlan, NetworkDataError> {
    let root = root.object(&["links", "networks", "services"])?;
    let mut links = Vec::new();
    for node in root.need("links")?.list()? {
        links.push(link(&node)?);
    }
    for node in root.need("links")?.list()? {
        vlan_mac(&node, &links)?;
    }
    let mut plan = NetworkPlan { links, routes: Vec::new() };
    for node in root.items("networks")? {
        network(&node, &mut plan)?;
    }
    services(&root)?;
    Ok(plan)
}

/// Name servers stand beside the links, at a network and at a route.
fn services(of: &NetworkDataObject<'_>) -> Result<(), NetworkDataError> {
    for node in of.items("services")? {
        let service = node.object(&["type", "address"])?;
        service.need("type")?.word(&[("dns", ())])?;
        service.need("address")?.ip()?;
    }
    Ok(())
}

fn link(node: &NetworkDataNode<'_>) -> Result<NetworkLink, NetworkDataError> {
    let link = node.object(&LINK_KEYS)?;
    let name = link.need("id")?.text()?;
    type Reader = fn(&NetworkDataObject<'_>) -> Result<LinkKind, NetworkDataError>;
    let kinds: [(&str, Reader); 5] =
        [("phy", nic), ("physical", nic), ("ethernet", nic), ("bond", bond), ("vlan", vlan)];
    let read = link.need("type")?.word(&kinds)?;
    let mtu = link.get("mtu").map(|mtu| mtu.number()).transpose()?;
    Ok(NetworkLink { mtu, ..NetworkLink::new(name, read(&link)?) })
}

/// Fields of another type of link would be passed over: they are refused.
fn refuse(link: &NetworkDataObject<'_>, begins: &str, but: &[&str]) -> Result<(), NetworkDataError> {
    let other = |key: &&&str| key.starts_with(begins) && !but.contains(key) && link.get(key).is_some();
    LINK_KEYS.iter().find(other).map_or(Ok(()), |key| link.fail(key, "is not of this type of link"))
}

fn nic(link: &NetworkDataObject<'_>) -> Result<LinkKind, NetworkDataError> {
    refuse(link, "bond_", &[])?;
    refuse(link, "vlan_", &[])?;
    Ok(LinkKind::Nic { mac: link.need("ethernet_mac_address")?.mac()? })
}

fn bond(link: &NetworkDataObject<'_>) -> Result<LinkKind, NetworkDataError> {
    refuse(link, "vlan_", &[])?;
    let members = link.need("bond_links")?.list()?;
    let policy = link.get("bond_xmit_hash_policy").or_else(|| link.get("bond_hash_policy"));
    Ok(LinkKind::Bond {
        mode: mode(&link.need("bond_mode")?)?,
        members: members.iter().map(|member| member.text().map(str::to_owned)).collect::<Result<_, _>>()?,
        mac: link.get("ethernet_mac_address").map(|mac| mac.mac()).transpose()?,
        miimon_ms: link.get("bond_miimon").map_or(Ok(MIIMON_MS), |node| miimon(&node))?,
        lacp_fast: link.get("bond_lacp_rate").map_or(Ok(false), |node| lacp_rate(&node))?,
        hash: policy.map_or(Ok(HashPolicy::default()), |node| hash(&node))?,
        primary: link.get("bond_primary").map(|node| node.text().map(str::to_owned)).transpose()?,
    })
}

/// Reads a bond's mode by its word or number.
pub(super) fn mode(node: &NetworkDataNode<'_>) -> Result<BondMode, NetworkDataError> {
    let numbers = ["0", "1", "2", "3", "4", "5", "6"];
    let words: Vec<(&str, BondMode)> = BondMode::ALL.iter().map(|mode| (mode.word(), *mode)).collect();
    let by_number = numbers.into_iter().zip(BondMode::ALL);
    node.word(&words.into_iter().chain(by_number).collect::<Vec<_>>())
}

/// A bond that does not look at its members' links sends into dead ones.
pub(super) fn miimon(node: &NetworkDataNode<'_>) -> Result<u32, NetworkDataError> {
    match node.number()? {
        ms @ 10..=10_000 => Ok(ms),
        _ => node.fail("must be 10 to 10000 milliseconds"),
    }
}

pub(super) fn lacp_rate(node: &NetworkDataNode<'_>) -> Result<bool, NetworkDataError> {
    node.word(&[("slow", false), ("0", false), ("fast", true), ("1", true)])
}

pub(super) fn hash(node: &NetworkDataNode<'_>) -> Result<HashPolicy, NetworkDataError> {
    let words = [("layer2", HashPolicy::Layer2), ("layer2+3", HashPolicy::Layer23), ("layer3+4", HashPolicy::Layer34)];
    node.word(&words)
}

fn vlan(link: &NetworkDataObject<'_>) -> Result<LinkKind, NetworkDataError> {
    refuse(link, "bond_", &[])?;
    Ok(LinkKind::Vlan { id: link.need("vlan_id")?.number()?, on: link.need("vlan_link")?.text()?.to_owned() })
}

/// The ramdisk's VLAN has the hardware address of what carries it, which is what templates write there as well.
fn vlan_mac(node: &NetworkDataNode<'_>, links: &[NetworkLink]) -> Result<(), NetworkDataError> {
    let link = node.object(&LINK_KEYS)?;
    let name = link.need("id")?.text()?;
    let of = |name: &str| links.iter().find(|link| link.name == name).map(|link| &link.kind);
    let Some(LinkKind::Vlan { on, .. }) = of(name) else { return Ok(()) };
    let carrier = match of(on) {
        Some(LinkKind::Nic { mac } | LinkKind::Bond { mac: Some(mac), .. }) => Some(mac),
        Some(LinkKind::Bond { members, .. }) => match members.first().and_then(|member| of(member)) {
            Some(LinkKind::Nic { mac }) => Some(mac),
            _ => None,
        },
        _ => None,
    };
    for key in ["vlan_mac_address", "ethernet_mac_address"] {
        if let Some(field) = link.get(key)
            && carrier.is_some_and(|carrier| field.mac().as_ref() != Ok(carrier))
        {
            return field.fail(FieldProblem::NotTheCarriers { carrier: on.clone() });
        }
    }
    Ok(())
}

/// The document with `vlan_mac_address` where a VLAN has none, which cloud-init's reader of a config drive cannot do
/// without (`convert_net_json`): its own address, or that of what carries it, as far as they are said. What is there
/// stays as it is, and so does what is not understood.
pub(super) fn with_vlan_macs(document: &Value) -> Value {
    let mut document = document.clone();
    let Some(links) = document["links"].as_array().cloned() else { return document };
    for (index, link) in links.iter().enumerate() {
        if link["type"] == "vlan"
            && link["vlan_mac_address"].is_null()
            && let Some(mac) = address_of_vlan(&links, link)
        {
            document["links"][index]["vlan_mac_address"] = Value::String(mac);
        }
    }
    document
}

fn address_of_vlan(links: &[Value], vlan: &Value) -> Option<String> {
    let find = |id: &Value| links.iter().find(|link| id.is_string() && link["id"] == *id);
    let own = |link: &Value| link["ethernet_mac_address"].as_str().map(str::to_owned);
    own(vlan).or_else(|| {
        let carrier = find(&vlan["vlan_link"])?;
        // A bond without an address has that of its first member.
        own(carrier).or_else(|| own(find(&carrier["bond_links"][0])?))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum OpenStackAddressMode {
    Fixed,
    Dhcp4,
    Slaac,
}

fn network(node: &NetworkDataNode<'_>, plan: &mut NetworkPlan) -> Result<(), NetworkDataError> {
    let network = node.object(&NETWORK_KEYS)?;
    let on = network.need("link")?;
    let name = on.text()?;
    let Some(link) = plan.links.iter_mut().find(|link| link.name == name) else {
        return on.fail("there is no such link");
    };
    let kinds = [
        ("ipv4", Some(OpenStackAddressMode::Fixed)),
        ("ipv6", Some(OpenStackAddressMode::Fixed)),
        ("ipv4_dhcp", Some(OpenStackAddressMode::Dhcp4)),
        ("ipv6_slaac", Some(OpenStackAddressMode::Slaac)),
        ("ipv6_dhcpv6-stateless", Some(OpenStackAddressMode::Slaac)),
        ("ipv6_dhcp", None),
        ("ipv6_dhcpv6-stateful", None),
    ];
    let type_ = network.need("type")?;
    let Some(kind) = type_.word(&kinds)? else {
        return type_.fail("the agent speaks no DHCPv6; give the address, or use ipv6_slaac");
    };
    let is_v4 = type_.text()?.starts_with("ipv4");
    match kind {
        OpenStackAddressMode::Dhcp4 => link.dhcp4 = true,
        OpenStackAddressMode::Slaac => link.slaac = true,
        OpenStackAddressMode::Fixed => link.addresses.push(address(&network, is_v4)?),
    }
    if kind != OpenStackAddressMode::Fixed {
        for key in ["ip_address", "netmask"] {
            if network.get(key).is_some() {
                return network.fail(key, "is not of this type of network");
            }
        }
    }
    if let Some(gateway) = network.get("gateway") {
        let via = gateway.ip()?;
        let (to, on) = (default_route(via), Some(name.to_owned()));
        plan.routes.push(NetworkRoute { to, via: Some(via), on, metric: None });
    }
    for node in network.items("routes")? {
        plan.routes.push(route(&node, name)?);
    }
    network.name_servers("dns_nameservers")?;
    network.domains("dns_search", super::SEARCH_MAX)?;
    services(&network)?;
    Ok(())
}

/// `ip_address` with `netmask`, or with its prefix behind a slash.
fn address(network: &NetworkDataObject<'_>, is_v4: bool) -> Result<InterfaceAddress, NetworkDataError> {
    let field = network.need("ip_address")?;
    let address = if field.text()?.contains('/') {
        if network.get("netmask").is_some() {
            return network.fail("netmask", "is given in ip_address already");
        }
        field.network()?
    } else {
        InterfaceAddress { ip: field.ip()?, prefix: network.need("netmask")?.prefix()? }
    };
    if address.ip.is_ipv4() == is_v4 { Ok(address) } else { field.fail("is of another family than type") }
}

fn route(node: &NetworkDataNode<'_>, link: &str) -> Result<NetworkRoute, NetworkDataError> {
    let route = node.object(&["network", "netmask", "prefix", "gateway", "services"])?;
    services(&route)?;
    let network = route.need("network")?;
    let to = if network.text()?.contains('/') {
        network.network()?
    } else {
        let length = route.get("netmask").map_or_else(|| route.need("prefix"), Ok)?;
        InterfaceAddress { ip: network.ip()?, prefix: length.prefix()? }
    };
    Ok(NetworkRoute { to, via: Some(route.need("gateway")?.ip()?), on: Some(link.to_owned()), metric: None })
}
