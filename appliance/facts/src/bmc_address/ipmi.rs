//! `ipmi://HOST[:PORT][?privilegelevel=LEVEL]`, as upstream writes it.
//!
//! An address without a scheme is IPMI too, and `libvirt://` is the same driver under the name that
//! development set-ups use for a virtual BMC.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::scheme::{ADDRESS_BYTES_MAX, AddressError};

/// RMCP's primary port.
pub const PORT: u16 = 623;
/// The longest DNS name (RFC 1035).
const NAME_BYTES_MAX: usize = 253;

/// The privilege that a session asks for. Less than an operator may neither switch power nor set boot options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Privilege {
    Operator,
    #[default]
    Administrator,
}

impl Privilege {
    pub const ALL: [Self; 2] = [Self::Operator, Self::Administrator];

    /// Reads its name, in either case.
    #[must_use]
    pub fn read(level: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|privilege| privilege.as_str().eq_ignore_ascii_case(level))
    }

    /// The number in Open Session, RAKP 1 and Set Session Privilege Level.
    #[must_use]
    pub fn level(self) -> u8 {
        match self {
            Self::Operator => 3,
            Self::Administrator => 4,
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "OPERATOR",
            Self::Administrator => "ADMINISTRATOR",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IpmiAddress {
    /// A name, or an address without brackets.
    host: String,
    port: u16,
    privilege: Privilege,
}

impl IpmiAddress {
    /// Whether this text is for this driver.
    #[must_use]
    pub fn claims(text: &str) -> bool {
        text.split_once("://")
            .is_none_or(|(scheme, _)| scheme.eq_ignore_ascii_case("ipmi") || scheme.eq_ignore_ascii_case("libvirt"))
    }

    /// # Errors
    /// What keeps the text from being an address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        if !Self::claims(text) {
            return Err(AddressError::UnknownScheme);
        }
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        if place.contains('@') {
            return Err(AddressError::Credentials);
        }
        let (host, port) = host_and_port(place.strip_suffix('/').unwrap_or(place)).ok_or(AddressError::NotIpmi)?;
        let privilege = query.map_or(Ok(Privilege::default()), privilege_of)?;
        Ok(Self { host: host.to_owned(), port, privilege })
    }

    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    #[must_use]
    pub fn privilege(&self) -> Privilege {
        self.privilege
    }
}

fn privilege_of(query: &str) -> Result<Privilege, AddressError> {
    let level = query.strip_prefix("privilegelevel=").ok_or(AddressError::NotIpmi)?;
    Privilege::read(level).ok_or(AddressError::Privilege)
}

fn host_and_port(place: &str) -> Option<(&str, u16)> {
    // An IPv6 address may come without brackets, and then without a port.
    if place.parse::<Ipv6Addr>().is_ok() {
        return Some((place, PORT));
    }
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        let port = if rest.is_empty() { PORT } else { port_of(rest.strip_prefix(':')?)? };
        return Some((host, port));
    }
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, port_of(port)?),
        None => (place, PORT),
    };
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_host = host.parse::<IpAddr>().is_ok() || host.len() <= NAME_BYTES_MAX && host.split('.').all(is_label);
    is_host.then_some((host, port))
}

fn port_of(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

impl fmt::Display for IpmiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "ipmi://[{}]", self.host)?;
        } else {
            write!(f, "ipmi://{}", self.host)?;
        }
        if self.port != PORT {
            write!(f, ":{}", self.port)?;
        }
        if self.privilege != Privilege::default() {
            write!(f, "?privilegelevel={}", self.privilege.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn upstream_addresses_are_read() {
        for (text, host, port, privilege) in [
            ("ipmi://10.0.0.5", "10.0.0.5", 623, Privilege::Administrator),
            ("10.0.0.5", "10.0.0.5", 623, Privilege::Administrator),
            ("10.0.0.5:6230", "10.0.0.5", 6230, Privilege::Administrator),
            ("IPMI://bmc-7.rack1.example:6230/", "bmc-7.rack1.example", 6230, Privilege::Administrator),
            ("libvirt://192.168.122.1:6233", "192.168.122.1", 6233, Privilege::Administrator),
            ("ipmi://[fd00::1]", "fd00::1", 623, Privilege::Administrator),
            ("ipmi://[fd00::1]:6230", "fd00::1", 6230, Privilege::Administrator),
            ("ipmi://fd00::1", "fd00::1", 623, Privilege::Administrator),
            ("ipmi://10.0.0.5:623?privilegelevel=OPERATOR", "10.0.0.5", 623, Privilege::Operator),
            ("ipmi://10.0.0.5/?privilegelevel=operator", "10.0.0.5", 623, Privilege::Operator),
        ] {
            let address = IpmiAddress::parse(text).unwrap();
            assert_eq!((address.host(), address.port(), address.privilege()), (host, port, privilege), "{text}");
            assert_eq!(IpmiAddress::parse(&address.to_string()), Ok(address), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (text, error) in [
            ("ipmi://", AddressError::NotIpmi),
            ("", AddressError::NotIpmi),
            ("ipmi://a b", AddressError::NotIpmi),
            ("ipmi://a..b", AddressError::NotIpmi),
            ("ipmi://a:0", AddressError::NotIpmi),
            ("ipmi://a:+1", AddressError::NotIpmi),
            ("ipmi://a:65536", AddressError::NotIpmi),
            ("ipmi://[fd00::1", AddressError::NotIpmi),
            ("ipmi://[name]", AddressError::NotIpmi),
            ("ipmi://a/redfish/v1", AddressError::NotIpmi),
            ("ipmi://a?cipher=0", AddressError::NotIpmi),
            ("ipmi://a?privilegelevel=USER", AddressError::Privilege),
            ("ipmi://admin:secret@a", AddressError::Credentials),
            ("redfish://a/redfish/v1/Systems/1", AddressError::UnknownScheme),
            ("ipmi+http://a", AddressError::UnknownScheme),
            (&"a".repeat(ADDRESS_BYTES_MAX + 1), AddressError::TooLong),
        ] {
            assert_eq!(IpmiAddress::parse(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_round_trips(text in "(ipmi://|libvirt://)?[a-z0-9.:?=/@\\[\\]-]{0,40}") {
            if let Ok(address) = IpmiAddress::parse(&text) {
                prop_assert_eq!(IpmiAddress::parse(&address.to_string()), Ok(address));
            }
        }
    }
}
