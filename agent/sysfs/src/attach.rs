//! Which commands a disk of this machine takes, from sysfs.

use std::path::Path;

use firesteel_wire::InventoryDisk;

use crate::location::{self, Attachment};
use crate::{bytes, flag, number};

/// What the kernel's block layer offers, from the queue's limits in sysfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockQueueLimits {
    pub rotational: bool,
    /// `write_zeroes_max_bytes` is not 0.
    pub writes_zeroes: bool,
}

/// The commands that a disk takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSet {
    Nvme {
        namespace: u32,
    },
    /// ATA, also behind a SAS controller.
    Ata,
    Scsi,
    /// virtio and MMC know no such command, and USB bridges too often answer for a drive that does not know it.
    None,
}

/// How the kernel reaches a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedDrive {
    pub commands: CommandSet,
    pub queue: BlockQueueLimits,
    pub block_bytes: u32,
}

/// The name under which the kernel shows a disk in sysfs.
#[must_use]
pub fn kernel_name(disk: &InventoryDisk) -> &str {
    disk.device.rsplit('/').next().unwrap_or_default()
}

/// How `/sys/block/<name>` is to be talked to.
#[must_use]
pub fn read(sys: &Path, name: &str) -> AttachedDrive {
    let block = sys.join("block").join(name);
    let queue = |attribute: &str| number(&block.join("queue").join(attribute)).unwrap_or(0);
    // The page in which a SCSI layer repeats the ATA drive's identification.
    let is_ata = || bytes(&block.join("device/vpd_pg89")).is_some_and(|page| page.get(1) == Some(&0x89));
    let commands = match location::of(sys, name).map(|location| location.attachment) {
        Some(Attachment::Nvme { namespace, .. }) => CommandSet::Nvme { namespace },
        Some(Attachment::Ata { .. }) => CommandSet::Ata,
        Some(Attachment::Scsi { .. } | Attachment::Sas { .. }) if is_ata() => CommandSet::Ata,
        Some(Attachment::Scsi { .. } | Attachment::Sas { .. }) => CommandSet::Scsi,
        Some(Attachment::VirtioBlock | Attachment::Usb { .. } | Attachment::Other) | None => CommandSet::None,
    };
    AttachedDrive {
        commands,
        queue: BlockQueueLimits {
            rotational: flag(&block.join("queue/rotational")),
            writes_zeroes: queue("write_zeroes_max_bytes") > 0,
        },
        block_bytes: u32::try_from(queue("logical_block_size")).unwrap_or(512).max(512),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn disk(name: &str, path: &str, files: &[(&str, &[u8])]) -> AttachedDrive {
        let sys = tempfile::tempdir().unwrap();
        let folder = sys.path().join("devices").join(path);
        fs::create_dir_all(folder.join("queue")).unwrap();
        fs::create_dir_all(sys.path().join("block")).unwrap();
        for (file, content) in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        symlink(&folder, sys.path().join("block").join(name)).unwrap();
        read(sys.path(), name)
    }

    #[test]
    fn the_command_set_follows_the_attachment() {
        let nvme = disk(
            "nvme0n3",
            "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n3",
            &[("nsid", b"3\n"), ("queue/write_zeroes_max_bytes", b"4096\n")],
        );
        assert_eq!(nvme.commands, CommandSet::Nvme { namespace: 3 });
        assert_eq!(nvme.queue, BlockQueueLimits { rotational: false, writes_zeroes: true });
        let scsi = "pci0000:00/0000:00:05.0/virtio2/host2/target2:0:0/2:0:0:0/block/sda";
        let plain = disk("sda", scsi, &[("queue/logical_block_size", b"4096\n"), ("queue/rotational", b"1\n")]);
        assert_eq!((plain.commands, plain.block_bytes, plain.queue.rotational), (CommandSet::Scsi, 4096, true));
        let translated = disk("sda", scsi, &[("device/vpd_pg89", &[0, 0x89, 2, 0x38])]);
        assert_eq!(translated.commands, CommandSet::Ata);
        let virtio = disk("vda", "pci0000:00/0000:00:04.0/virtio1/block/vda", &[]);
        assert_eq!((virtio.commands, virtio.block_bytes), (CommandSet::None, 512));
    }
}
