//! What ROMs, UEFI HTTP Boot and iPXE need in a reply.

use firesteel_dhcp::wire::{self, Packet, code};
use firesteel_dhcp::{BootAnswer, Class, DhcpEventKind, DhcpRequester, OtherHardware};
use firesteel_facts::Arch;

use crate::lab::{Lab, SERVER, config, discover, ip, selecting};

/// One loader for each way to boot, as an appliance would answer.
fn boot(client: &DhcpRequester) -> Option<BootAnswer> {
    let file = match (client.is_ipxe, client.class, client.archs.first().copied()) {
        (true, _, _) => {
            format!("http://10.77.0.1:8080/boot.ipxe?mac={}&uuid=${{uuid}}&{}", client.mac, "s".repeat(100))
        }
        (false, Class::Http, _) => "http://10.77.0.1:8080/loader/ipxe.efi".into(),
        (false, Class::Pxe, Some(Arch::X86_BIOS)) => "undionly.kpxe".into(),
        (false, Class::Pxe, _) => "snponly.efi".into(),
        (false, Class::Other, _) => panic!("a system that wants an address only is not asked about"),
    };
    Some(BootAnswer { file, ipxe_no_pxedhcp: true, ..BootAnswer::default() })
}

fn lab() -> Lab {
    let mut lab = Lab::new(config());
    lab.boot = boot;
    lab
}

fn rom(class: &str, arch: u16) -> Packet {
    let mut packet = discover(1);
    packet.options.set(code::VENDOR_CLASS, class.as_bytes());
    packet.options.set(code::ARCHITECTURE, arch.to_be_bytes());
    packet.options.set(code::MACHINE_UUID, [&[0u8][..], &[5; 16]].concat());
    packet.options.set(code::PARAMETER_LIST, [1, 3, 43, 60, 66, 67, 97]);
    packet
}

#[test]
fn a_pxe_rom_gets_file_server_and_no_menu() {
    let mut lab = lab();
    for (arch, file) in [(0, "undionly.kpxe"), (7, "snponly.efi")] {
        let offer = lab.ask(&rom("PXEClient:Arch:00007:UNDI:003016", arch));
        assert_eq!(offer.packet.siaddr, SERVER);
        assert_eq!(offer.packet.file, file.as_bytes(), "in the header for ROMs in BIOS");
        assert_eq!(offer.get(code::BOOT_FILE), Some(file.as_bytes()));
        assert_eq!(offer.packet.options.text(code::TFTP_SERVER).as_deref(), Some("10.77.0.1"));
        assert_eq!(offer.get(code::VENDOR_CLASS), Some(&b"PXEClient"[..]));
        assert_eq!(offer.get(code::VENDOR_SPECIFIC), Some(&[6, 1, 8, 255][..]));
        assert_eq!(offer.get(code::MACHINE_UUID), Some(&[&[0u8][..], &[5; 16]].concat()[..]));
        assert_eq!(offer.get(code::IPXE), None);
    }
}

#[test]
fn the_ack_says_the_same_as_the_offer() {
    let mut lab = lab();
    let offer = lab.ask(&rom("PXEClient:Arch:00000:UNDI:002001", 0));
    let mut request = rom("PXEClient:Arch:00000:UNDI:002001", 0);
    let plain = selecting(1, offer.packet.yiaddr);
    for code in [code::MESSAGE_TYPE, code::SERVER_ID, code::REQUESTED_ADDRESS] {
        request.options.set(code, plain.options.get(code).unwrap());
    }
    let ack = lab.ask(&request);
    for code in [code::BOOT_FILE, code::VENDOR_CLASS, code::VENDOR_SPECIFIC, code::TFTP_SERVER] {
        assert_eq!(ack.get(code), offer.get(code));
    }
    assert_eq!((ack.packet.siaddr, &ack.packet.file), (offer.packet.siaddr, &offer.packet.file));
}

#[test]
fn http_boot_hears_its_own_name_and_a_url() {
    let offer = lab().ask(&rom("HTTPClient:Arch:00016:UNDI:003001", 16));
    assert_eq!(offer.get(code::VENDOR_CLASS), Some(&b"HTTPClient"[..]));
    assert_eq!(offer.packet.options.text(code::BOOT_FILE).as_deref(), Some("http://10.77.0.1:8080/loader/ipxe.efi"));
    assert_eq!((offer.get(code::VENDOR_SPECIFIC), offer.get(code::TFTP_SERVER)), (None, None));
}

#[test]
fn ipxe_gets_a_long_url_and_no_wait_for_a_proxy() {
    let mut ask = rom("PXEClient:Arch:00007:UNDI:003010", 7);
    ask.options.set(code::USER_CLASS, *b"iPXE");
    ask.options.set(code::IPXE, [0xb1, 5, 1, 0x80, 0x86, 0x10, 0x0e]);
    let offer = lab().ask(&ask);
    let url = offer.packet.options.text(code::BOOT_FILE).unwrap();
    assert!(url.len() > 127 && url.starts_with("http://10.77.0.1:8080/boot.ipxe?mac=52:54:00:00:00:01"));
    assert!(offer.packet.file.is_empty(), "too long for the header, and never cut short");
    assert_eq!(offer.get(code::IPXE), Some(&[176, 1, 1][..]));
    assert_eq!((offer.get(code::VENDOR_CLASS), offer.get(code::VENDOR_SPECIFIC)), (None, None));
}

