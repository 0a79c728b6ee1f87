//! The seam between the agent's work and the machine that it works on. Two implementations:
//! [`crate::machine::Machine`], and a simulated host in the tests, whose disks are files and whose
//! mounts are folders.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use firesteel_images::write::Device;
use firesteel_wire::{Disk, Identity, Inventory};

/// A disk as it is now, with everything that could forbid to write to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenDisk {
    pub disk: Disk,
    /// What uses it or one of its partitions: `sda1 is mounted at /x`.
    pub uses: Vec<String>,
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
    fn identity(&self) -> Identity;
    fn inventory(&self) -> Inventory;
    /// The whole disks as they are now; nothing is opened for writing.
    fn disks(&self) -> Vec<SeenDisk>;
    /// Root of sysfs, for device paths and firmware variables.
    fn sysfs(&self) -> PathBuf;
    fn set_clocks(&self, unix_ms: u64);
    /// Opens a disk alone, or fails while something uses it.
    fn open_disk(&self, device: &Path) -> anyhow::Result<Device>;
    /// Makes the kernel read the partition table of this disk, and of no other, again.
    fn reread_partitions(&self, disk: &Device) -> anyhow::Result<()>;
    /// The device of one partition; waits until the kernel shows it.
    fn partition_device(&self, disk: &Path, place: &PartitionPlace) -> anyhow::Result<PathBuf>;
    /// Mounts a partition without devices, set-user-id and programs; says where.
    fn mount(&self, partition: &Path, filesystem: &str, read_only: bool) -> anyhow::Result<PathBuf>;
    fn unmount(&self, mounted: &Path) -> anyhow::Result<()>;
    /// Writes out and forgets what the kernel has cached of this device.
    fn forget_cache(&self, device: &Path) -> anyhow::Result<()>;
}
