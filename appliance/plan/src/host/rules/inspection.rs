//! Having the agent inspect the host in this boot.

use firesteel_resources::bare_metal_host::ErrorType;
use jiff::SignedDuration;

use crate::host::model::{AgentInputs, HostEffect, HostReason, PlanKind};
use crate::host::rules::agent;
use crate::host::turn::{AgentPlanProgress, StepDraft};

/// Pause before the object that shows an inspection is looked at again.
const SHOWN_POLL: SignedDuration = SignedDuration::from_secs(1);

/// Has the agent inspect the host in this boot; `Ok` when the record of it is stored.
#[track_caller]
pub(crate) fn inspect(turn: &mut StepDraft<'_>, agent: &AgentInputs, kind: ErrorType) -> Result<(), HostReason> {
    let number = turn.memory.plan_number;
    let is_current = turn.memory.plan.as_ref().is_some_and(|plan| plan.plan == PlanKind::Inspect);
    if !is_current {
        turn.may_try()?;
        turn.issue(PlanKind::Inspect);
        return Err(agent::watch(turn, agent, kind));
    }
    match turn.progress(agent) {
        AgentPlanProgress::NoPlan | AgentPlanProgress::Issued | AgentPlanProgress::Running { .. } => {
            Err(agent::watch(turn, agent, kind))
        }
        AgentPlanProgress::Failed { message, .. } => {
            turn.memory.plan = None;
            Err(turn.fail(kind, format!("the inspection failed: {message}")))
        }
        AgentPlanProgress::Done => {
            let attempt = turn.memory.attempt;
            let record = turn.seen.hardware.as_ref();
            let is_stored = record.is_some_and(|record| record.attempt == attempt && record.plan == number);
            // The report brought the record; what the owner sees is an object of its own.
            if is_stored && turn.seen.hardware_is_shown {
                return Ok(());
            }
            turn.effect(HostEffect::SaveHardware { attempt, plan: number });
            Err(turn.wait_in_state(SHOWN_POLL, "the hardware record is being stored"))
        }
    }
}
