//! What a restored store does not know: disks that were installed after its backup.
//!
//! Every installation marks its disk ([`InstallationMark`]). A mark that the store's own past does not contain is
//! newer than the store, and old intent must not touch it: the host is frozen until a person gives
//! that installation up, by its name. After a restore no disk of a host is cleaned or written before
//! an agent has looked at it again, in this life of the store.
//!
//! | mark of a disk | means |
//! |---|---|
//! | none, or another program's | the disk is as it was before Firesteel, or was cleaned: nothing of ours is lost |
//! | of a moment that the store has, or of the installation that it knows as done | known |
//! | of a moment that the store lacks, or of an installation that was under way in the backup | newer: any such disk freezes the host |
//! | it could not be read | not known: freezes the host if the store was restored, or its plan names this disk, or all of them |
//! | of another store | another appliance counts on it, for what is released is cleaned: freezes the host if its plan names this disk, or all of them |
//! | of another store, on a host that was moved here | installed for this host before it was moved: known |
//! | of an installation that is not this host's, on a disk without WWN and serial number | another disk is in that place: freezes the host if its plan names this disk, or all of them |

use std::collections::BTreeSet;

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::hardware::{DiskRecord, TableRecord};
use firesteel_resources::host_journal::RequestOutcome;

use crate::disk::{CleaningScope, InstallationMark, NextOwner, fits, full_wwn, identity_of};
use crate::host::model::{Frozen, FrozenWhy, HostState, RestoreMark, UnfrozenInstallation};
use crate::host::rules::{consumer_data, vacancy};
use crate::host::turn::StepDraft;
use crate::host::turn::frozen::is_retried;

/// Attempts skipped by a restore, at least: tokens of the lost past name attempts that would otherwise
/// come again. A thousand boots of one host are years.
const ATTEMPTS_SKIPPED: u64 = 1000;
/// A restore of the same backup skips another number of thousands, by its timeline.
const SKIPS: u64 = 1000;
/// Changes that may have been queued between a step's look at the store and its own change: the
/// store's queue, twice. A mark that is older than the backup by less may be of a plan that is not in it.
const CHANGES_UNDER_WAY_MAX: u64 = 2048;
/// Former installations whose marks are remembered: an inspection from before a cleaning still shows them.
const FORMER_MAX: usize = 8;
/// Installations that a person gave up; a host has some disks, and few restores.
const GIVEN_UP_MAX: usize = 32;

/// The mark for an installation that begins now.
pub(crate) fn mark(turn: &StepDraft<'_>) -> String {
    let lineage = &turn.seen.lineage;
    // The plan is stored by a change that comes after this step.
    let revision = lineage.revision + 1;
    InstallationMark { store: lineage.store, timeline: lineage.timeline, revision }.guid(turn.seen.entropy)
}

/// Takes note of a restore, once: what was under way is over, and its end is not known.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    let lineage = &turn.seen.lineage;
    let (before, now) = (turn.memory.timeline, lineage.timeline);
    if before == now {
        return;
    }
    turn.memory.timeline = now;
    let is_first = before == 0 && lineage.known.len() < 2;
    if is_first || turn.memory.state == HostState::New {
        return;
    }
    let unfinished = turn.memory.plan.as_ref().and_then(|issued| issued.write()).map(|plan| plan.disk_guid.clone());
    let unfinished = unfinished.or_else(|| turn.memory.restored.take().map(|restored| restored.unfinished));
    let old = turn.memory.attempt;
    turn.abort_agent("the appliance was restored from a backup");
    turn.open_attempt();
    turn.memory.attempt = old + ATTEMPTS_SKIPPED * (1 + u64::from(now) % SKIPS);
    turn.memory.bmc.call = None;
    turn.memory.power = None;
    turn.memory.frozen = None;
    // What was erased may be written again since.
    turn.memory.wipe = None;
    vacancy::doubt(turn);
    turn.memory.restored = Some(RestoreMark { at: turn.now, unfinished: unfinished.unwrap_or_default() });
    let from = lineage.known.iter().rev().nth(1).map_or(0, |(_, last)| *last);
    let text = format!(
        "the store was restored from a backup of revision {from}; what happened to the host since then is unknown, and \
         its disks are looked at before anything is written"
    );
    turn.warn(EventReason::StoreRestored, text);
}

/// Whether the newest inspection is older than the restore, or than the word of a person that the disks are others now.
pub(crate) fn needs_mark_check(turn: &StepDraft<'_>) -> bool {
    let is_old = |timeline: u32| timeline != turn.seen.lineage.timeline;
    let is_unseen = turn.seen.hardware.as_ref().is_none_or(|record| is_old(record.timeline));
    turn.memory.restored.is_some() && is_unseen || turn.memory.frozen.is_some() && is_retried(turn)
}

