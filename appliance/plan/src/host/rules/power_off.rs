//! Switching a host off and seeing it off, for all who need that: one order, and a look from time to time. Pure.
//!
//! What follows where it is not seen is the caller's to say: [`super::power_cut`] boots the host unproven, and a claim
//! of several machines goes to a person.

use crate::host::model::{BmcAction, BmcFault, HostPower, HostReason, PowerCut};
use crate::host::turn::{BmcCallProgress, StepDraft, later};

/// Says why a host does not count as off that is to be.
pub(crate) fn not_shown(cut: &PowerCut) -> String {
    if cut.is_ordered {
        "the BMC accepted power-off and does not show that the host is off".to_owned()
    } else {
        "the BMC did not accept power-off".to_owned()
    }
}

/// What one look at the power of a host that is to be off came to.
pub(crate) enum PowerOffCheck {
    /// The BMC shows that it is off.
    Off,
    /// The BMC does not show it so far.
    NotYet,
    /// The BMC has not answered.
    Waiting(HostReason),
    Failed(BmcFault),
}

/// Orders the host off, once, and then looks from time to time whether it is.
#[track_caller]
pub(crate) fn check_power_off(turn: &mut StepDraft<'_>, cut: &mut PowerCut) -> PowerOffCheck {
    let pause = turn.limits().power_poll_changing;
    let action = if cut.is_ordered { BmcAction::Probe } else { BmcAction::PowerOff { hard: true } };
    let is_asked = turn.memory.bmc.call.as_ref().is_some_and(|pending| pending.call.action == action);
    if !is_asked && cut.asked_at.is_some_and(|at| turn.now < later(at, pause)) {
        return PowerOffCheck::NotYet;
    }
    match turn.call(action) {
        BmcCallProgress::Waiting(reason) => PowerOffCheck::Waiting(reason),
        BmcCallProgress::Done => {
            (cut.is_ordered, cut.asked_at) = (true, Some(turn.now));
            if turn.seen.bmc.power != HostPower::Off {
                return PowerOffCheck::NotYet;
            }
            cut.off_at = Some(turn.now);
            PowerOffCheck::Off
        }
        BmcCallProgress::Failed(fault) => {
            cut.asked_at = Some(turn.now);
            PowerOffCheck::Failed(fault)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::{BmcCall, BmcOutcome, HostState, PendingCall};
    use crate::host::sample::{at, now, with_bmc};

    /// What one look comes to, in a word.
    fn word(check: PowerOffCheck) -> &'static str {
        match check {
            PowerOffCheck::Off => "off",
            PowerOffCheck::NotYet => "not yet",
            PowerOffCheck::Waiting(_) => "asked",
            PowerOffCheck::Failed(_) => "failed",
        }
    }

    #[test]
    fn the_bmc_is_asked_again_after_the_pause_and_its_answer_is_taken_at_once() {
        let probe = BmcAction::Probe;
        for (asked_s, pending, expected) in [
            (4, None, "not yet"),
            (5, None, "asked"),
            (6, None, "asked"),
            (4, Some(probe), "off"),
            (4, Some(BmcAction::PowerOn), "not yet"),
        ] {
            let mut seen = with_bmc(HostState::Deprovisioning);
            seen.bmc.power = HostPower::Off;
            if let Some(action) = pending {
                let call = BmcCall { ticket: 9, action };
                seen.memory.bmc.call = Some(PendingCall { call, asked_at: at(-9), inputs: String::new() });
                seen.bmc.last = Some(BmcOutcome { ticket: 9, at: now(), result: Ok(()) });
            }
            let mut cut = PowerCut::new(at(-30), 0);
            (cut.is_ordered, cut.asked_at) = (true, Some(at(-asked_s)));
            let mut turn = StepDraft::new(&seen, now());
            let found = word(check_power_off(&mut turn, &mut cut));
            assert_eq!((found, cut.off_at), (expected, (expected == "off").then(now)), "{asked_s} {pending:?}");
        }
    }
}
