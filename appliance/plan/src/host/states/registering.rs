//! Registering: make sure that the host can be managed. With a BMC: the Secret is there, the BMC
//! takes it, and a boot MAC is known. Without: the host's agent is bound.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::model::{BmcAction, HostState};
use crate::host::rules::{agent, bmc_access, bmc_only, booting, owner_hardware};
use crate::host::turn::{BmcCallProgress, StateStep, StepDraft};

const KIND: ErrorType = ErrorType::Registration;

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    if !turn.has_bmc() {
        agent::agent(turn, KIND)?;
        return registered(turn);
    }
    agent::keep_fresh(turn);
    let accepted = turn.memory.bmc.good_credentials.is_some() && turn.memory.bmc.good_credentials == turn.credentials();
    if accepted {
        return macs(turn);
    }
    turn.may_try()?;
    match turn.call(BmcAction::Probe) {
        BmcCallProgress::Waiting(reason) => Err(reason),
        BmcCallProgress::Done => {
            turn.event(EventReason::BmcAccessValidated, "the BMC answers and takes the credentials");
            macs(turn)
        }
        BmcCallProgress::Failed(fault) => Err(bmc_access::failed(turn, KIND, &fault)),
    }
}

fn macs(turn: &mut StepDraft<'_>) -> StateStep {
    // A host that boots no agent needs none.
    let is_bmc_only = bmc_only::cause(&turn.memory, turn.seen, turn.now).is_some();
    if turn.memory.macs.is_empty() && !is_bmc_only {
        let text = booting::no_boot_mac(turn);
        return Ok(turn.stuck(KIND, text));
    }
    registered(turn)
}

fn registered(turn: &mut StepDraft<'_>) -> StateStep {
    let spec = &turn.seen.host.spec;
    let is_inspected = !spec.externally_provisioned && !owner_hardware::is_disabled(&turn.seen.host);
    if is_inspected && bmc_only::cause(&turn.memory, turn.seen, turn.now).is_none() {
        turn.take_slot()?;
    }
    turn.event(EventReason::Registered, "the host can be managed");
    if spec.externally_provisioned {
        return Ok(turn.go(HostState::ExternallyProvisioned, "registered; its OS was not installed from here"));
    }
    if owner_hardware::is_disabled(&turn.seen.host) {
        turn.event(EventReason::InspectionSkipped, "inspection is disabled");
        return Ok(turn.go(HostState::Preparing, "registered; inspection is disabled"));
    }
    turn.event(EventReason::InspectionStarted, "the hardware is going to be inspected");
    Ok(turn.go(HostState::Inspecting, "registered"))
}
