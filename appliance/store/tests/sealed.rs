//! Values of chosen kinds are in no byte of the files, and come back as they were.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use firesteel_store::{
    Durability, GroupResource, ListRange, ObjectKey, Op, Resealed, Revision, SealingKeys, Store, StoreOpenError,
    StoreReadError, WatchError,
};
use rusqlite::Connection;

const CANARY: &str = "canary-5d1c0a";
const OPEN: &str = "in-the-clear-77";

fn secrets() -> GroupResource {
    GroupResource::new("", "secrets")
}

fn hosts() -> GroupResource {
    GroupResource::new("example.org", "hosts")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(&secrets(), "default", name)
}

fn ring(keys: &[[u8; 32]]) -> Arc<SealingKeys> {
    Arc::new(SealingKeys::new(vec![secrets()], keys).unwrap())
}

fn open(path: &Path, ring: &Arc<SealingKeys>) -> Result<Store, StoreOpenError> {
    Store::open_sealed(path, Durability::Nothing, Some(ring.clone()))
}

/// Seals all that is to be, and leaves nothing of what was before.
async fn resealed(store: &Store) -> Resealed {
    let resealed = store.reseal().await.unwrap();
    store.scrub(|| u64::MAX).await.unwrap();
    resealed
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn value(what: &str) -> Bytes {
    // Long, so that values have pages of their own that become free.
    Bytes::from(format!("{CANARY} {what} {}", "x".repeat(9000)))
}

/// The value is in some file of the folder.
fn holds(folder: &Path, wanted: &[u8]) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    files.collect::<Vec<_>>().iter().any(|bytes| bytes.windows(wanted.len()).any(|window| window == wanted))
}

fn id_bytes(ring: &SealingKeys) -> Vec<u8> {
    let id = ring.ids()[0].to_string();
    (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
}

/// Revision 1 made "a", 2 changed it, 3 made "b", 4 deleted it; 5 is of another kind.
async fn a_life(store: &Store) {
    let a = key("a");
    store.commit(Op::Create { key: a.clone(), value: value("a1") }, vec![]).await.unwrap();
    store.commit(Op::Update { key: a, expected: Revision(1), value: value("a2") }, vec![]).await.unwrap();
    store.commit(Op::Create { key: key("b"), value: value("b1") }, vec![]).await.unwrap();
    store.commit(Op::Delete { key: key("b"), expected: Revision(3), value: value("b2") }, vec![]).await.unwrap();
    let host = ObjectKey::new(&hosts(), "default", "h");
    store.commit(Op::Create { key: host, value: OPEN.into() }, vec![]).await.unwrap();
}

async fn is_as_it_was(store: &Store) {
    assert_eq!(store.get(&key("a")).await.unwrap().unwrap().value, value("a2"));
    let listed = async |at: Option<u64>| {
        let page = store.list(ListRange { at: at.map(Revision), ..ListRange::all(&secrets()) }, 9).await.unwrap();
        page.items.into_iter().map(|object| object.value).collect::<Vec<_>>()
    };
    assert_eq!(listed(None).await, [value("a2")]);
    assert_eq!(listed(Some(1)).await, [value("a1")]);
    assert_eq!(listed(Some(3)).await, [value("a2"), value("b1")]);
    let mut watch = store.watch(&secrets(), Revision(0)).await.unwrap();
    for (now, before) in [("a1", None), ("a2", Some("a1")), ("b1", None), ("b2", Some("b1"))] {
        let event = watch.next().await.unwrap();
        assert_eq!((&event.value, &event.previous), (&value(now), &before.map(value)));
    }
}

#[test]
fn sealed_values_are_in_no_byte_of_the_files_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path, &ring(&[[1; 32]])).unwrap();
    block_on(async {
        let mut live = store.watch(&secrets(), Revision(0)).await.unwrap();
        a_life(&store).await;
        assert_eq!(live.next().await.unwrap().value, value("a1"));
        assert_eq!(live.next().await.unwrap().previous, Some(value("a1")));
        is_as_it_was(&store).await;
    });
    assert!(!holds(folder.path(), CANARY.as_bytes()), "with the log that is not yet in the database");
    assert!(holds(folder.path(), OPEN.as_bytes()), "the search finds what is there, and only chosen kinds are sealed");
    drop(store);
    assert!(!holds(folder.path(), CANARY.as_bytes()));
    let store = open(&path, &ring(&[[1; 32]])).unwrap();
    block_on(is_as_it_was(&store));
}

