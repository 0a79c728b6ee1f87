//! Frames of whoever is at the other end of a cable.

use firesteel_lldp::{self as lldp, ADDRESSES_MAX};
use firesteel_wire::limits::{FIELD_BYTES_MAX, VLANS_MAX};

pub(super) fn check(input: &[u8]) {
    look(input);
    // Behind what every frame begins with, so that a fuzzer need not find it.
    look(&[&start()[..], input].concat());
}

fn look(frame: &[u8]) {
    let Ok(neighbour) = lldp::parse(frame) else { return };
    assert!(neighbour.vlans.len() <= VLANS_MAX && neighbour.addresses.len() <= ADDRESSES_MAX);
    assert!(!neighbour.chassis_id.is_empty() && !neighbour.port_id.is_empty());
    assert!(neighbour.port_vlan < 4095 && neighbour.vlans.iter().all(|vlan| (1..4095).contains(&vlan.id)));
    assert!(neighbour.vlans.windows(2).all(|two| two[0].id < two[1].id), "each once, by number");
    let names = neighbour.vlans.iter().map(|vlan| &vlan.name);
    let texts = [&neighbour.chassis_id, &neighbour.port_id, &neighbour.system_name, &neighbour.system_description];
    for text in texts.into_iter().chain([&neighbour.port_description]).chain(&neighbour.addresses).chain(names) {
        assert!(text.len() <= FIELD_BYTES_MAX);
        super::assert_plain(text);
    }
}

fn value(kind: u16, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&(kind << 9 | length).to_be_bytes()[..], bytes].concat()
}

fn start() -> Vec<u8> {
    let head = [0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x52, 0x54, 0, 0, 0, 9, 0x88, 0xcc];
    [&head[..], &value(1, &[4, 0, 0x1c, 0x73, 1, 2, 3]), &value(2, b"\x05Ethernet1"), &value(3, &[0, 120])].concat()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let values = [
        value(4, b"to host 7"),
        value(5, b"leaf-4a"),
        value(6, b"Switch OS\x1b[2J"),
        value(8, &[5, 1, 10, 0, 0, 4, 2, 0, 0, 0, 1, 0]),
        value(127, &[0, 0x80, 0xc2, 1, 0, 100]),
        value(127, &[0, 0x80, 0xc2, 3, 0, 100, 3, b'p', b'x', b'e']),
        value(127, &[0, 0x80, 0xc2, 7, 3, 0, 0, 0, 1]),
        value(127, &[0, 0x12, 0x0f, 4, 0x24, 0]),
        value(0, &[]),
    ];
    let whole = [start(), values.concat()].concat();
    let mut tagged = whole.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let network = [value(1, &[5, 2, 0xfe, 0x80]), value(2, &[4, 1, 10, 0, 0, 1]), value(3, &[0, 0])].concat();
    values.into_iter().chain([whole, tagged, start(), [&start()[..14], &network].concat()]).collect()
}
