//! Offline bundles: what goes in comes out, and nothing else (S1.25).

use std::fs;
use std::io::{Cursor, Read as _};
use std::path::Path;
use std::sync::Arc;

use firesteel_facts::Sha256;
use firesteel_images::bundle::{
    BundleError, BundleImportReport, BundleManifest, BundleProgress, Contents, check, export, import,
};
use firesteel_images::catalogue::read_stream;
use firesteel_images::import::{
    Acquirer, ArtifactRequest, Checksum, ImageRequest, ImageStore, ImportSource, Importer, RecordOrigin,
    SignatureState, StoredArtifact, StoredFileRole, StoredImage,
};
use firesteel_images::openpgp::Keyring;
use proptest::prelude::*;
use tar::{Archive, Builder, EntryType, Header};

use crate::artifacts::{acquirer, gzip, names, wanted};
use crate::disks::gpt_image;
use crate::file_server::{File, FileServer};
use crate::signatures::{armored, key, sign};

const STREAM: &str = r#"{"stream": "stable", "architectures": {}}"#;

fn quiet(_: BundleProgress) {}

fn store(dir: &Path) -> ImageStore {
    ImageStore::open(dir).unwrap()
}

fn stored(store: &ImageStore, url: &str, mib: usize) -> (StoredImage, Vec<u8>) {
    let image = gpt_image(mib << 20, 512);
    let bytes = gzip(&image);
    let origin = ImportSource { url: url.to_owned(), release: "44.1".to_owned(), ..ImportSource::default() };
    (Importer::new(store.clone()).import(&bytes[..], &origin, &|_| {}).unwrap(), bytes)
}

/// A site with two images, a kernel and a stream, in one bundle.
async fn bundle(dir: &Path) -> (Vec<u8>, BundleManifest, [Vec<u8>; 2]) {
    let own = store(dir);
    let (first, first_bytes) = stored(&own, "https://user:secret@example.com/a.raw.gz?token=1", 4);
    let (second, _) = stored(&own, "https://example.com/b.raw.gz", 6);
    let kernel = b"MZ kernel".repeat(500);
    let server = FileServer::start();
    let url = server.put("/kernel", File::of(&kernel));
    let part = ArtifactRequest { role: Some(StoredFileRole::Kernel), ..wanted(&url, Sha256::of(&kernel)) };
    acquirer(dir).acquire_artifact(&part, Arc::new(|_| {})).await.unwrap();
    let contents = Contents {
        streams: vec![("stable".to_owned(), STREAM.as_bytes().to_vec())],
        images: vec![first.meta.raw_sha256, second.meta.raw_sha256],
        files: vec![Sha256::of(&kernel)],
    };
    let mut out = Vec::new();
    let exported = export(&own, &contents, &mut out, &quiet).unwrap();
    let mut again = Vec::new();
    export(&own, &contents, &mut again, &quiet).unwrap();
    assert!(out == again, "the same contents give the same bytes");
    (out, exported.manifest, [first_bytes, kernel])
}

fn import_into(dir: &Path, bytes: &[u8]) -> Result<BundleImportReport, BundleError> {
    import(bytes, &store(dir), &quiet)
}

/// The archive's entries: name, kind and data.
type Parts = Vec<(String, EntryType, Vec<u8>)>;

fn taken_apart(bytes: &[u8]) -> Parts {
    let mut archive = Archive::new(bytes);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).unwrap();
        (String::from_utf8(entry.path_bytes().to_vec()).unwrap(), entry.header().entry_type(), data)
    });
    entries.collect()
}

