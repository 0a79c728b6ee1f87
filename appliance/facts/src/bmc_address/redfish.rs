//! Redfish's addresses: `SCHEME[+http|+https]://HOST[:PORT][/PREFIX]/redfish/v1/Systems/ID`.

use std::fmt;

use url::Url;

use super::scheme::{ADDRESS_BYTES_MAX, AddressError, Family, given_up};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BmcUrl {
    family: Family,
    /// Scheme, host and port, with `/` as path.
    origin: Url,
    /// What stands before `/redfish`, such as `/bmc/7`; mostly nothing.
    prefix: String,
    /// Path of the system's resource, without the prefix.
    system: Option<String>,
}

impl BmcUrl {
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
        if let Some(family) = Family::read(driver).filter(|family| !family.is_ipmi()) {
            return Self::from_url(family, transport, rest);
        }
        match given_up(driver) {
            Some(instead) => Err(AddressError::GivenUp { scheme: driver.to_owned(), instead }),
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

impl fmt::Display for BmcUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.origin.as_str().trim_end_matches('/');
        let service = if self.prefix.is_empty() { "" } else { SERVICE };
        write!(f, "{}+{origin}{}{}", self.family.as_str(), self.prefix, self.system.as_deref().unwrap_or(service))
    }
}

pub const REDFISH: &str = "/redfish";
const SERVICE: &str = "/redfish/v1";
pub const SYSTEMS: &str = "/redfish/v1/Systems";
/// The most parts behind `Systems`: upstream's drivers know one, and two where a service has namespaces.
const SYSTEM_PARTS_MAX: usize = 2;

/// Where the service begins in the path of an address, if it is there.
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

/// A path of which no part leads out of it.
#[must_use]
pub fn is_plain(path: &str) -> bool {
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
            let address = BmcUrl::parse(text).unwrap();
            assert_eq!(address.origin().as_str(), origin, "{text}");
            assert_eq!(address.system(), system, "{text}");
            assert_eq!(BmcUrl::parse(&address.to_string()), Ok(address), "{text}");
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
            assert_eq!(BmcUrl::parse(text).unwrap().prefix(), prefix, "{text}");
        }
    }

    #[test]
    fn schemes_that_were_given_up_are_told_from_wrong_ones() {
        for (text, instead) in [
            ("ilo4-virtualmedia://10.0.0.5/redfish/v1/Systems/1", "ipmi"),
            ("irmc://10.0.0.5", "redfish"),
            ("idrac+http://10.0.0.5", "idrac-redfish"),
        ] {
            let error = BmcUrl::parse(text).unwrap_err();
            assert!(matches!(&error, AddressError::GivenUp { instead: use_it, .. } if *use_it == instead), "{text}");
            assert!(error.to_string().contains(instead), "{error}");
        }
        for text in ["ftp://10.0.0.5", "ipmi://10.0.0.5", "10.0.0.5", "redfish+ftp://10.0.0.5", "redfishx://a", "://a"]
        {
            assert_eq!(BmcUrl::parse(text), Err(AddressError::UnknownScheme), "{text}");
        }
    }

    #[test]
    fn one_bmc_is_one_place() {
        let place = |text: &str| BmcUrl::parse(text).unwrap().place();
        assert_eq!(place("redfish://BMC.example/redfish/v1/Systems/1"), "bmc.example:443");
        assert_eq!(place("idrac-virtualmedia+https://bmc.example:443/redfish/v1/Systems/2"), "bmc.example:443");
        assert_eq!(place("redfish+http://[fd00::1]"), "[fd00::1]:80");
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
            assert_eq!(BmcUrl::parse(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_round_trips(text in "((redfish|ilo5-virtualmedia)(\\+https?)?://)?[ -~]{0,40}") {
            if let Ok(address) = BmcUrl::parse(&text) {
                prop_assert_eq!(BmcUrl::parse(&address.to_string()), Ok(address));
            }
        }
    }
}
