//! What a lab runs on: the agent and the appliance, built by cargo; kernel and initramfs around the
//! agent; the operating system image. Made before the lab begins, because some of it comes over the
//! network. Everything is kept, so that only the first time is long.

use std::env;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, bail};
use firesteel_lab_image::{OsImageSystem, PackedFormat};
use firesteel_ramdisk::{KernelFlavour, ModuleSet, apt::Apt, fetch_kernel};
use serde::{Deserialize, Serialize};

use crate::building::build;
use crate::os_images::build_images;
use crate::progress::{ProgressStep, bytes, print_status};
use crate::tools::Tools;

/// Debian release whose kernel carries the agent.
const KERNEL_SUITE: &str = "bookworm";
/// Versions of the lab's OS image, which its console shows: the usual one, and another to replace it.
pub const VERSION: &str = "1";
pub const NEXT_VERSION: &str = "2";
/// An image that is larger than a small host's memory, packed and unpacked.
pub const LARGE_VERSION: &str = "large-640";
pub(crate) const LARGE_BALLAST_MIB: u64 = 640;
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Everything that was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Artefacts {
    /// The appliance's program.
    pub firesteel: PathBuf,
    /// Holds vmlinuz, initramfs.zst and manifest.json.
    pub boot_files: PathBuf,
    /// The program of [`crate::wipe`]; empty where nothing asks for it.
    #[serde(default)]
    pub wipe_guest: PathBuf,
    /// The `boot_files` for machines that make volumes and arrays; empty where nothing asks for it.
    #[serde(default)]
    pub volume_files: PathBuf,
    pub images: Vec<BuiltImage>,
    /// Initramfs of the switch, where a scenario has one.
    pub switch: Option<PathBuf>,
}

/// An image to build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedImage {
    pub system: OsImageSystem,
    pub version: &'static str,
    pub format: PackedFormat,
}

impl WantedImage {
    /// A version of the usual system.
    #[must_use]
    pub fn of_version(version: &'static str, format: PackedFormat) -> Self {
        Self { system: OsImageSystem::Ignition, version, format }
    }

    /// Another system, in the form that is written fastest.
    #[must_use]
    pub fn of_system(system: OsImageSystem) -> Self {
        Self { system, version: VERSION, format: PackedFormat::Zst }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BuiltImage {
    pub system: OsImageSystem,
    pub version: String,
    pub format: PackedFormat,
    pub path: PathBuf,
}

impl From<PackedFormat> for WantedImage {
    fn from(format: PackedFormat) -> Self {
        Self::of_version(VERSION, format)
    }
}

impl Artefacts {
    /// Builds programs, ramdisk and images, and the switch where one is needed.
    pub fn make(tools: &Tools, images: &[WantedImage], with_switch: bool) -> anyhow::Result<Self> {
        let firesteel = build_appliance()?;
        let boot_files = tools.cache.join("boot");
        build_ramdisk(tools, &build_static(StaticProgram::Agent)?, ModuleSet::Lab, &boot_files)?;
        let mut switch = None;
        if with_switch {
            let folder = tools.cache.join("switch");
            build_ramdisk(tools, &build_static(StaticProgram::Switch)?, ModuleSet::Switch, &folder)?;
            switch = Some(folder.join("initramfs.zst"));
        }
        let images = Self::make_images(tools, images)?;
        Ok(Self { firesteel, boot_files, images, switch, ..Self::default() })
    }

    /// Builds images only.
    pub fn make_images(tools: &Tools, wanted: &[WantedImage]) -> anyhow::Result<Vec<BuiltImage>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let step = ProgressStep::begin("building the operating system images (the first time: some minutes)");
        let (images, sizes) = build_images(tools, wanted, &mut print_status)?;
        step.end_with(&sizes.into_iter().map(bytes).collect::<Vec<_>>().join(", "));
        Ok(images)
    }

    /// The usual image in this form.
    pub fn image(&self, format: PackedFormat) -> anyhow::Result<&Path> {
        self.image_of(VERSION, format)
    }

    pub fn image_of(&self, version: &str, format: PackedFormat) -> anyhow::Result<&Path> {
        self.find(OsImageSystem::Ignition, version, format)
    }

    /// See [`WantedImage::of_system`].
    pub fn image_of_system(&self, system: OsImageSystem) -> anyhow::Result<&Path> {
        self.find(system, VERSION, PackedFormat::Zst)
    }

    fn find(&self, system: OsImageSystem, version: &str, format: PackedFormat) -> anyhow::Result<&Path> {
        let mut all = self.images.iter();
        let found = all.find(|image| image.system == system && image.version == version && image.format == format);
        let image =
            found.with_context(|| format!("no image {version} of {system:?} as {} was made", format.suffix()))?;
        Ok(&image.path)
    }
}

/// The checkout that this program was built from.
#[must_use]
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Cargo, run in the checkout, talking to the same terminal.
pub fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let status = cargo_command("cargo", arguments, environment).status().context("running cargo")?;
    if !status.success() {
        bail!("cargo {} failed ({status})", arguments.join(" "));
    }
    Ok(())
}

