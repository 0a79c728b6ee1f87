//! What the agent does next. Pure: replies and endings come in as values, the next action goes
//! out; no clock, no socket, no disk.
//!
//! ```text
//!            hello/report: plan N              plan ended
//!   Idle ------------------------> Working(N) ------------> Idle
//!    |  abort, final refusal         |  abort                 ended with reboot or power-off
//!    v                               v                        |
//!   Leaving <------- plan ended --- Stopping                  v
//!    |  last report answered, or not needed                 Leaving
//!    v
//!   gone
//! ```
//!
//! Invariants: a plan's number is started once per boot; a plan of another attempt is never
//! started; while one plan runs no other begins; after `Leaving` nothing begins.

use std::time::Duration;

use firesteel_steps::Exit;
use firesteel_wire::{AgentInstruction, AgentPlan, RefusalReason, limits::STEPS_MAX};

#[derive(Clone, Debug, PartialEq, Eq)]
enum AgentState {
    Idle,
    Working,
    /// The appliance asked the running plan to stop; then the host reboots.
    Stopping,
    Leaving {
        exit: Exit,
        /// Whether the last report must arrive, however long it takes. That of a finished plan must; that of a host
        /// which was asked to leave need not.
        insistent: bool,
    },
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAction {
    Nothing,
    Start(AgentPlan),
    /// The plan cannot be run; report it as failed with this text, nothing was touched.
    Reject(AgentPlan, String),
    /// Stops the running step at the next safe point.
    Stop(String),
    /// Sends the last report (`leaving`), then goes.
    SendLastReport(Exit),
    /// Go now.
    Go(Exit),
}

/// How the running plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanEnd {
    Done,
    Failed,
    /// The last step was to leave.
    Leave(Exit),
}

/// The agent's mind between hello and the end.
#[derive(Debug)]
pub struct AgentDecider {
    state: AgentState,
    attempt: u64,
    /// Highest plan number that was started or rejected.
    last_plan: u32,
}

impl AgentDecider {
    /// `last_plan` is 0, or what an earlier worker of this boot had started.
    #[must_use]
    pub fn new(attempt: u64, last_plan: u32) -> Self {
        Self { state: AgentState::Idle, attempt, last_plan }
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == AgentState::Idle
    }

    /// Whether the next report is the last.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, AgentState::Leaving { .. })
    }

    /// Takes a good reply to a report, which may have been the last one (`answered_leaving`).
    pub fn handle_verdict(&mut self, verdict: &AgentInstruction, answered_leaving: bool) -> AgentAction {
        if let AgentState::Leaving { exit, .. } = self.state {
            return if answered_leaving { AgentAction::Go(exit) } else { AgentAction::Nothing };
        }
        match verdict {
            AgentInstruction::Continue => AgentAction::Nothing,
            AgentInstruction::Abort { reason } => self.abort(reason),
            AgentInstruction::Plan { plan } => self.consider(plan),
        }
    }

    fn abort(&mut self, reason: &str) -> AgentAction {
        match self.state {
            AgentState::Idle => {
                self.state = AgentState::Leaving { exit: Exit::Reboot, insistent: false };
                AgentAction::SendLastReport(Exit::Reboot)
            }
            AgentState::Working => {
                self.state = AgentState::Stopping;
                AgentAction::Stop(reason.to_owned())
            }
            AgentState::Stopping | AgentState::Leaving { .. } => AgentAction::Nothing,
        }
    }

    fn consider(&mut self, plan: &AgentPlan) -> AgentAction {
        if self.state != AgentState::Idle || plan.number <= self.last_plan {
            return AgentAction::Nothing;
        }
        self.last_plan = plan.number;
        if let Some(why) = objection(plan, self.attempt) {
            return AgentAction::Reject(plan.clone(), why);
        }
        self.state = AgentState::Working;
        AgentAction::Start(plan.clone())
    }

    /// The appliance said no. Only `busy` and `held` are worth another try; with [`holds`] nothing is destroyed
    /// meanwhile.
    pub fn handle_refusal(&mut self, reason: RefusalReason) -> AgentAction {
        let exit = match reason {
            // Another machine holds this boot's token. A reboot would fetch a new one and take it from the machine that
            // is right, and a host that is off looks like an intruder: the appliance settles it.
            RefusalReason::Busy | RefusalReason::Held | RefusalReason::SecondKey => return AgentAction::Nothing,
            RefusalReason::BadToken
            | RefusalReason::OldAttempt
            | RefusalReason::BadSignature
            | RefusalReason::BadRequest => Exit::Reboot,
        };
        let working = matches!(self.state, AgentState::Working | AgentState::Stopping);
        if working {
            let first = self.state == AgentState::Working;
            self.state = AgentState::Stopping;
            return if first {
                AgentAction::Stop("the appliance refused this agent".to_owned())
            } else {
                AgentAction::Nothing
            };
        }
        self.state = AgentState::Leaving { exit, insistent: false };
        AgentAction::Go(exit)
    }

    /// The running plan ended.
    pub fn handle_ending(&mut self, ending: PlanEnd) -> AgentAction {
        match (&self.state, ending) {
            (AgentState::Stopping, _) => {
                self.state = AgentState::Leaving { exit: Exit::Reboot, insistent: false };
                AgentAction::SendLastReport(Exit::Reboot)
            }
            (AgentState::Working, PlanEnd::Leave(exit)) => {
                self.state = AgentState::Leaving { exit, insistent: true };
                AgentAction::SendLastReport(exit)
            }
            (AgentState::Working, PlanEnd::Done | PlanEnd::Failed) => {
                self.state = AgentState::Idle;
                AgentAction::Nothing
            }
            (AgentState::Idle | AgentState::Leaving { .. }, _) => AgentAction::Nothing,
        }
    }

    /// The last report was tried for `tried_for` without an answer.
    #[must_use]
    pub fn handle_silence(&self, tried_for: Duration) -> AgentAction {
        match self.state {
            AgentState::Leaving { exit, insistent: false } if tried_for >= FAREWELL_MAX => AgentAction::Go(exit),
            AgentState::Leaving { .. } | AgentState::Idle | AgentState::Working | AgentState::Stopping => {
                AgentAction::Nothing
            }
        }
    }
}

