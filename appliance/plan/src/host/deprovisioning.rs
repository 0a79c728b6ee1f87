//! Deprovisioning: the disk is cleaned by an agent and the image forgotten. Only a disk that a
//! plan of ours may have changed is touched, and only the disk that this plan named.

use firesteel_resources::bare_metal_host::ErrorType;

use crate::{
    disk::DiskIdentity,
    host::{
        attempt::{self, Presence, Progress},
        effect::{Effect, EventKind, PlanKind, Reason},
        inspecting,
        memory::{Failure, State},
        restored,
        turn::Turn,
    },
};

const KIND: ErrorType = ErrorType::Provisioning;

/// Moves there; the failure of the state that was left is forgotten.
#[track_caller]
pub(super) fn enter(turn: &mut Turn<'_>, why: impl Into<String>) -> Reason {
    turn.memory.failure = None;
    enter_failed(turn, why)
}

/// Moves there with the failure kept beside the state.
#[track_caller]
pub(super) fn enter_failed(turn: &mut Turn<'_>, why: impl Into<String>) -> Reason {
    let why = why.into();
    let writes = turn.memory.plan.as_ref().is_some_and(|plan| plan.write().is_some());
    let may_write = matches!(attempt::presence(turn), Presence::Alive | Presence::Quiet) && !has_failed(turn);
    if writes && may_write {
        // The agent may be writing; its reboot brings it back with the next attempt.
        turn.effect(Effect::AbortAgent { attempt: turn.memory.attempt, reason: why.clone() });
        attempt::open(turn);
    } else if attempt::current(turn).is_some_and(|agent| agent.rebooted) {
        // It waits for its script, and the token of this attempt is taken.
        attempt::spend(turn);
    }
    turn.memory.plan = None;
    turn.memory.clean_failures = 0;
    turn.memory.history.deprovision.start = Some(turn.now);
    turn.memory.history.deprovision.end = None;
    turn.event(EventKind::Normal, "DeprovisioningStarted", why.clone());
    turn.go_failed(State::Deprovisioning, why)
}

pub(super) fn step(turn: &mut Turn<'_>) -> Reason {
    let disk = turn.memory.disk.as_ref().map(|disk| disk.identity().clone()).filter(|_| turn.memory.disk_dirty);
    let Some(disk) = disk else { return done(turn, "nothing was written, so nothing is cleaned") };
    if !turn.seen.host.spec.cleans() {
        return done(turn, "cleaning is disabled by spec.automatedCleaningMode; the disk keeps its content");
    }
    if restored::is_kept(turn) {
        return done(turn, "spec.externallyProvisioned: the disk keeps its content");
    }
    let failures = turn.memory.clean_failures;
    if turn.is_deleting() && failures > turn.limits().delete_failures_max {
        turn.event(
            EventKind::Warning,
            "DeprovisioningGaveUp",
            "the disk was not cleaned; the host may still run its OS",
        );
        return turn.go(State::PoweringOff, format!("cleaning was given up after {failures} failures"));
    }
    let before = turn.memory.failure.clone();
    let reason = work(turn, disk);
    let failed_at = |failure: &Option<Failure>| failure.as_ref().map(|failure| (failure.at, failure.count));
    if turn.memory.failure.is_some() && failed_at(&turn.memory.failure) != failed_at(&before) {
        turn.memory.clean_failures += 1;
    }
    reason
}

fn work(turn: &mut Turn<'_>, disk: DiskIdentity) -> Reason {
    if let Err(reason) = restored::may_go_on(turn, KIND) {
        return reason;
    }
    let agent = match attempt::agent(turn, KIND) {
        Ok(agent) => agent,
        Err(reason) => return reason,
    };
    if restored::needs_look(turn) {
        // The plan that wrote to the disk is of an older state: what stands there now is looked at first.
        return match inspecting::inspect(turn, agent, KIND) {
            Err(reason) => reason,
            Ok(()) => turn.stay(turn.limits().work_poll, "the disks were looked at before one is cleaned"),
        };
    }
    let is_current = turn.memory.plan.as_ref().is_some_and(|plan| plan.plan == PlanKind::Clean { disk: disk.clone() });
    if !is_current {
        return clean(turn, disk, agent);
    }
    match attempt::progress(turn, agent) {
        Progress::NoPlan | Progress::Issued | Progress::Running { .. } => attempt::watch(turn, agent, KIND),
        Progress::Failed { message, .. } => {
            turn.memory.plan = None;
            let exit = "spec.automatedCleaningMode: disabled lets the host go on uncleaned";
            turn.fail(KIND, format!("cleaning the disk failed: {message}; {exit}"))
        }
        Progress::Done => {
            turn.memory.restored = None;
            turn.memory.disk_dirty = false;
            turn.memory.plan = None;
            done(turn, "the disk was cleaned")
        }
    }
}

fn clean(turn: &mut Turn<'_>, disk: DiskIdentity, agent: &crate::host::seen::AgentSeen) -> Reason {
    // The failure that led here delays the next installation, not the cleaning.
    let is_own = turn.memory.failure.as_ref().is_some_and(|failure| failure.at > turn.memory.since);
    if is_own && let Err(reason) = turn.may_try() {
        return reason;
    }
    if let Err(reason) = restored::may_destroy(turn, KIND) {
        return reason;
    }
    turn.issue(PlanKind::Clean { disk });
    attempt::watch(turn, agent, KIND)
}

fn done(turn: &mut Turn<'_>, why: &str) -> Reason {
    if let Some(applied) = turn.memory.applied.take() {
        restored::remember(turn, applied.disk_guid);
    }
    turn.memory.history.deprovision.end = Some(turn.now);
    turn.event(EventKind::Normal, "DeprovisioningComplete", why);
    if !turn.is_deleting() || !turn.memory.disk_dirty {
        // An owner who keeps the host may want its disk uncleaned; who lets it go leaves a tombstone.
        turn.memory.disk_dirty = false;
        turn.memory.disk = None;
    }
    if turn.is_deleting() {
        return turn.go(State::PoweringOff, why);
    }
    let failed = turn.memory.provision_failures > 0;
    if failed { turn.go_failed(State::Available, why) } else { turn.go(State::Available, why) }
}

fn has_failed(turn: &Turn<'_>) -> bool {
    attempt::current(turn).is_some_and(|agent| matches!(attempt::progress(turn, agent), Progress::Failed { .. }))
}