/// The owner wants to keep what is on the disks.
pub(crate) fn is_kept(turn: &StepDraft<'_>) -> bool {
    turn.memory.frozen.is_some() && turn.seen.host.spec.externally_provisioned
}

/// Judges the disks of the newest inspection, and takes over what a person gave up.
pub(crate) fn check_disk_marks(turn: &mut StepDraft<'_>) {
    let mut found = judge(turn);
    if let Some(guid) = turn.take_request(annotations::UNFREEZE_DISK) {
        let DiskAnswer { outcome, mut text } = give_up(turn, found.as_ref(), &guid);
        found = judge(turn);
        if let Some(next) = found.as_ref().filter(|_| outcome == RequestOutcome::Done) {
            text = format!("{text}; the host stays frozen: {}", next.message);
        }
        let text = turn.with_gate(&text);
        turn.answer(annotations::UNFREEZE_DISK, outcome, &text);
    }
    let same = |old: &Frozen| found.as_ref().is_some_and(|new| (old.why, &old.guid) == (new.why, &new.guid));
    if turn.memory.frozen.as_ref().is_some_and(same) {
        return;
    }
    match &found {
        Some(frozen) => turn.warn(EventReason::HostFrozen, frozen.message.clone()),
        None if turn.memory.frozen.is_some() => {
            turn.memory.failure = None;
            turn.event(EventReason::HostUnfrozen, "no disk of the host is newer than the store any more");
        }
        None => {}
    }
    turn.memory.frozen = found;
}

/// What becomes of a person's word about a disk.
struct DiskAnswer {
    outcome: RequestOutcome,
    text: String,
}

fn give_up(turn: &mut StepDraft<'_>, frozen: Option<&Frozen>, guid: &str) -> DiskAnswer {
    let guid = guid.trim().to_ascii_lowercase();
    if turn.memory.given_up.iter().any(|given| given.guid == guid) {
        let text = format!("{guid} was given up before: it may be overwritten");
        return DiskAnswer { outcome: RequestOutcome::Done, text };
    }
    let is_meant = |frozen: &&Frozen| !guid.is_empty() && frozen.guid.eq_ignore_ascii_case(&guid);
    let Some(frozen) = frozen.filter(is_meant) else {
        let text = format!("nothing was given up: the host is not frozen because of the mark {guid:.64}");
        turn.warn(EventReason::DiskNotUnfrozen, text.clone());
        let host = &turn.seen.host.metadata.name;
        let text = match frozen {
            Some(frozen) => format!("{text}, but because of {}: {}", frozen.guid, frozen.message),
            None => format!("{text}, and not frozen at all; `firesteel describe host {host}` shows why it waits"),
        };
        return DiskAnswer { outcome: RequestOutcome::Refused, text };
    };
    let text = match frozen.why {
        FrozenWhy::Unread => format!("the unread disk {} was given up: it may be overwritten", frozen.disk),
        FrozenWhy::NewerThanStore | FrozenWhy::OfAnotherStore | FrozenWhy::OfAnotherHost | FrozenWhy::MarkUnknown => {
            format!("the installation {guid} on {} was given up: it may be overwritten", frozen.disk)
        }
    };
    turn.warn(EventReason::DiskUnfrozen, text.clone());
    turn.memory.given_up.push(UnfrozenInstallation { guid, disk: frozen.disk.clone(), at: turn.now });
    let excess = turn.memory.given_up.len().saturating_sub(GIVEN_UP_MAX);
    turn.memory.given_up.drain(..excess);
    turn.memory.failure = None;
    DiskAnswer { outcome: RequestOutcome::Done, text }
}

/// The store knows this installation as done, and that it is over.
pub(crate) fn remember(turn: &mut StepDraft<'_>, guid: String) {
    turn.memory.former.push(guid);
    let excess = turn.memory.former.len().saturating_sub(FORMER_MAX);
    turn.memory.former.drain(..excess);
}

/// Disks of the host were cleaned or written here. What a moved host brought along stays known by its marks, which an
/// older inspection still shows; any other mark of another store is not this host's.
pub(crate) fn accept_cleaned_marks(turn: &mut StepDraft<'_>) {
    if !std::mem::take(&mut turn.memory.was_moved) {
        return;
    }
    if foreign_stores(turn).len() == 1 {
        let guids: Vec<String> = foreign_marks(turn).map(|(guid, _)| guid.to_owned()).collect();
        guids.into_iter().for_each(|guid| remember(turn, guid));
    }
}

