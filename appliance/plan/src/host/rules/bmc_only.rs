//! A host of a site that drives hosts by their BMCs alone: no agent can be booted. What a BMC can do is done. What needs
//! an agent is refused at once, in words that say what to do, and begins by itself when the site can boot agents.
//!
//! | wanted | what becomes of it |
//! |---|---|
//! | power, reboots, holders | done by the BMC, also where the host is available or waits for an agent |
//! | an inspection | the BMC's inventory is read ([`super::bmc_inspection`]) |
//! | an installation, cleaning | refused: the condition `NetworkBoot` and the reason say so, no error is counted |
//! | a deletion that cleans first | an obstacle: the cleaning is given up after its limit, and a tombstone stays |
//!
//! An agent that is there, from before the site changed, works on.

use firesteel_resources::bare_metal_host::ErrorType;
use jiff::Timestamp;

use crate::disk::NextOwner;
use crate::host::model::{HostFailure, HostInputs, HostMemory, HostReason, HostState};
use crate::host::rules::reboot::{self, DesiredPower};
use crate::host::rules::{consumer_data, freeze};
use crate::host::turn::{StateStep, StepDraft, agent_liveness, later};

/// The reason of conditions that say so.
pub(crate) const REASON: &str = "BMCOnly";

/// Returns why this host is driven by its BMC alone, where it is.
pub(crate) fn cause<'a>(memory: &HostMemory, seen: &'a HostInputs, now: Timestamp) -> Option<&'a str> {
    let why = seen.work_hold.as_ref()?.bmc_only()?;
    (!has_agent(memory, seen, now)).then_some(why)
}

