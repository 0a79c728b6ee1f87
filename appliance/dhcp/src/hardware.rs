//! Clients on networks that are not Ethernet: they get no answer, and the caller hears of them.
//!
//! InfiniBand is the one that boots in the field (RFC 4390: hardware type 32, no hardware address, a client
//! identifier). Hosts and leases are keyed by Ethernet addresses here, so that such a client could not be matched with
//! the other boots of its machine.

use crate::wire::{self, BOOT_REQUEST, HEADER_BYTES, MAGIC_COOKIE, WireError, code};

/// The longest client identifier that is shown: a DUID of an InfiniBand port has 21 bytes.
const IDENTIFIER_BYTES_MAX: usize = 32;

/// A DHCP client on a network that is not Ethernet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherHardware {
    /// IANA's "Hardware Types": 32 is InfiniBand.
    pub htype: u8,
    /// Its client identifier, else its hardware address; the first bytes of it.
    pub identifier: Vec<u8>,
}

/// Reads a request that [`wire::decode`] refuses for its hardware; `None` for anything else.
pub(crate) fn read(bytes: &[u8]) -> Option<OtherHardware> {
    let Err(WireError::NotEthernet { htype, hlen }) = wire::decode(bytes) else { return None };
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    if header[0] != BOOT_REQUEST || header[236..] != MAGIC_COOKIE {
        return None;
    }
    let (options, _) = wire::scan_all(header, rest);
    options.message_type()?;
    let address = header[28..44].get(..usize::from(hlen)).unwrap_or_default();
    let identifier = options.get(code::CLIENT_ID).unwrap_or(address);
    Some(OtherHardware { htype, identifier: identifier.iter().copied().take(IDENTIFIER_BYTES_MAX).collect() })
}
