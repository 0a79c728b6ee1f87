//! Whether the guard saw what Linux shows, and whether each disk came to the end that it should. Pure.

use std::fmt;

use super::guest_report::{GuestDiskReport, GuestDiskResult, GuestReport, Looked, LvsSegmentLine, Partition, SECTOR};
use super::{ExpectedFate, ForeignDiskCase};

/// The kernel shows an extended partition by its first sectors alone.
const EXTENDED_SECTORS_MAX: u64 = 2;
/// What lvm2 lists and is no device with contents of its own: the pool that thin volumes are cut from.
const NOT_VOLUMES: [&str; 1] = ["thin-pool"];
/// blkid's names of what several hosts may share, and the guard's.
const SHARED: [(&str, &str); 14] = [
    ("VMFS", "vmfs"),
    ("VMFS_volume_member", "vmfs"),
    ("LVM2_member", "lvm"),
    ("linux_raid_member", "md"),
    ("isw_raid_member", "imsm"),
    ("ddf_raid_member", "ddf"),
    ("drbd", "drbd"),
    ("oracleasm", "asm"),
    ("ceph_bluestore", "ceph"),
    ("gfs2", "gfs2"),
    ("ocfs2", "ocfs2"),
    ("zfs_member", "zfs"),
    ("bcache", "bcache"),
    ("iso_ldm_member", "ldm"),
];

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) disk: String,
    text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.disk, self.text)
    }
}

/// What a file says when all is over.
#[derive(Clone, Debug, Default)]
pub(super) struct FinalDiskState {
    /// The digest of a disk that has to stay.
    pub(super) digest: String,
    /// Whether a disk that has to go is zeros.
    pub(super) is_zeros: bool,
}

/// All violations.
pub(super) fn judge(cases: &[ForeignDiskCase], after: &[FinalDiskState], seen: &GuestReport) -> Vec<Violation> {
    let mut found = Vec::new();
    for (case, after) in cases.iter().zip(after) {
        let name = case.made.name.as_str();
        let texts = match seen.disks.get(name) {
            Some(disk) => {
                let mut texts = unscanned_parts(disk);
                texts.extend(unnamed(disk));
                texts.extend(check_fate(case, disk, after));
                texts
            }
            None => vec!["the guest did not see it".to_owned()],
        };
        found.extend(texts.into_iter().map(|text| Violation { disk: name.to_owned(), text }));
    }
    found.extend(volumes(seen));
    found.extend(arrays(seen));
    found
}

/// Partitions that the kernel or libblkid shows, and the guard did not look at.
fn unscanned_parts(disk: &GuestDiskReport) -> Vec<String> {
    let mut texts = Vec::new();
    for (by, partitions) in [("the kernel", &disk.partitions), ("libblkid", &disk.table)] {
        for partition in partitions.iter().filter(|partition| !is_scanned(disk, **partition)) {
            let (number, first, sectors) = partition;
            texts.push(format!("{by} shows partition {number} ({sectors} sectors from {first}); not looked at"));
        }
    }
    // Hundreds of them say no more than the first few.
    let count = texts.len();
    texts.truncate(3);
    if count > texts.len() {
        texts.push(format!("and {} more of its partitions", count - texts.len()));
    }
    texts
}

fn is_scanned(disk: &GuestDiskReport, (_, first, sectors): Partition) -> bool {
    let from = first.saturating_mul(SECTOR);
    // No reader gets what lies behind the end.
    let Some(room) = disk.bytes.checked_sub(from).filter(|room| *room > 0) else { return true };
    let bytes = sectors.saturating_mul(SECTOR).min(room);
    let is_same = |(_, offset, size): &Looked| {
        *offset == Some(from) && (*size == bytes || (sectors <= EXTENDED_SECTORS_MAX && *size >= bytes))
    };
    disk.looked.iter().any(is_same)
}

/// What blkid names and the guard does not, though several hosts may share it.
fn unnamed(disk: &GuestDiskReport) -> Vec<String> {
    let shared = disk.types.values().filter_map(|name| SHARED.iter().find(|(blkid, _)| blkid == name));
    let missed = shared.filter(|(_, kind)| !disk.has_unread && !disk.kinds.iter().any(|known| known == kind));
    missed.map(|(blkid, _)| format!("blkid shows {blkid}; the guard found none, and nothing unread")).collect()
}

