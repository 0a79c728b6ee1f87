//! Namespaces that are going: they empty themselves, say what keeps them, and go when they are empty.
//!
//! ```text
//!   marked ─► others' kinds, page by page ─► none is left ─► Kubernetes' own kinds, records ─► none is left ─► gone
//!                                   └────────────── waits for finalizers ──────────────┘
//! ```
//!
//! Kubernetes' own kinds come last: a controller that takes a server down needs the Secret with its password. So do the
//! records of controllers: a controller that cleans a server's disks has to know which they are.
//! No object is made in a namespace that is going ([`Core::create`] sees to that), so what was empty
//! once stays empty; but for records of an owner, which go with it wherever they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_store::{ListRange, ObjectKey, Position};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{doubt_in, head_of};
use crate::model::kind::KindInfo;
use crate::model::meta;
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::options::WriteOptions;
use crate::object::store_errors::read_failed;
use crate::object::terms::ObjectTarget;

/// Objects that are read at once; the finalizers of one kind are counted over so many.
const PAGE: usize = 500;
/// Time between two reports of what keeps a namespace: of many objects that go one by one, each would lead to one
/// report.
const REPORT_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// Deletions on their way at once, which the store makes durable together.
const DELETIONS: usize = 16;

/// The namespaces that are going, and how far each is.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    going: BTreeMap<String, NamespaceDeletion>,
}

#[derive(Debug)]
struct NamespaceDeletion {
    uid: String,
    /// The kind that is gone through, as a place in [`in_order`], and the object after which.
    at: Option<(usize, Option<Position>)>,
    /// Kubernetes' own kinds and records have their turn.
    own: bool,
    /// Something of it went, or it was just marked.
    changed: bool,
    /// Why an object could not be deleted, the last time that one could not.
    failed: Option<String>,
    reported_at: Option<Timestamp>,
}

impl NamespaceDeletion {
    fn new(uid: &str) -> Self {
        let (at, own, changed) = (Some((0, None)), false, true);
        Self { uid: uid.to_owned(), at, own, changed, failed: None, reported_at: None }
    }
}

impl Namespaces {
    /// A namespace as it is now.
    pub(super) fn seen(&mut self, name: &str, uid: &str, is_going: bool) {
        if !is_going {
            self.going.remove(name);
            return;
        }
        let known = self.going.entry(name.to_owned()).or_insert_with(|| NamespaceDeletion::new(uid));
        if known.uid != uid {
            *known = NamespaceDeletion::new(uid);
        }
        known.changed = true;
    }

    pub(super) fn remove_namespace(&mut self, name: &str) {
        self.going.remove(name);
    }

    /// An object of a namespace is gone.
    pub(super) fn lost(&mut self, namespace: &str) {
        if let Some(emptying) = self.going.get_mut(namespace) {
            emptying.changed = true;
        }
    }

    /// Something is to be done, after a while.
    pub(super) fn wants_another_turn(&self) -> bool {
        self.going.values().any(|emptying| emptying.at.is_some() || emptying.changed)
    }

    /// Goes on with each namespace by one step; whether there is more to do now.
    pub(super) async fn step(&mut self, core: &Core) -> Result<bool, Status> {
        let mut more = false;
        for (name, emptying) in &mut self.going {
            if emptying.at.is_some() || emptying.changed {
                more |= emptying.step(core, name).await?;
            }
        }
        Ok(more)
    }
}

/// The kinds of a namespace's objects in the order in which they are deleted, and how many of them
/// have to be gone before the others.
fn in_order(core: &Core) -> (Vec<Arc<KindInfo>>, usize) {
    let mut kinds: Vec<_> = core.registry().stored_kinds().filter(|kind| kind.namespaced).cloned().collect();
    let is_first = |kind: &KindInfo| kind.is_custom() && !kind.is_record;
    // Stable: among equals the order is the registry's.
    kinds.sort_by_key(|kind| (!is_first(kind), kind.is_record));
    let first = kinds.iter().filter(|kind| is_first(kind)).count();
    (kinds, first)
}

