//! The agent of the current attempt: used if it is there, booted if it is not, watched while it works, and stopped.
//!
//! A host that stays away is booted again with the next number, so that the agent of the first boot, should it come
//! late, is known to be old. A host without a BMC comes when a person boots it; its agent stays and waits for plans.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::model::{AgentInputs, BmcAction, BootWait, HostReason, HostState, PlanKind, StoppedPlan};
use crate::host::rules::booting::{self, boot};
use crate::host::rules::{bmc_only, power_cut};
use crate::host::turn::{AgentPlanProgress, AgentPresence, StepDraft, format_duration, gate, later};

/// The agent of the current attempt, or what is done to get one. `kind` is the error that a host
/// that stays away shows.
#[track_caller]
pub(crate) fn agent<'a>(turn: &mut StepDraft<'a>, kind: ErrorType) -> Result<&'a AgentInputs, HostReason> {
    match turn.presence() {
        // Before anything is waited for: a host that boots again gets its script right after this step.
        AgentPresence::Gone => spend(turn),
        AgentPresence::Alive => {
            take(turn);
            drop_net_boot(turn);
        }
        AgentPresence::Absent | AgentPresence::Quiet => {}
    }
    bmc_only::refuse_boot(turn, kind)?;
    if turn.memory.state != HostState::Registering {
        may_begin(turn)?;
    }
    match (turn.presence(), turn.current_agent()) {
        (AgentPresence::Alive, Some(_)) if is_leaving(turn) => {
            let poll = turn.limits().secret_retry;
            turn.deadline(later(turn.now, turn.limits().quiet));
            Err(turn.wait_in_state(poll, "the agent was asked to leave; waiting until it is gone"))
        }
        (AgentPresence::Alive, Some(_)) if power_cut::is_due_to_agent(turn) => Err(spend_agent(turn, kind)),
        (AgentPresence::Alive, Some(agent)) => Ok(agent),
        (AgentPresence::Quiet, _) => Err(quiet(turn, kind)),
        (AgentPresence::Alive | AgentPresence::Gone | AgentPresence::Absent, _) => Err(boot(turn, kind)),
    }
}

/// Whether a boot into the agent, or the next work of one that is there, may begin now: not before a failure's
/// delay is over, and not without a slot.
#[track_caller]
fn may_begin(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let begins = turn.memory.boot.is_none() && turn.memory.plan.is_none() && turn.has_bmc();
    if begins && turn.memory.admitted.is_none() && turn.presence() == AgentPresence::Absent {
        turn.may_try()?;
    }
    turn.take_slot()
}

/// The current attempt is an agent's.
fn take(turn: &mut StepDraft<'_>) {
    turn.memory.attempt_spent = true;
    turn.memory.opened = true;
    turn.memory.boot = None;
}

/// Takes note of the end of the current attempt: the next boot gets the next number, published
/// before the host asks. One that came back by itself may have it at once, but for an erasure that claims a grade, and
/// not where the agent left for the OS that it wrote: that OS may be who asks.
pub(crate) fn spend(turn: &mut StepDraft<'_>) {
    let agent = turn.current_agent();
    let came_back = turn.is_spent() || agent.is_some_and(|agent| agent.rebooted);
    let has_written = turn.memory.written.as_ref().is_some_and(|written| written.attempt == turn.memory.attempt);
    let may_run_os = has_written && agent.is_some_and(|agent| agent.left);
    let is_awaited = came_back && (!turn.has_bmc() || !may_run_os && !power_cut::is_next(turn));
    turn.open_attempt();
    turn.memory.opened |= is_awaited;
    turn.memory.boot = is_awaited.then_some(BootWait::new(turn.now, true));
}

/// Keeps the published attempt usable for the next boot, in states that need no agent.
pub(crate) fn keep_fresh(turn: &mut StepDraft<'_>) {
    match turn.presence() {
        AgentPresence::Gone => spend(turn),
        AgentPresence::Alive => take(turn),
        AgentPresence::Absent | AgentPresence::Quiet => {}
    }
}

/// The agent's current plan ends with its leaving, so no other can follow it.
fn is_leaving(turn: &StepDraft<'_>) -> bool {
    let plan = turn.memory.plan.as_ref().map(|issued| &issued.plan);
    matches!(plan, Some(PlanKind::PowerOff | PlanKind::Reboot))
}

