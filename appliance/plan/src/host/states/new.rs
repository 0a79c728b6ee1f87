//! New: the object has just appeared. It gets its identity and its first attempt, so that a host that
//! boots from now on is known.

use firesteel_facts::EventReason;

use crate::host::model::HostState;
use crate::host::turn::{StateStep, StepDraft};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    if turn.memory.id.is_empty() {
        turn.memory.id = turn.guid();
    }
    if turn.memory.attempt == 0 {
        turn.open_attempt();
    }
    if turn.has_bmc() {
        return Ok(turn.go(HostState::Registering, "BMC details are given"));
    }
    turn.event(EventReason::Discovered, "the host has no BMC details");
    Ok(turn.go(HostState::Unmanaged, "there are no BMC details"))
}
