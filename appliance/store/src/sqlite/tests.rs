//! Databases of other versions of this program, made here by their own SQL.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use bytes::Bytes;
use rusqlite::Connection;

use super::SCHEMA;
use crate::{
    ChangeKind, GroupResource, ListRange, ObjectKey, Op, RestoreContext, RestoreError, RestoredStore, Revision, Store,
    StoreEvent, StoreOpenError, StoreReadError, restore,
};

/// Tables and rows as a program with this schema left them: revision 3 made "kept", 4 changed it, 5
/// made "gone" and 6 deleted it; what was before 3 is compacted, "old" of revision 2 stands since.
fn database_of(schema: i64) -> String {
    match schema {
        1 => "
            CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
            INSERT INTO meta VALUES ('schema', 1), ('revision', 6), ('compacted', 2);
            CREATE TABLE log(
                revision INTEGER PRIMARY KEY,
                grp TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
                op INTEGER NOT NULL,
                previous INTEGER NOT NULL,
                value BLOB NOT NULL);
            CREATE INDEX log_kind ON log(grp, resource, revision);
            CREATE TABLE object(
                grp TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
                revision INTEGER NOT NULL,
                PRIMARY KEY (grp, resource, namespace, name)) WITHOUT ROWID;
            INSERT INTO log VALUES
                (2, 'example.org', 'hosts', 'default', 'old', 1, 0, CAST('2' AS BLOB)),
                (3, 'example.org', 'hosts', 'default', 'kept', 1, 0, CAST('3' AS BLOB)),
                (4, 'example.org', 'hosts', 'default', 'kept', 2, 3, CAST('4' AS BLOB)),
                (5, 'example.org', 'hosts', 'default', 'gone', 1, 0, CAST('5' AS BLOB)),
                (6, 'example.org', 'hosts', 'default', 'gone', 3, 5, CAST('6' AS BLOB));
            INSERT INTO object VALUES
                ('example.org', 'hosts', 'default', 'old', 2),
                ('example.org', 'hosts', 'default', 'kept', 4);
            "
        .to_owned(),
        2 => {
            // What is new in it: a column that says which values are sealed.
            let first = database_of(1)
                .replace("value BLOB NOT NULL)", "value BLOB NOT NULL, sealed INTEGER NOT NULL DEFAULT 0)");
            let first =
                first.replace("('schema', 1)", "('schema', 2), ('scrub', 0)").replace("AS BLOB))", "AS BLOB), 0)");
            format!("{first} CREATE INDEX log_sealed ON log(revision) WHERE sealed <> 0;")
        }
        3 => {
            // Who the store is, and its restores.
            let second = database_of(2).replace("('schema', 2)", "('schema', 3), ('store', 77)");
            format!(
                "{second}
                CREATE TABLE epoch(
                    number INTEGER PRIMARY KEY,
                    timeline INTEGER NOT NULL,
                    continues INTEGER NOT NULL,
                    began INTEGER NOT NULL,
                    began_ms INTEGER NOT NULL);
                INSERT INTO epoch VALUES (1, 4294967295, 0, 0, 0);"
            )
        }
        4 => {
            // A kind may have less history than the others.
            database_of(3).replace("('schema', 3)", "('schema', 4), ('compacted example.org/leases', 5)")
        }
        // A kind may have all its values sealed; this database was never opened with a key.
        5 => database_of(4).replace("('schema', 4)", "('schema', 5)"),
        6 => {
            // Checksums. This one was made by the program before and brought here: nothing is summed yet.
            let fifth = database_of(5).replace("('schema', 5)", "('schema', 6), ('unsummed', 6)");
            format!("{fifth}{OF_SCHEMA_6}")
        }
        other => panic!("schema {other} needs a fixture here"),
    }
}

