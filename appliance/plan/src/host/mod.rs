//! One host: where it is and what comes next.
//!
//! [`step`] is the only thing that moves a host. It looks at [`HostInputs`], changes a copy of the
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
#[cfg(test)]
mod sample;
mod states;
mod turn;

pub use model::*;
pub use output::boot::{HostBootEntry, boot_entry, current_plan};
pub use output::conditions::NETWORK_BOOT;
pub use output::project::{DAMAGED, project};
pub use output::{host_counts, preview, progress_outlook, transitions};
pub use rules::guards::{is_named, objections};
pub use rules::identity;
pub use rules::vacancy::{own_names, was_vacant};
pub use rules::wrong_boot_mac;
pub use turn::{agent_liveness::live_until, contest::contest, gate, hardware_changes::contents_lines, slot::standing};

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::{FINALIZER, annotations};
use firesteel_resources::host_journal::RequestOutcome;
use firesteel_resources::normal_mac;
use jiff::Timestamp;

use crate::disk::NextOwner;
use crate::host::rules::{
    adopt_status, boot_hint, claimants, cleaning, consumer_data, deletion, detached, erasure_end, erasure_grade,
    freeze, guards, owner_hardware, path_binding, power_cut, reboot, retry, tombstone, vacancy,
};
use crate::host::states::{
    available, deleting, deprovisioning, externally_provisioned, inspecting, new, powering_off, preparing, provisioned,
    provisioning, registering, unmanaged,
};
use crate::host::turn::{StepDraft, hardware_changes, slot};

/// What the host needs next. Deterministic: the same input gives the same step.
#[must_use]
pub fn step(seen: &HostInputs, now: Timestamp) -> HostStep {
    let mut turn = StepDraft::new(seen, now);
    let reason = decide(&mut turn);
    if turn.requests.paused.is_none() {
        slot::release_slot(&mut turn);
        boot_hint::notice(&mut turn);
    }
    turn.finish(reason)
}

fn decide(turn: &mut StepDraft<'_>) -> HostReason {
    if let Some(who) = turn.requests.paused.clone() {
        let who = if who.is_empty() { String::new() } else { format!(" by {who}") };
        let key = annotations::PAUSED;
        return turn.rest(format!("paused{who}: nothing happens until the annotation {key} is removed"));
    }
    freeze::notice(turn);
    if let Some(reason) = adopt_status::step(turn) {
        return reason;
    }
    keep_finalizer(turn);
    tombstone::notice(turn);
    path_binding::notice(turn);
    owner_hardware::take(turn);
    learn_macs(turn);
    power_cut::notice(turn);
    if let Some(reason) = apply_requests(turn) {
        return reason;
    }
    guards::drop_taken(turn);
    guards::retry_overridden(turn);
    freeze::check_disk_marks(turn);
    notice_owner(turn);
    hardware_changes::acknowledge_changes(&mut turn.memory, turn.seen.hardware.as_ref());
    let asked_to_go = turn.seen.host.metadata.is_deleting();
    if turn.requests.release_force && asked_to_go && turn.memory.state != HostState::Deleting {
        let text = "released by force: the disk is not cleaned";
        detached::stop_work(turn, text);
        return turn.go(HostState::Deleting, text);
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
    let (Ok(reason) | Err(reason)) = match turn.memory.state {
        HostState::New => new::step(turn),
        HostState::Unmanaged => unmanaged::step(turn),
        HostState::Registering => registering::step(turn),
        HostState::Inspecting => inspecting::step(turn),
        HostState::Preparing => preparing::step(turn),
        HostState::Available => available::step(turn),
        HostState::Provisioning => provisioning::step(turn),
        HostState::Provisioned => provisioned::step(turn),
        HostState::ExternallyProvisioned => externally_provisioned::step(turn),
        HostState::Deprovisioning => deprovisioning::step(turn),
        HostState::PoweringOff => powering_off::step(turn),
        HostState::Deleting => deleting::step(turn),
    };
    reason
}

/// Takes note of what the host's owner wants of it: a lock, its deletion, and who uses it.
fn notice_owner(turn: &mut StepDraft<'_>) {
    gate::notice(turn);
    deletion::acknowledge(turn);
    consumer_data::notice(turn);
    vacancy::notice(turn);
}

/// Takes over what people say that fixed or decided something.
fn apply_requests(turn: &mut StepDraft<'_>) -> Option<HostReason> {
    claimants::notice(turn);
    retry::take(turn);
    accept_identity(turn);
    erasure_end::accept(turn);
    erasure_grade::notice(turn);
    claimants::decide_by_person(turn)
}

/// The object stays until the host was let go: without its finalizer a deletion would leave the disk as it is. The
/// effect of the first step may have been lost with the process, and a client that replaces the object may leave
/// it out.
fn keep_finalizer(turn: &mut StepDraft<'_>) {
    let metadata = &turn.seen.host.metadata;
    if !metadata.is_deleting() && !metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        turn.effect(HostEffect::AddFinalizer);
    }
}

