//! The appliance's DHCP server and other people's clients and relays, and its client and another
//! server: udhcpc, dhclient, dhcrelay, dnsmasq.
//!
//! Each test builds namespaces of its own, so it needs root; without it, or without the program, it
//! says so and passes. Replies by broadcast and straight to the hardware address are among them:
//! dhclient and udhcpc ask without the broadcast flag, the client that the agent runs with it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firesteel_dhcp::{DhcpConfig, DhcpEvent, DhcpEventKind, Ipv4Network, Pool, Subnet};
use firesteel_net::rogue_server;
use firesteel_tests::dhcp_client;
use nix::sys::signal::Signal;

use wire::{Namespace, Running, Server, Tools, wait_for};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const RELAY: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);

fn config() -> DhcpConfig {
    let pool = |third, first, last| {
        Some(Pool { first: Ipv4Addr::new(10, third, 0, first), last: Ipv4Addr::new(10, third, 0, last) })
    };
    DhcpConfig {
        server_address: SERVER,
        local: Subnet { network: Ipv4Network::of(SERVER, 24), pool: pool(77, 100, 199), router: None },
        relayed: vec![Subnet { network: Ipv4Network::of(RELAY, 24), pool: pool(88, 100, 199), router: Some(RELAY) }],
        dns: vec![SERVER],
        ntp: Vec::new(),
        domain: Some("lab.example".into()),
        lease_time: Duration::from_secs(120),
        reservations: BTreeMap::new(),
        // No host: what machines give back is taken.
        known: Some(BTreeSet::new()),
    }
}

/// A server and a client with one cable between.
struct Bench {
    folder: tempfile::TempDir,
    server: Server,
    client: Namespace,
    _far: Namespace,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (far, client) = (Namespace::new("server"), Namespace::new("client"));
        far.cable("s0", &client, "c0");
        far.address("s0", "10.77.0.1/24");
        let server = Server::start(&far, "s0", config(), &folder.path().join("leases.db"));
        Self { folder, server, client, _far: far }
    }
}

fn is_ack(event: &DhcpEvent) -> bool {
    matches!(event.what, DhcpEventKind::Acked { .. })
}

fn is_release(event: &DhcpEvent) -> bool {
    matches!(event.what, DhcpEventKind::Released { .. })
}

fn address_of(event: &DhcpEvent) -> Ipv4Addr {
    let (DhcpEventKind::Acked { address, .. } | DhcpEventKind::Released { address }) = event.what else {
        panic!("{event:?}")
    };
    address
}

/// An executable file.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What udhcpc runs at each change.
const UDHCPC_SCRIPT: &str = r#"#!/bin/sh
case "$1" in
deconfig) ip address flush dev "$interface" scope global ;;
bound|renew)
    ip address replace "$ip/$mask" dev "$interface"
    [ -n "$router" ] && ip route replace default via "$router"
    echo "$1 $ip $mask $serverid $lease $dns $domain" >> "$0.log" ;;
esac
exit 0
"#;

/// Runs udhcpc through its whole life and tells what its script saw.
fn live_with_udhcpc(tools: &Tools, folder: &Path, client: &Namespace, server: &Server) -> String {
    let script = script(folder, "udhcpc", UDHCPC_SCRIPT);
    let mut command = client.command(tools.path(0));
    command.args(["-f", "-i", "c0", "-x", "hostname:bench", "-s"]).arg(&script);
    let udhcpc = Running::start(&mut command);
    let address = address_of(&server.wait_for("udhcpc's lease", is_ack));
    wait_for("udhcpc's address", || client.has_address("c0", address));

    udhcpc.signal(Signal::SIGUSR1);
    assert_eq!(address_of(&server.wait_for("udhcpc's renewal", is_ack)), address);
    let log = folder.join("udhcpc.log");
    wait_for("udhcpc's script", || fs::read_to_string(&log).is_ok_and(|log| log.contains("renew ")));

    udhcpc.signal(Signal::SIGUSR2);
    assert_eq!(address_of(&server.wait_for("udhcpc's release", is_release)), address);
    wait_for("udhcpc to drop the address", || !client.has_address("c0", address));
    fs::read_to_string(log).unwrap()
}

#[test]
fn udhcpc_obtains_renews_and_releases() {
    let Some(tools) = Tools::find("udhcpc", &["udhcpc"]) else { return };
    let bench = Bench::new();
    let log = live_with_udhcpc(&tools, bench.folder.path(), &bench.client, &bench.server);
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines[0], "bound 10.77.0.100 24 10.77.0.1 120 10.77.0.1 lab.example");
    assert_eq!(lines[1], "renew 10.77.0.100 24 10.77.0.1 120 10.77.0.1 lab.example");
}

