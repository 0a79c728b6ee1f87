//! What guards keep, judged before a plan that destroys is issued, by the agent's own judge
//! ([`firesteel_contents::objections`]) and from what the newest inspection found. The agent judges once more, by what
//! stands there then; of a disk whose contents it did not tell, it is the only judge.
//!
//! While one of the disks to clean is kept, no other one is erased: a host is not left half erased and without its
//! system. What its owner overrides by name is erased at once, and the rest waits on.

use firesteel_contents::OwnershipClaim;
use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::{ErrorType, annotations};
use firesteel_resources::hardware::DiskRecord;
use firesteel_resources::host_journal::RequestOutcome;
use firesteel_resources::{BareMetalHost, HardwareRecord};

use crate::disk::{DiskIdentity, NextOwner, identity_of, is_named_by, mismatch, names_one, record_of};
use crate::host::model::{HostMemory, HostReason, PlanKind, RefusedAttempt};
use crate::host::rules::vacancy::{own_names, was_vacant};
use crate::host::turn::{StepDraft, hardware_changes};

/// Longest text of a refusal, so that the ways out are never cut off its end.
const TEXT_BYTES_MAX: usize = 1900;
/// Room for the text about one disk.
const DISK_BYTES_MIN: usize = 160;

/// A disk that is not to be erased, and each reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedDisk {
    pub(crate) disk: DiskIdentity,
    /// Device name in the boot of the inspection.
    pub(crate) device: String,
    pub(crate) reasons: Vec<String>,
}

/// What of the disks to clean goes now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SortedDisks {
    pub(crate) now: Vec<DiskIdentity>,
    /// Disks that a guard keeps and the owner released.
    pub(crate) let_go: Vec<RefusedDisk>,
    /// Disks that guards keep. While there is one, only what is let go is erased.
    pub(crate) refused: Vec<RefusedDisk>,
}

/// What speaks against erasing this disk of the record; empty also where it is not known what it
/// holds.
#[must_use]
pub fn objections(
    host: &BareMetalHost,
    memory: &HostMemory,
    record: &HardwareRecord,
    disk: &DiskRecord,
) -> Vec<String> {
    let identity = identity_of(disk, &record.disks);
    if hardware_changes::is_since(memory, record, disk) {
        return Vec::new();
    }
    let was_vacant = identity.as_ref().is_some_and(|identity| was_vacant(memory, identity));
    let is_named = identity.is_some_and(|identity| is_named(memory, &identity)) || is_hinted(host, disk);
    reasons(OwnershipClaim { names: &own_names(host, memory), was_vacant, is_named }, disk)
}

fn reasons(own: OwnershipClaim<'_>, disk: &DiskRecord) -> Vec<String> {
    let judge = |contents| firesteel_contents::objections(contents, own);
    disk.contents.as_deref().map(judge).unwrap_or_default()
}

/// Whether the hints named the disk for its installation: how it is attached is no reason to leave it alone then. A
/// disk that was chosen without hints was not named, whatever was installed on it.
#[must_use]
pub fn is_named(memory: &HostMemory, disk: &DiskIdentity) -> bool {
    memory.disk.as_ref().is_some_and(|plan| plan.identity() == disk && !plan.hints.is_empty())
}

/// Whether the hints for the next installation name the disk.
fn is_hinted(host: &BareMetalHost, disk: &DiskRecord) -> bool {
    let hints = host.spec.root_device_hints.as_ref();
    hints.is_some_and(|hints| names_one(hints) && mismatch(hints, disk).is_none())
}

/// Those of the disks that the hints named for an installation, or name for the next one.
pub(crate) fn named(turn: &StepDraft<'_>, disks: &[DiskIdentity]) -> Vec<DiskIdentity> {
    let all = own_record(turn).map(|record| record.disks.as_slice()).unwrap_or_default();
    let is_hinted = |disk: &DiskIdentity| record_of(disk, all).is_some_and(|found| is_hinted(&turn.seen.host, found));
    disks.iter().filter(|disk| is_named(&turn.memory, disk) || is_hinted(disk)).cloned().collect()
}

/// Those of the disks that something speaks against.
pub(crate) fn guarded(
    disks: &[DiskIdentity],
    host: &BareMetalHost,
    memory: &HostMemory,
    record: &HardwareRecord,
) -> Vec<RefusedDisk> {
    let names = own_names(host, memory);
    let one = |identity: &DiskIdentity| {
        let disk =
            record_of(identity, &record.disks).filter(|disk| !hardware_changes::is_since(memory, record, disk))?;
        let is_named = is_named(memory, identity) || is_hinted(host, disk);
        let reasons =
            reasons(OwnershipClaim { names: &names, was_vacant: was_vacant(memory, identity), is_named }, disk);
        let device = disk.device.clone();
        (!reasons.is_empty()).then(|| RefusedDisk { disk: identity.clone(), device, reasons })
    };
    disks.iter().filter_map(one).collect()
}

