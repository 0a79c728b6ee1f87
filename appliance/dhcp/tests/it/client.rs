//! The agent's client, alone and against our own server.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use firesteel_dhcp::client::{ClientDatagram, DhcpClient};
use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, code};

use crate::lab::{Lab, SERVER, config, ip, mac};

struct Pair {
    lab: Lab,
    client: DhcpClient,
    now: Instant,
    /// What the client sent, as type and destination.
    sent: Vec<(MessageType, Ipv4Addr)>,
    wire_is_cut: bool,
}

impl Pair {
    fn new() -> Self {
        let now = Instant::now();
        let client = DhcpClient::new(mac(1), 42, Some("node-1"), now);
        Self { lab: Lab::new(config()), client, now, sent: Vec::new(), wire_is_cut: false }
    }

    /// Carries messages until both sides are quiet.
    fn settle(&mut self) {
        while let Some(ClientDatagram { source, destination, bytes }) = self.client.poll_transmit() {
            let packet = wire::decode(&bytes).unwrap();
            self.sent.push((packet.options.message_type().unwrap(), destination));
            assert_eq!(packet.ciaddr, source, "renewals come from the address that is renewed");
            if self.wire_is_cut {
                continue;
            }
            for reply in self.lab.hear(&bytes) {
                self.client.handle_packet(self.now, &wire::encode(&reply.packet).unwrap());
            }
        }
    }

    /// Runs both clocks to the client's next moment.
    fn step(&mut self) -> Duration {
        let wait = self.client.poll_timeout() - self.now;
        self.now += wait;
        self.lab.now += wait;
        self.lab.engine.handle_timeout(self.lab.now);
        self.client.handle_timeout(self.now);
        self.settle();
        wait
    }
}

#[test]
fn it_binds_in_four_messages() {
    let mut pair = Pair::new();
    pair.settle();
    assert_eq!(pair.sent, [(MessageType::Discover, Ipv4Addr::BROADCAST), (MessageType::Request, Ipv4Addr::BROADCAST)]);
    let lease = pair.client.lease().unwrap();
    assert_eq!((lease.address, lease.prefix_length, lease.server), (ip(10), 24, SERVER));
    assert_eq!((lease.router, &lease.dns[..], &lease.ntp[..]), (Some(ip(254)), &[ip(2)][..], &[ip(3)][..]));
    assert_eq!(lease.lease_time, Duration::from_secs(600));
    assert_eq!(pair.lab.disk.leases[&mac(1)].hostname.as_deref(), Some("node-1"));
}

#[test]
fn it_renews_at_half_of_the_lease_for_ever() {
    let mut pair = Pair::new();
    pair.settle();
    for _ in 0..10 {
        assert_eq!(pair.step(), Duration::from_secs(300));
        assert_eq!(pair.sent.pop(), Some((MessageType::Request, SERVER)));
        assert_eq!(pair.client.lease().unwrap().address, ip(10));
    }
}

#[test]
fn it_rebinds_expires_and_starts_over() {
    let mut pair = Pair::new();
    pair.settle();
    pair.sent.clear();
    pair.wire_is_cut = true;
    let began = pair.now;
    while pair.client.lease().is_some() {
        pair.step();
    }
    assert_eq!(pair.now - began, Duration::from_secs(600));
    let (renewals, rest): (Vec<_>, Vec<_>) = pair.sent.iter().partition(|(_, to)| *to == SERVER);
    assert!((2..=4).contains(&renewals.len()), "at 300 s and after half of what remained: {renewals:?}");
    assert_eq!(rest.first(), Some(&(MessageType::Request, Ipv4Addr::BROADCAST)), "any server will do");
    assert_eq!(rest.last(), Some(&(MessageType::Discover, Ipv4Addr::BROADCAST)));
    pair.wire_is_cut = false;
    pair.step();
    assert_eq!(pair.client.lease().unwrap().address, ip(10));
}

#[test]
fn its_waits_double_up_to_a_minute() {
    let mut pair = Pair::new();
    pair.wire_is_cut = true;
    pair.settle();
    let waits: Vec<f64> = (0..10).map(|_| pair.step().as_secs_f64()).collect();
    for (index, wait) in waits.iter().enumerate() {
        let base = f64::from(1u32 << index.min(6));
        assert!(*wait >= base && *wait <= base * 1.125, "{waits:?}");
    }
    assert!(pair.sent.iter().all(|(kind, _)| *kind == MessageType::Discover));
}

#[test]
fn an_offer_that_nobody_confirms_is_given_up() {
    let mut pair = Pair::new();
    let discover = wire::decode(&pair.client.poll_transmit().unwrap().bytes).unwrap();
    pair.client.handle_packet(pair.now, &answer(&discover, MessageType::Offer));
    pair.wire_is_cut = true;
    pair.settle();
    while pair.sent.last() != Some(&(MessageType::Discover, Ipv4Addr::BROADCAST)) {
        pair.step();
        assert!(pair.sent.len() < 20);
    }
    assert_eq!(pair.sent.iter().filter(|(kind, _)| *kind == MessageType::Request).count(), 5);
}

