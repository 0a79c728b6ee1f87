//! Reboots that are asked for by annotation, and holders that keep the host off.
//!
//! | annotation | provisioned, externally provisioned | available | at work with an agent |
//! |---|---|---|---|
//! | `reboot.metal3.io` | off and on again; `hard`: one reset | dropped; with `force` one reset | dropped; with `force` the host boots again, unless its disk is being changed |
//! | `reboot.metal3.io/KEY` | off until the last key is removed | with `force` the same | nothing |
//!
//! Where hosts are driven by their BMCs alone, a host that is available, or whose work waits for an agent, is rebooted and
//! held as one with an OS: what runs there is not known.
//!
//! A one-shot request is taken over into the memory and its annotation removed; nothing is done before the
//! removal is seen. So a process that dies in between reboots the host once, not twice. A request for a
//! host that is off, or is to be off, is fulfilled already (upstream).

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;
use firesteel_resources::bare_metal_host::annotations::{self, RebootMode, RebootRequest};
use firesteel_resources::host_journal::RequestOutcome;
use jiff::SignedDuration;

use crate::host::model::{BmcAction, HostPower, HostReason, HostState, PlanKind, RebootWork};
use crate::host::rules::{bmc_access, bmc_only, overrides, power};
use crate::host::turn::{AgentPresence, BmcCallProgress, StepDraft};

const NO_BMC: &str = "there is no BMC: reboot the host by hand";
const NOT_NEEDED: &str = "the host is off, or is to be off";

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
    let held = turn.requests.held_off.clone();
    let on = turn.seen.host.spec.online && held.is_none();
    take_over(turn, on)?;
    bmc_access::verify(turn)?;
    turn.may_try()?;
    overrides::take_back(turn)?;
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
    if turn.take_request(annotations::REBOOT).is_some() {
        turn.answer(annotations::REBOOT, RequestOutcome::Refused, NO_BMC);
        turn.warn(EventReason::RebootRefused, NO_BMC);
    }
}

#[track_caller]
fn take_over(turn: &mut StepDraft<'_>, on: bool) -> Result<(), HostReason> {
    let Some(request) = turn.requests.reboot else { return Ok(()) };
    // Nothing is done before the removal of the annotation is seen.
    let is_new = turn.take_request(annotations::REBOOT).is_some();
    if is_new && is_needless(turn, on) {
        turn.answer(annotations::REBOOT, RequestOutcome::Done, &format!("nothing is done: {NOT_NEEDED}"));
        turn.event(EventReason::RebootNotNeeded, NOT_NEEDED);
        return Ok(());
    }
    if is_new {
        let hard = request.mode == RebootMode::Hard;
        let text = acceptance(turn, hard);
        turn.answer(annotations::REBOOT, RequestOutcome::Accepted, &text);
        match &mut turn.memory.reboot {
            // The one under way is the one that is asked for now.
            Some(work) => work.hard |= hard && !work.down,
            none => {
                *none = Some(RebootWork { hard, down: false });
                turn.event(EventReason::RebootRequested, "a reboot was asked for");
            }
        }
    }
    let poll = turn.limits().secret_retry;
    Err(turn.wait_in_state(poll, "a reboot was asked for"))
}

/// Says what the reboot is going to be.
fn acceptance(turn: &StepDraft<'_>, hard: bool) -> String {
    let how = if hard || turn.seen.host.spec.disable_power_off {
        "its BMC resets it at once, without a word to its OS"
    } else {
        "its BMC has the OS shut down, switches the host off, and on again"
    };
    let failure = turn.memory.failure.as_ref();
    let waits = failure.map(|failure| format!("; first this error has to end: {}", failure.message));
    format!("the host is rebooted: {how}{}", waits.unwrap_or_default())
}

/// Says whether the host is off, and not because of a reboot, or is to be off.
fn is_needless(turn: &StepDraft<'_>, on: bool) -> bool {
    let is_idle = turn.memory.bmc.call.is_none() && turn.memory.power.is_none();
    let is_down = turn.memory.reboot.as_ref().is_some_and(|work| work.down);
    !on || turn.seen.bmc.power == HostPower::Off && is_idle && !is_down
}

/// Goes on with a reboot that was taken over, where there is one.
#[track_caller]
fn carry_out(turn: &mut StepDraft<'_>, on: bool) -> Result<(), HostReason> {
    let Some(mut work) = turn.memory.reboot.clone() else { return Ok(()) };
    if is_needless(turn, on) {
        turn.memory.reboot = None;
        turn.memory.power = None;
        turn.conclude(annotations::REBOOT, RequestOutcome::Done, NOT_NEEDED);
        turn.event(EventReason::RebootNotNeeded, NOT_NEEDED);
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
    turn.conclude(annotations::REBOOT, RequestOutcome::Done, "the host was rebooted");
    turn.event(EventReason::Rebooted, "the host was rebooted");
    turn.wait_in_state(SignedDuration::from_secs(1), "the host was rebooted")
}

/// A request in a state in which no OS of the owner's runs: it does not wait for the OS that comes.
pub(crate) fn without_os(turn: &mut StepDraft<'_>) {
    let Some(request) = turn.requests.reboot else { return };
    let is_bmc_only = turn.has_bmc() && bmc_only::cause(&turn.memory, turn.seen, turn.now).is_some();
    let may_be_forced = match turn.memory.state {
        // What runs there is its owner's: it is rebooted as asked.
        HostState::Available | HostState::Preparing | HostState::Inspecting if is_bmc_only => return,
        HostState::Provisioning | HostState::Deprovisioning if is_bmc_only && !turn.is_deleting() => return,
        HostState::Available | HostState::Inspecting | HostState::Provisioning | HostState::Deprovisioning => true,
        HostState::Unmanaged | HostState::Preparing | HostState::PoweringOff => false,
        HostState::New
        | HostState::Registering
        | HostState::Provisioned
        | HostState::ExternallyProvisioned
        | HostState::Deleting => return,
    };
    // By force it waits for a state in which it may be carried out.
    if !may_be_forced && request.force || turn.take_request(annotations::REBOOT).is_none() {
        return;
    }
    if let Err(why) = may_force(turn, request) {
        let text = format!("the host is {}: {why}", turn.memory.state.word());
        turn.answer(annotations::REBOOT, RequestOutcome::Refused, &text);
        turn.warn(EventReason::RebootIgnored, why);
        return;
    }
    let text = "the host is rebooted by force, and what is under way on it ends";
    turn.answer(annotations::REBOOT, RequestOutcome::Accepted, text);
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
    if !turn.has_bmc() && turn.presence() != AgentPresence::Alive {
        return Err(NO_BMC);
    }
    if !request.force {
        return Err(
            "it runs no OS of its owner's; the annotation reboot.metal3.io={\"force\":true} reboots it all the same",
        );
    }
    let plan = turn.memory.plan.as_ref().map(|issued| &issued.plan);
    if matches!(plan, Some(PlanKind::Write(_) | PlanKind::Clean { .. } | PlanKind::Erase(_))) {
        return Err("its disk is being changed; what changes a disk is not interrupted");
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
