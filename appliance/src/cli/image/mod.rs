//! `firesteel image import|export|ls`: the image store of an appliance on this machine.
//!
//! Works on the data folder directly, whether the appliance runs or not: images are published whole
//! or not at all, and looked up by digest. Only who uses them is the running appliance's to say.

mod bundle;
mod list;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use firesteel_images::import::{
    Acquirer, AcquisitionStage, ImageMeta, ImageRequest, ImageStore, ImportFormat, WebClient,
};
use indicatif::{ProgressBar, ProgressStyle};

use super::{ConnectionOptions, print_text, table::bytes};
use crate::{image_depot::StreamFolder, outbound::OutwardRules};

#[derive(Debug, clap::Subcommand)]
pub enum ImageCommand {
    /// Check an image, turn it into what hosts are written from, and keep it; or take in all of a bundle
    Import {
        /// File, or http(s) URL: raw, gzip, xz, zstd or qcow2, recognised by content
        #[arg(required_unless_present = "bundle", conflicts_with = "bundle")]
        source: Option<String>,
        /// File that `image export` made: each image is compared with its digests before it is kept
        #[arg(long, value_name = "FILE", conflicts_with_all = ["checksum", "checksum_type"])]
        bundle: Option<PathBuf>,
        /// Put the bundle's stream metadata in the place of other metadata that is here: whoever made the bundle then
        /// says which images are a stream's
        #[arg(long, requires = "bundle")]
        replace_streams: bool,
        /// Digest of the bytes as they are, or the URL of a checksum file
        #[arg(long, value_name = "HEX|URL", default_value = "")]
        checksum: String,
        /// `md5`, `sha256`, `sha512` or `auto`
        #[arg(long, value_name = "TYPE", default_value = "auto")]
        checksum_type: String,
        /// What the image is once it is unpacked: another format is an error, and a disk is taken for one whatever it
        /// looks like
        #[arg(long, value_name = "FORMAT", conflicts_with = "bundle")]
        format: Option<DiskFormat>,
        #[command(flatten)]
        outward: OutwardFlags,
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
    },
    /// Put images, files and the metadata of streams into one file, for a site without a network
    Export {
        /// The file to make, whole or not at all
        #[arg(long, value_name = "FILE")]
        bundle: PathBuf,
        /// Only what is here of these streams, named by their BootImageStream
        #[arg(long, value_name = "NAME")]
        stream: Vec<String>,
        /// Only these images, by eight or more digits of a digest that `image ls` shows
        images: Vec<String>,
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
    },
    /// List what is in the store and on its way there, and who uses it
    Ls {
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
}

/// As in a host's `spec.image.format`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum DiskFormat {
    Raw,
    Qcow2,
}

impl From<DiskFormat> for ImportFormat {
    fn from(format: DiskFormat) -> Self {
        match format {
            DiskFormat::Raw => Self::Raw,
            DiskFormat::Qcow2 => Self::Qcow2,
        }
    }
}

/// How an image is fetched: as `firesteel serve` has it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OutwardFlags {
    /// Addresses (CIDR) that may be fetched from although they are loopback, link-local or otherwise this machine's
    /// alone, may be repeated
    #[arg(long, value_name = "CIDR", conflicts_with = "bundle")]
    allow_target: Vec<String>,
    /// Proxy as http://HOST:PORT; variables of the environment are not looked at
    #[arg(long, value_name = "URL", conflicts_with = "bundle")]
    proxy: Option<String>,
    /// Names and addresses (CIDR) that are asked without the proxy, may be repeated
    #[arg(long, value_name = "HOST", conflicts_with = "bundle")]
    no_proxy_for: Vec<String>,
}

impl OutwardFlags {
    fn web(&self) -> anyhow::Result<WebClient> {
        let rules = OutwardRules::read(&self.allow_target, self.proxy.as_deref(), &self.no_proxy_for)?;
        rules.web(&rules.dialer([]))
    }
}

/// # Errors
/// When the source cannot be read or is no image that can be written to a disk.
pub(crate) async fn run(connection: &ConnectionOptions, command: ImageCommand) -> anyhow::Result<()> {
    match command {
        ImageCommand::Import { bundle: Some(bundle), replace_streams, data, .. } => {
            bundle::import(&store(&data)?, &streams(&data)?, &bundle, replace_streams)
        }
        ImageCommand::Import { source, bundle: None, checksum, checksum_type, format, outward, data, .. } => {
            let web = outward.web()?;
            let declared = format.map(ImportFormat::from);
            let request = ImageRequest { checksum, checksum_type, declared, ..ImageRequest::default() };
            import(&source.unwrap_or_default(), request, (&data, web)).await
        }
        ImageCommand::Export { bundle, stream, images, data } => {
            bundle::export(&store(&data)?, &streams(&data)?, &bundle, &stream, &images)
        }
        ImageCommand::Ls { data, json } => list::run(connection, &store(&data)?, &data, json).await,
    }
}

