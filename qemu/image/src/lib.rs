//! Builds the lab's operating systems: a small, real, bootable Debian with Ignition or with cloud-init, as disk images.
//!
//! ```text
//!   Debian packages ─ rootfs ─► tree ─ disk ─► GPT: BIOS boot │ ESP │ boot │ root ─ system ─► another boot loader, …
//!   overlay, prepare.sh ───────┘                (no loop device, no mount)            └─ formats ─► raw, raw.gz,
//!                                                                                        raw.xz, raw.zst, qcow2
//! ```
//!
//! It starts on BIOS and UEFI from virtio, NVMe, SATA and SCSI disks, and it distinguishes the disk it was
//! started from from a copy (see `grub/grub.cfg` and the dracut module in
//! `overlay`). In the real root a unit reports to the appliance, with the nonce of the config
//! that Ignition fetched. The image knows the appliance by that config alone. Where Ignition fails, a unit of the
//! initramfs reports that, with what was handed over beside the config.
//!
//! Which systems there are says [`OsImageSystem`]; those of one tree share everything but a few files.
//!
//! Every stage is kept under a name made of its inputs. Another version is another marker file in
//! the same filesystem: seconds, not minutes.

mod contents;
mod disk;
mod formats;
mod overlay;
mod rootfs;
mod system;
mod tool;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use firesteel_ramdisk::sha256_hex;

pub use contents::read_boot_file;
pub use disk::noise;
pub use formats::PackedFormat;
pub use system::OsImageSystem;

use system::PackageTree;

/// The file in the image that holds its version.
pub const VERSION_FILE: &str = "/etc/firesteel-image-version";
/// A version is a word on a console line and part of a file name.
const VERSION_BYTES_MAX: usize = 32;
const WORK_PREFIX: &str = "work-";

/// Which images to build.
#[derive(Debug, Clone)]
pub struct OsImageRequest {
    /// Where packages and stages are kept between builds.
    pub cache: PathBuf,
    /// Where the images go.
    pub out: PathBuf,
    /// The version in the image, by which two images differ: letters, digits, `.`, `-`, `_`.
    pub version: String,
    pub system: OsImageSystem,
    /// One more partition of so many MiB that nothing makes smaller. The version must say so.
    pub ballast_mib: u64,
    pub formats: Vec<PackedFormat>,
}

/// One image file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsImageFile {
    pub format: PackedFormat,
    pub path: PathBuf,
    pub bytes: u64,
}

/// Builds the wanted formats, or finds them built; says through `progress` what it is at. Needs root,
/// for the files in the image belong to many users.
pub fn build(request: &OsImageRequest, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<OsImageFile>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    ensure!(
        !request.version.is_empty()
            && request.version.len() <= VERSION_BYTES_MAX
            && request.version.chars().all(is_word),
        "the image version {:?} is not a word of at most {VERSION_BYTES_MAX} letters, digits, '.', '-' and '_'",
        request.version
    );
    let stages = request.cache.join("image");
    for folder in [&stages, &request.out] {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let tree = request.system.tree();
    let base_key = base_key(tree);
    let key = key(request.system, &base_key);
    let name = format!("firesteel-lab-{}{}", request.system.name(), request.version);
    let path_of = |format: PackedFormat| request.out.join(format!("{name}-{key}.{}", format.suffix()));
    if request.formats.iter().all(|format| path_of(*format).is_file()) {
        return request.formats.iter().map(|format| image(*format, path_of(*format))).collect();
    }

    // Two builds at once would do the same work twice; the second finds what the first has made.
    let _lock = lock(&stages)?;
    remove_stale(&stages)?;
    let base = stages.join(format!("base-{base_key}.raw"));
    if !base.is_file() {
        make_base(tree, &request.cache, &stages, &base, progress)?;
    }
    let work = work_folder(&stages)?;
    let raw = work.path().join("image.raw");
    progress(&format!("setting the version to {}", request.version));
    formats::copy_sparse(&base, &raw)?;
    contents::write_root_file(&raw, VERSION_FILE, &format!("{}\n", request.version), work.path())?;
    system::adapt(request.system, &request.cache, &raw, work.path())?;
    if request.ballast_mib > 0 {
        disk::add_ballast(&raw, request.ballast_mib)?;
    }
    remove_others(&request.out, &name, &key)?;
    let mut images = Vec::new();
    for (done, format) in request.formats.iter().enumerate() {
        let path = path_of(*format);
        if !path.is_file() {
            progress(&format!("writing {} ({} of {})", format.suffix(), done + 1, request.formats.len()));
            formats::convert(&raw, &path, *format)?;
        }
        images.push(image(*format, path)?);
    }
    Ok(images)
}

fn make_base(
    tree: PackageTree,
    cache: &Path,
    stages: &Path,
    base: &Path,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "building the operating system image needs root: its files belong to several users"
    );
    let work = work_folder(stages)?;
    progress(&format!("making the tree with {}", tree.name()));
    let tar = rootfs::bootstrap(tree, cache, stages, progress)?;
    let files = rootfs::prepare(tree, &tar, work.path(), progress)?;
    progress("making the disk image");
    let raw = work.path().join("base.raw");
    disk::make(tree, &files, &raw, work.path())?;
    fs::rename(&raw, base).with_context(|| format!("keeping {}", base.display()))
}

