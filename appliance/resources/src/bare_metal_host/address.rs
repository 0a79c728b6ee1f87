//! `spec.bmc.address`: which schemes there are, and what an address has to look like.
//!
//! The driver's parser ([`BmcAddress`]) has the last word. What is said here before has the field's name, and is as
//! strict as upstream.

use firesteel_facts::bmc_address::{ADDRESS_BYTES_MAX, AddressError, BmcAddress, BootVia, Family, Privilege, given_up};

/// Longest part of a name between two dots (RFC 1035).
const HOST_LABEL_BYTES_MAX: usize = 63;
const SERVICE: &str = "/redfish/v1";
/// Most parts of the path after `Systems`.
const SYSTEM_PARTS_MAX: usize = 2;

/// The family of an address, such as `redfish`, in lower case.
#[must_use]
pub fn family(address: &str) -> String {
    let scheme = address.split_once("://").map_or("ipmi", |(scheme, _)| scheme).to_ascii_lowercase();
    scheme.split_once('+').map_or(scheme.as_str(), |(family, _)| family).to_owned()
}

/// Whether the address is of IPMI.
#[must_use]
pub fn is_ipmi(address: &str) -> bool {
    Family::read(&family(address)).is_some_and(Family::is_ipmi)
}

/// Whether the BMC's password goes over the network readably.
#[must_use]
pub fn is_plain_http(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, _)| scheme.to_ascii_lowercase().ends_with("+http"))
}

/// Whether the scheme asks for booting the host from a CD that its BMC shows.
#[must_use]
pub fn is_virtual_media(address: &str) -> bool {
    Family::read(&family(address)).is_some_and(|family| family.boot_via() == BootVia::VirtualCd)
}

/// What is wrong with an address. It goes after the field's value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    #[error("is longer than {} bytes", ADDRESS_BYTES_MAX)]
    TooLong,
    #[error("is no address: it holds a blank, a backslash, or a character that is not ASCII")]
    Characters,
    #[error("is no address")]
    NoScheme,
    #[error("has the scheme {scheme:?}, which upstream has given up: use {instead}")]
    GivenUp { scheme: String, instead: &'static str },
    #[error("has the scheme {scheme:?}; known are {known}, all but the first two also with +http or +https")]
    Scheme { scheme: String, known: String },
    #[error("cannot be used: {0}")]
    Driver(AddressError),
    #[error("has a parameter that is not known: only privilegelevel=OPERATOR and =ADMINISTRATOR are")]
    Parameter,
    #[error("has a query or a fragment, which no BMC's address has")]
    Query,
    #[error("has a path that is not that of a system, such as {}/Systems/1", SERVICE)]
    Path,
    #[error("names no host")]
    NoHost,
    #[error(
        "holds a login, which every reader of the host can see: put it into the Secret that credentialsName \
         names"
    )]
    Login,
    #[error("has a bracket too few")]
    Bracket,
    #[error("BMC address hostname/IP : [{0}] is invalid")]
    Host(String),
    #[error("has the port {0:?}, which is none")]
    Port(String),
}

/// Checks the form of an address.
///
/// # Errors
/// No driver takes the address.
pub fn check(address: &str) -> Result<(), AddressFault> {
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(AddressFault::TooLong);
    }
    if !address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return Err(AddressFault::Characters);
    }
    let Some((scheme, rest)) = address.split_once("://") else {
        return if address.contains('/') { Err(AddressFault::NoScheme) } else { ipmi(address) };
    };
    let scheme = scheme.to_ascii_lowercase();
    let (family, transport) = scheme.split_once('+').map_or((scheme.as_str(), None), |(f, t)| (f, Some(t)));
    if let Some(instead) = given_up(family) {
        return Err(AddressFault::GivenUp { instead, scheme });
    }
    let family = Family::read(family)
        .filter(|family| transport.is_none_or(|transport| !family.is_ipmi() && matches!(transport, "http" | "https")));
    let Some(family) = family else {
        return Err(AddressFault::Scheme { known: Family::ALL.map(Family::as_str).join(", "), scheme });
    };
    if family.is_ipmi() {
        ipmi(rest)?
    } else {
        redfish(rest)?
    }
    BmcAddress::parse(address).map(drop).map_err(AddressFault::Driver)
}

/// Such as `HOST[:PORT][/][?privilegelevel=LEVEL]`.
fn ipmi(rest: &str) -> Result<(), AddressFault> {
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let place = place.strip_suffix('/').unwrap_or(place);
    // An IPv6 address may come without brackets, and then without a port.
    if place.parse::<std::net::Ipv6Addr>().is_err() {
        authority(place)?;
    }
    let Some(query) = query else { return Ok(()) };
    let level = query.strip_prefix("privilegelevel=").unwrap_or_default();
    Privilege::read(level).map(drop).ok_or(AddressFault::Parameter)
}

/// `HOST[:PORT][/PREFIX]/redfish/v1/Systems/ID`, or the service alone, with or without its path, where it has one
/// system. An ID has one or two parts.
fn redfish(rest: &str) -> Result<(), AddressFault> {
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    authority(place)?;
    if path.contains(['?', '#']) {
        return Err(AddressFault::Query);
    }
    let path = format!("/{path}");
    let path = path.trim_end_matches('/');
    let service = match path {
        "" | "/redfish" => Some(""),
        path => path
            .match_indices(SERVICE)
            .map(|(at, _)| path.get(at + SERVICE.len()..).unwrap_or_default())
            .find(|after| after.is_empty() || after.starts_with('/')),
    };
    if service.is_some_and(is_service) && path.split('/').skip(1).all(is_part) {
        Ok(())
    } else {
        Err(AddressFault::Path)
    }
}

