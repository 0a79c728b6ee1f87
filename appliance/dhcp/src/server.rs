//! The DHCPv4 server: requests and the time go in, replies, lease changes and events come out.
//!
//! The caller, after every `handle_*`, drains [`DhcpEngine::poll_output`] until it yields nothing, and
//! calls [`DhcpEngine::handle_timeout`] at [`DhcpEngine::poll_timeout`] at the latest.
//!
//! **A lease is on disk before its ACK.** A granted REQUEST yields [`DhcpOutput::Commit`] only; the ACK
//! comes out after [`DhcpEngine::handle_committed`] said that the changes are durable. A failed commit
//! sends nothing: the client asks again, and until then the address stays set aside in memory, which
//! does no harm.
//!
//! **Authoritative.** No other server serves these networks (the driver looks before it starts), so a
//! client that holds an address which is not its own hears NAK at once, also one that we know nothing
//! of and that rebooted with an address from elsewhere; RFC 2131 §4.3.2 has servers stay silent there
//! for the sake of neighbours, and the client would wait for a minute. One that *renews* an unknown
//! lease keeps it if it is free and in the pool: its system is up and running on it.
//!
//! **Not probed.** RFC 2131 §2.2 suggests a ping before an offer. It costs each of a boot's offers
//! a second; declined addresses rest instead.
//!
//! It must not know sockets, files, resources or boot files.

mod output;
mod release_decline;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use firesteel_facts::Mac;
use jiff::{SignedDuration, Timestamp};

pub use output::{CommitId, DhcpEvent, DhcpEventKind, DhcpOutput, DropCounts, ServerDatagram};

use crate::classify::DhcpRequester;
use crate::config::{ConfigError, DhcpConfig, KNOWN_SHARE, Subnet};
use crate::hardware;
use crate::lease_book::{Lease, LeaseBook, LeaseChange, LeaseRefusal};
use crate::quarantine::QuarantinedAddress;
use crate::rate::Rates;
use crate::relay;
use crate::reply::{BOOT_FILE_BYTES_MAX, BootAnswer, Destination, DhcpRequestContext};
use crate::wire::{self, DhcpOperation, MessageType, Packet, code};

/// ACKs that wait for the disk. One batch of the lease database holds some hundred; beyond that the
/// disk does not keep up, and clients that ask again later are the best queue.
pub const COMMITS_MAX: usize = 1024;
/// The part of them that strangers may have waiting: the rest is for known hosts.
pub const COMMITS_STRANGERS_MAX: usize = COMMITS_MAX - COMMITS_MAX / KNOWN_SHARE as usize;
/// RFC 1542 §4.1.1: more hops are a loop of relays.
const HOPS_MAX: u8 = 16;
/// What a client that boots gets, if anything; must not block.
pub type BootAnswers<'a> = dyn Fn(&DhcpRequester) -> Option<BootAnswer> + 'a;

/// A datagram that came to port 67.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedDatagram<'a> {
    /// The index of the interface that it came in by; the reply goes out there and nowhere else.
    pub interface: u32,
    pub bytes: &'a [u8],
}

#[derive(Debug)]
struct PendingCommit {
    /// The ACK of a lease, and when the lease ends.
    granted: Option<(ServerDatagram, Timestamp)>,
    client: DhcpRequester,
    address: Ipv4Addr,
    is_stranger: bool,
}

/// The server of one interface.
#[derive(Debug)]
pub struct DhcpEngine {
    config: DhcpConfig,
    book: LeaseBook,
    rates: Rates,
    waiting: BTreeMap<CommitId, PendingCommit>,
    /// How many of these are of strangers.
    strangers_waiting: usize,
    last_commit: CommitId,
    outputs: VecDeque<DhcpOutput>,
    dropped: DropCounts,
}