/// Pure: `overrides` are the names that the owner gave. What is let go comes first.
pub(crate) fn sort(
    disks: &[DiskIdentity],
    guarded: Vec<RefusedDisk>,
    overrides: &[String],
    record: Option<&HardwareRecord>,
) -> SortedDisks {
    let all = record.map(|record| record.disks.as_slice()).unwrap_or_default();
    let is_overridden = |disk: &DiskIdentity| overrides.iter().any(|name| is_named_by(name, disk, all));
    let (let_go, refused): (Vec<_>, Vec<_>) = guarded.into_iter().partition(|one| is_overridden(&one.disk));
    let mut now: Vec<DiskIdentity> = let_go.iter().map(|one| one.disk.clone()).collect();
    if refused.is_empty() {
        let others: Vec<DiskIdentity> = disks.iter().filter(|disk| !now.contains(disk)).cloned().collect();
        now.extend(others);
    }
    SortedDisks { now, let_go, refused }
}

/// Those of the disks that go now: all, or the ones that the owner's word lets go while guards keep others.
#[track_caller]
pub(crate) fn may_clean(
    turn: &mut StepDraft<'_>,
    next: NextOwner,
    missing: &[DiskIdentity],
    kind: ErrorType,
) -> Result<Vec<DiskIdentity>, HostReason> {
    let record = own_record(turn);
    let guarded = record.map(|record| guarded(missing, &turn.seen.host, &turn.memory, record));
    let sorted = sort(missing, guarded.unwrap_or_default(), &turn.requests.override_guards, record);
    if sorted.now.is_empty() {
        return Err(refused(turn, next, &sorted.refused, missing.len(), kind));
    }
    Ok(sorted.now)
}

/// Guards keep some of the disks, and what the owner's word lets go is gone.
#[track_caller]
fn refused(turn: &mut StepDraft<'_>, next: NextOwner, kept: &[RefusedDisk], of: usize, kind: ErrorType) -> HostReason {
    // A request that names none of them is over, too.
    take_overrides(turn, &[]);
    let what = format!("could not clean the disks: guards keep {} of {of}, so no other is erased", kept.len());
    let exits = format!("{}; {}", override_help(), exit(next));
    refuse(turn, kind, refusal(&what, kept, &exits))
}

/// The inspection of this boot. Who asks to try again may have changed the disks, and so may anybody since the last
/// try.
pub(crate) fn own_record<'a>(turn: &StepDraft<'a>) -> Option<&'a HardwareRecord> {
    let is_own = |record: &&HardwareRecord| {
        record.attempt == turn.memory.attempt
            && turn.memory.retried_at.is_none_or(|retried_at| record.inspected_at >= retried_at)
            && !is_outdated(&turn.memory, record)
    };
    turn.seen.hardware.as_ref().filter(is_own)
}

/// How a host goes on without this cleaning.
pub(crate) fn exit(next: NextOwner) -> &'static str {
    match next {
        NextOwner::Same => {
            "the annotation firesteel.dev/cleaning asks for less, or spec.automatedCleaningMode: disabled lets the host \
             go on uncleaned"
        }
        NextOwner::Another => {
            "the annotation firesteel.dev/cleaning asks for less between owners, or `firesteel release --force` lets \
             the host go uncleaned"
        }
    }
}

/// Refuses to install on a disk that something speaks against.
#[track_caller]
pub(crate) fn may_write(turn: &mut StepDraft<'_>, disk: &DiskIdentity, kind: ErrorType) -> Result<(), HostReason> {
    let Some(record) = turn.seen.hardware.as_ref() else { return Ok(()) };
    let kept = guarded(std::slice::from_ref(disk), &turn.seen.host, &turn.memory, record);
    if kept.is_empty() {
        return Ok(());
    }
    let exits = format!("{}, or name another disk in spec.rootDeviceHints", override_help());
    let text = refusal("could not write the image: a guard keeps the disk, and nothing was written", &kept, &exits);
    Err(refuse(turn, kind, text))
}

/// A try that ended because of how the disks are: they are looked at again before the next one.
#[track_caller]
pub(crate) fn refuse(turn: &mut StepDraft<'_>, kind: ErrorType, text: impl Into<String>) -> HostReason {
    let (at, attempt, plan) = (turn.now, turn.memory.attempt, turn.memory.plan_number);
    turn.memory.refused = Some(RefusedAttempt { at, attempt, plan });
    // An inspection that is done already is not the one that is wanted then.
    turn.memory.plan = turn.memory.plan.take().filter(|issued| issued.plan != PlanKind::Inspect);
    turn.fail(kind, text)
}

