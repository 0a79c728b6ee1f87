//! Every page and every kind of row of a database is damaged, one after the other. What is read then is what was
//! written, or an error; nothing is ever absent that is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use firesteel_store::{
    ChangeKind, CommitError, DamageCause, Durability, GroupResource, ListRange, ObjectKey, Op, Revision, Store,
    StoreOpenError, StoreReadError, WatchError,
};
use rusqlite::Connection;

const KINDS: [&str; 2] = ["hosts", "leases"];

fn kind(name: &str) -> GroupResource {
    GroupResource::new("example.org", name)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// What an event was: its revision, kind, object and value.
type Told = (u64, ChangeKind, String, Bytes);

/// What is in a database.
struct Written {
    folder: tempfile::TempDir,
    objects: BTreeMap<ObjectKey, (Revision, Bytes)>,
    events: BTreeMap<GroupResource, Vec<Told>>,
}

impl Written {
    /// Objects with long values and short ones, some of them changed and deleted, so that pages of all sorts are there.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_with(&folder.path().join("store.db"), Durability::Nothing).unwrap();
        let (mut objects, mut events) = (BTreeMap::new(), BTreeMap::<_, Vec<Told>>::new());
        block_on(async {
            for number in 0..60 {
                for name in KINDS {
                    let key = ObjectKey::new(&kind(name), "default", &format!("{name}-{number:03}"));
                    let value = |round: usize| Bytes::from(format!("{number} {round} {}", "x".repeat(number * 150)));
                    let made = Op::Create { key: key.clone(), value: value(0) };
                    let mut at = store.commit(made, vec![]).await.unwrap();
                    let of_kind = events.entry(kind(name)).or_default();
                    of_kind.push((at.0, ChangeKind::Created, key.name.clone(), value(0)));
                    objects.insert(key.clone(), (at, value(0)));
                    if number % 3 == 1 {
                        let changed = Op::Update { key: key.clone(), expected: at, value: value(1) };
                        at = store.commit(changed, vec![]).await.unwrap();
                        of_kind.push((at.0, ChangeKind::Updated, key.name.clone(), value(1)));
                        objects.insert(key.clone(), (at, value(1)));
                    }
                    if number % 6 == 2 {
                        let gone = Op::Delete { key: key.clone(), expected: at, value: value(2) };
                        at = store.commit(gone, vec![]).await.unwrap();
                        of_kind.push((at.0, ChangeKind::Deleted, key.name.clone(), value(2)));
                        objects.remove(&key);
                    }
                }
            }
        });
        drop(store);
        // Connections that end at the same time may leave it to each other to put the log in its place.
        let database = Connection::open(folder.path().join("store.db")).unwrap();
        database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        drop(database);
        Self { folder, objects, events }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.folder.path().join("store.db")).unwrap()
    }

    /// A database with these bytes; what is read from it is held against what was written. How many errors there were;
    /// none where it is not opened.
    fn judge(&self, bytes: &[u8], what: &str) -> Option<usize> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::write(&path, bytes).unwrap();
        self.judge_file(&path, what)
    }

    fn judge_file(&self, path: &Path, what: &str) -> Option<usize> {
        let store = match Store::open_with(path, Durability::Nothing) {
            Ok(store) => store,
            Err(error) => {
                assert!(error.is_damage(), "{what}: {error}");
                return None;
            }
        };
        Some(block_on(async {
            let mut errors = self.judge_objects(&store, what).await;
            for name in KINDS {
                errors += self.judge_lists(&store, &kind(name), what).await;
                errors += self.judge_history(&store, &kind(name), what).await;
            }
            errors
        }))
    }

    async fn judge_objects(&self, store: &Store, what: &str) -> usize {
        let mut errors = 0;
        for (key, (at, value)) in &self.objects {
            match store.get(key).await {
                Ok(Some(object)) => assert_eq!((&object.revision, &object.value), (at, value), "{what}: {key}"),
                Ok(None) => panic!("{what}: {key} seems to be absent"),
                Err(_) => errors += 1,
            }
        }
        errors
    }

    async fn judge_lists(&self, store: &Store, kind: &GroupResource, what: &str) -> usize {
        let wanted: BTreeMap<&ObjectKey, _> = self.objects.iter().filter(|(key, _)| key.kind == *kind).collect();
        let (mut after, mut seen, mut damaged) = (None, BTreeMap::new(), 0);
        loop {
            let range = ListRange { after: after.as_ref(), ..ListRange::all(kind) };
            let Ok(read) = store.page_with_damaged(range, 7).await else { return 1 };
            for object in read.page.items {
                seen.insert(object.key, Some((object.revision, object.value)));
            }
            damaged += read.damaged.len();
            seen.extend(read.damaged.into_iter().map(|damage| (damage.key, None)));
            if read.page.remaining == 0 {
                break;
            }
            after = read.last;
        }
        assert_eq!(seen.keys().collect::<Vec<_>>(), wanted.keys().copied().collect::<Vec<_>>(), "{what}: {kind}");
        for (key, object) in &seen {
            assert!(object.as_ref().is_none_or(|object| object == wanted[key]), "{what}: {key}");
        }
        damaged
    }

    async fn judge_history(&self, store: &Store, kind: &GroupResource, what: &str) -> usize {
        let mut watch = match store.watch(kind, Revision(0)).await {
            Ok(watch) => watch,
            Err(WatchError::Closed | WatchError::Lagged) => panic!("{what}: {kind} cannot be followed"),
            Err(_) => return 1,
        };
        for wanted in &self.events[kind] {
            let told = tokio::time::timeout(std::time::Duration::from_secs(20), watch.next()).await;
            match told.unwrap_or_else(|_| panic!("{what}: {kind} lacks change {}", wanted.0)) {
                Ok(event) => {
                    let told = (event.revision.0, event.kind, event.key.name.clone(), event.value.clone());
                    assert_eq!(told, *wanted, "{what}: {kind}");
                }
                Err(_) => return 1,
            }
        }
        0
    }
}

