//! The answer to a DHCP client's question "what do I boot": the first file.
//!
//! There are three kinds of clients. iPXE, wherever it came from, gets the script's URL and nothing else,
//! or it would load itself forever; one without HTTP could not fetch the script and gets our loader. UEFI HTTP Boot
//! gets a URL and must see its own vendor class in the answer (UEFI 2.10 section 24.7.3.1). A PXE ROM gets a file
//! name for TFTP. The vendor class says by which way a client fetches, the architecture for what the loader has to be
//! made: firmware that boots by HTTP sends the code of PXE as well. A client for which there is no loader gets no boot
//! answer, so that it says so itself instead of running foreign code, and the caller hears why.

use std::fmt;

use firesteel_facts::{Arch, FirmwareInterface, Mac};

use crate::entry::Endpoints;
use crate::features::IpxeFeatures;

/// What DHCP knows about a client that asks to boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootClient {
    pub mac: Mac,
    /// What it can boot; the first that has a loader is served. Empty where the client did not say.
    pub archs: Vec<Arch>,
    /// What it can do, where it is an iPXE that is not to be replaced by ours.
    pub ipxe: Option<IpxeFeatures>,
    /// Option 60 as text, lossy.
    pub vendor_class: Option<String>,
}

/// The boot part of a DHCP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstStage {
    /// Option 67: a TFTP path or a URL.
    pub file_or_url: String,
    /// Option 60 of the answer.
    pub vendor_class: Option<&'static str>,
    pub via: LoaderTransport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoaderTransport {
    /// A PXE ROM: option 66, `siaddr` and the header's `file` are to be filled as well.
    Tftp,
    /// UEFI HTTP Boot.
    Http,
    /// iPXE is running already and fetches its script.
    Script,
}

/// Why a client gets nothing to boot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnservedClient {
    #[error("it does not ask for something to boot")]
    NotABoot,
    #[error(
        "could not offer a loader by {via} for architecture {}: there is none for it here; PCs with BIOS boot by TFTP, \
         those with 64-bit UEFI by TFTP and HTTP: set the firmware so, or use another machine",
        listed(archs)
    )]
    NoLoader { archs: Vec<Arch>, via: LoaderTransport },
}

fn listed(archs: &[Arch]) -> String {
    archs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for LoaderTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tftp => "TFTP",
            Self::Http | Self::Script => "HTTP",
        })
    }
}

/// Vendor class that a PXE client begins with, and wants to see in the answer.
pub const PXE_CLIENT: &str = "PXEClient";
/// Vendor class that a UEFI HTTP Boot client begins with, and insists on in the answer.
pub const HTTP_CLIENT: &str = "HTTPClient";

struct BootLoader {
    firmware: FirmwareInterface,
    file: &'static str,
    via: LoaderTransport,
}

/// Loaders of Debian's `ipxe` package. `snponly.efi` drives only the interface that loaded it,
/// through the firmware's driver: it cannot pick another NIC than the one that booted. Firmware
/// that boots by HTTP may take that interface away again, so there iPXE brings its own drivers.
const LOADERS: &[BootLoader] = &[
    BootLoader { firmware: FirmwareInterface::X86Bios, file: "undionly.kpxe", via: LoaderTransport::Tftp },
    BootLoader { firmware: FirmwareInterface::X64Uefi, file: "snponly.efi", via: LoaderTransport::Tftp },
    BootLoader { firmware: FirmwareInterface::X64Uefi, file: "ipxe.efi", via: LoaderTransport::Http },
];

/// Files that the appliance must have to serve every client that [`first_stage`] answers.
pub fn loader_files() -> impl Iterator<Item = &'static str> {
    LOADERS.iter().enumerate().filter(|(n, row)| LOADERS[..*n].iter().all(|r| r.file != row.file)).map(|(_, r)| r.file)
}

/// Decides what a client gets.
///
/// # Errors
/// Why it has nothing to boot from us: it does not boot from the network, or there is no loader for it.
pub fn first_stage(client: &BootClient, endpoints: &Endpoints) -> Result<FirstStage, UnservedClient> {
    if client.ipxe.is_some_and(|features| !features.lacks_http()) {
        return Ok(FirstStage {
            file_or_url: script_url(&client.mac.hyphenated(), endpoints),
            vendor_class: None,
            via: LoaderTransport::Script,
        });
    }
    let vendor_class = client.vendor_class.as_deref().unwrap_or_default();
    let (via, answered) = match vendor_class {
        // An iPXE without HTTP has TFTP, whatever it was loaded by.
        _ if client.ipxe.is_some() => (LoaderTransport::Tftp, PXE_CLIENT),
        class if class.starts_with(HTTP_CLIENT) => (LoaderTransport::Http, HTTP_CLIENT),
        class if class.starts_with(PXE_CLIENT) => (LoaderTransport::Tftp, PXE_CLIENT),
        _ => return Err(UnservedClient::NotABoot),
    };
    // Who does not say is an old BIOS ROM: the option came with UEFI (RFC 4578).
    let archs = if client.archs.is_empty() { &[Arch::X86_BIOS][..] } else { &client.archs };
    let loader = archs
        .iter()
        .filter_map(|arch| arch.firmware())
        .find_map(|firmware| LOADERS.iter().find(|row| row.firmware == firmware && row.via == via));
    let loader = loader.ok_or_else(|| UnservedClient::NoLoader { archs: archs.to_vec(), via })?;
    let file_or_url = match loader.via {
        LoaderTransport::Http => format!("{}/loader/{}", endpoints.http_base(), loader.file),
        LoaderTransport::Tftp | LoaderTransport::Script => loader.file.to_owned(),
    };
    Ok(FirstStage { file_or_url, vendor_class: Some(answered), via: loader.via })
}

