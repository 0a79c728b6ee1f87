//! Which disks were blank, or this host's own, when the present owner got them. What that owner broke or planted there
//! since exempts nothing from erasure ([`firesteel_contents::OwnershipClaim::was_vacant`]).
//!
//! | what happens | a disk |
//! |---|---|
//! | an inspection finds nothing on it | is vacant |
//! | a receipt proves it cleaned, by whatever method | is vacant |
//! | an installation on it is proven, or failed and the agent says that the disk is changed | is vacant: it is ours |
//! | an inspection does not find it, or finds two of its name | is not: it may come back with another machine's data |
//! | the host goes to another owner | stays vacant if it was cleaned for that, is blank, or bears a mark of ours |
//! | the store was restored from a backup | is not: what others did since is unknown |
//!
//! A write that is under way makes nothing vacant, for it is judged by what stood there before. A host that was moved
//! here, or whose journal was lost, begins without any. A disk that is named by its path alone never counts: another
//! disk may be plugged in there.

use firesteel_resources::{BareMetalHost, HardwareRecord, hardware::DiskRecord};

use crate::disk::{CleaningProof, DiskIdentity, identity_of, is_mark_of, record_of, shortfall, unite};
use crate::host::model::{HostMemory, HostState};
use crate::host::turn::StepDraft;

/// What is this host's on a disk: names that its volumes bear (its own, and those of its consumers), and GUIDs of the
/// tables that its installations got.
#[must_use]
pub fn own_names(host: &BareMetalHost, memory: &HostMemory) -> Vec<String> {
    let applied = memory.applied.iter().map(|applied| &applied.disk_guid);
    let under_way = memory.plan.iter().filter_map(|issued| issued.write()).map(|write| &write.disk_guid);
    let written = memory.written.iter().map(|written| &written.disk_guid);
    let names = std::iter::once(&host.metadata.name).chain(&memory.names);
    let mut own: Vec<String> = Vec::new();
    for name in names.chain(applied).chain(under_way).chain(written).chain(&memory.former) {
        if !name.is_empty() && !own.contains(name) {
            own.push(name.clone());
        }
    }
    own
}

/// Whether the disk was blank or this host's own when its present owner got it.
#[must_use]
pub fn was_vacant(memory: &HostMemory, disk: &DiskIdentity) -> bool {
    memory.vacant_disks.contains(disk)
}

/// Takes note of what this boot's inspection found, and of a proven installation. The same again changes nothing.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    if let Some(record) = this_boots(turn) {
        record_vacant_disks(&mut turn.memory.vacant_disks, &record.disks);
    }
    let memory = &turn.memory;
    let is_proven = memory.applied.as_ref().is_some_and(|applied| !applied.disk_guid.is_empty());
    if memory.state == HostState::Provisioned && is_proven && memory.restored.is_none() {
        let target = memory.disk.as_ref().map(|disk| disk.identity().clone());
        add(&mut turn.memory.vacant_disks, target);
    }
}

/// The agent says that it wrote to the disk.
pub(crate) fn written(turn: &mut StepDraft<'_>, disk: &DiskIdentity) {
    add(&mut turn.memory.vacant_disks, [disk.clone()]);
}

/// A plan that cleans has ended, well or not: what its receipts prove counts.
pub(crate) fn cleaned(turn: &mut StepDraft<'_>, shown: &[CleaningProof]) {
    add(&mut turn.memory.vacant_disks, proven(shown));
}

/// The host is another owner's from now on.
pub(crate) fn pass_on(turn: &mut StepDraft<'_>, shown: &[CleaningProof]) {
    let names = own_names(&turn.seen.host, &turn.memory);
    let record = this_boots(turn);
    hand_over(&mut turn.memory.vacant_disks, &proven(shown), &names, record);
}

/// What the backup says of the disks may be old.
pub(crate) fn doubt(turn: &mut StepDraft<'_>) {
    turn.memory.vacant_disks.clear();
}