#[test]
fn a_database_without_its_key_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    block_on(a_life(&open(&path, &ring(&[[1; 32]])).unwrap()));
    let none = Store::open(&path).unwrap_err().to_string();
    assert!(none.contains("no key was given"), "{none}");
    let other = ring(&[[2; 32]]);
    let wrong = open(&path, &other).unwrap_err().to_string();
    assert!(
        wrong.contains(&other.ids()[0].to_string()) && wrong.contains(&ring(&[[1; 32]]).ids()[0].to_string()),
        "{wrong}"
    );
    block_on(is_as_it_was(&open(&path, &ring(&[[1; 32]])).unwrap()));
}

#[test]
fn a_value_in_anothers_place_names_its_object_and_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    block_on(a_life(&open(&path, &ring(&[[1; 32]])).unwrap()));
    let sql = "UPDATE log SET value = (SELECT value FROM log WHERE revision = 3) WHERE revision = 2";
    Connection::open(&path).unwrap().execute(sql, []).unwrap();
    let store = open(&path, &ring(&[[1; 32]])).unwrap();
    let error = block_on(store.get(&key("a"))).unwrap_err();
    assert!(matches!(&error, StoreReadError::Damaged(found) if found[0].key == key("a")), "{error}");
    let words =
        "the stored value of secrets/default/a (revision 2) is damaged: its bytes are not those that were written";
    assert_eq!(error.to_string(), words);
    // It can be replaced, and other writers are not kept from writing.
    block_on(async {
        let replaced = Op::Update { key: key("a"), expected: Revision(2), value: value("c") };
        store.commit(replaced, vec![]).await.unwrap();
        assert_eq!(store.get(&key("a")).await.unwrap().unwrap().value, value("c"));
        let resealed = resealed(&store).await;
        assert_eq!(resealed, Resealed::default(), "all of it is of this key already");
    });
}

#[test]
fn after_a_change_of_the_key_nothing_in_the_files_is_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let ring = ring(&[[1; 32]]);
    let old = id_bytes(&ring);
    let store = open(&path, &ring).unwrap();
    block_on(async {
        a_life(&store).await;
        // Leaves free pages behind.
        for number in 0..50 {
            let key = key(&format!("n{number}"));
            let made = store.commit(Op::Create { key: key.clone(), value: value("n") }, vec![]).await.unwrap();
            store.commit(Op::Delete { key, expected: made, value: value("n") }, vec![]).await.unwrap();
        }
        assert!(holds(folder.path(), &old));
        ring.seal_with(&[2; 32]).unwrap();
        let resealed = resealed(&store).await;
        assert_eq!((resealed.values, resealed.damaged.len()), (104, 0));
        ring.forget_others();
        assert!(!holds(folder.path(), &old), "some value of the old key is left");
        is_as_it_was(&store).await;
    });
    drop(store);
    assert!(!holds(folder.path(), &old) && !holds(folder.path(), CANARY.as_bytes()));
    assert!(matches!(open(&path, &self::ring(&[[1; 32]])), Err(StoreOpenError::Key { .. })));
    block_on(is_as_it_was(&open(&path, &self::ring(&[[2; 32]])).unwrap()));
}

