//! What a reply says and where it goes: RFC 2131 §4.1 and tables 3 and 5, and what firmware needs.
//!
//! It must not know how an address was chosen.

use std::net::Ipv4Addr;

use firesteel_facts::Mac;

use crate::classify::{Class, DhcpRequester};
use crate::config::{DhcpConfig, Subnet};
use crate::wire::{self, DhcpOperation, FILE_BYTES_MAX, MessageType, Packet, WireError, code};

/// One option holds that much. RFC 3396 would split longer ones, and neither iPXE nor EDK2 joins them.
pub const BOOT_FILE_BYTES_MAX: usize = 255;
/// RFC 2132 §9.10: the least that a client may announce, and the value of one that announces nothing.
const MESSAGE_BYTES_DEFAULT: usize = 576;
/// An Ethernet frame; more would be cut into fragments that no ROM puts together.
const MESSAGE_BYTES_MAX: usize = 1500;
/// IP and UDP headers count as part of the announced size.
const IP_UDP_BYTES: usize = 28;
/// What goes first, in this order, when a reply does not fit.
const DISPENSABLE: [u8; 8] = [
    code::NTP,
    code::DOMAIN_NAME,
    code::HOST_NAME,
    code::BROADCAST,
    code::RENEWAL_TIME,
    code::REBINDING_TIME,
    code::TFTP_SERVER,
    code::DNS,
];
/// iPXE's encapsulated setting `no-pxedhcp`: do not wait for a proxy.
const IPXE_NO_PXEDHCP: [u8; 3] = [176, 1, 1];
/// PXE 2.1 §2.2: PXE_DISCOVERY_CONTROL (6) with bit 3, "use the boot file name of this very offer":
/// no menu, no multicast, no second exchange on port 4011.
const PXE_USE_BOOT_FILE: [u8; 4] = [6, 1, 8, 255];

/// The boot answer for a client; made outside, where resources are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootAnswer {
    /// Where TFTP is (`siaddr`, and option 66 if asked for). Our own address when `None`.
    pub server_address: Option<Ipv4Addr>,
    /// A file name or a URL, at most [`BOOT_FILE_BYTES_MAX`] bytes: always in option 67, and in the
    /// `file` field too where it fits.
    pub file: String,
    /// Option 60. Where `None`, the class that the client named goes back to it.
    pub vendor_class: Option<String>,
    /// Tells iPXE not to wait for a proxy DHCP server: saves seconds per boot.
    pub ipxe_no_pxedhcp: bool,
}

/// Where a reply goes (RFC 2131 §4.1). Always out of the interface that the request came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// 255.255.255.255 port 68.
    Broadcast,
    /// Port 68 of an address that the client does not answer ARP for yet: straight to its MAC.
    HardwareUnicast { mac: Mac, address: Ipv4Addr },
    /// Port 68 of an address that the client has.
    IpUnicast(Ipv4Addr),
    /// Port 67 of the relay.
    Relay(Ipv4Addr),
}

/// Who asked, what, and from where.
pub(crate) struct DhcpRequestContext<'a> {
    pub(crate) request: &'a Packet,
    pub(crate) client: &'a DhcpRequester,
    pub(crate) config: &'a DhcpConfig,
    pub(crate) subnet: &'a Subnet,
    /// Whom the client is to name when it takes the offer: us, or the relay that speaks for us (RFC 5107).
    pub(crate) server_id: Ipv4Addr,
}

