//! Deprovisioning: disks are cleaned by an agent and the image forgotten. For the same owner that is the disk
//! that a plan of ours may have changed, and no other; for another owner all of them, unless the host's owner
//! asks for less ([`crate::host::rules::cleaning`]).
//!
//! `spec.externallyProvisioned` stops nothing here, as upstream: it is taken before anything was written alone, and
//! what is cleaned was installed from here. Only where the host is frozen it keeps the disks.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::disk::NextOwner;
use crate::host::model::{HostReason, HostState};
use crate::host::rules::{agent, cleaning, consumer_data, freeze};
use crate::host::turn::{AgentPlanProgress, AgentPresence, StateStep, StepDraft};

const KIND: ErrorType = ErrorType::Provisioning;

/// Moves there; the failure of the state that was left is forgotten.
#[track_caller]
pub(crate) fn enter(turn: &mut StepDraft<'_>, why: impl Into<String>) -> StateStep {
    if turn.memory.state == HostState::Provisioned {
        turn.take_slot()?;
    }
    turn.memory.failure = None;
    Ok(enter_failed(turn, why))
}

/// Moves there with the failure kept beside the state.
#[track_caller]
pub(crate) fn enter_failed(turn: &mut StepDraft<'_>, why: impl Into<String>) -> HostReason {
    let why = why.into();
    // Its OS runs, and may ask for the host's boot script.
    turn.memory.opened &= turn.memory.state != HostState::Provisioned || !turn.has_bmc();
    let writes = turn.memory.plan.as_ref().is_some_and(|plan| plan.write().is_some());
    let may_write = matches!(turn.presence(), AgentPresence::Alive | AgentPresence::Quiet) && !has_failed(turn);
    if writes && may_write {
        // The agent may be writing; its reboot brings it back with the next attempt.
        turn.abort_agent(why.clone());
        turn.open_attempt();
    }
    turn.memory.plan = None;
    consumer_data::confirm(turn);
    turn.event(EventReason::DeprovisioningStarted, why.clone());
    let reason = turn.go_keeping_failure(HostState::Deprovisioning, why);
    if turn.current_agent().is_some_and(|agent| agent.rebooted) {
        // It waits for its script, and the token of this attempt is taken.
        agent::spend(turn);
    }
    reason
}

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    let next = consumer_data::next_owner(turn);
    let targets = consumer_data::targets(&turn.memory, next);
    cleaning::stop_undue(turn, next)?;
    // An erasure whose end is awaited comes to it, whatever the next owner.
    if next == NextOwner::Same && turn.memory.wipe.is_none() {
        if targets.is_empty() {
            return Ok(nameless(turn));
        }
        if !turn.seen.host.spec.cleans() {
            return Ok(done(turn, "cleaning is disabled by spec.automatedCleaningMode; the disk keeps its content"));
        }
    }
    if freeze::is_kept(turn) {
        return Ok(done(turn, "spec.externallyProvisioned: the disk keeps its content"));
    }
    let text = cleaning::run(turn, next, &targets, KIND)?;
    turn.memory.disk_dirty = false;
    turn.memory.plan = None;
    if next == NextOwner::Another {
        consumer_data::pass_on(turn);
    }
    Ok(done(turn, &text))
}

/// No disk is named that could be cleaned.
fn nameless(turn: &mut StepDraft<'_>) -> HostReason {
    if !turn.memory.disk_dirty {
        return done(turn, "nothing was written, so nothing is cleaned");
    }
    let text = "the host came with its OS, and which disk holds it is not known: no disk was cleaned";
    cleaning::left_unknown(turn, text);
    done(turn, text)
}

fn done(turn: &mut StepDraft<'_>, why: &str) -> HostReason {
    if let Some(applied) = turn.memory.applied.take() {
        freeze::remember(turn, applied.disk_guid);
    }
    turn.event(EventReason::DeprovisioningComplete, why);
    if !turn.is_deleting() || !turn.memory.disk_dirty {
        // An owner who keeps the host may want its disk uncleaned; who lets it go leaves a tombstone.
        turn.memory.disk_dirty = false;
        turn.memory.disk = None;
    }
    if turn.is_deleting() {
        return turn.go(HostState::PoweringOff, why);
    }
    let failed = turn.memory.provision_failures > 0;
    if failed { turn.go_keeping_failure(HostState::Available, why) } else { turn.go(HostState::Available, why) }
}

fn has_failed(turn: &StepDraft<'_>) -> bool {
    turn.current_agent().is_some_and(|agent| matches!(turn.progress(agent), AgentPlanProgress::Failed { .. }))
}
