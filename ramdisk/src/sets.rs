//! Which modules a ramdisk gets: data, and the rule by which a module is in.
//!
//! Dependencies are not listed here: `tree` adds them.

use crate::modinfo::normal_name;
use crate::tree::ModuleTree;

/// A choice of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModuleSet {
    /// What QEMU emulates; small, for the lab.
    Lab,
    /// What servers have: every Ethernet and storage controller, the filesystems, RAID, IPMI.
    Server,
    /// What the lab's machines have that make volumes and arrays on many disks.
    Volumes,
    /// What the lab's switch is made of: a guest between a machine's ports and the bridge.
    Switch,
}

/// What a set consists of. Folders are below `kernel/`; an excluded folder wins over a wanted one.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) names: &'static [&'static str],
    pub(crate) folders: &'static [&'static str],
    pub(crate) excluded: &'static [&'static str],
}

impl ModuleSet {
    pub fn name(self) -> &'static str {
        match self {
            Self::Lab => "lab",
            Self::Server => "server",
            Self::Switch => "switch",
            Self::Volumes => "volumes",
        }
    }

    /// The modules that the set asks for by name.
    pub fn module_names(self) -> &'static [&'static str] {
        self.definition().names
    }

    pub(crate) fn definition(self) -> &'static Definition {
        match self {
            Self::Lab => &LAB,
            Self::Server => &SERVER,
            Self::Switch => &SWITCH,
            Self::Volumes => &VOLUMES,
        }
    }

    /// Names of the modules of `tree` that this set asks for, and of those that it asks for by name
    /// and that the kernel has neither as a module nor built in.
    pub(crate) fn wanted(self, tree: &ModuleTree) -> (Vec<String>, Vec<String>) {
        let definition = self.definition();
        let in_folder = |path: &str, folders: &[&str]| {
            let path = path.strip_prefix("kernel/").unwrap_or(path);
            folders.iter().any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '.'])))
        };
        let mut wanted: Vec<String> = tree
            .iter()
            .filter(|(_, module)| in_folder(&module.path, definition.folders))
            .filter(|(_, module)| !in_folder(&module.path, definition.excluded))
            .map(|(name, _)| name.to_owned())
            .collect();
        let mut absent = Vec::new();
        for name in definition.names {
            let name = normal_name(name);
            if tree.get(&name).is_some() {
                wanted.push(name);
            } else if !tree.is_builtin(&name) {
                absent.push(name);
            }
        }
        (wanted, absent)
    }
}

static LAB: Definition = Definition {
    names: &[
        // Buses and devices of QEMU's machines.
        "virtio_pci",
        "virtio_net",
        "virtio_blk",
        "virtio_scsi",
        "virtio_rng",
        "qemu_fw_cfg",
        "nvme",
        "ahci",
        "ata_piix",
        "sd_mod",
        "e1000",
        "e1000e",
        "igb",
        "vmxnet3",
        // Where the hand-off finds the boot partition, and the firmware's boot order.
        "ext4",
        "xfs",
        "vfat",
        "nls_cp437",
        "nls_ascii",
        "nls_iso8859_1",
        "nls_utf8",
        "efivarfs",
        "edd",
        // Management controllers.
        "ipmi_si",
        "ipmi_devintf",
    ],
    // Links that are made of several, or tagged. Not among the names, which the lab's OS image has as well.
    folders: &["drivers/net/bonding", "net/8021q"],
    excluded: &[],
};

static SWITCH: Definition =
    Definition { names: &["virtio_pci", "virtio_net", "bonding", "8021q", "bridge"], folders: &[], excluded: &[] };

static VOLUMES: Definition = Definition {
    names: &[
        "virtio_pci",
        "virtio_scsi",
        "sd_mod",
        "md_mod",
        "raid0",
        "raid1",
        "raid456",
        "dm_mod",
        "dm_raid",
        "dm_thin_pool",
    ],
    folders: &[],
    excluded: &[],
};

