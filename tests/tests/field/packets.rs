//! What firmware and relays of the field send, against the real process: each case with what a user wants.

use std::net::Ipv4Addr;

use firesteel_dhcp::wire::{self, MessageType, Packet, code};
use firesteel_tests::network::ADDRESS;

use crate::network::{Field, RELAY, discover, file_of, judge, mac, with_field};

/// The lines of the log that have all of these words.
fn lines(field: &Field, words: &[&str]) -> usize {
    field.appliance.log().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

#[test]
fn odd_client_architectures() {
    with_field(|field| {
        field.add_host("arm", mac(11));
        let url = format!("http://{ADDRESS}:8080/loader/ipxe.efi");
        let cases: [(u8, &str, &[u16], &str); 9] = [
            (1, "PXEClient:Arch:00007:UNDI:003016", &[7], "snponly.efi"),
            (2, "PXEClient:Arch:00009:UNDI:003016", &[9], "snponly.efi"),
            (3, "PXEClient:Arch:00007:UNDI:003016", &[], "snponly.efi"),
            (4, "PXEClient:Arch:00006:UNDI:003016", &[6, 7], "snponly.efi"),
            (5, "HTTPClient:Arch:00016:UNDI:003001", &[7], &url),
            (6, "PXEClient", &[], "undionly.kpxe"),
            (11, "PXEClient:Arch:00011:UNDI:003000", &[11], "none"),
            (12, "PXEClient:Arch:00006:UNDI:003016", &[6], "none"),
            (13, "PXEClient:Arch:00002:UNDI:003016", &[], "none"),
        ];
        for (number, class, archs, wanted) in cases {
            let offers = [1, 2].map(|_| file_of(&field.ask(&discover(number, class, archs))));
            assert_eq!(offers[0], offers[1]);
            judge(&format!("odd-client-architectures {class} {archs:?}"), wanted, &offers[0]);
        }
        // Lines come in order: with the last one all are there.
        field.appliance.wait_for_log("for architecture 2 (Itanium)");
        for (number, arch) in [(11, "11 (ARM UEFI, 64 bit)"), (12, "6 (x86 UEFI, 32 bit)"), (13, "2 (Itanium)")] {
            let named = lines(field, &[&mac(number).to_string(), &format!("for architecture {arch}"), "WARN"]);
            judge(&format!("odd-client-architectures: {arch} in the log"), "1", &named.to_string());
        }
        let page = field.until(&["describe", "host", "arm"], |page| page.contains("no_loader"));
        judge(
            "odd-client-architectures: no_loader in the timeline",
            "1",
            &page.matches("no_loader").count().to_string(),
        );
        assert!(page.contains("for architecture 11 (ARM UEFI, 64 bit)"), "{page}");
    });
}

/// DNS and TFTP are named as features, HTTP is not.
const STRIPPED: [u8; 13] = [0xb1, 5, 1, 0x80, 0x86, 0x10, 0x0e, 0x17, 1, 1, 0x15, 1, 1];

#[test]
fn ipxe_without_http() {
    with_field(|field| {
        let ipxe = |last, archs: &[u16], features: &[u8]| {
            let mut ask = discover(last, &format!("PXEClient:Arch:{:05}:UNDI:002001", archs[0]), archs);
            ask.options.set(code::USER_CLASS, *b"iPXE");
            ask.options.set(code::IPXE, features);
            field.ask(&ask)
        };
        let answer = ipxe(1, &[0], &STRIPPED);
        judge(
            "ipxe-without-http",
            "undionly.kpxe from 10.77.0.1",
            &format!("{} from {}", file_of(&answer), answer.siaddr),
        );
        judge("ipxe-without-http (UEFI)", "snponly.efi", &file_of(&ipxe(2, &[7], &STRIPPED)));
        let able = file_of(&ipxe(3, &[0], &[&STRIPPED[..], &[0x13, 1, 1]].concat()));
        judge("ipxe-without-http: one with HTTP", "http://10.77.0.1:8080/boot.ipxe", able.split('?').next().unwrap());
    });
}

#[test]
fn relay_server_id_override() {
    with_field(|field| {
        let speaks_for_us = Ipv4Addr::new(10, 88, 0, 1);
        let by_relay = |mut packet: Packet, kind, xid| {
            packet.giaddr = RELAY;
            packet.xid += xid;
            packet.options.set_message_type(kind);
            packet.options.set(code::RELAY_AGENT, [5, 4, 10, 88, 0, 0, 11, 4, 10, 88, 0, 1]);
            packet
        };
        let plain = || discover(1, "PXEClient:Arch:00007:UNDI:003016", &[7]);
        let server = |reply: &Packet| reply.options.address(code::SERVER_ID).unwrap();
        let offer = field.ask(&by_relay(plain(), MessageType::Discover, 0));
        judge("relay-server-id-override: OFFER", "10.88.0.1", &server(&offer).to_string());
        for (xid, named) in [(1, speaks_for_us), (2, ADDRESS)] {
            let mut request = by_relay(plain(), MessageType::Request, xid);
            request.options.set(code::REQUESTED_ADDRESS, offer.yiaddr.octets());
            request.options.set(code::SERVER_ID, named.octets());
            let reply = field.ask(&request);
            let got = format!("{:?} of {} by {}", reply.options.message_type().unwrap(), reply.yiaddr, server(&reply));
            let wanted = format!("Ack of {} by 10.88.0.1", offer.yiaddr);
            judge(&format!("relay-server-id-override: REQUEST to {named}"), &wanted, &got);
        }
    });
}

#[test]
fn ipoib_client() {
    with_field(|field| {
        let infiniband = |hlen: u8, identifier: &[u8]| {
            let mut ask = discover(1, "PXEClient:Arch:00007:UNDI:003016", &[7]);
            ask.options.set(code::CLIENT_ID, identifier);
            let mut bytes = wire::encode(&ask).unwrap();
            (bytes[1], bytes[2]) = (32, hlen);
            bytes[28 + usize::from(hlen)..44].fill(0);
            bytes
        };
        // With the first answer to another client the appliance is heard to serve.
        field.ask(&discover(2, "PXEClient:Arch:00007:UNDI:003016", &[7]));
        for _ in 0..3 {
            field.send(&infiniband(0, &[0x20, 2, 0, 0, 0, 0, 0x77, 9, 1]));
        }
        field.send(&infiniband(6, &[0xff, 2, 0, 0, 0, 0, 0x77, 9, 2]));
        field.appliance.wait_for_log("ff:02:00:00:00:00:77:09:02");
        for identifier in ["20:02:00:00:00:00:77:09:01", "ff:02:00:00:00:00:77:09:02"] {
            let named = lines(field, &["hardware type 32 (InfiniBand, RFC 4390)", identifier]);
            judge(&format!("ipoib-client {identifier}: in the log"), "1", &named.to_string());
        }
    });
}

#[test]
fn smbios_odd_serial() {
    with_field(|field| {
        field.add_host("odd", mac(1));
        let leased = field.lease(&discover(1, "PXEClient:Arch:00007:UNDI:003016", &[7]));
        let script = |values: &str| {
            let mac = mac(1).to_string().replace(':', "-");
            let (status, body) = field.get(leased, &format!("/boot.ipxe?mac={mac}&platform=efi&{values}"));
            let boots = if body.contains("/kernel ") { "a kernel" } else { "no kernel" };
            (format!("{status} with {boots}"), body)
        };
        for (values, shown) in [
            ("serial=%fe%ff&uuid=32323232-0000-0000-0000-000000000002&buildarch=x86_64", Some(r"\xfe\xff")),
            ("serial=%02&uuid=&buildarch=x86_64", Some(r"\x02")),
            ("serial=AB%00&buildarch=x86_64", Some(r"AB\x00")),
            ("serial=S2&uuid=%80%81&buildarch=i386", Some(r"\x80\x81")),
            ("serial=100%&buildarch=x86_64", Some("100%")),
            ("serial=Default%20string", None),
        ] {
            judge(&format!("smbios-odd-serial {values}"), "200 with a kernel", &script(values).0);
            if let Some(shown) = shown {
                let words = format!("is no text and is not used: {shown}");
                field.until(&["describe", "host", "odd"], |page| page.contains(&words));
            }
        }
        let (got, body) = script("serial=S2&uuid=&buildarch=arm64");
        judge("smbios-odd-serial buildarch=arm64", "200 with no kernel", &got);
        field.until(&["describe", "host", "odd"], |page| page.contains("wrong_build"));
        assert!(body.contains("this iPXE is built for arm64? the kernel here is for x86_64"), "{body}");
    });
}
