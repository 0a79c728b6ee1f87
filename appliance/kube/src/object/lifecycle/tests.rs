//! Whole lives on a store in memory: what is left in the end, and whether everything that went had to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use firesteel_store::{ChangeKind, MemoryMedium, Revision, Store};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Life;
use crate::model::kind::KindInfo;
use crate::model::meta::{FOREGROUND, ORPHAN};
use crate::model::registry::Registry;
use crate::object::builtin;
use crate::object::core::Core;
use crate::object::deletion::Propagation;
use crate::object::options::{ObjectUpdate, Preconditions, WriteOptions};
use crate::object::patch::Patch;
use crate::object::terms::{ObjectPart, ObjectTarget};

struct World {
    core: Core,
    seconds: Arc<AtomicI64>,
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

impl World {
    async fn new() -> Self {
        let toys = KindInfo::namespaced("example.org", "v1", "Toy", "toys");
        let shelves = KindInfo::cluster("example.org", "v1", "Shelf", "shelves");
        let notes = KindInfo { is_record: true, ..KindInfo::namespaced("example.org", "v1", "Note", "notes") };
        let registry = Registry::new(builtin::kinds().into_iter().chain([toys, shelves, notes]));
        let seconds = Arc::new(AtomicI64::new(1_790_000_000));
        let clock = Arc::clone(&seconds);
        let now = Arc::new(move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap());
        let core = Core::with_clock(Store::in_memory(&MemoryMedium::new()), registry, now);
        core.ensure_namespace("default").await.unwrap();
        core.ensure_namespace("lab").await.unwrap();
        Self { core, seconds }
    }

    fn kind(&self, name: &str) -> Arc<KindInfo> {
        let kinds = self.core.registry().kinds();
        kinds.iter().find(|kind| kind.kind == name).unwrap().clone()
    }

    /// Makes an object and gives its uid. Names are "Toy/default/a", or "Shelf//a".
    async fn make(&self, place: &str, metadata: Value) -> String {
        let (kind, namespace, name) = parts(place);
        let kind = self.kind(kind);
        let mut body = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata });
        body["metadata"]["name"] = json!(name);
        let target = ObjectTarget { kind: &kind, namespace, name };
        let written = self.core.create(target, body, WriteOptions::default()).await.unwrap();
        written.value["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    async fn get(&self, place: &str) -> Option<Value> {
        let (kind, namespace, name) = parts(place);
        let kind = self.kind(kind);
        self.core.get(ObjectTarget { kind: &kind, namespace, name }).await.ok()
    }

    async fn is_there(&self, place: &str) -> bool {
        self.get(place).await.is_some()
    }

    async fn delete(&self, place: &str, propagation: Option<Propagation>) {
        let (kind, namespace, name) = parts(place);
        let kind = self.kind(kind);
        let target = ObjectTarget { kind: &kind, namespace, name };
        let anything = Preconditions::default();
        self.core.delete(target, &anything, propagation, WriteOptions::default()).await.unwrap();
    }

    async fn merge(&self, place: &str, patch: Value) {
        let (kind, namespace, name) = parts(place);
        let kind = self.kind(kind);
        let target = ObjectTarget { kind: &kind, namespace, name };
        let patch = Patch::parse(&kind, Some("application/merge-patch+json"), patch.to_string().as_bytes()).unwrap();
        self.core.change(target, ObjectPart::Main, ObjectUpdate::Patch(&patch), WriteOptions::default()).await.unwrap();
    }

    async fn settle(&self) {
        Life::open(&self.core).await.unwrap().run_until_idle().await.unwrap();
    }
}

fn parts(place: &str) -> (&str, &str, &str) {
    let mut parts = place.split('/');
    (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
}

fn owner(place: &str, uid: &str, blocks: bool) -> Value {
    let (kind, _, name) = parts(place);
    let api_version = if matches!(kind, "Toy" | "Shelf" | "Note") { "example.org/v1" } else { "v1" };
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks })
}

fn owned(owners: &[Value]) -> Value {
    json!({ "ownerReferences": owners })
}

