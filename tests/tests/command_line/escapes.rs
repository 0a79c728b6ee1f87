//! Texts of others on a terminal: every command of an appliance whose objects carry terminal sequences shows them, and
//! executes none.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use firesteel_appliance::serve::sealing::KeyFile;
use firesteel_store::{Durability, GroupResource, ObjectKey, Op};
use firesteel_tests::appliance::Appliance;
use firesteel_wire::text::is_hidden;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const NAMESPACE: &str = "default";
/// It clears the screen, gives the terminal a title, changes colours, rings, begins a line that looks like one of the
/// command, turns the writing direction and hides letters.
const HOSTILE: &str =
    "x\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{7f}\r\nfiresteel: done\u{2028}\u{202e}\u{2066}\u{200b}\u{feff}y";
/// The beginning of what is shown for it.
const SHOWN: &str = "x\\u001b[2J";
/// The same where the appliance quotes a value that it refuses.
const SHOWN_QUOTED: &str = "x\\u{1b}[2J";
const MAC: &str = "02:00:00:00:00:09";

/// Objects as their writers store them, by the API group and the plural of their kind.
fn objects() -> Vec<(&'static str, &'static str, Value)> {
    let time = "2026-01-01T00:00:00Z";
    let meta = |name: &str| {
        json!({
            "name": name, "namespace": NAMESPACE, "uid": format!("00000000-0000-4000-8000-{name:0>12}"),
            "creationTimestamp": time, "generation": 1, "annotations": {"note": HOSTILE},
        })
    };
    let condition = json!({
        "type": "Ready", "status": "False", "reason": "Waiting", "message": HOSTILE, "lastTransitionTime": time,
    });
    let host = |name: &str, error: &str| {
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": meta(name),
            "spec": {
                "online": true, "bootMACAddress": "02:00:00:00:00:01", "description": HOSTILE,
                "image": {"url": format!("http://images/{HOSTILE}"), "checksum": HOSTILE},
            },
            "status": {
                "errorMessage": error, "errorCount": 1, "poweredOn": true, "operationalStatus": "OK",
                "hardwareProfile": "", "provisioning": {"ID": "", "state": "provisioned"},
                "conditions": [condition],
            },
        })
    };
    let journal = |name: &str| {
        json!({
            "apiVersion": "firesteel.dev/v1alpha1", "kind": "HostJournal", "metadata": meta(name),
            "status": {
                "reason": {"text": HOSTILE, "location": HOSTILE, "since": time},
                "hardware": {
                    "inspectedAt": time, "system": {"manufacturer": HOSTILE, "product": HOSTILE, "serial": HOSTILE},
                    "nics": [{"name": HOSTILE, "mac": HOSTILE, "driver": HOSTILE}],
                    "disks": [{"device": "/dev/sda", "serial": HOSTILE, "model": HOSTILE, "sizeBytes": 8_000_000_000_u64}],
                },
                "bmc": {"at": time, "health": HOSTILE},
                "timeline": [{"at": time, "attempt": 1, "event": HOSTILE, "detail": HOSTILE}],
                "receipts": [{"attempt": 1, "plan": 1, "step": HOSTILE, "evidence": {"kind": HOSTILE}}],
                "refusedIdentity": {"uuid": HOSTILE, "serial": HOSTILE, "address": HOSTILE, "mac": HOSTILE, "at": time},
            },
        })
    };
    let of = |kind: &str, name: &str, spec: Value, status: Value| {
        json!({
            "apiVersion": "firesteel.dev/v1alpha1", "kind": kind, "metadata": meta(name), "spec": spec, "status": status,
        })
    };
    let receipt = json!({"host": "1", "receivedAt": time, "kind": HOSTILE, "summary": HOSTILE, "file": HOSTILE});
    let machine = json!({"bootMac": MAC, "product": HOSTILE, "uuid": HOSTILE, "firstSeen": time, "lastSeen": time});
    let group = json!({"selector": {"matchLabels": {"a": "b"}}, "image": {"stream": HOSTILE}});
    let group_status = json!({"current": {"stream": HOSTILE, "release": HOSTILE}, "conditions": [condition]});
    let mut discovered = of("DiscoveredHost", "3", json!({}), machine);
    let mut halt = of("Halt", "4", json!({"by": HOSTILE, "reason": HOSTILE}), json!({}));
    for cluster_wide in [&mut discovered, &mut halt] {
        cluster_wide["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    let now = jiff::Timestamp::now().to_string();
    let mut event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": meta("5"), "reason": "Seen", "message": HOSTILE, "type": "Normal",
        "involvedObject": {"kind": "BareMetalHost", "name": "1", "namespace": NAMESPACE}, "lastTimestamp": now,
    });
    // One of an hour ago would be gone.
    event["metadata"]["creationTimestamp"] = json!(now);
    vec![
        ("metal3.io", "baremetalhosts", host("1", HOSTILE)),
        ("metal3.io", "baremetalhosts", host("2", "")),
        ("firesteel.dev", "hostjournals", journal("1")),
        ("firesteel.dev", "hostjournals", journal("2")),
        ("firesteel.dev", "receipts", of("Receipt", "6", json!({}), receipt)),
        ("firesteel.dev", "hostgroups", of("HostGroup", "7", group, group_status)),
        ("firesteel.dev", "discoveredhosts", discovered),
        ("firesteel.dev", "halts", halt),
        ("", "events", event),
    ]
}