/// Tables and triggers of it, as they were first written.
const OF_SCHEMA_6: &str = "
    CREATE TABLE kind(
        id INTEGER PRIMARY KEY,
        grp TEXT NOT NULL, resource TEXT NOT NULL,
        objects INTEGER NOT NULL,
        sum INTEGER NOT NULL,
        at_namespace TEXT, at_name TEXT);
    INSERT INTO kind VALUES (1, 'example.org', 'hosts', 0, 0, '', '');
    CREATE TABLE sum(
        revision INTEGER PRIMARY KEY,
        kind INTEGER NOT NULL, head INTEGER NOT NULL, sum INTEGER NOT NULL);
    CREATE TRIGGER log_gone AFTER DELETE ON log BEGIN
        DELETE FROM sum WHERE revision = OLD.revision;
    END;
    CREATE TABLE meta_copy(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO meta_copy SELECT key, ~value FROM meta;
    CREATE TRIGGER meta_made AFTER INSERT ON meta BEGIN
        INSERT INTO meta_copy VALUES (NEW.key, ~NEW.value) ON CONFLICT DO UPDATE SET value = excluded.value;
    END;
    CREATE TRIGGER meta_set AFTER UPDATE ON meta BEGIN
        UPDATE meta_copy SET value = ~NEW.value WHERE key = NEW.key;
    END;
    CREATE TRIGGER meta_gone AFTER DELETE ON meta BEGIN
        DELETE FROM meta_copy WHERE key = OLD.key;
    END;
    CREATE TABLE epoch_copy(
        number INTEGER PRIMARY KEY,
        timeline INTEGER NOT NULL, continues INTEGER NOT NULL, began INTEGER NOT NULL, began_ms INTEGER NOT NULL);
    INSERT INTO epoch_copy SELECT number, ~timeline, ~continues, ~began, ~began_ms FROM epoch;
    CREATE TRIGGER epoch_made AFTER INSERT ON epoch BEGIN
        INSERT INTO epoch_copy VALUES (NEW.number, ~NEW.timeline, ~NEW.continues, ~NEW.began, ~NEW.began_ms);
    END;";

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test);
}

fn hosts() -> GroupResource {
    GroupResource::new("example.org", "hosts")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(&hosts(), "default", name)
}

#[test]
fn a_database_of_every_earlier_schema_is_read_and_goes_on() {
    for schema in 1..=SCHEMA {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        Connection::open(&path).unwrap().execute_batch(&database_of(schema)).unwrap();
        // Twice: the second time it is one of today.
        for revision in [7, 8] {
            let store = Store::open(&path).unwrap();
            run(async move {
                let (store, hosts) = (&store, &hosts());
                let names = async |at| {
                    let page =
                        store.list(ListRange { at: Some(Revision(at)), ..ListRange::all(hosts) }, 9).await.unwrap();
                    page.items.into_iter().map(|o| (o.key.name, o.revision.0, o.value)).collect::<Vec<_>>()
                };
                let object = |name: &str, at: u64, value: &'static str| {
                    (name.to_owned(), at, Bytes::from_static(value.as_bytes()))
                };
                assert_eq!(names(6).await, [object("kept", 4, "4"), object("old", 2, "2")], "schema {schema}");
                let five = [object("gone", 5, "5"), object("kept", 4, "4"), object("old", 2, "2")];
                assert_eq!(names(5).await, five, "schema {schema}");
                let forgotten = store.list(ListRange { at: Some(Revision(1)), ..ListRange::all(hosts) }, 9).await;
                assert!(matches!(forgotten, Err(StoreReadError::Compacted { oldest: Revision(2) })));
                let mut watch = store.watch(hosts, Revision(3)).await.unwrap();
                let event = |revision, kind, name, value: &'static str, previous: Option<&'static str>| StoreEvent {
                    revision: Revision(revision),
                    kind,
                    key: key(name),
                    value: value.into(),
                    previous: previous.map(Into::into),
                };
                for wanted in [
                    event(4, ChangeKind::Updated, "kept", "4", Some("3")),
                    event(5, ChangeKind::Created, "gone", "5", None),
                    event(6, ChangeKind::Deleted, "gone", "6", Some("5")),
                ] {
                    assert_eq!(**watch.next().await.unwrap(), wanted, "schema {schema}");
                }
                let leases = GroupResource::new("example.org", "leases");
                let less = if schema < 4 { 2 } else { 5 };
                let forgotten = store.watch(&leases, Revision(less - 1)).await;
                let oldest = Revision(less);
                assert!(matches!(forgotten, Err(crate::WatchError::Compacted { oldest: said }) if said == oldest));
                store.watch(&leases, oldest).await.unwrap();
                let made = Op::Create { key: key(&format!("new{revision}")), value: "x".into() };
                assert_eq!(store.commit(made, vec![]).await.unwrap(), Revision(revision), "schema {schema}");
            });
        }
    }
}

