//! A tombstone: the record that a host was let go before its disk was cleaned. It stays with the machine, and the
//! next host of that machine says so until the disk was cleaned; where a tenant left it, erased. One that a tenant left
//! and that names no disk stands for all of the machine: they are erased as between two owners before an OS comes. One
//! that names a disk is shown; if the machine has no other, and a tenant left it, it stands for all as well.
//!
//! What a host without a tenant left is its owner's own, who may only have created the host again: such a tombstone is
//! shown, and nothing is erased for it; the installation that takes its disk clears it as any other of that owner.

use firesteel_facts::EventReason;
use firesteel_resources::HardwareRecord;

use crate::disk::{CleaningMethod, DiskIdentity, holders};
use crate::host::model::{HostEffect, Tombstone};
use crate::host::turn::StepDraft;

/// Takes note of a tombstone that stands for this host's machine; one that is settled goes.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    match (&turn.memory.uncleaned, &turn.seen.uncleaned) {
        (None, Some(found)) => {
            turn.warn(EventReason::Uncleaned, found.to_string());
            let memory = &turn.memory;
            let is_told_only = memory.disk_dirty || memory.applied.is_some() || memory.tenant.is_some();
            turn.memory.uncleaned = Some(Tombstone { is_told_only, ..found.clone() });
        }
        (Some(known), Some(_)) if known.is_settled => turn.effect(HostEffect::ForgetTombstone),
        // Removed by this host's effect, or by a person.
        (Some(known), None) if known.is_settled => turn.memory.uncleaned = None,
        (_, _) => {}
    }
}

/// Whether all disks of the machine are to be erased before it has an owner. Pure.
pub(crate) fn means_all(left: &Tombstone, record: Option<&HardwareRecord>) -> bool {
    let is_only = || {
        let all = record.map(|record| holders(&record.disks)).unwrap_or_default();
        !all.is_empty() && all.iter().all(|disk| disk.to_string() == left.disk)
    };
    left.of_tenant && !left.is_settled && !left.is_told_only && (left.disk.is_empty() || is_only())
}

/// Keeps the tombstone as a notice: from now on the disks hold what is this owner's.
pub(crate) fn keep_as_notice(turn: &mut StepDraft<'_>) {
    if let Some(known) = &mut turn.memory.uncleaned {
        known.is_told_only = true;
    }
}

/// This disk was cleaned so far, as also an installation does before it writes. That is what an owner's own disk gets
/// between two hosts; what a tenant left is gone when it was erased. A tombstone that names none is not settled by one
/// disk.
pub(crate) fn clear_tombstone(turn: &mut StepDraft<'_>, disk: &DiskIdentity, cleaned: CleaningMethod) {
    if let Some(known) = &mut turn.memory.uncleaned
        && known.disk == disk.to_string()
        && (cleaned > CleaningMethod::Metadata || !known.of_tenant)
    {
        known.is_settled = true;
    }
}

