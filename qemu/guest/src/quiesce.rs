//! The machine with its disks as they were at one moment: with hundreds of them, to read all of sysfs again for each step
//! takes most of the time. What a step opens is compared with the disk of this moment all the same, by its number.

use std::path::{Path, PathBuf};
use std::time::Duration;

use firesteel_drives::port::Port;
use firesteel_host::{HeldDisk, Host, PartitionPlace, assembled::AssembledDevice};
use firesteel_images::write::{DiskReader, ExclusiveDisk};
use firesteel_linux_host::LinuxHost;
use firesteel_sysfs::disks::PresentDisk;
use firesteel_wire::{Inventory, SmbiosIdentity};

pub(crate) struct QuiescentDisks {
    machine: LinuxHost,
    disks: Vec<PresentDisk>,
}

impl QuiescentDisks {
    pub(crate) fn of(machine: LinuxHost) -> Self {
        Self { disks: machine.disks(), machine }
    }
}

impl Host for QuiescentDisks {
    fn disks(&self) -> Vec<PresentDisk> {
        self.disks.clone()
    }

    fn uptime(&self) -> Duration {
        self.machine.uptime()
    }

    fn boot_id(&self) -> String {
        self.machine.boot_id()
    }

    fn kernel_version(&self) -> String {
        self.machine.kernel_version()
    }

    fn identity(&self) -> SmbiosIdentity {
        self.machine.identity()
    }

    fn inventory(&self) -> Inventory {
        self.machine.inventory()
    }

    fn numbered(&self, number: u64) -> Option<PresentDisk> {
        self.machine.numbered(number)
    }

    fn sysfs(&self) -> PathBuf {
        self.machine.sysfs()
    }

    fn set_clocks(&self, unix_ms: u64) {
        self.machine.set_clocks(unix_ms);
    }

    fn open_disk(&self, device: &Path) -> anyhow::Result<ExclusiveDisk> {
        self.machine.open_disk(device)
    }

    fn inspect_disk(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn DiskReader>> {
        self.machine.inspect_disk(device)
    }

    fn assemblies(&self, disk: &str) -> Vec<AssembledDevice> {
        self.machine.assemblies(disk)
    }

    fn take_apart(&self, assembly: &AssembledDevice) -> anyhow::Result<()> {
        self.machine.take_apart(assembly)
    }

    fn commands(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn Port>> {
        self.machine.commands(device)
    }

    fn reread_partitions(&self, disk: &ExclusiveDisk) -> anyhow::Result<()> {
        self.machine.reread_partitions(disk)
    }

    fn partition_device(&self, disk: &Path, place: &PartitionPlace) -> anyhow::Result<PathBuf> {
        self.machine.partition_device(disk, place)
    }

    fn mount(&self, partition: &Path, filesystem: &str, read_only: bool) -> anyhow::Result<PathBuf> {
        self.machine.mount(partition, filesystem, read_only)
    }

    fn unmount(&self, mounted: &Path) -> anyhow::Result<()> {
        self.machine.unmount(mounted)
    }

    fn forget_cache(&self, device: &Path) -> anyhow::Result<()> {
        self.machine.forget_cache(device)
    }
}
