//! Bytes: the traps of the codec, each with the bytes that spring it.

use firesteel_dhcp::check;
use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, WireError, code};

use crate::lab::{discover, mac};

fn bytes() -> Vec<u8> {
    wire::encode(&discover(1)).unwrap()
}

/// A DISCOVER with these bytes where its options are.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = bytes();
    bytes.truncate(240);
    bytes.extend_from_slice(options);
    bytes
}

/// dhcproto 0.15 panicked in `chaddr()` when `hlen` was above 16.
#[test]
fn a_long_hardware_address_is_refused() {
    for hlen in [0, 5, 7, 16, 17, 255] {
        let mut bytes = bytes();
        bytes[2] = hlen;
        assert_eq!(wire::decode(&bytes), Err(WireError::NotEthernet { htype: 1, hlen }));
    }
}

/// dhcproto 0.15 has a debug assertion on the length of option 94.
#[test]
fn an_odd_undi_version_does_no_harm() {
    let packet = wire::decode(&with_options(&[94, 2, 1, 2, 53, 1, 1, 255])).unwrap();
    assert_eq!(packet.options.message_type(), Some(MessageType::Discover));
}

/// dhcproto 0.15 ends its reading at a malformed option: everything after was lost.
#[test]
fn an_option_of_the_wrong_length_hides_nothing() {
    let packet = wire::decode(&with_options(&[51, 1, 9, 93, 0, 53, 1, 3, 54, 4, 10, 0, 0, 1, 255])).unwrap();
    assert_eq!(packet.options.message_type(), Some(MessageType::Request));
    assert_eq!(packet.options.address(code::SERVER_ID), Some([10, 0, 0, 1].into()));
    assert_eq!(packet.options.number(code::LEASE_TIME), None);
}

#[test]
fn overloaded_fields_are_read_in_order() {
    let mut bytes = with_options(&[52, 1, 3, 77, 2, b'i', b'P', 255]);
    bytes[108..113].copy_from_slice(&[77, 1, b'X', 255, 9]);
    bytes[44..51].copy_from_slice(&[77, 1, b'E', 53, 1, 1, 255]);
    let packet = wire::decode(&bytes).unwrap();
    assert_eq!(packet.options.get(code::USER_CLASS), Some(&b"iPXE"[..]));
    assert_eq!(packet.options.message_type(), Some(MessageType::Discover));
    assert!(packet.file.is_empty(), "the field holds options, not a name");
}

#[test]
fn a_field_is_read_as_options_where_the_overload_says_so() {
    for (overload, class, has_name) in
        [(0, "-", true), (1, "-F", false), (2, "-S", true), (3, "-FS", false), (4, "-", true)]
    {
        let mut bytes = with_options(&[52, 1, overload, 77, 1, b'-', 255]);
        bytes[108..112].copy_from_slice(&[77, 1, b'F', 255]);
        bytes[44..48].copy_from_slice(&[77, 1, b'S', 255]);
        let packet = wire::decode(&bytes).unwrap();
        assert_eq!(packet.options.text(code::USER_CLASS).as_deref(), Some(class), "{overload}");
        assert_eq!(!packet.file.is_empty(), has_name, "{overload}");
    }
}

/// The options of overloaded fields are written after the header, so that a message may grow past what is read.
#[test]
fn a_message_that_grows_is_no_fault_for_the_fuzzer() {
    let option = |bytes: u8| [&[77, bytes][..], &vec![b'c'; bytes.into()]].concat();
    let mut options = vec![52, 1, 3];
    options.extend(option(255).repeat(14));
    options.extend(option(253));
    let mut bytes = with_options(&options);
    assert_eq!(bytes.len(), 4096);
    bytes[108..236].copy_from_slice(&option(126));
    bytes[44..108].copy_from_slice(&option(62));
    assert_eq!(wire::encode(&wire::decode(&bytes).unwrap()).unwrap().len(), 4287);
    check(&bytes);
}

/// dhcproto 0.15 reads a file name without terminator as none.
#[test]
fn a_file_name_may_fill_its_field() {
    let mut bytes = bytes();
    bytes[108..236].fill(b'f');
    assert_eq!(wire::decode(&bytes).unwrap().file, [b'f'; 128]);
}

/// dhcproto 0.15 asserts on file names above 128 bytes.
#[test]
fn a_long_file_name_is_left_out_of_the_header() {
    let mut packet = discover(1);
    packet.file = vec![b'f'; 128];
    assert!(wire::decode(&wire::encode(&packet).unwrap()).unwrap().file.is_empty());
    packet.file = vec![b'f'; 127];
    assert_eq!(wire::decode(&wire::encode(&packet).unwrap()).unwrap().file.len(), 127);
}

#[test]
fn short_long_and_foreign_bytes_are_refused() {
    assert_eq!(wire::decode(&[]), Err(WireError::TooShort(0)));
    assert_eq!(wire::decode(&bytes()[..239]), Err(WireError::TooShort(239)));
    assert_eq!(wire::decode(&[1; 5000]), Err(WireError::TooLong(5000)));
    let mut longest = bytes();
    longest.resize(4096, 0);
    assert_eq!(wire::decode(&longest), Ok(discover(1)));
    longest.push(0);
    assert_eq!(wire::decode(&longest), Err(WireError::TooLong(4097)));
    let mut other = bytes();
    other[236] = 0;
    assert_eq!(wire::decode(&other), Err(WireError::NoCookie));
    let mut other = bytes();
    other[0] = 3;
    assert_eq!(wire::decode(&other), Err(WireError::Operation(3)));
    let mut other = bytes();
    other[28..34].fill(0xff);
    assert!(matches!(wire::decode(&other), Err(WireError::GroupAddress(_))));
}

#[test]
fn options_end_at_the_end_whatever_they_say() {
    for tail in [&[53u8, 1, 1][..], &[53, 1, 1, 12, 200, b'x'], &[53, 1, 1, 12], &[0, 0, 53, 1, 1, 255, 53, 1, 3]] {
        let packet = wire::decode(&with_options(tail)).unwrap();
        assert_eq!(packet.options.message_type(), Some(MessageType::Discover), "{tail:?}");
        assert_eq!(packet.options.get(code::HOST_NAME), None);
    }
}

#[test]
fn messages_are_padded_and_long_options_split() {
    assert_eq!(bytes().len(), 300);
    let mut packet = Packet::new(DhcpOperation::Reply, 9, mac(1));
    packet.options.set_message_type(MessageType::Ack);
    packet.options.set(code::RELAY_AGENT, vec![7; 300]);
    let again = wire::decode(&wire::encode(&packet).unwrap()).unwrap();
    assert_eq!(again.options.get(code::RELAY_AGENT), Some(&[7; 300][..]), "RFC 3396");
    assert_eq!(again, packet);
}