/// What dhclient runs at each change.
const DHCLIENT_SCRIPT: &str = r#"#!/bin/sh
echo "$reason $new_ip_address" >> "$(dirname "$0")/dhclient.log"
case "$reason" in
PREINIT) ip link set "$interface" up ;;
BOUND|RENEW|REBIND|REBOOT)
    ip address replace "$new_ip_address/$new_subnet_mask" dev "$interface"
    [ -n "$new_routers" ] && ip route replace default via "$new_routers" ;;
RELEASE|EXPIRE|FAIL|STOP) ip address flush dev "$interface" scope global ;;
esac
exit 0
"#;

#[test]
fn dhclient_obtains_renews_reboots_and_releases() {
    let Some(tools) = Tools::find("dhclient", &["dhclient"]) else { return };
    let bench = Bench::new();
    let folder = bench.folder.path();
    let script = script(folder, "dhclient-script", DHCLIENT_SCRIPT);
    // It renews when told so by the server only; here it believes to have been told "in two seconds".
    let conf = folder.join("dhclient.conf");
    fs::write(&conf, "supersede dhcp-renewal-time 2;\nsupersede dhcp-rebinding-time 100;\n").unwrap();
    let dhclient = |arguments: &[&str]| {
        let mut command = bench.client.command(tools.path(0));
        command.arg("-4").args(arguments).arg("-sf").arg(&script).arg("-cf").arg(&conf);
        command.arg("-lf").arg(folder.join("dhclient.leases")).arg("-pf").arg(folder.join("dhclient.pid"));
        command.arg("c0");
        command
    };
    let running = Running::start(&mut dhclient(&["-d", "-1"]));
    let address = address_of(&bench.server.wait_for("dhclient's lease", is_ack));
    wait_for("dhclient's address", || bench.client.has_address("c0", address));
    assert_eq!(address_of(&bench.server.wait_for("dhclient's renewal", is_ack)), address);
    let log = || fs::read_to_string(folder.join("dhclient.log")).unwrap_or_default();
    wait_for("dhclient's script", || log().contains(&format!("RENEW {address}")));
    drop(running);

    // Started again it remembers its lease and asks in INIT-REBOOT.
    let running = Running::start(&mut dhclient(&["-d", "-1"]));
    wait_for("dhclient to come back", || log().contains(&format!("REBOOT {address}")));
    drop(running);

    wire::run(&mut dhclient(&["-r"]));
    assert_eq!(address_of(&bench.server.wait_for("dhclient's release", is_release)), address);
}

/// A relay between the client's network and the server's, in a namespace of its own.
fn relayed(tools: &Tools, relay_command: impl FnOnce(&Namespace, &Path) -> std::process::Command) {
    let folder = tempfile::tempdir().unwrap();
    let (far, relay, client) = (Namespace::new("server"), Namespace::new("relay"), Namespace::new("client"));
    far.cable("s0", &relay, "r0");
    relay.cable("r1", &client, "c0");
    far.address("s0", "10.77.0.1/24");
    relay.address("r0", "10.77.0.2/24");
    relay.address("r1", "10.88.0.1/24");
    far.ip(&["route", "add", "10.88.0.0/24", "via", "10.77.0.2"]);
    let forward = ["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];
    wire::run(relay.command(Path::new("/bin/sh")).args(forward));
    let server = Server::start(&far, "s0", config(), &folder.path().join("leases.db"));
    let _relay = Running::start(&mut relay_command(&relay, folder.path()));
    let log = live_with_udhcpc(tools, folder.path(), &client, &server);
    for line in log.lines() {
        assert!(line.ends_with(" 10.88.0.100 24 10.77.0.1 120 10.77.0.1 lab.example"), "{line}");
    }
}

#[test]
fn a_host_behind_dhcrelay_obtains_renews_and_releases() {
    let Some(tools) = Tools::find("dhcrelay", &["udhcpc", "dhcrelay"]) else { return };
    relayed(&tools, |relay, folder| {
        // With option 82 (-a), as switches add it; it drops replies that do not bring it back (-D).
        let mut command = relay.command(tools.path(1));
        command.args(["-4", "-d", "-a", "-D", "-pf"]).arg(folder.join("dhcrelay.pid"));
        command.args(["-id", "r1", "-iu", "r0", "10.77.0.1"]);
        command
    });
}

#[test]
fn a_host_behind_dnsmasq_obtains_renews_and_releases() {
    let Some(tools) = Tools::find("dnsmasq as relay", &["udhcpc", "dnsmasq"]) else { return };
    relayed(&tools, |relay, _| {
        let mut command = relay.command(tools.path(1));
        command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file="]);
        command.args(["--interface=r0", "--interface=r1", "--dhcp-relay=10.88.0.1,10.77.0.1"]);
        command
    });
}

/// dnsmasq as the other server on the wire.
fn start_dnsmasq(tools: &Tools, folder: &Path, namespace: &Namespace) -> Running {
    let mut command = namespace.command(tools.path(0));
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file="]);
    command.args(["--no-ping", "--dhcp-authoritative", "--dhcp-range=10.77.0.50,10.77.0.60,255.255.255.0,120"]);
    command.arg(format!("--dhcp-leasefile={}", folder.join("dnsmasq.leases").display()));
    Running::start(&mut command)
}

fn look_for_others(namespace: &Namespace) -> Option<rogue_server::RogueServer> {
    let looking = namespace.inside(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(rogue_server::find("c0", Duration::from_secs(1))).unwrap()
    });
    looking.join().unwrap()
}

