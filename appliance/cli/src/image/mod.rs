//! `firesteel image import|export|ls`: the image store of an appliance on this machine.
//!
//! The commands work on the data folder directly, whether the appliance runs or not: an image appears whole or not at
//! all, and is found by its digest. Only the running appliance knows who uses an image.

mod bundle;
mod list;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use firesteel_appliance::image_depot::StreamFolder;
use firesteel_appliance::outbound::OutwardRules;
use firesteel_appliance::serve::data_folder::check_for_images;
use firesteel_images::import::{
    Acquirer, AcquisitionStage, ImageMeta, ImageRequest, ImageStore, ImportFormat, WebClient,
};
use indicatif::{ProgressBar, ProgressStyle};

use super::{ConnectionOptions, OutputFormat, print_text, table::bytes};

#[derive(Debug, clap::Subcommand)]
pub enum ImageCommand {
    /// Verify an image, convert it to the form that is written to disks, and store it; or import a whole bundle
    Import {
        /// File, or http(s) URL: raw, gzip, xz, zstd or qcow2, recognised by content
        #[arg(required_unless_present = "bundle", conflicts_with = "bundle")]
        source: Option<String>,
        /// File that `image export` made: each image is compared with its digests before it is stored
        #[arg(long, value_name = "FILE", conflicts_with_all = ["checksum", "checksum_type"])]
        bundle: Option<PathBuf>,
        /// Replace other stream metadata that is here by the bundle's: the maker of the bundle then decides which
        /// images a stream has
        #[arg(long, requires = "bundle")]
        replace_streams: bool,
        /// Digest of the file as it is, or the URL of a checksum file
        #[arg(long, value_name = "HEX|URL", default_value = "")]
        checksum: String,
        /// `md5`, `sha256`, `sha512` or `auto`
        #[arg(long, value_name = "TYPE", default_value = "auto")]
        checksum_type: String,
        /// Format of the unpacked image: another format is an error, and `raw` takes a disk as it is, whatever it looks
        /// like
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
        /// File to write, whole or not at all
        #[arg(long, value_name = "FILE")]
        bundle: PathBuf,
        /// Only the artifacts of these streams, named by their BootImageStream
        #[arg(long, value_name = "NAME")]
        stream: Vec<String>,
        /// Only these images, by eight or more digits of a digest that `image ls` shows
        images: Vec<String>,
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
    },
    /// List the images that are stored or being fetched, and who uses them
    #[command(visible_alias = "list")]
    Ls {
        /// Data folder of the appliance
        #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
        data: PathBuf,
        /// table, yaml, json or jsonpath=TEMPLATE
        #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_page, default_value = "table")]
        output: OutputFormat,
    },
}

/// The values of a host's `spec.image.format`.
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

/// Settings for fetching an image; `firesteel serve` has the same.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OutwardFlags {
    /// Addresses (CIDR) that may be connected to although they are loopback, link-local or otherwise this machine's
    /// alone, may be repeated
    #[arg(long, value_name = "CIDR", conflicts_with = "bundle")]
    allow_target: Vec<String>,
    /// Proxy as http://HOST:PORT; environment variables are ignored
    #[arg(long, value_name = "URL", conflicts_with = "bundle")]
    proxy: Option<String>,
    /// Names and addresses (CIDR) that are connected to without the proxy, may be repeated
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
    let (data, imports) = match &command {
        ImageCommand::Import { data, .. } => (data, true),
        ImageCommand::Export { data, .. } | ImageCommand::Ls { data, .. } => (data, false),
    };
    check_for_images(data, imports)?;
    match command {
        ImageCommand::Import { bundle: Some(bundle), replace_streams, data, .. } => {
            bundle::import(&store(&data)?, &streams(&data)?, &bundle, replace_streams)
        }
        ImageCommand::Import { source, bundle: None, checksum, checksum_type, format, outward, data, .. } => {
            let web = outward.web()?;
            let declared = format.map(ImportFormat::from);
            let request = ImageRequest { checksum, checksum_type, declared, ..ImageRequest::default() };
            import(&source.unwrap_or_default(), request, &data, web).await
        }
        ImageCommand::Export { bundle, stream, images, data } => {
            bundle::export(&store(&data)?, &streams(&data)?, &bundle, &stream, &images)
        }
        ImageCommand::Ls { data, output } => list::run(connection, &store(&data)?, &data, &output).await,
    }
}

fn streams(data: &Path) -> anyhow::Result<StreamFolder> {
    StreamFolder::open(&data.join("streams"))
}

/// Makes a progress bar that counts bytes.
fn bar() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg:12} {bytes:>10} {total_bytes:>10} {bytes_per_sec:>12} {eta:>4}")?);
    Ok(bar)
}

fn store(data: &Path) -> anyhow::Result<ImageStore> {
    let folder = data.join("images");
    ImageStore::open(&folder).with_context(|| format!("could not open the image store {}", folder.display()))
}

async fn import(source: &str, request: ImageRequest, data: &Path, web: WebClient) -> anyhow::Result<()> {
    let (url, root) = if source.starts_with("http://") || source.starts_with("https://") {
        (source.to_owned(), None)
    } else {
        let path = Path::new(source).canonicalize().with_context(|| format!("could not find {source}"))?;
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

/// The message after an import: the length, how hosts name the image, what was not verified, and warnings.
fn summary(meta: &ImageMeta, request: &ImageRequest) -> String {
    let source = meta.source_of(&request.url, &request.checksum);
    let given = source.map(|source| source.sha256.to_string()).unwrap_or_default();
    let mut text = format!(
        "imported: {} raw, {} compressed\n  in a host's spec.image use any URL with checksum {given} (sha256); it is not fetched again\n",
        bytes(meta.raw_bytes),
        bytes(meta.stream_bytes),
    );
    if request.checksum.trim().is_empty() {
        text += "  nothing was verified, because no checksum was given: compare this one with the publisher's, or \
                 import with --checksum\n";
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
