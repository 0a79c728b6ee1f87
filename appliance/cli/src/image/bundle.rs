//! `firesteel image export` and `import --bundle`: images go from the store into one file, and back (S1.25).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;
use firesteel_facts::Sha256;
use firesteel_images::bundle::{self, BundleImportReport, BundleProgress, Contents};
use firesteel_images::catalogue::{self, SourceDocument, StreamMetadata};
use firesteel_images::import::{ImageStore, StoredFile, StoredFileRole, StoredImage};

use super::bar;
use crate::print_text;
use crate::table::{bytes, clean};
use firesteel_appliance::image_depot::StreamFolder;

/// Fewer digits of a digest may match several images, and are easily mistyped.
const DIGITS_MIN: usize = 8;

/// The store's contents that can go into a bundle.
struct StoreContents {
    images: Vec<StoredImage>,
    files: Vec<StoredFile>,
}

/// The images and files that were selected for a bundle.
#[derive(Default)]
struct BundleSelection {
    images: BTreeSet<Sha256>,
    files: BTreeSet<Sha256>,
}

impl StoreContents {
    fn of(store: &ImageStore) -> anyhow::Result<Self> {
        let mut files = store.files().context("could not read the image store")?;
        // Metadata goes with the streams.
        files.retain(|file| file.meta.role != StoredFileRole::Stream);
        Ok(Self { images: store.list().context("could not read the image store")?, files })
    }

    /// Selects what the store has of a stream; returns how many of its artifacts that is.
    fn pick_stream(&self, stream: &StreamMetadata, picked: &mut BundleSelection) -> usize {
        let mut found = 0;
        for artifact in &stream.artifacts {
            let of_it = |image: &&StoredImage| image.meta.sources.iter().any(|source| source.sha256 == artifact.sha256);
            let images = self.images.iter().filter(of_it).map(|image| image.meta.raw_sha256);
            let files = self.files.iter().filter(|file| file.meta.sha256 == artifact.sha256);
            let before = picked.images.len() + picked.files.len();
            picked.images.extend(images);
            picked.files.extend(files.map(|file| file.meta.sha256));
            found += usize::from(picked.images.len() + picked.files.len() > before);
        }
        found
    }

    fn pick_digest(&self, digits: &str, picked: &mut BundleSelection) -> anyhow::Result<()> {
        let digits = digits.to_ascii_lowercase();
        let is_digits = digits.len() >= DIGITS_MIN && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        anyhow::ensure!(
            is_digits,
            "{digits:?}: give {DIGITS_MIN} or more digits of a digest that `firesteel image ls` shows"
        );
        let begins = |digest: &Sha256| digest.to_string().starts_with(&digits);
        let of_image = |image: &&StoredImage| {
            begins(&image.meta.raw_sha256) || image.meta.sources.iter().any(|source| begins(&source.sha256))
        };
        let images: Vec<Sha256> = self.images.iter().filter(of_image).map(|image| image.meta.raw_sha256).collect();
        let files: Vec<Sha256> =
            self.files.iter().map(|file| file.meta.sha256).filter(|digest| begins(digest)).collect();
        match images.len() + files.len() {
            0 => anyhow::bail!(
                "nothing in the store has a digest that begins with {digits}; `firesteel image ls` lists them"
            ),
            1 => {}
            several => anyhow::bail!("{several} images have a digest that begins with {digits}: give more digits"),
        }
        picked.images.extend(images);
        picked.files.extend(files);
        Ok(())
    }
}

/// Returns the streams of a document: one, or those of a golden list.
fn streams_of(document: &[u8]) -> anyhow::Result<Vec<StreamMetadata>> {
    Ok(match catalogue::read(document)? {
        SourceDocument::Stream(stream) => vec![stream],
        SourceDocument::BootImages(list) => list.streams.into_values().filter_map(Result::ok).collect(),
    })
}

