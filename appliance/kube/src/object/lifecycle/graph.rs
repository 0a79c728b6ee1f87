//! Who belongs to whom, learnt from events, and which objects have to be looked at. Pure.
//!
//! What is known here may be behind the store: it says where to look, and the store says what to do.
//! Only objects that name an owner, or that are going and wait for their dependents, take memory.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use firesteel_store::ObjectKey;

use super::decide::LifeObject;

/// An owner as a dependent names it: its uid, and whether it has to wait for the dependent.
type Edge = (Box<str>, bool);

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<ObjectKey, OwnerGraphNode>,
    dependents: HashMap<Box<str>, BTreeSet<ObjectKey>>,
    /// Objects that are going and wait for what belongs to them, by their uids.
    leaving: HashMap<Box<str>, ObjectKey>,
    queue: VecDeque<ObjectKey>,
    queued: HashSet<ObjectKey>,
}

#[derive(Debug)]
struct OwnerGraphNode {
    uid: Box<str>,
    owners: Vec<Edge>,
}

impl Graph {
    /// An object was made or changed.
    pub(super) fn seen(&mut self, key: &ObjectKey, head: &LifeObject) {
        let meta = &head.metadata;
        if let Some(old) = self.nodes.get(key)
            && *old.uid != *meta.uid
        {
            let uid = old.uid.clone();
            self.remove_object(key, &uid);
        }
        let owners: Vec<Edge> =
            meta.owner_references.iter().map(|owner| (owner.uid.as_str().into(), owner.blocks())).collect();
        let before = self.nodes.get(key).map_or(&[][..], |node| &node.owners).to_vec();
        if before != owners {
            for (uid, _) in &before {
                self.forget_dependent(uid, key);
            }
            for (uid, _) in &owners {
                self.dependents.entry(uid.clone()).or_default().insert(key.clone());
            }
            if !owners.is_empty() {
                self.enqueue(key.clone());
            }
            for (uid, _) in before.iter().chain(&owners) {
                self.enqueue_deleting(uid);
            }
        }
        let waits = head.is_going() && (head.orphans() || head.waits_for_dependents());
        if waits {
            self.leaving.insert(meta.uid.as_str().into(), key.clone());
            // Each time: what it waits for may be another thing now.
            self.enqueue(key.clone());
        }
        if waits && head.waits_for_dependents() {
            self.enqueue_dependents(&meta.uid);
        }
        if !waits {
            self.leaving.remove(meta.uid.as_str());
        }
        if owners.is_empty() && !waits {
            self.nodes.remove(key);
        } else {
            self.nodes.insert(key.clone(), OwnerGraphNode { uid: meta.uid.as_str().into(), owners });
        }
    }

    /// An object is gone.
    pub(super) fn remove_object(&mut self, key: &ObjectKey, uid: &str) {
        if let Some(node) = self.nodes.remove(key) {
            for (owner, _) in &node.owners {
                self.forget_dependent(owner, key);
                self.enqueue_deleting(owner);
            }
        }
        self.leaving.remove(uid);
        self.enqueue_dependents(uid);
    }

    /// Objects that name this one as an owner, and whether it has to wait for them.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(ObjectKey, bool)> {
        let blocks = |key: &ObjectKey| {
            let owners = self.nodes.get(key).map_or(&[][..], |node| &node.owners);
            owners.iter().any(|(owner, blocks)| **owner == *uid && *blocks)
        };
        self.dependents.get(uid).into_iter().flatten().map(|key| (key.clone(), blocks(key))).collect()
    }

    /// Whether an object that waits for its dependents waits for itself, by whatever many others.
    pub(super) fn waits_for_itself(&self, uid: &str) -> bool {
        let (mut reached, mut rest) = (HashSet::new(), vec![uid]);
        while let Some(waiting) = rest.pop() {
            for key in self.dependents.get(waiting).into_iter().flatten() {
                let Some(node) = self.nodes.get(key) else { continue };
                let holds_up = node.owners.iter().any(|(owner, blocks)| **owner == *waiting && *blocks);
                if !holds_up || !self.leaving.contains_key(&node.uid) {
                    continue;
                }
                if *node.uid == *uid {
                    return true;
                }
                if reached.insert(&*node.uid) {
                    rest.push(&node.uid);
                }
            }
        }
        false
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next object to be looked at.
    pub(super) fn next(&mut self) -> Option<ObjectKey> {
        let key = self.queue.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    pub(super) fn enqueue(&mut self, key: ObjectKey) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    fn enqueue_dependents(&mut self, uid: &str) {
        let keys: Vec<ObjectKey> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        keys.into_iter().for_each(|key| self.enqueue(key));
    }

    fn enqueue_deleting(&mut self, uid: &str) {
        if let Some(key) = self.leaving.get(uid).cloned() {
            self.enqueue(key);
        }
    }

    fn forget_dependent(&mut self, owner: &str, key: &ObjectKey) {
        if let Some(keys) = self.dependents.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
