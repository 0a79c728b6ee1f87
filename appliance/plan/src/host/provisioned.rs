//! Provisioned: the OS is on the disk, by proof. Whether it runs is another matter, which only
//! the OS itself can say; until it does, the host counts as unverified.

use firesteel_resources::bare_metal_host::{ErrorType, annotations, annotations::RebootMode};
use jiff::SignedDuration;

use crate::host::{
    bmc::{Call, call, fault_text},
    checks, deprovisioning,
    effect::{BmcAction, Effect, EventKind, Reason},
    memory::{Applied, RebootWork, State},
    power::{self, Reach},
    turn::{Turn, later, words},
};

pub(super) fn step(turn: &mut Turn<'_>, reboot: Option<RebootWork>) -> Reason {
    let wanted = turn.seen.host.spec.wanted_image();
    let applied = turn.memory.applied.clone();
    let url = |applied: &Applied| applied.image.url.clone();
    if applied.is_none() || wanted.map(|image| image.url.clone()) != applied.as_ref().map(url) {
        checks::prefetch(turn);
        let text = if wanted.is_some() { "another image is wanted" } else { "the image is no longer wanted" };
        return deprovisioning::enter(turn, text);
    }
    let story = applied.as_ref().map(|applied| running_text(turn, applied)).unwrap_or_default();
    if turn.has_bmc() {
        return with_bmc(turn, reboot, &story);
    }
    if turn.requests.reboot.is_some() {
        turn.effect(Effect::RemoveAnnotation { key: annotations::REBOOT.to_owned() });
        turn.event(EventKind::Warning, "RebootRefused", "there is no BMC: reboot the host by hand");
    }
    look_again(turn, applied.as_ref(), story)
}

/// What is known of the OS. The conditions say the same.
pub(super) fn running_text(turn: &Turn<'_>, applied: &Applied) -> String {
    let instance = &turn.seen.instance;
    let ours = instance.attempt == applied.attempt;
    let waited = turn.now.duration_since(applied.at);
    match (instance.running_at.filter(|_| ours), instance.config_fetched_at.filter(|_| ours)) {
        (Some(_), _) => "provisioned, and the OS reported that it runs".to_owned(),
        (None, _) if !applied.reports_running => {
            "provisioned; whether the OS runs is unverified: its config does not report to this appliance".to_owned()
        }
        (None, fetched) => {
            let last = if fetched.is_some() { "fetched its config" } else { "was handed over" };
            if waited > turn.limits().running {
                format!("provisioned; running is unverified: the OS {last} but has not reported for {}", words(waited))
            } else {
                format!("provisioned; the OS {last}; waiting for its report that it runs")
            }
        }
    }
}

fn with_bmc(turn: &mut Turn<'_>, reboot: Option<RebootWork>, story: &str) -> Reason {
    let mut reboot = reboot;
    if let Some(mode) = turn.requests.reboot {
        turn.effect(Effect::RemoveAnnotation { key: annotations::REBOOT.to_owned() });
        reboot = reboot.or(Some(RebootWork { hard: mode == RebootMode::Hard, down: false }));
        turn.event(EventKind::Normal, "RebootRequested", "a reboot was asked for");
    }
    if let Err(reason) = turn.may_try() {
        turn.memory.state = State::Provisioned { reboot };
        return reason;
    }
    if let Some(work) = reboot {
        return restart(turn, work, story);
    }
    let held = turn.requests.held_off.clone();
    let on = turn.seen.host.spec.online && held.is_none();
    if !on && turn.seen.host.spec.disable_power_off {
        return turn.stay(turn.limits().power_poll, format!("{story}; power-off is disabled"));
    }
    let hard = held.as_ref().is_some_and(|(_, mode)| *mode == RebootMode::Hard);
    match power::reach(turn, on, hard) {
        Reach::Waiting(reason) => reason,
        Reach::Failed(text) => turn.fail(ErrorType::PowerManagement, text),
        Reach::Reached => {
            turn.memory.failure = None;
            let applied = turn.memory.applied.clone();
            let text = match held {
                Some((holders, _)) => format!("held off by {}", holders.join(", ")),
                None if on => story.to_owned(),
                None => "provisioned, switched off".to_owned(),
            };
            look_again(turn, applied.as_ref(), text)
        }
    }
}

fn restart(turn: &mut Turn<'_>, mut work: RebootWork, story: &str) -> Reason {
    turn.memory.state = State::Provisioned { reboot: Some(work.clone()) };
    let can_power_off = !turn.seen.host.spec.disable_power_off;
    if !work.down && (work.hard || !can_power_off) {
        return match call(turn, BmcAction::Cycle) {
            Call::Waiting(reason) => reason,
            Call::Failed(fault) => {
                let text = fault_text(turn, &fault);
                turn.fail(ErrorType::PowerManagement, text)
            }
            Call::Done => restarted(turn, story),
        };
    }
    match power::reach(turn, work.down, false) {
        Reach::Waiting(reason) => reason,
        Reach::Failed(text) => turn.fail(ErrorType::PowerManagement, text),
        Reach::Reached if work.down => restarted(turn, story),
        Reach::Reached => {
            work.down = true;
            turn.memory.state = State::Provisioned { reboot: Some(work) };
            turn.stay(SignedDuration::ZERO, "rebooting: the host is off")
        }
    }
}

fn restarted(turn: &mut Turn<'_>, story: &str) -> Reason {
    turn.memory.state = State::Provisioned { reboot: None };
    turn.memory.failure = None;
    turn.event(EventKind::Normal, "Rebooted", "the host was rebooted");
    turn.stay(SignedDuration::from_secs(1), story.to_owned())
}

/// Wakes for the next look at the power, or when the report of the OS is overdue.
fn look_again(turn: &mut Turn<'_>, applied: Option<&Applied>, text: String) -> Reason {
    let poll = if turn.has_bmc() { turn.limits().power_poll } else { turn.limits().slow_poll };
    let overdue = applied
        .map(|applied| later(applied.at, turn.limits().running).duration_since(turn.now))
        .filter(|left| *left > SignedDuration::ZERO);
    let wake = overdue.map_or(poll, |left| poll.min(left + SignedDuration::from_secs(1)));
    turn.stay(wake, text)
}