impl DhcpEngine {
    /// Starts with the leases and rests that are on disk.
    pub fn new(
        config: DhcpConfig,
        leases: Vec<Lease>,
        rests: Vec<QuarantinedAddress>,
        now: Timestamp,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            book: LeaseBook::load(&config, leases, rests, now),
            config,
            rates: Rates::default(),
            waiting: BTreeMap::new(),
            strangers_waiting: 0,
            last_commit: CommitId(0),
            outputs: VecDeque::new(),
            dropped: DropCounts::default(),
        })
    }

    /// Changes what is served; leases that still fit go on.
    pub fn reconfigure(&mut self, config: DhcpConfig) -> Result<(), ConfigError> {
        config.check()?;
        self.book.reconfigure(&config);
        self.config = config;
        Ok(())
    }

    pub fn config(&self) -> &DhcpConfig {
        &self.config
    }

    /// All leases on record, also those that ended.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.book.leases()
    }

    pub fn dropped(&self) -> DropCounts {
        self.dropped
    }

    pub fn poll_output(&mut self) -> Option<DhcpOutput> {
        self.outputs.pop_front()
    }

    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.book.next_end()
    }

    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.book.expire(&self.config, now);
    }

    /// Answers one request, or not.
    pub fn handle_packet(&mut self, now: Timestamp, arrival: ReceivedDatagram<'_>, boot: &BootAnswers<'_>) {
        self.handle_timeout(now);
        let Some((request, kind)) = read_request(arrival.bytes) else {
            self.dropped.malformed += 1;
            self.outputs.extend(hardware::read(arrival.bytes).map(DhcpOutput::OtherHardware));
            return;
        };
        let Some(subnet) = self.subnet_for(&request).cloned() else {
            self.dropped.foreign += 1;
            return;
        };
        if !self.rates.allow(now, request.mac) {
            self.dropped.too_many += 1;
            return;
        }
        let needs_disk = matches!(kind, MessageType::Request | MessageType::Decline | MessageType::Release);
        if needs_disk && !self.has_room(request.mac) {
            self.dropped.busy += 1;
            return;
        }
        let client = DhcpRequester::of(&request);
        let server_id = relay::server_id(&request).unwrap_or(self.config.server_address);
        let talk = DhcpExchange { now, interface: arrival.interface, request, client, subnet, server_id };
        match kind {
            MessageType::Discover => self.discover(&talk, boot),
            MessageType::Request => self.request(&talk, boot),
            MessageType::Decline => self.decline(&talk),
            MessageType::Release => self.release(&talk),
            MessageType::Inform => self.inform(&talk, boot),
            // Said by servers only; the direction was checked, so this is nonsense.
            MessageType::Offer | MessageType::Ack | MessageType::Nak => self.dropped.malformed += 1,
        }
    }

    /// The changes are on disk, or could not be written.
    pub fn handle_committed(&mut self, id: CommitId, ok: bool) {
        let Some(PendingCommit { granted, client, address, is_stranger }) = self.waiting.remove(&id) else { return };
        self.strangers_waiting -= usize::from(is_stranger);
        if !ok {
            self.outputs
                .push_back(DhcpOutput::Event(DhcpEvent { client, what: DhcpEventKind::NotCommitted { address } }));
        } else if let Some((transmit, expires_at)) = granted {
            // Who acts on the lease knows of it before its client does, who may ask for a boot script at once.
            self.outputs
                .push_back(DhcpOutput::Event(DhcpEvent { client, what: DhcpEventKind::Acked { address, expires_at } }));
            self.outputs.push_back(DhcpOutput::Transmit(transmit));
        }
    }

    /// Whether another change for this machine may wait for the disk.
    fn has_room(&self, mac: Mac) -> bool {
        let is_open = self.config.is_known(mac) || self.strangers_waiting < COMMITS_STRANGERS_MAX;
        is_open && self.waiting.len() < COMMITS_MAX
    }

    /// The subnet that the client is in: by the relay's word (RFC 3527, RFC 2131 §4.3.1), by the
    /// address that it renews, or that of the interface.
    fn subnet_for(&self, request: &Packet) -> Option<&Subnet> {
        if !request.giaddr.is_unspecified() {
            let link = relay::link(request);
            return self.config.subnet_of(link.unwrap_or(request.giaddr));
        }
        // A host behind a relay renews without it, straight to our address.
        self.config.subnet_of(request.ciaddr).or(Some(&self.config.local))
    }

    fn discover(&mut self, talk: &DhcpExchange, boot: &BootAnswers<'_>) {
        let wish = talk.request.options.address(code::REQUESTED_ADDRESS);
        let Some(address) = self.book.choose(&self.config, &talk.subnet, talk.client.mac, wish, talk.now) else {
            self.push_event(talk, DhcpEventKind::Exhausted);
            return;
        };
        self.book.offer(&self.config, talk.client.mac, address, talk.now);
        let answer = self.boot_answer(talk, boot);
        let asked = talk.asked(&self.config);
        let reply = asked.grant(MessageType::Offer, address, answer.as_ref());
        let destination = asked.destination(address);
        if let Some(transmit) = talk.transmit(&self.config, reply, destination) {
            self.outputs.push_back(DhcpOutput::Transmit(transmit));
            self.push_event(talk, DhcpEventKind::Offered { address });
        }
        if answer.is_none() && talk.client.boots() {
            self.push_event(talk, DhcpEventKind::NothingToBoot);
        }
    }

    /// RFC 2131 §4.3.2: the four kinds of REQUEST differ in what they carry.
    fn request(&mut self, talk: &DhcpExchange, boot: &BootAnswers<'_>) {
        let options = &talk.request.options;
        let (server, wish) = (options.address(code::SERVER_ID), options.address(code::REQUESTED_ADDRESS));
        let renews = !talk.request.ciaddr.is_unspecified();
        match (server, wish) {
            (Some(server), _) if !self.is_addressed_to_us(talk, server) => {
                self.book.end_offer(&self.config, talk.client.mac);
                self.push_event(talk, DhcpEventKind::TookAnother { server });
            }
            (Some(_), Some(address)) => self.decide(talk, address, self.selecting(talk, address), boot),
            // Server identifier and `ciaddr`: old clients renew so.
            (_, _) if renews => {
                let address = talk.request.ciaddr;
                self.decide(talk, address, self.renewing(talk, address), boot);
            }
            (None, Some(address)) => self.decide(talk, address, self.rebooting(talk, address), boot),
            (_, None) => self.dropped.malformed += 1,
        }
    }

    /// The client took our offer. After a restart of ours the offer is forgotten: then any address
    /// that it may have will do.
    fn selecting(&self, talk: &DhcpExchange, address: Ipv4Addr) -> Result<(), LeaseRefusal> {
        let mac = talk.client.mac;
        if self.book.offer_of(mac).is_some_and(|offered| offered != address) {
            return Err(LeaseRefusal::HasAnother);
        }
        self.book.may_have(&self.config, &talk.subnet, mac, address, talk.now)
    }

    /// INIT-REBOOT: the client remembers an address and asks whether it still holds.
    fn rebooting(&self, talk: &DhcpExchange, address: Ipv4Addr) -> Result<(), LeaseRefusal> {
        let mac = talk.client.mac;
        self.book.may_have(&self.config, &talk.subnet, mac, address, talk.now)?;
        match self.book.lease(mac) {
            Some(lease) if lease.address == address => Ok(()),
            Some(_) => Err(LeaseRefusal::HasAnother),
            None => Err(LeaseRefusal::UnknownClient),
        }
    }

    /// RENEWING and REBINDING.
    fn renewing(&self, talk: &DhcpExchange, address: Ipv4Addr) -> Result<(), LeaseRefusal> {
        let mac = talk.client.mac;
        if self.book.lease(mac).is_some_and(|lease| lease.address != address && lease.expires_at > talk.now) {
            return Err(LeaseRefusal::HasAnother);
        }
        self.book.may_have(&self.config, &talk.subnet, mac, address, talk.now)
    }

    fn decide(
        &mut self,
        talk: &DhcpExchange,
        address: Ipv4Addr,
        verdict: Result<(), LeaseRefusal>,
        boot: &BootAnswers<'_>,
    ) {
        match verdict {
            Ok(()) => self.grant(talk, address, boot),
            Err(reason) => self.refuse(talk, address, reason),
        }
    }

    fn grant(&mut self, talk: &DhcpExchange, address: Ipv4Addr, boot: &BootAnswers<'_>) {
        let answer = self.boot_answer(talk, boot);
        let asked = talk.asked(&self.config);
        let reply = asked.grant(MessageType::Ack, address, answer.as_ref());
        let destination = asked.destination(address);
        let Some(transmit) = talk.transmit(&self.config, reply, destination) else { return };
        let lease_time = SignedDuration::try_from(self.config.lease_time).unwrap_or(SignedDuration::MAX);
        // The ROM and the loader have no name: keep the system's.
        let known = self.book.lease(talk.client.mac).and_then(|lease| lease.hostname.clone());
        let lease = Lease {
            mac: talk.client.mac,
            address,
            expires_at: talk.now.checked_add(lease_time).unwrap_or(Timestamp::MAX),
            hostname: talk.client.hostname.clone().or(known),
        };
        let granted = (transmit, lease.expires_at);
        let changes = self.book.bind(&self.config, lease);
        self.commit(talk, address, Some(granted), changes);
    }

    fn refuse(&mut self, talk: &DhcpExchange, address: Ipv4Addr, reason: LeaseRefusal) {
        let asked = talk.asked(&self.config);
        let (reply, destination) = (asked.nak(reason.text()), asked.nak_destination());
        if let Some(transmit) = talk.transmit(&self.config, reply, destination) {
            self.outputs.push_back(DhcpOutput::Transmit(transmit));
            self.push_event(talk, DhcpEventKind::Refused { address, reason });
        }
    }

    fn inform(&mut self, talk: &DhcpExchange, boot: &BootAnswers<'_>) {
        let address = talk.request.ciaddr;
        // Answers go to a host of ours only: `ciaddr` is the sender's word.
        if !talk.subnet.network.is_host(address) {
            self.dropped.foreign += 1;
            return;
        }
        let answer = self.boot_answer(talk, boot);
        let asked = talk.asked(&self.config);
        // RFC 2131 §4.3.5: straight to `ciaddr`, except where a relay stands between.
        let (reply, destination) = (asked.inform(address, answer.as_ref()), asked.destination(address));
        if let Some(transmit) = talk.transmit(&self.config, reply, destination) {
            self.outputs.push_back(DhcpOutput::Transmit(transmit));
            self.push_event(talk, DhcpEventKind::Informed { address });
        }
    }

    fn is_for_us(&self, talk: &DhcpExchange) -> bool {
        let server = talk.request.options.address(code::SERVER_ID);
        server.is_none_or(|server| self.is_addressed_to_us(talk, server))
    }

    /// Whether a server identifier means this server: our address, or what the relay has us say instead.
    fn is_addressed_to_us(&self, talk: &DhcpExchange, server: Ipv4Addr) -> bool {
        server == self.config.server_address || server == talk.server_id
    }

    fn boot_answer(&mut self, talk: &DhcpExchange, boot: &BootAnswers<'_>) -> Option<BootAnswer> {
        let answer = talk.client.boots().then(|| boot(&talk.client)).flatten()?;
        if answer.file.len() > BOOT_FILE_BYTES_MAX {
            self.push_event(talk, DhcpEventKind::BootFileTooLong { bytes: answer.file.len() });
            return None;
        }
        Some(answer)
    }

    fn commit(
        &mut self,
        talk: &DhcpExchange,
        address: Ipv4Addr,
        granted: Option<(ServerDatagram, Timestamp)>,
        changes: Vec<LeaseChange>,
    ) {
        self.last_commit = CommitId(self.last_commit.0 + 1);
        let client = talk.client.clone();
        let is_stranger = !self.config.is_known(client.mac);
        self.strangers_waiting += usize::from(is_stranger);
        self.waiting.insert(self.last_commit, PendingCommit { granted, client, address, is_stranger });
        self.outputs.push_back(DhcpOutput::Commit { id: self.last_commit, changes });
    }

    fn push_event(&mut self, talk: &DhcpExchange, what: DhcpEventKind) {
        self.outputs.push_back(DhcpOutput::Event(DhcpEvent { client: talk.client.clone(), what }));
    }
}

/// One request in hand.
struct DhcpExchange {
    now: Timestamp,
    interface: u32,
    request: Packet,
    client: DhcpRequester,
    subnet: Subnet,
    /// The server identifier of the reply.
    server_id: Ipv4Addr,
}

impl DhcpExchange {
    fn asked<'a>(&'a self, config: &'a DhcpConfig) -> DhcpRequestContext<'a> {
        let Self { request, client, subnet, server_id, .. } = self;
        DhcpRequestContext { request, client, config, subnet, server_id: *server_id }
    }

    fn transmit(&self, config: &DhcpConfig, reply: Packet, destination: Destination) -> Option<ServerDatagram> {
        let bytes = self.asked(config).encode(reply).ok()?;
        Some(ServerDatagram { interface: self.interface, destination, bytes })
    }
}

fn read_request(bytes: &[u8]) -> Option<(Packet, MessageType)> {
    let request = wire::decode(bytes).ok()?;
    let kind = request.options.message_type()?;
    (request.operation == DhcpOperation::Request && request.hops <= HOPS_MAX).then_some((request, kind))
}
