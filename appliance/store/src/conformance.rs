//! What every backend must do, run against each: properties first, then the corners.
//!
//! A backend is given as [`ConformanceBackend`]: how to make a store, and how to open the same one again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod damage_cases;
mod history_model;
mod one_kind;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use crate::{
    CommitError, GroupResource, ListRange, MemoryMedium, OBJECT_BYTES_MAX, ObjectKey, Op, Position, RecordedTime,
    Revision, Store, StoreReadError, WatchError, WritePrecondition,
};

/// One place where a store is kept.
pub(crate) trait ConformanceBackend {
    fn open(&self) -> Store;
    /// How many rows there are of a kind.
    fn rows(&self, kind: &GroupResource) -> usize;
    /// Damages the newest value of an object.
    fn damage(&self, key: &ObjectKey);
}

struct SqliteFile(tempfile::TempDir);

impl SqliteFile {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl ConformanceBackend for SqliteFile {
    fn open(&self) -> Store {
        Store::open(&self.0.path().join("store.db")).unwrap()
    }

    fn rows(&self, kind: &GroupResource) -> usize {
        let database = rusqlite::Connection::open(self.0.path().join("store.db")).unwrap();
        let sql = "SELECT count(*) FROM log WHERE grp = ?1 AND resource = ?2";
        let rows: i64 = database.query_row(sql, [&*kind.group, &*kind.resource], |row| row.get(0)).unwrap();
        usize::try_from(rows).unwrap()
    }

    fn damage(&self, key: &ObjectKey) {
        let database = rusqlite::Connection::open(self.0.path().join("store.db")).unwrap();
        let sql = "UPDATE log SET value = CAST('altered' AS BLOB) WHERE revision =
                   (SELECT revision FROM object WHERE grp = ?1 AND resource = ?2 AND namespace = ?3 AND name = ?4)";
        let key = rusqlite::params![&*key.kind.group, &*key.kind.resource, key.namespace, key.name];
        assert_eq!(database.execute(sql, key).unwrap(), 1);
    }
}

impl ConformanceBackend for MemoryMedium {
    fn open(&self) -> Store {
        Store::in_memory(self)
    }

    fn rows(&self, kind: &GroupResource) -> usize {
        Self::rows(self, kind)
    }

    fn damage(&self, key: &ObjectKey) {
        Self::damage(self, key);
    }
}

/// The suite, once for each backend.
macro_rules! conformance {
    ($backend:ident, $new:expr) => {
        mod $backend {
            use super::*;

            #[test]
            fn changes_need_what_they_expect() {
                run(super::changes_need_what_they_expect($new));
            }
            #[test]
            fn guards_are_checked_with_the_change() {
                run(super::guards_are_checked_with_the_change($new));
            }
            #[test]
            fn of_concurrent_changes_one_wins() {
                run(super::of_concurrent_changes_one_wins($new));
            }
            #[test]
            fn pages_are_a_snapshot_while_others_write() {
                run(super::pages_are_a_snapshot_while_others_write($new));
            }
            #[test]
            fn revisions_go_on_after_a_restart() {
                run(super::revisions_go_on_after_a_restart($new));
            }
            #[test]
            fn what_was_recorded_of_time_outlives_the_process() {
                run(super::what_was_recorded_of_time_outlives_the_process($new));
            }
            #[test]
            fn a_slow_watcher_is_cut_off_and_resumes() {
                run(super::a_slow_watcher_is_cut_off_and_resumes($new));
            }
            #[test]
            fn compacted_history_is_refused() {
                run(super::compacted_history_is_refused($new));
            }
            #[test]
            fn a_kind_is_compacted_by_itself() {
                run(super::one_kind::is_compacted_by_itself($new));
            }
            #[test]
            fn a_kind_is_compacted_in_steps() {
                run(super::one_kind::is_compacted_in_steps($new));
            }
            #[test]
            fn a_history_stays_within_its_limits() {
                run(super::bounds::a_history_stays_within_its_limits($new));
            }
            #[test]
            fn no_more_is_stored_than_is_allowed() {
                run(super::bounds::no_more_is_stored_than_is_allowed($new));
            }
            #[test]
            fn what_stands_is_counted_by_namespace() {
                run(super::bounds::what_stands_is_counted_by_namespace($new));
            }
            #[test]
            fn a_damaged_value_is_named_and_never_absent() {
                run(super::damage_cases::is_named_and_never_absent($new));
            }
            #[test]
            fn a_damaged_object_is_deleted_unread_and_watches_hear_of_it() {
                run(super::damage_cases::is_deleted_unread($new));
            }
            #[test]
            fn a_watch_position_covers_other_kinds() {
                run(super::a_watch_position_covers_other_kinds($new));
            }
            #[test]
            fn a_watch_ends_with_the_store() {
                run(super::a_watch_ends_with_the_store($new));
            }
            proptest! {
                #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
                #[test]
                fn history_equals_the_model(
                    steps in prop::collection::vec(super::history_model::step(), 1..60),
                    through in (0_u64..40, 0_u64..60),
                    order in any::<bool>(),
                ) {
                    run(super::history_model::equals_the_history($new, steps, through, order));
                }
            }
        }
    };
}

conformance!(sqlite, &SqliteFile::new());
conformance!(memory, &MemoryMedium::new());

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
}

