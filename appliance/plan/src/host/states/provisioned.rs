//! Provisioned: the OS is on the disk, by proof. Whether it runs is another matter, which only
//! the OS itself can say; until it does, the host counts as unverified.

use firesteel_resources::bare_metal_host::ErrorType;
use jiff::SignedDuration;

use crate::host::model::{HostFailure, HostReason, InstalledSystem};
use crate::host::rules::reboot::{self, DesiredPower};
use crate::host::rules::{bmc_only, preconditions};
use crate::host::states::deprovisioning;
use crate::host::turn::{StateStep, StepDraft, format_duration, gate, later};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    let wanted = turn.seen.host.spec.wanted_image();
    let applied = turn.memory.applied.clone();
    let url = |applied: &InstalledSystem| applied.image.url.clone();
    // What needs an agent where none can boot is not begun: the host keeps its OS, and its power is kept as asked.
    let unmet = bmc_only::unmet(&turn.memory, turn.seen, turn.now);
    if unmet.is_none() && (applied.is_none() || wanted.map(|image| image.url.clone()) != applied.as_ref().map(url)) {
        if let Some(wanted) = wanted {
            preconditions::writable(turn, wanted, "the host keeps the OS that it has")?;
        }
        preconditions::prefetch(turn);
        gate::wait_while_locked(turn)?;
        let text = if wanted.is_some() { "another image is wanted" } else { "the image is no longer wanted" };
        return deprovisioning::enter(turn, text);
    }
    // An image that could not be had instead is wanted no more.
    let is_over = |old: &HostFailure| old.kind == ErrorType::Provisioning && old.until_edit;
    turn.memory.failure = turn.memory.failure.take().filter(|old| !is_over(old));
    let story = applied.as_ref().map(|applied| running_text(turn, applied)).unwrap_or_default();
    let story = story + &unmet.map(|unmet| format!("; {unmet}")).unwrap_or_default();
    if turn.has_bmc() {
        return with_bmc(turn, &story);
    }
    reboot::refuse(turn);
    Ok(schedule_check(turn, applied.as_ref(), story))
}

/// What is known of the OS. The conditions say the same.
pub(crate) fn running_text(turn: &StepDraft<'_>, applied: &InstalledSystem) -> String {
    let instance = &turn.seen.instance;
    let ours = instance.attempt == applied.attempt;
    let waited = turn.now.duration_since(applied.at);
    match (instance.running_at.filter(|_| ours), instance.config_fetched_at.filter(|_| ours)) {
        (Some(_), _) => "provisioned, and the OS reported that it runs".to_owned(),
        (None, _) if !applied.reports_running() => {
            "provisioned; whether the OS runs is unverified: its config does not report to this appliance".to_owned()
        }
        (None, _) if ours && instance.failed.is_some() => {
            let (at, log) = instance.failed.clone().unwrap_or_default();
            let last = log.lines().next_back().unwrap_or("it sent no log").to_owned();
            format!("provisioned; the first boot of the OS failed at {at:.0}: {last}")
        }
        (None, fetched) => {
            let last = if fetched.is_some() { "fetched its config" } else { "was handed over" };
            if waited > turn.limits().running {
                format!(
                    "provisioned; running is unverified: the OS {last} but has not reported for {}",
                    format_duration(waited)
                )
            } else {
                format!("provisioned; the OS {last}; waiting for its report that it runs")
            }
        }
    }
}

fn with_bmc(turn: &mut StepDraft<'_>, story: &str) -> StateStep {
    let text = match reboot::keep(turn)? {
        DesiredPower::On => story.to_owned(),
        DesiredPower::Off => "provisioned, switched off".to_owned(),
        DesiredPower::HeldOff(holders) => format!("held off by {}", holders.join(", ")),
        DesiredPower::PowerOffDisabled => {
            return Ok(turn.wait_in_state(turn.limits().power_poll, format!("{story}; power-off is disabled")));
        }
    };
    let applied = turn.memory.applied.clone();
    Ok(schedule_check(turn, applied.as_ref(), text))
}

/// Wakes for the next look at the power, or when the report of the OS is overdue.
fn schedule_check(turn: &mut StepDraft<'_>, applied: Option<&InstalledSystem>, text: String) -> HostReason {
    let poll = if turn.has_bmc() { turn.limits().power_poll } else { turn.limits().slow_poll };
    let overdue = applied
        .map(|applied| later(applied.at, turn.limits().running).duration_since(turn.now))
        .filter(|left| *left > SignedDuration::ZERO);
    let wake = overdue.map_or(poll, |left| poll.min(left + SignedDuration::from_secs(1)));
    turn.wait_in_state(wake, text)
}
