//! Detached: the owner takes the host out of Firesteel's hands for a while. Its state stays, nothing is done
//! to it, and a deletion lets go of the object alone.
//!
//! | annotation | available, provisioned, externally provisioned | other states |
//! |---|---|---|
//! | present | detached at once | the work under way ends first |
//! | `"force": true` | detached at once | the agent is told to stop at its next safe point |
//! | deletion, `deleteAction` absent or `delete` | the object goes, the host keeps what it runs | the same (upstream) |
//! | deletion, `"deleteAction": "delay"` | waits until the annotation is removed | goes on as if nobody had deleted it |
//!
//! A disk on which no whole installation is leaves its tombstone also then: nobody keeps an OS there.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::annotations::DeleteAction;

use crate::host::{
    model::{
        effect::{Effect, EventKind, Reason},
        memory::{HostMemory, State},
    },
    turn::{
        Turn,
        attempt::{self, Presence},
    },
};

/// What a detached host waits with, if it is one.
pub(crate) fn step(turn: &mut Turn<'_>) -> Option<Reason> {
    if turn.memory.state == State::Deleting {
        return None;
    }
    let Some(detached) = turn.requests.detached else {
        attach(turn);
        return None;
    };
    let asked_to_go = turn.seen.host.metadata.is_deleting();
    if asked_to_go && detached.delete_action == DeleteAction::Delete {
        return Some(let_go(turn));
    }
    if turn.memory.detached.is_none() && !rests(&turn.memory) && !detached.force {
        return None;
    }
    if turn.memory.detached.is_none() {
        stop_work(turn, "the host was detached by force");
        turn.memory.detached = Some(turn.now);
        turn.event(EventKind::Normal, EventReason::Detached, "the host is let alone");
    }
    if asked_to_go {
        return Some(turn.rest("detached: deletion waits until the host is attached again"));
    }
    let poll = turn.limits().slow_poll;
    Some(turn.stay(poll, "detached: the host is let alone"))
}

/// States in which no work of ours is under way.
pub(crate) fn rests(memory: &HostMemory) -> bool {
    matches!(memory.state, State::Provisioned | State::ExternallyProvisioned | State::Available)
}

/// What was known of the BMC before may be another one's word: it is asked anew (upstream registers again).
fn attach(turn: &mut Turn<'_>) {
    if turn.memory.detached.take().is_some() {
        turn.memory.bmc.good_credentials = None;
        turn.event(EventKind::Normal, EventReason::Attached, "the host is managed again");
    }
}

fn let_go(turn: &mut Turn<'_>) -> Reason {
    stop_work(turn, "the host was deleted while detached");
    if matches!(turn.memory.state, State::Provisioning | State::Deprovisioning) {
        // Half a disk, or half of one cleaned, is nobody's installation.
        turn.memory.applied = None;
    }
    let now = turn.now;
    turn.memory.detached.get_or_insert(now);
    turn.go(State::Deleting, "deleted while detached: the host keeps what it runs")
}

/// Nobody works on the host from here on. An agent that may be at work stops where that is safe; the
/// number of its boot is spent, so that it is known to be old.
pub(crate) fn stop_work(turn: &mut Turn<'_>, why: &str) {
    turn.memory.power = None;
    turn.memory.reboot = None;
    turn.memory.boot = None;
    turn.memory.bmc.call = None;
    // What runs on the host meanwhile is its owner's affair: no boot and no erasure before it says anything of it.
    turn.memory.clean_boot = None;
    turn.memory.wipe = None;
    turn.memory.opened = !turn.has_bmc();
    if rests(&turn.memory) {
        return;
    }
    match attempt::presence(turn) {
        Presence::Alive | Presence::Quiet => {
            turn.effect(Effect::AbortAgent { attempt: turn.memory.attempt, reason: why.to_owned() });
            attempt::open(turn);
        }
        Presence::Gone => attempt::open(turn),
        Presence::Absent => turn.memory.plan = None,
    }
}
