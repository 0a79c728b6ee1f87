//! The history of a store, compared with a plain map.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{ConformanceBackend, kind};
use crate::{
    ChangeKind, GroupResource, ListRange, ObjectKey, Op, Revision, Store, StoreEvent, StoreReadError, WatchError,
};

/// A change of one of a few objects: what exists may be updated or deleted, what does not is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelChange {
    /// Whether it is of the kind with the shorter history.
    lease: bool,
    object: u8,
    delete: bool,
}

pub(super) fn step() -> impl Strategy<Value = ModelChange> {
    (any::<bool>(), 0_u8..6, prop::bool::weighted(0.3)).prop_map(|(lease, object, delete)| ModelChange {
        lease,
        object,
        delete,
    })
}

type ModelState = BTreeMap<ObjectKey, (Revision, Bytes)>;

/// What a plain map says of a store: its state at each revision, and the events between them.
struct HistoryModel {
    states: Vec<ModelState>,
    events: Vec<StoreEvent>,
}

impl HistoryModel {
    /// Makes a change of the store and of the map.
    async fn commit(&mut self, store: &Store, number: usize, key: ObjectKey, delete: bool) {
        let value = Bytes::from(number.to_string());
        let mut state = self.states.last().unwrap().clone();
        let before = state.get(&key).cloned();
        let (op, kind) = match &before {
            None => (Op::Create { key: key.clone(), value: value.clone() }, ChangeKind::Created),
            Some((at, _)) if delete => {
                (Op::Delete { key: key.clone(), expected: *at, value: value.clone() }, ChangeKind::Deleted)
            }
            Some((at, _)) => {
                (Op::Update { key: key.clone(), expected: *at, value: value.clone() }, ChangeKind::Updated)
            }
        };
        let revision = store.commit(op, vec![]).await.unwrap();
        assert_eq!(revision.0, number as u64 + 1);
        if kind == ChangeKind::Deleted {
            state.remove(&key);
        } else {
            state.insert(key.clone(), (revision, value.clone()));
        }
        self.events.push(StoreEvent { revision, kind, key, value, previous: before.map(|(_, value)| value) });
        self.states.push(state);
    }

    /// Compares every past list, and every watch from every revision.
    async fn check_history(&self, store: &Store, kind: &GroupResource, oldest: Revision) {
        for (number, state) in self.states.iter().enumerate() {
            let at = Revision(number as u64);
            let mut watch = store.watch(kind, at).await;
            if at < oldest {
                assert_eq!(watch.map(drop), Err(WatchError::Compacted { oldest }), "watch {kind} from {at}");
                let list = store.list(ListRange { at: Some(at), ..ListRange::all(kind) }, 9).await;
                assert!(
                    matches!(list, Err(StoreReadError::Compacted { oldest: said }) if said == oldest),
                    "list at {at}"
                );
                continue;
            }
            for namespace in [None, Some("b")] {
                let page =
                    store.list(ListRange { namespace, at: Some(at), ..ListRange::all(kind) }, 100).await.unwrap();
                let listed: Vec<_> = page.items.into_iter().map(|o| (o.key, (o.revision, o.value))).collect();
                let is_wanted = |key: &ObjectKey| key.kind == *kind && namespace.is_none_or(|n| n == key.namespace);
                let wanted = state.iter().filter(|(key, _)| is_wanted(key));
                assert_eq!(
                    listed,
                    wanted.map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>(),
                    "list {kind} at {at}"
                );
            }
            let watch = watch.as_mut().unwrap();
            for event in self.events[number..].iter().filter(|event| event.key.kind == *kind) {
                assert_eq!(&**watch.next().await.unwrap(), event, "watch {kind} from {at}");
            }
            while watch.position() < store.current() {
                assert!(tokio::time::timeout(Duration::from_millis(1), watch.next()).await.is_err());
            }
        }
    }
}

/// Every past list, and every watch from every revision, equals what the model says; nothing is kept of what may not be
/// read any more. History goes `through` a revision for all kinds and for leases alone, in either order.
pub(super) async fn equals_the_history(
    backend: &impl ConformanceBackend,
    steps: Vec<ModelChange>,
    through: (u64, u64),
    all_first: bool,
) {
    let mut store = backend.open();
    let (hosts, leases) = (kind("hosts"), kind("leases"));
    let mut live = store.watch(&hosts, Revision(0)).await.unwrap();
    let mut model = HistoryModel { states: vec![ModelState::new()], events: Vec::new() };
    for (number, step) in steps.iter().enumerate() {
        let of = if step.lease { &leases } else { &hosts };
        let key = ObjectKey::new(of, ["a", "b"][usize::from(step.object % 2)], &format!("o{}", step.object / 2));
        model.commit(&store, number, key, step.delete).await;
    }
    for event in model.events.iter().filter(|event| event.key.kind == hosts) {
        assert_eq!(&**live.next().await.unwrap(), event, "live");
    }
    let (mut of_all, mut of_leases) = (Revision(0), Revision(0));
    for all in [all_first, !all_first] {
        if all {
            of_all = store.compact(Revision(through.0)).await.unwrap();
        } else {
            of_leases = store.compact_kind(&leases, Revision(through.1)).await.unwrap();
        }
    }
    // Out of memory as far as it is there, and out of the database alone.
    for reopened in [false, true] {
        if reopened {
            drop(store);
            store = backend.open();
        }
        for (kind, oldest) in [(&hosts, of_all), (&leases, of_all.max(of_leases))] {
            model.check_history(&store, kind, oldest).await;
            let state = &model.states[usize::try_from(oldest.0).unwrap()];
            let stood = state.keys().filter(|key| key.kind == *kind).count();
            let since = model.events.iter().filter(|event| event.key.kind == *kind && event.revision > oldest).count();
            assert_eq!(backend.rows(kind), stood + since, "rows of {kind}");
        }
    }
}
