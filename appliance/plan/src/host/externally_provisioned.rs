//! Externally provisioned: somebody else installed the OS. Never written to, never cleaned; its
//! power is kept as asked.

use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::{
    effect::Reason,
    memory::{Applied, State},
    power::{self, Reach},
    seen::ReadyImage,
    turn::Turn,
};

pub(super) fn step(turn: &mut Turn<'_>) -> Reason {
    let spec = &turn.seen.host.spec;
    let poll = turn.limits().power_poll;
    if !spec.externally_provisioned {
        adopt_image(turn);
        return turn.go(State::Provisioned { reboot: None }, "spec.externallyProvisioned was cleared");
    }
    if !turn.has_bmc() {
        return turn.stay(turn.limits().slow_poll, "externally provisioned, without a BMC");
    }
    let on = spec.online && turn.requests.held_off.is_none();
    if !on && spec.disable_power_off {
        return turn.stay(poll, "externally provisioned; power-off is disabled");
    }
    if let Err(reason) = turn.may_try() {
        return reason;
    }
    match power::reach(turn, on, false) {
        Reach::Waiting(reason) => reason,
        Reach::Failed(text) => turn.fail(ErrorType::PowerManagement, text),
        Reach::Reached => {
            turn.memory.failure = None;
            turn.stay(poll, "externally provisioned")
        }
    }
}

/// The image that the spec names now counts as what is installed (upstream): the owner says so, and
/// nothing was written from here. Without one there is nothing to keep.
fn adopt_image(turn: &mut Turn<'_>) {
    let image = turn.seen.host.spec.wanted_image().cloned();
    turn.memory.last_attempted_image.clone_from(&image);
    turn.memory.applied = image.map(|image| Applied {
        image,
        ready: ReadyImage::default(),
        disk_guid: String::new(),
        attempt: turn.memory.attempt,
        at: turn.now,
        user_data_sha256: None,
        reports_running: false,
        left_properly: true,
    });
}
