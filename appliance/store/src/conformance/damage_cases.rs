//! A value that is not what was written.

use super::{ConformanceBackend, kind};
use crate::{
    DamageCause, GroupResource, ListRange, ObjectKey, Op, PageRead, Position, Revision, Store, StoreReadError,
    WatchError,
};

fn key(kind: &GroupResource, name: &str) -> ObjectKey {
    ObjectKey::new(kind, "default", name)
}

async fn create(store: &Store, kind: &GroupResource, name: &str) -> Revision {
    store.commit(Op::Create { key: key(kind, name), value: name.to_owned().into() }, vec![]).await.unwrap()
}

fn names(read: &PageRead) -> (Vec<&str>, Vec<&str>) {
    let sound = read.page.items.iter().map(|object| object.key.name.as_str()).collect();
    (sound, read.damaged.iter().map(|damage| damage.key.name.as_str()).collect())
}

pub(super) async fn is_named_and_never_absent(backend: &impl ConformanceBackend) {
    let (hosts, store) = (kind("hosts"), backend.open());
    for name in ["a", "b", "c"] {
        create(&store, &hosts, name).await;
    }
    let mut changes = store.damage_changes();
    backend.damage(&key(&hosts, "b"));
    let error = store.get(&key(&hosts, "b")).await.unwrap_err();
    assert!(error.to_string().contains("hosts.example.org/default/b (revision 2) is damaged"), "{error}");
    assert!(matches!(&error, StoreReadError::Damaged(damaged) if damaged[0].cause == DamageCause::Checksum), "{error}");
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert_eq!(store.get(&key(&hosts, "a")).await.unwrap().unwrap().value, "a");
    assert!(store.get(&key(&hosts, "d")).await.unwrap().is_none());

    assert!(matches!(store.page(ListRange::all(&hosts), 9).await, Err(StoreReadError::Damaged(_))));
    assert!(matches!(store.list(ListRange::all(&hosts), 9).await, Err(StoreReadError::Damaged(_))));
    assert_eq!(store.count(ListRange::all(&hosts)).await.unwrap(), 3);
    let whole = store.page_with_damaged(ListRange::all(&hosts), 9).await.unwrap();
    assert_eq!(names(&whole), (vec!["a", "c"], vec!["b"]));
    let (mut after, mut seen): (Option<Position>, Vec<String>) = (None, Vec::new());
    loop {
        let range = ListRange { after: after.as_ref(), ..ListRange::all(&hosts) };
        let read = store.page_with_damaged(range, 1).await.unwrap();
        let (sound, damaged) = names(&read);
        seen.extend(sound.into_iter().chain(damaged).map(str::to_owned));
        after = read.last;
        if read.page.remaining == 0 {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c"], "each once, page by page");
    assert!(!changes.has_changed().unwrap(), "it is known");
    let report = store.damage();
    assert_eq!((report.objects.len(), report.objects[0].revision), (1, Revision(2)));
    assert!(report.casts_doubt(|key| key.namespace == "default").is_some());
    assert!(store.damaged(&hosts, Some("other")).is_empty());

    // Out of the database alone: an event that cannot be read is no gap.
    drop(store);
    let store = backend.open();
    assert!(matches!(store.watch(&hosts, Revision(0)).await, Err(WatchError::Damaged(_))));
    assert!(matches!(store.watch(&hosts, Revision(1)).await, Err(WatchError::Damaged(_))));
    assert_eq!(store.watch(&hosts, Revision(2)).await.unwrap().next().await.unwrap().revision, Revision(3));
}

pub(super) async fn is_deleted_unread(backend: &impl ConformanceBackend) {
    let (hosts, leases, store) = (kind("hosts"), kind("leases"), backend.open());
    for name in ["a", "b"] {
        create(&store, &hosts, name).await;
    }
    let mut live = store.watch(&hosts, Revision(2)).await.unwrap();
    let mut other = store.watch(&leases, Revision(2)).await.unwrap();
    backend.damage(&key(&hosts, "b"));
    assert!(store.get(&key(&hosts, "b")).await.is_err());
    let wrong = Op::Delete { key: key(&hosts, "b"), expected: Revision(1), value: "x".into() };
    assert!(store.commit(wrong, vec![]).await.is_err(), "it stands elsewhere");
    let gone = Op::Delete { key: key(&hosts, "b"), expected: Revision(2), value: "b".into() };
    assert_eq!(store.commit(gone, vec![]).await.unwrap(), Revision(3));
    assert!(store.damage().is_empty());
    assert!(store.get(&key(&hosts, "b")).await.unwrap().is_none());
    assert_eq!(store.list(ListRange::all(&hosts), 9).await.unwrap().items.len(), 1);

    // The value before cannot be read, so a watcher begins again, and finds the object gone.
    assert_eq!(live.next().await.map(drop), Err(WatchError::Lagged));
    assert!(matches!(store.watch(&hosts, Revision(2)).await, Err(WatchError::Damaged(_))));
    let lease = create(&store, &leases, "l").await;
    assert_eq!(other.next().await.unwrap().revision, lease, "another kind goes on");
    let made = create(&store, &hosts, "b").await;
    assert_eq!(store.watch(&hosts, Revision(3)).await.unwrap().next().await.unwrap().revision, made);
    drop((live, other, store));
    let store = backend.open();
    assert_eq!(store.get(&key(&hosts, "b")).await.unwrap().unwrap().revision, made);
}
