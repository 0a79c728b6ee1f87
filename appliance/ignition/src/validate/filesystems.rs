//! Filesystems (`types/filesystem.go`, `storage.go`).

use std::collections::{HashMap, HashSet};

use super::{ConfigLocation, Rules, path};

pub(super) fn check(rules: &mut Rules<'_>, storage: &ConfigLocation<'_>) {
    let filesystems = storage.list("filesystems");
    let disks: HashMap<&str, ConfigLocation<'_>> =
        storage.list("disks").into_iter().map(|disk| (disk.text("device").unwrap_or_default(), disk)).collect();
    for filesystem in &filesystems {
        let device = filesystem.text("device").unwrap_or_default();
        rules.error_if_some(filesystem, "device", path::fault(device));
        rules.error_if_some(filesystem, "path", filesystem.filled("path").and_then(path::fault));
        format(rules, filesystem);
        label(rules, filesystem);
        if let Some(disk) = disks.get(device) {
            on_whole_disk(rules, filesystem, disk);
        }
    }
    rules.unique(&filesystems, "device", &mut HashSet::new());
}

fn format(rules: &mut Rules<'_>, filesystem: &ConfigLocation<'_>) {
    match filesystem.filled("format") {
        None => {
            let has_more = ["path", "label", "uuid"].iter().any(|field| filesystem.filled(field).is_some())
                || ["options", "mountOptions"].iter().any(|field| !filesystem.texts(field).is_empty())
                || filesystem.is("wipeFilesystem", true);
            if has_more {
                rules.error(filesystem, "format", "is needed for what else is said of the filesystem");
            }
        }
        Some("ext4" | "btrfs" | "xfs" | "swap" | "vfat") => {}
        // What is there already, to be mounted.
        Some("none") if rules.minor >= 3 => {}
        Some(_) if rules.minor >= 3 => {
            rules.error(filesystem, "format", "is none of ext4, btrfs, xfs, vfat, swap, none")
        }
        Some(_) => rules.error(filesystem, "format", "is none of ext4, btrfs, xfs, vfat, swap"),
    }
}

/// Longest labels, in bytes: the manual pages of mkfs.*; mkswap cuts what is longer.
fn label(rules: &mut Rules<'_>, filesystem: &ConfigLocation<'_>) {
    let (Some(label), Some(format)) = (filesystem.filled("label"), filesystem.filled("format")) else { return };
    let most = match format {
        "ext4" => 16,
        "btrfs" => 256,
        "xfs" => 12,
        "swap" => 15,
        "vfat" => 11,
        _ => return,
    };
    if label.len() > most {
        rules.error(filesystem, "label", &format!("has more than {most} bytes, the most for its format"));
    }
}

fn on_whole_disk(rules: &mut Rules<'_>, filesystem: &ConfigLocation<'_>, disk: &ConfigLocation<'_>) {
    if !disk.list("partitions").is_empty() {
        rules.warning(filesystem, "device", "is a disk that gets partitions: the filesystem would overwrite them");
    } else if disk.is("wipeTable", true) && !filesystem.is("wipeFilesystem", true) {
        rules.warning(filesystem, "device", "is a disk whose table is wiped: the filesystem goes with it");
    }
}
