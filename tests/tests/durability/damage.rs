//! A database that is damaged while nobody serves from it: a random page, or a random row. The real appliance starts
//! on it. It never fails to start, never gives a false answer, and never takes what is damaged for deleted: each object
//! that was there is answered as it was, or with 500 and what is damaged.
//!
//! Seeds are 0, 1, 2, … as many as `FIRESTEEL_DAMAGE_SEEDS` says. The first ones go through all tables.

#![allow(clippy::print_stdout, reason = "a failure is of the damage that was named last")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use firesteel_tests::appliance::Appliance;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection as Database, params};
use serde_json::{Value, json};

use crate::administrator::{Administrator, named, settle};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const SEEDS: &str = "FIRESTEEL_DAMAGE_SEEDS";
/// At the gate: each table and each kind of damage comes once.
const SEEDS_DEFAULT: u64 = 8;
const MAPS: &str = "/api/v1/namespaces/lab/configmaps";
const SECRETS: &str = "/api/v1/namespaces/lab/secrets";
const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/lab/baremetalhosts";
const GRANTS: &str = "/apis/firesteel.dev/v1alpha1/accessgrants";
const ACCOUNTS: &str = "/api/v1/namespaces/lab/serviceaccounts";
const COLLECTIONS: [&str; 5] = [MAPS, SECRETS, HOSTS, GRANTS, ACCOUNTS];
/// So long the appliance has to collect what it takes for garbage. A slow machine makes the test weaker, and not red.
const COLLECTED_WITHIN: Duration = Duration::from_millis(1500);

/// What was acknowledged, by path: the parts of it that nobody but a client changes.
type Acknowledged = BTreeMap<String, Value>;

fn kept_of(object: &Value) -> Value {
    json!([object["metadata"]["uid"], object["metadata"]["name"], object["spec"], object["data"]])
}

/// Fills an appliance with objects of several kinds and sizes, some of which belong to others.
fn fill(owner: &mut Administrator) -> Acknowledged {
    owner.make("/api/v1/namespaces", &named("lab"));
    let mut all = Acknowledged::new();
    let mut keep = |collection: &str, made: &Value| {
        let name = made["metadata"]["name"].as_str().unwrap();
        all.insert(format!("{collection}/{name}"), kept_of(made));
    };
    for number in 0..24 {
        let mut map = named(&format!("owner-{number:02}"));
        map["data"] = json!({ "much": "x".repeat(number * 150) });
        let made = owner.make(MAPS, &map);
        let mut dependent = named(&format!("dependent-{number:02}"));
        dependent["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": map["metadata"]["name"], "uid": made["metadata"]["uid"],
        }]);
        keep(MAPS, &owner.make(MAPS, &dependent));
        let path = format!("{MAPS}/owner-{number:02}");
        let mut changed = made.clone();
        changed["data"]["more"] = json!("changed");
        if number % 2 == 0 {
            let (code, changed) = owner.ask("PUT", &path, &changed);
            assert_eq!(code, 200, "{changed}");
            keep(MAPS, &changed);
        } else {
            keep(MAPS, &made);
        }
        let mut secret = named(&format!("secret-{number:02}"));
        secret["stringData"] = json!({ "password": "y".repeat(number * 20) });
        keep(SECRETS, &owner.make(SECRETS, &secret));
    }
    for number in 0..6 {
        let mut host = named(&format!("host-{number}"));
        host["apiVersion"] = json!("metal3.io/v1alpha1");
        host["kind"] = json!("BareMetalHost");
        host["spec"] = json!({ "online": false, "bootMACAddress": format!("52:54:00:77:02:0{number}") });
        keep(HOSTS, &owner.make(HOSTS, &host));
        keep(ACCOUNTS, &owner.make(ACCOUNTS, &named(&format!("account-{number}"))));
        let mut grant = named(&format!("grant-{number}"));
        grant["apiVersion"] = json!("firesteel.dev/v1alpha1");
        grant["kind"] = json!("AccessGrant");
        let subject = json!({ "kind": "User", "name": format!("user-{number}") });
        grant["spec"] = json!({ "subject": subject, "role": "viewer" });
        keep(GRANTS, &owner.make(GRANTS, &grant));
    }
    // Deleted: what comes back is a false answer, too.
    owner.make(MAPS, &named("deleted"));
    assert_eq!(owner.ask("DELETE", &format!("{MAPS}/deleted"), &Value::Null).0, 200);
    all
}

/// A data folder, and what was acknowledged from it.
struct SoundData {
    folder: tempfile::TempDir,
    acknowledged: Acknowledged,
}

