//! The dry run: what the next installation and the next cleaning would do to each disk of a host, as it looks
//! now, by the same choices that the real ones make. Nothing is done.

use firesteel_facts::shown_url;
use firesteel_resources::bare_metal_host::cleaning::CleaningMethod;
use firesteel_resources::bare_metal_host::image_form::unwritable;
use firesteel_resources::bare_metal_host::{annotations, requests};
use firesteel_resources::{BareMetalHost, HardwareRecord};
use serde::{Deserialize, Serialize};

use crate::disk::{Cleaning, DiskIdentity, DiskVerdict, NextOwner, is_named_by, record_of, select_disk, verdicts};
use crate::host::model::{BmcInspection, HostMemory};
use crate::host::rules::deletion::DeletionFate;
use crate::host::rules::guards::{self, RefusedDisk, SortedDisks};
use crate::host::rules::{cleaning, consumer_data};
use crate::host::turn::gate;
use crate::host::turn::hardware_changes::contents_lines;

/// Names the deletion of a host in [`ActionPreview::what`].
const DELETION: &str = "deletion";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preview {
    pub host: String,
    /// When the disks were looked at; the real thing looks again. Empty: never.
    pub inspected_at: String,
    /// Why no disk is changed at all at the moment.
    pub closed: Vec<String>,
    pub outlooks: Vec<ActionPreview>,
    /// What a deletion of the host would do.
    pub deletion: ActionPreview,
}

/// What one thing would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionPreview {
    /// `installation`, `cleaning for the same owner`, `cleaning for another owner`.
    pub what: String,
    /// It would be this cleaning if the image were removed, or the host deleted, now.
    pub is_next: bool,
    /// Why nothing would be done.
    pub refused: String,
    /// What has to be known beside the disks.
    pub note: String,
    /// That guards keep disks, so that no other is changed, and what lets each of them go.
    pub guarded: Vec<String>,
    pub disks: Vec<DiskPreview>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskPreview {
    /// Device name in the boot of the inspection.
    pub device: String,
    pub looks: String,
    /// `written`, `metadata cleared`, `erased (quick)`, `erased (full)`, `refused` or `kept`.
    pub fate: String,
    pub why: String,
    /// What stands on it, a line each; also that nothing does, or that it is not known.
    pub contents: Vec<String>,
}

/// Looks ahead.
#[must_use]
pub fn preview(host: &BareMetalHost, memory: &HostMemory, record: Option<&HardwareRecord>) -> Preview {
    let frozen = memory.frozen.as_ref().map(|frozen| frozen.message.clone());
    let closed: Vec<String> = gate::lock(&host.metadata).map(|shut| shut.text).into_iter().chain(frozen).collect();
    let mut preview = Preview { host: host.metadata.name.clone(), closed, ..Preview::default() };
    let Some(record) = record else {
        preview.closed.push(never_inspected(memory));
        let refused = DeletionFate::of(host, memory, None).text(memory).to_owned();
        preview.deletion = ActionPreview { what: DELETION.to_owned(), refused, ..ActionPreview::default() };
        return preview;
    };
    preview.inspected_at = format!("{:.0}", record.inspected_at);
    let ahead = PreviewBuilder { host, memory, record, overrides: overrides(host, memory) };
    preview.outlooks =
        vec![ahead.installation(), ahead.cleaning_for(NextOwner::Same), ahead.cleaning_for(NextOwner::Another)];
    preview.deletion = ahead.deletion();
    preview
}

/// Says that no agent has looked at the disks. What the BMC said of drives is no ground for a choice.
fn never_inspected(memory: &HostMemory) -> String {
    match &memory.bmc_inspection {
        Some(BmcInspection { at, not_read: None }) => format!(
            "the host was never inspected by an agent: its hardware record is the BMC's word of {at:.0}, and no disk is \
             chosen, erased or written by that"
        ),
        Some(BmcInspection { not_read: Some(why), .. }) => {
            format!("the host was never inspected, and its BMC names no hardware ({why}): its disks are not known")
        }
        None => "the host was never inspected: its disks are not known".to_owned(),
    }
}