/// Says whether the agent of the current attempt is there, or may be: its drive cannot be interrupted.
fn has_agent(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> bool {
    let Some(agent) = seen.agent.as_ref().filter(|agent| agent.attempt == memory.attempt) else { return false };
    let heard = agent.last_report_at.max(seen.started_at);
    let is_heard = now.duration_since(heard) <= seen.limits.quiet_with(memory.plan.as_ref());
    let may_be_at_work = agent_liveness::drive_at_work(agent, memory, &seen.limits, now).is_some();
    (is_heard || may_be_at_work) && !agent.left && !agent.rebooted
}

/// Says what the host asks for that needs an agent, and why it does not get it.
pub(crate) fn unmet(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> Option<String> {
    let why = cause(memory, seen, now).filter(|_| memory.detached.is_none())?;
    let (spec, hardware) = (&seen.host.spec, seen.hardware.as_ref());
    let goes = seen.host.metadata.is_deleting();
    let cleans = || consumer_data::next_of(spec, memory, hardware, goes) == NextOwner::Another || memory.wipe.is_some();
    let what = match memory.state {
        HostState::Unmanaged => "the host has no BMC: whatever is to be done on it",
        _ if spec.externally_provisioned => return None,
        HostState::Registering | HostState::Inspecting if spec.usable_bmc().is_none() => {
            "the inspection of its hardware"
        }
        HostState::Available if spec.online && spec.wanted_image().is_some() => "the installation of spec.image",
        HostState::Available | HostState::Preparing if cleans() => "the erasure of its disks before another owner",
        HostState::Provisioning => "the installation that was begun",
        HostState::Provisioned => match (spec.wanted_image(), memory.applied.as_ref()?) {
            (Some(wanted), applied) if wanted.url == applied.image.url => return None,
            (Some(_), _) => "the installation of another spec.image",
            (None, _) if !spec.cleans() && !cleans() => return None,
            (None, _) => "the removal of the installed image, whose disk is cleaned,",
        },
        HostState::Deprovisioning => "the cleaning of its disk",
        HostState::New
        | HostState::Registering
        | HostState::Inspecting
        | HostState::Preparing
        | HostState::Available
        | HostState::ExternallyProvisioned
        | HostState::PoweringOff
        | HostState::Deleting => return None,
    };
    Some(format!("{what} needs an agent on the host; {why}"))
}

/// Refuses work for which an agent would have to boot. A host that is to go does not wait forever: the caller gives
/// up an obstacle that stays. The power of any other one is kept, as that of a host that rests.
#[track_caller]
pub(crate) fn refuse_boot(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    let Some(why) = cause(&turn.memory, turn.seen, turn.now) else { return Ok(()) };
    let text = unmet(&turn.memory, turn.seen, turn.now).unwrap_or_else(|| why.to_owned());
    // No hello is awaited, and the slot is another host's.
    turn.memory.boot = None;
    turn.is_shut = true;
    let poll = turn.limits().slow_poll;
    if turn.is_deleting() {
        return Err(turn.blocked(kind, poll, text));
    }
    turn.deadline(later(turn.now, turn.limits().stall));
    // Whatever runs on a host of a restored store is not switched by an intent that is older.
    if !is_powered(turn) || freeze::needs_mark_check(turn) {
        return Err(turn.wait_in_state(poll, text));
    }
    // Nothing is cleaned, so that no order to the BMC that fails is a try to clean.
    turn.memory.clean_failures = 0;
    let text = turn.memory.state.word().to_string();
    let (Ok(reason) | Err(reason)) = keep_power(turn, &text);
    Err(reason)
}

/// Says whether the host's power is kept while the work of its state waits for an agent.
fn is_powered(turn: &StepDraft<'_>) -> bool {
    turn.has_bmc()
        && match turn.memory.state {
            HostState::Preparing | HostState::Provisioning | HostState::Deprovisioning => true,
            HostState::New
            | HostState::Unmanaged
            | HostState::Registering
            | HostState::Inspecting
            | HostState::Available
            | HostState::Provisioned
            | HostState::ExternallyProvisioned
            | HostState::PoweringOff
            | HostState::Deleting => false,
        }
}

/// Keeps the power of a host without an OS of ours as one with an OS: what runs there is its owner's, and is shut down
/// before its power is cut. `text` says where the host is.
#[track_caller]
pub(crate) fn keep_power(turn: &mut StepDraft<'_>, text: &str) -> StateStep {
    if !turn.has_bmc() {
        reboot::refuse(turn);
        let unmet = unmet(&turn.memory, turn.seen, turn.now).map(|unmet| format!("; {unmet}")).unwrap_or_default();
        return Ok(turn.wait_in_state(turn.limits().slow_poll, format!("{text}{unmet}")));
    }
    let aside = turn.memory.failure.take_if(|failure| is_of_work(failure));
    let kept = reboot::keep(turn);
    restore_failure(turn, aside);
    let power = match kept? {
        DesiredPower::On => ", switched on".to_owned(),
        DesiredPower::Off => ", switched off".to_owned(),
        DesiredPower::HeldOff(holders) => format!(", held off by {}", holders.join(", ")),
        DesiredPower::PowerOffDisabled => "; power-off is disabled".to_owned(),
    };
    let unmet = unmet(&turn.memory, turn.seen, turn.now).map(|unmet| format!("; {unmet}")).unwrap_or_default();
    Ok(turn.wait_in_state(turn.limits().power_poll, format!("{text}{power}{unmet}")))
}

/// Says whether a failure is one of work that needs an agent, which delays no order to the BMC.
fn is_of_work(failure: &HostFailure) -> bool {
    match failure.kind {
        ErrorType::Inspection | ErrorType::Preparation | ErrorType::Provisioning | ErrorType::Servicing => true,
        ErrorType::Registration | ErrorType::ProvisionedRegistration | ErrorType::PowerManagement => false,
    }
}

/// Puts the failure of the host's work back, unless the BMC failed since. Where the host rests it ends with its delay.
fn restore_failure(turn: &mut StepDraft<'_>, aside: Option<HostFailure>) {
    let is_ahead = |failure: &HostFailure| failure.retry_at.is_some_and(|at| at > turn.now);
    let is_kept = |failure: &HostFailure| turn.memory.state.is_working() || failure.until_edit || is_ahead(failure);
    let aside = aside.filter(is_kept);
    if turn.memory.failure.is_none() {
        turn.memory.failure = aside;
    }
}
