//! Disks that a plan may have changed since they were inspected: what the record says of them is out of date.

use firesteel_resources::{HardwareRecord, hardware::DiskRecord};

use crate::disk::record_of;
use crate::host::model::{ChangedDisk, HostMemory};

/// Disks that are remembered: as many as an inventory has (`DISKS_MAX` of the protocol).
const DISKS_MAX: usize = 256;

/// The current plan goes to the agent.
pub(crate) fn note(memory: &mut HostMemory) {
    let Some(issued) = memory.plan.as_ref().filter(|issued| issued.plan.destroys()) else { return };
    let (attempt, plan, disks) = (memory.attempt, issued.number, issued.disks());
    memory.changed_disks.retain(|known| !disks.contains(&known.disk));
    memory.changed_disks.extend(disks.into_iter().map(|disk| ChangedDisk { disk, attempt, plan }));
    let excess = memory.changed_disks.len().saturating_sub(DISKS_MAX);
    memory.changed_disks.drain(..excess);
}

/// A newer inspection looked at all disks again.
pub(crate) fn acknowledge_changes(memory: &mut HostMemory, record: Option<&HardwareRecord>) {
    memory.changed_disks.retain(|known| record.is_none_or(|record| known.is_since(record)));
}

/// Whether this disk of the record may be another one by now.
pub(crate) fn is_since(memory: &HostMemory, record: &HardwareRecord, disk: &DiskRecord) -> bool {
    let is_it =
        |known: &&ChangedDisk| record_of(&known.disk, &record.disks).is_some_and(|found| std::ptr::eq(found, disk));
    memory.changed_disks.iter().filter(is_it).any(|known| known.is_since(record))
}

/// What stands on the disk, a line each; also that nothing does, or that it is not known.
#[must_use]
pub fn contents_lines(memory: &HostMemory, record: &HardwareRecord, disk: &DiskRecord) -> Vec<String> {
    if is_since(memory, record, disk) {
        let target = memory.disk.as_ref().and_then(|plan| record_of(plan.identity(), &record.disks));
        let is_installed = memory.applied.is_some() && target.is_some_and(|target| std::ptr::eq(target, disk));
        let text = if is_installed {
            "the host's system, which was installed since the disk was inspected"
        } else {
            "not known: it was cleaned or written since it was inspected"
        };
        return vec![text.to_owned()];
    }
    match disk.contents.as_deref().map(firesteel_contents::DiskContents::lines) {
        None => vec!["not known: the agent did not tell".to_owned()],
        Some(lines) if lines.is_empty() => vec!["nothing".to_owned()],
        Some(lines) => lines,
    }
}

#[cfg(test)]
mod tests {
    use firesteel_contents::DiskContents;

    use firesteel_resources::{Image, RootDeviceHints};

    use super::*;
    use crate::disk::{DiskChoice, DiskIdentity};
    use crate::host::model::{DiskPlan, InstalledSystem, IssuedPlan, PlanKind};

    #[test]
    fn what_a_plan_may_have_changed_is_not_known_until_it_is_inspected_again() {
        let mut disk = DiskRecord { serial: "A".into(), size_bytes: 1, ..DiskRecord::default() };
        let mut record = HardwareRecord { attempt: 3, plan: 1, ..HardwareRecord::default() };
        record.disks = vec![disk.clone()];
        let lines = |memory: &HostMemory, record: &HardwareRecord| contents_lines(memory, record, &record.disks[0]);
        let mut memory = HostMemory { attempt: 3, ..HostMemory::default() };
        assert_eq!(lines(&memory, &record), ["not known: the agent did not tell"]);
        disk.contents = Some(Box::new(DiskContents::default()));
        record.disks = vec![disk];
        assert_eq!(lines(&memory, &record), ["nothing"]);
        let named = DiskIdentity { serial: "A".into(), size_bytes: 1, ..DiskIdentity::default() };
        let plan = PlanKind::Clean { disk: named };
        memory.plan = Some(IssuedPlan { number: 2, plan, issued_at: jiff::Timestamp::UNIX_EPOCH, stopped: None });
        note(&mut memory);
        note(&mut memory);
        acknowledge_changes(&mut memory, Some(&record));
        assert_eq!(memory.changed_disks.len(), 1);
        assert!(lines(&memory, &record)[0].contains("cleaned or written since"));
        for (attempt, plan, is_since) in [(3, 1, true), (2, 9, true), (3, 2, false), (3, 3, false), (4, 1, false)] {
            let record = HardwareRecord { attempt, plan, ..record.clone() };
            assert_eq!(super::is_since(&memory, &record, &record.disks[0]), is_since, "{attempt} {plan}");
        }
        record.plan = 3;
        assert_eq!(lines(&memory, &record), ["nothing"]);
        acknowledge_changes(&mut memory, Some(&record));
        assert!(memory.changed_disks.is_empty());
    }

    #[test]
    fn the_disk_of_the_installed_system_is_named_as_that() {
        let disk = |serial: &str| DiskRecord { serial: serial.into(), size_bytes: 1, ..DiskRecord::default() };
        let named = |serial: &str| DiskIdentity { serial: serial.into(), size_bytes: 1, ..DiskIdentity::default() };
        let record = HardwareRecord { disks: vec![disk("A"), disk("B")], ..HardwareRecord::default() };
        let (system, unknown) = ("the host's system, which was", "not known: it was cleaned or written");
        let silent = "not known: the agent did not tell";
        for (target, is_applied, changed, expected) in [
            ("A", true, "A", [system, silent]),
            ("A", false, "A", [unknown, silent]),
            ("A", true, "B", [silent, unknown]),
            ("B", true, "B", [silent, system]),
        ] {
            let choice = DiskChoice { disk: named(target), ..DiskChoice::default() };
            let at = jiff::Timestamp::UNIX_EPOCH;
            let disk = DiskPlan { choice, inspected_in: 1, hints: RootDeviceHints::default(), chosen_at: at };
            let memory = HostMemory {
                disk: Some(disk),
                applied: is_applied.then(|| InstalledSystem::of_others(Image::default(), 1, at)),
                changed_disks: vec![ChangedDisk { disk: named(changed), attempt: 1, plan: 1 }],
                ..HostMemory::default()
            };
            for (disk, expected) in record.disks.iter().zip(expected) {
                let lines = contents_lines(&memory, &record, disk);
                assert!(lines[0].starts_with(expected) && lines.len() == 1, "{target} {changed}: {lines:?}");
            }
        }
    }
}
