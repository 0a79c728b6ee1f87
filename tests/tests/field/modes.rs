//! The modes of the provisioning network (S0.5): what listens in each, and what a machine gets.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use firesteel_tests::agent_line::token_of;
use firesteel_tests::field;
use firesteel_tests::network::{ADDRESS, Dhcp};

use crate::network::{Field, RELAY, discover, judge, mac};

const DHCP: u16 = 67;
const TFTP: u16 = 69;
/// Only a kernel that hangs takes so long to refuse a datagram.
const PATIENCE: Duration = Duration::from_secs(300);

/// The ports that programs of the appliance's namespace have by UDP.
fn ports() -> BTreeSet<u16> {
    let table = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let port = |row: &str| {
        let (_, port) = row.split_whitespace().nth(1).unwrap().rsplit_once(':').unwrap();
        u16::from_str_radix(port, 16).unwrap()
    };
    table.lines().skip(1).map(port).collect()
}

/// Sockets in that namespace which send and take whole frames, as DHCP's does for machines without an address. That of
/// ARP takes no other packets.
fn frame_sockets() -> usize {
    let table = fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    table.lines().skip(1).filter(|row| row.split_whitespace().nth(3) != Some("0806")).count()
}

/// Whether the appliance's machine refuses a datagram at this port, as it does where nothing listens.
fn is_refused(field: &Field, port: u16) -> bool {
    field.there(|| {
        let socket = UdpSocket::bind((RELAY, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect((ADDRESS, port)).unwrap();
        socket.send(b"anybody there?").unwrap();
        socket.recv(&mut [0; 512]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
}

/// Fetches the boot script and the kernel from this address.
fn boots_by_http(field: &Field, from: Ipv4Addr) {
    let dashed = mac(1).to_string().replace(':', "-");
    let (status, script) = field.get(from, &format!("/boot.ipxe?mac={dashed}&platform=pcbios"));
    judge("modes: the boot script by HTTP", "200", &status.to_string());
    let token = token_of(&script).unwrap();
    let (status, kernel) = field.get(from, &format!("/boot/{token}/kernel"));
    judge("modes: the kernel by HTTP", "200", &status.to_string());
    assert!(kernel.contains("vmlinuz"), "{kernel}");
}

/// What listens, once the boot listener answers: the others are bound before it.
fn listens(field: &Field, mode: Dhcp, wanted: &str) {
    field.get(RELAY, "/");
    let ports = ports();
    let found = [(DHCP, "DHCP"), (TFTP, "TFTP")].into_iter().filter(|(port, _)| ports.contains(port));
    let found: Vec<&str> = found.map(|(_, name)| name).collect();
    judge(&format!("modes: what listens by UDP in the mode {mode:?}"), wanted, &found.join(", "));
}

fn with_mode(mode: Dhcp, test: fn(&mut Field)) {
    field::with_field(env!("CARGO_BIN_EXE_firesteel-tested"), mode, test);
}

#[test]
fn a_managed_network_is_served_by_dhcp_tftp_and_http() {
    with_mode(Dhcp::Managed, |field| {
        listens(field, Dhcp::Managed, "DHCP, TFTP");
        assert!(frame_sockets() > 0, "that of DHCP");
        let leased = field.lease(&discover(1, "PXEClient:Arch:00000:UNDI:002001", &[0]));
        assert_eq!(field.tftp(leased, "undionly.kpxe"), b"undionly.kpxe");
        boots_by_http(field, leased);
    });
}

/// Another server leases addresses there: an offer of ours would be a second truth.
#[test]
fn an_unmanaged_network_gets_no_dhcp_and_is_served_by_tftp_and_http() {
    with_mode(Dhcp::Unmanaged, |field| {
        listens(field, Dhcp::Unmanaged, "TFTP");
        assert_eq!((frame_sockets(), is_refused(field, DHCP)), (0, true), "nothing can make an offer");
        assert_eq!(field.tftp(RELAY, "undionly.kpxe"), b"undionly.kpxe");
        boots_by_http(field, RELAY);
    });
}

#[test]
fn a_disabled_network_is_served_by_http_alone() {
    with_mode(Dhcp::Disabled, |field| {
        listens(field, Dhcp::Disabled, "");
        assert_eq!(frame_sockets(), 0);
        assert!(is_refused(field, DHCP) && is_refused(field, TFTP));
        boots_by_http(field, RELAY);
    });
}
