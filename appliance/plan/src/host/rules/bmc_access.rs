//! Access to the BMC: what a call that failed means for the host, and whether the BMC takes the credentials that are
//! given now.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;
use jiff::SignedDuration;

use crate::host::model::{BmcAction, BmcFault, BmcFaultKind, HostReason};
use crate::host::turn::{BmcCallProgress, StepDraft, history};

/// Upstream's word for a host that cannot be reached through its BMC.
fn kind(turn: &StepDraft<'_>) -> ErrorType {
    if turn.memory.state.has_os() { ErrorType::ProvisionedRegistration } else { ErrorType::Registration }
}

/// Notes a call that failed: as `work`'s error where the BMC is to blame, as one of registration where it
/// cannot be talked to as it is configured. A host that is to go counts each, so that its deletion ends.
#[track_caller]
pub(crate) fn failed(turn: &mut StepDraft<'_>, work: ErrorType, fault: &BmcFault) -> HostReason {
    let text = turn.fault_text(fault);
    if turn.is_deleting() {
        return turn.fail(work, text);
    }
    let access = kind(turn);
    match fault.kind {
        BmcFaultKind::NoSecret => {
            let wake = turn.limits().secret_retry;
            turn.no_credentials(access, text, Some(wake))
        }
        BmcFaultKind::EmptySecret => turn.no_credentials(access, text, None),
        BmcFaultKind::HeldBack { until } => {
            let wait = until.duration_since(turn.now).max(SignedDuration::from_secs(1));
            turn.blocked(access, wait, text)
        }
        BmcFaultKind::Unsupported => turn.stuck(access, text),
        BmcFaultKind::Credentials => turn.fail(access, text),
        BmcFaultKind::Unreachable | BmcFaultKind::Refused => turn.fail(work, text),
    }
}

/// Has the BMC take the credentials that are given now, where it has not yet: they changed, or the host was
/// detached. For states that rest; a state that works finds out when it needs the BMC.
#[track_caller]
pub(crate) fn verify(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let current = turn.credentials();
    if current.is_some() && turn.memory.bmc.good_credentials == current {
        return Ok(());
    }
    let awaits = turn.memory.bmc.call.as_ref().map(|pending| pending.call.action);
    if awaits.is_some_and(|action| action != BmcAction::Probe) {
        // It logs in as well.
        return Ok(());
    }
    turn.may_try()?;
    let now = turn.now;
    history::begin_operation(&mut turn.memory.history.register, now);
    match turn.call(BmcAction::Probe) {
        BmcCallProgress::Waiting(reason) => Err(reason),
        BmcCallProgress::Failed(fault) => {
            let work = kind(turn);
            Err(failed(turn, work, &fault))
        }
        BmcCallProgress::Done => {
            turn.memory.failure = None;
            history::end_operation(&mut turn.memory.history.register, now);
            turn.event(EventReason::BmcAccessValidated, "the BMC answers and takes the credentials");
            Ok(())
        }
    }
}
