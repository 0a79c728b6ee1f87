//! Imports from each format, what is refused, and what the store keeps.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Command;

use firesteel_facts::Sha256;
use firesteel_images::import::{
    Checksum, ImageStore, ImportError, ImportFormat, ImportProgress, ImportSource, Importer, StoredImage,
};

use crate::disks::gpt_image;

fn store(dir: &Path) -> ImageStore {
    ImageStore::open(dir).unwrap()
}

fn import(dir: &Path, bytes: &[u8], origin: &ImportSource) -> Result<StoredImage, ImportError> {
    Importer::new(store(dir)).import(bytes, origin, &|_| {})
}

fn from(url: &str) -> ImportSource {
    ImportSource { url: url.to_owned(), ..ImportSource::default() }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn compress(tool: &str, arguments: &[&str], data: &[u8]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::write(&path, data).unwrap();
    match Command::new(tool).args(arguments).stdin(File::open(&path).unwrap()).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        result => {
            println!("skipped {tool}: {result:?}");
            None
        }
    }
}

#[test]
fn every_format_gives_the_same_image() {
    let image = gpt_image(12 << 20, 512);
    let scratch = tempfile::tempdir().unwrap();
    let raw_path = scratch.path().join("raw");
    fs::write(&raw_path, &image).unwrap();
    let qcow2_path = scratch.path().join("qcow2");
    let mut cases = vec![("raw", image.clone(), vec![ImportFormat::Raw])];
    for (tool, arguments, format) in [
        ("gzip", vec!["-c"], ImportFormat::Gzip),
        ("xz", vec!["-c", "-1"], ImportFormat::Xz),
        ("zstd", vec!["-c", "-q"], ImportFormat::Zstd),
    ] {
        if let Some(bytes) = compress(tool, &arguments, &image) {
            cases.push((tool, bytes, vec![format, ImportFormat::Raw]));
        }
    }
    let converted = Command::new("qemu-img")
        .args(["convert", "-c", "-f", "raw", "-O", "qcow2"])
        .args([&raw_path, &qcow2_path])
        .status();
    if converted.is_ok_and(|status| status.success()) {
        let qcow2 = fs::read(&qcow2_path).unwrap();
        if let Some(bytes) = compress("gzip", &["-c"], &qcow2) {
            cases.push(("qcow2 in gzip", bytes, vec![ImportFormat::Gzip, ImportFormat::Qcow2]));
        }
        cases.push(("qcow2", qcow2, vec![ImportFormat::Qcow2]));
    }
    let dir = tempfile::tempdir().unwrap();
    let count = cases.len();
    for (name, bytes, formats) in cases {
        let digest = Sha256::of(&bytes);
        let expected = Some(Checksum::parse(&digest.to_string(), "").unwrap());
        let origin = ImportSource {
            url: format!("https://user:secret@example.com/{name}?token=1#x"),
            expected,
            ..ImportSource::default()
        };
        let stored = import(dir.path(), &bytes, &origin).unwrap();
        assert_eq!((stored.meta.raw_sha256, stored.meta.raw_bytes), (Sha256::of(&image), image.len() as u64), "{name}");
        let stream = fs::read(&stored.path).unwrap();
        assert_eq!((stored.meta.stream_sha256, stored.meta.stream_bytes), (Sha256::of(&stream), stream.len() as u64));
        assert!(zstd::decode_all(&stream[..]).unwrap() == image, "{name}");
        let source = stored.meta.sources.last().unwrap();
        assert_eq!((source.sha256, source.bytes, &source.formats), (digest, bytes.len() as u64, &formats));
        assert!(!source.url.contains("secret") && !source.url.contains("token"), "{}", source.url);
    }
    // One image, with all its sources; nothing left over.
    let raw = Sha256::of(&image);
    assert_eq!(names(dir.path()), [format!("{raw}.json"), format!("{raw}.raw.zst")]);
    let images = store(dir.path()).list().unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].meta.sources.len(), count);
}

