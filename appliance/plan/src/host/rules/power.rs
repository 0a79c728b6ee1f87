//! Keeping the power as asked, through a BMC: soft before hard, with the change seen at the BMC
//! before it counts.

use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::model::{BmcAction, BmcFault, BmcFaultKind, HostPower, HostReason, PowerTask};
use crate::host::rules::bmc_access;
use crate::host::turn::{BmcCallProgress, StepDraft, format_duration, later};

/// What power that cannot be changed is called.
const KIND: ErrorType = ErrorType::PowerManagement;

/// Brings the power to what is wanted; `Ok` where it is so by a fresh look. `hard`: no OS is there that could shut down.
#[track_caller]
pub(crate) fn reach(turn: &mut StepDraft<'_>, on: bool, hard: bool) -> Result<(), HostReason> {
    let changing = turn.memory.power.as_ref().is_some_and(|work| work.want_on == on);
    let age_max = if changing { turn.limits().power_poll_changing } else { turn.limits().power_poll };
    let age = turn.seen.bmc.power_at.map(|at| turn.now.duration_since(at));
    let was_steady = is_seen(turn, on)
        && turn.memory.power.is_none()
        && turn.memory.failure.is_none()
        && !turn.memory.state.is_working();
    // An order whose outcome is awaited goes first; then a fresh look.
    let pending = turn.memory.bmc.call.as_ref().map(|pending| pending.call.action);
    let looking = pending == Some(BmcAction::Probe);
    let ordering = pending.is_some() && !looking;
    // The answer is taken when it comes: left until the next look, it would pass for that one's.
    if !ordering && (looking || age.is_none_or(|age| age > age_max)) {
        match turn.call(BmcAction::Probe) {
            // What is seen now is its answer.
            BmcCallProgress::Done => {}
            // A look now and then does not unsettle what rests as it was seen last.
            BmcCallProgress::Waiting(_) if was_steady => {}
            BmcCallProgress::Waiting(reason) => return Err(reason),
            BmcCallProgress::Failed(fault) => return Err(bmc_access::failed(turn, KIND, &fault)),
        }
    }
    let reached = is_seen(turn, on);
    if reached && !ordering {
        turn.memory.power = None;
        return Ok(());
    }
    let work = turn.memory.power.clone().filter(|work| work.want_on == on);
    let work = work.unwrap_or(PowerTask { want_on: on, hard, since: turn.now, ordered: false });
    Err(change(turn, work))
}

fn is_seen(turn: &StepDraft<'_>, on: bool) -> bool {
    match turn.seen.bmc.power {
        HostPower::On => on,
        HostPower::Off => !on,
        HostPower::Unknown => false,
    }
}

#[track_caller]
fn change(turn: &mut StepDraft<'_>, mut work: PowerTask) -> HostReason {
    let waited = turn.now.duration_since(work.since);
    let limit = if work.want_on || work.hard { turn.limits().power_change } else { turn.limits().soft_off };
    turn.deadline(later(work.since, limit));
    if work.ordered && waited > limit {
        if work.want_on || work.hard {
            turn.memory.power = None;
            let (order, state) = if work.want_on { ("power-on", "off") } else { ("power-off", "on") };
            let text =
                format!("the BMC accepted {order} but the host is still {state} after {}", format_duration(waited));
            return turn.fail(KIND, text);
        }
        // The OS did not shut down in time.
        work = PowerTask { hard: true, since: turn.now, ordered: false, ..work };
    }
    if work.ordered {
        turn.memory.power = Some(work);
        let wake = turn.limits().power_poll_changing;
        let text = awaited(turn);
        return turn.wait_in_state(wake, text);
    }
    let action = if work.want_on { BmcAction::PowerOn } else { BmcAction::PowerOff { hard: work.hard } };
    let ordered = match turn.call(action) {
        BmcCallProgress::Waiting(reason) => {
            turn.memory.power = Some(work);
            return reason;
        }
        BmcCallProgress::Done => true,
        // A soft power-off that the BMC refuses is tried hard at once: some have no soft one. What it was not asked
        // because it answers with errors now is asked again.
        BmcCallProgress::Failed(BmcFault { kind: BmcFaultKind::Unsupported, .. }) if !work.want_on && !work.hard => {
            work.hard = true;
            false
        }
        BmcCallProgress::Failed(fault) => {
            turn.memory.power = None;
            return bmc_access::failed(turn, KIND, &fault);
        }
    };
    turn.memory.power = Some(PowerTask { ordered, since: turn.now, ..work });
    let text = awaited(turn);
    turn.wait_in_state(jiff::SignedDuration::from_secs(1), text)
}

/// Says which change of the power is waited for, and what comes if it does not.
fn awaited(turn: &StepDraft<'_>) -> String {
    match &turn.memory.power {
        Some(PowerTask { want_on: false, hard: false, ordered: true, since }) => format!(
            "the OS was asked at {since:.0} to shut down; if it does not, the power is cut at {:.0}",
            later(*since, turn.limits().soft_off)
        ),
        Some(PowerTask { want_on: true, .. }) => "waiting for the power to come on".to_owned(),
        Some(_) | None => "waiting for the power to go off".to_owned(),
    }
}
