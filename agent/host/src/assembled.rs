//! What is assembled from a disk (md arrays, device mapper, bcache), and whether it may be taken apart so that
//! the disk can be wiped. The reader looks at sysfs; the decision is pure. The ramdisk assembles nothing, but a
//! kernel may, and a kernel that was handed over by another system may have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use firesteel_sysfs::{attribute, disks, names};
use firesteel_wire::text::field;

/// Assemblies upon assemblies that are followed: LVM on LUKS on LVM on md on multipath are five.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssembledDriver {
    Md,
    DeviceMapper,
    /// A backing device in use, with or without a cache.
    Bcache,
    /// Caching devices and what they cache.
    BcacheSet,
    /// Something else holds it, which this program cannot take apart.
    Other,
}

/// Something that holds disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssembledDevice {
    pub kind: AssembledDriver,
    /// The kernel's name (`md127`, `dm-0`, `bcache0`), or the UUID of a cache set.
    pub name: String,
    /// What its maker called it, where the kernel knows; for people.
    pub title: String,
    /// Kernel names of all disks that it stands on.
    pub disks: BTreeSet<String>,
    /// Where it or a partition of it is mounted or held by something that is not listed itself.
    pub uses: Vec<String>,
    /// How many assemblies are between it and the disk, on the longest way.
    pub height: usize,
}

impl std::fmt::Display for AssembledDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.kind {
            AssembledDriver::Md => "md array",
            AssembledDriver::DeviceMapper => "device mapper volume",
            AssembledDriver::Bcache => "bcache device",
            AssembledDriver::BcacheSet => "bcache set",
            AssembledDriver::Other => "device",
        };
        write!(f, "{what} {}", self.name)?;
        if self.title.is_empty() { Ok(()) } else { write!(f, " ({})", self.title) }
    }
}

/// Everything that stands on the disk with this kernel name.
#[must_use]
pub fn read(sys: &Path, mountinfo: &str, disk: &str) -> Vec<AssembledDevice> {
    let mut found = BTreeMap::new();
    let block = sys.join("block");
    above(&block, mountinfo, &block.join(disk), 0, &mut found);
    let mut found: Vec<AssembledDevice> = found.into_values().collect();
    // The highest first: nothing can be stopped while something stands on it.
    found.sort_by_key(|assembly| std::cmp::Reverse((assembly.height, assembly.kind != AssembledDriver::BcacheSet)));
    found
}

fn above(block: &Path, mountinfo: &str, device: &Path, height: usize, found: &mut BTreeMap<String, AssembledDevice>) {
    if height >= DEPTH_MAX {
        return;
    }
    for folder in std::iter::once(device.to_owned()).chain(disks::partitions(device)) {
        if let Some(set) = cache_set(&folder) {
            found.entry(set.name.clone()).and_modify(|known| known.height = known.height.max(height)).or_insert(set);
        }
        for name in names(&folder.join("holders")) {
            let holder = block.join(&name);
            if found.get(&name).is_none_or(|known| known.height <= height) {
                let assembly = assembly(block, mountinfo, &name, height);
                found.insert(name, assembly);
            }
            above(block, mountinfo, &holder, height + 1, found);
        }
    }
}

fn assembly(block: &Path, mountinfo: &str, name: &str, height: usize) -> AssembledDevice {
    let folder = block.join(name);
    let (kind, title) = if folder.join("md").exists() {
        (AssembledDriver::Md, attribute(&folder.join("md/level")))
    } else if folder.join("dm").exists() {
        (AssembledDriver::DeviceMapper, attribute(&folder.join("dm/name")))
    } else if folder.join("bcache").exists() {
        (AssembledDriver::Bcache, attribute(&folder.join("bcache/label")))
    } else {
        (AssembledDriver::Other, String::new())
    };
    let mut leaves = BTreeSet::new();
    underlying_disks(&folder, 0, &mut leaves);
    let mounts =
        |folder: PathBuf| disks::mounted_at(mountinfo, &attribute(&folder.join("dev"))).map(str::to_owned).collect();
    let of_part = |folder: PathBuf| {
        let part = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let each: Vec<String> = mounts(folder);
        each.into_iter().map(move |at| format!("{part} is mounted at {at}"))
    };
    let uses = std::iter::once(folder.clone()).chain(disks::partitions(&folder)).flat_map(of_part).collect();
    AssembledDevice { kind, name: name.to_owned(), title: field(&title), disks: leaves, uses, height }
}