impl SoundData {
    fn new() -> Self {
        let mut appliance = Appliance::start(PROGRAM);
        let acknowledged = fill(&mut Administrator::of(&appliance));
        let folder = tempfile::tempdir().unwrap();
        let data = appliance.data();
        appliance.kill_and_start_again_after(|| {
            // All of it is in the file that is damaged then, and none in its log.
            settle(&data.join("resources.db"));
            copy(&data, &folder.path().join("data"));
        });
        Self { folder, acknowledged }
    }

    /// Starts an appliance on a damaged copy and judges what it answers; how often it said that something is damaged.
    fn judge(&self, what: &str, damage: impl FnOnce(&Path) -> String) -> usize {
        let folder = tempfile::tempdir().unwrap();
        copy(&self.folder.path().join("data"), &folder.path().join("data"));
        drop(fs::remove_file(folder.path().join("data/admin.kubeconfig")));
        let what = format!("{what}: {}", damage(&folder.path().join("data/resources.db")));
        println!("{what}");
        let appliance = Appliance::start_whole(PROGRAM, "127.0.0.1:0", &["--api-only"], folder);
        let mut owner = Administrator::of(&appliance);
        let mut told = self.judge_answers(&mut owner, &what);
        await_collection(&mut owner);
        told += self.judge_answers(&mut owner, &what);
        assert_eq!(owner.get("/livez").0, 200, "{what}");
        told
    }

    fn judge_answers(&self, owner: &mut Administrator, what: &str) -> usize {
        let mut told = 0;
        for (path, wanted) in &self.acknowledged {
            match owner.get(path) {
                (200, object) => assert_eq!(kept_of(&object), *wanted, "{what}: {path}"),
                (500, status) => told += usize::from(names_damage(&status, what, path)),
                (code, answer) => panic!("{what}: {path} is answered with {code}: {answer}"),
            }
        }
        match owner.get(&format!("{MAPS}/deleted")) {
            (404, _) => {}
            (500, status) => told += usize::from(names_damage(&status, what, "deleted")),
            (code, answer) => panic!("{what}: what was deleted is answered with {code}: {answer}"),
        }
        for collection in COLLECTIONS {
            let (code, list) = owner.get(collection);
            if code == 500 {
                told += usize::from(names_damage(&list, what, collection));
                continue;
            }
            assert_eq!(code, 200, "{what}: {collection}: {list}");
            let items = list["items"].as_array().unwrap();
            for path in self.acknowledged.keys().filter(|path| path.rsplit_once('/').unwrap().0 == collection) {
                let name = path.rsplit('/').next().unwrap();
                let is_listed = items.iter().any(|item| item["metadata"]["name"] == name);
                assert!(is_listed, "{what}: {path} is not in its list");
            }
            assert!(items.iter().all(|item| item["metadata"]["name"] != "deleted"), "{what}: it is back");
        }
        told
    }
}

/// A 500 says what is damaged.
fn names_damage(status: &Value, what: &str, path: &str) -> bool {
    let message = status["message"].as_str().unwrap_or_default();
    assert_eq!(status["reason"], "StorageReadError", "{what}: {path}: {status}");
    assert!(message.contains("damage") || message.contains("database"), "{what}: {path}: {message}");
    true
}

/// Something that is garbage is collected, and with it whatever else is taken for garbage; not where collection has
/// stopped because of the damage.
fn await_collection(owner: &mut Administrator) {
    let space = named("tidy");
    let mut garbage = named("garbage");
    garbage["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone" }]);
    let collection = "/api/v1/namespaces/tidy/configmaps";
    owner.ask("POST", "/api/v1/namespaces", &space);
    owner.ask("POST", collection, &garbage);
    let ends_at = Instant::now() + COLLECTED_WITHIN;
    while Instant::now() < ends_at && owner.get(&format!("{collection}/garbage")).0 == 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn seeds() -> u64 {
    std::env::var(SEEDS).map_or(SEEDS_DEFAULT, |seeds| seeds.parse().unwrap())
}

/// Pseudo-random numbers, the same for a seed each time.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).unwrap()
    }
}