impl DhcpRequestContext<'_> {
    /// An OFFER or an ACK that grants `address`.
    pub(crate) fn grant(&self, kind: MessageType, address: Ipv4Addr, boot: Option<&BootAnswer>) -> Packet {
        let mut reply = self.reply(kind);
        reply.yiaddr = address;
        if kind == MessageType::Ack {
            reply.ciaddr = self.request.ciaddr;
        }
        let seconds = u32::try_from(self.config.lease_time.as_secs()).unwrap_or(u32::MAX);
        reply.options.set_number(code::LEASE_TIME, seconds);
        if self.wants(code::RENEWAL_TIME) {
            reply.options.set_number(code::RENEWAL_TIME, seconds / 2);
        }
        if self.wants(code::REBINDING_TIME) {
            reply.options.set_number(code::REBINDING_TIME, seconds - seconds / 8);
        }
        self.add_network(&mut reply);
        self.add_boot(&mut reply, boot);
        reply
    }

    /// The answer to an INFORM: everything but an address and a lease (RFC 2131 §4.3.5).
    pub(crate) fn inform(&self, address: Ipv4Addr, boot: Option<&BootAnswer>) -> Packet {
        let mut reply = self.reply(MessageType::Ack);
        reply.ciaddr = address;
        self.add_network(&mut reply);
        self.add_boot(&mut reply, boot);
        reply
    }

    pub(crate) fn nak(&self, text: &str) -> Packet {
        let mut reply = self.reply(MessageType::Nak);
        // RFC 2131 §4.3.2: the relay has to broadcast it, for the client's address may be wrong.
        reply.broadcast = !reply.giaddr.is_unspecified() || reply.broadcast;
        reply.options.set(code::MESSAGE, text.as_bytes());
        reply
    }

    /// RFC 2131 §4.1, for OFFER and ACK.
    pub(crate) fn destination(&self, address: Ipv4Addr) -> Destination {
        let request = self.request;
        if !request.giaddr.is_unspecified() {
            Destination::Relay(request.giaddr)
        } else if !request.ciaddr.is_unspecified() {
            Destination::IpUnicast(request.ciaddr)
        } else if request.broadcast {
            Destination::Broadcast
        } else {
            Destination::HardwareUnicast { mac: request.mac, address }
        }
    }

    pub(crate) fn nak_destination(&self) -> Destination {
        let relay = self.request.giaddr;
        if relay.is_unspecified() { Destination::Broadcast } else { Destination::Relay(relay) }
    }

    /// The bytes, small enough for what the client announced.
    pub(crate) fn encode(&self, mut reply: Packet) -> Result<Vec<u8>, WireError> {
        let limit = self.bytes_max();
        let mut bytes = wire::encode(&reply)?;
        for code in DISPENSABLE {
            if bytes.len() <= limit {
                break;
            }
            reply.options.remove(code);
            bytes = wire::encode(&reply)?;
        }
        // What is left is needed. EDK2 announces 576 and takes more; a frame is the real limit.
        if bytes.len() > MESSAGE_BYTES_MAX - IP_UDP_BYTES { Err(WireError::TooLong(bytes.len())) } else { Ok(bytes) }
    }

    fn bytes_max(&self) -> usize {
        let announced = match self.request.options.get(code::MAX_SIZE) {
            Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
            Some(_) | None => MESSAGE_BYTES_DEFAULT,
        };
        announced.clamp(MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX) - IP_UDP_BYTES
    }

    fn reply(&self, kind: MessageType) -> Packet {
        let request = self.request;
        let mut reply = Packet::new(DhcpOperation::Reply, request.xid, request.mac);
        reply.broadcast = request.broadcast;
        reply.giaddr = request.giaddr;
        reply.options.set_message_type(kind);
        reply.options.set(code::SERVER_ID, self.server_id.octets());
        // RFC 6842: a client identifier goes back unchanged; some ROMs drop replies without theirs.
        self.echo(&mut reply, code::CLIENT_ID);
        // RFC 3046 §2.2: what the relay added goes back to it, last (the codec sees to that).
        if !request.giaddr.is_unspecified() {
            self.echo(&mut reply, code::RELAY_AGENT);
        }
        reply
    }

    fn echo(&self, reply: &mut Packet, code: u8) {
        if let Some(value) = self.request.options.get(code) {
            reply.options.set(code, value);
        }
    }

    /// Whether the client asked for this option; who sends no list (55) gets all.
    fn wants(&self, code: u8) -> bool {
        self.request.options.get(code::PARAMETER_LIST).is_none_or(|list| list.contains(&code))
    }

    fn add_network(&self, reply: &mut Packet) {
        let (config, network) = (self.config, self.subnet.network);
        // Without being asked, too: no client does anything sensible without it.
        reply.options.set(code::SUBNET_MASK, network.mask().octets());
        if self.wants(code::BROADCAST) {
            reply.options.set(code::BROADCAST, network.broadcast().octets());
        }
        if let Some(router) = self.subnet.router.filter(|_| self.wants(code::ROUTER)) {
            reply.options.set(code::ROUTER, router.octets());
        }
        for (code, servers) in [(code::DNS, &config.dns), (code::NTP, &config.ntp)] {
            if self.wants(code) {
                reply.options.set_addresses(code, servers);
            }
        }
        if let Some(domain) = config.domain.as_ref().filter(|_| self.wants(code::DOMAIN_NAME)) {
            reply.options.set(code::DOMAIN_NAME, domain.as_bytes());
        }
        let reservation = config.reservations.get(&self.client.mac);
        if let Some(name) = reservation.and_then(|held| held.hostname.as_ref()).filter(|_| self.wants(code::HOST_NAME))
        {
            reply.options.set(code::HOST_NAME, name.as_bytes());
        }
    }

    /// Boot options go out without being asked for: several ROMs need them and do not list them.
    fn add_boot(&self, reply: &mut Packet, boot: Option<&BootAnswer>) {
        let Some(boot) = boot.filter(|boot| !boot.file.is_empty() && boot.file.len() <= BOOT_FILE_BYTES_MAX) else {
            return;
        };
        let server = boot.server_address.unwrap_or(self.config.server_address);
        reply.siaddr = server;
        // ROMs in BIOS read the `file` field only; EDK2 and iPXE prefer option 67.
        if boot.file.len() <= FILE_BYTES_MAX {
            reply.file = boot.file.as_bytes().to_vec();
        }
        reply.options.set(code::BOOT_FILE, boot.file.as_bytes());
        if self.wants(code::TFTP_SERVER) && self.client.class != Class::Http {
            reply.options.set(code::TFTP_SERVER, server.to_string().into_bytes());
        }
        // RFC 4578 §2.3: the machine identifier goes back to a PXE client.
        self.echo(reply, code::MACHINE_UUID);
        let class = match (&boot.vendor_class, self.client.class) {
            (Some(class), _) => Some(class.as_str()),
            // iPXE says "PXEClient" but is done with PXE: with these words in the offer it would look
            // for boot servers.
            (None, Class::Pxe) => (!self.client.is_ipxe).then_some("PXEClient"),
            // UEFI 2.11 §24.7.3.1: offers that do not say "HTTPClient" are dropped by EDK2.
            (None, Class::Http) => Some("HTTPClient"),
            (None, Class::Other) => None,
        };
        if let Some(class) = class.filter(|class| class.len() <= BOOT_FILE_BYTES_MAX) {
            reply.options.set(code::VENDOR_CLASS, class.as_bytes());
            if class.starts_with("PXEClient") {
                reply.options.set(code::VENDOR_SPECIFIC, PXE_USE_BOOT_FILE);
            }
        }
        if self.client.is_ipxe && boot.ipxe_no_pxedhcp {
            reply.options.set(code::IPXE, IPXE_NO_PXEDHCP);
        }
    }
}
