//! Whole disks with every stable identity that the kernel knows, and what uses them.

use std::path::{Path, PathBuf};

use firesteel_wire::{InventoryDisk, Transport};

use super::location::{Attachment, DeviceLocation};
use super::vpd::{self, LogicalUnitName};
use super::{Roots, attribute, by_path, bytes, flag, location, names, number, text};

/// Kernel names of block devices that are no disks of this host: made of memory or files, optical,
/// assembled from others, or remote.
const NOT_DISKS: [&str; 12] =
    ["loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd", "drbd", "rbd", "mtdblock", "bcache"];
/// sysfs counts sizes in these, whatever the disk's blocks are.
const SECTOR_BYTES: u64 = 512;

/// A disk as it is now, with everything that could forbid to write to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresentDisk {
    pub disk: InventoryDisk,
    /// What uses it or one of its partitions: `sda1 is mounted at /x`.
    pub uses: Vec<String>,
    /// What is assembled from it or one of its partitions: `sda1 is held by md0`.
    pub holders: Vec<String>,
}

/// A partition as the kernel shows it, whatever kind of table it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPartition {
    pub number: u32,
    pub offset: u64,
    pub size_bytes: u64,
}

/// Every disk of the host, in the order of the kernel's names.
#[must_use]
pub fn read(roots: &Roots) -> Vec<PresentDisk> {
    read_those(roots, |_| true)
}

/// The disk that the kernel counts by this number now.
#[must_use]
pub fn numbered(roots: &Roots, major: u64, minor: u64) -> Option<PresentDisk> {
    let number = format!("{major}:{minor}");
    read_those(roots, |folder| attribute(&folder.join("dev")) == number).pop()
}

fn read_those(roots: &Roots, is_wanted: impl Fn(&Path) -> bool) -> Vec<PresentDisk> {
    let block = roots.sys.join("block");
    let mounts = text(&roots.proc.join("self/mountinfo"));
    names(&block)
        .into_iter()
        .filter(|name| is_disk(&block.join(name), name) && is_wanted(&block.join(name)))
        .map(|name| {
            let folder = block.join(&name);
            let (uses, holders) = (uses(&folder, &name, &mounts), holders(&folder, &name));
            PresentDisk { disk: disk(roots, &name), uses, holders }
        })
        .filter(|seen| seen.disk.size_bytes > 0)
        .collect()
}

fn is_disk(folder: &Path, name: &str) -> bool {
    let boot_area = name.starts_with("mmcblk") && (name.contains("boot") || name.contains("rpmb"));
    !NOT_DISKS.iter().any(|prefix| name.starts_with(prefix)) && !boot_area && !flag(&folder.join("hidden"))
}

fn disk(roots: &Roots, name: &str) -> InventoryDisk {
    let block = roots.sys.join("block").join(name);
    let location = location::of(&roots.sys, name);
    let identity = identity(&block, location.as_ref());
    let by_path = location.as_ref().and_then(by_path::name);
    let mut by_id = by_id(&block, &identity, location.as_ref());
    by_id.extend(location.as_ref().and_then(by_path::second_name).map(|name| format!("/dev/disk/by-path/{name}")));
    let block_bytes = |attribute: &str| {
        number(&block.join("queue").join(attribute)).and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(512)
    };
    InventoryDisk {
        device: roots.dev.join(name).to_string_lossy().into_owned(),
        by_path: by_path.map(|name| format!("/dev/disk/by-path/{name}")).unwrap_or_default(),
        by_id,
        size_bytes: number(&block.join("size")).unwrap_or(0).saturating_mul(SECTOR_BYTES),
        logical_block_bytes: block_bytes("logical_block_size"),
        physical_block_bytes: block_bytes("physical_block_size"),
        model: identity.model,
        vendor: identity.vendor,
        serial: identity.serial,
        wwn: identity.name.wwn,
        wwn_with_extension: identity.name.wwn_with_extension,
        wwn_vendor_extension: identity.name.vendor_extension,
        hctl: location.as_ref().map(|location| location.hctl.clone()).unwrap_or_default(),
        rotational: flag(&block.join("queue/rotational")),
        read_only: flag(&block.join("ro")),
        removable: flag(&block.join("removable")),
        transport: transport(name, location.as_ref(), &block),
        signatures: Vec::new(),
        contents: None,
        table: None,
        firmware: identity.firmware,
        controller: location.and_then(|location| Some(location.pci.last()?.to_string())).unwrap_or_default(),
        capabilities: None,
        health: None,
    }
}