/// Whatever was left on any disk of the machine is gone.
pub(crate) fn clear_all_tombstones(turn: &mut StepDraft<'_>) {
    if let Some(known) = &mut turn.memory.uncleaned {
        known.is_settled = true;
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::Image;
    use firesteel_resources::hardware::DiskRecord;

    use super::*;
    use crate::host::model::{HostInputs, HostState, InstalledSystem};
    use crate::host::sample::{now, with_bmc};

    fn disk(serial: &str) -> DiskRecord {
        DiskRecord { serial: serial.into(), size_bytes: 1 << 30, ..DiskRecord::default() }
    }

    fn named(serial: &str) -> DiskIdentity {
        DiskIdentity { serial: serial.into(), size_bytes: 1 << 30, ..DiskIdentity::default() }
    }

    /// A tombstone that a tenant left.
    fn left(disk: &str) -> Tombstone {
        let (is_settled, is_told_only) = (false, false);
        Tombstone {
            host: "default/old".into(),
            disk: disk.into(),
            at: now(),
            of_tenant: true,
            is_settled,
            is_told_only,
        }
    }

    fn record(serials: &[&str]) -> HardwareRecord {
        HardwareRecord { disks: serials.iter().map(|serial| disk(serial)).collect(), ..HardwareRecord::default() }
    }

    #[test]
    fn all_disks_are_meant_by_what_a_tenant_left_somewhere_or_on_the_only_one() {
        let a = named("A").to_string();
        for (tombstone, record, expected) in [
            (left(""), None, true),
            (left(""), Some(record(&["A", "B"])), true),
            (left(&a), Some(record(&["A"])), true),
            (left(&a), Some(record(&["A", "B"])), false),
            (left(&a), Some(record(&["B"])), false),
            (left(&a), Some(record(&[])), false),
            (left(&a), None, false),
            (Tombstone { of_tenant: false, ..left("") }, None, false),
            (Tombstone { is_settled: true, ..left("") }, None, false),
            (Tombstone { is_told_only: true, ..left("") }, None, false),
            (Tombstone { is_settled: true, ..left(&a) }, Some(record(&["A"])), false),
        ] {
            assert_eq!(means_all(&tombstone, record.as_ref()), expected, "{tombstone:?} {record:?}");
        }
    }

    /// What a host has of its own when a tombstone is found, and whether that is more than a notice then.
    #[test]
    fn a_tombstone_is_only_shown_where_the_host_has_data_of_its_own() {
        type Row = (&'static str, fn(&mut HostInputs), bool);
        let rows: [Row; 4] = [
            ("nothing", |_| {}, false),
            ("a disk that was written", |seen| seen.memory.disk_dirty = true, true),
            (
                "an OS",
                |seen| {
                    seen.memory.applied = Some(InstalledSystem::of_others(Image::default(), 1, now()));
                },
                true,
            ),
            ("a tenant", |seen| seen.memory.tenant = Some("one".into()), true),
        ];
        for (what, change, is_told_only) in rows {
            let mut seen = with_bmc(HostState::Available);
            seen.uncleaned = Some(left(""));
            change(&mut seen);
            let mut turn = StepDraft::new(&seen, now());
            notice(&mut turn);
            assert_eq!(turn.memory.uncleaned, Some(Tombstone { is_told_only, ..left("") }), "{what}");
        }
    }

    /// It is looked for no more once the host was inspected, which settles nothing.
    #[test]
    fn a_tombstone_goes_once_it_is_settled_and_not_because_it_is_not_seen() {
        let settled = || Tombstone { is_settled: true, ..left("") };
        for (known, found, is_kept, is_removed) in [
            (left(""), Some(left("")), true, false),
            (left(""), None, true, false),
            (settled(), Some(left("")), true, true),
            (settled(), None, false, false),
        ] {
            let mut seen = with_bmc(HostState::Available);
            (seen.memory.uncleaned, seen.uncleaned) = (Some(known.clone()), found.clone());
            let mut turn = StepDraft::new(&seen, now());
            notice(&mut turn);
            assert_eq!(turn.memory.uncleaned, is_kept.then_some(known.clone()), "{known:?} {found:?}");
            let step = turn.finish(crate::host::model::HostReason::new("so it is"));
            assert_eq!(step.effects, if is_removed { vec![HostEffect::ForgetTombstone] } else { Vec::new() });
        }
    }

    #[test]
    fn a_tombstone_is_settled_by_what_is_due_to_whose_data_it_is_about() {
        use CleaningMethod::{Full, Metadata, Quick};
        for (of_tenant, cleaned, method, is_settled) in [
            (true, "A", Metadata, false),
            (true, "A", Quick, true),
            (true, "A", Full, true),
            (true, "B", Full, false),
            (false, "A", Metadata, true),
            (false, "A", Full, true),
            (false, "B", Metadata, false),
        ] {
            let mut seen = with_bmc(HostState::Deprovisioning);
            seen.memory.uncleaned = Some(Tombstone { of_tenant, ..left(&named("A").to_string()) });
            let mut turn = StepDraft::new(&seen, now());
            clear_tombstone(&mut turn, &named(cleaned), method);
            let found = turn.memory.uncleaned.map(|left| left.is_settled);
            assert_eq!(found, Some(is_settled), "{of_tenant} {cleaned} {method:?}");
        }
    }
}
