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