/// Cargo itself, or a program that is given it to run.
pub(crate) fn cargo_command(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(repository()).envs(environment.iter().copied());
    if !std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_PROGRESS_WHEN", "never");
    }
    // Settings of the cargo that started this program must not reach the one that it starts.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR") {
        command.env_remove(name);
    }
    command
}

pub fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The profile of everything that the lab builds, tests and runs; only benchmarks measure what users run.
pub const PROFILE: &str = "lab";

/// Where [`build_programs`] leaves them.
pub fn programs() -> PathBuf {
    target_folder().join(PROFILE)
}

/// The whole workspace but what runs in ramdisks alone, in one go: features are then the same, and nothing is built
/// twice. `qemu/lab` builds the same.
pub const WORKSPACE: [&str; 7] = [
    "--workspace",
    "--exclude",
    "firesteel-agent",
    "--exclude",
    "firesteel-switch",
    "--exclude",
    "firesteel-wipe-guest",
];

/// All that this computer runs.
pub fn build_programs() -> anyhow::Result<()> {
    build(&[&["build", "--profile", PROFILE, "--bins"], &WORKSPACE[..]].concat(), &[])
}

fn build_appliance() -> anyhow::Result<PathBuf> {
    let step = ProgressStep::begin("building the appliance");
    build_programs()?;
    step.end();
    Ok(programs().join("firesteel"))
}

/// A program that is PID 1 of a ramdisk: static and small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StaticProgram {
    Agent,
    Switch,
    WipeGuest,
}

impl StaticProgram {
    fn package(self) -> &'static str {
        match self {
            Self::Agent => "firesteel-agent",
            Self::Switch => "firesteel-switch",
            Self::WipeGuest => "firesteel-wipe-guest",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Switch => "switch",
            Self::WipeGuest => "wipe-guest",
        }
    }

    /// Where it is when it was built.
    fn path(self) -> PathBuf {
        static_folder().join(TARGET).join("agent").join(self.name())
    }
}

fn static_folder() -> PathBuf {
    target_folder().join("agent")
}

/// What makes a program static.
const STATIC: (&str, &str) = ("RUSTFLAGS", "-C target-feature=+crt-static");

/// Cargo's arguments for static programs.
fn static_arguments<'a>(programs: &[StaticProgram], folder: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["build", "--profile", "agent", "--target", TARGET, "--target-dir", folder];
    for program in programs {
        arguments.extend(["-p", program.package()]);
    }
    arguments
}

fn build_static(program: StaticProgram) -> anyhow::Result<PathBuf> {
    let step = ProgressStep::begin(format!("building the {} (static, small)", program.name()));
    build(&static_arguments(&[program], &static_folder().to_string_lossy()), &[STATIC])?;
    let path = program.path();
    let size = std::fs::metadata(&path).with_context(|| format!("finding {}", path.display()))?.len();
    step.end_with(&bytes(size));
    Ok(path)
}

