//! A reader of the appliance's disk, log, events or backups, while it runs and afterwards: the secrets that were given to
//! it are in none of them as they are.

mod bundle;
mod given;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_appliance::serve::sealing::data_at_rest;
use firesteel_store::{GroupResource, ObjectKey, Op, SealingKeys, Store};
use firesteel_tests::agent_line::token_of;
use firesteel_tests::canary::{PLAIN_MARK, plain_forms, planted, shown_below, shown_in};
use firesteel_tests::disk_image;
use firesteel_tests::field::{Field, discover, mac, with_field_and};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{CLASS, host_agent::HostAgent, judge};
use given::{Admin, CONFIGS, file, give_configs, give_secrets, give_urls, gzip, machine_config};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A mark in the query string of an image's URL: it stands in the spec, and is shown nowhere.
const QUERY_MARK: &str = "h5Jd8sQwYb3Nt6";
const PATIENCE: Duration = Duration::from_secs(120);
const WANTS: &str = "a secret";

/// A host is installed, so that its user data goes the whole way.
fn install(field: &Field, hostile: &mut Hostile, image: &Value) {
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "victim"},
        "spec": {
            "online": true, "bootMACAddress": mac(1).to_string(), "image": image,
            "userData": {"name": "user-data", "namespace": "default"},
            "metaData": {"name": "meta-data", "namespace": "default"},
        },
    }));
    field.until(&["describe", "host", "victim"], |page| page.contains("waiting for the host to boot"));
    let leased = field.lease(&discover(1, CLASS, &[7]));
    let script = hostile.script(leased, &mac(1).to_string()).body;
    assert!(token_of(&script).is_some(), "{script}");
    let mut agent = HostAgent::of(field, 1);
    agent.boot(field, &script);
    agent.install(field, |_| {});
    field.until(&["describe", "host", "victim"], |page| page.contains("ProvisioningComplete"));
}

/// What people are shown, each with its name: no Secret and no config is asked for.
fn pages(field: &Field) -> Vec<(&'static str, String)> {
    let mut pages: Vec<_> = ["events", "hosts", "hostjournals", "receipts", "machineconfigpools", "hardwaredata"]
        .into_iter()
        .map(|kind| (kind, field.firesteel(&["get", kind, "-o", "json"])))
        .collect();
    pages.push(("the page of the host", field.firesteel(&["describe", "host", "victim"])));
    pages.push(("the audit log", field.firesteel(&["audit", "--tail", "1000"])));
    pages
}

fn backup(field: &Field, into: &Path) {
    field.firesteel(&["backup", into.to_str().unwrap()]);
}

/// A signal that asks for an end, and the end.
fn stop(field: &Field) {
    let id = field.appliance.id();
    kill(Pid::from_raw(i32::try_from(id).unwrap()), Signal::SIGTERM).unwrap();
    let ends_at = Instant::now() + PATIENCE;
    // It waits for its parent, which asks for it when it is started again.
    while !fs::read_to_string(format!("/proc/{id}/stat")).unwrap().rsplit_once(')').unwrap().1.starts_with(" Z") {
        assert!(Instant::now() < ends_at, "it does not end:\n{}", field.appliance.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Every file of the data folder is named in the table, and its owner's alone.
fn is_kept_from_others(data: &Path) {
    for entry in fs::read_dir(data).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_listed = data_at_rest::FILES.iter().any(|file| name.starts_with(file.name));
        assert!(is_listed, "{name} is not in the table of what the data folder holds");
    }
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777);
        assert_eq!(mode(&folder).unwrap(), 0o700, "{}", folder.display());
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            match (path.is_dir(), mode(&path)) {
                (true, _) => folders.push(path),
                // One that was there for a moment is no file of ours.
                (false, found) => {
                    assert!(found.is_err() || found.is_ok_and(|mode| mode == 0o600), "{}", path.display())
                }
            }
        }
    }
}