/// Names everything that an image is made of but the version: of the usual system its tree, of others more.
fn key(system: OsImageSystem, base_key: &str) -> String {
    if system == OsImageSystem::Ignition {
        return base_key.to_owned();
    }
    sha256_hex(format!("{base_key} {}", system::key()).as_bytes())[..12].to_owned()
}

/// Names everything that a tree's disk is made of.
fn base_key(tree: PackageTree) -> String {
    let mut inputs = rootfs::key(tree);
    inputs.push_str(&disk::key(tree));
    for file in overlay::files(tree) {
        inputs.push_str(&format!("{} {:o} {}\n", file.path, file.mode, sha256_hex(file.content.as_bytes())));
    }
    inputs.push_str(overlay::PREPARE);
    sha256_hex(inputs.as_bytes())[..12].to_owned()
}

fn image(format: PackedFormat, path: PathBuf) -> anyhow::Result<OsImageFile> {
    let bytes = fs::metadata(&path).with_context(|| format!("looking at {}", path.display()))?.len();
    Ok(OsImageFile { format, path, bytes })
}

fn lock(stages: &Path) -> anyhow::Result<File> {
    let path = stages.join("lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    file.lock().with_context(|| format!("waiting for another build that holds {}", path.display()))?;
    Ok(file)
}

/// Removes what killed builds left to work in; the lock is held, so no build works there.
fn remove_stale(stages: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(stages).with_context(|| format!("listing {}", stages.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(WORK_PREFIX) {
            fs::remove_dir_all(entry.path()).with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// A folder that goes with the build.
fn work_folder(stages: &Path) -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(WORK_PREFIX).tempdir_in(stages).context("creating a folder to work in")
}

/// Removes older builds of the same version, which would not be found again.
fn remove_others(out: &Path, name: &str, base_key: &str) -> anyhow::Result<()> {
    let keep = format!("{name}-{base_key}.");
    for entry in fs::read_dir(out).with_context(|| format!("listing {}", out.display()))? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let is_ours = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| {
            rest.split_once('.')
                .is_some_and(|(key, _)| key.len() == base_key.len() && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
        });
        if is_ours && !file.starts_with(&keep) {
            fs::remove_file(entry.path()).with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn older_builds_of_the_same_version_go() {
        let folder = tempfile::tempdir().unwrap();
        let key = "0123456789ab";
        for name in [
            "firesteel-lab-1-0123456789ab.raw",
            "firesteel-lab-1-ffff56789abc.raw.zst",
            "firesteel-lab-1-notes.txt",
            "firesteel-lab-1.1-ffff56789abc.raw",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_others(folder.path(), "firesteel-lab-1", key).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(
            left,
            ["firesteel-lab-1-0123456789ab.raw", "firesteel-lab-1-notes.txt", "firesteel-lab-1.1-ffff56789abc.raw"]
        );
    }

    #[test]
    fn what_a_killed_build_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("work-x/root/etc")).unwrap();
        fs::write(folder.path().join("base-1.raw"), "").unwrap();
        remove_stale(folder.path()).unwrap();
        assert!(!folder.path().join("work-x").exists());
        assert!(folder.path().join("base-1.raw").exists());
    }

    #[test]
    fn a_version_is_one_word() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["", "a b", "../x", "a\n"] {
            let request = OsImageRequest {
                cache: folder.path().into(),
                out: folder.path().into(),
                version: version.into(),
                system: OsImageSystem::Ignition,
                ballast_mib: 0,
                formats: vec![],
            };
            assert!(build(&request, &mut |_| {}).is_err(), "{version:?}");
        }
    }
}
