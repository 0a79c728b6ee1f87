//! The choice itself.

use std::fmt;

use firesteel_resources::{RootDeviceHints, hardware::DiskRecord};
use serde::{Deserialize, Serialize};

use crate::disk::attachment::{describes, names_one, set_apart};
use crate::disk::identity::{hint_for, identity};
use crate::disk::{DiskIdentity, OwnerNamedPlaces, mismatch, size_text};

/// Least size of a disk that is chosen without hints: smaller ones are boot sticks and SD cards (upstream).
pub const SIZE_BYTES_MIN: u64 = 4 << 30;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskChoice {
    pub disk: DiskIdentity,
    /// Names in the boot of the inspection, for people.
    pub device: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by_path: String,
    /// Why this one, in words.
    pub why: String,
}

/// What was thought of one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskVerdict {
    pub device: String,
    /// Model, serial number and so on.
    pub looks: String,
    pub verdict: String,
}

/// No disk can be chosen; lists every disk and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoDisk {
    pub reason: String,
    pub disks: Vec<DiskVerdict>,
}

impl fmt::Display for NoDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        for (index, disk) in self.disks.iter().enumerate() {
            let lead = if index == 0 { ": " } else { "; " };
            write!(f, "{lead}{} ({}) {}", disk.device, disk.looks, disk.verdict)?;
        }
        Ok(())
    }
}

/// Chooses the disk to write.
///
/// # Errors
/// None or several disks qualify.
pub fn select_disk(hints: &RootDeviceHints, disks: &[DiskRecord]) -> Result<DiskChoice, NoDisk> {
    let verdicts = judge_all(hints, disks);
    let mut good: Vec<(&DiskRecord, &DiskIdentity)> =
        disks.iter().zip(&verdicts).filter_map(|(disk, verdict)| Some((disk, verdict.as_ref().ok()?))).collect();
    good.sort_by(|(a, _), (b, _)| (a.size_bytes, &a.by_path, &a.device).cmp(&(b.size_bytes, &b.by_path, &b.device)));
    let refuse = |reason: String| {
        Err(NoDisk {
            reason,
            disks: disks.iter().zip(&verdicts).map(|(disk, verdict)| explain(disk, words_of(verdict))).collect(),
        })
    };
    match good.as_slice() {
        [] if disks.is_empty() => refuse("the inspection found no disk".to_owned()),
        [] if hints.is_empty() => refuse("none of the disks is one to install on unless it is named".to_owned()),
        [] => refuse("no disk matches spec.rootDeviceHints".to_owned()),
        [_, _, ..] if !hints.is_empty() => {
            refuse(format!("{} disks match spec.rootDeviceHints, which must name one", good.len()))
        }
        [(disk, identity), ..] => Ok(DiskChoice {
            disk: (*identity).clone(),
            device: disk.device.clone(),
            by_path: disk.by_path.clone(),
            why: if hints.is_empty() {
                format!("the smallest of the {} disks that can be written", good.len())
            } else {
                "the only disk that matches spec.rootDeviceHints".to_owned()
            },
        }),
    }
}

/// What is thought of each disk, in their order; `matches` for those that may be written.
#[must_use]
pub fn verdicts(hints: &RootDeviceHints, disks: &[DiskRecord]) -> Vec<DiskVerdict> {
    disks.iter().zip(judge_all(hints, disks)).map(|(disk, verdict)| explain(disk, words_of(&verdict))).collect()
}

/// Why a disk is not chosen.
#[derive(Debug, thiserror::Error)]
enum UnfitDisk {
    #[error("{0}")]
    Hint(String),
    #[error("has no medium")]
    NoMedium,
    #[error("is read-only")]
    ReadOnly,
    #[error("is smaller than {}", size_text(SIZE_BYTES_MIN))]
    Small,
    /// Its owner has to name it.
    #[error("{why}{to_use}")]
    Unnamed { why: String, to_use: String },
}

type DiskFit = Result<DiskIdentity, UnfitDisk>;

fn words_of(fit: &DiskFit) -> String {
    fit.as_ref().map_or_else(ToString::to_string, |_| "matches".to_owned())
}

/// Hints that describe a disk without naming it mean one that is set apart only where no other one fits.
fn judge_all(hints: &RootDeviceHints, disks: &[DiskRecord]) -> Vec<DiskFit> {
    let judge_with = |may_be_apart| disks.iter().map(|disk| judge(hints, may_be_apart, disk, disks)).collect();
    let verdicts: Vec<DiskFit> = judge_with(names_one(hints));
    if describes(hints) && verdicts.iter().all(Result::is_err) { judge_with(true) } else { verdicts }
}

