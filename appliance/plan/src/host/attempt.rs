//! Getting an agent: a boot of the host into the ramdisk, as one numbered attempt.
//!
//! Publish, then act: the attempt goes into the memory, the caller publishes it as the host's boot
//! entry, and only then does the BMC hear of it. A host that stays away is booted again with the
//! next number, so that the agent of the first boot, should it come late, is known to be old.
//! Without a BMC the host comes when somebody boots it; its agent stays and waits for plans.

use firesteel_resources::bare_metal_host::ErrorType;
use jiff::{SignedDuration, Timestamp};

use crate::host::{
    access,
    bmc::{Call, call, fault_text},
    cut,
    effect::{BmcAction, Effect, EventKind, PlanKind, Reason},
    gate,
    identity::{self, IdentityChange},
    live,
    memory::{BootWait, Failure, State, Stopped},
    overrides,
    seen::{AgentSeen, BmcFault, BmcFaultKind, NetworkDataSeen, Power, Work},
    slot,
    turn::{Turn, later, words},
};

/// How the agent of the current attempt is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// Nobody has said hello with this attempt.
    Absent,
    Alive,
    /// Bound, but has not reported for longer than the limit.
    Quiet,
    /// It left, or the host booted again.
    Gone,
}

pub(super) fn presence(turn: &Turn<'_>) -> Presence {
    let Some(agent) = current(turn) else {
        return if is_spent(turn) { Presence::Gone } else { Presence::Absent };
    };
    let heard = heard_at(turn, agent);
    // Who asks to try again has looked.
    let is_retried = turn.memory.retried_at.is_some_and(|at| at > heard);
    let issued = turn.memory.plan.as_ref().filter(|_| !is_retried);
    if agent.left || agent.rebooted {
        Presence::Gone
    } else if turn.now.duration_since(heard) > turn.limits().quiet_with(issued) && drive_at_work(turn).is_none() {
        Presence::Quiet
    } else {
        Presence::Alive
    }
}

/// The host asked for a boot script, and no hello of the current attempt counts.
fn is_spent(turn: &Turn<'_>) -> bool {
    turn.seen.spent_attempt == Some(turn.memory.attempt)
}

/// An appliance that was away does not take its own silence for the agent's.
fn heard_at(turn: &Turn<'_>, agent: &AgentSeen) -> Timestamp {
    agent.last_report_at.max(turn.seen.started_at)
}

/// What a drive of the host is at that nothing can interrupt, by the last agent's last word, whatever its attempt.
pub(super) fn drive_at_work<'a>(turn: &Turn<'a>) -> Option<&'a str> {
    live::drive_at_work(turn.seen.agent.as_ref()?, &turn.memory, turn.limits(), turn.now)
}

/// Has the host's power left alone while a drive is at such a thing.
#[track_caller]
pub(super) fn spare_drive(turn: &mut Turn<'_>) -> Result<(), Reason> {
    let Some(activity) = drive_at_work(turn) else { return Ok(()) };
    let text = format!(
        "the host is neither reset nor switched off, because a drive cannot be interrupted without harm: {activity}; \
         waiting for its end"
    );
    let heard = turn.seen.agent.as_ref().map_or(turn.now, |agent| agent.last_report_at);
    let is_silent = turn.now.duration_since(heard) > turn.limits().quiet;
    let help = format!("; its agent was not heard since {heard:.0}: `firesteel retry` ends the wait");
    turn.deadline(later(turn.now, turn.limits().stall));
    Err(turn.stay(turn.limits().work_poll, if is_silent { text + &help } else { text }))
}

/// Whether nothing of the current plan is under way any more.
pub(super) fn is_over(turn: &Turn<'_>) -> bool {
    let has_ended = |progress: Progress<'_>| matches!(progress, Progress::Done | Progress::Failed { .. });
    current(turn).is_some_and(|agent| has_ended(progress(turn, agent))) || presence(turn) == Presence::Gone
}

