//! Inspecting: an agent of this attempt reads the hardware; its record is stored. Nothing on the
//! host is changed. Where no agent can be booted, the BMC's inventory takes its place.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::{ErrorType, annotations};
use firesteel_resources::host_journal::RequestOutcome;

use crate::host::model::{HostReason, HostState};
use crate::host::rules::inspection::inspect;
use crate::host::rules::{agent, bmc_inspection, bmc_only, owner_hardware, preconditions};
use crate::host::turn::{StateStep, StepDraft};

const KIND: ErrorType = ErrorType::Inspection;
/// Longest event about changes: Kubernetes' own limit of a message, less what the last word needs.
const CHANGES_BYTES_MAX: usize = 960;

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    preconditions::prefetch(turn);
    if owner_hardware::is_disabled(&turn.seen.host) {
        turn.memory.plan = None;
        turn.event(EventReason::InspectionSkipped, "inspection is disabled");
        return Ok(turn.go(HostState::Preparing, "inspection is disabled"));
    }
    if turn.has_bmc() && bmc_only::cause(&turn.memory, turn.seen, turn.now).is_some() {
        return bmc_inspection::step(turn);
    }
    let agent = agent::agent(turn, KIND)?;
    inspect(turn, agent, KIND)?;
    Ok(inspected(turn))
}

/// The first changes in one line, as long as an event may be; the record has all of them.
fn changes_text(changes: &[String]) -> Option<String> {
    let first = changes.first()?;
    let mut line = first.clone();
    for (index, change) in changes.iter().enumerate().skip(1) {
        let rest = format!("; and {} more in the hardware record", changes.len() - index);
        if line.len() + change.len() + rest.len() > CHANGES_BYTES_MAX {
            line.push_str(&rest);
            break;
        }
        line.push_str("; ");
        line.push_str(change);
    }
    Some(line)
}

fn inspected(turn: &mut StepDraft<'_>) -> HostReason {
    turn.memory.plan = None;
    if turn.requests.inspect {
        turn.answer(
            annotations::INSPECT,
            RequestOutcome::Done,
            "the host was inspected: the hardware record is stored",
        );
        turn.remove_annotation(annotations::INSPECT);
    }
    if let Some(record) = &turn.seen.hardware {
        let known = turn.memory.identity.take().unwrap_or_default();
        turn.memory.identity = Some(known.renewed(&record.system.uuid, &record.system.serial, turn.now));
    }
    turn.event(EventReason::InspectionComplete, "the hardware record is stored");
    if let Some(told) = turn.seen.hardware.as_ref().and_then(|record| changes_text(&record.changes)) {
        turn.event(EventReason::HardwareChanged, told);
    }
    turn.go(HostState::Preparing, "the hardware record is stored")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_in_one_line() {
        assert_eq!(changes_text(&[]), None);
        let two = ["a is gone".to_owned(), "b was added".to_owned()];
        assert_eq!(changes_text(&two).as_deref(), Some("a is gone; b was added"));
        let many: Vec<String> = (0..32).map(|number| format!("{number:0100}")).collect();
        let line = changes_text(&many).unwrap_or_default();
        assert!(line.len() <= 1024 && line.ends_with("; and 23 more in the hardware record"), "{line}");
    }

    /// The last change that fits is named, and one byte more is not.
    #[test]
    fn changes_are_named_as_far_as_an_event_holds_them() {
        let rest = "; and 1 more in the hardware record";
        for (length, fits) in [(CHANGES_BYTES_MAX, true), (CHANGES_BYTES_MAX + 1, false)] {
            let first = "a".repeat(600);
            let second = "b".repeat(length - first.len() - rest.len());
            let line = changes_text(&[first.clone(), second.clone()]);
            let expected = if fits { format!("{first}; {second}") } else { format!("{first}{rest}") };
            assert_eq!(line, Some(expected), "{length}");
        }
    }
}
