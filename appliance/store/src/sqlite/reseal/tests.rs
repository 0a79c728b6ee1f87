//! Sealing and scrubbing a step at a time: the process dies after each step, and others write in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bytes::Bytes;

use super::super::{ScrubStep, connect};
use super::*;
use crate::{Durability, Op, Store};

const CANARY: &str = "canary-7e1b44";
const ROOM: u64 = u64::MAX;

fn secrets() -> GroupResource {
    GroupResource::new("", "secrets")
}

fn hosts() -> GroupResource {
    GroupResource::new("example.org", "hosts")
}

fn ring(key: u8) -> Arc<SealingKeys> {
    Arc::new(SealingKeys::new(vec![secrets()], &[[key; 32]]).unwrap())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// As a process finds it that starts now.
fn database(path: &Path, ring: &Arc<SealingKeys>) -> Database {
    let connection = connect(path, Durability::Nothing).unwrap();
    let mut database = Database { connection, keyring: Some(ring.clone()), damages: Arc::default(), room: None };
    at_start(path, &mut database).unwrap();
    database
}

fn value_of(number: u64) -> Bytes {
    let bytes = [20, 300, 3000, 9000, 30_000][usize::try_from(number % 5).unwrap()];
    format!("{CANARY} {number} {}", "x".repeat(bytes)).into()
}

async fn create(store: &Store, kind: &GroupResource, number: u64) -> Revision {
    let key = ObjectKey::new(kind, "default", &format!("n{number}"));
    store.commit(Op::Create { key, value: value_of(number) }, vec![]).await.unwrap()
}

async fn delete(store: &Store, kind: &GroupResource, number: u64) {
    let key = ObjectKey::new(kind, "default", &format!("n{number}"));
    let expected = store.get(&key).await.unwrap().unwrap().revision;
    store.commit(Op::Delete { key, expected, value: value_of(number) }, vec![]).await.unwrap();
}

/// A database in the clear with many rows, and with free places where others were.
fn fill(path: &Path) {
    let store = Store::open_with(path, Durability::Nothing).unwrap();
    block_on(async {
        for number in 0..600 {
            create(&store, &secrets(), number).await;
            // Of a kind that is not sealed, without the canary.
            let key = ObjectKey::new(&hosts(), "default", &format!("h{number}"));
            store.commit(Op::Create { key, value: "a host".into() }, vec![]).await.unwrap();
        }
        for number in (0..600).filter(|number| number % 3 == 0) {
            delete(&store, &secrets(), number).await;
        }
        store.compact(Revision(1300)).await.unwrap();
    });
}

/// Every row of the log, opened.
fn rows(path: &Path, ring: &Arc<SealingKeys>) -> Vec<(i64, String, Bytes)> {
    let database = database(path, ring);
    let sql = concat!(
        "SELECT l.revision, l.grp, l.resource, l.namespace, l.name, ",
        stored_columns!("l"),
        " FROM log l ORDER BY l.revision"
    );
    let mut statement = database.connection.prepare(sql).unwrap();
    let found = statement.query_map([], |row| {
        let kind = GroupResource::new(&row.get::<_, String>(1)?, &row.get::<_, String>(2)?);
        let key = ObjectKey { kind, namespace: row.get(3)?, name: row.get(4)? };
        Ok((row.get::<_, i64>(0)?, key, RowFound::of(row, 5)))
    });
    let opened = found.unwrap().map(|row| {
        let (revision, key, stored) = row.unwrap();
        (revision, key.to_string(), stored.open(Some(&**ring), &key, revision).unwrap().0)
    });
    opened.collect()
}

fn stage(path: &Path) -> i64 {
    value(&Connection::open(path).unwrap(), "scrub").unwrap().unwrap()
}

/// Tables and triggers, as they are without a scrub.
const USUAL: [&str; 13] = [
    "epoch",
    "epoch_copy",
    "epoch_made",
    "kind",
    "log",
    "log_gone",
    "meta",
    "meta_copy",
    "meta_gone",
    "meta_made",
    "meta_set",
    "object",
    "sum",
];

fn tables(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT name FROM sqlite_master WHERE type <> 'index' ORDER BY name";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn holds(folder: &Path, wanted: &[u8]) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    files.collect::<Vec<_>>().iter().any(|bytes| bytes.windows(wanted.len()).any(|window| window == wanted))
}

/// One step of sealing, or else of scrubbing; whether all is done.
fn step_of(path: &Path, ring: &Arc<SealingKeys>) -> bool {
    let mut database = database(path, ring);
    let sealed = step(&mut database).unwrap();
    assert!(sealed.resealed.values <= usize::try_from(STEP_ROWS).unwrap(), "a step is bounded");
    sealed.is_over && scrub::step(&mut database.connection, ROOM).unwrap() == ScrubStep::Over
}

#[test]
fn each_step_keeps_every_row_while_others_write_and_the_process_dies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fill(&path);
    assert!(holds(folder.path(), CANARY.as_bytes()), "the search finds what is in the clear");
    let ring = ring(1);
    let (mut steps, mut before, mut is_done) = (0, rows(&path, &ring), false);
    while !is_done {
        steps += 1;
        assert!(steps < 1000, "it comes to no end, at stage {}", stage(&path));
        is_done = step_of(&path, &ring);
        assert_eq!(rows(&path, &ring), before, "step {steps}");
        if steps % 2 == 0 && steps < 40 {
            let store = Store::open_sealed(&path, Durability::Nothing, Some(ring.clone())).unwrap();
            block_on(async {
                create(&store, &secrets(), 5000 + steps).await;
                delete(&store, &secrets(), 3 * steps + 1).await;
                store.compact(Revision(1300 + 10 * steps)).await.unwrap();
            });
            drop(store);
            before = rows(&path, &ring);
        }
    }
    assert!(steps > 10, "{steps} steps are not a part each");
    assert!(!holds(folder.path(), CANARY.as_bytes()), "something in the clear is left");
    assert_eq!(tables(&path), USUAL);
    let connection = Connection::open(&path).unwrap();
    let said: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    let free: i64 = connection.query_row("PRAGMA freelist_count", [], |row| row.get(0)).unwrap();
    assert_eq!((said.as_str(), free), ("ok", 0));
}