/// Pseudo-random bytes, the same each time.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(next).collect()
}

#[test]
fn no_damaged_page_makes_a_false_answer() {
    let written = Written::new();
    let bytes = written.bytes();
    assert_eq!(written.judge(&bytes, "undamaged"), Some(0));
    let page_bytes = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let pages = bytes.len() / page_bytes;
    assert!(pages > 60, "{pages} pages are too few");
    let (mut unopened, mut with_errors) = (0, 0);
    for page in 0..pages {
        let at = page * page_bytes..(page + 1) * page_bytes;
        let other = (page + pages / 2) % pages * page_bytes;
        let mut of_another = bytes.clone();
        of_another.copy_within(other..other + page_bytes, at.start);
        let mut zeroed = bytes.clone();
        zeroed[at.clone()].fill(0);
        let mut noisy = bytes.clone();
        noisy[at.clone()].copy_from_slice(&noise(page as u64 + 1, page_bytes));
        let mut bits: Vec<(String, Vec<u8>)> = Vec::new();
        for round in 0..4_u64 {
            let [low, high, bit, ..] = noise(page as u64 * 4 + round + 77, 3)[..] else { unreachable!("three bytes") };
            let place = at.start + usize::from(u16::from_le_bytes([low, high])) % page_bytes;
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (bit % 8);
            bits.push((format!("page {page}, byte {place}, bit {}", bit % 8), flipped));
        }
        let whole = [("of another", of_another), ("of zeroes", zeroed), ("of noise", noisy)];
        let whole = whole.into_iter().map(|(how, bytes)| (format!("page {page} {how}"), bytes));
        for (what, damaged) in whole.chain(bits) {
            match written.judge(&damaged, &what) {
                None => unopened += 1,
                Some(errors) => with_errors += usize::from(errors > 0),
            }
        }
    }
    assert!(unopened > 2 && with_errors > pages, "{unopened} unopened, {with_errors} with errors: nothing was noticed");
}

