//! Disks that their place alone names: what an installation bound such a place to, and how a person binds it to another
//! disk.
//!
//! A disk of another size, or one with a WWN or serial number where the bound one had none, is another disk: whatever was
//! to be done to it stops. `firesteel retry` after that has the host inspected, and the place means the disk that is
//! there then. Its mark still has to be an own one, or none ([`super::freeze`]).

use firesteel_facts::EventReason;
use firesteel_resources::HardwareRecord;

use crate::disk::{DiskChoice, DiskIdentity, OwnerNamedPlaces, identity, record_of};
use crate::host::model::HostMemory;
use crate::host::turn::StepDraft;

/// What the place of this disk was bound to, if that is another disk.
pub(crate) fn bound<'a>(memory: &'a HostMemory, choice: &DiskChoice) -> Option<&'a DiskIdentity> {
    let at_place = |known: &&DiskIdentity| known.is_by_path() && known.by_path == choice.by_path;
    memory.tenant_targets.iter().rev().find(at_place).filter(|known| **known != choice.disk)
}

/// A person asks to try again, and the newest inspection found other disks in places: those are meant.
pub(crate) fn ask(turn: &mut StepDraft<'_>) {
    if is_drifted(turn) {
        turn.memory.rebind_paths = Some(turn.now);
    }
}

/// Says whether the newest inspection found other disks in places that are bound.
pub(crate) fn is_drifted(turn: &StepDraft<'_>) -> bool {
    let is_drifted = |record: &HardwareRecord| !changes(&known(&turn.memory), record).is_empty();
    turn.seen.hardware.as_ref().is_some_and(is_drifted)
}

/// Binds places to what the first inspection finds there since a person asked for it.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    let Some(asked_at) = turn.memory.rebind_paths else { return };
    let is_since = |record: &&HardwareRecord| record.inspected_at >= asked_at;
    let Some(record) = turn.seen.hardware.as_ref().filter(is_since) else { return };
    turn.memory.rebind_paths = None;
    for (old, new) in changes(&known(&turn.memory), record) {
        let text = format!("{old} is not there any more, and its path means {new} from now on");
        turn.warn(EventReason::PathRebound, text);
        replace(&mut turn.memory, &old, &new);
    }
}

/// All disks that are remembered of installations.
fn known(memory: &HostMemory) -> Vec<DiskIdentity> {
    let chosen = memory.disk.iter().map(|plan| plan.identity());
    chosen.chain(&memory.tenant_targets).chain(&memory.tenant_disks).cloned().collect()
}

/// Pure: the identities of places whose disk is another one now, once each.
fn changes(known: &[DiskIdentity], record: &HardwareRecord) -> Vec<(DiskIdentity, DiskIdentity)> {
    let mut changes: Vec<(DiskIdentity, DiskIdentity)> = Vec::new();
    for old in known.iter().filter(|old| old.is_by_path() && record_of(old, &record.disks).is_none()) {
        let mut there = record.disks.iter().filter(|disk| disk.by_path == old.by_path);
        let (Some(disk), None) = (there.next(), there.next()) else { continue };
        let word = OwnerNamedPlaces { installed: std::slice::from_ref(old), ..OwnerNamedPlaces::default() };
        let Ok(new) = identity(&word, disk, &record.disks) else { continue };
        if changes.iter().all(|(changed, _)| changed != old) {
            changes.push((old.clone(), new));
        }
    }
    changes
}

fn replace(memory: &mut HostMemory, old: &DiskIdentity, new: &DiskIdentity) {
    let chosen = memory.disk.as_mut().map(|plan| &mut plan.choice.disk);
    let known = memory.tenant_targets.iter_mut().chain(&mut memory.tenant_disks).chain(chosen);
    known.filter(|disk| *disk == old).for_each(|disk| disk.clone_from(new));
}

#[cfg(test)]
mod tests {
    use firesteel_resources::hardware::DiskRecord;

    use super::*;

    fn disk(size_gb: u64, serial: &str) -> DiskRecord {
        DiskRecord {
            device: "/dev/vda".into(),
            by_path: "/dev/disk/by-path/pci-0000:04:00.0".into(),
            serial: serial.into(),
            size_bytes: size_gb << 30,
            ..DiskRecord::default()
        }
    }

    #[test]
    fn a_place_is_bound_to_what_is_there_now() {
        let old = DiskIdentity {
            by_path: "/dev/disk/by-path/pci-0000:04:00.0".into(),
            size_bytes: 8 << 30,
            ..DiskIdentity::default()
        };
        let record = |disks: Vec<DiskRecord>| HardwareRecord { disks, ..HardwareRecord::default() };
        let known = [old.clone(), old.clone()];
        assert!(changes(&known, &record(vec![disk(8, "")])).is_empty(), "it is there");
        assert!(changes(&known, &record(Vec::new())).is_empty(), "nothing is there");
        let grown = changes(&known, &record(vec![disk(9, "")]));
        assert_eq!(grown, [(old.clone(), DiskIdentity { size_bytes: 9 << 30, ..old.clone() })]);
        let named = changes(&known, &record(vec![disk(8, "S1")]));
        assert!(named.len() == 1 && named[0].1.serial == "S1" && !named[0].1.is_by_path(), "{named:?}");

        let mut memory = HostMemory { tenant_targets: known.to_vec(), ..HostMemory::default() };
        let choice = |disk: &DiskIdentity, place: &str| DiskChoice {
            disk: disk.clone(),
            by_path: format!("/dev/disk/by-path/{place}"),
            ..DiskChoice::default()
        };
        for (_, new) in grown.iter().chain(&named) {
            assert_eq!(bound(&memory, &choice(new, "pci-0000:04:00.0")), Some(&old));
        }
        assert_eq!(bound(&memory, &choice(&grown[0].1, "pci-0000:05:00.0")), None, "another place");
        replace(&mut memory, &old, &grown[0].1);
        assert_eq!(bound(&memory, &choice(&grown[0].1, "pci-0000:04:00.0")), None);
    }
}
