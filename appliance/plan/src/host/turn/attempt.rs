//! The current attempt: one numbered boot of the host into the ramdisk, its agent, and how far that is with its plan.

use jiff::Timestamp;

use crate::{
    disk::CleaningProof,
    host::{
        model::{
            effect::HostReason,
            inputs::{AgentInputs, AgentWork},
        },
        turn::{StepDraft, agent_liveness, later},
    },
};

/// How the agent of the current attempt is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentPresence {
    /// Nobody has said hello with this attempt.
    Absent,
    Alive,
    /// Bound, but has not reported for longer than the limit.
    Quiet,
    /// It left, or the host booted again.
    Gone,
}

pub(crate) fn presence(turn: &StepDraft<'_>) -> AgentPresence {
    let Some(agent) = current(turn) else {
        return if is_spent(turn) { AgentPresence::Gone } else { AgentPresence::Absent };
    };
    let heard = last_report_at(turn, agent);
    // Who asks to try again has looked.
    let is_retried = turn.memory.retried_at.is_some_and(|at| at > heard);
    let issued = turn.memory.plan.as_ref().filter(|_| !is_retried);
    if agent.left || agent.rebooted {
        AgentPresence::Gone
    } else if turn.now.duration_since(heard) > turn.limits().quiet_with(issued) && drive_at_work(turn).is_none() {
        AgentPresence::Quiet
    } else {
        AgentPresence::Alive
    }
}

/// The host asked for a boot script, and no hello of the current attempt counts.
pub(crate) fn is_spent(turn: &StepDraft<'_>) -> bool {
    turn.seen.spent_attempt == Some(turn.memory.attempt)
}

/// An appliance that was away does not take its own silence for the agent's.
pub(crate) fn last_report_at(turn: &StepDraft<'_>, agent: &AgentInputs) -> Timestamp {
    agent.last_report_at.max(turn.seen.started_at)
}

/// What a drive of the host is at that nothing can interrupt, by the last agent's last word, whatever its attempt.
pub(crate) fn drive_at_work<'a>(turn: &StepDraft<'a>) -> Option<&'a str> {
    agent_liveness::drive_at_work(turn.seen.agent.as_ref()?, &turn.memory, turn.limits(), turn.now)
}

/// Has the host's power left alone while a drive is at such a thing.
#[track_caller]
pub(crate) fn spare_drive(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let Some(activity) = drive_at_work(turn) else { return Ok(()) };
    let text = format!(
        "the host is neither reset nor switched off, because a drive cannot be interrupted without harm: {activity}; \
         waiting for its end"
    );
    let heard = turn.seen.agent.as_ref().map_or(turn.now, |agent| agent.last_report_at);
    let is_silent = turn.now.duration_since(heard) > turn.limits().quiet;
    let help = format!("; its agent was not heard since {heard:.0}: `firesteel retry` ends the wait");
    turn.deadline(later(turn.now, turn.limits().stall));
    Err(turn.wait_in_state(turn.limits().work_poll, if is_silent { text + &help } else { text }))
}

/// Whether nothing of the current plan is under way any more.
pub(crate) fn is_over(turn: &StepDraft<'_>) -> bool {
    let has_ended = |progress: AgentPlanProgress<'_>| {
        matches!(progress, AgentPlanProgress::Done | AgentPlanProgress::Failed { .. })
    };
    current(turn).is_some_and(|agent| has_ended(progress(turn, agent))) || presence(turn) == AgentPresence::Gone
}

/// The agent bound to the current attempt, alive or not.
pub(crate) fn current<'a>(turn: &StepDraft<'a>) -> Option<&'a AgentInputs> {
    turn.seen.agent.as_ref().filter(|agent| agent.attempt == turn.memory.attempt)
}

/// What the agent has made of the current plan.
pub(crate) enum AgentPlanProgress<'a> {
    /// No plan of this kind is current.
    NoPlan,
    /// Issued, not begun.
    Issued,
    Running {
        step: &'a str,
        activity: &'a str,
        percent: u8,
    },
    Done,
    Failed {
        message: String,
        disk_changed: bool,
    },
}

pub(crate) fn progress<'a>(turn: &StepDraft<'_>, agent: &'a AgentInputs) -> AgentPlanProgress<'a> {
    let Some(plan) = &turn.memory.plan else { return AgentPlanProgress::NoPlan };
    if agent.plan < plan.number {
        return AgentPlanProgress::Issued;
    }
    match &agent.work {
        AgentWork::Idle => AgentPlanProgress::Issued,
        AgentWork::Running { step, activity, percent } => {
            AgentPlanProgress::Running { step, activity, percent: *percent }
        }
        AgentWork::Done => AgentPlanProgress::Done,
        AgentWork::Failed { step, message, disk_changed } => {
            AgentPlanProgress::Failed { message: format!("{step}: {message}"), disk_changed: *disk_changed }
        }
    }
}

/// The next attempt's number becomes current; what belonged to the last one goes.
pub(crate) fn open(turn: &mut StepDraft<'_>) {
    turn.memory.attempt += 1;
    turn.memory.attempt_spent = false;
    turn.memory.opened = !turn.has_bmc();
    turn.memory.plan = None;
    turn.memory.plan_number = 0;
    turn.memory.boot = None;
}

/// What this boot's receipts show of the disks as they are: one from before a write proves nothing any more.
pub(crate) fn receipts(turn: &StepDraft<'_>) -> Vec<CleaningProof> {
    let Some(agent) = current(turn) else { return Vec::new() };
    let written = turn.memory.written.as_ref().filter(|written| written.attempt == turn.memory.attempt);
    let since = written.map_or(0, |written| written.plan);
    agent.cleaned.iter().filter(|shown| shown.plan > since).cloned().collect()
}
