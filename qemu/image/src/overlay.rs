//! The files that make a Debian tree into this image. They lie as they will lie in the image in
//! `qemu/image/overlay` and, for the tree with cloud-init, in `qemu/image/cloud-init`, and are part of the program.

use super::system::PackageTree;

/// One file of the overlay.
#[derive(Debug)]
pub(super) struct OverlayFile {
    /// Path in the image, without the leading `/`.
    pub(super) path: &'static str,
    pub(super) mode: u32,
    pub(super) content: &'static str,
}

macro_rules! file {
    ($mode:literal, $path:literal) => {
        file!("overlay", $mode, $path)
    };
    ($folder:literal, $mode:literal, $path:literal) => {
        OverlayFile { path: $path, mode: $mode, content: include_str!(concat!("../", $folder, "/", $path)) }
    };
}

static FILES: &[OverlayFile] = &[
    file!(0o644, "etc/dracut.conf.d/firesteel.conf"),
    file!(0o644, "etc/selinux/config"),
    file!(0o644, "etc/systemd/network/95-firesteel.network"),
    file!(0o644, "etc/systemd/system/firesteel-banner.service"),
    file!(0o644, "etc/systemd/system/firesteel-firstboot-done.service"),
    file!(0o644, "etc/systemd/system/firesteel-report.service"),
    file!(0o644, "etc/systemd/system/systemd-networkd-wait-online.service.d/any.conf"),
    file!(0o644, "etc/systemd/system-preset/30-firesteel.preset"),
    file!(0o755, "usr/lib/dracut/modules.d/35firesteel/copy-config.sh"),
    file!(0o755, "usr/lib/dracut/modules.d/35firesteel/disk-rules.sh"),
    file!(0o644, "usr/lib/dracut/modules.d/35firesteel/firesteel-copy-config.service"),
    file!(0o644, "usr/lib/dracut/modules.d/35firesteel/firesteel-network.service"),
    file!(0o644, "usr/lib/dracut/modules.d/35firesteel/firesteel-report-failure.service"),
    file!(0o755, "usr/lib/dracut/modules.d/35firesteel/kargs.sh"),
    file!(0o755, "usr/lib/dracut/modules.d/35firesteel/module-setup.sh"),
    file!(0o755, "usr/lib/dracut/modules.d/35firesteel/report-failure.sh"),
    file!(0o755, "usr/lib/dracut/modules.d/35firesteel/setfiles.sh"),
    file!(0o755, "usr/lib/firesteel/banner"),
    file!(0o755, "usr/lib/firesteel/firstboot-done"),
    file!(0o755, "usr/lib/firesteel/report"),
];

/// The files of the tree with cloud-init, beside those of all.
static CLOUD_INIT: &[OverlayFile] = &[
    file!("cloud-init", 0o644, "etc/cloud/cloud.cfg.d/95_firesteel.cfg"),
    file!("cloud-init", 0o644, "etc/systemd/system/firesteel-cloud.service"),
    file!("cloud-init", 0o755, "usr/lib/firesteel/cloud"),
];

/// What is laid over a tree of packages.
pub(super) fn files(tree: PackageTree) -> impl Iterator<Item = &'static OverlayFile> {
    let own = match tree {
        PackageTree::Ignition => &[][..],
        PackageTree::CloudInit => CLOUD_INIT,
    };
    FILES.iter().chain(own)
}

/// Runs in the tree after the overlay was laid over it.
pub(super) static PREPARE: &str = include_str!("../prepare.sh");
/// The boot loader's menu, on the boot partition.
pub(super) static GRUB_CONFIG: &str = include_str!("../grub/grub.cfg");
/// The menu of a system without Ignition.
pub(super) static GRUB_CLOUD_CONFIG: &str = include_str!("../grub/cloud-init.cfg");
/// Which of cloud-init's sources is read, among other settings.
pub(super) static CLOUD_CONFIG: &str = include_str!("../cloud-init/etc/cloud/cloud.cfg.d/95_firesteel.cfg");
/// systemd-boot's settings, and its entry for the one kernel.
pub(super) static SYSTEMD_BOOT_CONFIG: &str = include_str!("../systemd-boot/loader.conf");
pub(super) static SYSTEMD_BOOT_ENTRY: &str = include_str!("../systemd-boot/firesteel.conf");
/// How the UEFI boot loader finds that partition.
pub(super) static GRUB_UEFI_CONFIG: &str = include_str!("../grub/uefi.cfg");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use std::path::{Path, PathBuf};

    fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                files_below(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }

    #[test]
    fn every_file_in_the_folder_is_in_the_image() {
        for (name, files) in [("overlay", FILES), ("cloud-init", CLOUD_INIT)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            let mut found = Vec::new();
            files_below(&folder, &mut found);
            let mut found: Vec<_> =
                found.iter().map(|path| path.strip_prefix(&folder).unwrap().to_str().unwrap()).collect();
            found.sort_unstable();
            let mut listed: Vec<_> = files.iter().map(|file| file.path).collect();
            listed.sort_unstable();
            assert_eq!(found, listed);
        }
    }
}