/// # Errors
/// When something that is named is missing, or the file cannot be written; no file is left then.
pub(super) fn export(
    store: &ImageStore,
    folder: &StreamFolder,
    file: &Path,
    names: &[String],
    digests: &[String],
) -> anyhow::Result<()> {
    let (contents, report) = select(&StoreContents::of(store)?, folder, names, digests)?;
    let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().with_context(|| format!("{} is not the name of a file", file.display()))?;
    let partial = parent.join(format!(".{}.partial-{}", name.to_string_lossy(), std::process::id()));
    let written = write(store, &contents, &partial);
    let placed = written.and_then(|exported| {
        std::fs::rename(&partial, file)
            .and_then(|()| File::open(parent)?.sync_all())
            .with_context(|| format!("could not write {}", file.display()))?;
        Ok(exported)
    });
    let exported = placed.inspect_err(|_| {
        // No one takes a file of this name for a bundle, even if it cannot be removed.
        drop(std::fs::remove_file(&partial));
    })?;
    print_text(&format!(
        "{}: {} images, {} files, {} streams, {}\n{report}",
        file.display(),
        contents.images.len(),
        contents.files.len(),
        contents.streams.len(),
        bytes(exported),
    ));
    Ok(())
}

/// Selects what the bundle will hold: the named streams and digests, or everything if none is named. Returns a line of
/// text about each stream as well.
fn select(
    shelf: &StoreContents,
    folder: &StreamFolder,
    names: &[String],
    digests: &[String],
) -> anyhow::Result<(Contents, String)> {
    let (mut picked, mut report) = (BundleSelection::default(), String::new());
    let is_all = names.is_empty() && digests.is_empty();
    let followed = folder.followed()?;
    for name in names {
        if !followed.contains(name) {
            let has = followed.join(", ");
            anyhow::bail!(
                "no metadata of a stream {name} was read yet; there is metadata of: {}",
                if has.is_empty() { "none" } else { &has }
            );
        }
    }
    let mut streams: Vec<(String, Vec<u8>)> = Vec::new();
    for name in followed {
        if !(is_all || names.contains(&name)) {
            continue;
        }
        let document = folder.last_read(&name).with_context(|| {
            format!(
                "could not read the metadata of the stream {name}; remove that file, or name other streams (--stream)"
            )
        })?;
        if let Some((same, _)) = streams.iter().find(|(_, other)| *other == document) {
            report +=
                &format!("  stream {name}: its metadata equals that of {same}, and is in the bundle under that name\n");
            continue;
        }
        let of_document =
            streams_of(&document).with_context(|| format!("could not read the metadata of the stream {name}"))?;
        let found: usize = of_document.iter().map(|stream| shelf.pick_stream(stream, &mut picked)).sum();
        report += &format!("  stream {name}: {found} of its artifacts\n");
        streams.push((name, document));
    }
    if is_all {
        picked.images.extend(shelf.images.iter().map(|image| image.meta.raw_sha256));
        picked.files.extend(shelf.files.iter().map(|file| file.meta.sha256));
    }
    for digits in digests {
        shelf.pick_digest(digits, &mut picked)?;
    }
    let contents =
        Contents { streams, images: picked.images.into_iter().collect(), files: picked.files.into_iter().collect() };
    anyhow::ensure!(
        !(contents.images.is_empty() && contents.files.is_empty()),
        "nothing that was asked for is in the store yet: the bundle would be empty\n{report}"
    );
    Ok((contents, report))
}

fn write(store: &ImageStore, contents: &Contents, path: &Path) -> anyhow::Result<u64> {
    let shown = bar()?;
    shown.set_message("copying");
    let tell = |told: BundleProgress| {
        shown.set_length(told.total_bytes);
        shown.set_position(told.done_bytes);
    };
    let file = File::create_new(path).with_context(|| format!("could not make {}", path.display()))?;
    let mut out = BufWriter::new(file);
    let exported = bundle::export(store, contents, &mut out, &tell);
    shown.finish_and_clear();
    let exported = exported.context("could not make the bundle")?;
    let file = out.into_inner().map_err(|error| error.into_error()).and_then(|mut file| {
        file.flush()?;
        Ok(file)
    });
    file.and_then(|file| file.sync_all()).with_context(|| format!("could not write {}", path.display()))?;
    Ok(exported.bytes)
}

