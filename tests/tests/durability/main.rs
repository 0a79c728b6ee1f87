//! What the appliance acknowledges is on the disk first: seen from outside, by its system calls.
//!
//! The real appliance runs under strace and is asked, one request at a time, for what it must not
//! forget: objects made, changed and deleted, a lease, the binding of a token. [`judge`] then looks for
//! `fdatasync` between each request and its answer, on the file that holds what was promised, after
//! it was written there. The same with a database that is opened with less must be found out.
//!
//! And what it has kept and finds damaged is never answered falsely, nor taken for deleted ([`damage`],
//! [`damaged_parts`]).
//!
//! It takes root, strace and the right to trace; where one is missing the tests fail and say so.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod administrator;
mod damage;
mod damaged_parts;
mod full;
mod judge;
mod room;
mod served;
mod talk;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_appliance::serve::sealing::{self, KeyFile};
use firesteel_facts::Mac;
use firesteel_store::{Durability, GroupResource, Revision};
use firesteel_tests::agent_line::token_of;
use firesteel_tests::{dhcp_client, network::ADDRESS};
use firesteel_wire::{HELLO_PATH, Hello, PublicKey, SIGNATURE_HEADER, SmbiosIdentity, signing_input};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use judge::{Exchange, Problem};
use served::{Durabilities, INTERFACE, Served};
use talk::{Answer, Connection, Request};

const HOST_MAC: Mac = Mac([0x52, 0x54, 0, 0x77, 1, 1]);
const STRANGER_MAC: Mac = Mac([0x52, 0x54, 0, 0x77, 1, 9]);
const JSON: &str = "application/json";
/// Until the appliance serves: it listens for other DHCP servers first, and everything is traced.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until the answer is as wanted; the appliance has to start, and to take a first step.
fn until<T>(served: &mut Served, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let ends_at = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(!served.is_over() && Instant::now() < ends_at, "waited in vain for {what}:\n{}", served.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An administrator's connection to the API.
struct Admin {
    connection: Connection,
    token: String,
}

impl Admin {
    fn connect(served: &mut Served) -> Self {
        let data = served.data();
        let (connection, token) = until(served, "the API", || {
            let text = fs::read_to_string(data.join("admin.kubeconfig")).ok()?;
            let config: Value = serde_json::from_str(&text).ok()?;
            let token = config.pointer("/users/0/user/token")?.as_str()?.to_owned();
            let ca = config.pointer("/clusters/0/cluster/certificate-authority-data")?.as_str()?;
            let mut connection = Connection::tls(SocketAddr::from((ADDRESS, 6443)), &STANDARD.decode(ca).ok()?).ok()?;
            let ready = connection.ask(&Request { method: "GET", path: "/readyz", ..Request::default() }).ok()?;
            (ready.status == 200).then_some((connection, token))
        });
        Self { connection, token }
    }

    fn ask(&mut self, what: (&str, &str), body: (&str, &Value), mark: &str) -> Exchange {
        let answer = self.try_ask(what, body, mark);
        assert!((200..300).contains(&answer.status), "{what:?}: {} {}", answer.status, answer.text());
        answer.exchange
    }

    fn try_ask(&mut self, (method, path): (&str, &str), (kind, body): (&str, &Value), mark: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let body = body.to_string();
        let answer = self.connection.ask(&Request {
            method,
            path,
            headers: &[("authorization", bearer.as_str()), ("content-type", kind)],
            body: body.as_bytes(),
            what: &format!("{method} {path}"),
            mark: mark.as_bytes(),
        });
        answer.unwrap()
    }
}

/// An object's whole life, each step with a mark of its own.
fn object_life(admin: &mut Admin) -> Vec<Exchange> {
    let all = "/api/v1/namespaces/default/configmaps";
    let one = &format!("{all}/kept-until-deleted");
    let object = |mark: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kept-until-deleted", "namespace": "default"}, "data": {"mark": mark},
        })
    };
    vec![
        admin.ask(("POST", all), (JSON, &object("mark-of-create")), "mark-of-create"),
        admin.ask(("PUT", one), (JSON, &object("mark-of-update")), "mark-of-update"),
        admin.ask(
            ("PATCH", one),
            ("application/merge-patch+json", &json!({"data": {"mark": "mark-of-patch"}})),
            "mark-of-patch",
        ),
        admin.ask(
            ("PATCH", &format!("{one}?fieldManager=test")),
            ("application/strategic-merge-patch+json", &json!({"data": {"mark": "mark-of-kubectl"}})),
            "mark-of-kubectl",
        ),
        admin.ask(("DELETE", one), (JSON, &Value::Null), "kept-until-deleted"),
    ]
}

