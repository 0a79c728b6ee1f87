//! Provisioning: from the wish for an image to the proven hand-off.
//!
//! 1. Checks before destruction: image, user data, disk. A failure leaves the host where it is.
//! 2. An agent: the one that waits from the inspection, or a new boot.
//! 3. A fresh inspection where the last one is old, and the disk named from it.
//! 4. One write plan. Its receipts, not its word, make the host provisioned. A failure after the
//!    disk was changed leads to cleaning; one before does not.

use firesteel_facts::EventReason;
use firesteel_resources::{bare_metal_host::ErrorType, hardware::FirmwareMode};
use jiff::SignedDuration;

use crate::{
    backoff,
    disk::{Method, NextOwner},
    evidence::{MissingProof, PlannedWrite, judge_write, missing_words},
    host::{
        model::{
            effect::{EventKind, Reason},
            memory::{
                State,
                disks::{Applied, WrittenBy},
                work::IssuedPlan,
            },
            orders::{PlanKind, WritePlan},
            seen::{AgentSeen, UserDataSeen},
        },
        rules::{agent, checks, guards, inspection, restored, tenancy, tombstone, vacancy},
        states::deprovisioning,
        turn::{
            Turn,
            attempt::{self, Presence, Progress},
            gate, later,
        },
    },
};

const KIND: ErrorType = ErrorType::Provisioning;
/// An agent that reported this long after a plan was issued, and not about it, does not have it.
/// Reports come every 2 s; a held one is answered at once.
const NOT_BEGUN: SignedDuration = SignedDuration::from_secs(10);

pub(crate) fn step(turn: &mut Turn<'_>) -> Reason {
    let writing = turn.memory.plan.clone().filter(|plan| plan.write().is_some());
    let wanted = turn.seen.host.spec.wanted_image().cloned();
    let attempted = turn.memory.last_attempted_image.clone();
    let is_same = wanted.as_ref().map(|image| &image.url) == attempted.as_ref().map(|image| &image.url);
    let is_kept = restored::is_kept(turn);
    let text = "the image changed or is no longer wanted";
    let Some(wanted) = wanted.filter(|_| is_same && !is_kept) else { return cancelled(turn, text) };
    if let Some(issued) = writing {
        return write(turn, &issued);
    }
    if turn.memory.disk_dirty {
        // A write was under way in a boot that is over.
        return deprovisioning::enter_failed(turn, "the disk was partly written and is cleaned first");
    }
    if tenancy::next_owner(turn) == NextOwner::Another {
        // The last owner's data goes before anything is installed for the next one.
        return cancelled(turn, "the host's consumer changed");
    }
    match prepare(turn, &wanted) {
        Ok(()) => turn.stay(turn.limits().work_poll, "the write plan is with the agent"),
        Err(reason) => reason,
    }
}

/// What is installed is not what is wanted any more.
fn cancelled(turn: &mut Turn<'_>, why: &str) -> Reason {
    if turn.memory.disk_dirty {
        return deprovisioning::enter(turn, why);
    }
    turn.memory.plan = turn.memory.plan.take().filter(|plan| plan.plan == PlanKind::Inspect);
    turn.memory.disk = None;
    turn.go(State::Available, format!("{why}; nothing was written"))
}

/// Everything up to the write plan.
fn prepare(turn: &mut Turn<'_>, wanted: &firesteel_resources::Image) -> Result<(), Reason> {
    gate::may_go_on(turn, KIND)?;
    let image = checks::image(turn, wanted)?;
    let (user_data_sha256, configs) = checks::user_data(turn)?;
    // With an inspection at hand, a wrong hint is told before the host is booted for nothing.
    if checks::inspection_is_fresh(turn) {
        checks::disk(turn, &image)?;
        restored::look(turn);
        gate::may_go_on(turn, KIND)?;
    }
    let agent = agent::agent(turn, KIND)?;
    if !checks::inspection_is_fresh(turn) {
        inspection::inspect(turn, agent, KIND)?;
    }
    let disk = checks::disk(turn, &image)?;
    restored::look(turn);
    gate::may_destroy(turn, KIND)?;
    // A guard's refusal is no reason to wait once its owner overrode it.
    if turn.requests.override_guards.is_empty() {
        turn.may_try()?;
    }
    let override_guards = !guards::take_overrides(turn, std::slice::from_ref(disk.identity())).is_empty();
    if !override_guards {
        guards::may_write(turn, disk.identity(), KIND)?;
    }
    let disk_guid = restored::mark(turn);
    let plan =
        WritePlan { disk: disk.identity().clone(), disk_guid, image, user_data_sha256, configs, override_guards };
    let text = format!("writing the image to {} ({})", disk.choice.device, disk.identity());
    turn.event(EventKind::Normal, EventReason::DiskSelected, format!("{text}: {}", disk.choice.why));
    turn.memory.disk_dirty = true;
    turn.memory.restored = None;
    turn.memory.failure = None;
    turn.memory.cleaned = None;
    tenancy::name(turn);
    tombstone::tell_only(turn);
    let disk_guid = plan.disk_guid.clone();
    turn.issue(PlanKind::Write(plan));
    // Its checksum may be another one than when the attempt began; what is told of the disk is what this plan writes.
    turn.memory.last_attempted_image = Some(wanted.clone());
    turn.memory.written = Some(WrittenBy { attempt: turn.memory.attempt, plan: turn.memory.plan_number, disk_guid });
    Err(agent::watch(turn, agent, KIND))
}

