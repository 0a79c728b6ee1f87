//! Where a disk is attached: from the host's PCI root down to the drive, read from the path of
//! its device in sysfs. The stable names of a disk and its UEFI device path are both made from it.

use std::path::{Path, PathBuf};

use super::{attribute, names, number};

/// A PCI function, `0000:00:1f.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciAddress {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl PciAddress {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let short = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !(4..=8).contains(&domain.len()) || !short(bus, 2) || !short(device, 2) || !short(function, 1) {
            return None;
        }
        Some(Self {
            domain: u32::from_str_radix(domain, 16).ok()?,
            bus: u8::from_str_radix(bus, 16).ok()?,
            device: u8::from_str_radix(device, 16).ok().filter(|&device| device < 32)?,
            function: u8::from_str_radix(function, 16).ok().filter(|&function| function < 8)?,
        })
    }
}

impl std::fmt::Display for PciAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// How the drive hangs on its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The PCI function is the disk.
    VirtioBlock,
    Nvme {
        namespace: u32,
        /// Zeros where the namespace has none.
        eui64: [u8; 8],
    },
    /// Ports of one controller count from 1.
    Ata {
        port: u32,
        lun: u16,
    },
    /// `host` counts from 0 among the hosts of one controller.
    Scsi {
        host: u32,
        channel: u32,
        target: u32,
        lun: u64,
    },
    /// `expander` is empty for a drive at the controller itself.
    Sas {
        expander: String,
        phy: u32,
        lun: u64,
    },
    Usb {
        /// `1:1.0`: port chain and interface.
        port: String,
        target: u32,
        lun: u64,
    },
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLocation {
    /// `pci0000:00`; empty for what is not on PCI.
    pub root_bridge: String,
    /// Every PCI function from the root down; the last one is the controller.
    pub pci: Vec<PciAddress>,
    pub attachment: Attachment,
    /// `host:channel:target:lun` of SCSI and ATA disks as the kernel counts them.
    pub hctl: String,
}

/// Reads the location of `/sys/block/<name>`.
#[must_use]
pub fn of(sys: &Path, name: &str) -> Option<DeviceLocation> {
    let folder = sys.join("block").join(name).canonicalize().ok()?;
    let folder = nvme_path(&folder).unwrap_or(folder);
    let steps: Vec<SysfsPathComponent> = steps(sys, &folder);
    let root_bridge = steps.iter().find(|step| step.name.starts_with("pci")).map(|step| step.name.clone());
    let pci: Vec<_> = steps.iter().filter_map(|step| PciAddress::parse(&step.name)).collect();
    let hctl = steps.iter().rev().find(|step| is_hctl(&step.name)).map(|step| step.name.clone());
    Some(DeviceLocation {
        root_bridge: root_bridge.unwrap_or_default(),
        pci,
        attachment: attachment(&sys.join("block").join(name), &steps, hctl.as_deref()),
        hctl: hctl.unwrap_or_default(),
    })
}

/// One component of the device's path, with the folder that it stands for.
struct SysfsPathComponent {
    name: String,
    folder: PathBuf,
}

fn steps(sys: &Path, folder: &Path) -> Vec<SysfsPathComponent> {
    let root = sys.canonicalize().unwrap_or_else(|_| sys.to_owned()).join("devices");
    let Ok(below) = folder.strip_prefix(&root) else { return Vec::new() };
    let mut at = root.clone();
    below
        .components()
        .map(|component| {
            at.push(component);
            SysfsPathComponent { name: component.as_os_str().to_string_lossy().into_owned(), folder: at.clone() }
        })
        .collect()
}

/// Finds the path of a namespace. With NVMe multipath the disk hangs on a subsystem; it has a place where one
/// controller alone serves it.
fn nvme_path(folder: &Path) -> Option<PathBuf> {
    let subsystem = folder.parent()?;
    if !subsystem.file_name()?.to_string_lossy().starts_with("nvme-subsys") {
        return None;
    }
    let controllers: Vec<_> = names(subsystem).into_iter().filter(|name| numbered(name, "nvme").is_some()).collect();
    let [controller] = controllers.as_slice() else { return None };
    Some(subsystem.join(controller).canonicalize().ok()?.join(folder.file_name()?))
}

fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    if digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn is_hctl(name: &str) -> bool {
    hctl_numbers(name).is_some()
}

fn hctl_numbers(name: &str) -> Option<(u32, u32, u32, u64)> {
    let mut parts = name.split(':');
    let mut next = || parts.next();
    let (host, channel, target, lun) = (next()?, next()?, next()?, next()?);
    if parts.next().is_some() {
        return None;
    }
    Some((host.parse().ok()?, channel.parse().ok()?, target.parse().ok()?, lun.parse().ok()?))
}

fn attachment(block: &Path, steps: &[SysfsPathComponent], hctl: Option<&str>) -> Attachment {
    if steps.iter().any(|step| numbered(&step.name, "nvme").is_some()) {
        let namespace = number(&block.join("nsid")).and_then(|id| u32::try_from(id).ok()).unwrap_or(1);
        return Attachment::Nvme { namespace, eui64: eui64(&attribute(&block.join("eui"))) };
    }
    let Some((host, channel, target, lun)) = hctl.and_then(hctl_numbers) else {
        let virtio = steps.iter().any(|step| numbered(&step.name, "virtio").is_some());
        return if virtio { Attachment::VirtioBlock } else { Attachment::Other };
    };
    let usb = steps.iter().rev().find_map(|step| usb_interface(&step.name));
    if let Some(port) = usb {
        return Attachment::Usb { port, target, lun };
    }
    if let Some(ata) = steps.iter().find(|step| numbered(&step.name, "ata").is_some()) {
        let port = number(&ata.folder.join("ata_port").join(&ata.name).join("port_no"));
        let port = port.and_then(|port| u32::try_from(port).ok());
        let lun = u16::try_from(lun).unwrap_or(0);
        return port.map_or(Attachment::Other, |port| Attachment::Ata { port, lun });
    }
    if let Some(sas) = sas(steps, lun) {
        return sas;
    }
    Attachment::Scsi { host: host.saturating_sub(first_host(steps).unwrap_or(host)), channel, target, lun }
}

/// `2-1.4:1.0` of a USB disk becomes `1.4:1.0`, as udev writes it behind the bus.
fn usb_interface(name: &str) -> Option<String> {
    let (device, interface) = name.split_once(':')?;
    let (bus, port) = device.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (digits(bus) && digits(port) && digits(interface)).then(|| format!("{port}:{interface}"))
}

/// The lowest SCSI host number of the same controller: host numbers depend on the order in which
/// drivers were loaded, their distance does not.
fn first_host(steps: &[SysfsPathComponent]) -> Option<u32> {
    let host = steps.iter().find(|step| numbered(&step.name, "host").is_some())?;
    names(host.folder.parent()?).iter().filter_map(|name| numbered(name, "host")).min()
}

fn sas(steps: &[SysfsPathComponent], lun: u64) -> Option<Attachment> {
    let at = steps.iter().position(|step| step.name.starts_with("end_device-"))?;
    let (device, port) = (&steps[at], &steps[at.checked_sub(1)?]);
    let of = |step: &SysfsPathComponent, class: &str, name: &str| {
        attribute(&step.folder.join(class).join(&step.name).join(name))
    };
    // A wide port has several phys, none of which is the drive's name.
    if of(port, "sas_port", "num_phys") != "1" {
        return None;
    }
    let phy = of(device, "sas_device", "phy_identifier").parse().ok()?;
    let expander = steps.get(at.checked_sub(2)?).filter(|step| step.name.starts_with("expander-"));
    let expander = expander.map(|step| of(step, "sas_device", "sas_address")).unwrap_or_default();
    Some(Attachment::Sas { expander, phy, lun })
}

