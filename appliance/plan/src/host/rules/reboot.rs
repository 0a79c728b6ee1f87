//! Reboots that are asked for by annotation, and holders that keep the host off.
//!
//! | annotation | provisioned, externally provisioned | available | at work with an agent |
//! |---|---|---|---|
//! | `reboot.metal3.io` | off and on again; `hard`: one reset | dropped; with `force` one reset | dropped; with `force` the host boots again, unless its disk is being changed |
//! | `reboot.metal3.io/KEY` | off until the last key is removed | with `force` the same | nothing |
//!
//! A one-shot request is taken over into the memory and its annotation removed; nothing is done before the
//! removal is seen. So a process that dies in between reboots the host once, not twice. A request for a
//! host that is off, or is to be off, is fulfilled already (upstream).

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;
use firesteel_resources::bare_metal_host::annotations::{self, RebootMode, RebootRequest};
use jiff::SignedDuration;

use crate::host::model::{BmcAction, HostPower, HostReason, HostState, PlanKind, RebootWork};
use crate::host::rules::{bmc_access, overrides, power};
use crate::host::turn::{AgentPresence, BmcCallProgress, StepDraft};

/// How the power of a host that has an OS is.
pub(crate) enum DesiredPower {
    On,
    Off,
    /// The host is held off by these.
    HeldOff(Vec<String>),
    /// It is to be off and stays on.
    PowerOffDisabled,
}

/// Keeps the power of a host with an OS as it is asked for; `Err` while that is under way.
#[track_caller]
pub(crate) fn keep(turn: &mut StepDraft<'_>) -> Result<DesiredPower, HostReason> {
    take_over(turn)?;
    bmc_access::verify(turn)?;
    turn.may_try()?;
    overrides::take_back(turn)?;
    let held = turn.requests.held_off.clone();
    let on = turn.seen.host.spec.online && held.is_none();
    carry_out(turn, on)?;
    if !on && turn.seen.host.spec.disable_power_off {
        return Ok(DesiredPower::PowerOffDisabled);
    }
    let hard = held.as_ref().is_some_and(|held| held.mode == RebootMode::Hard);
    power::reach(turn, on, hard)?;
    turn.memory.failure = None;
    Ok(match held {
        Some(held) => DesiredPower::HeldOff(held.holders),
        None if on => DesiredPower::On,
        None => DesiredPower::Off,
    })
}

/// Refuses a reboot of a host without a BMC.
pub(crate) fn refuse(turn: &mut StepDraft<'_>) {
    if turn.requests.reboot.is_some() {
        turn.remove_annotation(annotations::REBOOT);
        turn.warn(EventReason::RebootRefused, "there is no BMC: reboot the host by hand");
    }
}

#[track_caller]
fn take_over(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let Some(request) = turn.requests.reboot else { return Ok(()) };
    turn.remove_annotation(annotations::REBOOT);
    let hard = request.mode == RebootMode::Hard;
    match &mut turn.memory.reboot {
        // The one under way is the one that is asked for now.
        Some(work) => work.hard |= hard && !work.down,
        none => {
            *none = Some(RebootWork { hard, down: false });
            turn.event(EventReason::RebootRequested, "a reboot was asked for");
        }
    }
    let poll = turn.limits().secret_retry;
    Err(turn.wait_in_state(poll, "a reboot was asked for"))
}

/// Goes on with a reboot that was taken over, where there is one.
#[track_caller]
fn carry_out(turn: &mut StepDraft<'_>, on: bool) -> Result<(), HostReason> {
    let Some(mut work) = turn.memory.reboot.clone() else { return Ok(()) };
    // Off, and not because of this reboot.
    let is_idle = turn.memory.bmc.call.is_none() && turn.memory.power.is_none();
    let is_off = turn.seen.bmc.power == HostPower::Off && is_idle;
    if !on || is_off && !work.down {
        turn.memory.reboot = None;
        turn.memory.power = None;
        turn.event(EventReason::RebootNotNeeded, "the host is off, or is to be off");
        return Ok(());
    }
    let can_power_off = !turn.seen.host.spec.disable_power_off;
    if !work.down && (work.hard || !can_power_off) {
        return Err(match turn.call(BmcAction::Cycle) {
            BmcCallProgress::Waiting(reason) => reason,
            BmcCallProgress::Failed(fault) => bmc_access::failed(turn, ErrorType::PowerManagement, &fault),
            BmcCallProgress::Done => rebooted(turn),
        });
    }
    power::reach(turn, work.down, false)?;
    if work.down {
        return Err(rebooted(turn));
    }
    work.down = true;
    turn.memory.reboot = Some(work);
    Err(turn.wait_in_state(SignedDuration::ZERO, "rebooting: the host is off"))
}

#[track_caller]
fn rebooted(turn: &mut StepDraft<'_>) -> HostReason {
    turn.memory.reboot = None;
    turn.memory.failure = None;
    turn.event(EventReason::Rebooted, "the host was rebooted");
    turn.wait_in_state(SignedDuration::from_secs(1), "the host was rebooted")
}

/// A request in a state in which no OS of the owner's runs: it does not wait for the OS that comes.
pub(crate) fn without_os(turn: &mut StepDraft<'_>) {
    let Some(request) = turn.requests.reboot else { return };
    if !matches!(
        turn.memory.state,
        HostState::Available | HostState::Inspecting | HostState::Provisioning | HostState::Deprovisioning
    ) {
        return;
    }
    turn.remove_annotation(annotations::REBOOT);
    if let Err(why) = may_force(turn, request) {
        turn.warn(EventReason::RebootIgnored, why);
        return;
    }
    turn.event(EventReason::RebootRequested, "a reboot was asked for by force");
    let is_here = matches!(turn.presence(), AgentPresence::Alive | AgentPresence::Quiet);
    if is_here {
        turn.abort_agent("a reboot was asked for by force");
    } else if turn.memory.state == HostState::Available {
        turn.memory.reboot = Some(RebootWork { hard: true, down: false });
        return;
    }
    turn.open_attempt();
}

/// Whether a request may end what is under way.
fn may_force(turn: &StepDraft<'_>, request: RebootRequest) -> Result<(), &'static str> {
    if !request.force {
        return Err("the host runs no OS of its owner's; {\"force\":true} reboots it all the same");
    }
    let plan = turn.memory.plan.as_ref().map(|issued| &issued.plan);
    if matches!(plan, Some(PlanKind::Write(_) | PlanKind::Clean { .. } | PlanKind::Erase(_))) {
        return Err("the host's disk is being changed; what changes a disk is not interrupted");
    }
    let is_alive = turn.presence() == AgentPresence::Alive;
    if !turn.has_bmc() && !is_alive {
        return Err("there is no BMC: reboot the host by hand");
    }
    Ok(())
}

/// What of it concerns a host that is available: requests by force alone. `Err` while one is carried out.
#[track_caller]
pub(crate) fn available(turn: &mut StepDraft<'_>) -> Result<bool, HostReason> {
    let is_held = turn.requests.held_off.as_ref().is_some_and(|held| held.force);
    let on = turn.seen.host.spec.online && !is_held;
    carry_out(turn, on)?;
    Ok(on)
}
