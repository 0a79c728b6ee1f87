//! The gate: may the disks of this host be changed now?
//!
//! The one place that answers. Who issues a plan that destroys asks [`may_destroy`]; who talks to an agent that
//! runs one asks [`closed_gate`], and has it hold at its next safe point for as long as there is an answer.
//!
//! | shut by | for | what is under way | what it is opened with |
//! |---|---|---|---|
//! | the owner's lock (annotation `firesteel.dev/lock`) | one host | is given up at its next safe point | `firesteel unlock` |
//! | a [halt](crate::host::FleetHalt) of the fleet | every host | holds at its next safe point | `firesteel resume` |
//! | a [doubt](crate::clock) of the appliance's clock | every host | holds at its next safe point | the right time, or `firesteel accept-clock` |
//! | [claimants]: more than one machine claims to be the host | one host | holds at its next safe point, and is not judged | the BMC, or `firesteel choose-agent` |
//!
//! Behind a halt and a doubted clock nothing else waits: a host is inspected, switched and released as if the gate were
//! open. A locked host is also not taken from its OS for the sake of a change that is not made. Neither is a failure.
//!
//! A host that is [frozen](crate::host::Frozen) is another matter: nothing can be under way there, and only that
//! host's owner can say what becomes of its disks.

use firesteel_facts::EventReason;
use firesteel_resources::ObjectMeta;
use firesteel_resources::bare_metal_host::{ErrorType, annotations};
use firesteel_resources::host_journal::RequestOutcome;
use jiff::Timestamp;

use crate::host::model::{HeldPlan, HostInputs, HostMemory, HostReason, HostState, IssuedPlan};
use crate::host::turn::{StepDraft, contest, frozen, later};

/// What stands in the way of every change of the host's disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedGate {
    pub by: GateCloser,
    /// Who shut it and why, and how it is opened; for people.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateCloser {
    /// The host's owner keeps its disks as they are.
    Lock,
    /// A person stopped the whole fleet.
    Halt,
    /// The appliance's clock may be wrong.
    Clock,
    /// More than one machine claims to be the host.
    Claimants,
}

impl GateCloser {
    /// The event that says so.
    #[must_use]
    pub fn event(self) -> EventReason {
        match self {
            Self::Lock => EventReason::Locked,
            Self::Halt => EventReason::FleetHalted,
            Self::Clock => EventReason::ClockDoubtful,
            Self::Claimants => EventReason::SecondClaimant,
        }
    }

    /// The word for it as a condition's reason.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.event().word()
    }
}

/// What shuts the gate of this host now; `None`: it is open.
#[must_use]
pub fn closed_gate(memory: &HostMemory, seen: &HostInputs) -> Option<ClosedGate> {
    let claimed = || contest::contest(memory, seen).map(|text| ClosedGate { by: GateCloser::Claimants, text });
    let halt = || seen.halt.as_ref().map(|halt| ClosedGate { by: GateCloser::Halt, text: halt.to_string() });
    let clock = || seen.clock.map(|doubt| ClosedGate { by: GateCloser::Clock, text: doubt.to_string() });
    lock(&seen.host.metadata).or_else(halt).or_else(clock).or_else(claimed)
}

/// The owner's lock, if there is one.
#[must_use]
pub fn lock(metadata: &ObjectMeta) -> Option<ClosedGate> {
    let lock = metadata.annotation(annotations::LOCK)?;
    let why = if lock.is_empty() { String::new() } else { format!(" ({lock:.200})") };
    let host = &metadata.name;
    let text =
        format!("locked by its owner{why}: no disk of the host is cleaned or written until `firesteel unlock {host}`");
    Some(ClosedGate { by: GateCloser::Lock, text })
}

/// Whether an agent must not be given the host's plan, although it was issued: it changes disks, and the host was
/// locked since; or more than one machine claims to be the host.
#[must_use]
pub fn holds_back(seen: &HostInputs, memory: &HostMemory) -> bool {
    if contest::contest(memory, seen).is_some() {
        return true;
    }
    lock(&seen.host.metadata).is_some() && memory.plan.as_ref().is_some_and(|issued| issued.plan.destroys())
}

/// Whether disks of the host may be changed now; otherwise the reason why not. Asked before every plan that
/// destroys is issued.
#[track_caller]
pub(crate) fn may_destroy(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    frozen::may_destroy(turn, kind)?;
    let Some(shut) = closed_gate(&turn.memory, turn.seen) else { return Ok(()) };
    Err(wait(turn, shut))
}

