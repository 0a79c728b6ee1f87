//! How a disk is reached, as sysfs shows it, and what of that speaks against wiping it whatever it holds: a disk
//! behind a network or with several paths may be another machine's, and a stick or a virtual medium is one to boot
//! from.

use std::path::{Path, PathBuf};

use firesteel_sysfs::{attribute, bytes, names};
use firesteel_wire::{InventoryDisk, Transport, text::field};

/// Where systemd's boot stub says from which partition the running kernel was loaded (Boot Loader Interface,
/// `LoaderDevicePartUUID`): absent after a network boot.
///
/// A BIOS leaves nothing so certain. EDD (`/sys/firmware/edd`) says which disk is drive 80h, but not which drive was
/// booted. GRUB's `BOOT_IMAGE=(hd0,gpt2)` numbers disks as that firmware did. iBFT names the iSCSI target that was
/// booted, and iSCSI disks are objected to in any case. A BIOS boots the agent from the network, from a stick or from
/// virtual media; the last two are objected to by what they are. For a fixed disk this cannot be known.
const LOADED_FROM: &str = "firmware/efi/efivars/LoaderDevicePartUUID-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// What BMCs and gadgets call the disks that they pretend to be: vendor and model, in lower case, begin so.
const VIRTUAL_MEDIA: [&str; 14] = [
    "ami virtual",
    "american megatrends",
    "avocent virtual",
    "cisco virtual",
    "dell virtual",
    "fujitsu virtual",
    "hp ilo",
    "hpe ilo",
    "ibm virtual",
    "idrac",
    "lenovo virtual",
    "linux file-stor gadget",
    "openbmc virtual",
    "supermicro virtual",
];

/// What is known of a disk's way to this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskAccess {
    /// The network between host and disk: `Fibre Channel`, `iSCSI`, `NVMe over tcp`.
    pub network: Option<String>,
    /// NVMe controllers that serve it, where they are several.
    pub controllers: Vec<String>,
}

/// Reads how `/sys/block/<name>` is reached.
#[must_use]
pub fn read(sys: &Path, name: &str) -> DiskAccess {
    let Ok(folder) = sys.join("block").join(name).canonicalize() else { return DiskAccess::default() };
    let controllers = nvme_controllers(&folder);
    let mut transports = controllers.iter().map(|controller| attribute(&controller.join("transport")));
    let fabric = transports.rfind(|transport| is_fabric(transport));
    let network = fabric.map(|transport| format!("NVMe over {}", field(&transport))).or_else(|| scsi_network(&folder));
    let several = if controllers.len() > 1 { controllers } else { Vec::new() };
    let file_name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    DiskAccess { network, controllers: several.iter().filter_map(file_name).collect() }
}

/// Finds the controller of a namespace, or all of its subsystem's where the kernel shows it once for all paths.
fn nvme_controllers(folder: &Path) -> Vec<PathBuf> {
    let parent = folder.parent().unwrap_or(folder);
    let is = |path: &Path, prefix: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    if is(parent, "nvme") {
        return vec![parent.to_owned()];
    }
    if !is(parent, "nvme-subsys") {
        return Vec::new();
    }
    let below = names(parent).into_iter().map(|name| parent.join(name)).filter(|path| is(path, "nvme"));
    below.filter_map(|path| path.canonicalize().ok()).collect()
}

/// Controllers in this machine say `pcie` (or `apple-nvme`); older kernels say nothing of those.
fn is_fabric(transport: &str) -> bool {
    matches!(transport, "tcp" | "rdma" | "fc" | "loop")
}

/// Looks for devices that the kernel's SCSI transports put between host and target.
fn scsi_network(folder: &Path) -> Option<String> {
    let steps: Vec<_> = folder.components().map(|step| step.as_os_str().to_string_lossy()).collect();
    let any = |prefix: &str| steps.iter().any(|step| numbers(step.strip_prefix(prefix)));
    if any("rport-") {
        return Some("Fibre Channel".to_owned());
    }
    if any("session") {
        return Some("iSCSI".to_owned());
    }
    // SAS has `port-` too, and an end device below it.
    (any("port-") && !any("end_device-")).then(|| "SRP".to_owned())
}

