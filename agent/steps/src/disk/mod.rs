//! Which disk a step may touch. Pure: the plan's identity and the disks as they are now go in,
//! exactly one disk or a refusal that lists every disk and why comes out.
//!
//! Called once when a plan is accepted and again right before each destructive step: between the
//! two a drive may have been pulled.

pub mod boot_partition;
pub mod label;

use std::fmt::Write as _;

use firesteel_sysfs::disks::PresentDisk;
use firesteel_wire::{DiskIdentity, InventoryDisk};

/// The disks are not as the plan says. Nothing was touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{summary}{}", list(.disks))]
pub struct DiskMismatch {
    pub summary: String,
    /// Each disk of the host and why it is or is not the one.
    pub disks: Vec<(String, String)>,
}

fn list(disks: &[(String, String)]) -> String {
    let mut text =
        if disks.is_empty() { "; this host shows no disk at all".to_owned() } else { "; disks: ".to_owned() };
    for (index, (disk, why)) in disks.iter().enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        // Writing to a String cannot fail.
        let done = write!(text, "{separator}{disk}: {why}");
        debug_assert!(done.is_ok());
    }
    text
}

/// The one disk that the plan means, if it is there once and nothing speaks against writing to it.
pub fn resolve(wanted: &DiskIdentity, disks: &[PresentDisk]) -> Result<InventoryDisk, DiskMismatch> {
    find(wanted, disks, |seen| [objections(seen), seen.holders.clone()].concat())
}

/// Resolves a disk like [`resolve`], where what is assembled from it is taken apart first.
pub fn resolve_held(wanted: &DiskIdentity, disks: &[PresentDisk]) -> Result<InventoryDisk, DiskMismatch> {
    find(wanted, disks, objections)
}

fn find(
    wanted: &DiskIdentity,
    disks: &[PresentDisk],
    objections: impl Fn(&PresentDisk) -> Vec<String>,
) -> Result<InventoryDisk, DiskMismatch> {
    let verdicts: Vec<_> = disks.iter().map(|seen| (seen, differences(wanted, &seen.disk))).collect();
    let matching: Vec<_> = verdicts.iter().filter(|(_, differs)| differs.is_empty()).collect();
    let drift = |summary: String, of_match: &dyn Fn(&PresentDisk) -> String| DiskMismatch {
        summary,
        disks: verdicts
            .iter()
            .map(|(seen, differs)| {
                let why = if differs.is_empty() { of_match(seen) } else { differs.join(", ") };
                (describe(&seen.disk), why)
            })
            .collect(),
    };
    if !is_specific(wanted) {
        return Err(drift(
            format!("the plan does not say which disk it means ({wanted}): neither a WWN, nor a serial, nor a path"),
            &|_| "not examined".to_owned(),
        ));
    }
    match matching.as_slice() {
        [] => Err(drift(format!("no disk is the one that the plan names ({wanted})"), &|_| String::new())),
        [(seen, _)] => {
            let objections = objections(seen);
            if objections.is_empty() {
                return Ok(seen.disk.clone());
            }
            Err(drift(
                format!("{} is the disk that the plan names, but it must not be written", seen.disk.device),
                &|_| objections.join(", "),
            ))
        }
        several => Err(drift(
            format!("{} disks are the one that the plan names ({wanted}); none is touched", several.len()),
            &|_| "matches".to_owned(),
        )),
    }
}

/// Size and model alone are shared by every disk of a batch.
fn is_specific(wanted: &DiskIdentity) -> bool {
    wanted.size_bytes > 0 && !(wanted.wwn.is_empty() && wanted.serial.is_empty() && wanted.by_path.is_empty())
}