#[test]
fn no_damaged_row_makes_a_false_answer() {
    let written = Written::new();
    let bytes = written.bytes();
    let path = written.folder.path().join("damaged.db");
    let mut noticed = 0;
    for statement in [
        "UPDATE log SET value = CAST(x'00' || substr(value, 2) AS BLOB) WHERE name = 'hosts-004'",
        "UPDATE log SET value = substr(value, 1, length(value) - 1) WHERE name = 'hosts-059'",
        "UPDATE log SET value = 'text' WHERE name = 'hosts-003'",
        "UPDATE log SET name = 'hosts-999' WHERE name = 'hosts-004'",
        "UPDATE log SET name = x'ff' WHERE name = 'hosts-004'",
        "UPDATE log SET resource = 'leases' WHERE name = 'hosts-005'",
        "UPDATE log SET op = 3 WHERE name = 'hosts-004' AND op = 2",
        "UPDATE log SET op = 1 WHERE name = 'hosts-002' AND op = 3",
        "UPDATE log SET op = 9 WHERE name = 'hosts-004' AND op = 2",
        "UPDATE log SET previous = 1 WHERE name = 'hosts-004' AND op = 2",
        "UPDATE log SET sealed = 1 WHERE name = 'hosts-004'",
        "UPDATE log SET revision = 100000 WHERE name = 'hosts-004' AND op = 2",
        "DROP TRIGGER log_gone; DELETE FROM log WHERE name = 'hosts-004' AND op = 2",
        "UPDATE object SET name = 'hosts-999' WHERE name = 'hosts-005'",
        "UPDATE object SET namespace = 'other' WHERE name = 'hosts-005'",
        "UPDATE object SET resource = 'others' WHERE name = 'hosts-005'",
        "UPDATE object SET revision = revision - 2 WHERE name = 'hosts-004'",
        "UPDATE object SET revision = 100000 WHERE name = 'hosts-004'",
        "DELETE FROM object WHERE name = 'hosts-005'",
        "DELETE FROM object",
        "INSERT INTO object SELECT grp, resource, namespace, 'hosts-002', 3 FROM object LIMIT 1",
        "UPDATE sum SET sum = sum + 1 WHERE revision = 3",
        "DELETE FROM sum WHERE revision = 3",
        "UPDATE sum SET kind = 2 WHERE revision = 1",
        "UPDATE kind SET objects = objects + 1 WHERE resource = 'hosts'",
        "UPDATE kind SET sum = sum - 1 WHERE resource = 'hosts'",
        "UPDATE kind SET resource = 'others' WHERE resource = 'hosts'",
        "DELETE FROM kind WHERE resource = 'hosts'",
        "DROP TRIGGER meta_set; UPDATE meta SET value = value - 9 WHERE key = 'revision'",
        "DROP TRIGGER meta_set; UPDATE meta SET value = 50 WHERE key = 'compacted'",
        "DROP TRIGGER meta_set; UPDATE meta SET value = 1000 WHERE key = 'unsummed'",
        "DROP TRIGGER meta_set; UPDATE meta SET value = 13 WHERE key = 'schema'",
        "DROP TRIGGER meta_set; UPDATE meta SET value = 4 WHERE key = 'schema'",
        "PRAGMA writable_schema = ON; DELETE FROM sqlite_master",
        "DROP TRIGGER meta_gone; DELETE FROM meta WHERE key = 'compacted'",
        "UPDATE epoch SET timeline = timeline + 1",
        "DELETE FROM epoch",
        "UPDATE meta_copy SET value = 4 WHERE key = 'compacted'",
        "UPDATE meta SET value = value - 9 WHERE key = 'revision'",
    ] {
        for suffix in ["", "-wal", "-shm", ".lock"] {
            drop(fs::remove_file(written.folder.path().join(format!("damaged.db{suffix}"))));
        }
        fs::write(&path, &bytes).unwrap();
        Connection::open(&path).unwrap().execute_batch(statement).unwrap();
        // What can be made good is no error.
        noticed += usize::from(written.judge_file(&path, statement) != Some(0));
    }
    assert!(noticed > 20, "{noticed} were noticed");
}

