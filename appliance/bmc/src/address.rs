//! `bmc.address` of a host, in upstream's words, to where the BMC is asked and how its host is booted.
//!
//! ```text
//! ipmi, libvirt, or no scheme at all             IPMI (see [`crate::ipmi`])     PXE
//! redfish, idrac-redfish, ilo5-redfish           Redfish                        PXE
//! redfish-uefihttp                               Redfish                        UEFI HTTP Boot
//! {redfish,idrac,ilo5}-virtualmedia              Redfish                        a CD by virtual media
//! ```
//!
//! Redfish's schemes are HTTPS, or what `+http` and `+https` say. Nothing but the scheme decides how
//! a host is booted ([`BmcAddress::boot_via`]); the vendor in it is for people: what a service is, it says
//! itself (see [`crate::quirks`]). Schemes of drivers that upstream has given up are known by name, so that the
//! answer says what to write instead. An address names the system's resource, by one or two parts of a path
//! (`Systems/1`, `Systems/namespace/name`); without a path the service must have exactly one. What stands before
//! `/redfish` is where a gateway keeps this service: all requests go below it.

use std::fmt;

use url::Url;

use crate::ipmi::IpmiAddress;

/// Of the text, as it is given and as it is shown; real ones are below 100.
pub const ADDRESS_BYTES_MAX: usize = 512;

/// A scheme of Redfish without its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Redfish,
    RedfishVirtualMedia,
    RedfishUefiHttp,
    IdracRedfish,
    IdracVirtualMedia,
    Ilo5Redfish,
    Ilo5VirtualMedia,
}

/// How a host is made to boot our ramdisk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BootVia {
    Pxe,
    /// An ISO image that the BMC shows as a CD.
    VirtualCd,
    UefiHttp,
}

impl Family {
    pub const ALL: [Self; 7] = [
        Self::Redfish,
        Self::RedfishVirtualMedia,
        Self::RedfishUefiHttp,
        Self::IdracRedfish,
        Self::IdracVirtualMedia,
        Self::Ilo5Redfish,
        Self::Ilo5VirtualMedia,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redfish => "redfish",
            Self::RedfishVirtualMedia => "redfish-virtualmedia",
            Self::RedfishUefiHttp => "redfish-uefihttp",
            Self::IdracRedfish => "idrac-redfish",
            Self::IdracVirtualMedia => "idrac-virtualmedia",
            Self::Ilo5Redfish => "ilo5-redfish",
            Self::Ilo5VirtualMedia => "ilo5-virtualmedia",
        }
    }

    #[must_use]
    pub fn boot_via(self) -> BootVia {
        match self {
            Self::Redfish | Self::IdracRedfish | Self::Ilo5Redfish => BootVia::Pxe,
            Self::RedfishVirtualMedia | Self::IdracVirtualMedia | Self::Ilo5VirtualMedia => BootVia::VirtualCd,
            Self::RedfishUefiHttp => BootVia::UefiHttp,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    family: Family,
    /// Scheme, host and port, with `/` as path.
    origin: Url,
    /// What stands before `/redfish`, such as `/bmc/7`; mostly nothing.
    prefix: String,
    /// Path of the system's resource, without the prefix.
    system: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("BMC address scheme `{scheme}` is one that upstream has given up: use {instead}://")]
    GivenUp { scheme: String, instead: &'static str },
    #[error(
        "BMC address scheme is not known: use redfish://, redfish-virtualmedia://, redfish-uefihttp://, \
         idrac-redfish://, idrac-virtualmedia://, ilo5-redfish://, ilo5-virtualmedia://, each also with +http or \
         +https, or ipmi://"
    )]
    UnknownScheme,
    #[error("BMC address is not a URL of the form redfish://HOST[:PORT]/redfish/v1/Systems/ID")]
    NotAUrl,
    #[error("BMC address is not of the form ipmi://HOST[:PORT][?privilegelevel=OPERATOR]")]
    NotIpmi,
    #[error(
        "BMC address asks for a privilege level that is neither ADMINISTRATOR nor OPERATOR: others may not do enough"
    )]
    Privilege,
    #[error("BMC address is longer than {ADDRESS_BYTES_MAX} bytes: shorten the host name or the path")]
    TooLong,
    #[error("BMC address holds a user or password: put them into the Secret that bmc.credentialsName names")]
    Credentials,
    #[error(
        "BMC address has a query or fragment, or a path that is not of the form [/PREFIX]/redfish/v1/Systems/ID: an \
         ID has one or two parts"
    )]
    Path,
}

/// Schemes of drivers that upstream once had, and those that took their place.
const GIVEN_UP: &[(&str, &str)] = &[
    ("idrac", "idrac-redfish"),
    ("ilo4", "ipmi"),
    ("ilo4-virtualmedia", "ipmi"),
    ("ilo5", "ilo5-redfish"),
    ("irmc", "redfish"),
];