fn kind(name: &str) -> GroupResource {
    GroupResource::new("example.org", name)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(&kind("hosts"), "default", name)
}

fn create(name: &str, value: &'static str) -> Op {
    Op::Create { key: key(name), value: Bytes::from_static(value.as_bytes()) }
}

fn update(name: &str, expected: Revision, value: &str) -> Op {
    Op::Update { key: key(name), expected, value: Bytes::copy_from_slice(value.as_bytes()) }
}

fn delete(name: &str, expected: Revision, value: &'static str) -> Op {
    Op::Delete { key: key(name), expected, value: Bytes::from_static(value.as_bytes()) }
}

async fn changes_need_what_they_expect(backend: &impl ConformanceBackend) {
    let store = backend.open();
    assert!(matches!(store.commit(update("a", Revision(1), "x"), vec![]).await, Err(CommitError::NotFound { .. })));
    assert!(matches!(store.commit(delete("a", Revision(1), "x"), vec![]).await, Err(CommitError::NotFound { .. })));
    let first = store.commit(create("a", "1"), vec![]).await.unwrap();
    assert_eq!(store.current(), first);
    assert!(matches!(store.commit(create("a", "2"), vec![]).await,
        Err(CommitError::Exists { current, .. }) if current == first));
    let second = store.commit(update("a", first, "2"), vec![]).await.unwrap();
    assert!(matches!(store.commit(update("a", first, "3"), vec![]).await,
        Err(CommitError::Conflict { current, .. }) if current == second));
    assert!(matches!(store.commit(delete("a", first, "3"), vec![]).await, Err(CommitError::Conflict { .. })));
    let object = store.get(&key("a")).await.unwrap().unwrap();
    assert_eq!((object.revision, &object.value[..]), (second, &b"2"[..]));
    store.commit(delete("a", second, "last"), vec![]).await.unwrap();
    assert_eq!(store.get(&key("a")).await.unwrap(), None);
    let again = store.commit(create("a", "new"), vec![]).await.unwrap();
    assert_eq!(again, Revision(4), "refused changes take no revision");
    let large = Op::Create { key: key("b"), value: vec![0; OBJECT_BYTES_MAX + 1].into() };
    assert!(matches!(store.commit(large, vec![]).await, Err(CommitError::TooLarge { .. })));
}