/// What two of three say is made good; where all three differ nothing is answered and nothing changed.
#[test]
fn a_list_that_lost_a_row_is_made_anew_or_answers_nothing() {
    let written = Written::new();
    let path = written.folder.path().join("store.db");
    let alter = |statement: &str| Connection::open(&path).unwrap().execute_batch(statement).unwrap();
    alter("DELETE FROM object WHERE name IN ('hosts-005', 'hosts-006')");
    assert_eq!(written.judge_file(&path, "a list that lost rows"), Some(0));
    alter("UPDATE kind SET objects = 7 WHERE resource = 'hosts'");
    assert_eq!(written.judge_file(&path, "a count that is wrong"), Some(0));
    let listed: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM object WHERE resource = 'hosts'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        usize::try_from(listed).unwrap(),
        written.objects.keys().filter(|key| key.kind == kind("hosts")).count()
    );

    alter("UPDATE kind SET objects = 7 WHERE resource = 'hosts'; DELETE FROM object WHERE name = 'hosts-005'");
    let store = Store::open(&path).unwrap();
    block_on(async {
        let hosts = kind("hosts");
        for name in ["hosts-005", "hosts-006", "none"] {
            let read = store.get(&ObjectKey::new(&hosts, "default", name)).await;
            assert!(matches!(read, Err(StoreReadError::Broken { .. })), "{name}: {read:?}");
        }
        assert!(matches!(store.page(ListRange::all(&hosts), 9).await, Err(StoreReadError::Broken { .. })));
        assert!(matches!(store.count(ListRange::all(&hosts)).await, Err(StoreReadError::Broken { .. })));
        let made = Op::Create { key: ObjectKey::new(&hosts, "default", "hosts-005"), value: "x".into() };
        assert!(matches!(store.commit(made, vec![]).await, Err(CommitError::Damaged(_))), "it may be there");
        let lease = Op::Create { key: ObjectKey::new(&kind("leases"), "default", "l"), value: "x".into() };
        store.commit(lease, vec![]).await.unwrap();
        assert!(store.damage().casts_doubt(|_| false).is_some_and(|why| why.contains("hosts.example.org")));
    });
}

#[test]
fn what_is_no_database_is_not_opened_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fs::write(&path, "x".repeat(8192)).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(error.is_damage() && matches!(error, StoreOpenError::Database { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), "x".repeat(8192).as_bytes());
}

/// The pass finds damage in what is never read.
#[test]
fn the_pass_over_all_changes_counts_what_is_damaged() {
    let written = Written::new();
    let path = written.folder.path().join("store.db");
    let statement = "UPDATE log SET value = substr(value, 2) WHERE name IN ('hosts-004', 'leases-010') AND op = 1";
    Connection::open(&path).unwrap().execute_batch(statement).unwrap();
    let store = Store::open(&path).unwrap();
    block_on(async {
        let (mut at, mut changes, mut damaged) = (Revision(0), 0, 0);
        loop {
            let checked = store.check_changes(at).await.unwrap();
            (at, changes, damaged) = (checked.through, changes + checked.changes, damaged + checked.damaged);
            if checked.is_over {
                break;
            }
        }
        let told: usize = written.events.values().map(Vec::len).sum();
        assert_eq!((changes, damaged), (told, 2), "also of what was replaced since");
        assert!(store.damage().is_empty(), "no object stands there");
        assert_eq!(store.kinds().await.unwrap(), [kind("hosts"), kind("leases")]);
    });
}

/// What a change replaced goes when it is compacted: only of its own object, whatever number it bears.
#[test]
fn compaction_takes_no_value_by_a_damaged_number() {
    let written = Written::new();
    let path = written.folder.path().join("store.db");
    let statement = "
        UPDATE log SET previous = (SELECT revision FROM object WHERE name = 'hosts-000')
        WHERE name = 'hosts-004' AND op = 2;
        UPDATE log SET op = 3 WHERE name = 'hosts-005'";
    Connection::open(&path).unwrap().execute_batch(statement).unwrap();
    let store = Store::open(&path).unwrap();
    block_on(async {
        assert_eq!(store.compact(store.current()).await.unwrap(), store.current());
        let of = |name: &str| ObjectKey::new(&kind("hosts"), "default", name);
        let (revision, value) = &written.objects[&of("hosts-000")];
        let read = store.get(&of("hosts-000")).await.unwrap().unwrap();
        assert_eq!((read.revision, &read.value), (*revision, value), "it was not replaced");
        for name in ["hosts-004", "hosts-005"] {
            let Err(StoreReadError::Damaged(damages)) = store.get(&of(name)).await else { panic!("{name} is damaged") };
            assert_eq!(damages[0].cause, DamageCause::Checksum, "{name} is kept for who may save it");
        }
    });
}
