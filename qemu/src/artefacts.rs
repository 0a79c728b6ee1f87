//! What a lab runs on: the agent and the appliance, built by cargo; kernel and initramfs around the
//! agent; the operating system image. Made before the lab begins, because some of it comes over the
//! network. Everything is kept, so that only the first time is long.

use std::{
    collections::BTreeMap,
    env,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use firesteel_ramdisk::{Flavour, Set, apt::Apt, fetch_kernel};
use serde::{Deserialize, Serialize};

use crate::{
    image,
    progress::{Step, bytes, say},
    tools::Tools,
};

/// Debian release whose kernel carries the agent.
const KERNEL_SUITE: &str = "bookworm";
/// Version of the lab's own image, shown on its console.
const IMAGE_VERSION: &str = "1";
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    Raw,
    Gz,
    Xz,
    Zst,
    Qcow2,
}

impl ImageFormat {
    fn of_builder(self) -> image::Format {
        match self {
            Self::Raw => image::Format::Raw,
            Self::Gz => image::Format::Gzip,
            Self::Xz => image::Format::Xz,
            Self::Zst => image::Format::Zstd,
            Self::Qcow2 => image::Format::Qcow2,
        }
    }

    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Gz => "raw.gz",
            Self::Xz => "raw.xz",
            Self::Zst => "raw.zst",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// Everything that was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Artefacts {
    /// The appliance's program.
    pub firesteel: PathBuf,
    /// Holds vmlinuz, initramfs.zst and manifest.json.
    pub boot_files: PathBuf,
    pub images: BTreeMap<ImageFormat, PathBuf>,
}

impl Artefacts {
    /// Builds programs, ramdisk and images.
    pub fn make(tools: &Tools, formats: &[ImageFormat]) -> anyhow::Result<Self> {
        let firesteel = build_appliance()?;
        let boot_files = build_ramdisk(tools, &build_agent()?)?;
        Ok(Self { firesteel, boot_files, images: Self::make_images(tools, formats)? })
    }

    /// Builds images only.
    pub fn make_images(tools: &Tools, formats: &[ImageFormat]) -> anyhow::Result<BTreeMap<ImageFormat, PathBuf>> {
        let step = Step::begin("building the operating system image (the first time: some minutes)");
        let request = image::Request {
            cache: tools.cache.clone(),
            out: tools.cache.join("images"),
            version: IMAGE_VERSION.to_owned(),
            formats: formats.iter().map(|format| format.of_builder()).collect(),
        };
        let built = image::build(&request, &mut say).context("building the operating system image")?;
        step.end_with(&built.iter().map(|image| bytes(image.bytes)).collect::<Vec<_>>().join(", "));
        Ok(formats.iter().copied().zip(built.into_iter().map(|image| image.path)).collect())
    }

    pub fn image(&self, format: ImageFormat) -> anyhow::Result<&Path> {
        let path = self.images.get(&format).with_context(|| format!("no image {} was made", format.name()))?;
        Ok(path)
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
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(repository()).envs(environment.iter().copied());
    if !std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_PROGRESS_WHEN", "never");
    }
    // Settings of the cargo that started this program must not reach the one that it starts.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR") {
        command.env_remove(name);
    }
    let status = command.status().context("running cargo")?;
    if !status.success() {
        bail!("cargo {} failed ({status})", arguments.join(" "));
    }
    Ok(())
}

fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

fn build_appliance() -> anyhow::Result<PathBuf> {
    let step = Step::begin("building the appliance");
    cargo(&["build", "--release", "--quiet", "-p", "firesteel-appliance"], &[])?;
    step.end();
    Ok(target_folder().join("release/firesteel"))
}

fn build_agent() -> anyhow::Result<PathBuf> {
    let step = Step::begin("building the agent (static, small)");
    let folder = target_folder().join("agent");
    let folder_text = folder.to_string_lossy();
    cargo(
        &[
            "build",
            "--quiet",
            "--profile",
            "agent",
            "-p",
            "firesteel-agent",
            "--target",
            TARGET,
            "--target-dir",
            &folder_text,
        ],
        &[("RUSTFLAGS", "-C target-feature=+crt-static")],
    )?;
    let agent = folder.join(TARGET).join("agent/agent");
    let size = std::fs::metadata(&agent).with_context(|| format!("finding the agent {}", agent.display()))?.len();
    step.end_with(&bytes(size));
    Ok(agent)
}

fn build_ramdisk(tools: &Tools, agent: &Path) -> anyhow::Result<PathBuf> {
    let step = Step::begin("building the ramdisk from Debian's kernel");
    let apt = Apt::new(&tools.cache, KERNEL_SUITE, "amd64").context("preparing to fetch Debian's kernel")?;
    let kernel_package = fetch_kernel(&apt, Flavour::Generic).context("fetching Debian's kernel")?;
    let out = tools.cache.join("boot");
    let request = firesteel_ramdisk::Request {
        kernel_package,
        agent: agent.to_owned(),
        set: Set::Lab,
        firmware_packages: Vec::new(),
        out: out.clone(),
        cache: tools.cache.clone(),
    };
    let manifest = firesteel_ramdisk::build(&request, &mut say).context("building the ramdisk")?;
    step.end_with(&format!("kernel {}, {} in all", manifest.kernel.version, bytes(manifest.total_bytes)));
    Ok(out)
}