/// Marks of other stores on the host's disks: each by its GUID and as what that says.
fn foreign_marks<'a>(turn: &StepDraft<'a>) -> impl Iterator<Item = (&'a str, InstallationMark)> {
    let own = turn.seen.lineage.store;
    let disks = turn.seen.hardware.as_ref().map(|record| record.disks.as_slice()).unwrap_or_default();
    let guids = disks.iter().filter_map(|disk| match &disk.table {
        Some(TableRecord::Gpt { guid }) => Some(guid.as_str()),
        Some(TableRecord::None | TableRecord::Unreadable { .. }) | None => None,
    });
    guids.filter_map(|guid| Some((guid, InstallationMark::parse(guid)?))).filter(move |(_, mark)| mark.store != own)
}

fn foreign_stores(turn: &StepDraft<'_>) -> BTreeSet<u32> {
    foreign_marks(turn).map(|(_, mark)| mark.store).collect()
}

/// The first disk that freezes the host.
fn judge(turn: &StepDraft<'_>) -> Option<Frozen> {
    let record = turn.seen.hardware.as_ref()?;
    let planned = turn.memory.disk.as_ref().map(|disk| disk.identity());
    let erases_all = erases_all(turn);
    record.disks.iter().find_map(|disk| {
        let is_erased = erases_all && !disk.removable && disk.size_bytes > 0;
        let is_planned = is_erased || planned.is_some_and(|planned| fits(planned, disk));
        let (why, guid) = match &disk.table {
            Some(TableRecord::Unreadable { damaged: false, .. }) => {
                (FrozenWhy::Unread, unreadable_disk(turn, disk, &record.disks, is_planned)?)
            }
            _ => {
                let found = standing(turn, disk, record.timeline, is_planned);
                let found = found.or_else(|| foreign_mark(turn, disk, &record.disks, is_planned));
                found.map(|(why, guid)| (why, guid.to_owned()))?
            }
        };
        let (name, message) = (describe(disk), message(turn, disk, why, &guid));
        let old = turn.memory.frozen.as_ref().filter(|old| old.guid == guid);
        Some(Frozen { why, disk: name, guid, message, since: old.map_or(turn.now, |old| old.since) })
    })
}

/// The mark of another installation of this store on a disk that its place alone names: the disk that was there is
/// elsewhere. The mark of an own one says nothing, and neither does none: the tenant may have made partitions.
fn foreign_mark<'a>(
    turn: &StepDraft<'_>,
    disk: &'a DiskRecord,
    all: &[DiskRecord],
    is_planned: bool,
) -> Option<(FrozenWhy, &'a str)> {
    let Some(TableRecord::Gpt { guid }) = &disk.table else { return None };
    InstallationMark::parse(guid)?;
    let own = vacancy::own_names(&turn.seen.host, &turn.memory);
    let given_up = turn.memory.given_up.iter().map(|given| &given.guid);
    let is_own = own.iter().chain(given_up).any(|known| known.eq_ignore_ascii_case(guid));
    (is_planned && !is_own && identity_of(disk, all).is_none()).then_some((FrozenWhy::OfAnotherHost, guid))
}

/// The host's disks are being erased for another owner, all of them.
fn erases_all(turn: &StepDraft<'_>) -> bool {
    let scope = turn.requests.cleaning.between_owners.scope.as_ref();
    matches!(turn.memory.state, HostState::Preparing | HostState::Deprovisioning)
        && consumer_data::next_owner(turn) == NextOwner::Another
        && scope.is_none_or(|scope| *scope == CleaningScope::All)
}

/// The name by which a disk can be given up whose table could not be read, if that freezes the host.
fn unreadable_disk(turn: &StepDraft<'_>, disk: &DiskRecord, all: &[DiskRecord], is_planned: bool) -> Option<String> {
    let restored = turn.memory.restored.as_ref();
    let was_restored = restored.is_some() || turn.seen.lineage.known.len() > 1;
    if !was_restored && !is_planned {
        return None;
    }
    let name = own_name(disk, all);
    // What was given up before the restore says nothing of what was installed after the backup.
    let counts = |given: &UnfrozenInstallation| restored.is_none_or(|restored| given.at >= restored.at);
    let is_given_up = turn.memory.given_up.iter().any(|given| given.guid.eq_ignore_ascii_case(&name) && counts(given));
    (!is_given_up).then_some(name)
}

/// What the disk is called and no other of its host; of letters that a shell takes as they are, for a host
/// says it and a person types it.
fn own_name(disk: &DiskRecord, all: &[DiskRecord]) -> String {
    let kinds: [fn(&DiskRecord) -> &str; 3] = [full_wwn, |disk| &disk.serial, |disk| &disk.by_path];
    let plain = |name: &str| -> String {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
        name.trim().chars().map(|letter| if is_plain(letter) { letter.to_ascii_lowercase() } else { '_' }).collect()
    };
    let is_own = |kind: &fn(&DiskRecord) -> &str| {
        let name = plain(kind(disk));
        !name.is_empty() && all.iter().filter(|other| plain(kind(other)) == name).count() == 1
    };
    kinds.iter().find(|kind| is_own(kind)).map_or_else(|| plain(&disk.device), |kind| plain(kind(disk)))
}