/// Whether it makes sense to go towards a change of the disks; otherwise the reason why not.
#[track_caller]
pub(crate) fn may_go_on(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    wait_while_locked(turn)?;
    frozen::may_go_on(turn, kind)
}

/// Whether a host may be taken from where it rests for the sake of a change of its disks.
#[track_caller]
pub(crate) fn wait_while_locked(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let Some(shut) = lock(&turn.seen.host.metadata) else { return Ok(()) };
    Err(wait(turn, shut))
}

#[track_caller]
fn wait(turn: &mut StepDraft<'_>, shut: ClosedGate) -> HostReason {
    turn.is_shut = true;
    note(turn, &shut);
    // An obstacle behind the gate is looked at again when it is open, and counts from then. Where the host rests
    // nothing is tried, and what led there is still so.
    let rests = turn.memory.state == HostState::Available && !turn.is_deleting();
    turn.memory.failure = turn.memory.failure.take().filter(|failure| failure.retry_at.is_some() || rests);
    turn.deadline(later(turn.now, turn.limits().stall));
    turn.wait_in_state(turn.limits().slot_poll, shut.text)
}

/// Tells once that the host was locked or unlocked.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    match (lock(&turn.seen.host.metadata), turn.memory.locked) {
        (Some(shut), None) => {
            turn.memory.locked = Some(turn.now);
            let value = turn.seen.host.metadata.annotation(annotations::LOCK).unwrap_or_default();
            turn.answer_to(annotations::LOCK, value, RequestOutcome::Done, &shut.text);
            turn.event(EventReason::DestructionLocked, shut.text);
        }
        (None, Some(_)) => {
            turn.memory.locked = None;
            let text = "disks of the host may be cleaned and written again";
            let next = match turn.is_deleting() {
                true => format!("{text}; its deletion goes on now"),
                false => text.to_owned(),
            };
            let answer = turn.with_gate(&next);
            turn.answer_to(annotations::LOCK, "", RequestOutcome::Done, &answer);
            turn.event(EventReason::DestructionUnlocked, text);
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// What holds the current plan up, if it is one that destroys. Takes note of the hold and of its end: time that
/// passed behind a shut gate is not a standstill.
pub(crate) fn holds(turn: &mut StepDraft<'_>) -> Option<ClosedGate> {
    if !turn.memory.plan.as_ref().is_some_and(|issued| issued.plan.destroys()) {
        return None;
    }
    let (shut, now) = (closed_gate(&turn.memory, turn.seen), turn.now);
    match &shut {
        Some(shut) => note(turn, shut),
        None => {
            if let Some(held) = turn.memory.held.as_mut().filter(|held| held.until.is_none()) {
                held.until = Some(now);
                turn.event(EventReason::Released, "disks may be changed again");
            }
        }
    }
    shut
}

/// Announces a hold, once.
fn note(turn: &mut StepDraft<'_>, shut: &ClosedGate) {
    if turn.memory.held.as_ref().is_none_or(|held| held.until.is_some()) {
        turn.memory.held = Some(HeldPlan { since: turn.now, until: None });
        turn.warn(shut.by.event(), shut.text.clone());
    }
}

/// The time from which on the progress of a plan is missed.
pub(crate) fn free_since(turn: &StepDraft<'_>, issued: Option<&IssuedPlan>) -> Timestamp {
    let issued_at = issued.map_or(turn.now, |issued| issued.issued_at);
    let freed_at = turn.memory.held.as_ref().and_then(|held| held.until);
    freed_at.map_or(issued_at, |freed_at| freed_at.max(issued_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tells_who_and_the_way_out() {
        let mut metadata = ObjectMeta { name: "a".into(), ..ObjectMeta::default() };
        assert_eq!(lock(&metadata), None);
        metadata.annotations.insert(annotations::LOCK.into(), "ann: audit".into());
        let why = lock(&metadata).map(|shut| shut.text).unwrap_or_default();
        assert!(why.contains("(ann: audit)") && why.contains("firesteel unlock a"), "{why}");
        metadata.annotations.insert(annotations::LOCK.into(), String::new());
        assert!(lock(&metadata).is_some(), "an empty value locks as well");
    }
}