/// Gives the current plan up: the agent stops at its next safe point and boots again by itself, with the next attempt.
/// One that erases keeps its attempt until it is gone: its drive may be at what cannot be interrupted, and it would not
/// be heard with an old one.
#[track_caller]
pub(super) fn stop(turn: &mut Turn<'_>, why: &str) -> Result<(), Reason> {
    let (now, limits) = (turn.now, turn.limits());
    let Some(issued) = turn.memory.plan.as_mut() else { return Ok(()) };
    let erases = matches!(issued.plan, PlanKind::Erase(_));
    let Stopped { since, why } =
        issued.stopped.get_or_insert_with(|| Stopped { since: now, why: why.to_owned() }).clone();
    turn.effect(Effect::AbortAgent { attempt: turn.memory.attempt, reason: why.clone() });
    if erases && presence(turn) == Presence::Alive && now.duration_since(since) <= limits.erase_stall {
        let at = drive_at_work(turn).map(|activity| format!(", and a drive cannot be interrupted: {activity}"));
        turn.deadline(later(now, limits.stall));
        let text = format!("the agent was told to stop ({why}){}; waiting for its end", at.unwrap_or_default());
        return Err(turn.stay(limits.work_poll, text));
    }
    open(turn);
    turn.memory.opened |= !cut::is_next(turn);
    // It boots by itself; a reset at once would come before its safe point. A locked host is not waited for.
    turn.memory.boot = gate::lock(&turn.seen.host.metadata).is_none().then(|| BootWait::new(now, true));
    Ok(())
}

/// The agent bound to the current attempt, alive or not.
pub(super) fn current<'a>(turn: &Turn<'a>) -> Option<&'a AgentSeen> {
    turn.seen.agent.as_ref().filter(|agent| agent.attempt == turn.memory.attempt)
}

/// The agent of the current attempt, or what is done to get one. `kind` is the error that a host
/// that stays away shows.
#[track_caller]
pub(super) fn agent<'a>(turn: &mut Turn<'a>, kind: ErrorType) -> Result<&'a AgentSeen, Reason> {
    match presence(turn) {
        // Before anything is waited for: a host that boots again gets its script right after this step.
        Presence::Gone => spend(turn),
        Presence::Alive => {
            take(turn);
            drop_net_boot(turn);
        }
        Presence::Absent | Presence::Quiet => {}
    }
    if turn.memory.state != State::Registering {
        may_begin(turn)?;
    }
    match (presence(turn), current(turn)) {
        (Presence::Alive, Some(_)) if is_leaving(turn) => {
            let poll = turn.limits().secret_retry;
            turn.deadline(later(turn.now, turn.limits().quiet));
            Err(turn.stay(poll, "the agent was told to leave; waiting until it is gone"))
        }
        (Presence::Alive, Some(_)) if cut::is_due_to_agent(turn) => Err(cut::spend_agent(turn, kind)),
        (Presence::Alive, Some(agent)) => Ok(agent),
        (Presence::Quiet, _) => Err(quiet(turn, kind)),
        (Presence::Alive | Presence::Gone | Presence::Absent, _) => Err(boot(turn, kind)),
    }
}

/// Whether a boot into the agent, or the next work of one that is there, may begin now: not before a failure's
/// delay is over, and not without a slot.
#[track_caller]
fn may_begin(turn: &mut Turn<'_>) -> Result<(), Reason> {
    let begins = turn.memory.boot.is_none() && turn.memory.plan.is_none() && turn.has_bmc();
    if begins && turn.memory.admitted.is_none() && presence(turn) == Presence::Absent {
        turn.may_try()?;
    }
    slot::take(turn)
}

/// The current attempt is an agent's.
fn take(turn: &mut Turn<'_>) {
    turn.memory.attempt_spent = true;
    turn.memory.opened = true;
    turn.memory.boot = None;
}