fn check_fate(case: &ForeignDiskCase, disk: &GuestDiskReport, after: &FinalDiskState) -> Vec<String> {
    let mut texts = Vec::new();
    match (&case.made.fate, &disk.end) {
        (_, None) => texts.push("neither erased nor refused".to_owned()),
        (ExpectedFate::Stays(_), Some(GuestDiskResult::Erased)) => {
            texts.push("it is another's, and was erased".to_owned())
        }
        (ExpectedFate::Stays(says), Some(GuestDiskResult::Refused { why, changed })) => {
            if !why.contains(says) {
                texts.push(format!("the refusal does not say {says:?}: {why}"));
            }
            if *changed {
                texts.push(format!("the refusal says that the disk was changed: {why}"));
            }
        }
        (ExpectedFate::Erased, Some(GuestDiskResult::Refused { why, .. })) => {
            texts.push(format!("it is to be erased, and was refused: {why}"))
        }
        (ExpectedFate::Erased, Some(GuestDiskResult::Erased)) => {
            if !after.is_zeros {
                texts.push("it was erased, and something is left in its file".to_owned());
            }
        }
    }
    let before = case.digest.as_ref().or(disk.digest.as_ref());
    if matches!(case.made.fate, ExpectedFate::Stays(_)) && before != Some(&after.digest) {
        texts.push("its bytes are others than before".to_owned());
    }
    texts
}

/// The disk that a device is, or is a partition of, and where on it.
fn disk_of<'a>(seen: &'a GuestReport, device: &str) -> Option<(&'a str, u64)> {
    let device = device.trim_start_matches("/dev/");
    seen.disks.iter().find_map(|(name, disk)| {
        let number = device.strip_prefix(disk.device.trim_start_matches("/dev/"))?;
        if number.is_empty() {
            return Some((name.as_str(), 0));
        }
        let number: u64 = number.parse().ok()?;
        let (_, first, _) = disk.partitions.iter().find(|(other, _, _)| *other == number)?;
        Some((name.as_str(), first * SECTOR))
    })
}

/// Disks under a device, through arrays.
fn disks_under<'a>(seen: &'a GuestReport, device: &str) -> Vec<&'a str> {
    let name = device.trim_start_matches("/dev/");
    if let Some(array) = seen.arrays.iter().find(|array| array.name == name) {
        return array.members.iter().filter_map(|member| Some(disk_of(seen, member)?.0)).collect();
    }
    disk_of(seen, device).map(|(disk, _)| disk).into_iter().collect()
}

/// Logical volumes that lvm2 lists, and the guard did not look at.
fn volumes(seen: &GuestReport) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, segments) in &seen.volumes {
        let Some(first) = segments.first().filter(|first| !NOT_VOLUMES.contains(&first.segtype.as_str())) else {
            continue;
        };
        let group = seen.physical.iter().filter(|physical| physical.vg_name == first.vg_name);
        let disks: Vec<&str> = group.flat_map(|physical| disks_under(seen, &physical.pv_name)).collect();
        let place = (segments.len() == 1).then(|| place(seen, first)).flatten();
        let bytes = first.lv_size.parse().unwrap_or(0);
        let is_it = |disk: &str, (_, offset, size): &Looked| match place {
            Some((on, at)) => on == disk && *offset == Some(at) && *size == bytes,
            None => *size == bytes,
        };
        let is_looked_at = disks.iter().any(|disk| seen.disks[*disk].looked.iter().any(|looked| is_it(disk, looked)));
        if !is_looked_at {
            let text = format!("lvm2 shows the volume {name} ({}, {bytes} bytes); not looked at", first.segtype);
            let disk = disks.first().copied().unwrap_or("a disk without a name");
            found.push(Violation { disk: disk.to_owned(), text });
        }
    }
    found
}

/// Where on which disk a volume lies that is one run of extents: `/dev/sda(3)`.
fn place<'a>(seen: &'a GuestReport, segment: &LvsSegmentLine) -> Option<(&'a str, u64)> {
    if segment.segtype != "linear" {
        return None;
    }
    let (device, extent) = segment.devices.strip_suffix(')')?.split_once('(')?;
    let (disk, from) = disk_of(seen, device)?;
    let physical = seen.physical.iter().find(|physical| physical.pv_name == device)?;
    let extents: u64 = extent.parse::<u64>().ok()?.checked_mul(segment.vg_extent_size.parse().ok()?)?;
    let is_whole = segment.seg_size == segment.lv_size;
    is_whole.then_some((disk, from + physical.pe_start.parse::<u64>().ok()? + extents))
}

