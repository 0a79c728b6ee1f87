//! Handles the state `provisioning`, which begins with a wanted image and ends with the proven hand-off.
//!
//! 1. Checks before destruction: image, user data, disk. A failure leaves the host where it is.
//! 2. An agent: the one that waits from the inspection, or a new boot.
//! 3. A fresh inspection where the last one is old, and the disk named from it.
//! 4. One write plan. Its receipts, not its word, make the host provisioned. A failure after the
//!    disk was changed leads to cleaning; one before does not.

use firesteel_facts::EventReason;
use firesteel_resources::{Image, bare_metal_host::ErrorType, hardware::FirmwareMode};
use jiff::SignedDuration;

use crate::backoff;
use crate::disk::{CleaningMethod, NextOwner};
use crate::evidence::{MissingProof, PlannedWrite, judge_write, missing_words};
use crate::host::model::{
    AgentInputs, HostReason, HostState, InstalledSystem, IssuedPlan, PlanKind, UserDataInputs, WritePlan, WritePlanRef,
};
use crate::host::rules::{agent, consumer_data, freeze, guards, inspection, preconditions, tombstone, vacancy};
use crate::host::states::deprovisioning;
use crate::host::turn::{AgentPlanProgress, AgentPresence, StateStep, StepDraft, gate, later};

const KIND: ErrorType = ErrorType::Provisioning;
/// An agent that reported this long after a plan was issued, and not about it, does not have it.
/// Reports come every 2 s; a held one is answered at once.
const NOT_BEGUN: SignedDuration = SignedDuration::from_secs(10);

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    let writing = turn.memory.plan.clone().filter(|plan| plan.write().is_some());
    let wanted = turn.seen.host.spec.wanted_image().cloned();
    let attempted = turn.memory.last_attempted_image.clone();
    let is_same = wanted.as_ref().map(|image| &image.url) == attempted.as_ref().map(|image| &image.url);
    let is_kept = freeze::is_kept(turn);
    let text = "the image changed or is no longer wanted";
    let Some(wanted) = wanted.filter(|_| is_same && !is_kept) else { return cancelled(turn, text) };
    if let Some(issued) = writing {
        return write(turn, &issued);
    }
    if turn.memory.disk_dirty {
        // A write was under way in a boot that is over.
        return Ok(deprovisioning::enter_failed(turn, "the disk was partly written and is cleaned first"));
    }
    if consumer_data::next_owner(turn) == NextOwner::Another {
        // The last owner's data goes before anything is installed for the next one.
        return cancelled(turn, "the host's consumer changed");
    }
    prepare(turn, &wanted)
}

/// What is installed is not what is wanted any more.
fn cancelled(turn: &mut StepDraft<'_>, why: &str) -> StateStep {
    if turn.memory.disk_dirty {
        return deprovisioning::enter(turn, why);
    }
    turn.memory.plan = turn.memory.plan.take().filter(|plan| plan.plan == PlanKind::Inspect);
    turn.memory.disk = None;
    Ok(turn.go(HostState::Available, format!("{why}; nothing was written")))
}

/// Everything up to the write plan.
fn prepare(turn: &mut StepDraft<'_>, wanted: &Image) -> StateStep {
    gate::may_go_on(turn, KIND)?;
    let image = preconditions::image(turn, wanted)?;
    let (user_data_sha256, configs) = preconditions::user_data(turn)?;
    // With an inspection at hand, a wrong hint is shown before the host is booted for nothing.
    if preconditions::inspection_is_fresh(turn) {
        preconditions::disk(turn, &image)?;
        freeze::check_disk_marks(turn);
        gate::may_go_on(turn, KIND)?;
    }
    let agent = agent::agent(turn, KIND)?;
    if !preconditions::inspection_is_fresh(turn) {
        inspection::inspect(turn, agent, KIND)?;
    }
    let disk = preconditions::disk(turn, &image)?;
    freeze::check_disk_marks(turn);
    gate::may_destroy(turn, KIND)?;
    // A guard's refusal is no reason to wait once its owner overrode it.
    if turn.requests.override_guards.is_empty() {
        turn.may_try()?;
    }
    let override_guards = !guards::take_overrides(turn, std::slice::from_ref(disk.identity())).is_empty();
    if !override_guards {
        guards::may_write(turn, disk.identity(), KIND)?;
    }
    let disk_guid = freeze::mark(turn);
    let plan =
        WritePlan { disk: disk.identity().clone(), disk_guid, image, user_data_sha256, configs, override_guards };
    let text = format!("writing the image to {} ({})", disk.choice.device, disk.identity());
    turn.event(EventReason::DiskSelected, format!("{text}: {}", disk.choice.why));
    turn.memory.disk_dirty = true;
    turn.memory.restored = None;
    turn.memory.failure = None;
    turn.memory.cleaned = None;
    consumer_data::name(turn);
    tombstone::keep_as_notice(turn);
    let disk_guid = plan.disk_guid.clone();
    turn.issue(PlanKind::Write(plan));
    // Its checksum may be another one than when the attempt began; the status names what this plan writes.
    turn.memory.last_attempted_image = Some(wanted.clone());
    turn.memory.written = Some(WritePlanRef { attempt: turn.memory.attempt, plan: turn.memory.plan_number, disk_guid });
    Ok(agent::watch(turn, agent, KIND))
}