/// Ramdisks and program for the machines of [`crate::wipe`], which need no appliance.
pub fn for_wiping(tools: &Tools) -> anyhow::Result<Artefacts> {
    let boot_files = tools.cache.join("boot");
    let wipe_guest = StaticBuild::start()?.finish()?;
    build_ramdisk(tools, &build_static(StaticProgram::Agent)?, ModuleSet::Lab, &boot_files)?;
    let volume_files = build_volume_files(tools)?;
    Ok(Artefacts { boot_files, volume_files, wipe_guest, ..Artefacts::default() })
}

/// Kernel and drivers of the machines that make volumes and arrays.
pub fn build_volume_files(tools: &Tools) -> anyhow::Result<PathBuf> {
    let folder = tools.cache.join("volumes");
    build_ramdisk(tools, &build_static(StaticProgram::Agent)?, ModuleSet::Volumes, &folder)?;
    Ok(folder)
}

/// The agent and the program that wipes disks in a machine, while something else is built or run: each is linked by one
/// core alone, and most of their build is this. It ends with the value.
#[derive(Debug)]
pub struct StaticBuild(Child);

impl StaticBuild {
    /// Starts it behind everything else that the computer does.
    pub fn start() -> anyhow::Result<Self> {
        let folder = static_folder();
        let folder = folder.to_string_lossy();
        let build = static_arguments(&[StaticProgram::Agent, StaticProgram::WipeGuest], &folder);
        // Its progress would run into that of what is shown meanwhile.
        let arguments = [&["-n", "10", "cargo"][..], &build, &["--quiet"]].concat();
        Ok(Self(cargo_command("nice", &arguments, &[STATIC]).spawn().context("running cargo by nice")?))
    }

    /// Waits for its end, and says where the program is that wipes disks.
    pub fn finish(mut self) -> anyhow::Result<PathBuf> {
        let step = ProgressStep::begin("building the agent and the program that wipes disks in a machine");
        let status = self.0.wait().context("waiting for cargo")?;
        if !status.success() {
            bail!("building the agent and the program that wipes disks failed ({status})");
        }
        step.end();
        Ok(StaticProgram::WipeGuest.path())
    }
}

impl Drop for StaticBuild {
    fn drop(&mut self) {
        // One that has ended is not there any more.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn build_ramdisk(tools: &Tools, agent: &Path, set: ModuleSet, out: &Path) -> anyhow::Result<()> {
    let step = ProgressStep::begin("building the ramdisk from Debian's kernel");
    let apt = Apt::new(&tools.cache, KERNEL_SUITE, "amd64").context("preparing to fetch Debian's kernel")?;
    let kernel_package = fetch_kernel(&apt, KernelFlavour::Generic).context("fetching Debian's kernel")?;
    let mut firmware_packages = Vec::new();
    if set == ModuleSet::Server {
        firmware_packages.push(apt.download("firmware-linux-free").context("fetching Debian's free firmware")?);
    }
    let request = firesteel_ramdisk::RamdiskInputs {
        kernel_package,
        agent: agent.to_owned(),
        set,
        firmware_packages,
        out: out.to_owned(),
        cache: tools.cache.clone(),
    };
    let manifest = firesteel_ramdisk::build(&request, &mut print_status).context("building the ramdisk")?;
    step.end_with(&format!(
        "kernel {} and {} modules, {} in all",
        manifest.kernel.version,
        manifest.modules.len(),
        bytes(manifest.total_bytes)
    ));
    Ok(())
}

/// Builds what real servers boot: the agent with the drivers of the server set.
pub fn make_ramdisk(tools: &Tools, set: ModuleSet, out: &Path) -> anyhow::Result<()> {
    build_ramdisk(tools, &build_static(StaticProgram::Agent)?, set, out)
}