impl NamespaceDeletion {
    async fn step(&mut self, core: &Core, namespace: &str) -> Result<bool, Status> {
        if let Some(why) = doubt_in(core, namespace) {
            self.wait(core, namespace, &why).await?;
            return Ok(false);
        }
        let (kinds, first) = in_order(core);
        let (begin, end) = if self.own { (first, kinds.len()) } else { (0, first) };
        if let Some((index, after)) = self.at.take() {
            let after = match kinds.get(index).filter(|_| index < end) {
                Some(kind) => self.page(core, namespace, kind, after).await?,
                None => None,
            };
            self.at = match after {
                Some(after) => Some((index, Some(after))),
                None => (index + 1 < end).then_some((index + 1, None)),
            };
            self.changed = true;
            if self.at.is_some() {
                return Ok(true);
            }
        }
        if is_empty(core, namespace, &kinds[begin..end]).await? {
            if !self.own {
                (self.own, self.at) = (true, Some((first, None)));
                return Ok(true);
            }
            self.changed = false;
            self.write_namespace_status(core, namespace, &[], true).await?;
            return Ok(false);
        }
        if self.reported_at.is_some_and(|at| core.now().duration_since(at) < REPORT_AGAIN) {
            return Ok(false);
        }
        self.changed = false;
        let left = remaining_objects(core, namespace, &kinds).await?;
        let wave: Vec<String> = kinds[begin..end].iter().map(|kind| dotted(kind)).collect();
        if left.iter().any(|left| left.going < left.seen && wave.contains(&left.resource)) {
            // What could not be deleted is deleted again, after a while.
            self.at = Some((begin, None));
        }
        self.reported_at = Some(core.now());
        self.write_namespace_status(core, namespace, &left, false).await?;
        Ok(false)
    }