static SERVER: Definition = Definition {
    names: &[
        // Virtual machines count as servers too.
        "virtio_pci",
        "virtio_net",
        "virtio_rng",
        "virtio_mmio",
        "vmxnet3",
        "hv_vmbus",
        "hv_utils",
        "hv_netvsc",
        "xen_netfront",
        "xen_blkfront",
        "qemu_fw_cfg",
        // Links that are made of several, or tagged.
        "bonding",
        "team",
        "8021q",
        "macvlan",
        // Disks behind Intel's volume management device, in memory slots, on cards and sticks.
        "vmd",
        "nd_pmem",
        "nfit",
        "sdhci_pci",
        "sdhci_acpi",
        "mmc_block",
        "usb_storage",
        "uas",
        "usbhid",
        "hid_generic",
        "efivarfs",
        "edd",
        "loop",
        "i2c_i801",
        "ipmi_ssif",
        "ipmi_si",
        "ipmi_devintf",
        "efi_pstore",
        // Block devices of installed systems are recognised, and opened where needed.
        "dm_mod",
        "dm_crypt",
        "xts",
        "aesni_intel",
        "crc32c_intel",
        "crct10dif_pclmul",
        "sg",
        "ses",
        "enclosure",
    ],
    folders: &[
        "drivers/net/ethernet",
        "drivers/net/phy",
        "drivers/net/mdio",
        "drivers/net/pcs",
        "drivers/net/usb",
        "drivers/ata",
        "drivers/block",
        "drivers/message/fusion",
        "drivers/md",
        "drivers/nvme/host",
        "drivers/scsi",
        "drivers/usb/host",
        "fs/btrfs",
        "fs/erofs",
        "fs/exfat",
        "fs/ext4",
        "fs/f2fs",
        "fs/fat",
        "fs/isofs",
        "fs/jfs",
        "fs/nls",
        "fs/overlayfs",
        "fs/squashfs",
        "fs/udf",
        "fs/xfs",
    ],
    excluded: &[
        // PCMCIA, ISA and machines that were never servers.
        "drivers/net/ethernet/8390",
        "drivers/net/ethernet/fujitsu",
        "drivers/net/ethernet/xircom",
        "drivers/ata/pata_legacy",
        "drivers/ata/pata_pcmcia",
        "drivers/scsi/pcmcia",
        "drivers/usb/host/sl811-hcd",
        "drivers/usb/host/sl811_cs",
        "drivers/usb/host/u132-hcd",
        "drivers/block/floppy",
        // Mobile telephones.
        "drivers/net/usb/cdc-phonet",
        "drivers/net/usb/hso",
        "drivers/net/usb/huawei_cdc_ncm",
        "drivers/net/usb/ipheth",
        "drivers/net/usb/lg-vl600",
        "drivers/net/usb/qmi_wwan",
        "drivers/net/usb/sierra_net",
        "drivers/net/usb/cdc_mbim",
        "drivers/net/usb/kalmia",
        "drivers/net/usb/zaurus",
        // Test devices, and storage that is reached by way of other machines.
        "drivers/scsi/scsi_debug",
        "drivers/block/null_blk",
        "drivers/block/brd",
        "drivers/block/drbd",
        "drivers/block/rbd",
        "drivers/block/nbd",
        "drivers/block/aoe",
        "drivers/block/zram",
        "drivers/block/xen-blkback",
        "drivers/nvme/host/nvme-rdma",
        "drivers/md/md-cluster",
        "drivers/md/dm-log-userspace",
    ],
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::fixture;

    fn tree(paths: &[&str]) -> ModuleTree {
        let mut tree = ModuleTree::default();
        for path in paths {
            tree.add(path, fixture::module(&[])).unwrap();
        }
        tree
    }

    #[test]
    fn folders_are_taken_but_for_what_is_excluded() {
        let tree = tree(&[
            "kernel/drivers/net/ethernet/intel/ice/ice.ko",
            "kernel/drivers/net/ethernet/8390/ne2k-pci.ko",
            "kernel/drivers/net/wireless/ath/ath9k.ko",
            "kernel/drivers/scsi/scsi_debug.ko",
            "kernel/drivers/scsi/scsi_mod.ko",
            "kernel/fs/ext4/ext4.ko",
            "kernel/fs/ext4x/ext4x.ko",
        ]);
        let (wanted, _) = ModuleSet::Server.wanted(&tree);
        assert_eq!(wanted, ["ext4", "ice", "scsi_mod"]);
    }

    #[test]
    fn absent_modules_are_named_and_builtin_ones_are_not() {
        let mut tree = tree(&["kernel/drivers/virtio/virtio_pci.ko"]);
        tree.add_builtin("kernel/drivers/nvme/host/nvme.ko\n");
        let (wanted, absent) = ModuleSet::Lab.wanted(&tree);
        assert_eq!(wanted, ["virtio_pci"]);
        assert!(absent.contains(&"ahci".to_owned()));
        assert!(!absent.contains(&"nvme".to_owned()));
    }
}
