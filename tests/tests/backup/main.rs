//! `firesteel backup` and `firesteel restore`: what a backup under load has in it, and what a restore
//! leaves wherever it is killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what a test did is part of what it shows")]

mod killed;
mod load;
mod refused;

use std::{collections::BTreeMap, fs, path::Path};

use firesteel_appliance::backup::{RestoreKeySource, RestoreOptions, format, format::BackupHeader, keys};
use firesteel_store::{GroupResource, ListPage, ListRange, ObjectKey, Op, Store};
use jiff::Timestamp;
use ring::digest;

pub(crate) fn kind() -> GroupResource {
    GroupResource::new("", "configmaps")
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// A data folder with these objects and some keys, and nobody who serves from it.
pub(crate) fn folder(data: &Path, names: &[&str]) {
    for folder in ["pki", "secrets"] {
        fs::create_dir_all(data.join(folder)).unwrap();
    }
    for key in ["pki/ca.key", "secrets/token.key"] {
        fs::write(data.join(key), format!("the key {key}\n")).unwrap();
    }
    let store = Store::open(&data.join("resources.db")).unwrap();
    block_on(async {
        for name in names {
            let key = ObjectKey::new(&kind(), "default", name);
            store.commit(Op::Create { key, value: format!("{{\"name\":\"{name}\"}}").into() }, vec![]).await.unwrap();
        }
    });
}

/// What the API would send of this folder.
pub(crate) fn backup_of(data: &Path, made_at: Timestamp, into: &Path) -> BackupHeader {
    let copy = into.with_extension("copy");
    let snapshot = Store::open(&data.join("resources.db")).unwrap().snapshot(&copy).unwrap();
    let header = BackupHeader {
        revision: snapshot.revision.0,
        schema: snapshot.schema,
        made_at,
        database_bytes: snapshot.bytes,
        keys: keys::digests(data).unwrap(),
        ..BackupHeader::default()
    };
    let mut bytes = format::begin(&header).unwrap();
    bytes.extend(fs::read(&copy).unwrap());
    bytes.extend(format::end(&digest::digest(&digest::SHA256, &bytes)));
    fs::write(into, bytes).unwrap();
    fs::remove_file(copy).unwrap();
    header
}

pub(crate) fn order(backup: &Path, data: &Path, keys: RestoreKeySource, force: bool) -> RestoreOptions {
    RestoreOptions { backup: backup.to_owned(), data: data.to_owned(), keys, force, now: now() }
}

pub(crate) fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Names and revisions of all that is in a folder's store.
pub(crate) fn objects(data: &Path) -> BTreeMap<String, u64> {
    let store = Store::open(&data.join("resources.db")).unwrap();
    block_on(async {
        let (mut found, mut after) = (BTreeMap::new(), None);
        let kind = kind();
        loop {
            let range = ListRange { kind: &kind, namespace: Some("default"), at: None, after: after.as_ref() };
            let ListPage { items, remaining, .. } = store.list(range, 500).await.unwrap();
            after = items.last().map(|object| object.key.position());
            found.extend(items.into_iter().map(|object| (object.key.name, object.revision.0)));
            if remaining == 0 {
                return found;
            }
        }
    })
}

pub(crate) fn epochs(data: &Path) -> usize {
    Store::open(&data.join("resources.db")).unwrap().lineage().epochs.len()
}
