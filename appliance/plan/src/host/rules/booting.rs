//! A boot of the host into the agent.
//!
//! Publish, then act: the attempt goes into the memory, the caller publishes it as the host's boot entry, and only then
//! does the BMC hear of it.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;
use jiff::{SignedDuration, Timestamp};

use crate::host::model::{
    BmcAction, BmcFault, BmcFaultKind, BootWait, HostFailure, HostPower, HostReason, NetworkDataInputs,
};
use crate::host::rules::identity::{self, IdentityChange};
use crate::host::rules::{bmc_access, boot_hint, overrides, power_cut, wrong_boot_mac};
use crate::host::turn::{AgentPresence, BmcCallProgress, StepDraft, format_duration, later};

/// Boots the host into the next agent.
#[track_caller]
pub(crate) fn boot(turn: &mut StepDraft<'_>, kind: ErrorType) -> HostReason {
    if let Err(reason) = turn.spare_drive() {
        // No hello is awaited meanwhile.
        turn.memory.boot = None;
        return reason;
    }
    if let Err(reason) = check_way(turn, kind) {
        return reason;
    }
    let Some(wait) = turn.memory.boot.clone() else {
        if turn.has_bmc()
            && let Err(reason) = turn.may_try()
        {
            return reason;
        }
        let is_taken = turn.memory.attempt_spent || turn.memory.attempt == 0;
        if is_taken && !power_cut::is_due(turn) {
            turn.open_attempt();
        }
        turn.memory.boot = Some(BootWait::new(turn.now, false));
        return power(turn, turn.now, kind);
    };
    if let Some(change) = changed_identity(turn) {
        // It was heard, so that nothing is late; a person is waited for as long as it is there.
        turn.memory.boot = Some(BootWait { since: turn.now, ..wait });
        return turn.blocked(kind, turn.limits().work_poll, change.to_string());
    }
    let waited = turn.now.duration_since(wait.since);
    if waited > turn.limits().hello {
        return boot_timed_out(turn, waited, kind);
    }
    match (turn.has_bmc(), wait.powered) {
        (false, _) => come(turn, &wait, kind),
        (true, true) if turn.memory.opened => check_boot(turn, wait, kind),
        // An agent that is to stop comes to its safe point first.
        (true, true) if turn.now < later(wait.since, turn.limits().silent) => come(turn, &wait, kind),
        (true, _) => power(turn, wait.since, kind),
    }
}

/// Checks that a boot can come to an agent of this host.
#[track_caller]
pub(crate) fn check_way(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    check_mac(turn, kind)?;
    check_network(turn, kind)
}

/// Checks that an interface is known from which the host boots: one that was registered where hosts are driven by their
/// BMCs alone may have none.
#[track_caller]
pub(crate) fn check_boot_mac(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    if !turn.has_bmc() || !turn.memory.macs.is_empty() || turn.presence() == AgentPresence::Alive {
        return Ok(());
    }
    let text = no_boot_mac(turn);
    Err(turn.blocked(kind, turn.limits().slow_poll, text))
}

/// Says that no interface is known from which the host boots.
pub(crate) fn no_boot_mac(turn: &StepDraft<'_>) -> String {
    let known = turn.seen.bmc.macs.join(", ");
    let known = if known.is_empty() { "the BMC names none".to_owned() } else { format!("the BMC names {known}") };
    format!("spec.bootMACAddress must say which interface boots: {known}")
}

/// Checks the boot MAC: a host whose MAC belongs to another one would be taken for that one when it boots.
#[track_caller]
pub(crate) fn check_mac(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    let Some((mac, owner)) = turn.seen.mac_taken.as_ref() else { return Ok(()) };
    let text = format!(
        "the boot MAC {mac} belongs to host {owner}, which was there first; correct spec.bootMACAddress by creating \
         this host again, or delete the other one"
    );
    Err(turn.blocked(kind, turn.limits().slow_poll, text))
}

/// Checks the network data: an agent that does not know its way would never be heard, for no visible reason. The caller
/// refuses the ramdisk to a host whose network data it cannot read, so no boot is under way that could still succeed.
#[track_caller]
fn check_network(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    let name = &turn.seen.host.spec.preprovisioning_network_data_name;
    match &turn.seen.network_data {
        NetworkDataInputs::NotReferenced | NetworkDataInputs::Ready { .. } => Ok(()),
        NetworkDataInputs::Missing => {
            let text =
                format!("Secret {name}, which spec.preprovisioningNetworkDataName names, does not exist: create it");
            Err(turn.blocked(kind, turn.limits().secret_retry, text))
        }
        NetworkDataInputs::Invalid(error) => {
            let text = format!("the network data in Secret {name} cannot be used, correct it there: {error}");
            Err(turn.stuck(kind, text))
        }
    }
}

