//! Before a step that destroys: whether the disk is one to be wiped, and free of what stands on it.

use std::{collections::BTreeSet, path::Path};

use firesteel_clean::{foreign::Scan, guard, look, reach};
use firesteel_contents::{Kind, Own, Owner, is_foreign, objections};
use firesteel_host::{
    Held,
    assembled::{self, Assembly},
};
use firesteel_images::write::{Device, DiskReader};
use firesteel_sysfs::attach::kernel_name;
use firesteel_wire::{Disk, DiskIdentity};

use super::{Failure, Job};
use crate::disk;

/// What the plan says of a disk that a step is to wipe or write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guarded<'a> {
    pub(super) disk: &'a DiskIdentity,
    /// See [`firesteel_wire::Step::EraseDisk`].
    pub(super) own_names: &'a [String],
    pub(super) override_guards: bool,
    /// See [`firesteel_wire::Step::EraseDisk`].
    pub(super) was_vacant: bool,
    /// See [`firesteel_wire::Step::EraseDisk`].
    pub(super) is_named: bool,
}

/// A disk that the plan means, and something of it that is open: until this is dropped its name and number can
/// come to mean no other disk, so that whatever else is opened by them is compared with this.
pub(super) struct Pinned {
    pub(super) disk: Disk,
    held: Held<dyn DiskReader>,
}

impl Pinned {
    /// Whether what was opened by the disk's name, and has this number, is this disk.
    pub(super) fn check(&self, number: u64) -> Result<(), Failure> {
        if number == self.held.number {
            return Ok(());
        }
        let error = format!("{} became another disk while it was opened; nothing was changed", self.disk.device);
        Err(Failure { error, disk_changed: false })
    }
}

/// A disk that may be wiped, held by this step alone.
pub(super) struct Opened {
    pub(super) disk: Disk,
    pub(super) device: Device,
    /// What speaks against it, and its owner overrode.
    pub(super) overridden: Vec<String>,
}

impl<'a> Guarded<'a> {
    fn own(&self) -> Own<'a> {
        Own { names: self.own_names, was_vacant: self.was_vacant, is_named: self.is_named }
    }

    /// By name alone: an array may reach to disks that were never vacant.
    fn named(&self) -> Own<'a> {
        Own { was_vacant: false, ..self.own() }
    }
}

impl Job<'_> {
    /// The disk that the plan means, as the disks are this moment; something may stand on it yet.
    pub(super) fn find(&self, wanted: &DiskIdentity) -> Result<Disk, Failure> {
        disk::resolve_held(wanted, &self.host.disks()).map_err(Failure::untouched)
    }

    /// As [`Job::find`], with the disk held: it is the one that the plan means by what was read of it after it
    /// was opened, not only by the name under which it was found.
    pub(super) fn pin(&self, wanted: &DiskIdentity) -> Result<Pinned, Failure> {
        let found = self.find(wanted)?;
        let held = self.host.look_at(Path::new(&found.device)).map_err(Failure::untouched)?;
        let seen = self.seen(held.number, &found.device)?;
        let disk = disk::resolve_held(wanted, &[seen]).map_err(Failure::untouched)?;
        Ok(Pinned { disk, held })
    }

    /// The whole way to a disk that may be changed.
    pub(super) fn open_guarded(&self, guarded: &Guarded<'_>) -> Result<Opened, Failure> {
        let pinned = self.pin(guarded.disk)?;
        self.open_pinned(guarded, &pinned, true)
    }

    /// Looks at the disk, takes apart what stands on it and opens it. `is_readable`: a drive that erases itself
    /// gives no reads, and holds nothing that could be guarded any more.
    pub(super) fn open_pinned(
        &self,
        guarded: &Guarded<'_>,
        pinned: &Pinned,
        is_readable: bool,
    ) -> Result<Opened, Failure> {
        let scan = if is_readable { look::one(self.host, &pinned.disk, &*pinned.held.opened) } else { Scan::default() };
        let overridden = self.pass(guarded, &pinned.disk, &scan)?;
        self.take_apart(guarded, &pinned.disk, &scan)?;
        let (disk, device) = self.open(guarded.disk)?;
        pinned.check(device.number())?;
        Ok(Opened { disk, device, overridden })
    }

    /// Lets the work begin, or refuses it with all reasons; the answer is what the owner overrode.
    fn pass(&self, guarded: &Guarded<'_>, disk: &Disk, scan: &Scan) -> Result<Vec<String>, Failure> {
        let sys = self.host.sysfs();
        let all: Vec<Disk> = self.host.disks().into_iter().map(|seen| seen.disk).collect();
        let loaded_from = reach::loaded_from(&sys);
        let reached = reach::read(&sys, kernel_name(disk));
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
        Err(Failure { error, disk_changed: false })
    }

    fn take_apart(&self, guarded: &Guarded<'_>, disk: &Disk, scan: &Scan) -> Result<(), Failure> {
        let found = self.host.assemblies(kernel_name(disk));
        let planned = self.planned();
        let is_own = |assembly: &Assembly| guarded.override_guards || is_own(assembly, scan, guarded.named());
        let orders = assembled::orders(&found, &planned, &is_own)
            .map_err(|why| Failure { error: format!("{} is not wiped: {why}", disk.device), disk_changed: false })?;
        for assembly in orders {
            tracing::info!("taking {assembly} apart, which stands on {}", disk.device);
            self.host.take_apart(assembly).map_err(Failure::untouched)?;
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
fn is_own(assembly: &Assembly, scan: &Scan, own: Own<'_>) -> bool {
    let kind = match assembly.kind {
        assembled::Kind::Md => Kind::Md,
        assembled::Kind::DeviceMapper => Kind::Lvm,
        assembled::Kind::Bcache | assembled::Kind::BcacheSet | assembled::Kind::Other => return false,
    };
    let mut of_kind = scan.contents.findings.iter().filter(|finding| finding.kind == kind).peekable();
    of_kind.peek().is_some()
        && of_kind.all(|finding| matches!(finding.owner, Owner::Host(_)) && !is_foreign(finding, own))
}

#[cfg(test)]
mod tests {
    use firesteel_contents::{DiskContents, Finding};

    use super::*;

    #[test]
    fn an_array_is_a_hosts_own_only_by_its_name() {
        let found = |kind, owner| Finding { place: "partition 1".into(), kind, name: "data".into(), owner };
        let scan =
            |findings| Scan { contents: DiskContents { findings, ..DiskContents::default() }, ..Scan::default() };
        let array = Assembly {
            kind: assembled::Kind::Md,
            name: "md0".into(),
            title: String::new(),
            disks: BTreeSet::new(),
            uses: Vec::new(),
            height: 0,
        };
        let names = ["node-1".to_owned()];
        let own = Own { names: &names, ..Own::default() };
        for (kind, owner, expected) in [
            (Kind::Md, Owner::Host("node-1".into()), true),
            (Kind::Md, Owner::Host("nas".into()), false),
            (Kind::Md, Owner::Unnamed, false),
            (Kind::Lvm, Owner::Host("node-1".into()), false),
        ] {
            assert_eq!(is_own(&array, &scan(vec![found(kind, owner.clone())]), own), expected, "{kind} {owner:?}");
        }
        let two = scan(vec![found(Kind::Md, Owner::Host("node-1".into())), found(Kind::Md, Owner::Host("nas".into()))]);
        assert!(!is_own(&array, &two, own), "one of two is not enough to say which");
    }
}
