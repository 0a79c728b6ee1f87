//! Which addresses may be dialled. Pure.
//!
//! A tenant names URLs that the appliance fetches with the appliance's own reach. What only the appliance reaches is
//! therefore refused: itself by any of its loopback forms, what a link alone has (also the metadata services of clouds),
//! and groups. `--allow-target` lets a block through, for labs and sites whose servers are there; nothing lets the
//! appliance's own listeners through.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use firesteel_facts::AddressBlock;

/// What may be dialled.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    allowed: Vec<AddressBlock>,
    listeners: Vec<SocketAddr>,
}

/// Why an address is not dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetClass {
    Loopback,
    Unspecified,
    LinkLocal,
    Multicast,
    Broadcast,
    Reserved,
    OwnListener,
}

impl TargetClass {
    fn class_name(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Unspecified => "the unspecified address or one of its block",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Reserved => "a reserved address",
            Self::OwnListener => "a listener of this appliance",
        }
    }
}

/// A target that is not dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTarget {
    /// The host as the user wrote it.
    pub host: String,
    pub address: SocketAddr,
    pub class: TargetClass,
}

impl fmt::Display for RefusedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address, class } = self;
        let (ip, words) = (address.ip(), class.class_name());
        if *class == TargetClass::OwnListener {
            return write!(f, "{host} is {address}, {words}, and is not connected to: name the server that is meant");
        }
        let block = AddressBlock::from(ip);
        write!(
            f,
            "{host} is {ip}, {words}, and such are not connected to: correct the address, or start the appliance \
             with --allow-target {block}"
        )
    }
}

impl std::error::Error for RefusedTarget {}

impl Targets {
    /// What may be dialled by everybody, and these blocks.
    pub fn allowing(blocks: impl IntoIterator<Item = AddressBlock>) -> Self {
        Self { allowed: blocks.into_iter().collect(), listeners: Vec::new() }
    }

    /// Excludes the places where this process listens; an unspecified address means all of this machine.
    #[must_use]
    pub fn without_listeners(self, listeners: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { listeners: listeners.into_iter().collect(), ..self }
    }

    /// Replaces the places where this process listens.
    pub(crate) fn set_listeners(&mut self, listeners: impl IntoIterator<Item = SocketAddr>) {
        self.listeners = listeners.into_iter().collect();
    }

    /// Judges one address. `is_here` says whether this machine has an address; it is asked seldom.
    ///
    /// # Errors
    /// What it is that is not dialled.
    pub fn judge(&self, address: SocketAddr, is_here: impl Fn(IpAddr) -> bool) -> Result<(), TargetClass> {
        let ip = address.ip().to_canonical();
        let is_listener = |listener: &SocketAddr| {
            listener.port() == address.port()
                && (listener.ip().to_canonical() == ip || (listener.ip().is_unspecified() && is_here(ip)))
        };
        if self.listeners.iter().any(is_listener) {
            return Err(TargetClass::OwnListener);
        }
        let Some(class) = class_of(ip) else { return Ok(()) };
        if self.allowed.iter().any(|block| block.contains(ip)) { Ok(()) } else { Err(class) }
    }
}

/// The class of an address that no name of a server is meant to lead to.
fn class_of(ip: IpAddr) -> Option<TargetClass> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => class_of_v4(ip),
        IpAddr::V6(ip) => class_of_v6(ip),
    }
}

fn class_of_v4(ip: Ipv4Addr) -> Option<TargetClass> {
    match ip.octets() {
        // "This host on this network" (RFC 1122, section 3.2.1.3): Linux takes 0.0.0.0 for itself.
        [0, ..] => Some(TargetClass::Unspecified),
        [127, ..] => Some(TargetClass::Loopback),
        [169, 254, ..] => Some(TargetClass::LinkLocal),
        [224..=239, ..] => Some(TargetClass::Multicast),
        [255, 255, 255, 255] => Some(TargetClass::Broadcast),
        [240..=255, ..] => Some(TargetClass::Reserved),
        _ => None,
    }
}

fn class_of_v6(ip: Ipv6Addr) -> Option<TargetClass> {
    let segments = ip.segments();
    if ip.is_unspecified() {
        return Some(TargetClass::Unspecified);
    }
    if ip.is_loopback() {
        return Some(TargetClass::Loopback);
    }
    if segments[0] & 0xffc0 == 0xfe80 {
        return Some(TargetClass::LinkLocal);
    }
    if ip.is_multicast() {
        return Some(TargetClass::Multicast);
    }
    embedded(segments).and_then(class_of_v4)
}

