//! Makes the firmware find the disk just written, and only this disk, behind the network.

use anyhow::{Context, bail};
use firesteel_efi::device_path::{self, DevicePathNode};
use firesteel_efi::load_option;
use firesteel_efi::order::{self, OWN_PREFIX};
use firesteel_efi::variables::{EfiVariables, entry_name};
use firesteel_images::write::{ExclusiveDisk, WritableDisk as _};
use firesteel_sysfs::{attribute, location};
use firesteel_wire::{DiskIdentity, Evidence, InventoryDisk};

use super::{StepContext, StepFailure, table_of};
use crate::disk::boot_partition::{MountablePartition, find_esp};
use crate::filesystem::{FilesystemError, ImageFilesystem, PartitionBytes};

/// Folders and files of an EFI system partition that are looked at.
const NAMES_MAX: usize = 256;
/// The name that removable media and images without an entry start from (UEFI specification 2.10,
/// section 3.5.1.1).
const DEFAULT_LOADER: &str = if cfg!(target_arch = "aarch64") { "BOOTAA64.EFI" } else { "BOOTX64.EFI" };

pub(super) fn run(job: &StepContext<'_>, wanted: &DiskIdentity, label: &str) -> Result<Evidence, StepFailure> {
    if !job.host.sysfs().join("firmware/efi").is_dir() {
        return Ok(Evidence::BootEntrySet {
            method: "none".to_owned(),
            entry: "BIOS firmware has no boot entries; the network boot script hands over to this disk".to_owned(),
            order: String::new(),
        });
    }
    let (disk, device) = job.open(wanted)?;
    let (esp, loader) = find(&device).map_err(StepFailure::without_disk_change)?;
    let block_bytes = u64::from(device.block_bytes());
    drop(device);
    let (nodes, remark) = path(job, &disk, &esp, block_bytes, loader);
    set(&EfiVariables::new(&job.host.sysfs()), label, &nodes, remark).map_err(StepFailure::without_disk_change)
}

/// The EFI system partition, and the loader on it that the entry starts, as a firmware path: the default one, else the
/// first there is. It is read without the kernel, which need not mount what an image brought to list some names.
fn find(device: &ExclusiveDisk) -> anyhow::Result<(MountablePartition, String)> {
    let (reader, table) = table_of(device)?;
    let esp = find_esp(&*reader, &table)?;
    let found = PartitionBytes::new(&*reader, table.block_bytes, esp.place.offset_bytes, esp.place.size_bytes)
        .and_then(|bytes| ImageFilesystem::open(esp.filesystem.kind, bytes))
        .and_then(|filesystem| first_loader(&filesystem))
        .context("looking into the EFI system partition")?;
    let loader =
        found.context("the EFI system partition holds no boot loader (EFI/*/*.efi), so the image cannot be started")?;
    Ok((esp, loader))
}

fn first_loader(esp: &ImageFilesystem<'_>) -> Result<Option<String>, FilesystemError> {
    let is_efi = |name: &String| name.eq_ignore_ascii_case("EFI");
    let Some(efi) = esp.names("", NAMES_MAX)?.into_iter().find(is_efi) else { return Ok(None) };
    let mut folders = esp.names(&efi, NAMES_MAX)?;
    // `BOOT` first; sorting by a boolean keeps the rest in order.
    folders.sort_by_key(|name| !name.eq_ignore_ascii_case("BOOT"));
    for folder in folders {
        let mut files = esp.names(&format!("{efi}/{folder}"), NAMES_MAX)?;
        files.retain(|name| name.to_ascii_lowercase().ends_with(".efi"));
        files.sort_by_key(|name| loader_rank(name));
        if let Some(file) = files.into_iter().next() {
            return Ok(Some(format!("\\{efi}\\{folder}\\{file}")));
        }
    }
    Ok(None)
}

/// Which file of a folder starts the system: the default name, then shim, then a boot loader;
/// `fbx64.efi` and `mmx64.efi` beside them are tools.
fn loader_rank(name: &str) -> u8 {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        _ if name.eq_ignore_ascii_case(DEFAULT_LOADER) => 0,
        _ if name.starts_with("shim") => 1,
        _ if name.starts_with("grub") || name.starts_with("systemd-boot") => 2,
        _ if name.starts_with("fb") || name.starts_with("mm") => 4,
        _ => 3,
    }
}