#[test]
fn a_system_is_not_booted() {
    let mut ask = discover(1);
    ask.options.set(code::VENDOR_CLASS, *b"dhcpcd-9.4.1:Linux-6.1");
    let offer = lab().ask(&ask);
    assert!(offer.packet.file.is_empty() && offer.get(code::BOOT_FILE).is_none());
    assert!(offer.packet.siaddr.is_unspecified());
}

#[test]
fn a_url_that_does_not_fit_is_left_out_and_told() {
    let mut lab = lab();
    lab.boot = |_| Some(BootAnswer { file: "u".repeat(300), ..BootAnswer::default() });
    let offer = lab.ask(&rom("PXEClient", 7));
    assert_eq!((offer.packet.yiaddr, offer.get(code::BOOT_FILE)), (ip(10), None));
    assert!(lab.events.contains(&DhcpEventKind::BootFileTooLong { bytes: 300 }));
    lab.events.clear();
    lab.boot = |_| Some(BootAnswer { file: "u".repeat(255), ..BootAnswer::default() });
    let offer = lab.ask(&rom("PXEClient", 7));
    assert_eq!(offer.get(code::BOOT_FILE).map(<[u8]>::len), Some(255), "that fits");
    assert_eq!(lab.events, [DhcpEventKind::Offered { address: ip(10) }]);
}

#[test]
fn an_answer_without_a_file_boots_nothing() {
    let mut lab = lab();
    lab.boot = |_| Some(BootAnswer::default());
    let offer = lab.ask(&rom("PXEClient", 7));
    assert_eq!((offer.packet.yiaddr, offer.packet.siaddr.is_unspecified()), (ip(10), true));
    assert_eq!((offer.get(code::BOOT_FILE), offer.get(code::VENDOR_CLASS)), (None, None));
}

/// The client identifier goes back as it came, and nothing else of this reply can be left out.
#[test]
fn a_reply_that_no_frame_holds_is_not_sent() {
    let mut lab = lab();
    let mut ask = discover(1);
    ask.options.set(code::PARAMETER_LIST, [code::SUBNET_MASK]);
    ask.options.set(code::CLIENT_ID, vec![7; 1200]);
    assert_eq!(lab.ask(&ask).bytes, 1500 - 28);
    ask.options.set(code::CLIENT_ID, vec![7; 1201]);
    lab.ignored(&ask);
}

#[test]
fn replies_fit_what_the_client_takes() {
    let mut wordy = config();
    wordy.dns = vec![ip(2); 8];
    wordy.ntp = vec![ip(3); 8];
    wordy.domain = Some(vec!["d".repeat(60); 4].join("."));
    let mut lab = Lab::new(wordy);
    lab.boot = |_| Some(BootAnswer { file: "u".repeat(200), ..BootAnswer::default() });
    let mut ask = rom("PXEClient", 7);
    ask.options.remove(code::PARAMETER_LIST);
    let offer = lab.ask(&ask);
    assert!(offer.bytes <= 576 - 28, "{}", offer.bytes);
    assert!(offer.get(code::BOOT_FILE).is_some() && offer.get(code::SUBNET_MASK).is_some());
    ask.options.set(code::MAX_SIZE, 1500u16.to_be_bytes());
    let roomy = lab.ask(&ask);
    assert!(roomy.bytes > 576 && roomy.get(code::NTP).is_some());
}

#[test]
fn a_client_for_which_there_is_nothing_gets_an_address_and_is_named() {
    let mut lab = lab();
    lab.boot = |_| None;
    let offer = lab.ask(&rom("PXEClient:Arch:00011:UNDI:003000", 11));
    assert_eq!((offer.packet.yiaddr, offer.get(code::BOOT_FILE)), (ip(10), None));
    assert!(lab.events.contains(&DhcpEventKind::NothingToBoot));
    lab.events.clear();
    lab.ask(&discover(2));
    assert!(!lab.events.contains(&DhcpEventKind::NothingToBoot), "it wants an address only");
}

/// A DISCOVER as RFC 4390 has it: type 32, no hardware address, a client identifier.
fn infiniband() -> Vec<u8> {
    let mut ask = discover(1);
    ask.options.set(code::CLIENT_ID, [0x20, 0xe4, 0x1d, 0x2d, 3, 0, 0xf8, 0xf0, 0x0c]);
    let mut bytes = wire::encode(&ask).unwrap();
    (bytes[1], bytes[2]) = (32, 0);
    bytes[28..44].fill(0);
    bytes
}

#[test]
fn a_client_that_is_not_on_ethernet_is_named() {
    let mut lab = lab();
    let identifier = vec![0x20, 0xe4, 0x1d, 0x2d, 3, 0, 0xf8, 0xf0, 0x0c];
    let mut bytes = infiniband();
    assert!(lab.hear(&bytes).is_empty());
    assert_eq!(lab.other_hardware, [OtherHardware { htype: 32, identifier: identifier.clone() }]);
    // With a shortened address, too; without an identifier it is the name.
    (bytes[2], bytes[28]) = (6, 0xe4);
    lab.hear(&bytes);
    assert_eq!(lab.other_hardware[1].identifier, identifier);
    let mut nameless = wire::encode(&discover(1)).unwrap();
    nameless[1] = 32;
    lab.hear(&nameless);
    assert_eq!(lab.other_hardware[2].identifier, [0x52, 0x54, 0, 0, 0, 1]);
    // A reply, and what is no DHCP, are not.
    for (at, byte) in [(0, 2), (236, 0), (242, 9)] {
        let mut other = infiniband();
        other[at] = byte;
        lab.hear(&other);
    }
    assert_eq!(lab.other_hardware.len(), 3);
}
