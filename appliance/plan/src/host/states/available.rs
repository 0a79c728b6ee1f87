//! Available: inspected, clean, nobody's. The power is kept as asked; an agent that is there waits
//! for its next plan, so that an image that is wanted soon needs no further boot.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::{
    disk::NextOwner,
    host::{
        model::{
            effect::{EventSeverity, HostReason},
            memory::HostState,
            orders::PlanKind,
        },
        rules::{
            agent, bmc_access, consumer_data, freeze, owner_hardware,
            power::{self, PowerOutcome},
            preconditions, reboot,
        },
        turn::{
            StepDraft,
            attempt::{self, AgentPresence},
            frozen, gate, slot,
        },
    },
};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> HostReason {
    let spec = &turn.seen.host.spec;
    agent::keep_fresh(turn);
    preconditions::prefetch(turn);
    if spec.externally_provisioned {
        return turn.go(HostState::ExternallyProvisioned, "somebody else installed its OS");
    }
    if turn.requests.inspect && !turn.is_deleting() && !owner_hardware::is_disabled(&turn.seen.host) {
        if let Err(reason) = slot::take(turn) {
            return reason;
        }
        turn.event(EventSeverity::Normal, EventReason::InspectionStarted, "an inspection was asked for");
        return turn.go(HostState::Inspecting, "an inspection was asked for");
    }
    if consumer_data::next_owner(turn) == NextOwner::Another {
        if let Err(reason) = gate::is_unlocked(turn) {
            return reason;
        }
        let text = "the host's owner changed: its disks are erased before somebody else gets them";
        turn.event(EventSeverity::Normal, EventReason::OwnerChanged, text);
        return turn.go(HostState::Preparing, text);
    }
    if turn.memory.prepared_hints != Some(spec.root_device_hints.clone().unwrap_or_default()) {
        return turn.go(HostState::Preparing, "spec.rootDeviceHints changed");
    }
    if spec.image != turn.memory.last_attempted_image {
        turn.memory.provision_failures = 0;
        if spec.wanted_image().is_none() {
            turn.memory.last_attempted_image = None;
            turn.memory.failure = turn.memory.failure.take().filter(|old| old.kind != ErrorType::Provisioning);
        }
    }
    if spec.online && spec.wanted_image().is_some() { wanted(turn) } else { idle(turn) }
}

fn wanted(turn: &mut StepDraft<'_>) -> HostReason {
    if let Some(image) = turn.seen.host.spec.wanted_image()
        && let Err(reason) = preconditions::writable(turn, image, "nothing was written")
    {
        return reason;
    }
    if let Err(reason) = gate::is_unlocked(turn) {
        return reason;
    }
    let failures = turn.memory.provision_failures;
    if failures >= turn.limits().provision_failures_max {
        let last = turn.memory.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        let last = last.rsplit_once("; the last one: ").map_or(last.clone(), |(_, cause)| cause.to_owned());
        let text = format!(
            "{failures} installations failed; change spec.image or run `firesteel retry` to try again; \
             the last one: {last}"
        );
        return turn.stuck(ErrorType::Provisioning, text);
    }
    if let Err(reason) = turn.may_try() {
        return reason;
    }
    if let Err(reason) = slot::take(turn) {
        return reason;
    }
    turn.memory.last_attempted_image = turn.seen.host.spec.image.clone();
    turn.memory.disk = None;
    // A boot that was awaited while nobody needed it tells nothing any more.
    let hello = turn.limits().hello;
    turn.memory.boot = turn.memory.boot.take().filter(|wait| turn.now.duration_since(wait.since) <= hello);
    turn.event(EventSeverity::Normal, EventReason::ProvisioningStarted, "an image is wanted");
    turn.go_failed(HostState::Provisioning, "an image is wanted")
}

fn idle(turn: &mut StepDraft<'_>) -> HostReason {
    if let Err(reason) = frozen::may_destroy(turn, ErrorType::Provisioning) {
        // Whatever runs on it is not switched off by an intent that is older.
        return reason;
    }
    if freeze::needs_mark_check(turn) {
        let text = "available; the store was restored from a backup, so the host's power is left as it is until it is \
                    inspected again (annotation inspect.metal3.io) or an image is wanted";
        return turn.wait_in_state(turn.limits().slow_poll, text);
    }
    if turn.has_bmc()
        && let Err(reason) = bmc_access::verify(turn)
    {
        return reason;
    }
    let online = match reboot::available(turn) {
        Ok(online) => online,
        Err(reason) => return reason,
    };
    let alive = attempt::presence(turn) == AgentPresence::Alive;
    let poll = turn.limits().power_poll;
    if online && alive {
        return turn.wait_in_state(poll, "available; the agent waits for a plan");
    }
    if !online && alive && !turn.seen.host.spec.disable_power_off {
        if !turn.memory.plan.as_ref().is_some_and(|plan| plan.plan == PlanKind::PowerOff) {
            turn.issue(PlanKind::PowerOff);
        } else {
            turn.issue_again();
        }
        return turn.wait_in_state(turn.limits().secret_retry, "available; the agent switches the host off");
    }
    if !turn.has_bmc() {
        let text = if online {
            "available; the host is off or runs something else, and without a BMC somebody must switch it on"
        } else {
            "available"
        };
        return turn.wait_in_state(poll, text);
    }
    keep_power(turn, online)
}

fn keep_power(turn: &mut StepDraft<'_>, online: bool) -> HostReason {
    if !online && turn.seen.host.spec.disable_power_off {
        return turn.wait_in_state(turn.limits().power_poll, "available; power-off is disabled");
    }
    if let Err(reason) = turn.may_try() {
        return reason;
    }
    match power::reach(turn, online, true) {
        PowerOutcome::Waiting(reason) => reason,
        PowerOutcome::Reached => {
            turn.memory.failure = None;
            let text = if online { "available, switched on" } else { "available, switched off" };
            turn.wait_in_state(turn.limits().power_poll, text)
        }
    }
}
