//! The drive behind a disk, by the commands that it takes.

use std::collections::BTreeSet;

use firesteel_drives::port::Port;
use firesteel_sysfs::attach::{AttachedDrive, CommandSet};

use super::ata::AtaDrive;
use super::drive::{Drive, PlainDrive};
use super::nvme::NvmeDrive;
use super::scsi::ScsiDrive;

/// The drive behind this disk. `planned` are the namespaces of its controller that the plan names,
/// this disk's among them.
#[must_use]
pub fn drive<'a>(attached: &AttachedDrive, port: &'a dyn Port, planned: &'a BTreeSet<u32>) -> Box<dyn Drive + 'a> {
    let queue = attached.queue;
    match attached.commands {
        CommandSet::Nvme { .. } => Box::new(NvmeDrive { port, planned, queue }),
        CommandSet::Ata => Box::new(AtaDrive::new(port, queue)),
        CommandSet::Scsi => Box::new(ScsiDrive { port, queue, block_bytes: attached.block_bytes }),
        CommandSet::None => Box::new(PlainDrive { queue }),
    }
}