/// A write plan is with the agent.
fn write(turn: &mut Turn<'_>, issued: &IssuedPlan) -> Reason {
    let Some(agent) = attempt::current(turn) else {
        // The binding is stored before a plan is issued; without it nobody can have the plan.
        return broken(turn, "the agent that had the write plan is unknown");
    };
    let missing = missing_proof(turn, agent, issued);
    let proven = missing.is_empty();
    match if proven { Ok(false) } else { agent::stop_locked(turn) } {
        Ok(false) => {}
        Ok(true) => {
            let text = "the installation was stopped; its disk is cleaned when it may be";
            return deprovisioning::enter_failed(turn, text);
        }
        Err(reason) => return reason,
    }
    match attempt::presence(turn) {
        Presence::Gone if proven => provisioned(turn, issued, agent.left),
        // After the hand-off the host is never power-cycled: it may be in its OS already.
        Presence::Quiet if proven => provisioned(turn, issued, false),
        Presence::Gone if agent.rebooted => broken(turn, "the host booted again while its disk was being written"),
        Presence::Gone => {
            let text = format!("the agent left without proof of the installation: {}", missing_words(&missing));
            broken(turn, &text)
        }
        Presence::Quiet => broken(turn, "the agent went quiet while it had the write plan"),
        Presence::Alive | Presence::Absent => follow(turn, issued, agent),
    }
}

fn follow(turn: &mut Turn<'_>, issued: &IssuedPlan, agent: &AgentSeen) -> Reason {
    match attempt::progress(turn, agent) {
        Progress::Failed { message, disk_changed: true } => {
            issued.disks().iter().for_each(|disk| vacancy::written(turn, disk));
            broken(turn, &message)
        }
        Progress::Failed { message, disk_changed: false } => {
            turn.memory.plan = None;
            turn.memory.disk_dirty = false;
            tenancy::withdraw(turn);
            guards::refuse(
                turn,
                KIND,
                format!("nothing was written: {message}; `firesteel retry` has the host inspected again"),
            )
        }
        Progress::Issued if is_refused(turn, issued, agent) => {
            // It may begin in this very moment, so the disk counts as written.
            deprovisioning::enter(turn, "the user data changed before the write began; starting over")
        }
        Progress::NoPlan | Progress::Issued | Progress::Running { .. } | Progress::Done => {
            agent::watch(turn, agent, KIND)
        }
    }
}

/// The user data is not what the plan was made with, and the agent, which reports, has not begun:
/// such a plan is not handed out any more.
fn is_refused(turn: &Turn<'_>, issued: &IssuedPlan, agent: &AgentSeen) -> bool {
    let heard_since = agent.last_report_at.duration_since(issued.issued_at.max(turn.seen.started_at));
    heard_since > NOT_BEGUN && inputs_changed(turn, issued)
}

fn inputs_changed(turn: &Turn<'_>, issued: &IssuedPlan) -> bool {
    let planned = issued.write().and_then(|plan| plan.user_data_sha256.clone());
    match &turn.seen.user_data {
        UserDataSeen::Ready { sha256, .. } => planned.as_ref() != Some(sha256),
        UserDataSeen::NotReferenced => planned.is_some(),
        UserDataSeen::Missing | UserDataSeen::Invalid(_) => true,
    }
}

/// Asks the judge what the receipts do not prove of this plan.
fn missing_proof(turn: &Turn<'_>, agent: &AgentSeen, issued: &IssuedPlan) -> Vec<MissingProof> {
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

fn broken(turn: &mut Turn<'_>, message: &str) -> Reason {
    // What the plan cleared before it wrote is this host's, however far the write came.
    if let Some(agent) = attempt::current(turn) {
        let shown = agent.cleaned.clone();
        vacancy::cleaned(turn, &shown);
    }
    turn.memory.provision_failures += 1;
    // Shown, and delaying the next try, while the disk is cleaned.
    let delay = backoff::delay(turn.memory.provision_failures, turn.seen.entropy);
    let retry_at = later(turn.now, delay);
    turn.note(KIND, message.to_owned(), turn.memory.provision_failures, Some(retry_at), false);
    turn.event(EventKind::Warning, EventReason::ProvisioningError, message.to_owned());
    deprovisioning::enter_failed(turn, format!("the installation failed: {message}"))
}

fn provisioned(turn: &mut Turn<'_>, issued: &IssuedPlan, left_properly: bool) -> Reason {
    let Some(plan) = issued.write() else { return turn.rest("there is no write plan") };
    turn.memory.applied = Some(Applied {
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
    tenancy::confirm(turn);
    tombstone::settle(turn, &plan.disk, Method::Metadata);
    restored::settle_move(turn);
    turn.memory.provision_failures = 0;
    let text = if left_properly {
        "the image was written, read back and handed off; the host boots its disk"
    } else {
        "the image was written, read back and handed off; the agent did not say goodbye"
    };
    turn.event(EventKind::Normal, EventReason::ProvisioningComplete, text);
    turn.go(State::Provisioned, text)
}