/// sysfs shows the eight bytes in the order of the drive's data, `00 25 38 …`.
fn eui64(text: &str) -> [u8; 8] {
    let mut eui64 = [0; 8];
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    if hex::decode_to_slice(digits, &mut eui64).is_err() {
        return [0; 8];
    }
    eui64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::{fs, os::unix::fs::symlink};

    use firesteel_fixtures::sysfs::tree;

    use super::*;

    #[test]
    fn pci_addresses() {
        let address = PciAddress { domain: 0, bus: 0, device: 0x1f, function: 2 };
        assert_eq!(PciAddress::parse("0000:00:1f.2"), Some(address));
        assert_eq!(address.to_string(), "0000:00:1f.2");
        for bad in ["0:0:0:0", "pci0000:00", "0000:00:20.0", "0000:00:1f.8", "0000:00:1f", "0000:00:+f.2"] {
            assert_eq!(PciAddress::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn nvme_behind_a_bridge_and_under_multipath() {
        let folder = tempfile::tempdir().unwrap();
        let ns = "pci0000:00/0000:00:1c.0/0000:01:00.0/nvme/nvme0/nvme0n1";
        tree(folder.path(), ns, &[(&format!("{ns}/nsid"), "1\n"), (&format!("{ns}/eui"), "00 25 38 5a 91 b1 02 03\n")]);
        let location = of(folder.path(), "nvme0n1").unwrap();
        assert_eq!((location.root_bridge.as_str(), location.pci.len()), ("pci0000:00", 2));
        let eui64 = [0, 0x25, 0x38, 0x5a, 0x91, 0xb1, 2, 3];
        assert_eq!(location.attachment, Attachment::Nvme { namespace: 1, eui64 });

        let head = "virtual/nvme-subsystem/nvme-subsys1/nvme1n1";
        tree(folder.path(), head, &[(&format!("{head}/nsid"), "1\n")]);
        let controller = folder.path().join("devices/pci0000:00/0000:00:05.0/nvme/nvme1");
        fs::create_dir_all(&controller).unwrap();
        symlink(&controller, folder.path().join("devices/virtual/nvme-subsystem/nvme-subsys1/nvme1")).unwrap();
        let location = of(folder.path(), "nvme1n1").unwrap();
        assert_eq!(location.pci.last().unwrap().to_string(), "0000:00:05.0");
    }

    #[test]
    fn sata_ports_and_scsi_hosts_are_counted_within_their_controller() {
        let folder = tempfile::tempdir().unwrap();
        let ata = "pci0000:00/0000:00:1f.2/ata3";
        let disk = format!("{ata}/host7/target7:0:0/7:0:0:0/block/sda");
        tree(folder.path(), &disk, &[(&format!("{ata}/ata_port/ata3/port_no"), "2\n")]);
        let location = of(folder.path(), "sda").unwrap();
        assert_eq!(location.attachment, Attachment::Ata { port: 2, lun: 0 });
        assert_eq!(location.hctl, "7:0:0:0");

        let virtio = "pci0000:00/0000:00:04.0/virtio1";
        tree(folder.path(), &format!("{virtio}/host8/target8:0:1/8:0:1:2/block/sdb"), &[]);
        let location = of(folder.path(), "sdb").unwrap();
        assert_eq!(location.attachment, Attachment::Scsi { host: 0, channel: 0, target: 1, lun: 2 });
    }

    #[test]
    fn sas_usb_and_virtio() {
        let folder = tempfile::tempdir().unwrap();
        let port = "pci0000:00/0000:02:00.0/host0/port-0:0";
        let end = format!("{port}/end_device-0:0");
        tree(
            folder.path(),
            &format!("{end}/target0:0:0/0:0:0:0/block/sda"),
            &[
                (&format!("{port}/sas_port/port-0:0/num_phys"), "1"),
                (&format!("{end}/sas_device/end_device-0:0/phy_identifier"), "3"),
            ],
        );
        let sas = Attachment::Sas { expander: String::new(), phy: 3, lun: 0 };
        assert_eq!(of(folder.path(), "sda").unwrap().attachment, sas);
        tree(
            folder.path(),
            "pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host9/target9:0:0/9:0:0:0/block/sdb",
            &[],
        );
        let usb = Attachment::Usb { port: "1.4:1.0".into(), target: 0, lun: 0 };
        assert_eq!(of(folder.path(), "sdb").unwrap().attachment, usb);
        tree(folder.path(), "pci0000:00/0000:00:03.0/virtio0/block/vda", &[]);
        assert_eq!(of(folder.path(), "vda").unwrap().attachment, Attachment::VirtioBlock);
        assert_eq!(of(folder.path(), "vdb"), None);
    }
}