fn put_together(parts: &Parts) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, data) in parts {
        let mut header = Header::new_gnu();
        // As hostile archives have it: the library's own writer refuses some names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, &data[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

#[tokio::test]
async fn a_site_without_a_network_gets_everything_from_one_file() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (bytes, manifest, [source, kernel]) = bundle(here.path()).await;
    let told = std::cell::Cell::new(BundleProgress { done_bytes: 0, total_bytes: 0 });
    let report = import(&bytes[..], &store(there.path()), &|progress| told.set(progress)).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(told.get().done_bytes, told.get().total_bytes);
    let raws: Vec<Sha256> = manifest.images.iter().map(|meta| meta.raw_sha256).collect();
    assert_eq!((&report.images, &report.files), (&raws, &vec![Sha256::of(&kernel)]));
    assert_eq!(report.streams, [("stable".to_owned(), Sha256::of(STREAM.as_bytes()))]);
    let there_store = store(there.path());
    let stream = there_store.file(&report.streams[0].1).unwrap().unwrap();
    assert_eq!((stream.meta.role, stream.meta.name.as_str()), (StoredFileRole::Stream, "stable"));
    assert_eq!(read_stream(&fs::read(&stream.path).unwrap()).unwrap().name, "stable");
    for image in there_store.list().unwrap() {
        let before = store(here.path()).by_raw(&image.meta.raw_sha256).unwrap().unwrap();
        assert!(fs::read(&image.path).unwrap() == fs::read(&before.path).unwrap());
        assert!(!image.meta.is_seen_here() && before.meta.is_seen_here());
        assert!(!image.meta.sources[0].url.contains("secret"));
    }
    // What hosts and streams ask for is there, and nothing goes out: the address leads nowhere.
    let url = "http://127.0.0.1:9/disk.raw.gz".to_owned();
    let request =
        ImageRequest { url: url.clone(), checksum: Sha256::of(&source).to_string(), ..ImageRequest::default() };
    let offline: Acquirer = acquirer(there.path());
    assert_eq!(offline.acquire(&request, Arc::new(|_| {})).await.unwrap().meta.raw_sha256, raws[0]);
    let artifact = ArtifactRequest {
        signature_url: Some(format!("{url}.sig")),
        uncompressed_sha256: Some(raws[0]),
        ..wanted(&url, Sha256::of(&source))
    };
    let acquired = offline.acquire_artifact(&artifact, Arc::new(|_| {})).await.unwrap();
    assert_eq!((acquired.signature, acquired.is_seen_here), (SignatureState::Unverified, false));
    let part = ArtifactRequest { role: Some(StoredFileRole::Kernel), ..wanted(&url, Sha256::of(&kernel)) };
    let acquired = offline.acquire_artifact(&part, Arc::new(|_| {})).await.unwrap();
    assert!(matches!(acquired.stored, StoredArtifact::File(_)) && acquired.is_seen_here, "a file is its digest");
    // Twice is once.
    let files = names(there.path());
    assert!(import_into(there.path(), &bytes).unwrap().is_whole());
    assert_eq!(names(there.path()), files);
    assert_eq!(there_store.list().unwrap()[0].meta.sources.len(), 1);
}

/// A bundle that calls an image of its own by the digest of a published file would have been written to every host that
/// wants that file.
#[tokio::test]
async fn what_only_a_bundle_says_never_stands_before_what_was_seen_here() {
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let published = gzip(&gpt_image(6 << 20, 512));
    let (evil, _) = stored(&store(theirs.path()), "https://example.com/disk.raw.gz", 4);
    let contents = Contents { images: vec![evil.meta.raw_sha256], ..Contents::default() };
    let mut bytes = Vec::new();
    export(&store(theirs.path()), &contents, &mut bytes, &quiet).unwrap();
    let mut parts = taken_apart(&bytes);
    let manifest = String::from_utf8(parts[0].2.clone()).unwrap();
    let claim = Sha256::of(&published).to_string();
    let lying = manifest.replace(&evil.meta.sources[0].sha256.to_string(), &claim);
    // As written, it says that it was seen by who made it: that is no more than its word.
    parts[0].2 = lying.into_bytes();
    let report = import_into(ours.path(), &put_together(&parts)).unwrap();
    assert!(report.is_whole(), "{report:?}");
    let own = store(ours.path());
    let checksum = Checksum::parse(&claim, "sha256").unwrap();
    let found = own.by_source(&checksum).unwrap().unwrap();
    assert!(!found.meta.is_seen_here() && found.meta.sources[0].witness == RecordOrigin::Bundle);
    let server = FileServer::start();
    let url = server.put("/disk.raw.gz", File::of(&published));
    // The stream knows better what is in the file: the claim is not believed, and the file comes from its publisher.
    let raw = Sha256::of(&gpt_image(6 << 20, 512));
    let artifact = ArtifactRequest { uncompressed_sha256: Some(raw), ..wanted(&url, Sha256::of(&published)) };
    let acquired = acquirer(ours.path()).acquire_artifact(&artifact, Arc::new(|_| {})).await.unwrap();
    let StoredArtifact::Image(image) = &acquired.stored else { panic!("{acquired:?}") };
    assert!(acquired.is_seen_here && image.meta.raw_sha256 == raw);
    // From now on it comes first for everybody.
    assert_eq!(own.by_source(&checksum).unwrap().unwrap().meta.raw_sha256, raw);
    import_into(ours.path(), &put_together(&parts)).unwrap();
    assert_eq!(own.by_source(&checksum).unwrap().unwrap().meta.raw_sha256, raw);
}

