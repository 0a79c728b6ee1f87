//! The BMC of a simulated host.

use firesteel_plan::host::{BmcAction, BmcCall, BmcFault, BmcFaultKind, BmcOutcome, HostPower};

use super::World;

/// What becomes of an order to cut the power.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HardOff {
    Works,
    /// Accepted, and the host stays on.
    Ignored,
    Refused,
}

impl World {
    pub(super) fn bmc(&mut self, call: &BmcCall) {
        if self.seen.bmc.last.as_ref().is_some_and(|last| last.ticket == call.ticket) {
            return;
        }
        if !self.bmc_answers {
            self.seen.bmc.in_flight = true;
            return;
        }
        let fault = BmcFault { kind: BmcFaultKind::Unreachable, message: "no route".into() };
        let unreachable = if self.bmc_works { Ok(()) } else { Err(fault) };
        let mut result = self.refuses.clone().map_or(unreachable, Err);
        if result.is_ok() && !self.soft_off_works && call.action == (BmcAction::PowerOff { hard: false }) {
            let message = "the BMC cannot shut the OS down".into();
            result = Err(BmcFault { kind: BmcFaultKind::Unsupported, message });
        }
        let is_cut = call.action == (BmcAction::PowerOff { hard: true });
        if result.is_ok() && is_cut && self.hard_off == HardOff::Refused {
            result = Err(BmcFault { kind: BmcFaultKind::Refused, message: "it is not allowed".into() });
        }
        let is_done = result.is_ok();
        self.seen.bmc.last = Some(BmcOutcome { ticket: call.ticket, at: self.now, result });
        if !is_done {
            return;
        }
        match call.action {
            BmcAction::Probe if self.seen.bmc.power == HostPower::Unknown => self.seen.bmc.power = HostPower::Off,
            _ if !self.power_works || is_cut && self.hard_off == HardOff::Ignored => {}
            BmcAction::NetBoot => {
                self.seen.bmc.was_off_at_boot = self.seen.bmc.power == HostPower::Off;
                self.seen.bmc.power = HostPower::On;
                self.booting = true;
            }
            BmcAction::PowerOn | BmcAction::Cycle => self.seen.bmc.power = HostPower::On,
            BmcAction::PowerOff { .. } => self.seen.bmc.power = HostPower::Off,
            BmcAction::Probe | BmcAction::ReadOnce | BmcAction::TakeBootBack | BmcAction::Inspect => {}
        }
        self.seen.bmc.power_at = Some(self.now);
    }
}
