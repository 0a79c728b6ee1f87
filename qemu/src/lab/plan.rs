//! The plan of a machine: its hardware, and what misbehaves around it.

use clap::Args;
use firesteel_lab_image::PackedFormat;
use serde::{Deserialize, Serialize};

use crate::bmc::BmcKind;
use crate::link::LinkFaults;
use crate::machine::{BootOrder, DiskBus, MachineFirmware, NetBoot};
use crate::switch::SwitchMode;

/// Large enough for the lab's image with room for its root partition to grow into.
pub(crate) const DISK_BYTES: u64 = 4 << 30;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabDiskPlan {
    pub bus: DiskBus,
    pub bytes: u64,
    /// A disk with a cache and faults, served by the lab.
    pub served: Option<firesteel_lab_disk::FaultyDiskPlan>,
}

impl LabDiskPlan {
    /// A plain file: quick, and without faults.
    #[must_use]
    pub fn plain(bus: DiskBus, bytes: u64) -> Self {
        Self { bus, bytes, served: None }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostPlan {
    pub name: String,
    pub firmware: MachineFirmware,
    pub disks: Vec<LabDiskPlan>,
    pub memory_mib: u32,
    pub boot_order: BootOrder,
    pub net_boot: NetBoot,
    pub bmc: BmcKind,
    /// A wire with faults, carried by the lab.
    pub link: Option<LinkFaults>,
    /// A switch of its own between its NICs and the bridge.
    pub switch: Option<SwitchMode>,
}

impl HostPlan {
    /// A machine with a BMC and one empty disk, which boots from the network first.
    #[must_use]
    pub fn new(name: &str, firmware: MachineFirmware, bus: DiskBus) -> Self {
        Self {
            name: name.to_owned(),
            firmware,
            disks: vec![LabDiskPlan::plain(bus, DISK_BYTES)],
            memory_mib: 1024,
            boot_order: BootOrder::NetworkFirst,
            net_boot: NetBoot::Pxe,
            bmc: BmcKind::Redfish,
            link: None,
            switch: None,
        }
    }
}

/// Options of commands that make machines of one kind.
#[derive(Clone, Copy, Debug, Args)]
pub struct MachineOptions {
    /// Firmware of the machines
    #[arg(long, value_enum, default_value = "uefi")]
    pub firmware: MachineFirmware,
    /// Bus of the machines' disks
    #[arg(long, value_enum, default_value = "nvme")]
    pub disk: DiskBus,
    /// Form of the OS image
    #[arg(long, value_enum, default_value = "zst")]
    pub image: PackedFormat,
    /// Memory of each machine
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u32).range(256..))]
    pub memory: u32,
}

impl MachineOptions {
    #[must_use]
    pub fn plan(self, name: &str) -> HostPlan {
        HostPlan { memory_mib: self.memory, ..HostPlan::new(name, self.firmware, self.disk) }
    }
}
