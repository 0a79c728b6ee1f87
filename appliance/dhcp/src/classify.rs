//! Who is asking: what a request tells about the firmware, the loader or the system that sent it.
//!
//! Parsed once into our own nouns. It must not know leases or boot files.

use std::net::Ipv4Addr;

use firesteel_facts::{Arch, Mac};

use crate::wire::{DhcpOptions, Packet, code, printable};

/// Names that clients send are for people to read; a host name is at most this long.
const NAME_BYTES_MAX: usize = 64;

/// What the vendor class (60) says of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// "PXEClient…": a PXE ROM, or iPXE, which speaks as one.
    Pxe,
    /// "HTTPClient…": UEFI HTTP Boot (UEFI 2.11 §24.7.2).
    Http,
    /// An operating system or anything else that wants an address only.
    Other,
}

/// The sender of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpRequester {
    pub mac: Mac,
    pub class: Class,
    /// What it can boot: all that option 93 lists, else what the vendor class names. Empty where neither says.
    pub archs: Vec<Arch>,
    pub is_ipxe: bool,
    pub user_class: Option<String>,
    pub vendor_class: Option<String>,
    /// Option 97, the bytes as they came: the first three groups are little-endian on most firmware.
    pub uuid: Option<[u8; 16]>,
    /// Option 94, major and minor.
    pub undi_version: Option<(u8, u8)>,
    /// Option 175 as it came; iPXE lists its features in it.
    pub ipxe_options: Option<Vec<u8>>,
    pub hostname: Option<String>,
    /// The relay that passed the request on.
    pub relay: Option<Ipv4Addr>,
}

impl DhcpRequester {
    pub fn of(packet: &Packet) -> Self {
        let options = &packet.options;
        let user_class = options.get(code::USER_CLASS).and_then(user_class);
        let vendor_class = options.text(code::VENDOR_CLASS);
        let ipxe_options = options.get(code::IPXE).map(<[u8]>::to_vec);
        Self {
            mac: packet.mac,
            class: class(vendor_class.as_deref()),
            archs: archs(options, vendor_class.as_deref()),
            // iPXE since 2006 sends 175; a build with DHCP options cut down still says its user class.
            is_ipxe: ipxe_options.is_some() || user_class.as_deref() == Some("iPXE"),
            user_class,
            vendor_class,
            uuid: uuid(options),
            undi_version: match options.get(code::UNDI_VERSION) {
                Some([1, major, minor]) => Some((*major, *minor)),
                _ => None,
            },
            ipxe_options,
            hostname: options.text(code::HOST_NAME).filter(|name| name.len() <= NAME_BYTES_MAX),
            relay: (!packet.giaddr.is_unspecified()).then_some(packet.giaddr),
        }
    }

    /// Whether it asks for something to boot and not just for an address.
    pub fn boots(&self) -> bool {
        self.is_ipxe || self.class != Class::Other
    }
}

fn class(vendor_class: Option<&str>) -> Class {
    match vendor_class {
        Some(text) if text.starts_with("PXEClient") => Class::Pxe,
        Some(text) if text.starts_with("HTTPClient") => Class::Http,
        Some(_) | None => Class::Other,
    }
}

fn archs(options: &DhcpOptions, vendor_class: Option<&str>) -> Vec<Arch> {
    let listed = options.get(code::ARCHITECTURE).map(Arch::list).unwrap_or_default();
    if listed.is_empty() { vendor_class.and_then(Arch::of_class).into_iter().collect() } else { listed }
}

fn uuid(options: &DhcpOptions) -> Option<[u8; 16]> {
    let (kind, bytes) = options.get(code::MACHINE_UUID)?.split_first()?;
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    // Type 0 is the only one (RFC 4578 §2.3). Boards that were never given a UUID send all ones or
    // all zeros: no identity.
    (*kind == 0 && bytes != [0; 16] && bytes != [0xff; 16]).then_some(bytes)
}

