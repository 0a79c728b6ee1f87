//! UEFI device paths (UEFI specification 2.10, chapter 10): from where a disk is attached to the
//! bytes that firmware follows to exactly this disk, and back from bytes to what an entry is for.
//!
//! The full path matters: the short form (a partition's GUID alone) lets firmware take any disk
//! that carries the same GUID, such as an old copy of the same image.

use std::fmt;

use firesteel_sysfs::location::{Attachment, DeviceLocation};

/// `EISA` id of a PCI root bridge, PNP0A03, as ACPI packs it. PCI Express roots (PNP0A08) have it
/// as compatible id, and firmware compares with this one.
const PCI_ROOT_HID: u32 = 0x0a03_41d0;
/// A SATA drive at the port itself, not behind a port multiplier.
const NO_PORT_MULTIPLIER: u16 = 0xffff;

const ACPI: u8 = 2;
const HARDWARE: u8 = 1;
const MESSAGING: u8 = 3;
const MEDIA: u8 = 4;
const END: u8 = 0x7f;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevicePathNode {
    PciRoot {
        uid: u32,
    },
    Pci {
        device: u8,
        function: u8,
    },
    Nvme {
        namespace: u32,
        eui64: [u8; 8],
    },
    Sata {
        port: u16,
        lun: u16,
    },
    Scsi {
        target: u16,
        lun: u16,
    },
    HardDrive {
        partition: u32,
        start_lba: u64,
        blocks: u64,
        guid: [u8; 16],
    },
    /// A file, such as `\EFI\BOOT\BOOTX64.EFI`.
    File {
        path: String,
    },
}

/// Why there is no full path to a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFullPath {
    #[error("it is not attached by PCI")]
    NotPci,
    #[error("firmware paths to this kind of attachment are not known here")]
    Attachment,
}

/// The nodes from the host's root to the disk.
pub fn to_disk(location: &DeviceLocation, root_uid: u32) -> Result<Vec<DevicePathNode>, NoFullPath> {
    if location.pci.is_empty() || location.root_bridge.is_empty() {
        return Err(NoFullPath::NotPci);
    }
    let mut nodes = vec![DevicePathNode::PciRoot { uid: root_uid }];
    nodes.extend(location.pci.iter().map(|pci| DevicePathNode::Pci { device: pci.device, function: pci.function }));
    match &location.attachment {
        Attachment::VirtioBlock => {}
        Attachment::Nvme { namespace, eui64 } => {
            nodes.push(DevicePathNode::Nvme { namespace: *namespace, eui64: *eui64 })
        }
        Attachment::Ata { port, lun } => {
            // The kernel counts ports from 1, firmware from 0.
            let port = port.checked_sub(1).and_then(|port| u16::try_from(port).ok()).ok_or(NoFullPath::Attachment)?;
            nodes.push(DevicePathNode::Sata { port, lun: *lun });
        }
        Attachment::Scsi { channel: 0, target, lun, .. } => {
            let target = u16::try_from(*target).map_err(|_| NoFullPath::Attachment)?;
            let lun = u16::try_from(*lun).map_err(|_| NoFullPath::Attachment)?;
            nodes.push(DevicePathNode::Scsi { target, lun });
        }
        Attachment::Scsi { .. } | Attachment::Sas { .. } | Attachment::Usb { .. } | Attachment::Other => {
            return Err(NoFullPath::Attachment);
        }
    }
    Ok(nodes)
}

/// The bytes of a path, with the end node.
#[must_use]
pub fn encode(nodes: &[DevicePathNode]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for node in nodes {
        let (kind, subtype, body) = body(node);
        // Bodies are short; a file path's length is bounded by the caller's 16-bit load option.
        let length = u16::try_from(body.len() + 4).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&[kind, subtype]);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&body);
    }
    bytes.extend_from_slice(&[END, 0xff, 4, 0]);
    bytes
}

fn body(node: &DevicePathNode) -> (u8, u8, Vec<u8>) {
    match node {
        DevicePathNode::PciRoot { uid } => (ACPI, 1, [PCI_ROOT_HID.to_le_bytes(), uid.to_le_bytes()].concat()),
        DevicePathNode::Pci { device, function } => (HARDWARE, 1, vec![*function, *device]),
        DevicePathNode::Nvme { namespace, eui64 } => (MESSAGING, 23, [&namespace.to_le_bytes()[..], eui64].concat()),
        DevicePathNode::Sata { port, lun } => {
            (MESSAGING, 18, [port.to_le_bytes(), NO_PORT_MULTIPLIER.to_le_bytes(), lun.to_le_bytes()].concat())
        }
        DevicePathNode::Scsi { target, lun } => (MESSAGING, 2, [target.to_le_bytes(), lun.to_le_bytes()].concat()),
        DevicePathNode::HardDrive { partition, start_lba, blocks, guid } => {
            let mut body = partition.to_le_bytes().to_vec();
            body.extend_from_slice(&start_lba.to_le_bytes());
            body.extend_from_slice(&blocks.to_le_bytes());
            body.extend_from_slice(guid);
            // A GPT, and a signature that is a GUID.
            body.extend_from_slice(&[2, 2]);
            (MEDIA, 1, body)
        }
        DevicePathNode::File { path } => {
            (MEDIA, 4, path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect())
        }
    }
}

/// The text form (UEFI specification 2.10, section 10.6.1).
#[must_use]
pub fn text(nodes: &[DevicePathNode]) -> String {
    nodes.iter().map(DevicePathNode::to_string).collect::<Vec<_>>().join("/")
}

