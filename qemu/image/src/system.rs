//! The systems that images are made of. Two trees of packages, laid out as six images: what differs within a tree is
//! changed in its finished disk, in seconds.
//!
//! | system | tree | boot loader | first configuration |
//! |---|---|---|---|
//! | Ignition | Ignition | GRUB | Ignition, platform `metal` |
//! | Openstack | Ignition | GRUB | Ignition, platform `openstack`: a drive labelled config-2 |
//! | SystemdBoot | Ignition | systemd-boot, entries on a FAT boot partition | Ignition, platform `metal`; UEFI only |
//! | LargeBlocks | Ignition | GRUB | Ignition, platform `metal`; UEFI only, for disks with blocks of 4096 bytes |
//! | CloudInit | cloud-init | GRUB | cloud-init, NoCloud: a volume labelled CIDATA |
//! | ConfigDrive | cloud-init | GRUB | cloud-init, a drive labelled config-2 |

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context as _, ensure};
use firesteel_ramdisk::apt::Apt;
use serde::{Deserialize, Serialize};

use super::overlay::{GRUB_CLOUD_CONFIG, GRUB_CONFIG, SYSTEMD_BOOT_CONFIG, SYSTEMD_BOOT_ENTRY};
use super::rootfs::SUITE;
use super::tool::{command, run};
use super::{contents, disk};

/// The revision, which is raised when this module makes other disks of the same tree.
const REVISION: u32 = 1;
/// The boot loader's menu on the boot partition of images with GRUB.
const GRUB_MENU: &str = "/grub/grub.cfg";
/// The file by which GRUB's menu asks for Ignition.
const FIRST_BOOT: &str = "/ignition.firstboot";
const CLOUD_CONFIG: &str = "/etc/cloud/cloud.cfg.d/95_firesteel.cfg";
const PLATFORM: &str = "ignition.platform.id=";
/// Debian's package with systemd-boot, and the program in it.
const SYSTEMD_BOOT: (&str, &str) = ("systemd-boot-efi", "usr/lib/systemd/boot/efi/systemd-bootx64.efi");

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum OsImageSystem {
    /// Ignition for bare metal, GRUB
    #[default]
    Ignition,
    /// Ignition for OpenStack, GRUB
    Openstack,
    /// Ignition for bare metal, systemd-boot
    SystemdBoot,
    /// Ignition for bare metal, GRUB, for disks with blocks of 4096 bytes
    LargeBlocks,
    /// cloud-init with NoCloud, GRUB
    CloudInit,
    /// cloud-init with a config drive, GRUB
    ConfigDrive,
}

/// A tree of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageTree {
    Ignition,
    CloudInit,
}

impl PackageTree {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ignition => "ignition",
            Self::CloudInit => "cloud-init",
        }
    }

    /// What it has beside the packages of all.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Ignition => &[],
            Self::CloudInit => &["cloud-init"],
        }
    }

    pub(super) fn grub_config(self) -> &'static str {
        match self {
            Self::Ignition => GRUB_CONFIG,
            Self::CloudInit => GRUB_CLOUD_CONFIG,
        }
    }
}

impl OsImageSystem {
    /// Part of file names; the usual one has none.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ignition => "",
            Self::Openstack => "openstack-",
            Self::SystemdBoot => "systemd-boot-",
            Self::LargeBlocks => "4k-",
            Self::CloudInit => "cloud-init-",
            Self::ConfigDrive => "config-drive-",
        }
    }

    pub(super) fn tree(self) -> PackageTree {
        match self {
            Self::Ignition | Self::Openstack | Self::SystemdBoot | Self::LargeBlocks => PackageTree::Ignition,
            Self::CloudInit | Self::ConfigDrive => PackageTree::CloudInit,
        }
    }
}

/// Names what systems are made of, beside their trees.
pub(super) fn key() -> String {
    format!("{REVISION} {SYSTEMD_BOOT:?}\n{SYSTEMD_BOOT_CONFIG}{SYSTEMD_BOOT_ENTRY}")
}

/// Makes the disk `raw` of a tree into that of a system.
pub(super) fn adapt(system: OsImageSystem, cache: &Path, raw: &Path, work: &Path) -> anyhow::Result<()> {
    match system {
        OsImageSystem::Ignition | OsImageSystem::CloudInit => Ok(()),
        OsImageSystem::Openstack => {
            contents::write_boot_file(raw, GRUB_MENU, &grub_for_openstack()?, work)?;
            // As such images are published: Ignition runs at the first boot without any file added.
            contents::write_boot_file(raw, FIRST_BOOT, "", work)
        }
        OsImageSystem::ConfigDrive => contents::write_root_file(raw, CLOUD_CONFIG, &cloud_for_config_drive()?, work),
        OsImageSystem::SystemdBoot => systemd_boot(cache, raw, work),
        OsImageSystem::LargeBlocks => disk::use_large_blocks(raw, work),
    }
}