    /// Deletes nothing, and says why: what is damaged may be what others in the namespace need.
    async fn wait(&mut self, core: &Core, namespace: &str, why: &str) -> Result<(), Status> {
        self.changed = false;
        if self.reported_at.is_some_and(|at| core.now().duration_since(at) < REPORT_AGAIN) {
            return Ok(());
        }
        self.reported_at = Some(core.now());
        let kind = core.namespace_kind()?;
        let target = ObjectTarget { kind: &kind, namespace: "", name: namespace };
        let message = format!("Nothing is deleted while an object is damaged: {why}");
        let condition = ("NamespaceDeletionContentFailure", (true, "ContentDeletionFailed", message));
        let now = core.now();
        let edited = core.edit(target, &self.uid, |object| {
            put_conditions(&mut object["status"], std::slice::from_ref(&condition), now);
        });
        match edited.await {
            // The namespace itself may be what is damaged.
            Err(status) if !status.is_unreadable() => Err(status),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Deletes one page; where the next one begins.
    async fn page(
        &mut self,
        core: &Core,
        namespace: &str,
        kind: &KindInfo,
        after: Option<Position>,
    ) -> Result<Option<Position>, Status> {
        let resource = kind.group_resource();
        let range = ListRange { namespace: Some(namespace), after: after.as_ref(), ..ListRange::all(&resource) };
        let page = core.store().list(range, PAGE).await;
        let page = page.map_err(read_failed)?;
        if !self.is_there(core, namespace).await? {
            return Ok(None);
        }
        for objects in page.items.chunks(DELETIONS) {
            let deletions = objects.iter().map(|object| async {
                let head = head_of(&object.key, &object.value)?;
                if head.is_going() {
                    return Ok(());
                }
                let target = ObjectTarget { kind, namespace, name: &object.key.name };
                core.delete_exactly(target, &head.metadata.uid, None, WriteOptions::default()).await.map(drop)
            });
            for deleted in join_all(deletions).await {
                if let Err(status) = deleted {
                    tracing::warn!(%namespace, error = %status.message, "could not delete an object of a namespace; it is tried again");
                    self.failed = Some(format!("{}: {}", kind.group_resource(), status.message));
                }
            }
        }
        let last = page.items.last().map(|object| object.key.position());
        Ok(last.filter(|_| page.remaining > 0))
    }

    /// Whether this namespace is there, and not another one that has taken its name. What was found in it
    /// before this is asked was of this one.
    async fn is_there(&self, core: &Core, namespace: &str) -> Result<bool, Status> {
        let key = ObjectKey::new(&core.namespace_kind()?.group_resource(), "", namespace);
        let Some(found) = core.store().get(&key).await.map_err(read_failed)? else { return Ok(false) };
        Ok(head_of(&key, &found.value)?.metadata.uid == self.uid)
    }

    /// Says what is left; a namespace in which nothing is left has done its part of its deletion.
    async fn write_namespace_status(
        &mut self,
        core: &Core,
        namespace: &str,
        left: &[RemainingObjects],
        is_empty: bool,
    ) -> Result<(), Status> {
        let kind = core.namespace_kind()?;
        let target = ObjectTarget { kind: &kind, namespace: "", name: namespace };
        let (now, failed) = (core.now(), self.failed.take());
        core.edit(target, &self.uid, |object| {
            if is_empty {
                object["spec"]["finalizers"] = json!([]);
            }
            put_conditions(&mut object["status"], &conditions(left, failed.as_deref()), now);
        })
        .await
    }
}

/// Objects of one kind that are still there.
#[derive(Debug)]
struct RemainingObjects {
    /// The kind as [`dotted`] has it.
    resource: String,
    count: u64,
    seen: u64,
    going: u64,
    finalizers: BTreeMap<String, u64>,
}

/// A kind as Kubernetes writes it in these messages: with the dot, also where there is no group.
fn dotted(kind: &KindInfo) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

async fn is_empty(core: &Core, namespace: &str, kinds: &[Arc<KindInfo>]) -> Result<bool, Status> {
    for kind in kinds {
        let resource = kind.group_resource();
        let page = core.store().list(ListRange { namespace: Some(namespace), ..ListRange::all(&resource) }, 1).await;
        if !page.map_err(read_failed)?.items.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn remaining_objects(
    core: &Core,
    namespace: &str,
    kinds: &[Arc<KindInfo>],
) -> Result<Vec<RemainingObjects>, Status> {
    let mut found = Vec::new();
    for kind in kinds {
        let resource = kind.group_resource();
        let range = ListRange { namespace: Some(namespace), ..ListRange::all(&resource) };
        let page = core.store().list(range, PAGE).await.map_err(read_failed)?;
        let seen = u64::try_from(page.items.len()).unwrap_or(u64::MAX);
        if seen == 0 {
            continue;
        }
        let count = seen.saturating_add(page.remaining);
        let mut left = RemainingObjects { resource: dotted(kind), count, seen, going: 0, finalizers: BTreeMap::new() };
        for object in &page.items {
            let head = head_of(&object.key, &object.value)?;
            left.going += u64::from(head.is_going());
            for finalizer in head.finalizers() {
                *left.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
        found.push(left);
    }
    Ok(found)
}

/// Type, and status, reason and message, in the words of Kubernetes.
type Condition = (&'static str, (bool, &'static str, String));

fn conditions(left: &[RemainingObjects], failed: Option<&str>) -> [Condition; 5] {
    let join = |texts: Vec<String>| texts.join(", ");
    let remaining =
        left.iter().map(|left| format!("{} has {} resource instances", left.resource, left.count)).collect();
    let mut finalizers: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in left.iter().flat_map(|left| &left.finalizers) {
        *finalizers.entry(name).or_default() += count;
    }
    let held = finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
    let discovery = (false, "ResourcesDiscovered", "All resources successfully discovered".to_owned());
    let parsing = (false, "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned());
    let content = match failed {
        None => {
            (false, "ContentDeleted", "All content successfully deleted, may be waiting on finalization".to_owned())
        }
        Some(why) => {
            (true, "ContentDeletionFailed", format!("Failed to delete all resource types, 1 remaining: {why}"))
        }
    };
    let remaining = match left {
        [] => (false, "ContentRemoved", "All content successfully removed".to_owned()),
        _ => (true, "SomeResourcesRemain", format!("Some resources are remaining: {}", join(remaining))),
    };
    let held = match finalizers.is_empty() {
        true => (false, "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned()),
        false => (
            true,
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", join(held)),
        ),
    };
    [
        ("NamespaceDeletionDiscoveryFailure", discovery),
        ("NamespaceDeletionGroupVersionParsingFailure", parsing),
        ("NamespaceDeletionContentFailure", content),
        ("NamespaceContentRemaining", remaining),
        ("NamespaceFinalizersRemaining", held),
    ]
}

/// Keeps the time of a condition whose status stays.
fn put_conditions(status: &mut Value, conditions: &[Condition], now: Timestamp) {
    let before = status["conditions"].take();
    let mut list: Vec<Value> = Vec::new();
    for (name, (is_true, reason, message)) in conditions {
        let word = if *is_true { "True" } else { "False" };
        let old = before.as_array().into_iter().flatten().find(|old| old["type"] == **name);
        let since = old.filter(|old| old["status"] == *word).map(|old| old["lastTransitionTime"].clone());
        let since = since.filter(Value::is_string).unwrap_or_else(|| json!(meta::rfc3339(now)));
        list.push(json!({
            "type": name, "status": word, "reason": reason, "message": message, "lastTransitionTime": since,
        }));
    }
    let others = before.as_array().into_iter().flatten();
    list.extend(others.filter(|old| conditions.iter().all(|(name, _)| old["type"] != **name)).cloned());
    status["conditions"] = Value::Array(list);
}

/// Whether an object is one of these.
pub(super) fn is_namespace(key: &ObjectKey) -> bool {
    key.kind.group.is_empty() && *key.kind.resource == *"namespaces"
}
