//! A server on a fake clock with a disk that can fail, and requests that read like a trace.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, code};
use firesteel_dhcp::{
    BootAnswer, CommitId, DeclineOutcome, Destination, DhcpConfig, DhcpEngine, DhcpEventKind, DhcpOutput,
    DhcpRequester, Ipv4Network, Lease, LeaseChange, OtherHardware, Pool, QuarantinedAddress, ReceivedDatagram, Subnet,
};
use firesteel_facts::Mac;
use jiff::{SignedDuration, Timestamp};

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const INTERFACE: u32 = 7;

pub(crate) fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, last)
}

pub(crate) fn mac(number: u8) -> Mac {
    Mac([0x52, 0x54, 0, 0, 0, number])
}

/// 10.77.0.0/24 with a pool of .10 to .19, ten minutes per lease.
pub(crate) fn config() -> DhcpConfig {
    DhcpConfig {
        server_address: SERVER,
        local: Subnet {
            network: Ipv4Network::of(SERVER, 24),
            pool: Some(Pool { first: ip(10), last: ip(19) }),
            router: Some(ip(254)),
        },
        relayed: Vec::new(),
        dns: vec![ip(2)],
        ntp: vec![ip(3)],
        domain: Some("lab.example".into()),
        lease_time: Duration::from_secs(600),
        reservations: BTreeMap::new(),
        known: None,
    }
}

/// The same, and these are the hosts that people know.
pub(crate) fn config_with_hosts(numbers: impl IntoIterator<Item = u8>) -> DhcpConfig {
    DhcpConfig { known: Some(numbers.into_iter().map(mac).collect()), ..config() }
}

/// What is on disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    pub(crate) leases: BTreeMap<Mac, Lease>,
    pub(crate) rests: BTreeMap<Ipv4Addr, Timestamp>,
}

impl Disk {
    fn write(&mut self, changes: &[LeaseChange]) {
        for change in changes {
            match change.clone() {
                LeaseChange::Keep(lease) => {
                    self.leases.retain(|_, other| other.address != lease.address);
                    self.rests.remove(&lease.address);
                    self.leases.insert(lease.mac, lease);
                }
                LeaseChange::Forget(mac) => {
                    self.leases.remove(&mac);
                }
                LeaseChange::Rest(QuarantinedAddress { address, until }) => {
                    self.rests.insert(address, until);
                }
            }
        }
    }
}

/// One reply, decoded.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) to: Destination,
    pub(crate) packet: Packet,
    pub(crate) bytes: usize,
}

impl Reply {
    pub(crate) fn kind(&self) -> MessageType {
        self.packet.options.message_type().unwrap()
    }

    pub(crate) fn get(&self, code: u8) -> Option<&[u8]> {
        self.packet.options.get(code)
    }
}

pub(crate) struct Lab {
    pub(crate) engine: DhcpEngine,
    pub(crate) now: Timestamp,
    pub(crate) disk: Disk,
    /// `false`: every write fails.
    pub(crate) disk_works: bool,
    /// `true`: commits wait in `pending` until the test answers them.
    pub(crate) disk_waits: bool,
    pub(crate) pending: Vec<(CommitId, Vec<LeaseChange>)>,
    pub(crate) boot: fn(&DhcpRequester) -> Option<BootAnswer>,
    pub(crate) events: Vec<DhcpEventKind>,
    pub(crate) other_hardware: Vec<OtherHardware>,
}

