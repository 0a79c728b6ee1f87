//! ARP packets of machines on the link, and what the keeper of the appliance's address makes of them.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use firesteel_facts::Mac;
use firesteel_network::address_keeper::InterfaceLook;
use firesteel_network::{ARP_BYTES, AddressKeeper, AddressState, ArpPacket, KeeperOutput};

const OWN: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Packets that one packet may have answered.
const ANSWERS_MAX: usize = 2;

pub(super) fn check(input: &[u8]) {
    let start = Instant::now();
    let mut keeper = AddressKeeper::new(ADDRESS, OWN, true);
    keeper.look(start, InterfaceLook { has_address: false, is_up: true });
    let mut now = start;
    for bytes in input.chunks(ARP_BYTES + 1) {
        let (wait, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        now += Duration::from_millis(100 * u64::from(*wait));
        keeper.handle_timeout(now);
        drain(&mut keeper, now);
        let Ok(packet) = ArpPacket::read(bytes) else { continue };
        assert_eq!(packet.encode()[..], bytes[..ARP_BYTES], "what is read is what was sent");
        keeper.receive(now, &packet);
        let answers = drain(&mut keeper, now);
        assert!(answers <= ANSWERS_MAX, "a packet of a stranger is answered by {answers}");
        if let AddressState::Conflict { with } | AddressState::Held { contested_by: Some(with) } = keeper.state(now) {
            assert_ne!(with, OWN, "the appliance is no other machine");
        }
    }
}

/// Carries out what the keeper asks for; returns the packets.
fn drain(keeper: &mut AddressKeeper, now: Instant) -> usize {
    let mut packets = 0;
    while let Some(output) = keeper.poll_output() {
        match output {
            KeeperOutput::Send(packet) => {
                assert_eq!(packet.sender_mac, OWN);
                packets += 1;
            }
            KeeperOutput::Put => keeper.put_done(now, Ok(())),
            KeeperOutput::BringUp => {}
        }
    }
    packets
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let other = Mac([0x52, 0x54, 0, 0, 0, 9]);
    let packets = [ArpPacket::probe(other, ADDRESS), ArpPacket::announcement(other, ADDRESS)];
    let packets = packets.map(|packet| packet.encode().to_vec());
    let after = |wait: u8, packet: &[u8]| [&[wait], packet].concat();
    let held = after(255, &packets[0]);
    vec![
        after(1, &packets[0]),
        after(1, &packets[1]),
        [held, after(1, &packets[1]), after(1, &packets[1])].concat(),
        after(0, &packets[0][..20]),
    ]
}
