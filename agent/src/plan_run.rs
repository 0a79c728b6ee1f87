//! Carries one plan out, step by step, and says on the board how each ends.

use firesteel_steps::{self as steps, Exit, StepContext, StepFailure, StepResult};
use firesteel_wire::{AgentPlan, PlanStep, StepState};

use crate::decider::PlanEnd;

/// Runs the steps in order and stops at the first that fails. Steps that may run at once all reach their ends,
/// whatever becomes of the others.
pub(crate) fn run_plan(plan: &AgentPlan, mut job: StepContext<'_>) -> PlanEnd {
    let mut rest = plan.steps.as_slice();
    while !rest.is_empty() {
        let (several, after) = rest.split_at(steps::at_once(rest));
        if let [step] = several {
            match run_step(plan, &job, step) {
                Ok(None) => {}
                Ok(Some(exit)) => return PlanEnd::Leave(exit),
                Err(()) => return PlanEnd::Failed,
            }
        } else {
            let started = |index: u32| {
                say_step(plan, index);
                job.board.step_started(index, job.host.uptime());
            };
            let ended = |index: u32, end: &Result<StepResult, StepFailure>| note_end(plan, &job, index, end);
            if !steps::run_at_once(&job, several, &started, &ended) {
                return PlanEnd::Failed;
            }
        }
        job.index += u32::try_from(several.len()).unwrap_or(u32::MAX);
        rest = after;
    }
    debug_assert!(job.board.read().steps.iter().all(|step| step.state == StepState::Done));
    PlanEnd::Done
}

fn run_step(plan: &AgentPlan, job: &StepContext<'_>, step: &PlanStep) -> Result<Option<Exit>, ()> {
    say_step(plan, job.index);
    job.board.step_started(job.index, job.host.uptime());
    let end = steps::run(job, step);
    note_end(plan, job, job.index, &end);
    end.map(|finished| finished.exit).map_err(drop)
}

fn say_step(plan: &AgentPlan, index: u32) {
    tracing::info!("plan {}, step {} of {}: {}", plan.number, index + 1, plan.steps.len(), step_name(plan, index));
}

fn note_end(plan: &AgentPlan, job: &StepContext<'_>, index: u32, end: &Result<StepResult, StepFailure>) {
    let uptime = job.host.uptime();
    match end {
        Ok(finished) => job.board.step_done(index, finished.evidence.clone(), uptime),
        Err(failure) => {
            tracing::error!("{} failed: {}", step_name(plan, index), failure.error);
            job.board.step_failed(index, &failure.error, failure.disk_changed, job.board.unix_ms(uptime));
        }
    }
}

fn step_name(plan: &AgentPlan, index: u32) -> &'static str {
    usize::try_from(index).ok().and_then(|index| plan.steps.get(index)).map_or("step", PlanStep::name)
}
