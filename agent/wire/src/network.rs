//! How the agent's ramdisk gets to the appliance where DHCP on the booting NIC is not the way: several NICs, tagged
//! VLANs (802.1Q), bonds (active-backup, 802.3ad), fixed addresses.
//!
//! ```text
//!   Secret (network_data.json, nmstate) ── appliance reads and checks ──► NetworkPlan ── in the seed ──► agent
//! ```
//!
//! A plan travels in the [`Seed`](crate::Seed), which is of one boot of one host and for root alone; nothing of it is
//! on the kernel's command line. It names NICs by their own hardware addresses: the names of interfaces in an installed
//! OS mean nothing in the ramdisk. Resolvers have no place in it: every address that the agent uses is a literal.

use std::{collections::HashSet, net::IpAddr};

use serde::{Deserialize, Serialize};

/// Most links of a plan: the ports of a large server, two bonds and their VLANs.
pub const LINKS_MAX: usize = 32;
/// Most fixed addresses of one link.
pub const ADDRESSES_MAX: usize = 8;
/// Most routes. The appliance and a gateway or two are needed; the rest is habit.
pub const ROUTES_MAX: usize = 64;
/// Longest name of a link in a plan, in bytes. It is the owner's word, shown to people; no interface gets it.
pub const LINK_NAME_BYTES_MAX: usize = 64;
/// Most members of a bond.
pub const MEMBERS_MAX: usize = 16;
/// Usable VLAN numbers (IEEE 802.1Q section 9.6).
pub const VLAN_ID_MAX: u16 = 4094;
/// IPv6 needs 1280 (RFC 8200 section 5), which no jumbo frame exceeds by more than this.
pub const MTU_MIN: u16 = 1280;
pub const MTU_MAX: u16 = 9216;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPlan {
    /// NICs before bonds, bonds before VLANs: each link only needs those before it.
    pub links: Vec<NetworkLink>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<NetworkRoute>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLink {
    /// The owner's name of it; unique in the plan.
    pub name: String,
    pub kind: LinkKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// An IPv4 address by DHCP.
    #[serde(default)]
    pub dhcp4: bool,
    /// IPv6 addresses by router advertisements (RFC 4862).
    #[serde(default)]
    pub slaac: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<InterfaceAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum LinkKind {
    Nic {
        /// `52:54:00:12:34:56`, the address that its maker gave it.
        mac: String,
    },
    Bond {
        mode: BondMode,
        /// Names of NICs of the plan.
        members: Vec<String>,
        /// The bond's own address; without it, the bond has that of the first member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mac: Option<String>,
        /// How often the members' links are looked at.
        miimon_ms: u32,
        /// LACPDUs every second instead of every 30.
        #[serde(default)]
        lacp_fast: bool,
        #[serde(default)]
        hash: HashPolicy,
        /// The preferred member of an active-backup, balance-tlb or balance-alb bond.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        primary: Option<String>,
    },
    Vlan {
        id: u16,
        /// Name of the NIC or bond that carries it.
        on: String,
    },
}

/// How a bond uses its members (Linux, `Documentation/networking/bonding.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    BalanceRr,
    ActiveBackup,
    BalanceXor,
    Broadcast,
    /// IEEE 802.1AX, once 802.3ad.
    Lacp,
    BalanceTlb,
    BalanceAlb,
}

impl BondMode {
    /// All of them, in the order of the kernel's numbers.
    pub const ALL: [Self; 7] = [
        Self::BalanceRr,
        Self::ActiveBackup,
        Self::BalanceXor,
        Self::Broadcast,
        Self::Lacp,
        Self::BalanceTlb,
        Self::BalanceAlb,
    ];

    /// Returns the kernel's number (`BOND_MODE_…` of `linux/if_bonding.h`).
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::BalanceRr => 0,
            Self::ActiveBackup => 1,
            Self::BalanceXor => 2,
            Self::Broadcast => 3,
            Self::Lacp => 4,
            Self::BalanceTlb => 5,
            Self::BalanceAlb => 6,
        }
    }

    /// Returns the kernel's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::BalanceRr => "balance-rr",
            Self::ActiveBackup => "active-backup",
            Self::BalanceXor => "balance-xor",
            Self::Broadcast => "broadcast",
            Self::Lacp => "802.3ad",
            Self::BalanceTlb => "balance-tlb",
            Self::BalanceAlb => "balance-alb",
        }
    }

    /// Whether a hash of each frame's headers chooses its member.
    #[must_use]
    pub fn has_hash_policy(self) -> bool {
        matches!(self, Self::BalanceXor | Self::Lacp | Self::BalanceTlb)
    }
}

