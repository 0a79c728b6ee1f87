//! Powering off before delete: the host is not watched any more, so it is switched off; what
//! cannot be switched off does not hold the deletion up for long.

use firesteel_facts::EventReason;

use crate::host::model::{HostReason, HostState};
use crate::host::rules::{bmc_only, power};
use crate::host::turn::{AgentPresence, StateStep, StepDraft, later};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    if turn.seen.host.spec.disable_power_off {
        return Ok(turn.go(HostState::Deleting, "power-off is disabled"));
    }
    if !turn.has_bmc() {
        return Ok(by_agent(turn));
    }
    let failures = turn.memory.failure.as_ref().map_or(0, |failure| failure.count);
    if failures > turn.limits().delete_failures_max {
        turn.warn(EventReason::PowerOffGaveUp, "the host could not be switched off and may still run");
        return Ok(turn.go(HostState::Deleting, format!("switching off was given up after {failures} failures")));
    }
    turn.may_try()?;
    let may_have_os = bmc_only::cause(&turn.memory, turn.seen, turn.now).is_some();
    let has_os = turn.memory.applied.is_some() || turn.seen.host.spec.externally_provisioned || may_have_os;
    match power::reach(turn, false, !has_os) {
        Err(reason) if turn.is_obstructed(&reason) => {
            turn.warn(EventReason::PowerOffGaveUp, "the host could not be switched off and may still run");
            Ok(turn.go(HostState::Deleting, format!("switching off was given up: {}", reason.text)))
        }
        Err(reason) => Err(reason),
        Ok(()) => Ok(turn.go(HostState::Deleting, "the host is off")),
    }
}

/// Has an agent that happens to be there switch off a host without a BMC.
fn by_agent(turn: &mut StepDraft<'_>) -> HostReason {
    if turn.presence() != AgentPresence::Alive {
        return turn.go(HostState::Deleting, "there is no BMC and no agent: the host cannot be switched off from here");
    }
    let limit = turn.limits().power_change;
    if turn.now.duration_since(turn.memory.since) > limit {
        return turn.go(HostState::Deleting, "the agent did not switch the host off in time");
    }
    turn.issue_power_off();
    turn.deadline(later(turn.memory.since, limit));
    turn.wait_in_state(turn.limits().secret_retry, "the agent switches the host off")
}