#[derive(Debug, Default)]
struct DiskInquiry {
    model: String,
    vendor: String,
    serial: String,
    firmware: String,
    name: LogicalUnitName,
}

fn identity(block: &Path, location: Option<&DeviceLocation>) -> DiskInquiry {
    let device = block.join("device");
    let said = |name: &str| attribute(&device.join(name));
    match location.map(|location| &location.attachment) {
        Some(Attachment::Nvme { .. }) => {
            let wwn = attribute(&block.join("wwid"));
            let name = LogicalUnitName { wwn_with_extension: wwn.clone(), wwn, vendor_extension: String::new() };
            let firmware = said("firmware_rev");
            DiskInquiry { model: said("model"), vendor: String::new(), serial: said("serial"), firmware, name }
        }
        Some(Attachment::VirtioBlock) => {
            DiskInquiry { vendor: said("vendor"), serial: attribute(&block.join("serial")), ..DiskInquiry::default() }
        }
        // MMC cards and others keep their texts where virtio and NVMe do.
        Some(Attachment::Other) | None => DiskInquiry {
            model: first(said("model"), said("name")),
            vendor: said("vendor"),
            serial: first(said("serial"), attribute(&block.join("serial"))),
            firmware: said("fwrev"),
            name: LogicalUnitName::default(),
        },
        Some(Attachment::Ata { .. } | Attachment::Scsi { .. } | Attachment::Sas { .. } | Attachment::Usb { .. }) => {
            scsi_identity(&device)
        }
    }
}

fn scsi_identity(device: &Path) -> DiskInquiry {
    let page = |name: &str| bytes(&device.join(name)).unwrap_or_default();
    let ata = vpd::ata_identify(&page("vpd_pg89")).unwrap_or_default();
    let naa = || LogicalUnitName::from_hex(attribute(&device.join("wwid")).strip_prefix("naa.")?);
    DiskInquiry {
        // SCSI cuts an ATA drive's model to 16 letters; the drive itself says all of it.
        model: first(ata.model, attribute(&device.join("model"))),
        vendor: attribute(&device.join("vendor")),
        serial: first(vpd::unit_serial(&page("vpd_pg80")), ata.serial),
        firmware: first(ata.firmware, attribute(&device.join("rev"))),
        name: vpd::logical_unit_name(&page("vpd_pg83")).or_else(naa).or(ata.name).unwrap_or_default(),
    }
}

fn first(one: String, other: String) -> String {
    if one.is_empty() { other } else { one }
}

/// The names below `/dev/disk/by-id/` that udev's 60-persistent-storage.rules give.
fn by_id(block: &Path, identity: &DiskInquiry, location: Option<&DeviceLocation>) -> Vec<String> {
    let mut names = Vec::new();
    let serial = udev_text(&identity.serial);
    let model = udev_text(&identity.model);
    match location.map(|location| &location.attachment) {
        Some(Attachment::Nvme { .. }) => {
            if !identity.name.wwn.is_empty() {
                names.push(format!("nvme-{}", identity.name.wwn));
            }
            if !serial.is_empty() {
                names.push(format!("nvme-{model}_{serial}"));
                names.extend(number(&block.join("nsid")).map(|id| format!("nvme-{model}_{serial}_{id}")));
            }
        }
        Some(Attachment::VirtioBlock) if !serial.is_empty() => names.push(format!("virtio-{serial}")),
        Some(Attachment::Ata { .. }) if !serial.is_empty() => names.push(format!("ata-{model}_{serial}")),
        // scsi_id puts the type of the name in front of it: 3 is NAA.
        Some(Attachment::Scsi { .. } | Attachment::Sas { .. }) => {
            names.extend(identity.name.wwn_with_extension.strip_prefix("0x").map(|digits| format!("scsi-3{digits}")));
        }
        Some(Attachment::Other) if !serial.is_empty() && is_mmc(block) => names.push(format!("mmc-{model}_{serial}")),
        _ => {}
    }
    if identity.name.wwn.starts_with("0x") {
        names.push(format!("wwn-{}", identity.name.wwn_with_extension));
    }
    names.into_iter().map(|name| format!("/dev/disk/by-id/{name}")).collect()
}

