//! The answer to a DHCP client's question "what do I boot": the first file.
//!
//! Three clients are told apart. iPXE (whoever loaded it) gets the script's URL and nothing else,
//! or it would load itself forever. UEFI HTTP Boot gets a URL and must see its own vendor class
//! in the answer (UEFI 2.10 section 24.7.3.1). A PXE ROM gets a file name for TFTP. Architectures are
//! IANA's "Processor Architecture Types" (RFC 5970 section 3.3); one for which there is no loader
//! gets no boot answer, so that the client says so itself instead of running foreign code.

use crate::entry::Endpoints;
use crate::mac::Mac;

/// What DHCP knows about a client that asks to boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootClient {
    pub mac: Mac,
    /// Option 93 (its first value); `None` where the client sent none.
    pub arch: Option<u16>,
    /// User class "iPXE" or encapsulated option 175.
    pub is_ipxe: bool,
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
    pub via: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A PXE ROM: option 66, `siaddr` and the header's `file` are to be filled as well.
    Tftp,
    /// UEFI HTTP Boot.
    Http,
    /// iPXE is running already and fetches its script.
    Script,
}

/// Vendor class that a PXE client begins with, and wants to see in the answer.
pub const PXE_CLIENT: &str = "PXEClient";
/// Vendor class that a UEFI HTTP Boot client begins with, and insists on in the answer.
pub const HTTP_CLIENT: &str = "HTTPClient";

struct Loader {
    arch: u16,
    file: &'static str,
    via: Transport,
}

/// Loaders of Debian's `ipxe` package. `snponly.efi` drives only the interface that loaded it,
/// through the firmware's driver: it cannot pick another NIC than the one that booted. Firmware
/// that boots by HTTP may take that interface away again, so there iPXE brings its own drivers.
const LOADERS: &[Loader] = &[
    Loader { arch: ARCH_X86_BIOS, file: "undionly.kpxe", via: Transport::Tftp },
    Loader { arch: ARCH_X64_UEFI, file: "snponly.efi", via: Transport::Tftp },
    // "EBC" by the registry, x64 UEFI by the table of RFC 4578, which older firmware follows.
    Loader { arch: ARCH_EBC_UEFI, file: "snponly.efi", via: Transport::Tftp },
    Loader { arch: ARCH_X64_UEFI_HTTP, file: "ipxe.efi", via: Transport::Http },
];

pub const ARCH_X86_BIOS: u16 = 0;
pub const ARCH_X64_UEFI: u16 = 7;
pub const ARCH_EBC_UEFI: u16 = 9;
pub const ARCH_X64_UEFI_HTTP: u16 = 16;

/// Files that the appliance must have to serve every client that [`first_stage`] answers.
pub fn loader_files() -> impl Iterator<Item = &'static str> {
    LOADERS.iter().enumerate().filter(|(n, row)| LOADERS[..*n].iter().all(|r| r.file != row.file)).map(|(_, r)| r.file)
}

/// `None` when this client has nothing to boot from us: not a network boot, or no loader for it.
#[must_use]
pub fn first_stage(client: &BootClient, endpoints: &Endpoints) -> Option<FirstStage> {
    if client.is_ipxe {
        return Some(FirstStage {
            file_or_url: script_url(&client.mac.to_string(), endpoints),
            vendor_class: None,
            via: Transport::Script,
        });
    }
    let vendor_class = client.vendor_class.as_deref().unwrap_or_default();
    let (asked, answered) = match vendor_class {
        class if class.starts_with(HTTP_CLIENT) => (Transport::Http, HTTP_CLIENT),
        class if class.starts_with(PXE_CLIENT) => (Transport::Tftp, PXE_CLIENT),
        _ => return None,
    };
    // Without option 93 it is an old BIOS ROM: the option came with UEFI (RFC 4578).
    let arch = client.arch.unwrap_or(ARCH_X86_BIOS);
    let loader = LOADERS.iter().find(|row| row.arch == arch && row.via == asked)?;
    let file_or_url = match loader.via {
        Transport::Http => format!("{}/loader/{}", endpoints.http_base(), loader.file),
        Transport::Tftp | Transport::Script => loader.file.to_owned(),
    };
    Some(FirstStage { file_or_url, vendor_class: Some(answered), via: loader.via })
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

    fn client(arch: Option<u16>, vendor_class: &str) -> BootClient {
        BootClient {
            mac: Mac([0x52, 0x54, 0, 1, 2, 3]),
            arch,
            is_ipxe: false,
            vendor_class: (!vendor_class.is_empty()).then(|| vendor_class.to_owned()),
        }
    }

    fn file(arch: Option<u16>, vendor_class: &str) -> Option<(String, Transport)> {
        first_stage(&client(arch, vendor_class), &ENDPOINTS).map(|stage| (stage.file_or_url, stage.via))
    }

    #[test]
    fn roms_get_the_loader_of_their_architecture() {
        let pxe = "PXEClient:Arch:00007:UNDI:003016";
        assert_eq!(file(Some(0), pxe), Some(("undionly.kpxe".into(), Transport::Tftp)));
        assert_eq!(file(None, pxe), Some(("undionly.kpxe".into(), Transport::Tftp)));
        assert_eq!(file(Some(7), pxe), Some(("snponly.efi".into(), Transport::Tftp)));
        assert_eq!(file(Some(9), pxe), Some(("snponly.efi".into(), Transport::Tftp)));
    }

    #[test]
    fn http_boot_gets_a_url_and_its_vendor_class_back() {
        let stage = first_stage(&client(Some(16), "HTTPClient:Arch:00016:UNDI:003001"), &ENDPOINTS).unwrap();
        assert_eq!(stage.file_or_url, "http://10.77.0.1:8080/loader/ipxe.efi");
        assert_eq!(stage.vendor_class, Some("HTTPClient"));
        assert_eq!(stage.via, Transport::Http);
    }

    #[test]
    fn architectures_without_a_loader_get_no_answer() {
        for arch in [6, 10, 11] {
            assert_eq!(file(Some(arch), "PXEClient"), None, "{arch}");
        }
        for arch in [15, 19] {
            assert_eq!(file(Some(arch), "HTTPClient"), None, "{arch}");
        }
        assert_eq!(file(Some(16), "PXEClient"), None, "an HTTP architecture asked by PXE");
        assert_eq!(file(Some(7), ""), None, "not a boot request");
        assert_eq!(file(Some(7), "android-dhcp-14"), None);
    }

    #[test]
    fn ipxe_gets_the_script_whatever_else_it_says() {
        for arch in [None, Some(0), Some(7), Some(11), Some(16)] {
            let stage = first_stage(&BootClient { is_ipxe: true, ..client(arch, "PXEClient") }, &ENDPOINTS).unwrap();
            assert_eq!(stage.via, Transport::Script);
            assert!(
                stage.file_or_url.starts_with("http://10.77.0.1:8080/boot.ipxe?mac=52-54-00-01-02-03&uuid=${uuid}&")
            );
            assert!(stage.file_or_url.len() <= 255, "one DHCP option");
        }
    }

    #[test]
    fn loader_files_are_named_once() {
        assert_eq!(loader_files().collect::<Vec<_>>(), ["undionly.kpxe", "snponly.efi", "ipxe.efi"]);
    }
}
