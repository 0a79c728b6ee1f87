//! Backups of a real appliance while several clients write to it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use firesteel_appliance::backup::format::BackupReader;
use firesteel_appliance::backup::{self, BackupHeader, RestoreKeySource};
use firesteel_cli::{ApiClient, ConnectionOptions};
use firesteel_tests::appliance::Appliance;
use serde_json::{Value, json};

use super::{block_on, objects, order};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const PATH: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 4;
const BACKUPS: usize = 3;
/// Writes that are acknowledged between two backups.
const BETWEEN: usize = 60;

/// What was acknowledged: name and revision.
type Acknowledged = Arc<Mutex<BTreeMap<String, u64>>>;

fn client(appliance: &Appliance) -> ApiClient {
    let connection =
        ConnectionOptions { kubeconfig: Some(appliance.kubeconfig()), namespace: Some("default".to_owned()) };
    ApiClient::open(&connection).unwrap()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Makes an object, and when that is acknowledged another one that refers to it, and so on.
async fn write(client: ApiClient, writer: usize, stop: Arc<AtomicBool>, acknowledged: Acknowledged) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        for part in ["a", "b"] {
            let name = format!("{part}-{writer}-{number}");
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"refersTo": format!("a-{writer}-{number}")},
            });
            let made = client.create(PATH, &object).await.unwrap();
            acknowledged.lock().unwrap().insert(name, revision(&made));
        }
        number += 1;
    }
}

#[test]
fn a_backup_under_load_is_one_revision() {
    let appliance = Appliance::start(PROGRAM);
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Acknowledged::default());
    let mut taken = Vec::new();
    block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(client(&appliance), writer, stop.clone(), acknowledged.clone()));
        }
        for number in 0..BACKUPS {
            let goal = acknowledged.lock().unwrap().len() + BETWEEN;
            while acknowledged.lock().unwrap().len() < goal {
                tokio::task::yield_now().await;
                assert!(writers.try_join_next().is_none(), "a writer has ended");
            }
            let file = appliance.folder().join(format!("backup-{number}"));
            let before = acknowledged.lock().unwrap().clone();
            let (command, path) = (appliance.command(), file.clone());
            let done = tokio::task::spawn_blocking(move || {
                let mut command = command;
                output(command.arg("backup").arg(path))
            });
            assert!(done.await.unwrap().contains("not in it, keep them elsewhere: "));
            taken.push((file, before));
        }
        stop.store(true, Ordering::Relaxed);
        writers.join_all().await;
    });
    let acknowledged = acknowledged.lock().unwrap().clone();
    for (file, before) in taken {
        let data = file.with_extension("restored");
        let done =
            backup::restore(&order(&file, &data, RestoreKeySource::Folder(appliance.data()), false), &mut |_| {})
                .unwrap();
        let (last, found) = (done.header.revision, objects(&data));
        assert!(before.len() < found.len() + 1, "{} of {}", found.len(), before.len());
        for (name, revision) in &before {
            assert_eq!(found.get(name), Some(revision), "acknowledged before the backup began");
        }
        for (name, revision) in &acknowledged {
            assert_eq!(found.get(name), (*revision <= last).then_some(revision), "{name}, the backup is of {last}");
        }
        for name in found.keys().filter(|name| name.starts_with("b-")) {
            assert!(found.contains_key(&name.replacen('b', "a", 1)), "{name} refers to what is not in the backup");
        }
        println!("revision {last}: {} objects, {} acknowledged before it began", found.len(), before.len());
    }
}

/// From the first start to a life after the restore, as a person and their clients see it.
#[test]
fn after_a_restore_every_client_lists_anew() {
    let mut appliance = Appliance::start(PROGRAM);
    let file = appliance.folder().join("backup");
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let seen = block_on(async {
        let client = client(&appliance);
        client.create(PATH, &object("early")).await.unwrap();
        output(appliance.command().arg("backup").arg(&file));
        client.create(PATH, &object("late")).await.unwrap();
        client.merge_patch(&format!("{PATH}/early"), &json!({"data": {"x": "late"}})).await.unwrap();
        revision(&client.get(PATH).await.unwrap())
    });
    let header: BackupHeader = BackupReader::open(fs::File::open(&file).unwrap()).unwrap().header().clone();
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!((mode & 0o777, header.epoch), (0o600, 1));
    for key in ["pki/ca.key", "pki/server.key", "secrets/admin.token", "secrets/token.key"] {
        let private = fs::read(appliance.data().join(key)).ok();
        let bytes = fs::read(&file).unwrap();
        let is_in = |private: &Vec<u8>| bytes.windows(private.len()).any(|part| part == private.as_slice());
        assert!(!private.as_ref().is_some_and(is_in), "{key} is in the backup");
    }

    // In use, then not.
    let restore = |data: &std::path::Path| {
        let mut command = Command::new(PROGRAM);
        command.arg("restore").arg(&file).args(["--force", "--yes"]).arg("--data").arg(data);
        command
    };
    let refused = restore(&appliance.data()).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is in use"), "{refused:?}");
    let data = appliance.data();
    appliance.kill_and_start_again_after(|| {
        let text = output(&mut restore(&data));
        assert!(text.contains(&format!("restored revision {}", header.revision)) && text.contains("epoch 2"), "{text}");
    });

    block_on(async {
        // The same token and the same CA: the keys are the old ones.
        let client = client(&appliance);
        let listed = client.get(PATH).await.unwrap();
        let names: Vec<&str> =
            listed["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"early") && !names.contains(&"late"), "{names:?}");
        assert!(revision(&listed) >= seen + 900_000, "revisions never go back: {} after {seen}", revision(&listed));
        let early = client.get(&format!("{PATH}/early")).await.unwrap();
        assert!(early["data"].get("x").is_none(), "{early}");
        for old in [header.revision, seen] {
            let gone = client.get(&format!("{PATH}?resourceVersion={old}&resourceVersionMatch=Exact&limit=9")).await;
            assert!(format!("{:#}", gone.unwrap_err()).contains("too old"), "{old}");
        }
        let store = client.get("/firesteel.dev/store").await.unwrap();
        assert_eq!(store["epochs"][1]["restoredFromRevision"], header.revision);
        assert!(store["epochs"][1]["restoredAt"].is_string(), "{store}");
    });
    appliance.wait_for_log("restored from a backup");
}