/// The disks under a device; `slaves` are links to the devices themselves.
fn underlying_disks(device: &Path, depth: usize, leaves: &mut BTreeSet<String>) {
    for name in names(&device.join("slaves")) {
        let link = device.join("slaves").join(&name);
        let Ok(slave) = link.canonicalize() else {
            // What cannot be followed is a disk that no plan names.
            leaves.insert(name);
            continue;
        };
        if depth < DEPTH_MAX && !names(&slave.join("slaves")).is_empty() {
            underlying_disks(&slave, depth + 1, leaves);
            continue;
        }
        let whole = if slave.join("partition").exists() { slave.parent() } else { Some(slave.as_path()) };
        match whole {
            // A partition of an array stands on what the array stands on.
            Some(whole) if depth < DEPTH_MAX && !names(&whole.join("slaves")).is_empty() => {
                underlying_disks(whole, depth + 1, leaves);
            }
            Some(whole) => leaves.extend(whole.file_name().map(|name| name.to_string_lossy().into_owned())),
            None => {
                leaves.insert(name);
            }
        }
    }
}

/// The set of a caching device, which the kernel shows beside the device and not as its holder.
fn cache_set(folder: &Path) -> Option<AssembledDevice> {
    let set = folder.join("bcache/set").canonicalize().or_else(|_| folder.join("bcache/cache").canonicalize()).ok()?;
    // `cache0`, `bdev0` are links to the devices; `cache_available_percent` is none.
    let is_member = |name: &String| {
        let number = name.strip_prefix("cache").or_else(|| name.strip_prefix("bdev"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let members = names(&set).into_iter().filter(is_member);
    let disks = members
        .filter_map(|member| {
            let device = set.join(member).canonicalize().ok()?.parent()?.to_owned();
            let whole = if device.join("partition").exists() { device.parent()?.to_owned() } else { device };
            Some(whole.file_name()?.to_string_lossy().into_owned())
        })
        .collect();
    let name = set.file_name()?.to_string_lossy().into_owned();
    Some(AssembledDevice {
        kind: AssembledDriver::BcacheSet,
        name,
        title: String::new(),
        disks,
        uses: Vec::new(),
        height: 0,
    })
}

/// Says why the assemblies may not be taken apart, in the order of `found`; pure. `planned` are the kernel names of the
/// disks that the plan wipes. `is_own` says of an assembly that reaches further whether it may be taken apart all the
/// same.
#[must_use]
pub fn refusal(
    found: &[AssembledDevice],
    planned: &BTreeSet<String>,
    is_own: &dyn Fn(&AssembledDevice) -> bool,
) -> Option<String> {
    let mut refusals = Vec::new();
    for assembly in found {
        let others: Vec<_> = assembly.disks.difference(planned).map(String::as_str).collect();
        if !assembly.uses.is_empty() {
            refusals.push(format!("{assembly} is in use: {}", assembly.uses.join(", ")));
        } else if assembly.kind == AssembledDriver::Other {
            refusals.push(format!("{assembly} holds it, and is of no kind that can be taken apart here"));
        } else if !others.is_empty() && !is_own(assembly) {
            let others = others.join(", ");
            refusals.push(format!("{assembly} holds it, and stands on disks that the plan does not name: {others}"));
        }
    }
    (!refusals.is_empty()).then(|| refusals.join("; "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// Devices as folders below `devices`, `block` pointing to whole ones.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(devices: &[&str]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.0.path().join("block")).unwrap();
            for device in devices {
                let folder = tree.device(device);
                fs::create_dir_all(folder.join("holders")).unwrap();
                if device.contains('/') {
                    fs::write(folder.join("partition"), "1\n").unwrap();
                } else {
                    fs::create_dir_all(folder.join("slaves")).unwrap();
                    symlink(&folder, tree.0.path().join("block").join(device)).unwrap();
                }
            }
            tree
        }

        fn device(&self, path: &str) -> PathBuf {
            self.0.path().join("devices").join(path)
        }

        /// `upper` holds `lower`, which may be a partition: `sda/sda1`.
        fn holds(&self, upper: &str, lower: &str) -> &Self {
            let (upper_path, lower_path) = (self.device(upper), self.device(lower));
            symlink(&upper_path, lower_path.join("holders").join(upper)).unwrap();
            symlink(&lower_path, upper_path.join("slaves").join(lower.rsplit('/').next().unwrap())).unwrap();
            self
        }

        fn is(&self, device: &str, file: &str, text: &str) -> &Self {
            let file = self.device(device).join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            self
        }

        fn read(&self, disk: &str, mounts: &str) -> Vec<AssembledDevice> {
            read(self.0.path(), mounts, disk)
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn volumes_on_an_array_on_partitions_come_down_from_the_top() {
        let tree = Tree::new(&["sda", "sda/sda2", "sdb", "sdb/sdb2", "md127", "dm-0", "dm-1"]);
        tree.holds("md127", "sda/sda2").holds("md127", "sdb/sdb2").holds("dm-0", "md127").holds("dm-1", "dm-0");
        tree.is("md127", "md/level", "raid1\n").is("dm-0", "dm/name", "vg-lv\n").is("dm-1", "dm/name", "crypt\n");
        let found = tree.read("sda", "");
        let names: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.kind)).collect();
        assert_eq!(
            names,
            [
                ("dm-1", AssembledDriver::DeviceMapper),
                ("dm-0", AssembledDriver::DeviceMapper),
                ("md127", AssembledDriver::Md)
            ]
        );
        assert!(found.iter().all(|one| one.disks == set(&["sda", "sdb"])), "{found:?}");
        assert_eq!(refusal(&found, &set(&["sda", "sdb"]), &|_| false), None);
        let refused = refusal(&found, &set(&["sda"]), &|_| false).unwrap();
        assert!(
            refused.contains("md array md127 (raid1) holds it") && refused.contains("does not name: sdb"),
            "{refused}"
        );
        assert_eq!(refusal(&found, &set(&["sda"]), &|_| true), None);
    }

    #[test]
    fn what_is_mounted_or_unknown_is_not_touched() {
        let tree = Tree::new(&["sda", "md0", "md0/md0p1", "drbd0"]);
        tree.holds("md0", "sda").is("md0", "md/level", "raid0").is("md0/md0p1", "dev", "259:7\n");
        let found = tree.read("sda", "36 35 259:7 / /data rw - ext4 /dev/md0p1 rw\n");
        let refused = refusal(&found, &set(&["sda"]), &|_| true).unwrap();
        assert!(refused.contains("md0p1 is mounted at /data"), "{refused}");
        let found = tree.read("sda", "");
        assert_eq!((refusal(&found, &set(&["sda"]), &|_| false), found[0].name.as_str()), (None, "md0"));
        tree.holds("drbd0", "sda");
        let refused = refusal(&tree.read("sda", ""), &set(&["sda"]), &|_| true).unwrap();
        assert!(refused.contains("device drbd0"), "{refused}");
    }

    #[test]
    fn a_cache_and_what_it_caches() {
        let tree = Tree::new(&["sda", "sdb", "bcache0"]);
        tree.holds("bcache0", "sda").is("bcache0", "bcache/label", "data");
        let sets = tree.0.path().join("fs/bcache/f00d");
        fs::create_dir_all(&sets).unwrap();
        fs::write(sets.join("cache_available_percent"), "97\n").unwrap();
        for (disk, link, name) in [("sda", "cache", "bdev0"), ("sdb", "set", "cache0")] {
            let folder = tree.device(disk).join("bcache");
            fs::create_dir_all(&folder).unwrap();
            symlink(&sets, folder.join(link)).unwrap();
            symlink(&folder, sets.join(name)).unwrap();
        }
        for disk in ["sda", "sdb"] {
            let found = tree.read(disk, "");
            let last = found.last().unwrap();
            assert_eq!((last.kind, last.name.as_str()), (AssembledDriver::BcacheSet, "f00d"));
            assert_eq!(last.disks, set(&["sda", "sdb"]));
        }
        assert_eq!(tree.read("sda", "")[0].kind, AssembledDriver::Bcache, "the device comes before its set");
        assert!(refusal(&tree.read("sdb", ""), &set(&["sdb"]), &|_| false).unwrap().contains("does not name: sda"));
    }

    #[test]
    fn a_circle_ends() {
        let tree = Tree::new(&["sda", "dm-0", "dm-1"]);
        tree.holds("dm-0", "sda").holds("dm-1", "dm-0").holds("dm-0", "dm-1");
        assert_eq!(tree.read("sda", "").len(), 2);
    }
}