fn differences(wanted: &DiskIdentity, disk: &InventoryDisk) -> Vec<String> {
    let mut differs = Vec::new();
    // An earlier plan may have the WWN without its extension.
    let wwn = if wanted.wwn == disk.wwn { &disk.wwn } else { disk.full_wwn() };
    for (name, want, have) in [
        ("WWN", wanted.wwn.as_str(), wwn),
        ("serial", &wanted.serial, &disk.serial),
        ("model", &wanted.model, &disk.model),
        ("path", &wanted.by_path, &disk.by_path),
    ] {
        // What stands at a path is another disk once it has a name that the planned one had not.
        let must_lack = !wanted.by_path.is_empty() && want.is_empty() && !have.is_empty() && name != "model";
        if must_lack {
            differs.push(format!("{name} is {have}, and the disk that was inspected at this path had none"));
        } else if !want.is_empty() && want != have {
            let have = if have.is_empty() { "unknown" } else { have };
            differs.push(format!("{name} is {have}, not {want}"));
        }
    }
    if wanted.size_bytes != disk.size_bytes {
        differs.push(format!("size is {} bytes, not {}", disk.size_bytes, wanted.size_bytes));
    }
    differs
}

fn objections(seen: &PresentDisk) -> Vec<String> {
    let mut objections = seen.uses.clone();
    if seen.disk.read_only {
        objections.push("it is read-only".to_owned());
    }
    objections
}

