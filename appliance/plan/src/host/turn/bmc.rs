//! Calls to the BMC: one at a time, named by a ticket, asked for again until an outcome is seen.

use firesteel_facts::shown_url;
use firesteel_resources::bare_metal_host::ErrorType;
use jiff::SignedDuration;

use crate::host::model::{
    BmcAction, BmcCall, BmcFault, BmcFaultKind, HostEffect, HostReason, OrderedOverride, PendingCall,
};
use crate::host::turn::{StepDraft, later, login};

/// A call that takes so many times its limit is shown; the caller ends each within it.
const LATE: i32 = 3;

/// Progress of a wanted call.
pub(crate) enum BmcCallProgress {
    /// The call is done. A call is reported as done once.
    Done,
    Failed(BmcFault),
    Waiting(HostReason),
}

impl StepDraft<'_> {
    /// Asks for `action`, or takes the outcome of having asked. None that would cut a drive off is asked for while that
    /// drive cannot be interrupted.
    #[track_caller]
    pub(crate) fn call(&mut self, action: BmcAction) -> BmcCallProgress {
        let limit = self.limits().bmc_call;
        if !matches!(
            action,
            BmcAction::Probe | BmcAction::ReadOnce | BmcAction::PowerOn | BmcAction::TakeBootBack | BmcAction::Inspect
        ) && let Err(reason) = self.spare_drive()
        {
            return BmcCallProgress::Waiting(reason);
        }
        let Some(pending) = self.memory.bmc.call.clone() else { return self.ask(action) };
        let outcome = self.seen.bmc.last.as_ref().filter(|outcome| outcome.ticket == pending.call.ticket);
        match outcome.map(|outcome| (outcome.at, outcome.result.clone())) {
            Some((ended_at, result)) => {
                self.memory.bmc.call = None;
                match &result {
                    Ok(()) => {
                        self.memory.bmc.no_session_free = self.seen.bmc.no_session_free;
                        if pending.call.action == BmcAction::Probe {
                            self.memory.bmc.system_uuid.clone_from(&self.seen.bmc.system_uuid);
                        }
                        self.accept_credentials();
                    }
                    Err(fault) if fault.kind == BmcFaultKind::Credentials => login::refused(self, ended_at),
                    Err(_) => {}
                }
                // The outcome of a call that is not wanted any more only made room.
                match result {
                    _ if pending.call.action != action => self.ask(action),
                    Ok(()) => BmcCallProgress::Done,
                    // It was made with what was edited since, and says nothing of what is there now.
                    Err(_) if pending.inputs != self.inputs() => self.ask(action),
                    Err(fault) => BmcCallProgress::Failed(fault),
                }
            }
            None if self.seen.bmc.in_flight => {
                self.deadline(later(pending.asked_at, limit * LATE));
                if self.now.duration_since(pending.asked_at) >= limit * LATE {
                    self.deadline(later(self.now, limit));
                    // By the beginning: a text that changes would be another obstacle each time.
                    let text = format!("the BMC has not answered since {:.0}", pending.asked_at);
                    return BmcCallProgress::Waiting(self.blocked(ErrorType::PowerManagement, limit, text));
                }
                BmcCallProgress::Waiting(
                    self.wait_in_state(SignedDuration::from_secs(5), waiting_text(pending.call.action)),
                )
            }
            None if pending.call.action != action => self.ask(action),
            None => {
                // Not running and no outcome: the process that ran it is gone.
                self.effect(HostEffect::Bmc(pending.call.clone()));
                self.deadline(later(self.now, limit * LATE));
                BmcCallProgress::Waiting(self.wait_in_state(SignedDuration::from_secs(5), waiting_text(action)))
            }
        }
    }

    /// A fault in words that say what to do.
    pub(crate) fn fault_text(&self, fault: &BmcFault) -> String {
        let spec = &self.seen.host.spec;
        let (address, secret) =
            spec.usable_bmc().map_or(("", ""), |bmc| (bmc.address.as_str(), bmc.credentials_name.as_str()));
        let address = shown_url(address);
        match fault.kind {
            BmcFaultKind::Unreachable => match fault.message.strip_prefix("the BMC cannot be reached ") {
                Some(detail) => format!("the BMC at {address} cannot be reached {detail}"),
                None => format!("the BMC at {address} cannot be reached: {}", fault.message),
            },
            BmcFaultKind::Credentials => {
                let detail = fault.message.trim_start_matches("the BMC refuses the login: ");
                format!("the BMC at {address} refuses the user name or password in Secret {secret}: {detail}")
            }
            BmcFaultKind::Unsupported => format!("the BMC address {address} cannot be used: {}", fault.message),
            BmcFaultKind::Refused => format!("the BMC at {address} answered with an error: {}", fault.message),
            BmcFaultKind::NoSecret => {
                format!("Secret {secret} with the BMC's user name and password does not exist; create it")
            }
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
    fn ask(&mut self, action: BmcAction) -> BmcCallProgress {
        if let Err(fault) = login::may_log_in(self) {
            return BmcCallProgress::Failed(fault);
        }
        self.memory.bmc.ticket += 1;
        let call = BmcCall { ticket: self.memory.bmc.ticket, action };
        let inputs = self.inputs();
        if action == BmcAction::NetBoot {
            // There is something to take back from now on.
            self.memory.bmc.ordered = Some(OrderedOverride::default());
        }
        self.memory.bmc.call = Some(PendingCall { call: call.clone(), asked_at: self.now, inputs });
        self.memory.bmc.tried_credentials = self.credentials().or(self.memory.bmc.tried_credentials.take());
        self.effect(HostEffect::Bmc(call));
        self.deadline(later(self.now, self.limits().bmc_call * LATE));
        BmcCallProgress::Waiting(self.wait_in_state(SignedDuration::from_secs(5), waiting_text(action)))
    }

    fn accept_credentials(&mut self) {
        self.memory.bmc.good_credentials =
            self.memory.bmc.tried_credentials.clone().or(self.memory.bmc.good_credentials.take());
        login::accepted(self);
    }
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
        BmcAction::Inspect => "asking the BMC what it knows of its machine",
    }
}
