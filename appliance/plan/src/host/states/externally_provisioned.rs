//! Externally provisioned: somebody else installed the OS. Never written to, never cleaned; its
//! power is kept as asked.

use crate::host::{
    model::{
        effect::HostReason,
        memory::{HostState, disks::InstalledSystem},
        orders::ReadyImage,
    },
    rules::reboot::{self, DesiredPower},
    turn::StepDraft,
};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> HostReason {
    let spec = &turn.seen.host.spec;
    let poll = turn.limits().power_poll;
    // What was proven of the disks was before somebody else wrote to them.
    turn.memory.cleaned = None;
    if !spec.externally_provisioned {
        adopt_image(turn);
        return turn.go(HostState::Provisioned, "spec.externallyProvisioned was cleared");
    }
    if !turn.has_bmc() {
        reboot::refuse(turn);
        return turn.wait_in_state(turn.limits().slow_poll, "externally provisioned, without a BMC");
    }
    let text = match reboot::keep(turn) {
        Err(reason) => return reason,
        Ok(DesiredPower::On) => "externally provisioned".to_owned(),
        Ok(DesiredPower::Off) => "externally provisioned, switched off".to_owned(),
        Ok(DesiredPower::HeldOff(holders)) => format!("externally provisioned, held off by {}", holders.join(", ")),
        Ok(DesiredPower::PowerOffDisabled) => "externally provisioned; power-off is disabled".to_owned(),
    };
    turn.wait_in_state(poll, text)
}

/// The image that the spec names now counts as what is installed (upstream): the owner says so, and
/// nothing was written from here. Without one there is nothing to keep.
fn adopt_image(turn: &mut StepDraft<'_>) {
    let image = turn.seen.host.spec.wanted_image().cloned();
    // From now on somebody's data is there, on disks that nobody named.
    turn.memory.disk_dirty |= image.is_some();
    turn.memory.last_attempted_image.clone_from(&image);
    turn.memory.applied = image.map(|image| InstalledSystem {
        image,
        ready: ReadyImage::default(),
        disk_guid: String::new(),
        attempt: turn.memory.attempt,
        at: turn.now,
        user_data_sha256: None,
        configs: Vec::new(),
        left_properly: true,
    });
}
