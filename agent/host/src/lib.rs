//! The seam between the agent's work and the machine that it works on. It has two implementations: the real machine
//! (`firesteel_linux_host`), and the tests' simulated host, whose disks are files and whose mounts are folders.
//!
//! `firesteel_steps` and `firesteel_clean` work on it. It knows neither steps nor how a disk is erased. [`assembled`]
//! is what the kernel assembled from a disk and may have to be taken apart.

pub mod assembled;

use std::path::{Path, PathBuf};
use std::time::Duration;

use firesteel_drives::port::Port;
use firesteel_images::write::{DiskReader, ExclusiveDisk};
use firesteel_sysfs::disks::PresentDisk;
use firesteel_wire::{Inventory, SmbiosIdentity};

use crate::assembled::AssembledDevice;

/// Something of a disk that is open. Names and numbers of disks go to others only when nothing of them is open
/// any more, so what this number means now it means until this is dropped.
pub struct HeldDisk<T: ?Sized> {
    /// The kernel's number of the disk, as [`ExclusiveDisk::number`].
    pub number: u64,
    pub opened: Box<T>,
}

impl<T: ?Sized> std::fmt::Debug for HeldDisk<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldDisk").field("number", &self.number).finish_non_exhaustive()
    }
}

/// One partition of a disk, by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPlace {
    /// Counts from 1.
    pub number: u32,
    pub offset_bytes: u64,
    pub size_bytes: u64,
}

/// What the steps need of the machine.
pub trait Host: Send + Sync + 'static {
    /// Time since the kernel's start.
    fn uptime(&self) -> Duration;
    fn boot_id(&self) -> String;
    fn kernel_version(&self) -> String;
    fn identity(&self) -> SmbiosIdentity;
    fn inventory(&self) -> Inventory;
    /// The whole disks as they are now; nothing is opened for writing.
    fn disks(&self) -> Vec<PresentDisk>;
    /// The whole disk that has this number now, with its identity read again; `None` when it is gone.
    fn numbered(&self, number: u64) -> Option<PresentDisk>;
    /// Root of sysfs, for device paths and firmware variables.
    fn sysfs(&self) -> PathBuf;
    fn set_clocks(&self, unix_ms: u64);
    /// Opens a disk alone, or fails while something uses it.
    fn open_disk(&self, device: &Path) -> anyhow::Result<ExclusiveDisk>;
    /// Reads a disk that others may hold: past the kernel's cache, and without a claim to it.
    fn inspect_disk(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn DiskReader>>;
    /// What is assembled from the disk with this kernel name, the highest first.
    fn assemblies(&self, disk: &str) -> Vec<AssembledDevice>;
    /// Takes one apart, and returns when its disks are free of it; what they hold stays.
    fn take_apart(&self, assembly: &AssembledDevice) -> anyhow::Result<()>;
    /// How commands reach the drive behind a disk.
    fn commands(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn Port>>;
    /// Makes the kernel read the partition table of this disk, and of no other, again.
    fn reread_partitions(&self, disk: &ExclusiveDisk) -> anyhow::Result<()>;
    /// The device of one partition; waits until the kernel shows it.
    fn partition_device(&self, disk: &Path, place: &PartitionPlace) -> anyhow::Result<PathBuf>;
    /// Mounts a partition without devices, set-user-id and programs; says where.
    fn mount(&self, partition: &Path, filesystem: &str, read_only: bool) -> anyhow::Result<PathBuf>;
    fn unmount(&self, mounted: &Path) -> anyhow::Result<()>;
    /// Writes out and forgets what the kernel has cached of this device.
    fn forget_cache(&self, device: &Path) -> anyhow::Result<()>;
}