/// The search finds what lies in the clear, in a kind that is made for what is no secret, as it is and packed. Then
/// another appliance begins, without it.
fn search_finds_what_is_there(field: &mut Field, wanted: &[(&str, Vec<u8>)]) {
    let packed = STANDARD.encode(gzip(&planted("packedcontrol")));
    Admin::of(field).does(Method::POST, CONFIG_MAPS, &json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "control"},
        "data": {"text": planted("control"), "encoded": STANDARD.encode(planted("encodedcontrol")), "packed": packed},
    }));
    let data = field.appliance.data();
    let found = shown_below(&data, wanted);
    let has = |form: &str| found.iter().any(|found| found.contains("resources.db") && found.contains(form));
    for form in [": as it is: ", ": in base64: ", ", packed: "] {
        assert!(has(form), "the search does not find what is there{form}{found:?}");
    }
    field.appliance.kill_and_start_again_after(|| fs::remove_dir_all(&data).unwrap());
    assert_eq!(shown_below(field.appliance.folder(), wanted), [""; 0], "nothing is planted yet");
}

#[test]
fn secrets_are_in_no_file_log_event_or_backup() {
    with_field_and(PROGRAM, Dhcp::Managed, &["--log", "debug"], |field| {
        let mut hostile = Hostile::start(field, env!("CARGO_BIN_EXE_firesteel-hostile"));
        let (aside, wanted) = (tempfile::tempdir().unwrap(), plain_forms(PLAIN_MARK));
        search_finds_what_is_there(field, &wanted);
        let admin = Admin::of(field);
        give_secrets(&admin);
        give_configs(&admin);
        give_urls(&admin);
        install(field, &mut hostile, &disk_image::served());
        assert!(admin.given.get() >= 20, "{} secrets are not 20", admin.given.get());
        println!("{} secrets are planted", admin.given.get());
        drop(admin);

        let got = |found: Vec<String>| if found.is_empty() { "nothing".to_owned() } else { found.join("\n") };
        let attack = |attack: &str, found: Vec<String>| judge(attack, WANTS, "nothing", &got(found));
        attack("files of an appliance that runs", shown_below(field.appliance.folder(), &wanted));
        let pages = pages(field).into_iter().flat_map(|(name, page)| shown_in(name, page.as_bytes(), &wanted));
        attack("what people are shown", pages.collect());
        let first = aside.path().join("first.backup");
        backup(field, &first);
        attack("a backup", shown_below(aside.path(), &wanted));
        is_kept_from_others(&field.appliance.data());
        let limits = fs::read_to_string(format!("/proc/{}/limits", field.appliance.id())).unwrap();
        let limit = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        let words: Vec<_> = limit.split_whitespace().collect();
        judge("a crash", "a copy of the memory", "0 0", &words[4..6].join(" "));

        stop(field);
        attack("files of an appliance that was stopped", shown_below(field.appliance.folder(), &wanted));
        field.appliance.kill_and_start_again();
        field.firesteel(&["rekey"]);
        let second = aside.path().join("second.backup");
        backup(field, &second);
        attack("files and backups after a change of the key", shown_below(field.appliance.folder(), &wanted));
        attack("both backups", shown_below(aside.path(), &wanted));
        // What they are for still works.
        let secret: Value =
            serde_json::from_str(&field.firesteel(&["get", "secrets", "changed", "-o", "json"])).unwrap();
        assert_eq!(secret["data"]["key"], STANDARD.encode(planted("after")));
    });
}