/// Takes note of the end of the current attempt: the next boot gets the next number, published
/// before the host asks. One that came back by itself may have it at once, but for an erasure that claims a grade, and
/// not where the agent left for the OS that it wrote: that OS may be who asks.
pub(super) fn spend(turn: &mut Turn<'_>) {
    let agent = current(turn);
    let came_back = is_spent(turn) || agent.is_some_and(|agent| agent.rebooted);
    let has_written = turn.memory.written.as_ref().is_some_and(|written| written.attempt == turn.memory.attempt);
    let may_run_os = has_written && agent.is_some_and(|agent| agent.left);
    let is_awaited = came_back && (!turn.has_bmc() || !may_run_os && !cut::is_next(turn));
    open(turn);
    turn.memory.opened |= is_awaited;
    turn.memory.boot = is_awaited.then_some(BootWait::new(turn.now, true));
}

/// In states that need no agent: keeps the published attempt usable for the next boot.
pub(super) fn keep_fresh(turn: &mut Turn<'_>) {
    match presence(turn) {
        Presence::Gone => spend(turn),
        Presence::Alive => take(turn),
        Presence::Absent | Presence::Quiet => {}
    }
}

/// The agent's current plan ends with its leaving, so no other can follow it.
fn is_leaving(turn: &Turn<'_>) -> bool {
    let plan = turn.memory.plan.as_ref().map(|issued| &issued.plan);
    matches!(plan, Some(PlanKind::PowerOff | PlanKind::Reboot))
}

/// What the agent has made of the current plan.
pub(super) enum Progress<'a> {
    /// No plan of this kind is current.
    NoPlan,
    /// Issued, not begun.
    Issued,
    Running {
        step: &'a str,
        activity: &'a str,
        percent: u8,
    },
    Done,
    Failed {
        message: String,
        disk_changed: bool,
    },
}

pub(super) fn progress<'a>(turn: &Turn<'_>, agent: &'a AgentSeen) -> Progress<'a> {
    let Some(plan) = &turn.memory.plan else { return Progress::NoPlan };
    if agent.plan < plan.number {
        return Progress::Issued;
    }
    match &agent.work {
        Work::Idle => Progress::Issued,
        Work::Running { step, activity, percent } => Progress::Running { step, activity, percent: *percent },
        Work::Done => Progress::Done,
        Work::Failed { step, message, disk_changed } => {
            Progress::Failed { message: format!("{step}: {message}"), disk_changed: *disk_changed }
        }
    }
}

/// Stays while the agent works on a plan; says so when it gets nowhere. A step that still reports
/// is never interrupted.
#[track_caller]
pub(super) fn watch(turn: &mut Turn<'_>, agent: &AgentSeen, kind: ErrorType) -> Reason {
    let (stall, poll) = (turn.limits().stall_with(turn.memory.plan.as_ref()), turn.limits().work_poll);
    let shut = gate::holds(turn);
    let moved_at = agent.progress_at.max(gate::free_since(turn, turn.memory.plan.as_ref()));
    let still = turn.now.duration_since(moved_at);
    let name = turn.memory.plan.as_ref().map_or("none", |plan| plan.plan.name());
    let number = turn.memory.plan_number;
    let text = match progress(turn, agent) {
        Progress::Running { step, activity, percent } => {
            let activity = if activity.is_empty() { String::new() } else { format!(", {activity}") };
            format!("the agent runs {step}{activity} ({percent} %)")
        }
        Progress::NoPlan | Progress::Issued | Progress::Done | Progress::Failed { .. } => {
            turn.issue_again();
            format!("plan {number} ({name}) is with the agent")
        }
    };
    let heard = heard_at(turn, agent);
    let is_silent = turn.now.duration_since(heard) > turn.limits().quiet;
    let text = match drive_at_work(turn) {
        Some(_) if is_silent => {
            format!(
                "{text}; it was not heard since {heard:.0}, and is not reset, because its drive cannot be interrupted: \
                 `firesteel retry` ends the wait"
            )
        }
        Some(_) | None if is_silent => format!("{text}; it was not heard since {heard:.0}"),
        Some(_) | None => text,
    };
    if let Some(shut) = shut {
        turn.deadline(later(turn.now, stall));
        return turn.stay(poll, format!("{}; {text}", shut.text));
    }
    // By its beginning: a text that changes by the minute would be another error every minute.
    let standing = format!("{text}; no progress since {moved_at:.0}");
    if still > stall {
        turn.deadline(later(turn.now, stall));
        return turn.blocked(kind, poll, format!("{standing}; look at the host's console"));
    }
    let text = if still > turn.limits().stall { standing } else { text };
    turn.deadline(later(moved_at, stall));
    turn.stay(poll, text)
}

