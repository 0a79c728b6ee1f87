//! Floods: what strangers send, as fast as they can, costs nothing that lasts and keeps no known host from its address.
//!
//! Each lasts five seconds, or as many as `FIRESTEEL_FLOOD_SECONDS` says. From thirty on it is judged, too, that the data
//! folder does not grow in the second half.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use firesteel_appliance::serve::sealing::{self, KeyFile};
use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, code};
use firesteel_store::{Durability, GroupResource, ObjectKey, Op};
use firesteel_tests::field::{self, Field, RELAY, dhcp_socket, host_mac, mac};
use firesteel_tests::flood::{Flood, HOSTS, made_up};
use firesteel_tests::hostile::{Hostile, Move};
use firesteel_tests::network::{ADDRESS, Dhcp, LARGE, SMALL};
use firesteel_wire::Program;
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use serde_json::json;

use crate::{host_agent::HostAgent, judge, with_hostile};

const MIB: u64 = 1 << 20;
/// What a flood may add to the data folder: the logs of both databases, and a history of each kind.
const ABOVE_IDLE_MAX: u64 = 16 * MIB;
/// What may change in a folder that does not grow: the logs are written from their beginning again and again.
const WAVES: u64 = MIB;
/// Between two looks at the data folder.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most machines without an owner which the appliance remembers.
const DISCOVERED_MAX: usize = 1024;

fn seconds() -> u64 {
    std::env::var("FIRESTEEL_FLOOD_SECONDS").map_or(5, |text| text.parse().unwrap())
}

fn start(field: &Field, flood: Flood) -> Move {
    let ca = String::from_utf8(fs::read(field.appliance.data().join("pki/ca.crt")).unwrap()).unwrap();
    Move::Flood { flood, from: RELAY, seconds: seconds(), ca }
}

/// How many bytes the files of a folder have.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_in(&entry.path()),
        Ok(found) => found.len(),
        // It went meanwhile.
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

/// How many changes the store has seen.
fn revision(field: &Field) -> i64 {
    let database = rusqlite::Connection::open(field.appliance.data().join("resources.db")).unwrap();
    database.query_row("SELECT value FROM meta WHERE key = 'revision'", [], |row| row.get(0)).unwrap()
}