/// What chooses the member for a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HashPolicy {
    #[default]
    Layer2,
    Layer23,
    Layer34,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    pub ip: IpAddr,
    pub prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRoute {
    /// The network's first address and its length; `0.0.0.0/0` and `::/0` are the default routes.
    pub to: InterfaceAddress,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// Name of the link; the kernel finds it by the gateway where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// The way that an agent took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPath {
    /// Whether the plan of the seed led to the appliance; otherwise it failed, and DHCP on the booting interface did.
    pub by_plan: bool,
    /// What it is and what was waited for, for people; at most
    /// [`FIELD_BYTES_MAX`](crate::limits::FIELD_BYTES_MAX) bytes.
    pub text: String,
}

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkPlanError {
    #[error("no link has an IPv4 address, by which the appliance is reached")]
    NoIpv4,
    #[error("there must be 1 to {LINKS_MAX} links")]
    LinkCount,
    #[error("there must be at most {ROUTES_MAX} routes")]
    RouteCount,
    #[error("link {link:?}: {what}")]
    Link { link: String, what: String },
    #[error("route {index}: {what}")]
    Route { index: usize, what: &'static str },
}

impl NetworkPlan {
    /// Whether the plan can be carried out by the order of its links alone, and has a way to an IPv4 address, by which
    /// the appliance is reached.
    ///
    /// # Errors
    /// Names the first thing that is wrong, and its link.
    pub fn check(&self) -> Result<(), NetworkPlanError> {
        self.check_links()?;
        if !self.links.iter().any(NetworkLink::has_ipv4) {
            return Err(NetworkPlanError::NoIpv4);
        }
        Ok(())
    }

    /// Whether the plan can be carried out by the order of its links alone.
    ///
    /// # Errors
    /// Names the first thing that is wrong, and its link.
    pub fn check_links(&self) -> Result<(), NetworkPlanError> {
        if self.links.is_empty() || self.links.len() > LINKS_MAX {
            return Err(NetworkPlanError::LinkCount);
        }
        let mut before: HashSet<&str> = HashSet::new();
        let (mut taken, mut macs) = (HashSet::new(), HashSet::new());
        for link in &self.links {
            let failed = |what: &str| Err(link.fault(what));
            if link.name.is_empty() || link.name.len() > LINK_NAME_BYTES_MAX {
                return failed("its name must have 1 to 64 bytes");
            }
            if link.mtu.is_some_and(|mtu| !(MTU_MIN..=MTU_MAX).contains(&mtu)) {
                return failed("its MTU must be 1280 to 9216");
            }
            if link.addresses.len() > ADDRESSES_MAX || !link.addresses.iter().all(InterfaceAddress::is_host) {
                return failed("it must have at most 8 addresses, each one that a host can have");
            }
            if link.dhcp4 && link.addresses.iter().any(|address| address.ip.is_ipv4()) {
                return failed("it has an IPv4 address by DHCP and a fixed one: give one of them");
            }
            self.check_kind(link, &before, &mut taken, &mut macs)?;
            if !before.insert(&link.name) {
                return failed("there are two of this name");
            }
        }
        for name in &taken {
            let mut members = self.links.iter().filter(|link| link.name == **name);
            if let Some(link) = members.find(|link| link.dhcp4 || link.slaac || !link.addresses.is_empty()) {
                return Err(link.fault("the member of a bond has no address of its own"));
            }
        }
        self.check_routes(&before)
    }

    fn check_kind<'a>(
        &'a self,
        link: &'a NetworkLink,
        before: &HashSet<&str>,
        taken: &mut HashSet<&'a str>,
        macs: &mut HashSet<String>,
    ) -> Result<(), NetworkPlanError> {
        let failed = |what: String| Err(link.fault(&what));
        match &link.kind {
            LinkKind::Nic { mac } => {
                let Some(mac) = mac_of(mac) else {
                    return failed("its hardware address is not one of a NIC".to_owned());
                };
                if !macs.insert(mac) {
                    return failed("another link has its hardware address".to_owned());
                }
            }
            LinkKind::Bond { members, mac, primary, .. } => {
                if mac.as_ref().is_some_and(|mac| mac_of(mac).is_none()) {
                    return failed("its hardware address is not one of a NIC".to_owned());
                }
                if members.is_empty() || members.len() > MEMBERS_MAX {
                    return failed(format!("a bond has 1 to {MEMBERS_MAX} members"));
                }
                for member in members {
                    if !before.contains(member.as_str()) || !self.is_nic(member) {
                        return failed(format!("its member {member:?} is no NIC of the plan"));
                    }
                    if !taken.insert(member) {
                        return failed(format!("{member:?} is a member twice"));
                    }
                }
                if primary.as_ref().is_some_and(|primary| !members.contains(primary)) {
                    return failed("its primary is not a member".to_owned());
                }
            }
            LinkKind::Vlan { id, on } => {
                if !(1..=VLAN_ID_MAX).contains(id) {
                    return failed(format!("the VLAN must be 1 to {VLAN_ID_MAX}"));
                }
                if !before.contains(on.as_str()) || self.is_vlan(on) {
                    return failed(format!("{on:?}, which is to carry it, is no NIC or bond of the plan"));
                }
                if taken.contains(on.as_str()) {
                    return failed(format!("{on:?}, which is to carry it, is the member of a bond"));
                }
                let twin = |other: &&NetworkLink| other.name != link.name && other.kind == link.kind;
                if self.links.iter().find(twin).is_some_and(|other| before.contains(other.name.as_str())) {
                    return failed("another link is the same VLAN".to_owned());
                }
            }
        }
        Ok(())
    }

    fn check_routes(&self, links: &HashSet<&str>) -> Result<(), NetworkPlanError> {
        if self.routes.len() > ROUTES_MAX {
            return Err(NetworkPlanError::RouteCount);
        }
        for (index, route) in self.routes.iter().enumerate() {
            let failed = |what| Err(NetworkPlanError::Route { index, what });
            if !route.to.is_network() {
                return failed("its network must be the first address of it and the length of its prefix");
            }
            if route.via.is_none() && route.on.is_none() {
                return failed("it has neither a gateway nor a link");
            }
            if route.via.is_some_and(|via| via.is_ipv4() != route.to.ip.is_ipv4()) {
                return failed("its gateway is of another family");
            }
            if route.on.as_ref().is_some_and(|on| !links.contains(on.as_str())) {
                return failed("its link is not in the plan");
            }
        }
        Ok(())
    }

    fn kind(&self, name: &str) -> Option<&LinkKind> {
        self.links.iter().find(|link| link.name == name).map(|link| &link.kind)
    }

    fn is_nic(&self, name: &str) -> bool {
        matches!(self.kind(name), Some(LinkKind::Nic { .. }))
    }

    fn is_vlan(&self, name: &str) -> bool {
        matches!(self.kind(name), Some(LinkKind::Vlan { .. }))
    }
}