/// A lie beside the truth would have sent a site without a network out for what it has.
#[test]
fn of_two_claims_the_one_counts_that_the_stream_proves() {
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let site = store(theirs.path());
    let (one, one_bytes) = stored(&site, "https://example.com/a.raw.gz", 4);
    let (two, two_bytes) = stored(&site, "https://example.com/b.raw.gz", 6);
    // The lie is what is found first.
    let is_first = one.meta.raw_sha256 < two.meta.raw_sha256;
    let (lie, truth, published) = if is_first { (one, two, two_bytes) } else { (two, one, one_bytes) };
    let contents = Contents { images: vec![lie.meta.raw_sha256, truth.meta.raw_sha256], ..Contents::default() };
    let mut bytes = Vec::new();
    export(&site, &contents, &mut bytes, &quiet).unwrap();
    let mut parts = taken_apart(&bytes);
    let claim = Sha256::of(&published);
    let manifest = String::from_utf8(parts[0].2.clone()).unwrap();
    parts[0].2 = manifest.replace(&lie.meta.sources[0].sha256.to_string(), &claim.to_string()).into_bytes();
    assert!(import_into(ours.path(), &put_together(&parts)).unwrap().is_whole());
    let raw = truth.meta.raw_sha256;
    let artifact = ArtifactRequest { uncompressed_sha256: Some(raw), ..wanted("http://127.0.0.1:9/x.raw.gz", claim) };
    let found = acquirer(ours.path()).stored_artifact(&artifact).unwrap().unwrap();
    let StoredArtifact::Image(image) = &found.stored else { panic!("{found:?}") };
    assert!(image.meta.raw_sha256 == raw && !found.is_seen_here, "{image:?}");
}

/// A bundle brings no signature: where one must be good, its word counts only if the stream's own digests prove it.
#[tokio::test]
async fn where_a_key_is_configured_a_bundles_word_is_not_enough() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (bytes, manifest, [source, _]) = bundle(here.path()).await;
    assert!(import_into(there.path(), &bytes).unwrap().is_whole());
    let secret = key(false, 1_600_000_000);
    let keyring = Arc::new(Keyring::parse(&armored(&secret.to_public_key())).unwrap());
    let server = FileServer::start();
    let url = server.put("/disk.raw.gz", File::of(&source));
    let signature_url = server.put("/sig", File::of(&sign(&secret, &source)));
    let signed = ArtifactRequest {
        signature_url: Some(signature_url),
        keyring: Some(keyring),
        ..wanted(&url, Sha256::of(&source))
    };
    let offline = acquirer(there.path());
    assert!(offline.stored_artifact(&signed).unwrap().is_none());
    let proven = ArtifactRequest { uncompressed_sha256: Some(manifest.images[0].raw_sha256), ..signed.clone() };
    let found = offline.stored_artifact(&proven).unwrap().unwrap();
    assert_eq!((found.signature, found.is_seen_here), (SignatureState::Unverified, false));
    let unsigned = ArtifactRequest { keyring: None, ..signed.clone() };
    assert!(offline.stored_artifact(&unsigned).unwrap().is_some());
    assert!(server.seen("/disk.raw.gz").is_empty());
    // With a network it is fetched, and its signature is checked.
    let acquired = offline.acquire_artifact(&signed, Arc::new(|_| {})).await.unwrap();
    assert!(matches!(acquired.signature, SignatureState::Good { .. }) && acquired.is_seen_here, "{acquired:?}");
}

