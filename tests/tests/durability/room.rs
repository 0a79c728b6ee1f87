//! A data folder of 48 MiB that is full: by a tenant, by an admin, by another program. What matters goes on, and
//! what was acknowledged is there.
//!
//! The disk is a tmpfs that the test and its appliance alone see. Nothing here waits for a time: what is refused says
//! so, and what is to come is asked for until it is there.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use firesteel_dhcp::wire::{self, MessageType, code};
use firesteel_tests::field::{self, Field, discover, mac};
use firesteel_tests::network::ADDRESS;
use rusqlite::{Connection as Database, config::DbConfig};
use serde_json::{Value, json};

use crate::talk::{Answer, Connection, Request};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const DISK_MIB: u32 = 48;
/// Of firmware that boots by UEFI.
const CLASS: &str = "PXEClient:Arch:00007:UNDI:003016";
const PATIENCE: Duration = Duration::from_secs(300);
/// Objects of these sizes, one after the other, until nothing more is taken.
const SIZES: [usize; 3] = [700 << 10, 30 << 10, 100];
const NETWORK: &str = "/apis/metal3.io/v1alpha1/provisionings/provisioning-configuration";
const HALTS: &str = "/apis/firesteel.dev/v1alpha1/halts";
const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";

/// Who asks the API.
struct Person {
    connection: Connection,
    token: String,
}

impl Person {
    fn with(field: &Field, token: String) -> Self {
        let to = SocketAddr::from((ADDRESS, 6443));
        Self { connection: Connection::tls(to, &field.appliance.ca_pem()).unwrap(), token }
    }

    /// The owner, after each start again.
    fn admin(field: &Field) -> Self {
        Self::with(field, field.appliance.token())
    }

    /// A program in the namespace `tenants`, which has the rights of a tenant there.
    fn tenant(field: &Field, admin: &mut Self) -> Self {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "tenants" } });
        assert_eq!(admin.ask("POST", "/api/v1/namespaces", &namespace).status, 201);
        let accounts = "/api/v1/namespaces/tenants/serviceaccounts";
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
        assert_eq!(admin.ask("POST", accounts, &account).status, 201);
        let subject = json!({ "kind": "ServiceAccount", "namespace": "tenants", "name": "robot" });
        let grant = json!({
            "apiVersion": "firesteel.dev/v1alpha1", "kind": "AccessGrant", "metadata": { "name": "robot" },
            "spec": { "subject": subject, "role": "tenant", "namespace": "tenants" },
        });
        assert_eq!(admin.ask("POST", "/apis/firesteel.dev/v1alpha1/accessgrants", &grant).status, 201);
        let asked = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 3600 },
        });
        let made = admin.ask("POST", &format!("{accounts}/robot/token"), &asked);
        let token = value(&made)["status"]["token"].as_str().unwrap().to_owned();
        let mut tenant = Self::with(field, token);
        let ends_at = Instant::now() + PATIENCE;
        while tenant.get("/api/v1/namespaces/tenants/configmaps").status != 200 {
            assert!(Instant::now() < ends_at, "the tenant is not let in");
        }
        tenant
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let request = Request { method, path, headers: &headers, body: text.as_bytes(), ..Request::default() };
        self.connection.ask(&request).unwrap()
    }

    fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &Value::Null)
    }

    fn until(&mut self, path: &str, is_it: impl Fn(&Answer) -> bool) -> Answer {
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path);
            if is_it(&answer) {
                return answer;
            }
            assert!(Instant::now() < ends_at, "{path} still says {}: {}", answer.status, answer.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn value(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}: {}", answer.status, answer.text()))
}

fn of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// What was acknowledged, by path: the length of its content.
type Kept = BTreeMap<String, usize>;

/// Has objects made until the last is refused, whose answer comes back.
fn fill(person: &mut Person, namespace: &str, kept: &mut Kept) -> Answer {
    let mut last = None;
    for bytes in SIZES {
        for number in 0.. {
            let name = format!("of-{bytes}-{number}");
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace },
                "data": { "much": "x".repeat(bytes) },
            });
            let answer = person.ask("POST", &of(namespace), &object);
            if answer.status != 201 {
                last = Some(answer);
                break;
            }
            kept.insert(format!("{}/{name}", of(namespace)), bytes);
        }
    }
    last.unwrap()
}

