//! Puts kernel, modules, firmware and agent together, and writes the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cpio::Archive;
use crate::deb::{Deb, DebError};
use crate::index;
use crate::kernel::{KernelError, UnpackedKernel};
use crate::manifest::{self, FirmwarePackage, KernelPackage, ManifestFile, RamdiskManifest};
use crate::sets::ModuleSet;
use crate::sha256_hex;
use crate::tree::TreeError;

pub const KERNEL_FILE: &str = "vmlinuz";
pub const INITRAMFS_FILE: &str = "initramfs.zst";
pub const MANIFEST_FILE: &str = "manifest.json";

/// The best that the kernel's decompressor takes: above it the window grows beyond 8 MiB, which every
/// host would have to hold beside the archive.
const ZSTD_LEVEL: i32 = 19;

/// What to build, and from what.
#[derive(Debug, Clone)]
pub struct RamdiskInputs {
    pub kernel_package: PathBuf,
    /// The static agent, which becomes `/init`.
    pub agent: PathBuf,
    pub set: ModuleSet,
    /// Packages in which firmware that the chosen modules name is looked for.
    pub firmware_packages: Vec<PathBuf>,
    /// Where the three files go.
    pub out: PathBuf,
    /// Where the compressed modules are kept for the next time.
    pub cache: PathBuf,
}

/// What went wrong while building.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Firmware(#[from] DebError),
    #[error(transparent)]
    Modules(#[from] TreeError),
    #[error("reading {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("writing {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("compressing an archive")]
    Compress(#[source] io::Error),
    #[error("the agent {path} is not a program for Linux")]
    NotAProgram { path: PathBuf },
}

/// The part of a ramdisk that does not depend on the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RamdiskBase {
    kernel: KernelPackage,
    firmware_packages: Vec<FirmwarePackage>,
    vmlinuz: ManifestFile,
    archive: ManifestFile,
    modules: Vec<String>,
    absent_modules: Vec<String>,
    firmware: Vec<String>,
}

/// Builds the ramdisk and says through `progress` what it is at.
pub fn build(request: &RamdiskInputs, progress: &mut dyn FnMut(&str)) -> Result<RamdiskManifest, BuildError> {
    let agent = read(&request.agent)?;
    if !agent.starts_with(b"\x7fELF") {
        return Err(BuildError::NotAProgram { path: request.agent.clone() });
    }
    let (base, image, mut initramfs) = base(request, progress)?;
    initramfs.extend_from_slice(&compress(&agent_archive(&agent).to_bytes())?);
    let initramfs_file = ManifestFile::of(&initramfs);
    let manifest = RamdiskManifest {
        format: manifest::FORMAT,
        set: request.set.name().to_owned(),
        kernel: base.kernel,
        agent: ManifestFile::of(&agent),
        firmware_packages: base.firmware_packages,
        total_bytes: base.vmlinuz.bytes + initramfs_file.bytes,
        vmlinuz: base.vmlinuz,
        initramfs: initramfs_file,
        modules: base.modules,
        absent_modules: base.absent_modules,
        firmware: base.firmware,
    };
    let mut text = json(&manifest);
    text.push(b'\n');
    // The manifest comes last: while it is old or missing, the others are not to be trusted.
    for (name, bytes) in [(KERNEL_FILE, &image), (INITRAMFS_FILE, &initramfs), (MANIFEST_FILE, &text)] {
        write(&request.out.join(name), bytes)?;
    }
    Ok(manifest)
}

/// Kernel image and compressed modules: out of the cache, or made and put there.
fn base(
    request: &RamdiskInputs,
    progress: &mut dyn FnMut(&str),
) -> Result<(RamdiskBase, Vec<u8>, Vec<u8>), BuildError> {
    let folder = request.cache.join("ramdisk").join(base_key(request)?);
    let description = folder.join("base.json");
    if let Some(base) = fs::read(&description).ok().and_then(|text| serde_json::from_slice::<RamdiskBase>(&text).ok()) {
        let (image, archive) = (read(&folder.join(KERNEL_FILE))?, read(&folder.join(INITRAMFS_FILE))?);
        if ManifestFile::of(&image) == base.vmlinuz && ManifestFile::of(&archive) == base.archive {
            progress(&format!("using the {} modules packed before", base.modules.len()));
            return Ok((base, image, archive));
        }
    }
    let (base, image, archive) = make_base(request, progress)?;
    write(&folder.join(KERNEL_FILE), &image)?;
    write(&folder.join(INITRAMFS_FILE), &archive)?;
    write(&description, &json(&base))?;
    Ok((base, image, archive))
}

/// Names everything that the base is made of.
fn base_key(request: &RamdiskInputs) -> Result<String, BuildError> {
    let mut inputs = format!("{}\n{ZSTD_LEVEL}\n{:?}\n", manifest::FORMAT, request.set.definition());
    for package in std::iter::once(&request.kernel_package).chain(&request.firmware_packages) {
        inputs.push_str(&sha256_hex(&read(package)?));
        inputs.push('\n');
    }
    Ok(sha256_hex(inputs.as_bytes())[..16].to_owned())
}

