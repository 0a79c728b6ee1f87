//! A data folder without room: what is on record can be read, what cannot be kept is refused with its
//! reason, and room that is made is used.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use firesteel_store::Durability;
use serde_json::{Value, json};

use crate::served::{Durabilities, Served};
use crate::{Admin, JSON, until};

const ALL: &str = "/api/v1/namespaces/default/configmaps";
/// Of the data folder: the databases and some room.
const DISK_MIB: u32 = 24;
/// The log of a database has room for some that is not asked for again.
const TRIES_MAX: usize = 400;

fn object(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"much": "x".repeat(64 << 10)},
    })
}

/// Writes until nothing more can be written.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for bytes in [vec![0; 64 << 10], vec![0; 512]] {
        let full = loop {
            if let Err(error) = file.write_all(&bytes) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
}

fn live_through_a_full_disk() {
    let durabilities = Durabilities { resources: Durability::PowerCut, leases: Durability::PowerCut };
    let mut served = Served::start_in(durabilities, Some(DISK_MIB));
    let mut admin = Admin::connect(&mut served);
    admin.ask(("POST", ALL), (JSON, &object("before")), "");
    let filler = served.data().join("filler");
    fill(&filler);

    let mut kept = Vec::new();
    let refused = (0..TRIES_MAX).find_map(|number| {
        let name = format!("more-{number}");
        let answer = admin.try_ask(("POST", ALL), (JSON, &object(&name)), "");
        if answer.status != 201 {
            return Some((name, answer));
        }
        kept.push(name);
        None
    });
    let (name, answer) = refused.expect("the disk is full and objects are still taken");
    assert_eq!(answer.status, 507, "{}", answer.text());
    let status: Value = serde_json::from_slice(&answer.body).unwrap();
    // Without a time to wait for, or clients would try ten times before they show it.
    let said = (&status["reason"], &status["details"]["retryAfterSeconds"]);
    assert_eq!(said, (&json!("InsufficientStorage"), &Value::Null));
    assert!(answer.text().contains("disk is full"), "it names the cause: {}", answer.text());
    // The log is written by a thread of its own: the answer may be here first.
    let log = served.log_path();
    until(&mut served, "the full disk in the log", || {
        fs::read_to_string(&log).ok().filter(|text| text.contains("disk is full"))
    });

    // What was acknowledged is there, what was refused is not, and it still answers.
    let get =
        |admin: &mut Admin, name: &str| admin.try_ask(("GET", &format!("{ALL}/{name}")), (JSON, &Value::Null), "");
    for name in kept.iter().map(String::as_str).chain(["before"]) {
        assert_eq!(get(&mut admin, name).status, 200, "{name}");
    }
    assert_eq!(get(&mut admin, &name).status, 404, "{name} was refused");
    assert_eq!(admin.try_ask(("POST", ALL), (JSON, &object("again")), "").status, answer.status, "it is still full");

    fs::remove_file(&filler).unwrap();
    admin.ask(("POST", ALL), (JSON, &object("after")), "");
    assert_eq!(get(&mut admin, "after").status, 200);
    assert!(!served.is_over(), "{}", served.log());
}

#[test]
fn a_full_disk_is_told_survived_and_left() {
    std::thread::spawn(live_through_a_full_disk).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
