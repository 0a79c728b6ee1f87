//! Registering: make sure that the host can be managed. With a BMC: the Secret is there, the BMC
//! takes it, and a boot MAC is known. Without: the host's agent is bound.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::{
    model::{
        effect::{EventSeverity, HostReason},
        memory::HostState,
        orders::BmcAction,
    },
    rules::{agent, bmc_access, owner_hardware},
    turn::{
        StepDraft,
        bmc::{BmcCallProgress, call},
        login::credentials,
        slot,
    },
};

const KIND: ErrorType = ErrorType::Registration;

pub(crate) fn step(turn: &mut StepDraft<'_>) -> HostReason {
    if !turn.has_bmc() {
        return match agent::agent(turn, KIND) {
            Ok(_) => registered(turn),
            Err(reason) => reason,
        };
    }
    agent::keep_fresh(turn);
    let accepted = turn.memory.bmc.good_credentials.is_some() && turn.memory.bmc.good_credentials == credentials(turn);
    if accepted {
        return macs(turn);
    }
    if let Err(reason) = turn.may_try() {
        return reason;
    }
    match call(turn, BmcAction::Probe) {
        BmcCallProgress::Waiting(reason) => reason,
        BmcCallProgress::Done => {
            turn.event(
                EventSeverity::Normal,
                EventReason::BmcAccessValidated,
                "the BMC answers and takes the credentials",
            );
            macs(turn)
        }
        BmcCallProgress::Failed(fault) => bmc_access::failed(turn, KIND, &fault),
    }
}

fn macs(turn: &mut StepDraft<'_>) -> HostReason {
    if turn.memory.macs.is_empty() {
        let known = turn.seen.bmc.macs.join(", ");
        let known = if known.is_empty() { "the BMC names none".to_owned() } else { format!("the BMC names {known}") };
        return turn.stuck(KIND, format!("spec.bootMACAddress must say which interface boots: {known}"));
    }
    registered(turn)
}

fn registered(turn: &mut StepDraft<'_>) -> HostReason {
    let spec = &turn.seen.host.spec;
    let is_inspected = !spec.externally_provisioned && !owner_hardware::is_disabled(&turn.seen.host);
    if is_inspected && let Err(reason) = slot::take(turn) {
        return reason;
    }
    turn.event(EventSeverity::Normal, EventReason::Registered, "the host can be managed");
    if spec.externally_provisioned {
        return turn.go(HostState::ExternallyProvisioned, "registered; somebody else installed its OS");
    }
    if owner_hardware::is_disabled(&turn.seen.host) {
        turn.event(EventSeverity::Normal, EventReason::InspectionSkipped, "inspection is disabled");
        return turn.go(HostState::Preparing, "registered; inspection is disabled");
    }
    turn.event(EventSeverity::Normal, EventReason::InspectionStarted, "the hardware is going to be inspected");
    turn.go(HostState::Inspecting, "registered")
}
