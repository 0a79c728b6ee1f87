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

    /// One that took the offer of 10.77.0.30 by the server 10.77.0.9.
    fn requesting() -> Self {
        let mut pair = Self::new();
        let discover = pair.sent();
        pair.client.handle_packet(pair.now, &answer(&discover, MessageType::Offer));
        pair
    }

    /// What the client sends now.
    fn sent(&mut self) -> Packet {
        wire::decode(&self.client.poll_transmit().unwrap().bytes).unwrap()
    }

    /// Answers what the client sends now.
    fn hear(&mut self, kind: MessageType, change: fn(&mut Packet)) {
        let request = self.sent();
        self.client.handle_packet(self.now, &changed(&request, kind, change));
    }

    /// Runs the lease out unanswered: the seconds at which the client asked its server, asked any, and gave it up.
    fn renewals_in_vain(&mut self) -> (Vec<f64>, Vec<f64>, f64) {
        let (began, mut to_server, mut to_any) = (self.now, Vec::new(), Vec::new());
        let server = self.client.lease().unwrap().server;
        self.wire_is_cut = true;
        loop {
            self.step();
            let second = (self.now - began).as_secs_f64();
            match self.sent.pop() {
                Some((MessageType::Request, to)) if to == server => to_server.push(second),
                Some((MessageType::Request, Ipv4Addr::BROADCAST)) => to_any.push(second),
                other => {
                    assert_eq!(other, Some((MessageType::Discover, Ipv4Addr::BROADCAST)));
                    return (to_server, to_any, second);
                }
            }
        }
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
        |packet| packet.yiaddr = Ipv4Addr::new(224, 0, 0, 1),
        |packet| packet.yiaddr = Ipv4Addr::LOCALHOST,
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
        (|packet| packet.options.set(code::SUBNET_MASK, [0; 4]), "a mask of nothing"),
        (|packet| packet.yiaddr = ip(99), "another address than asked for"),
    ] {
        let mut pair = Pair::requesting();
        pair.hear(MessageType::Ack, change);
        assert_eq!(pair.client.lease(), None, "{why}");
    }
}

/// A server may leave out the times of renewal and rebinding, or send times that no client can keep.
#[test]
fn a_lease_is_renewed_rebound_and_given_up_at_its_moments() {
    for (change, own, any, end) in [
        ((|_| {}) as fn(&mut Packet), 1800.0, 3150.0, 3600.0),
        (|ack| ack.options.set_number(code::LEASE_TIME, 600), 300.0, 525.0, 600.0),
        (|ack| ack.options.set_number(code::LEASE_TIME, 1), 5.0, 8.75, 10.0),
        (|ack| ack.options.set_number(code::LEASE_TIME, u32::MAX), 15_768_000.0, 27_594_000.0, 31_536_000.0),
        (|ack| ack.options.set_number(code::RENEWAL_TIME, 100), 100.0, 3150.0, 3600.0),
        (|ack| ack.options.set_number(code::REBINDING_TIME, 200), 200.0, 200.0, 3600.0),
        (|ack| ack.options.set_number(code::REBINDING_TIME, 9000), 1800.0, 3600.0, 3600.0),
    ] {
        let mut pair = Pair::requesting();
        pair.hear(MessageType::Ack, change);
        let (to_server, to_any, ended) = pair.renewals_in_vain();
        let first = [to_server.first().or(to_any.first()), to_any.first().or(Some(&ended))];
        assert_eq!((first, ended), ([Some(&own), Some(&any)], end));
    }
    let mut pair = Pair::requesting();
    pair.hear(MessageType::Ack, |ack| ack.options.set_number(code::LEASE_TIME, 600));
    let asked = (vec![300.0, 412.5, 472.5], vec![525.0, 585.0], 600.0);
    assert_eq!(pair.renewals_in_vain(), asked, "after half of what remains, and not within a minute");
}

#[test]
fn a_lease_counts_from_the_first_request_for_it() {
    let mut pair = Pair::new();
    let discover = pair.sent();
    pair.now += Duration::from_secs(3);
    pair.client.handle_packet(pair.now, &answer(&discover, MessageType::Offer));
    assert_eq!(pair.sent().secs, 3, "since it began to look");
    let first = pair.now;
    pair.now = pair.client.poll_timeout();
    pair.client.handle_timeout(pair.now);
    pair.hear(MessageType::Ack, |_| {});
    assert_eq!(pair.client.poll_timeout() - first, Duration::from_secs(1800));
}

#[test]
fn an_ack_that_comes_when_its_lease_is_over_binds_nothing() {
    for (late, is_bound) in [(Duration::from_nanos(9_999_999_999), true), (Duration::from_secs(10), false)] {
        let mut pair = Pair::requesting();
        pair.now += late;
        pair.hear(MessageType::Ack, |ack| ack.options.set_number(code::LEASE_TIME, 10));
        assert_eq!(pair.client.lease().is_some(), is_bound, "{late:?}");
    }
}

#[test]
fn only_the_server_that_was_asked_may_refuse() {
    for (change, is_refused) in [
        ((|_| {}) as fn(&mut Packet), true),
        (|nak| nak.options.remove(code::SERVER_ID), true),
        (|nak| nak.options.set(code::SERVER_ID, ip(8).octets()), false),
    ] {
        let mut pair = Pair::requesting();
        let request = pair.sent();
        pair.client.handle_packet(pair.now, &changed(&request, MessageType::Nak, change));
        pair.client.handle_packet(pair.now, &answer(&request, MessageType::Ack));
        assert_eq!(pair.client.lease().is_none(), is_refused);
    }
}

#[test]
fn nothing_is_sent_before_its_time() {
    let mut pair = Pair::new();
    pair.sent();
    let due = pair.client.poll_timeout();
    pair.client.handle_timeout(due - Duration::from_nanos(1));
    assert_eq!((pair.client.poll_transmit(), pair.client.poll_timeout()), (None, due));
    pair.client.handle_timeout(due + Duration::from_secs(9));
    assert_eq!(pair.sent().options.message_type(), Some(MessageType::Discover), "late is not never");
}

#[test]
fn machines_that_got_power_at_once_do_not_ask_in_step() {
    let now = Instant::now();
    let wait = |number| DhcpClient::new(mac(number), 42, None, now).poll_timeout() - now;
    let (first, last) = ((1..=32).map(wait).min().unwrap(), (1..=32).map(wait).max().unwrap());
    assert!(first >= Duration::from_secs(1) && last <= Duration::from_millis(1125), "{first:?} to {last:?}");
    assert!(last - first > Duration::from_millis(60), "{first:?} to {last:?}");
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
    changed(request, kind, |_| {})
}

fn changed(request: &Packet, kind: MessageType, change: fn(&mut Packet)) -> Vec<u8> {
    let mut reply = Packet::new(DhcpOperation::Reply, request.xid, request.mac);
    reply.yiaddr = ip(30);
    reply.options.set_message_type(kind);
    reply.options.set(code::SERVER_ID, ip(9).octets());
    reply.options.set(code::SUBNET_MASK, [255, 255, 255, 0]);
    reply.options.set_number(code::LEASE_TIME, 3600);
    change(&mut reply);
    wire::encode(&reply).unwrap()
}
