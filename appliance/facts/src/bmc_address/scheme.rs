//! Schemes of addresses, and why a text is no address.

/// The longest address, as it is given and as it is shown; real ones are below 100.
pub const ADDRESS_BYTES_MAX: usize = 512;

/// A scheme without its transport. An address without a scheme means IPMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Ipmi,
    /// The IPMI driver, under the name that development set-ups use for a virtual BMC.
    Libvirt,
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
    pub const ALL: [Self; 9] = [
        Self::Ipmi,
        Self::Libvirt,
        Self::Redfish,
        Self::RedfishVirtualMedia,
        Self::RedfishUefiHttp,
        Self::IdracRedfish,
        Self::IdracVirtualMedia,
        Self::Ilo5Redfish,
        Self::Ilo5VirtualMedia,
    ];

    /// Reads the scheme in lower case, without its transport.
    #[must_use]
    pub fn read(scheme: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == scheme)
    }

    #[must_use]
    pub fn is_ipmi(self) -> bool {
        matches!(self, Self::Ipmi | Self::Libvirt)
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipmi => "ipmi",
            Self::Libvirt => "libvirt",
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
            Self::Ipmi | Self::Libvirt | Self::Redfish | Self::IdracRedfish | Self::Ilo5Redfish => BootVia::Pxe,
            Self::RedfishVirtualMedia | Self::IdracVirtualMedia | Self::Ilo5VirtualMedia => BootVia::VirtualCd,
            Self::RedfishUefiHttp => BootVia::UefiHttp,
        }
    }
}

/// Schemes of drivers that upstream once had, and those that took their place.
pub const GIVEN_UP: &[(&str, &str)] = &[
    ("idrac", "idrac-redfish"),
    ("ilo4", "ipmi"),
    ("ilo4-virtualmedia", "ipmi"),
    ("ilo5", "ilo5-redfish"),
    ("irmc", "redfish"),
];

/// Names the scheme to write instead of one that was given up.
#[must_use]
pub fn given_up(scheme: &str) -> Option<&'static str> {
    GIVEN_UP.iter().find(|(old, _)| *old == scheme).map(|(_, instead)| *instead)
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
