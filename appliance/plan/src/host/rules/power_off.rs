//! Switching a host off and seeing it off, for all who need that: one order, and a look from time to time. Pure.
//!
//! What follows where it is not seen is the caller's to say: [`super::power_cut`] boots the host unproven, and a claim
//! of several machines goes to a person.

use crate::host::model::{BmcAction, BmcFault, HostPower, HostReason, PowerCut};
use crate::host::turn::{BmcCallProgress, StepDraft, later};

/// Why a host that was ordered off does not count as off.
pub(crate) const NOT_SHOWN: &str = "the BMC accepted power-off and does not show that the host is off";

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