/// An inspection of this boot: nothing ran on the host since but what we had it run.
fn this_boots<'a>(turn: &StepDraft<'a>) -> Option<&'a HardwareRecord> {
    let is_own = |record: &&HardwareRecord| {
        record.attempt == turn.memory.attempt && record.timeline == turn.seen.lineage.timeline
    };
    turn.seen.hardware.as_ref().filter(is_own)
}

/// Each receipt for what was asked of it.
fn proven(shown: &[CleaningProof]) -> Vec<DiskIdentity> {
    let is_good = |shown: &&CleaningProof| shortfall(shown.asked, &shown.disk, shown).is_none();
    shown.iter().filter(is_good).map(|shown| shown.disk.clone()).collect()
}

fn add(vacant: &mut Vec<DiskIdentity>, found: impl IntoIterator<Item = DiskIdentity>) {
    unite(vacant, found.into_iter().filter(|disk| disk.by_path.is_empty()));
}

fn is_blank(disk: &DiskRecord) -> bool {
    disk.contents.as_ref().is_some_and(|contents| contents.is_blank())
}

/// Pure: what one inspection changes.
fn record_vacant_disks(vacant: &mut Vec<DiskIdentity>, disks: &[DiskRecord]) {
    let present: Vec<Option<DiskIdentity>> = disks.iter().map(|disk| identity_of(disk, disks)).collect();
    vacant.retain(|known| present.iter().flatten().any(|disk| disk == known));
    let blank = disks.iter().zip(present).filter(|(disk, _)| is_blank(disk)).filter_map(|(_, identity)| identity);
    add(vacant, blank);
}

/// Pure: what stays vacant for the next owner. `record`: of this boot, made before the cleaning.
fn hand_over(
    vacant: &mut Vec<DiskIdentity>,
    cleaned: &[DiskIdentity],
    names: &[String],
    record: Option<&HardwareRecord>,
) {
    let is_clean = |known: &DiskIdentity| {
        let disk = record.and_then(|record| record_of(known, &record.disks));
        cleaned.contains(known) || disk.is_some_and(|disk| is_blank(disk) || is_mark_of(disk, names))
    };
    vacant.retain(is_clean);
}

#[cfg(test)]
mod tests {
    use firesteel_contents::{DiskContents, OrdinaryContent};
    use firesteel_resources::hardware::TableRecord;
    use firesteel_resources::{Image, RootDeviceHints};

    use super::*;
    use crate::disk::DiskChoice;
    use crate::host::model::{DiskPlan, InstalledSystem, RestoreMark, WritePlanRef};
    use crate::host::sample::{now, with_bmc};

    fn disk(serial: &str, contents: Option<DiskContents>) -> DiskRecord {
        let contents = contents.map(Box::new);
        DiskRecord { serial: serial.into(), size_bytes: 1 << 30, contents, ..DiskRecord::default() }
    }

    fn identity(serial: &str) -> DiskIdentity {
        DiskIdentity { serial: serial.into(), size_bytes: 1 << 30, ..DiskIdentity::default() }
    }

    fn used() -> Option<DiskContents> {
        let plain = vec![OrdinaryContent { place: "the disk".into(), name: "ext4".into() }];
        Some(DiskContents { plain, ..DiskContents::default() })
    }

    fn serials(vacant: &[DiskIdentity]) -> Vec<&str> {
        vacant.iter().map(|disk| disk.serial.as_str()).collect()
    }

    #[test]
    fn an_inspection_adds_blank_disks_and_drops_those_that_are_gone() {
        let blank = Some(DiskContents::default());
        let mut vacant = vec![identity("GONE"), identity("USED"), identity("TWIN")];
        let disks = [
            disk("BLANK", blank.clone()),
            disk("USED", used()),
            disk("FULL", used()),
            disk("UNTOLD", None),
            disk("", blank.clone()),
            disk("TWIN", blank.clone()),
            disk("TWIN", blank),
        ];
        record_vacant_disks(&mut vacant, &disks);
        assert_eq!(serials(&vacant), ["USED", "BLANK"], "what an owner did since exempts nothing");
        record_vacant_disks(&mut vacant, &disks);
        assert_eq!(vacant.len(), 2);
    }