#[test]
fn a_refusal_is_followed_by_a_pause() {
    let mut pair = Pair::new();
    let discover = wire::decode(&pair.client.poll_transmit().unwrap().bytes).unwrap();
    pair.client.handle_packet(pair.now, &answer(&discover, MessageType::Offer));
    let request = wire::decode(&pair.client.poll_transmit().unwrap().bytes).unwrap();
    pair.client.handle_packet(pair.now, &answer(&request, MessageType::Nak));
    assert_eq!(pair.client.poll_transmit(), None);
    assert_eq!(pair.client.poll_timeout() - pair.now, Duration::from_secs(1));
    pair.step();
    assert_eq!(pair.client.lease().unwrap().address, ip(10));
}

#[test]
fn a_moved_host_learns_it_at_renewal() {
    let mut pair = Pair::new();
    pair.settle();
    let mut moved = config();
    moved.reservations.insert(mac(1), firesteel_dhcp::Reservation { address: ip(77), hostname: None });
    pair.lab.engine.reconfigure(moved).unwrap();
    pair.step();
    assert_eq!(pair.client.lease(), None, "refused");
    pair.step();
    assert_eq!(pair.client.lease().unwrap().address, ip(77));
}

#[test]
fn other_peoples_messages_are_ignored() {
    let mut pair = Pair::new();
    let discover = wire::decode(&pair.client.poll_transmit().unwrap().bytes).unwrap();
    let good = wire::decode(&answer(&discover, MessageType::Offer)).unwrap();
    let mut spoilt = Vec::new();
    for change in [
        (|packet| packet.xid ^= 1) as fn(&mut Packet),
        |packet| packet.mac = mac(2),
        |packet| packet.operation = DhcpOperation::Request,
        |packet| packet.yiaddr = Ipv4Addr::UNSPECIFIED,
        |packet| packet.yiaddr = Ipv4Addr::BROADCAST,
        |packet| packet.options.remove(code::SERVER_ID),
        |packet| packet.options.remove(code::MESSAGE_TYPE),
        |packet| packet.options.set_message_type(MessageType::Ack),
    ] {
        let mut packet = good.clone();
        change(&mut packet);
        spoilt.push(packet);
    }
    for packet in spoilt {
        pair.client.handle_packet(pair.now, &wire::encode(&packet).unwrap());
        assert_eq!(pair.client.poll_transmit(), None, "{packet:?}");
    }
    pair.client.handle_packet(pair.now, &wire::encode(&good).unwrap());
    assert!(pair.client.poll_transmit().is_some());
}

#[test]
fn an_ack_that_makes_no_sense_binds_nothing() {
    for (change, why) in [
        ((|packet| packet.options.remove(code::LEASE_TIME)) as fn(&mut Packet), "no lease time"),
        (|packet| packet.options.set(code::SUBNET_MASK, [255, 0, 255, 0]), "a mask with holes"),
        (|packet| packet.yiaddr = ip(99), "another address than asked for"),
    ] {
        let mut pair = Pair::new();
        let discover = wire::decode(&pair.client.poll_transmit().unwrap().bytes).unwrap();
        pair.client.handle_packet(pair.now, &answer(&discover, MessageType::Offer));
        let request = wire::decode(&pair.client.poll_transmit().unwrap().bytes).unwrap();
        let mut ack = wire::decode(&answer(&request, MessageType::Ack)).unwrap();
        change(&mut ack);
        pair.client.handle_packet(pair.now, &wire::encode(&ack).unwrap());
        assert_eq!(pair.client.lease(), None, "{why}");
    }
}

#[test]
fn an_ack_of_another_address_renews_nothing() {
    let mut pair = Pair::new();
    pair.settle();
    pair.now = pair.client.poll_timeout();
    pair.client.handle_timeout(pair.now);
    let request = wire::decode(&pair.client.poll_transmit().unwrap().bytes).unwrap();
    pair.client.handle_packet(pair.now, &answer(&request, MessageType::Ack));
    let lease = pair.client.lease().unwrap();
    assert_eq!((lease.address, lease.server), (ip(10), SERVER), "and not the 10.77.0.30 of another server");
}

fn answer(request: &Packet, kind: MessageType) -> Vec<u8> {
    let mut reply = Packet::new(DhcpOperation::Reply, request.xid, request.mac);
    reply.yiaddr = ip(30);
    reply.options.set_message_type(kind);
    reply.options.set(code::SERVER_ID, ip(9).octets());
    reply.options.set(code::SUBNET_MASK, [255, 255, 255, 0]);
    reply.options.set_number(code::LEASE_TIME, 3600);
    wire::encode(&reply).unwrap()
}
