//! `firesteel image import|ls`: the image store of an appliance on this machine.
//!
//! Works on the data folder directly, whether the appliance runs or not: images are published whole
//! or not at all, and looked up by digest.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use firesteel_images::import::{Acquirer, ImageStore, Request, Stage};
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    print_text,
    table::{self, bytes, clean},
};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check an image, turn it into what hosts are written from, and keep it
    Import {
        /// File, or http(s) URL: raw, gzip, xz, zstd or qcow2, recognised by content
        source: String,
        /// Digest of the bytes as they are, or the URL of a checksum file
        #[arg(long, value_name = "HEX|URL", default_value = "")]
        checksum: String,
        /// `md5`, `sha256`, `sha512` or `auto`
        #[arg(long, value_name = "TYPE", default_value = "auto")]
        checksum_type: String,
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
    },
    /// List the images in the store
    Ls {
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
}

/// # Errors
/// When the source cannot be read or is no image that can be written to a disk.
pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Import { source, checksum, checksum_type, data } => {
            import(&source, checksum, checksum_type, &data).await
        }
        Command::Ls { data, json } => list(&data, json),
    }
}

fn store(data: &Path) -> anyhow::Result<ImageStore> {
    let folder = data.join("images");
    ImageStore::open(&folder).with_context(|| format!("opening the image store {}", folder.display()))
}

async fn import(source: &str, checksum: String, checksum_type: String, data: &Path) -> anyhow::Result<()> {
    let (url, root) = if source.starts_with("http://") || source.starts_with("https://") {
        (source.to_owned(), None)
    } else {
        let path = Path::new(source).canonicalize().with_context(|| format!("finding {source}"))?;
        let root = path.parent().map(Path::to_path_buf);
        (format!("file://{}", path.display()), root)
    };
    let acquirer = Acquirer::new(store(data)?, root.as_deref())?;
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg:12} {bytes:>10} {total_bytes:>10} {bytes_per_sec:>12} {eta:>4}")?);
    let shown = bar.clone();
    let progress = Arc::new(move |stage| match stage {
        Stage::Downloading { done_bytes, total_bytes } => {
            shown.set_message("downloading");
            shown.set_length(total_bytes.unwrap_or(done_bytes));
            shown.set_position(done_bytes);
        }
        Stage::Rereading { done_bytes, total_bytes } => {
            shown.set_message("resuming");
            shown.set_length(total_bytes);
            shown.set_position(done_bytes);
        }
        Stage::Importing { source_bytes, .. } => {
            shown.set_message("importing");
            shown.set_position(source_bytes);
        }
    });
    let request = Request { url, checksum, checksum_type, declared: None };
    let stored = acquirer.acquire(&request, progress).await;
    bar.finish_and_clear();
    let meta = stored.map_err(|error| anyhow::anyhow!(error.explain()))?.meta;
    let given = meta.sources.last().map(|source| source.sha256.to_string()).unwrap_or_default();
    print_text(&format!(
        "imported: {} raw, {} compressed\n  in a host's spec.image use any URL with checksum {given} (sha256); it is not fetched again\n",
        bytes(meta.raw_bytes),
        bytes(meta.stream_bytes),
    ));
    Ok(())
}

fn list(data: &Path, json: bool) -> anyhow::Result<()> {
    let images = store(data)?.list()?;
    if json {
        let metas: Vec<_> = images.iter().map(|image| &image.meta).collect();
        print_text(&(serde_json::to_string_pretty(&metas)? + "\n"));
        return Ok(());
    }
    if images.is_empty() {
        print_text("no images; a host's spec.image brings one in, and so does `firesteel image import`\n");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = images
        .iter()
        .map(|image| {
            let digest = image.meta.raw_sha256.to_string();
            let source = image.meta.sources.last().map(|source| clean(&source.url)).unwrap_or_default();
            vec![digest.chars().take(12).collect(), bytes(image.meta.raw_bytes), bytes(image.meta.stream_bytes), source]
        })
        .collect();
    print_text(&table::render(&["RAW SHA256", "RAW", "STORED", "SOURCE"], &rows, table::terminal_width()));
    Ok(())
}
