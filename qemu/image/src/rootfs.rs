//! Makes the tree of files: Debian's packages, then what makes them this image.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use firesteel_ramdisk::apt::Apt;
use firesteel_ramdisk::{KernelFlavour, ModuleSet, UnpackedKernel, fetch_kernel, sha256_hex};

use super::overlay;
use super::system::PackageTree;
use super::tool::{command, run};

pub(super) const SUITE: &str = "bookworm";
/// What a small server with Ignition needs; `gdisk` and the filesystem tools are Ignition's.
const PACKAGES: [&str; 19] = [
    "ca-certificates",
    "curl",
    "dbus",
    "dosfstools",
    "dracut",
    "dracut-network",
    "e2fsprogs",
    "gdisk",
    "ignition",
    "iproute2",
    "iputils-ping",
    "kmod",
    "linux-image-amd64",
    "login",
    "netbase",
    "passwd",
    "systemd-sysv",
    "udev",
    "zstd",
];
/// Modules beside those of the ramdisk's lab set; `button` and `evdev` let the OS hear its power button.
const MODULES: [&str; 6] = ["autofs4", "loop", "overlay", "efi_pstore", "button", "evdev"];
/// Files of packages that a machine without people at it does not read.
const EXCLUDED: [&str; 10] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/bash-completion/*",
    "/usr/share/zsh/*",
    "/usr/lib/*/gconv/*",
    "/usr/share/i18n/*",
    "/lib/modules/*/kernel/*",
];
/// Times in the tree are no later than this, so that the day of building does not show.
const TIME_MAX: &str = "1767225600";

/// Names what the tree of packages is made of.
pub(super) fn key(tree: PackageTree) -> String {
    let packages = packages(tree);
    format!("{SUITE} {packages:?} {MODULES:?} {EXCLUDED:?} {:?} {TIME_MAX}\n", ModuleSet::Lab.module_names())
}

fn packages(tree: PackageTree) -> Vec<&'static str> {
    PACKAGES.iter().chain(tree.packages()).copied().collect()
}

/// Debian's packages as a tar file, made unless it is there.
pub(super) fn bootstrap(
    tree: PackageTree,
    cache: &Path,
    stages: &Path,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<PathBuf> {
    let tar = stages.join(format!("packages-{}.tar", &sha256_hex(key(tree).as_bytes())[..12]));
    if tar.is_file() {
        return Ok(tar);
    }
    let work = super::work_folder(stages)?;
    progress("fetching Debian's kernel package");
    let apt = Apt::new(cache, SUITE, "amd64")?;
    let kernel = UnpackedKernel::open(&fetch_kernel(&apt, KernelFlavour::Generic)?)?;
    let filter = work.path().join("dpkg-filter");
    fs::write(&filter, dpkg_filter(&kernel)?).context("writing the filter for packages' files")?;
    drop(kernel);

    let new = work.path().join("packages.tar");
    let mut bootstrap = command("mmdebstrap", ["--variant=minbase", "--mode=root"]);
    bootstrap
        .arg(format!("--include={}", packages(tree).join(",")))
        .arg(format!("--dpkgopt={}", filter.display()))
        .arg("--aptopt=Acquire::Languages \"none\"")
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .arg(SUITE)
        .arg(&new)
        .args(apt.sources().lines())
        // The initrd is made once, at the end, and not by the kernel's package.
        .env("INITRD", "No")
        .env("SOURCE_DATE_EPOCH", TIME_MAX)
        .env("TMPDIR", work.path());
    progress("installing Debian's packages into a tree");
    run_with_progress(&mut bootstrap, progress)?;
    fs::rename(&new, &tar).with_context(|| format!("keeping {}", tar.display()))?;
    Ok(tar)
}

/// Makes dpkg unpack only those of the kernel's 4000 modules that are needed.
fn dpkg_filter(kernel: &UnpackedKernel) -> anyhow::Result<String> {
    let wanted = ModuleSet::Lab.module_names().iter().chain(&MODULES).copied();
    let mut lines: String = EXCLUDED.iter().map(|pattern| format!("path-exclude={pattern}\n")).collect();
    for name in kernel.modules.closure(wanted)? {
        if let Some(module) = kernel.modules.get(&name) {
            lines.push_str(&format!("path-include=/lib/modules/*/{}\n", module.path));
        }
    }
    Ok(lines)
}

/// Runs mmdebstrap and passes on its own words on how far it is.
fn run_with_progress(command: &mut std::process::Command, progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .spawn()
        .context("running mmdebstrap (qemu/lab installs what is needed)")?;
    let mut lines = Vec::new();
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
        let line = line.context("reading what mmdebstrap says")?;
        if let Some(step) = line.strip_prefix("I: ") {
            progress(step);
        }
        lines.push(line);
    }
    let status = child.wait().context("waiting for mmdebstrap")?;
    if !status.success() {
        bail!("mmdebstrap failed ({status}):\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
    }
    Ok(())
}

/// The finished tree, in two parts.
#[derive(Debug)]
pub(super) struct RootfsTrees {
    pub(super) root: PathBuf,
    pub(super) boot: PathBuf,
}

/// Unpacks the packages and makes them into the image's tree.
pub(super) fn prepare(
    tree: PackageTree,
    tar: &Path,
    work: &Path,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<RootfsTrees> {
    progress("unpacking the tree");
    let root = work.join("root");
    fs::create_dir(&root).context("creating the tree's folder")?;
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).context("opening the tree's folder to all")?;
    run(command("tar", ["--numeric-owner", "-xpf"]).arg(tar).arg("-C").arg(&root))?;
    for file in overlay::files(tree) {
        let path = root.join(file.path);
        let folder = path.parent().unwrap_or(&root);
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        fs::write(&path, file.content).with_context(|| format!("writing {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))
            .with_context(|| format!("setting the mode of {}", path.display()))?;
    }

    progress("making the initrd");
    let script = work.join("prepare.sh");
    fs::write(&script, overlay::PREPARE).context("writing the preparing script")?;
    // The mounts belong to a namespace that ends with the script, however it ends.
    let in_tree = "set -e; mount -t proc proc \"$1/proc\"; mount --bind /dev \"$1/dev\"; mount -t tmpfs tmpfs \"$1/run\"; \
                   mount -t tmpfs tmpfs \"$1/tmp\"; exec chroot \"$1\" /bin/bash -s <\"$2\"";
    run(command("unshare", ["--mount", "--fork", "--kill-child", "sh", "-c", in_tree, "sh"])
        .arg(&root)
        .arg(&script)
        .env("SOURCE_DATE_EPOCH", TIME_MAX))?;

    let boot = work.join("boot");
    fs::rename(root.join("boot"), &boot).context("taking the boot folder out of the tree")?;
    fs::create_dir(root.join("boot")).context("creating the boot partition's mount point")?;
    Ok(RootfsTrees { root, boot })
}
