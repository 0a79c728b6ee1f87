//! Every kind of hint against one set of disks: which disk is planned, or what the error says. Each error
//! names every disk.

use firesteel_resources::{RootDeviceHints, hardware::DiskRecord};

use super::select_disk;

const GIB: u64 = 1 << 30;

/// A rack server's disks: two of a mirror, two paths to one LUN, a pair of equal size, a small one.
fn disks() -> Vec<DiskRecord> {
    let disk = |device: &str, path: &str, vendor: &str, model: &str, serial: &str, gib: u64| DiskRecord {
        device: device.into(),
        by_path: format!("/dev/disk/by-path/{path}"),
        vendor: vendor.into(),
        model: model.into(),
        serial: serial.into(),
        size_bytes: gib * GIB,
        ..DiskRecord::default()
    };
    let mut all = vec![
        disk("/dev/sda", "pci-0000:00:1f.2-ata-2", "ATA", "ST500NM0011", "Z1M0ABCD", 465),
        disk("/dev/sdb", "pci-0000:00:1f.2-ata-1", "ATA", "ST500NM0011", "Z1M0WXYZ", 465),
        disk("/dev/nvme0n1", "pci-0000:04:00.0-nvme-1", "", "SAMSUNG MZQL21T9HCJR-00A07", "S64GNE0R", 1788),
        disk("/dev/sdc", "pci-0000:00:1f.2-ata-3", "ATA", "SATADOM-ML 3ME", "2019DOM", 3),
        disk("/dev/sdd", "pci-0000:00:1f.2-ata-4", "ATA", "INTEL SSDSC2BB24", "BTWD1", 223),
        disk("/dev/sde", "pci-0000:00:1f.2-ata-5", "ATA", "INTEL SSDSC2BB24", "BTWD2", 223),
        disk("/dev/sdf", "pci-0000:05:00.0-fc-0x1-lun-0", "NETAPP", "LUN C-Mode", "80A7", 100),
        disk("/dev/sdg", "pci-0000:05:00.1-fc-0x2-lun-0", "NETAPP", "LUN C-Mode", "80A7", 100),
    ];
    for (index, rotational) in [true, true, false, false, false, false, false, false].into_iter().enumerate() {
        all[index].rotational = rotational;
        all[index].hctl = if index == 2 { String::new() } else { format!("{index}:0:0:0") };
    }
    all[0].by_id.push("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4".into());
    all[0].wwn = "0x5000c500a1b2c3d4".into();
    all[0].wwn_with_extension = "0x5000c500a1b2c3d40001".into();
    all[0].wwn_vendor_extension = "0x0001".into();
    all[4].signatures.push("linux_raid_member".into());
    all[5].signatures = vec!["gpt".into(), "linux_raid_member".into()];
    (all[6].wwn, all[7].wwn) = ("0x600a0980aa".into(), "0x600A0980AA".into());
    all
}

type Set = fn(&mut RootDeviceHints);

/// What is hinted, and the device that is planned or what the error says, each part of it.
type Row = (&'static str, Set, Result<&'static str, &'static [&'static str]>);