#[tokio::test]
async fn hostile_archives_give_what_is_good_before_them_and_a_reason() {
    let here = tempfile::tempdir().unwrap();
    let (bytes, manifest, _) = bundle(here.path()).await;
    let good = taken_apart(&bytes);
    assert_eq!(good.len(), 5);
    let with = |change: &dyn Fn(&mut Parts)| {
        let mut parts = good.clone();
        change(&mut parts);
        put_together(&parts)
    };
    // Name, archive, images that come out, whether the archive itself is told to be bad.
    let cases: Vec<(&str, Vec<u8>, usize, bool)> = vec![
        ("a changed blob", with(&|parts| parts[2].2[40] ^= 1), 1, false),
        ("a changed stream document", with(&|parts| parts[1].2[3] ^= 1), 2, false),
        ("a path", with(&|parts| parts[2].0 = "../../etc/passwd".to_owned()), 0, true),
        ("an absolute path", with(&|parts| parts[2].0 = format!("/{}", good[2].0)), 0, true),
        ("a digest in a folder", with(&|parts| parts[3].0 = format!("./{}", good[3].0)), 1, true),
        ("a symbolic link", with(&|parts| parts[2].1 = EntryType::Symlink), 0, true),
        ("a hard link", with(&|parts| parts[3].1 = EntryType::Link), 1, true),
        ("a sparse file", with(&|parts| parts[2].1 = EntryType::GNUSparse), 0, true),
        (
            "a long name",
            with(&|parts| parts.insert(2, ("././@LongLink".into(), EntryType::GNULongName, vec![b'x'; 9000]))),
            0,
            true,
        ),
        (
            "a pax header",
            with(&|parts| parts.insert(2, ("x".into(), EntryType::XHeader, b"12 size=999\n".to_vec()))),
            0,
            true,
        ),
        ("a device", with(&|parts| parts[2].1 = EntryType::Block), 0, true),
        ("another order", with(&|parts| parts.swap(2, 3)), 0, true),
        ("a blob twice", with(&|parts| parts.insert(3, good[2].clone())), 1, true),
        ("a blob too many", with(&|parts| parts.push(("x".into(), EntryType::Regular, vec![1]))), 2, true),
        ("a blob too few", with(&|parts| drop(parts.remove(3))), 1, true),
        ("a blob that is longer", with(&|parts| parts[3].2.push(0)), 1, true),
        ("something behind the end", [&bytes[..], b"more"].concat(), 2, true),
    ];
    for (name, archive, images, is_archive_bad) in cases {
        let dir = tempfile::tempdir().unwrap();
        let report = import_into(dir.path(), &archive).unwrap();
        assert!(!report.is_whole(), "{name}");
        assert_eq!(report.images.len(), images, "{name}: {report:?}");
        assert_eq!(report.ended.is_some(), is_archive_bad, "{name}: {report:?}");
        let taken = report.images.len() + report.files.len() + report.streams.len();
        assert_eq!(taken + report.unused.len(), 4, "{name}: each blob is taken or told: {report:?}");
        let own = store(dir.path());
        assert_eq!(own.list().unwrap().len(), images, "{name}");
        assert_eq!(names(dir.path()).len(), 2 * taken, "{name}: nothing is left over");
        let said = report.unused.iter().map(|unused| &unused.reason).chain(&report.ended);
        assert!(said.clone().all(|text| !text.chars().any(char::is_control)), "{name}: {report:?}");
    }
    assert_eq!(manifest.images.len(), 2);
}