/// Indexes have another name after each scrub, and the old ones again after the next.
#[test]
fn a_second_key_scrubs_what_the_first_one_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fill(&path);
    let ring = ring(1);
    while !step_of(&path, &ring) {}
    let before = rows(&path, &ring);
    for key in [2, 3] {
        let old = ring.ids()[0].0;
        assert!(holds(folder.path(), &old), "the search finds what the key sealed");
        ring.seal_with(&[key; 32]).unwrap();
        while !step_of(&path, &ring) {}
        ring.forget_others();
        assert!(!holds(folder.path(), &old));
        assert_eq!(rows(&path, &ring), before);
    }
}

/// A program that seals a further kind comes while the one before it was under way.
#[test]
fn a_further_kind_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fill(&path);
    let ring = ring(1);
    let first = step(&mut database(&path, &ring)).unwrap();
    assert!(first.resealed.values > 0 && !first.is_over);
    let both = Arc::new(SealingKeys::new(vec![secrets(), hosts()], &[[1; 32]]).unwrap());
    while !step_of(&path, &both) {}
    assert!(!holds(folder.path(), b"a host") && !holds(folder.path(), CANARY.as_bytes()));
}

#[test]
fn a_row_that_changes_in_the_middle_begins_the_scrub_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fill(&path);
    let ring = ring(1);
    while stage(&path) != 2 {
        assert!(!step_of(&path, &ring));
    }
    assert!(!step_of(&path, &ring), "some rows are copied");
    let before = rows(&path, &ring);
    Connection::open(&path).unwrap().execute("UPDATE log SET value = value WHERE revision = 1000", []).unwrap();
    assert_eq!(stage(&path), 1);
    while !step_of(&path, &ring) {}
    assert_eq!(rows(&path, &ring), before);
    assert!(!holds(folder.path(), CANARY.as_bytes()));
}

#[test]
fn a_scrub_without_room_is_not_begun_and_one_that_has_none_left_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fill(&path);
    let ring = ring(1);
    let mut database = database(&path, &ring);
    while !step(&mut database).unwrap().is_over {}
    let refused = scrub::step(&mut database.connection, 1 << 20).unwrap_err().to_string();
    assert!(refused.contains("where 1048576 are free"), "{refused}");
    for _ in 0..2 {
        assert_eq!(scrub::step(&mut database.connection, ROOM).unwrap(), ScrubStep::Next);
    }
    assert_eq!(stage(&path), 2);
    let mut steps = 0;
    while scrub::step(&mut database.connection, 0).is_ok() {
        steps += 1;
        assert!(steps < 1000, "what was copied is not removed");
    }
    assert_eq!(tables(&path), USUAL);
    while scrub::step(&mut database.connection, ROOM).unwrap() == ScrubStep::Next {}
    drop(database);
    assert!(!holds(folder.path(), CANARY.as_bytes()));
}

/// A scrub of a damaged log is refused, and does not copy the log again and again.
#[test]
fn a_copy_that_differs_from_the_log_is_told_and_made_again_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fill(&path);
    let ring = ring(1);
    let mut database = database(&path, &ring);
    while !step(&mut database).unwrap().is_over {}
    for _ in 0..2 {
        assert_eq!(scrub::step(&mut database.connection, ROOM).unwrap(), ScrubStep::Next);
    }
    let lost = "DROP TRIGGER log_next_gone; DELETE FROM log WHERE revision = (SELECT max(revision) FROM log_next)";
    database.connection.execute_batch(lost).unwrap();
    let told = loop {
        match scrub::step(&mut database.connection, ROOM) {
            Ok(ScrubStep::Next) => {}
            Ok(other) => panic!("{other:?} without a word"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(told.contains("other rows than the log"), "{told}");
    while scrub::step(&mut database.connection, ROOM).unwrap() == ScrubStep::Next {}
    assert_eq!(tables(&path), USUAL);
}