/// The script's URL; iPXE itself fills the settings in (they are URI-encoded or hexadecimal, so
/// a strange serial number cannot become another parameter).
pub(crate) fn script_url(mac: &str, endpoints: &Endpoints) -> String {
    format!(
        "{}/boot.ipxe?mac={mac}&uuid=${{uuid}}&serial=${{serial:uristring}}&platform=${{platform}}&buildarch=${{buildarch}}",
        endpoints.http_base()
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ENDPOINTS: Endpoints = Endpoints { address: Ipv4Addr::new(10, 77, 0, 1), http_port: 8080, agent_port: 8443 };

    fn client(archs: &[u16], vendor_class: &str) -> BootClient {
        BootClient {
            mac: Mac([0x52, 0x54, 0, 1, 2, 3]),
            archs: archs.iter().map(|code| Arch(*code)).collect(),
            ipxe: None,
            vendor_class: (!vendor_class.is_empty()).then(|| vendor_class.to_owned()),
        }
    }

    fn file(archs: &[u16], vendor_class: &str) -> Result<(String, LoaderTransport), UnservedClient> {
        first_stage(&client(archs, vendor_class), &ENDPOINTS).map(|stage| (stage.file_or_url, stage.via))
    }

    #[test]
    fn roms_get_the_loader_of_their_architecture() {
        let pxe = "PXEClient:Arch:00007:UNDI:003016";
        assert_eq!(file(&[0], pxe), Ok(("undionly.kpxe".into(), LoaderTransport::Tftp)));
        assert_eq!(file(&[], "PXEClient"), Ok(("undionly.kpxe".into(), LoaderTransport::Tftp)));
        for code in [7, 9, 16] {
            assert_eq!(file(&[code], pxe), Ok(("snponly.efi".into(), LoaderTransport::Tftp)), "{code}");
        }
    }

    #[test]
    fn the_first_of_a_list_that_has_a_loader_is_served() {
        for list in [&[6, 7][..], &[7, 6], &[999, 9, 0]] {
            assert_eq!(file(list, "PXEClient"), Ok(("snponly.efi".into(), LoaderTransport::Tftp)), "{list:?}");
        }
        assert_eq!(file(&[6, 0, 7], "PXEClient"), Ok(("undionly.kpxe".into(), LoaderTransport::Tftp)));
        assert_eq!(
            file(&[0, 7], "HTTPClient"),
            Ok(("http://10.77.0.1:8080/loader/ipxe.efi".into(), LoaderTransport::Http))
        );
    }

    #[test]
    fn http_boot_gets_a_url_and_its_vendor_class_back() {
        // By the code of HTTP and by that of PXE: firmware sends either.
        for code in [16, 7, 9] {
            let stage = first_stage(&client(&[code], "HTTPClient:Arch:00016:UNDI:003001"), &ENDPOINTS).unwrap();
            assert_eq!(stage.file_or_url, "http://10.77.0.1:8080/loader/ipxe.efi");
            assert_eq!(stage.vendor_class, Some("HTTPClient"));
            assert_eq!(stage.via, LoaderTransport::Http);
        }
    }

    #[test]
    fn architectures_without_a_loader_get_no_answer_and_are_named() {
        for (code, class, via) in [(6, "PXEClient", "TFTP"), (11, "PXEClient", "TFTP"), (19, "HTTPClient", "HTTP")] {
            let error = file(&[code], class).unwrap_err();
            let named = format!("by {via} for architecture {}", Arch(code));
            assert!(error.to_string().contains(&named), "{error}");
        }
        let error = file(&[0], "HTTPClient").unwrap_err();
        assert_eq!(error, UnservedClient::NoLoader { archs: vec![Arch::X86_BIOS], via: LoaderTransport::Http });
        assert_eq!(file(&[7], ""), Err(UnservedClient::NotABoot));
        assert_eq!(file(&[7], "android-dhcp-14"), Err(UnservedClient::NotABoot));
    }

    #[test]
    fn ipxe_gets_the_script_whatever_else_it_says() {
        for archs in [&[][..], &[0], &[7], &[11], &[16]] {
            let ipxe = Some(IpxeFeatures::default());
            let stage = first_stage(&BootClient { ipxe, ..client(archs, "PXEClient") }, &ENDPOINTS).unwrap();
            assert_eq!(stage.via, LoaderTransport::Script);
            assert!(
                stage.file_or_url.starts_with("http://10.77.0.1:8080/boot.ipxe?mac=52-54-00-01-02-03&uuid=${uuid}&")
            );
            assert!(stage.file_or_url.len() <= 255, "one DHCP option");
        }
    }

    #[test]
    fn an_ipxe_without_http_gets_our_loader_by_tftp() {
        let ipxe = Some(IpxeFeatures::read(Some(&[0x17, 1, 1, 0x15, 1, 1])));
        for (archs, class, loader) in [
            (&[0][..], "PXEClient:Arch:00000", "undionly.kpxe"),
            (&[7], "HTTPClient", "snponly.efi"),
            (&[7], "", "snponly.efi"),
        ] {
            let stage = first_stage(&BootClient { ipxe, ..client(archs, class) }, &ENDPOINTS).unwrap();
            assert_eq!((stage.file_or_url.as_str(), stage.via), (loader, LoaderTransport::Tftp));
            assert_eq!(stage.vendor_class, Some("PXEClient"));
        }
        assert!(first_stage(&BootClient { ipxe, ..client(&[11], "PXEClient") }, &ENDPOINTS).is_err());
    }

    #[test]
    fn loader_files_are_named_once() {
        assert_eq!(loader_files().collect::<Vec<_>>(), ["undionly.kpxe", "snponly.efi", "ipxe.efi"]);
    }
}