/// Writes until nothing more can be written.
fn fill_disk(data: &Path) {
    let mut file = OpenOptions::new().create(true).append(true).open(filler(data)).unwrap();
    for bytes in [vec![7; 64 << 10], vec![7; 512], vec![7; 1]] {
        let full = loop {
            if let Err(error) = file.write_all(&bytes) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
}

fn filler(data: &Path) -> std::path::PathBuf {
    data.join("of-another-program")
}

fn is_refused(answer: &Answer) {
    let status = value(answer);
    let said = (&status["reason"], status["message"].as_str().unwrap().contains("disk is full"));
    assert_eq!((answer.status, said), (507, (&json!("InsufficientStorage"), true)), "{status}");
    assert!(status["details"]["retryAfterSeconds"].is_null(), "a client shows it at once: {status}");
}

fn is_all_there(admin: &mut Person, kept: &Kept) {
    for (path, bytes) in kept {
        let answer = admin.get(path);
        assert_eq!(answer.status, 200, "{path} was acknowledged");
        assert_eq!(value(&answer)["data"]["much"].as_str().unwrap().len(), *bytes, "{path}");
    }
}

/// It says so where people and programs look.
fn is_told(admin: &mut Person) {
    let ready = admin.get("/readyz");
    assert_eq!(ready.status, 503, "{}", ready.text());
    assert!(ready.text().contains("changes are refused") && ready.text().contains("disk is full"), "{}", ready.text());
    assert_eq!(admin.get("/livez").status, 200, "a supervisor has nothing to start again");
    admin.until(NETWORK, |answer| {
        let conditions = &value(answer)["status"]["conditions"];
        let mut all = conditions.as_array().into_iter().flatten();
        all.any(|one| one["type"] == "StorageFull" && one["status"] == "True" && one["reason"] == "NoRoom")
    });
    admin.until("/api/v1/namespaces/default/events", |answer| answer.text().contains("StorageFull"));
    let metrics = admin.get("/metrics").text();
    assert!(metrics.contains("\nfiresteel_store_refuses 1"), "{metrics}");
}

/// A host gets its address, and a stranger none.
fn hosts_get_leases(field: &Field) {
    assert_eq!(field.lease(&discover(1, CLASS, &[7])).octets()[..3], [10, 77, 0]);
    // Until DHCP has heard which machines are known, nobody is a stranger.
    for number in 100..=250 {
        ask_as_stranger(field, number);
        let ends_at = Instant::now() + Duration::from_secs(1);
        while Instant::now() < ends_at {
            if field.appliance.log().contains("lease not granted") {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("strangers get leases");
}

/// Asks for the address that was offered, and waits for no answer.
fn ask_as_stranger(field: &Field, number: u8) {
    let ask = discover(number, CLASS, &[7]);
    let offer = field.ask(&ask);
    let mut request = ask.clone();
    request.xid += 1;
    request.options.set_message_type(MessageType::Request);
    request.options.set(code::REQUESTED_ADDRESS, offer.yiaddr.octets());
    request.options.set(code::SERVER_ID, ADDRESS.octets());
    field.send(&wire::encode(&request).unwrap());
}

/// Halt, deletion, restart and resume on a full disk.
fn what_matters_goes_on(field: &mut Field, mut admin: Person, kept: &mut Kept) -> Person {
    is_told(&mut admin);
    hosts_get_leases(field);
    let said = field.firesteel(&["halt", "--yes", "--reason", "the disk is full"]);
    assert!(said.starts_with("the fleet is halted: "), "stored, and not in memory alone: {said}");
    assert_ne!(value(&admin.get(&format!("{HALTS}/fleet")))["metadata"]["resourceVersion"], "0");
    if let Some((path, _)) = kept.pop_last() {
        let deleted = admin.ask("DELETE", &path, &Value::Null);
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        assert_eq!(admin.get(&path).status, 404);
    }
    is_all_there(&mut admin, kept);

    field.appliance.start_again_with(|_| {});
    let mut admin = Person::admin(field);
    is_all_there(&mut admin, kept);
    assert!(
        field.firesteel(&["get", "halts"]).contains("the disk is full"),
        "who halted the fleet was told that it is"
    );
    hosts_get_leases(field);
    assert_eq!(field.firesteel(&["resume", "--yes"]), "the fleet goes on\n");
    assert_eq!(admin.get(&format!("{HALTS}/fleet")).status, 404);
    admin
}

/// A host that was added goes, with its finalizer, on a full disk.
fn a_host_is_deleted(admin: &mut Person, name: &str) {
    let path = format!("{HOSTS}/{name}");
    let answer = admin.ask("DELETE", &path, &Value::Null);
    assert!((200..300).contains(&answer.status), "{}", answer.text());
    admin.until(&path, |answer| answer.status == 404);
}

/// An object is made once no reader keeps the database from giving back what is free.
fn changes_are_taken_again(admin: &mut Person) {
    let after = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "after" } });
    let ends_at = Instant::now() + PATIENCE;
    while admin.ask("POST", &of("default"), &after).status != 201 {
        assert!(Instant::now() < ends_at, "changes are still refused");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_tenant_and_then_an_admin_that_fill_the_store_stop_nothing_that_matters() {
    field::with_small_disk(PROGRAM, DISK_MIB, |field| {
        field.add_host("known", mac(1));
        let mut admin = Person::admin(field);
        let mut tenant = Person::tenant(field, &mut admin);
        let mut kept = Kept::new();
        let refused = fill(&mut tenant, "tenants", &mut kept);
        // For want of room, or of what a tenant may have.
        assert!([403, 507].contains(&refused.status), "{}", refused.text());
        let refused = fill(&mut admin, "default", &mut kept);
        is_refused(&refused);
        assert!(kept.len() > 30, "{} objects", kept.len());
        let mut admin = what_matters_goes_on(field, admin, &mut kept);
        a_host_is_deleted(&mut admin, "known");

        // All that a tenant has goes as well, and makes room for others.
        let path = "/api/v1/namespaces/tenants";
        let answer = admin.ask("DELETE", path, &Value::Null);
        assert!((200..300).contains(&answer.status), "{}", answer.text());
        admin.until(path, |answer| answer.status == 404);
        kept.retain(|path, _| !path.contains("/tenants/"));
        is_all_there(&mut admin, &kept);
        changes_are_taken_again(&mut admin);
        admin.until("/readyz", |answer| answer.status == 200);
        admin.until(NETWORK, |answer| answer.text().contains("HasRoom"));
    });
}

#[test]
fn another_program_that_fills_the_disk_stops_nothing_that_matters_and_no_start() {
    field::with_small_disk(PROGRAM, DISK_MIB, |field| {
        field.add_host("known", mac(1));
        let mut admin = Person::admin(field);
        let mut kept = Kept::new();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "much": "x".repeat(1000) },
        });
        for name in ["a", "b"] {
            let mut object = object.clone();
            object["metadata"]["name"] = json!(name);
            assert_eq!(admin.ask("POST", &of("default"), &object).status, 201);
            kept.insert(format!("{}/{name}", of("default")), 1000);
        }
        fill_disk(&field.appliance.data());
        let mut more = object;
        more["metadata"]["name"] = json!("more");
        is_refused(&admin.ask("POST", &of("default"), &more));
        let mut admin = what_matters_goes_on(field, admin, &mut kept);
        is_refused(&admin.ask("POST", &of("default"), &more));

        // A start on a full disk with a log that has no room in the database.
        field.appliance.start_again_with(|data| {
            fs::remove_file(filler(data)).unwrap();
            write_large_log(&data.join("resources.db"));
            fill_disk(data);
        });
        let log = field.appliance.data().join("resources.db-wal");
        assert!(fs::metadata(log).unwrap().len() > 8 << 20, "there was no large log");
        let mut admin = what_matters_goes_on(field, Person::admin(field), &mut kept);
        a_host_is_deleted(&mut admin, "known");

        fs::remove_file(filler(&field.appliance.data())).unwrap();
        let answer = admin.ask("POST", &of("default"), &more);
        assert_eq!(answer.status, 201, "{}", answer.text());
        admin.until("/readyz", |answer| answer.status == 200);
        is_all_there(&mut admin, &kept);
    });
}

/// As a process leaves it that was killed while readers kept the log from being put in its place.
fn write_large_log(database: &Path) {
    let database = Database::open(database).unwrap();
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    database.execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE junk(x)").unwrap();
    for _ in 0..9 {
        database.execute("INSERT INTO junk VALUES (zeroblob(1048576))", []).unwrap();
    }
}

/// Nothing at all can be written: the reserve is used up, too, and the log cannot be put in its place.
fn use_everything_up(data: &Path) {
    write_large_log(&data.join("resources.db"));
    File::create(data.join("reserve")).unwrap();
    fill_disk(data);
}

#[test]
fn a_halt_that_cannot_be_stored_holds_and_who_starts_so_starts_halted() {
    field::with_small_disk(PROGRAM, DISK_MIB, |field| {
        field.add_host("known", mac(1));
        field.appliance.start_again_with(use_everything_up);
        let mut admin = Person::admin(field);
        let halts = field.firesteel(&["get", "halts", "-o", "json"]);
        assert!(halts.contains("fleet") && halts.contains("cannot write to its data folder"), "{halts}");
        let ready = admin.get("/readyz");
        assert_eq!(ready.status, 503);
        for part in ["not even halts and deletions are stored", "held in memory alone"] {
            assert!(ready.text().contains(part), "no {part:?} in {}", ready.text());
        }
        assert!(admin.get("/metrics").text().contains("\nfiresteel_store_unwritable 1"));
        ask_as_stranger(field, 1);
        field.appliance.wait_for_log("lease not granted");

        let said = field.firesteel(&["halt", "--yes", "--name", "second", "--reason", "a drill"]);
        assert!(said.contains("in the appliance's memory alone"), "{said}");
        let again =
            field.appliance.command().args(["halt", "--yes", "--name", "second", "--reason", "x"]).output().unwrap();
        assert!(!again.status.success(), "it is there");
        let second = value(&admin.get(&format!("{HALTS}/second")));
        assert_eq!(second["metadata"]["resourceVersion"], "0");
        assert!(admin.get("/metrics").text().contains("\nfiresteel_halted 1"));

        // There is room again: it is stored without a word, and stays for a person to lift.
        fs::remove_file(filler(&field.appliance.data())).unwrap();
        for name in ["fleet", "second"] {
            admin.until(&format!("{HALTS}/{name}"), |answer| {
                answer.status == 200 && value(answer)["metadata"]["resourceVersion"] != "0"
            });
        }
        admin.until("/readyz", |answer| answer.status == 200);
        field.appliance.start_again_with(|_| {});
        let mut admin = Person::admin(field);
        let stored = value(&admin.get(&format!("{HALTS}/second")));
        assert_eq!(stored["metadata"]["uid"], second["metadata"]["uid"], "it is the same one");
        let said = field.firesteel(&["resume", "--yes"]);
        assert!(said.contains("the fleet stays halted by second"), "{said}");
        assert_eq!(field.firesteel(&["resume", "--yes", "--name", "second"]), "the fleet goes on\n");
    });
}

/// What is held in memory ends by its owner's word alone, also while nothing can be written.
#[test]
fn a_halt_that_is_held_in_memory_is_lifted_by_resume() {
    field::with_small_disk(PROGRAM, DISK_MIB, |field| {
        // By then the files of a first start are there.
        field.add_host("known", mac(1));
        field.appliance.start_again_with(use_everything_up);
        let mut admin = Person::admin(field);
        assert_eq!(field.firesteel(&["resume", "--yes"]), "the fleet goes on\n");
        assert_eq!(admin.get(&format!("{HALTS}/fleet")).status, 404);
        fs::remove_file(filler(&field.appliance.data())).unwrap();
        admin.until("/readyz", |answer| answer.status == 200);
        assert_eq!(admin.get(&format!("{HALTS}/fleet")).status, 404, "it does not come back");
    });
}