#[test]
fn lookups_find_and_removal_forgets() {
    let dir = tempfile::tempdir().unwrap();
    let stored = import(dir.path(), &gpt_image(4 << 20, 512), &from("file:///a.raw")).unwrap();
    let store = store(dir.path());
    let meta = &stored.meta;
    assert_eq!(store.by_raw(&meta.raw_sha256).unwrap().as_ref(), Some(&stored));
    assert_eq!(store.by_stream(&meta.stream_sha256).unwrap().as_ref(), Some(&stored));
    let checksum = Checksum::parse(&meta.sources[0].sha256.to_string(), "").unwrap();
    assert_eq!(store.by_source(&checksum).unwrap().as_ref(), Some(&stored));
    assert_eq!(store.by_raw(&meta.stream_sha256).unwrap(), None);
    store.remove(&meta.raw_sha256).unwrap();
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(names(dir.path()), Vec::<String>::new());
    // A stream that was cut is not offered.
    let stored = import(dir.path(), &gpt_image(4 << 20, 512), &from("file:///a.raw")).unwrap();
    File::options().write(true).open(&stored.path).unwrap().set_len(100).unwrap();
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn nothing_is_kept_of_what_is_refused() {
    let image = gpt_image(4 << 20, 512);
    let dir = tempfile::tempdir().unwrap();
    let wrong = Checksum::parse(&"0".repeat(128), "").unwrap();
    let gzip = compress("gzip", &["-c"], &image).unwrap();
    let cut = &gzip[..gzip.len() - 9];
    let twice = compress("gzip", &["-c"], &gzip).unwrap();
    let expecting = |expected: &Checksum| ImportSource { expected: Some(expected.clone()), ..ImportSource::default() };
    let right = Checksum::parse(&Sha256::of(&gzip).to_string(), "").unwrap();
    let declared = |declared| ImportSource { declared: Some(declared), ..ImportSource::default() };
    type Expected = fn(&ImportError) -> bool;
    let cases: Vec<(&str, &[u8], ImportSource, Expected)> = vec![
        ("empty", b"", ImportSource::default(), |error| matches!(error, ImportError::Unsupported(_))),
        ("an error page", b"<html>not found</html>", ImportSource::default(), |error| {
            matches!(error, ImportError::Unsupported(_))
        }),
        ("a VMDK", b"KDMV\x01\0\0\0", ImportSource::default(), |error| matches!(error, ImportError::Unsupported(_))),
        ("wrong sha512", &image, expecting(&wrong), |error| matches!(error, ImportError::Checksum { .. })),
        ("cut", cut, ImportSource::default(), |error| matches!(error, ImportError::Decode { .. })),
        // The checksum is what explains a cut download.
        ("cut, with checksum", cut, expecting(&right), |error| matches!(error, ImportError::Checksum { .. })),
        ("twice", &twice, ImportSource::default(), |error| matches!(error, ImportError::Nested { .. })),
        ("raw, declared qcow2", &image, declared(ImportFormat::Qcow2), |error| {
            matches!(error, ImportError::Declared { .. })
        }),
        ("qcow2, declared raw", b"QFI\xfb\0\0\0\x03", declared(ImportFormat::Raw), |error| {
            matches!(error, ImportError::Declared { .. })
        }),
        ("qcow2 header alone", b"QFI\xfb\0\0\0\x03", ImportSource::default(), |error| {
            matches!(error, ImportError::Qcow2(_))
        }),
    ];
    for (name, bytes, origin, expected) in cases {
        let error = import(dir.path(), bytes, &origin).map(|_| ()).expect_err(name);
        assert!(expected(&error), "{name}: {error:?}");
        assert_eq!(names(dir.path()), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_source_that_fails_in_the_middle_leaves_nothing() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::Error::other("reset"))?;
            buffer.fill(0x11);
            Ok(buffer.len())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let declared = ImportSource { declared: Some(ImportFormat::Raw), ..ImportSource::default() };
    let result = Importer::new(store(dir.path())).import(Broken(40), &declared, &|_| {});
    assert!(matches!(result, Err(ImportError::Source { .. })), "{result:?}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn opening_removes_what_a_crash_left_but_not_what_is_being_written() {
    let dir = tempfile::tempdir().unwrap();
    let raw = "0".repeat(64);
    for name in ["incoming-dead", &format!("{raw}.raw.zst"), "notes.txt"] {
        fs::write(dir.path().join(name), b"x").unwrap();
    }
    let mut living = File::create(dir.path().join("incoming-living")).unwrap();
    living.lock().unwrap();
    living.write_all(b"more to come").unwrap();
    store(dir.path());
    assert_eq!(names(dir.path()), ["incoming-living", "notes.txt"]);
}

#[test]
fn progress_counts_source_and_raw() {
    let image = gpt_image(12 << 20, 512);
    let dir = tempfile::tempdir().unwrap();
    let seen = std::cell::Cell::new(ImportProgress { source_bytes: 0, raw_bytes: 0 });
    let importer = Importer::new(store(dir.path()));
    importer.import(&image[..], &ImportSource::default(), &|progress| seen.set(progress)).unwrap();
    assert_eq!(seen.get(), ImportProgress { source_bytes: 12 << 20, raw_bytes: 12 << 20 });
}

#[test]
fn a_full_disk_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: cannot mount a small tmpfs here");
        return;
    }
    // Noise, which does not compress.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    })
    .take(6 << 20)
    .collect();
    let declared = ImportSource { declared: Some(ImportFormat::Raw), ..ImportSource::default() };
    let result = import(dir.path(), &noise, &declared);
    let left = names(dir.path());
    assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
    assert!(matches!(result, Err(ImportError::Store(firesteel_images::import::StoreError::Full { .. }))), "{result:?}");
    assert_eq!(left, Vec::<String>::new());
}
