//! Inspecting: an agent of this attempt reads the hardware; its record is stored. Nothing on the
//! host is changed.

use firesteel_resources::bare_metal_host::{ErrorType, annotations};

use crate::host::{
    attempt::{self, Progress},
    checks,
    effect::{Effect, EventKind, PlanKind, Reason},
    memory::State,
    seen::AgentSeen,
    turn::Turn,
};

const KIND: ErrorType = ErrorType::Inspection;

pub(super) fn step(turn: &mut Turn<'_>) -> Reason {
    checks::prefetch(turn);
    match attempt::agent(turn, KIND) {
        Err(reason) => reason,
        Ok(agent) => match inspect(turn, agent, KIND) {
            Err(reason) => reason,
            Ok(()) => inspected(turn),
        },
    }
}

/// Has the agent inspect the host in this boot; `Ok` when the record of it is stored.
#[track_caller]
pub(super) fn inspect(turn: &mut Turn<'_>, agent: &AgentSeen, kind: ErrorType) -> Result<(), Reason> {
    let number = turn.memory.plan_number;
    let is_current = turn.memory.plan.as_ref().is_some_and(|plan| plan.plan == PlanKind::Inspect);
    if !is_current {
        turn.may_try()?;
        turn.issue(PlanKind::Inspect);
        return Err(attempt::watch(turn, agent, kind));
    }
    match attempt::progress(turn, agent) {
        Progress::NoPlan | Progress::Issued | Progress::Running { .. } => Err(attempt::watch(turn, agent, kind)),
        Progress::Failed { message, .. } => {
            turn.memory.plan = None;
            Err(turn.fail(kind, format!("the inspection failed: {message}")))
        }
        Progress::Done => {
            let attempt = turn.memory.attempt;
            let record = turn.seen.hardware.as_ref();
            if record.is_some_and(|record| record.attempt == attempt && record.plan == number) {
                return Ok(());
            }
            turn.effect(Effect::SaveHardware { attempt, plan: number });
            let poll = turn.limits().secret_retry;
            Err(turn.stay(poll, "the hardware record is being stored"))
        }
    }
}

fn inspected(turn: &mut Turn<'_>) -> Reason {
    turn.memory.plan = None;
    turn.memory.history.inspect.end = Some(turn.now);
    if turn.requests.inspect {
        turn.effect(Effect::RemoveAnnotation { key: annotations::INSPECT.to_owned() });
    }
    turn.event(EventKind::Normal, "InspectionComplete", "the hardware record is stored");
    turn.go(State::Preparing, "the hardware record is stored")
}
