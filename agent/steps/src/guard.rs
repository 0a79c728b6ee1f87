//! The checks before a step that destroys: whether the disk is one to be wiped, and free of what stands on it.

use std::{collections::BTreeSet, path::Path};

use firesteel_clean::{disk_access, foreign::Scan, guard, scan_disks};
use firesteel_contents::{ContentKind, ContentOwner, OwnershipClaim, is_foreign, objections};
use firesteel_host::HeldDisk;
use firesteel_host::assembled::{self, AssembledDevice};
use firesteel_images::write::{DiskReader, ExclusiveDisk};
use firesteel_sysfs::attach::kernel_name;
use firesteel_wire::{DiskIdentity, InventoryDisk};

use super::{StepContext, StepFailure};
use crate::disk;

/// What the plan says of a disk that a step is to wipe or write.
#[derive(Clone, Copy, Debug)]
pub(super) struct DestructiveTarget<'a> {
    pub(super) disk: &'a DiskIdentity,
    /// See [`firesteel_wire::PlanStep::EraseDisk`].
    pub(super) own_names: &'a [String],
    pub(super) override_guards: bool,
    /// See [`firesteel_wire::PlanStep::EraseDisk`].
    pub(super) was_vacant: bool,
    /// See [`firesteel_wire::PlanStep::EraseDisk`].
    pub(super) is_named: bool,
}

/// A disk that the plan means, and something of it that is open: until this is dropped its name and number can
/// come to mean no other disk, so that whatever else is opened by them is compared with this.
pub(super) struct Pinned {
    pub(super) disk: InventoryDisk,
    held: HeldDisk<dyn DiskReader>,
}

impl Pinned {
    /// Whether what was opened by the disk's name, and has this number, is this disk.
    pub(super) fn check(&self, number: u64) -> Result<(), StepFailure> {
        if number == self.held.number {
            return Ok(());
        }
        let error = format!("{} became another disk while it was opened; nothing was changed", self.disk.device);
        Err(StepFailure { error, disk_changed: false })
    }
}

/// A disk that may be wiped, held by this step alone.
pub(super) struct GuardedDisk {
    pub(super) disk: InventoryDisk,
    pub(super) device: ExclusiveDisk,
    /// What speaks against it, and its owner overrode.
    pub(super) overridden: Vec<String>,
}

impl<'a> DestructiveTarget<'a> {
    fn own(&self) -> OwnershipClaim<'a> {
        OwnershipClaim { names: self.own_names, was_vacant: self.was_vacant, is_named: self.is_named }
    }

    /// The claim by name alone: an array may reach to disks that were never vacant.
    fn named(&self) -> OwnershipClaim<'a> {
        OwnershipClaim { was_vacant: false, ..self.own() }
    }
}

