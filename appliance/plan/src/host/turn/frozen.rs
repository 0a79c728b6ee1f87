//! Whether a freeze keeps the host's disks from being changed: see [`crate::host::rules::freeze`].

use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::{model::HostReason, turn::StepDraft};

pub(crate) fn is_retried(turn: &StepDraft<'_>) -> bool {
    let record = turn.seen.hardware.as_ref();
    record.is_none_or(|record| turn.memory.retried_at.is_some_and(|at| record.inspected_at < at))
}

/// Whether it makes sense to go towards a change of the disks; otherwise the reason why not.
#[track_caller]
pub(crate) fn may_go_on(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    // Who says that the disks are others now has them looked at again.
    if is_retried(turn) { Ok(()) } else { may_destroy(turn, kind) }
}

/// Whether disks of the host may be changed now; otherwise the reason why not.
#[track_caller]
pub(crate) fn may_destroy(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    let Some(frozen) = turn.memory.frozen.clone() else { return Ok(()) };
    let release = if turn.is_deleting() {
        format!(
            "; `firesteel release {} --force` lets the host go and its disks as they are",
            turn.seen.host.metadata.name
        )
    } else {
        String::new()
    };
    Err(turn.stuck(kind, format!("{}{release}", frozen.message)))
}