/// Another machine that says hello as this host, and is heard again within the time that a hello may take.
fn changed_identity(turn: &StepDraft<'_>) -> Option<IdentityChange> {
    let refused = turn.seen.refused_identity.as_ref()?;
    let is_there = turn.now.duration_since(refused.at) <= turn.limits().hello;
    identity::change(&turn.memory, turn.seen).filter(|_| is_there)
}

/// Some BMCs take an order and do nothing. The power, looked at while the host boots, tells so long
/// before the hello is late. An answer that does not come tells nothing.
#[track_caller]
fn check_boot(turn: &mut StepDraft<'_>, mut wait: BootWait, kind: ErrorType) -> HostReason {
    let is_asked = turn.memory.bmc.call.as_ref().is_some_and(|pending| pending.call.action == BmcAction::Probe);
    if is_asked || turn.now >= next_check(turn, &wait) {
        match turn.call(BmcAction::Probe) {
            BmcCallProgress::Waiting(_) => return come(turn, &wait, kind),
            BmcCallProgress::Failed(fault) => {
                (wait.looked_at, wait.off_since, wait.unseen) = (Some(turn.now), None, wait.unseen.saturating_add(1));
                turn.memory.boot = Some(wait.clone());
                return unseen(turn, &wait, &fault, kind);
            }
            BmcCallProgress::Done => {
                seen_again(turn);
                wait.unseen = 0;
                let is_off = turn.seen.bmc.power == HostPower::Off;
                wait.off_since = is_off.then_some(wait.off_since.unwrap_or(turn.now));
                wait.looked_at = Some(turn.now);
            }
        }
        turn.memory.boot = Some(wait.clone());
        if let Some(off_since) = wait.off_since.filter(|since| turn.now >= later(*since, turn.limits().boot_off)) {
            return still_off(turn, &wait, off_since, kind);
        }
    }
    come(turn, &wait, kind)
}

/// The host may boot all the same, and is waited for; that its BMC cannot be asked is shown, for until it can nothing
/// can be done about a host that does not come. One that is out of reach for a moment may share the host's own port,
/// whose link goes down as the host starts.
#[track_caller]
fn unseen(turn: &mut StepDraft<'_>, wait: &BootWait, fault: &BmcFault, kind: ErrorType) -> HostReason {
    if fault.kind == BmcFaultKind::Unreachable && wait.unseen < 2 {
        return come(turn, wait, kind);
    }
    let text = turn.fault_text(fault);
    let wake = next_check(turn, wait).duration_since(turn.now).max(SignedDuration::from_secs(1));
    let reason = turn.blocked(ErrorType::PowerManagement, wake, text);
    turn.deadline(later(wait.since, turn.limits().hello));
    reason
}

/// Its BMC answers again.
fn seen_again(turn: &mut StepDraft<'_>) {
    let is_over = |failure: &HostFailure| failure.kind == ErrorType::PowerManagement && failure.retry_at.is_none();
    if turn.memory.failure.as_ref().is_some_and(is_over) {
        turn.memory.failure = None;
    }
}

fn next_check(turn: &StepDraft<'_>, wait: &BootWait) -> Timestamp {
    let is_on = turn.seen.bmc.power == HostPower::On;
    let pause = if is_on { turn.limits().power_poll } else { turn.limits().boot_look };
    later(wait.looked_at.unwrap_or(wait.since), pause)
}

#[track_caller]
fn still_off(turn: &mut StepDraft<'_>, wait: &BootWait, off_since: Timestamp, kind: ErrorType) -> HostReason {
    let (attempt, off_for) = (turn.memory.attempt, format_duration(turn.now.duration_since(off_since)));
    let text = if off_since <= wait.since {
        format!("the BMC accepted power-on but the host is still off after {off_for} (attempt {attempt})")
    } else {
        format!(
            "the host went off while it booted, {off_for} ago (attempt {attempt}); look at its power and its console"
        )
    };
    turn.open_attempt();
    turn.fail(kind, text)
}

#[track_caller]
fn power(turn: &mut StepDraft<'_>, since: Timestamp, kind: ErrorType) -> HostReason {
    if !turn.has_bmc() {
        return come(turn, &BootWait::new(since, false), kind);
    }
    if let Err(reason) = power_cut::run(turn, kind) {
        return reason;
    }
    match turn.call(BmcAction::NetBoot) {
        BmcCallProgress::Done => {
            overrides::record_overrides(turn);
            if let Err(reason) = power_cut::booted(turn) {
                return reason;
            }
            turn.memory.opened = true;
            let is_off = turn.seen.bmc.power == HostPower::Off;
            let wait = BootWait { off_since: is_off.then_some(turn.now), ..BootWait::new(turn.now, true) };
            turn.memory.boot = Some(wait.clone());
            turn.event(EventReason::NetBoot, format!("booting into the agent, attempt {}", turn.memory.attempt));
            come(turn, &wait, kind)
        }
        BmcCallProgress::Waiting(reason) => reason,
        BmcCallProgress::Failed(fault) => {
            turn.memory.boot = None;
            bmc_access::failed(turn, kind, &fault)
        }
    }
}