fn judge(hints: &RootDeviceHints, may_be_apart: bool, disk: &DiskRecord, disks: &[DiskRecord]) -> DiskFit {
    let unnamed = |why: String| UnfitDisk::Unnamed { why, to_use: to_use(disk, disks) };
    if let Some(why) = mismatch(hints, disk) {
        return Err(UnfitDisk::Hint(why));
    }
    if disk.size_bytes == 0 {
        return Err(UnfitDisk::NoMedium);
    }
    if disk.read_only {
        return Err(UnfitDisk::ReadOnly);
    }
    if let Some(raid) = raid(disk).filter(|_| !names_one(hints)) {
        return Err(unnamed(format!("is a member of a RAID ({raid})")));
    }
    if let Some(apart) = set_apart(disk).filter(|_| !may_be_apart) {
        return Err(unnamed(apart));
    }
    if hints.is_empty() && disk.size_bytes < SIZE_BYTES_MIN {
        return Err(UnfitDisk::Small);
    }
    identity(&OwnerNamedPlaces::hints(hints), disk, disks).map_err(|why| unnamed(why.to_string()))
}

/// What its owner sets to have this disk used.
fn to_use(disk: &DiskRecord, disks: &[DiskRecord]) -> String {
    match hint_for(disk, disks) {
        Some(hint) => format!("; to use it, set {hint}"),
        None => " and no by-path name, so it cannot be named".to_owned(),
    }
}

/// The mark of the RAID that the disk, or one of its partitions, is a part of: what is written to one member
/// destroys what is on all. The kernel's own, and those of mainboards and controllers.
fn raid(disk: &DiskRecord) -> Option<&str> {
    const MARKS: [&str; 3] = ["linux_raid_member", "ddf_raid_member", "isw_raid_member"];
    MARKS.into_iter().find(|mark| disk.signatures.iter().any(|found| found == mark))
}