/// The next attempt's number becomes current; what belonged to the last one goes.
pub(super) fn open(turn: &mut Turn<'_>) {
    turn.memory.attempt += 1;
    turn.memory.attempt_spent = false;
    turn.memory.opened = !turn.has_bmc();
    turn.memory.plan = None;
    turn.memory.plan_number = 0;
    turn.memory.boot = None;
}

#[track_caller]
fn quiet(turn: &mut Turn<'_>, kind: ErrorType) -> Reason {
    let heard = current(turn).map_or(turn.now, |agent| heard_at(turn, agent));
    let silence = words(turn.now.duration_since(heard));
    let old = turn.memory.attempt;
    if !turn.has_bmc() {
        // It may be cut off only; its plan stays valid, and a boot by hand opens the next attempt.
        let text = format!("the agent was not heard since {heard:.0}; without a BMC somebody must reboot the host");
        let wake = turn.limits().slow_poll;
        if turn.now.duration_since(heard) > turn.limits().erase_quiet {
            // It does not hold its work any longer: that try is over.
            return match turn.may_try() {
                Ok(()) => turn.fail(kind, text),
                Err(reason) => reason,
            };
        }
        return turn.blocked(kind, wake, text);
    }
    turn.effect(Effect::AbortAgent { attempt: old, reason: "the host is being rebooted".to_owned() });
    open(turn);
    turn.fail(kind, format!("the agent of attempt {old} went quiet for {silence}"))
}

/// A host whose MAC belongs to another one would be taken for that one when it boots.
#[track_caller]
pub(super) fn mac_taken(turn: &mut Turn<'_>, kind: ErrorType) -> Option<Reason> {
    let (mac, owner) = turn.seen.mac_taken.as_ref()?;
    let text = format!(
        "the boot MAC {mac} belongs to host {owner}, which was there first; correct spec.bootMACAddress by making \
         this host anew, or delete the other one"
    );
    Some(turn.blocked(kind, turn.limits().slow_poll, text))
}

/// What keeps a boot from coming to an agent of this host.
#[track_caller]
pub(super) fn hindrance(turn: &mut Turn<'_>, kind: ErrorType) -> Option<Reason> {
    mac_taken(turn, kind).or_else(|| no_network(turn, kind))
}

/// An agent that does not know its way would not be heard of, and nobody would know why. The caller refuses
/// the ramdisk to a host whose network data it cannot read, so no boot is under way that could still succeed.
#[track_caller]
fn no_network(turn: &mut Turn<'_>, kind: ErrorType) -> Option<Reason> {
    let name = &turn.seen.host.spec.preprovisioning_network_data_name;
    match &turn.seen.network_data {
        NetworkDataSeen::NotReferenced | NetworkDataSeen::Ready { .. } => None,
        NetworkDataSeen::Missing => {
            let text =
                format!("Secret {name}, which spec.preprovisioningNetworkDataName names, does not exist: create it");
            let wake = turn.limits().secret_retry;
            Some(turn.blocked(kind, wake, text))
        }
        NetworkDataSeen::Invalid(error) => {
            let text = format!("the network data in Secret {name} cannot be used, correct it there: {error}");
            Some(turn.stuck(kind, text))
        }
    }
}

