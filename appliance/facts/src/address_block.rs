//! A block of IP addresses, as `192.0.2.0/24` or `2001:db8::/32`; a lone address is a block of one.

use std::{fmt, net::IpAddr, str::FromStr};

/// Addresses that begin with the same bits. An IPv4 address in its IPv6 form (RFC 4291, section 2.5.5.2) is the IPv4
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressBlock {
    address: IpAddr,
    prefix_length: u8,
}

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
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix_length)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix_length)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// The block with this address alone.
impl From<IpAddr> for AddressBlock {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix_length: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for AddressBlock {
    type Err = AddressBlockError;

    fn from_str(text: &str) -> Result<Self, AddressBlockError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| AddressBlockError::Address)?;
        let Some(prefix) = prefix else { return Ok(address.into()) };
        let is_digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix_length: u8 = prefix.parse().ok().filter(|_| is_digits).ok_or(AddressBlockError::PrefixLength)?;
        let (bits, has_host_bits) = match address {
            IpAddr::V4(own) => (32, own.to_bits().checked_shl(prefix_length.into()).is_some_and(|rest| rest != 0)),
            IpAddr::V6(own) => (128, own.to_bits().checked_shl(prefix_length.into()).is_some_and(|rest| rest != 0)),
        };
        if prefix_length > bits {
            return Err(AddressBlockError::PrefixLength);
        }
        if has_host_bits {
            return Err(AddressBlockError::HostBits);
        }
        Ok(Self { address, prefix_length })
    }
}

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
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
}
