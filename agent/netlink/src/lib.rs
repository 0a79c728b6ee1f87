//! Links, addresses and routes by rtnetlink (`linux/rtnetlink.h`, RFC 3549): bonds, IPv6 and removals, which the older
//! ioctls cannot do. The network of `firesteel_agent` and the lab's switch call it. It knows no network plan.
//!
//! It is own code instead of a crate, because the seven requests that are needed fit into this one file. `rtnetlink`
//! brings an asynchronous connection, `futures` and types for every message of the kernel into a ramdisk that counts
//! kilobytes.

use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use firesteel_wire::network::BondMode;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, setsockopt, socket,
};
use nix::sys::time::TimeVal;

/// The kernel answers at once, but for modules that it loads first.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 8192;

// linux/netlink.h
const HEADER_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const REQUEST_ACK: u16 = 0x5;
const REPLACE: u16 = 0x100;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const NESTED: u16 = 0x8000;
// linux/rtnetlink.h
const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const NEWROUTE: u16 = 24;
const TABLE_MAIN: u8 = 254;
const PROTOCOL_STATIC: u8 = 4;
const SCOPE_LINK: u8 = 253;
const UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
// linux/if_addr.h
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
// linux/if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_MIIMON: u16 = 3;
const IFLA_BOND_PRIMARY: u16 = 11;
const IFLA_BOND_XMIT_HASH_POLICY: u16 = 14;
const IFLA_BOND_AD_LACP_RATE: u16 = 21;
const IFF_UP: u32 = 1;

/// What a bond is made with, in the kernel's numbers.
#[derive(Clone, Copy, Debug)]
pub struct Bond {
    pub mode: BondMode,
    pub miimon_ms: u32,
    pub lacp_fast: bool,
    /// `BOND_XMIT_POLICY_…`: 0 layer 2, 1 layers 3 and 4, 2 layers 2 and 3.
    pub hash: u8,
}

/// A conversation with the kernel of this network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// The fixed part of a message and its attributes (RFC 3549 section 2.2): length, type, value, padded to four bytes.
struct Body(Vec<u8>);

impl Body {
    /// `struct ifinfomsg`.
    fn link(index: u32, flags: u32, change: u32) -> Self {
        let mut body = Self(vec![0; 4]);
        for number in [index, flags, change] {
            body.0.extend(number.to_ne_bytes());
        }
        body
    }

    /// `struct ifaddrmsg` with its address.
    fn address(index: u32, ip: IpAddr, prefix: u8) -> Self {
        let mut body = Self(vec![family(ip), prefix, 0, 0]);
        body.0.extend(index.to_ne_bytes());
        body.ip(IFA_LOCAL, ip).ip(IFA_ADDRESS, ip);
        body
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    fn ip(&mut self, kind: u16, ip: IpAddr) -> &mut Self {
        match ip {
            IpAddr::V4(ip) => self.attribute(kind, &ip.octets()),
            IpAddr::V6(ip) => self.attribute(kind, &ip.octets()),
        }
    }

    fn nested(&mut self, kind: u16, inner: &Self) -> &mut Self {
        self.attribute(kind | NESTED, &inner.0)
    }

    fn empty() -> Self {
        Self(Vec::new())
    }
}

fn family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u8::try_from(family).unwrap_or(0)
}

