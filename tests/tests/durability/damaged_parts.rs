//! What the appliance gives and does while something of its data folder is damaged: nothing from a database that cannot
//! be opened, and nothing for a host of which an object is damaged, until that is deleted unread.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use firesteel_tests::appliance::Appliance;
use firesteel_tests::network::{ADDRESS, with_appliance};
use rusqlite::Connection as Database;
use serde_json::json;

use crate::administrator::{Administrator, named, settle, wait_until};
use crate::talk::{Connection, Request};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const NETWORK: &str = "/apis/metal3.io/v1alpha1/provisionings/provisioning-configuration";

/// Ports that are served in this network namespace: UDP as it is bound, TCP as it is listened on.
fn ports() -> (Vec<u16>, Vec<u16>) {
    let of = |table: &str, state: &str| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
        let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let bound = lines.filter(|words| words[3] == state).map(|words| {
            let port = words[1].rsplit(':').next().unwrap();
            u16::from_str_radix(port, 16).unwrap()
        });
        bound.collect::<Vec<u16>>()
    };
    (of("udp", "07"), of("tcp", "0A"))
}

/// Alters the newest value of an object that is stored.
fn alter(database: &Path, plural: &str, name: &str) {
    settle(database);
    let sql = "UPDATE log SET value = substr(value, 2)
               WHERE revision = (SELECT revision FROM object WHERE resource = ?1 AND name = ?2)";
    assert_eq!(Database::open(database).unwrap().execute(sql, [plural, name]).unwrap(), 1);
}

/// The services of machines, and the API.
fn all_is_served() -> bool {
    let (udp, tcp) = ports();
    udp.contains(&67) && [6443, 8080, 8443].iter().all(|port| tcp.contains(port))
}

/// No DHCP, TFTP, boot files, agents or configs; the API alone.
fn nothing_is_served_but_the_api() {
    assert_eq!(ports(), (vec![], vec![6443]));
}

#[test]
fn from_a_database_that_cannot_be_opened_nothing_is_given() {
    with_appliance(PROGRAM, |mut appliance| {
        let database = appliance.data().join("resources.db");
        wait_until("all services", all_is_served);
        let mut whole = Vec::new();
        appliance.kill_and_start_again_after(|| {
            settle(&database);
            whole = fs::read(&database).unwrap();
            let mut broken = whole.clone();
            broken[..4096].fill(0x5a);
            fs::write(&database, broken).unwrap();
        });
        let mut owner = Administrator::of(&appliance);
        for path in ["/api/v1/namespaces", "/apis", "/metrics", "/readyz", "/firesteel.dev/backup"] {
            let (code, status) = owner.get(path);
            let message = status["message"].as_str().unwrap_or_default();
            assert_eq!(code, 500, "{path}: {status}");
            assert!(message.contains("resources.db") && message.contains("firesteel restore"), "{path}: {message}");
        }
        let (code, status) = owner.ask("POST", "/api/v1/namespaces", &named("lab"));
        assert_eq!(code, 500, "{status}");
        assert_eq!(owner.get("/livez").0, 200);
        owner.bearer = "Bearer wrong".to_owned();
        let (code, status) = owner.get("/api/v1/namespaces");
        assert!(code == 500 && !status.to_string().contains("resources.db"), "{status}");
        nothing_is_served_but_the_api();
        let kept = fs::read(&database).unwrap();
        assert!(kept[..4096].iter().all(|byte| *byte == 0x5a), "the file is left as it is");

        appliance.kill_and_start_again_after(|| fs::write(&database, &whole).unwrap());
        wait_until("all services again", all_is_served);
        assert_eq!(Administrator::of(&appliance).get("/api/v1/namespaces/default").0, 200);

        let leases = appliance.data().join("leases.db");
        appliance.kill_and_start_again_after(|| {
            for suffix in ["-wal", "-shm"] {
                drop(fs::remove_file(format!("{}{suffix}", leases.display())));
            }
            fs::write(&leases, [0x5a; 8192]).unwrap();
        });
        let mut owner = Administrator::of(&appliance);
        wait_until("a network that names the lease file", || {
            let (code, network) = owner.get(NETWORK);
            let conditions = network["status"]["conditions"].to_string();
            code == 200 && conditions.contains("could not start dhcp yet") && conditions.contains("leases.db")
        });
        assert_eq!(owner.get("/api/v1/namespaces/default").0, 200);
        let script = script();
        assert!(!script.contains("/boot/"), "it is not known which machine has which address: {script}");
        assert!(!ports().0.contains(&67), "no address is leased twice");
    });
}