#[test]
fn dependents_go_after_their_owner_and_their_dependents_after_them() {
    run(async {
        let world = World::new().await;
        let a = world.make("Toy/default/a", json!({})).await;
        let b = world.make("ConfigMap/default/b", owned(&[owner("Toy/default/a", &a, false)])).await;
        world.make("Secret/default/c", owned(&[owner("ConfigMap/default/b", &b, true)])).await;
        world.make("Toy/default/other", json!({})).await;
        world.settle().await;
        assert!(world.is_there("Secret/default/c").await, "its owner lives");
        world.delete("Toy/default/a", None).await;
        world.settle().await;
        assert!(!world.is_there("ConfigMap/default/b").await && !world.is_there("Secret/default/c").await);
        assert!(world.is_there("Toy/default/other").await);
    });
}

/// Metadata of a dependent that blocks its owner, Toy a with this uid, and is held by a finalizer.
fn held_and_blocking(uid: &str) -> Value {
    let mut held = owned(&[owner("Toy/default/a", uid, true)]);
    held["finalizers"] = json!(["x.io/f"]);
    held
}

#[test]
fn who_waits_in_the_foreground_can_still_be_told_to_let_its_dependents_stay() {
    run(async {
        let world = World::new().await;
        let a = world.make("Toy/default/a", json!({})).await;
        world.make("ConfigMap/default/b", held_and_blocking(&a)).await;
        let mut life = Life::open(&world.core).await.unwrap();
        world.delete("Toy/default/a", Some(Propagation::Foreground)).await;
        life.run_until_idle().await.unwrap();
        assert!(world.is_there("Toy/default/a").await, "b blocks it and is held");
        world.delete("Toy/default/a", Some(Propagation::Orphan)).await;
        life.run_until_idle().await.unwrap();
        assert!(!world.is_there("Toy/default/a").await);
        assert_eq!(world.get("ConfigMap/default/b").await.unwrap()["metadata"].get("ownerReferences"), None);
    });
}

/// It was let go by hand, and its name was taken before that was noticed here.
#[test]
fn a_namespace_of_the_same_name_keeps_what_is_in_it() {
    run(async {
        let world = World::new().await;
        world.delete("Namespace//lab", None).await;
        let mut life = Life::open(&world.core).await.unwrap();
        let kind = world.kind("Namespace");
        let target = ObjectTarget { kind: &kind, namespace: "", name: "lab" };
        let uid = world.get("Namespace//lab").await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        world.core.edit(target, &uid, |namespace| namespace["spec"]["finalizers"] = json!([])).await.unwrap();
        assert!(!world.is_there("Namespace//lab").await);
        world.core.ensure_namespace("lab").await.unwrap();
        world.make("Toy/lab/a", json!({})).await;
        for _ in 0..20 {
            // Without what has happened since.
            life.namespaces.step(&world.core).await.unwrap();
        }
        assert!(world.is_there("Toy/lab/a").await && world.is_there("Namespace//lab").await);
        life.run_until_idle().await.unwrap();
        assert!(world.is_there("Toy/lab/a").await);
    });
}

#[test]
fn in_the_foreground_an_owner_waits_for_those_that_block_it() {
    run(async {
        let world = World::new().await;
        let a = world.make("Toy/default/a", json!({})).await;
        world.make("ConfigMap/default/b", held_and_blocking(&a)).await;
        world.make("ConfigMap/default/c", owned(&[owner("Toy/default/a", &a, false)])).await;
        world.delete("Toy/default/a", Some(Propagation::Foreground)).await;
        world.settle().await;
        assert!(world.is_there("Toy/default/a").await, "b blocks it and is held");
        assert!(!world.is_there("ConfigMap/default/c").await);
        world.merge("ConfigMap/default/b", json!({ "metadata": { "finalizers": null } })).await;
        world.settle().await;
        assert!(!world.is_there("ConfigMap/default/b").await && !world.is_there("Toy/default/a").await);
    });
}