/// A text as udev writes it into names: without spaces around it, runs of others and characters that
/// are not safe in a name each one `_`.
fn udev_text(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) || !c.is_ascii();
    let joined = text.split_whitespace().collect::<Vec<_>>().join("_");
    joined.chars().map(|c| if is_safe(c) { c } else { '_' }).collect()
}

fn is_mmc(block: &Path) -> bool {
    block.file_name().is_some_and(|name| name.to_string_lossy().starts_with("mmcblk"))
}

fn transport(name: &str, location: Option<&DeviceLocation>, block: &Path) -> Transport {
    match location.map(|location| &location.attachment) {
        Some(Attachment::Nvme { .. }) => Transport::Nvme,
        Some(Attachment::VirtioBlock) => Transport::Virtio,
        Some(Attachment::Ata { .. }) => Transport::Sata,
        Some(Attachment::Sas { .. }) => Transport::Sas,
        Some(Attachment::Usb { .. }) => Transport::Usb,
        Some(Attachment::Scsi { .. }) if block.join("device/sas_address").exists() => Transport::Sas,
        Some(Attachment::Scsi { .. }) => Transport::Scsi,
        Some(Attachment::Other) | None if name.starts_with("mmcblk") => Transport::Mmc,
        Some(Attachment::Other) | None => Transport::Other,
    }
}

/// Partitions of a disk: folders inside its own that have a `partition` attribute.
#[must_use]
pub fn partitions(block: &Path) -> Vec<PathBuf> {
    names(block).into_iter().map(|name| block.join(name)).filter(|folder| folder.join("partition").exists()).collect()
}

/// The kernel's own list of a disk's partitions, whatever kind of table it read.
#[must_use]
pub fn kernel_partitions(block: &Path) -> Vec<KernelPartition> {
    let sectors = |folder: &Path, attribute: &str| number(&folder.join(attribute))?.checked_mul(SECTOR_BYTES);
    let each = partitions(block).into_iter().filter_map(|folder| {
        Some(KernelPartition {
            number: u32::try_from(number(&folder.join("partition"))?).ok()?,
            offset: sectors(&folder, "start")?,
            size_bytes: sectors(&folder, "size")?,
        })
    });
    each.collect()
}

/// Devices that are assembled from the disk or one of its partitions: `sda1 is held by md0`.
fn holders(block: &Path, name: &str) -> Vec<String> {
    let mut holders = Vec::new();
    for folder in std::iter::once(block.to_owned()).chain(partitions(block)) {
        let part = folder.file_name().map_or_else(|| name.to_owned(), |name| name.to_string_lossy().into_owned());
        let mut held = |by: String| holders.push(format!("{part} is held by {by}"));
        names(&folder.join("holders")).into_iter().for_each(&mut held);
        // A caching device has no holder that the kernel shows so.
        if folder.join("bcache/set").exists() {
            held("bcache".to_owned());
        }
    }
    holders
}

fn uses(block: &Path, name: &str, mounts: &str) -> Vec<String> {
    let mut uses = Vec::new();
    for folder in std::iter::once(block.to_owned()).chain(partitions(block)) {
        let part = folder.file_name().map_or_else(|| name.to_owned(), |name| name.to_string_lossy().into_owned());
        let number = attribute(&folder.join("dev"));
        uses.extend(mounted_at(mounts, &number).map(|at| format!("{part} is mounted at {at}")));
    }
    uses
}

