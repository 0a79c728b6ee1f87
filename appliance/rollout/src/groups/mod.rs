//! HostGroups: the image that their hosts are installed with next.
//!
//! ```text
//! HostGroup ─────────┐                       ┌─► status: counts, canary, history, conditions; events
//! streams, stubs ────┼─► a namespace is due ─► pass ─► plan::group::step, one for each group
//! steps of hosts ────┘   (queue)             └─► spec.image and spec.userData of hosts that are not installed
//! ```
//!
//! A pass ([`pass`]) reads the groups of one namespace again and takes the hosts as their newest steps left them
//! ([`eligibility`]). A group's status is stored before a host is given anything, and is what a restarted process goes
//! on from. A host is written to while no step of it is under way ([`firesteel_runtime::StepLocks`]), and only after
//! its journal was read again: what is on a disk then, or comes onto it, stays.
//!
//! A group that is deleted leaves its hosts as they are, and so does a host that leaves its group.

mod eligibility;
mod group_events;
mod hosts;
mod images;
mod pass;
mod write_conflicts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use firesteel_facts::Architecture;
use firesteel_kube::ObjectChange;
use firesteel_plan::{HostMemory, policy::Trigger};
use firesteel_resources::condition::{ConditionStatus, find_condition};
use firesteel_resources::host_group::{CANARY_HALTED, ImageReference};
use firesteel_resources::{BareMetalHost, HostGroup, host_journal::HostJournalStatus};
use firesteel_runtime::{ControllerError, HostKey, HostQueue, Runtime, follow, lock};

pub(crate) use eligibility::GroupCandidate;
pub(crate) use group_events::name as name_of_image;
pub(crate) use hosts::MemoryUnreadable;
pub(crate) use pass::readable;

use eligibility::RolloutEligibility;

use crate::{RolloutController, controller::RolloutHost};

/// The time from a change to the pass: what changes together is one pass.
const SETTLE: Duration = Duration::from_millis(100);
/// The time from a pass in which the store failed to the next one.
const AGAIN: Duration = Duration::from_secs(5);

/// Which namespaces are due.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The namespaces that are due; its keys name no host.
    queue: HostQueue<HostKey>,
    /// The groups that there are, with what the policy looks at.
    known: Mutex<BTreeMap<HostKey, GroupFingerprint>>,
    gives: Mutex<write_conflicts::GroupWrites>,
}

/// What of a group decides whether the policy looks at it again.
#[derive(Clone, Debug, Default, PartialEq)]
struct GroupFingerprint {
    generation: i64,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owners: usize,
    is_deleting: bool,
    golden: Option<ImageReference>,
    current: Option<ImageReference>,
    is_halted: bool,
}

impl GroupFingerprint {
    fn of(group: &HostGroup) -> Self {
        let metadata = &group.metadata;
        Self {
            generation: metadata.generation,
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
            owners: metadata.owner_references.len(),
            is_deleting: metadata.is_deleting(),
            golden: group.status.golden.clone(),
            current: group.status.current.clone(),
            is_halted: find_condition(&group.status.conditions, CANARY_HALTED)
                .is_some_and(|condition| condition.status == ConditionStatus::True),
        }
    }
}

fn namespace_key(namespace: &str) -> HostKey {
    HostKey { namespace: namespace.to_owned(), name: String::new() }
}

fn key_of(group: &HostGroup) -> HostKey {
    HostKey { namespace: group.metadata.namespace.clone(), name: group.metadata.name.clone() }
}

impl Groups {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { queue: HostQueue::new(runtime), known: Mutex::default(), gives: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostKey, GroupFingerprint>> {
        lock(&self.known)
    }

    fn gives(&self) -> MutexGuard<'_, write_conflicts::GroupWrites> {
        lock(&self.gives)
    }

    /// Something that the groups of a namespace look at changed.
    pub(crate) fn wake(&self, namespace: &str) {
        let has_groups =
            self.lock().range(namespace_key(namespace)..).next().is_some_and(|(key, _)| key.namespace == namespace);
        if has_groups {
            self.queue.wake_in(&namespace_key(namespace), SETTLE);
        }
    }

    /// Groups whose rollout halted. One that was led to another image since then is none.
    pub(crate) fn halted(&self) -> u64 {
        self.lock().values().filter(|group| group.is_halted).count() as u64
    }

    pub(crate) fn wake_all(&self) {
        let namespaces: BTreeSet<String> = self.lock().keys().map(|key| key.namespace.clone()).collect();
        namespaces.iter().for_each(|namespace| self.wake(namespace));
    }
}

