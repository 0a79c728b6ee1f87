//! Detached: the owner takes the host out of Firesteel's hands for a while. Its state stays, nothing is done
//! to it, and a deletion lets go of the object alone.
//!
//! | annotation | available, provisioned, externally provisioned | other states |
//! |---|---|---|
//! | present | detached at once | the work under way ends first |
//! | `"force": true` | detached at once | the agent stops at its next safe point |
//! | deletion, `deleteAction` absent or `delete` | the object goes, the host keeps what it runs | the same (upstream) |
//! | deletion, `"deleteAction": "delay"` | waits until the annotation is removed | goes on as if it was not deleted |
//!
//! A disk without a whole installation leaves its tombstone then, too: there is no OS to keep.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::annotations::DeleteAction;

use crate::host::model::{HostMemory, HostReason, HostState};
use crate::host::turn::{AgentPresence, StepDraft};

/// What a detached host waits with, if it is one.
pub(crate) fn step(turn: &mut StepDraft<'_>) -> Option<HostReason> {
    if turn.memory.state == HostState::Deleting {
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
        turn.event(EventReason::Detached, "the host is let alone");
    }
    if asked_to_go {
        return Some(turn.rest("detached: deletion waits until the host is attached again"));
    }
    let poll = turn.limits().slow_poll;
    Some(turn.wait_in_state(poll, "detached: the host is let alone"))
}

/// States in which no work of ours is under way.
pub(crate) fn rests(memory: &HostMemory) -> bool {
    matches!(memory.state, HostState::Provisioned | HostState::ExternallyProvisioned | HostState::Available)
}

/// Attaches the host again. The BMC may be another one by now, so it is asked again (upstream registers again).
fn attach(turn: &mut StepDraft<'_>) {
    if turn.memory.detached.take().is_some() {
        turn.memory.bmc.good_credentials = None;
        turn.event(EventReason::Attached, "the host is managed again");
    }
}

fn let_go(turn: &mut StepDraft<'_>) -> HostReason {
    stop_work(turn, "the host was deleted while detached");
    if matches!(turn.memory.state, HostState::Provisioning | HostState::Deprovisioning) {
        // Half a disk, or half of one cleaned, is no installation.
        turn.memory.applied = None;
    }
    let now = turn.now;
    turn.memory.detached.get_or_insert(now);
    turn.go(HostState::Deleting, "deleted while detached: the host keeps what it runs")
}

/// Ends all work on the host. An agent that may be at work stops where that is safe; the
/// number of its boot is spent, so that it is known to be old.
pub(crate) fn stop_work(turn: &mut StepDraft<'_>, why: &str) {
    turn.memory.power = None;
    turn.drop_reboot("it is detached");
    turn.memory.boot = None;
    turn.memory.bmc.call = None;
    // What runs on the host meanwhile is its owner's affair: no boot and no erasure before it says anything of it.
    turn.memory.clean_boot = None;
    turn.memory.wipe = None;
    turn.memory.opened = !turn.has_bmc();
    if rests(&turn.memory) {
        return;
    }
    match turn.presence() {
        AgentPresence::Alive | AgentPresence::Quiet => {
            turn.abort_agent(why.to_owned());
            turn.open_attempt();
        }
        AgentPresence::Gone => turn.open_attempt(),
        AgentPresence::Absent => turn.memory.plan = None,
    }
}