impl StepContext<'_> {
    /// The disk that the plan means, as the disks are this moment; something may stand on it yet.
    pub(super) fn find(&self, wanted: &DiskIdentity) -> Result<InventoryDisk, StepFailure> {
        disk::resolve_held(wanted, &self.host.disks()).map_err(StepFailure::without_disk_change)
    }

    /// Finds a disk like [`StepContext::find`] and holds it: it is the one that the plan means by what was read of it
    /// after it was opened, not only by the name under which it was found.
    pub(super) fn pin(&self, wanted: &DiskIdentity) -> Result<Pinned, StepFailure> {
        let found = self.find(wanted)?;
        let held = self.host.inspect_disk(Path::new(&found.device)).map_err(StepFailure::without_disk_change)?;
        let seen = self.seen(held.number, &found.device)?;
        let disk = disk::resolve_held(wanted, &[seen]).map_err(StepFailure::without_disk_change)?;
        Ok(Pinned { disk, held })
    }

    /// The whole way to a disk that may be changed.
    pub(super) fn open_guarded(&self, guarded: &DestructiveTarget<'_>) -> Result<GuardedDisk, StepFailure> {
        let pinned = self.pin(guarded.disk)?;
        self.open_pinned(guarded, &pinned, true)
    }

    /// Looks at the disk, takes apart what stands on it and opens it. `is_readable`: a drive that erases itself
    /// gives no reads, and holds nothing that could be guarded any more.
    pub(super) fn open_pinned(
        &self,
        guarded: &DestructiveTarget<'_>,
        pinned: &Pinned,
        is_readable: bool,
    ) -> Result<GuardedDisk, StepFailure> {
        let scan =
            if is_readable { scan_disks::one(self.host, &pinned.disk, &*pinned.held.opened) } else { Scan::default() };
        let overridden = self.pass(guarded, &pinned.disk, &scan)?;
        self.take_apart(guarded, &pinned.disk, &scan)?;
        let (disk, device) = self.open(guarded.disk)?;
        pinned.check(device.number())?;
        Ok(GuardedDisk { disk, device, overridden })
    }

    /// Lets the work begin, or refuses it with all reasons; the answer is what the owner overrode.
    fn pass(
        &self,
        guarded: &DestructiveTarget<'_>,
        disk: &InventoryDisk,
        scan: &Scan,
    ) -> Result<Vec<String>, StepFailure> {
        let sys = self.host.sysfs();
        let all: Vec<InventoryDisk> = self.host.disks().into_iter().map(|seen| seen.disk).collect();
        let loaded_from = disk_access::loaded_from(&sys);
        let reached = disk_access::read(&sys, kernel_name(disk));
        let contents = guard::contents(scan, disk, &reached, &all, loaded_from.as_deref());
        let objections = objections(&contents, guarded.own());
        if objections.is_empty() {
            return Ok(objections);
        }
        let why = objections.join("; ");
        if guarded.override_guards {
            tracing::warn!("{} is wiped because its owner says so, although: {why}", disk.device);
            return Ok(objections);
        }
        let error = format!(
            "{} ({}) is not wiped: {why}. If it is to be wiped all the same, its owner overrides this guard",
            disk.device, guarded.disk
        );
        Err(StepFailure { error, disk_changed: false })
    }

    fn take_apart(
        &self,
        guarded: &DestructiveTarget<'_>,
        disk: &InventoryDisk,
        scan: &Scan,
    ) -> Result<(), StepFailure> {
        let found = self.host.assemblies(kernel_name(disk));
        let planned = self.planned();
        let is_own = |assembly: &AssembledDevice| guarded.override_guards || is_own(assembly, scan, guarded.named());
        if let Some(why) = assembled::refusal(&found, &planned, &is_own) {
            return Err(StepFailure { error: format!("{} is not wiped: {why}", disk.device), disk_changed: false });
        }
        for assembly in &found {
            tracing::info!("{assembly} stands on {} and is taken apart", disk.device);
            self.host.take_apart(assembly).map_err(StepFailure::without_disk_change)?;
        }
        Ok(())
    }

    /// Kernel names of all disks that this plan wipes or writes.
    fn planned(&self) -> BTreeSet<String> {
        let disks = self.host.disks();
        let named = self.steps.iter().filter(|step| step.is_destructive()).filter_map(|step| step.disk());
        named
            .filter_map(|wanted| disk::resolve_held(wanted, &disks).ok())
            .map(|disk| kernel_name(&disk).to_owned())
            .collect()
    }
}

/// Whether the disk itself says that what stands on it is of a volume of this host.
fn is_own(assembly: &AssembledDevice, scan: &Scan, own: OwnershipClaim<'_>) -> bool {
    let kind = match assembly.kind {
        assembled::AssembledDriver::Md => ContentKind::Md,
        assembled::AssembledDriver::DeviceMapper => ContentKind::Lvm,
        assembled::AssembledDriver::Bcache
        | assembled::AssembledDriver::BcacheSet
        | assembled::AssembledDriver::Other => return false,
    };
    let mut of_kind = scan.contents.findings.iter().filter(|finding| finding.kind == kind).peekable();
    of_kind.peek().is_some()
        && of_kind.all(|finding| matches!(finding.owner, ContentOwner::Host(_)) && !is_foreign(finding, own))
}

#[cfg(test)]
mod tests {
    use firesteel_contents::{DiskContents, ProtectedContent};

    use super::*;

    #[test]
    fn an_array_is_a_hosts_own_only_by_its_name() {
        let found = |kind, owner| ProtectedContent { place: "partition 1".into(), kind, name: "data".into(), owner };
        let scan =
            |findings| Scan { contents: DiskContents { findings, ..DiskContents::default() }, ..Scan::default() };
        let array = AssembledDevice {
            kind: assembled::AssembledDriver::Md,
            name: "md0".into(),
            title: String::new(),
            disks: BTreeSet::new(),
            uses: Vec::new(),
            height: 0,
        };
        let names = ["node-1".to_owned()];
        let own = OwnershipClaim { names: &names, ..OwnershipClaim::default() };
        for (kind, owner, expected) in [
            (ContentKind::Md, ContentOwner::Host("node-1".into()), true),
            (ContentKind::Md, ContentOwner::Host("nas".into()), false),
            (ContentKind::Md, ContentOwner::Unnamed, false),
            (ContentKind::Lvm, ContentOwner::Host("node-1".into()), false),
        ] {
            assert_eq!(is_own(&array, &scan(vec![found(kind, owner.clone())]), own), expected, "{kind} {owner:?}");
        }
        let two = scan(vec![
            found(ContentKind::Md, ContentOwner::Host("node-1".into())),
            found(ContentKind::Md, ContentOwner::Host("nas".into())),
        ]);
        assert!(!is_own(&array, &two, own), "one of two is not enough to say which");
    }
}
