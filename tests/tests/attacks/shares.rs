//! What one machine can take from all others: addresses, transfers, connections. A known host has a share of each, which no
//! other machine can take in its own name, in the name of another host, or in many made-up ones.

use std::{fs, net::Ipv4Addr, process::Output, time::Duration};

use firesteel_dhcp::LeaseRefusal;
use firesteel_dhcp::wire::{MessageType, Packet, code};
use firesteel_tests::agent_line::token_of;
use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::hostile::{Hostile, Move};
use firesteel_tests::network::{BOOT_FILES, Dhcp, ip};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;

use crate::{CLASS, judge, with_hostile};

const BOOT_PORT: u16 = 8080;
const API_PORT: u16 = 6443;
/// The last address of the pool: it is kept for known hosts.
const KEPT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 199);
/// Of one address, and of one listener for everybody.
const CONNECTIONS_OF_ONE: usize = 64;
const CONNECTIONS_IN_COMMON: usize = 768;
/// More than the kernels of both ends take for a connection that reads slowly.
const LARGE_FILE_BYTES: usize = 4 << 20;

fn asks(last: u8) -> Packet {
    discover(last, CLASS, &[7])
}

/// Adds hosts, and waits until DHCP knows them, which follows them by itself, in their order.
fn add_known_hosts(field: &Field, numbers: std::ops::RangeInclusive<u8>) {
    for number in numbers.clone() {
        field.apply(&json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": format!("host-{number}")},
            "spec": {"online": true, "bootMACAddress": mac(number).to_string()},
        }));
    }
    let first = format!("host-{}", numbers.start());
    field.until(&["describe", "host", &first], |page| page.contains("waiting for the host to boot"));
    // One that is no stranger hears another reason why it may not go on with an address that it never had.
    let mut probe = asks(*numbers.end());
    probe.options.set_message_type(MessageType::Request);
    probe.options.set(code::REQUESTED_ADDRESS, KEPT.octets());
    while field.ask(&probe).options.text(code::MESSAGE).as_deref() == Some(LeaseRefusal::KeptForKnown.text()) {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Addresses of the machines' end of the wire that no DHCP server leased.
fn strangers(field: &Field, count: u8) -> Vec<Ipv4Addr> {
    let addresses: Vec<Ipv4Addr> = (0..count).map(|number| Ipv4Addr::new(10, 77, 0, 10 + number)).collect();
    field.there(|| addresses.iter().for_each(|address| ip(&format!("address add {address}/24 dev c0"))));
    addresses
}

/// The test, the machine and the appliance have a thousand connections each.
fn allow_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}

fn script(hostile: &mut Hostile, from: Ipv4Addr, last: u8) -> &'static str {
    let answer = hostile.script(from, &mac(last).to_string());
    match token_of(&answer.body) {
        Some(_) => "a token",
        None if answer.status == 200 => "a script",
        None => "no script",
    }
}

/// 88 forged DECLINEs left known hosts without an address for an hour: here a hundred, in the names of 25 of them.
#[test]
fn forged_declines_leave_known_hosts_an_address() {
    with_hostile(Dhcp::Managed, |field, _| {
        add_known_hosts(field, 1..=26);
        for number in 1..=25 {
            let mut had = Vec::new();
            for round in 0..4 {
                // An answer to one round is none to the next.
                let ask = Packet { xid: 0x2600_0000 + 256 * u32::from(number) + 16 * round, ..asks(number) };
                let address = field.obtain(&ask);
                assert!(!had.contains(&address), "{number} is offered {address} again: {had:?}");
                field.decline(&ask, address);
                had.push(address);
            }
        }
        let address = field.obtain(&asks(26));
        judge("100 DECLINEs in the names of 25 hosts", "the whole pool", "the next host has an address", {
            if (100..=199).contains(&address.octets()[3]) { "the next host has an address" } else { "it has none" }
        });
        field.appliance.wait_for_log(&format!("lease granted interface=\"s0\" mac={}", mac(26)));
        let log = field.appliance.log();
        let resting = log.lines().filter(|line| line.contains("it is set aside for an hour")).count();
        judge("the same", "100 addresses set aside", "25 of 100", &format!("{resting} of 100"));
        assert!(log.contains("more addresses are declined than conflicts explain"), "the log says so");
    });
}