#[test]
fn orphans_forget_their_owner_and_stay() {
    run(async {
        let world = World::new().await;
        let a = world.make("Toy/default/a", json!({})).await;
        let d = world.make("Toy/default/d", json!({})).await;
        let owners = [owner("Toy/default/a", &a, true), owner("Toy/default/d", &d, false)];
        world.make("ConfigMap/default/b", owned(&owners)).await;
        world.make("ConfigMap/default/c", owned(&owners[..1])).await;
        world.delete("Toy/default/a", Some(Propagation::Orphan)).await;
        world.settle().await;
        assert!(!world.is_there("Toy/default/a").await);
        assert_eq!(world.get("ConfigMap/default/b").await.unwrap()["metadata"]["ownerReferences"], json!(owners[1..]));
        let c = world.get("ConfigMap/default/c").await.unwrap();
        assert_eq!(c["metadata"].get("ownerReferences"), None);
    });
}

/// Another object took the owner's name; the owner is in another namespace; its kind is unknown. The object was
/// collected while its owner still had to be taken down, which began again without it.
#[test]
fn a_record_is_there_as_long_as_its_owner_however_that_is_deleted() {
    for propagation in [None, Some(Propagation::Background), Some(Propagation::Foreground), Some(Propagation::Orphan)] {
        for blocks in [false, true] {
            run(async {
                let world = World::new().await;
                let uid = world.make("Toy/default/a", json!({ "finalizers": ["x.io/f"] })).await;
                let reference = owner("Toy/default/a", &uid, blocks);
                world.make("Note/default/a", owned(std::slice::from_ref(&reference))).await;
                world.delete("Toy/default/a", propagation).await;
                world.settle().await;
                let note = world.get("Note/default/a").await.unwrap();
                assert_eq!(note["metadata"]["ownerReferences"], json!([reference]), "{propagation:?}");
                assert!(!note["metadata"]["deletionTimestamp"].is_string(), "{propagation:?}");
                assert!(world.is_there("Toy/default/a").await);
                world.merge("Toy/default/a", json!({ "metadata": { "finalizers": null } })).await;
                world.settle().await;
                let left = (world.is_there("Toy/default/a").await, world.is_there("Note/default/a").await);
                assert_eq!(left, (false, false), "{propagation:?}");
            });
        }
    }
}

#[test]
fn in_a_namespace_that_is_going_records_outlast_their_owners_and_can_be_made() {
    run(async {
        let world = World::new().await;
        let a = world.make("Toy/lab/a", json!({ "finalizers": ["x.io/f"] })).await;
        let b = world.make("Toy/lab/b", json!({ "finalizers": ["x.io/f"] })).await;
        world.make("Note/lab/a", owned(&[owner("Toy/lab/a", &a, false)])).await;
        world.delete("Namespace//lab", None).await;
        world.settle().await;
        assert!(world.is_there("Note/lab/a").await);
        world.make("Note/lab/b", owned(&[owner("Toy/lab/b", &b, false)])).await;
        let kind = world.kind("Note");
        let target = ObjectTarget { kind: &kind, namespace: "lab", name: "c" };
        let body = json!({ "apiVersion": "example.org/v1", "kind": "Note", "metadata": { "name": "c" } });
        let refused = world.core.create(target, body, WriteOptions::default()).await.unwrap_err();
        assert_eq!(refused.code, 403, "nothing would take it away");
        world.settle().await;
        for name in ["a", "b"] {
            assert!(world.is_there(&format!("Note/lab/{name}")).await);
            world.merge(&format!("Toy/lab/{name}"), json!({ "metadata": { "finalizers": null } })).await;
        }
        world.settle().await;
        let left = [world.is_there("Note/lab/a").await, world.is_there("Note/lab/b").await];
        assert_eq!((left, world.is_there("Namespace//lab").await), ([false, false], false));
    });
}