fn numbers(text: Option<&str>) -> bool {
    text.is_some_and(|text| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '-'))
    })
}

/// GUID of the partition that the running agent was loaded from, in lower case; `None` after a network boot.
#[must_use]
pub fn loaded_from(sys: &Path) -> Option<String> {
    let value = bytes(&sys.join(LOADED_FROM))?;
    let units: Vec<u16> = value.get(4..)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let text = String::from_utf16(&units).ok()?.trim_end_matches('\0').to_ascii_lowercase();
    (text.len() == 36).then_some(text)
}

/// Says why this disk must not be wiped, whatever it holds and even if the plan names it: several paths lead to it.
/// Pure; `all` are the host's disks, this one among them.
#[must_use]
pub fn several_paths(disk: &InventoryDisk, reached: &DiskAccess, all: &[InventoryDisk]) -> Vec<String> {
    let mut objections = Vec::new();
    if !reached.controllers.is_empty() {
        objections.push(format!("it is reached by several controllers ({})", reached.controllers.join(", ")));
    }
    let name = InventoryDisk::full_wwn;
    let is_same =
        |other: &&InventoryDisk| other.device != disk.device && !name(disk).is_empty() && name(other) == name(disk);
    let others: Vec<_> = all.iter().filter(is_same).map(|other| other.device.as_str()).collect();
    if !others.is_empty() {
        objections.push(format!("{} has the same WWN: several paths to one disk", others.join(", ")));
    }
    objections
}