/// Stays while the agent works on a plan; says so when it gets nowhere. A step that still reports
/// is never interrupted.
#[track_caller]
pub(crate) fn watch(turn: &mut StepDraft<'_>, agent: &AgentInputs, kind: ErrorType) -> HostReason {
    let (stall, poll) = (turn.limits().stall_with(turn.memory.plan.as_ref()), turn.limits().work_poll);
    let shut = gate::holds(turn);
    let moved_at = agent.progress_at.max(gate::free_since(turn, turn.memory.plan.as_ref()));
    let still = turn.now.duration_since(moved_at);
    let name = turn.memory.plan.as_ref().map_or("none", |plan| plan.plan.name());
    let number = turn.memory.plan_number;
    let text = match turn.progress(agent) {
        AgentPlanProgress::Running { step, activity, percent } => {
            let activity = if activity.is_empty() { String::new() } else { format!(", {activity}") };
            format!("the agent runs {step}{activity} ({percent} %)")
        }
        AgentPlanProgress::NoPlan
        | AgentPlanProgress::Issued
        | AgentPlanProgress::Done
        | AgentPlanProgress::Failed { .. } => {
            turn.issue_again();
            format!("plan {number} ({name}) is with the agent")
        }
    };
    let heard = turn.last_report_at(agent);
    let is_silent = turn.now.duration_since(heard) > turn.limits().quiet;
    let text = match turn.drive_at_work() {
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
        return turn.wait_in_state(poll, format!("{}; {text}", shut.text));
    }
    // By its beginning: a text that changes by the minute would be another error every minute.
    let standing = format!("{text}; no progress since {moved_at:.0}");
    if still > stall {
        turn.deadline(later(turn.now, stall));
        return turn.blocked(kind, poll, format!("{standing}; look at the host's console"));
    }
    let text = if still > turn.limits().stall { standing } else { text };
    turn.deadline(later(moved_at, stall));
    turn.wait_in_state(poll, text)
}

/// Gives the current plan up: the agent stops at its next safe point and boots again by itself, with the next attempt.
/// One that erases keeps its attempt until it is gone: its drive may be at what cannot be interrupted, and it would not
/// be heard with an old one.
#[track_caller]
pub(crate) fn stop(turn: &mut StepDraft<'_>, why: &str) -> Result<(), HostReason> {
    let (now, limits) = (turn.now, turn.limits());
    let Some(issued) = turn.memory.plan.as_mut() else { return Ok(()) };
    let erases = matches!(issued.plan, PlanKind::Erase(_));
    let StoppedPlan { since, why } =
        issued.stopped.get_or_insert_with(|| StoppedPlan { since: now, why: why.to_owned() }).clone();
    turn.abort_agent(why.clone());
    if erases && turn.presence() == AgentPresence::Alive && now.duration_since(since) <= limits.erase_stall {
        let at = turn.drive_at_work().map(|activity| format!(", and a drive cannot be interrupted: {activity}"));
        turn.deadline(later(now, limits.stall));
        let text = format!("the agent was asked to stop ({why}){}; waiting for its end", at.unwrap_or_default());
        return Err(turn.wait_in_state(limits.work_poll, text));
    }
    turn.open_attempt();
    turn.memory.opened |= !power_cut::is_next(turn);
    // It boots by itself; a reset at once would come before its safe point. A locked host is not waited for.
    turn.memory.boot = gate::lock(&turn.seen.host.metadata).is_none().then(|| BootWait::new(now, true));
    Ok(())
}