/// Says whether steps that destroy are to wait, since it is not settled which machine is the host.
#[must_use]
pub fn holds(reason: RefusalReason) -> bool {
    match reason {
        RefusalReason::Held | RefusalReason::SecondKey => true,
        RefusalReason::Busy
        | RefusalReason::BadToken
        | RefusalReason::OldAttempt
        | RefusalReason::BadSignature
        | RefusalReason::BadRequest => false,
    }
}

/// How long a host that was asked to leave tries to say good-bye.
pub const FAREWELL_MAX: Duration = Duration::from_secs(60);

fn objection(plan: &AgentPlan, attempt: u64) -> Option<String> {
    if plan.attempt != attempt {
        return Some(format!("this boot is attempt {attempt}, the plan is for attempt {}", plan.attempt));
    }
    if plan.steps.is_empty() {
        return Some("the plan has no steps".to_owned());
    }
    if plan.steps.len() > STEPS_MAX {
        return Some(format!("the plan has {} steps, at most {STEPS_MAX} are allowed", plan.steps.len()));
    }
    None
}

/// How long to wait before the next try after `failures` tries without an answer.
#[must_use]
pub fn retry_after(failures: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(500);
    /// Short: a host that waits for a plan should hear of it soon after the appliance is back.
    const LONGEST: Duration = Duration::from_secs(10);
    FIRST.saturating_mul(2_u32.saturating_pow(failures.min(10))).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use firesteel_wire::PlanStep;
    use proptest::prelude::*;

    use super::*;

    fn plan(number: u32, attempt: u64) -> AgentPlan {
        AgentPlan { number, attempt, steps: vec![PlanStep::Inspect] }
    }

    fn offer(mind: &mut AgentDecider, number: u32, attempt: u64) -> AgentAction {
        mind.handle_verdict(&AgentInstruction::Plan { plan: plan(number, attempt) }, false)
    }

    #[test]
    fn a_plan_runs_once_and_the_next_follows_it() {
        let mut mind = AgentDecider::new(3, 0);
        assert_eq!(offer(&mut mind, 1, 3), AgentAction::Start(plan(1, 3)));
        assert_eq!(offer(&mut mind, 1, 3), AgentAction::Nothing);
        assert_eq!(offer(&mut mind, 2, 3), AgentAction::Nothing, "the first one still runs");
        assert_eq!(mind.handle_ending(PlanEnd::Done), AgentAction::Nothing);
        assert_eq!(offer(&mut mind, 1, 3), AgentAction::Nothing);
        assert_eq!(offer(&mut mind, 2, 3), AgentAction::Start(plan(2, 3)));
    }

    #[test]
    fn a_plan_of_another_attempt_is_rejected_once() {
        let mut mind = AgentDecider::new(3, 0);
        assert!(matches!(offer(&mut mind, 1, 2), AgentAction::Reject(_, why) if why.contains("attempt 3")));
        assert_eq!(offer(&mut mind, 1, 2), AgentAction::Nothing);
        assert!(mind.is_idle());
    }

    #[test]
    fn a_worker_after_a_dead_one_does_not_repeat_its_plan() {
        let mut mind = AgentDecider::new(3, 2);
        assert_eq!(offer(&mut mind, 2, 3), AgentAction::Nothing);
        assert_eq!(offer(&mut mind, 3, 3), AgentAction::Start(plan(3, 3)));
    }

    #[test]
    fn abort_stops_the_plan_then_leaves() {
        let mut mind = AgentDecider::new(1, 0);
        let abort = AgentInstruction::Abort { reason: "released".into() };
        offer(&mut mind, 1, 1);
        assert_eq!(mind.handle_verdict(&abort, false), AgentAction::Stop("released".into()));
        assert_eq!(mind.handle_verdict(&abort, false), AgentAction::Nothing);
        assert_eq!(mind.handle_ending(PlanEnd::Leave(Exit::PowerOff)), AgentAction::SendLastReport(Exit::Reboot));
        assert_eq!(mind.handle_verdict(&abort, true), AgentAction::Go(Exit::Reboot));
    }

    #[test]
    fn a_finished_plan_waits_for_its_last_answer_for_ever() {
        let mut mind = AgentDecider::new(1, 0);
        offer(&mut mind, 1, 1);
        assert_eq!(mind.handle_ending(PlanEnd::Leave(Exit::Reboot)), AgentAction::SendLastReport(Exit::Reboot));
        assert_eq!(mind.handle_silence(Duration::from_secs(1 << 30)), AgentAction::Nothing);
        assert_eq!(
            mind.handle_verdict(&AgentInstruction::Continue, false),
            AgentAction::Nothing,
            "an older report's answer"
        );
        assert_eq!(mind.handle_verdict(&AgentInstruction::Continue, true), AgentAction::Go(Exit::Reboot));
    }

    #[test]
    fn an_aborted_host_goes_unheard_after_a_while() {
        let mut mind = AgentDecider::new(1, 0);
        mind.handle_verdict(&AgentInstruction::Abort { reason: String::new() }, false);
        assert_eq!(mind.handle_silence(FAREWELL_MAX / 2), AgentAction::Nothing);
        assert_eq!(mind.handle_silence(FAREWELL_MAX), AgentAction::Go(Exit::Reboot));
    }

    #[test]
    fn final_refusals_end_the_boot_and_busy_does_not() {
        assert_eq!(AgentDecider::new(1, 0).handle_refusal(RefusalReason::Busy), AgentAction::Nothing);
        assert_eq!(AgentDecider::new(1, 0).handle_refusal(RefusalReason::Held), AgentAction::Nothing);
        assert_eq!(AgentDecider::new(1, 0).handle_refusal(RefusalReason::OldAttempt), AgentAction::Go(Exit::Reboot));
        assert_eq!(AgentDecider::new(1, 0).handle_refusal(RefusalReason::SecondKey), AgentAction::Nothing);
        assert!(holds(RefusalReason::SecondKey) && holds(RefusalReason::Held) && !holds(RefusalReason::Busy));
        let mut mind = AgentDecider::new(1, 0);
        offer(&mut mind, 1, 1);
        assert!(matches!(mind.handle_refusal(RefusalReason::OldAttempt), AgentAction::Stop(_)));
        assert_eq!(mind.handle_ending(PlanEnd::Failed), AgentAction::SendLastReport(Exit::Reboot));
        assert_eq!(mind.handle_refusal(RefusalReason::OldAttempt), AgentAction::Go(Exit::Reboot));
    }

    proptest! {
        /// Whatever the appliance says in whatever order: no number starts twice, no foreign
        /// attempt starts, one plan at a time, and nothing starts after leaving.
        #[test]
        fn no_order_of_replies_breaks_the_invariants(
            inputs in proptest::collection::vec((0u8..6, 0u32..5, 0u64..3), 0..60),
        ) {
            let mut mind = AgentDecider::new(1, 0);
            let (mut started, mut running, mut left) = (Vec::new(), false, false);
            for (kind, number, attempt) in inputs {
                let next = match kind {
                    0..=2 => offer(&mut mind, number, attempt),
                    3 => mind.handle_verdict(&AgentInstruction::Abort { reason: String::new() }, false),
                    4 => mind.handle_refusal(RefusalReason::OldAttempt),
                    _ if running => {
                        running = false;
                        mind.handle_ending(PlanEnd::Done)
                    }
                    _ => AgentAction::Nothing,
                };
                match next {
                    AgentAction::Start(plan) => {
                        prop_assert!(!running && !left && plan.attempt == 1);
                        prop_assert!(!started.contains(&plan.number));
                        started.push(plan.number);
                        running = true;
                    }
                    AgentAction::SendLastReport(_) | AgentAction::Go(_) => left = true,
                    AgentAction::Nothing | AgentAction::Reject(..) | AgentAction::Stop(_) => {}
                }
            }
        }
    }
}
