//! Decides the power cut before an erasure that claims a grade: off, then on. Pure.
//!
//! The system of the host's last consumer may still run on it, and may ask for its boot script. So the attempt that
//! erases is given out only after the BMC has shown that the host is off and has switched it on again.
//!
//! ```text
//!   power off ──► the BMC shows "off" ─────────────────────► boot once, on ──► the attempt is opened
//!       └── refused, not shown in time, or not allowed: why ──► boot once, reset accepted ──► opened; the erasure
//!                                                                                             will be unverified
//! ```
//!
//! A boot that begins by itself meanwhile waits for its script ([`crate::HostBootEntry::Wait`]).

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::{ErrorType, cleaning::CleaningPolicies};
use jiff::SignedDuration;

use crate::disk::{CleaningMethod, NextOwner};
use crate::host::model::{BmcAction, BmcFaultKind, BootWait, CleanBoot, HostReason, HostState, OverrideUse, PowerCut};
use crate::host::rules::power_off::{PowerOffCheck, check_power_off, not_shown};
use crate::host::rules::{bmc_access, consumer_data};
use crate::host::turn::{BmcCallProgress, StepDraft, format_duration, later};

/// A host that is on again each time is reset after so many tries.
const TRIES_MAX: u32 = 3;
/// The number of boots that may come to nothing before the system on the disk counts as able to ask in the host's name.
const ROUNDS_MAX: u32 = 3;

/// Says whether the owner's policies ask for an erasure that claims a grade.
fn is_graded(policies: &CleaningPolicies, next: NextOwner) -> bool {
    let (policy, usual) = match next {
        NextOwner::Same => (&policies.between_installations, CleaningMethod::Metadata),
        NextOwner::Another => (&policies.between_owners, CleaningMethod::Full),
    };
    policy.method.unwrap_or(usual) > CleaningMethod::Metadata
}

/// Says whether the next work on the host is an erasure that claims a grade.
pub(crate) fn is_next(turn: &StepDraft<'_>) -> bool {
    let next = consumer_data::next_owner(turn);
    let state = &turn.memory.state;
    let cleans = *state == HostState::Deprovisioning || *state == HostState::Preparing && next == NextOwner::Another;
    turn.has_bmc() && cleans && is_graded(&turn.requests.cleaning, next)
}

/// Says whether the host is to be switched off and on before its agent may work.
pub(crate) fn is_due(turn: &StepDraft<'_>) -> bool {
    let is_cut = turn.memory.clean_boot.as_ref().is_some_and(|boot| boot.attempt == turn.memory.attempt);
    !is_cut && is_next(turn)
}

/// Says whether that is so although an agent is there. One that changes disks is not interrupted: what it erases will
/// be unverified.
pub(crate) fn is_due_to_agent(turn: &StepDraft<'_>) -> bool {
    let destroys = turn.memory.plan.as_ref().is_some_and(|issued| issued.plan.destroys());
    !destroys && is_due(turn)
}

/// Opens the attempt of a host without a BMC: each of its boots is by hand.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    if !turn.has_bmc() {
        turn.memory.opened = true;
    }
}