/// The IPv4 address that a translator or tunnel on the way would make of it: IPv4-compatible (RFC 4291, section
/// 2.5.5.1), the well-known prefix (RFC 6052), 6to4 (RFC 3056).
fn embedded(segments: [u16; 8]) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn at(ip: &str, port: u16) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), port)
    }

    const REFUSED: &[(&str, TargetClass)] = &[
        ("127.0.0.1", TargetClass::Loopback),
        ("127.255.255.254", TargetClass::Loopback),
        ("::1", TargetClass::Loopback),
        ("::ffff:127.0.0.1", TargetClass::Loopback),
        ("::127.0.0.1", TargetClass::Loopback),
        ("64:ff9b::127.0.0.1", TargetClass::Loopback),
        ("2002:7f00:1::1", TargetClass::Loopback),
        ("0.0.0.0", TargetClass::Unspecified),
        ("0.1.2.3", TargetClass::Unspecified),
        ("::", TargetClass::Unspecified),
        ("::ffff:0.0.0.0", TargetClass::Unspecified),
        ("169.254.169.254", TargetClass::LinkLocal),
        ("::ffff:169.254.169.254", TargetClass::LinkLocal),
        ("64:ff9b::a9fe:a9fe", TargetClass::LinkLocal),
        ("fe80::1", TargetClass::LinkLocal),
        ("febf::1", TargetClass::LinkLocal),
        ("224.0.0.1", TargetClass::Multicast),
        ("239.1.2.3", TargetClass::Multicast),
        ("ff02::1", TargetClass::Multicast),
        ("240.0.0.1", TargetClass::Reserved),
        ("255.255.255.255", TargetClass::Broadcast),
    ];

    #[test]
    fn what_only_the_appliance_reaches_is_refused_in_each_form() {
        for (ip, class) in REFUSED {
            let judged = Targets::default().judge(at(ip, 80), |_| false);
            assert_eq!(judged, Err(*class), "{ip}");
        }
        for ip in ["10.0.0.5", "192.0.2.1", "172.16.0.1", "100.64.0.1", "fd00::5", "2001:db8::1", "64:ff9b::a00:5"] {
            assert_eq!(Targets::default().judge(at(ip, 80), |_| false), Ok(()), "{ip}");
        }
    }

    #[test]
    fn a_block_lets_through_what_is_in_it_and_nothing_else() {
        let targets = Targets::allowing(["127.0.1.0/24".parse().unwrap(), "fe80::/10".parse().unwrap()]);
        for ip in ["127.0.1.7", "::ffff:127.0.1.7", "fe80::1"] {
            assert_eq!(targets.judge(at(ip, 80), |_| false), Ok(()), "{ip}");
        }
        for ip in ["127.0.0.1", "::1", "169.254.169.254"] {
            assert!(targets.judge(at(ip, 80), |_| false).is_err(), "{ip}");
        }
    }

    #[test]
    fn own_listeners_are_refused_whatever_is_allowed() {
        let everything = ["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let targets = Targets::allowing(everything).without_listeners([at("10.77.0.1", 8080), at("0.0.0.0", 6443)]);
        let is_here = |ip: IpAddr| ip == IpAddr::from([10, 77, 0, 1]) || ip.is_loopback();
        for (ip, port) in [("10.77.0.1", 8080), ("::ffff:10.77.0.1", 8080), ("10.77.0.1", 6443), ("127.0.0.1", 6443)] {
            assert_eq!(targets.judge(at(ip, port), is_here), Err(TargetClass::OwnListener), "{ip} {port}");
        }
        for (ip, port) in [("10.77.0.1", 8081), ("10.77.0.2", 8080), ("10.77.0.2", 6443), ("127.0.0.1", 8080)] {
            assert_eq!(targets.judge(at(ip, port), is_here), Ok(()), "{ip} {port}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = |host: &str, ip: &str, class| RefusedTarget { host: host.into(), address: at(ip, 80), class };
        let said = refused("mirror.example", "127.0.0.1", TargetClass::Loopback).to_string();
        assert!(said.starts_with("mirror.example is 127.0.0.1, a loopback address"), "{said}");
        assert!(said.ends_with("--allow-target 127.0.0.1/32"), "{said}");
        let said = refused("[fe80::1]", "fe80::1", TargetClass::LinkLocal).to_string();
        assert!(said.ends_with("--allow-target fe80::1/128"), "{said}");
        let said = refused("10.77.0.1", "10.77.0.1", TargetClass::OwnListener).to_string();
        assert!(
            !said.contains("--allow-target") && said.contains("10.77.0.1:80, a listener of this appliance"),
            "{said}"
        );
    }
}
