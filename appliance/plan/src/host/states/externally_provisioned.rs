//! Externally provisioned: the OS was not installed from here. The host is never written to and never cleaned; its
//! power is kept as asked.

use crate::host::model::{HostState, InstalledSystem};
use crate::host::rules::reboot::{self, DesiredPower};
use crate::host::turn::{StateStep, StepDraft};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    let spec = &turn.seen.host.spec;
    let poll = turn.limits().power_poll;
    // The proofs about the disks are older than what the owner wrote to them.
    turn.memory.cleaned = None;
    if !spec.externally_provisioned {
        adopt_image(turn);
        return Ok(turn.go(HostState::Provisioned, "spec.externallyProvisioned was cleared"));
    }
    if !turn.has_bmc() {
        reboot::refuse(turn);
        return Ok(turn.wait_in_state(turn.limits().slow_poll, "externally provisioned, without a BMC"));
    }
    let text = match reboot::keep(turn)? {
        DesiredPower::On => "externally provisioned".to_owned(),
        DesiredPower::Off => "externally provisioned, switched off".to_owned(),
        DesiredPower::HeldOff(holders) => format!("externally provisioned, held off by {}", holders.join(", ")),
        DesiredPower::PowerOffDisabled => "externally provisioned; power-off is disabled".to_owned(),
    };
    Ok(turn.wait_in_state(poll, text))
}

/// The image that the spec names now counts as what is installed (upstream): the owner says so, and
/// nothing was written from here. Without one there is nothing to keep.
fn adopt_image(turn: &mut StepDraft<'_>) {
    let image = turn.seen.host.spec.wanted_image().cloned();
    // From now on an owner's data is there, on disks that are not known.
    turn.memory.disk_dirty |= image.is_some();
    turn.memory.last_attempted_image.clone_from(&image);
    let attempt = turn.memory.attempt;
    turn.memory.applied = image.map(|image| InstalledSystem::of_others(image, attempt, turn.now));
}
