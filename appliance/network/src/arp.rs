//! ARP for IPv4 over Ethernet (RFC 826), as far as address conflict detection needs it (RFC 5227).

use std::net::Ipv4Addr;

use firesteel_facts::Mac;

/// The bytes of a packet, without the Ethernet header.
pub const ARP_BYTES: usize = 28;

const HARDWARE_ETHERNET: u16 = 1;
const PROTOCOL_IPV4: u16 = 0x0800;
const MAC_BYTES: u8 = 6;
const ADDRESS_BYTES: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOperation {
    Request,
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpPacket {
    pub operation: ArpOperation,
    pub sender_mac: Mac,
    /// All zeros in a probe.
    pub sender_address: Ipv4Addr,
    pub target_mac: Mac,
    pub target_address: Ipv4Addr,
}

/// Why bytes are no packet that counts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArpError {
    #[error("the packet has {0} bytes, and ARP for IPv4 over Ethernet has {ARP_BYTES}")]
    Short(usize),
    #[error("byte {0} is not that of IPv4 over Ethernet")]
    OtherNetwork(usize),
    #[error("the operation {0} is neither a request nor a reply")]
    Operation(u16),
}

impl ArpPacket {
    /// Makes a probe: it asks for `address` and names no sender, so that no machine learns a wrong one (RFC 5227
    /// section 2.1.1).
    #[must_use]
    pub fn probe(own: Mac, address: Ipv4Addr) -> Self {
        Self {
            operation: ArpOperation::Request,
            sender_mac: own,
            sender_address: Ipv4Addr::UNSPECIFIED,
            target_mac: Mac([0; 6]),
            target_address: address,
        }
    }

    /// Makes an announcement: sender and target are both `address` (RFC 5227 section 2.3).
    #[must_use]
    pub fn announcement(own: Mac, address: Ipv4Addr) -> Self {
        Self { sender_address: address, ..Self::probe(own, address) }
    }

    /// Returns the bytes behind the Ethernet header.
    #[must_use]
    pub fn encode(&self) -> [u8; ARP_BYTES] {
        let mut bytes = [0; ARP_BYTES];
        let operation: u16 = match self.operation {
            ArpOperation::Request => 1,
            ArpOperation::Reply => 2,
        };
        bytes[0..2].copy_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
        bytes[2..4].copy_from_slice(&PROTOCOL_IPV4.to_be_bytes());
        bytes[4..6].copy_from_slice(&[MAC_BYTES, ADDRESS_BYTES]);
        bytes[6..8].copy_from_slice(&operation.to_be_bytes());
        bytes[8..14].copy_from_slice(&self.sender_mac.0);
        bytes[14..18].copy_from_slice(&self.sender_address.octets());
        bytes[18..24].copy_from_slice(&self.target_mac.0);
        bytes[24..28].copy_from_slice(&self.target_address.octets());
        bytes
    }

    /// Reads a packet. Bytes behind it are padding: an Ethernet frame has at least 60.
    ///
    /// # Errors
    /// When it is too short, of another network, or neither request nor reply.
    pub fn read(bytes: &[u8]) -> Result<Self, ArpError> {
        let Some(bytes) = bytes.first_chunk::<ARP_BYTES>() else { return Err(ArpError::Short(bytes.len())) };
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let kind = [(0, word(0) == HARDWARE_ETHERNET), (2, word(2) == PROTOCOL_IPV4), (4, bytes[4] == MAC_BYTES)];
        let kind = kind.into_iter().chain([(5, bytes[5] == ADDRESS_BYTES)]);
        if let Some((byte, _)) = kind.into_iter().find(|(_, is_ours)| !is_ours) {
            return Err(ArpError::OtherNetwork(byte));
        }
        let operation = match word(6) {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            other => return Err(ArpError::Operation(other)),
        };
        let mac = |at: usize| Mac([0, 1, 2, 3, 4, 5].map(|byte| bytes[at + byte]));
        let address = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        Ok(Self {
            operation,
            sender_mac: mac(8),
            sender_address: address(14),
            target_mac: mac(18),
            target_address: address(24),
        })
    }

    /// Says whether another machine has or wants `address` (RFC 5227 section 2.1.1): it sends from it, or probes for it
    /// itself while we do.
    #[must_use]
    pub fn conflicts_with_probe(&self, own: Mac, address: Ipv4Addr) -> bool {
        let is_probe = self.operation == ArpOperation::Request
            && self.sender_address.is_unspecified()
            && self.target_address == address;
        self.sender_mac != own && (self.sender_address == address || is_probe)
    }

    /// Says whether another machine uses `address`, which we have (RFC 5227 section 2.4).
    #[must_use]
    pub fn conflicts_with_use(&self, own: Mac, address: Ipv4Addr) -> bool {
        self.sender_mac != own && self.sender_address == address
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

    #[test]
    fn a_probe_has_the_bytes_of_the_rfc() {
        let bytes = ArpPacket::probe(OWN, ADDRESS).encode();
        assert_eq!(bytes[..8], [0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!((&bytes[8..14], &bytes[14..18]), (&OWN.0[..], &[0; 4][..]));
        assert_eq!((&bytes[18..24], &bytes[24..28]), (&[0; 6][..], &[10, 77, 0, 1][..]));
        assert_eq!(ArpPacket::announcement(OWN, ADDRESS).encode()[14..18], [10, 77, 0, 1]);
    }

    #[test]
    fn what_is_not_arp_for_ipv4_names_its_byte() {
        let good = ArpPacket::probe(OWN, ADDRESS).encode();
        let changed = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            ArpPacket::read(&bytes)
        };
        assert_eq!(ArpPacket::read(&good[..27]), Err(ArpError::Short(27)));
        assert_eq!(changed(1, 6), Err(ArpError::OtherNetwork(0)));
        assert_eq!(changed(2, 0x86), Err(ArpError::OtherNetwork(2)));
        assert_eq!(changed(4, 8), Err(ArpError::OtherNetwork(4)));
        assert_eq!(changed(5, 16), Err(ArpError::OtherNetwork(5)));
        assert_eq!(changed(7, 9), Err(ArpError::Operation(9)));
        let padded = [&good[..], &[0; 18]].concat();
        assert_eq!(ArpPacket::read(&padded), Ok(ArpPacket::probe(OWN, ADDRESS)));
    }

    #[test]
    fn a_conflict_is_another_machine_with_the_address_or_one_that_probes_for_it() {
        let reply = ArpPacket { operation: ArpOperation::Reply, ..ArpPacket::announcement(OTHER, ADDRESS) };
        let asks = ArpPacket { sender_address: Ipv4Addr::new(10, 77, 0, 9), ..ArpPacket::probe(OTHER, ADDRESS) };
        for (packet, in_probe, in_use) in [
            (reply, true, true),
            (ArpPacket::announcement(OTHER, ADDRESS), true, true),
            (ArpPacket::probe(OTHER, ADDRESS), true, false),
            (asks, false, false),
            (ArpPacket::announcement(OWN, ADDRESS), false, false),
            (ArpPacket::probe(OWN, ADDRESS), false, false),
            (ArpPacket::announcement(OTHER, Ipv4Addr::new(10, 77, 0, 2)), false, false),
        ] {
            assert_eq!(packet.conflicts_with_probe(OWN, ADDRESS), in_probe, "{packet:?}");
            assert_eq!(packet.conflicts_with_use(OWN, ADDRESS), in_use, "{packet:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_what_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(packet) = ArpPacket::read(&bytes) {
                prop_assert_eq!(&packet.encode()[..], &bytes[..ARP_BYTES]);
            }
        }
    }
}