/// A host is made, asks for its boot script, and its agent says hello.
fn hello(served: &mut Served, admin: &mut Admin) -> Vec<Exchange> {
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {
            "name": "bound", "namespace": "default",
            // Asked from the appliance's own address, which no lease is of.
            "annotations": {"firesteel.dev/boot-address": "any"},
        },
        "spec": {"online": true, "bootMACAddress": "52:54:00:77:01:01"},
    });
    let path = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";
    let made = admin.ask(("POST", path), (JSON, &host), "52:54:00:77:01:01");
    let ca = fs::read(served.data().join("pki/ca.crt")).unwrap();
    let (mut agent, token, first) = until(served, "a boot script with a token, and the hello", || {
        let token = boot_token()?;
        let mut agent = Connection::tls(SocketAddr::from((ADDRESS, 8443)), &ca).ok()?;
        // The handshake is over when this is answered.
        agent.ask(&Request { method: "GET", path: "/", ..Request::default() }).ok()?;
        let first = say_hello(&mut agent, &token, 7);
        // A machine that asked for its script before its host was known boots again.
        (first.status != 410).then_some((agent, token, first))
    });
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(say_hello(&mut agent, &token, 8).status, 409, "the token was not bound");
    let mut hello = first.exchange;
    hello.mark = mark_of_sealed(&served.data(), &public_key(7).to_string());
    vec![made, hello]
}

/// How the first journal begins, as it lies in the database, that has this text. Journals are sealed: the text itself
/// is in no write.
fn mark_of_sealed(data: &Path, text: &str) -> Vec<u8> {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (database, key_file) = (folder.path().join("resources.db"), elsewhere.path().join("at-rest.key"));
    let into = database.to_str().unwrap();
    rusqlite::Connection::open(data.join("resources.db")).unwrap().execute("VACUUM INTO ?1", [into]).unwrap();
    fs::copy(data.join(sealing::DEFAULT_FILE), &key_file).unwrap();
    let store = KeyFile::open(&key_file, &database).unwrap().open_store(&database, Durability::Nothing).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let revision = runtime.block_on(async {
        let journals = GroupResource::new("firesteel.dev", "hostjournals");
        let mut changes = store.watch(&journals, Revision(0)).await.unwrap();
        loop {
            let change = tokio::time::timeout(PATIENCE, changes.next()).await.expect("no journal has it").unwrap();
            if change.value.windows(text.len()).any(|part| part == text.as_bytes()) {
                return change.revision.0;
            }
        }
    });
    drop(store);
    let sql = "SELECT substr(value, 1, 32) FROM log WHERE revision = ?1";
    rusqlite::Connection::open(&database)
        .unwrap()
        .query_row(sql, [i64::try_from(revision).unwrap()], |row| row.get(0))
        .unwrap()
}

/// The token in the boot script of the host, which has fetched what belongs to it.
fn boot_token() -> Option<String> {
    let mut boot = Connection::plain(SocketAddr::from((ADDRESS, 8080))).ok()?;
    let path = "/boot.ipxe?mac=52-54-00-77-01-01&platform=efi";
    let script = boot.ask(&Request { method: "GET", path, ..Request::default() }).ok()?;
    let token = token_of(&script.text())?;
    for file in ["kernel", "initramfs"] {
        let path = format!("/boot/{token}/{file}");
        let answer = boot.ask(&Request { method: "GET", path: &path, ..Request::default() }).ok()?;
        // A machine that asked for its script before its host was known boots again.
        (answer.status == 200).then_some(())?;
    }
    Some(token)
}

fn public_key(seed: u8) -> PublicKey {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
    PublicKey(pair.public_key().as_ref().try_into().unwrap())
}