fn streams(data: &Path) -> anyhow::Result<StreamFolder> {
    StreamFolder::open(&data.join("streams"))
}

/// A bar for bytes.
fn bar() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg:12} {bytes:>10} {total_bytes:>10} {bytes_per_sec:>12} {eta:>4}")?);
    Ok(bar)
}

fn store(data: &Path) -> anyhow::Result<ImageStore> {
    let folder = data.join("images");
    ImageStore::open(&folder).with_context(|| format!("opening the image store {}", folder.display()))
}

async fn import(source: &str, request: ImageRequest, (data, web): (&Path, WebClient)) -> anyhow::Result<()> {
    let (url, root) = if source.starts_with("http://") || source.starts_with("https://") {
        (source.to_owned(), None)
    } else {
        let path = Path::new(source).canonicalize().with_context(|| format!("finding {source}"))?;
        let root = path.parent().map(Path::to_path_buf);
        (format!("file://{}", path.display()), root)
    };
    let acquirer = Acquirer::new(store(data)?, root.as_deref(), web);
    let bar = bar()?;
    let shown = bar.clone();
    let progress = Arc::new(move |stage| match stage {
        // No other import runs in this process.
        AcquisitionStage::Waiting { .. } => shown.set_message("waiting"),
        AcquisitionStage::Downloading { done_bytes, total_bytes } => {
            shown.set_message("downloading");
            shown.set_length(total_bytes.unwrap_or(done_bytes));
            shown.set_position(done_bytes);
        }
        AcquisitionStage::Rereading { done_bytes, total_bytes } => {
            shown.set_message("resuming");
            shown.set_length(total_bytes);
            shown.set_position(done_bytes);
        }
        AcquisitionStage::Importing { source_bytes, raw_bytes } => {
            shown.set_message("importing");
            // A disk may be much longer than its file.
            if raw_bytes > source_bytes {
                shown.set_length(raw_bytes);
            }
            shown.set_position(source_bytes.max(raw_bytes));
        }
    });
    let request = ImageRequest { url, ..request };
    let stored = acquirer.acquire(&request, progress).await;
    bar.finish_and_clear();
    let meta = stored.map_err(|error| anyhow::anyhow!(error.explain()))?.meta;
    print_text(&summary(&meta, &request));
    Ok(())
}

/// What is said of an image that was imported: its length, how hosts name it, what was not verified, and what is odd.
fn summary(meta: &ImageMeta, request: &ImageRequest) -> String {
    let source = meta.source_of(&request.url, &request.checksum);
    let given = source.map(|source| source.sha256.to_string()).unwrap_or_default();
    let mut text = format!(
        "imported: {} raw, {} compressed\n  in a host's spec.image use any URL with checksum {given} (sha256); it is not fetched again\n",
        bytes(meta.raw_bytes),
        bytes(meta.stream_bytes),
    );
    if request.checksum.trim().is_empty() {
        text += "  nothing was verified, for no checksum was given: compare this one with the publisher's, or import \
                 with --checksum\n";
    }
    for sentence in source.map(|source| source.notes.sentences()).unwrap_or_default() {
        text += &format!("  warning: {sentence}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use firesteel_facts::Sha256;
    use firesteel_images::import::{ImportNotes, RecordOrigin, SourceRecord};

    use super::*;

    fn meta(notes: ImportNotes) -> ImageMeta {
        let digest = Sha256::of(b"image");
        let source = SourceRecord {
            url: String::new(),
            formats: vec![ImportFormat::Gzip, ImportFormat::Raw],
            bytes: 9,
            sha256: digest,
            checksum: String::new(),
            uncompressed_sha256: None,
            release: String::new(),
            signed_by: String::new(),
            witness: RecordOrigin::Here,
            notes,
        };
        ImageMeta { raw_sha256: digest, raw_bytes: 1024, stream_sha256: digest, stream_bytes: 9, sources: vec![source] }
    }

    /// Without a checksum the command looked as if it had verified something.
    #[test]
    fn what_was_not_verified_and_what_is_odd_is_said() {
        let asked = ImageRequest { checksum: Sha256::of(b"image").to_string(), ..ImageRequest::default() };
        let plain = summary(&meta(ImportNotes::default()), &asked);
        assert!(plain.starts_with("imported: ") && plain.contains(&Sha256::of(b"image").to_string()), "{plain}");
        assert!(!plain.contains("verified") && !plain.contains("warning"), "{plain}");
        let odd = ImportNotes { trailing_bytes: 149, is_backup_table_missing: true };
        let text = summary(&meta(odd), &ImageRequest::default());
        for part in
            ["nothing was verified", "import with --checksum", "warning: the file has 149 bytes", "(GPT) at its end"]
        {
            assert!(text.contains(part), "no {part:?} in: {text}");
        }
        assert_eq!(text.matches("warning: ").count(), 2, "{text}");
    }
}
