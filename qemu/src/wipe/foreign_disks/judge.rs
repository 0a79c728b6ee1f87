//! Whether the guard saw what Linux shows, and whether each disk came to the end that it should. Pure.

use std::fmt;

use super::{
    Case, Fate,
    seen::{End, Looked, Partition, Seen, SeenDisk, Segment},
};

const SECTOR: u64 = 512;
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
pub(super) struct After {
    /// Of a disk that has to stay.
    pub(super) digest: String,
    /// Of a disk that has to go.
    pub(super) is_zeros: bool,
}

/// All violations.
pub(super) fn judge(cases: &[Case], after: &[After], seen: &Seen) -> Vec<Violation> {
    let mut found = Vec::new();
    for (case, after) in cases.iter().zip(after) {
        let name = case.made.name.as_str();
        let texts = match seen.disks.get(name) {
            Some(disk) => {
                let mut texts = unlooked(disk);
                texts.extend(unnamed(disk));
                texts.extend(fate(case, disk, after));
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
fn unlooked(disk: &SeenDisk) -> Vec<String> {
    let mut texts = Vec::new();
    for (by, partitions) in [("the kernel", &disk.partitions), ("libblkid", &disk.table)] {
        for partition in partitions.iter().filter(|partition| !is_looked_at(disk, **partition)) {
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

fn is_looked_at(disk: &SeenDisk, (_, first, sectors): Partition) -> bool {
    let from = first.saturating_mul(SECTOR);
    // What lies behind the end can be read by nobody.
    let Some(room) = disk.bytes.checked_sub(from).filter(|room| *room > 0) else { return true };
    let bytes = sectors.saturating_mul(SECTOR).min(room);
    let is_same = |(_, offset, size): &Looked| {
        *offset == Some(from) && (*size == bytes || (sectors <= EXTENDED_SECTORS_MAX && *size >= bytes))
    };
    disk.looked.iter().any(is_same)
}

/// What blkid names and the guard does not, though several hosts may share it.
fn unnamed(disk: &SeenDisk) -> Vec<String> {
    let shared = disk.types.values().filter_map(|name| SHARED.iter().find(|(blkid, _)| blkid == name));
    let missed = shared.filter(|(_, kind)| !disk.has_unread && !disk.kinds.iter().any(|known| known == kind));
    missed.map(|(blkid, _)| format!("blkid shows {blkid}; the guard found none, and nothing unread")).collect()
}

fn fate(case: &Case, disk: &SeenDisk, after: &After) -> Vec<String> {
    let mut texts = Vec::new();
    match (&case.made.fate, &disk.end) {
        (_, None) => texts.push("neither erased nor refused".to_owned()),
        (Fate::Stays(_), Some(End::Erased)) => texts.push("it is another's, and was erased".to_owned()),
        (Fate::Stays(says), Some(End::Refused { why, changed })) => {
            if !why.contains(says) {
                texts.push(format!("the refusal does not say {says:?}: {why}"));
            }
            if *changed {
                texts.push(format!("the refusal says that the disk was changed: {why}"));
            }
        }
        (Fate::Erased, Some(End::Refused { why, .. })) => {
            texts.push(format!("it is to be erased, and was refused: {why}"))
        }
        (Fate::Erased, Some(End::Erased)) => {
            if !after.is_zeros {
                texts.push("it was erased, and something is left in its file".to_owned());
            }
        }
    }
    let before = case.digest.as_ref().or(disk.digest.as_ref());
    if matches!(case.made.fate, Fate::Stays(_)) && before != Some(&after.digest) {
        texts.push("its bytes are others than before".to_owned());
    }
    texts
}

/// The disk that a device is, or is a partition of, and where on it.
fn disk_of<'a>(seen: &'a Seen, device: &str) -> Option<(&'a str, u64)> {
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
fn disks_under<'a>(seen: &'a Seen, device: &str) -> Vec<&'a str> {
    let name = device.trim_start_matches("/dev/");
    if let Some(array) = seen.arrays.iter().find(|array| array.name == name) {
        return array.members.iter().filter_map(|member| Some(disk_of(seen, member)?.0)).collect();
    }
    disk_of(seen, device).map(|(disk, _)| disk).into_iter().collect()
}

/// Logical volumes that lvm2 lists, and the guard did not look at.
fn volumes(seen: &Seen) -> Vec<Violation> {
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
fn place<'a>(seen: &'a Seen, segment: &Segment) -> Option<(&'a str, u64)> {
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
fn arrays(seen: &Seen) -> Vec<Violation> {
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