/// Boots the host into the next agent.
#[track_caller]
pub(super) fn boot(turn: &mut Turn<'_>, kind: ErrorType) -> Reason {
    if let Err(reason) = spare_drive(turn) {
        // Nobody waits for a hello meanwhile.
        turn.memory.boot = None;
        return reason;
    }
    if let Some(reason) = hindrance(turn, kind) {
        return reason;
    }
    let Some(wait) = turn.memory.boot.clone() else {
        if turn.has_bmc()
            && let Err(reason) = turn.may_try()
        {
            return reason;
        }
        let is_taken = turn.memory.attempt_spent || turn.memory.attempt == 0;
        if is_taken && !cut::is_due(turn) {
            open(turn);
        }
        turn.memory.boot = Some(BootWait::new(turn.now, false));
        return power(turn, turn.now, kind);
    };
    if let Some(change) = stranger(turn) {
        // It was heard, so that nothing is late; a person is waited for as long as it is there.
        turn.memory.boot = Some(BootWait { since: turn.now, ..wait });
        return turn.blocked(kind, turn.limits().work_poll, change.to_string());
    }
    let waited = turn.now.duration_since(wait.since);
    if waited > turn.limits().hello {
        return late(turn, waited, kind);
    }
    match (turn.has_bmc(), wait.powered) {
        (false, _) => come(turn, &wait),
        (true, true) if turn.memory.opened => look(turn, wait, kind),
        // An agent that is to stop comes to its safe point first.
        (true, true) if turn.now < later(wait.since, turn.limits().silent) => come(turn, &wait),
        (true, _) => power(turn, wait.since, kind),
    }
}

/// Another machine that says hello as this host, and is heard again within the time that a hello may take.
fn stranger(turn: &Turn<'_>) -> Option<IdentityChange> {
    let refused = turn.seen.refused_identity.as_ref()?;
    let is_there = turn.now.duration_since(refused.at) <= turn.limits().hello;
    identity::change(&turn.memory, turn.seen).filter(|_| is_there)
}

/// Some BMCs take an order and do nothing. The power, looked at while the host boots, tells so long
/// before the hello is late. An answer that does not come tells nothing.
#[track_caller]
fn look(turn: &mut Turn<'_>, mut wait: BootWait, kind: ErrorType) -> Reason {
    let is_asked = turn.memory.bmc.call.as_ref().is_some_and(|pending| pending.call.action == BmcAction::Probe);
    if is_asked || turn.now >= next_look(turn, &wait) {
        match call(turn, BmcAction::Probe) {
            Call::Waiting(_) => return come(turn, &wait),
            Call::Failed(fault) => {
                (wait.looked_at, wait.off_since, wait.unseen) = (Some(turn.now), None, wait.unseen.saturating_add(1));
                turn.memory.boot = Some(wait.clone());
                return unseen(turn, &wait, &fault);
            }
            Call::Done => {
                seen_again(turn);
                wait.unseen = 0;
                let is_off = turn.seen.bmc.power == Power::Off;
                wait.off_since = is_off.then_some(wait.off_since.unwrap_or(turn.now));
                wait.looked_at = Some(turn.now);
            }
        }
        turn.memory.boot = Some(wait.clone());
        if let Some(off_since) = wait.off_since.filter(|since| turn.now >= later(*since, turn.limits().boot_off)) {
            return still_off(turn, &wait, off_since, kind);
        }
    }
    come(turn, &wait)
}

/// The host may boot all the same, and is waited for; that its BMC cannot be asked is shown, for until it can nothing
/// can be done about a host that does not come. One that is out of reach for a moment may share the host's own port,
/// whose link goes down as the host starts.
#[track_caller]
fn unseen(turn: &mut Turn<'_>, wait: &BootWait, fault: &BmcFault) -> Reason {
    if fault.kind == BmcFaultKind::Unreachable && wait.unseen < 2 {
        return come(turn, wait);
    }
    let text = fault_text(turn, fault);
    let wake = next_look(turn, wait).duration_since(turn.now).max(SignedDuration::from_secs(1));
    let reason = turn.blocked(ErrorType::PowerManagement, wake, text);
    turn.deadline(later(wait.since, turn.limits().hello));
    reason
}

/// Its BMC answers again.
fn seen_again(turn: &mut Turn<'_>) {
    let is_over = |failure: &Failure| failure.kind == ErrorType::PowerManagement && failure.retry_at.is_none();
    if turn.memory.failure.as_ref().is_some_and(is_over) {
        turn.memory.failure = None;
    }
}

fn next_look(turn: &Turn<'_>, wait: &BootWait) -> Timestamp {
    let is_on = turn.seen.bmc.power == Power::On;
    let pause = if is_on { turn.limits().power_poll } else { turn.limits().boot_look };
    later(wait.looked_at.unwrap_or(wait.since), pause)
}

