//! Hosts behind relays.

use std::net::Ipv4Addr;

use firesteel_dhcp::wire::{self, MessageType, Packet, code};
use firesteel_dhcp::{DeclineOutcome, Destination, DhcpConfig, DhcpEventKind, Ipv4Network, Pool, Subnet};

use crate::lab::{Lab, SERVER, config, discover, ip, mac, rebooting, renewing, selecting};

const RELAY: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const CIRCUIT: [u8; 6] = [1, 4, b'p', b'o', b'r', b't'];

fn far(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 88, 0, last)
}

fn relayed_config() -> DhcpConfig {
    let mut config = config();
    config.relayed.push(Subnet {
        network: Ipv4Network::of(RELAY, 24),
        pool: Some(Pool { first: far(50), last: far(59) }),
        router: Some(RELAY),
    });
    config
}

fn by_relay(mut packet: Packet) -> Packet {
    packet.giaddr = RELAY;
    packet.hops = 1;
    packet.options.set(code::RELAY_AGENT, CIRCUIT);
    packet
}

#[test]
fn a_relayed_host_gets_an_address_of_its_own_network() {
    let mut lab = Lab::new(relayed_config());
    let offer = lab.ask(&by_relay(discover(1)));
    assert_eq!((offer.packet.yiaddr, offer.to), (far(50), Destination::Relay(RELAY)));
    assert_eq!(offer.packet.giaddr, RELAY);
    assert_eq!(offer.packet.options.address(code::ROUTER), Some(RELAY));
    assert_eq!(offer.get(code::RELAY_AGENT), Some(&CIRCUIT[..]));
    let ack = lab.ask(&by_relay(selecting(1, far(50))));
    assert_eq!((ack.kind(), ack.to), (MessageType::Ack, Destination::Relay(RELAY)));

    lab.wait(300);
    let renewed = lab.ask(&renewing(1, far(50)));
    assert_eq!((renewed.kind(), renewed.to), (MessageType::Ack, Destination::IpUnicast(far(50))));
    assert_eq!(renewed.packet.options.address(code::ROUTER), Some(RELAY));
    assert_eq!(renewed.get(code::RELAY_AGENT), None);
}

#[test]
fn option_82_is_the_last_of_the_reply() {
    let mut lab = Lab::new(relayed_config());
    lab.boot = |_| Some(firesteel_dhcp::BootAnswer { file: "x".into(), ..Default::default() });
    let mut ask = by_relay(discover(1));
    ask.options.set(code::VENDOR_CLASS, *b"PXEClient:Arch:00000");
    ask.options.set(code::MACHINE_UUID, [&[0u8][..], &[5; 16]].concat());
    let engine = &mut lab.engine;
    let bytes = wire::encode(&ask).unwrap();
    engine.handle_packet(lab.now, firesteel_dhcp::ReceivedDatagram { interface: 1, bytes: &bytes }, &lab.boot);
    let Some(firesteel_dhcp::DhcpOutput::Transmit(reply)) = engine.poll_output() else { panic!("no reply") };
    let mut rest = &reply.bytes[240..];
    let mut codes = Vec::new();
    while let [code, length, after @ ..] = rest {
        if *code == 255 {
            break;
        }
        codes.push(*code);
        rest = &after[usize::from(*length)..];
    }
    assert_eq!(codes.last(), Some(&code::RELAY_AGENT), "RFC 3046 §2.2: {codes:?}");
    assert!(codes.contains(&code::MACHINE_UUID));
}

#[test]
fn link_selection_outranks_the_relays_own_address() {
    let mut lab = Lab::new(relayed_config());
    let mut ask = by_relay(discover(1));
    ask.giaddr = Ipv4Addr::new(192, 0, 2, 1);
    ask.options.set(code::RELAY_AGENT, [&CIRCUIT[..], &[5, 4, 10, 88, 0, 0]].concat());
    let offer = lab.ask(&ask);
    assert_eq!((offer.packet.yiaddr, offer.to), (far(50), Destination::Relay(Ipv4Addr::new(192, 0, 2, 1))));
}

#[test]
fn strange_relays_get_no_answer() {
    let mut lab = Lab::new(relayed_config());
    let mut ask = by_relay(discover(1));
    ask.giaddr = Ipv4Addr::new(192, 0, 2, 1);
    lab.ignored(&ask);
    assert_eq!(lab.engine.dropped().foreign, 1);
    let mut looping = by_relay(discover(1));
    looping.hops = 17;
    lab.ignored(&looping);
}

