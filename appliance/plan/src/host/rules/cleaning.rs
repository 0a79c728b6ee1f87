//! Cleaning the host's disks by an agent: what the policies ask, on the disks that an inspection of this boot
//! names, until a receipt proves each of them. Shared by the states in which that happens; which disks and how
//! far is [`crate::disk`]'s, whether receipts suffice as well.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;
use firesteel_resources::bare_metal_host::cleaning::CleaningPolicies;
use firesteel_resources::{HardwareRecord, RootDeviceHints};

use crate::disk::{self, Cleaning, CleaningMethod, CleaningProof, DiskIdentity, NextOwner, NoDisk, plan_cleaning};
use crate::host::model::{
    AgentInputs, CleanedNote, ErasePlan, ErasureSummary, HostFailure, HostReason, HostState, PlanKind,
};
use crate::host::rules::erasure_end::{self, shortened};
use crate::host::rules::{agent, freeze, guards, inspection, power_cut, vacancy};
use crate::host::turn::{AgentPlanProgress, AgentPresence, StepDraft, gate};

/// Most disks of one plan, which has at most 64 steps; the rest follows with the next one.
const DISKS_MAX: usize = 60;

/// What is to be cleaned by the owner's policies; `had`: the disks that the last owner had. Pure; the dry run asks
/// the same.
pub(crate) fn decide(
    policies: &CleaningPolicies,
    next: NextOwner,
    hints: Option<&RootDeviceHints>,
    targets: &[DiskIdentity],
    had: &[DiskIdentity],
    record: &HardwareRecord,
) -> Result<Cleaning, NoDisk> {
    let policy = match next {
        NextOwner::Same => &policies.between_installations,
        NextOwner::Another => &policies.between_owners,
    };
    let none = RootDeviceHints::default();
    let cleaning = plan_cleaning(next, policy, hints.unwrap_or(&none), targets, &record.disks)?;
    if next == NextOwner::Another && cleaning.is_all {
        disk::all_there(had, &record.disks)?;
    }
    Ok(cleaning)
}

/// Has an agent clean what is to be cleaned, and counts tries that failed. `Ok` says in words what receipts prove,
/// or that no disk is known that could be cleaned.
#[track_caller]
pub(crate) fn run(
    turn: &mut StepDraft<'_>,
    next: NextOwner,
    targets: &[DiskIdentity],
    kind: ErrorType,
) -> Result<String, HostReason> {
    check_failures(turn)?;
    let before = turn.memory.failure.clone();
    let cleaned = go_on(turn, next, targets, kind);
    // A try that ended is tried again some time; an obstacle that stands is looked at and is no try.
    let ended = |failure: &&HostFailure| failure.retry_at.is_some();
    let at = |failure: &HostFailure| (failure.at, failure.count);
    let newest = turn.memory.failure.as_ref().filter(ended).map(at);
    if newest.is_some() && newest != before.as_ref().filter(ended).map(at) {
        turn.memory.clean_failures += 1;
    }
    match cleaned {
        Err(reason) if turn.is_obstructed(&reason) && may_give_up(turn) => {
            Err(give_up(turn, format!("cleaning was given up: {}", reason.text)))
        }
        cleaned => cleaned,
    }
}

/// What an agent cleans at the moment is waited for. What shuts the gate, or freezes a disk, is a person's word or
/// waits for one: `firesteel release --force` is theirs as well.
fn may_give_up(turn: &StepDraft<'_>) -> bool {
    let cleans = turn.memory.plan.as_ref().is_some_and(|issued| issued.cleans().is_some());
    let is_under_way = cleans && turn.presence() == AgentPresence::Alive;
    let is_ending = turn.memory.wipe.is_some();
    turn.is_deleting()
        && !is_under_way
        && !is_ending
        && gate::closed_gate(&turn.memory, turn.seen).is_none()
        && turn.memory.frozen.is_none()
}

/// Gives up cleaning a host that is to go, and whose cleaning failed too often, also since that was asked for.
#[track_caller]
fn check_failures(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let failures = turn.memory.clean_failures;
    let asked_at = turn.seen.host.metadata.deletion_timestamp;
    let is_try = |failure: &HostFailure| failure.retry_at.is_some() && Some(failure.at) >= asked_at;
    let was_tried = turn.memory.failure.as_ref().is_some_and(is_try);
    let is_so = failures > turn.limits().delete_failures_max && was_tried && may_give_up(turn);
    if is_so { Err(give_up(turn, format!("cleaning was given up after {failures} failures"))) } else { Ok(()) }
}