/// Damages a page of a table or an index; the first seeds go through all of them.
fn damage_page(path: &Path, seed: u64) -> String {
    let mut random = Random::new(seed);
    let database = Database::open(path).unwrap();
    let tables = ["object", "log", "sum", "log_kind", "log", "kind", "meta", "sqlite_schema"];
    let table = tables[usize::try_from(seed).unwrap() % tables.len()];
    let numbers = |sql: &str| -> Vec<usize> {
        let mut found = database.prepare(sql).unwrap();
        let numbers = found.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        numbers.map(|number| usize::try_from(number.unwrap()).unwrap()).collect()
    };
    let pages = numbers(&format!("SELECT pageno FROM dbstat WHERE name = '{table}' ORDER BY pageno"));
    let page_bytes = numbers("PRAGMA page_size")[0];
    drop(database);
    let page = pages[random.below(pages.len())] - 1;
    let mut bytes = fs::read(path).unwrap();
    let at = page * page_bytes..(page + 1) * page_bytes;
    let how = match random.below(5) {
        0 => {
            bytes[at].fill(0);
            "zeroes".to_owned()
        }
        1 => {
            bytes[at].fill_with(|| random.number().to_le_bytes()[3]);
            "noise".to_owned()
        }
        2 => {
            let other = random.below(bytes.len() / page_bytes) * page_bytes;
            bytes.copy_within(other..other + page_bytes, at.start);
            "another page".to_owned()
        }
        _ => {
            let (place, bit) = (at.start + random.below(page_bytes), random.below(8));
            bytes[place] ^= 1 << bit;
            format!("bit {bit} of byte {}", place - at.start)
        }
    };
    fs::write(path, bytes).unwrap();
    format!("page {} ({table}) has {how}", page + 1)
}

/// Alters one cell of one row; the first seeds go through all columns that hold something.
fn damage_row(path: &Path, seed: u64) -> String {
    const CELLS: [(&str, &str); 16] = [
        ("log", "value"),
        ("object", "name"),
        ("log", "name"),
        ("object", "revision"),
        ("kind", "objects"),
        ("sum", "sum"),
        ("meta_copy", "value"),
        ("log", "op"),
        ("log", "previous"),
        ("log", "sealed"),
        ("log", "resource"),
        ("object", "namespace"),
        ("object", "resource"),
        ("sum", "head"),
        ("sum", "kind"),
        ("kind", "sum"),
    ];
    let mut random = Random::new(seed);
    let (table, column) = CELLS[usize::try_from(seed).unwrap() % CELLS.len()];
    let database = Database::open(path).unwrap();
    // Of what stands, and not of what was before it.
    let standing = match table {
        "log" | "sum" => "WHERE revision IN (SELECT revision FROM object WHERE namespace = 'lab')",
        "object" => "WHERE namespace = 'lab'",
        _ => "",
    };
    let key = match table {
        "object" => "grp || '|' || resource || '|' || namespace || '|' || name",
        "kind" => "id",
        "meta_copy" => "key",
        _ => "revision",
    };
    let rows = {
        let sql = format!("SELECT {key}, {column} FROM {table} {standing} ORDER BY 1");
        let mut found = database.prepare(&sql).unwrap();
        let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect::<Vec<(Cell, Cell)>>()
    };
    let (row, cell) = rows[random.below(rows.len())].clone();
    let altered = altered(cell, &mut random);
    let sql = format!("UPDATE {table} SET {column} = ?1 WHERE {key} = ?2");
    assert_eq!(database.execute(&sql, params![altered, row]).unwrap(), 1, "{sql}");
    drop(database);
    settle(path);
    format!("{column} of {table} at {row:?} is altered")
}

/// One bit of a number or of bytes, one letter of a text.
fn altered(cell: Cell, random: &mut Random) -> Cell {
    match cell {
        Cell::Integer(number) => Cell::Integer(number ^ (1 << random.below(20))),
        Cell::Text(text) => {
            let mut bytes = text.into_bytes();
            let at = random.below(bytes.len());
            // It stays a text.
            bytes[at] = if bytes[at] == b'q' { b'r' } else { b'q' };
            Cell::Text(String::from_utf8(bytes).unwrap())
        }
        Cell::Blob(mut bytes) => {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
            Cell::Blob(bytes)
        }
        Cell::Null | Cell::Real(_) => panic!("{cell:?} is in no column of these"),
    }
}

/// Damages a copy for each seed, and has an appliance start on it.
fn judge_all(how: &str, damage: fn(&Path, u64) -> String) {
    let base = SoundData::new();
    assert_eq!(base.judge("nothing", |_| "undamaged".to_owned()), 0, "without damage nothing is refused");
    let mut noticed = 0;
    for seed in 0..seeds() {
        let told = base.judge(&format!("{how} {SEEDS} seed {seed}"), |path| damage(path, seed));
        noticed += usize::from(told > 0);
    }
    assert!(noticed > 0 || seeds() < SEEDS_DEFAULT, "{how}: nothing was noticed");
}

#[test]
fn a_damaged_page_makes_no_false_answer_no_failed_start_and_no_deletion() {
    judge_all("page", damage_page);
}

#[test]
fn a_damaged_row_makes_no_false_answer_no_failed_start_and_no_deletion() {
    judge_all("row", damage_row);
}
