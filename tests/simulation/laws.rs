//! What must never happen, checked where it would: at each write to the store, each touch of a disk,
//! each answer.
//!
//! | law | checked at |
//! |---|---|
//! | only allowed changes of state; attempts and plans go forward; an issued plan never changes | each write of a journal |
//! | a token is bound to one key, that of a host and that of a machine that nobody owns | each write of a journal or discovered machine, each answered hello |
//! | what is shown of the work never goes back, in whatever order reports come | each write of a journal |
//! | `provisioned` only with matching evidence, and only over a disk that holds the image | each write of a journal |
//! | an erasure is called proven only in an attempt whose agent said that it leaves, and whose machine went off then | each write of a journal |
//! | no write without a plan that names the disk, in the boot that the plan is for | each touch |
//! | a plan's step begins once | each touch |
//! | what is acknowledged is on disk | each answered hello, report and config; each ACK; each start |
//! | no two hosts with one lease | each ACK |
//! | one ticket, one reset, within a life | each reset |
//! | a config token ends with *running* | each answered config |
//! | nothing that is newer than a restored store is destroyed | each touch |
//! | a paused host's memory is not written; a detached host gets no plan and no order to its BMC | each write of a journal |
//! | not more hosts are worked on than there are slots | each write of a journal |
//! | while the fleet is halted no plan that destroys is issued, and each agent is told to hold | each write of a journal, each answer |
//! | an agent that was told to hold touches no disk | each touch |
//! | no disk of a cluster is touched, and no plan names one that the newest inspection shows, without an override | each touch, each write of a journal |
//! | no stranger gets a host's boot, no host a stranger's | each script |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_plan::admission::FOR_DELETIONS;
use firesteel_plan::host::transitions::is_legal;
use firesteel_plan::host::{CleanedNote, HostState, PlanKind};
use firesteel_plan::{DiskIdentity, HostMemory};
use firesteel_resources::HardwareRecord;
use firesteel_resources::bare_metal_host::{ProvisioningState, annotations};
use firesteel_resources::host_journal::{AgentBinding, InstanceRecord};
use firesteel_store::memory::{InjectedOutcome, StoreFaults, Wait};
use firesteel_store::{ChangeKind, Op, Revision, StoreEvent};
use serde::Deserialize;

use crate::appliance::AT_ONCE;
use crate::counts::{Counts, Edge, Fault};
use crate::disk::Touch;
use crate::executor::{Executor, lock};
use crate::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Law {
    Transition,
    Forward,
    Token,
    Asker,
    Evidence,
    PlannedDisk,
    Once,
    Durable,
    Lease,
    Power,
    Config,
    Known,
    Liveness,
    Reason,
    Running,
    Newer,
    LeftAlone,
    Slots,
    Halted,
    Guarded,
    Grade,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) law: Law,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the law {:?} was broken: {}", self.law, self.text)
    }
}

/// What a receipt proves, as far as the laws care.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReceiptTruth {
    pub(crate) attempt: u64,
    pub(crate) plan: u32,
    pub(crate) index: u32,
    step: String,
    evidence: EvidenceTruth,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct EvidenceTruth {
    kind: String,
    raw_sha256: String,
    readback_sha256: String,
    readback_bytes: u64,
    written_bytes: u64,
    disk_guid: String,
    disk: DiskTruth,
    files: Vec<serde_json::Value>,
    order: String,
}

/// The disk that a receipt names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct DiskTruth {
    serial: String,
}

/// The running step, as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProgressTruth {
    attempt: u64,
    plan: u32,
    step: String,
    done_bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MachineObjectTruth {
    metadata: MetaTruth,
    status: StrangerTruth,
}