#[test]
fn a_forged_release_gives_no_other_machine_the_address() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        add_known_hosts(field, 1..=2);
        let hosts = field.lease(&asks(1));
        field.release(&asks(1), hosts);
        let mut wish = asks(50);
        wish.options.set(code::REQUESTED_ADDRESS, hosts.octets());
        let offered = field.ask(&wish).yiaddr;
        let got = if offered == hosts { "the host's address" } else { "another address" };
        judge("RELEASE in the name of a host", "the host's address", "another address", got);
        judge("the host after that", "-", "a token", script(hostile, hosts, 1));
    });
}

/// 512 requests with a long timeout refused everybody for two minutes.
#[test]
fn tftp_reads_that_fall_silent_leave_known_hosts_theirs() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let hosts = field.lease(&asks(1));
        let from = strangers(field, 64);
        let begun = hostile.does(&Move::Transfers { from, each: 8, timeout_s: 60 }).status;
        println!("512 TFTP reads that fall silent | every transfer | {begun} begun");
        let file = field.tftp(hosts, "undionly.kpxe");
        judge("the host beside 512 TFTP reads that fall silent", "-", "undionly.kpxe", &String::from_utf8_lossy(&file));
    });
}

/// Connections that send nothing, or no whole request, are closed for those that do.
#[test]
fn idle_connections_yield() {
    allow_files();
    with_hostile(Dhcp::Managed, |field, hostile| {
        add_known_hosts(field, 1..=6);
        let hosts = field.lease(&asks(1));
        let forged: Vec<Ipv4Addr> = (2..=5).map(|number| field.lease(&asks(number))).collect();
        let (each, port) = (CONNECTIONS_OF_ONE, BOOT_PORT);
        let mut silent = strangers(field, 16);
        let half = [silent.split_off(8), forged].concat();
        for (from, says) in [(silent, ""), (half, "GET /boot.ipxe HTTP/1.1\r\nX: ")] {
            hostile.does(&Move::Crowd { from, each, port, says: says.to_owned() });
        }
        judge("the host beside 1,280 idle connections", "-", "a token", script(hostile, hosts, 1));
        let unknown = field.lease(&asks(50));
        judge("an unknown machine beside them", "-", "a token", script(hostile, unknown, 50));
        field.appliance.wait_for_log("why=\"yielded\"");
    });
}

/// Four leases in the names of hosts took what is kept for all of them.
#[test]
fn forged_leases_take_no_more_than_the_share_of_their_hosts() {
    allow_files();
    with_hostile(Dhcp::Managed, |field, hostile| {
        let file = field.appliance.folder().join(BOOT_FILES).join("ipxe.efi");
        fs::write(file, vec![7; LARGE_FILE_BYTES]).unwrap();
        field.appliance.kill_and_start_again();
        add_known_hosts(field, 1..=6);
        let hosts = field.lease(&asks(1));
        let forged: Vec<Ipv4Addr> = (2..=5).map(|number| field.lease(&asks(number))).collect();
        let each = CONNECTIONS_OF_ONE;
        let all = u8::try_from(CONNECTIONS_IN_COMMON / each).unwrap();
        let says = "GET /loader/ipxe.efi HTTP/1.1\r\nHost: x\r\n\r\n".to_owned();
        for from in [strangers(field, all), forged] {
            hostile.does(&Move::Crowd { from, each, port: BOOT_PORT, says: says.clone() });
        }
        judge(
            "the host beside 1,024 slow readers, 256 with leases of hosts",
            "-",
            "a token",
            script(hostile, hosts, 1),
        );
    });
}

/// The API is on a network where others are, too.
#[test]
fn an_operator_reaches_the_api_beside_a_crowd() {
    allow_files();
    with_hostile(Dhcp::Managed, |field, hostile| {
        let from = strangers(field, 4);
        hostile.does(&Move::Crowd { from, each: 96, port: API_PORT, says: String::new() });
        let mut command = field.appliance.command();
        let Output { status, stderr, .. } = field.there(|| command.args(["get", "hosts"]).output().unwrap());
        let got = if status.success() { "an answer" } else { "none" };
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        judge("an operator on the network beside 384 idle connections", "-", "an answer", got);
    });
}
