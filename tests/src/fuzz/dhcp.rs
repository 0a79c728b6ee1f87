//! DHCP: messages as bytes, the server on a fake clock, the agent's client, the probe for rogues.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, code};
use firesteel_dhcp::{
    BootAnswer, DhcpConfig, DhcpEngine, DhcpOutput, Ipv4Network, LEASES_MAX, Pool, ReceivedDatagram, Subnet, client,
    probe,
};
use firesteel_facts::Mac;
use jiff::{SignedDuration, Timestamp};

use super::{joined, messages};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const INTERFACE: u32 = 7;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
const LAST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 13);
const RELAYED_FIRST: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 10);
const RELAYED_LAST: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 11);
/// A DHCP reply is one datagram without fragments.
const REPLY_BYTES_MAX: usize = 1500;
const MAC: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);

/// A small pool, so that a handful of messages exhausts it.
fn config() -> DhcpConfig {
    let subnet = |server: Ipv4Addr, first, last| Subnet {
        network: Ipv4Network::of(server, 24),
        pool: Some(Pool { first, last }),
        router: None,
    };
    DhcpConfig {
        server_address: SERVER,
        local: subnet(SERVER, FIRST, LAST),
        relayed: vec![subnet(Ipv4Addr::new(10, 88, 0, 1), RELAYED_FIRST, RELAYED_LAST)],
        dns: vec![SERVER],
        ntp: Vec::new(),
        domain: Some("lab.example".into()),
        lease_time: Duration::from_secs(600),
        reservations: BTreeMap::new(),
        known: None,
    }
}

pub(super) fn check(input: &[u8]) {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let mut engine = DhcpEngine::new(config(), Vec::new(), Vec::new(), now).unwrap();
    for (index, message) in (0_i64..).zip(messages(input)) {
        read(message);
        // Between messages time passes, so that offers and leases run out on the way.
        let later = now + SignedDuration::from_secs(index * 45);
        hear(&mut engine, later, message);
    }
    answer(input);
}

/// One message alone: what was read is written and read again.
fn read(bytes: &[u8]) {
    wire::check(bytes);
    firesteel_net::check_packet(bytes);
    if let Ok(packet) = wire::decode(bytes) {
        for code in 0..=u8::MAX {
            if let Some(text) = packet.options.text(code) {
                super::assert_plain(&text);
            }
        }
        if let Ok(again) = wire::encode(&packet).and_then(|bytes| wire::decode(&bytes)) {
            assert_eq!((again.mac, again.xid, again.giaddr), (packet.mac, packet.xid, packet.giaddr));
        }
    }
    let _other = probe::read_offer(bytes, MAC, 5);
}

fn hear(engine: &mut DhcpEngine, now: Timestamp, bytes: &[u8]) {
    let asked = wire::decode(bytes);
    engine.handle_packet(now, ReceivedDatagram { interface: INTERFACE, bytes }, &|client| {
        client.boots().then(|| BootAnswer { file: "http://10.77.0.1/boot.ipxe".into(), ..BootAnswer::default() })
    });
    let (mut sent, mut outputs) = (0, 0);
    while let Some(output) = engine.poll_output() {
        outputs += 1;
        assert!(outputs < 64, "one message causes few outputs");
        match output {
            DhcpOutput::Commit { id, changes } => engine.handle_committed(id, changes.len() % 3 != 2),
            DhcpOutput::Transmit(reply) => {
                sent += 1;
                let asked = asked.as_ref().unwrap();
                assert_eq!(reply.interface, INTERFACE);
                assert!((300..=REPLY_BYTES_MAX).contains(&reply.bytes.len()), "{} bytes", reply.bytes.len());
                let packet = wire::decode(&reply.bytes).unwrap();
                assert_eq!((packet.operation, packet.xid, packet.mac), (DhcpOperation::Reply, asked.xid, asked.mac));
                let kind = packet.options.message_type().unwrap();
                let given = packet.yiaddr;
                let in_pool = (FIRST..=LAST).contains(&given) || (RELAYED_FIRST..=RELAYED_LAST).contains(&given);
                if kind == MessageType::Offer {
                    assert!(in_pool, "{given} offered");
                } else if kind == MessageType::Ack {
                    assert!(in_pool || given.is_unspecified(), "{given} given");
                } else {
                    assert_eq!((kind, given), (MessageType::Nak, Ipv4Addr::UNSPECIFIED));
                }
            }
            DhcpOutput::OtherHardware(client) => assert!(client.identifier.len() <= 32, "{client:?}"),
            DhcpOutput::Event(event) => {
                for text in [event.client.vendor_class.as_deref(), event.client.hostname.as_deref()] {
                    super::assert_plain(text.unwrap_or_default());
                }
            }
        }
    }
    assert!(sent <= 1, "one message, one reply at most");
    let leases: Vec<_> = engine.leases().collect();
    assert!(leases.len() <= LEASES_MAX.min(6), "the pools have six addresses");
    for lease in &leases {
        assert_eq!(leases.iter().filter(|other| other.address == lease.address).count(), 1, "two hosts, one lease");
    }
}

