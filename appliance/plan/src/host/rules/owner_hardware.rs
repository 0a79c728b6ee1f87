//! The hardware of a host that is not inspected, as its owner describes it: upstream's
//! `inspect.metal3.io/hardwaredetails`. It is shown and stored as `HardwareData`, and removed from the object.
//! No disk is ever chosen from it: before a write the agent looks for itself.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::{InspectionMode, annotations, requests};
use firesteel_resources::host_journal::RequestOutcome;
use firesteel_resources::{BareMetalHost, HardwareDetails};

use crate::host::model::{HostEffect, HostInputs};
use crate::host::turn::StepDraft;

/// Takes the description over, or says why not; in both cases its annotation goes.
pub(crate) fn take(turn: &mut StepDraft<'_>) {
    let Some(details) = annotations::hardware_details(&turn.seen.host.metadata) else { return };
    let (outcome, event, text) = match details {
        Err(why) => {
            let text = format!("metadata.annotations[{}] {why}", annotations::HARDWARE_DETAILS);
            (RequestOutcome::Refused, EventReason::InvalidAnnotationValue, text)
        }
        Ok(_) if !may_take(turn.seen) => {
            let text = "the hardware details are ignored: the host was inspected, and inspection is not disabled";
            (RequestOutcome::Refused, EventReason::RemoveAnnotation, text.to_owned())
        }
        Ok(details) => {
            turn.effect(HostEffect::SupplyHardware { details: Box::new(details) });
            let text = "the hardware is taken from the annotation";
            (RequestOutcome::Done, EventReason::UpdateHardwareDetails, text.to_owned())
        }
    };
    turn.answer(annotations::HARDWARE_DETAILS, outcome, &text);
    if outcome == RequestOutcome::Refused {
        turn.warn(event, text)
    } else {
        turn.event(event, text)
    }
    turn.remove_annotation(annotations::HARDWARE_DETAILS);
}

/// What the status shows from now on, where something was supplied.
pub(crate) fn shown(seen: &HostInputs) -> Option<HardwareDetails> {
    let details = annotations::hardware_details(&seen.host.metadata)?.ok()?;
    may_take(seen).then_some(details)
}

/// Whether the description may be taken: if inspection is disabled, or nothing is known (upstream).
fn may_take(seen: &HostInputs) -> bool {
    is_disabled(&seen.host) || seen.hardware.is_none()
}

/// The owner wants no inspection.
pub(crate) fn is_disabled(host: &BareMetalHost) -> bool {
    host.spec.inspection_mode == Some(InspectionMode::Disabled) || requests(&host.metadata).inspection_disabled
}