/// Lets a host go whose cleaning is given up.
#[track_caller]
fn give_up(turn: &mut StepDraft<'_>, why: String) -> HostReason {
    let text = "the disk was not cleaned; the host may still run its OS";
    turn.warn(EventReason::DeprovisioningGaveUp, text);
    turn.go(HostState::PoweringOff, why)
}

#[track_caller]
fn go_on(
    turn: &mut StepDraft<'_>,
    next: NextOwner,
    targets: &[DiskIdentity],
    kind: ErrorType,
) -> Result<String, HostReason> {
    if let Some(text) = erasure_end::go_on(turn, kind)? {
        return Ok(text);
    }
    agent::stop_locked(turn)?;
    if let Err(reason) = gate::may_go_on(turn, kind) {
        // A host that is off for its next boot does not keep its slot meanwhile.
        turn.memory.boot = turn.memory.boot.take().filter(|wait| wait.powered);
        return Err(reason);
    }
    let agent = agent::agent(turn, kind)?;
    if freeze::needs_mark_check(turn) {
        // The plan that wrote to the disk is of an older state: what stands there now is looked at first.
        inspection::inspect(turn, agent, kind)?;
        return Err(turn.wait_in_state(turn.limits().work_poll, "the disks were looked at before one is cleaned"));
    }
    follow(turn, agent, next, kind)?;
    let cleaning = chosen(turn, agent, next, targets, kind)?;
    if cleaning.disks.is_empty() {
        let why = cleaning.relaxed.as_deref().unwrap_or("the policy names no disk of this host");
        let text = format!("no disk was cleaned, and data of the last owner may be on any: {why}");
        left_unknown(turn, &text);
        return Ok(text);
    }
    let shown = turn.receipts();
    let missing: Vec<DiskIdentity> =
        cleaning.disks.iter().filter(|wanted| disk::proof(cleaning.method, wanted, &shown).is_err()).cloned().collect();
    if missing.is_empty() {
        return erasure_end::conclude(turn, erased(&shown, &cleaning), kind);
    }
    issue(turn, agent, next, &cleaning, &missing, targets, kind)
}

/// Notes that nothing was cleaned although data may be there, since no disk is named that holds it. It stays visible.
pub(crate) fn left_unknown(turn: &mut StepDraft<'_>, text: &str) {
    turn.memory.cleaned = None;
    turn.memory.holds_unknown = true;
    turn.memory.unknown_of_tenant |= turn.memory.tenant.is_some();
    turn.warn(EventReason::NotCleaned, shortened(text.to_owned()));
}

/// Stops what cleans for another owner where the host is its former owner's again. A plan that is being stopped comes
/// to its end first, whatever is wanted by now.
#[track_caller]
pub(crate) fn stop_undue(turn: &mut StepDraft<'_>, next: NextOwner) -> Result<(), HostReason> {
    if let Some(stopped) = turn.memory.plan.as_ref().and_then(|issued| issued.stopped.clone()) {
        return agent::stop(turn, &stopped.why);
    }
    let is_undue = turn.memory.plan.as_ref().is_some_and(|issued| match &issued.plan {
        PlanKind::Erase(erase) => erase.next == NextOwner::Another,
        // The metadata of a disk that was written is cleared for the same owner, too.
        PlanKind::Clean { .. } => !turn.memory.disk_dirty,
        PlanKind::Inspect | PlanKind::Write(_) | PlanKind::Reboot | PlanKind::PowerOff => false,
    });
    if is_undue && next == NextOwner::Same { stop(turn, "the host is its former owner's again") } else { Ok(()) }
}

/// Gives up a plan that cleans. An event says what it did until then, and nothing claims that a disk was erased or
/// kept.
#[track_caller]
pub(crate) fn stop(turn: &mut StepDraft<'_>, why: &str) -> Result<(), HostReason> {
    let Some(issued) = turn.memory.plan.as_ref() else { return Ok(()) };
    let Some((method, disks)) = issued.cleans() else { return Ok(()) };
    if issued.stopped.is_none() {
        record_stopped(turn, method, &disks, why);
        if turn.is_plan_over() {
            turn.memory.plan = None;
            return Ok(());
        }
    }
    agent::stop(turn, why)
}

