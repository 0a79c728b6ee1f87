//! A DHCPv4 client as a state machine: packets and the time go in, packets and a lease come out.
//!
//! ```text
//!            offer            ack              T1               T2             expiry
//! Selecting ──────► Requesting ──────► Bound ──────► Renewing ──────► Rebinding ──────► Selecting
//!     ▲                 │ nak, no answer ▲              │ ack            │ ack
//!     └─────────────────┘                └──────────────┴────────────────┘   (a nak: Selecting)
//! ```
//!
//! It must not know sockets or interfaces. The caller, after every `handle_*`, sends what
//! [`DhcpClient::poll_transmit`] yields until it yields nothing, waits until [`DhcpClient::poll_timeout`]
//! at most, and puts [`DhcpClient::lease`] onto the interface whenever it changed.
//! Time is `Instant`: leases run on although the wall clock gets set meanwhile.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use firesteel_facts::Mac;

use crate::wire::{self, DhcpOperation, MessageType, Packet, code};

/// The wait before the first repetition. RFC 2131 §4.1 suggests 4 s on 10 Mbit/s Ethernet; the
/// usual loss at boot is a switch port that does not forward yet, and there asking again is free.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// RFC 2131 §4.1: the delay doubles up to 64 s.
const RETRY_LONGEST: Duration = Duration::from_secs(64);
/// REQUESTs without an answer after which the offer is stale (RFC 2131 §3.1, 4: about 60 s).
const REQUESTS_MAX: u32 = 5;
/// RFC 2131 §4.4.5: while renewing, ask again after half of the remaining time, but not sooner.
const RENEW_RETRY_SHORTEST: Duration = Duration::from_secs(60);
/// RFC 2131 §3.3: all ones means "infinity"; a year is longer than any boot of the agent.
const LEASE_LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// A server that grants less would have us renew all the time.
const LEASE_SHORTEST: Duration = Duration::from_secs(10);
/// The longest host name that a DNS label allows.
const HOSTNAME_BYTES_MAX: usize = 63;
/// What we take: an Ethernet frame's worth.
const MESSAGE_BYTES_MAX: u16 = 1500;

/// What the server granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedAddress {
    pub address: Ipv4Addr,
    pub prefix_length: u8,
    pub router: Option<Ipv4Addr>,
    pub dns: Vec<Ipv4Addr>,
    pub ntp: Vec<Ipv4Addr>,
    pub domain: Option<String>,
    /// The name that the server has for this host.
    pub hostname: Option<String>,
    pub server: Ipv4Addr,
    pub lease_time: Duration,
}

/// A message to send from port 68 to port 67.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDatagram {
    /// 0.0.0.0, with 255.255.255.255 as the destination, unless the lease exists and is renewed with its server.
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone)]
enum DhcpClientState {
    Selecting { retry: Retry },
    Requesting { offer: ServerOffer, retry: Retry },
    Bound { grant: ClientLease },
    Renewing { grant: ClientLease, retry_at: Instant },
    Rebinding { grant: ClientLease, retry_at: Instant },
}

#[derive(Debug, Clone, Copy)]
struct ServerOffer {
    address: Ipv4Addr,
    server: Ipv4Addr,
}

/// A lease with its three moments (RFC 2131 §4.4.5).
#[derive(Debug, Clone)]
struct ClientLease {
    bound: GrantedAddress,
    renew_at: Instant,
    rebind_at: Instant,
    expires_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    sent: u32,
}

/// One interface's client.
#[derive(Debug)]
pub struct DhcpClient {
    mac: Mac,
    hostname: Option<String>,
    random: TransactionIdSource,
    xid: u32,
    /// When the current exchange began, for `secs` (relays and servers rank by it) and for the
    /// lease, which counts from the REQUEST and not from its answer.
    began_at: Instant,
    requested_at: Instant,
    state: DhcpClientState,
    outbox: Option<ClientDatagram>,
}

impl DhcpClient {
    /// Starts in INIT; the first DISCOVER is due at once. `xid_seed` should differ between boots.
    pub fn new(mac: Mac, xid_seed: u64, hostname: Option<&str>, now: Instant) -> Self {
        let mut random = TransactionIdSource(
            xid_seed ^ u64::from_be_bytes([0x5e, 0xed, mac.0[0], mac.0[1], mac.0[2], mac.0[3], mac.0[4], mac.0[5]]),
        );
        let xid = random.next();
        let mut client = Self {
            mac,
            hostname: hostname.filter(|name| !name.is_empty() && name.len() <= HOSTNAME_BYTES_MAX).map(str::to_owned),
            random,
            xid,
            began_at: now,
            requested_at: now,
            state: DhcpClientState::Selecting { retry: Retry { at: now, sent: 0 } },
            outbox: None,
        };
        client.handle_timeout(now);
        client
    }

    /// The lease in force.
    pub fn lease(&self) -> Option<&GrantedAddress> {
        match &self.state {
            DhcpClientState::Selecting { .. } | DhcpClientState::Requesting { .. } => None,
            DhcpClientState::Bound { grant }
            | DhcpClientState::Renewing { grant, .. }
            | DhcpClientState::Rebinding { grant, .. } => Some(&grant.bound),
        }
    }

