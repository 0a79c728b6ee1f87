//! Whose data the host's disks may hold, and whether another owner is next.
//!
//! The consumer (`spec.consumerRef`) for whom something was installed is remembered until its data was erased.
//! While the reference still names it, the next installation is for the same owner. Once the reference is gone
//! or names another one, or the host itself goes, another owner is next, and then the policy between owners
//! holds: a consumer unbooks a host after its image is gone, so that the change mostly comes while the host is
//! available, and the disks are erased before it has an owner again.
//!
//! A host without a consumer is its owner's alone; its first consumer has no predecessor, unless an earlier host of
//! this machine left data uncleaned (its tombstone): then another owner is next, too, until the disks were erased.

use firesteel_resources::{HardwareRecord, ObjectReference, bare_metal_host::BareMetalHostSpec};

use crate::disk::{DiskIdentity, NextOwner, holders, unite};
use crate::host::model::{HostMemory, HostState};
use crate::host::rules::{tombstone, vacancy};
use crate::host::turn::StepDraft;

/// What names a consumer: not its UID, which changes when it is moved to another cluster with all it has.
fn name_of(reference: &ObjectReference) -> String {
    format!("{} {}/{}", reference.kind, reference.namespace, reference.name)
}

fn consumer(spec: &BareMetalHostSpec) -> Option<String> {
    spec.consumer_ref.as_ref().filter(|reference| !reference.name.is_empty()).map(name_of)
}

/// Remembers for whom the host's disks are written.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    // An OS that was not installed from here was not written for a consumer.
    if turn.memory.tenant.is_none() && turn.memory.disk_dirty {
        turn.memory.tenant = consumer(&turn.seen.host.spec);
        turn.memory.tenant_is_new = turn.memory.tenant.is_some() && turn.memory.state == HostState::Provisioning;
    }
    // An older memory has no targets.
    if turn.memory.tenant.is_some() && turn.memory.disk_dirty && turn.memory.tenant_targets.is_empty() {
        let target = turn.memory.disk.as_ref().map(|disk| disk.identity().clone());
        unite(&mut turn.memory.tenant_targets, target);
    }
}

/// Notes that something was, or may have been, written for the tenant.
pub(crate) fn confirm(turn: &mut StepDraft<'_>) {
    turn.memory.tenant_is_new = false;
}

/// Ends a write that wrote nothing: a tenant that counts because of it alone left nothing.
pub(crate) fn withdraw(turn: &mut StepDraft<'_>) {
    if turn.memory.tenant_is_new {
        forget(turn);
    }
}

/// Names that the installation which begins now may give to volumes and arrays: a node is mostly called as its
/// host, or as the consumer that it serves.
pub(crate) fn name(turn: &mut StepDraft<'_>) {
    let consumer = turn.seen.host.spec.consumer_ref.as_ref().map(|reference| reference.name.clone());
    let own = [Some(turn.seen.host.metadata.name.clone()), consumer];
    turn.memory.names = own.into_iter().flatten().filter(|name| !name.is_empty()).collect();
    turn.memory.names.dedup();
    if turn.memory.tenant.is_none() {
        // What the host had before belongs to no tenant.
        turn.memory.tenant_disks.clear();
        turn.memory.tenant_targets.clear();
    }
    notice(turn);
    let seen = turn.seen.hardware.as_ref().map(|record| holders(&record.disks)).unwrap_or_default();
    unite(&mut turn.memory.tenant_disks, seen);
    let target = turn.memory.disk.as_ref().map(|disk| disk.identity().clone());
    // One without a name of its own is not among those that are seen.
    unite(&mut turn.memory.tenant_disks, target.clone());
    unite(&mut turn.memory.tenant_targets, target);
}

/// The disks of installations that a cleaning is about: for the same owner the one that was written since it was
/// clean; for another one all that the tenant's systems were on, written since or not: a consumer unbooks a host
/// after its image is gone and that disk's metadata with it.
pub(crate) fn targets(memory: &HostMemory, next: NextOwner) -> Vec<DiskIdentity> {
    let written = memory.disk.as_ref().filter(|_| memory.disk_dirty).map(|disk| disk.identity().clone());
    let mut targets = match next {
        NextOwner::Same => Vec::new(),
        NextOwner::Another => memory.tenant_targets.clone(),
    };
    unite(&mut targets, written);
    targets
}

/// The only disk that the tenant can have left data on; `None` where there may be others.
pub(crate) fn only_disk(memory: &HostMemory) -> Option<&DiskIdentity> {
    match memory.tenant_disks.as_slice() {
        [only] if memory.tenant_targets.iter().all(|target| target == only) => Some(only),
        _ => None,
    }
}

/// Who gets the host's disks next, as it looks now.
pub(crate) fn next_owner(turn: &StepDraft<'_>) -> NextOwner {
    next_of(&turn.seen.host.spec, &turn.memory, turn.seen.hardware.as_ref(), turn.is_deleting())
}

/// A consumer for whom the host is booked and who is not the one for whom it was installed: tenant and consumer.
pub(crate) fn different_consumer(spec: &BareMetalHostSpec, tenant: Option<&str>) -> Option<(String, String)> {
    let (tenant, now) = (tenant?, consumer(spec)?);
    (tenant != now).then(|| (tenant.to_owned(), now))
}

/// Pure: `tenant` is whose data is there, `now` whom the host is booked for.
pub(crate) fn next(tenant: Option<&str>, now: Option<&str>, goes: bool) -> NextOwner {
    match tenant {
        Some(tenant) if goes || now != Some(tenant) => NextOwner::Another,
        Some(_) | None => NextOwner::Same,
    }
}

/// Decides [`next`] for a host as it is stored.
pub(crate) fn next_of(
    spec: &BareMetalHostSpec,
    memory: &HostMemory,
    record: Option<&HardwareRecord>,
    goes: bool,
) -> NextOwner {
    if !goes && memory.uncleaned.as_ref().is_some_and(|left| tombstone::means_all(left, record)) {
        return NextOwner::Another;
    }
    next(memory.tenant.as_deref(), consumer(spec).as_deref(), goes)
}

/// What the last owner left is cleaned as far as is due: the host is another one's from now on.
pub(crate) fn pass_on(turn: &mut StepDraft<'_>) {
    let shown = turn.receipts();
    vacancy::pass_on(turn, &shown);
    forget(turn);
}

/// Forgets an owner of whom nothing is left.
fn forget(turn: &mut StepDraft<'_>) {
    turn.memory.tenant = None;
    turn.memory.tenant_is_new = false;
    turn.memory.tenant_disks.clear();
    turn.memory.tenant_targets.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_next() {
        for (tenant, now, goes, expected) in [
            (None, None, false, NextOwner::Same),
            (None, Some("A"), false, NextOwner::Same),
            (None, None, true, NextOwner::Same),
            (Some("A"), Some("A"), false, NextOwner::Same),
            (Some("A"), Some("B"), false, NextOwner::Another),
            (Some("A"), None, false, NextOwner::Another),
            (Some("A"), Some("A"), true, NextOwner::Another),
        ] {
            assert_eq!(next(tenant, now, goes), expected, "{tenant:?} {now:?} {goes}");
        }
    }
}