impl Address {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        // Without a scheme upstream means IPMI, which is none of this driver's.
        let Some((scheme, rest)) = text.split_once("://") else { return Err(AddressError::UnknownScheme) };
        let scheme = scheme.to_ascii_lowercase();
        let (driver, transport) = scheme.split_once('+').unwrap_or((&scheme, "https"));
        if !matches!(transport, "http" | "https") {
            return Err(AddressError::UnknownScheme);
        }
        if let Some(family) = Family::ALL.into_iter().find(|family| family.as_str() == driver) {
            return Self::from_url(family, transport, rest);
        }
        match GIVEN_UP.iter().find(|(old, _)| *old == driver) {
            Some((old, instead)) => Err(AddressError::GivenUp { scheme: (*old).to_owned(), instead }),
            None => Err(AddressError::UnknownScheme),
        }
    }

    fn from_url(family: Family, transport: &str, rest: &str) -> Result<Self, AddressError> {
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('\\') || rest.starts_with('/') {
            return Err(AddressError::NotAUrl);
        }
        let mut url = Url::parse(&format!("{transport}://{rest}")).map_err(|_| AddressError::NotAUrl)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(AddressError::Path);
        }
        let path = url.path().trim_end_matches('/').to_owned();
        let (prefix, path) = path.split_at(prefix_length(&path).ok_or(AddressError::Path)?);
        let system = match path {
            "" | REDFISH | SERVICE | SYSTEMS => None,
            path if path.strip_prefix(SYSTEMS).is_some_and(is_system) => Some(path.to_owned()),
            _ => return Err(AddressError::Path),
        };
        let prefix = prefix.to_owned();
        url.set_path("/");
        let address = Self { family, origin: url, prefix, system };
        // Shown in full, with what had to be percent-encoded: that must be an address again.
        if address.to_string().len() > ADDRESS_BYTES_MAX { Err(AddressError::TooLong) } else { Ok(address) }
    }

    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// Host and port: one BMC, whichever of its systems is meant.
    #[must_use]
    pub fn place(&self) -> String {
        let port = self.origin.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", self.origin.host_str().unwrap_or_default())
    }

    #[must_use]
    pub fn origin(&self) -> &Url {
        &self.origin
    }

    /// What stands before `/redfish` in the path of each resource.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The path of the system, without the [prefix](Self::prefix).
    #[must_use]
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.origin.as_str().trim_end_matches('/');
        let service = if self.prefix.is_empty() { "" } else { SERVICE };
        write!(f, "{}+{origin}{}{}", self.family.as_str(), self.prefix, self.system.as_deref().unwrap_or(service))
    }
}

/// Where a BMC is asked, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BmcAddress {
    Redfish(Address),
    Ipmi(IpmiAddress),
}

impl BmcAddress {
    /// # Errors
    /// What keeps the text from being an address of a protocol that is spoken here.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if IpmiAddress::claims(text) {
            IpmiAddress::parse(text).map(Self::Ipmi)
        } else {
            Address::parse(text).map(Self::Redfish)
        }
    }

    /// Host and port where it is asked, spelled out or not: one BMC, whichever of its systems is meant.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Redfish(address) => address.place(),
            Self::Ipmi(address) => format!("{}:{}", address.host().to_ascii_lowercase(), address.port()),
        }
    }

    /// How the host of this BMC is to be booted.
    #[must_use]
    pub fn boot_via(&self) -> BootVia {
        match self {
            Self::Redfish(address) => address.family.boot_via(),
            Self::Ipmi(_) => BootVia::Pxe,
        }
    }
}

impl fmt::Display for BmcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redfish(address) => address.fmt(f),
            Self::Ipmi(address) => address.fmt(f),
        }
    }
}

pub(crate) const REDFISH: &str = "/redfish";
const SERVICE: &str = "/redfish/v1";
pub(crate) const SYSTEMS: &str = "/redfish/v1/Systems";
/// Of what follows `Systems`: upstream's drivers know one, and two where a service has namespaces.
const SYSTEM_PARTS_MAX: usize = 2;

/// Where the service begins in the path of an address. `None`: nowhere.
fn prefix_length(path: &str) -> Option<usize> {
    if path.is_empty() || path == REDFISH {
        return Some(0);
    }
    let begins = |(at, _): &(usize, &str)| {
        let after = path.get(at + SERVICE.len()..).unwrap_or_default();
        after.is_empty() || after.starts_with('/')
    };
    let at = path.match_indices(SERVICE).find(begins).map(|(at, _)| at)?;
    path.get(..at).filter(|prefix| prefix.is_empty() || is_plain(prefix)).map(str::len)
}