/// Switches the host off where its next boot needs that; `Ok` when it may be switched on.
#[track_caller]
pub(crate) fn run(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<(), HostReason> {
    if !is_due(turn) {
        return Ok(());
    }
    let under_way = turn.memory.boot.as_ref().and_then(|wait| wait.cut.clone());
    let mut cut = under_way.unwrap_or_else(|| begin(turn));
    let ended = if cut.off_at.is_some() || cut.unseen.is_some() { Ok(()) } else { go_on(turn, &mut cut, kind) };
    if let Some(wait) = turn.memory.boot.as_mut() {
        wait.cut = Some(cut);
    }
    ended
}

/// Opens an attempt whose token is not out, unless this step has done so.
fn begin(turn: &mut StepDraft<'_>) -> PowerCut {
    if turn.memory.attempt == turn.seen.memory.attempt {
        turn.open_attempt();
    }
    let agent = turn.seen.agent.as_ref().map(|agent| agent.attempt);
    let before = turn.memory.clean_boot.as_ref();
    let came_to_nothing = before.filter(|boot| agent.is_none_or(|agent| agent < boot.attempt));
    let rounds = came_to_nothing.map_or(0, |boot| boot.rounds.saturating_add(1));
    turn.memory.boot = Some(BootWait::new(turn.now, false));
    PowerCut::new(turn.now, rounds)
}

#[track_caller]
fn go_on(turn: &mut StepDraft<'_>, cut: &mut PowerCut, kind: ErrorType) -> Result<(), HostReason> {
    if turn.seen.host.spec.disable_power_off {
        give_up(turn, cut, "spec.disablePowerOff keeps it on".to_owned());
        return Ok(());
    }
    let (pause, limit) = (turn.limits().power_poll_changing, turn.limits().power_change);
    let was_ordered = cut.is_ordered;
    let why = match check_power_off(turn, cut) {
        PowerOffCheck::Waiting(reason) => return Err(reason),
        PowerOffCheck::Off => {
            let text =
                format!("the BMC shows that the host is off, before it is erased (attempt {})", turn.memory.attempt);
            turn.event(EventReason::SwitchedOff, text);
            return Ok(());
        }
        PowerOffCheck::NotYet => not_shown(cut),
        // One that says no is asked again for a while: it may only be busy.
        PowerOffCheck::Failed(fault) if cut.is_ordered || fault.kind == BmcFaultKind::Refused => {
            turn.fault_text(&fault)
        }
        PowerOffCheck::Failed(fault) => {
            turn.memory.boot = None;
            return Err(bmc_access::failed(turn, kind, &fault));
        }
    };
    if cut.is_ordered && !was_ordered {
        // The time that a busy BMC took for the order is not the host's.
        cut.since = turn.now;
    }
    let waited = turn.now.duration_since(cut.since);
    if waited > limit {
        give_up(turn, cut, format!("{why} after {}", format_duration(waited)));
        return Ok(());
    }
    turn.deadline(later(cut.since, limit));
    Err(turn.wait_in_state(pause, "waiting until the BMC shows that the host is off, before it is erased"))
}

fn give_up(turn: &mut StepDraft<'_>, cut: &mut PowerCut, why: String) {
    let text = format!("the host is reset without being seen off ({why}): its erasure will be called unverified");
    turn.warn(EventReason::ResetAccepted, text);
    cut.unseen = Some(why);
}

/// Keeps what was seen of a boot that the BMC has carried out; `Err` where the host was on again meanwhile, and is
/// switched off once more.
#[track_caller]
pub(crate) fn booted(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let Some(cut) = turn.memory.boot.as_ref().and_then(|wait| wait.cut.clone()) else { return Ok(()) };
    let was_on = cut.off_at.is_some() && !turn.seen.bmc.was_off_at_boot;
    if was_on && cut.tries + 1 < TRIES_MAX {
        let again = PowerCut { tries: cut.tries + 1, ..PowerCut::new(turn.now, cut.rounds) };
        turn.memory.boot = Some(BootWait { cut: Some(again), ..BootWait::new(turn.now, false) });
        let text = "the host was on again when it was to be switched on: it is switched off once more";
        return Err(turn.wait_in_state(SignedDuration::from_secs(1), text));
    }
    let on = was_on.then(|| "it was on again each time when it was to be switched on".to_owned());
    let rounds = cut.rounds;
    let nothing = (rounds >= ROUNDS_MAX).then(|| {
        format!("{rounds} boots before it came to nothing, so that the system on the disk may be who boots now")
    });
    let bmc = &turn.seen.bmc;
    let no_override = bmc.no_override.as_ref().map(|why| format!("the BMC has none ({why})"));
    let unset = bmc.once_unset.as_ref().map(|why| format!("the BMC did not show it as ordered ({why})"));
    turn.memory.clean_boot = Some(CleanBoot {
        attempt: turn.memory.attempt,
        off_at: cut.off_at.filter(|_| !was_on),
        reset_accepted: on.or(cut.unseen).or(nothing),
        rounds,
        once: no_override.or(unset).map(OverrideUse::Unread),
        blind_since: None,
    });
    Ok(())
}

/// Has the override for this boot read, once, before an erasure begins: who ignored it may have booted anything. What
/// cannot be read stops nothing.
#[track_caller]
pub(crate) fn read_once(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let attempt = turn.memory.attempt;
    if !turn.memory.clean_boot.as_ref().is_some_and(|boot| boot.attempt == attempt && boot.once.is_none()) {
        return Ok(());
    }
    let pending = turn.memory.bmc.call.as_ref().filter(|pending| pending.call.action == BmcAction::ReadOnce);
    let asked_at = pending.map_or(turn.now, |pending| pending.asked_at);
    let unread = match turn.call(BmcAction::ReadOnce) {
        BmcCallProgress::Waiting(_) if turn.now.duration_since(asked_at) > turn.limits().power_change => {
            Some("the BMC does not answer".to_owned())
        }
        BmcCallProgress::Waiting(reason) => return Err(reason),
        BmcCallProgress::Done => turn.seen.bmc.once_unread.clone(),
        BmcCallProgress::Failed(fault) => {
            let why = turn.fault_text(&fault);
            if let Some(reason) = wait_for_power_check(turn, &why) {
                return Err(reason);
            }
            Some(why)
        }
    };
    if let Some(boot) = turn.memory.clean_boot.as_mut() {
        boot.once = Some(unread.map_or(OverrideUse::UsedUp, OverrideUse::Unread));
        boot.blind_since = None;
    }
    Ok(())
}

/// Waits for another look of the BMC's: one that fails is no reason to lose a proof. `None` where that lasts too long.
#[track_caller]
pub(crate) fn wait_for_power_check(turn: &mut StepDraft<'_>, why: &str) -> Option<HostReason> {
    let (now, attempt) = (turn.now, turn.memory.attempt);
    let (limit, pause) = (turn.limits().power_change, turn.limits().power_poll_changing);
    let boot = turn.memory.clean_boot.as_mut().filter(|boot| boot.attempt == attempt)?;
    let since = *boot.blind_since.get_or_insert(now);
    (now.duration_since(since) <= limit).then(|| turn.wait_in_state(pause, format!("{why}; asking the BMC once more")))
}

#[cfg(test)]
mod tests {
    use firesteel_resources::bare_metal_host::{annotations, cleaning::CleaningPolicy};

    use super::*;
    use crate::disk::DiskIdentity;
    use crate::host::model::{BmcCall, HostInputs, IssuedPlan, PendingCall, PlanKind};
    use crate::host::sample::{agent, at, now, with_bmc, without_bmc};
    use jiff::Timestamp;

    #[test]
    fn what_claims_a_grade() {
        let of = |method: Option<CleaningMethod>| {
            let policy = CleaningPolicy { method, ..CleaningPolicy::default() };
            CleaningPolicies {
                between_installations: policy.clone(),
                between_owners: policy,
                ..CleaningPolicies::default()
            }
        };
        for (method, same, another) in [
            (None, false, true),
            (Some(CleaningMethod::Metadata), false, false),
            (Some(CleaningMethod::Quick), true, true),
            (Some(CleaningMethod::Full), true, true),
        ] {
            let policies = of(method);
            let graded = [NextOwner::Same, NextOwner::Another].map(|next| is_graded(&policies, next));
            assert_eq!(graded, [same, another], "{method:?}");
        }
    }

    #[test]
    fn what_was_not_seen_is_named() {
        let off_at = Some(Timestamp::UNIX_EPOCH);
        let seen = CleanBoot {
            attempt: 2,
            off_at,
            reset_accepted: None,
            rounds: 0,
            once: Some(OverrideUse::UsedUp),
            blind_since: None,
        };
        assert_eq!(seen.missing_evidence(), Vec::<String>::new());
        for (off_at, reset_accepted, once, parts) in [
            (None, Some("it was busy"), Some(OverrideUse::UsedUp), vec!["not seen off before it: it was busy"]),
            (off_at, Some("3 boots"), Some(OverrideUse::UsedUp), vec!["seen off before it, and 3 boots"]),
            (off_at, None, Some(OverrideUse::Unread("it has none".into())), vec!["not seen used up: it has none"]),
            (off_at, None, None, vec!["not seen used up: it was not looked at"]),
            (None, Some("it was busy"), None, vec!["not seen off", "not seen used up"]),
        ] {
            let boot = CleanBoot { off_at, reset_accepted: reset_accepted.map(str::to_owned), once, ..seen.clone() };
            let unheld = boot.missing_evidence();
            assert_eq!(unheld.len(), parts.len(), "{unheld:?}");
            assert!(unheld.iter().zip(parts).all(|(unheld, part)| unheld.contains(part)), "{unheld:?}");
        }
    }

    fn annotated(state: HostState, method: &str) -> HostInputs {
        let mut seen = with_bmc(state);
        let policies =
            format!(r#"{{"betweenInstallations":{{"method":"{method}"}},"betweenOwners":{{"method":"{method}"}}}}"#);
        seen.host.metadata.annotations.insert(annotations::CLEANING.into(), policies);
        seen
    }

    /// A host that is let go by its tenant.
    fn released() -> HostInputs {
        let mut seen = with_bmc(HostState::Deprovisioning);
        seen.memory.tenant = Some("one".into());
        seen
    }

    #[test]
    fn only_an_erasure_that_comes_next_and_claims_a_grade_needs_a_cut() {
        use HostState as S;
        for (state, is_for_another, method, has_bmc, expected) in [
            (S::Deprovisioning, false, "quick", true, true),
            (S::Deprovisioning, true, "quick", true, true),
            (S::Preparing, true, "quick", true, true),
            (S::Preparing, false, "quick", true, false),
            (S::Provisioning, true, "quick", true, false),
            (S::Provisioning, false, "quick", true, false),
            (S::Available, true, "quick", true, false),
            (S::Deprovisioning, true, "quick", false, false),
            (S::Deprovisioning, true, "metadata", true, false),
            (S::Preparing, true, "metadata", true, false),
        ] {
            let mut seen = annotated(state.clone(), method);
            seen.memory.tenant = is_for_another.then(|| "one".into());
            if !has_bmc {
                seen.host.spec.bmc = None;
            }
            let found = is_next(&StepDraft::new(&seen, now()));
            assert_eq!(found, expected, "{state:?} {is_for_another} {method} {has_bmc}");
        }
    }

    fn boot(attempt: u64, rounds: u32) -> CleanBoot {
        CleanBoot { attempt, off_at: None, reset_accepted: None, rounds, once: None, blind_since: None }
    }

    #[test]
    fn a_cut_is_due_once_for_each_attempt_and_not_to_an_agent_that_changes_disks() {
        let clean = || PlanKind::Clean { disk: DiskIdentity::default() };
        let issued = |plan| Some(IssuedPlan { number: 1, plan, issued_at: now(), stopped: None });
        for (cut_in, plan, due, due_to_agent) in [
            (None, None, true, true),
            (Some(2), None, true, true),
            (Some(3), None, false, false),
            (None, issued(PlanKind::Inspect), true, true),
            (None, issued(clean()), true, false),
            (Some(3), issued(clean()), false, false),
        ] {
            let mut seen = released();
            seen.memory.clean_boot = cut_in.map(|attempt| boot(attempt, 0));
            seen.memory.plan.clone_from(&plan);
            let turn = StepDraft::new(&seen, now());
            assert_eq!((is_due(&turn), is_due_to_agent(&turn)), (due, due_to_agent), "{cut_in:?} {plan:?}");
        }
    }

    #[test]
    fn each_boot_of_a_host_without_a_bmc_is_open() {
        for (seen, is_open) in [(released(), false), (without_bmc(HostState::Deprovisioning), true)] {
            let mut turn = StepDraft::new(&seen, now());
            turn.memory.opened = false;
            notice(&mut turn);
            assert_eq!(turn.memory.opened, is_open);
        }
    }

    /// The limit counts from the moment at which the BMC took the order.
    #[test]
    fn a_host_that_is_not_seen_off_is_reset_after_two_minutes_and_not_before() {
        let why = "the BMC accepted power-off and does not show that the host is off";
        for (waited_s, is_over) in [(119, false), (120, false), (121, true)] {
            let mut cut = PowerCut::new(at(-waited_s), 0);
            (cut.is_ordered, cut.asked_at) = (true, Some(at(-1)));
            let mut seen = released();
            seen.memory.boot = Some(BootWait { cut: Some(cut), ..BootWait::new(at(-200), false) });
            let mut turn = StepDraft::new(&seen, now());
            assert_eq!(run(&mut turn, ErrorType::Provisioning).is_ok(), is_over, "{waited_s}");
            let unseen = turn.memory.boot.and_then(|wait| wait.cut).and_then(|cut| cut.unseen);
            assert_eq!(unseen, is_over.then(|| format!("{why} after 2 min")), "{waited_s}");
        }
    }

    #[test]
    fn a_boot_in_which_an_agent_said_hello_did_not_come_to_nothing() {
        for (said_hello_in, rounds) in [(None, 2), (Some(2), 2), (Some(3), 0), (Some(4), 0)] {
            let mut seen = released();
            (seen.memory.attempt, seen.memory.clean_boot) = (4, Some(boot(3, 1)));
            seen.agent = said_hello_in.map(agent);
            let mut turn = StepDraft::new(&seen, now());
            assert!(run(&mut turn, ErrorType::Provisioning).is_err());
            assert_eq!(turn.memory.attempt, 5);
            let cut = turn.memory.boot.and_then(|wait| wait.cut);
            assert_eq!(cut.map(|cut| cut.rounds), Some(rounds), "{said_hello_in:?}");
        }
    }

    #[test]
    fn a_look_at_the_override_that_is_not_answered_ends_after_two_minutes() {
        let unread = || Some(OverrideUse::Unread("the BMC does not answer".into()));
        for (cut_in, once, asked_s, expected) in [
            (3, None, 120, (false, None)),
            (3, None, 121, (true, unread())),
            (3, Some(OverrideUse::UsedUp), 10, (true, Some(OverrideUse::UsedUp))),
            (2, None, 10, (true, None)),
        ] {
            let mut seen = released();
            seen.memory.clean_boot = Some(CleanBoot { once, ..boot(cut_in, 0) });
            let call = BmcCall { ticket: 9, action: BmcAction::ReadOnce };
            seen.memory.bmc.call = Some(PendingCall { call, asked_at: at(-asked_s), inputs: String::new() });
            seen.bmc.in_flight = true;
            let mut turn = StepDraft::new(&seen, now());
            let is_over = read_once(&mut turn).is_ok();
            let once = turn.memory.clean_boot.and_then(|boot| boot.once);
            assert_eq!((is_over, once), expected, "{cut_in} {asked_s}");
        }
    }
}
