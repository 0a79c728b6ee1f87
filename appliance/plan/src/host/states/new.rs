//! New: the object has just appeared. It gets its identity and its first attempt, so that a host that
//! boots from now on is known.

use firesteel_facts::EventReason;

use crate::host::{
    model::{
        effect::{EventSeverity, HostReason},
        memory::HostState,
    },
    turn::{StepDraft, attempt},
};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> HostReason {
    if turn.memory.id.is_empty() {
        turn.memory.id = turn.guid();
    }
    if turn.memory.attempt == 0 {
        attempt::open(turn);
    }
    if turn.has_bmc() {
        return turn.go(HostState::Registering, "BMC details are given");
    }
    turn.event(EventSeverity::Normal, EventReason::Discovered, "the host has no BMC details");
    turn.go(HostState::Unmanaged, "there are no BMC details")
}