impl fmt::Display for DevicePathNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DevicePathNode::PciRoot { uid } => write!(f, "PciRoot({uid:#x})"),
            DevicePathNode::Pci { device, function } => write!(f, "Pci({device:#x},{function:#x})"),
            DevicePathNode::Nvme { namespace, eui64 } => {
                let eui64 = eui64.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join("-");
                write!(f, "NVMe({namespace:#x},{eui64})")
            }
            DevicePathNode::Sata { port, lun } => write!(f, "Sata({port:#x},{NO_PORT_MULTIPLIER:#x},{lun:#x})"),
            DevicePathNode::Scsi { target, lun } => write!(f, "Scsi({target:#x},{lun:#x})"),
            DevicePathNode::HardDrive { partition, start_lba, blocks, guid } => {
                let guid = firesteel_facts::Guid(*guid);
                write!(f, "HD({partition},GPT,{guid},{start_lba:#x},{blocks:#x})")
            }
            DevicePathNode::File { path } => f.write_str(path),
        }
    }
}

/// Whether an encoded path goes to the network: through a MAC, an IP or a URI node.
#[must_use]
pub fn is_network(path: &[u8]) -> bool {
    let mut rest = path;
    while let &[kind, subtype, low, high, ..] = rest {
        let length = usize::from(u16::from_le_bytes([low, high]));
        if kind == END || length < 4 || length > rest.len() {
            return false;
        }
        if kind == MESSAGING && matches!(subtype, 11 | 12 | 13 | 24) {
            return true;
        }
        rest = &rest[length..];
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_sysfs::location::PciAddress;

    use super::*;

    fn at(pci: &[&str], attachment: Attachment) -> DeviceLocation {
        DeviceLocation {
            root_bridge: "pci0000:00".into(),
            pci: pci.iter().map(|text| PciAddress::parse(text).unwrap()).collect(),
            attachment,
            hctl: String::new(),
        }
    }

    #[test]
    fn nvme_behind_a_root_port_byte_by_byte() {
        let eui64 = [0, 0x25, 0x38, 0x5a, 0x91, 0xb1, 2, 3];
        let location = at(&["0000:00:1c.4", "0000:02:00.0"], Attachment::Nvme { namespace: 1, eui64 });
        let nodes = to_disk(&location, 0).unwrap();
        assert_eq!(
            hex::encode(encode(&nodes)),
            concat!(
                "02010c00d041030a00000000", // PciRoot(0x0)
                "01010600041c",             // Pci(0x1c,0x4)
                "010106000000",             // Pci(0x0,0x0)
                "031710000100000000",
                "25385a91b10203", // NVMe(0x1,00-25-38-5A-91-B1-02-03)
                "7fff0400"
            )
        );
        assert_eq!(text(&nodes), "PciRoot(0x0)/Pci(0x1c,0x4)/Pci(0x0,0x0)/NVMe(0x1,00-25-38-5A-91-B1-02-03)");
    }

    #[test]
    fn sata_scsi_and_virtio_byte_by_byte() {
        let sata = to_disk(&at(&["0000:00:1f.2"], Attachment::Ata { port: 1, lun: 0 }), 0).unwrap();
        assert_eq!(hex::encode(&encode(&sata)[12..]), "01010600021f".to_owned() + "03120a000000ffff0000" + "7fff0400");
        assert_eq!(text(&sata), "PciRoot(0x0)/Pci(0x1f,0x2)/Sata(0x0,0xffff,0x0)");
        let scsi = Attachment::Scsi { host: 0, channel: 0, target: 3, lun: 1 };
        let scsi = to_disk(&at(&["0000:00:05.0"], scsi), 1).unwrap();
        assert_eq!(
            hex::encode(encode(&scsi)),
            "02010c00d041030a01000000010106000005030208000300010".to_owned() + "07fff0400"
        );
        let virtio = to_disk(&at(&["0000:00:03.0"], Attachment::VirtioBlock), 0).unwrap();
        assert_eq!(text(&virtio), "PciRoot(0x0)/Pci(0x3,0x0)");
        let odd = Attachment::Scsi { host: 0, channel: 1, target: 3, lun: 1 };
        assert_eq!(to_disk(&at(&["0000:00:05.0"], odd), 0), Err(NoFullPath::Attachment));
        assert_eq!(to_disk(&at(&[], Attachment::VirtioBlock), 0), Err(NoFullPath::NotPci));
    }

    #[test]
    fn partition_and_file_byte_by_byte() {
        let guid: firesteel_facts::Guid = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".parse().unwrap();
        let nodes = [
            DevicePathNode::HardDrive { partition: 1, start_lba: 2048, blocks: 131_072, guid: guid.0 },
            DevicePathNode::File { path: "\\A".into() },
        ];
        assert_eq!(
            hex::encode(encode(&nodes)),
            concat!(
                "04012a00",
                "01000000",
                "0008000000000000",
                "0000020000000000",
                "3e2a1c6f5d0b7e4c9a102f3b4c5d6e7f",
                "0202",
                "04040a005c00410000007fff0400"
            )
        );
        assert_eq!(text(&nodes), "HD(1,GPT,6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f,0x800,0x20000)/\\A");
    }

    #[test]
    fn network_paths_are_told_apart() {
        let mac = [&[3, 11, 37, 0][..], &[0; 33], &[END, 0xff, 4, 0]].concat();
        assert!(is_network(&mac));
        assert!(!is_network(&encode(&[DevicePathNode::PciRoot { uid: 0 }])));
        assert!(!is_network(&[3, 11, 3, 0]) && !is_network(&[3, 11, 200, 0]) && !is_network(&[3]));
    }

    proptest::proptest! {
        #[test]
        fn any_path_is_survived(bytes in proptest::collection::vec(0u8.., 0..100)) {
            let _any = is_network(&bytes);
        }
    }
}