/// RFC 3004 wants length-prefixed classes; iPXE, gPXE and many scripts send the bare text.
fn user_class(bytes: &[u8]) -> Option<String> {
    let text = match bytes.split_first() {
        Some((length, rest)) if usize::from(*length) <= rest.len() && *length < b' ' => &rest[..usize::from(*length)],
        Some(_) | None => bytes,
    };
    printable(text).filter(|text| text.len() <= NAME_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DhcpOperation;

    fn client(options: &[(u8, &[u8])]) -> DhcpRequester {
        let mut packet = Packet::new(DhcpOperation::Request, 1, Mac([2, 0, 0, 0, 0, 1]));
        for (code, value) in options {
            packet.options.set(*code, *value);
        }
        DhcpRequester::of(&packet)
    }

    #[test]
    fn tells_roms_ipxe_http_boot_and_systems_apart() {
        let rom = client(&[(60, b"PXEClient:Arch:00007:UNDI:003016"), (93, &[0, 7]), (94, &[1, 3, 16])]);
        assert_eq!((rom.class, rom.archs, rom.is_ipxe), (Class::Pxe, vec![Arch::X64_UEFI], false));
        assert_eq!(rom.undi_version, Some((3, 16)));

        let ipxe = client(&[(60, b"PXEClient:Arch:00000:UNDI:002001"), (77, b"iPXE"), (93, &[0, 0])]);
        assert!(ipxe.is_ipxe && ipxe.boots());
        assert!(client(&[(175, &[0xb1, 1, 1])]).is_ipxe);
        assert!(client(&[(77, b"\x04iPXE")]).is_ipxe, "length-prefixed as RFC 3004 has it");

        let http = client(&[(60, b"HTTPClient:Arch:00016:UNDI:003001"), (93, &[0, 16])]);
        assert_eq!((http.class, http.archs), (Class::Http, vec![Arch::X64_UEFI_HTTP]));

        let system = client(&[(60, b"udhcp 1.35.0"), (12, b"node\0")]);
        assert!(!system.boots());
        assert_eq!(system.hostname.as_deref(), Some("node"));
    }

    #[test]
    fn the_relay_is_the_one_that_the_packet_names() {
        let mut packet = Packet::new(DhcpOperation::Request, 1, Mac([2, 0, 0, 0, 0, 1]));
        assert_eq!(DhcpRequester::of(&packet).relay, None);
        packet.giaddr = Ipv4Addr::new(10, 78, 0, 1);
        assert_eq!(DhcpRequester::of(&packet).relay, Some(packet.giaddr));
    }

    #[test]
    fn odd_lengths_and_placeholders_are_no_identity() {
        let odd = client(&[(93, &[0]), (94, &[1, 2]), (97, &[0; 17]), (77, &[]), (12, b"a\x1b[2Jb"), (60, &[0xff])]);
        assert_eq!((odd.archs, odd.undi_version, odd.uuid), (vec![], None, None));
        assert_eq!((odd.user_class, odd.hostname, odd.vendor_class), (None, None, None));
        assert_eq!(client(&[(97, &[&[0u8][..], &[0xff; 16]].concat())]).uuid, None);
        assert_eq!(client(&[(97, &[&[0u8][..], &[7; 16]].concat())]).uuid, Some([7; 16]));
    }

    #[test]
    fn a_user_class_is_read_with_its_length_and_without() {
        let long = "a".repeat(31);
        let spaced = format!(" {}", "a".repeat(32));
        for (bytes, class) in [
            (&b"iPXE"[..], Some("iPXE")),
            (b"\x04iPXE", Some("iPXE")),
            (b"\x04iPXE\x03abc", Some("iPXE")),
            (&[&[31], long.as_bytes()].concat(), Some(long.as_str())),
            // A space is no length.
            (spaced.as_bytes(), Some(spaced.as_str())),
            (b"\x05iPXE", None),
            (b"\0", None),
            (b"\0iPXE", None),
            ("a".repeat(64).as_bytes(), Some("a".repeat(64).as_str())),
            ("a".repeat(65).as_bytes(), None),
        ] {
            assert_eq!(client(&[(77, bytes)]).user_class.as_deref(), class, "{bytes:?}");
        }
    }

    #[test]
    fn the_architecture_is_that_of_option_93_and_else_that_of_the_class() {
        let class = (60, &b"PXEClient:Arch:00007:UNDI:003016"[..]);
        assert_eq!(client(&[class, (93, &[0, 6, 0, 7])]).archs, [Arch::X86_UEFI, Arch::X64_UEFI]);
        assert_eq!(client(&[class, (93, &[0, 0])]).archs, [Arch::X86_BIOS]);
        assert_eq!(client(&[class]).archs, [Arch::X64_UEFI]);
        assert_eq!(client(&[class, (93, &[])]).archs, [Arch::X64_UEFI]);
        assert_eq!(client(&[(60, b"PXEClient")]).archs, []);
    }
}
