//! Calls to the BMC: one at a time, named by a ticket, asked for again until an outcome is seen.

use firesteel_facts::shown_url;
use firesteel_resources::bare_metal_host::ErrorType;
use jiff::SignedDuration;

use crate::host::{
    model::{
        effect::{HostEffect, HostReason},
        inputs::{BmcFault, BmcFaultKind},
        memory::work::{OrderedOverride, PendingCall},
        orders::{BmcAction, BmcCall},
    },
    turn::{
        StepDraft, attempt, later,
        login::{self, credentials},
    },
};

/// A call that takes so many times its limit is told; the caller ends each within it.
const LATE: i32 = 3;

/// Where a wanted call stands.
pub(crate) enum BmcCallProgress {
    /// Done; said once per call.
    Done,
    Failed(BmcFault),
    Waiting(HostReason),
}

/// Asks for `action`, or takes the outcome of having asked. None that would cut a drive off is asked for while that
/// drive cannot be interrupted.
#[track_caller]
pub(crate) fn call(turn: &mut StepDraft<'_>, action: BmcAction) -> BmcCallProgress {
    let limit = turn.limits().bmc_call;
    if !matches!(action, BmcAction::Probe | BmcAction::ReadOnce | BmcAction::PowerOn | BmcAction::TakeBootBack)
        && let Err(reason) = attempt::spare_drive(turn)
    {
        return BmcCallProgress::Waiting(reason);
    }
    let Some(pending) = turn.memory.bmc.call.clone() else { return ask(turn, action) };
    let outcome = turn.seen.bmc.last.as_ref().filter(|outcome| outcome.ticket == pending.call.ticket);
    match outcome.map(|outcome| (outcome.at, outcome.result.clone())) {
        Some((ended_at, result)) => {
            turn.memory.bmc.call = None;
            match &result {
                Ok(()) => {
                    turn.memory.bmc.no_session_free = turn.seen.bmc.no_session_free;
                    accept_credentials(turn);
                }
                Err(fault) if fault.kind == BmcFaultKind::Credentials => login::refused(turn, ended_at),
                Err(_) => {}
            }
            // The outcome of a call that nobody wants any more only made room.
            match result {
                _ if pending.call.action != action => ask(turn, action),
                Ok(()) => BmcCallProgress::Done,
                // It was made with what was edited since, and says nothing of what is there now.
                Err(_) if pending.inputs != turn.inputs() => ask(turn, action),
                Err(fault) => BmcCallProgress::Failed(fault),
            }
        }
        None if turn.seen.bmc.in_flight => {
            turn.deadline(later(pending.asked_at, limit * LATE));
            if turn.now.duration_since(pending.asked_at) >= limit * LATE {
                turn.deadline(later(turn.now, limit));
                // By the beginning: a text that changes would be another obstacle each time.
                let text = format!("the BMC has not answered since {:.0}", pending.asked_at);
                return BmcCallProgress::Waiting(turn.blocked(ErrorType::PowerManagement, limit, text));
            }
            BmcCallProgress::Waiting(
                turn.wait_in_state(SignedDuration::from_secs(5), waiting_text(pending.call.action)),
            )
        }
        None if pending.call.action != action => ask(turn, action),
        None => {
            // Not running and no outcome: the process that ran it is gone.
            turn.effect(HostEffect::Bmc(pending.call.clone()));
            turn.deadline(later(turn.now, limit * LATE));
            BmcCallProgress::Waiting(turn.wait_in_state(SignedDuration::from_secs(5), waiting_text(action)))
        }
    }
}

/// A fault in words that say what to do.
pub(crate) fn fault_text(turn: &StepDraft<'_>, fault: &BmcFault) -> String {
    let spec = &turn.seen.host.spec;
    let (address, secret) =
        spec.usable_bmc().map_or(("", ""), |bmc| (bmc.address.as_str(), bmc.credentials_name.as_str()));
    let address = shown_url(address);
    match fault.kind {
        BmcFaultKind::Unreachable => format!("the BMC at {address} cannot be reached: {}", fault.message),
        BmcFaultKind::Credentials => {
            format!("the BMC at {address} refuses the user name or password in Secret {secret}: {}", fault.message)
        }
        BmcFaultKind::Unsupported => format!("the BMC address {address} cannot be used: {}", fault.message),
        BmcFaultKind::Refused => format!("the BMC at {address} answered with an error: {}", fault.message),
        BmcFaultKind::NoSecret => format!("Secret {secret} with the BMC's user name and password does not exist"),
        BmcFaultKind::EmptySecret => {
            format!("Secret {secret} must have the keys username and password, both not blank")
        }
        BmcFaultKind::HeldBack { .. } => {
            format!(
                "the BMC refuses the login with Secret {secret} at {address}, and may lock the account: {}",
                fault.message
            )
        }
    }
}

#[track_caller]
fn ask(turn: &mut StepDraft<'_>, action: BmcAction) -> BmcCallProgress {
    if let Err(fault) = login::may_log_in(turn) {
        return BmcCallProgress::Failed(fault);
    }
    turn.memory.bmc.ticket += 1;
    let call = BmcCall { ticket: turn.memory.bmc.ticket, action };
    let inputs = turn.inputs();
    if action == BmcAction::NetBoot {
        ordered(turn);
    }
    turn.memory.bmc.call = Some(PendingCall { call: call.clone(), asked_at: turn.now, inputs });
    turn.memory.bmc.tried_credentials = credentials(turn).or(turn.memory.bmc.tried_credentials.take());
    turn.effect(HostEffect::Bmc(call));
    turn.deadline(later(turn.now, turn.limits().bmc_call * LATE));
    BmcCallProgress::Waiting(turn.wait_in_state(SignedDuration::from_secs(5), waiting_text(action)))
}

fn accept_credentials(turn: &mut StepDraft<'_>) {
    turn.memory.bmc.good_credentials =
        turn.memory.bmc.tried_credentials.clone().or(turn.memory.bmc.good_credentials.take());
    login::accepted(turn);
}

fn waiting_text(action: BmcAction) -> &'static str {
    match action {
        BmcAction::Probe => "asking the BMC for power and MAC addresses",
        BmcAction::NetBoot => "telling the BMC to boot once from the network",
        BmcAction::PowerOn => "telling the BMC to switch on",
        BmcAction::PowerOff { hard: false } => "telling the BMC to shut the OS down",
        BmcAction::PowerOff { hard: true } => "telling the BMC to cut the power",
        BmcAction::Cycle => "telling the BMC to reset the host",
        BmcAction::ReadOnce => "asking the BMC whether the boot has used its override up",
        BmcAction::TakeBootBack => "asking the BMC whether the boot override is gone",
    }
}

/// A boot from the network is ordered: there is something to take back.
pub(crate) fn ordered(turn: &mut StepDraft<'_>) {
    turn.memory.bmc.ordered = Some(OrderedOverride::default());
}
