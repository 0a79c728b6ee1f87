//! The working copy of one step: memory to change, effects and events to collect. It lives for
//! one call of [`crate::step`]; nothing outside sees it.

pub(crate) mod agent_liveness;
mod answers;
mod attempt;
mod bmc;
pub(crate) mod contest;
pub(crate) mod frozen;
pub mod gate;
pub(crate) mod hardware_changes;
pub(crate) mod history;
mod login;
pub(crate) mod slot;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use attempt::{AgentPlanProgress, AgentPresence};
pub(crate) use bmc::BmcCallProgress;

use firesteel_facts::{EventReason, Guid};
use firesteel_resources::bare_metal_host::{ErrorType, HostRequests, annotations::DeleteAction, requests};
use firesteel_resources::host_journal::RequestAnswers;
use jiff::{SignedDuration, Timestamp};

use crate::backoff;
use crate::host::model::{
    CredentialsInputs, EventSeverity, HostEffect, HostFailure, HostInputs, HostMemory, HostReason, HostState, HostStep,
    HostTimeouts, IssuedPlan, NetworkDataInputs, PlanKind, StepEvent, UserDataInputs, bounded,
};

/// A deadline that is stored moves by at least this much, so that an agent's report every 2 s is
/// not a write to the store every 2 s.
const DEADLINE_GRAIN: SignedDuration = SignedDuration::from_secs(60);

/// What a state comes to; `Err` where a rule ends its step early.
pub(crate) type StateStep = Result<HostReason, HostReason>;

pub(crate) struct StepDraft<'a> {
    pub(crate) seen: &'a HostInputs,
    pub(crate) now: Timestamp,
    pub(crate) requests: HostRequests,
    pub(crate) memory: HostMemory,
    pub(crate) answers: RequestAnswers,
    effects: Vec<HostEffect>,
    events: Vec<StepEvent>,
    wake: Option<SignedDuration>,
    /// The handler said when the state is given up.
    has_deadline: bool,
    /// The host waits for a slot.
    pub(crate) is_delayed: bool,
    /// The host waits at the gate.
    pub(crate) is_shut: bool,
}

impl<'a> StepDraft<'a> {
    pub(crate) fn new(seen: &'a HostInputs, now: Timestamp) -> Self {
        let mut answers = seen.answers.clone();
        answers.close_removed(&seen.host.metadata);
        Self {
            seen,
            now,
            requests: requests(&seen.host.metadata),
            memory: seen.memory.clone(),
            answers,
            effects: Vec::new(),
            events: Vec::new(),
            wake: None,
            has_deadline: false,
            is_delayed: false,
            is_shut: false,
        }
    }

    pub(crate) fn finish(mut self, reason: HostReason) -> HostStep {
        if self.requests.paused.is_some() {
            return HostStep {
                memory: self.memory,
                answers: self.answers,
                effects: Vec::new(),
                wake: None,
                reason,
                events: Vec::new(),
            };
        }
        let is_let_alone = self.memory.detached.is_some() && self.memory.state != HostState::Deleting;
        if !self.memory.state.is_working() || is_let_alone {
            self.memory.deadline = None;
        } else if !self.has_deadline && self.memory.deadline.is_none_or(|deadline| deadline <= self.now) {
            self.memory.deadline = Some(later(self.now, self.limits().stall));
        }
        let until_deadline = self.memory.deadline.map(|deadline| deadline.duration_since(self.now));
        let positive = |wake: SignedDuration| wake.max(SignedDuration::ZERO);
        let wake = match (self.wake, until_deadline) {
            (Some(a), Some(b)) => Some(positive(a.min(positive(b).max(SignedDuration::from_secs(1))))),
            (Some(a), None) => Some(positive(a)),
            (None, Some(b)) => Some(positive(b).max(SignedDuration::from_secs(1))),
            (None, None) => None,
        };
        let Self { memory, answers, effects, events, .. } = self;
        HostStep { memory, answers, effects, wake, reason, events }
    }