/// # Errors
/// When the file is no bundle, or only a part of it could be imported; that part stays in the store.
pub(super) fn import(
    store: &ImageStore,
    folder: &StreamFolder,
    path: &Path,
    replaces_streams: bool,
) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
    let shown = bar()?;
    shown.set_message("importing");
    let tell = |told: BundleProgress| {
        shown.set_length(told.total_bytes);
        shown.set_position(told.done_bytes);
    };
    let report = bundle::import(BufReader::new(file), store, &tell);
    shown.finish_and_clear();
    let report = report.with_context(|| format!("could not import {}", path.display()))?;
    let mut told = format!(
        "{}: {} images and {} files are in the store, each compared with its digests\n",
        path.display(),
        report.images.len(),
        report.files.len()
    );
    let mut unplaced = Vec::new();
    for (name, sha256) in &report.streams {
        match place_stored(store, folder, name, sha256, replaces_streams) {
            Ok(MetadataPlacement::Follow(text)) => told += &format!("  stream {}: {}\n", clean(name), clean(&text)),
            Ok(MetadataPlacement::Kept(text)) => unplaced.push(format!("stream {}: {}", clean(name), clean(&text))),
            Err(error) => unplaced.push(format!("stream {}: {}", clean(name), clean(&format!("{error:#}")))),
        }
    }
    print_text(&told);
    match shortfall(&report, &unplaced) {
        None => Ok(()),
        Some(text) => Err(anyhow::anyhow!(text)),
    }
}

/// The result of placing a stream's metadata.
#[derive(Debug)]
enum MetadataPlacement {
    /// The metadata is where the appliance follows it.
    Follow(String),
    /// The earlier metadata stays.
    Kept(String),
}

/// Places metadata that the store imported.
fn place_stored(
    store: &ImageStore,
    folder: &StreamFolder,
    name: &str,
    sha256: &Sha256,
    replaces: bool,
) -> anyhow::Result<MetadataPlacement> {
    let document = store.file(sha256).context("could not read the image store")?;
    let document = document.context("its metadata is gone already; import the bundle again")?;
    let bytes = std::fs::read(&document.path).with_context(|| format!("could not read {}", document.path.display()))?;
    place(folder, name, &bytes, replaces)
}

/// Puts a stream's metadata where the appliance follows it. A bundle describes its own images, and this document says
/// which of them belong to the stream: it must not silently replace a document that a person chose.
fn place(folder: &StreamFolder, name: &str, bytes: &[u8], replaces: bool) -> anyhow::Result<MetadataPlacement> {
    let digest = short(&Sha256::of(bytes));
    let here = match folder.read(&format!("{name}.json")) {
        Ok(here) => Some(format!("sha256 {}", short(&Sha256::of(&here)))).filter(|_| here != bytes),
        Err(error) if is_missing(&error) => None,
        Err(error) => Some(format!("unread: {:#}", error.root_cause())),
    };
    if let Some(here) = here.as_ref().filter(|_| !replaces) {
        return Ok(MetadataPlacement::Kept(format!(
            "streams/{name}.json ({here}) stays; the bundle's differs (sha256 {digest}): --replace-streams replaces it"
        )));
    }
    let file = folder.put(name, bytes)?;
    // A later export needs it.
    folder.keep(name, bytes)?;
    let instead = here.map(|here| format!(", in place of another ({here})")).unwrap_or_default();
    Ok(MetadataPlacement::Follow(format!("follow it with spec.source.file: {file} (sha256 {digest}){instead}")))
}

fn is_missing(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::NotFound)
}

/// The digits of a digest that `image ls` shows.
fn short(digest: &Sha256) -> String {
    digest.to_string().chars().take(12).collect()
}

