//! NVMe controllers and all their namespaces, those that no disk shows among them. sysfs shows what is attached; the
//! controller itself reports the rest (identify, which changes nothing).

use std::{collections::BTreeMap, path::Path};

use firesteel_sysfs::{Roots, attribute, location::PciAddress, names, number};
use firesteel_wire::limits::{NAMESPACES_MAX, NVME_CONTROLLERS_MAX};
use firesteel_wire::parts::{DiskCapabilities, NvmeController, NvmeNamespace};

use super::Probe;
use super::capabilities::{self, NvmeIdentity};

/// What identify is asked for (NVMe Base Specification 2.0, figure 273).
const CONTROLLER: u8 = 0x01;
const ALLOCATED_NAMESPACES: u8 = 0x10;
const ALLOCATED_NAMESPACE: u8 = 0x11;
/// sysfs counts sizes in these, whatever the namespace's blocks are.
const SECTOR_BYTES: u64 = 512;

/// All controllers. Each is asked once who it is: one that does not answer takes seconds.
#[derive(Clone, Debug, Default)]
pub struct NvmeControllers {
    /// The controllers in the order of their names.
    pub listed: Vec<NvmeController>,
    /// Notes on what was left out.
    pub notes: Vec<String>,
    identities: BTreeMap<String, NvmeIdentity>,
}

impl NvmeControllers {
    #[must_use]
    pub fn read(roots: &Roots, probe: &dyn Probe) -> Self {
        let class = roots.sys.join("class/nvme");
        let mut names = names(&class);
        let mut found = Self::default();
        if names.len() > NVME_CONTROLLERS_MAX {
            found.notes.push(format!("{} NVMe controllers, of which {NVME_CONTROLLERS_MAX} are listed", names.len()));
            names.truncate(NVME_CONTROLLERS_MAX);
        }
        for name in names {
            let device = roots.dev.join(&name);
            let identity = probe.nvme_identify(&device, CONTROLLER, 0).and_then(|data| capabilities::nvme(&data));
            let controller = controller(&class.join(&name), &device, name, identity.as_ref(), probe);
            found.notes.extend(controller.1);
            found.identities.extend(identity.map(|identity| (controller.0.name.clone(), identity)));
            found.listed.push(controller.0);
        }
        found
    }

    /// The controller's own erase commands, for a disk (its folder below `/sys/block`) on it.
    pub fn add_capabilities(&self, to: &mut DiskCapabilities, block: &Path) {
        let Some(identity) = controller_of(block).and_then(|name| self.identities.get(&name)) else { return };
        to.identified = true;
        to.sanitize.clone_from(&identity.sanitize);
        to.format.clone_from(&identity.format);
    }
}

/// One controller, and a note where it has too many namespaces.
fn controller(
    folder: &Path,
    device: &Path,
    name: String,
    identity: Option<&NvmeIdentity>,
    probe: &dyn Probe,
) -> (NvmeController, Option<String>) {
    let mut namespaces = attached(folder);
    if identity.is_some_and(|identity| identity.manages_namespaces) {
        namespaces.extend(unattached(device, &namespaces, probe));
    }
    namespaces.sort_by_key(|namespace| namespace.id);
    let total = namespaces.len();
    namespaces.truncate(NAMESPACES_MAX);
    let note = (total > NAMESPACES_MAX)
        .then(|| format!("{name} has {total} namespaces, of which {NAMESPACES_MAX} are listed"));
    let controller = NvmeController {
        model: attribute(&folder.join("model")),
        serial: attribute(&folder.join("serial")),
        firmware: attribute(&folder.join("firmware_rev")),
        transport: attribute(&folder.join("transport")),
        pci_address: pci_address(folder),
        namespaces_max: identity.map_or(0, |identity| identity.namespaces_max),
        total_bytes: identity.map_or(0, |identity| identity.total_bytes),
        unallocated_bytes: identity.map_or(0, |identity| identity.unallocated_bytes),
        identified: identity.is_some(),
        namespaces,
        name,
    };
    (controller, note)
}

/// Namespaces that exist beside the attached ones.
fn unattached(device: &Path, attached: &[NvmeNamespace], probe: &dyn Probe) -> Vec<NvmeNamespace> {
    let list = probe.nvme_identify(device, ALLOCATED_NAMESPACES, 0).unwrap_or_default();
    let ids = capabilities::namespace_list(&list, NAMESPACES_MAX + 1).into_iter();
    let ids = ids.filter(|id| attached.iter().all(|namespace| namespace.id != *id));
    ids.map(|id| {
        let data = probe.nvme_identify(device, ALLOCATED_NAMESPACE, id).unwrap_or_default();
        NvmeNamespace { id, attached: false, size_bytes: capabilities::namespace_bytes(&data) }
    })
    .collect()
}

