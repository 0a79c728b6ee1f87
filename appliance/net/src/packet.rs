//! Sockets that DHCP needs besides a plain UDP socket: one bound to an interface, and one that sends to a hardware
//! address that does not answer ARP yet.
//!
//! The only file of the appliance with `unsafe`: a link-layer address has no safe constructor.
//! It must not know DHCP; [`udp_over_ip`] and its reader are checked without a socket.

#![allow(unsafe_code, reason = "sockaddr_ll has no safe constructor in socket2 or nix")]

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;

use firesteel_facts::Mac;
use nix::sys::socket::{ControlMessage, LinkAddr, MsgFlags, SockaddrIn, recvfrom, sendmsg};
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UdpSocket;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const IP_HEADER_BYTES: usize = 20;
const UDP_HEADER_BYTES: usize = 8;
const IP_PROTOCOL_UDP: u8 = 17;
/// The receive buffer holds the broadcasts of a rack that was just powered on, until the task reads them.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Returns the kernel's index of an interface.
pub(super) fn interface_index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

/// Binds a UDP socket to `port` that receives and sends on one interface only.
pub(super) fn bind_udp(interface: &str, port: u16) -> io::Result<UdpSocket> {
    bind_udp_at(interface, Ipv4Addr::UNSPECIFIED, port)
}

/// Binds a UDP socket to one address of the interface; port 0 takes any free one.
pub(super) fn bind_udp_at(interface: &str, address: Ipv4Addr, port: u16) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_broadcast(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddrV4::new(address, port).into())?;
    UdpSocket::from_std(socket.into())
}

/// Registers a socket for which tokio has no type.
#[allow(unsafe_code, reason = "registering a descriptor is unsafe for types that might change it")]
fn watched(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: a `Socket` owns its descriptor, returns the same one for as long as it lives, and closes it only
    // when it is dropped, which `AsyncFd` does after deregistering it.
    unsafe { AsyncFd::register(socket) }.map_err(io::Error::from)
}

/// Sends with the kernel's routing and ARP, from `source` whatever other addresses the interface has.
pub(super) fn send_udp(socket: &UdpSocket, source: Ipv4Addr, to: SocketAddrV4, payload: &[u8]) -> io::Result<()> {
    // Index 0: the interface is the socket's own (SO_BINDTODEVICE).
    let from = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: in_addr(source), ipi_addr: in_addr(source) };
    let (slices, control) = ([io::IoSlice::new(payload)], [ControlMessage::Ipv4PacketInfo(&from)]);
    socket.try_io(Interest::WRITABLE, || {
        sendmsg(socket.as_raw_fd(), &slices, &control, MsgFlags::MSG_DONTWAIT, Some(&SockaddrIn::from(to)))
            .map_err(io::Error::from)
    })?;
    Ok(())
}

fn in_addr(address: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) }
}

/// An `AF_PACKET` socket of one interface: IPv4 packets whose Ethernet header the kernel makes.
#[derive(Debug)]
pub(super) struct LinkSocket {
    socket: AsyncFd<Socket>,
    interface: u32,
}

impl LinkSocket {
    /// Opens a socket that only sends; the kernel queues nothing for it.
    pub(super) fn sender(interface: u32) -> io::Result<Self> {
        Self::open(interface, 0)
    }

    /// Opens a socket that also receives every IPv4 packet of the interface.
    pub(super) fn listener(interface: u32) -> io::Result<Self> {
        Self::open(interface, ETHERTYPE_IPV4)
    }

    /// Opens a socket for ARP.
    pub(super) fn arp(interface: u32) -> io::Result<Self> {
        Self::open(interface, ETHERTYPE_ARP)
    }

    /// Sends an ARP packet to all machines of the link.
    pub(super) fn broadcast_arp(&self, packet: &[u8]) -> io::Result<()> {
        let address = link_address(self.interface, ETHERTYPE_ARP, Mac([0xff; 6]))?;
        self.socket.get_ref().send_to(packet, &address)?;
        Ok(())
    }

    fn open(interface: u32, ethertype: u16) -> io::Result<Self> {
        // Protocol 0 keeps packets of other interfaces out until it is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(0)))?;
        socket.bind(&link_address(interface, ethertype, Mac([0; 6]))?)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: watched(socket)?, interface })
    }

    /// Sends a UDP datagram to this hardware address.
    pub(super) fn send(&self, to_mac: Mac, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> io::Result<()> {
        let packet = udp_over_ip(from, to, payload)?;
        let address = link_address(self.interface, ETHERTYPE_IPV4, to_mac)?;
        self.socket.get_ref().send_to(&packet, &address)?;
        Ok(())
    }

    /// Receives the next packet, and the hardware address that sent it.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Mac>)> {
        self.socket
            .async_io(Interest::READABLE, |socket| {
                let (bytes, from) = recvfrom::<LinkAddr>(socket.as_raw_fd(), buffer).map_err(io::Error::from)?;
                Ok((bytes, from.and_then(|from| from.addr()).map(Mac)))
            })
            .await
    }
}

