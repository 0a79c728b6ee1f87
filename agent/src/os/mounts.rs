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

/// What a filesystem is to do in place of what its image says. ext's superblock may ask for a panic of the kernel at the
/// first error, and then nobody reports, and nobody clears the disk.
fn data_for(filesystem: &str) -> Option<&'static str> {
    matches!(filesystem, "ext2" | "ext3" | "ext4").then_some("errors=remount-ro")
}

/// Mounts a partition: no devices, no set-user-id, no programs.
pub fn mount_partition(device: &Path, target: &Path, filesystem: &str, read_only: bool) -> io::Result<()> {
    let mut flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    if read_only {
        flags |= MsFlags::MS_RDONLY;
    }
    Ok(mount(Some(device), target, Some(filesystem), flags, data_for(filesystem))?)
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
            assert_eq!(data_for(kind), Some("errors=remount-ro"));
        }
        for kind in ["xfs", "btrfs", "vfat"] {
            assert_eq!(data_for(kind), None, "it knows no panic, or not this option");
        }
    }
}