    /// The message to send now, if any.
    pub fn poll_transmit(&mut self) -> Option<ClientDatagram> {
        self.outbox.take()
    }

    /// When to call [`DhcpClient::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Instant {
        match &self.state {
            DhcpClientState::Selecting { retry } | DhcpClientState::Requesting { retry, .. } => retry.at,
            DhcpClientState::Bound { grant } => grant.renew_at,
            DhcpClientState::Renewing { grant, retry_at } => (*retry_at).min(grant.rebind_at),
            DhcpClientState::Rebinding { grant, retry_at } => (*retry_at).min(grant.expires_at),
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now < self.poll_timeout() {
            return;
        }
        match self.state.clone() {
            DhcpClientState::Selecting { retry } => self.discover(now, retry.sent),
            DhcpClientState::Requesting { retry, .. } if retry.sent >= REQUESTS_MAX => self.restart(now),
            DhcpClientState::Requesting { offer, retry } => self.request(now, offer, retry.sent),
            DhcpClientState::Bound { grant }
            | DhcpClientState::Renewing { grant, .. }
            | DhcpClientState::Rebinding { grant, .. } => {
                self.extend(now, grant);
            }
        }
    }

    /// Takes a datagram that came to port 68; whatever is no answer to our question is ignored.
    pub fn handle_packet(&mut self, now: Instant, bytes: &[u8]) {
        let Ok(packet) = wire::decode(bytes) else { return };
        if packet.operation != DhcpOperation::Reply || packet.xid != self.xid || packet.mac != self.mac {
            return;
        }
        let Some(kind) = packet.options.message_type() else { return };
        match (kind, &self.state) {
            (MessageType::Offer, DhcpClientState::Selecting { .. }) => {
                let Some(server) = packet.options.address(code::SERVER_ID) else { return };
                if is_usable(packet.yiaddr) {
                    self.request(now, ServerOffer { address: packet.yiaddr, server }, 0);
                }
            }
            (MessageType::Ack, DhcpClientState::Requesting { offer, .. }) if offer.address == packet.yiaddr => {
                self.bind(now, &packet, offer.server);
            }
            (MessageType::Ack, DhcpClientState::Renewing { grant, .. } | DhcpClientState::Rebinding { grant, .. })
                if grant.bound.address == packet.yiaddr =>
            {
                self.bind(now, &packet, grant.bound.server);
            }
            // Only the server that we asked may refuse; another one's NAK is not about us.
            (MessageType::Nak, DhcpClientState::Requesting { offer, .. })
                if packet.options.address(code::SERVER_ID).is_none_or(|server| server == offer.server) =>
            {
                self.refused(now);
            }
            (MessageType::Nak, DhcpClientState::Renewing { .. } | DhcpClientState::Rebinding { .. }) => {
                self.refused(now)
            }
            _ => {}
        }
    }

    fn restart(&mut self, now: Instant) {
        self.xid = self.random.next();
        self.began_at = now;
        self.discover(now, 0);
    }

    /// Starts over after a pause, so that a server that refuses everything is not asked in a loop.
    fn refused(&mut self, now: Instant) {
        self.xid = self.random.next();
        self.began_at = now;
        self.state = DhcpClientState::Selecting { retry: Retry { at: now + RETRY_FIRST, sent: 0 } };
    }

    fn discover(&mut self, now: Instant, sent: u32) {
        let packet = self.message(now, MessageType::Discover);
        self.send(&packet, None);
        self.state = DhcpClientState::Selecting { retry: self.retry(now, sent) };
    }

    fn request(&mut self, now: Instant, offer: ServerOffer, sent: u32) {
        if sent == 0 {
            self.requested_at = now;
        }
        let mut packet = self.message(now, MessageType::Request);
        packet.options.set(code::REQUESTED_ADDRESS, offer.address.octets());
        packet.options.set(code::SERVER_ID, offer.server.octets());
        self.send(&packet, None);
        self.state = DhcpClientState::Requesting { offer, retry: self.retry(now, sent) };
    }

    /// T1 and T2 passed or a repetition is due: ask the server, then anyone, then start over.
    fn extend(&mut self, now: Instant, grant: ClientLease) {
        if now >= grant.expires_at {
            self.restart(now);
            return;
        }
        if matches!(self.state, DhcpClientState::Bound { .. }) {
            self.xid = self.random.next();
            self.began_at = now;
        }
        self.requested_at = now;
        let mut packet = self.message(now, MessageType::Request);
        packet.ciaddr = grant.bound.address;
        // RFC 2131 §4.3.2: neither server identifier nor requested address here. The answer comes
        // to the address that we hold, so the broadcast flag would be wrong, too.
        packet.broadcast = false;
        if now >= grant.rebind_at {
            self.send(&packet, Some((grant.bound.address, Ipv4Addr::BROADCAST)));
            let retry_at = now + ((grant.expires_at - now) / 2).max(RENEW_RETRY_SHORTEST);
            self.state = DhcpClientState::Rebinding { grant, retry_at };
        } else {
            self.send(&packet, Some((grant.bound.address, grant.bound.server)));
            let retry_at = now + ((grant.rebind_at - now) / 2).max(RENEW_RETRY_SHORTEST);
            self.state = DhcpClientState::Renewing { grant, retry_at };
        }
    }

