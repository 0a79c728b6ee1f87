//! Kills a process in the middle of commits and opens its store again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the child reports what was acknowledged on its standard output")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use firesteel_store::{GroupResource, Key, Op, Revision, Store};

const CHILD_STORE: &str = "FIRESTEEL_STORE_CRASH_CHILD";

fn kind() -> GroupResource {
    GroupResource::new("example.org", "hosts")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Commits for ever from several tasks; prints each acknowledged revision with its object.
#[test]
fn child_commits_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD_STORE) else { return };
    block_on(async {
        let store = Store::open(Path::new(&path)).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let store = store.clone();
            tasks.spawn(async move {
                let start = store.current().0;
                for number in 0.. {
                    let key = Key::new(&kind(), "default", &format!("t{task}-{start}-{number}"));
                    let value = Bytes::from(key.name.clone());
                    let revision = store.commit(Op::Create { key: key.clone(), value }, vec![]).await.unwrap();
                    let line = format!("ack {revision} {}\n", key.name);
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut acknowledged = Vec::new();
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_commits_until_it_is_killed", "--nocapture"])
            .env(CHILD_STORE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let enough = acknowledged.len() + 40 * round;
        let mut take = |acknowledged: &mut Vec<(u64, String)>| -> bool {
            let Some(Ok(line)) = lines.next() else { return false };
            // The test harness writes to the same stream, also in the middle of a line's start.
            if let Some(at) = line.find("ack ") {
                let mut words = line[at..].split(' ').skip(1);
                if let (Some(revision), Some(name)) = (words.next(), words.next()) {
                    acknowledged.push((revision.parse().unwrap(), name.to_owned()));
                }
            }
            true
        };
        while acknowledged.len() < enough {
            assert!(take(&mut acknowledged), "the child ended by itself");
        }
        child.kill().unwrap();
        // What it had printed before it died counts too.
        while take(&mut acknowledged) {}
        child.wait().unwrap();

        block_on(async {
            let store = Store::open(&path).unwrap();
            let newest = acknowledged.iter().map(|(revision, _)| *revision).max().unwrap();
            assert!(store.current() >= Revision(newest), "the counter went back");
            for (revision, name) in &acknowledged {
                let object = store.get(&Key::new(&kind(), "default", name)).await.unwrap();
                let object = object.unwrap_or_else(|| panic!("{name} at {revision} was acknowledged and is gone"));
                assert_eq!((object.revision.0, &object.value[..]), (*revision, name.as_bytes()));
            }
        });
    }
}

#[test]
fn a_second_process_is_kept_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = Store::open(&path).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    drop(store);
    Store::open(&path).unwrap();
}
