//! What bounds a store: how long the history of a kind gets, and what may stand in a namespace.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{ConformanceBackend, create, delete, key, kind};
use crate::{
    AllowanceScope, CommitError, CommitTerms, GroupResource, HistoryLimits, ListRange, Measure, ObjectKey, Op,
    QuotaAllowance, ReserveUse, Revision, Store, StoredUsage, WatchError,
};

const LIMITS: HistoryLimits = HistoryLimits { bytes: 20_000, revisions: 50 };

async fn update(store: &Store, name: &str, expected: Revision, bytes: usize) -> Revision {
    let value = Bytes::from(vec![b'x'; bytes]);
    store.commit(Op::Update { key: key(name), expected, value }, vec![]).await.unwrap()
}

/// Waits until what the last change brought about is done.
async fn settled(store: &Store) {
    store.usage("").await.unwrap();
}

pub(super) async fn a_history_stays_within_its_limits(backend: &impl ConformanceBackend) {
    let (hosts, claims) = (kind("hosts"), kind("claims"));
    let mut store = backend.open();
    let other = Op::Create { key: ObjectKey::new(&claims, "", "c"), value: "1".into() };
    let first = store.commit(other, vec![]).await.unwrap();
    let mut at = store.commit(create("a", "1"), vec![]).await.unwrap();
    for reopened in [false, true] {
        if reopened {
            drop(store);
            store = backend.open();
        }
        store.limit_history(LIMITS);
        // By bytes, then by revisions: replaced values, and what was deleted.
        for _ in 0..100 {
            at = update(&store, "a", at, 1000).await;
            settled(&store).await;
            let rows = backend.rows(&hosts);
            assert!(rows <= 21 + 50 * usize::from(reopened), "{rows} rows of 1000 bytes");
        }
        assert!(backend.rows(&hosts) <= 21);
        for _ in 0..100 {
            at = update(&store, "a", at, 1).await;
        }
        for _ in 0..100 {
            let made = store.commit(create("b", "1"), vec![]).await.unwrap();
            store.commit(delete("b", made, "1"), vec![]).await.unwrap();
        }
        settled(&store).await;
        let rows = backend.rows(&hosts);
        assert!((20..=51).contains(&rows), "{rows} rows of a byte");
        let gone = store.watch(&hosts, at).await.map(drop);
        assert!(matches!(gone, Err(WatchError::Compacted { oldest }) if oldest > at), "{gone:?}");
        store.watch(&claims, first).await.unwrap();
        store.watch(&hosts, store.current()).await.unwrap();
        let page = store.list(ListRange::all(&hosts), 9).await.unwrap();
        assert_eq!(page.items.iter().map(|host| host.revision).collect::<Vec<_>>(), [at], "what stands stays");
    }
}

fn allowance(measure: Measure, scope: AllowanceScope, most: u64) -> QuotaAllowance {
    QuotaAllowance { quota: "q".into(), word: "w".into(), measure, scope, most }
}

fn within(allowance: QuotaAllowance) -> CommitTerms {
    CommitTerms { spending: ReserveUse::Ordinary, allowances: vec![allowance] }
}

fn named(number: usize, bytes: usize) -> Op {
    Op::Create { key: key(&format!("n{number}")), value: vec![b'x'; bytes].into() }
}

pub(super) async fn no_more_is_stored_than_is_allowed(backend: &impl ConformanceBackend) {
    let mut store = backend.open();
    let five = allowance(Measure::Objects, AllowanceScope::Only(kind("hosts")), 5);
    let mut writes = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (store, five) = (store.clone(), five.clone());
        writes.spawn(async move { store.commit_on(within(five), named(number, 10), vec![]).await });
    }
    let results = writes.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 5, "of sixteen at once");
    let refused = results.into_iter().find_map(Result::err).unwrap();
    assert!(
        matches!(&refused, CommitError::Exceeds { exceeded, .. }
        if (exceeded[0].requested, exceeded[0].used, exceeded[0].most) == (1, 5, 5)),
        "{refused}"
    );

    drop(store);
    store = backend.open();
    let stored =
        async |op: Op, allowance: &QuotaAllowance| store.commit_on(within(allowance.clone()), op, vec![]).await;
    assert!(stored(named(20, 10), &five).await.is_err(), "it is counted after a start");
    let sixty = allowance(Measure::Bytes, AllowanceScope::AllBut([kind("records")].into()), 60);
    assert!(stored(named(20, 11), &sixty).await.is_err());
    let twentieth = stored(named(20, 10), &sixty).await.unwrap();
    let longer = |bytes: usize| Op::Update { key: key("n20"), expected: twentieth, value: vec![b'x'; bytes].into() };
    assert!(stored(longer(11), &sixty).await.is_err());
    let shorter = stored(longer(9), &sixty).await.unwrap();
    stored(delete("n20", shorter, "a long last state of it"), &sixty).await.unwrap();
    stored(named(21, 10), &sixty).await.unwrap();
    let record =
        |namespace: &str| Op::Create { key: ObjectKey::new(&kind("records"), namespace, "r"), value: "long".into() };
    stored(record("default"), &sixty).await.unwrap();
    store.commit(named(22, 5000), vec![]).await.unwrap();
}

pub(super) async fn what_stands_is_counted_by_namespace(backend: &impl ConformanceBackend) {
    let mut store = backend.open();
    store.limit_history(LIMITS);
    let at = store.commit(create("a", "12345"), vec![]).await.unwrap();
    let at = update(&store, "a", at, 3).await;
    store.commit(create("b", "1"), vec![]).await.unwrap();
    let away = Op::Create { key: ObjectKey::new(&kind("claims"), "away", "c"), value: "12".into() };
    let away = store.commit(away, vec![]).await.unwrap();
    let counted = |objects: u64, bytes: u64| -> BTreeMap<GroupResource, StoredUsage> {
        [(kind("hosts"), StoredUsage { objects, bytes })].into()
    };
    for reopened in [false, true] {
        if reopened {
            drop(store);
            store = backend.open();
        }
        assert_eq!(store.usage("default").await.unwrap(), counted(2, 4), "reopened: {reopened}");
        assert_eq!(store.usage("away").await.unwrap()[&kind("claims")], StoredUsage { objects: 1, bytes: 2 });
        assert!(store.usage("nowhere").await.unwrap().is_empty());
    }
    store.commit(delete("a", at, "1"), vec![]).await.unwrap();
    store.compact(store.current()).await.unwrap();
    assert_eq!(store.usage("default").await.unwrap(), counted(1, 1));
    let gone = Op::Delete { key: ObjectKey::new(&kind("claims"), "away", "c"), expected: away, value: "12".into() };
    store.commit(gone, vec![]).await.unwrap();
    assert!(store.usage("away").await.unwrap().is_empty());
    assert!(store.changed(&kind("claims")) == store.current() && store.changed(&kind("hosts")) < store.current());
}
