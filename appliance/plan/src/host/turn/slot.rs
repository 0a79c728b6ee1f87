//! A slot for the states in which a host boots into the agent: taken before one of them is entered, given back
//! when the host waits for its next try, taken again before it goes on. See [`crate::admission`].

use firesteel_facts::WorkHold;
use firesteel_resources::bare_metal_host::requests;

use crate::admission::{SlotDemand, SlotOffer};
use crate::backoff;
use crate::host::model::{HeldSlot, HostFailure, HostInputs, HostMemory, HostReason, HostState};
use crate::host::turn::{AgentPresence, StepDraft, later};

impl StepDraft<'_> {
    /// Takes a slot, or says what the host waits for. A host that has one, or is at work already, is not held up: also
    /// not while there is no network for hosts to boot from, since the agent may come back with it. Where hosts are driven
    /// by their BMCs alone, the rule `bmc_only` decides.
    #[track_caller]
    pub(crate) fn take_slot(&mut self) -> Result<(), HostReason> {
        let is_at_work = self.memory.plan.is_some() && self.presence() == AgentPresence::Alive;
        if self.memory.admitted.is_some() {
            return Ok(());
        }
        if let Some(WorkHold::NotServed(why)) = self.seen.work_hold.as_ref().filter(|_| !is_at_work) {
            return Err(delay(self, why.clone()));
        }
        if waits_for_a_person(self) {
            return Ok(());
        }
        match self.seen.slot {
            SlotOffer::Full { .. } | SlotOffer::NotCounted if is_at_work => {
                self.memory.admitted = Some(HeldSlot { since: self.now, resumed: true });
                Ok(())
            }
            SlotOffer::Free => {
                self.memory.admitted = Some(HeldSlot { since: self.now, resumed: is_at_work });
                Ok(())
            }
            SlotOffer::Full { busy, ahead } => {
                let before = if ahead == 0 { String::new() } else { format!(", and {ahead} wait before this one") };
                Err(delay(
                    self,
                    format!("{busy} hosts are inspected, provisioned or cleaned at the moment{before}: waiting"),
                ))
            }
            SlotOffer::NotCounted => {
                Err(delay(self, "waiting until the hosts at work are counted after a start".to_owned()))
            }
        }
    }
}

#[track_caller]
fn delay(turn: &mut StepDraft<'_>, text: String) -> HostReason {
    let poll = turn.limits().slot_poll;
    let now = turn.now;
    turn.is_delayed = true;
    turn.memory.delayed.get_or_insert(now);
    turn.deadline(later(now, turn.limits().stall));
    turn.wait_in_state(poll, text)
}

/// Gives the slot back where the step ended without need of it, and leaves the line.
pub(crate) fn release_slot(turn: &mut StepDraft<'_>) {
    if !needs(turn) {
        turn.memory.admitted = None;
    }
    if !turn.is_delayed {
        turn.memory.delayed = None;
    }
}

/// The host is at work, or may go on by itself at any time.
fn needs(turn: &StepDraft<'_>) -> bool {
    if !matches!(
        turn.memory.state,
        HostState::Inspecting | HostState::Preparing | HostState::Provisioning | HostState::Deprovisioning
    ) || turn.memory.detached.is_some()
    {
        return false;
    }
    let is_at_work = turn.memory.plan.is_some() && turn.presence() == AgentPresence::Alive;
    let is_booting = turn.memory.boot.is_some() && turn.has_bmc();
    let rests = turn.memory.failure.as_ref().is_some_and(|failure| is_ahead(failure, turn)) || waits_for_a_person(turn);
    is_at_work || is_booting || !(rests || turn.is_shut)
}

/// Nothing is tried before some time, an edit, or the end of a standing obstacle.
fn is_ahead(failure: &HostFailure, turn: &StepDraft<'_>) -> bool {
    failure.until_edit || failure.retry_at.is_none_or(|at| backoff::is_ahead(at, turn.now))
}

/// Whether the host waits for a person to boot it, since it has no BMC.
fn waits_for_a_person(turn: &StepDraft<'_>) -> bool {
    !turn.has_bmc() && turn.presence() != AgentPresence::Alive
}

/// What the host does since a step that ended with `memory`.
#[must_use]
pub fn standing(memory: &HostMemory, seen: &HostInputs) -> SlotDemand {
    let is_paused = requests(&seen.host.metadata).paused.is_some();
    match (&memory.admitted, memory.delayed) {
        _ if is_paused => SlotDemand::Idle,
        (Some(_), _) => SlotDemand::Busy,
        (None, Some(since)) => SlotDemand::Waiting { since },
        (None, None) => SlotDemand::Idle,
    }
}
