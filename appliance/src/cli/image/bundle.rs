//! Bundles: from the store into one file, and from such a file into the store (S1.25).

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufReader, BufWriter, Write as _},
    path::Path,
};

use anyhow::Context as _;
use firesteel_facts::Sha256;
use firesteel_images::{
    bundle::{self, BundleImportReport, BundleProgress, Contents},
    catalogue::{self, SourceDocument, StreamMetadata},
    import::{ImageStore, StoredFile, StoredFileRole, StoredImage},
};

use super::bar;
use crate::{
    cli::{
        print_text,
        table::{bytes, clean},
    },
    image_depot::StreamFolder,
};

/// Fewer digits of a digest may mean several images, and are easily mistyped.
const DIGITS_MIN: usize = 8;

/// What is in the store, as bundles take it.
struct StoreContents {
    images: Vec<StoredImage>,
    files: Vec<StoredFile>,
}

/// What is to go.
#[derive(Default)]
struct BundleSelection {
    images: BTreeSet<Sha256>,
    files: BTreeSet<Sha256>,
}

impl StoreContents {
    fn of(store: &ImageStore) -> anyhow::Result<Self> {
        let mut files = store.files().context("looking at the image store")?;
        // Metadata goes by the streams.
        files.retain(|file| file.meta.role != StoredFileRole::Stream);
        Ok(Self { images: store.list().context("looking at the image store")?, files })
    }

    /// What is here of a stream; returns how many artifacts that is.
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

/// The streams of a document: one, or those of a golden list.
fn streams_of(document: &[u8]) -> anyhow::Result<Vec<StreamMetadata>> {
    Ok(match catalogue::read(document)? {
        SourceDocument::Stream(stream) => vec![stream],
        SourceDocument::BootImages(list) => list.streams.into_values().filter_map(Result::ok).collect(),
    })
}

/// # Errors
/// When something that is named is not here, or the file cannot be written; then there is no file.
pub(super) fn export(
    store: &ImageStore,
    folder: &StreamFolder,
    file: &Path,
    names: &[String],
    digests: &[String],
) -> anyhow::Result<()> {
    let shelf = StoreContents::of(store)?;
    let (mut picked, mut told) = (BundleSelection::default(), String::new());
    let is_all = names.is_empty() && digests.is_empty();
    let followed = folder.followed()?;
    for name in names {
        if !followed.contains(name) {
            let has = followed.join(", ");
            anyhow::bail!(
                "nothing was read of a stream {name}; there is: {}",
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
            format!("reading the metadata of the stream {name}; remove that file, or name other streams (--stream)")
        })?;
        if let Some((same, _)) = streams.iter().find(|(_, other)| *other == document) {
            told += &format!("  stream {name}: its metadata is that of {same}, and goes by that name\n");
            continue;
        }
        let of_document =
            streams_of(&document).with_context(|| format!("reading the metadata of the stream {name}"))?;
        let found: usize = of_document.iter().map(|stream| shelf.pick_stream(stream, &mut picked)).sum();
        told += &format!("  stream {name}: {found} of its artifacts\n");
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
        "nothing of that is in the store yet: a bundle would be empty\n{told}"
    );
    let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().with_context(|| format!("{} is not the name of a file", file.display()))?;
    let partial = parent.join(format!(".{}.partial-{}", name.to_string_lossy(), std::process::id()));
    let written = write(store, &contents, &partial);
    let placed = written.and_then(|exported| {
        std::fs::rename(&partial, file).with_context(|| format!("writing {}", file.display()))?;
        File::open(parent)
            .and_then(|folder| folder.sync_all())
            .with_context(|| format!("writing {}", file.display()))?;
        Ok(exported)
    });
    let exported = placed.inspect_err(|_| {
        // What is left has a name that nobody takes for a bundle.
        drop(std::fs::remove_file(&partial));
    })?;
    print_text(&format!(
        "{}: {} images, {} files, {} streams, {}\n{told}",
        file.display(),
        contents.images.len(),
        contents.files.len(),
        contents.streams.len(),
        bytes(exported),
    ));
    Ok(())
}

fn write(store: &ImageStore, contents: &Contents, path: &Path) -> anyhow::Result<u64> {
    let shown = bar()?;
    shown.set_message("copying");
    let tell = |told: BundleProgress| {
        shown.set_length(told.total_bytes);
        shown.set_position(told.done_bytes);
    };
    let file = File::create_new(path).with_context(|| format!("making {}", path.display()))?;
    let mut out = BufWriter::new(file);
    let exported = bundle::export(store, contents, &mut out, &tell);
    shown.finish_and_clear();
    let exported = exported.context("making the bundle")?;
    let file = out.into_inner().map_err(|error| error.into_error()).and_then(|mut file| {
        file.flush()?;
        Ok(file)
    });
    file.and_then(|file| file.sync_all()).with_context(|| format!("writing {}", path.display()))?;
    Ok(exported.bytes)
}

/// # Errors
/// When the file is no bundle, or not all of it could be taken; what could stays.
pub(super) fn import(
    store: &ImageStore,
    folder: &StreamFolder,
    path: &Path,
    replaces_streams: bool,
) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let shown = bar()?;
    shown.set_message("importing");
    let tell = |told: BundleProgress| {
        shown.set_length(told.total_bytes);
        shown.set_position(told.done_bytes);
    };
    let report = bundle::import(BufReader::new(file), store, &tell);
    shown.finish_and_clear();
    let report = report.with_context(|| format!("taking in {}", path.display()))?;
    let mut told = format!(
        "{}: {} images and {} files are in the store, each compared with its digests\n",
        path.display(),
        report.images.len(),
        report.files.len()
    );
    let mut unplaced = Vec::new();
    for (name, sha256) in &report.streams {
        match place_stored(store, folder, (name.as_str(), sha256), replaces_streams) {
            Ok(MetadataPlacement::Follow(text)) => told += &format!("  stream {}: {text}\n", clean(name)),
            Ok(MetadataPlacement::Kept(text)) => unplaced.push(format!("stream {}: {text}", clean(name))),
            Err(error) => unplaced.push(format!("stream {}: {}", clean(name), clean(&format!("{error:#}")))),
        }
    }
    print_text(&told);
    match shortfall(&report, &unplaced) {
        None => Ok(()),
        Some(text) => Err(anyhow::anyhow!(text)),
    }
}

