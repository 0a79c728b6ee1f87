//! Powering off before delete: nobody watches the host any more, so it is switched off; what
//! cannot be switched off does not hold the deletion up for long.

use firesteel_facts::EventReason;

use crate::host::{
    model::{
        effect::{EventSeverity, HostReason},
        memory::HostState,
        orders::PlanKind,
    },
    rules::power::{self, PowerOutcome},
    turn::{
        StepDraft,
        attempt::{self, AgentPresence},
        later,
    },
};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> HostReason {
    if turn.seen.host.spec.disable_power_off {
        return turn.go(HostState::Deleting, "power-off is disabled");
    }
    if !turn.has_bmc() {
        return by_agent(turn);
    }
    let failures = turn.memory.failure.as_ref().map_or(0, |failure| failure.count);
    if failures > turn.limits().delete_failures_max {
        turn.event(
            EventSeverity::Warning,
            EventReason::PowerOffGaveUp,
            "the host could not be switched off and may still run",
        );
        return turn.go(HostState::Deleting, format!("switching off was given up after {failures} failures"));
    }
    if let Err(reason) = turn.may_try() {
        return reason;
    }
    let has_os = turn.memory.applied.is_some() || turn.seen.host.spec.externally_provisioned;
    match power::reach(turn, false, !has_os) {
        PowerOutcome::Waiting(reason) if turn.is_obstructed(&reason) => {
            turn.event(
                EventSeverity::Warning,
                EventReason::PowerOffGaveUp,
                "the host could not be switched off and may still run",
            );
            turn.go(HostState::Deleting, format!("switching off was given up: {}", reason.text))
        }
        PowerOutcome::Waiting(reason) => reason,
        PowerOutcome::Reached => turn.go(HostState::Deleting, "the host is off"),
    }
}

/// Without a BMC only an agent that happens to be there can switch the host off.
fn by_agent(turn: &mut StepDraft<'_>) -> HostReason {
    if attempt::presence(turn) != AgentPresence::Alive {
        return turn.go(HostState::Deleting, "there is no BMC and no agent: the host cannot be switched off from here");
    }
    let limit = turn.limits().power_change;
    if turn.now.duration_since(turn.memory.since) > limit {
        return turn.go(HostState::Deleting, "the agent did not switch the host off in time");
    }
    if turn.memory.plan.as_ref().is_some_and(|plan| plan.plan == PlanKind::PowerOff) {
        turn.issue_again();
    } else {
        turn.issue(PlanKind::PowerOff);
    }
    turn.deadline(later(turn.memory.since, limit));
    turn.wait_in_state(turn.limits().secret_retry, "the agent switches the host off")
}
