//! Stream metadata: real files, hostile ones, and which artifact a host gets (S1.5, S1.6).

use std::collections::BTreeMap;

use firesteel_facts::Architecture;
use firesteel_images::catalogue::{
    Artifact, ArtifactKind, ArtifactPart, BootImages, FaultCause, NoChoice, STAMP_KEY, STREAM_KEY, STREAMS_KEY,
    SourceDocument, StampState, StreamError, StreamMetadata, check, disk_image, iso, pxe, read, read_stream,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn fixture(path: &str) -> Option<Vec<u8>> {
    firesteel_fixtures::bytes(&format!("stream/{path}"))
}

const DIGEST: &str = "6393ddcc0cd405d6a102e64d0dfeb1019854b4f4476de10d1f20cfc573f910a8";

fn digest(index: usize) -> String {
    format!("{index:064x}")
}

fn file(index: usize) -> Value {
    json!({"location": format!("https://example.com/{index}.raw.xz"), "sha256": digest(index)})
}

/// One architecture with a whole set of metal artifacts.
fn metal() -> Value {
    json!({"release": "44.1", "formats": {
        "raw.xz": {"disk": file(1)},
        "4k.raw.xz": {"disk": file(2)},
        "iso": {"disk": file(3)},
        "pxe": {"kernel": file(4), "initramfs": file(5), "rootfs": file(6)},
    }})
}

fn stream_with(artifacts: Value) -> Value {
    json!({"stream": "stable", "metadata": {"last-modified": "2026-07-21T14:07:12Z"},
        "architectures": {"x86_64": {"artifacts": artifacts}}})
}

fn parse(value: &Value) -> StreamMetadata {
    read_stream(value.to_string().as_bytes()).unwrap()
}

#[test]
fn the_published_streams_parse_for_all_four_architectures() {
    let four = Architecture::ALL.to_vec();
    let two = vec![Architecture::Aarch64, Architecture::X86_64];
    let one = vec![Architecture::X86_64];
    for (path, name, architectures, compression) in [
        ("fcos/stable.json", "stable", &four, "xz"),
        ("fcos/testing.json", "testing", &four, "xz"),
        ("fcos/stream-metadata-go.fcos-stream.json", "stable", &one, "xz"),
        ("rhcos/okd-fcos-2024-02.json", "stable", &four, "xz"),
        ("rhcos/rhcos-2024-02.json", "rhcos-4.15", &four, "gz"),
        ("rhcos/coreos-rhel-9.2026-04.metal-only-excerpt.json", "rhcos-4.21", &two, "gz"),
    ] {
        let Some(bytes) = fixture(path) else { return };
        let SourceDocument::Stream(stream) = read(&bytes).unwrap() else { panic!("{path}") };
        assert_eq!(stream.name, name, "{path}");
        assert!(stream.last_modified.starts_with("20"), "{path}");
        // One of 2020 has no digests of what is expanded, and really one digest for two files that we do not use.
        let is_old = path.contains("stream-metadata-go");
        for &architecture in architectures {
            let plain = disk_image(&stream, architecture, 512).unwrap();
            let four_k = disk_image(&stream, architecture, 4096).unwrap();
            assert_eq!((plain.format.clone(), plain.sector_bytes), (format!("raw.{compression}"), 512), "{path}");
            assert_eq!((four_k.format.clone(), four_k.sector_bytes), (format!("4k.raw.{compression}"), 4096));
            for image in [plain, four_k] {
                assert_eq!(image.uncompressed_sha256.is_some(), !is_old, "{path}");
            }
            // RHCOS has no signatures.
            assert_eq!(plain.signature.is_some(), compression == "xz", "{path}");
            assert!(plain.location.as_str().contains(architecture.name()), "{path}");
            let files = pxe(&stream, architecture).unwrap();
            let parts = [files.kernel, files.initramfs, files.rootfs].map(|file: &Artifact| file.part);
            assert_eq!(parts, [ArtifactPart::Kernel, ArtifactPart::Initramfs, ArtifactPart::Rootfs]);
            assert_eq!(iso(&stream, architecture).unwrap().part, ArtifactPart::Iso);
            assert_eq!(plain.release, files.kernel.release);
        }
        assert_eq!(stream.faults.len(), if is_old { 2 } else { 0 }, "{path}: {:?}", stream.faults);
        assert!(stream.faults.iter().all(|fault| matches!(fault.cause, FaultCause::SameDigest { .. })), "{path}");
    }
}

#[test]
fn other_metadata_of_the_publishers_is_no_stream() {
    for path in ["fcos/fcos-releases.json", "assisted-service-default_os_images.json"] {
        let Some(bytes) = fixture(path) else { return };
        assert!(matches!(read(&bytes), Err(StreamError::Shape { .. })), "{path}");
    }
    // A release's own file looks alike, and offers nothing.
    let Some(bytes) = fixture("fcos/fcos-release.json") else { return };
    assert!(read_stream(&bytes).unwrap().artifacts.is_empty());
}

#[test]
fn a_golden_list_counts_once_it_is_stamped_for_its_own_release() {
    for (path, is_stamped) in
        [("coreos-bootimages.configmap.stamped.json", true), ("coreos-bootimages.configmap.unstamped.json", false)]
    {
        let Some(bytes) = fixture(path) else { return };
        let SourceDocument::BootImages(images) = read(&bytes).unwrap() else { panic!("{path}") };
        assert_eq!(matches!(images.stamp, StampState::Stamped { .. }), is_stamped, "{path}");
        assert_eq!(images.release_version, "4.21.0");
        let names: Vec<&str> = images.streams.keys().map(String::as_str).collect();
        assert_eq!(names, ["rhcos-4.21", "rhel-9"]);
        for stream in images.streams.values() {
            let stream = stream.as_ref().unwrap();
            assert_eq!(disk_image(stream, Architecture::X86_64, 4096).unwrap().format, "4k.raw.gz");
        }
    }
    let text = stream_with(json!({"metal": metal()})).to_string();
    let data = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let stamps = [("releaseVersion", "4.21.0"), ("MCOVersionHash", "ab"), (STAMP_KEY, "4.20.9")];
    let other = BootImages::of_data(&data(&[&stamps[..], &[(STREAM_KEY, &text)]].concat())).unwrap();
    assert_eq!(other.stamp, StampState::OtherRelease { stamped: "4.20.9".to_owned() });
    let no_hash = BootImages::of_data(&data(&[stamps[0], (STAMP_KEY, "4.21.0"), (STREAM_KEY, &text)])).unwrap();
    assert_eq!(no_hash.stamp, StampState::Missing);
    // One stream that cannot be read does not hide another.
    let streams = format!(r#"{{"rhel-9": {text}, "rhel-10": {{"stream": 5}}, "a/b": {text}, "c": {{}}, "c": {{}}}}"#);
    let mixed = BootImages::of_data(&data(&[(STREAMS_KEY, &streams), (STREAM_KEY, "{")])).unwrap();
    assert!(mixed.streams["rhel-9"].is_ok());
    assert!(matches!(mixed.streams["rhel-10"], Err(StreamError::Shape { .. })));
    assert!(matches!(mixed.streams["stream"], Err(StreamError::Json { .. })));
    assert_eq!(mixed.faults.len(), 2, "{:?}", mixed.faults);
    assert!(BootImages::of_data(&BTreeMap::new()).is_err());
}

#[test]
fn one_bad_entry_is_its_own_fault_and_the_others_go_on() {
    type Wanted = fn(&FaultCause) -> bool;
    let cases: Vec<(&str, Value, Wanted)> = vec![
        ("/raw.xz/disk/location", Value::Null, |c| matches!(c, FaultCause::Type { field: "location", .. })),
        ("/raw.xz/disk/location", json!("file:///etc/passwd"), |c| matches!(c, FaultCause::Location { .. })),
        ("/raw.xz/disk/location", json!("https://u:p@example.com/x"), |c| matches!(c, FaultCause::Location { .. })),
        ("/raw.xz/disk/location", json!("https://example.com/../x"), |c| matches!(c, FaultCause::Location { .. })),
        ("/raw.xz/disk/signature", json!("ftp://example.com/x"), |c| {
            matches!(c, FaultCause::Location { field: "signature", .. })
        }),
        ("/raw.xz/disk/sha256", json!("zz"), |c| matches!(c, FaultCause::Digest { field: "sha256", .. })),
        ("/raw.xz/disk/sha256", json!({}), |c| matches!(c, FaultCause::Type { field: "sha256", .. })),
        ("/raw.xz/disk/uncompressed-sha256", json!("\u{1b}[2J"), |c| matches!(c, FaultCause::Digest { .. })),
        ("/raw.xz/disk", json!([]), |c| matches!(c, FaultCause::Type { .. })),
        ("/raw.xz", json!("x"), |c| matches!(c, FaultCause::Type { .. })),
        ("/raw.xz", json!({}), |c| matches!(c, FaultCause::Missing { field: "disk" })),
        ("/raw.xz", json!({"disk": file(1), "../x": file(9)}), |c| matches!(c, FaultCause::Part { .. })),
        ("/raw.xz/disk", json!({"sha256": DIGEST}), |c| matches!(c, FaultCause::Missing { field: "location" })),
        ("/raw.xz/disk", json!({"location": "https://example.com/x"}), |c| {
            matches!(c, FaultCause::Missing { field: "sha256" })
        }),
    ];
    for (pointer, value, wanted) in cases {
        let mut artifacts = json!({"metal": metal()});
        let path = format!("/metal/formats{pointer}");
        let (parent, key) = path.rsplit_once('/').unwrap();
        artifacts.pointer_mut(parent).unwrap()[key] = value.clone();
        let stream = parse(&stream_with(artifacts));
        assert!(
            !stream.faults.is_empty() && stream.faults.iter().all(|fault| wanted(&fault.cause)),
            "{path}: {stream:?}"
        );
        assert!(stream.faults[0].place.to_string().starts_with("x86_64/metal/raw.xz"), "{:?}", stream.faults);
        assert!(!stream.faults[0].to_string().chars().any(char::is_control));
        assert!(disk_image(&stream, Architecture::X86_64, 4096).is_ok(), "{path}: the others go on");
        assert!(pxe(&stream, Architecture::X86_64).is_ok(), "{path}: the others go on");
        if !pointer.contains("../") && value != json!({"disk": file(1), "../x": file(9)}) {
            let error = disk_image(&stream, Architecture::X86_64, 512).unwrap_err();
            assert!(error.to_string().contains("not usable: x86_64/metal/raw.xz"), "{path}: {error}");
        }
    }
}

#[test]
fn names_that_are_none_and_keys_that_stand_twice_are_faults() {
    let names = json!({"me\ntal": metal(), "metal": metal(), "..": metal()});
    let stream = parse(&stream_with(names));
    assert_eq!(stream.faults.len(), 2);
    assert!(stream.faults.iter().all(|fault| matches!(fault.cause, FaultCause::Name { .. })), "{:?}", stream.faults);
    let mut bad_release = metal();
    bad_release["release"] = json!("44\u{7f}");
    let stream = parse(&stream_with(json!({"metal": bad_release})));
    assert!(matches!(stream.faults[0].cause, FaultCause::Name { .. }) && stream.artifacts.is_empty());
    let mut unknown = stream_with(json!({"metal": metal()}));
    unknown["architectures"]["vax"] = json!({});
    unknown["architectures"]["amd64"] = unknown["architectures"]["x86_64"].clone();
    let stream = parse(&unknown);
    assert_eq!((stream.artifacts.len(), stream.faults.len()), (6, 2), "one spelling only: {:?}", stream.faults);

    let twice = |inside: &str| {
        let disk = file(1).to_string();
        let text = stream_with(json!({"metal": metal()})).to_string().replace(&disk, inside);
        read_stream(text.as_bytes()).unwrap()
    };
    let other = "b".repeat(64);
    let stream =
        twice(&format!(r#"{{"location":"https://example.com/1.raw.xz","sha256":"{DIGEST}","sha256":"{other}"}}"#));
    assert!(matches!(stream.faults[0].cause, FaultCause::FieldTwice { field: "sha256" }), "{:?}", stream.faults);
    assert!(disk_image(&stream, Architecture::X86_64, 512).is_err());
    assert!(disk_image(&stream, Architecture::X86_64, 4096).is_ok());
    let text = stream_with(json!({"metal": metal()})).to_string();
    let doubled = text.replacen(r#""formats":"#, r#""formats":{},"formats":"#, 1);
    let stream = read_stream(doubled.as_bytes()).unwrap();
    assert!(matches!(stream.faults[0].cause, FaultCause::FieldTwice { field: "formats" }), "{:?}", stream.faults);
    let doubled = text.replacen('{', r#"{"architectures":{},"#, 1);
    assert!(matches!(read_stream(doubled.as_bytes()), Err(StreamError::Twice { field: "architectures" })));
}

#[test]
fn entries_that_cannot_all_be_true_are_all_faults() {
    let mut same_digest = metal();
    same_digest["formats"]["4k.raw.xz"]["disk"]["sha256"] = json!(digest(1));
    let stream = parse(&stream_with(json!({"metal": same_digest})));
    let places: Vec<String> = stream.faults.iter().map(|fault| fault.place.to_string()).collect();
    assert_eq!(places, ["x86_64/metal/4k.raw.xz/disk", "x86_64/metal/raw.xz/disk"]);
    assert!(disk_image(&stream, Architecture::X86_64, 512).is_err() && pxe(&stream, Architecture::X86_64).is_ok());
    let mut same_location = metal();
    same_location["formats"]["pxe"]["kernel"]["location"] = json!("https://example.com/5.raw.xz");
    let stream = parse(&stream_with(json!({"metal": same_location})));
    assert_eq!(stream.faults.len(), 2);
    assert!(matches!(pxe(&stream, Architecture::X86_64), Err(NoChoice::Part { part: ArtifactPart::Kernel, .. })));
    assert!(disk_image(&stream, Architecture::X86_64, 512).is_ok());
    // The same file for two platforms is one file.
    let stream = parse(&stream_with(
        json!({"metal": metal(), "qemu": {"release": "44.1", "formats": {"raw.xz": {"disk": file(1)}}}}),
    ));
    assert_eq!((stream.artifacts.len(), stream.faults.len()), (7, 0));
}

#[test]
fn the_choice_goes_by_architecture_and_sector_size_and_says_what_is_missing() {
    let mut artifacts = json!({"metal": metal(), "qemu": {"release": "1", "formats": {"qcow2.xz": {"disk": file(8)}}}});
    artifacts["metal"]["formats"]["raw.gz"] = json!({"disk": file(7)});
    let stream = parse(&stream_with(artifacts.clone()));
    assert_eq!(disk_image(&stream, Architecture::X86_64, 512).unwrap().format, "raw.gz", "what expands faster");
    assert_eq!(disk_image(&stream, Architecture::X86_64, 4096).unwrap().format, "4k.raw.xz");
    assert!(matches!(disk_image(&stream, Architecture::X86_64, 520), Err(NoChoice::Sector { sector_bytes: 520 })));
    let error = disk_image(&stream, Architecture::S390x, 512).unwrap_err();
    assert_eq!(error.to_string(), "the stream stable has nothing for s390x; it has x86_64");
    assert_eq!(stream.artifacts.iter().filter(|artifact| artifact.kind == ArtifactKind::Other).count(), 1);
    artifacts["metal"]["formats"].as_object_mut().unwrap().remove("4k.raw.xz");
    let stream = parse(&stream_with(artifacts));
    let error = disk_image(&stream, Architecture::X86_64, 4096).unwrap_err().to_string();
    assert!(error.contains("sectors of 4096 bytes; it has raw.gz, raw.xz"), "{error}");
    for (text, known) in
        [("amd64", Architecture::X86_64), ("arm64", Architecture::Aarch64), ("s390x", Architecture::S390x)]
    {
        assert_eq!(text.parse::<Architecture>().unwrap(), known);
    }
    assert!("x86-64".parse::<Architecture>().is_err());
}

#[test]
fn documents_are_bounded() {
    assert!(matches!(read(&vec![b' '; (4 << 20) + 1]), Err(StreamError::TooLong { .. })));
    assert!(matches!(read(b""), Err(StreamError::Json { .. })));
    assert!(matches!(read(b"<html>"), Err(StreamError::Json { .. })));
    let many: Vec<String> = (0..150_000).map(|index| format!("\"{index}\":1")).collect();
    let huge = format!("{{\"stream\":\"x\",\"architectures\":{{{}}}}}", many.join(","));
    assert!(matches!(read(huge.as_bytes()), Err(StreamError::Json { .. })), "a huge map");
    assert!(matches!(read("[".repeat(100_000).as_bytes()), Err(StreamError::Json { .. })));
    let platforms: serde_json::Map<String, Value> = (0..3000)
        .map(|index| (format!("p{index}"), json!({"release": "1", "formats": {"raw": {"disk": file(index)}}})))
        .collect();
    let stream = parse(&stream_with(Value::Object(platforms)));
    assert_eq!((stream.artifacts.len(), stream.faults.len()), (2000, 100));
    assert_eq!(stream.faults_unlisted, 900);
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0_usize..900, change in any::<u8>()) {
        check(&bytes);
        let mut text = stream_with(json!({"metal": metal()})).to_string().into_bytes();
        let at = at % text.len();
        text[at] = change;
        check(&text);
        check(&text[..at]);
    }
}
