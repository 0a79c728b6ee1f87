//! Inspecting a host by its BMC's inventory, where no agent can be booted. Nothing on the host is changed.
//!
//! ```text
//!   BMC reads ─► bmc_inspection in the memory ─► HardwareData, marked as the BMC's ─► preparing
//!        └── has none (IPMI, an old service) ──────────────────────────────────────► preparing
//! ```
//!
//! The planner never gets what the inventory says of drives: [`HostInputs`](crate::host::HostInputs) has no field for
//! it, and [`HardwareRecord`](firesteel_resources::HardwareRecord), from which disks are chosen and erased, is made from
//! an agent's report alone.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::{ErrorType, annotations};
use firesteel_resources::host_journal::RequestOutcome;
use jiff::SignedDuration;

use crate::host::model::{BmcAction, BmcInspection, HostEffect, HostReason, HostState};
use crate::host::rules::bmc_access;
use crate::host::turn::{BmcCallProgress, StateStep, StepDraft};

const KIND: ErrorType = ErrorType::Inspection;
/// Pause before the object that shows the inventory is looked at again.
const SHOWN_POLL: SignedDuration = SignedDuration::from_secs(1);

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    // An agent that was given it is gone.
    turn.memory.plan = None;
    turn.memory.boot = None;
    let since = turn.memory.since;
    let Some(done) = turn.memory.bmc_inspection.clone().filter(|done| done.at >= since) else {
        return read(turn);
    };
    if let Some(why) = done.not_read {
        return Ok(finish(turn, RequestOutcome::Refused, EventReason::InspectionSkipped, &without(&why)));
    }
    if !turn.seen.bmc_record_is_shown {
        turn.effect(HostEffect::SaveBmcHardware);
        return Err(turn.wait_in_state(SHOWN_POLL, "the BMC's inventory is being stored"));
    }
    let text = match &turn.seen.hardware {
        None => "the BMC's inventory is stored as the hardware record: no disk is chosen, erased or written by it",
        Some(_) => "the BMC's inventory was read; the hardware record stays what an agent found",
    };
    Ok(finish(turn, RequestOutcome::Done, EventReason::InspectionComplete, text))
}

fn read(turn: &mut StepDraft<'_>) -> StateStep {
    turn.may_try()?;
    match turn.call(BmcAction::Inspect) {
        BmcCallProgress::Waiting(reason) => Err(reason),
        BmcCallProgress::Failed(fault) => Err(bmc_access::failed(turn, KIND, &fault)),
        BmcCallProgress::Done => {
            let not_read = turn.seen.bmc.no_inventory.clone();
            turn.memory.bmc_inspection = Some(BmcInspection { at: turn.now, not_read });
            Ok(turn.wait_in_state(SignedDuration::ZERO, "the BMC answered what it knows of its machine"))
        }
    }
}

fn without(why: &str) -> String {
    format!("the hardware is not known, and the host goes on as with inspection disabled: {why}")
}

fn finish(turn: &mut StepDraft<'_>, outcome: RequestOutcome, event: EventReason, text: &str) -> HostReason {
    if turn.requests.inspect {
        turn.answer(annotations::INSPECT, outcome, text);
        turn.remove_annotation(annotations::INSPECT);
    }
    turn.event(event, text);
    turn.go(HostState::Preparing, text)
}