#[test]
fn owners_are_found_where_a_reference_must_mean_them() {
    run(async {
        let world = World::new().await;
        let here = world.make("Toy/default/a", json!({})).await;
        let there = world.make("Toy/lab/b", json!({})).await;
        let shelf = world.make("Shelf//s", json!({})).await;
        let in_namespace = |owner: Value| owned(&[owner]);
        world.make("ConfigMap/default/good", in_namespace(owner("Toy/default/a", &here, false))).await;
        world.make("ConfigMap/default/renamed", in_namespace(owner("Toy/default/a", "another", false))).await;
        world.make("ConfigMap/default/abroad", in_namespace(owner("Toy/lab/b", &there, false))).await;
        world.make("ConfigMap/default/wide", in_namespace(owner("Shelf//s", &shelf, false))).await;
        world.make("Shelf//narrow", in_namespace(owner("Toy/default/a", "gone", false))).await;
        let unknown = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "gone" });
        world.make("ConfigMap/default/unknown", in_namespace(unknown)).await;
        world.settle().await;
        for (place, stays) in [
            ("ConfigMap/default/good", true),
            ("ConfigMap/default/renamed", false),
            ("ConfigMap/default/abroad", false),
            ("ConfigMap/default/wide", true),
            ("Shelf//narrow", true),
            ("ConfigMap/default/unknown", true),
        ] {
            assert_eq!(world.is_there(place).await, stays, "{place}");
        }
        world.delete("Shelf//s", None).await;
        world.settle().await;
        assert!(!world.is_there("ConfigMap/default/wide").await);
    });
}

#[test]
fn a_namespace_empties_itself_and_says_what_keeps_it() {
    run(async {
        let world = World::new().await;
        world.make("Toy/lab/a", json!({ "finalizers": ["x.io/f"] })).await;
        for number in 0..crate::object::lifecycle::PAGE + 20 {
            world.make(&format!("Toy/lab/toy-{number}"), json!({})).await;
        }
        world.make("Secret/lab/password", json!({})).await;
        world.delete("Namespace//lab", Some(Propagation::Background)).await;
        let mut life = Life::open(&world.core).await.unwrap();
        life.run_until_idle().await.unwrap();
        let namespace = world.get("Namespace//lab").await.unwrap();
        assert_eq!(namespace["status"]["phase"], "Terminating");
        let said = |namespace: &Value, name: &str| {
            let list = namespace["status"]["conditions"].as_array().unwrap().clone();
            let found = list.into_iter().find(|condition| condition["type"] == *name).unwrap();
            (found["status"].as_str().unwrap().to_owned(), found["message"].as_str().unwrap().to_owned())
        };
        let (status, message) = said(&namespace, "NamespaceContentRemaining");
        assert_eq!(status, "True");
        assert!(message.contains("toys.example.org has 1 resource instances"), "{message}");
        let held = "Some content in the namespace has finalizers remaining: x.io/f in 1 resource instances";
        assert_eq!(said(&namespace, "NamespaceFinalizersRemaining"), ("True".to_owned(), held.to_owned()));
        assert!(world.is_there("Secret/lab/password").await, "whoever takes the toy down may need it");
        assert!(!world.is_there("Toy/lab/toy-7").await);
        assert!(world.get("Toy/lab/a").await.unwrap()["metadata"]["deletionTimestamp"].is_string());
        world.merge("Toy/lab/a", json!({ "metadata": { "finalizers": null } })).await;
        life.run_until_idle().await.unwrap();
        assert!(!world.is_there("Secret/lab/password").await && !world.is_there("Namespace//lab").await);
        assert!(world.is_there("Namespace//default").await);
    });
}

#[test]
fn a_namespace_that_is_held_goes_when_it_is_let_go() {
    run(async {
        let world = World::new().await;
        world.merge("Namespace//lab", json!({ "metadata": { "finalizers": ["x.io/f"] } })).await;
        world.make("Secret/lab/s", json!({ "finalizers": ["x.io/f"] })).await;
        world.delete("Namespace//lab", Some(Propagation::Foreground)).await;
        world.settle().await;
        world.seconds.fetch_add(10, Ordering::Relaxed);
        world.merge("Secret/lab/s", json!({ "metadata": { "finalizers": null } })).await;
        world.settle().await;
        let namespace = world.get("Namespace//lab").await.unwrap();
        assert_eq!(namespace["spec"]["finalizers"], json!([]));
        assert_eq!(namespace["metadata"]["finalizers"], json!(["x.io/f"]), "its dependents are gone, and it is held");
        world.merge("Namespace//lab", json!({ "metadata": { "finalizers": null } })).await;
        assert!(!world.is_there("Namespace//lab").await);
    });
}

