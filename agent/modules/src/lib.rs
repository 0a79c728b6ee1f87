//! Kernel modules. This crate finds them by what the hardware says of itself, and loads them with what they need.
//!
//! The ramdisk has no modprobe and no udev, and this crate does what is needed of both. It walks the
//! devices for their `modalias`. It also answers when the kernel itself asks for a module (to mount a
//! filesystem, for a checksum or a network protocol): `/sbin/modprobe` is a link to the agent.
//!
//! ```text
//!   /sys/devices/**/modalias ─┐
//!   modprobe -q -- NAME ──────┴─► index: names ─► load order ─► finit_module
//! ```
//!
//! The agent, the real machine of its steps and the lab's guests call it. It knows neither the appliance nor plans, and
//! unloads nothing.

pub mod index;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

pub use index::{Index, check};

/// A driver that was just loaded makes its devices within this time; buses that scan for longer
/// (SAS, USB) are seen by the next look.
const QUIET: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Index files of the largest set have half a megabyte.
const INDEX_BYTES_MAX: u64 = 16 << 20;
/// The longest modalias (an input device's) has a few hundred characters; sysfs gives a page at most.
const MODALIAS_BYTES_MAX: u64 = 4096;
/// Device trees are some twenty folders deep (bridges behind bridges, then ports, targets, units).
const DEPTH_MAX: usize = 64;

/// What came of loading modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// The modules in the order of loading; modules that were there before are not named.
    pub loaded: Vec<String>,
    /// Modules that the kernel did not take, and its reason.
    pub failed: Vec<(String, String)>,
    /// Devices that no module of this ramdisk is for.
    pub unmatched: BTreeSet<String>,
}

/// What the modules that are asked for are handed to: the kernel, or a list in tests.
trait ModuleSink {
    fn load(&mut self, file: &Path) -> Result<(), Errno>;
}

struct RunningKernel;

impl ModuleSink for RunningKernel {
    fn load(&mut self, file: &Path) -> Result<(), Errno> {
        let file = File::open(file).map_err(errno)?;
        finit_module(file, c"", ModuleInitFlags::empty())
    }
}

/// The running kernel's modules, and what was done with them so far.
#[derive(Debug)]
struct ModuleLoader {
    folder: PathBuf,
    index: Index,
    tried: BTreeSet<String>,
    aliases_seen: BTreeSet<String>,
    report: LoadReport,
}

/// Loads the modules for all devices that are there now. `root` is `/` but in tests.
pub fn load_for_hardware(root: &Path) -> LoadReport {
    let Some(mut loader) = ModuleLoader::open(root) else { return LoadReport::default() };
    loader.scan_aliases(root, &mut RunningKernel);
    loader.report
}

/// Loads modules by their names, with what they need.
pub fn load_named(root: &Path, names: &[&str]) {
    let Some(mut loader) = ModuleLoader::open(root) else { return };
    for name in names {
        if !loader.load(name, &mut RunningKernel) {
            tracing::debug!("kernel module {name} was not loaded");
        }
    }
}

/// Loads modules until the hardware shows nothing new: a controller's driver brings up disks, which
/// need drivers of their own. Ends after `timeout` in any case.
pub fn coldplug(root: &Path, timeout: Duration) -> LoadReport {
    let Some(mut loader) = ModuleLoader::open(root) else { return LoadReport::default() };
    let begin = Instant::now();
    let mut last_news = begin;
    while last_news.elapsed() < QUIET && begin.elapsed() < timeout {
        if loader.scan_aliases(root, &mut RunningKernel) {
            last_news = Instant::now();
        } else {
            thread::sleep(BETWEEN_LOOKS);
        }
    }
    loader.report
}

/// Whether this process was started in place of modprobe, and for which names. The kernel calls
/// `/sbin/modprobe -q -- NAME`, with the path that `/proc/sys/kernel/modprobe` gives.
pub fn modprobe_request(arguments: &[OsString]) -> Option<Vec<String>> {
    let (program, rest) = arguments.split_first()?;
    let is_modprobe = Path::new(program).file_name() == Some(OsStr::new("modprobe"));
    let kernel_asks = rest.len() >= 3 && rest[0] == "-q" && rest[1] == "--";
    if !is_modprobe && !kernel_asks {
        return None;
    }
    Some(
        rest.iter().filter_map(|word| word.to_str()).filter(|word| !word.starts_with('-')).map(str::to_owned).collect(),
    )
}