/// In steps, between which it is read and written; afterwards damage is noticed.
#[test]
fn what_an_older_program_left_is_summed_and_counted_in_steps() {
    for schema in 1..SCHEMA {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch(&database_of(schema)).unwrap();
        database.execute_batch("BEGIN").unwrap();
        for number in 0..2500 {
            let at = 100 + number;
            let row = format!("('example.org', 'hosts', 'default', 'n{number:04}', {at})");
            let value = format!("({at}, 'example.org', 'hosts', 'default', 'n{number:04}', 1, 0, CAST('v' AS BLOB))");
            let columns = "(revision, grp, resource, namespace, name, op, previous, value)";
            database
                .execute_batch(&format!("INSERT INTO object VALUES {row}; INSERT INTO log{columns} VALUES {value}"))
                .unwrap();
        }
        database.execute_batch("UPDATE meta SET value = 3000 WHERE key = 'revision'; COMMIT").unwrap();
        drop(database);
        let store = Store::open(&path).unwrap();
        run(async {
            let mut steps = 0;
            while store.add_missing_checksums().await.unwrap() {
                steps += 1;
                if steps == 2 {
                    let made = Op::Create { key: key("between"), value: "x".into() };
                    store.commit(made, vec![]).await.unwrap();
                }
                assert_eq!(store.count(ListRange::all(&hosts())).await.unwrap(), 2502 + u64::from(steps >= 2));
            }
            assert!(steps > 2505 / 64 + 2, "{steps} steps are no small ones");
            assert_eq!(store.list(ListRange::all(&hosts()), 9).await.unwrap().remaining, 2503 - 9);
            let checked = store.check_changes(Revision(0)).await.unwrap();
            assert_eq!((checked.damaged, checked.is_over), (0, false));
        });
        drop(store);
        let database = Connection::open(&path).unwrap();
        let sums = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(sums("SELECT count(*) FROM log LEFT JOIN sum s USING (revision) WHERE s.sum IS NULL"), 0);
        assert_eq!(sums("SELECT objects FROM kind WHERE at_name IS NULL"), 2503);
        database.execute("UPDATE log SET value = CAST('w' AS BLOB) WHERE name = 'n0003'", []).unwrap();
        drop(database);
        let store = Store::open(&path).unwrap();
        assert!(store.damage().is_empty(), "its list is whole");
        run(async {
            assert!(matches!(store.get(&key("n0003")).await, Err(StoreReadError::Damaged(_))), "schema {schema}");
            assert!(!store.add_missing_checksums().await.unwrap());
        });
    }
}