/// The store as a program leaves it that seals Secrets alone: a config in the clear, and a data folder that is open to all.
#[test]
fn what_an_earlier_program_left_in_the_clear_is_sealed_beside_the_work() {
    with_field_and(PROGRAM, Dhcp::Managed, &[], |field| {
        let wanted = plain_forms(PLAIN_MARK);
        let admin = Admin::of(field);
        let config = machine_config("01-old", &file(&json!({"source": "data:,nothing"})));
        admin.does(Method::POST, CONFIGS, &config);
        drop(admin);
        let data = field.appliance.data();
        field.appliance.kill_and_start_again_after(|| {
            earlier_program(&data);
            let found = shown_below(&data, &wanted);
            assert!(found.iter().any(|found| found.contains("resources.db")), "nothing lies in the clear: {found:?}");
            for (name, mode) in [("", 0o755), ("resources.db", 0o644), ("secrets", 0o750), ("pki/ca.crt", 0o666)] {
                fs::set_permissions(data.join(name), fs::Permissions::from_mode(mode)).unwrap();
            }
        });
        // It serves meanwhile.
        let shown = |field: &Field| field.firesteel(&["get", "machineconfigs", "01-old", "-o", "json"]);
        assert!(shown(field).contains(&planted("old")));
        field.appliance.wait_for_log("stored secrets are sealed now");
        judge("files of an older program", WANTS, "", &shown_below(field.appliance.folder(), &wanted).join("\n"));
        is_kept_from_others(&field.appliance.data());
        field.appliance.kill_and_start_again();
        judge("the same after a kill", WANTS, "", &shown_below(field.appliance.folder(), &wanted).join("\n"));
        assert!(shown(field).contains(&planted("old")));
    });
}

/// Writes a config in the clear, several times.
fn earlier_program(data: &Path) {
    let digits = fs::read_to_string(data.join("secrets/at-rest.key")).unwrap();
    let bytes: [u8; 32] = hex::decode(digits.trim()).unwrap().try_into().unwrap();
    let ring = SealingKeys::new(vec![GroupResource::new("", "secrets")], &[bytes]).unwrap();
    let database = data.join("resources.db");
    let store = Store::open_sealed(&database, firesteel_store::Durability::PowerCut, Some(ring.into())).unwrap();
    let key = ObjectKey::new(&GroupResource::new("machineconfiguration.openshift.io", "machineconfigs"), "", "01-old");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for _ in 0..3 {
            let object = store.get(&key).await.unwrap().unwrap();
            let text = String::from_utf8(object.value.to_vec()).unwrap();
            let value = text.replace("data:,nothing", &format!("data:,{}", planted("old"))).into();
            store.commit(Op::Update { key: key.clone(), expected: object.revision, value }, vec![]).await.unwrap();
        }
    });
}

/// It stays in the spec, and where upstream compares it: a host would be installed again otherwise.
#[test]
fn a_query_string_is_in_no_message_condition_event_log_or_receipt() {
    with_field_and(PROGRAM, Dhcp::Managed, &[], |field| {
        let mut hostile = Hostile::start(field, env!("CARGO_BIN_EXE_firesteel-hostile"));
        let wanted = plain_forms(QUERY_MARK);
        let admin = Admin::of(field);
        give_secrets(&admin);
        drop(admin);
        let mut image = disk_image::served();
        let url = format!("{}?signature={QUERY_MARK}", image["url"].as_str().unwrap());
        image["url"] = url.clone().into();
        install(field, &mut hostile, &image);
        let host: Value = serde_json::from_str(&field.firesteel(&["get", "hosts", "victim", "-o", "json"])).unwrap();
        assert_eq!(host["spec"]["image"]["url"], url, "the search finds what is there");
        assert_eq!(host["status"]["provisioning"]["image"]["url"], url);
        let journals = field.firesteel(&["get", "hostjournals", "victim", "-o", "json"]);
        let journal: Value = serde_json::from_str(&journals).unwrap();
        let log = field.appliance.log();
        let status = &host["status"];
        for (name, text) in [
            ("conditions", status["conditions"].to_string()),
            ("errors", status["errorMessage"].to_string()),
            ("the reason", journal["status"]["reason"].to_string()),
            ("the timeline", journal["status"]["timeline"].to_string()),
            ("events", field.firesteel(&["get", "events", "-o", "json"])),
            ("receipts", field.firesteel(&["get", "receipts", "-o", "json"])),
            ("the audit log", field.firesteel(&["audit", "--tail", "1000"])),
            ("the log", log),
        ] {
            judge(name, "a query string", "", &shown_in(name, text.as_bytes(), &wanted).join("\n"));
        }
    });
}