/// What became of a stream's metadata.
#[derive(Debug)]
enum MetadataPlacement {
    /// It is where it is followed.
    Follow(String),
    /// What was there stays.
    Kept(String),
}

/// Places metadata that the store took in.
fn place_stored(
    store: &ImageStore,
    folder: &StreamFolder,
    (name, sha256): (&str, &Sha256),
    replaces: bool,
) -> anyhow::Result<MetadataPlacement> {
    let document = store.file(sha256).context("looking at the image store")?;
    let document = document.context("its metadata is gone already; take the bundle in again")?;
    let bytes = std::fs::read(&document.path).with_context(|| format!("reading {}", document.path.display()))?;
    place(folder, name, (&bytes, sha256), replaces)
}

/// Puts a stream's metadata where it is followed. A bundle says of its images what they are,
/// and this document of which stream they are: it is not to prove itself in the place of one that somebody chose.
fn place(
    folder: &StreamFolder,
    name: &str,
    (bytes, sha256): (&[u8], &Sha256),
    replaces: bool,
) -> anyhow::Result<MetadataPlacement> {
    let here = match folder.read(&format!("{name}.json")) {
        Ok(here) => Some(format!("sha256 {}", short(&Sha256::of(&here)))).filter(|_| here != bytes),
        Err(error) if is_missing(&error) => None,
        Err(error) => Some(format!("unread: {:#}", error.root_cause())),
    };
    if let Some(here) = here.as_ref().filter(|_| !replaces) {
        return Ok(MetadataPlacement::Kept(format!(
            "streams/{name}.json ({here}) stays, for the bundle's is another (sha256 {}); --replace-streams takes that",
            short(sha256)
        )));
    }
    let file = folder.put(name, bytes)?;
    // A bundle can be handed on.
    folder.keep(name, bytes)?;
    let instead = here.map(|here| format!(", in the place of another ({here})")).unwrap_or_default();
    Ok(MetadataPlacement::Follow(format!(
        "follow it with spec.source.file: {file} (sha256 {}){instead}",
        short(sha256)
    )))
}

fn is_missing(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::NotFound)
}

/// As `image ls` shows it.
fn short(digest: &Sha256) -> String {
    digest.to_string().chars().take(12).collect()
}

/// What of a bundle is not where it should be, and what to do about it. `None`: all is.
fn shortfall(report: &BundleImportReport, unplaced: &[String]) -> Option<String> {
    let mut texts = Vec::new();
    if !report.is_whole() {
        texts.push(missing(report));
    }
    if !unplaced.is_empty() {
        texts.push(format!("not all metadata of its streams was put in its place\n  {}", unplaced.join("\n  ")));
    }
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// What a bundle names and the store did not take.
fn missing(report: &BundleImportReport) -> String {
    let mut text = "not all of the bundle was taken".to_owned();
    if let Some(why) = &report.ended {
        text += &format!(": {}", clean(why));
    }
    for unused in &report.unused {
        text += &format!("\n  {}: {}", unused.digest, clean(&unused.reason));
    }
    text + "\nget the bundle anew, or make it anew; what was taken stays"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn metadata_that_is_here_stays_until_somebody_says_otherwise() {
        let data = tempfile::tempdir().unwrap();
        let folder = StreamFolder::open(data.path()).unwrap();
        let placed = |bytes: &[u8], replaces| place(&folder, "stable", (bytes, &Sha256::of(bytes)), replaces).unwrap();
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
        says(&replaced, &format!("in the place of another (sha256 {})", digest(b"1")));
        assert_eq!(
            (folder.read("stable.json").unwrap(), folder.last_read("stable").unwrap()),
            (b"2".into(), b"2".into())
        );
        // What cannot be read is not replaced either.
        std::fs::remove_file(data.path().join("stable.json")).unwrap();
        std::os::unix::fs::symlink("elsewhere", data.path().join("stable.json")).unwrap();
        says(&keep(b"1"), "not a regular file) stays");
        assert!(data.path().join("stable.json").is_symlink());
        assert!(place(&folder, "a/b", (b"1", &Sha256::of(b"1")), true).is_err());
    }

    /// A bundle whose metadata was not put in its place was called taken in.
    #[test]
    fn what_is_not_in_its_place_is_an_error_that_names_it() {
        let whole = BundleImportReport::default();
        assert_eq!(shortfall(&whole, &[]), None);
        let unplaced = ["stream stable: it stays".to_owned(), "stream next: writing it".to_owned()];
        let said = shortfall(&whole, &unplaced).unwrap();
        assert!(said.contains("stream stable: it stays\n  stream next") && !said.contains("was taken"), "{said}");
        let cut = BundleImportReport {
            ended: Some("the archive ends before it".to_owned()),
            ..BundleImportReport::default()
        };
        let said = shortfall(&cut, &unplaced).unwrap();
        assert!(said.contains("not all of the bundle was taken: the archive ends"), "{said}");
        assert!(said.contains("stream stable"), "{said}");
    }
}
