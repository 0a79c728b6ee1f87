//! A block of IP addresses, as `192.0.2.0/24` or `2001:db8::/32`; a lone address is a block of one.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;

/// Addresses that begin with the same bits. An IPv4 address in its IPv6 form (RFC 4291, section 2.5.5.2) is the IPv4
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressBlock(IpNet);

/// Why a text is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBlockError {
    Address,
    /// More bits than an address has, or no number.
    PrefixLength,
    /// The address has bits behind the prefix, so that it is unclear what is meant.
    HostBits,
}

impl fmt::Display for AddressBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "is no IP address, with or without /PREFIX",
            Self::PrefixLength => "has a prefix that is no number from 0 to 32, or to 128 for IPv6",
            Self::HostBits => "has an address with bits behind its prefix: set them to zero",
        })
    }
}

impl std::error::Error for AddressBlockError {}

impl AddressBlock {
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

/// The block with this address alone.
impl From<IpAddr> for AddressBlock {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }
}

impl FromStr for AddressBlock {
    type Err = AddressBlockError;

    fn from_str(text: &str) -> Result<Self, AddressBlockError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| AddressBlockError::Address)?;
        let Some(prefix) = prefix else { return Ok(address.into()) };
        let block = block_of(address, prefix).ok_or(AddressBlockError::PrefixLength)?;
        if block.network() == address { Ok(Self(block)) } else { Err(AddressBlockError::HostBits) }
    }
}

/// Reads a block whose address may have bits behind the prefix, which it keeps: a host's address with its network.
#[must_use]
pub fn parse_network(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    block_of(address.parse().ok()?, prefix)
}

/// Says whether this is the address of the network itself, or its broadcast address: no host can have it.
#[must_use]
pub fn is_network_end(network: &IpNet, address: IpAddr) -> bool {
    let has_ends = network.addr().is_ipv4() && network.prefix_len() < 31;
    has_ends && (address == network.network() || address == network.broadcast())
}

fn block_of(address: IpAddr, prefix: &str) -> Option<IpNet> {
    let is_digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let length = prefix.parse().ok().filter(|_| is_digits)?;
    IpNet::new(address, length).ok()
}

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_addresses_that_begin_with_it() {
        for (block, inside, outside) in [
            ("127.0.0.0/8", "127.255.0.1", "128.0.0.1"),
            ("10.77.0.0/24", "10.77.0.255", "10.77.1.0"),
            ("10.77.0.1", "10.77.0.1", "10.77.0.2"),
            ("10.77.0.1/32", "::ffff:10.77.0.1", "10.77.0.0"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("::1/128", "::1", "::2"),
        ] {
            let read: AddressBlock = block.parse().unwrap();
            assert!(read.contains(inside.parse().unwrap()), "{inside} is in {block}");
            assert!(!read.contains(outside.parse().unwrap()), "{outside} is not in {block}");
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        assert_eq!("10.77.0.1".parse::<AddressBlock>().unwrap().to_string(), "10.77.0.1/32");
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for (text, error) in [
            ("", AddressBlockError::Address),
            ("localhost", AddressBlockError::Address),
            ("10.0.0.0.0/8", AddressBlockError::Address),
            ("10.0.0.0/", AddressBlockError::PrefixLength),
            ("10.0.0.0/+8", AddressBlockError::PrefixLength),
            ("10.0.0.0/33", AddressBlockError::PrefixLength),
            ("::/129", AddressBlockError::PrefixLength),
            ("10.0.0.1/8", AddressBlockError::HostBits),
            ("fd00::1/64", AddressBlockError::HostBits),
        ] {
            assert_eq!(text.parse::<AddressBlock>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_network_keeps_the_address_that_it_was_written_with() {
        let network = parse_network("192.0.2.7/24").unwrap();
        assert_eq!(network.to_string(), "192.0.2.7/24");
        assert_eq!(
            (network.network(), network.broadcast()),
            ("192.0.2.0".parse().unwrap(), "192.0.2.255".parse().unwrap())
        );
        for (network, address, is_end) in [
            ("192.0.2.7/24", "192.0.2.0", true),
            ("192.0.2.7/24", "192.0.2.255", true),
            ("192.0.2.7/24", "192.0.2.7", false),
            ("192.0.2.7/31", "192.0.2.6", false),
            ("fd00::1/64", "fd00::", false),
        ] {
            let network = parse_network(network).unwrap();
            assert_eq!(is_network_end(&network, address.parse().unwrap()), is_end, "{network} {address}");
        }
        for bad in ["", "192.0.2.7", "192.0.2.7/", "192.0.2.7/33", "192.0.2.7/+8", "::/129", "192.000.2.7/24", "/24"] {
            assert_eq!(parse_network(bad), None, "{bad}");
        }
    }
}