    #[test]
    fn the_next_owner_gets_what_is_clean_blank_or_marked() {
        let guid = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f";
        let mut marked = disk("MARKED", used());
        marked.table = Some(TableRecord::Gpt { guid: guid.to_ascii_uppercase() });
        let lenient = DiskContents { guid: guid.into(), ..used().unwrap_or_default() };
        let disks = vec![
            disk("BLANK", Some(DiskContents::default())),
            disk("USED", used()),
            marked,
            disk("GPT", Some(lenient)),
        ];
        let record = HardwareRecord { disks, ..HardwareRecord::default() };
        let all: Vec<DiskIdentity> = ["BLANK", "USED", "MARKED", "GPT", "CLEANED", "GONE"].map(identity).to_vec();
        let names = ["a".to_owned(), guid.to_owned()];
        let mut vacant = all.clone();
        hand_over(&mut vacant, &[identity("CLEANED")], &names, Some(&record));
        assert_eq!(serials(&vacant), ["BLANK", "MARKED", "GPT", "CLEANED"]);
        let mut vacant = all;
        hand_over(&mut vacant, &[identity("CLEANED")], &names, None);
        assert_eq!(serials(&vacant), ["CLEANED"], "an old inspection says nothing of now");
    }

    #[test]
    fn a_disk_that_its_path_names_never_counts() {
        let mut vacant = Vec::new();
        add(&mut vacant, [DiskIdentity { by_path: "/dev/disk/by-path/x".into(), ..identity("") }, identity("A")]);
        assert_eq!(serials(&vacant), ["A"]);
    }

    #[test]
    fn only_what_this_boot_showed_counts_as_vacant() {
        for (attempt, timeline, expected) in [(3, 1, vec!["BLANK"]), (2, 1, vec![]), (3, 0, vec![]), (4, 1, vec![])] {
            let mut seen = with_bmc(HostState::Preparing);
            let disks = vec![disk("BLANK", Some(DiskContents::default()))];
            seen.hardware = Some(HardwareRecord { attempt, timeline, disks, ..HardwareRecord::default() });
            let mut turn = StepDraft::new(&seen, now());
            notice(&mut turn);
            assert_eq!(serials(&turn.memory.vacant_disks), expected, "{attempt} {timeline}");
        }
    }

    /// The installation that came with its host has no mark from here.
    #[test]
    fn only_an_installation_from_here_makes_its_disk_vacant() {
        for (state, guid, is_restored, expected) in [
            (HostState::Provisioned, "g", false, vec!["A"]),
            (HostState::Provisioned, "", false, vec![]),
            (HostState::Provisioned, "g", true, vec![]),
            (HostState::Deprovisioning, "g", false, vec![]),
        ] {
            let mut seen = with_bmc(state.clone());
            let applied = InstalledSystem::of_others(Image::default(), 3, now());
            seen.memory.applied = Some(InstalledSystem { disk_guid: guid.into(), ..applied });
            seen.memory.restored = is_restored.then(|| RestoreMark { at: now(), unfinished: String::new() });
            seen.memory.disk = Some(DiskPlan {
                choice: DiskChoice { disk: identity("A"), ..DiskChoice::default() },
                inspected_in: 3,
                hints: RootDeviceHints::default(),
                chosen_at: now(),
            });
            let mut turn = StepDraft::new(&seen, now());
            notice(&mut turn);
            assert_eq!(serials(&turn.memory.vacant_disks), expected, "{state:?} {guid} {is_restored}");
        }
    }

    #[test]
    fn a_host_owns_its_names_and_marks_each_once() {
        let mut seen = with_bmc(HostState::Provisioning);
        let applied = InstalledSystem::of_others(Image::default(), 3, now());
        seen.memory.applied = Some(InstalledSystem { disk_guid: "applied".into(), ..applied });
        seen.memory.names = vec!["a".into(), String::new(), "one".into()];
        seen.memory.written = Some(WritePlanRef { attempt: 3, plan: 1, disk_guid: "applied".into() });
        seen.memory.former = vec!["former".into(), "one".into()];
        assert_eq!(own_names(&seen.host, &seen.memory), ["a", "one", "applied", "former"]);
    }
}