#[test]
fn events_are_forgotten_an_hour_after_they_were_written_last() {
    run(async {
        let world = World::new().await;
        let event = |name: &str| {
            json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name }, "involvedObject": {
                "kind": "Toy", "name": "a", "namespace": "default",
            } })
        };
        let kind = world.kind("Event");
        let make = async |name: &str| {
            let target = ObjectTarget { kind: &kind, namespace: "default", name };
            world.core.create(target, event(name), WriteOptions::default()).await.unwrap();
        };
        make("old").await;
        make("again").await;
        let mut life = Life::open(&world.core).await.unwrap();
        life.run_until_idle().await.unwrap();
        world.seconds.fetch_add(1_800, Ordering::Relaxed);
        world.merge("Event/default/again", json!({ "count": 2 })).await;
        life.run_until_idle().await.unwrap();
        world.seconds.fetch_add(1_800, Ordering::Relaxed);
        life.run_until_idle().await.unwrap();
        assert!(!world.is_there("Event/default/old").await && world.is_there("Event/default/again").await);
        // After a restart it is not known when it was written, and what it says of itself counts.
        Life::open(&world.core).await.unwrap().run_until_idle().await.unwrap();
        assert!(!world.is_there("Event/default/again").await);
    });
}

/// One deletion: which object, how, and how much is done before the next one.
#[derive(Clone, Debug)]
struct Order {
    object: usize,
    propagation: Option<Propagation>,
    steps: usize,
    crash: bool,
}

fn orders(objects: usize) -> impl Strategy<Value = Vec<Order>> {
    let propagation = prop_oneof![
        Just(None),
        Just(Some(Propagation::Background)),
        Just(Some(Propagation::Foreground)),
        Just(Some(Propagation::Orphan)),
    ];
    let order = (0..objects, propagation, 0..6_usize, prop::bool::weighted(0.2));
    let order = order.prop_map(|(object, propagation, steps, crash)| Order { object, propagation, steps, crash });
    prop::collection::vec(order, 1..8)
}

fn place(index: usize) -> String {
    let kind = ["Toy", "ConfigMap", "Secret"][index % 3];
    format!("{kind}/default/o{index}")
}

/// Carries the orders out and lists the deletions of objects that were not being deleted.
async fn carry_out(world: &World, orders: &[Order]) -> BTreeMap<usize, Option<Propagation>> {
    let mut direct = BTreeMap::new();
    let mut life = Life::open(&world.core).await.unwrap();
    for order in orders {
        if let Some(object) = world.get(&place(order.object)).await
            && !object["metadata"]["deletionTimestamp"].is_string()
        {
            world.delete(&place(order.object), order.propagation).await;
            direct.insert(order.object, order.propagation);
        }
        if order.crash {
            life = Life::open(&world.core).await.unwrap();
        }
        for _ in 0..order.steps {
            life.step_over(1).await.unwrap();
        }
    }
    // However it goes on, it ends.
    let mut steps = 0;
    while life.step_over(1).await.unwrap() {
        steps += 1;
        assert!(steps < 10_000, "it does not end");
    }
    direct
}

