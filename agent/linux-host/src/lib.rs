//! The real machine: it stands behind the seams [`Host`] of the steps and [`Probe`] of an inspection. It uses sysfs,
//! device nodes and system calls, and decides nothing. The worker of `firesteel_agent` and the lab's guest make one.

mod table;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firesteel_clean::scan_disks;
use firesteel_contents::DiskContents;
use firesteel_drives::port::Port;
use firesteel_host::assembled::{self, AssembledDevice, AssembledDriver};
use firesteel_host::{HeldDisk, Host, PartitionPlace};
use firesteel_images::write::{DiskReader, ExclusiveDisk, Inspected, metadata};
use firesteel_inspect::{self as inspect, Probe, system};
use firesteel_modules as modules;
use firesteel_os as os;
use firesteel_sysfs::disks::{self, PresentDisk};
use firesteel_sysfs::{Roots, attribute, nics, number, text};
use firesteel_wire::{Inventory, PartitionTableRecord, SmbiosIdentity};
use nix::{ifaddrs::getifaddrs, sys::socket::SockaddrStorage};

/// Where partitions are mounted, one at a time.
const MOUNT_POINT: &str = "/run/firesteel/mount";
/// The kernel makes device nodes at once; this is for drives that answer late.
const PARTITION_WAIT: Duration = Duration::from_secs(10);
/// Something may hold a disk for a moment after its table was read (the kernel's own scan).
const BUSY_WAIT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const SECTOR_BYTES: u64 = 512;

#[derive(Debug)]
pub struct LinuxHost {
    roots: Roots,
    boot_mac: String,
}

impl LinuxHost {
    #[must_use]
    pub fn new(roots: Roots, boot_mac: String) -> Self {
        Self { roots, boot_mac }
    }

    fn find_partition(&self, disk: &Path, place: &PartitionPlace) -> Option<PathBuf> {
        let block = self.roots.sys.join("block").join(disk.file_name()?);
        let sectors = |folder: &Path, name: &str| number(&folder.join(name)).map(|count| count * SECTOR_BYTES);
        let folder = disks::partitions(&block).into_iter().find(|folder| {
            number(&folder.join("partition")) == Some(u64::from(place.number))
                && sectors(folder, "start") == Some(place.offset_bytes)
                && sectors(folder, "size") == Some(place.size_bytes)
        })?;
        let device = self.roots.dev.join(folder.file_name()?);
        device.exists().then_some(device)
    }
}

impl Host for LinuxHost {
    fn uptime(&self) -> Duration {
        os::clock::uptime()
    }

    fn boot_id(&self) -> String {
        attribute(&self.roots.proc.join("sys/kernel/random/boot_id"))
    }

    fn kernel_version(&self) -> String {
        attribute(&self.roots.proc.join("sys/kernel/osrelease"))
    }

    fn identity(&self) -> SmbiosIdentity {
        let system = system::read_system(&self.roots);
        SmbiosIdentity {
            uuid: system.uuid,
            serial: system.serial,
            manufacturer: system.manufacturer,
            product: system.product,
            boot_mac: self.boot_mac.to_ascii_lowercase(),
            macs: nics::macs(&self.roots),
        }
    }

    fn inventory(&self) -> Inventory {
        inspect::inventory(&self.roots, self, &self.boot_mac)
    }

    fn disks(&self) -> Vec<PresentDisk> {
        disks::read(&self.roots)
    }

    fn numbered(&self, number: u64) -> Option<PresentDisk> {
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        disks::numbered(&self.roots, major, minor)
    }

    fn sysfs(&self) -> PathBuf {
        self.roots.sys.clone()
    }

    fn set_clocks(&self, unix_ms: u64) {
        if let Err(error) = os::clock::set_system_clock(unix_ms) {
            tracing::warn!("the system clock cannot be set: {error}");
        }
        let rtc = self.roots.dev.join("rtc0");
        if let Err(error) = os::clock::set_hardware_clock(&rtc, unix_ms) {
            tracing::warn!("the hardware clock cannot be set: {error}");
        }
    }