impl Lab {
    pub(crate) fn new(config: DhcpConfig) -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        Self {
            engine: DhcpEngine::new(config, Vec::new(), Vec::new(), now).unwrap(),
            now,
            disk: Disk::default(),
            disk_works: true,
            disk_waits: false,
            pending: Vec::new(),
            boot: |_| None,
            events: Vec::new(),
            other_hardware: Vec::new(),
        }
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.engine.handle_timeout(self.now);
    }

    /// The process dies; another starts with what is on disk.
    pub(crate) fn restart(&mut self) {
        let rests =
            self.disk.rests.iter().map(|(address, until)| QuarantinedAddress { address: *address, until: *until });
        let leases = self.disk.leases.values().cloned().collect();
        self.engine = DhcpEngine::new(self.engine.config().clone(), leases, rests.collect(), self.now).unwrap();
        self.pending.clear();
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Vec<Reply> {
        self.engine.handle_packet(self.now, ReceivedDatagram { interface: INTERFACE, bytes }, &self.boot);
        self.drain()
    }

    pub(crate) fn drain(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            match output {
                DhcpOutput::Transmit(transmit) => {
                    assert_eq!(transmit.interface, INTERFACE, "replies leave by the interface of arrival");
                    assert!(transmit.bytes.len() >= 300, "replies are padded");
                    let packet = wire::decode(&transmit.bytes).unwrap();
                    replies.push(Reply { to: transmit.destination, packet, bytes: transmit.bytes.len() });
                }
                DhcpOutput::Commit { id, changes } if self.disk_waits => self.pending.push((id, changes)),
                DhcpOutput::Commit { id, changes } => {
                    if self.disk_works {
                        self.disk.write(&changes);
                    }
                    self.engine.handle_committed(id, self.disk_works);
                }
                DhcpOutput::Event(event) => self.events.push(event.what),
                DhcpOutput::OtherHardware(client) => self.other_hardware.push(client),
            }
        }
        replies
    }

    /// Sends it and takes the only reply.
    pub(crate) fn ask(&mut self, packet: &Packet) -> Reply {
        let mut replies = self.hear(&wire::encode(packet).unwrap());
        assert_eq!(replies.len(), 1, "one reply to {packet:?}, events {:?}", self.events);
        replies.remove(0)
    }

    /// Sends it and expects silence.
    pub(crate) fn ignored(&mut self, packet: &Packet) {
        let replies = self.hear(&wire::encode(packet).unwrap());
        assert!(replies.is_empty(), "{replies:?}");
    }

    /// DISCOVER, OFFER, REQUEST, ACK.
    pub(crate) fn obtain(&mut self, number: u8) -> Ipv4Addr {
        self.obtain_for(mac(number))
    }

    /// The same for any MAC.
    pub(crate) fn obtain_for(&mut self, mac: Mac) -> Ipv4Addr {
        let offer = self.ask(&Packet { mac, ..discover(0) });
        assert_eq!(offer.kind(), MessageType::Offer);
        let ack = self.ask(&Packet { mac, ..selecting(0, offer.packet.yiaddr) });
        assert_eq!(ack.kind(), MessageType::Ack);
        assert_eq!(ack.packet.yiaddr, offer.packet.yiaddr);
        ack.packet.yiaddr
    }

    /// Declines an address, to which there is no answer; what became of it.
    pub(crate) fn decline(&mut self, mac: Mac, address: Ipv4Addr) -> DeclineOutcome {
        self.ignored(&Packet { mac, ..decline(0, address) });
        let Some(DhcpEventKind::Declined { address: declined, outcome }) = self.events.last() else {
            panic!("{address} was not declined: {:?}", self.events);
        };
        assert_eq!(*declined, address);
        *outcome
    }
}

pub(crate) fn message(number: u8, kind: MessageType) -> Packet {
    let mut packet = Packet::new(DhcpOperation::Request, 0x1000 + u32::from(number), mac(number));
    packet.options.set_message_type(kind);
    packet
}

pub(crate) fn discover(number: u8) -> Packet {
    message(number, MessageType::Discover)
}

/// REQUEST in SELECTING.
pub(crate) fn selecting(number: u8, address: Ipv4Addr) -> Packet {
    let mut packet = rebooting(number, address);
    packet.options.set(code::SERVER_ID, SERVER.octets());
    packet
}

/// REQUEST in INIT-REBOOT.
pub(crate) fn rebooting(number: u8, address: Ipv4Addr) -> Packet {
    let mut packet = message(number, MessageType::Request);
    packet.options.set(code::REQUESTED_ADDRESS, address.octets());
    packet
}

/// REQUEST in RENEWING and REBINDING.
pub(crate) fn renewing(number: u8, address: Ipv4Addr) -> Packet {
    let mut packet = message(number, MessageType::Request);
    packet.ciaddr = address;
    packet
}

pub(crate) fn release(number: u8, address: Ipv4Addr) -> Packet {
    let mut packet = message(number, MessageType::Release);
    packet.ciaddr = address;
    packet.options.set(code::SERVER_ID, SERVER.octets());
    packet
}

pub(crate) fn decline(number: u8, address: Ipv4Addr) -> Packet {
    let mut packet = message(number, MessageType::Decline);
    packet.options.set(code::REQUESTED_ADDRESS, address.octets());
    packet.options.set(code::SERVER_ID, SERVER.octets());
    packet
}