fn grub_for_openstack() -> anyhow::Result<String> {
    exchanged(GRUB_CONFIG, &format!("{PLATFORM}metal"), &format!("{PLATFORM}openstack"))
}

fn cloud_for_config_drive() -> anyhow::Result<String> {
    exchanged(super::overlay::CLOUD_CONFIG, "[NoCloud, None]", "[ConfigDrive, None]")
}

/// The text with the one place of `from` changed.
fn exchanged(text: &str, from: &str, to: &str) -> anyhow::Result<String> {
    ensure!(text.matches(from).count() == 1, "{from:?} does not stand once in the text that is to be changed");
    Ok(text.replace(from, to))
}

/// Another boot loader on the EFI system partition, and a boot partition that it can read.
fn systemd_boot(cache: &Path, raw: &Path, work: &Path) -> anyhow::Result<()> {
    let (package, program) = SYSTEMD_BOOT;
    let package = Apt::new(cache, SUITE, "amd64")?.download(package).context("fetching systemd-boot")?;
    let unpacked = work.join("systemd-boot");
    run(command("dpkg-deb", ["-x"]).arg(&package).arg(&unpacked))?;
    let boot = work.join("boot-files");
    fs::create_dir_all(&boot).context("creating a folder for the kernel")?;
    for name in ["vmlinuz", "initrd.img"] {
        contents::read_boot_file(raw, &format!("/{name}"), &boot.join(name))?;
    }
    let write = |name: &str, text: &str| -> anyhow::Result<std::path::PathBuf> {
        let path = work.join(name);
        fs::write(&path, text).with_context(|| format!("writing {name}"))?;
        Ok(path)
    };
    let (config, entry) = (write("loader.conf", SYSTEMD_BOOT_CONFIG)?, write("firesteel.conf", SYSTEMD_BOOT_ENTRY)?);
    let mut file = OpenOptions::new().read(true).write(true).open(raw).context("opening the disk image")?;
    let (esp, boot_place) = disk::empty_for_systemd_boot(&mut file)?;
    drop(file);
    let loader = unpacked.join(program);
    contents::make_fat(raw, esp, "ESP", disk::ESP_ID)?;
    contents::fill_fat(
        raw,
        esp,
        &["EFI", "EFI/BOOT", "loader"],
        &[(&*loader, "EFI/BOOT/BOOTX64.EFI"), (&*config, "loader/loader.conf")],
    )?;
    contents::make_fat(raw, boot_place, "BOOT", disk::BOOT_ID)?;
    contents::fill_fat(
        raw,
        boot_place,
        &["loader", "loader/entries"],
        &[
            (&*boot.join("vmlinuz"), "vmlinuz"),
            (&*boot.join("initrd.img"), "initrd.img"),
            (&*entry, "loader/entries/firesteel.conf"),
        ],
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// The kernel and its initrd know the disk in one way, whatever loader starts them.
    fn arguments(text: &str) -> Vec<&str> {
        let line = text.lines().find(|line| line.starts_with("linux /") || line.starts_with("options ")).unwrap();
        line.split_whitespace().filter(|word| word.contains('=') || *word == "rw").collect()
    }

    #[test]
    fn every_boot_loader_starts_the_same_root() {
        let grub = arguments(GRUB_CONFIG);
        assert_eq!(arguments(SYSTEMD_BOOT_ENTRY), grub);
        let cloud: Vec<&str> =
            arguments(GRUB_CLOUD_CONFIG).into_iter().filter(|word| !word.starts_with("rd.systemd.mask=")).collect();
        assert_eq!(
            cloud,
            grub[..grub.len() - 1],
            "all but Ignition's platform, and with an initrd that has no network"
        );
        assert!(grub.contains(&"ignition.platform.id=metal"));
        assert!(SYSTEMD_BOOT_ENTRY.contains(" ignition.firstboot\n"), "there is no file that could ask for it");
    }

    #[test]
    fn systems_of_a_tree_differ_where_they_must() {
        let openstack = grub_for_openstack().unwrap();
        assert!(openstack.contains("ignition.platform.id=openstack $ignition_firstboot"));
        assert!(!openstack.contains("metal"));
        let drive = cloud_for_config_drive().unwrap();
        assert!(drive.contains("\ndatasource_list: [ConfigDrive, None]\n") && !drive.contains("NoCloud"));
        assert!(!GRUB_CLOUD_CONFIG.contains("ignition."), "the agent would take it for an image with Ignition");
        assert!(exchanged("a a", "a", "b").is_err() && exchanged("b", "a", "b").is_err());
    }

    #[test]
    fn no_two_systems_have_one_file_name() {
        let names: std::collections::BTreeSet<_> =
            <OsImageSystem as clap::ValueEnum>::value_variants().iter().map(|system| system.name()).collect();
        assert_eq!(names.len(), 6);
    }
}