/// The full path to the loader, or the short one with the reason.
fn path(
    job: &StepContext<'_>,
    disk: &InventoryDisk,
    esp: &MountablePartition,
    block_bytes: u64,
    loader: String,
) -> (Vec<DevicePathNode>, Option<String>) {
    let sysfs = job.host.sysfs();
    let name = disk.device.rsplit('/').next().unwrap_or_default();
    let full = location::of(&sysfs, name).ok_or(device_path::NoFullPath::NotPci).and_then(|location| {
        let uid = attribute(&sysfs.join("devices").join(&location.root_bridge).join("firmware_node/uid"));
        device_path::to_disk(&location, uid.parse().unwrap_or(0))
    });
    let (mut nodes, remark) = match full {
        Ok(nodes) => (nodes, None),
        Err(why) => (Vec::new(), Some(format!("short path, by partition GUID alone, because {why}"))),
    };
    nodes.push(DevicePathNode::HardDrive {
        partition: esp.place.number,
        start_lba: esp.place.offset_bytes / block_bytes,
        blocks: esp.place.size_bytes / block_bytes,
        guid: esp.partition.guid.0,
    });
    nodes.push(DevicePathNode::File { path: loader });
    (nodes, remark)
}

fn set(
    variables: &EfiVariables,
    label: &str,
    nodes: &[DevicePathNode],
    remark: Option<String>,
) -> anyhow::Result<Evidence> {
    let label = if label.starts_with(OWN_PREFIX) { label.to_owned() } else { format!("{OWN_PREFIX} {label}") };
    let change = order::change(&variables.entries(), &variables.order(), variables.current())
        .context("every boot entry number is taken")?;
    let name = entry_name(change.number);
    let option = load_option::encode(&label, nodes);
    // The entry comes first, then the order that names it, then the removal of entries without a name in the order:
    // whenever the power fails in between, every entry of the order exists.
    variables.write(&name, &option).with_context(|| format!("writing {name}"))?;
    variables.write("BootOrder", &order::encode(&change.order)).context("writing BootOrder")?;
    for old in &change.remove {
        variables.remove(&entry_name(*old)).with_context(|| format!("removing {}", entry_name(*old)))?;
    }
    let read = variables.read(&name).unwrap_or_default();
    if read != option {
        bail!("the firmware did not keep {name} as it was written");
    }
    let order = variables.order();
    if order != change.order {
        bail!("the firmware keeps the boot order {}, not {}", order::text(&order), order::text(&change.order));
    }
    let remark = remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
    let entry = format!("{name} {}{remark}", device_path::text(nodes));
    tracing::info!("boot entry {entry}, order {}", order::text(&order));
    Ok(Evidence::BootEntrySet { method: "uefi".to_owned(), entry, order: order::text(&order) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;
    use crate::{filesystem::tests::MemoryDisk, forms::fat::build};

    const ESP_BYTES: usize = 9 << 20;

    /// The loader that is found on an EFI system partition with these files.
    fn found(paths: &[&str]) -> Option<String> {
        let files: Vec<(&str, &[u8])> = paths.iter().map(|path| (*path, &b"MZ"[..])).collect();
        let mut volume = build("ESP", 1, ESP_BYTES as u64, 512, &files).unwrap().bytes;
        volume.resize(ESP_BYTES, 0);
        let disk = MemoryDisk::new(volume);
        let esp = disk.open("vfat").unwrap();
        first_loader(&esp).unwrap()
    }

    #[test]
    fn the_default_loader_is_taken_before_others_and_tools_last() {
        assert_eq!(found(&[]), None);
        let mut files = vec!["EFI/debian/fbx64.efi", "EFI/debian/grubx64.efi", "EFI/debian/grub.cfg"];
        assert_eq!(found(&files).unwrap(), "\\EFI\\debian\\grubx64.efi");
        files.push("EFI/debian/shimx64.efi");
        assert_eq!(found(&files).unwrap(), "\\EFI\\debian\\shimx64.efi");
        let default = format!("EFI/BOOT/{DEFAULT_LOADER}");
        files.push(&default);
        assert_eq!(found(&files).unwrap(), format!("\\EFI\\BOOT\\{DEFAULT_LOADER}"));
    }

    #[test]
    fn variables_are_written_read_back_and_cleaned() {
        let sysfs = tempfile::tempdir().unwrap();
        fs::create_dir_all(sysfs.path().join("firmware/efi/efivars")).unwrap();
        let variables = EfiVariables::new(sysfs.path());
        let option = |text: &str| load_option::encode(text, &[]);
        variables.write("Boot0001", &option("UEFI PXEv4")).unwrap();
        variables.write("Boot0003", &option("Firesteel old")).unwrap();
        variables.write("BootOrder", &order::encode(&[3, 1])).unwrap();
        let nodes = [DevicePathNode::PciRoot { uid: 0 }, DevicePathNode::File { path: "\\x".into() }];
        let Evidence::BootEntrySet { method, entry, order } = set(&variables, "host-1", &nodes, None).unwrap() else {
            panic!("another kind of evidence");
        };
        assert_eq!(
            (method.as_str(), entry.as_str(), order.as_str()),
            ("uefi", "Boot0000 PciRoot(0x0)/\\x", "0000,0001")
        );
        let entries = variables.entries();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].option.description, "Firesteel host-1");
        assert_eq!(variables.read("Boot0003"), None);
    }
}