impl RolloutController {
    pub(crate) async fn follow_groups(self) -> Result<(), ControllerError> {
        let take = |change: ObjectChange<HostGroup>| match change {
            ObjectChange::Applied(group) => {
                let seen = GroupFingerprint::of(&group);
                let before = self.inner.groups.lock().insert(key_of(&group), seen.clone());
                if before != Some(seen) {
                    self.inner.policy.ring(Trigger::GroupChanged);
                }
                self.inner.groups.wake(&group.metadata.namespace);
            }
            ObjectChange::Deleted(group) => {
                // The others of the namespace may have had to share hosts with it.
                self.inner.groups.wake(&group.metadata.namespace);
                self.inner.groups.lock().remove(&key_of(&group));
                self.inner.policy.ring(Trigger::GroupChanged);
            }
            ObjectChange::Synced => {}
            ObjectChange::Undecodable { name, error } => {
                tracing::error!(namespace = %name.namespace, group = %name.name, %error, "a stored group cannot be read; it is left alone");
            }
        };
        follow(&self.inner.host_groups, take).await
    }

    /// Works on the namespaces that are due, one after the other.
    pub(crate) async fn run_groups(self) -> Result<(), ControllerError> {
        // A host that is not known yet would seem to have left its group.
        self.handles().hosts.hosts_read().await;
        self.config().index.read().await;
        loop {
            let key = self.inner.groups.queue.next().await;
            // A host that cannot be read would seem to have left its group.
            if self.known().undecodable().is_some() {
                self.inner.groups.queue.wake_in(&key, AGAIN);
                continue;
            }
            match self.groups_pass(&key.namespace).await {
                Ok(None) => {}
                Ok(Some(delay)) => self.inner.groups.queue.wake_in(&key, delay),
                Err(status) => {
                    tracing::warn!(namespace = %key.namespace, error = %status.message, "could not look at the groups of a namespace; it is tried again in five seconds");
                    self.inner.groups.queue.wake_in(&key, AGAIN);
                }
            }
        }
    }

    /// Says where a host stands. One whose memory is older than a restore of the store is given nothing until its step
    /// took note of that; a paused host has no such step.
    pub(crate) fn place_of(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        journal: &HostJournalStatus,
    ) -> GroupCandidate {
        let place = GroupCandidate::of(host, memory, journal);
        let is_of_now = memory.timeline == self.handles().core.store().lineage().timeline();
        if is_of_now || place.open().is_none() {
            return place;
        }
        let why = "the store was restored from a backup, and the host took no note of it yet: is it paused?";
        GroupCandidate { stand: RolloutEligibility::Closed(why.to_owned()), ..place }
    }

    /// Takes in where a host stands.
    pub(crate) fn put_place(&self, key: &HostKey, host: &mut RolloutHost, place: GroupCandidate) {
        if host.place.as_ref() == Some(&place) {
            return;
        }
        let before = host.place.replace(place.clone());
        let inspected = |place: &GroupCandidate| place.architecture.filter(|_| place.is_inspected);
        if before.as_ref().and_then(inspected) != inspected(&place) {
            self.inner.policy.ring(Trigger::FleetChanged);
        }
        self.inner.groups.wake(&key.namespace);
    }

    /// Reads where the hosts stand that were not stepped since the start. One that cannot be read holds up no other:
    /// its first step tells more.
    pub(crate) async fn learn_places(&self, namespace: Option<&str>) {
        let unknown: Vec<(HostKey, String)> = {
            let known = self.known();
            let of = |key: &HostKey| namespace.is_none_or(|namespace| key.namespace == namespace);
            let missing = known.hosts().filter(|(key, host)| of(key) && host.kept.place.is_none());
            missing.map(|(key, host)| (key.clone(), host.uid.clone())).collect()
        };
        for (key, uid) in unknown {
            let place = match self.read_place(&key, &uid).await {
                Ok(place) => place,
                Err(status) => {
                    tracing::warn!(host = %key, error = %status.message, "a host cannot be read for its groups");
                    GroupCandidate::unreadable(&uid, "it cannot be read from the store".to_owned())
                }
            };
            // Of another host of its name nothing is said by this.
            if let Some(host) = self.known().of(&key, &uid) {
                self.put_place(&key, host, place);
            }
        }
    }

    /// The architectures of all hosts that were inspected.
    pub(crate) fn architectures(&self) -> BTreeSet<Architecture> {
        let known = self.known();
        let places = known.hosts().filter_map(|(_, host)| host.kept.place.as_ref());
        places.filter(|place| place.is_inspected).filter_map(|place| place.architecture).collect()
    }
}
