//! Looking for another DHCP server on the wire: the question and how to read the answers.
//!
//! It must not know sockets; the driver sends the one and hears the others.

use std::net::Ipv4Addr;

use firesteel_facts::Mac;

use crate::wire::{self, DhcpOperation, MessageType, Packet, WireError, code};

/// An OFFER that was not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherServer {
    pub server: Ipv4Addr,
    pub offered: Ipv4Addr,
    /// The relay that passed it on, if any.
    pub relay: Option<Ipv4Addr>,
}

/// A DISCOVER that no real client sends; answers come by broadcast.
pub fn discover(mac: Mac, xid: u32) -> Result<Vec<u8>, WireError> {
    let mut packet = Packet::new(DhcpOperation::Request, xid, mac);
    packet.broadcast = true;
    packet.options.set_message_type(MessageType::Discover);
    // As a PXE client, so that proxy servers, which speak to those only, are found as well.
    packet.options.set(code::VENDOR_CLASS, *b"PXEClient:Arch:00007:UNDI:003001");
    packet.options.set(code::ARCHITECTURE, [0, 7]);
    packet.options.set(code::UNDI_VERSION, [1, 3, 1]);
    packet.options.set(
        code::PARAMETER_LIST,
        [code::SUBNET_MASK, code::ROUTER, code::SERVER_ID, code::LEASE_TIME, code::TFTP_SERVER, code::BOOT_FILE],
    );
    wire::encode(&packet)
}

/// Reads a datagram that came to port 68 after [`discover`].
pub fn read_offer(bytes: &[u8], mac: Mac, xid: u32) -> Option<OtherServer> {
    let packet = wire::decode(bytes).ok()?;
    let ours = packet.operation == DhcpOperation::Reply && packet.xid == xid && packet.mac == mac;
    if !ours || packet.options.message_type() != Some(MessageType::Offer) {
        return None;
    }
    Some(OtherServer {
        server: packet.options.address(code::SERVER_ID)?,
        offered: packet.yiaddr,
        relay: (!packet.giaddr.is_unspecified()).then_some(packet.giaddr),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hears_offers_to_itself_only() {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let question = discover(mac, 7).expect("it can be written");
        assert!(question.len() >= 300);
        assert_eq!(read_offer(&question, mac, 7), None, "a request is no offer");

        let mut offer = Packet::new(DhcpOperation::Reply, 7, mac);
        offer.options.set_message_type(MessageType::Offer);
        offer.options.set(code::SERVER_ID, [10, 0, 0, 1]);
        offer.yiaddr = Ipv4Addr::new(10, 0, 0, 50);
        let bytes = wire::encode(&offer).expect("it can be written");
        let found = OtherServer { server: Ipv4Addr::new(10, 0, 0, 1), offered: offer.yiaddr, relay: None };
        assert_eq!(read_offer(&bytes, mac, 7), Some(found));
        let relay = Ipv4Addr::new(10, 9, 0, 1);
        let relayed = wire::encode(&Packet { giaddr: relay, ..offer.clone() }).expect("it can be written");
        assert_eq!(read_offer(&relayed, mac, 7), Some(OtherServer { relay: Some(relay), ..found }));
        offer.options.set_message_type(MessageType::Ack);
        assert_eq!(read_offer(&wire::encode(&offer).expect("it can be written"), mac, 7), None, "an ACK is none");
        assert_eq!(read_offer(&bytes, mac, 8), None);
        assert_eq!(read_offer(&bytes, Mac([2, 0, 0, 0, 0, 8]), 7), None);
    }
}