/// The way out of each state when deletion was asked for; `None` on the way out already.
fn leave(turn: &mut StepDraft<'_>) -> Option<HostReason> {
    let text = "deletion was asked for";
    match turn.memory.state {
        HostState::New | HostState::Unmanaged | HostState::Registering => Some(turn.go(HostState::Deleting, text)),
        // What is due is erased first.
        HostState::Preparing | HostState::Available
            if !turn.seen.host.spec.externally_provisioned && consumer_data::next_owner(turn) == NextOwner::Another =>
        {
            None
        }
        HostState::Inspecting | HostState::Preparing | HostState::Available | HostState::ExternallyProvisioned => {
            // What is erased for the next host of this owner is not erased any more.
            cleaning::stop(turn, text).err().or_else(|| Some(turn.go(HostState::PoweringOff, text)))
        }
        HostState::Provisioned if gate::lock(&turn.seen.host.metadata).is_some() => gate::wait_while_locked(turn).err(),
        HostState::Provisioning | HostState::Provisioned => {
            let (Ok(reason) | Err(reason)) = deprovisioning::enter(turn, text);
            Some(reason)
        }
        HostState::Deprovisioning | HostState::PoweringOff | HostState::Deleting => None,
    }
}

/// Accepts the machine that was refused as the host, by the word of a person: its board or its firmware was changed.
fn accept_identity(turn: &mut StepDraft<'_>) {
    let Some(mark) = turn.take_request(annotations::ACCEPT_IDENTITY) else { return };
    match turn.seen.refused_identity.as_ref().filter(|refused| refused.mark() == mark) {
        Some(refused) => {
            let seen = turn.seen;
            let before = identity::known(turn.memory.identity.as_ref(), seen.hardware.as_ref(), seen.claim.as_ref());
            let now = KnownIdentity::of(&refused.uuid, &refused.serial, turn.now);
            let text = format!("the host is known with {now} from now on, and was with {before}");
            turn.memory.identity = Some(now);
            turn.answer(annotations::ACCEPT_IDENTITY, RequestOutcome::Done, &text);
            turn.event(EventReason::IdentityAccepted, text);
        }
        None => {
            let text =
                format!("no machine was refused with {mark:?}: `firesteel accept-identity` accepts the one that was");
            turn.answer(annotations::ACCEPT_IDENTITY, RequestOutcome::Refused, &text);
            turn.warn(EventReason::IdentityNotAccepted, text);
        }
    }
}

/// The MACs that boot entries are published for: the spec's, or else the only one the BMC names.
fn learn_macs(turn: &mut StepDraft<'_>) {
    let seen = turn.seen;
    let learnt = match (seen.host.spec.boot_mac(), seen.bmc.macs.as_slice()) {
        (Some(mac), _) => vec![mac],
        (None, [only]) => normal_mac(only).into_iter().collect(),
        (None, _) => return,
    };
    turn.memory.macs = learnt;
}