    fn bind(&mut self, now: Instant, packet: &Packet, asked: Ipv4Addr) {
        let Some(grant) = self.grant(packet, asked) else { return };
        if grant.expires_at > now {
            self.state = DhcpClientState::Bound { grant };
        }
    }

    fn grant(&self, packet: &Packet, asked: Ipv4Addr) -> Option<ClientLease> {
        let options = &packet.options;
        if !is_usable(packet.yiaddr) {
            return None;
        }
        let seconds = options.number(code::LEASE_TIME)?;
        let lease_time = Duration::from_secs(seconds.into()).clamp(LEASE_SHORTEST, LEASE_LONGEST);
        let span = |code, otherwise: Duration| {
            options.number(code).map(|seconds| Duration::from_secs(seconds.into())).unwrap_or(otherwise)
        };
        let rebind = span(code::REBINDING_TIME, lease_time * 7 / 8).min(lease_time);
        let renew = span(code::RENEWAL_TIME, lease_time / 2).min(rebind);
        let bound = GrantedAddress {
            address: packet.yiaddr,
            prefix_length: prefix_length(options.address(code::SUBNET_MASK), packet.yiaddr)?,
            router: options.addresses(code::ROUTER).first().copied(),
            dns: options.addresses(code::DNS),
            ntp: options.addresses(code::NTP),
            domain: options.text(code::DOMAIN_NAME),
            hostname: options.text(code::HOST_NAME),
            server: options.address(code::SERVER_ID).unwrap_or(asked),
            lease_time,
        };
        let from = self.requested_at;
        Some(ClientLease { bound, renew_at: from + renew, rebind_at: from + rebind, expires_at: from + lease_time })
    }

    fn message(&self, now: Instant, kind: MessageType) -> Packet {
        let mut packet = Packet::new(DhcpOperation::Request, self.xid, self.mac);
        packet.secs = u16::try_from((now - self.began_at).as_secs()).unwrap_or(u16::MAX);
        // Before an address is set the kernel delivers broadcasts only.
        packet.broadcast = true;
        packet.options.set_message_type(kind);
        packet.options.set(code::MAX_SIZE, MESSAGE_BYTES_MAX.to_be_bytes());
        packet.options.set(
            code::PARAMETER_LIST,
            [
                code::SUBNET_MASK,
                code::ROUTER,
                code::DNS,
                code::HOST_NAME,
                code::DOMAIN_NAME,
                code::NTP,
                code::RENEWAL_TIME,
                code::REBINDING_TIME,
            ],
        );
        if let Some(name) = &self.hostname {
            packet.options.set(code::HOST_NAME, name.as_bytes());
        }
        packet
    }

    fn send(&mut self, packet: &Packet, between: Option<(Ipv4Addr, Ipv4Addr)>) {
        let (source, destination) = between.unwrap_or((Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
        if let Ok(bytes) = wire::encode(packet) {
            self.outbox = Some(ClientDatagram { source, destination, bytes });
        }
    }

    /// The wait doubles; an eighth of chance keeps a rack that got power at once from asking in step.
    fn retry(&mut self, now: Instant, sent: u32) -> Retry {
        let wait = (RETRY_FIRST * 2u32.saturating_pow(sent.min(16))).min(RETRY_LONGEST);
        let jitter = wait / 8 * (self.random.next() % 256) / 256;
        Retry { at: now + wait + jitter, sent: sent.saturating_add(1) }
    }
}

fn is_usable(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast() || address.is_loopback())
}

/// The mask as a prefix length; the class of the address where the server sent none (RFC 950).
fn prefix_length(mask: Option<Ipv4Addr>, address: Ipv4Addr) -> Option<u8> {
    let Some(mask) = mask.map(u32::from) else {
        return Some(match address.octets()[0] {
            0..=127 => 8,
            128..=191 => 16,
            192..=255 => 24,
        });
    };
    let ones = mask.leading_ones();
    (mask.count_ones() == ones && ones > 0).then(|| u8::try_from(ones).ok()).flatten()
}

/// splitmix64: transaction ids that differ between boots, not secrets.
#[derive(Debug)]
struct TransactionIdSource(u64);

impl TransactionIdSource {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [a, b, c, d, ..] = (mixed ^ (mixed >> 31)).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_ids_are_the_high_halves_of_splitmix64() {
        for (seed, wanted) in [
            (0, [0xe220_a839, 0x6e78_9e6a, 0x06c4_5d18, 0xf88b_b8a8]),
            (1, [0x910a_2dec, 0xbeeb_8da1, 0xf893_a2ee, 0x71c1_8690]),
        ] {
            let mut source = TransactionIdSource(seed);
            assert_eq!(wanted.map(|_| source.next()), wanted);
        }
    }
}