/// Names of disks whose guards are overridden for the next plan.
fn overrides(host: &BareMetalHost, memory: &HostMemory) -> Vec<String> {
    let asked = requests(&host.metadata).override_guards;
    // What was taken for a plan counts for no other one.
    if asked == memory.overridden { Vec::new() } else { asked }
}

struct PreviewBuilder<'a> {
    host: &'a BareMetalHost,
    memory: &'a HostMemory,
    record: &'a HardwareRecord,
    overrides: Vec<String>,
}

impl PreviewBuilder<'_> {
    fn installation(&self) -> ActionPreview {
        let hints = self.host.spec.root_device_hints.clone().unwrap_or_default();
        let mut outlook = ActionPreview { what: "installation".to_owned(), ..ActionPreview::default() };
        match self.host.spec.wanted_image() {
            Some(image) => {
                outlook.note = format!("image {}", shown_url(&image.url));
                outlook.refused = unwritable(image).map(|(field, why)| format!("{field}: {why}")).unwrap_or_default();
            }
            None => outlook.note = "no image is wanted".to_owned(),
        }
        let chosen = match select_disk(&hints, &self.record.disks) {
            Ok(chosen) => Some(chosen).filter(|_| outlook.refused.is_empty()),
            Err(error) => {
                // Both are to be mended: the image first, as the installation finds it.
                let causes = [std::mem::take(&mut outlook.refused), error.reason];
                outlook.refused = causes.into_iter().filter(|cause| !cause.is_empty()).collect::<Vec<_>>().join("; ");
                None
            }
        };
        let sorted = chosen.as_ref().map(|chosen| self.sort(std::slice::from_ref(&chosen.disk))).unwrap_or_default();
        for (disk, verdict) in self.record.disks.iter().zip(verdicts(&hints, &self.record.disks)) {
            let mine = chosen.as_ref().filter(|chosen| chosen.device == disk.device);
            let (fate, why) = match mine {
                Some(chosen) => disk_outcome(&sorted, &chosen.disk, "written", &chosen.why),
                None if verdict.verdict == "matches" && chosen.is_some() => {
                    ("kept".to_owned(), "another disk is chosen".to_owned())
                }
                None => ("kept".to_owned(), verdict.verdict),
            };
            outlook.disks.push(self.row(verdict.device, verdict.looks, fate, why));
        }
        if !sorted.refused.is_empty() {
            outlook.guarded = self.disk_lines("nothing would be written: a guard keeps the disk", &sorted);
        }
        outlook
    }

    fn cleaning_for(&self, next: NextOwner) -> ActionPreview {
        let Self { host, memory, record, .. } = self;
        let mut outlook = ActionPreview {
            what: match next {
                NextOwner::Same => "cleaning for the same owner".to_owned(),
                NextOwner::Another => "cleaning for another owner".to_owned(),
            },
            is_next: consumer_data::next_of(&host.spec, memory, Some(record), host.metadata.is_deleting()) == next,
            ..ActionPreview::default()
        };
        let targets = consumer_data::targets(memory, next);
        if next == NextOwner::Same && !host.spec.cleans() {
            outlook.refused = "spec.automatedCleaningMode is disabled".to_owned();
            return outlook;
        }
        if next == NextOwner::Same && targets.is_empty() {
            outlook.refused = "nothing is installed, so nothing is cleaned".to_owned();
            return outlook;
        }
        let (policies, hints) = (requests(&host.metadata).cleaning, host.spec.root_device_hints.as_ref());
        match cleaning::decide(&policies, next, hints, &targets, &memory.tenant_disks, record) {
            Err(error) => {
                outlook.refused = error.reason;
                outlook.disks = error.disks.into_iter().map(|disk| self.kept_disk_row(disk)).collect();
            }
            Ok(decided) => self.decided(&mut outlook, decided, &targets),
        }
        outlook
    }

    fn deletion(&self) -> ActionPreview {
        let what = DELETION.to_owned();
        let fate = DeletionFate::of(self.host, self.memory, Some(self.record));
        if let DeletionFate::Cleans(next) = fate {
            return ActionPreview { what, is_next: false, ..self.cleaning_for(next) };
        }
        let refused = fate.text(self.memory).to_owned();
        ActionPreview { what, refused, ..ActionPreview::default() }
    }

    fn decided(&self, outlook: &mut ActionPreview, decided: Cleaning, targets: &[DiskIdentity]) {
        let sorted = self.sort(&decided.disks);
        outlook.note = decided.relaxed.unwrap_or_default();
        for disk in &decided.disks {
            outlook.disks.push(self.cleaned(disk, decided.method, targets, &sorted));
        }
        outlook.disks.extend(decided.kept.into_iter().map(|disk| self.kept_disk_row(disk)));
        if sorted.refused.is_empty() {
            return;
        }
        let (kept, all) = (sorted.refused.len(), decided.disks.len());
        let only = if sorted.let_go.is_empty() { "nothing" } else { "only what is overridden" };
        outlook.guarded =
            self.disk_lines(&format!("{only} would be erased: guards keep {kept} of {all} disks"), &sorted);
    }

    fn sort(&self, disks: &[DiskIdentity]) -> SortedDisks {
        let guarded = guards::guarded(disks, self.host, self.memory, self.record);
        guards::sort(disks, guarded, &self.overrides, Some(self.record))
    }

    /// `what`, and for each disk that is kept why, and what lets it go.
    fn disk_lines(&self, what: &str, sorted: &SortedDisks) -> Vec<String> {
        let one = |one: &RefusedDisk| {
            let found = record_of(&one.disk, &self.record.disks);
            let names = found.map(|disk| [&disk.serial, &disk.wwn, &disk.by_path]).into_iter().flatten();
            let mut names = names.filter(|name| is_named_by(name, &one.disk, &self.record.disks));
            let name = names.next().map_or("its name", String::as_str);
            let key = annotations::OVERRIDE_GUARD;
            format!("{}: {}; the annotation {key}: {name} lets it go", one.device, one.reasons.join(", "))
        };
        std::iter::once(what.to_owned()).chain(sorted.refused.iter().map(one)).collect()
    }

    fn kept_disk_row(&self, disk: DiskVerdict) -> DiskPreview {
        self.row(disk.device, disk.looks, "kept".to_owned(), disk.verdict)
    }

    fn cleaned(
        &self,
        disk: &DiskIdentity,
        method: CleaningMethod,
        targets: &[DiskIdentity],
        sorted: &SortedDisks,
    ) -> DiskPreview {
        let device = record_of(disk, &self.record.disks).map(|found| found.device.clone()).unwrap_or_default();
        let (fate, what) = match method {
            CleaningMethod::Metadata => ("metadata cleared", "tables and signatures; its data stays"),
            CleaningMethod::Quick => ("erased (quick)", "all of it, by its quickest method"),
            CleaningMethod::Full => ("erased (full)", "all of it, by its method of the best grade"),
        };
        let whose = if targets.contains(disk) { "the disk of the installation: " } else { "" };
        let (fate, why) = disk_outcome(sorted, disk, fate, &format!("{whose}{what}"));
        self.row(device, disk.to_string(), fate, why)
    }

    fn row(&self, device: String, looks: String, fate: String, why: String) -> DiskPreview {
        let found = self.record.disks.iter().find(|disk| disk.device == device);
        let contents = found.map(|disk| contents_lines(self.memory, self.record, disk)).unwrap_or_default();
        DiskPreview { device, looks, fate, why, contents }
    }
}