    fn open_disk(&self, device: &Path) -> anyhow::Result<ExclusiveDisk> {
        let began = Instant::now();
        loop {
            match ExclusiveDisk::open(device) {
                Ok(disk) => return Ok(disk),
                Err(error) if began.elapsed() > BUSY_WAIT => return Err(error.into()),
                Err(firesteel_images::write::DiskOpenError::Busy { .. }) => thread::sleep(LOOK_AGAIN),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn inspect_disk(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn DiskReader>> {
        let opened = Inspected::open(device)?;
        Ok(HeldDisk { number: opened.number, opened: Box::new(opened) })
    }

    fn assemblies(&self, disk: &str) -> Vec<AssembledDevice> {
        assembled::read(&self.roots.sys, &text(&self.roots.proc.join("self/mountinfo")), disk)
    }

    fn take_apart(&self, assembly: &AssembledDevice) -> anyhow::Result<()> {
        let (sys, dev, name) = (&self.roots.sys, &self.roots.dev, &assembly.name);
        let is_there = || match assembly.kind {
            AssembledDriver::BcacheSet => sys.join("fs/bcache").join(name).exists(),
            AssembledDriver::Md | AssembledDriver::DeviceMapper | AssembledDriver::Bcache | AssembledDriver::Other => {
                assembly.disks.iter().any(|disk| self.assemblies(disk).iter().any(|found| found.name == *name))
            }
        };
        let began = Instant::now();
        loop {
            // A set may have gone with the device that it cached.
            if !is_there() {
                return Ok(());
            }
            let stopped = match assembly.kind {
                AssembledDriver::Md => os::assembled::stop_md(sys, dev, name),
                AssembledDriver::DeviceMapper => os::assembled::remove_dm(sys, dev, name),
                AssembledDriver::Bcache => os::assembled::stop_bcache(sys, name),
                AssembledDriver::BcacheSet => os::assembled::stop_bcache_set(sys, name),
                AssembledDriver::Other => Err(std::io::ErrorKind::Unsupported.into()),
            };
            if began.elapsed() > BUSY_WAIT {
                stopped.with_context(|| format!("taking {assembly} apart"))?;
                bail!("{assembly} was stopped and still holds its disks");
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn commands(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn Port>> {
        let opened = os::drive::CommandPath::open(device)?;
        Ok(HeldDisk { number: opened.number()?, opened: Box::new(opened) })
    }

    fn reread_partitions(&self, disk: &ExclusiveDisk) -> anyhow::Result<()> {
        let began = Instant::now();
        while let Err(error) = disk.reread_partitions() {
            if error.kind() != std::io::ErrorKind::ResourceBusy || began.elapsed() > BUSY_WAIT {
                return Err(error).with_context(|| {
                    format!("making the kernel read the partitions of {} again", disk.path().display())
                });
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn partition_device(&self, disk: &Path, place: &PartitionPlace) -> anyhow::Result<PathBuf> {
        let began = Instant::now();
        loop {
            if let Some(device) = self.find_partition(disk, place) {
                return Ok(device);
            }
            if began.elapsed() > PARTITION_WAIT {
                bail!("the kernel does not show partition {} of {}", place.number, disk.display());
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn mount(&self, partition: &Path, filesystem: &str, read_only: bool) -> anyhow::Result<PathBuf> {
        let at = PathBuf::from(MOUNT_POINT);
        fs::create_dir_all(&at).context("making the mount point")?;
        os::mounts::mount_partition(partition, &at, filesystem, read_only)
            .with_context(|| format!("mounting {} as {filesystem}", partition.display()))?;
        Ok(at)
    }

    fn unmount(&self, mounted: &Path) -> anyhow::Result<()> {
        os::mounts::unmount(mounted).with_context(|| format!("unmounting {}", mounted.display()))
    }

    fn forget_cache(&self, device: &Path) -> anyhow::Result<()> {
        let opened = File::open(device).with_context(|| format!("opening {}", device.display()))?;
        os::block::flush_buffers(&opened).with_context(|| format!("flushing the cache of {}", device.display()))
    }
}

impl Probe for LinuxHost {
    fn permanent_mac(&self, interface: &str) -> Option<[u8; 6]> {
        os::network::permanent_mac(interface)
    }

    fn addresses(&self, interface: &str) -> Vec<String> {
        let Ok(all) = getifaddrs() else { return Vec::new() };
        let mine = all.filter(|one| one.interface_name == interface).filter_map(|one| one.address);
        mine.filter_map(|address| ip_text(&address)).collect()
    }

    fn signatures(&self, device: &Path) -> Vec<String> {
        let Ok(disk) = Inspected::open(device) else { return Vec::new() };
        let found = metadata::inspect(&disk, disk.size_bytes, disk.block_bytes);
        let mut names: Vec<_> = found.into_iter().map(|signature| signature.name).collect();
        names.sort();
        names.dedup();
        names
    }

    fn table(&self, device: &Path) -> PartitionTableRecord {
        match Inspected::open(device) {
            Ok(disk) => table::read(&disk, disk.size_bytes, disk.block_bytes),
            Err(error) => table::unreadable_table(&error),
        }
    }

    fn contents(&self) -> Vec<(String, DiskContents)> {
        scan_disks::contents(self)
    }

    fn hostname(&self) -> String {
        let name = attribute(&self.roots.proc.join("sys/kernel/hostname"));
        // The kernel's value while no name was set.
        if name == "(none)" { String::new() } else { name }
    }

    fn nic_firmware(&self, interface: &str) -> String {
        os::network::firmware_version(interface).unwrap_or_default()
    }

    fn nvme_identify(&self, device: &Path, structure: u8, namespace: u32) -> Option<Vec<u8>> {
        let controller = File::open(device).inspect_err(|error| tracing::debug!("{}: {error}", device.display()));
        let answer = os::nvme::identify(&controller.ok()?, structure, namespace);
        answer.inspect_err(|error| tracing::debug!("{}: identify {structure:#x}: {error}", device.display())).ok()
    }

    fn ipmi(&self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>> {
        let device = self.roots.dev.join("ipmi0");
        if !device.exists() {
            // Nothing in the hardware asks for the second one by itself.
            modules::load_named(Path::new("/"), &["ipmi_si", "ipmi_devintf"]);
        }
        let answer = os::ipmi::ask(&device, netfn, command, data);
        answer.inspect_err(|error| tracing::debug!("{}: {error}", device.display())).ok()
    }

    fn commands(&self, device: &Path) -> Option<Box<dyn Port>> {
        let opened = os::drive::CommandPath::open(device);
        opened
            .inspect_err(|error| tracing::debug!("{}: {error}", device.display()))
            .ok()
            .map(|path| Box::new(path) as _)
    }
}

/// Link-local addresses say nothing about the host.
fn ip_text(address: &SockaddrStorage) -> Option<String> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(v4.ip().to_string());
    }
    let v6 = address.as_sockaddr_in6()?.ip();
    (!v6.is_unicast_link_local()).then(|| v6.to_string())
}
