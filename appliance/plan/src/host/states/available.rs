//! Handles the state `available`: the host is inspected, clean and without a consumer. The power is kept as asked; an
//! agent that is there waits for its next plan, so that an image that is wanted soon needs no further boot.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::disk::NextOwner;
use crate::host::model::HostState;
use crate::host::rules::{
    agent, bmc_access, bmc_only, booting, consumer_data, freeze, owner_hardware, power, preconditions, reboot,
};
use crate::host::turn::{AgentPresence, StateStep, StepDraft, frozen, gate};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    let spec = &turn.seen.host.spec;
    agent::keep_fresh(turn);
    preconditions::prefetch(turn);
    if spec.externally_provisioned {
        return Ok(turn.go(HostState::ExternallyProvisioned, "its OS was not installed from here"));
    }
    if turn.requests.inspect && !turn.is_deleting() && !owner_hardware::is_disabled(&turn.seen.host) {
        if bmc_only::cause(&turn.memory, turn.seen, turn.now).is_none() {
            booting::check_boot_mac(turn, ErrorType::Inspection)?;
            turn.take_slot()?;
        }
        turn.event(EventReason::InspectionStarted, "an inspection was asked for");
        return Ok(turn.go(HostState::Inspecting, "an inspection was asked for"));
    }
    if consumer_data::next_owner(turn) == NextOwner::Another {
        gate::wait_while_locked(turn)?;
        let text = "the host's owner changed: its disks are erased before another owner gets them";
        turn.event(EventReason::OwnerChanged, text);
        return Ok(turn.go(HostState::Preparing, text));
    }
    if turn.memory.prepared_hints != Some(spec.root_device_hints.clone().unwrap_or_default()) {
        return Ok(turn.go(HostState::Preparing, "spec.rootDeviceHints changed"));
    }
    if spec.image != turn.memory.last_attempted_image {
        turn.memory.provision_failures = 0;
        if spec.wanted_image().is_none() {
            turn.memory.last_attempted_image = None;
            turn.memory.failure = turn.memory.failure.take().filter(|old| old.kind != ErrorType::Provisioning);
        }
    }
    if bmc_only::cause(&turn.memory, turn.seen, turn.now).is_some() {
        return without_agents(turn);
    }
    if spec.online && spec.wanted_image().is_some() { wanted(turn) } else { idle(turn) }
}

fn wanted(turn: &mut StepDraft<'_>) -> StateStep {
    if let Some(image) = turn.seen.host.spec.wanted_image() {
        preconditions::writable(turn, image, "nothing was written")?;
    }
    gate::wait_while_locked(turn)?;
    let failures = turn.memory.provision_failures;
    if failures >= turn.limits().provision_failures_max {
        let last = turn.memory.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        let last = last.rsplit_once("; the last one: ").map_or(last.clone(), |(_, cause)| cause.to_owned());
        let text = format!(
            "{failures} installations failed; change spec.image or run `firesteel retry` to try again; \
             the last one: {last}"
        );
        return Ok(turn.stuck(ErrorType::Provisioning, text));
    }
    turn.may_try()?;
    booting::check_boot_mac(turn, ErrorType::Provisioning)?;
    turn.take_slot()?;
    turn.memory.last_attempted_image = turn.seen.host.spec.image.clone();
    turn.memory.disk = None;
    // A boot that was awaited without need says nothing any more.
    let hello = turn.limits().hello;
    turn.memory.boot = turn.memory.boot.take().filter(|wait| turn.now.duration_since(wait.since) <= hello);
    turn.event(EventReason::ProvisioningStarted, "an image is wanted");
    Ok(turn.go_keeping_failure(HostState::Provisioning, "an image is wanted"))
}

/// Keeps the power of a host whose site drives hosts by their BMCs alone.
fn without_agents(turn: &mut StepDraft<'_>) -> StateStep {
    frozen::may_destroy(turn, ErrorType::Provisioning)?;
    if freeze::needs_mark_check(turn) {
        let text = "available; the store was restored from a backup, so the host's power is left as it is until an agent \
                    inspects it, or spec.externallyProvisioned says that its OS was not installed from here";
        return Ok(turn.wait_in_state(turn.limits().slow_poll, text));
    }
    bmc_only::keep_power(turn, "available")
}

fn idle(turn: &mut StepDraft<'_>) -> StateStep {
    // Whatever runs on it is not switched off by an intent that is older.
    frozen::may_destroy(turn, ErrorType::Provisioning)?;
    if freeze::needs_mark_check(turn) {
        let text = "available; the store was restored from a backup, so the host's power is left as it is until it is \
                    inspected again (annotation inspect.metal3.io) or an image is wanted";
        return Ok(turn.wait_in_state(turn.limits().slow_poll, text));
    }
    if turn.has_bmc() {
        bmc_access::verify(turn)?;
    }
    let online = reboot::available(turn)?;
    let alive = turn.presence() == AgentPresence::Alive;
    let poll = turn.limits().power_poll;
    if online && alive {
        return Ok(turn.wait_in_state(poll, "available; the agent waits for a plan"));
    }
    if !online && alive && !turn.seen.host.spec.disable_power_off {
        turn.issue_power_off();
        return Ok(turn.wait_in_state(turn.limits().secret_retry, "available; the agent switches the host off"));
    }
    if !turn.has_bmc() {
        let text = if online {
            "available; the host is off or runs something else, and without a BMC a person must switch it on"
        } else {
            "available"
        };
        return Ok(turn.wait_in_state(poll, text));
    }
    keep_power(turn, online)
}

fn keep_power(turn: &mut StepDraft<'_>, online: bool) -> StateStep {
    if !online && turn.seen.host.spec.disable_power_off {
        return Ok(turn.wait_in_state(turn.limits().power_poll, "available; power-off is disabled"));
    }
    turn.may_try()?;
    power::reach(turn, online, true)?;
    turn.memory.failure = None;
    let text = if online { "available, switched on" } else { "available, switched off" };
    Ok(turn.wait_in_state(turn.limits().power_poll, text))
}
