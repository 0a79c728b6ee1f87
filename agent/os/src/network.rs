//! Network interfaces: up, address, default route, permanent MAC; the DHCP client's socket, and one for
//! frames of another protocol than IP.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::{BindToDevice, Broadcast, ReuseAddr};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, bind, recv, setsockopt, socket};

/// Ethtool command "permanent address" (linux/ethtool.h) and the longest address that it gives.
const ETHTOOL_GPERMADDR: u32 = 0x20;
/// "Information on the driver".
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ADDRESS_BYTES_MAX: usize = 32;

#[repr(C)]
struct PermanentAddress {
    command: u32,
    size: u32,
    data: [u8; ADDRESS_BYTES_MAX],
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInformation {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    erom: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

fn control_socket() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?)
}

fn request_for(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain data; all zeros is a valid value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.is_empty() || interface.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "interface name has a wrong length"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(request)
}

fn interface_ioctl(number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    let socket = control_socket()?;
    // SAFETY: every caller pairs the number with the union field that it reads or writes; the
    // pointer is valid for the whole ifreq during the call.
    nix::Error::result(unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut *request) })?;
    Ok(())
}

fn address_union(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: sockaddr and sockaddr_in are plain data of the same size; zeros are valid.
    unsafe {
        let mut inet: libc::sockaddr_in = std::mem::zeroed();
        inet.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(2);
        inet.sin_addr.s_addr = u32::from(address).to_be();
        std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(inet)
    }
}

/// Switches an interface on.
pub fn set_up(interface: &str) -> io::Result<()> {
    let mut request = request_for(interface)?;
    interface_ioctl(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has just filled this field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    interface_ioctl(libc::SIOCSIFFLAGS, &mut request)
}

pub fn set_mtu(interface: &str, mtu: u16) -> io::Result<()> {
    let mut request = request_for(interface)?;
    request.ifr_ifru.ifru_mtu = libc::c_int::from(mtu);
    interface_ioctl(libc::SIOCSIFMTU, &mut request)
}

/// Gives the interface this one IPv4 address, in place of an earlier one.
pub fn set_address(interface: &str, address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix_bits.min(32))).unwrap_or(0);
    let mut request = request_for(interface)?;
    request.ifr_ifru.ifru_addr = address_union(address);
    interface_ioctl(libc::SIOCSIFADDR, &mut request)?;
    request.ifr_ifru.ifru_addr = address_union(Ipv4Addr::from(mask));
    interface_ioctl(libc::SIOCSIFNETMASK, &mut request)
}

/// Adds the default route; there already is fine.
pub fn add_default_route(gateway: Ipv4Addr) -> io::Result<()> {
    // SAFETY: rtentry is plain data; all zeros is a valid value of it.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = address_union(Ipv4Addr::UNSPECIFIED);
    route.rt_genmask = address_union(Ipv4Addr::UNSPECIFIED);
    route.rt_gateway = address_union(gateway);
    route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
    let socket = control_socket()?;
    // SAFETY: SIOCADDRT reads one rtentry, which outlives the call; its device pointer is null.
    match nix::Error::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT as _, &raw const route) }) {
        Err(nix::Error::EEXIST) => Ok(()),
        done => {
            done?;
            Ok(())
        }
    }
}

/// The address that the maker gave the NIC, where the driver reports it.
#[must_use]
pub fn permanent_mac(interface: &str) -> Option<[u8; 6]> {
    let mut request = request_for(interface).ok()?;
    let mut address = PermanentAddress {
        command: ETHTOOL_GPERMADDR,
        size: u32::try_from(ADDRESS_BYTES_MAX).ok()?,
        data: [0; ADDRESS_BYTES_MAX],
    };
    request.ifr_ifru.ifru_data = (&raw mut address).cast();
    interface_ioctl(libc::SIOCETHTOOL, &mut request).ok()?;
    let mac: [u8; 6] = address.data.get(..6)?.try_into().ok()?;
    (address.size == 6 && mac != [0; 6] && mac != [0xff; 6]).then_some(mac)
}

/// The version of the NIC's firmware in the driver's words, as it came; `None` where it does not say.
#[must_use]
pub fn firmware_version(interface: &str) -> Option<String> {
    let mut request = request_for(interface).ok()?;
    let mut information = DriverInformation {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        bus: [0; 32],
        erom: [0; 32],
        reserved: [0; 12],
        counts: [0; 5],
    };
    request.ifr_ifru.ifru_data = (&raw mut information).cast();
    interface_ioctl(libc::SIOCETHTOOL, &mut request).ok()?;
    let text = information.firmware.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// A socket on the DHCP client's port that sends and receives on this interface only, before it
/// has an address.
pub fn dhcp_socket(interface: &str) -> io::Result<UdpSocket> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, ReuseAddr, &true)?;
    setsockopt(&socket, Broadcast, &true)?;
    setsockopt(&socket, BindToDevice, &interface.into())?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, 68))?;
    Ok(UdpSocket::from(socket))
}

/// A socket that receives whole Ethernet frames of one protocol, those that go to these group addresses among
/// them, on the interface with this number only. It never blocks.
pub fn frame_socket(interface: u32, protocol: u16, groups: &[[u8; 6]]) -> io::Result<OwnedFd> {
    // Of no protocol until it is bound: before that it would receive from every interface.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
    let interface = libc::c_int::try_from(interface).map_err(io::Error::other)?;
    for group in groups {
        let mut address = [0; 8];
        address[..6].copy_from_slice(group);
        let membership = libc::packet_mreq {
            mr_ifindex: interface,
            mr_type: libc::c_ushort::try_from(libc::PACKET_MR_MULTICAST).map_err(io::Error::other)?,
            mr_alen: 6,
            mr_address: address,
        };
        let length = libc::socklen_t::try_from(size_of_val(&membership)).map_err(io::Error::other)?;
        // SAFETY: the option reads one packet_mreq, which outlives the call and has the length that is given.
        nix::Error::result(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const membership).cast(),
                length,
            )
        })?;
    }
    // SAFETY: sockaddr_ll is plain data; all zeros is a valid value of it.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::c_ushort::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface;
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: the address is a whole sockaddr_ll, as its family says, and outlives the call.
    nix::Error::result(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// The next frame, as long as it was or as long as the buffer; an error where there is none.
pub fn receive(socket: &OwnedFd, frame: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT)?)
}