/// Mount points of a device by its `major:minor` (proc_pid_mountinfo(5)).
pub fn mounted_at<'a>(mountinfo: &'a str, device: &'a str) -> impl Iterator<Item = &'a str> {
    mountinfo.lines().filter_map(move |line| {
        let mut fields = line.split(' ').skip(2);
        (!device.is_empty() && fields.next() == Some(device)).then(|| fields.nth(1)).flatten()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;
    use firesteel_fixtures::sysfs::tree;

    fn roots(folder: &Path) -> Roots {
        Roots { sys: folder.join("sys"), proc: folder.join("proc"), dev: "/dev".into() }
    }

    #[test]
    fn an_nvme_disk_and_a_sata_disk_with_all_names() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        let ns = "pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1";
        let at = |name: &str| format!("{ns}/{name}");
        tree(
            &roots.sys,
            ns,
            &[
                (&at("size"), "16777216\n"),
                (&at("wwid"), "nvme.1b36-46532d31-51454d55-00000001\n"),
                (&at("queue/logical_block_size"), "4096\n"),
                (&at("device/model"), "QEMU NVMe Ctrl                          \n"),
                (&at("device/serial"), "FS-1                \n"),
                (&at("nvme0n1p1/partition"), "1\n"),
                (&at("nvme0n1p1/dev"), "259:1\n"),
            ],
        );
        let ata = "pci0000:00/0000:00:1f.2/ata3";
        let disk = format!("{ata}/host2/target2:0:0/2:0:0:0/block/sda");
        tree(
            &roots.sys,
            &disk,
            &[
                (&format!("{ata}/ata_port/ata3/port_no"), "3\n"),
                (&format!("{disk}/size"), "16\n"),
                (&format!("{disk}/ro"), "1\n"),
                (&format!("{disk}/dev"), "8:16\n"),
                (&format!("{disk}/device/model"), "QEMU HARDDISK   \n"),
                (&format!("{disk}/device/vpd_pg80"), "\0\u{7f}\0\u{4}FS-2"),
                (&format!("{disk}/device/wwid"), "naa.5000c50012345678\n"),
                (&format!("{disk}/holders/dm-0/x"), ""),
            ],
        );
        fs::create_dir_all(roots.proc.join("self")).unwrap();
        fs::write(roots.proc.join("self/mountinfo"), "36 35 259:1 / /run/boot rw - ext4 /dev/nvme0n1p1 rw\n").unwrap();
        let disks = read(&roots);
        let (nvme, sata) = (&disks[0], &disks[1]);
        assert_eq!((nvme.disk.device.as_str(), nvme.disk.size_bytes), ("/dev/nvme0n1", 8 << 30));
        assert_eq!((nvme.disk.model.as_str(), nvme.disk.serial.as_str()), ("QEMU NVMe Ctrl", "FS-1"));
        assert_eq!(nvme.disk.by_path, "/dev/disk/by-path/pci-0000:00:04.0-nvme-1");
        assert_eq!((nvme.disk.logical_block_bytes, nvme.disk.transport), (4096, Transport::Nvme));
        assert_eq!(nvme.uses, ["nvme0n1p1 is mounted at /run/boot"]);
        assert_eq!((sata.disk.serial.as_str(), sata.disk.wwn.as_str()), ("FS-2", "0x5000c50012345678"));
        assert_eq!(sata.disk.by_path, "/dev/disk/by-path/pci-0000:00:1f.2-ata-3");
        assert!(sata.disk.by_id.contains(&"/dev/disk/by-path/pci-0000:00:1f.2-ata-3.0".to_owned()));
        assert_eq!(numbered(&roots, 8, 16).as_ref(), Some(sata), "by its number, whatever its name");
        assert_eq!(numbered(&roots, 8, 1), None);
        assert_eq!(numbered(&roots, 259, 1), None, "a partition is no disk");
        assert_eq!((sata.disk.read_only, sata.holders.as_slice()), (true, &["sda is held by dm-0".to_owned()][..]));
    }

    #[test]
    fn what_is_no_disk_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        for name in ["loop0", "ram1", "zram0", "sr0", "dm-0", "md127", "fd0", "mmcblk0boot0"] {
            tree(&roots.sys, &format!("virtual/block/{name}"), &[(&format!("virtual/block/{name}/size"), "64")]);
        }
        let path = "pci0000:00/0000:00:04.0/nvme/nvme0/nvme0c0n1";
        tree(&roots.sys, path, &[(&format!("{path}/hidden"), "1"), (&format!("{path}/size"), "64")]);
        tree(&roots.sys, "pci0000:00/0000:00:03.0/virtio0/block/vda", &[]);
        assert_eq!(read(&roots), [], "an empty card reader has no size");
    }
}
