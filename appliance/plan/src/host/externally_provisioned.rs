//! Externally provisioned: somebody else installed the OS. Never written to, never cleaned; its
//! power is kept as asked.

use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::{
    effect::Reason,
    memory::State,
    power::{self, Reach},
    turn::Turn,
};

pub(super) fn step(turn: &mut Turn<'_>) -> Reason {
    let spec = &turn.seen.host.spec;
    let poll = turn.limits().power_poll;
    if !spec.externally_provisioned {
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
