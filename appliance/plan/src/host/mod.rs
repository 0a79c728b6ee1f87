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

mod attempt;
mod available;
mod bmc;
mod boot;
mod checks;
mod deleting;
mod deprovisioning;
pub mod effect;
mod externally_provisioned;
pub mod graph;
mod inspecting;
pub mod limits;
pub mod memory;
mod new;
mod power;
mod powering_off;
mod preparing;
mod project;
mod provisioned;
mod provisioning;
mod registering;
mod restored;
pub mod seen;
mod turn;
mod unmanaged;

pub use boot::{BootEntry, boot_entry, current_plan};
pub use effect::{BmcAction, BmcCall, Effect, Event, EventKind, PlanKind, Reason, Step, WritePlan};
use firesteel_resources::{
    bare_metal_host::{annotations, annotations::DeleteAction},
    meta::normal_mac,
};
use jiff::Timestamp;
pub use limits::Limits;
pub use memory::{Applied, DiskPlan, Failure, Frozen, FrozenWhy, GivenUp, HostMemory, IssuedPlan, Restored, State};
pub use project::project;
pub use seen::{
    AgentSeen, BmcFault, BmcFaultKind, BmcOutcome, BmcSeen, CredentialsSeen, ImageSeen, InstanceSeen, LineageSeen,
    Power, ReadyImage, Seen, UserDataSeen, Work, WriteEvidence,
};
use turn::Turn;

/// What the host needs next. Deterministic: the same input gives the same step.
#[must_use]
pub fn step(seen: &Seen, now: Timestamp) -> Step {
    let mut turn = Turn::new(seen, now);
    let reason = decide(&mut turn);
    turn.finish(reason)
}

fn decide(turn: &mut Turn<'_>) -> Reason {
    if let Some(who) = turn.requests.paused.clone() {
        let who = if who.is_empty() { String::new() } else { format!(" by {who}") };
        let key = annotations::PAUSED;
        return turn.rest(format!("paused{who}: nothing happens until the annotation {key} is removed"));
    }
    restored::notice(turn);
    learn_macs(turn);
    retry(turn);
    restored::look(turn);
    if turn.requests.release_force && turn.is_deleting() && turn.memory.state != State::Deleting {
        return turn.go(State::Deleting, "released by force: the disk is not cleaned");
    }
    if let Some(reason) = detached(turn) {
        return reason;
    }
    if turn.is_deleting()
        && let Some(reason) = leave(turn)
    {
        return reason;
    }
    match turn.memory.state.clone() {
        State::New => new::step(turn),
        State::Unmanaged => unmanaged::step(turn),
        State::Registering => registering::step(turn),
        State::Inspecting => inspecting::step(turn),
        State::Preparing => preparing::step(turn),
        State::Available => available::step(turn),
        State::Provisioning => provisioning::step(turn),
        State::Provisioned { reboot } => provisioned::step(turn, reboot),
        State::ExternallyProvisioned => externally_provisioned::step(turn),
        State::Deprovisioning => deprovisioning::step(turn),
        State::PoweringOff => powering_off::step(turn),
        State::Deleting => deleting::step(turn),
    }
}

/// The way out of each state when deletion was asked for; `None` on the way out already.
fn leave(turn: &mut Turn<'_>) -> Option<Reason> {
    let text = "deletion was asked for";
    match turn.memory.state {
        State::New | State::Unmanaged | State::Registering => Some(turn.go(State::Deleting, text)),
        State::Inspecting | State::Preparing | State::Available | State::ExternallyProvisioned => {
            Some(turn.go(State::PoweringOff, text))
        }
        State::Provisioning | State::Provisioned { .. } => Some(deprovisioning::enter(turn, text)),
        State::Deprovisioning | State::PoweringOff | State::Deleting => None,
    }
}

/// A detached host is let alone. States in which work is under way refuse, unless forced.
fn detached(turn: &mut Turn<'_>) -> Option<Reason> {
    let detached = turn.requests.detached?;
    let rests =
        matches!(turn.memory.state, State::Provisioned { .. } | State::ExternallyProvisioned | State::Available);
    if !rests && !detached.force || turn.memory.state == State::Deleting {
        return None;
    }
    if !turn.is_deleting() {
        let poll = turn.limits().slow_poll;
        return Some(turn.stay(poll, "detached: the host is let alone"));
    }
    Some(match detached.delete_action {
        DeleteAction::Delay => turn.rest("detached: deletion waits until the host is attached again"),
        DeleteAction::Delete => turn.go(State::Deleting, "deleted while detached: the host keeps what it runs"),
    })
}

/// A person fixed something that no observation shows.
fn retry(turn: &mut Turn<'_>) {
    if !turn.requests.retry {
        return;
    }
    turn.memory.failure = None;
    turn.memory.provision_failures = 0;
    turn.memory.retried_at = Some(turn.now);
    // An inspection that is done already is not the one that is wanted now.
    turn.memory.plan = turn.memory.plan.take().filter(|issued| issued.plan != PlanKind::Inspect);
    checks::fetch_again(turn);
    if attempt::presence(turn) != attempt::Presence::Alive && turn.has_bmc() {
        turn.memory.boot = None;
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