#[test]
fn a_change_of_the_key_brings_nothing_back_that_a_kind_has_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let ring = ring(&[[1; 32]]);
    let gone = async |store: &Store| {
        let watch = store.watch(&secrets(), Revision(3)).await.map(drop);
        assert_eq!(watch, Err(WatchError::Compacted { oldest: Revision(4) }));
        assert_eq!(
            store.list(ListRange { at: Some(Revision(4)), ..ListRange::all(&secrets()) }, 9).await.unwrap().items.len(),
            1
        );
        assert_eq!(store.watch(&hosts(), Revision(3)).await.unwrap().next().await.unwrap().revision, Revision(5));
    };
    let store = open(&path, &ring).unwrap();
    block_on(async {
        a_life(&store).await;
        assert_eq!(store.compact_kind(&secrets(), Revision(5)).await.unwrap(), Revision(4));
        ring.seal_with(&[2; 32]).unwrap();
        assert_eq!(resealed(&store).await.values, 1, "what stands");
        gone(&store).await;
    });
    drop(store);
    block_on(gone(&open(&path, &ring).unwrap()));
    // A backup of it is another such database.
    let copy = folder.path().join("copy.db");
    open(&path, &ring).unwrap().snapshot(&copy).unwrap();
    block_on(gone(&open(&copy, &ring).unwrap()));
}

/// Which each VACUUM counts up.
fn schema_version(path: &Path) -> i64 {
    Connection::open(path).unwrap().pragma_query_value(None, "schema_version", |row| row.get(0)).unwrap()
}

/// The first restart of each appliance wrote its whole database a second time, and did not start without room for that.
#[test]
fn a_database_whose_values_were_always_sealed_is_never_written_again_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    block_on(a_life(&open(&path, &ring(&[[1; 32]])).unwrap()));
    let written = schema_version(&path);
    for _ in 0..2 {
        let store = open(&path, &ring(&[[1; 32]])).unwrap();
        block_on(async {
            assert_eq!(resealed(&store).await, Resealed::default());
            is_as_it_was(&store).await;
        });
    }
    assert_eq!(schema_version(&path), written);
    assert!(!holds(folder.path(), CANARY.as_bytes()));
}

/// A process died after the new key was written down, or in the middle of the scrubbing.
#[test]
fn a_change_of_the_key_that_was_cut_short_is_finished_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let old = id_bytes(&ring(&[[1; 32]]));
    block_on(a_life(&open(&path, &ring(&[[1; 32]])).unwrap()));
    let store = open(&path, &ring(&[[2; 32], [1; 32]])).unwrap();
    block_on(async {
        is_as_it_was(&store).await;
        assert_eq!(resealed(&store).await.values, 4);
        is_as_it_was(&store).await;
    });
    drop(store);
    assert!(!holds(folder.path(), &old));

    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE junk(x)").unwrap();
    connection.execute("INSERT INTO junk VALUES (?1)", [[&old[..], &[0; 9000]].concat()]).unwrap();
    connection.execute_batch("DROP TABLE junk; UPDATE meta SET value = 1 WHERE key = 'scrub'").unwrap();
    drop(connection);
    let written = schema_version(&path);
    let store = open(&path, &ring(&[[2; 32]])).unwrap();
    block_on(is_as_it_was(&store));
    assert_eq!(schema_version(&path), written, "a start does not write the whole database again");
    assert!(holds(folder.path(), &old), "in a free page");
    block_on(async {
        assert_eq!(resealed(&store).await, Resealed::default());
        is_as_it_was(&store).await;
    });
    drop(store);
    assert!(!holds(folder.path(), &old));
}

