//! `bmc.address` of a host, in upstream's words, to where the BMC is asked and how its host is booted.
//!
//! ```text
//! ipmi, libvirt, or no scheme at all             IPMI (see [`IpmiAddress`])     PXE
//! redfish, idrac-redfish, ilo5-redfish           Redfish                        PXE
//! redfish-uefihttp                               Redfish                        UEFI HTTP Boot
//! {redfish,idrac,ilo5}-virtualmedia              Redfish                        a CD by virtual media
//! ```
//!
//! Redfish's schemes are HTTPS, or what `+http` and `+https` say. Nothing but the scheme decides how
//! a host is booted ([`BmcAddress::boot_via`]); the vendor in it is for people: what a service is, it says
//! itself. Schemes of drivers that upstream has given up are known by name, so that the
//! answer says what to write instead. An address names the system's resource, by one or two parts of a path
//! (`Systems/1`, `Systems/namespace/name`); without a path the service must have exactly one. What stands before
//! `/redfish` is where a gateway keeps this service: all requests go below it.

mod ipmi;
mod redfish;
mod scheme;

use std::fmt;

pub use ipmi::{IpmiAddress, PORT as IPMI_PORT, Privilege};
pub use redfish::{BmcUrl, REDFISH, SYSTEMS, is_plain};
pub use scheme::{ADDRESS_BYTES_MAX, AddressError, BootVia, Family, GIVEN_UP, given_up};

/// Where a BMC is asked, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BmcAddress {
    Redfish(BmcUrl),
    Ipmi(IpmiAddress),
}

impl BmcAddress {
    /// # Errors
    /// What keeps the text from being an address of a protocol that is spoken here.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if IpmiAddress::claims(text) {
            IpmiAddress::parse(text).map(Self::Ipmi)
        } else {
            BmcUrl::parse(text).map(Self::Redfish)
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
            Self::Redfish(address) => address.family().boot_via(),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

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
}