#[tokio::test]
async fn manifests_that_lie_are_refused_or_found_out() {
    let here = tempfile::tempdir().unwrap();
    let (bytes, manifest, _) = bundle(here.path()).await;
    let good = taken_apart(&bytes);
    let text = String::from_utf8(good[0].2.clone()).unwrap();
    let with = |from: &str, to: &str| {
        let mut parts = good.clone();
        assert!(text.contains(from), "{from}");
        parts[0].2 = text.replace(from, to).into_bytes();
        put_together(&parts)
    };
    let raw = manifest.images[0].raw_sha256.to_string();
    let raw_bytes = format!("\"raw_bytes\": {}", manifest.images[0].raw_bytes);
    let stream = manifest.images[0].stream_sha256.to_string();
    let other_stream = manifest.images[1].stream_sha256.to_string();
    for (name, archive) in [
        ("format", with("\"format\": 1", "\"format\": 2")),
        ("unknown field", with("\"format\": 1", "\"format\": 1, \"x\": 1")),
        ("digest", with(&raw, "../../x")),
        ("twice", with(&stream, &other_stream)),
        ("nothing", with(&raw_bytes, "\"raw_bytes\": 0")),
        ("no sectors", with(&raw_bytes, "\"raw_bytes\": 1000")),
        ("huge", with(&raw_bytes, "\"raw_bytes\": 18446744073709551104")),
        ("control characters", with("44.1", "44\\u001b[2J")),
        ("an address with a line", with("https://example.com/b", "https://example.com/\\nb")),
        ("a role that is none of the files'", with("\"kernel\"", "\"stream\"")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let error = import_into(dir.path(), &archive).expect_err(name);
        assert!(matches!(error, BundleError::Manifest(_)), "{name}: {error:?}");
        assert_eq!(names(dir.path()), Vec::<String>::new(), "{name}");
    }
    // Lies that only the blob itself shows.
    let smaller = format!("\"raw_bytes\": {}", manifest.images[0].raw_bytes - 512);
    for (name, archive) in
        [("another raw digest", with(&raw, &"a".repeat(64))), ("a shorter raw image", with(&raw_bytes, &smaller))]
    {
        let dir = tempfile::tempdir().unwrap();
        let report = import_into(dir.path(), &archive).unwrap();
        assert_eq!((report.images.len(), report.files.len(), report.unused.len()), (1, 1, 1), "{name}: {report:?}");
        assert!(report.unused[0].reason.contains("expands to"), "{name}: {report:?}");
    }
    for bad in [&b""[..], b"not a tar archive", &[0; 2048], &put_together(&good[1..].to_vec())] {
        let dir = tempfile::tempdir().unwrap();
        let result = import_into(dir.path(), bad);
        assert!(matches!(result, Err(BundleError::NoManifest | BundleError::Read { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn a_bundle_that_is_cut_anywhere_gives_only_what_is_whole() {
    let here = tempfile::tempdir().unwrap();
    let (bytes, _, _) = bundle(here.path()).await;
    let mut previous = 0;
    for part in 0..40 {
        let kept = bytes.len() * part / 40;
        let dir = tempfile::tempdir().unwrap();
        let taken = match import(Cursor::new(&bytes[..kept]), &store(dir.path()), &quiet) {
            Ok(report) => {
                assert!(!report.is_whole() || kept + 1024 >= bytes.len(), "{kept}: {report:?}");
                report.images.len() + report.files.len() + report.streams.len()
            }
            Err(error) => {
                assert!(matches!(error, BundleError::NoManifest | BundleError::Read { .. } | BundleError::Manifest(_)));
                0
            }
        };
        assert!(taken >= previous, "{kept}");
        assert_eq!(names(dir.path()).len(), 2 * taken, "{kept}");
        previous = taken;
    }
    assert!(previous > 1);
}

#[test]
fn an_export_says_what_is_missing_or_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let own = store(dir.path());
    let (image, _) = stored(&own, "https://example.com/a", 4);
    let contents = |images: &[Sha256]| Contents { images: images.to_vec(), ..Contents::default() };
    let missing = export(&own, &contents(&[Sha256::of(b"x")]), Vec::new(), &quiet);
    assert!(matches!(missing, Err(BundleError::Missing { .. })), "{missing:?}");
    let mut stream = fs::read(&image.path).unwrap();
    stream[100] ^= 1;
    fs::write(&image.path, stream).unwrap();
    let damaged = export(&own, &contents(&[image.meta.raw_sha256]), Vec::new(), &quiet);
    assert!(matches!(damaged, Err(BundleError::Damaged { .. })), "{damaged:?}");
    let twice = export(&own, &contents(&[image.meta.raw_sha256; 2]), Vec::new(), &quiet);
    assert!(matches!(twice, Err(BundleError::Manifest(_))), "{twice:?}");
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        check(&bytes);
        let dir = tempfile::tempdir().unwrap();
        drop(import_into(dir.path(), &bytes));
    }
}