/// Records what a stopped cleaning did; the next one begins at zero.
fn record_stopped(turn: &mut StepDraft<'_>, method: CleaningMethod, disks: &[DiskIdentity], why: &str) {
    let shown = turn.receipts();
    let names = |is_proven: bool| {
        let of = disks.iter().filter(|disk| disk::proof(method, disk, &shown).is_ok() == is_proven);
        of.map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let (done, rest) = (names(true), names(false));
    let mut text = format!("cleaning ({}) for another owner was stopped: {why}", method.word());
    for (what, disks) in [("cleaned already, as the agent says", done), ("perhaps partly cleaned", rest)] {
        if !disks.is_empty() {
            text = format!("{text}; {what}: {disks}");
        }
    }
    let text = shortened(text);
    turn.memory.clean_failures = 0;
    turn.warn(EventReason::CleaningStopped, text.clone());
    // It belongs to no boot: its end was not seen, so no grade of it is proven.
    let (at, attempt, unverified) = (turn.now, 0, Vec::new());
    let note =
        CleanedNote { at, attempt, method, is_erased: false, is_partial: true, text, unverified, accepted_at: None };
    turn.memory.cleaned = (method > CleaningMethod::Metadata).then_some(note);
}

/// A plan that cleans is with the agent, or has ended.
#[track_caller]
fn follow(turn: &mut StepDraft<'_>, agent: &AgentInputs, next: NextOwner, kind: ErrorType) -> Result<(), HostReason> {
    let Some((method, disks)) = turn.memory.plan.as_ref().and_then(|issued| issued.cleans()) else { return Ok(()) };
    match turn.progress(agent) {
        AgentPlanProgress::NoPlan | AgentPlanProgress::Issued | AgentPlanProgress::Running { .. } => {
            Err(agent::watch(turn, agent, kind))
        }
        AgentPlanProgress::Failed { message, .. } => {
            turn.memory.plan = None;
            let shown = turn.receipts();
            vacancy::cleaned(turn, &shown);
            Err(failed(turn, next, kind, &message))
        }
        AgentPlanProgress::Done => {
            turn.memory.plan = None;
            let shown = turn.receipts();
            vacancy::cleaned(turn, &shown);
            let short = disks.iter().find_map(|wanted| Some((wanted, disk::proof(method, wanted, &shown).err()?)));
            match short {
                None => Ok(()),
                Some((wanted, why)) => {
                    let text = format!("the agent calls it done, and no receipt proves it for {wanted}: {why}");
                    Err(failed(turn, next, kind, &text))
                }
            }
        }
    }
}

#[track_caller]
fn failed(turn: &mut StepDraft<'_>, next: NextOwner, kind: ErrorType, message: &str) -> HostReason {
    let (exit, guard) = (guards::exit(next), guards::override_help());
    guards::refuse(turn, kind, format!("cleaning the disk failed: {message}; {guard}; {exit}"))
}

/// Method and disks, from an inspection of this boot and of after the last try. The target's metadata alone needs none:
/// its identity is that of the installation, and the agent compares it. A disk that its path alone names is looked at
/// in any case.
#[track_caller]
fn chosen(
    turn: &mut StepDraft<'_>,
    agent: &AgentInputs,
    next: NextOwner,
    targets: &[DiskIdentity],
    kind: ErrorType,
) -> Result<Cleaning, HostReason> {
    let seen = turn.seen;
    let hints = seen.host.spec.root_device_hints.as_ref();
    let decided = seen
        .hardware
        .as_ref()
        .map(|record| decide(&turn.requests.cleaning, next, hints, targets, &turn.memory.tenant_disks, record));
    let is_own = guards::own_record(turn).is_some();
    let is_of_boot = |record: &HardwareRecord| record.attempt == turn.memory.attempt;
    let was_refused =
        seen.hardware.as_ref().is_some_and(|record| is_of_boot(record) && guards::is_outdated(&turn.memory, record));
    match decided {
        Some(Ok(cleaning)) if is_own || !was_refused && is_known(&cleaning, targets) => Ok(cleaning),
        Some(Err(error)) if is_own => {
            is_due(turn)?;
            Err(failed(turn, next, kind, &format!("no disk is cleaned: {error}")))
        }
        Some(_) | None => {
            inspection::inspect(turn, agent, kind)?;
            Err(turn.wait_in_state(turn.limits().secret_retry, "the hardware record is being stored"))
        }
    }
}

/// The agent alone can tell whether the disks are there.
fn is_known(cleaning: &Cleaning, targets: &[DiskIdentity]) -> bool {
    is_of_target(cleaning, targets) && !cleaning.disks.iter().any(DiskIdentity::is_by_path)
}

fn is_of_target(cleaning: &Cleaning, targets: &[DiskIdentity]) -> bool {
    cleaning.method == CleaningMethod::Metadata && cleaning.disks.iter().all(|disk| targets.contains(disk))
}

/// A failure to clean delays the next try; one that led here delays the next installation alone.
#[track_caller]
fn is_due(turn: &mut StepDraft<'_>) -> Result<(), HostReason> {
    let is_since = turn.memory.failure.as_ref().is_some_and(|failure| failure.at > turn.memory.since);
    let is_own = is_since || guards::is_refusal(&turn.memory);
    let is_overridden = !turn.requests.override_guards.is_empty();
    if is_own && !is_overridden { turn.may_try() } else { Ok(()) }
}

#[track_caller]
fn issue(
    turn: &mut StepDraft<'_>,
    agent: &AgentInputs,
    next: NextOwner,
    cleaning: &Cleaning,
    missing: &[DiskIdentity],
    targets: &[DiskIdentity],
    kind: ErrorType,
) -> Result<String, HostReason> {
    is_due(turn)?;
    gate::may_destroy(turn, kind)?;
    if cleaning.method > CleaningMethod::Metadata {
        power_cut::read_once(turn)?;
    }
    let mut disks = guards::may_clean(turn, next, missing, kind)?;
    let named = guards::named(turn, &disks);
    // What the journal alone says of a disk goes with a step that every agent knows.
    let is_plain = |disk: &DiskIdentity| !named.contains(disk) || guards::is_named(&turn.memory, disk);
    let plan = match disks.as_slice() {
        [only] if is_of_target(cleaning, targets) && turn.requests.override_guards.is_empty() && is_plain(only) => {
            PlanKind::Clean { disk: only.clone() }
        }
        _ if !agent.can_erase => {
            if turn.requests.retry {
                turn.issue(PlanKind::Reboot);
                return Err(turn.wait_in_state(turn.limits().secret_retry, "the host boots again, for a newer agent"));
            }
            let text = "its agent is too old to erase disks: give the appliance newer boot files, and run \
                        `firesteel retry`";
            return Err(failed(turn, next, kind, text));
        }
        _ => {
            disks.truncate(DISKS_MAX);
            let overridden = guards::take_overrides(turn, &disks);
            let own_names = turn.memory.names.clone();
            PlanKind::Erase(ErasePlan { method: cleaning.method, disks, next, own_names, overridden, named })
        }
    };
    if let Some(relaxed) = &cleaning.relaxed {
        turn.warn(EventReason::CleaningRelaxed, relaxed.clone());
    }
    turn.event(EventReason::CleaningStarted, shortened(plan_text(&plan, cleaning)));
    turn.issue(plan);
    Err(agent::watch(turn, agent, kind))
}

fn plan_text(plan: &PlanKind, cleaning: &Cleaning) -> String {
    let disks: Vec<String> = match plan {
        PlanKind::Clean { disk } => vec![disk.to_string()],
        PlanKind::Erase(erase) => erase.disks.iter().map(ToString::to_string).collect(),
        PlanKind::Inspect | PlanKind::Write(_) | PlanKind::Reboot | PlanKind::PowerOff => Vec::new(),
    };
    let kept = kept_disks_text(cleaning).map(|kept| format!("; {kept}")).unwrap_or_default();
    format!("{} of {}{kept}", cleaning.method.word(), disks.join("; "))
}

/// The disks that keep what they have, in words.
fn kept_disks_text(cleaning: &Cleaning) -> Option<String> {
    let kept: Vec<&str> = cleaning.kept.iter().map(|disk| disk.device.as_str()).collect();
    (!kept.is_empty()).then(|| format!("kept: {}", kept.join(", ")))
}

/// Gathers what the receipts say of the disks, in words for both: that all was seen, and that it was not.
fn erased(shown: &[CleaningProof], cleaning: &Cleaning) -> ErasureSummary {
    let shown: Vec<_> =
        cleaning.disks.iter().filter_map(|wanted| disk::proof(cleaning.method, wanted, shown).ok()).collect();
    let beside: String =
        cleaning.relaxed.iter().cloned().chain(kept_disks_text(cleaning)).map(|text| format!("; {text}")).collect();
    let is_whole = cleaning.is_all || cleaning.kept.is_empty();
    ErasureSummary {
        method: cleaning.method,
        disks: cleaning.disks.clone(),
        is_all: cleaning.is_all,
        is_whole: cleaning.method > CleaningMethod::Metadata && cleaning.relaxed.is_none() && is_whole,
        proven: shortened(disk::describe_proof(cleaning.method, &shown) + &beside),
        claimed: shortened(disk::claims(&shown) + &beside),
    }
}