/// The whole input as the answers that the agent's client gets: it asks on, whatever comes.
fn answer(input: &[u8]) {
    let mut now = Instant::now();
    let mut client = client::DhcpClient::new(MAC, 5, Some("n"), now);
    for message in messages(input) {
        let Some(sent) = client.poll_transmit() else {
            now = client.poll_timeout().max(now);
            client.handle_timeout(now);
            continue;
        };
        let asked = wire::decode(&sent.bytes).unwrap();
        // What is for another transaction is not looked at, so the fuzzer need not guess.
        let mut reply = message.to_vec();
        if reply.len() >= 34 {
            reply[4..8].copy_from_slice(&asked.xid.to_be_bytes());
            reply[28..34].copy_from_slice(&asked.mac.0);
        }
        client.handle_packet(now, &reply);
        if let Some(lease) = client.lease() {
            assert!(!lease.address.is_unspecified() && !lease.address.is_broadcast() && !lease.address.is_multicast());
        }
        assert!(client.poll_timeout() <= now + Duration::from_secs(366 * 24 * 3600));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let message = |number: u8, kind: MessageType| {
        let mut packet = Packet::new(DhcpOperation::Request, u32::from(number), Mac([0x52, 0x54, 0, 0, 0, number]));
        packet.options.set_message_type(kind);
        packet
    };
    let mut pxe = message(1, MessageType::Discover);
    pxe.options.set(code::VENDOR_CLASS, "PXEClient:Arch:00007:UNDI:003016");
    pxe.options.set(code::ARCHITECTURE, [0, 7]);
    pxe.options.set(code::UNDI_VERSION, [1, 3, 16]);
    pxe.options.set(code::MACHINE_UUID, [0; 17]);
    pxe.options.set(code::PARAMETER_LIST, [1, 3, 6, 12, 15, 43, 60, 66, 67]);
    let mut ipxe = pxe.clone();
    ipxe.options.set(code::USER_CLASS, "iPXE");
    ipxe.options.set(code::IPXE, [177, 5, 1, 0x10, 0xec, 0x81, 0x39]);
    let mut http = pxe.clone();
    http.options.set(code::VENDOR_CLASS, "HTTPClient:Arch:00016:UNDI:003001");
    http.options.set(code::ARCHITECTURE, [0, 16]);
    let selecting = |number: u8, address: Ipv4Addr| {
        let mut packet = message(number, MessageType::Request);
        packet.options.set(code::REQUESTED_ADDRESS, address.octets());
        packet.options.set(code::SERVER_ID, SERVER.octets());
        packet
    };
    let mut renewing = message(1, MessageType::Request);
    renewing.ciaddr = FIRST;
    let mut relayed = pxe.clone();
    relayed.giaddr = Ipv4Addr::new(10, 88, 0, 1);
    relayed.options.set(code::RELAY_AGENT, [1, 4, b'e', b't', b'h', b'0', 5, 4, 10, 88, 0, 0]);
    let mut release = message(1, MessageType::Release);
    release.ciaddr = FIRST;
    release.options.set(code::SERVER_ID, SERVER.octets());
    let mut decline = selecting(1, FIRST);
    decline.options.set_message_type(MessageType::Decline);
    let mut inform = message(1, MessageType::Inform);
    inform.ciaddr = Ipv4Addr::new(10, 77, 0, 200);
    let mut offer = Packet::new(DhcpOperation::Reply, 5, MAC);
    offer.yiaddr = FIRST;
    offer.options.set_message_type(MessageType::Offer);
    offer.options.set(code::SERVER_ID, SERVER.octets());
    offer.options.set(code::SUBNET_MASK, [255, 255, 255, 0]);
    offer.options.set_number(code::LEASE_TIME, 600);
    let mut ack = offer.clone();
    ack.options.set_message_type(MessageType::Ack);
    let bytes = |packet: &Packet| wire::encode(packet).unwrap();
    let mut overloaded = bytes(&pxe);
    overloaded[108..113].copy_from_slice(&[12, 2, b'h', b'i', 255]);
    overloaded.splice(240..240, [52, 1, 3]);
    let all: Vec<Vec<Packet>> = vec![
        vec![pxe.clone(), selecting(1, FIRST), renewing, release],
        vec![ipxe, selecting(1, FIRST), decline, pxe],
        vec![http, relayed, inform],
        (1..9).map(|number| message(number, MessageType::Discover)).collect(),
        vec![offer, ack.clone(), ack],
    ];
    let mut seeds: Vec<Vec<u8>> = all
        .iter()
        .map(|packets| packets.iter().map(bytes).collect::<Vec<_>>())
        .map(|packets| joined(&packets.iter().map(Vec::as_slice).collect::<Vec<_>>()))
        .collect();
    seeds.push(joined(&[&overloaded]));
    seeds.push(joined(&[&overloaded[..243], &[1, 1, 17, 0]]));
    seeds
}