#[test]
fn a_database_of_a_newer_program_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    drop(Store::open(&path).unwrap());
    let set = |schema: i64| {
        let connection = Connection::open(&path).unwrap();
        connection.execute("UPDATE meta SET value = ?1 WHERE key = 'schema'", [schema]).unwrap();
        connection.execute_batch("CREATE TABLE IF NOT EXISTS of_the_future(x)").unwrap();
    };
    set(SCHEMA + 1);
    let error = Store::open(&path).unwrap_err();
    assert!(
        matches!(error, StoreOpenError::Schema { found, known, .. } if (found, known) == (SCHEMA + 1, SCHEMA)),
        "{error}"
    );
    assert!(error.to_string().contains("use a newer program"), "{error}");
    let found: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, SCHEMA + 1);
    set(SCHEMA);
    Store::open(&path).unwrap();
}

const HOW: RestoreContext =
    RestoreContext { timeline: 99, now_ms: 2_000, made_ms: 2_000, replaced: None, forgets_sealed: false };

#[test]
fn a_copy_of_every_earlier_schema_is_restored() {
    for schema in 1..=SCHEMA {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        Connection::open(&path).unwrap().execute_batch(&database_of(schema)).unwrap();
        let began = Revision(1_000_006);
        let restored = restore(&path, &HOW).unwrap();
        assert_eq!(
            restored,
            RestoredStore { epoch: 2, timeline: 99, from: Revision(6), began, forgotten: BTreeMap::new() },
            "schema {schema}"
        );
        let store = Store::open(&path).unwrap();
        assert_eq!(store.current(), began);
        let lineage = store.lineage().clone();
        assert_eq!(lineage.epochs[1].continues, Revision(6));
        assert!(lineage.store > 0 && lineage.epochs[0].timeline > 0, "schema {schema}: {lineage:?}");
        run(async move {
            let page = store.list(ListRange::all(&hosts()), 9).await.unwrap();
            let names: Vec<_> = page.items.iter().map(|o| (o.key.name.as_str(), o.revision.0)).collect();
            assert_eq!(names, [("kept", 4), ("old", 2)], "an object stays where it was");
            assert_eq!(page.revision, began);
            // What a client saw before, what it saw of the lost history, and what no client saw.
            let leases = GroupResource::new("example.org", "leases");
            let watch = store.watch(&leases, Revision(6)).await;
            assert!(matches!(watch, Err(crate::WatchError::Compacted { oldest }) if oldest == began));
            store.watch(&leases, began).await.unwrap();
            for seen in [3, 6, 7, 900_000] {
                let watch = store.watch(&hosts(), Revision(seen)).await;
                assert!(matches!(watch, Err(crate::WatchError::Compacted { oldest }) if oldest == began), "{seen}");
                let list = store.list(ListRange { at: Some(Revision(seen)), ..ListRange::all(&hosts()) }, 9).await;
                assert!(matches!(list, Err(StoreReadError::Compacted { .. })), "{seen}");
            }
            let op = Op::Update { key: key("kept"), expected: Revision(4), value: "x".into() };
            assert_eq!(store.commit(op, vec![]).await.unwrap(), Revision(began.0 + 1));
        });
        let rows: i64 =
            Connection::open(&path).unwrap().query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 3, "the history before is gone");
        let sql = "SELECT count(*) FROM meta WHERE key LIKE 'compacted%'";
        let rows: i64 = Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1, "all kinds have a history from here on");
    }
}

#[test]
fn what_is_no_copy_of_a_store_is_not_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    std::fs::write(&path, "x".repeat(8192)).unwrap();
    assert!(matches!(restore(&path, &HOW), Err(RestoreError::NotOurs)));
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE other(x)").unwrap();
    assert!(matches!(restore(&path, &HOW), Err(RestoreError::NotOurs)));
    for (damage, words) in [
        ("UPDATE meta SET value = 9 WHERE key = 'schema'", "newer program"),
        ("DELETE FROM log WHERE revision = 4", "have no content"),
        ("UPDATE meta SET value = 5 WHERE key = 'revision'", "newer than the store"),
    ] {
        std::fs::remove_file(&path).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&database_of(SCHEMA)).unwrap();
        connection.execute_batch(damage).unwrap();
        drop(connection);
        let error = restore(&path, &HOW).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
