//! `ramdisk`: builds kernel, initramfs and manifest from Debian's kernel package and the agent.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use firesteel_ramdisk::apt::Apt;
use firesteel_ramdisk::{KernelFlavour, ModuleSet, RamdiskInputs, RamdiskManifest, build, fetch_kernel};

/// Builds what hosts boot over the network: vmlinuz, initramfs.zst and manifest.json.
#[derive(Debug, Parser)]
#[command(name = "ramdisk", version)]
struct RamdiskOptions {
    /// The static agent, which becomes /init
    #[arg(long)]
    agent: PathBuf,
    /// Where the three files go
    #[arg(long)]
    out: PathBuf,
    /// Modules for the lab's virtual machines, or for servers
    #[arg(long, value_enum, default_value_t = SetName::Server)]
    set: SetName,
    /// Which of Debian's kernels; cloud starts faster, but knows neither SATA nor real network cards
    #[arg(long, value_enum, default_value_t = KernelName::Generic)]
    kernel: KernelName,
    /// A kernel package that is already here, instead of fetching Debian's current one
    #[arg(long, conflicts_with = "kernel")]
    kernel_package: Option<PathBuf>,
    /// Debian release whose kernel is fetched
    #[arg(long, default_value = "bookworm")]
    suite: String,
    /// A package with firmware that the modules may ask for (may be repeated)
    #[arg(long)]
    firmware_package: Vec<PathBuf>,
    /// Do not add Debian's free firmware (package firmware-linux-free) to the server set
    #[arg(long)]
    no_free_firmware: bool,
    /// Where packages and packed modules are kept
    #[arg(long, env = "FIRESTEEL_CACHE")]
    cache: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SetName {
    Lab,
    Server,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KernelName {
    Generic,
    Cloud,
}

fn main() -> anyhow::Result<()> {
    let manifest = run(RamdiskOptions::parse())?;
    let mega = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    writeln!(
        std::io::stdout(),
        "kernel {} {}, initramfs {} with {} modules; together {}",
        manifest.kernel.version,
        mega(manifest.vmlinuz.bytes),
        mega(manifest.initramfs.bytes),
        manifest.modules.len(),
        mega(manifest.total_bytes),
    )?;
    Ok(())
}

fn run(arguments: RamdiskOptions) -> anyhow::Result<RamdiskManifest> {
    let cache = arguments.cache.map_or_else(default_cache, Ok)?;
    let apt = || Apt::new(&cache, &arguments.suite, "amd64").context("preparing to fetch Debian packages");
    let kernel_package = match arguments.kernel_package {
        Some(path) => path,
        None => {
            print_status("fetching Debian's kernel package");
            let flavour = match arguments.kernel {
                KernelName::Generic => KernelFlavour::Generic,
                KernelName::Cloud => KernelFlavour::Cloud,
            };
            fetch_kernel(&apt()?, flavour).context("fetching Debian's kernel package")?
        }
    };
    let mut firmware_packages = arguments.firmware_package;
    if arguments.set == SetName::Server && !arguments.no_free_firmware {
        firmware_packages.push(apt()?.download("firmware-linux-free").context("fetching Debian's free firmware")?);
    }
    let set = match arguments.set {
        SetName::Lab => ModuleSet::Lab,
        SetName::Server => ModuleSet::Server,
    };
    let request =
        RamdiskInputs { kernel_package, agent: arguments.agent, set, firmware_packages, out: arguments.out, cache };
    build(&request, &mut print_status).context("building the ramdisk")
}

fn default_cache() -> anyhow::Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .context("finding a folder for the cache; name one with --cache")?;
    Ok(base.join("firesteel"))
}

fn print_status(text: &str) {
    // Progress is for people; where it cannot be written, it may get lost.
    drop(writeln!(std::io::stderr(), "ramdisk: {text}"));
}