/// Stores the objects, past all checks of the API.
fn store(data: &Path) {
    let database = data.join("resources.db");
    let keys = KeyFile::open(&data.join("secrets/at-rest.key"), &database).unwrap();
    let store = keys.open_store(&database, Durability::Nothing).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        for (group, plural, object) in objects() {
            let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
            let key = ObjectKey::new(&GroupResource::new(group, plural), &text("namespace"), &text("name"));
            store.commit(Op::Create { key, value: object.to_string().into() }, vec![]).await.unwrap();
        }
    });
}

/// A letter as JSON may have it: what is not ASCII by its code.
fn written(letter: char) -> String {
    if letter.is_ascii() && letter != '\u{7f}' { letter.to_string() } else { format!("\\u{:04x}", u32::from(letter)) }
}

/// What a command prints, on both streams.
fn printed(command: &mut Command) -> String {
    let Output { stdout, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    let hidden: Vec<char> = text.chars().filter(|letter| *letter != '\n' && is_hidden(*letter)).collect();
    assert!(hidden.is_empty(), "{command:?} prints {hidden:?}: {text:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("firesteel: done")),
        "{command:?} prints a line of others: {text}"
    );
    text
}

#[test]
fn no_command_executes_what_an_object_says() {
    let mut appliance = Appliance::start(PROGRAM);
    appliance.start_again_with(store);
    let manifest = |name: &str, object: &Value| {
        let path = appliance.folder().join(name);
        // A file has such letters by their code: YAML and JSON take no others.
        let text: String = object.to_string().chars().map(written).collect();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let host = |spec: Value| json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "8"}, "spec": spec});
    let refused = manifest("refused.yaml", &host(json!({"online": true, "bootMACAddress": HOSTILE})));
    let unknown = manifest("unknown.yaml", &host(json!({"online": true, HOSTILE: 1})));
    let kind = manifest("kind.yaml", &json!({"apiVersion": "v1", "kind": HOSTILE, "metadata": {"name": "8"}}));
    let data = appliance.data();
    let data = data.to_str().unwrap();
    for arguments in [
        &["get", "hosts"][..],
        &["get", "hosts", "2"],
        &["get", "halts"],
        &["get", "events"],
        &["get", "hostgroups"],
        &["describe", "host", "1"],
        &["describe", "host", "2"],
        &["describe", "host", MAC],
        &["describe", "hostgroup", "7"],
        &["plan", "1"],
        &["receipt", "list"],
        &["watch", "1", "2", "--until", "provisioned"],
        &["apply", "-f", &refused],
        &["apply", "-f", &kind],
    ] {
        let text = printed(appliance.command().args(arguments));
        let is_shown = text.contains(SHOWN) || text.contains(SHOWN_QUOTED);
        assert!(is_shown, "{arguments:?} hides what is there: {text}");
    }
    for arguments in [
        &["get", "discoveredhosts"][..],
        &["get", "receipts"],
        &["adopt", "none", "--name", "x"],
        &["receipt", "export", "1", "--dir", data],
        &["accept-identity", "1"],
        &["apply", "-f", &unknown],
        &["audit", "--tail", "100"],
        &["image", "ls", "--data", data],
        &["resume", "--yes"],
        &["get", HOSTILE],
        &["get", "hosts", HOSTILE],
        &["retry", HOSTILE],
    ] {
        printed(appliance.command().args(arguments));
    }
}

#[test]
fn json_shows_the_same_values_in_its_own_form() {
    let mut appliance = Appliance::start(PROGRAM);
    appliance.start_again_with(store);
    for (arguments, place) in [
        (&["get", "hosts", "1"][..], "/status/errorMessage"),
        (&["get", "halts"], "/items/0/spec/reason"),
        (&["describe", "host", "1"], "/journal/status/reason/text"),
        (&["describe", "host", MAC], "/discovered/status/product"),
        (&["receipt", "list"], "/0/status/summary"),
    ] {
        let text = printed(appliance.command().args(arguments).args(["-o", "json"]));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value.pointer(place), Some(&json!(HOSTILE)), "{arguments:?}: {text}");
    }
}

/// A folder and a receipt from elsewhere: their names and their bytes are texts of others, too.
#[test]
fn files_of_others_execute_nothing_either() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("{HOSTILE}.receipt");
    let hostile = folder.path().join(&name);
    fs::write(&hostile, [HOSTILE.as_bytes(), b"\xff\x9b2J"].concat()).unwrap();
    assert_eq!(hostile.file_name().unwrap().as_bytes(), name.as_bytes());
    let path = folder.path().to_str().unwrap();
    let hostile = hostile.to_str().unwrap();
    for arguments in [
        &["serve", "--api-only", "--data", path][..],
        &["restore", hostile, "--data", path],
        &["image", "import", hostile, "--data", path],
        &["receipt", "verify", "--key", hostile, hostile],
        &["get", "hosts", "--kubeconfig", hostile],
    ] {
        let text = printed(Command::new(PROGRAM).args(arguments).env_remove("FIRESTEEL_KUBECONFIG"));
        assert!(text.contains(SHOWN), "{arguments:?} hides what is there: {text}");
    }
}
