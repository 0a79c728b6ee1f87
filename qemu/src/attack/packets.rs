//! The packets of the floods. Pure.

use std::net::Ipv4Addr;

const DISCOVER: u8 = 1;
const REQUEST: u8 = 3;
const OFFER: u8 = 2;
const ACK: u8 = 5;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const OPTIONS_AT: usize = 240;

/// An unused MAC: locally administered, by number.
pub(super) fn mac(number: u64) -> [u8; 6] {
    let [.., a, b, c, d] = number.to_be_bytes();
    [0x02, 0xa7, a, b, c, d]
}

fn dhcp(kind: u8, mac: [u8; 6], options: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; OPTIONS_AT];
    packet[..4].copy_from_slice(&[1, 1, 6, 0]);
    // Its number is in the MAC: answers find their request by it.
    packet[4..8].copy_from_slice(&mac[2..]);
    // Broadcast: no machine has the address yet.
    packet[10] = 0x80;
    packet[28..34].copy_from_slice(&mac);
    packet[236..240].copy_from_slice(&COOKIE);
    packet.extend([53, 1, kind]);
    packet.extend(options);
    packet.push(255);
    packet
}

pub(super) fn discover(number: u64) -> Vec<u8> {
    dhcp(DISCOVER, mac(number), &[55, 3, 1, 3, 51])
}

pub(super) fn request(mac: [u8; 6], address: Ipv4Addr, server: Ipv4Addr) -> Vec<u8> {
    let mut options = vec![50, 4];
    options.extend(address.octets());
    options.extend([54, 4]);
    options.extend(server.octets());
    dhcp(REQUEST, mac, &options)
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SniffedDhcpReply {
    Offer { mac: [u8; 6], address: Ipv4Addr, server: Ipv4Addr },
    Ack,
    Other,
}

pub(super) fn read(packet: &[u8]) -> Option<SniffedDhcpReply> {
    let mut options = packet.get(OPTIONS_AT..)?;
    let (mut kind, mut server) = (0, None);
    while let [code, rest @ ..] = options {
        match code {
            0 => options = rest,
            255 => break,
            _ => {
                let (length, rest) = rest.split_first()?;
                let (value, rest) = rest.split_at_checked(usize::from(*length))?;
                match (*code, value) {
                    (53, [value]) => kind = *value,
                    (54, [a, b, c, d]) => server = Some(Ipv4Addr::new(*a, *b, *c, *d)),
                    _ => {}
                }
                options = rest;
            }
        }
    }
    let mac = packet.get(28..34)?.try_into().ok()?;
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    Some(match (kind, server) {
        (OFFER, Some(server)) => SniffedDhcpReply::Offer { mac, address: address.into(), server },
        (ACK, _) => SniffedDhcpReply::Ack,
        _ => SniffedDhcpReply::Other,
    })
}

/// A read request with options that ask for as much as there is, and for more.
pub(super) fn read_request(file: &str, number: u64) -> Vec<u8> {
    let (blksize, windowsize, timeout) = match number % 4 {
        0 => ("65464", "64", "255"),
        1 => ("65464", "65535", "1"),
        2 => ("8", "65535", "0"),
        _ => ("99999999999999999999", "-1", "4294967296"),
    };
    let mut packet = vec![0, 1];
    let words = [file, "octet", "blksize", blksize, "windowsize", windowsize, "timeout", timeout, "tsize", "0"];
    for word in words {
        packet.extend(word.bytes());
        packet.push(0);
    }
    packet
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_offer_is_requested_by_the_machine_that_it_was_made_to() {
        let server = Ipv4Addr::new(10, 77, 0, 1);
        let mut offer = dhcp(OFFER, mac(258), &[54, 4, 10, 77, 0, 1]);
        offer[16..20].copy_from_slice(&[10, 77, 0, 50]);
        let address = Ipv4Addr::new(10, 77, 0, 50);
        assert_eq!(read(&offer), Some(SniffedDhcpReply::Offer { mac: mac(258), address, server }));
        let request = request(mac(258), address, server);
        assert_eq!((&request[4..8], &request[28..34]), (&[0, 0, 1, 2][..], &mac(258)[..]));
        assert!(request.windows(6).any(|window| window == [50, 4, 10, 77, 0, 50]));
        assert_eq!(read(&dhcp(ACK, mac(1), &[])), Some(SniffedDhcpReply::Ack));
    }

    proptest! {
        #[test]
        fn answers_of_any_form_are_borne(packet in prop::collection::vec(any::<u8>(), 0..400)) {
            let read = read(&packet);
            prop_assert!(packet.len() >= OPTIONS_AT || read.is_none());
        }
    }
}