/// The failure that the host shows is such a try's.
pub(crate) fn is_refusal(memory: &HostMemory) -> bool {
    let at = memory.failure.as_ref().map(|failure| failure.at);
    at.is_some() && at == memory.refused.as_ref().map(|refused| refused.at)
}

/// The record is older than the last such try.
pub(crate) fn is_outdated(memory: &HostMemory, record: &HardwareRecord) -> bool {
    memory.refused.as_ref().is_some_and(|last| (record.attempt, record.plan) <= (last.attempt, last.plan))
}

#[must_use]
pub(crate) fn override_help() -> String {
    let key = annotations::OVERRIDE_GUARD;
    format!(
        "the annotation {key}: SERIAL-OR-WWN (or the by-path name of a disk that has neither; a JSON list names several disks) has a disk erased whatever it holds"
    )
}

/// The words of a refusal: each disk with its reasons, and the ways out.
pub(crate) fn refusal(what: &str, kept: &[RefusedDisk], exits: &str) -> String {
    let budget = TEXT_BYTES_MAX.saturating_sub(what.len() + exits.len());
    let each = (budget / kept.len().max(1)).max(DISK_BYTES_MIN);
    let mut text = format!("{what}: ");
    let room = what.len() + budget;
    for (index, one) in kept.iter().enumerate() {
        let words = words_of(one, each);
        if index > 0 && text.len() + words.len() > room {
            text.push_str(&format!("and {} more disks; ", kept.len() - index));
            break;
        }
        text.push_str(&words);
        text.push_str("; ");
    }
    text + exits
}

fn words_of(one: &RefusedDisk, bytes: usize) -> String {
    let mut text = format!("{} ({}) because of ", one.device, one.disk);
    for (index, reason) in one.reasons.iter().enumerate() {
        let lead = if index == 0 { "" } else { ", " };
        if index > 0 && text.len() + reason.len() + 24 > bytes {
            text.push_str(&format!(", and {} more", one.reasons.len() - index));
            break;
        }
        text.push_str(lead);
        text.push_str(reason);
    }
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
    text
}

/// A request that was taken for a plan counts for no other one, also where its removal was lost.
pub(crate) fn drop_taken(turn: &mut StepDraft<'_>) {
    if turn.memory.overridden.is_empty() {
        return;
    }
    if turn.requests.override_guards == turn.memory.overridden {
        turn.requests.override_guards.clear();
        turn.remove_annotation(annotations::OVERRIDE_GUARD);
    } else {
        turn.memory.overridden.clear();
    }
}

/// An override has the next try made at once where the last one was refused.
pub(crate) fn retry_overridden(turn: &mut StepDraft<'_>) {
    if turn.requests.override_guards.is_empty() {
        return;
    }
    let now = turn.now;
    if is_refusal(&turn.memory)
        && let Some(failure) = &mut turn.memory.failure
    {
        failure.retry_at = failure.retry_at.map(|at| at.min(now));
    }
}

/// Which of the disks have their guards overridden; the request is over with that.
pub(crate) fn take_overrides(turn: &mut StepDraft<'_>, disks: &[DiskIdentity]) -> Vec<DiskIdentity> {
    let names = std::mem::take(&mut turn.requests.override_guards);
    let Some(record) = turn.seen.hardware.as_ref().filter(|_| !names.is_empty()) else { return Vec::new() };
    turn.memory.overridden.clone_from(&names);
    let (mut overridden, mut words) = (Vec::new(), Vec::new());
    for name in &names {
        let (event, text) = match disks.iter().find(|disk| is_named_by(name, disk, &record.disks)) {
            Some(disk) => {
                overridden.push(disk.clone());
                (EventReason::GuardOverridden, format!("{disk} is erased whatever it holds"))
            }
            None => {
                let text = format!(
                    "no guard is overridden by {name:?}: it names none of the disks that are erased now, or several"
                );
                (EventReason::GuardNotOverridden, text)
            }
        };
        words.push(text.clone());
        turn.warn(event, text);
    }
    let outcome = if overridden.is_empty() { RequestOutcome::Refused } else { RequestOutcome::Accepted };
    turn.answer(annotations::OVERRIDE_GUARD, outcome, &words.join("; "));
    turn.remove_annotation(annotations::OVERRIDE_GUARD);
    overridden
}

#[cfg(test)]
mod tests;