impl NetworkLink {
    /// A link of this kind without any address.
    #[must_use]
    pub fn new(name: &str, kind: LinkKind) -> Self {
        Self { name: name.to_owned(), kind, mtu: None, dhcp4: false, slaac: false, addresses: Vec::new() }
    }

    fn fault(&self, what: &str) -> NetworkPlanError {
        NetworkPlanError::Link { link: self.name.clone(), what: what.to_owned() }
    }

    fn has_ipv4(&self) -> bool {
        self.dhcp4 || self.addresses.iter().any(|address| address.ip.is_ipv4())
    }
}

impl InterfaceAddress {
    fn bits(&self) -> u8 {
        if self.ip.is_ipv4() { 32 } else { 128 }
    }

    /// Whether no bit is set behind the prefix.
    fn is_network(&self) -> bool {
        let behind = |bits: u128| bits.checked_shl(128 - u32::from(self.bits()) + u32::from(self.prefix)).unwrap_or(0);
        let bits = match self.ip {
            IpAddr::V4(ip) => u128::from(u32::from(ip)),
            IpAddr::V6(ip) => u128::from(ip),
        };
        self.prefix <= self.bits() && behind(bits) == 0
    }

    /// Neither a group's address nor "any" nor this machine's own.
    fn is_host(&self) -> bool {
        let odd = self.ip.is_unspecified() || self.ip.is_multicast() || self.ip.is_loopback();
        !odd && (1..=self.bits()).contains(&self.prefix)
    }
}