async fn guards_are_checked_with_the_change(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let present = || vec![WritePrecondition::Present(key("ns"))];
    assert!(matches!(store.commit(create("a", "1"), present()).await, Err(CommitError::Guard { current: None, .. })));
    let at = store.commit(create("ns", "1"), vec![WritePrecondition::Absent(key("ns"))]).await.unwrap();
    store.commit(create("a", "1"), present()).await.unwrap();
    store.commit(create("b", "1"), vec![WritePrecondition::At(key("ns"), at)]).await.unwrap();
    let moved = store.commit(update("ns", at, "2"), vec![]).await.unwrap();
    assert!(matches!(store.commit(create("c", "1"), vec![WritePrecondition::At(key("ns"), at)]).await,
        Err(CommitError::Guard { current: Some(current), .. }) if current == moved));
    assert!(matches!(
        store.commit(create("c", "1"), vec![WritePrecondition::Absent(key("a"))]).await,
        Err(CommitError::Guard { .. })
    ));
    assert_eq!(store.get(&key("c")).await.unwrap(), None);
}

async fn of_concurrent_changes_one_wins(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let mut at = store.commit(create("a", "0"), vec![]).await.unwrap();
    for round in 0..20 {
        let mut racers = tokio::task::JoinSet::new();
        for racer in 0..16 {
            let (store, op) = (store.clone(), update("a", at, &format!("{round}/{racer}")));
            racers.spawn(async move { store.commit(op, vec![]).await });
        }
        let results = racers.join_all().await;
        let won: Vec<Revision> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
        assert_eq!(won.len(), 1, "round {round}");
        assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(CommitError::Conflict { .. }))));
        at = won[0];
    }
}

async fn pages_are_a_snapshot_while_others_write(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let mut at = BTreeMap::new();
    for i in 0..10 {
        let name = format!("h{i}");
        let op = Op::Create { key: key(&name), value: Bytes::from_static(b"old") };
        at.insert(name, store.commit(op, vec![]).await.unwrap());
    }
    let hosts = kind("hosts");
    let mut page = store.list(ListRange::all(&hosts), 3).await.unwrap();
    let snapshot = page.revision;
    assert_eq!(page.remaining, 7);
    store.commit(delete("h4", at["h4"], "old"), vec![]).await.unwrap();
    store.commit(update("h5", at["h5"], "new"), vec![]).await.unwrap();
    store.commit(create("h45", "new"), vec![]).await.unwrap();
    let mut names = Vec::new();
    loop {
        assert_eq!(page.revision, snapshot);
        assert!(page.items.iter().all(|object| &object.value[..] == b"old"));
        names.extend(page.items.iter().map(|object| object.key.name.clone()));
        let Some(last) = page.items.last().filter(|_| page.remaining > 0) else { break };
        let after: Position = last.key.position();
        let range = ListRange { kind: &hosts, namespace: Some("default"), at: Some(snapshot), after: Some(&after) };
        page = store.list(range, 3).await.unwrap();
    }
    assert_eq!(names, at.keys().cloned().collect::<Vec<_>>());
    let now = store.list(ListRange::all(&hosts), 100).await.unwrap();
    assert_eq!(now.items.len(), 10);
    assert_eq!(
        store.list(ListRange { namespace: Some("other"), ..ListRange::all(&hosts) }, 100).await.unwrap().items,
        []
    );
    let future = Revision(store.current().0 + 1);
    assert!(matches!(
        store.list(ListRange { at: Some(future), ..ListRange::all(&hosts) }, 1).await,
        Err(StoreReadError::Future { .. })
    ));
}

async fn revisions_go_on_after_a_restart(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let at = store.commit(create("a", "1"), vec![]).await.unwrap();
    let deleted = store.commit(delete("a", at, "1"), vec![]).await.unwrap();
    // All rows of the log go, and the counter must not.
    assert_eq!(store.compact(deleted).await.unwrap(), deleted);
    drop(store);
    let store = backend.open();
    assert_eq!(store.current(), deleted);
    assert_eq!(store.commit(create("a", "1"), vec![]).await.unwrap(), Revision(deleted.0 + 1));
}

async fn what_was_recorded_of_time_outlives_the_process(backend: &impl ConformanceBackend) {
    let store = backend.open();
    assert_eq!(store.recorded_time(), RecordedTime::default(), "a new store knows no time");
    let at = store.commit(create("a", "1"), vec![]).await.unwrap();
    for time in [RecordedTime { newest_ms: 2_000, age_ms: 60 }, RecordedTime { newest_ms: 1_000, age_ms: 120 }] {
        store.record_time(time).await.unwrap();
        assert_eq!(store.recorded_time(), time, "as it was said, though it is earlier than before");
    }
    assert_eq!(store.current(), at, "it takes no revision");
    drop(store);
    assert_eq!(backend.open().recorded_time(), RecordedTime { newest_ms: 1_000, age_ms: 120 });
}