#[track_caller]
fn quiet(turn: &mut StepDraft<'_>, kind: ErrorType) -> HostReason {
    let heard = turn.current_agent().map_or(turn.now, |agent| turn.last_report_at(agent));
    let silence = format_duration(turn.now.duration_since(heard));
    let old = turn.memory.attempt;
    if !turn.has_bmc() {
        // It may be cut off only; its plan stays valid, and a boot by hand opens the next attempt.
        let text = format!("the agent was not heard since {heard:.0}; without a BMC a person must reboot the host");
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
    turn.abort_agent("the host is being rebooted");
    turn.open_attempt();
    turn.fail(kind, format!("the agent of attempt {old} went quiet for {silence}"))
}

/// A boot that was asked for has happened, whatever the BMC says later.
fn drop_net_boot(turn: &mut StepDraft<'_>) {
    let done = turn.memory.bmc.call.as_ref().is_some_and(|pending| pending.call.action == BmcAction::NetBoot);
    if done && !turn.seen.bmc.in_flight {
        turn.memory.bmc.call = None;
    }
}

/// Ends the boot of an agent that came by another one than this work needs.
#[track_caller]
pub(crate) fn spend_agent(turn: &mut StepDraft<'_>, kind: ErrorType) -> HostReason {
    let checked = turn.spare_drive().and_then(|()| turn.may_try()).and_then(|()| booting::check_way(turn, kind));
    if let Err(reason) = checked {
        return reason;
    }
    let reason = "the host is switched off and on before its disks are erased".to_owned();
    turn.abort_agent(reason);
    turn.memory.boot = None;
    booting::boot(turn, kind)
}

/// Gives up a plan that changes disks and is not over, where the host was locked since it was issued; `true` where
/// something was given up.
#[track_caller]
pub(crate) fn stop_locked(turn: &mut StepDraft<'_>) -> Result<bool, HostReason> {
    let Some(shut) = gate::lock(&turn.seen.host.metadata) else { return Ok(false) };
    let Some(issued) = turn.memory.plan.as_ref().filter(|issued| issued.plan.destroys()) else { return Ok(false) };
    if issued.stopped.is_none() {
        let name = issued.plan.name();
        if turn.is_plan_over() {
            return Ok(false);
        }
        let text = format!("the plan to {name} is given up at its next safe point: {}", shut.text);
        turn.warn(EventReason::DestructionStopped, text);
    }
    stop(turn, &shut.text)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::{
        BmcCall, HeldSlot, HostFailure, HostInputs, HostMemory, IssuedPlan, PendingCall, WritePlanRef,
    };
    use crate::host::sample::{agent, at, now, with_bmc, without_bmc};

    fn plan(plan: PlanKind) -> Option<IssuedPlan> {
        Some(IssuedPlan { number: 1, plan, issued_at: now(), stopped: None })
    }

    /// The delay of a failure holds a new boot up, and nothing that is under way.
    #[test]
    fn only_a_boot_that_begins_waits_for_the_delay_of_a_failure() {
        let mut base = with_bmc(HostState::Inspecting);
        base.memory.failure = Some(HostFailure {
            kind: ErrorType::Inspection,
            message: "no hello".into(),
            count: 1,
            at: at(-10),
            retry_at: Some(at(50)),
            until_edit: false,
            inputs: StepDraft::new(&base, now()).inputs(),
        });
        let admitted = HeldSlot { since: now(), resumed: false };
        type Change = Box<dyn Fn(&mut HostInputs)>;
        let rows: Vec<(&str, Change, bool)> = vec![
            ("nothing is under way", Box::new(|_| {}), false),
            ("a boot is awaited", Box::new(|seen| seen.memory.boot = Some(BootWait::new(now(), true))), true),
            ("a plan is issued", Box::new(|seen| seen.memory.plan = plan(PlanKind::Inspect)), true),
            ("it has its slot", Box::new(move |seen| seen.memory.admitted = Some(admitted.clone())), true),
            ("its agent is there", Box::new(|seen| seen.agent = Some(agent(3))), true),
        ];
        for (what, change, begins) in rows {
            let mut seen = base.clone();
            change(&mut seen);
            let mut turn = StepDraft::new(&seen, now());
            assert_eq!(may_begin(&mut turn).is_ok(), begins, "{what}");
        }
        let mut seen = without_bmc(HostState::Inspecting);
        let inputs = StepDraft::new(&seen, now()).inputs();
        seen.memory.failure = base.memory.failure.map(|failure| HostFailure { inputs, ..failure });
        assert!(may_begin(&mut StepDraft::new(&seen, now())).is_ok(), "it is booted by hand");
    }

    /// What comes back by itself may have the next attempt, but for an OS that was written and an erasure to prove.
    #[test]
    fn the_next_attempt_is_open_only_to_an_agent_that_comes_back_by_itself() {
        struct Row(&'static str, fn(&mut HostInputs), bool);
        let rows = [
            Row("it boots again", |seen| seen.agent.iter_mut().for_each(|agent| agent.rebooted = true), true),
            Row("its attempt is spent", |seen| (seen.agent, seen.spent_attempt) = (None, Some(3)), true),
            Row("it left", |seen| seen.agent.iter_mut().for_each(|agent| agent.left = true), false),
            Row(
                "it boots again in its write",
                |seen| {
                    seen.agent.iter_mut().for_each(|agent| agent.rebooted = true);
                    seen.memory.written = written(3);
                },
                true,
            ),
            Row(
                "it left for the OS that it wrote",
                |seen| {
                    seen.agent.iter_mut().for_each(|agent| (agent.left, agent.rebooted) = (true, true));
                    seen.memory.written = written(3);
                },
                false,
            ),
            Row(
                "it left, and an earlier one wrote",
                |seen| {
                    seen.agent.iter_mut().for_each(|agent| (agent.left, agent.rebooted) = (true, true));
                    seen.memory.written = written(2);
                },
                true,
            ),
            Row(
                "an erasure is next",
                |seen| {
                    seen.agent.iter_mut().for_each(|agent| agent.rebooted = true);
                    seen.memory.state = HostState::Deprovisioning;
                    seen.memory.tenant = Some("one".into());
                },
                false,
            ),
        ];
        for Row(what, change, is_open) in rows {
            let mut seen = with_bmc(HostState::Inspecting);
            seen.agent = Some(agent(3));
            change(&mut seen);
            let mut turn = StepDraft::new(&seen, now());
            spend(&mut turn);
            let HostMemory { attempt, opened, boot, .. } = &turn.memory;
            assert_eq!((*attempt, *opened), (4, is_open), "{what}");
            assert_eq!(*boot, is_open.then(|| BootWait::new(now(), true)), "{what}");
        }
        // Without a BMC any boot is by hand, and the OS that was written may be who asks.
        for (rebooted, is_awaited) in [(true, true), (false, false)] {
            let mut seen = without_bmc(HostState::Inspecting);
            seen.agent = Some(AgentInputs { rebooted, left: true, ..agent(3) });
            seen.memory.written = written(3);
            let mut turn = StepDraft::new(&seen, now());
            spend(&mut turn);
            assert_eq!((turn.memory.opened, turn.memory.boot.is_some()), (true, is_awaited), "{rebooted}");
        }
    }

    fn written(attempt: u64) -> Option<WritePlanRef> {
        Some(WritePlanRef { attempt, plan: 2, disk_guid: String::new() })
    }

    #[test]
    fn a_hello_ends_only_the_order_to_boot_and_not_while_it_runs() {
        for (action, in_flight, is_kept) in [
            (BmcAction::NetBoot, false, false),
            (BmcAction::NetBoot, true, true),
            (BmcAction::Probe, false, true),
            (BmcAction::Probe, true, true),
        ] {
            let mut seen = with_bmc(HostState::Inspecting);
            let call = BmcCall { ticket: 5, action };
            seen.memory.bmc.call = Some(PendingCall { call, asked_at: now(), inputs: String::new() });
            seen.bmc.in_flight = in_flight;
            let mut turn = StepDraft::new(&seen, now());
            drop_net_boot(&mut turn);
            assert_eq!(turn.memory.bmc.call.is_some(), is_kept, "{action:?} {in_flight}");
        }
    }

    /// It is a failure when the agent cannot hold its work any longer, and an obstacle before that.
    #[test]
    fn without_a_bmc_a_quiet_agent_is_a_failure_after_an_hour() {
        for (silent_s, is_failure) in [(301, false), (3600, false), (3601, true)] {
            let mut seen = without_bmc(HostState::Inspecting);
            seen.agent = Some(AgentInputs { last_report_at: at(-silent_s), ..agent(3) });
            let mut turn = StepDraft::new(&seen, now());
            let reason = quiet(&mut turn, ErrorType::Inspection);
            assert!(reason.text.contains("a person must reboot the host"), "{}", reason.text);
            let failure = turn.memory.failure.as_ref().map(|failure| failure.retry_at.is_some());
            assert_eq!((failure, turn.memory.attempt), (Some(is_failure), 3), "{silent_s}");
        }
    }

    #[test]
    fn an_agent_that_was_asked_to_leave_gets_nothing_more() {
        for kind in [PlanKind::PowerOff, PlanKind::Reboot] {
            let mut seen = with_bmc(HostState::Inspecting);
            (seen.agent, seen.memory.plan) = (Some(agent(3)), plan(kind));
            let mut turn = StepDraft::new(&seen, now());
            let reason = super::agent(&mut turn, ErrorType::Inspection).map(|agent| agent.attempt);
            let text = reason.err().map(|reason| reason.text);
            assert_eq!(text.as_deref(), Some("the agent was asked to leave; waiting until it is gone"));
            assert_eq!(turn.memory.deadline, Some(at(300)));
        }
    }
}
