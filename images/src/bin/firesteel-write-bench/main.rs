//! Measures the disk writer against the pipeline that people use and against the physical limit,
//! on one loop device, interleaved in one run:
//!
//! - `firesteel`: the agent's write path (the same code), from a local HTTP server; its read-back,
//!   which the others do not have, is reported apart;
//! - `pipeline`: `curl | zstd -dc | dd oflag=direct bs=4M`, with an fsync;
//! - `limit`: the used bytes of the raw image written in sequence with direct I/O.
//!
//! After each run the disk is compared with the image. A write that is slower than the pipeline makes
//! the program fail. Needs root (loop devices), curl, zstd, mkfs.ext4.

mod cases;
mod image;
mod server;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

/// Measure the disk writer against a shell pipeline and the physical limit
#[derive(Debug, Parser)]
struct WriteBenchOptions {
    /// Size of the disk and of the image on it
    #[arg(long, default_value_t = 4096, value_name = "MIB")]
    size: u64,
    /// Bytes in files on the image; default: about a third of the size
    #[arg(long, value_name = "MIB")]
    used: Option<u64>,
    /// Runs of each case
    #[arg(long, default_value_t = 3)]
    reps: usize,
    /// Where image and disk are put; default: the cache folder
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = WriteBenchOptions::parse();
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        bail!("another crypto provider is installed already");
    }
    if arguments.size < 64 || arguments.reps == 0 {
        bail!("--size must be at least 64 and --reps at least 1");
    }
    let dir = match arguments.dir {
        Some(dir) => dir,
        None => cache_dir()?,
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    let image = image::prepare(&dir, arguments.size, arguments.used.unwrap_or(arguments.size * 3 / 10))?;
    let server = server::serve(image.stream_path.clone())?;
    let results = cases::run(&dir, &image, &server, arguments.reps)?;
    if !cases::print(&image, &results) {
        bail!("the write is slower than the pipeline");
    }
    Ok(())
}

fn cache_dir() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("FIRESTEEL_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("firesteel")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/firesteel")))
        .context("finding the cache folder: set FIRESTEEL_CACHE or HOME, or give --dir")?;
    Ok(cache.join("write-bench"))
}
