//! The current attempt: one numbered boot of the host into the ramdisk, its agent, and how far that is with its plan.

use jiff::Timestamp;

use crate::disk::CleaningProof;
use crate::host::model::{AgentInputs, AgentWork, HostReason};
use crate::host::turn::{StepDraft, agent_liveness, later};

/// How the agent of the current attempt is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentPresence {
    /// Nobody has said hello with this attempt.
    Absent,
    Alive,
    /// The agent is bound, but has not reported for longer than the limit.
    Quiet,
    /// It left, or the host booted again.
    Gone,
}

/// What the agent has made of the current plan.
pub(crate) enum AgentPlanProgress<'a> {
    /// No plan of this kind is current.
    NoPlan,
    /// The plan is issued and not begun.
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

impl<'a> StepDraft<'a> {
    pub(crate) fn presence(&self) -> AgentPresence {
        let Some(agent) = self.current_agent() else {
            return if self.is_spent() { AgentPresence::Gone } else { AgentPresence::Absent };
        };
        let heard = self.last_report_at(agent);
        // Who asks to try again has looked.
        let is_retried = self.memory.retried_at.is_some_and(|at| at > heard);
        let issued = self.memory.plan.as_ref().filter(|_| !is_retried);
        if agent.left || agent.rebooted {
            AgentPresence::Gone
        } else if self.now.duration_since(heard) > self.limits().quiet_with(issued) && self.drive_at_work().is_none() {
            AgentPresence::Quiet
        } else {
            AgentPresence::Alive
        }
    }

    /// The host asked for a boot script, and no hello of the current attempt counts.
    pub(crate) fn is_spent(&self) -> bool {
        self.seen.spent_attempt == Some(self.memory.attempt)
    }

    /// An appliance that was away does not take its own silence for the agent's.
    pub(crate) fn last_report_at(&self, agent: &AgentInputs) -> Timestamp {
        agent.last_report_at.max(self.seen.started_at)
    }

    /// What a drive of the host is at that nothing can interrupt, by the last agent's last word, whatever its attempt.
    pub(crate) fn drive_at_work(&self) -> Option<&'a str> {
        agent_liveness::drive_at_work(self.seen.agent.as_ref()?, &self.memory, self.limits(), self.now)
    }

    /// Has the host's power left alone while a drive is at such a thing.
    #[track_caller]
    pub(crate) fn spare_drive(&mut self) -> Result<(), HostReason> {
        let Some(activity) = self.drive_at_work() else { return Ok(()) };
        let text = format!(
            "the host is neither reset nor switched off, because a drive cannot be interrupted without harm: {activity}; \
             waiting for its end"
        );
        let heard = self.seen.agent.as_ref().map_or(self.now, |agent| agent.last_report_at);
        let is_silent = self.now.duration_since(heard) > self.limits().quiet;
        let help = format!("; its agent was not heard since {heard:.0}: `firesteel retry` ends the wait");
        self.deadline(later(self.now, self.limits().stall));
        Err(self.wait_in_state(self.limits().work_poll, if is_silent { text + &help } else { text }))
    }

    /// Whether nothing of the current plan is under way any more.
    pub(crate) fn is_plan_over(&self) -> bool {
        let has_ended = |progress: AgentPlanProgress<'_>| {
            matches!(progress, AgentPlanProgress::Done | AgentPlanProgress::Failed { .. })
        };
        self.current_agent().is_some_and(|agent| has_ended(self.progress(agent)))
            || self.presence() == AgentPresence::Gone
    }

    /// The agent bound to the current attempt, alive or not.
    pub(crate) fn current_agent(&self) -> Option<&'a AgentInputs> {
        self.seen.agent.as_ref().filter(|agent| agent.attempt == self.memory.attempt)
    }

    pub(crate) fn progress<'b>(&self, agent: &'b AgentInputs) -> AgentPlanProgress<'b> {
        let Some(plan) = &self.memory.plan else { return AgentPlanProgress::NoPlan };
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
    pub(crate) fn open_attempt(&mut self) {
        self.memory.attempt += 1;
        self.memory.attempt_spent = false;
        self.memory.opened = !self.has_bmc();
        self.memory.plan = None;
        self.memory.plan_number = 0;
        self.memory.boot = None;
    }

    /// What this boot's receipts show of the disks as they are: one from before a write proves nothing any more.
    pub(crate) fn receipts(&self) -> Vec<CleaningProof> {
        let Some(agent) = self.current_agent() else { return Vec::new() };
        let written = self.memory.written.as_ref().filter(|written| written.attempt == self.memory.attempt);
        let since = written.map_or(0, |written| written.plan);
        agent.cleaned.iter().filter(|shown| shown.plan > since).cloned().collect()
    }
}