fn message(kind: u16, flags: u16, sequence: u32, body: &Body) -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + body.0.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.0.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((REQUEST_ACK | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(&body.0);
    bytes
}

/// The kernel's verdict on the request of this number, if it is among these messages: 0 or an errno.
fn verdict(mut bytes: &[u8], sequence: u32) -> Option<i32> {
    let number = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    while bytes.len() >= HEADER_BYTES {
        let length = usize::try_from(number(bytes, 0)?).ok()?;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        if kind == NLMSG_ERROR && number(bytes, 8)? == sequence {
            let error = bytes.get(HEADER_BYTES..HEADER_BYTES + 4)?.try_into().ok()?;
            return Some(i32::from_ne_bytes(error).wrapping_neg());
        }
        bytes = bytes.get(length.max(HEADER_BYTES).next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

/// The kernel's number of an interface.
pub fn index_of(interface: &str) -> io::Result<u32> {
    let name = CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(nix::net::if_::if_nametoindex(name.as_c_str())?)
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::new(ANSWER_WAIT.as_secs().try_into().unwrap_or(30), 0))?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    fn ask(&mut self, kind: u16, flags: u16, body: &Body) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message(kind, flags, self.sequence, body);
        sendto(self.socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = [0; ANSWER_BYTES_MAX];
        loop {
            let bytes = match recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty()) {
                Err(nix::Error::EINTR) => continue,
                received => received?,
            };
            match verdict(&answer[..bytes], self.sequence) {
                Some(0) => return Ok(()),
                Some(error) => return Err(io::Error::from_raw_os_error(error)),
                None => {}
            }
        }
    }

    /// A link of a kind that needs no settings.
    pub fn add(&mut self, name: &str, kind: &str) -> io::Result<()> {
        let mut info = Body::empty();
        info.text(IFLA_INFO_KIND, kind);
        let mut body = Body::link(0, 0, 0);
        body.text(IFLA_IFNAME, name).nested(IFLA_LINKINFO, &info);
        self.ask(NEWLINK, CREATE | EXCLUSIVE, &body)
    }

    /// A tagged VLAN on another interface. The kernel asks for its module where that is not loaded.
    pub fn add_vlan(&mut self, name: &str, on: &str, id: u16) -> io::Result<()> {
        let mut data = Body::empty();
        data.attribute(IFLA_VLAN_ID, &id.to_ne_bytes());
        let mut body = Body::link(0, 0, 0);
        body.text(IFLA_IFNAME, name).number(IFLA_LINK, index_of(on)?).nested(IFLA_LINKINFO, &info("vlan", &data));
        self.ask(NEWLINK, CREATE | EXCLUSIVE, &body)
    }

    pub fn add_bond(&mut self, name: &str, bond: Bond, mac: Option<[u8; 6]>) -> io::Result<()> {
        let mut data = Body::empty();
        data.attribute(IFLA_BOND_MODE, &[bond.mode.number()]).number(IFLA_BOND_MIIMON, bond.miimon_ms);
        if bond.mode.has_hash_policy() {
            data.attribute(IFLA_BOND_XMIT_HASH_POLICY, &[bond.hash]);
        }
        if bond.mode == BondMode::Lacp {
            data.attribute(IFLA_BOND_AD_LACP_RATE, &[u8::from(bond.lacp_fast)]);
        }
        let mut body = Body::link(0, 0, 0);
        body.text(IFLA_IFNAME, name);
        if let Some(mac) = mac {
            body.attribute(IFLA_ADDRESS, &mac);
        }
        body.nested(IFLA_LINKINFO, &info("bond", &data));
        self.ask(NEWLINK, CREATE | EXCLUSIVE, &body)
    }

    /// Adds two Ethernet interfaces that are the ends of one cable. Tests of a network need them.
    pub fn add_veth(&mut self, name: &str, peer: &str) -> io::Result<()> {
        let mut inner = Body::link(0, 0, 0);
        inner.text(IFLA_IFNAME, peer);
        let mut data = Body::empty();
        // VETH_INFO_PEER of linux/veth.h
        data.nested(1, &inner);
        let mut body = Body::link(0, 0, 0);
        body.text(IFLA_IFNAME, name).nested(IFLA_LINKINFO, &info("veth", &data));
        self.ask(NEWLINK, CREATE | EXCLUSIVE, &body)
    }

    /// The member of an active-backup bond that is preferred, from now on.
    pub fn set_primary(&mut self, bond: &str, member: &str) -> io::Result<()> {
        let mut data = Body::empty();
        data.number(IFLA_BOND_PRIMARY, index_of(member)?);
        let mut body = Body::link(index_of(bond)?, 0, 0);
        body.nested(IFLA_LINKINFO, &info("bond", &data));
        self.ask(NEWLINK, 0, &body)
    }

    /// Makes an interface, which must be off, the member of a bond or bridge.
    pub fn set_master(&mut self, interface: &str, master: &str) -> io::Result<()> {
        let mut body = Body::link(index_of(interface)?, 0, 0);
        body.number(IFLA_MASTER, index_of(master)?);
        self.ask(NEWLINK, 0, &body)
    }

    pub fn switch(&mut self, interface: &str, on: bool) -> io::Result<()> {
        let flags = if on { IFF_UP } else { 0 };
        self.ask(NEWLINK, 0, &Body::link(index_of(interface)?, flags, IFF_UP))
    }

    /// Removes a link that was made, with its addresses and routes; members are free again.
    pub fn remove(&mut self, interface: &str) -> io::Result<()> {
        self.ask(DELLINK, 0, &Body::link(index_of(interface)?, 0, 0))
    }

    /// Adds an address. One that is there already is no error.
    pub fn add_address(&mut self, interface: &str, ip: IpAddr, prefix: u8) -> io::Result<()> {
        self.ask(NEWADDR, CREATE | REPLACE, &Body::address(index_of(interface)?, ip, prefix))
    }

    pub fn remove_address(&mut self, interface: &str, ip: IpAddr, prefix: u8) -> io::Result<()> {
        self.ask(DELADDR, 0, &Body::address(index_of(interface)?, ip, prefix))
    }

    /// A route in the main table; there already is fine.
    pub fn add_route(
        &mut self,
        to: IpAddr,
        prefix: u8,
        via: Option<IpAddr>,
        on: Option<&str>,
        metric: Option<u32>,
    ) -> io::Result<()> {
        let scope = if via.is_none() && to.is_ipv4() { SCOPE_LINK } else { 0 };
        let mut body = Body(vec![family(to), prefix, 0, 0, TABLE_MAIN, PROTOCOL_STATIC, scope, UNICAST, 0, 0, 0, 0]);
        if prefix > 0 {
            body.ip(RTA_DST, to);
        }
        if let Some(via) = via {
            body.ip(RTA_GATEWAY, via);
        }
        if let Some(on) = on {
            body.number(RTA_OIF, index_of(on)?);
        }
        if let Some(metric) = metric {
            body.number(RTA_PRIORITY, metric);
        }
        self.ask(NEWROUTE, CREATE | REPLACE, &body)
    }
}

fn info(kind: &str, data: &Body) -> Body {
    let mut info = Body::empty();
    info.text(IFLA_INFO_KIND, kind).nested(IFLA_INFO_DATA, data);
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_bytes_that_the_kernel_reads() {
        let mut data = Body::empty();
        data.attribute(IFLA_VLAN_ID, &100_u16.to_ne_bytes());
        let mut body = Body::link(0, 0, 0);
        body.text(IFLA_IFNAME, "plan1").number(IFLA_LINK, 7).nested(IFLA_LINKINFO, &info("vlan", &data));
        let bytes = message(NEWLINK, CREATE | EXCLUSIVE, 9, &body);
        // What `ip link add link eth0 name plan1 type vlan id 100` sends on a little-endian machine, but for the
        // order of its attributes.
        #[rustfmt::skip]
        let expected = [
            80, 0, 0, 0, 16, 0, 0x05, 0x06, 9, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            10, 0, 3, 0, b'p', b'l', b'a', b'n', b'1', 0, 0, 0,
            8, 0, 5, 0, 7, 0, 0, 0,
            28, 0, 18, 0x80,
            9, 0, 1, 0, b'v', b'l', b'a', b'n', 0, 0, 0, 0,
            12, 0, 2, 0x80, 6, 0, 1, 0, 100, 0, 0, 0,
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn the_verdict_is_found_among_other_messages() {
        let answer = |sequence: u32, error: i32| {
            let body = Body([&error.to_ne_bytes()[..], &[0; 16]].concat());
            let mut bytes = message(NLMSG_ERROR, 0, sequence, &body);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let bytes = [answer(1, -libc::EEXIST), answer(2, 0)].concat();
        assert_eq!(verdict(&bytes, 1), Some(libc::EEXIST));
        assert_eq!(verdict(&bytes, 2), Some(0));
        assert_eq!(verdict(&bytes, 3), None);
        assert_eq!(verdict(&bytes[..10], 1), None);
        // A length of 0 would be read without end.
        assert_eq!(verdict(&[0; 64], 1), None);
    }
}