/// Says why this disk must not be wiped unless its owner names it. Pure.
#[must_use]
pub fn attachment(disk: &InventoryDisk, reached: &DiskAccess) -> Vec<String> {
    let mut objections = Vec::new();
    if let Some(network) = &reached.network {
        objections.push(format!("it is reached by {network}, so other hosts may reach it too"));
    }
    let said = format!("{} {}", disk.vendor.trim(), disk.model.trim()).trim().to_ascii_lowercase();
    let is_virtual = VIRTUAL_MEDIA.iter().any(|known| said.starts_with(known)) || said.contains("virtual media");
    if is_virtual {
        objections.push(format!("it is a BMC's virtual medium ({said})"));
    } else if disk.transport == Transport::Usb {
        objections.push("it is on USB: a stick or a virtual medium to boot from".to_owned());
    } else if disk.removable {
        objections.push("it is removable".to_owned());
    }
    objections
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use firesteel_fixtures::sysfs::tree;

    fn reached(device: &str, attributes: &[(&str, &str)]) -> DiskAccess {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), device, attributes);
        read(folder.path(), device.rsplit('/').next().unwrap())
    }

    #[test]
    fn networks_between_host_and_disk() {
        for (path, network) in [
            ("pci0000:00/0000:05:00.0/host7/rport-7:0-3/target7:0:3/7:0:3:12/block/sdb", Some("Fibre Channel")),
            ("platform/host2/session1/target2:0:0/2:0:0:1/block/sdb", Some("iSCSI")),
            ("pci0000:00/0000:05:00.0/host7/port-7:1/target7:0:0/7:0:0:1/block/sdb", Some("SRP")),
            ("pci0000:00/0000:05:00.0/host7/port-7:1/end_device-7:1/target7:0:0/7:0:0:1/block/sdb", None),
            ("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sdb", None),
        ] {
            assert_eq!(reached(path, &[]).network.as_deref(), network, "{path}");
        }
        let at = "virtual/nvme-fabrics/ctl/nvme3";
        let said = reached(&format!("{at}/nvme3n1"), &[(&format!("{at}/transport"), "tcp\n")]);
        assert_eq!(said.network.as_deref(), Some("NVMe over tcp"));
        let at = "pci0000:00/0000:00:04.0/nvme/nvme0";
        let said = reached(&format!("{at}/nvme0n1"), &[(&format!("{at}/transport"), "pcie\n")]);
        assert_eq!(said, DiskAccess::default());
    }

    #[test]
    fn a_namespace_of_two_controllers() {
        let folder = tempfile::tempdir().unwrap();
        let subsystem = "virtual/nvme-subsystem/nvme-subsys0";
        tree(folder.path(), &format!("{subsystem}/nvme0n1"), &[]);
        for (index, transport) in ["pcie\n", "rdma\n"].into_iter().enumerate() {
            let at = folder.path().join(format!("devices/pci0000:00/0000:0{index}:00.0/nvme/nvme{index}"));
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("transport"), transport).unwrap();
            symlink(&at, folder.path().join("devices").join(subsystem).join(format!("nvme{index}"))).unwrap();
        }
        let reached = read(folder.path(), "nvme0n1");
        assert_eq!((reached.network.as_deref(), reached.controllers.len()), (Some("NVMe over rdma"), 2));
    }

    #[test]
    fn what_speaks_against_a_disk() {
        let disk = InventoryDisk { device: "/dev/sda".into(), wwn: "0x5".into(), ..InventoryDisk::default() };
        let other = InventoryDisk { device: "/dev/sdb".into(), ..disk.clone() };
        let fine = InventoryDisk { device: "/dev/sdc".into(), wwn: "0x6".into(), ..InventoryDisk::default() };
        let all = [disk.clone(), other, fine.clone()];
        let objections = |disk: &InventoryDisk, reached: &DiskAccess| {
            [several_paths(disk, reached, &all), attachment(disk, reached)].concat()
        };
        let why = |disk: &InventoryDisk| objections(disk, &DiskAccess::default());
        assert_eq!(why(&disk), ["/dev/sdb has the same WWN: several paths to one disk"]);
        assert!(why(&fine).is_empty());
        let nameless = InventoryDisk { device: "/dev/vda".into(), ..InventoryDisk::default() };
        let twins = [nameless.clone(), InventoryDisk { device: "/dev/vdb".into(), ..InventoryDisk::default() }];
        assert!(several_paths(&nameless, &DiskAccess::default(), &twins).is_empty(), "no name is no common name");
        for (vendor, model, usb, removable, says) in [
            ("AMI", "Virtual HDisk0", true, true, "virtual medium"),
            ("iDRAC", "LCDRIVE", false, false, "virtual medium"),
            ("HP iLO", "LUN 00 Media 0", true, false, "virtual medium"),
            ("OpenBMC", "Virtual Media Device", true, false, "virtual medium"),
            ("SanDisk", "Ultra", true, true, "on USB"),
            ("Generic", "SD/MMC", false, true, "removable"),
        ] {
            let transport = if usb { Transport::Usb } else { Transport::Scsi };
            let disk =
                InventoryDisk { vendor: vendor.into(), model: model.into(), transport, removable, ..fine.clone() };
            let why = why(&disk);
            assert!(why.len() == 1 && why[0].contains(says), "{vendor} {model}: {why:?}");
        }
        let far = DiskAccess { network: Some("iSCSI".into()), controllers: vec!["nvme0".into(), "nvme1".into()] };
        assert_eq!((several_paths(&fine, &far, &all).len(), attachment(&fine, &far).len()), (1, 1));
    }

    #[test]
    fn the_partition_that_the_agent_was_loaded_from() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(loaded_from(folder.path()), None);
        let file = folder.path().join(LOADED_FROM);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let guid = "6F1C2A3E-0B5D-4C7E-9A10-2F3B4C5D6E7F";
        let value: Vec<u8> =
            [6, 0, 0, 0].into_iter().chain(guid.encode_utf16().chain([0]).flat_map(u16::to_le_bytes)).collect();
        fs::write(&file, value).unwrap();
        assert_eq!(loaded_from(folder.path()).as_deref(), Some("6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f"));
        fs::write(&file, [6, 0, 0]).unwrap();
        assert_eq!(loaded_from(folder.path()), None);
    }
}
