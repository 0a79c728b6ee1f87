//! Kills a process in the middle of a storm of writes and opens its store again.
//!
//! The storm makes, changes and deletes objects from several tasks, each the only writer of its own,
//! and says on its standard output what was acknowledged. It is killed after a number of
//! acknowledgements that a seed draws. Then the whole history is read back: each acknowledged change
//! is in it at its revision, revisions have neither gap nor repeat, and what exists is what the
//! history says. A failure names the seed; `FIRESTEEL_CRASH_SEED` sets it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the child reports what was acknowledged on its standard output")]

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use firesteel_store::{ChangeKind, GroupResource, ListRange, ObjectKey, Op, Revision, Store};

const CHILD_STORE: &str = "FIRESTEEL_STORE_CRASH_CHILD";
const SEED: &str = "FIRESTEEL_CRASH_SEED";
/// Lives of the process on one store.
const ROUNDS: u64 = 5;
const TASKS: u64 = 8;
/// Objects of one task: few, so that they are changed and deleted as often as made.
const OBJECTS: u64 = 4;
const ACKNOWLEDGED_MAX: u64 = 120;

fn kind() -> GroupResource {
    GroupResource::new("example.org", "hosts")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// SplitMix64: any seed gives a sequence of its own.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Writes forever from several tasks; prints each acknowledged change.
#[test]
fn child_writes_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD_STORE) else { return };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    block_on(async {
        let store = Store::open(Path::new(&path)).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(storm(store.clone(), task, Random(seed ^ (task << 32))));
        }
        tasks.join_all().await;
    });
}

async fn storm(store: Store, task: u64, mut random: Random) {
    loop {
        let key = ObjectKey::new(&kind(), "default", &format!("t{task}-{}", random.below(OBJECTS)));
        // Some large, so that a transaction is more than one page of the log.
        let length = if random.below(8) == 0 { 20_000 } else { 20 };
        let value = Bytes::from(format!("{:0length$}", random.below(u64::MAX)));
        let stands = store.get(&key).await.unwrap();
        let (what, op) = match stands {
            None => ("Created", Op::Create { key: key.clone(), value: value.clone() }),
            Some(object) if random.below(3) == 0 => {
                ("Deleted", Op::Delete { key: key.clone(), expected: object.revision, value: value.clone() })
            }
            Some(object) => {
                ("Updated", Op::Update { key: key.clone(), expected: object.revision, value: value.clone() })
            }
        };
        let revision = store.commit(op, vec![]).await.unwrap();
        let line = format!("ack {revision} {what} {} {}\n", key.name, digest(&value));
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// FNV-1a: to compare values over a pipe.
fn digest(value: &[u8]) -> u64 {
    value.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What a change was: its kind, object and value.
type Change = (String, String, u64);

/// Runs a storm until so many of its changes were acknowledged, and kills it.
fn killed_storm(path: &Path, seed: u64, enough: u64) -> Vec<(u64, Change)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD_STORE, path)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    let mut alive = true;
    // What it had printed before it died counts too.
    while let Some(Ok(line)) = lines.next() {
        // The test harness writes to the same stream, also in the middle of a line's start; a line
        // that the kill cut off has fewer words.
        let words: Vec<&str> = line.find("ack ").map_or(Vec::new(), |at| line[at..].split(' ').collect());
        if let [_, revision, what, name, digest] = words.as_slice() {
            let change = ((*what).to_owned(), (*name).to_owned(), digest.parse().unwrap());
            acknowledged.push((revision.parse().unwrap(), change));
        }
        if alive && acknowledged.len() as u64 >= enough {
            child.kill().unwrap();
            alive = false;
        }
    }
    child.wait().unwrap();
    assert!(!alive, "the storm ended by itself");
    acknowledged
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let given = std::env::var(SEED).ok();
    let seed = given.map_or_else(|| RandomState::new().hash_one(std::process::id()), |seed| seed.parse().unwrap());
    println!("{SEED}={seed}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut acknowledged: BTreeMap<u64, Change> = BTreeMap::new();
    let mut before = 0;
    for round in 0..ROUNDS {
        let enough = 1 + random.below(ACKNOWLEDGED_MAX);
        for (revision, change) in killed_storm(&path, random.below(u64::MAX), enough) {
            assert!(revision > before, "round {round}: revision {revision} was given again, seed {seed}");
            assert_eq!(acknowledged.insert(revision, change), None, "seed {seed}");
        }
        before = block_on(check(&path, &acknowledged, seed));
    }
}

/// Reads everything back; returns the newest revision.
async fn check(path: &Path, acknowledged: &BTreeMap<u64, Change>, seed: u64) -> u64 {
    let store = Store::open(path).unwrap();
    let current = store.current();
    let newest = acknowledged.keys().next_back().copied().unwrap_or_default();
    assert!(current >= Revision(newest), "the counter went back, seed {seed}");
    let mut history = store.watch(&kind(), Revision(0)).await.unwrap();
    let mut exists = HashMap::new();
    for revision in 1..=current.0 {
        let event = history.next().await.unwrap();
        assert_eq!(event.revision.0, revision, "a gap or a repeat, seed {seed}");
        let change = (format!("{:?}", event.kind), event.key.name.clone(), digest(&event.value));
        if let Some(wanted) = acknowledged.get(&revision) {
            assert_eq!(change, *wanted, "revision {revision}, seed {seed}");
        }
        match event.kind {
            ChangeKind::Created | ChangeKind::Updated => exists.insert(change.1, (revision, change.2)),
            ChangeKind::Deleted => exists.remove(&change.1),
        };
    }
    let list = store.list(ListRange::all(&kind()), 1000).await.unwrap();
    let listed = list.items.into_iter().map(|object| (object.key.name, (object.revision.0, digest(&object.value))));
    assert_eq!(listed.collect::<HashMap<_, _>>(), exists, "what exists is what the history says, seed {seed}");
    current.0
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
