//! Root device hints: every kind alone, and all of those given together.

use firesteel_resources::{RootDeviceHints, hardware::DiskRecord};

/// The unit of `minSizeGigabytes`, whatever its name says (upstream).
const GIB: u64 = 1 << 30;

/// The first hint that the disk does not match, in words; `None` when all match.
///
/// Text is compared without regard to case, as upstream's deployment service does.
#[must_use]
pub fn mismatch(hints: &RootDeviceHints, disk: &DiskRecord) -> Option<String> {
    let equal = [
        ("hctl", &hints.hctl, &disk.hctl),
        ("serialNumber", &hints.serial_number, &disk.serial),
        ("wwn", &hints.wwn, &disk.wwn),
        ("wwnWithExtension", &hints.wwn_with_extension, &disk.wwn_with_extension),
        ("wwnVendorExtension", &hints.wwn_vendor_extension, &disk.wwn_vendor_extension),
    ];
    let contained = [("model", &hints.model, &disk.model), ("vendor", &hints.vendor, &disk.vendor)];
    let differs = equal.into_iter().find(|(_, want, has)| !want.is_empty() && !same(want, has));
    let lacks = contained.into_iter().find(|(_, want, has)| !want.is_empty() && !holds(want, has));
    if !hints.device_name.is_empty() && !is_named(&hints.device_name, disk) {
        return Some(format!("deviceName is not {}", hints.device_name));
    }
    if let Some((name, want, has)) = differs {
        return Some(format!("{name} is {}, not {want}", shown(has)));
    }
    if let Some((name, want, has)) = lacks {
        return Some(format!("{name} {} does not contain {want}", shown(has)));
    }
    if disk.size_bytes / GIB < hints.min_size_gigabytes {
        return Some(format!("has {} GiB, under minSizeGigabytes {}", disk.size_bytes / GIB, hints.min_size_gigabytes));
    }
    match hints.rotational {
        Some(true) if !disk.rotational => Some("is not rotational".to_owned()),
        Some(false) if disk.rotational => Some("is rotational".to_owned()),
        Some(_) | None => None,
    }
}

/// Whether the hints name a disk by what one boot's kernel called it (`/dev/sda`), which another
/// boot may give to another disk.
#[must_use]
pub fn names_kernel_device(hints: &RootDeviceHints) -> bool {
    !hints.device_name.is_empty() && !hints.device_name.starts_with("/dev/disk/")
}

fn is_named(name: &str, disk: &DiskRecord) -> bool {
    disk.device == name || disk.by_path == name || disk.by_id.iter().any(|other| other == name)
}

fn same(want: &str, has: &str) -> bool {
    want.trim().eq_ignore_ascii_case(has.trim())
}

fn holds(want: &str, has: &str) -> bool {
    has.to_ascii_lowercase().contains(&want.trim().to_ascii_lowercase())
}

fn shown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> DiskRecord {
        DiskRecord {
            device: "/dev/sda".into(),
            by_path: "/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:1".into(),
            by_id: vec!["/dev/disk/by-id/wwn-0x5000c500a1b2c3d4".into()],
            size_bytes: 500_107_862_016,
            model: "ST500NM0011".into(),
            vendor: "SEAGATE".into(),
            serial: "Z1M0ABCD".into(),
            wwn: "0x5000c500a1b2c3d4".into(),
            wwn_with_extension: "0x5000c500a1b2c3d40001".into(),
            wwn_vendor_extension: "0x0001".into(),
            hctl: "0:0:0:1".into(),
            rotational: true,
            ..DiskRecord::default()
        }
    }

    #[test]
    fn each_kind_matches_and_fails_alone() {
        type Set = fn(&mut RootDeviceHints, &str);
        let rows: [(&str, Set, &[&str], &str); 9] = [
            (
                "deviceName",
                |hints, value| hints.device_name = value.into(),
                &[
                    "/dev/sda",
                    "/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:1",
                    "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
                ],
                "/dev/sdb",
            ),
            ("hctl", |hints, value| hints.hctl = value.into(), &["0:0:0:1"], "0:0:0:0"),
            ("model", |hints, value| hints.model = value.into(), &["ST500", "st500nm0011"], "ST400"),
            ("vendor", |hints, value| hints.vendor = value.into(), &["Seagate", "GATE"], "WDC"),
            ("serialNumber", |hints, value| hints.serial_number = value.into(), &["Z1M0ABCD"], "Z1M0"),
            ("wwn", |hints, value| hints.wwn = value.into(), &["0x5000C500A1B2C3D4"], "0x5000c500a1b2c3d5"),
            (
                "wwnWithExtension",
                |hints, value| hints.wwn_with_extension = value.into(),
                &["0x5000c500a1b2c3d40001"],
                "0x5000c500a1b2c3d4",
            ),
            ("wwnVendorExtension", |hints, value| hints.wwn_vendor_extension = value.into(), &["0x0001"], "0x0002"),
            (
                "minSizeGigabytes",
                |hints, value| hints.min_size_gigabytes = value.parse().unwrap_or_default(),
                &["1", "465"],
                "466",
            ),
        ];
        for (name, set, good, bad) in rows {
            for value in good {
                let mut hints = RootDeviceHints::default();
                set(&mut hints, value);
                assert_eq!(mismatch(&hints, &disk()), None, "{name} {value}");
            }
            let mut hints = RootDeviceHints::default();
            set(&mut hints, bad);
            let why = mismatch(&hints, &disk());
            assert!(why.as_ref().is_some_and(|why| why.contains(bad)), "{name} {bad}: {why:?}");
        }
        let rotational = |value| RootDeviceHints { rotational: Some(value), ..RootDeviceHints::default() };
        assert_eq!(mismatch(&rotational(true), &disk()), None);
        assert!(mismatch(&rotational(false), &disk()).is_some());
    }

    #[test]
    fn all_hints_must_match_together() {
        let mut hints = RootDeviceHints { model: "ST500".into(), rotational: Some(true), ..RootDeviceHints::default() };
        assert_eq!(mismatch(&hints, &disk()), None);
        hints.serial_number = "other".into();
        assert!(mismatch(&hints, &disk()).is_some());
    }

    #[test]
    fn kernel_names_are_told_from_stable_ones() {
        let named = |name: &str| RootDeviceHints { device_name: name.into(), ..RootDeviceHints::default() };
        assert!(names_kernel_device(&named("/dev/sda")));
        assert!(!names_kernel_device(&named("/dev/disk/by-path/x")) && !names_kernel_device(&named("")));
    }
}