/// Running arrays that the guard did not look at: on one of the members' disks at least.
fn arrays(seen: &GuestReport) -> Vec<Violation> {
    let mut found = Vec::new();
    for array in &seen.arrays {
        let disks: Vec<&str> = array.members.iter().filter_map(|member| Some(disk_of(seen, member)?.0)).collect();
        let looked = |disk: &&str| seen.disks[*disk].looked.iter().any(|(_, _, size)| *size == array.bytes);
        if !disks.iter().any(looked) {
            let disk = disks.first().copied().unwrap_or("a disk without a name").to_owned();
            let text = format!("the kernel runs {} ({} bytes); not looked at", array.name, array.bytes);
            found.push(Violation { disk, text });
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::PathBuf;

    use firesteel_lab_foreign_disks::ForeignDisk;

    use super::*;
    use crate::wipe::foreign_disks::guest_report::{Array, Physical};

    const MIB: u64 = 1 << 20;

    fn case(name: &str, fate: ExpectedFate) -> ForeignDiskCase {
        let made = ForeignDisk { name: name.into(), fate, ..ForeignDisk::default() };
        ForeignDiskCase { made, path: PathBuf::new(), digest: Some("same".into()), probed: None }
    }

    /// A disk of 16 MiB with a partition, that was looked at and refused.
    fn disk() -> GuestDiskReport {
        GuestDiskReport {
            device: "/dev/sda".into(),
            bytes: 16 * MIB,
            partitions: vec![(1, 2048, 4096)],
            table: vec![(1, 2048, 4096)],
            looked: vec![("the disk".into(), Some(0), 16 * MIB), ("partition 1".into(), Some(MIB), 2 * MIB)],
            end: Some(GuestDiskResult::Refused { why: "it holds VMFS".into(), changed: false }),
            ..GuestDiskReport::default()
        }
    }

    fn said(fate: ExpectedFate, disk: GuestDiskReport, after: FinalDiskState) -> Vec<String> {
        let seen = GuestReport { disks: [("A".to_owned(), disk)].into(), ..GuestReport::default() };
        judge(&[case("A", fate)], &[after], &seen).iter().map(Violation::to_string).collect()
    }

    fn same() -> FinalDiskState {
        FinalDiskState { digest: "same".into(), is_zeros: false }
    }

    #[test]
    fn what_was_looked_at_and_refused_is_no_violation() {
        assert!(said(ExpectedFate::Stays("VMFS"), disk(), same()).is_empty());
    }

    #[test]
    fn a_partition_counts_by_its_place_and_its_length() {
        for looked in [(MIB, MIB), (MIB + 512, 2 * MIB), (0, 16 * MIB)] {
            let disk = GuestDiskReport { looked: vec![("x".into(), Some(looked.0), looked.1)], ..disk() };
            let said = said(ExpectedFate::Stays("VMFS"), disk, same());
            assert_eq!(said.len(), 2, "{said:?}");
            assert!(said[0].starts_with("A: the kernel shows partition 1") && said[1].contains("libblkid"));
        }
        // Cut at the disk's end; behind it; the head of an extended partition.
        let odd = vec![(2, 30_720, 1 << 40), (3, 1 << 50, 8), (4, 2048, 2)];
        let mut disk = GuestDiskReport { partitions: odd, table: Vec::new(), ..disk() };
        assert_eq!(said(ExpectedFate::Stays(""), disk, same()).len(), 1);
        disk = GuestDiskReport { partitions: vec![(1, 0, 1); 9], ..self::disk() };
        disk.looked.remove(0);
        assert_eq!(said(ExpectedFate::Stays(""), disk, same()).len(), 4, "many are said in few words");
    }

    #[test]
    fn every_wrong_end_is_a_violation() {
        let erased = || GuestDiskReport { end: Some(GuestDiskResult::Erased), ..disk() };
        let changed = GuestDiskResult::Refused { why: "it holds VMFS".into(), changed: true };
        let zeros = FinalDiskState { is_zeros: true, ..FinalDiskState::default() };
        let other = FinalDiskState { digest: "other".into(), ..same() };
        for (fate, disk, after, wanted) in [
            (ExpectedFate::Stays("VMFS"), erased(), same(), "was erased"),
            (ExpectedFate::Stays("vSAN"), disk(), same(), "does not say \"vSAN\""),
            (ExpectedFate::Stays("VMFS"), GuestDiskReport { end: Some(changed), ..disk() }, same(), "was changed"),
            (ExpectedFate::Stays("VMFS"), disk(), other, "others than before"),
            (ExpectedFate::Stays("VMFS"), GuestDiskReport { end: None, ..disk() }, same(), "neither"),
            (ExpectedFate::Erased, disk(), zeros.clone(), "was refused: it holds VMFS"),
            (ExpectedFate::Erased, erased(), FinalDiskState::default(), "something is left"),
        ] {
            let said = said(fate, disk, after);
            assert!(said.len() == 1 && said[0].contains(wanted), "{wanted}: {said:?}");
        }
        assert!(said(ExpectedFate::Erased, erased(), zeros).is_empty());
        let none = judge(&[case("B", ExpectedFate::Erased)], &[same()], &GuestReport::default());
        assert_eq!(none[0].to_string(), "B: the guest did not see it");
    }

    #[test]
    fn what_blkid_names_the_guard_names_or_says_that_it_is_unread() {
        let with = |kinds: &[&str], has_unread| GuestDiskReport {
            types: [(1, "LVM2_member".to_owned()), (2, "ext4".to_owned())].into(),
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            has_unread,
            ..disk()
        };
        assert_eq!(said(ExpectedFate::Stays(""), with(&["md"], false), same()).len(), 1);
        assert!(said(ExpectedFate::Stays(""), with(&["md", "lvm"], false), same()).is_empty());
        assert!(said(ExpectedFate::Stays(""), with(&[], true), same()).is_empty());
    }

    #[test]
    fn volumes_and_arrays_count_by_place_or_by_length() {
        let segment = |kind: &str, size: &str| LvsSegmentLine {
            vg_name: "vg".into(),
            lv_name: "lv".into(),
            lv_size: (4 * MIB).to_string(),
            segtype: kind.into(),
            seg_size: size.into(),
            devices: "/dev/sda1(1)".into(),
            vg_extent_size: MIB.to_string(),
        };
        let whole = (4 * MIB).to_string();
        let with = |looked: Option<(Option<u64>, u64)>, segments: Vec<LvsSegmentLine>| {
            let mut disk = disk();
            disk.looked.extend(looked.map(|(offset, size)| ("volume".to_owned(), offset, size)));
            let seen = GuestReport {
                disks: [("A".to_owned(), disk)].into(),
                volumes: [("vg/lv".to_owned(), segments)].into(),
                physical: vec![Physical {
                    pv_name: "/dev/sda1".into(),
                    vg_name: "vg".into(),
                    pe_start: MIB.to_string(),
                }],
                arrays: vec![Array { name: "md0".into(), bytes: 2 * MIB, members: vec!["sda1".into()] }],
            };
            judge(&[case("A", ExpectedFate::Stays(""))], &[same()], &seen).len()
        };
        let linear = || vec![segment("linear", &whole)];
        // Partition at 1 MiB, extents from 1 MiB on, the second of them.
        assert_eq!(with(Some((Some(3 * MIB), 4 * MIB)), linear()), 0);
        assert_eq!(with(Some((Some(2 * MIB), 4 * MIB)), linear()), 1);
        assert_eq!(with(None, linear()), 1);
        let two = || vec![segment("linear", "1"), segment("linear", "3")];
        assert_eq!((with(Some((None, 4 * MIB)), two()), with(Some((None, 3 * MIB)), two())), (0, 1));
        assert_eq!(with(None, vec![segment("thin-pool", &whole)]), 0);
        let seen = GuestReport {
            disks: [("A".to_owned(), disk())].into(),
            arrays: vec![Array { name: "md0".into(), bytes: 7 * MIB, members: vec!["sda1".into()] }],
            ..GuestReport::default()
        };
        let found = judge(&[case("A", ExpectedFate::Stays(""))], &[same()], &seen);
        assert!(found.len() == 1 && found[0].text.contains("md0"), "{found:?}");
    }
}