/// What strangers changed since a revision: all but the object that the appliance makes by itself after its start.
fn changed_since(field: &Field, revision: i64) -> Vec<String> {
    let database = rusqlite::Connection::open(field.appliance.data().join("resources.db")).unwrap();
    let sql = "SELECT resource || ' ' || name FROM log WHERE revision > ?1 AND resource <> 'machineconfigurations'";
    let mut changes = database.prepare(sql).unwrap();
    changes.query_map([revision], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Waits until the appliance does nothing by itself.
fn settle(field: &Field) -> (i64, u64) {
    let ends_at = Instant::now() + PATIENCE;
    let mut before = revision(field);
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let now = revision(field);
        if now == before {
            return (now, bytes_in(&field.appliance.data()));
        }
        before = now;
        assert!(Instant::now() < ends_at, "the store still changes by itself: revision {now}");
    }
}

fn add_hosts(field: &Field) {
    let host = |number: u16| {
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": format!("host-{number}")},
            "spec": {"online": true, "bootMACAddress": host_mac(number).to_string()},
        })
        .to_string()
    };
    let file = field.appliance.folder().join("hosts.yaml");
    fs::write(&file, (0..HOSTS).map(host).collect::<Vec<_>>().join("\n---\n")).unwrap();
    field.firesteel(&["apply", "-f", file.to_str().unwrap()]);
    let database = rusqlite::Connection::open(field.appliance.data().join("resources.db")).unwrap();
    let ends_at = Instant::now() + PATIENCE;
    loop {
        let sql = "SELECT count(*) FROM object WHERE resource = 'hostjournals'";
        let stepped: u16 = database.query_row(sql, [], |row| row.get(0)).unwrap();
        if stepped >= HOSTS {
            return;
        }
        assert!(Instant::now() < ends_at, "{stepped} hosts were stepped");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The data folder while a flood lasts: when, and how many bytes.
type Looks = Vec<(Duration, u64)>;

fn watch(folder: &Path) -> Looks {
    let (began, mut looks) = (Instant::now(), Vec::new());
    while began.elapsed() < Duration::from_secs(seconds()) {
        looks.push((began.elapsed(), bytes_in(folder)));
        std::thread::sleep(LOOK_EVERY);
    }
    looks
}

/// The largest that the folder was at the times that are meant.
fn largest(looks: &Looks, is_meant: impl Fn(Duration) -> bool) -> u64 {
    looks.iter().filter(|(at, _)| is_meant(*at)).map(|(_, bytes)| *bytes).max().unwrap_or(0)
}

/// What is judged of a flood beside known hosts.
fn withstands(flood: Flood) {
    field::with_network(env!("CARGO_BIN_EXE_firesteel-tested"), Dhcp::Managed, LARGE, move |field| {
        let mut hostile = Hostile::start(field, env!("CARGO_BIN_EXE_firesteel-hostile"));
        add_hosts(field);
        let (before, idle) = settle(field);
        let (next, data) = (start(field, flood), field.appliance.data());
        let (answered, looks, leased) = std::thread::scope(|scope| {
            let attack = scope.spawn(|| hostile.does(&next).body);
            let watching = scope.spawn(|| watch(&data));
            let leased = lease_all(field);
            (attack.join().unwrap(), watching.join().unwrap(), leased)
        });
        let wants = "known hosts without addresses, a full disk";
        println!("{flood:?}: {answered} answers, {} changes of the store", revision(field) - before);
        assert!(answered.parse::<u64>().unwrap() > 100, "that is no flood: {answered}");
        judge(&format!("{flood:?} flood: hosts with an address"), wants, "200", &leased.to_string());
        let most = largest(&looks, |_| true).max(bytes_in(&data));
        let above = most.saturating_sub(idle);
        println!("{flood:?}: {} KiB above idle", above >> 10);
        assert!(above <= ABOVE_IDLE_MAX, "{above} bytes above idle");
        if seconds() >= 30 {
            let half = Duration::from_secs(seconds() / 2);
            let (first, second) = (largest(&looks, |at| at < half), largest(&looks, |at| at >= half));
            assert!(second <= first + WAVES, "it grows: {first} bytes at most, then {second}");
        }
        let (peak, bound) = field.appliance.memory_kib();
        assert!(peak <= bound, "{peak} KiB of memory, and {bound} are stated");
    });
}

#[test]
fn a_flood_of_boot_scripts_is_withstood() {
    withstands(Flood::Scripts);
}

#[test]
fn a_flood_of_boot_scripts_in_hosts_names_is_withstood() {
    withstands(Flood::ScriptsOfHosts);
}

#[test]
fn a_flood_of_config_requests_is_withstood() {
    withstands(Flood::Configs);
}

#[test]
fn a_flood_of_machines_that_want_an_address_is_withstood() {
    withstands(Flood::Leases);
}

/// Scripts change nothing in the store. Refused configs are reported once a minute, in one event.
#[test]
fn strangers_write_nothing_to_the_store() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let (before, _) = settle(field);
        let answered = hostile.does(&start(field, Flood::Scripts)).body;
        let changes = changed_since(field, before);
        judge(&format!("{answered} boot scripts without a lease"), "writes", "[]", &format!("{changes:?}"));
        let answered = hostile.does(&start(field, Flood::Configs)).body;
        let changes = changed_since(field, before);
        println!("{answered} configs without a token | writes | {} changes", changes.len());
        let minutes = usize::try_from(seconds() / 60).unwrap() + 1;
        assert!(changes.len() <= 2 * minutes, "{answered} requests: {changes:?}");
    });
}

/// 1,100 requests ended discovery until a person deleted objects.
#[test]
fn a_crowd_of_made_up_machines_ends_no_discovery() {
    field::with_network(env!("CARGO_BIN_EXE_firesteel-tested"), Dhcp::Unmanaged, SMALL, |field| {
        let mut hostile = Hostile::start(field, env!("CARGO_BIN_EXE_firesteel-hostile"));
        let script = hostile.script(RELAY, &mac(7).to_string()).body;
        let mut first = HostAgent::of(field, 7);
        first.boot(field, &script);
        for number in 0..1_100 {
            hostile.script(RELAY, &made_up(number).to_string());
        }
        let status = first.hello(field, Program::default()).0;
        judge("hello of a machine that booted before 1,100 scripts", "no discovery", "200", &status.to_string());

        // As many as are remembered, the first of them with another owner's data on it.
        let data = field.appliance.data();
        field.appliance.kill_and_start_again_after(|| remember(&data));
        let script = hostile.script(RELAY, &mac(8).to_string()).body;
        let mut second = HostAgent::of(field, 8);
        second.boot(field, &script);
        let status = second.hello(field, Program::default()).0;
        judge("hello beside a full table of silent machines", "no discovery", "200", &status.to_string());
        let page = field.firesteel(&["get", "discoveredhosts", "-o", "json"]);
        let is_there = |number: u64| page.contains(&format!("\"{}\"", name(number)));
        let kept = (is_there(0), is_there(1), is_there(DISCOVERED_MAX as u64 - 1));
        assert_eq!(kept, (true, false, true), "with data on it, silent for longest, and the last one");
        for machine in [7, 8] {
            assert!(page.contains(&mac(machine).to_string().replace(':', "-")), "machine {machine}");
        }
    });
}

/// The name of the object of a machine that is not there.
fn name(number: u64) -> String {
    made_up(number).to_string().replace(':', "-")
}