/// The controller that a disk hangs on. With multipath the numbers of disks are those of subsystems; all
/// controllers of a subsystem are of one drive, and the first speaks for them.
fn controller_of(block: &Path) -> Option<String> {
    let device = block.join("device").canonicalize().ok()?;
    let name = device.file_name()?.to_string_lossy().into_owned();
    if is_controller(&name) {
        return Some(name);
    }
    let is_subsystem = name.starts_with("nvme-subsys");
    names(&device).into_iter().find(|name| is_subsystem && is_controller(name))
}

/// Whether a name is one of a controller, such as `nvme0`.
fn is_controller(name: &str) -> bool {
    let digits = name.strip_prefix("nvme").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Namespaces whose disk is below the controller: `nvme0n1`, and `nvme0c0n1` under multipath.
fn attached(folder: &Path) -> Vec<NvmeNamespace> {
    let disks = names(folder).into_iter().filter(|name| name.starts_with("nvme"));
    disks
        .filter_map(|name| {
            let folder = folder.join(name);
            let id = u32::try_from(number(&folder.join("nsid"))?).ok()?;
            let size_bytes = number(&folder.join("size")).unwrap_or(0).saturating_mul(SECTOR_BYTES);
            Some(NvmeNamespace { id, attached: true, size_bytes })
        })
        .collect()
}

fn pci_address(folder: &Path) -> String {
    let said = attribute(&folder.join("address"));
    if PciAddress::parse(&said).is_some() { said } else { String::new() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use firesteel_wire::parts::FormatErase;

    use crate::tests::Answers;

    #[test]
    fn an_unattached_namespace_is_found_where_the_controller_tells() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), ..Roots::default() };
        let nvme = folder.path().join("class/nvme/nvme0");
        fs::create_dir_all(nvme.join("nvme0n1")).unwrap();
        for (file, text) in [
            ("model", "QEMU NVMe Ctrl   \n"),
            ("serial", "FS-1\n"),
            ("firmware_rev", "8.2.2\n"),
            ("transport", "pcie\n"),
            ("address", "0000:00:04.0\n"),
            ("nvme0n1/nsid", "1\n"),
            ("nvme0n1/size", "16\n"),
        ] {
            fs::write(nvme.join(file), text).unwrap();
        }
        let mut identify = vec![0; capabilities::IDENTIFY_BYTES];
        (identify[256], identify[516]) = (0x0a, 4);
        let list = [1_u32, 2].iter().flat_map(|id| id.to_le_bytes()).chain([0; 8]).collect();
        let mut namespace = vec![0; capabilities::IDENTIFY_BYTES];
        (namespace[0], namespace[130]) = (8, 12);
        let probe = Answers {
            nvme: vec![
                ((CONTROLLER, 0), identify),
                ((ALLOCATED_NAMESPACES, 0), list),
                ((ALLOCATED_NAMESPACE, 2), namespace),
            ],
            ..Answers::default()
        };
        let found = NvmeControllers::read(&roots, &probe);
        let expected = NvmeController {
            name: "nvme0".into(),
            model: "QEMU NVMe Ctrl".into(),
            serial: "FS-1".into(),
            firmware: "8.2.2".into(),
            transport: "pcie".into(),
            pci_address: "0000:00:04.0".into(),
            namespaces_max: 4,
            total_bytes: 0,
            unallocated_bytes: 0,
            identified: true,
            namespaces: vec![
                NvmeNamespace { id: 1, attached: true, size_bytes: 8192 },
                NvmeNamespace { id: 2, attached: false, size_bytes: 32_768 },
            ],
        };
        assert_eq!((&found.listed, &found.notes), (&vec![expected], &Vec::new()));
        let mut can = DiskCapabilities::default();
        let block = folder.path().join("block");
        for (disk, device) in [("sda", "0:0:0:0"), ("nvme0n1", "nvme0"), ("nvme7n1", "nvme-subsys7")] {
            fs::create_dir_all(block.join(disk)).unwrap();
            fs::create_dir_all(folder.path().join("devices").join(device)).unwrap();
            symlink(folder.path().join("devices").join(device), block.join(disk).join("device")).unwrap();
        }
        fs::create_dir_all(folder.path().join("devices/nvme-subsys7/nvme0")).unwrap();
        found.add_capabilities(&mut can, &block.join("sda"));
        assert_eq!(can, DiskCapabilities::default());
        for disk in ["nvme0n1", "nvme7n1"] {
            let mut can = DiskCapabilities::default();
            found.add_capabilities(&mut can, &block.join(disk));
            assert_eq!((can.identified, can.format.as_slice()), (true, &[FormatErase::UserData][..]), "{disk}");
        }
        let silent = NvmeControllers::read(&roots, &Answers::default()).listed;
        assert_eq!((silent[0].identified, silent[0].namespaces.len()), (false, 1));
    }

    #[test]
    fn names_of_controllers() {
        assert!(is_controller("nvme0") && is_controller("nvme12"));
        assert!(!["nvme", "nvme0n1", "nvme-subsys0", "sda"].into_iter().any(is_controller));
    }
}