const ROWS: &[Row] = &[
    // Neither the small one nor members of a RAID nor paths of one LUN; of two alike the first by path.
    ("nothing", |_| {}, Ok("/dev/sdb")),
    ("a kernel name", |h| h.device_name = "/dev/sda".into(), Ok("/dev/sda")),
    ("by-path", |h| h.device_name = "/dev/disk/by-path/pci-0000:04:00.0-nvme-1".into(), Ok("/dev/nvme0n1")),
    ("by-id", |h| h.device_name = "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4".into(), Ok("/dev/sda")),
    ("hctl", |h| h.hctl = "1:0:0:0".into(), Ok("/dev/sdb")),
    ("a part of a model", |h| h.model = "mzql2".into(), Ok("/dev/nvme0n1")),
    (
        "a part of a vendor",
        |h| h.vendor = "NET".into(),
        Err(&[
            "no disk matches",
            "/dev/sdf (NETAPP LUN C-Mode 80A7",
            "same WWN as /dev/sdg: two paths to one disk (multipath)",
        ]),
    ),
    (
        "a model of several",
        |h| h.model = "ST500".into(),
        Err(&[
            "2 disks match",
            "/dev/sda (ATA ST500NM0011 Z1M0ABCD 499.3 GB) matches",
            "/dev/sdb (ATA ST500NM0011 Z1M0WXYZ 499.3 GB) matches",
            "/dev/sdc (ATA SATADOM-ML 3ME 2019DOM 3.2 GB) model SATADOM-ML 3ME does not contain ST500",
        ]),
    ),
    ("serialNumber", |h| h.serial_number = "S64GNE0R".into(), Ok("/dev/nvme0n1")),
    (
        "a part of a serial number",
        |h| h.serial_number = "S64".into(),
        Err(&["no disk matches", "serialNumber is S64GNE0R, not S64"]),
    ),
    ("minSizeGigabytes", |h| h.min_size_gigabytes = 1000, Ok("/dev/nvme0n1")),
    (
        "more than there is",
        |h| h.min_size_gigabytes = 1789,
        Err(&["no disk matches", "has 1788 GiB, under minSizeGigabytes 1789"]),
    ),
    ("wwn", |h| h.wwn = "0x5000C500A1B2C3D4".into(), Ok("/dev/sda")),
    ("wwnWithExtension", |h| h.wwn_with_extension = "0x5000c500a1b2c3d40001".into(), Ok("/dev/sda")),
    ("wwnVendorExtension", |h| h.wwn_vendor_extension = "0x0001".into(), Ok("/dev/sda")),
    (
        "rotational",
        |h| h.rotational = Some(true),
        Err(&["2 disks match", "/dev/nvme0n1 (SAMSUNG MZQL21T9HCJR-00A07 S64GNE0R 1919.9 GB) is not rotational"]),
    ),
    // The one small disk is named, so its size does not matter; the RAID members are not.
    (
        "not rotational",
        |h| h.rotational = Some(false),
        Err(&[
            "2 disks match",
            "/dev/nvme0n1",
            "/dev/sdc (ATA SATADOM-ML 3ME 2019DOM 3.2 GB) matches",
            "/dev/sdd (ATA INTEL SSDSC2BB24 BTWD1 239.4 GB) is a member of a RAID (linux_raid_member); to use it, set spec",
        ]),
    ),
    ("a small disk", |h| h.model = "SATADOM".into(), Ok("/dev/sdc")),
    (
        "the model of RAID members",
        |h| h.model = "INTEL".into(),
        Err(&["no disk matches", "/dev/sdd", "/dev/sde", "is a member of a RAID"]),
    ),
    ("a RAID member by name", |h| h.serial_number = "BTWD2".into(), Ok("/dev/sde")),
    (
        "one path by its name",
        |h| h.device_name = "/dev/disk/by-path/pci-0000:05:00.1-fc-0x2-lun-0".into(),
        Ok("/dev/sdg"),
    ),
    (
        "one path by its kernel name",
        |h| h.device_name = "/dev/sdg".into(),
        Err(&["no disk matches", "{deviceName: \"/dev/disk/by-path/pci-0000:05:00.1-fc-0x2-lun-0\"}"]),
    ),
    ("all together", all_of_sda, Ok("/dev/sda")),
    (
        "all together but one",
        |h| {
            all_of_sda(h);
            h.hctl = "0:0:0:1".into();
        },
        Err(&["no disk matches", "hctl is 0:0:0:0, not 0:0:0:1"]),
    ),
    (
        "what no disk is",
        |h| h.wwn = "0x5".into(),
        Err(&["no disk matches", "wwn is 0x5000c500a1b2c3d4, not 0x5", "wwn is unknown, not 0x5"]),
    ),
];

fn all_of_sda(hints: &mut RootDeviceHints) {
    *hints = RootDeviceHints {
        device_name: "/dev/disk/by-path/pci-0000:00:1f.2-ata-2".into(),
        hctl: "0:0:0:0".into(),
        model: "ST500".into(),
        vendor: "ATA".into(),
        serial_number: "Z1M0ABCD".into(),
        min_size_gigabytes: 400,
        wwn: "0x5000c500a1b2c3d4".into(),
        wwn_with_extension: "0x5000c500a1b2c3d40001".into(),
        wwn_vendor_extension: "0x0001".into(),
        rotational: Some(true),
    };
}

#[test]
fn hints() {
    let disks = disks();
    for (name, set, expected) in ROWS {
        let mut hints = RootDeviceHints::default();
        set(&mut hints);
        match (select_disk(&hints, &disks), expected) {
            (Ok(choice), Ok(device)) => assert_eq!(choice.device, *device, "{name}"),
            (Err(error), Err(parts)) => {
                let text = error.to_string();
                for part in *parts {
                    assert!(text.contains(part), "{name}: {part:?} is missing in: {text}");
                }
                for disk in &disks {
                    assert!(
                        text.contains(&format!("{} (", disk.device)),
                        "{name}: {} is missing in: {text}",
                        disk.device
                    );
                }
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}