fn say_hello(agent: &mut Connection, token: &str, seed: u8) -> Answer {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
    let key = public_key(seed);
    let hello = Hello {
        token: token.to_owned(),
        key,
        identity: SmbiosIdentity { boot_mac: "52:54:00:77:01:01".into(), ..SmbiosIdentity::default() },
        agent_version: "0.1.0".into(),
        kernel_version: "6.1".into(),
        uptime_ms: 2500,
        boot_id: format!("boot-{seed}"),
        network: None,
        program: firesteel_wire::Program::default(),
    };
    let body = serde_json::to_vec(&hello).unwrap();
    let signature: String =
        pair.sign(&signing_input(HELLO_PATH, &body)).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = key.to_string();
    let request = Request {
        method: "POST",
        path: HELLO_PATH,
        headers: &[("content-type", "application/json"), (SIGNATURE_HEADER, signature.as_str())],
        body: &body,
        what: "hello",
        mark: mark.as_bytes(),
    };
    agent.ask(&request).unwrap()
}

/// Everything that is acknowledged, with what is wrong about it.
fn run(durabilities: Durabilities) -> BTreeMap<String, BTreeSet<Problem>> {
    // A thread's namespace is its own: tests that run beside this one keep theirs.
    std::thread::spawn(move || {
        let mut served = Served::start(durabilities);
        let mut admin = Admin::connect(&mut served);
        let mut exchanges = object_life(&mut admin);
        exchanges.extend(hello(&mut served, &mut admin));
        let leased = [HOST_MAC, STRANGER_MAC].map(|mac| dhcp_client::lease(INTERFACE, mac).unwrap().address);
        assert_ne!(leased[0], leased[1]);
        let (data, log) = (served.data(), served.log());
        let trace = served.stop();
        judged(&trace, &exchanges, &data.display().to_string(), &log)
    })
    .join()
    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn judged(trace: &str, exchanges: &[Exchange], data: &str, log: &str) -> BTreeMap<String, BTreeSet<Problem>> {
    let calls = trace::read(trace);
    let mut findings = BTreeMap::new();
    for exchange in exchanges {
        let problems = match judge::find(&calls, exchange) {
            Ok(given) => judge::check(&calls, &given, &format!("{data}/resources.db")),
            Err(problem) => BTreeSet::from([problem]),
        };
        findings.insert(exchange.what.clone(), problems);
    }
    let leases = judge::leases(&calls);
    for mac in [HOST_MAC, STRANGER_MAC] {
        let granted = leases.iter().flatten().any(|given| given.mark == mac.0);
        assert!(granted, "no ACK for {mac:?} in the trace:\n{log}");
    }
    for lease in leases {
        let (what, problems) = match lease {
            Ok(given) => {
                let problems = judge::check(&calls, &given, &format!("{data}/leases.db"));
                (given.what, problems)
            }
            Err(problem) => ("an ACK".to_owned(), BTreeSet::from([problem])),
        };
        findings.entry(what).or_default().extend(problems);
    }
    findings
}

fn is_lease(what: &str) -> bool {
    what.starts_with("the lease of")
}

#[test]
fn what_is_acknowledged_is_on_the_disk_first() {
    let findings = run(Durabilities { resources: Durability::PowerCut, leases: Durability::PowerCut });
    assert_eq!(findings.len(), 5 + 2 + 2, "{findings:#?}");
    assert!(findings.values().all(BTreeSet::is_empty), "{findings:#?}");
}

#[test]
fn resources_that_outlive_the_process_only_are_found_out() {
    let findings = run(Durabilities { resources: Durability::ProcessDeath, leases: Durability::PowerCut });
    assert_eq!(findings.len(), 5 + 2 + 2, "{findings:#?}");
    for (what, problems) in &findings {
        assert_eq!(problems.contains(&Problem::NotSynced), !is_lease(what), "{findings:#?}");
    }
}

#[test]
fn leases_that_the_disk_is_never_told_of_are_found_out() {
    let findings = run(Durabilities { resources: Durability::PowerCut, leases: Durability::Nothing });
    assert_eq!(findings.len(), 5 + 2 + 2, "{findings:#?}");
    for (what, problems) in &findings {
        assert_eq!(problems.contains(&Problem::NotSynced), is_lease(what), "{findings:#?}");
    }
}