#[test]
fn a_relay_on_our_own_network_works_as_well() {
    let mut lab = Lab::new(config());
    let mut ask = discover(1);
    ask.giaddr = ip(200);
    let offer = lab.ask(&ask);
    assert_eq!((offer.packet.yiaddr, offer.to), (ip(10), Destination::Relay(ip(200))));
}

#[test]
fn a_host_that_was_moved_is_told_by_the_relay() {
    let mut lab = Lab::new(relayed_config());
    let old = lab.obtain(1);
    let nak = lab.ask(&by_relay(rebooting(1, old)));
    assert_eq!((nak.kind(), nak.to), (MessageType::Nak, Destination::Relay(RELAY)));
    assert!(nak.packet.broadcast, "RFC 2131 §4.3.2: the relay broadcasts it");
    let offer = lab.ask(&by_relay(discover(1)));
    assert_eq!(offer.packet.yiaddr, far(50));
    assert_eq!(lab.ask(&by_relay(selecting(1, far(50)))).kind(), MessageType::Ack);
    assert_eq!(lab.disk.leases.len(), 1, "one host, one lease");
    assert_eq!(offer.packet.options.address(code::SERVER_ID), Some(SERVER));
}

/// 10.88.0.0 as link selection and the relay's address there as server identifier (RFC 5107).
const OVERRIDDEN: [u8; 12] = [5, 4, 10, 88, 0, 0, 11, 4, 10, 88, 0, 1];

fn overridden(mut packet: Packet) -> Packet {
    packet.giaddr = Ipv4Addr::new(192, 0, 2, 1);
    packet.options.set(code::RELAY_AGENT, OVERRIDDEN);
    packet
}

#[test]
fn a_relay_may_have_its_own_address_named_as_the_server() {
    let mut lab = Lab::new(DhcpConfig { known: Some(Default::default()), ..relayed_config() });
    let offer = lab.ask(&overridden(discover(1)));
    assert_eq!(offer.packet.options.address(code::SERVER_ID), Some(RELAY));
    assert_eq!((offer.packet.yiaddr, offer.to), (far(50), Destination::Relay(Ipv4Addr::new(192, 0, 2, 1))));
    for server in [RELAY, SERVER] {
        let mut request = overridden(selecting(1, far(50)));
        request.options.set(code::SERVER_ID, server.octets());
        let ack = lab.ask(&request);
        assert_eq!((ack.kind(), ack.packet.yiaddr), (MessageType::Ack, far(50)), "{server}");
        assert_eq!(ack.packet.options.address(code::SERVER_ID), Some(RELAY));
    }
    let mut release = overridden(crate::lab::release(1, far(50)));
    release.options.set(code::SERVER_ID, RELAY.octets());
    lab.ignored(&release);
    assert!(lab.events.contains(&firesteel_dhcp::DhcpEventKind::Released { address: far(50) }));
}

#[test]
fn only_a_relay_overrides_the_server_identifier() {
    let mut lab = Lab::new(relayed_config());
    let mut ask = discover(1);
    ask.options.set(code::RELAY_AGENT, OVERRIDDEN);
    assert_eq!(lab.ask(&ask).packet.options.address(code::SERVER_ID), Some(SERVER), "it came by no relay");
    let mut taken = by_relay(selecting(1, far(50)));
    taken.options.set(code::SERVER_ID, [10, 88, 0, 9]);
    taken.options.set(code::RELAY_AGENT, OVERRIDDEN);
    lab.ignored(&taken);
    let server = Ipv4Addr::new(10, 88, 0, 9);
    assert!(lab.events.contains(&firesteel_dhcp::DhcpEventKind::TookAnother { server }));
    for odd in [&[11, 4, 0, 0, 0, 0][..], &[11, 3, 10, 88, 0], &[11, 9, 10, 88, 0, 1], &[11]] {
        let mut ask = by_relay(discover(2));
        ask.options.set(code::RELAY_AGENT, odd);
        assert_eq!(lab.ask(&ask).packet.options.address(code::SERVER_ID), Some(SERVER), "{odd:?}");
    }
}

#[test]
fn a_far_host_gets_no_address_of_another_network_where_its_own_has_none_left() {
    let mut with = relayed_config();
    with.relayed[0].pool = Some(Pool { first: far(50), last: far(50) });
    let mut lab = Lab::new(with);
    lab.obtain(1);
    let declined = lab.obtain(2);
    assert!(matches!(lab.decline(mac(2), declined), DeclineOutcome::Rests { .. }));
    lab.wait(600);
    lab.ask(&by_relay(discover(3)));
    assert_eq!(lab.ask(&by_relay(selecting(3, far(50)))).kind(), MessageType::Ack);
    lab.ignored(&by_relay(discover(4)));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::Exhausted), "one lease ended and one address rests elsewhere");
}
