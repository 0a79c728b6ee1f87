//! Registering: make sure that the host can be managed. With a BMC: the Secret is there, the BMC
//! takes it, and a boot MAC is known. Without: the host's agent is bound.

use firesteel_resources::bare_metal_host::{ErrorType, InspectionMode};

use crate::host::{
    attempt,
    bmc::{Call, call, credentials, fault_text},
    effect::{BmcAction, EventKind, Reason},
    memory::State,
    seen::{BmcFaultKind, CredentialsSeen},
    turn::Turn,
};

const KIND: ErrorType = ErrorType::Registration;

pub(super) fn step(turn: &mut Turn<'_>) -> Reason {
    if !turn.has_bmc() {
        return match attempt::agent(turn, KIND) {
            Ok(_) => registered(turn),
            Err(reason) => reason,
        };
    }
    attempt::keep_fresh(turn);
    let secret = turn.seen.host.spec.usable_bmc().map(|bmc| bmc.credentials_name.clone()).unwrap_or_default();
    match turn.seen.credentials {
        CredentialsSeen::Missing => {
            let wake = turn.limits().secret_retry;
            turn.blocked(KIND, wake, format!("Secret {secret} with the BMC's user name and password does not exist"))
        }
        CredentialsSeen::Empty => {
            turn.stuck(KIND, format!("Secret {secret} must have the keys username and password, both not blank"))
        }
        CredentialsSeen::Ready { .. } => probe(turn),
    }
}

fn probe(turn: &mut Turn<'_>) -> Reason {
    let accepted = turn.memory.bmc.good_credentials.is_some() && turn.memory.bmc.good_credentials == credentials(turn);
    if accepted {
        return macs(turn);
    }
    if let Err(reason) = turn.may_try() {
        return reason;
    }
    match call(turn, BmcAction::Probe) {
        Call::Waiting(reason) => reason,
        Call::Done => macs(turn),
        Call::Failed(fault) => {
            let text = fault_text(turn, &fault);
            match fault.kind {
                BmcFaultKind::Unsupported => turn.stuck(KIND, text),
                BmcFaultKind::Unreachable | BmcFaultKind::Credentials | BmcFaultKind::Refused => turn.fail(KIND, text),
            }
        }
    }
}

fn macs(turn: &mut Turn<'_>) -> Reason {
    if turn.memory.macs.is_empty() {
        let known = turn.seen.bmc.macs.join(", ");
        let known = if known.is_empty() { "the BMC names none".to_owned() } else { format!("the BMC names {known}") };
        return turn.stuck(KIND, format!("spec.bootMACAddress must say which interface boots: {known}"));
    }
    turn.event(EventKind::Normal, "BMCAccessValidated", "the BMC answers and takes the credentials");
    registered(turn)
}

fn registered(turn: &mut Turn<'_>) -> Reason {
    turn.memory.history.register.end = Some(turn.now);
    turn.event(EventKind::Normal, "Registered", "the host can be managed");
    let spec = &turn.seen.host.spec;
    if spec.externally_provisioned {
        return turn.go(State::ExternallyProvisioned, "registered; somebody else installed its OS");
    }
    if spec.inspection_mode == Some(InspectionMode::Disabled) || turn.requests.inspection_disabled {
        turn.event(EventKind::Normal, "InspectionSkipped", "inspection is disabled");
        return turn.go(State::Preparing, "registered; inspection is disabled");
    }
    turn.memory.history.inspect.start = Some(turn.now);
    turn.memory.history.inspect.end = None;
    turn.event(EventKind::Normal, "InspectionStarted", "the hardware is going to be inspected");
    turn.go(State::Inspecting, "registered")
}