fn standing<'a>(
    turn: &StepDraft<'_>,
    disk: &'a DiskRecord,
    looked_in: u32,
    is_planned: bool,
) -> Option<(FrozenWhy, &'a str)> {
    let (memory, lineage) = (&turn.memory, &turn.seen.lineage);
    let guid = match &disk.table {
        Some(TableRecord::Gpt { guid }) => guid.as_str(),
        // Nothing boots from it, damaged as it is.
        Some(TableRecord::None | TableRecord::Unreadable { .. }) => return None,
        None => {
            let must_know = memory.restored.is_some() && looked_in == lineage.timeline && is_planned;
            return must_know.then_some((FrozenWhy::MarkUnknown, ""));
        }
    };
    let mark = InstallationMark::parse(guid)?;
    let is_done = memory.applied.as_ref().is_some_and(|applied| applied.disk_guid.eq_ignore_ascii_case(guid));
    let is_given_up = memory.given_up.iter().any(|given| given.guid.eq_ignore_ascii_case(guid));
    let is_former = memory.former.iter().any(|former| former.eq_ignore_ascii_case(guid));
    if is_done || is_former || is_given_up {
        return None;
    }
    if mark.store != lineage.store {
        // It came from one store, which is not named: marks of two stores mean that a disk of another host is here.
        let is_own = memory.was_moved && foreign_stores(turn).len() == 1;
        return (is_planned && !is_own).then_some((FrozenWhy::OfAnotherStore, guid));
    }
    let is_known = match lineage.known.iter().find(|(timeline, _)| *timeline == mark.timeline) {
        None => false,
        Some(_) if mark.timeline == lineage.timeline => mark.revision <= lineage.revision + 1,
        Some((_, last)) => {
            let unfinished = memory.restored.as_ref().map(|restored| restored.unfinished.as_str());
            let is_unfinished = unfinished.is_some_and(|unfinished| unfinished.eq_ignore_ascii_case(guid));
            mark.revision.saturating_add(CHANGES_UNDER_WAY_MAX) <= *last && !is_unfinished
        }
    };
    (!is_known).then_some((FrozenWhy::NewerThanStore, guid))
}

fn describe(disk: &DiskRecord) -> String {
    let serial = if disk.serial.is_empty() { "no serial".to_owned() } else { format!("serial {}", disk.serial) };
    format!("{} ({}, {serial})", disk.device, crate::disk::size_text(disk.size_bytes))
}

fn message(turn: &StepDraft<'_>, disk: &DiskRecord, why: FrozenWhy, guid: &str) -> String {
    let name = describe(disk);
    let host = &turn.seen.host.metadata.name;
    let exits = format!(
        "`firesteel unfreeze {host} --disk {guid}` allows to overwrite it; spec.externallyProvisioned: true keeps \
         what is on it"
    );
    match why {
        FrozenWhy::NewerThanStore => format!(
            "frozen: the disk {name} was installed after the backup that this store was restored from ({}), so nothing \
             is cleaned or written; {exits}",
            InstallationMark::parse(guid).map(|mark| mark.to_string()).unwrap_or_default()
        ),
        FrozenWhy::OfAnotherStore => format!(
            "frozen: the disk {name} was installed by another appliance and not cleaned by it ({}); {exits}",
            InstallationMark::parse(guid).map(|mark| mark.to_string()).unwrap_or_default()
        ),
        FrozenWhy::OfAnotherHost => format!(
            "frozen: the disk {name} has no WWN and no serial number, and it bears the mark of an installation that is \
             not this host's ({}), so it is not the disk that was in its place; {exits}",
            InstallationMark::parse(guid).map(|mark| mark.to_string()).unwrap_or_default()
        ),
        FrozenWhy::MarkUnknown => format!(
            "frozen: the store was restored from a backup, and the agent does not tell whether the disk {name} was \
             installed after it; give the appliance newer boot files, and run `firesteel retry {host}`"
        ),
        FrozenWhy::Unread => format!(
            "frozen: the partition table of the disk {name} could not be read ({}), so it is not known whether something \
             newer than the store is on it, and nothing is cleaned or written; the next inspection looks at it again, \
             and `firesteel retry {host}` makes one; {exits}",
            match &disk.table {
                Some(TableRecord::Unreadable { why, .. }) => why.as_str(),
                Some(TableRecord::None | TableRecord::Gpt { .. }) | None => "",
            }
        ),
    }
}

#[cfg(test)]
mod tests;
