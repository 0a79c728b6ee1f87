//! A store on a disk that is nearly full: what is refused, what goes on, and what is forgotten for it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use firesteel_store::{
    CommitError, CommitTerms, DiskBytes, Durability, GroupResource, HistoryLimits, ObjectKey, Op, ReserveUse, Revision,
    Store, StoreRoom, WatchError,
};
use rusqlite::Connection;

const MIB: u64 = 1 << 20;
const RESERVED: CommitTerms = CommitTerms { spending: ReserveUse::Reserved, allowances: Vec::new() };

/// A disk of 48 MiB, of which the test says how much is free.
struct Disk {
    free: Arc<AtomicU64>,
    room: Arc<StoreRoom>,
}

impl Disk {
    fn new(folder: &Path) -> Self {
        let free = Arc::new(AtomicU64::new(40 * MIB));
        let looked = Arc::clone(&free);
        let look = move || Ok(DiskBytes { free: looked.load(Ordering::Relaxed), total: 48 * MIB });
        let room = Arc::new(StoreRoom::open(&folder.join("reserve"), Box::new(look)));
        Self { free, room }
    }

    fn leaves(&self, free: u64) {
        self.free.store(free, Ordering::Relaxed);
    }

    fn store(&self, path: &Path) -> Store {
        Store::open_in(path, Durability::Nothing, None, Some(Arc::clone(&self.room))).unwrap()
    }
}

fn hosts() -> GroupResource {
    GroupResource::new("example.org", "hosts")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(&hosts(), "default", name)
}

fn value(bytes: usize) -> Bytes {
    vec![b'x'; bytes].into()
}

fn create(name: &str, bytes: usize) -> Op {
    Op::Create { key: key(name), value: value(bytes) }
}

#[tokio::test]
async fn ordinary_changes_end_while_there_is_room_and_those_that_matter_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path());
    let store = disk.store(&folder.path().join("store.db"));
    assert_eq!(store.commit(create("a", 1000), vec![]).await.unwrap(), Revision(1));
    assert_eq!(store.storage().unwrap().refused, None);

    disk.leaves(4 * MIB);
    let refused = store.commit(create("b", 1000), vec![]).await;
    assert!(matches!(&refused, Err(CommitError::Full(why)) if why.contains("disk is full")), "{refused:?}");
    let changed = Op::Update { key: key("a"), expected: Revision(1), value: value(10) };
    assert!(matches!(store.commit(changed.clone(), vec![]).await, Err(CommitError::Full(_))));
    assert!(store.storage().unwrap().refused.is_some());
    assert!(matches!(store.commit(create("a", 1), vec![]).await, Err(CommitError::Exists { .. })), "as always");
    assert_eq!(store.commit_on(RESERVED, changed, vec![]).await.unwrap(), Revision(2));
    let deleted = Op::Delete { key: key("a"), expected: Revision(2), value: value(10) };
    assert_eq!(store.commit(deleted, vec![]).await.unwrap(), Revision(3));
    assert!(store.get(&key("a")).await.unwrap().is_none() && store.get(&key("b")).await.unwrap().is_none());
    store.probe().await.unwrap();

    disk.leaves(40 * MIB);
    assert_eq!(store.commit(create("b", 1000), vec![]).await.unwrap(), Revision(4));
    assert_eq!(store.storage().unwrap().refused, None);
}

/// A large value waits for room, and small ones go on; the history goes first.
#[tokio::test]
async fn history_is_forgotten_before_a_change_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path());
    let path = folder.path().join("store.db");
    let store = disk.store(&path);
    store.limit_history(HistoryLimits { bytes: u64::MAX, ..HistoryLimits::default() });
    let mut at = store.commit(create("a", 1 << 20), vec![]).await.unwrap();
    for _ in 0..8 {
        let op = Op::Update { key: key("a"), expected: at, value: value(1 << 20) };
        at = store.commit(op, vec![]).await.unwrap();
    }
    store.watch(&hosts(), Revision(1)).await.unwrap();
    let pages = || -> i64 {
        Connection::open(&path).unwrap().pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
    };
    assert!(pages() > 9 * 256, "nine values of a MiB");

    disk.leaves(5 * MIB);
    assert!(matches!(store.commit(create("b", 1 << 20), vec![]).await, Err(CommitError::Full(_))));
    let gone = store.watch(&hosts(), Revision(1)).await.map(drop);
    assert_eq!(gone, Err(WatchError::Compacted { oldest: at }));
    assert!(pages() < 2 * 256, "what is free is given back: {} pages", pages());
    store.commit(create("c", 1000), vec![]).await.unwrap();
    assert_eq!(store.get(&key("a")).await.unwrap().unwrap().value.len(), 1 << 20);
}

#[tokio::test]
async fn what_waits_to_be_put_in_its_place_counts_as_taken() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path());
    let path = folder.path().join("store.db");
    let store = disk.store(&path);
    // Who reads keeps the log from being put in its place.
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    for number in 0..6 {
        store.commit(create(&format!("a{number}"), 1 << 20), vec![]).await.unwrap();
    }
    // Five MiB above what is kept, of which the log will need six.
    disk.leaves(9 * MIB);
    assert!(matches!(store.commit(create("b", 1000), vec![]).await, Err(CommitError::Full(_))));
    reader.execute_batch("COMMIT").unwrap();
    store.commit(create("b", 1000), vec![]).await.unwrap();
}

/// Pages that are moved while a reader keeps the log from being cut would take the last room, and give none back.
#[tokio::test]
async fn what_is_free_is_given_back_when_the_last_reader_went() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path());
    let path = folder.path().join("store.db");
    let store = disk.store(&path);
    store.limit_history(HistoryLimits { bytes: u64::MAX, ..HistoryLimits::default() });
    let mut first = Vec::new();
    for number in 0..6 {
        first.push(store.commit(create(&format!("a{number}"), 1 << 20), vec![]).await.unwrap());
    }
    for number in 0..4 {
        store.commit(create(&format!("b{number}"), 1 << 20), vec![]).await.unwrap();
    }
    for (number, expected) in first.into_iter().enumerate() {
        let key = key(&format!("a{number}"));
        store.commit(Op::Delete { key, expected, value: value(10) }, vec![]).await.unwrap();
    }
    let length = |path: &str| std::fs::metadata(folder.path().join(path)).map_or(0, |file| file.len());
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();

    let log = length("store.db-wal");
    disk.leaves(4 * MIB);
    for _ in 0..3 {
        assert!(matches!(store.commit(create("c", 1000), vec![]).await, Err(CommitError::Full(_))));
    }
    assert!(length("store.db") > 9 * MIB, "{}", length("store.db"));
    assert!(length("store.db-wal") < log + 2 * MIB, "{} bytes after {log}", length("store.db-wal"));
    reader.execute_batch("COMMIT").unwrap();
    assert!(matches!(store.commit(create("c", 1000), vec![]).await, Err(CommitError::Full(_))));
    assert!(length("store.db") < 5 * MIB, "{}", length("store.db"));
}