/// What follows the service's own path: nothing, its systems, or one of these.
fn is_service(after: &str) -> bool {
    let mut parts = after.split('/').skip(1);
    match parts.next() {
        None => true,
        Some("Systems") => parts.count() <= SYSTEM_PARTS_MAX,
        Some(_) => false,
    }
}

/// One part of a path, which leads nowhere else.
fn is_part(part: &str) -> bool {
    !part.is_empty() && !matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// A host and a port, and no login.
fn authority(text: &str) -> Result<(), AddressFault> {
    if text.is_empty() {
        return Err(AddressFault::NoHost);
    }
    if text.contains('@') {
        return Err(AddressFault::Login);
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or(AddressFault::Bracket)?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(AddressFault::Host(host.to_owned()));
            }
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or_default()) })
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    check_host(host)?;
    match port.map(str::parse::<u16>) {
        None => Ok(()),
        Some(Ok(number)) if number > 0 => Ok(()),
        Some(_) => Err(AddressFault::Port(port.unwrap_or_default().to_owned())),
    }
}

fn check_host(host: &str) -> Result<(), AddressFault> {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.len() <= HOST_LABEL_BYTES_MAX
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
    };
    // A name that ends in a number is taken for an IPv4 address (WHATWG URL, section 3.5).
    let is_number = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if host.parse::<std::net::IpAddr>().is_ok() || !is_number && host.split('.').all(label) {
        Ok(())
    } else {
        Err(AddressFault::Host(host.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use firesteel_facts::bmc_address::GIVEN_UP;

    use super::*;

    #[test]
    fn each_scheme_has_a_good_and_a_bad_address() {
        for family in Family::ALL.map(Family::as_str) {
            if matches!(family, "ipmi" | "libvirt") {
                for good in ["192.0.2.5:6230", "2001:db8::1", "[2001:db8::1]:623"] {
                    assert_eq!(check(&format!("{family}://{good}")), Ok(()), "{family} {good}");
                }
                for bad in ["", "+http"] {
                    let place = if bad.is_empty() { "" } else { "192.0.2.5" };
                    assert!(check(&format!("{family}{bad}://{place}")).is_err(), "{family}{bad}");
                }
                continue;
            }
            for transport in ["", "+http", "+https"] {
                let scheme = format!("{family}{transport}");
                for good in [
                    "192.0.2.5",
                    "192.0.2.5:8443",
                    "192.0.2.5/redfish/v1/Systems/1",
                    "192.0.2.5/redfish/v1/Systems/cluster/node-0",
                    "192.0.2.5/bmc/7/redfish/v1/Systems/1",
                    "192.0.2.5/bmc/7/redfish/v1",
                    "bmc.example:8443/redfish/v1/Systems/a-b/",
                    "[::1]/",
                ] {
                    assert_eq!(check(&format!("{scheme}://{good}")), Ok(()), "{scheme} {good}");
                }
                for bad in [
                    "/redfish/v1/Systems/1",
                    "192.0.2.5/redfish/v1/Systems/a/b/c",
                    "192.0.2.5/redfish/v1/Systems/a//b",
                    "192.0.2.5/../redfish/v1/Systems/1",
                    "192.0.2.5/redfish/v1/Managers/1",
                    "root:calvin@192.0.2.5/redfish/v1/Systems/1",
                    "192.0.2.5/redfish/v1/Systems/1?a=b",
                    "192.0.2.5/redfish/v1/Systems/../../x",
                    "192.0.2.5/x",
                    "2001:db8::1/redfish/v1/Systems/1",
                    "192.0.2.5:0/redfish/v1/Systems/1",
                    "192.0.2.5:port/redfish/v1/Systems/1",
                    "-a.example/redfish/v1/Systems/1",
                ] {
                    assert!(check(&format!("{scheme}://{bad}")).is_err(), "{scheme} {bad}");
                }
            }
            assert!(check(&format!("{family}+ftp://192.0.2.5/redfish/v1/Systems/1")).is_err(), "{family}");
            assert!(check(&format!("{family}+://192.0.2.5/redfish/v1/Systems/1")).is_err(), "{family}");
        }
    }

    #[test]
    fn schemes_that_were_given_up_say_what_to_write() {
        for (scheme, instead) in GIVEN_UP {
            let error = check(&format!("{scheme}://192.0.2.5/redfish/v1/Systems/1"));
            assert!(error.as_ref().is_err_and(|why| why.to_string().ends_with(&format!("use {instead}"))), "{error:?}");
            assert_eq!(check(&format!("{instead}://192.0.2.5/")), Ok(()));
        }
    }

    #[test]
    fn what_a_scheme_means() {
        assert!(is_virtual_media("iDRAC-virtualmedia+https://a/") && !is_virtual_media("redfish-uefihttp://a/"));
        assert!(is_plain_http("redfish+http://a/") && !is_plain_http("redfish://a/") && !is_plain_http("192.0.2.5"));
        assert!(is_ipmi("192.0.2.5") && is_ipmi("libvirt://a") && !is_ipmi("redfish://a/"));
    }
}
