//! What a relay says in its option 82 (RFC 3046) that changes an answer.

use std::net::Ipv4Addr;

use crate::wire::{Packet, code};

/// RFC 3527: the network of the client, where the relay's own address is in another one.
const LINK_SELECTION: u8 = 5;
/// RFC 5107: the server identifier of the answer, by which a relay has clients renew through it.
const SERVER_ID_OVERRIDE: u8 = 11;

pub(crate) fn link(request: &Packet) -> Option<Ipv4Addr> {
    address(request, LINK_SELECTION)
}

pub(crate) fn server_id(request: &Packet) -> Option<Ipv4Addr> {
    address(request, SERVER_ID_OVERRIDE)
}

/// The address in a suboption; none of a client that wrote the option itself, for no relay passed its request on.
fn address(request: &Packet, suboption: u8) -> Option<Ipv4Addr> {
    let mut suboptions = request.options.get(code::RELAY_AGENT).filter(|_| !request.giaddr.is_unspecified())?;
    while let [code, length, rest @ ..] = suboptions {
        let (value, after) = rest.split_at_checked(usize::from(*length))?;
        if *code == suboption {
            let address = Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?);
            return Some(address).filter(|address| !address.is_unspecified());
        }
        suboptions = after;
    }
    None
}