/// Everything that went without being asked for had owners, and none of them was alive.
async fn check_history(world: &World, direct: &BTreeSet<String>) {
    let mut events = Vec::new();
    for kind in ["Toy", "ConfigMap", "Secret"] {
        let resource = world.kind(kind).group_resource();
        let mut stream = world.core.store().watch(&resource, Revision(0)).await.unwrap();
        while stream.position() < world.core.store().current() {
            events.push(stream.next().await.unwrap());
        }
    }
    events.sort_by_key(|event| event.revision);
    let mut leaving: HashMap<String, bool> = HashMap::new();
    for event in events {
        let object: Value = serde_json::from_slice(&event.value).unwrap();
        let metadata = &object["metadata"];
        let uid = metadata["uid"].as_str().unwrap().to_owned();
        let finalizers: Vec<&str> =
            metadata["finalizers"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect();
        let going = metadata["deletionTimestamp"].is_string();
        let was_going = leaving.contains_key(&uid);
        if event.kind == ChangeKind::Deleted || going {
            let begins = !was_going || !leaving[&uid];
            if begins && !direct.contains(&event.key.name) {
                let owners = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
                assert!(!owners.is_empty(), "{} had no owner and went", event.key);
                for owner in owners {
                    let state = leaving.get(owner["uid"].as_str().unwrap());
                    assert!(state != Some(&false), "{} went while {} lived", event.key, owner["name"]);
                }
            }
        }
        if event.kind == ChangeKind::Deleted {
            leaving.remove(&uid);
        } else {
            let waits = going && finalizers.contains(&FOREGROUND);
            // One that orphans its dependents deletes none of them.
            leaving.insert(uid, waits || going && !finalizers.contains(&ORPHAN) && was_going);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Trees: what is left is what a model without time says.
    #[test]
    fn a_forest_ends_as_the_model_says(
        (parents, orders) in (2..10_usize).prop_flat_map(|count| (
            prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), prop::bool::weighted(0.8)), count),
            orders(count),
        ))
    ) {
        run(async {
            let world = World::new().await;
            let mut uids: Vec<String> = Vec::new();
            let mut parent_of: Vec<Option<usize>> = Vec::new();
            for (index, (parent, blocks, has_parent)) in parents.iter().enumerate() {
                let parent = (index > 0 && *has_parent).then(|| parent.index(index));
                let owners = parent.map(|parent| owner(&place(parent), &uids[parent], *blocks));
                let metadata = owners.map_or_else(|| json!({}), |owner| owned(&[owner]));
                uids.push(world.make(&place(index), metadata).await);
                parent_of.push(parent);
            }
            let direct = carry_out(&world, &orders).await;
            let mut lives: Vec<bool> = Vec::new();
            for (index, parent) in parent_of.iter().enumerate() {
                let kept = parent.is_none_or(|parent| {
                    lives[parent] || direct.get(&parent) == Some(&Some(Propagation::Orphan))
                });
                lives.push(kept && !direct.contains_key(&index));
            }
            for (index, lives) in lives.iter().enumerate() {
                let found = world.get(&place(index)).await;
                assert_eq!(found.is_some(), *lives, "{}", place(index));
                if let Some(found) = found {
                    let metadata = &found["metadata"];
                    assert!(metadata.get("deletionTimestamp").is_none() && metadata.get("finalizers").is_none());
                    let owner = parent_of[index].filter(|parent| world_lives(&direct, *parent));
                    let named = metadata["ownerReferences"][0]["uid"].as_str();
                    assert_eq!(named, owner.map(|owner| uids[owner].as_str()));
                }
            }
        });
    }

    /// Any owners, circles too: nothing goes that has a living owner, and nothing stays that has none.
    #[test]
    fn nothing_with_a_living_owner_goes_and_nothing_without_stays(
        (edges, orders) in (2..8_usize).prop_flat_map(|count| (
            prop::collection::vec((0..count, 0..count, any::<bool>()), 0..12),
            orders(count),
        ))
    ) {
        run(async {
            let world = World::new().await;
            let mut uids: Vec<String> = Vec::new();
            for index in 0..8 {
                uids.push(world.make(&place(index), json!({})).await);
            }
            for index in 0..8 {
                let mut owners: BTreeMap<usize, Value> = BTreeMap::new();
                for (_, to, blocks) in edges.iter().filter(|(from, to, _)| *from == index && to != from) {
                    owners.insert(*to, owner(&place(*to), &uids[*to], *blocks));
                }
                let owners: Vec<Value> = owners.into_values().collect();
                world.merge(&place(index), json!({ "metadata": { "ownerReferences": owners } })).await;
            }
            let direct = carry_out(&world, &orders).await;
            let names = direct.keys().map(|index| format!("o{index}")).collect();
            check_history(&world, &names).await;
            for index in 0..8 {
                let Some(found) = world.get(&place(index)).await else { continue };
                let metadata = &found["metadata"];
                assert!(!direct.contains_key(&index), "{found}");
                assert!(metadata.get("deletionTimestamp").is_none(), "{found}");
                for reference in metadata["ownerReferences"].as_array().into_iter().flatten() {
                    let owner = uids.iter().position(|uid| reference["uid"] == **uid).unwrap();
                    assert!(world.is_there(&place(owner)).await, "{found}");
                }
            }
        });
    }
}

/// Whether an object that has living children lives: one that was deleted has left none with a
/// reference to it.
fn world_lives(direct: &BTreeMap<usize, Option<Propagation>>, object: usize) -> bool {
    !direct.contains_key(&object)
}