#[track_caller]
fn come(turn: &mut StepDraft<'_>, wait: &BootWait, kind: ErrorType) -> HostReason {
    if let Some(reason) = refused(turn, wait, kind) {
        return reason;
    }
    turn.deadline(later(wait.since, turn.limits().hello));
    let attempt = turn.memory.attempt;
    let text = if let Some(wrong) = wrong_boot_mac::find(&turn.memory, turn.seen) {
        format!("{}; waiting for its agent's hello (attempt {attempt})", wrong.text)
    } else if turn.has_bmc() || wait.powered {
        format!("the host boots from the network; waiting for its agent's hello (attempt {attempt})")
    } else {
        by_hand(turn, turn.now.duration_since(wait.since))
    };
    let mut wake = turn.limits().work_poll;
    if wait.powered && turn.has_bmc() {
        let look = next_check(turn, wait).duration_since(turn.now);
        wake = wake.min(look.max(SignedDuration::from_secs(1)));
    }
    turn.wait_in_state(wake, text)
}

/// An agent of this host said hello and was refused: its machine boots again, and the host is waited for as before. The
/// error is there at once, for the next boot may end in the same way.
#[track_caller]
fn refused(turn: &mut StepDraft<'_>, wait: &BootWait, kind: ErrorType) -> Option<HostReason> {
    let text = refusal_text(turn)?;
    let reason = turn.blocked(kind, turn.limits().work_poll, text);
    turn.deadline(later(wait.since, turn.limits().hello));
    Some(reason)
}

/// Says the same of a host that nothing but its agent makes managed, and that is switched on by hand.
#[track_caller]
pub(crate) fn refused_by_hand(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    match refusal_text(turn) {
        Some(text) => Err(turn.blocked(kind, turn.limits().slow_poll, text)),
        None => Ok(()),
    }
}

/// Says why the agent of this boot was refused, if it was.
fn refusal_text(turn: &StepDraft<'_>) -> Option<String> {
    let attempt = turn.memory.attempt;
    // One of an earlier attempt is a machine that was slow; the attempt after the refusal is its new boot.
    let is_of_this = |at: u64| at == attempt || at.checked_add(1) == Some(attempt);
    let refused = turn.seen.refused_hello.as_ref().filter(|refused| is_of_this(refused.attempt))?;
    (turn.now.duration_since(refused.at) <= turn.limits().hello).then(|| {
        format!(
            "the agent of attempt {} was refused: {}; its machine boots again from the network; if it is refused again, \
             see that it gets its boot files from this appliance alone",
            refused.attempt, refused.why
        )
    })
}

/// Says what a host without a BMC waits for, by what was seen of its boot within this time.
pub(crate) fn by_hand(turn: &StepDraft<'_>, within: SignedDuration) -> String {
    let netboot = &turn.seen.netboot;
    let is_booting = netboot.stages.iter().any(|reached| turn.now.duration_since(reached.last_at) <= within);
    if is_booting && !netboot.stage.is_empty() {
        return format!("waiting for the host to boot from the network; last stage seen: {}", netboot.stage);
    }
    "waiting for the host to boot from the network: there is no BMC, so unless it restarts by itself, switch it on or \
     reboot it by hand"
        .to_owned()
}

#[track_caller]
fn boot_timed_out(turn: &mut StepDraft<'_>, waited: jiff::SignedDuration, kind: ErrorType) -> HostReason {
    let attempt = turn.memory.attempt;
    let order =
        turn.memory.bmc.no_override.as_ref().map(
            |_| "; its BMC has no boot override, so the network must come first in the boot order of its firmware",
        );
    // What was seen before the wait began is of an earlier boot.
    let netboot = &turn.seen.netboot;
    let is_of_this = netboot.at.is_some_and(|at| turn.now.duration_since(at) <= waited);
    let last = if is_of_this { netboot.stage.as_str() } else { "none" };
    let hint = boot_hint::of_boot(&turn.memory, turn.seen, turn.now);
    let text = format!(
        "no agent said hello within {} (attempt {attempt}); last stage seen: {last}; the timeline shows how the host came \
         there{}{}",
        format_duration(waited),
        order.unwrap_or_default(),
        hint.map(|hint| format!("; {}", hint.text)).unwrap_or_default()
    );
    if !turn.has_bmc() {
        // The boot entry stays: the host may come any time.
        turn.memory.boot = Some(BootWait::new(turn.now, false));
        return turn.fail(kind, text);
    }
    let was_opened = turn.memory.opened;
    turn.open_attempt();
    // It may still come: the boot that was ordered is the last one.
    turn.memory.opened = was_opened && !power_cut::is_next(turn);
    turn.fail(kind, text)
}