#[test]
fn another_server_on_the_wire_is_named() {
    let Some(tools) = Tools::find("looking for others", &["dnsmasq"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (far, near) = (Namespace::new("other"), Namespace::new("ours"));
    far.cable("s0", &near, "c0");
    far.ip(&["link", "set", "s0", "address", "52:54:00:00:00:99"]);
    far.address("s0", "10.77.0.9/24");
    near.address("c0", "10.77.0.1/24");
    assert_eq!(look_for_others(&near), None, "a quiet wire");
    let _dnsmasq = start_dnsmasq(&tools, folder.path(), &far);
    let mut found = None;
    wait_for("dnsmasq to answer", || {
        found = look_for_others(&near);
        found.is_some()
    });
    assert_eq!(found.unwrap().to_string(), "DHCP server 10.77.0.9 (52:54:00:00:00:99)");
}

#[test]
fn a_second_appliance_is_found_as_well() {
    if Tools::find("looking for our own kind", &[]).is_none() {
        return;
    }
    let bench = Bench::new();
    let mut found = None;
    wait_for("the appliance to answer", || {
        found = look_for_others(&bench.client);
        found.is_some()
    });
    assert_eq!(found.unwrap().server, SERVER);
}

/// Runs our client on a plain UDP socket until it is bound, and returns its lease.
fn bind_our_client(namespace: &Namespace, number: u8) -> firesteel_dhcp::client::GrantedAddress {
    let mac = firesteel_facts::Mac([0x52, 0x54, 0, 0, 0, number]);
    namespace.inside(move || dhcp_client::lease("c0", mac)).join().unwrap().unwrap()
}

#[test]
fn our_client_is_served_by_dnsmasq_and_by_us() {
    let Some(tools) = Tools::find("our client", &["dnsmasq"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (far, near) = (Namespace::new("other"), Namespace::new("ours"));
    far.cable("s0", &near, "c0");
    far.address("s0", "10.77.0.9/24");
    let _dnsmasq = start_dnsmasq(&tools, folder.path(), &far);
    let lease = bind_our_client(&near, 7);
    assert_eq!((lease.server, lease.prefix_length), (Ipv4Addr::new(10, 77, 0, 9), 24));
    assert_eq!(lease.lease_time, Duration::from_secs(120));

    let bench = Bench::new();
    let lease = bind_our_client(&bench.client, 8);
    assert_eq!((lease.server, lease.address), (SERVER, Ipv4Addr::new(10, 77, 0, 100)));
    assert_eq!(lease.domain.as_deref(), Some("lab.example"));
}

#[test]
fn leases_outlive_the_server() {
    let Some(tools) = Tools::find("restart", &["udhcpc"]) else { return };
    let bench = Bench::new();
    let folder = bench.folder.path();
    let script = script(folder, "udhcpc", UDHCPC_SCRIPT);
    let once = |client: &Namespace| {
        wire::run(client.command(tools.path(0)).args(["-f", "-q", "-n", "-t", "30", "-i", "c0", "-s"]).arg(&script));
    };
    once(&bench.client);
    let Bench { folder, server, client, _far: far } = bench;
    drop(server);
    let server = Server::start(&far, "s0", config(), &folder.path().join("leases.db"));
    let other = bind_our_client(&client, 9);
    assert_eq!(other.address, Ipv4Addr::new(10, 77, 0, 101), "the first is taken, the new server knows");
    once(&client);
    let log = fs::read_to_string(folder.path().join("udhcpc.log")).unwrap();
    let addresses: Vec<_> = log.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(addresses, ["10.77.0.100", "10.77.0.100"]);
    drop(server);
}
