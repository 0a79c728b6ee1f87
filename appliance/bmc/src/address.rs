//! `bmc.address` of a host, in upstream's words, to where the BMC is asked.
//!
//! Supported now: `redfish`, `redfish+https` (both HTTPS) and `redfish+http`. The other schemes
//! that existing manifests carry are known by name, so that the answer is "not yet" rather than
//! "wrong". An address names the system's resource; without a path the service must have exactly one.

use std::fmt;

use reqwest::Url;

/// Of the text, as it is given and as it is shown; real ones are below 100.
pub const ADDRESS_BYTES_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Scheme, host and port, with `/` as path.
    origin: Url,
    /// Path of the system's resource.
    system: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("BMC address scheme `{scheme}` is not supported yet: use redfish://, redfish+https:// or redfish+http://")]
    NotSupportedYet { scheme: String },
    #[error("BMC address scheme is not known: use redfish://, redfish+https:// or redfish+http://")]
    UnknownScheme,
    #[error("BMC address is not a URL of the form redfish://HOST[:PORT]/redfish/v1/Systems/ID")]
    NotAUrl,
    #[error("BMC address is longer than {ADDRESS_BYTES_MAX} bytes: shorten the host name or the path")]
    TooLong,
    #[error("BMC address holds a user or password: put them into the Secret that bmc.credentialsName names")]
    Credentials,
    #[error("BMC address has a query or fragment, or a path that is not below /redfish/v1/Systems/")]
    Path,
}

/// Schemes of upstream that later drivers will take.
const LATER: &[&str] = &[
    "ipmi",
    "libvirt",
    "idrac",
    "idrac-redfish",
    "idrac-virtualmedia",
    "ilo4",
    "ilo4-virtualmedia",
    "ilo5",
    "ilo5-redfish",
    "ilo5-virtualmedia",
    "irmc",
    "redfish-uefihttp",
    "redfish-virtualmedia",
];

impl Address {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        // Without a scheme upstream means IPMI.
        let (scheme, rest) = text.split_once("://").unwrap_or(("ipmi", text));
        let scheme = scheme.to_ascii_lowercase();
        let (driver, transport) = scheme.split_once('+').unwrap_or((&scheme, "https"));
        if !matches!(transport, "http" | "https") {
            return Err(AddressError::UnknownScheme);
        }
        match driver {
            "redfish" => Self::from_url(transport, rest),
            later if LATER.contains(&later) => Err(AddressError::NotSupportedYet { scheme: later.to_owned() }),
            _ => Err(AddressError::UnknownScheme),
        }
    }

    fn from_url(transport: &str, rest: &str) -> Result<Self, AddressError> {
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
        let system = match path.as_str() {
            "" | "/redfish" | "/redfish/v1" | SYSTEMS => None,
            path if path.strip_prefix(SYSTEMS).is_some_and(|id| id.len() > 1 && !id[1..].contains('/')) => {
                Some(path.to_owned())
            }
            _ => return Err(AddressError::Path),
        };
        url.set_path("/");
        let address = Self { origin: url, system };
        // Shown in full, with what had to be percent-encoded: that must be an address again.
        if address.to_string().len() > ADDRESS_BYTES_MAX { Err(AddressError::TooLong) } else { Ok(address) }
    }

    #[must_use]
    pub fn origin(&self) -> &Url {
        &self.origin
    }

    #[must_use]
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Plain HTTP carries the password readably: worth a warning.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.origin.scheme() == "https"
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.origin.as_str().trim_end_matches('/');
        write!(f, "redfish+{origin}{}", self.system.as_deref().unwrap_or_default())
    }
}

pub(crate) const SYSTEMS: &str = "/redfish/v1/Systems";

/// A path that a BMC gave for one of its own resources: absolute, on the same origin, plain. Anything else could carry
/// the request (and its credentials) elsewhere.
#[must_use]
pub fn own_path(path: &str) -> Option<&str> {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic()) && !path.contains(['\\', '#', '?']);
    let is_inside = path.starts_with("/redfish/") && !path.contains("//") && !path.split('/').any(leads_elsewhere);
    (is_plain && is_inside && path.len() <= ADDRESS_BYTES_MAX).then_some(path)
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
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.origin().as_str(), origin, "{text}");
            assert_eq!(address.system(), system, "{text}");
            assert_eq!(Address::parse(&address.to_string()), Ok(address), "{text}");
        }
    }

    #[test]
    fn known_schemes_are_told_from_wrong_ones() {
        for (text, scheme) in [
            ("ipmi://10.0.0.5", "ipmi"),
            ("10.0.0.5", "ipmi"),
            ("redfish-virtualmedia://10.0.0.5/redfish/v1/Systems/1", "redfish-virtualmedia"),
            ("idrac-redfish+http://10.0.0.5", "idrac-redfish"),
            ("libvirt://10.0.0.5", "libvirt"),
        ] {
            assert_eq!(Address::parse(text), Err(AddressError::NotSupportedYet { scheme: scheme.into() }), "{text}");
        }
        for text in ["ftp://10.0.0.5", "redfish+ftp://10.0.0.5", "redfishx://a", "://a"] {
            assert_eq!(Address::parse(text), Err(AddressError::UnknownScheme), "{text}");
        }
    }

    #[test]
    fn addresses_that_lead_elsewhere_are_refused() {
        for (text, error) in [
            ("redfish://root:calvin@10.0.0.5", AddressError::Credentials),
            ("redfish://user@10.0.0.5", AddressError::Credentials),
            ("redfish://10.0.0.5/redfish/v1/Systems/1?a=b", AddressError::Path),
            ("redfish://10.0.0.5/redfish/v1/Systems/1#x", AddressError::Path),
            ("redfish://10.0.0.5/redfish/v1/Systems/1/Bios", AddressError::Path),
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
        fn no_text_panics_and_what_parses_round_trips(text in "(redfish(\\+https?)?://)?[ -~]{0,40}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(Address::parse(&address.to_string()), Ok(address));
            }
        }
    }
}
