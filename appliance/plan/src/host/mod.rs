//! One host: where it is and what comes next.
//!
//! [`step`] is the only thing that moves a host. It looks at [`Seen`], changes a copy of the
//! [`HostMemory`] by at most one state, and returns the copy with effects, a wake-up time and the
//! reason. States have upstream's names; each has a file of its own.
//!
//! ```text
//!  new -> unmanaged -> registering -> inspecting -> preparing -> available <-> provisioning
//!                          |                                      |   ^            |   |
//!                          v                                      |   |            |   v
//!                 externally provisioned <------------------------'   '-- deprovisioning <- provisioned
//!                                                                             |
//!                     (deletion, from anywhere)      powering off before delete -> deleting
//! ```
//!
//! Nothing here knows the agent's protocol, the BMC's, the store or HTTP.

mod model;
mod output;
mod rules;
mod states;
mod turn;

pub use model::{
    claims::Claimants,
    effect::{Effect, Event, EventKind, Reason, Step},
    erasure::{Wipe, WipeVerdict},
    known_identity::{KnownIdentity, usable_uuid},
    limits::Limits,
    memory::{
        HostMemory, State,
        disks::{
            Applied, ChangedDisk, CleanedNote, DiskPlan, Frozen, FrozenWhy, GivenUp, Refused, Restored, Uncleaned,
        },
        work::{Admitted, Failure, Held, IssuedPlan, OrderedOverride},
    },
    orders::{BmcAction, BmcCall, ErasePlan, PlanKind, ReadyImage, WritePlan},
    power_cut::CleanBoot,
    seen::{
        AgentSeen, BmcFault, BmcFaultKind, BmcOutcome, BmcSeen, ClaimHeard, CredentialsSeen, Halt, HealthSeen,
        ImageSeen, InstanceSeen, LineageSeen, NetbootSeen, NetworkDataSeen, Power, Seen, SharedUuid, UserDataSeen,
        Work,
    },
};
pub use output::{
    boot::{BootEntry, boot_entry, current_plan},
    counted, graph, outlook, preview,
    project::{DAMAGED, project},
};
pub use rules::{
    guards::{is_named, objections},
    identity,
    vacancy::{own_names, was_vacant},
};
pub use turn::{changed::contents_lines, contest::contest, gate, live::live_until, slot::standing};

use firesteel_facts::EventReason;
use firesteel_resources::{
    bare_metal_host::{FINALIZER, annotations},
    normal_mac,
};
use jiff::Timestamp;

use crate::{
    disk::NextOwner,
    host::{
        rules::{
            checks, claimants, cleaning, cut, detached, guards, moved, paths, reboot, restored, supplied, tenancy,
            tombstone, vacancy, verdict, wiped,
        },
        states::{
            available, deleting, deprovisioning, externally_provisioned, inspecting, new, powering_off, preparing,
            provisioned, provisioning, registering, unmanaged,
        },
        turn::{Turn, attempt, changed, slot},
    },
};

/// What the host needs next. Deterministic: the same input gives the same step.
#[must_use]
pub fn step(seen: &Seen, now: Timestamp) -> Step {
    let mut turn = Turn::new(seen, now);
    let reason = decide(&mut turn);
    if turn.requests.paused.is_none() {
        slot::tidy(&mut turn);
    }
    turn.finish(reason)
}

fn decide(turn: &mut Turn<'_>) -> Reason {
    if let Some(who) = turn.requests.paused.clone() {
        let who = if who.is_empty() { String::new() } else { format!(" by {who}") };
        let key = annotations::PAUSED;
        return turn.rest(format!("paused{who}: nothing happens until the annotation {key} is removed"));
    }
    restored::notice(turn);
    if let Some(reason) = moved::step(turn) {
        return reason;
    }
    keep_finalizer(turn);
    tombstone::notice(turn);
    paths::notice(turn);
    supplied::take(turn);
    learn_macs(turn);
    cut::notice(turn);
    if let Some(reason) = heed_people(turn) {
        return reason;
    }
    guards::drop_taken(turn);
    guards::heed(turn);
    restored::look(turn);
    gate::notice(turn);
    tenancy::notice(turn);
    vacancy::notice(turn);
    changed::settle(&mut turn.memory, turn.seen.hardware.as_ref());
    let asked_to_go = turn.seen.host.metadata.is_deleting();
    if turn.requests.release_force && asked_to_go && turn.memory.state != State::Deleting {
        let text = "released by force: the disk is not cleaned";
        detached::stop_work(turn, text);
        return turn.go(State::Deleting, text);
    }
    if let Some(reason) = detached::step(turn) {
        return reason;
    }
    if turn.is_deleting()
        && let Some(reason) = leave(turn)
    {
        return reason;
    }
    if let Some(reason) = claimants::step(turn) {
        return reason;
    }
    reboot::without_os(turn);
    match turn.memory.state {
        State::New => new::step(turn),
        State::Unmanaged => unmanaged::step(turn),
        State::Registering => registering::step(turn),
        State::Inspecting => inspecting::step(turn),
        State::Preparing => preparing::step(turn),
        State::Available => available::step(turn),
        State::Provisioning => provisioning::step(turn),
        State::Provisioned => provisioned::step(turn),
        State::ExternallyProvisioned => externally_provisioned::step(turn),
        State::Deprovisioning => deprovisioning::step(turn),
        State::PoweringOff => powering_off::step(turn),
        State::Deleting => deleting::step(turn),
    }
}