/// Leaves a full table of machines in the store, each heard a second after the one before.
fn remember(data: &Path) {
    let database = data.join("resources.db");
    let key_file = KeyFile::open(&data.join(sealing::DEFAULT_FILE), &database).unwrap();
    let store = key_file.open_store(&database, Durability::Nothing).unwrap();
    let kind = GroupResource::new("firesteel.dev", "discoveredhosts");
    let machine = |number: u64| {
        let seen = jiff::Timestamp::from_second(1_700_000_000 + number.cast_signed()).unwrap().to_string();
        let mut object = json!({
            "apiVersion": "firesteel.dev/v1alpha1", "kind": "DiscoveredHost",
            "metadata": {"name": name(number), "uid": format!("uid-{number}"), "creationTimestamp": seen},
            "status": {"bootMac": made_up(number).to_string(), "macs": [], "firstSeen": seen, "lastSeen": seen, "boots": 1},
        });
        if number == 0 {
            object["status"]["uncleaned"] =
                json!({"host": "default/gone", "disk": "d", "ofTenant": true, "reason": "r", "at": seen});
        }
        Op::Create { key: ObjectKey::new(&kind, "", &name(number)), value: object.to_string().into() }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for number in 0..DISCOVERED_MAX as u64 {
            store.commit(machine(number), Vec::new()).await.unwrap();
        }
    });
}

/// The client's first retry, and the time after which it would be its second.
const RETRY: Duration = Duration::from_secs(4);
const LAST: Duration = Duration::from_secs(60);
/// Hosts are switched on one after the other.
const APART: Duration = Duration::from_millis(10);

/// A host's ROM, until it has an address. Each of its two messages is sent twice at most.
#[derive(Debug)]
struct Rom {
    begins_at: Instant,
    message: Packet,
    sent: u8,
    sent_at: Instant,
    is_over: bool,
    has_address: bool,
}

impl Rom {
    fn new(number: u16, begins_at: Instant) -> Self {
        let mut message = Packet::new(DhcpOperation::Request, 0x1000_0000 + u32::from(number), host_mac(number));
        message.broadcast = true;
        message.options.set_message_type(MessageType::Discover);
        Self { begins_at, message, sent: 0, sent_at: begins_at, is_over: false, has_address: false }
    }

    /// Whether it sends its message now.
    fn sends(&mut self, now: Instant) -> bool {
        let waited = now.saturating_duration_since(self.sent_at);
        let is_due = match self.sent {
            0 => now >= self.begins_at,
            1 => waited >= RETRY,
            _ => {
                // No verdict about a machine that is slow: only what never comes is missed.
                self.is_over |= waited >= LAST;
                false
            }
        };
        if is_due && !self.is_over {
            self.sent += 1;
            self.sent_at = now;
        }
        is_due && !self.is_over
    }

    fn hears(&mut self, reply: &Packet, now: Instant) {
        let is_offered = self.message.options.message_type() == Some(MessageType::Discover);
        match reply.options.message_type() {
            Some(MessageType::Offer) if is_offered => {
                self.message.options.set_message_type(MessageType::Request);
                self.message.options.set(code::REQUESTED_ADDRESS, reply.yiaddr.octets());
                self.message.options.set(code::SERVER_ID, ADDRESS.octets());
                (self.sent, self.begins_at) = (0, now);
            }
            Some(MessageType::Ack) if !is_offered => (self.is_over, self.has_address) = (true, true),
            Some(_) | None => {}
        }
    }
}

/// Has all hosts get an address; counts those that do within their first retry.
fn lease_all(field: &Field) -> usize {
    field.there(|| {
        let socket = dhcp_socket(68);
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        // The flood's answers are broadcast as well.
        if let Err(error) = setsockopt(&socket, RcvBufForce, &(16 << 20)) {
            println!("the hosts' socket has as much room as the system gives: {error}");
        }
        let began = Instant::now();
        let mut roms: BTreeMap<u32, Rom> = (0..HOSTS)
            .map(|number| Rom::new(number, began + APART * u32::from(number)))
            .map(|rom| (rom.message.xid, rom))
            .collect();
        let mut buffer = [0; 2048];
        while roms.values().any(|rom| !rom.is_over) {
            let now = Instant::now();
            for rom in roms.values_mut().filter(|rom| !rom.is_over) {
                if rom.sends(now) {
                    socket.send_to(&wire::encode(&rom.message).unwrap(), (Ipv4Addr::BROADCAST, 67)).unwrap();
                }
            }
            while let Ok(length) = socket.recv(&mut buffer) {
                let reply =
                    wire::decode(&buffer[..length]).ok().filter(|reply| reply.operation == DhcpOperation::Reply);
                if let Some((reply, rom)) = reply.and_then(|reply| roms.get_mut(&reply.xid).map(|rom| (reply, rom))) {
                    rom.hears(&reply, Instant::now());
                }
                if now.elapsed() > APART {
                    break;
                }
            }
        }
        roms.values().filter(|rom| rom.has_address).count()
    })
}