async fn a_slow_watcher_is_cut_off_and_resumes(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let mut watch = store.watch(&kind("hosts"), Revision(0)).await.unwrap();
    let mut at = store.commit(create("a", "0"), vec![]).await.unwrap();
    let mut writes = tokio::task::JoinSet::new();
    let count = crate::WATCH_EVENTS_MAX as u64 + 100;
    for i in 1..count {
        // Other objects, so that the writes may be batched.
        let op = Op::Create { key: key(&format!("n{i}")), value: Bytes::from_static(b"x") };
        let store = store.clone();
        writes.spawn(async move { store.commit(op, vec![]).await.unwrap() });
    }
    drop(writes.join_all().await);
    let mut seen = Revision(0);
    let error = loop {
        match watch.next().await {
            Ok(event) => {
                assert_eq!(event.revision.0, seen.0 + 1, "no gap before the cut");
                seen = event.revision;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error, WatchError::Lagged);
    assert_eq!(watch.next().await.map(drop), Err(WatchError::Lagged));
    let mut watch = store.watch(&kind("hosts"), seen).await.unwrap();
    at = at.max(store.current());
    while seen < at {
        let event = watch.next().await.unwrap();
        assert_eq!(event.revision.0, seen.0 + 1, "no gap after it");
        seen = event.revision;
    }
}

async fn compacted_history_is_refused(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let one = store.commit(create("a", "1"), vec![]).await.unwrap();
    let two = store.commit(update("a", one, "2"), vec![]).await.unwrap();
    let three = store.commit(update("a", two, "3"), vec![]).await.unwrap();
    assert_eq!(store.compact(two).await.unwrap(), two);
    let hosts = kind("hosts");
    assert_eq!(store.watch(&hosts, one).await.map(drop), Err(WatchError::Compacted { oldest: two }));
    assert!(matches!(
        store.list(ListRange { at: Some(one), ..ListRange::all(&hosts) }, 9).await,
        Err(StoreReadError::Compacted { .. })
    ));
    let mut watch = store.watch(&hosts, two).await.unwrap();
    let event = watch.next().await.unwrap();
    assert_eq!((event.revision, event.previous.as_deref()), (three, Some(&b"2"[..])));
    assert_eq!(
        &store.list(ListRange { at: Some(two), ..ListRange::all(&hosts) }, 9).await.unwrap().items[0].value[..],
        b"2"
    );
    assert_eq!(store.compact(Revision(1_000)).await.unwrap(), three, "the future is not compacted");
    assert_eq!(&store.get(&key("a")).await.unwrap().unwrap().value[..], b"3");
}

async fn a_watch_position_covers_other_kinds(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let mut watch = store.watch(&kind("hosts"), Revision(0)).await.unwrap();
    let one = store.commit(create("a", "1"), vec![]).await.unwrap();
    assert_eq!(watch.position(), Revision(0), "an event waits");
    assert_eq!(watch.next().await.unwrap().revision, one);
    let other = Op::Create { key: ObjectKey::new(&kind("claims"), "", "c"), value: Bytes::from_static(b"x") };
    let two = store.commit(other, vec![]).await.unwrap();
    assert_eq!(watch.position(), two, "nothing of this kind is up to there");
    let nothing = tokio::time::timeout(Duration::from_millis(20), watch.next()).await;
    assert!(nothing.is_err());
    store.reached(two).await.unwrap();
}

async fn a_watch_ends_with_the_store(backend: &impl ConformanceBackend) {
    let store = backend.open();
    let mut watch = store.watch(&kind("hosts"), Revision(0)).await.unwrap();
    drop(store);
    assert_eq!(watch.next().await.map(drop), Err(WatchError::Closed));
    drop(backend.open());
}