/// Fate and reason of a disk that would have this fate if no guard kept it, or another one.
fn disk_outcome(sorted: &SortedDisks, disk: &DiskIdentity, fate: &str, why: &str) -> (String, String) {
    let of = |list: &[RefusedDisk]| list.iter().find(|one| one.disk == *disk).map(|one| one.reasons.join(", "));
    match (of(&sorted.refused), of(&sorted.let_go)) {
        (Some(reasons), _) => ("refused".to_owned(), reasons),
        (None, Some(reasons)) => (fate.to_owned(), format!("its guard is overridden: {reasons}")),
        (None, None) if !sorted.refused.is_empty() => {
            ("kept".to_owned(), format!("{fate} as soon as no guard keeps another disk: {why}"))
        }
        (None, None) => (fate.to_owned(), why.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "a test may fail")]
    use firesteel_contents::{ContentKind, ContentOwner, DiskContents, ProtectedContent};
    use firesteel_resources::{Image, ObjectReference, RootDeviceHints, hardware::DiskRecord};

    use super::*;
    use crate::host::model::HostState;

    fn disk(device: &str, serial: &str, gb: u64) -> DiskRecord {
        DiskRecord {
            device: device.into(),
            serial: serial.into(),
            size_bytes: gb * 1_000_000_000,
            ..DiskRecord::default()
        }
    }

    fn fates(outlook: &ActionPreview) -> Vec<(&str, &str)> {
        outlook.disks.iter().map(|row| (row.device.as_str(), row.fate.as_str())).collect()
    }

    #[test]
    fn every_disk_has_a_fate_and_a_reason() {
        let record = HardwareRecord {
            disks: vec![disk("/dev/sda", "A", 20), disk("/dev/sdb", "B", 10), disk("/dev/sdc", "C", 1)],
            ..HardwareRecord::default()
        };
        let mut host = BareMetalHost::default();
        host.metadata.name = "a".into();
        let consumer = ObjectReference { kind: "HostClaim".into(), name: "x".into(), ..ObjectReference::default() };
        host.spec.consumer_ref = Some(consumer);
        let memory = HostMemory { tenant: Some("HostClaim /y".into()), ..HostMemory::default() };
        let seen = preview(&host, &memory, Some(&record));
        assert_eq!(seen.host, "a");
        let what: Vec<&str> = seen.outlooks.iter().map(|outlook| outlook.what.as_str()).collect();
        assert_eq!(what, ["installation", "cleaning for the same owner", "cleaning for another owner"]);
        let [install, same, another] = seen.outlooks.as_slice() else { panic!("three outlooks") };
        assert_eq!(fates(install), [("/dev/sda", "kept"), ("/dev/sdb", "written"), ("/dev/sdc", "kept")]);
        assert!(same.refused.contains("nothing is installed") && !same.is_next);
        assert!(another.is_next && another.disks.iter().all(|row| row.fate == "erased (full)"), "{another:?}");
        assert!(seen.outlooks.iter().flat_map(|outlook| &outlook.disks).all(|row| !row.why.is_empty()));

        let policy = r#"{"betweenOwners":{"method":"quick","scope":{"named":["A"]}}}"#;
        host.metadata.annotations.insert(annotations::CLEANING.into(), policy.into());
        host.metadata.annotations.insert(annotations::LOCK.into(), "audit".into());
        let seen = preview(&host, &memory, Some(&record));
        let another = &seen.outlooks[2];
        assert_eq!(fates(another), [("/dev/sda", "erased (quick)"), ("/dev/sdb", "kept"), ("/dev/sdc", "kept")]);
        assert!(another.note.contains("less") && seen.closed[0].contains("audit"), "{seen:?}");
        assert!(seen.deletion.refused.contains("no disk is cleaned"), "{:?}", seen.deletion);
        assert_eq!(seen.deletion.what, DELETION);
        let available = HostMemory { state: HostState::Available, ..memory.clone() };
        let seen = preview(&host, &available, Some(&record));
        assert_eq!(fates(&seen.deletion), fates(&seen.outlooks[2]), "a tenant's data is erased when the host goes");
        assert!(seen.deletion.what == DELETION && !seen.deletion.is_next, "{:?}", seen.deletion);
        let never = preview(&host, &memory, None);
        assert!(never.closed[1].contains("never inspected") && never.deletion.what == DELETION, "{never:?}");
        assert!(never.deletion.refused.contains("no disk is cleaned"), "{:?}", never.deletion);
    }

    /// The disk's cause took the place of the image's: who mended it met the other one.
    #[test]
    fn an_installation_that_is_refused_twice_says_both_causes() {
        let record = HardwareRecord { disks: vec![disk("/dev/sda", "A", 20)], ..HardwareRecord::default() };
        let mut host = BareMetalHost::default();
        host.spec.image = Some(Image { url: "oci://registry/os:1".into(), ..Image::default() });
        host.spec.root_device_hints = Some(RootDeviceHints { serial_number: "B".into(), ..RootDeviceHints::default() });
        let refused =
            |host: &BareMetalHost| preview(host, &HostMemory::default(), Some(&record)).outlooks[0].refused.clone();
        let both = refused(&host);
        let (image, disk) = both.split_once("; no disk").unwrap_or_else(|| panic!("{both}"));
        assert!(image.starts_with("spec.image.url: ") && disk.contains("matches"), "{both}");
        host.spec.root_device_hints = None;
        assert_eq!(refused(&host), image);
    }

    fn with(mut disk: DiskRecord, kinds: &[ContentKind]) -> DiskRecord {
        let finding = |kind: &ContentKind| ProtectedContent {
            place: "partition 1".into(),
            kind: *kind,
            name: "v".into(),
            owner: ContentOwner::Unnamed,
        };
        let findings = kinds.iter().map(finding).collect();
        disk.contents = Some(Box::new(DiskContents { findings, ..DiskContents::default() }));
        disk
    }

    #[test]
    fn what_a_guard_keeps_is_refused_and_keeps_the_rest() {
        let mut record = HardwareRecord {
            disks: vec![
                with(disk("/dev/sda", "A", 20), &[]),
                with(disk("/dev/sdb", "B", 30), &[ContentKind::Vmfs, ContentKind::Ceph]),
                disk("/dev/sdc", "C", 40),
                with(disk("/dev/sdd", "D", 50), &[ContentKind::Asm]),
            ],
            ..HardwareRecord::default()
        };
        let mut host = BareMetalHost::default();
        let memory = HostMemory::default();
        let another =
            |host: &BareMetalHost, record: &HardwareRecord| preview(host, &memory, Some(record)).outlooks.remove(2);
        let seen = another(&host, &record);
        assert_eq!(
            fates(&seen),
            [("/dev/sda", "kept"), ("/dev/sdb", "refused"), ("/dev/sdc", "kept"), ("/dev/sdd", "refused")]
        );
        assert!(seen.disks[0].why.contains("erased (full) as soon as no guard keeps"), "{seen:?}");
        assert_eq!(seen.disks[1].why, "partition 1: it holds VMFS \"v\", partition 1: it holds Ceph \"v\"");
        assert_eq!(seen.disks[1].contents, ["partition 1: VMFS \"v\"", "partition 1: Ceph \"v\""]);
        assert_eq!(
            (&*seen.disks[0].contents[0], &*seen.disks[2].contents[0]),
            ("nothing", "not known: the agent did not tell")
        );
        assert!(
            seen.guarded[0].starts_with("nothing would be erased") && seen.guarded[0].contains("2 of 4"),
            "{seen:?}"
        );
        assert!(seen.guarded[1].ends_with("the annotation firesteel.dev/override-guard: B lets it go"), "{seen:?}");

        host.metadata.annotations.insert(annotations::OVERRIDE_GUARD.into(), "b".into());
        let seen = another(&host, &record);
        assert_eq!(fates(&seen)[1], ("/dev/sdb", "erased (full)"));
        assert!(seen.guarded[0].starts_with("only what is overridden"), "{seen:?}");
        host.metadata.annotations.insert(annotations::OVERRIDE_GUARD.into(), r#"["B","D"]"#.into());
        let seen = another(&host, &record);
        assert!(seen.disks.iter().all(|row| row.fate == "erased (full)") && seen.guarded.is_empty(), "{seen:?}");

        host.metadata.annotations.clear();
        record.disks[0] = with(disk("/dev/sda", "A", 20), &[ContentKind::Zfs]);
        let install = preview(&host, &memory, Some(&record)).outlooks.remove(0);
        assert_eq!(fates(&install)[0], ("/dev/sda", "refused"));
        assert!(install.guarded[0].contains("nothing would be written"), "{install:?}");
    }
}