#[test]
fn a_damaged_network_and_a_damaged_journal_freeze_and_are_deleted_unread() {
    with_appliance(PROGRAM, |mut appliance| {
        let database = appliance.data().join("resources.db");
        let mut owner = Administrator::of(&appliance);
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";
        let journal = "/apis/firesteel.dev/v1alpha1/namespaces/default/hostjournals/h1";
        let mut host = named("h1");
        host["apiVersion"] = json!("metal3.io/v1alpha1");
        host["kind"] = json!("BareMetalHost");
        host["metadata"]["annotations"] = json!({ "firesteel.dev/boot-address": "any" });
        host["spec"] = json!({ "online": true, "bootMACAddress": "52:54:00:77:01:01" });
        owner.make(hosts, &host);
        wait_until("a boot script with a token", || script().contains("/boot/"));

        appliance.kill_and_start_again_after(|| alter(&database, "hostjournals", "h1"));
        let mut owner = Administrator::of(&appliance);
        wait_until("the condition of a frozen host", || {
            let (code, host) = owner.get(&format!("{hosts}/h1"));
            assert_eq!(code, 200, "{host}");
            let conditions = host["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "StoredObjectDamaged" && one["status"] == "True")
        });
        let (code, status) = owner.get(journal);
        assert_eq!((code, &status["reason"]), (500, &json!("StorageReadError")), "{status}");
        assert!(status["message"].as_str().unwrap().contains("hostjournals.firesteel.dev/default/h1"), "{status}");
        let script_of_frozen = script();
        assert!(!script_of_frozen.contains("/boot/") && script_of_frozen.contains("damaged"), "{script_of_frozen}");

        a_person_sees_it(&appliance);
        let refused = appliance.command().args(["delete-damaged", "hosts", "h1"]).output().unwrap();
        assert!(!refused.status.success(), "it can be read");
        let deleted = appliance.command().args(["delete-damaged", "hostjournals", "h1"]).output().unwrap();
        assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
        wait_until("a journal of its own again", || owner.get(journal).0 == 200);
        wait_until("the end of the condition", || {
            let (_, host) = owner.get(&format!("{hosts}/h1"));
            let conditions = host["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().all(|one| one["type"] != "StoredObjectDamaged")
        });

        appliance.kill_and_start_again_after(|| alter(&database, "baremetalhosts", "h1"));
        let mut owner = Administrator::of(&appliance);
        let (code, status) = owner.get(&format!("{hosts}/h1"));
        assert_eq!(code, 500, "{status}");
        assert_eq!(owner.get(hosts).0, 500);
        wait_until("the services of machines", all_is_served);
        let script_of_unknown = script();
        assert!(!script_of_unknown.contains("/boot/"), "it may be the host: {script_of_unknown}");
        let (code, journal_now) = owner.get(journal);
        assert_eq!(code, 200, "its journal is no garbage: {journal_now}");

        appliance.kill_and_start_again_after(|| alter(&database, "provisionings", "provisioning-configuration"));
        appliance.wait_for_log("no network is served until it is there again");
        let mut owner = Administrator::of(&appliance);
        let (code, status) = owner.get(NETWORK);
        assert_eq!(code, 500, "{status}");
        nothing_is_served_but_the_api();
    });
}

fn a_person_sees_it(appliance: &Appliance) {
    for (words, shown) in [("describe host h1", "StoredObjectDamaged"), ("get hosts", "DAMAGED")] {
        let output = appliance.command().args(words.split(' ')).output().unwrap();
        let (page, warning) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && page.contains(shown), "{words}: {page}{warning}");
        assert!(warning.contains("hostjournals.firesteel.dev/default/h1"), "{words}: {warning}");
    }
}

/// What the host's firmware gets that asks for its boot script.
fn script() -> String {
    let path = "/boot.ipxe?mac=52-54-00-77-01-01&platform=efi";
    let asked = Connection::plain(SocketAddr::from((ADDRESS, 8080)));
    let answer = asked.and_then(|mut boot| boot.ask(&Request { method: "GET", path, ..Request::default() }));
    answer.map_or_else(|_| String::new(), |answer| answer.text())
}