fn make_base(
    request: &RamdiskInputs,
    progress: &mut dyn FnMut(&str),
) -> Result<(RamdiskBase, Vec<u8>, Vec<u8>), BuildError> {
    progress("unpacking the kernel package");
    let kernel = UnpackedKernel::open(&request.kernel_package)?;
    let (wanted, absent_modules) = request.set.wanted(&kernel.modules);
    let chosen = kernel.modules.closure(wanted.iter().map(String::as_str))?;
    let (firmware_packages, firmware) = firmware(request, &kernel, &chosen)?;
    let archive = modules_archive(&kernel, &chosen, &firmware).to_bytes();
    progress(&format!(
        "packing {} of {} modules ({} MB)",
        chosen.len(),
        kernel.modules.iter().count(),
        archive.len() / 1_000_000
    ));
    let archive = compress(&archive)?;
    let base = RamdiskBase {
        kernel: KernelPackage {
            package: kernel.identity.package,
            version: kernel.identity.version,
            architecture: kernel.identity.architecture,
            release: kernel.release,
            sha256: kernel.sha256,
        },
        firmware_packages,
        vmlinuz: ManifestFile::of(&kernel.image),
        archive: ManifestFile::of(&archive),
        modules: chosen.into_iter().collect(),
        absent_modules,
        firmware: firmware.into_keys().collect(),
    };
    Ok((base, kernel.image, archive))
}

type FirmwareFiles = BTreeMap<String, Vec<u8>>;

fn firmware(
    request: &RamdiskInputs,
    kernel: &UnpackedKernel,
    chosen: &BTreeSet<String>,
) -> Result<(Vec<FirmwarePackage>, FirmwareFiles), BuildError> {
    let named: BTreeSet<&str> = chosen
        .iter()
        .filter_map(|name| kernel.modules.get(name))
        .flat_map(|module| module.info.firmware.iter().map(String::as_str))
        .collect();
    let mut packages = Vec::new();
    let mut files = FirmwareFiles::new();
    for path in &request.firmware_packages {
        let deb = Deb::open(path)?;
        let identity = deb.identity()?;
        // Debian 13 has /usr/lib only.
        let below =
            |path: &str| path.strip_prefix("usr/").unwrap_or(path).strip_prefix("lib/firmware/").map(str::to_owned);
        deb.for_each_data_file(
            &mut |path| below(path).is_some_and(|name| named.contains(name.as_str())),
            &mut |path, bytes| {
                files.extend(below(path).map(|name| (name, bytes)));
            },
        )?;
        packages.push(FirmwarePackage {
            package: identity.package,
            version: identity.version,
            sha256: deb.sha256().to_owned(),
        });
    }
    Ok((packages, files))
}

fn modules_archive(kernel: &UnpackedKernel, chosen: &BTreeSet<String>, firmware: &FirmwareFiles) -> Archive {
    let mut archive = Archive::default();
    let folder = format!("lib/modules/{}", kernel.release);
    archive.add_folder(&folder);
    for module in chosen.iter().filter_map(|name| kernel.modules.get(name)) {
        archive.add_file(&format!("{folder}/{}", module.path), 0o644, module.bytes.clone());
    }
    for (name, text) in [
        ("modules.dep", index::dependencies(&kernel.modules, chosen)),
        ("modules.alias", index::aliases(&kernel.modules, chosen)),
        ("modules.softdep", index::soft_dependencies(&kernel.modules, chosen)),
        ("modules.builtin", kernel.builtin.clone()),
    ] {
        archive.add_file(&format!("{folder}/{name}"), 0o644, text.into_bytes());
    }
    for (name, bytes) in firmware {
        archive.add_file(&format!("lib/firmware/{name}"), 0o644, bytes.clone());
    }
    archive
}

/// The agent and what the kernel expects to find before the agent has made anything.
fn agent_archive(agent: &[u8]) -> Archive {
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "run", "sys", "tmp", "mnt"] {
        archive.add_folder(folder);
    }
    archive.add_file("init", 0o755, agent.to_vec());
    // The kernel opens the console for its first process, and a program without open files opens null.
    archive.add_character_device("dev/console", 0o600, 5, 1);
    archive.add_character_device("dev/null", 0o666, 1, 3);
    // The path that the kernel calls to have a module loaded.
    archive.add_link("sbin/modprobe", "/init");
    archive
}

fn compress(archive: &[u8]) -> Result<Vec<u8>, BuildError> {
    // One thread: the number of threads must not show in the bytes.
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), ZSTD_LEVEL).map_err(BuildError::Compress)?;
    encoder.include_checksum(true).map_err(BuildError::Compress)?;
    encoder.set_pledged_src_size(Some(archive.len() as u64)).map_err(BuildError::Compress)?;
    encoder.write_all(archive).map_err(BuildError::Compress)?;
    encoder.finish().map_err(BuildError::Compress)
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec_pretty(value).unwrap_or_else(|_| unreachable!("plain fields always become JSON"))
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    fs::read(path).map_err(|source| BuildError::Read { path: path.to_owned(), source })
}

/// Replaces `path` in one step, readable by all whatever the umask.
fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let attempt = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        file.persist(path)?;
        Ok(())
    };
    attempt().map_err(|source| BuildError::Write { path: path.to_owned(), source })
}