/// Lists what of a bundle is not where it should be, and what to do about it; `None` if nothing is missing.
fn shortfall(report: &BundleImportReport, unplaced: &[String]) -> Option<String> {
    let mut texts = Vec::new();
    if !report.is_whole() {
        texts.push(missing(report));
    }
    if !unplaced.is_empty() {
        texts.push(format!("some metadata of its streams was not put in its place\n  {}", unplaced.join("\n  ")));
    }
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Lists what the bundle names and the store did not import.
fn missing(report: &BundleImportReport) -> String {
    let mut text = "the bundle was not imported as a whole".to_owned();
    if let Some(why) = &report.ended {
        text += &format!(": {}", clean(why));
    }
    for unused in &report.unused {
        text += &format!("\n  {}: {}", unused.digest, clean(&unused.reason));
    }
    text + "\ndownload the bundle again, or export it again; what was imported stays"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn metadata_that_is_here_stays_until_somebody_says_otherwise() {
        let data = tempfile::tempdir().unwrap();
        let folder = StreamFolder::open(data.path()).unwrap();
        let placed = |bytes: &[u8], replaces| place(&folder, "stable", bytes, replaces).unwrap();
        let put = |bytes: &[u8], replaces| match placed(bytes, replaces) {
            MetadataPlacement::Follow(text) => text,
            MetadataPlacement::Kept(text) => panic!("{text}"),
        };
        let keep = |bytes: &[u8]| match placed(bytes, false) {
            MetadataPlacement::Kept(text) => text,
            MetadataPlacement::Follow(text) => panic!("{text}"),
        };
        let digest = |bytes: &[u8]| short(&Sha256::of(bytes));
        let new = put(b"1", false);
        assert_eq!(new, format!("follow it with spec.source.file: stable.json (sha256 {})", digest(b"1")));
        assert_eq!(put(b"1", false), new, "the same again");
        let kept = keep(b"2");
        let says = |text: &str, what: &str| assert!(text.contains(what), "{text}");
        for what in [digest(b"1"), digest(b"2"), "--replace-streams".to_owned(), "stays".to_owned()] {
            says(&kept, &what);
        }
        assert_eq!(
            (folder.read("stable.json").unwrap(), folder.last_read("stable").unwrap()),
            (b"1".into(), b"1".into())
        );
        let replaced = put(b"2", true);
        says(&replaced, &format!("stable.json (sha256 {})", digest(b"2")));
        says(&replaced, &format!("in place of another (sha256 {})", digest(b"1")));
        assert_eq!(
            (folder.read("stable.json").unwrap(), folder.last_read("stable").unwrap()),
            (b"2".into(), b"2".into())
        );
        // Metadata that cannot be read is not replaced either.
        std::fs::remove_file(data.path().join("stable.json")).unwrap();
        std::os::unix::fs::symlink("elsewhere", data.path().join("stable.json")).unwrap();
        says(&keep(b"1"), "not a regular file) stays");
        assert!(data.path().join("stable.json").is_symlink());
        assert!(place(&folder, "a/b", b"1", true).is_err());
    }

    /// A bundle whose metadata was not put in its place was reported as imported.
    #[test]
    fn what_is_not_in_its_place_is_an_error_that_names_it() {
        let whole = BundleImportReport::default();
        assert_eq!(shortfall(&whole, &[]), None);
        let unplaced = ["stream stable: it stays".to_owned(), "stream next: writing it".to_owned()];
        let said = shortfall(&whole, &unplaced).unwrap();
        assert!(said.contains("stream stable: it stays\n  stream next") && !said.contains("as a whole"), "{said}");
        let cut = BundleImportReport {
            ended: Some("the archive ends before it".to_owned()),
            ..BundleImportReport::default()
        };
        let said = shortfall(&cut, &unplaced).unwrap();
        assert!(said.contains("the bundle was not imported as a whole: the archive ends before it"), "{said}");
        assert!(said.contains("stream stable"), "{said}");
    }
}