    pub(crate) fn limits(&self) -> &'a HostTimeouts {
        &self.seen.limits
    }

    /// The host is to go, and its owner does not hold that up.
    pub(crate) fn is_deleting(&self) -> bool {
        self.seen.host.metadata.is_deleting() && !self.delays_deletion()
    }

    /// The deletion waits for the host to be attached again; one that is nearly over does not.
    fn delays_deletion(&self) -> bool {
        let delays = self.requests.detached.is_some_and(|detached| detached.delete_action == DeleteAction::Delay);
        delays && !matches!(self.memory.state, HostState::PoweringOff | HostState::Deleting)
    }

    /// A BMC is configured.
    pub(crate) fn has_bmc(&self) -> bool {
        self.seen.host.spec.usable_bmc().is_some()
    }

    pub(crate) fn effect(&mut self, effect: HostEffect) {
        self.effects.push(effect);
    }

    /// Tells an agent of the current attempt to stop at its next safe point.
    pub(crate) fn abort_agent(&mut self, reason: impl Into<String>) {
        self.effect(HostEffect::AbortAgent { attempt: self.memory.attempt, reason: reason.into() });
    }

    pub(crate) fn event(&mut self, reason: EventReason, message: impl Into<String>) {
        self.tell(EventSeverity::Normal, reason, message);
    }

    pub(crate) fn warn(&mut self, reason: EventReason, message: impl Into<String>) {
        self.tell(EventSeverity::Warning, reason, message);
    }

    fn tell(&mut self, kind: EventSeverity, reason: EventReason, message: impl Into<String>) {
        self.events.push(StepEvent { kind, reason, message: bounded(message.into()) });
    }

    /// Stay; look again after `wake` at the latest.
    #[track_caller]
    pub(crate) fn wait_in_state(&mut self, wake: SignedDuration, text: impl Into<String>) -> HostReason {
        self.wake = Some(wake);
        HostReason::new(text)
    }

    /// Has the host stepped by this time at the latest.
    pub(crate) fn wake_by(&mut self, at: Timestamp) {
        let left = at.duration_since(self.now).max(SignedDuration::ZERO);
        self.wake = Some(self.wake.map_or(left, |wake| wake.min(left)));
    }

    /// Stay until something is observed.
    #[track_caller]
    pub(crate) fn rest(&mut self, text: impl Into<String>) -> HostReason {
        self.wake = None;
        HostReason::new(text)
    }

    /// Moves on and clears the failure of the state that was left.
    #[track_caller]
    pub(crate) fn go(&mut self, state: HostState, text: impl Into<String>) -> HostReason {
        self.memory.failure = None;
        self.go_keeping_failure(state, text)
    }

    /// Moves on and keeps the failure beside the new state.
    #[track_caller]
    pub(crate) fn go_keeping_failure(&mut self, state: HostState, text: impl Into<String>) -> HostReason {
        history::end(&mut self.memory, self.now);
        self.drop_reboot(&format!("the host goes to {}", state.word()));
        self.memory.state = state;
        history::begin(&mut self.memory, self.now);
        self.memory.since = self.now;
        self.memory.clean_failures = 0;
        self.memory.deadline = None;
        self.memory.power = None;
        self.memory.wipe = None;
        self.has_deadline = false;
        self.wake = Some(SignedDuration::ZERO);
        HostReason::new(text)
    }

    /// The state is given up at `at`, unless progress moves that.
    pub(crate) fn deadline(&mut self, at: Timestamp) {
        self.has_deadline = true;
        let stored = self.memory.deadline;
        if stored.is_none_or(|stored| at < stored || at.duration_since(stored) >= DEADLINE_GRAIN) {
            self.memory.deadline = Some(at);
        }
    }

    /// What a failed step was fed with: an edit of the object or of a Secret changes it.
    pub(crate) fn inputs(&self) -> String {
        let credentials = match &self.seen.credentials {
            CredentialsInputs::Missing => "missing",
            CredentialsInputs::Empty => "empty",
            CredentialsInputs::Ready { version } => version,
        };
        let user_data = match &self.seen.user_data {
            UserDataInputs::NotReferenced => "none",
            UserDataInputs::Missing => "missing",
            UserDataInputs::Invalid(text) => text,
            UserDataInputs::Ready { sha256, .. } => sha256,
        };
        // Without network data the text is as it was before there was any: a stored failure stays the same.
        let network_data = match &self.seen.network_data {
            NetworkDataInputs::NotReferenced => String::new(),
            NetworkDataInputs::Missing => "/missing".to_owned(),
            NetworkDataInputs::Invalid(text) => format!("/{text}"),
            NetworkDataInputs::Ready { version } => format!("/{version}"),
        };
        bounded(format!("{}/{credentials}/{user_data}{network_data}", self.seen.host.metadata.generation))
    }

    /// Notes one more failure and tries again after a growing delay.
    #[track_caller]
    pub(crate) fn fail(&mut self, kind: ErrorType, message: impl Into<String>) -> HostReason {
        let message = bounded(message.into());
        let count = self.memory.failure.as_ref().filter(|old| old.kind == kind).map_or(0, |old| old.count) + 1;
        let delay = backoff::delay(count, self.seen.entropy);
        let at = later(self.now, delay);
        self.note(kind, message.clone(), count, Some(at), false);
        self.warn(error_event(kind), message.clone());
        self.wait_in_state(delay, retried(&message, at))
    }

    /// Notes a failure that only an edit of the object or of a Secret can end.
    #[track_caller]
    pub(crate) fn stuck(&mut self, kind: ErrorType, message: impl Into<String>) -> HostReason {
        self.stuck_until(kind, message, None)
    }

    /// Notes a standing obstacle and looks again after `wake`; it is counted once.
    #[track_caller]
    pub(crate) fn blocked(&mut self, kind: ErrorType, wake: SignedDuration, message: impl Into<String>) -> HostReason {
        self.stuck_until(kind, message, Some(wake))
    }

    #[track_caller]
    fn stuck_until(&mut self, kind: ErrorType, message: impl Into<String>, wake: Option<SignedDuration>) -> HostReason {
        self.stuck_with(kind, error_event(kind), message, wake)
    }

    /// Notes that there are no credentials to log in with, in upstream's words.
    #[track_caller]
    pub(crate) fn no_credentials(
        &mut self,
        kind: ErrorType,
        message: impl Into<String>,
        wake: Option<SignedDuration>,
    ) -> HostReason {
        self.stuck_with(kind, EventReason::BmcCredentialError, message, wake)
    }

    #[track_caller]
    fn stuck_with(
        &mut self,
        kind: ErrorType,
        event: EventReason,
        message: impl Into<String>,
        wake: Option<SignedDuration>,
    ) -> HostReason {
        let message = bounded(message.into());
        let known = self.memory.failure.as_ref().is_some_and(|old| old.kind == kind && old.message == message);
        if !known {
            let count = self.memory.failure.as_ref().filter(|old| old.kind == kind).map_or(1, |old| old.count.max(1));
            self.note(kind, message.clone(), count, None, wake.is_none());
            self.warn(event, message.clone());
        }
        self.wake = wake;
        // Nothing is under way, so nothing can be late.
        self.deadline(later(self.now, self.limits().stall));
        HostReason::new(message)
    }

    pub(crate) fn note(
        &mut self,
        kind: ErrorType,
        message: String,
        count: u32,
        retry_at: Option<Timestamp>,
        until_edit: bool,
    ) {
        let (inputs, message) = (self.inputs(), bounded(message));
        self.memory.failure = Some(HostFailure { kind, message, count, at: self.now, retry_at, until_edit, inputs });
    }

    /// Whether the step of a host that is to go ends at an obstacle that has been the same for too long.
    pub(crate) fn is_obstructed(&self, reason: &HostReason) -> bool {
        let is_it = |failure: &&HostFailure| failure.retry_at.is_none() && failure.message == reason.text;
        let Some(failure) = self.memory.failure.as_ref().filter(is_it) else { return false };
        let asked_at = self.seen.host.metadata.deletion_timestamp.unwrap_or(self.now);
        let since = failure.at.max(asked_at).max(self.memory.since);
        self.is_deleting() && self.now.duration_since(since) > self.limits().obstacle
    }

    /// Whether an action of this kind may be tried now; otherwise the reason why not.
    #[track_caller]
    pub(crate) fn may_try(&mut self) -> Result<(), HostReason> {
        let Some(failure) = self.memory.failure.clone() else { return Ok(()) };
        if failure.inputs != self.inputs() {
            self.memory.failure = None;
            return Ok(());
        }
        if failure.until_edit {
            self.deadline(later(self.now, self.limits().stall));
            return Err(self.rest(failure.message));
        }
        match failure.retry_at {
            Some(at) if backoff::is_ahead(at, self.now) => {
                let wait = at.duration_since(self.now);
                self.deadline(later(at, self.limits().stall));
                Err(self.wait_in_state(wait, retried(&failure.message, at)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Makes the plan current and tells the agent.
    pub(crate) fn issue(&mut self, plan: PlanKind) {
        self.memory.plan_number += 1;
        let number = self.memory.plan_number;
        self.memory.plan = Some(IssuedPlan { number, plan: plan.clone(), issued_at: self.now, stopped: None });
        self.memory.held = None;
        hardware_changes::note(&mut self.memory);
        self.effect(HostEffect::IssuePlan { attempt: self.memory.attempt, number, plan });
    }

    /// Tells the agent again, in a later step: effects may get lost.
    pub(crate) fn issue_again(&mut self) {
        if self.effects.iter().any(|effect| matches!(effect, HostEffect::IssuePlan { .. })) {
            return;
        }
        if let Some(plan) = self.memory.plan.clone() {
            self.effect(HostEffect::IssuePlan { attempt: self.memory.attempt, number: plan.number, plan: plan.plan });
        }
    }

    /// Has the agent switch the host off, once.
    pub(crate) fn issue_power_off(&mut self) {
        if self.memory.plan.as_ref().is_some_and(|plan| plan.plan == PlanKind::PowerOff) {
            self.issue_again();
        } else {
            self.issue(PlanKind::PowerOff);
        }
    }

    /// A new GUID (RFC 9562 version 4) from the step's random bits.
    pub(crate) fn guid(&self) -> String {
        let bits = self.seen.entropy;
        let bits = (bits & !(0xf_u128 << 76) | (0x4_u128 << 76)) & !(0x3_u128 << 62) | (0x2_u128 << 62);
        Guid::from_u128(bits).to_string()
    }
}

pub(crate) fn later(from: Timestamp, after: SignedDuration) -> Timestamp {
    from.checked_add(after).unwrap_or(Timestamp::MAX)
}

/// `90 s`, `12 min`, `3 h`.
pub(crate) fn format_duration(duration: SignedDuration) -> String {
    match duration.as_secs() {
        secs @ ..=119 => format!("{} s", secs.max(0)),
        secs @ 120..=7199 => format!("{} min", (secs + 30) / 60),
        secs => format!("{} h", (secs + 1800) / 3600),
    }
}

/// Upstream's event for an error.
fn error_event(kind: ErrorType) -> EventReason {
    match kind {
        ErrorType::Registration => EventReason::RegistrationError,
        ErrorType::ProvisionedRegistration => EventReason::ProvisionedRegistrationError,
        ErrorType::Inspection => EventReason::InspectionError,
        ErrorType::Preparation => EventReason::PreparationError,
        ErrorType::Provisioning => EventReason::ProvisioningError,
        ErrorType::PowerManagement => EventReason::PowerManagementError,
        ErrorType::Servicing => EventReason::ServicingError,
    }
}

/// Says of a failure when what failed is tried again.
fn retried(message: &str, at: Timestamp) -> String {
    format!("{message}; trying again at {at:.0}")
}