fn link_address(interface: u32, ethertype: u16, mac: Mac) -> io::Result<SockAddr> {
    let mut storage = SockAddrStorage::zeroed();
    let family = libc::sa_family_t::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    // SAFETY: the storage is as large and as aligned as any socket address, `sockaddr_ll` consists of
    // integers, and all zeros, which it holds now, are a valid one.
    let link = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    link.sll_family = family;
    link.sll_protocol = ethertype.to_be();
    link.sll_ifindex = i32::try_from(interface).map_err(io::Error::other)?;
    link.sll_halen = 6;
    link.sll_addr[..6].copy_from_slice(&mac.0);
    let bytes = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).map_err(io::Error::other)?;
    // SAFETY: the storage holds a complete `sockaddr_ll` of that length with its family set.
    Ok(unsafe { SockAddr::new(storage, bytes) })
}

/// Makes an IPv4 packet with one UDP datagram and both checksums (RFC 791, RFC 768).
fn udp_over_ip(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> io::Result<Vec<u8>> {
    let udp_bytes = u16::try_from(UDP_HEADER_BYTES + payload.len()).map_err(io::Error::other)?;
    let total_bytes = u16::try_from(IP_HEADER_BYTES + usize::from(udp_bytes)).map_err(io::Error::other)?;
    let mut packet = Vec::with_capacity(total_bytes.into());
    // Version 4, five words of header, class of service 0; no identification, no fragments; 64 hops.
    packet.extend([0x45, 0]);
    packet.extend(total_bytes.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, IP_PROTOCOL_UDP, 0, 0]);
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    let sum = checksum(0, &packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(udp_bytes.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    // The pseudo header: addresses (in the packet already), protocol, length.
    let pseudo = u32::from(IP_PROTOCOL_UDP) + u32::from(udp_bytes);
    let sum = checksum(pseudo, &packet[12..]);
    // RFC 768: a sum of zero is sent as all ones, since zero means "no checksum".
    let sum = if sum == 0 { u16::MAX } else { sum };
    packet[26..28].copy_from_slice(&sum.to_be_bytes());
    Ok(packet)
}

/// Returns the UDP payload of an IPv4 packet and its destination port. Checksums are left to the network card; a
/// virtual one may not fill them in.
pub(super) fn read_udp(packet: &[u8]) -> Option<(u16, &[u8])> {
    let (version, words) = (packet.first()? >> 4, usize::from(packet[0] & 15));
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
    if version != 4 || words < 5 || fragment != 0 || *packet.get(9)? != IP_PROTOCOL_UDP {
        return None;
    }
    let udp = packet.get(words * 4..)?;
    let (header, rest) = udp.split_at_checked(UDP_HEADER_BYTES)?;
    let bytes = usize::from(u16::from_be_bytes([header[4], header[5]])).checked_sub(UDP_HEADER_BYTES)?;
    Some((u16::from_be_bytes([header[2], header[3]]), rest.get(..bytes)?))
}

/// Entry for fuzzing: the payload lies inside the packet, and a datagram made from it is read as it was sent.
pub fn check(packet: &[u8]) {
    if let Some((_, payload)) = read_udp(packet) {
        assert!(payload.len() + IP_HEADER_BYTES + UDP_HEADER_BYTES <= packet.len());
    }
    let (from, to) = (SocketAddrV4::new(Ipv4Addr::LOCALHOST, 67), SocketAddrV4::new(Ipv4Addr::BROADCAST, 68));
    if let Ok(sent) = udp_over_ip(from, to, packet) {
        assert_eq!(read_udp(&sent), Some((68, packet)));
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let last = last.first().map_or(0, |byte| u32::from(*byte) << 8);
    let mut sum = pairs.iter().fold(start + last, |sum, pair| sum + u32::from(u16::from_be_bytes(*pair)));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let from = SocketAddrV4::new(Ipv4Addr::new(192, 168, 0, 1), 67);
        udp_over_ip(from, SocketAddrV4::new(Ipv4Addr::new(192, 168, 0, 9), 68), payload).unwrap()
    }

    #[test]
    fn what_is_sent_can_be_read_and_sums_up() {
        for payload in [&b""[..], b"odd", b"even", &[0xff; 300]] {
            let packet = datagram(payload);
            assert_eq!(read_udp(&packet), Some((68, payload)));
            assert_eq!(checksum(0, &packet[..20]), 0);
            let udp_bytes = u32::try_from(packet.len() - 20).unwrap();
            assert_eq!(checksum(17 + udp_bytes, &packet[12..]), 0);
        }
    }

    #[test]
    fn known_header_has_its_known_sum() {
        let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(checksum(0, &header), 0xb861);
    }

    #[test]
    fn what_is_no_whole_datagram_is_refused() {
        let good = datagram(b"payload");
        for cut in 0..good.len() {
            assert_eq!(read_udp(&good[..cut]), None, "{cut}");
        }
        for (at, value) in [(0, 0x65), (0, 0x44), (0, 0x4f), (6, 0x20), (7, 1), (9, 6), (25, 7), (24, 0xff)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(read_udp(&bad), None, "{at}");
        }
    }
}