#[track_caller]
fn still_off(turn: &mut Turn<'_>, wait: &BootWait, off_since: Timestamp, kind: ErrorType) -> Reason {
    let (attempt, off_for) = (turn.memory.attempt, words(turn.now.duration_since(off_since)));
    let text = if off_since <= wait.since {
        format!("the BMC accepted power-on but the host is still off after {off_for} (attempt {attempt})")
    } else {
        format!(
            "the host went off while it booted, {off_for} ago (attempt {attempt}); look at its power and its console"
        )
    };
    open(turn);
    turn.fail(kind, text)
}

#[track_caller]
fn power(turn: &mut Turn<'_>, since: Timestamp, kind: ErrorType) -> Reason {
    if !turn.has_bmc() {
        return come(turn, &BootWait::new(since, false));
    }
    if let Err(reason) = cut::run(turn, kind) {
        return reason;
    }
    match call(turn, BmcAction::NetBoot) {
        Call::Done => {
            overrides::learn(turn);
            if let Err(reason) = cut::booted(turn) {
                return reason;
            }
            turn.memory.opened = true;
            let is_off = turn.seen.bmc.power == Power::Off;
            let wait = BootWait { off_since: is_off.then_some(turn.now), ..BootWait::new(turn.now, true) };
            turn.memory.boot = Some(wait.clone());
            turn.event(
                EventKind::Normal,
                "NetBoot",
                format!("booting into the agent, attempt {}", turn.memory.attempt),
            );
            come(turn, &wait)
        }
        Call::Waiting(reason) => reason,
        Call::Failed(fault) => {
            turn.memory.boot = None;
            access::failed(turn, kind, &fault)
        }
    }
}

#[track_caller]
fn come(turn: &mut Turn<'_>, wait: &BootWait) -> Reason {
    turn.deadline(later(wait.since, turn.limits().hello));
    let attempt = turn.memory.attempt;
    let text = if turn.has_bmc() || wait.powered {
        format!("the host boots from the network; waiting for its agent's hello (attempt {attempt})")
    } else {
        "waiting for the host to boot from the network: there is no BMC, so switch it on or reboot it by hand"
            .to_owned()
    };
    let mut wake = turn.limits().work_poll;
    if wait.powered && turn.has_bmc() {
        let look = next_look(turn, wait).duration_since(turn.now);
        wake = wake.min(look.max(SignedDuration::from_secs(1)));
    }
    turn.stay(wake, text)
}

#[track_caller]
fn late(turn: &mut Turn<'_>, waited: jiff::SignedDuration, kind: ErrorType) -> Reason {
    let attempt = turn.memory.attempt;
    let order =
        turn.memory.bmc.no_override.as_ref().map(
            |_| "; its BMC has no boot override, so the network must come first in the boot order of its firmware",
        );
    // What was seen before the wait began is of an earlier boot.
    let netboot = &turn.seen.netboot;
    let is_of_this = netboot.at.is_some_and(|at| turn.now.duration_since(at) <= waited);
    let last = if is_of_this { netboot.stage.as_str() } else { "none" };
    let text = format!(
        "no agent said hello within {} (attempt {attempt}); last stage seen: {last}; the timeline shows how the host came \
         there{}",
        words(waited),
        order.unwrap_or_default()
    );
    if !turn.has_bmc() {
        // The boot entry stays: the host may come any time.
        turn.memory.boot = Some(BootWait::new(turn.now, false));
        return turn.fail(kind, text);
    }
    let was_opened = turn.memory.opened;
    open(turn);
    // It may still come: the boot that was ordered is the last one.
    turn.memory.opened = was_opened && !cut::is_next(turn);
    turn.fail(kind, text)
}

/// A boot that was asked for has happened, whatever the BMC says later.
fn drop_net_boot(turn: &mut Turn<'_>) {
    let done = turn.memory.bmc.call.as_ref().is_some_and(|pending| pending.call.action == BmcAction::NetBoot);
    if done && !turn.seen.bmc.in_flight {
        turn.memory.bmc.call = None;
    }
}