pub(super) fn explain(disk: &DiskRecord, verdict: impl Into<String>) -> DiskVerdict {
    let looks: Vec<&str> =
        [disk.vendor.as_str(), &disk.model, &disk.serial].into_iter().filter(|text| !text.is_empty()).collect();
    DiskVerdict {
        device: disk.device.clone(),
        looks: [looks.join(" "), size_text(disk.size_bytes)].join(" ").trim().to_owned(),
        verdict: verdict.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use firesteel_contents::DiskContents;
    use proptest::prelude::*;

    use super::*;

    const GB: u64 = 1_000_000_000;

    fn disk(device: &str, path: &str, serial: &str, size_gb: u64) -> DiskRecord {
        DiskRecord {
            device: device.into(),
            by_path: format!("/dev/disk/by-path/{path}"),
            serial: serial.into(),
            size_bytes: size_gb * GB,
            ..DiskRecord::default()
        }
    }

    #[test]
    fn without_hints_the_smallest_from_4_gib_ties_by_path() {
        let disks = [
            disk("/dev/sda", "d", "A", 3),
            disk("/dev/sdb", "c", "B", 10),
            disk("/dev/sdc", "b", "C", 10),
            disk("/dev/sdd", "a", "D", 20),
        ];
        let choice = select_disk(&RootDeviceHints::default(), &disks).unwrap();
        assert_eq!((choice.device.as_str(), choice.disk.serial.as_str()), ("/dev/sdc", "C"));
    }

    #[test]
    fn several_matches_name_every_disk() {
        let hints = RootDeviceHints { min_size_gigabytes: 5, ..RootDeviceHints::default() };
        let disks = [disk("/dev/sda", "a", "A", 10), disk("/dev/sdb", "b", "B", 10), disk("/dev/sdc", "c", "C", 3)];
        let text = select_disk(&hints, &disks).unwrap_err().to_string();
        for part in ["2 disks match", "/dev/sda (A 10.0 GB) matches", "/dev/sdc (C 3.0 GB) has 2 GiB, under"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn equal_identities_need_the_path() {
        let disks =
            [disk("/dev/sda", "a", "SAME", 10), disk("/dev/sdb", "b", "SAME", 10), disk("/dev/sdc", "c", "", 9)];
        let error = select_disk(&RootDeviceHints::default(), &disks).unwrap_err();
        let hint = r#"to use it, set spec: {rootDeviceHints: {deviceName: "/dev/disk/by-path/a"}}"#;
        assert!(error.to_string().contains(hint), "{error}");
        let by_path = RootDeviceHints { device_name: "/dev/disk/by-path/b".into(), ..RootDeviceHints::default() };
        let choice = select_disk(&by_path, &disks).unwrap();
        assert_eq!(choice.disk.by_path, "/dev/disk/by-path/b");
        let by_name = RootDeviceHints { device_name: "/dev/sdb".into(), ..RootDeviceHints::default() };
        assert!(select_disk(&by_name, &disks).is_err(), "a kernel name is no identity");
    }

    #[test]
    fn unusable_disks_are_passed_over() {
        let mut read_only = disk("/dev/sda", "a", "A", 10);
        read_only.read_only = true;
        let mut stick = disk("/dev/sdb", "b", "B", 10);
        stick.removable = true;
        let disks = [read_only, stick, disk("/dev/sdc", "c", "C", 0), disk("/dev/sdd", "d", "D", 500)];
        assert_eq!(select_disk(&RootDeviceHints::default(), &disks).unwrap().device, "/dev/sdd");
        assert!(select_disk(&RootDeviceHints::default(), &disks[..3]).unwrap_err().to_string().contains("removable"));
        assert_eq!(select_disk(&RootDeviceHints::default(), &[]).unwrap_err().reason, "the inspection found no disk");
    }

    #[test]
    fn what_is_set_apart_is_chosen_only_where_it_is_named() {
        let mut usb = disk("/dev/sda", "pci-0000:00:14.0-usb-0:3.1:1.0-scsi-0:0:0:0", "U1", 8);
        usb.transport = firesteel_resources::hardware::Transport::Usb;
        usb.model = "LUN 01 Media 0".into();
        let sas = disk("/dev/sdb", "pci-0000:5c:00.0-sas-phy0-lun-0", "S1", 960);
        let mut far = disk("/dev/sdc", "pci-0000:3b:00.0-fc-0x5006-lun-0", "F1", 20);
        let reached = "it is reached by Fibre Channel, so other hosts may reach it too";
        far.contents = Some(Box::new(DiskContents { attached: vec![reached.into()], ..DiskContents::default() }));
        let all = [usb, sas, far];
        let choose = |hints: &RootDeviceHints, disks: &[DiskRecord]| {
            select_disk(hints, disks).map(|choice| choice.device).map_err(|error| error.to_string())
        };
        assert_eq!(choose(&RootDeviceHints::default(), &all).as_deref(), Ok("/dev/sdb"));
        let size = RootDeviceHints { min_size_gigabytes: 1, ..RootDeviceHints::default() };
        assert_eq!(choose(&size, &all).as_deref(), Ok("/dev/sdb"), "a size names no disk");
        let apart = [all[0].clone(), all[2].clone()];
        let error = choose(&RootDeviceHints::default(), &apart).unwrap_err();
        for part in [
            "/dev/sda (LUN 01 Media 0 U1 8.0 GB) is on USB",
            r#"set spec: {rootDeviceHints: {serialNumber: "U1"}}"#,
            "/dev/sdc (F1 20.0 GB) is reached by Fibre Channel",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert!(choose(&size, &apart).is_err());
        let serial = RootDeviceHints { serial_number: "U1".into(), ..RootDeviceHints::default() };
        let model = RootDeviceHints { model: "lun 01".into(), ..RootDeviceHints::default() };
        for hints in [serial, model] {
            assert_eq!(choose(&hints, &all).as_deref(), Ok("/dev/sda"));
        }
    }

    proptest! {
        /// Whatever the disks look like: the chosen identity fits exactly one of them.
        #[test]
        fn a_choice_names_exactly_one_disk(
            rows in prop::collection::vec((0_u8..3, 0_u8..3, 0_u8..3, 1_u64..40, any::<bool>()), 0..6),
            named in 0_usize..7,
        ) {
            let disks: Vec<DiskRecord> = rows.iter().enumerate().map(|(index, (wwn, serial, path, size, flag))| {
                let text = |value: &u8| if *value == 0 { String::new() } else { format!("x{value}") };
                DiskRecord {
                    device: format!("/dev/sd{index}"),
                    by_path: if *path == 0 { String::new() } else { format!("/dev/disk/by-path/{path}") },
                    wwn: text(wwn),
                    serial: text(serial),
                    size_bytes: size * GB,
                    removable: *flag,
                    ..DiskRecord::default()
                }
            }).collect();
            let hints = RootDeviceHints {
                device_name: disks.get(named).map(|disk| disk.by_path.clone()).unwrap_or_default(),
                ..RootDeviceHints::default()
            };
            if let Ok(choice) = select_disk(&hints, &disks) {
                let fits = |want: &str, has: &str| want.is_empty() || want == has;
                let matching = disks.iter().filter(|disk| {
                    fits(&choice.disk.wwn, &disk.wwn) && fits(&choice.disk.serial, &disk.serial)
                        && fits(&choice.disk.model, &disk.model) && fits(&choice.disk.by_path, &disk.by_path)
                        && disk.size_bytes == choice.disk.size_bytes
                }).count();
                prop_assert_eq!(matching, 1);
            }
        }
    }
}
