//! The disk that takes the hand-off: the one that the plan names, with its partitions as they are now.

use std::path::{Path, PathBuf};

use anyhow::bail;
use firesteel_host::HeldDisk;
use firesteel_images::write::{DiskReader, ExclusiveDisk, gpt::GptTable};
use firesteel_wire::DiskIdentity;

use crate::disk::boot_partition::{MountablePartition, filesystems};
use crate::{StepContext, table_of};

pub(super) struct HandOffDisk<'a> {
    pub(super) job: &'a StepContext<'a>,
    wanted: &'a DiskIdentity,
    pub(super) disk: PathBuf,
    pub(super) table: GptTable,
    pub(super) found: Vec<MountablePartition>,
    held: HeldDisk<dyn DiskReader>,
}

impl<'a> HandOffDisk<'a> {
    pub(super) fn new(
        job: &'a StepContext<'a>,
        wanted: &'a DiskIdentity,
        disk: &Path,
        device: ExclusiveDisk,
    ) -> anyhow::Result<Self> {
        let (reader, table) = table_of(&device)?;
        let found = filesystems(&*reader, &table)?;
        drop(reader);
        job.host.reread_partitions(&device)?;
        // The kernel refuses to mount what is opened exclusively. Held otherwise, the name keeps meaning this disk.
        let held = job.host.inspect_disk(disk)?;
        if held.number != device.number() {
            bail!("{} became another disk while it was open", disk.display());
        }
        drop(device);
        Ok(Self { job, wanted, disk: disk.to_owned(), table, found, held })
    }

    pub(super) fn reader(&self) -> &dyn DiskReader {
        &*self.held.opened
    }

    /// The kernel's number of the disk.
    pub(super) fn number(&self) -> u64 {
        self.held.number
    }

    /// Opens the same disk for this step alone: nothing of it may be mounted.
    pub(super) fn open_alone(&self) -> anyhow::Result<ExclusiveDisk> {
        let (disk, device) = self.job.open(self.wanted)?;
        if device.number() != self.held.number {
            bail!("{} became another disk during the hand-off", disk.device);
        }
        Ok(device)
    }
}