/// What follows [`SYSTEMS`] in a path: the parts that name one system.
fn is_system(rest: &str) -> bool {
    let parts = rest.split('/').skip(1);
    rest.starts_with('/')
        && (1..=SYSTEM_PARTS_MAX).contains(&parts.clone().count())
        && !parts.into_iter().any(str::is_empty)
}

/// A path that a BMC gave for one of its own resources: absolute, on the same origin, plain. Anything else could carry
/// the request (and its credentials) elsewhere.
#[must_use]
pub fn own_path(path: &str) -> Option<&str> {
    (is_plain(path) && path.contains("/redfish/")).then_some(path)
}

/// A path of which no part leads out of it.
pub(crate) fn is_plain(path: &str) -> bool {
    let is_text = path.bytes().all(|byte| byte.is_ascii_graphic()) && !path.contains(['\\', '#', '?']);
    let is_inside = path.starts_with('/') && !path.contains("//") && !path.split('/').any(leads_elsewhere);
    is_text && is_inside && path.len() <= ADDRESS_BYTES_MAX
}

/// `.` and `..`, also with their dots percent-encoded: URLs take all of these for the same (WHATWG URL, section 4.4).
fn leads_elsewhere(part: &str) -> bool {
    matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn upstream_addresses_are_read() {
        for (text, origin, system) in [
            ("redfish://10.0.0.5/redfish/v1/Systems/1", "https://10.0.0.5/", Some("/redfish/v1/Systems/1")),
            ("redfish+https://bmc.example:8443", "https://bmc.example:8443/", None),
            (
                "redfish+http://[fd00::1]:8000/redfish/v1/Systems/a-b/",
                "http://[fd00::1]:8000/",
                Some("/redfish/v1/Systems/a-b"),
            ),
            ("REDFISH://10.0.0.5/", "https://10.0.0.5/", None),
            ("redfish://10.0.0.5/redfish/v1", "https://10.0.0.5/", None),
            (
                "redfish+http://10.0.0.5/redfish/v1/Systems/cluster/node-0",
                "http://10.0.0.5/",
                Some("/redfish/v1/Systems/cluster/node-0"),
            ),
            ("redfish://10.0.0.5/bmc/7/redfish/v1/Systems/1", "https://10.0.0.5/", Some("/redfish/v1/Systems/1")),
            ("redfish://10.0.0.5/bmc/7/redfish/v1/", "https://10.0.0.5/", None),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.origin().as_str(), origin, "{text}");
            assert_eq!(address.system(), system, "{text}");
            assert_eq!(Address::parse(&address.to_string()), Ok(address), "{text}");
        }
    }

    #[test]
    fn what_stands_before_the_service_is_kept() {
        for (text, prefix) in [
            ("redfish://10.0.0.5/bmc/7/redfish/v1/Systems/1", "/bmc/7"),
            ("redfish://10.0.0.5/bmc/7/redfish/v1", "/bmc/7"),
            ("redfish://10.0.0.5/redfish/redfish/v1/Systems/1", "/redfish"),
            ("redfish://10.0.0.5/redfish/v1/Systems/1", ""),
            ("redfish://10.0.0.5", ""),
        ] {
            assert_eq!(Address::parse(text).unwrap().prefix(), prefix, "{text}");
        }
    }

    #[test]
    fn each_scheme_of_upstream_is_read_with_each_transport_and_says_how_to_boot() {
        for (scheme, via) in [
            ("redfish", BootVia::Pxe),
            ("redfish-virtualmedia", BootVia::VirtualCd),
            ("redfish-uefihttp", BootVia::UefiHttp),
            ("idrac-redfish", BootVia::Pxe),
            ("idrac-virtualmedia", BootVia::VirtualCd),
            ("ilo5-redfish", BootVia::Pxe),
            ("ilo5-virtualmedia", BootVia::VirtualCd),
        ] {
            for (transport, origin) in
                [("", "https://10.0.0.5/"), ("+https", "https://10.0.0.5/"), ("+http", "http://10.0.0.5/")]
            {
                let text = format!("{scheme}{transport}://10.0.0.5/redfish/v1/Systems/1");
                let address = BmcAddress::parse(&text).unwrap();
                assert_eq!(address.boot_via(), via, "{text}");
                assert_eq!(BmcAddress::parse(&address.to_string()).as_ref(), Ok(&address), "{text}");
                let BmcAddress::Redfish(address) = address else { panic!("{text} is Redfish") };
                assert_eq!((address.origin().as_str(), address.family().as_str()), (origin, scheme), "{text}");
            }
            for wrong in [format!("{scheme}+ftp://10.0.0.5"), format!("{scheme}s://10.0.0.5"), format!("{scheme}+://a")]
            {
                assert_eq!(BmcAddress::parse(&wrong), Err(AddressError::UnknownScheme), "{wrong}");
            }
        }
        for text in ["ipmi://10.0.0.5", "libvirt://10.0.0.5:6230", "10.0.0.5"] {
            assert_eq!(BmcAddress::parse(text).unwrap().boot_via(), BootVia::Pxe, "{text}");
        }
    }

    #[test]
    fn schemes_that_were_given_up_are_told_from_wrong_ones() {
        for (text, instead) in [
            ("ilo4-virtualmedia://10.0.0.5/redfish/v1/Systems/1", "ipmi"),
            ("irmc://10.0.0.5", "redfish"),
            ("idrac+http://10.0.0.5", "idrac-redfish"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(matches!(&error, AddressError::GivenUp { instead: use_it, .. } if *use_it == instead), "{text}");
            assert!(error.to_string().contains(instead), "{error}");
        }
        for text in ["ftp://10.0.0.5", "ipmi://10.0.0.5", "10.0.0.5", "redfish+ftp://10.0.0.5", "redfishx://a", "://a"]
        {
            assert_eq!(Address::parse(text), Err(AddressError::UnknownScheme), "{text}");
        }
    }

    #[test]
    fn one_bmc_is_one_place() {
        let place = |text: &str| Address::parse(text).unwrap().place();
        assert_eq!(place("redfish://BMC.example/redfish/v1/Systems/1"), "bmc.example:443");
        assert_eq!(place("idrac-virtualmedia+https://bmc.example:443/redfish/v1/Systems/2"), "bmc.example:443");
        assert_eq!(place("redfish+http://[fd00::1]"), "[fd00::1]:80");
    }

    #[test]
    fn each_address_goes_to_its_driver() {
        for (text, is_ipmi) in [
            ("redfish://10.0.0.5", false),
            ("ipmi://10.0.0.5:6230", true),
            ("10.0.0.5", true),
            ("libvirt://10.0.0.5:6230", true),
        ] {
            let address = BmcAddress::parse(text).unwrap();
            assert_eq!(matches!(address, BmcAddress::Ipmi(_)), is_ipmi, "{text}");
            assert_eq!(BmcAddress::parse(&address.to_string()), Ok(address), "{text}");
        }
        for text in ["ftp://10.0.0.5", "idrac://10.0.0.5", "ipmi+http://10.0.0.5", ""] {
            assert!(BmcAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_that_lead_elsewhere_are_refused() {
        for (text, error) in [
            ("redfish://root:calvin@10.0.0.5", AddressError::Credentials),
            ("redfish://user@10.0.0.5", AddressError::Credentials),
            ("redfish://10.0.0.5/redfish/v1/Systems/1?a=b", AddressError::Path),
            ("redfish://10.0.0.5/redfish/v1/Systems/1#x", AddressError::Path),
            ("redfish://10.0.0.5/redfish/v1/Systems/a/b/Bios", AddressError::Path),
            ("redfish://10.0.0.5/redfish/v1/Systems/a//b", AddressError::Path),
            ("redfish://10.0.0.5//bmc/redfish/v1/Systems/1", AddressError::Path),
            ("redfish://10.0.0.5/bmcredfish/v1x/Systems/1", AddressError::Path),
            ("redfish://10.0.0.5/redfish/v1/Managers/1", AddressError::Path),
            ("redfish://10.0.0.5/redfish/v1/Systems/../../../x", AddressError::Path),
            ("redfish://10.0.0.5/admin", AddressError::Path),
            ("redfish://", AddressError::NotAUrl),
            ("redfish:///redfish/v1", AddressError::NotAUrl),
            ("redfish://10.0.0.5 /x", AddressError::NotAUrl),
            ("redfish://10.0.0.5\n", AddressError::NotAUrl),
            ("redfish://a\\@b", AddressError::NotAUrl),
            (&format!("redfish://{}", "a".repeat(ADDRESS_BYTES_MAX)), AddressError::TooLong),
            (&format!("redfish://{}", "a".repeat(ADDRESS_BYTES_MAX - "redfish://".len())), AddressError::TooLong),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn links_stay_on_the_service() {
        assert_eq!(own_path("/redfish/v1/Systems/1"), Some("/redfish/v1/Systems/1"));
        assert_eq!(own_path("/bmc/7/redfish/v1/Systems/1"), Some("/bmc/7/redfish/v1/Systems/1"));
        for path in [
            "",
            "redfish/v1",
            "//evil/redfish/",
            "http://evil/",
            "/redfish//x",
            "/redfish/../x",
            "/redfish/%2e%2E/x",
            "/redfish/.%2e",
            "/redfish/./x",
            "/redfish/a b",
            "/redfish/x?y",
            "/other",
        ] {
            assert_eq!(own_path(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_round_trips(text in "((redfish|ilo5-virtualmedia)(\\+https?)?://)?[ -~]{0,40}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(Address::parse(&address.to_string()), Ok(address));
            }
        }
    }
}
