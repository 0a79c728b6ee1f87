//! Mounting. What is mounted from a disk can neither run programs nor hold devices.

use std::{fs, io, path::Path};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// Mounts a kernel filesystem (`proc`, `sysfs`, …) and makes its folder; mounted already is fine.
pub fn mount_kernel_filesystem(kind: &str, target: &Path, options: &str) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let mut flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    if kind != "devtmpfs" {
        flags |= MsFlags::MS_NODEV;
    }
    match mount(Some(kind), target, Some(kind), flags, Some(options)) {
        Err(nix::Error::EBUSY) => Ok(()),
        done => Ok(done?),
    }
}

/// What a filesystem is to do in place of what its image says. ext's superblock may ask for a panic of the kernel at
/// the first error; then no report is sent and the disk is not cleared. What is mounted for reading replays no log:
/// that would write to the disk, and a log is one more thing that an image can be made with.
fn data_for(filesystem: &str, read_only: bool) -> Option<&'static str> {
    match filesystem {
        "ext2" | "ext3" | "ext4" => Some("errors=remount-ro"),
        "xfs" if read_only => Some("norecovery"),
        "btrfs" if read_only => Some("rescue=nologreplay"),
        _ => None,
    }
}

/// Mounts a partition: no devices, no set-user-id, no programs.
pub fn mount_partition(device: &Path, target: &Path, filesystem: &str, read_only: bool) -> io::Result<()> {
    let data = data_for(filesystem, read_only);
    Ok(mount(Some(device), target, Some(filesystem), flags_for(read_only), data)?)
}

fn flags_for(read_only: bool) -> MsFlags {
    let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    if read_only { flags | MsFlags::MS_RDONLY } else { flags }
}

pub fn unmount(target: &Path) -> io::Result<()> {
    Ok(umount2(target, MntFlags::UMOUNT_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_does_not_say_what_an_error_does() {
        for kind in ["ext2", "ext3", "ext4"] {
            assert_eq!(data_for(kind, false), Some("errors=remount-ro"));
            assert_eq!(data_for(kind, true), Some("errors=remount-ro"));
        }
        for kind in ["xfs", "btrfs", "vfat"] {
            assert_eq!(data_for(kind, false), None, "it knows no panic, or not this option");
        }
    }

    #[test]
    fn what_is_mounted_for_reading_is_written_by_nothing() {
        assert_eq!((data_for("xfs", true), data_for("btrfs", true)), (Some("norecovery"), Some("rescue=nologreplay")));
        let never = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        assert_eq!((flags_for(false), flags_for(true)), (never, never | MsFlags::MS_RDONLY));
    }
}
