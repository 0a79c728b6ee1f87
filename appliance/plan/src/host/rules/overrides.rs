//! The override for one boot from the network: ordered with each boot into the agent, and gone once the host has its
//! OS. Some BMCs keep it ("Once" is stored as "Continuous"), and the host would ask the network at each boot.

use firesteel_facts::EventReason;
use firesteel_resources::Condition;

use crate::host::model::{BmcAction, BmcFaultKind, HostMemory, HostReason, OrderedOverride};
use crate::host::turn::{BmcCallProgress, StepDraft, later};

/// The BMC directs the host's boots.
pub(crate) const TYPE: &str = "BootOverride";
/// Failures after which the host says so, and a person has to do it. The next boot into the agent begins at zero.
const FAILURES_MAX: u32 = 3;

/// The BMC took the order for that boot.
pub(crate) fn record_overrides(turn: &mut StepDraft<'_>) {
    let no_override = turn.seen.bmc.no_override.clone();
    if no_override.is_some() {
        turn.memory.bmc.ordered = None;
    }
    turn.memory.bmc.no_override = no_override;
}

/// Reads the override again after the installation, and takes it back where it is still there; `Err` while that is
/// under way. What keeps the BMC from being asked at all is shown by the rules that look at its power.
#[track_caller]
pub(crate) fn take_back(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let Some(mut ordered) = turn.memory.bmc.ordered.clone() else { return Ok(()) };
    let pending = turn.memory.bmc.call.as_ref().map(|pending| pending.call.action);
    let is_asked = pending == Some(BmcAction::TakeBootBack);
    let is_early = ordered.retry_at.is_some_and(|at| at > turn.now) || ordered.failures >= FAILURES_MAX;
    let is_busy = turn.memory.failure.is_some() || turn.memory.power.is_some() || turn.memory.reboot.is_some();
    if !is_asked && (pending.is_some() || is_early || is_busy) {
        return Ok(());
    }
    let left = match turn.call(BmcAction::TakeBootBack) {
        BmcCallProgress::Waiting(reason) => return Err(reason),
        BmcCallProgress::Done => turn.seen.bmc.override_left.clone(),
        BmcCallProgress::Failed(fault) => match fault.kind {
            BmcFaultKind::Refused | BmcFaultKind::Unsupported => Some(fault.message),
            BmcFaultKind::Unreachable
            | BmcFaultKind::Credentials
            | BmcFaultKind::NoSecret
            | BmcFaultKind::EmptySecret
            | BmcFaultKind::HeldBack { .. } => {
                ordered.retry_at = Some(later(turn.now, turn.limits().power_poll));
                turn.memory.bmc.ordered = Some(ordered);
                return Ok(());
            }
        },
    };
    turn.memory.bmc.ordered = left.map(|why| {
        let text = text_of(&why);
        turn.warn(EventReason::BootOverrideLeft, text);
        let retry_at = Some(later(turn.now, turn.limits().slow_poll));
        OrderedOverride { failures: ordered.failures + 1, retry_at, why: Some(why) }
    });
    Ok(())
}

fn text_of(why: &str) -> String {
    format!(
        "the boot override of the installation is still set at the BMC and could not be taken back ({why}): switch it \
         off there, or the host asks the network at each boot"
    )
}

/// Shows its owner that there is no override, or that one is left.
pub(crate) fn condition(memory: &HostMemory) -> Option<Condition> {
    if let Some(why) = &memory.bmc.no_override {
        let text = format!(
            "the BMC has no boot override ({why}): the host boots by its own order, so put the network first in the \
             boot order of its firmware"
        );
        return Some(Condition::new(TYPE, false, "NotOffered", text));
    }
    let why = memory.bmc.ordered.as_ref()?.why.as_deref()?;
    Some(Condition::new(TYPE, false, "NotTakenBack", text_of(why)))
}