/// Answers as modprobe would: exit status 0 when everything asked for is loaded or built in.
/// `arguments` begin with the program's own name.
pub fn modprobe(arguments: &[OsString]) -> i32 {
    let names = modprobe_request(arguments).unwrap_or_default();
    let Some(mut loader) = ModuleLoader::open(Path::new("/")) else { return 1 };
    let found = names.iter().filter(|name| loader.load(name, &mut RunningKernel)).count();
    i32::from(names.is_empty() || found < names.len())
}

impl ModuleLoader {
    /// Reads the index of the running kernel's modules; none if the ramdisk has none for it.
    fn open(root: &Path) -> Option<Self> {
        let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).ok()?;
        let folder = root.join("lib/modules").join(release.trim());
        let text = |name: &str| read_text(&folder.join(name), INDEX_BYTES_MAX).unwrap_or_default();
        let index = Index::parse(
            &text("modules.dep"),
            &text("modules.alias"),
            &text("modules.softdep"),
            &text("modules.builtin"),
        );
        let (tried, aliases_seen) = Default::default();
        Some(Self { folder, index, tried, aliases_seen, report: LoadReport::default() })
    }

    /// One look at all devices; whether there was anything new.
    fn scan_aliases(&mut self, root: &Path, kernel: &mut dyn ModuleSink) -> bool {
        let mut aliases = BTreeSet::new();
        collect_aliases(&root.join("sys/devices"), DEPTH_MAX, &mut aliases);
        let new: Vec<String> = aliases.difference(&self.aliases_seen).cloned().collect();
        for alias in &new {
            if !self.index.matches(alias) {
                self.report.unmatched.insert(alias.clone());
            }
            self.load(alias, kernel);
        }
        self.aliases_seen.extend(aliases);
        !new.is_empty()
    }

    /// Loads whatever `wanted` (a module's name, or an alias) stands for; whether something does.
    fn load(&mut self, wanted: &str, kernel: &mut dyn ModuleSink) -> bool {
        if self.index.is_builtin(wanted) {
            return true;
        }
        let modules = self.index.resolve(wanted);
        let mut is_loaded = false;
        for module in modules {
            for step in self.index.load_order(&module) {
                let result = self.load_one(&step, kernel);
                is_loaded |= step == module && result;
            }
        }
        is_loaded
    }

    fn load_one(&mut self, module: &str, kernel: &mut dyn ModuleSink) -> bool {
        let Some(path) = self.index.path(module) else { return false };
        if !self.tried.insert(module.to_owned()) {
            return !self.report.failed.iter().any(|(failed, _)| failed == module);
        }
        match kernel.load(&self.folder.join(path)) {
            Ok(()) => self.report.loaded.push(module.to_owned()),
            Err(Errno::EEXIST) => {}
            // An accelerated checksum for another processor, say: it is not for this machine.
            Err(Errno::ENODEV) => return false,
            Err(error) => {
                self.report.failed.push((module.to_owned(), error.desc().to_owned()));
                return false;
            }
        }
        true
    }
}

fn collect_aliases(folder: &Path, depth: usize, aliases: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // Not `metadata`: links lead back up the tree.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            collect_aliases(&entry.path(), depth - 1, aliases);
        } else if kind.is_file() && entry.file_name() == "modalias" {
            let text = read_text(&entry.path(), MODALIAS_BYTES_MAX).unwrap_or_default();
            aliases.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        }
    }
}

fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// Takes what it is given, but for the named files; says in which order.
    #[derive(Default)]
    struct Listed {
        files: Vec<String>,
        refused: Vec<(&'static str, Errno)>,
    }

    impl ModuleSink for Listed {
        fn load(&mut self, file: &Path) -> Result<(), Errno> {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            if let Some((_, error)) = self.refused.iter().find(|(refused, _)| *refused == name) {
                return Err(*error);
            }
            self.files.push(name);
            Ok(())
        }
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A machine with a virtio network card, and a disk that shows up by its driver.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/sys/kernel/osrelease", "6.1.0-t\n");
        let base = "lib/modules/6.1.0-t";
        write(
            root,
            &format!("{base}/modules.dep"),
            "kernel/net/virtio_net.ko: kernel/net/net_failover.ko kernel/net/failover.ko\n\
             kernel/net/net_failover.ko: kernel/net/failover.ko\nkernel/net/failover.ko:\n\
             kernel/fs/xfs.ko: kernel/lib/libcrc32c.ko\nkernel/lib/libcrc32c.ko:\n\
             kernel/crypto/crc32c_generic.ko:\nkernel/crypto/crc32c-intel.ko:\nkernel/late.ko:\n",
        );
        write(
            root,
            &format!("{base}/modules.alias"),
            "alias virtio:d00000001v* virtio_net\nalias fs-xfs xfs\nalias crc32c crc32c_generic\n\
             alias crc32c crc32c_intel\n",
        );
        write(root, &format!("{base}/modules.softdep"), "softdep libcrc32c pre: crc32c\nsoftdep xfs post: late\n");
        write(root, &format!("{base}/modules.builtin"), "kernel/drivers/nvme/nvme-core.ko\n");
        write(root, "sys/devices/pci0/0000:00:01.0/virtio0/modalias", "virtio:d00000001v00001AF4\n");
        write(root, "sys/devices/platform/other/modalias", "platform:pcspkr\n");
        folder
    }

    #[test]
    fn hardware_gets_its_module_after_what_it_needs() {
        let machine = machine();
        let mut loader = ModuleLoader::open(machine.path()).unwrap();
        let mut kernel = Listed::default();
        assert!(loader.scan_aliases(machine.path(), &mut kernel));
        assert_eq!(kernel.files, ["failover.ko", "net_failover.ko", "virtio_net.ko"]);
        assert_eq!(loader.report.loaded, ["failover", "net_failover", "virtio_net"]);
        assert_eq!(loader.report.unmatched.iter().collect::<Vec<_>>(), ["platform:pcspkr"]);
        assert!(!loader.scan_aliases(machine.path(), &mut kernel), "nothing is new");
        assert_eq!(kernel.files.len(), 3, "and nothing is loaded twice");
    }

    #[test]
    fn the_kernel_asks_for_a_filesystem() {
        let machine = machine();
        let mut loader = ModuleLoader::open(machine.path()).unwrap();
        let mut kernel = Listed { refused: vec![("crc32c-intel.ko", Errno::ENODEV)], ..Listed::default() };
        assert!(loader.load("fs-xfs", &mut kernel));
        assert_eq!(kernel.files, ["crc32c_generic.ko", "libcrc32c.ko", "xfs.ko", "late.ko"]);
        assert!(loader.report.failed.is_empty(), "another processor's module is no failure");
    }

    #[test]
    fn a_refused_module_is_reported_with_the_kernels_reason() {
        let machine = machine();
        let mut loader = ModuleLoader::open(machine.path()).unwrap();
        let mut kernel = Listed { refused: vec![("xfs.ko", Errno::ENOKEY)], ..Listed::default() };
        assert!(!loader.load("xfs", &mut kernel));
        assert_eq!(loader.report.failed, [("xfs".to_owned(), Errno::ENOKEY.desc().to_owned())]);
        assert!(!loader.load("xfs", &mut kernel), "it stays refused");
        assert!(!loader.load("fs-nothing", &mut kernel));
        assert!(loader.load("nvme-core", &mut kernel), "built in");
    }

    #[test]
    fn already_loaded_is_loaded() {
        let machine = machine();
        let mut loader = ModuleLoader::open(machine.path()).unwrap();
        let mut kernel = Listed { refused: vec![("failover.ko", Errno::EEXIST)], ..Listed::default() };
        assert!(loader.load("virtio_net", &mut kernel));
        assert_eq!(loader.report.loaded, ["net_failover", "virtio_net"]);
    }

    #[test]
    fn a_call_in_place_of_modprobe_is_recognised() {
        let call = |words: &[&str]| modprobe_request(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(call(&["/sbin/modprobe", "-q", "--", "fs-xfs"]), Some(vec!["fs-xfs".to_owned()]));
        assert_eq!(call(&["/init", "-q", "--", "crypto-crc32c"]), Some(vec!["crypto-crc32c".to_owned()]));
        assert_eq!(call(&["/init"]), None);
        assert_eq!(call(&["/init", "worker"]), None);
        assert_eq!(call(&[]), None);
    }

    #[test]
    fn without_modules_there_is_nothing_to_do() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load_for_hardware(folder.path()), LoadReport::default());
    }
}
