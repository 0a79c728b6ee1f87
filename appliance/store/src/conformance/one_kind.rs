//! A kind whose history is shorter than that of the others.

use std::time::Duration;

use super::{ConformanceBackend, kind};
use crate::{
    EventStream, GroupResource, ListPage, ListRange, ObjectKey, Op, Revision, Store, StoreReadError, WatchError,
};

fn key(kind: &GroupResource, name: &str) -> ObjectKey {
    ObjectKey::new(kind, "default", name)
}

async fn create(store: &Store, kind: &GroupResource, name: &str) -> Revision {
    store.commit(Op::Create { key: key(kind, name), value: "new".into() }, vec![]).await.unwrap()
}

async fn update(store: &Store, kind: &GroupResource, name: &str, expected: Revision) -> Revision {
    let value = format!("after {expected}").into();
    store.commit(Op::Update { key: key(kind, name), expected, value }, vec![]).await.unwrap()
}

async fn delete(store: &Store, kind: &GroupResource, name: &str, expected: Revision) -> Revision {
    store.commit(Op::Delete { key: key(kind, name), expected, value: "last".into() }, vec![]).await.unwrap()
}

async fn list(store: &Store, kind: &GroupResource, at: Option<Revision>) -> Result<ListPage, StoreReadError> {
    store.list(ListRange { at, ..ListRange::all(kind) }, 100).await
}

/// The revisions of these events, and no others.
async fn told(mut watch: EventStream, store: &Store) -> Vec<u64> {
    let mut revisions = Vec::new();
    // What is read from the database may turn out to be nothing: then the position moves.
    while watch.position() < store.current() {
        if let Ok(event) = tokio::time::timeout(Duration::from_millis(10), watch.next()).await {
            revisions.push(event.unwrap().revision.0);
        }
    }
    revisions
}

pub(super) async fn is_compacted_by_itself(backend: &impl ConformanceBackend) {
    let mut store = backend.open();
    let (leases, hosts) = (kind("leases"), kind("hosts"));
    let follows = store.watch(&leases, Revision(0)).await.unwrap();
    let one = create(&store, &leases, "held").await;
    let two = create(&store, &hosts, "a").await;
    let three = update(&store, &leases, "held", one).await;
    let four = update(&store, &hosts, "a", two).await;
    let five = update(&store, &leases, "held", three).await;
    let six = create(&store, &leases, "given-up").await;
    let seven = delete(&store, &leases, "given-up", six).await;
    let eight = update(&store, &hosts, "a", four).await;
    assert_eq!(store.compact_kind(&leases, eight).await.unwrap(), seven, "the last change of a lease");
    let nine = update(&store, &leases, "held", five).await;
    assert_eq!(backend.rows(&leases), 2, "what stands and what stood at the oldest revision, and no deletion");
    assert_eq!(told(follows, &store).await, [1, 3, 5, 6, 7, 9], "who follows is not disturbed");
    let last = update(&store, &hosts, "a", eight).await;
    // Where the changes are in memory still, and where they are history.
    for reopened in [false, true] {
        if reopened {
            drop(store);
            store = backend.open();
        }
        for from in [one, six] {
            assert_eq!(store.watch(&leases, from).await.map(drop), Err(WatchError::Compacted { oldest: seven }));
            let listed = list(&store, &leases, Some(from)).await;
            assert!(matches!(listed, Err(StoreReadError::Compacted { oldest }) if oldest == seven));
            let counted = store.count(ListRange { at: Some(from), ..ListRange::all(&leases) }).await;
            assert!(matches!(counted, Err(StoreReadError::Compacted { .. })));
        }
        let since = [four.0, eight.0, last.0];
        assert_eq!(told(store.watch(&hosts, one).await.unwrap(), &store).await, [&[two.0], &since[..]].concat());
        assert_eq!(told(store.watch(&hosts, two).await.unwrap(), &store).await, since);
        assert_eq!(list(&store, &hosts, Some(two)).await.unwrap().items[0].revision, two);
        let mut watch = store.watch(&leases, seven).await.unwrap();
        let event = watch.next().await.unwrap();
        assert_eq!((event.revision, event.previous.as_deref()), (nine, Some(&b"after 3"[..])));
        let page = list(&store, &leases, Some(seven)).await.unwrap();
        assert_eq!(page.items.iter().map(|lease| lease.revision).collect::<Vec<_>>(), [five]);
    }
    recovers(&store, &leases, nine).await;
}

/// As every client does: a new list, and a watch from there. Then more of everything goes.
async fn recovers(store: &Store, leases: &GroupResource, held: Revision) {
    let page = list(store, leases, None).await.unwrap();
    assert_eq!(page.items.iter().map(|lease| lease.revision).collect::<Vec<_>>(), [held]);
    let watch = store.watch(leases, page.revision).await.unwrap();
    let renewed = update(store, leases, "held", held).await;
    assert_eq!(told(watch, store).await, [renewed.0]);

    let oldest = store.compact_kind(leases, Revision(3)).await.unwrap();
    assert!(oldest > Revision(3), "what is gone stays gone");
    let all = store.compact(held).await.unwrap();
    assert_eq!(store.watch(leases, oldest).await.map(drop), Err(WatchError::Compacted { oldest: all }));
    assert_eq!(store.compact_kind(leases, held).await.unwrap(), all);
    assert_eq!(store.compact_kind(leases, Revision(1_000)).await.unwrap(), renewed, "the future is not compacted");
    assert_eq!(list(store, leases, None).await.unwrap().items[0].revision, renewed, "what stands is never removed");
    assert_eq!(store.compact_kind(&kind("unknown"), renewed).await.unwrap(), all);
}

pub(super) async fn is_compacted_in_steps(backend: &impl ConformanceBackend) {
    const LEASES: u64 = 1_100;
    let store = backend.open();
    let (leases, hosts) = (kind("leases"), kind("hosts"));
    let host = create(&store, &hosts, "a").await;
    let mut writes = tokio::task::JoinSet::new();
    for number in 0..LEASES {
        let (store, leases) = (store.clone(), leases.clone());
        writes.spawn(async move {
            let name = number.to_string();
            let made = create(&store, &leases, &name).await;
            if number % 2 == 0 {
                delete(&store, &leases, &name, made).await;
            }
        });
    }
    drop(writes.join_all().await);
    let last = store.current();
    update(&store, &hosts, "a", host).await;
    assert_eq!(store.compact_kind(&leases, store.current()).await.unwrap(), last);
    assert_eq!((backend.rows(&leases), backend.rows(&hosts)), (550, 2));
    assert_eq!(store.count(ListRange::all(&leases)).await.unwrap(), LEASES / 2);
    assert_eq!(told(store.watch(&hosts, host).await.unwrap(), &store).await, [last.0 + 1]);
}