/// While it is changed, values are sealed by one key or the other, and both are needed.
#[test]
fn a_change_of_the_key_that_is_under_way_takes_both_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let [old, new] = [[1; 32], [2; 32]];
    block_on(a_life(&open(&path, &ring(&[old])).unwrap()));
    // As its first step leaves it.
    let id = i64::from_be_bytes(id_bytes(&ring(&[new])).try_into().unwrap());
    Connection::open(&path).unwrap().execute("INSERT INTO meta VALUES ('sealing', ?1)", [id]).unwrap();
    for one in [old, new] {
        assert!(matches!(open(&path, &ring(&[one])), Err(StoreOpenError::Key { .. })));
    }
    let store = open(&path, &ring(&[new, old])).unwrap();
    block_on(async {
        assert_eq!(resealed(&store).await.values, 4);
    });
    drop(store);
    block_on(is_as_it_was(&open(&path, &ring(&[new])).unwrap()));
}

/// What a program without sealing left behind, history and free pages included.
#[test]
fn values_in_the_clear_are_sealed_and_scrubbed_after_the_first_start_with_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&path).unwrap();
    block_on(async {
        a_life(&store).await;
        for number in 0..50 {
            let key = key(&format!("n{number}"));
            let made = store.commit(Op::Create { key: key.clone(), value: value("n") }, vec![]).await.unwrap();
            store.commit(Op::Delete { key, expected: made, value: value("n") }, vec![]).await.unwrap();
        }
    });
    drop(store);
    Connection::open(&path).unwrap().execute("DELETE FROM log WHERE name LIKE 'n%'", []).unwrap();
    assert!(holds(folder.path(), CANARY.as_bytes()));
    let store = open(&path, &ring(&[[1; 32]])).unwrap();
    block_on(async {
        is_as_it_was(&store).await;
        assert_eq!(resealed(&store).await.values, 4);
        assert!(!holds(folder.path(), CANARY.as_bytes()), "history or free pages hold it still");
        is_as_it_was(&store).await;
    });
}

/// A database that is made with a key, and one that was sealed, are not gone over again at each start.
#[test]
fn nothing_is_sealed_or_scrubbed_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let size = || std::fs::metadata(&path).unwrap().len();
    block_on(a_life(&open(&path, &ring(&[[1; 32]])).unwrap()));
    for _ in 0..2 {
        let before = size();
        let store = open(&path, &ring(&[[1; 32]])).unwrap();
        // There is no room for a scrub, and none is asked for.
        let asked = std::cell::Cell::new(0);
        block_on(async {
            assert_eq!(store.reseal().await.unwrap(), Resealed::default());
            store.scrub(|| asked.replace(asked.get() + 1)).await.unwrap();
        });
        assert_eq!(asked.get(), 1, "one step finds that nothing is to be done");
        drop(store);
        assert_eq!(size(), before);
    }
}

/// A program seals more kinds than the one before it; then an older one writes in the clear again.
#[test]
fn a_kind_that_is_to_be_sealed_is_looked_for_once_and_again_after_a_program_that_does_not_seal_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let both = || Arc::new(SealingKeys::new(vec![secrets(), hosts()], &[[1; 32]]).unwrap());
    block_on(a_life(&open(&path, &ring(&[[1; 32]])).unwrap()));
    assert!(holds(folder.path(), OPEN.as_bytes()));
    let store = open(&path, &both()).unwrap();
    assert_eq!(block_on(resealed(&store)).values, 1);
    assert_eq!(block_on(resealed(&store)), Resealed::default());
    drop(store);
    assert!(!holds(folder.path(), OPEN.as_bytes()));

    let store = open(&path, &ring(&[[1; 32]])).unwrap();
    let host = ObjectKey::new(&hosts(), "default", "i");
    block_on(store.commit(Op::Create { key: host.clone(), value: OPEN.into() }, vec![])).unwrap();
    drop(store);
    assert!(holds(folder.path(), OPEN.as_bytes()));
    let store = open(&path, &both()).unwrap();
    assert_eq!(block_on(resealed(&store)).values, 1);
    assert_eq!(block_on(store.get(&host)).unwrap().unwrap().value, OPEN);
    drop(store);
    assert!(!holds(folder.path(), OPEN.as_bytes()));
}