fn describe(disk: &InventoryDisk) -> String {
    let mut text = disk.device.clone();
    for (name, value) in [("", &disk.model), ("serial ", &disk.serial), ("wwn ", &disk.wwn)] {
        if !value.is_empty() {
            text = format!("{text} {name}{value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn disk(device: &str, serial: &str, wwn: &str) -> PresentDisk {
        let disk = InventoryDisk {
            device: device.into(),
            serial: serial.into(),
            wwn: wwn.into(),
            model: "QEMU NVMe Ctrl".into(),
            by_path: format!("/dev/disk/by-path/{device}"),
            size_bytes: 8 << 30,
            ..InventoryDisk::default()
        };
        PresentDisk { disk, ..PresentDisk::default() }
    }

    fn wanted(serial: &str) -> DiskIdentity {
        DiskIdentity { serial: serial.into(), size_bytes: 8 << 30, ..DiskIdentity::default() }
    }

    #[test]
    fn one_match_is_taken_whatever_its_name_is_now() {
        let disks = [disk("/dev/sdb", "A", ""), disk("/dev/sda", "B", "")];
        assert_eq!(resolve(&wanted("A"), &disks).unwrap().device, "/dev/sdb");
    }

    #[test]
    fn every_field_that_the_plan_names_must_be_equal() {
        let disks = [disk("/dev/sda", "A", "0x5000")];
        let full = DiskIdentity {
            wwn: "0x5000".into(),
            model: "QEMU NVMe Ctrl".into(),
            by_path: "/dev/disk/by-path//dev/sda".into(),
            ..wanted("A")
        };
        assert!(resolve(&full, &disks).is_ok());
        for changed in [
            DiskIdentity { wwn: "0x5001".into(), ..full.clone() },
            DiskIdentity { serial: "B".into(), ..full.clone() },
            DiskIdentity { model: "QEMU".into(), ..full.clone() },
            DiskIdentity { by_path: "/dev/disk/by-path/x".into(), ..full.clone() },
            DiskIdentity { size_bytes: 1, ..full.clone() },
        ] {
            let drift = resolve(&changed, &disks).unwrap_err();
            assert_eq!(drift.disks.len(), 1);
            assert!(drift.disks[0].1.contains("not"), "{drift}");
        }
    }

    #[test]
    fn a_path_means_the_disk_that_was_inspected_there() {
        let nameless = |serial: &str, wwn: &str| PresentDisk {
            disk: InventoryDisk {
                by_path: "/dev/disk/by-path/pci-0000:04:00.0".into(),
                ..disk("/dev/vda", serial, wwn).disk
            },
            ..PresentDisk::default()
        };
        let by_path =
            DiskIdentity { by_path: "/dev/disk/by-path/pci-0000:04:00.0".into(), model: String::new(), ..wanted("") };
        assert!(resolve(&by_path, &[nameless("", "")]).is_ok());
        for (serial, wwn, why) in [("S1", "", "serial is S1, and"), ("", "0x5", "WWN is 0x5, and")] {
            let drift = resolve(&by_path, &[nameless(serial, wwn)]).unwrap_err().to_string();
            assert!(drift.contains(why) && drift.contains("had none"), "{drift}");
        }
        let grown = DiskIdentity { size_bytes: 9 << 30, ..by_path };
        assert!(resolve(&grown, &[nameless("", "")]).unwrap_err().to_string().contains("size is"));
    }

    #[test]
    fn the_full_wwn_tells_volumes_of_one_array_apart() {
        let volume = |device: &str, extension: &str| {
            let mut seen = disk(device, "ARRAY", "0x6d0946600a1b2c00");
            seen.disk.wwn_with_extension = format!("0x6d0946600a1b2c00{extension}");
            seen
        };
        let volumes = [volume("/dev/sda", "2a8e"), volume("/dev/sdb", "2a8f")];
        let of = |wwn: &str| DiskIdentity { wwn: wwn.into(), ..wanted("ARRAY") };
        assert_eq!(resolve(&of("0x6d0946600a1b2c002a8f"), &volumes).unwrap().device, "/dev/sdb");
        assert!(resolve(&of("0x6d0946600a1b2c00"), &volumes).is_err(), "the short one means both");
    }

    #[test]
    fn twins_are_not_touched_and_all_disks_are_listed() {
        let disks = [disk("/dev/sda", "A", ""), disk("/dev/sdb", "A", ""), disk("/dev/sdc", "C", "")];
        let text = resolve(&wanted("A"), &disks).unwrap_err().to_string();
        assert!(text.starts_with("2 disks are the one"), "{text}");
        for device in ["/dev/sda", "/dev/sdb", "/dev/sdc"] {
            assert!(text.contains(device), "{text}");
        }
    }

    #[test]
    fn a_disk_in_use_or_read_only_is_refused() {
        let mut used = disk("/dev/sda", "A", "");
        used.uses.push("mounted at /mnt".into());
        assert!(resolve(&wanted("A"), &[used]).unwrap_err().to_string().contains("mounted at /mnt"));
        let mut held = disk("/dev/sda", "A", "");
        held.holders.push("sda1 is held by md0".into());
        assert!(resolve(&wanted("A"), &[held.clone()]).unwrap_err().to_string().contains("held by md0"));
        assert!(resolve_held(&wanted("A"), &[held]).is_ok());
        let mut read_only = disk("/dev/sda", "A", "");
        read_only.disk.read_only = true;
        assert!(resolve(&wanted("A"), &[read_only]).unwrap_err().to_string().contains("read-only"));
    }

    #[test]
    fn size_and_model_alone_name_no_disk() {
        let vague = DiskIdentity { model: "QEMU NVMe Ctrl".into(), ..wanted("") };
        assert!(resolve(&vague, &[disk("/dev/sda", "", "")]).is_err());
        assert!(resolve(&wanted("A"), &[]).unwrap_err().to_string().contains("no disk at all"));
    }

    proptest! {
        /// Whatever disks there are: what is chosen carries every identity that was asked for, and
        /// nothing else does.
        #[test]
        fn a_choice_is_always_the_only_match(serials in proptest::collection::vec("[AB]?", 0..5), want in "[AB]?") {
            let disks: Vec<_> =
                serials.iter().enumerate().map(|(n, serial)| disk(&format!("/dev/sd{n}"), serial, "")).collect();
            let same = serials.iter().filter(|serial| **serial == want).count();
            match resolve(&wanted(&want), &disks) {
                Ok(chosen) => prop_assert!(same == 1 && !want.is_empty() && chosen.serial == want),
                Err(drift) => {
                    prop_assert!(same != 1 || want.is_empty());
                    prop_assert_eq!(drift.disks.len(), disks.len());
                }
            }
        }
    }
}
