//! The image as files of several formats, written by the tools that people use for it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::tool::{command, run};

/// How an image is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PackedFormat {
    Raw,
    Gz,
    Xz,
    Zst,
    Qcow2,
}

impl PackedFormat {
    /// The end of the file's name, which reports show too.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Gz => "raw.gz",
            Self::Xz => "raw.xz",
            Self::Zst => "raw.zst",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// Writes `raw` as `path`, which appears when it is whole.
pub(super) fn convert(raw: &Path, path: &Path, format: PackedFormat) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let new =
        tempfile::NamedTempFile::new_in(folder).with_context(|| format!("creating a file in {}", folder.display()))?;
    match format {
        PackedFormat::Raw => copy_sparse(raw, new.path())?,
        // Quick rather than small: the lab's wire is fast, and its processor is not.
        PackedFormat::Gz => compress("gzip", &["-3n"], raw, new.as_file())?,
        PackedFormat::Xz => compress("xz", &["-0", "-T2", "-c"], raw, new.as_file())?,
        PackedFormat::Zst => compress("zstd", &["-q", "-6", "-T2", "-c"], raw, new.as_file())?,
        PackedFormat::Qcow2 => {
            run(command("qemu-img", ["convert", "-f", "raw", "-O", "qcow2", "-c", "-m", "2"]).arg(raw).arg(new.path()))?
        }
    }
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(new.path(), readable).with_context(|| format!("opening {} to all", path.display()))?;
    new.persist(path).with_context(|| format!("keeping {}", path.display()))?;
    Ok(())
}

/// Copies a file with its holes.
pub(super) fn copy_sparse(from: &Path, to: &Path) -> anyhow::Result<()> {
    run(command("cp", ["--sparse=always", "--reflink=auto", "--"]).arg(from).arg(to))
}

fn compress(program: &str, options: &[&str], raw: &Path, out: &File) -> anyhow::Result<()> {
    let input = File::open(raw).with_context(|| format!("opening {}", raw.display()))?;
    let output = out.try_clone().context("sharing the output file")?;
    let status = command(program, options)
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::inherit())
        .status()
        .with_context(|| format!("running {program} (qemu/lab installs what is needed)"))?;
    if !status.success() {
        bail!("{program} failed ({status})");
    }
    Ok(())
}