impl std::fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// A NIC's address in small letters with colons; `None` for groups, zeros and what is none.
#[must_use]
pub fn mac_of(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(6);
    for part in text.split([':', '-']) {
        if bytes.len() == 6 || part.len() != 2 || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(part, 16).ok()?);
    }
    let is_nic = bytes.len() == 6 && bytes[0] & 1 == 0 && bytes.iter().any(|byte| *byte != 0);
    is_nic.then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> InterfaceAddress {
        let (ip, prefix) = text.split_once('/').expect("a prefix");
        InterfaceAddress { ip: ip.parse().expect("an address"), prefix: prefix.parse().expect("a length") }
    }

    /// Two NICs, a bond of them, and VLAN 100 on it with a fixed address.
    fn plan() -> NetworkPlan {
        let nic = |name: &str, mac: &str| NetworkLink::new(name, LinkKind::Nic { mac: mac.into() });
        let bond = LinkKind::Bond {
            mode: BondMode::Lacp,
            members: vec!["a".into(), "b".into()],
            mac: None,
            miimon_ms: 100,
            lacp_fast: true,
            hash: HashPolicy::Layer34,
            primary: None,
        };
        let vlan = NetworkLink {
            addresses: vec![address("192.0.2.9/24")],
            ..NetworkLink::new("v", LinkKind::Vlan { id: 100, on: "bond".into() })
        };
        let via = "192.0.2.1".parse().ok();
        NetworkPlan {
            links: vec![
                nic("a", "52:54:00:00:00:01"),
                nic("b", "52:54:00:00:00:02"),
                NetworkLink::new("bond", bond),
                vlan,
            ],
            routes: vec![NetworkRoute { to: address("0.0.0.0/0"), via, on: None, metric: None }],
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        assert_eq!(plan().check(), Ok(()));
        let text = serde_json::to_string(&plan()).expect("JSON");
        assert_eq!(serde_json::from_str::<NetworkPlan>(&text).expect("a plan"), plan());
    }

    #[test]
    fn what_cannot_be_carried_out_is_named() {
        type Change = fn(&mut NetworkPlan);
        let rows: [(Change, &str); 19] = [
            (|plan| plan.links.clear(), "1 to 32 links"),
            (|plan| plan.links[3].addresses.clear(), "IPv4"),
            (|plan| plan.links[3].addresses = vec![address("2001:db8::1/64")], "IPv4"),
            (|plan| plan.links[3].addresses = vec![address("224.0.0.1/24")], "\"v\": it must"),
            (|plan| plan.links[3].addresses = vec![address("192.0.2.9/33")], "\"v\": it must"),
            (|plan| plan.links[0].addresses = vec![address("192.0.2.9/24")], "\"a\": the member"),
            (|plan| plan.links[1].name = "a".into(), "\"a\": there are two"),
            (|plan| plan.links[1].kind = plan.links[0].kind.clone(), "\"b\": another link has"),
            (|plan| plan.links[0].kind = LinkKind::Nic { mac: "01:00:5e:00:00:01".into() }, "not one of a NIC"),
            (|plan| plan.links.swap(0, 2), "\"bond\": its member \"a\""),
            (|plan| plan.links[3].kind = LinkKind::Vlan { id: 4095, on: "bond".into() }, "1 to 4094"),
            (|plan| plan.links[3].kind = LinkKind::Vlan { id: 5, on: "x".into() }, "\"x\", which"),
            (|plan| plan.links[3].kind = LinkKind::Vlan { id: 5, on: "a".into() }, "is the member"),
            (|plan| plan.links[3].dhcp4 = true, "by DHCP and a fixed one"),
            (|plan| plan.links[3].mtu = Some(100), "MTU"),
            (|plan| plan.routes[0].via = "2001:db8::1".parse().ok(), "route 0: its gateway"),
            (|plan| plan.routes[0].via = None, "route 0: it has neither"),
            (|plan| plan.routes[0].to = address("192.0.2.1/24"), "route 0: its network must"),
            (|plan| plan.routes[0].to = address("0.0.0.0/33"), "route 0: its network must"),
        ];
        for (change, expected) in rows {
            let mut plan = plan();
            change(&mut plan);
            let error = plan.check().expect_err(expected).to_string();
            assert!(error.contains(expected), "{error} is not about {expected}");
        }
    }

    #[test]
    fn hardware_addresses_have_one_form() {
        assert_eq!(mac_of("52-54-00-AB-cd-01").as_deref(), Some("52:54:00:ab:cd:01"));
        for odd in ["", "52:54:00:ab:cd", "52:54:00:ab:cd:01:02", "+1:54:00:ab:cd:01", "00:00:00:00:00:00", "ff:ff"] {
            assert_eq!(mac_of(odd), None, "{odd}");
        }
    }
}