/// A write plan is with the agent.
fn write(turn: &mut StepDraft<'_>, issued: &IssuedPlan) -> StateStep {
    let Some(agent) = turn.current_agent() else {
        // The binding is stored before a plan is issued; without it no agent can have the plan.
        return Ok(broken(turn, "the agent that had the write plan is unknown"));
    };
    let missing = missing_proof(turn, agent, issued);
    let proven = missing.is_empty();
    if !proven && agent::stop_locked(turn)? {
        let text = "the installation was stopped; its disk is cleaned when it may be";
        return Ok(deprovisioning::enter_failed(turn, text));
    }
    Ok(match turn.presence() {
        AgentPresence::Gone if proven => provisioned(turn, issued, agent.left),
        // After the hand-off the host is never power-cycled: it may be in its OS already.
        AgentPresence::Quiet if proven => provisioned(turn, issued, false),
        AgentPresence::Gone if agent.rebooted => broken(turn, "the host booted again while its disk was being written"),
        AgentPresence::Gone => {
            let text = format!("the agent left without proof of the installation: {}", missing_words(&missing));
            broken(turn, &text)
        }
        AgentPresence::Quiet => broken(turn, "the agent went quiet while it had the write plan"),
        AgentPresence::Alive | AgentPresence::Absent => return follow(turn, issued, agent),
    })
}

fn follow(turn: &mut StepDraft<'_>, issued: &IssuedPlan, agent: &AgentInputs) -> StateStep {
    Ok(match turn.progress(agent) {
        AgentPlanProgress::Failed { message, disk_changed: true } => {
            issued.disks().iter().for_each(|disk| vacancy::written(turn, disk));
            broken(turn, &message)
        }
        AgentPlanProgress::Failed { message, disk_changed: false } => {
            turn.memory.plan = None;
            turn.memory.disk_dirty = false;
            consumer_data::withdraw(turn);
            let text = format!("nothing was written: {message}; `firesteel retry` has the host inspected again");
            guards::refuse(turn, KIND, text)
        }
        AgentPlanProgress::Issued if is_refused(turn, issued, agent) => {
            // It may begin in this very moment, so the disk counts as written.
            return deprovisioning::enter(turn, "the user data changed before the write began; starting over");
        }
        AgentPlanProgress::NoPlan
        | AgentPlanProgress::Issued
        | AgentPlanProgress::Running { .. }
        | AgentPlanProgress::Done => agent::watch(turn, agent, KIND),
    })
}

/// The user data is not what the plan was made with, and the agent, which reports, has not begun:
/// such a plan is not handed out any more.
fn is_refused(turn: &StepDraft<'_>, issued: &IssuedPlan, agent: &AgentInputs) -> bool {
    let heard_since = agent.last_report_at.duration_since(issued.issued_at.max(turn.seen.started_at));
    heard_since > NOT_BEGUN && inputs_changed(turn, issued)
}

fn inputs_changed(turn: &StepDraft<'_>, issued: &IssuedPlan) -> bool {
    let planned = issued.write().and_then(|plan| plan.user_data_sha256.clone());
    match &turn.seen.user_data {
        UserDataInputs::Ready { sha256, .. } => planned.as_ref() != Some(sha256),
        UserDataInputs::NotReferenced => planned.is_some(),
        UserDataInputs::Missing | UserDataInputs::Invalid(_) => true,
    }
}

/// Asks the judge what the receipts do not prove of this plan.
fn missing_proof(turn: &StepDraft<'_>, agent: &AgentInputs, issued: &IssuedPlan) -> Vec<MissingProof> {
    let Some(plan) = issued.write() else {
        return vec![MissingProof { check: "plan", text: "the plan is none to write".to_owned() }];
    };
    let promised = agent.promised.as_ref();
    let promised = promised.filter(|promised| (promised.attempt, promised.plan) == (agent.attempt, issued.number));
    let planned = PlannedWrite {
        number: issued.number,
        plan,
        promised: promised.map_or(&[][..], |promised| &promised.composed),
        is_uefi: turn.seen.hardware.as_ref().is_some_and(|record| record.firmware.mode == FirmwareMode::Uefi),
    };
    judge_write(&planned, &agent.shown)
}

fn broken(turn: &mut StepDraft<'_>, message: &str) -> HostReason {
    // What the plan cleared before it wrote is this host's, however far the write came.
    if let Some(agent) = turn.current_agent() {
        let shown = agent.cleaned.clone();
        vacancy::cleaned(turn, &shown);
    }
    turn.memory.provision_failures += 1;
    // Shown, and delaying the next try, while the disk is cleaned.
    let delay = backoff::delay(turn.memory.provision_failures, turn.seen.entropy);
    let retry_at = later(turn.now, delay);
    turn.note(KIND, message.to_owned(), turn.memory.provision_failures, Some(retry_at), false);
    turn.warn(EventReason::ProvisioningError, message.to_owned());
    deprovisioning::enter_failed(turn, format!("the installation failed: {message}"))
}

fn provisioned(turn: &mut StepDraft<'_>, issued: &IssuedPlan, left_properly: bool) -> HostReason {
    let Some(plan) = issued.write() else { return turn.rest("there is no write plan") };
    turn.memory.applied = Some(InstalledSystem {
        image: turn.memory.last_attempted_image.clone().unwrap_or_default(),
        ready: plan.image.clone(),
        disk_guid: plan.disk_guid.clone(),
        attempt: turn.memory.attempt,
        at: turn.now,
        user_data_sha256: plan.user_data_sha256.clone(),
        configs: plan.configs.clone(),
        left_properly,
    });
    turn.memory.attempt_spent = true;
    turn.memory.plan = None;
    consumer_data::confirm(turn);
    tombstone::clear_tombstone(turn, &plan.disk, CleaningMethod::Metadata);
    freeze::accept_cleaned_marks(turn);
    turn.memory.provision_failures = 0;
    let text = if left_properly {
        "the image was written, read back and handed off; the host boots its disk"
    } else {
        "the image was written, read back and handed off; the agent did not say goodbye"
    };
    turn.event(EventReason::ProvisioningComplete, text);
    turn.go(HostState::Provisioned, text)
}
