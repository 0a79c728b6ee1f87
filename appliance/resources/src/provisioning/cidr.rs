//! A provisioning network's block of addresses.

use std::net::IpAddr;

/// An address block. The base keeps the bits below the prefix that the user wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub base: IpAddr,
    pub prefix: u8,
}

impl Cidr {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (base, prefix) = text.split_once('/')?;
        let (base, digits): (IpAddr, &str) = (base.parse().ok()?, prefix);
        let legal = !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
        let prefix: u8 = if legal { digits.parse().ok()? } else { return None };
        (prefix <= if base.is_ipv4() { 32 } else { 128 }).then_some(Self { base, prefix })
    }

    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4() && self.network(address) == self.network(self.base)
    }

    /// Whether this is the address of the network itself, or its broadcast address: no host can have it.
    #[must_use]
    pub fn is_end(&self, address: IpAddr) -> bool {
        let has_ends = self.base.is_ipv4() && self.prefix < 31;
        has_ends && (address == self.first() || address == self.last())
    }

    /// First address of the block.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        match self.base {
            IpAddr::V4(base) => IpAddr::V4((u32::from(base) & self.mask_v4()).into()),
            IpAddr::V6(base) => IpAddr::V6((u128::from(base) & self.mask_v6()).into()),
        }
    }

    /// Last address of the block; the broadcast address in IPv4.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        match self.base {
            IpAddr::V4(base) => IpAddr::V4((u32::from(base) | !self.mask_v4()).into()),
            IpAddr::V6(base) => IpAddr::V6((u128::from(base) | !self.mask_v6()).into()),
        }
    }

    fn network(&self, address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(address) => u128::from(u32::from(address) & self.mask_v4()),
            IpAddr::V6(address) => u128::from(address) & self.mask_v6(),
        }
    }

    fn mask_v4(&self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0)
    }

    fn mask_v6(&self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.prefix.min(128))).unwrap_or(0)
    }
}
