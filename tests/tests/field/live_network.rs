//! Edits of a network that is served: exactly the services that an edit means change (S0.6), leases stay (S0.8), and the
//! address is put back (S0.11).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use firesteel_tests::agent_line::token_of;
use firesteel_tests::network::{ADDRESS, ip};
use serde_json::json;

use crate::network::{Field, RELAY, discover, judge, mac, with_field};

const DHCP: u16 = 67;
const TFTP: u16 = 69;
const HTTP: u16 = 8080;
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(300);
const CLASS: &str = "PXEClient:Arch:00000:UNDI:002001";

/// The sockets of the appliance's namespace by port: the kernel's number of each, which another socket never has.
fn sockets() -> BTreeMap<u16, u64> {
    let tables = ["udp", "tcp"].map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap());
    let mut found = BTreeMap::new();
    for row in tables.iter().flat_map(|table| table.lines().skip(1)) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let (_, port) = words[1].rsplit_once(':').unwrap();
        let (state, inode) = (words[3], words[9].parse().unwrap());
        // A datagram socket without a peer, and a listener (include/net/tcp_states.h).
        if ["07", "0A"].contains(&state) {
            found.insert(u16::from_str_radix(port, 16).unwrap(), inode);
        }
    }
    found.retain(|port, _| [DHCP, TFTP, HTTP].contains(port));
    found
}

/// Asks for something that is not there, on a connection that is open already.
fn is_answered(stream: &mut TcpStream) -> bool {
    stream.write_all(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n").is_ok()
        && stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0)
}

#[test]
fn another_mode_starts_and_stops_what_it_means_while_connections_stay() {
    with_field(|field| {
        let leased = field.lease(&discover(1, CLASS, &[0]));
        let mut stream = field.there(|| TcpStream::connect(SocketAddr::from((ADDRESS, HTTP))).unwrap());
        assert!(is_answered(&mut stream));
        // While we lease addresses, an asker without a lease is no host.
        let has_token = |from: Ipv4Addr, machine: u8| {
            let dashed = mac(machine).to_string().replace(':', "-");
            let (_, script) = field.get(from, &format!("/boot.ipxe?mac={dashed}&platform=pcbios"));
            token_of(&script).is_some()
        };
        assert!(has_token(leased, 1) && !has_token(RELAY, 2));
        let managed = sockets();
        assert_eq!(managed.keys().copied().collect::<Vec<_>>(), [DHCP, TFTP, HTTP]);
        for (mode, ports) in [("Unmanaged", vec![TFTP, HTTP]), ("Disabled", vec![HTTP])] {
            field.edit_network(&json!({"provisioningNetwork": mode}));
            let now = sockets();
            assert_eq!(now.keys().copied().collect::<Vec<_>>(), ports, "{mode}");
            assert!(now.iter().all(|(port, inode)| managed[port] == *inode), "{mode}: no other socket was opened anew");
            assert!(is_answered(&mut stream), "{mode}");
            assert!(has_token(RELAY, 3), "{mode}: an address of another server's is a host's");
        }
        field.edit_network(&json!({}));
        let again = sockets();
        assert_eq!(again.keys().copied().collect::<Vec<_>>(), [DHCP, TFTP, HTTP]);
        assert_eq!(again[&HTTP], managed[&HTTP]);
        assert!(is_answered(&mut stream));
        assert_eq!(field.obtain(&discover(1, CLASS, &[0])), leased, "the lease is known still");
        judge(
            "modes: Managed, Unmanaged, Disabled, Managed",
            "the same listener for HTTP",
            "the same listener for HTTP",
        );
    });
}

#[test]
fn a_range_changes_without_a_start_and_leases_in_both_stay() {
    with_field(|field| {
        let first = field.obtain(&discover(1, CLASS, &[0]));
        let before = sockets();
        let beside = if first.octets()[3] < 150 { "10.77.0.90,10.77.0.160" } else { "10.77.0.140,10.77.0.210" };
        field.edit_network(&json!({"provisioningDHCPRange": beside}));
        assert_eq!(field.obtain(&discover(1, CLASS, &[0])), first);
        field.edit_network(&json!({"provisioningDHCPRange": "10.77.0.20,10.77.0.21"}));
        let moved = field.obtain(&discover(2, CLASS, &[0]));
        judge(
            "an edit of the range: a new machine's address",
            "20 or 21",
            match moved.octets()[3] {
                20 | 21 => "20 or 21",
                _ => "another",
            },
        );
        assert_eq!(sockets(), before, "no socket was opened anew");
    });
}

/// Says whether the appliance's end of the wire has this address.
fn has_address(address: Ipv4Addr) -> bool {
    let leaf = format!("|-- {address}");
    fs::read_to_string("/proc/thread-self/net/fib_trie").unwrap().lines().any(|line| line.trim() == leaf)
}

fn until(field: &Field, is_so: impl Fn() -> bool) {
    let ends_at = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < ends_at, "{}", field.appliance.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_address_that_is_removed_by_hand_comes_back() {
    with_field(|field| {
        assert!(has_address(ADDRESS));
        ip("address del 10.77.0.1/24 dev s0");
        assert!(!has_address(ADDRESS));
        until(field, || has_address(ADDRESS));
        assert_eq!(field.tftp(RELAY, "undionly.kpxe"), b"undionly.kpxe");
        judge("the address is removed by hand", "it comes back", "it comes back");
    });
}

/// The API stays at the address that it has: only what the object is about moves.
#[test]
fn another_address_is_put_and_what_was_put_is_taken_back() {
    with_field(|field| {
        let other = Ipv4Addr::new(10, 77, 0, 9);
        field.edit_network(&json!({"provisioningIP": other}));
        assert!(has_address(other) && has_address(ADDRESS), "an address that was there before is no one's to remove");
        field.edit_network(&json!({}));
        until(field, || !has_address(other));
        assert!(has_address(ADDRESS));
        let leased = field.lease(&discover(1, CLASS, &[0]));
        assert_eq!(field.tftp(leased, "undionly.kpxe"), b"undionly.kpxe");
    });
}

/// A host that writes its disk keeps its server: the listener for HTTP stays, and works again with the address.
#[test]
fn an_interface_that_vanishes_is_served_again_when_it_returns() {
    with_field(|field| {
        let leased = field.obtain(&discover(1, CLASS, &[0]));
        let before = sockets();
        field.replace_wire(|| {
            field.appliance.wait_for_log("the service is stopped service=\"dhcp\"");
            assert_eq!(sockets().keys().copied().collect::<Vec<_>>(), [HTTP]);
        });
        until(field, || has_address(ADDRESS));
        field.appliance.wait_until_network_is_served();
        let after = sockets();
        assert_eq!(after[&HTTP], before[&HTTP]);
        assert!(
            after[&TFTP] != before[&TFTP] && after[&DHCP] != before[&DHCP],
            "an old socket serves a link that is gone"
        );
        assert_eq!(field.obtain(&discover(1, CLASS, &[0])), leased, "the lease is known still");
        assert_eq!(field.tftp(RELAY, "undionly.kpxe"), b"undionly.kpxe");
        judge("the interface vanishes and returns", "served again", "served again");
    });
}
