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
use firesteel_wire::{Plan, RefusalReason, Verdict, limits::STEPS_MAX};

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Working,
    /// The running plan was told to stop; then the host reboots.
    Stopping,
    Leaving {
        exit: Exit,
        /// A finished plan's last report must arrive, however long it takes; a host that was told
        /// to go need not be heard.
        insistent: bool,
    },
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Nothing,
    Start(Plan),
    /// The plan cannot be run; report it as failed with this text, nothing was touched.
    Reject(Plan, String),
    /// Tell the running step to stop at the next safe point.
    Stop(String),
    /// Send the last report (`leaving`), then go.
    SendLastReport(Exit),
    /// Go now.
    Go(Exit),
}

/// How the running plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    Failed,
    /// The last step was to leave.
    Leave(Exit),
}

/// The agent's mind between hello and the end.
#[derive(Debug)]
pub struct Mind {
    state: State,
    attempt: u64,
    /// Highest plan number that was started or rejected.
    last_plan: u32,
}

impl Mind {
    /// `last_plan` is 0, or what an earlier worker of this boot had started.
    #[must_use]
    pub fn new(attempt: u64, last_plan: u32) -> Self {
        Self { state: State::Idle, attempt, last_plan }
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Whether the next report is the last.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving { .. })
    }

    /// A good reply to a report that was sent while `leaving` was said or not.
    pub fn handle_verdict(&mut self, verdict: &Verdict, answered_leaving: bool) -> Next {
        if let State::Leaving { exit, .. } = self.state {
            return if answered_leaving { Next::Go(exit) } else { Next::Nothing };
        }
        match verdict {
            Verdict::Continue => Next::Nothing,
            Verdict::Abort { reason } => self.abort(reason),
            Verdict::Plan { plan } => self.consider(plan),
        }
    }

    fn abort(&mut self, reason: &str) -> Next {
        match self.state {
            State::Idle => {
                self.state = State::Leaving { exit: Exit::Reboot, insistent: false };
                Next::SendLastReport(Exit::Reboot)
            }
            State::Working => {
                self.state = State::Stopping;
                Next::Stop(reason.to_owned())
            }
            State::Stopping | State::Leaving { .. } => Next::Nothing,
        }
    }

    fn consider(&mut self, plan: &Plan) -> Next {
        if self.state != State::Idle || plan.number <= self.last_plan {
            return Next::Nothing;
        }
        self.last_plan = plan.number;
        if let Some(why) = objection(plan, self.attempt) {
            return Next::Reject(plan.clone(), why);
        }
        self.state = State::Working;
        Next::Start(plan.clone())
    }

    /// The appliance said no. Only `busy` and `held` are worth another try; with [`holds`] nothing is destroyed meanwhile.
    pub fn handle_refusal(&mut self, reason: RefusalReason) -> Next {
        let exit = match reason {
            // Another machine holds this boot's token. A reboot would fetch a new one and take it from the machine that is
            // right, and a host that is off cannot be told from an intruder: the appliance settles it.
            RefusalReason::Busy | RefusalReason::Held | RefusalReason::SecondKey => return Next::Nothing,
            RefusalReason::BadToken
            | RefusalReason::OldAttempt
            | RefusalReason::BadSignature
            | RefusalReason::BadRequest => Exit::Reboot,
        };
        let working = matches!(self.state, State::Working | State::Stopping);
        if working {
            let first = self.state == State::Working;
            self.state = State::Stopping;
            return if first { Next::Stop("the appliance refused this agent".to_owned()) } else { Next::Nothing };
        }
        self.state = State::Leaving { exit, insistent: false };
        Next::Go(exit)
    }

    /// The running plan ended.
    pub fn handle_ending(&mut self, ending: Ending) -> Next {
        match (&self.state, ending) {
            (State::Stopping, _) => {
                self.state = State::Leaving { exit: Exit::Reboot, insistent: false };
                Next::SendLastReport(Exit::Reboot)
            }
            (State::Working, Ending::Leave(exit)) => {
                self.state = State::Leaving { exit, insistent: true };
                Next::SendLastReport(exit)
            }
            (State::Working, Ending::Done | Ending::Failed) => {
                self.state = State::Idle;
                Next::Nothing
            }
            (State::Idle | State::Leaving { .. }, _) => Next::Nothing,
        }
    }

    /// The last report was tried for `tried_for` without an answer.
    #[must_use]
    pub fn handle_silence(&self, tried_for: Duration) -> Next {
        match self.state {
            State::Leaving { exit, insistent: false } if tried_for >= FAREWELL_MAX => Next::Go(exit),
            State::Leaving { .. } | State::Idle | State::Working | State::Stopping => Next::Nothing,
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

/// How long a host that was told to go tries to say good-bye.
pub const FAREWELL_MAX: Duration = Duration::from_secs(60);

fn objection(plan: &Plan, attempt: u64) -> Option<String> {
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
    use firesteel_wire::Step;
    use proptest::prelude::*;

    use super::*;

    fn plan(number: u32, attempt: u64) -> Plan {
        Plan { number, attempt, steps: vec![Step::Inspect] }
    }

    fn told(mind: &mut Mind, number: u32, attempt: u64) -> Next {
        mind.handle_verdict(&Verdict::Plan { plan: plan(number, attempt) }, false)
    }

    #[test]
    fn a_plan_runs_once_and_the_next_follows_it() {
        let mut mind = Mind::new(3, 0);
        assert_eq!(told(&mut mind, 1, 3), Next::Start(plan(1, 3)));
        assert_eq!(told(&mut mind, 1, 3), Next::Nothing);
        assert_eq!(told(&mut mind, 2, 3), Next::Nothing, "the first one still runs");
        assert_eq!(mind.handle_ending(Ending::Done), Next::Nothing);
        assert_eq!(told(&mut mind, 1, 3), Next::Nothing);
        assert_eq!(told(&mut mind, 2, 3), Next::Start(plan(2, 3)));
    }

    #[test]
    fn a_plan_of_another_attempt_is_rejected_once() {
        let mut mind = Mind::new(3, 0);
        assert!(matches!(told(&mut mind, 1, 2), Next::Reject(_, why) if why.contains("attempt 3")));
        assert_eq!(told(&mut mind, 1, 2), Next::Nothing);
        assert!(mind.is_idle());
    }

    #[test]
    fn a_worker_after_a_dead_one_does_not_repeat_its_plan() {
        let mut mind = Mind::new(3, 2);
        assert_eq!(told(&mut mind, 2, 3), Next::Nothing);
        assert_eq!(told(&mut mind, 3, 3), Next::Start(plan(3, 3)));
    }

    #[test]
    fn abort_stops_the_plan_then_leaves() {
        let mut mind = Mind::new(1, 0);
        let abort = Verdict::Abort { reason: "released".into() };
        told(&mut mind, 1, 1);
        assert_eq!(mind.handle_verdict(&abort, false), Next::Stop("released".into()));
        assert_eq!(mind.handle_verdict(&abort, false), Next::Nothing);
        assert_eq!(mind.handle_ending(Ending::Leave(Exit::PowerOff)), Next::SendLastReport(Exit::Reboot));
        assert_eq!(mind.handle_verdict(&abort, true), Next::Go(Exit::Reboot));
    }

    #[test]
    fn a_finished_plan_waits_for_its_last_answer_for_ever() {
        let mut mind = Mind::new(1, 0);
        told(&mut mind, 1, 1);
        assert_eq!(mind.handle_ending(Ending::Leave(Exit::Reboot)), Next::SendLastReport(Exit::Reboot));
        assert_eq!(mind.handle_silence(Duration::from_secs(1 << 30)), Next::Nothing);
        assert_eq!(mind.handle_verdict(&Verdict::Continue, false), Next::Nothing, "an older report's answer");
        assert_eq!(mind.handle_verdict(&Verdict::Continue, true), Next::Go(Exit::Reboot));
    }

    #[test]
    fn an_aborted_host_goes_unheard_after_a_while() {
        let mut mind = Mind::new(1, 0);
        mind.handle_verdict(&Verdict::Abort { reason: String::new() }, false);
        assert_eq!(mind.handle_silence(FAREWELL_MAX / 2), Next::Nothing);
        assert_eq!(mind.handle_silence(FAREWELL_MAX), Next::Go(Exit::Reboot));
    }

    #[test]
    fn final_refusals_end_the_boot_and_busy_does_not() {
        assert_eq!(Mind::new(1, 0).handle_refusal(RefusalReason::Busy), Next::Nothing);
        assert_eq!(Mind::new(1, 0).handle_refusal(RefusalReason::Held), Next::Nothing);
        assert_eq!(Mind::new(1, 0).handle_refusal(RefusalReason::OldAttempt), Next::Go(Exit::Reboot));
        assert_eq!(Mind::new(1, 0).handle_refusal(RefusalReason::SecondKey), Next::Nothing);
        assert!(holds(RefusalReason::SecondKey) && holds(RefusalReason::Held) && !holds(RefusalReason::Busy));
        let mut mind = Mind::new(1, 0);
        told(&mut mind, 1, 1);
        assert!(matches!(mind.handle_refusal(RefusalReason::OldAttempt), Next::Stop(_)));
        assert_eq!(mind.handle_ending(Ending::Failed), Next::SendLastReport(Exit::Reboot));
        assert_eq!(mind.handle_refusal(RefusalReason::OldAttempt), Next::Go(Exit::Reboot));
    }

    proptest! {
        /// Whatever the appliance says in whatever order: no number starts twice, no foreign
        /// attempt starts, one plan at a time, and nothing starts after leaving.
        #[test]
        fn no_order_of_replies_breaks_the_invariants(
            inputs in proptest::collection::vec((0u8..6, 0u32..5, 0u64..3), 0..60),
        ) {
            let mut mind = Mind::new(1, 0);
            let (mut started, mut running, mut left) = (Vec::new(), false, false);
            for (kind, number, attempt) in inputs {
                let next = match kind {
                    0..=2 => told(&mut mind, number, attempt),
                    3 => mind.handle_verdict(&Verdict::Abort { reason: String::new() }, false),
                    4 => mind.handle_refusal(RefusalReason::OldAttempt),
                    _ if running => {
                        running = false;
                        mind.handle_ending(Ending::Done)
                    }
                    _ => Next::Nothing,
                };
                match next {
                    Next::Start(plan) => {
                        prop_assert!(!running && !left && plan.attempt == 1);
                        prop_assert!(!started.contains(&plan.number));
                        started.push(plan.number);
                        running = true;
                    }
                    Next::SendLastReport(_) | Next::Go(_) => left = true,
                    Next::Nothing | Next::Reject(..) | Next::Stop(_) => {}
                }
            }
        }
    }
}