/// Takes over what people say that fixed or decided something.
fn heed_people(turn: &mut Turn<'_>) -> Option<Reason> {
    claimants::notice(turn);
    retry(turn);
    accept_identity(turn);
    wiped::accept(turn);
    verdict::notice(turn);
    claimants::settle(turn)
}

/// The object stays until the host was let go: without its finalizer a deletion would leave the disk as it is. The
/// effect of the first step may have been lost with the process, and a client that replaces the object may leave
/// it out.
fn keep_finalizer(turn: &mut Turn<'_>) {
    let metadata = &turn.seen.host.metadata;
    if !metadata.is_deleting() && !metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        turn.effect(Effect::AddFinalizer);
    }
}

/// The way out of each state when deletion was asked for; `None` on the way out already.
fn leave(turn: &mut Turn<'_>) -> Option<Reason> {
    let text = "deletion was asked for";
    match turn.memory.state {
        State::New | State::Unmanaged | State::Registering => Some(turn.go(State::Deleting, text)),
        // What is due is erased first.
        State::Preparing
            if !turn.seen.host.spec.externally_provisioned && tenancy::next_owner(turn) == NextOwner::Another =>
        {
            None
        }
        State::Available
            if !turn.seen.host.spec.externally_provisioned && tenancy::next_owner(turn) == NextOwner::Another =>
        {
            None
        }
        State::Inspecting | State::Preparing | State::Available | State::ExternallyProvisioned => {
            // What is erased for the next host of this owner is not erased any more.
            cleaning::stop(turn, text).err().or_else(|| Some(turn.go(State::PoweringOff, text)))
        }
        State::Provisioned if gate::lock(&turn.seen.host.metadata).is_some() => gate::is_unlocked(turn).err(),
        State::Provisioning | State::Provisioned => Some(deprovisioning::enter(turn, text)),
        State::Deprovisioning | State::PoweringOff | State::Deleting => None,
    }
}

/// A person says that the machine that was refused is the host: its board or its firmware was changed.
fn accept_identity(turn: &mut Turn<'_>) {
    let Some(mark) = turn.requests.accept_identity.clone() else { return };
    turn.effect(Effect::RemoveAnnotation { key: annotations::ACCEPT_IDENTITY.to_owned() });
    match turn.seen.refused_identity.as_ref().filter(|refused| refused.mark() == mark) {
        Some(refused) => {
            let seen = turn.seen;
            let before = identity::known(turn.memory.identity.as_ref(), seen.hardware.as_ref(), seen.claim.as_ref());
            let now = KnownIdentity::of(&refused.uuid, &refused.serial, turn.now);
            let text = format!("the host is known with {now} from now on, and was with {before}");
            turn.memory.identity = Some(now);
            turn.event(EventKind::Normal, EventReason::IdentityAccepted, text);
        }
        None => turn.event(
            EventKind::Warning,
            EventReason::IdentityNotAccepted,
            format!("no machine was refused with {mark:?}: `firesteel accept-identity` accepts the one that was"),
        ),
    }
}

/// A person fixed something that no observation shows.
fn retry(turn: &mut Turn<'_>) {
    if !turn.requests.retry {
        return;
    }
    paths::ask(turn);
    claimants::retry(turn);
    turn.memory.failure = None;
    turn.memory.provision_failures = 0;
    turn.memory.retried_at = Some(turn.now);
    // An inspection that is done already is not the one that is wanted now.
    turn.memory.plan = turn.memory.plan.take().filter(|issued| issued.plan != PlanKind::Inspect);
    turn.memory.bmc.refused_credentials = None;
    checks::fetch_again(turn);
    if attempt::presence(turn) != attempt::Presence::Alive && turn.has_bmc() {
        turn.memory.boot = None;
        turn.memory.clean_boot = None;
    }
    turn.effect(Effect::RemoveAnnotation { key: annotations::RETRY.to_owned() });
}

/// The MACs that boot entries are published for: the spec's, or else the only one the BMC names.
fn learn_macs(turn: &mut Turn<'_>) {
    let seen = turn.seen;
    let learnt = match (seen.host.spec.boot_mac(), seen.bmc.macs.as_slice()) {
        (Some(mac), _) => vec![mac],
        (None, [only]) => normal_mac(only).into_iter().collect(),
        (None, _) => return,
    };
    turn.memory.macs = learnt;
}