/// A machine that nobody owns, as it is on disk.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StrangerTruth {
    #[serde(skip)]
    uid: String,
    agent: Option<StrangerBinding>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct StrangerBinding {
    boot: u64,
    key: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JournalTruth {
    metadata: MetaTruth,
    status: HostTruth,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectTruth {
    metadata: MetaTruth,
    status: ShownTruth,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ShownTruth {
    provisioning: ProvisioningTruth,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ProvisioningTruth {
    state: ProvisioningState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaTruth {
    name: String,
    uid: String,
    owner_references: Vec<OwnerTruth>,
    annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OwnerTruth {
    uid: String,
}

/// A host's journal, as it is on disk.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HostTruth {
    #[serde(skip)]
    pub(crate) uid: String,
    #[serde(skip)]
    pub(crate) bytes: usize,
    pub(crate) memory: HostMemory,
    pub(crate) agent: Option<AgentBinding>,
    pub(crate) instance: Option<InstanceRecord>,
    pub(crate) receipts: Vec<ReceiptTruth>,
    progress: Option<ProgressTruth>,
    hardware: Option<HardwareRecord>,
}

impl HostTruth {
    pub(crate) fn state(&self) -> ProvisioningState {
        self.memory.state.word()
    }

    fn is_resumed(&self) -> bool {
        self.memory.admitted.as_ref().is_some_and(|slot| slot.resumed)
    }
}

/// What an object asks for that holds work up.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Paused now; writes of its memory since then.
    paused: Option<u32>,
    /// It was paused while it had a slot: what it holds is not counted.
    was_paused: bool,
    deletes: bool,
}

/// A step, or an answer, that was under way when the fleet was halted may still end.
const NEWS_TAKE: Duration = Duration::from_secs(1);

/// Where the appliance can die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeWrite,
    AfterWrite,
    Effect,
}

#[derive(Default)]
pub(crate) struct Laws {
    pub(crate) counts: Counts,
    pub(crate) violation: Option<Violation>,
    pub(crate) hosts: BTreeMap<String, HostTruth>,
    /// Names and uids of the host objects that exist.
    pub(crate) objects: BTreeMap<String, String>,
    /// Uids of those whose status has shown a state: these netboot as what they are.
    pub(crate) shown: BTreeSet<String>,
    /// By uid: what the objects ask for that holds all work up.
    asked: BTreeMap<String, Asked>,
    strangers: BTreeMap<String, StrangerTruth>,
    /// Every key that a boot of theirs was bound to.
    stranger_keys: BTreeSet<String>,
    /// The newest progress of each host.
    furthest: BTreeMap<String, ProgressTruth>,
    issued: BTreeMap<(String, u64, u32), PlanKind>,
    begun: BTreeSet<(String, u64, u32, usize)>,
    bound: BTreeMap<String, String>,
    ended_tokens: BTreeSet<String>,
    resets: BTreeSet<Order>,
    /// Hosts, by uid, and attempts whose machine went off after its agent had said that it leaves.
    pub(crate) went_off: BTreeSet<(String, u64)>,
    pub(crate) newest: Revision,
    /// The world's clock.
    pub(crate) now: Duration,
    /// Since when the fleet is halted, and somebody knows that it is: a write that was taken and answered badly may
    /// be noticed with the next one only.
    halted: Option<Duration>,
    /// Machines whose agent was told to hold, by the newest reply that it got.
    held: BTreeSet<usize>,
    /// GUIDs of systems that were installed after the backup that the store was restored from.
    pub(crate) newer: BTreeSet<String>,
    /// Changes of state that nobody has looked at yet.
    pub(crate) changes: Vec<(String, Edge)>,
    /// Machines that nobody owns, whose agent has just been bound.
    pub(crate) met: Vec<String>,
    /// Hosts that have just become provisioned, with the GUID of their disk.
    pub(crate) provisioned: Vec<(String, String)>,
    /// Points passed so far, and the one to die at: the n-th from the beginning, or from now of a kind.
    pub(crate) points: u64,
    pub(crate) die_at: Option<u64>,
    pub(crate) die_in: Option<(Point, u64)>,
    pub(crate) died_at: Option<Point>,
    /// Per mille of writes that the medium refuses, or answers badly after it took them.
    pub(crate) refuses: u64,
}

/// What a backup has.
#[derive(Clone)]
pub(crate) struct Past {
    hosts: BTreeMap<String, HostTruth>,
    objects: BTreeMap<String, String>,
    shown: BTreeSet<String>,
    asked: BTreeMap<String, Asked>,
    strangers: BTreeMap<String, StrangerTruth>,
    furthest: BTreeMap<String, ProgressTruth>,
}

impl Past {
    /// Systems that the store knows as installed, or as installed once.
    pub(crate) fn done(&self) -> BTreeSet<String> {
        let memories = self.hosts.values().map(|host| &host.memory);
        let of = |memory: &HostMemory| {
            let applied = memory.applied.iter().map(|applied| applied.disk_guid.clone());
            applied.chain(memory.former.iter().cloned()).collect::<Vec<_>>()
        };
        memories.flat_map(of).collect()
    }
}

impl Laws {
    pub(crate) fn past(&self) -> Past {
        Past {
            hosts: self.hosts.clone(),
            objects: self.objects.clone(),
            shown: self.shown.clone(),
            asked: self.asked.clone(),
            strangers: self.strangers.clone(),
            furthest: self.furthest.clone(),
        }
    }

    /// The store is what it was then; everything else goes on.
    pub(crate) fn go_back(&mut self, past: Past, newer: BTreeSet<String>) {
        self.hosts = past.hosts;
        self.objects = past.objects;
        self.shown = past.shown;
        self.asked = past.asked;
        self.strangers = past.strangers;
        self.furthest = past.furthest;
        self.newer = newer;
    }

    pub(crate) fn broken(&mut self, law: Law, text: String) {
        // The first one is the cause.
        self.violation.get_or_insert(Violation { law, text });
    }

    /// Passes a point where the appliance may die; true when it dies here.
    pub(crate) fn passes(&mut self, point: Point) -> bool {
        self.points += 1;
        let due = match &mut self.die_in {
            Some((kind, left)) if *kind == point => {
                *left -= 1;
                *left == 0
            }
            Some(_) | None => false,
        };
        if self.die_at != Some(self.points) && !due {
            return false;
        }
        (self.die_at, self.die_in) = (None, None);
        self.died_at = Some(point);
        self.counts.fault(match point {
            Point::BeforeWrite => Fault::KilledBeforeWrite,
            Point::AfterWrite => Fault::KilledAfterWrite,
            Point::Effect => Fault::KilledAtEffect,
        });
        true
    }

    fn stored(&mut self, event: &StoreEvent) {
        self.counts.commits += 1;
        self.newest = event.revision;
        match &*event.key.kind.resource {
            "hostjournals" => self.journal(event),
            "baremetalhosts" => self.object(event),
            "discoveredhosts" => self.stranger(event),
            "halts" => self.halt(event),
            _ => {}
        }
    }

    fn halt(&mut self, event: &StoreEvent) {
        match event.kind {
            ChangeKind::Created => self.counts.fault(Fault::Halted),
            ChangeKind::Updated => {}
            ChangeKind::Deleted => self.halted = None,
        }
    }

    /// Who halted the fleet was told that it is.
    pub(crate) fn halt_acknowledged(&mut self) {
        self.halted = Some(self.now);
    }

    /// Whether the fleet is halted for longer than the news take.
    fn is_halted(&self) -> bool {
        self.halted.is_some_and(|since| self.now.saturating_sub(since) > NEWS_TAKE)
    }

    /// An agent is answered well.
    pub(crate) fn replied(&mut self, name: &str, is_host: bool, hold: Option<&str>) {
        if is_host && hold.is_none() && self.is_halted() {
            self.broken(Law::Halted, format!("{name}: the fleet is halted, and a reply does not say so"));
        }
    }

    /// A reply came to the agent of this machine.
    pub(crate) fn told(&mut self, machine: usize, holds: bool) {
        if holds {
            self.held.insert(machine);
        } else {
            self.held.remove(&machine);
        }
    }

    pub(crate) fn goes_on(&mut self, machine: usize, touch: &Touch) {
        if self.held.contains(&machine) {
            let text = format!("host-{machine}: {} of disk {} after a reply that said hold", touch.what, touch.serial);
            self.broken(Law::Halted, text);
        }
    }

    fn object(&mut self, event: &StoreEvent) {
        let name = event.key.name.clone();
        let object = serde_json::from_slice::<ObjectTruth>(&event.value).expect("a stored host has the shape of one");
        self.asks(&object.metadata);
        match event.kind {
            ChangeKind::Created => {
                self.objects.insert(name, object.metadata.uid);
            }
            ChangeKind::Updated => {
                if object.status.provisioning.state != ProvisioningState::New {
                    self.shown.insert(object.metadata.uid);
                }
            }
            ChangeKind::Deleted => {
                self.goes(&name, &object.metadata.uid);
                self.objects.remove(&name);
                self.shown.remove(&object.metadata.uid);
                self.asked.remove(&object.metadata.uid);
            }
        }
    }

    /// An object goes from its last state, or before anything was done to a disk: its finalizer is put on with the
    /// first steps, which the store may refuse for a while.
    fn goes(&mut self, name: &str, uid: &str) {
        let state = self.hosts.get(name).filter(|host| host.uid == uid).map(HostTruth::state).unwrap_or_default();
        match state {
            ProvisioningState::Deleting => self.counts.other("deleting to (gone)"),
            ProvisioningState::New
            | ProvisioningState::Unmanaged
            | ProvisioningState::Registering
            | ProvisioningState::Inspecting
            | ProvisioningState::Preparing => {
                self.counts.other("gone before anything was done");
            }
            _ => self.broken(Law::Transition, format!("{name} is gone, and was {state}")),
        }
    }

    fn asks(&mut self, metadata: &MetaTruth) {
        let asked = self.asked.entry(metadata.uid.clone()).or_default();
        let is_paused = metadata.annotations.contains_key(annotations::PAUSED);
        if is_paused && asked.paused.is_none() {
            asked.was_paused = true;
            self.counts.other("hosts that were paused");
        }
        asked.paused = is_paused.then(|| asked.paused.unwrap_or(0));
        asked.deletes = metadata.deletion_timestamp.is_some();
        let delays = metadata.annotations.get(annotations::DETACHED).is_some_and(|value| value.contains("delay"));
        if asked.deletes && delays {
            self.counts.other("looks at deletions that wait for a detached host");
        }
    }

    /// A step that was under way when its host was paused may still end; no other one writes its memory.
    fn is_left_alone(&mut self, name: &str, before: &HostMemory, new: &HostTruth) {
        let after = &new.memory;
        if before != after
            && let Some(writes) = self.asked.get_mut(&new.uid).and_then(|asked| asked.paused.as_mut())
        {
            *writes += 1;
            if *writes > 1 {
                self.broken(Law::LeftAlone, format!("{name} is paused, and its memory is written"));
            }
        }
        let is_detached = before.detached.is_some() && after.detached.is_some();
        let is_asked = after.bmc.ticket > before.bmc.ticket || after.plan.is_some() && after.plan != before.plan;
        if is_detached && is_asked {
            self.broken(Law::LeftAlone, format!("{name} is detached, and worked on: {:?}", after.plan));
        }
        if after.detached.is_some() && before.detached.is_none() {
            self.counts.other("hosts that were detached");
        }
        if after.reboot.is_some() && before.reboot.is_none() {
            self.counts.other("reboots that were asked for");
        }
        let held = |memory: &HostMemory| memory.power.as_ref().is_some_and(|power| !power.want_on);
        if held(after) && !held(before) {
            self.counts.other("hosts that are switched off");
        }
    }

    /// Not more hosts are worked on than there are slots; those that were at work already are not held up.
    fn has_slots(&mut self, name: &str, before: &HostMemory, new: &HostTruth) {
        let after = &new.memory;
        if after.delayed.is_some() && before.delayed.is_none() {
            self.counts.other("hosts that were delayed");
        }
        let asked = self.asked.entry(new.uid.clone()).or_default();
        if after.admitted.is_none() {
            asked.was_paused = asked.paused.is_some();
        }
        let deletes = asked.deletes;
        let begins = before.admitted.is_none() && after.admitted.as_ref().is_some_and(|slot| !slot.resumed);
        if !begins {
            return;
        }
        let is_counted = |host: &&HostTruth| {
            let asked = self.asked.get(&host.uid);
            // Deletions have slots beyond the limit, and may take them between the offer and the begin of another.
            let is_extra = !deletes && asked.is_some_and(|asked| asked.deletes);
            let was_paused = asked.is_some_and(|asked| asked.was_paused);
            host.uid != new.uid && host.memory.admitted.is_some() && !was_paused && !is_extra
        };
        let busy = self.hosts.values().filter(is_counted).filter(|host| !host.is_resumed()).count();
        let most = if deletes { AT_ONCE + FOR_DELETIONS } else { AT_ONCE };
        if busy >= most {
            let others = self.hosts.iter().filter(|(_, host)| is_counted(host) && !host.is_resumed());
            let others: Vec<_> =
                others.map(|(name, host)| format!("{name} {} {:?}", host.state(), host.memory.admitted)).collect();
            self.broken(Law::Slots, format!("{name} is worked on, and {busy} others are: {}", others.join(", ")));
        }
    }

    fn stranger(&mut self, event: &StoreEvent) {
        let name = event.key.name.clone();
        if event.kind == ChangeKind::Deleted {
            self.strangers.remove(&name);
            return;
        }
        let object: MachineObjectTruth =
            serde_json::from_slice(&event.value).expect("a stored discovered host has the shape of one");
        let new = StrangerTruth { uid: object.metadata.uid, ..object.status };
        let old = self.strangers.remove(&name).filter(|old| old.uid == new.uid).and_then(|old| old.agent);
        match (&old, &new.agent) {
            (Some(was), Some(is)) if is.boot < was.boot => {
                self.broken(Law::Forward, format!("{name} went back to boot {} of {}", is.boot, was.boot));
            }
            (Some(was), Some(is)) if is.boot == was.boot && is.key != was.key => {
                self.broken(Law::Token, format!("boot {} of {name} was bound to a second key", is.boot));
            }
            (old, Some(_)) if *old != new.agent => self.met.push(name.clone()),
            (_, _) => {}
        }
        self.stranger_keys.extend(new.agent.as_ref().map(|agent| agent.key.clone()));
        self.strangers.insert(name, new);
    }

    fn journal(&mut self, event: &StoreEvent) {
        if event.kind == ChangeKind::Deleted {
            let gone = self.hosts.remove(&event.key.name);
            let lives = |host: &HostTruth| self.objects.get(&event.key.name) == Some(&host.uid);
            if gone.as_ref().is_some_and(lives) {
                self.broken(Law::Durable, format!("the journal of {} was removed, and the host lives", event.key.name));
            }
            return;
        }
        let journal: JournalTruth = match serde_json::from_slice(&event.value) {
            Ok(journal) => journal,
            Err(error) => return self.broken(Law::Forward, format!("a journal cannot be read: {error}")),
        };
        let name = journal.metadata.name;
        let uid = journal.metadata.owner_references.first().map(|owner| owner.uid.clone()).unwrap_or_default();
        let new = HostTruth { uid, bytes: event.value.len(), ..journal.status };
        let old = self.hosts.remove(&name).filter(|old| old.uid == new.uid).unwrap_or_default();
        self.compare(&name, &old, &new);
        self.hosts.insert(name, new);
    }

    /// A plan that begins names no disk that is a cluster's, as far as this boot's inspection shows.
    fn leaves_guarded(&mut self, name: &str, before: &HostMemory, new: &HostTruth) {
        let after = &new.memory;
        let is_new = (before.attempt, before.plan_number) != (after.attempt, after.plan_number);
        let Some(issued) = after.plan.as_ref().filter(|issued| is_new && issued.plan.destroys()) else { return };
        let Some(record) = new.hardware.as_ref().filter(|record| record.attempt == after.attempt) else { return };
        let was_let_go = |disk: &DiskIdentity| match &issued.plan {
            PlanKind::Write(write) => write.override_guards,
            PlanKind::Erase(erase) => erase.overridden.contains(disk),
            PlanKind::Clean { .. } | PlanKind::Inspect | PlanKind::Reboot | PlanKind::PowerOff => false,
        };
        // What this boot's plans did to it since is not in the record.
        let was_changed = |disk: &DiskIdentity| before.changed_disks.iter().any(|known| known.disk == *disk);
        let is_kept = |disk: &DiskIdentity| {
            let found = record.disks.iter().find(|found| found.serial == disk.serial);
            let contents = found.and_then(|found| found.contents.as_deref());
            contents.is_some_and(|contents| contents.findings.iter().any(|finding| finding.kind.is_of_clusters()))
        };
        let kept = issued.disks().into_iter().find(|disk| !was_let_go(disk) && !was_changed(disk) && is_kept(disk));
        if let Some(disk) = kept {
            self.broken(Law::Guarded, format!("{name}: a plan to {} {disk}, a cluster's", issued.plan.name()));
        }
    }

    fn compare(&mut self, name: &str, old: &HostTruth, new: &HostTruth) {
        let (before, after) = (&old.memory, &new.memory);
        self.is_left_alone(name, before, new);
        self.has_slots(name, before, new);
        self.leaves_guarded(name, before, new);
        let edge = (before.state.word(), after.state.word());
        if edge.0 != edge.1 {
            if !is_legal(edge.0, edge.1) {
                self.broken(Law::Transition, format!("{name} went from {} to {}", edge.0, edge.1));
            }
            *self.counts.edges.entry(edge).or_default() += 1;
            self.changes.push((name.to_owned(), edge));
        }
        let says_off = |memory: &HostMemory| {
            memory.failure.as_ref().is_some_and(|failure| failure.message.contains("the host is still off"))
        };
        if says_off(after) && !says_off(before) {
            self.counts.other("hosts that say that they stayed off");
        }
        let went_back = after.attempt < before.attempt
            || (after.attempt == before.attempt && after.plan_number < before.plan_number)
            || after.bmc.ticket < before.bmc.ticket;
        if went_back {
            self.broken(Law::Forward, format!("{name} went back to attempt {} of {}", after.attempt, before.attempt));
        }
        if let Some(plan) = &after.plan {
            let key = (new.uid.clone(), after.attempt, plan.number);
            match self.issued.get(&key) {
                Some(issued) if *issued != plan.plan => {
                    self.broken(Law::Forward, format!("plan {} of {name} changed after it was issued", plan.number));
                }
                Some(_) => {}
                None => {
                    if plan.plan.destroys() && self.is_halted() {
                        self.broken(
                            Law::Halted,
                            format!("{name} gets a plan to {} while the fleet is halted", plan.plan.name()),
                        );
                    }
                    self.issued.insert(key, plan.plan.clone());
                }
            }
        }
        if let (Some(was), Some(is)) = (&old.agent, &new.agent)
            && was.attempt == is.attempt
            && was.key != is.key
        {
            self.broken(Law::Token, format!("attempt {} of {name} was bound to a second key", is.attempt));
        }
        if old.progress != new.progress
            && let Some(progress) = &new.progress
        {
            self.progress(name, progress, new);
        }
        if matches!(before.state, HostState::Provisioning) && matches!(after.state, HostState::Provisioned) {
            self.evidence(name, before, new);
        }
        if let Some(cleaned) = after.cleaned.as_ref().filter(|_| before.cleaned != after.cleaned) {
            self.graded(name, &new.uid, cleaned);
        }
    }

    /// A machine that is not the host can show receipts, and does not go off with it.
    fn graded(&mut self, name: &str, uid: &str, cleaned: &CleanedNote) {
        if !cleaned.unverified.is_empty() {
            self.counts.other("erasures that are unverified");
        }
        if !cleaned.is_erased {
            return;
        }
        self.counts.other("erasures that are proven");
        if !self.went_off.contains(&(uid.to_owned(), cleaned.attempt)) {
            let text = format!("{name}: {} is called proven, and the machine did not go off", cleaned.text);
            self.broken(Law::Grade, text);
        }
    }

    /// A report that comes late does not undo what a later one said.
    fn progress(&mut self, name: &str, now: &ProgressTruth, host: &HostTruth) {
        let furthest = self.furthest.insert(host.uid.clone(), now.clone()).unwrap_or_default();
        let same_step = (now.attempt, now.plan, &now.step) == (furthest.attempt, furthest.plan, &furthest.step);
        let went_back = (now.attempt, now.plan) < (furthest.attempt, furthest.plan)
            || same_step && now.done_bytes < furthest.done_bytes;
        let ended = host
            .receipts
            .iter()
            .any(|receipt| (receipt.attempt, receipt.plan, &receipt.step) == (now.attempt, now.plan, &now.step));
        if went_back || ended {
            let text = format!("the progress of {name} went back: {now:?} after {furthest:?}, its end known: {ended}");
            self.broken(Law::Forward, text);
        }
    }

    fn evidence(&mut self, name: &str, before: &HostMemory, new: &HostTruth) {
        let (Some(applied), Some(plan)) = (&new.memory.applied, &before.plan) else {
            return self.broken(Law::Evidence, format!("{name} is provisioned without an image or a plan"));
        };
        let shown = |kind: &str| {
            let is_of = |receipt: &&ReceiptTruth| {
                (receipt.attempt, receipt.plan) == (applied.attempt, plan.number) && receipt.evidence.kind == kind
            };
            new.receipts.iter().rev().find(is_of).map(|receipt| &receipt.evidence)
        };
        let ready = &applied.ready;
        let serial = plan.write().map(|write| write.disk.serial.clone()).unwrap_or_default();
        let is_written = shown("image_written").is_some_and(|shown| {
            (&shown.raw_sha256, &shown.readback_sha256) == (&ready.raw_sha256, &ready.raw_sha256)
                && (shown.readback_bytes, &shown.disk_guid) == (ready.raw_bytes, &applied.disk_guid)
                && shown.disk.serial == serial
                && shown.written_bytes > 0
        });
        let is_handed_off = applied.user_data_sha256.is_none()
            || shown("files_handed_off").is_some_and(|shown| !shown.files.is_empty() && shown.disk.serial == serial);
        let is_entered = shown("boot_entry_set").is_some_and(|shown| !shown.order.is_empty());
        if !(is_written && is_handed_off && is_entered) {
            let text = format!(
                "{name} is provisioned without receipts that prove it: written {is_written}, handed off {is_handed_off}, \
                 boot entry {is_entered}: {:?}",
                shown("image_written")
            );
            self.broken(Law::Evidence, text);
        }
        self.provisioned.push((name.to_owned(), applied.disk_guid.clone()));
    }

    /// A disk was touched by an agent whose boot had this uid.
    pub(crate) fn touched(&mut self, uid: &str, machine: &str, touch: &Touch) {
        if let Some(lost) = touch.over.as_ref().filter(|guid| self.newer.contains(*guid)) {
            let text = format!(
                "{machine}: {} of disk {} over {lost}, which the store does not know",
                touch.what, touch.serial
            );
            self.broken(Law::Newer, text);
        }
        if touch.is_guarded {
            let text = format!("{machine}: {} of disk {}, which is a cluster's", touch.what, touch.serial);
            self.broken(Law::Guarded, text);
        }
        let plan = self.issued.get(&(uid.to_owned(), touch.attempt, touch.plan));
        let named = match plan {
            Some(PlanKind::Write(write)) => Some(&write.disk),
            Some(PlanKind::Clean { disk }) => Some(disk),
            Some(PlanKind::Erase(erase)) => erase.disks.get(touch.step),
            Some(PlanKind::Inspect | PlanKind::Reboot | PlanKind::PowerOff) | None => None,
        };
        match named {
            Some(disk) if disk.serial == touch.serial => {}
            Some(disk) => {
                let text =
                    format!("{machine}: {} of disk {}, but plan {} names {disk}", touch.what, touch.serial, touch.plan);
                self.broken(Law::PlannedDisk, text);
            }
            None => {
                let text = format!("{machine}: {} of disk {} without a plan that was issued", touch.what, touch.serial);
                self.broken(Law::PlannedDisk, text);
            }
        }
        if touch.first && !self.begun.insert((uid.to_owned(), touch.attempt, touch.plan, touch.step)) {
            let text = format!(
                "{machine}: step {} of plan {} of attempt {} began twice",
                touch.step, touch.plan, touch.attempt
            );
            self.broken(Law::Once, text);
        }
    }

    /// An agent's hello was answered well.
    pub(crate) fn greeted(&mut self, token: &str, key: &str, boot: &str) {
        if let Some(first) = self.bound.get(token)
            && first != key
        {
            let text = format!("{boot}: a token that was bound to {first} was taken by {key} too");
            return self.broken(Law::Token, text);
        }
        self.bound.insert(token.to_owned(), key.to_owned());
        let of_host = self.hosts.values().any(|host| host.agent.as_ref().is_some_and(|agent| agent.key == key));
        // The next boot of a machine may have been bound since.
        let of_stranger = self.stranger_keys.contains(key);
        if !of_host && !of_stranger {
            self.broken(Law::Durable, format!("{boot}: a hello was answered and its binding is not on disk"));
        }
    }

    /// A report was answered well: its receipts are on disk, and those that the answer names.
    pub(crate) fn reported(
        &mut self,
        uid: &str,
        attempt: u64,
        report: &firesteel_wire::AgentReport,
        stored: &[firesteel_wire::ReceiptPlace],
    ) {
        let Some(host) = self.hosts.values().find(|host| host.uid == uid) else { return };
        let kept = |receipt: &firesteel_wire::StepReceipt| {
            let key = (attempt, receipt.plan, receipt.index);
            host.receipts.iter().any(|kept| (kept.attempt, kept.plan, kept.index) == key)
        };
        if let Some(lost) = report.receipts.iter().find(|receipt| !kept(receipt)) {
            let text = format!(
                "a report of {uid} was answered and its receipt of {} (attempt {attempt}, plan {}) is not on disk: {:?}",
                lost.step, lost.plan, host.receipts,
            );
            return self.broken(Law::Durable, text);
        }
        let is_there = |place: &firesteel_wire::ReceiptPlace| {
            let key = (attempt, place.plan, place.index);
            host.receipts.iter().any(|kept| (kept.attempt, kept.plan, kept.index) == key)
        };
        if let Some(lost) = stored.iter().find(|place| !is_there(place)) {
            let text = format!(
                "{uid} (attempt {attempt}) need not bring the receipt of plan {} and step {} again, which is not on \
                 disk: {:?}",
                lost.plan, lost.index, host.receipts,
            );
            return self.broken(Law::Durable, text);
        }
        let left = host.agent.as_ref().is_none_or(|agent| agent.attempt != attempt || agent.left);
        if report.leaving && !left {
            self.broken(Law::Durable, "a good-bye was answered and is not on disk".to_owned());
        }
    }

    pub(crate) fn config_given(&mut self, uid: &str, token: &str) {
        if self.ended_tokens.contains(token) {
            self.broken(Law::Config, "a config was given for a token that *running* had ended".to_owned());
        }
        let noted =
            self.hosts.values().find(|host| host.uid == uid).is_some_and(|host| {
                host.instance.as_ref().is_some_and(|instance| instance.config_fetched_at.is_some())
            });
        if !noted {
            self.broken(Law::Durable, "a config was given and that is not on disk".to_owned());
        }
    }

    pub(crate) fn runs(&mut self, uid: &str, token: &str) {
        self.ended_tokens.insert(token.to_owned());
        let noted = self
            .hosts
            .values()
            .find(|host| host.uid == uid)
            .is_none_or(|host| host.instance.as_ref().is_some_and(|instance| instance.running_at.is_some()));
        if !noted {
            self.broken(Law::Durable, "a report of an OS was answered and is not on disk".to_owned());
        }
    }

    /// What the host's journal awaits of its BMC, when this life of the appliance turns to it.
    pub(crate) fn order(&self, life: u64, name: &str) -> Option<Order> {
        let host = self.hosts.get(name)?;
        let call = host.memory.bmc.call.as_ref()?;
        Some(Order { life, uid: host.uid.clone(), ticket: call.call.ticket })
    }

    /// A BMC took a reset that belongs to this order.
    pub(crate) fn reset(&mut self, name: &str, order: &Order) {
        if !self.resets.insert(order.clone()) {
            self.broken(Law::Power, format!("{name}: ticket {} reset the host twice", order.ticket));
        }
    }
}

/// An order to a BMC. One life of the appliance gives it once; the next may give it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    life: u64,
    uid: String,
    ticket: u64,
}

/// The store's medium, as the laws see it.
pub(crate) struct Medium {
    pub(crate) laws: Arc<Mutex<Laws>>,
    pub(crate) executor: Executor,
    pub(crate) random: Mutex<Random>,
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Medium")
    }
}

impl Medium {
    /// Dies here, or goes on.
    fn pass(&self, point: Point) -> bool {
        let dies = lock(&self.laws).passes(point);
        if dies {
            self.executor.halt();
        }
        dies
    }
}

impl StoreFaults for Medium {
    fn before_read(&self) -> Wait<()> {
        self.executor.yield_sometimes()
    }

    fn before_commit(&self, _: &Op) -> Wait<InjectedOutcome> {
        if self.pass(Point::BeforeWrite) {
            return Box::pin(std::future::pending());
        }
        let refuses = lock(&self.laws).refuses;
        let fate = {
            let mut random = lock(&self.random);
            match () {
                () if refuses > 0 && random.chance(refuses) => InjectedOutcome::Refused,
                () if refuses > 0 && random.chance(refuses) => InjectedOutcome::StoredUnheard,
                () => InjectedOutcome::Stored,
            }
        };
        match fate {
            InjectedOutcome::Refused => lock(&self.laws).counts.fault(Fault::WriteRefused),
            InjectedOutcome::StoredUnheard => lock(&self.laws).counts.fault(Fault::WriteUnheard),
            InjectedOutcome::Stored => {}
        }
        let yields = self.executor.yield_sometimes();
        Box::pin(async move {
            yields.await;
            fate
        })
    }

    fn after_commit(&self, event: &StoreEvent) -> Wait<()> {
        let changed = {
            let mut laws = lock(&self.laws);
            laws.stored(event);
            !laws.changes.is_empty()
        };
        if changed {
            // Somebody may see the new state before anything else happens.
            self.executor.pause();
        }
        if self.pass(Point::AfterWrite) {
            return Box::pin(std::future::pending());
        }
        self.executor.yield_sometimes()
    }
}
