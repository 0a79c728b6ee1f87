//! The name that `udev` gives a disk by the place where it is attached. There is no udev in the
//! ramdisk, and owners write these names into hints, so the same names are made here. Pure.

use super::location::{Attachment, DeviceLocation};

/// The name below `/dev/disk/by-path/`, or nothing for places that udev does not name either.
#[must_use]
pub fn name(location: &DeviceLocation) -> Option<String> {
    let controller = location.pci.last()?;
    let below = match &location.attachment {
        Attachment::VirtioBlock => String::new(),
        Attachment::Nvme { namespace, .. } => format!("-nvme-{namespace}"),
        Attachment::Ata { port, .. } => format!("-ata-{port}"),
        Attachment::Scsi { host, channel, target, lun } => {
            format!("-scsi-{host}:{channel}:{target}:{}", lun_text(*lun))
        }
        Attachment::Sas { expander, phy, lun } if expander.is_empty() => {
            format!("-sas-phy{phy}-lun-{}", lun_text(*lun))
        }
        Attachment::Sas { expander, phy, lun } => format!("-sas-exp{expander}-phy{phy}-lun-{}", lun_text(*lun)),
        Attachment::Usb { port, target, lun } => format!("-usb-0:{port}-scsi-0:0:{target}:{}", lun_text(*lun)),
        Attachment::Other => return None,
    };
    Some(format!("pci-{controller}{below}"))
}

/// Newer versions of udev name ATA disks by device behind the port, too.
#[must_use]
pub fn second_name(location: &DeviceLocation) -> Option<String> {
    match location.attachment {
        Attachment::Ata { .. } => Some(format!("{}.0", name(location)?)),
        Attachment::VirtioBlock
        | Attachment::Nvme { .. }
        | Attachment::Scsi { .. }
        | Attachment::Sas { .. }
        | Attachment::Usb { .. }
        | Attachment::Other => None,
    }
}

/// Units up to 255 are plain numbers; others are shown as the eight bytes that SCSI sends.
fn lun_text(lun: u64) -> String {
    if lun < 256 {
        return lun.to_string();
    }
    format!("0x{:04x}{:04x}{:04x}{:04x}", lun & 0xffff, lun >> 16 & 0xffff, lun >> 32 & 0xffff, lun >> 48 & 0xffff)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::location::PciAddress;

    fn at(attachment: Attachment) -> DeviceLocation {
        DeviceLocation {
            root_bridge: "pci0000:00".into(),
            pci: vec![PciAddress::parse("0000:00:1c.0").unwrap(), PciAddress::parse("0000:03:00.0").unwrap()],
            attachment,
            hctl: String::new(),
        }
    }

    #[test]
    fn names_are_those_of_udev() {
        for (attachment, expected) in [
            (Attachment::VirtioBlock, "pci-0000:03:00.0"),
            (Attachment::Nvme { namespace: 1, eui64: [0; 8] }, "pci-0000:03:00.0-nvme-1"),
            (Attachment::Ata { port: 2, lun: 0 }, "pci-0000:03:00.0-ata-2"),
            (Attachment::Scsi { host: 0, channel: 0, target: 1, lun: 0 }, "pci-0000:03:00.0-scsi-0:0:1:0"),
            (
                Attachment::Scsi { host: 0, channel: 0, target: 1, lun: 0x4001 },
                "pci-0000:03:00.0-scsi-0:0:1:0x4001000000000000",
            ),
            (Attachment::Sas { expander: String::new(), phy: 4, lun: 0 }, "pci-0000:03:00.0-sas-phy4-lun-0"),
            (
                Attachment::Sas { expander: "0x500a0980".into(), phy: 4, lun: 0 },
                "pci-0000:03:00.0-sas-exp0x500a0980-phy4-lun-0",
            ),
            (
                Attachment::Usb { port: "1.4:1.0".into(), target: 0, lun: 0 },
                "pci-0000:03:00.0-usb-0:1.4:1.0-scsi-0:0:0:0",
            ),
        ] {
            assert_eq!(name(&at(attachment)).as_deref(), Some(expected));
        }
        assert_eq!(name(&at(Attachment::Other)), None);
        assert_eq!(second_name(&at(Attachment::Ata { port: 2, lun: 0 })).as_deref(), Some("pci-0000:03:00.0-ata-2.0"));
        assert_eq!(name(&DeviceLocation { pci: Vec::new(), ..at(Attachment::VirtioBlock) }), None);
    }
}
