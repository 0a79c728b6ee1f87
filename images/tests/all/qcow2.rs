//! qcow2 images as the real `qemu-img` makes them, and as nobody should.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use firesteel_images::import::qcow2::{self, Qcow2Error, Qcow2Reader, Qcow2Refusal};
use proptest::prelude::*;

/// A disk with data, holes, and a length that is no multiple of a cluster.
fn raw_disk() -> Vec<u8> {
    let mut disk = vec![0_u8; (9 << 20) + 512 * 3];
    let mut state = 7_u32;
    for (start, bytes) in [(0, 70_000), (3 << 20, 1 << 20), ((5 << 20) + 100, 50), ((9 << 20) - 3000, 4000)] {
        for (index, byte) in disk[start..start + bytes].iter_mut().enumerate() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Half noise, half repetition, so that some clusters compress and some do not.
            *byte = if index % 200_000 < 100_000 { state.to_be_bytes()[0] } else { 0x61 };
        }
    }
    disk
}

fn qemu_img(arguments: &[&str]) -> bool {
    match Command::new("qemu-img").args(arguments).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => panic!("qemu-img {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped: no qemu-img here: {error}");
            false
        }
    }
}

fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    Qcow2Reader::open(File::open(path)?).map_err(io::Error::other)?.read_to_end(&mut out)?;
    Ok(out)
}

#[test]
fn images_of_the_real_tool_read_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let disk = raw_disk();
    std::fs::write(&raw, &disk).unwrap();
    let cases: [&[&str]; 9] = [
        &["-o", "compat=0.10"],
        &["-o", "compat=1.1"],
        &["-c", "-o", "compat=0.10"],
        &["-c", "-o", "compat=1.1"],
        &["-c", "-o", "compat=1.1,compression_type=zstd"],
        &["-o", "compat=1.1,cluster_size=512"],
        &["-c", "-o", "compat=1.1,cluster_size=2M"],
        &["-c", "-o", "compat=1.1,cluster_size=4k,compression_type=zstd"],
        &["-o", "compat=1.1,preallocation=metadata"],
    ];
    for options in cases {
        let mut arguments = vec!["convert", "-f", "raw", "-O", "qcow2"];
        arguments.extend_from_slice(options);
        arguments.extend([raw.to_str().unwrap(), image.to_str().unwrap()]);
        if !qemu_img(&arguments) {
            return;
        }
        assert!(read_all(&image).unwrap() == disk, "{options:?}");

        // Cut anywhere, it must not pass for whole.
        let whole = std::fs::read(&image).unwrap();
        for kept in [whole.len() / 2, whole.len() * 9 / 10] {
            let mut out = Vec::new();
            let read = Qcow2Reader::open(Cursor::new(&whole[..kept])).map(|mut reader| reader.read_to_end(&mut out));
            assert!(!matches!(read, Ok(Ok(_))) || out == disk, "{options:?} cut to {kept}");
        }
    }
}

#[test]
fn the_active_state_is_read_beside_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let disk = raw_disk();
    std::fs::write(&raw, &disk).unwrap();
    let image_name = image.to_str().unwrap();
    if !qemu_img(&["convert", "-f", "raw", "-O", "qcow2", raw.to_str().unwrap(), image_name]) {
        return;
    }
    qemu_img(&["snapshot", "-c", "before", image_name]);
    assert!(read_all(&image).unwrap() == disk);
}

#[test]
fn images_that_need_something_else_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let refused = |name: &str| match Qcow2Reader::open(File::open(path(name)).unwrap()) {
        Err(Qcow2Error::Refused(reason)) => reason,
        other => panic!("{name}: {other:?}"),
    };
    if !qemu_img(&["create", "-q", "-f", "qcow2", &path("base"), "1M"]) {
        return;
    }
    qemu_img(&["create", "-q", "-f", "qcow2", "-b", &path("base"), "-F", "qcow2", &path("overlay")]);
    assert_eq!(refused("overlay"), Qcow2Refusal::BackingFile);
    let data_file = format!("data_file={}", path("data"));
    qemu_img(&["create", "-q", "-f", "qcow2", "-o", &data_file, &path("external"), "1M"]);
    assert_eq!(refused("external"), Qcow2Refusal::DataFile);
    qemu_img(&["create", "-q", "-f", "qcow2", "-o", "extended_l2=on", &path("extended"), "1M"]);
    assert_eq!(refused("extended"), Qcow2Refusal::ExtendedL2);
}

/// A small valid image, to be spoilt: header, L1 at cluster 1, L2 at 2, data at 3 and 4.
fn small() -> Vec<u8> {
    const CLUSTER: usize = 1 << 16;
    let mut image = vec![0; CLUSTER * 5];
    image[..4].copy_from_slice(b"QFI\xfb");
    put32(&mut image, 4, 3);
    put32(&mut image, 20, 16);
    put64(&mut image, 24, 3 << 16);
    put32(&mut image, 36, 1);
    put64(&mut image, 40, 1 << 16);
    put32(&mut image, 96, 4);
    put32(&mut image, 100, 104);
    put64(&mut image, CLUSTER, 2 << 16 | 1 << 63);
    put64(&mut image, 2 * CLUSTER, 3 << 16 | 1 << 63);
    put64(&mut image, 2 * CLUSTER + 16, 4 << 16 | 1 << 63);
    image[3 * CLUSTER..4 * CLUSTER].fill(0x33);
    image[4 * CLUSTER..].fill(0x44);
    image
}

fn put32(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn outcome(image: &[u8]) -> Result<Vec<u8>, Qcow2Error> {
    let mut reader = Qcow2Reader::open(Cursor::new(image))?;
    let mut out = Vec::new();
    match reader.read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(error) => Err(error.downcast().unwrap()),
    }
}

fn refusal(image: &[u8]) -> Qcow2Refusal {
    match outcome(image) {
        Err(Qcow2Error::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hostile_images_are_refused_with_the_reason() {
    const CLUSTER: usize = 1 << 16;
    const PLACE: u64 = 1 << 16;
    let good = outcome(&small()).unwrap();
    assert_eq!(good, [vec![0x33; CLUSTER], vec![0; CLUSTER], vec![0x44; CLUSTER]].concat());
    type Spoil = fn(&mut Vec<u8>);
    let l1 = |offset, entries| Qcow2Refusal::L1 { offset, entries };
    let cases: [(&str, Qcow2Refusal, Spoil); 34] = [
        ("another magic", Qcow2Refusal::Magic, |image| put32(image, 0, 0)),
        ("cut in its header", Qcow2Refusal::Short, |image| image.truncate(60)),
        ("version 1", Qcow2Refusal::Version(1), |image| put32(image, 4, 1)),
        ("version 4", Qcow2Refusal::Version(4), |image| put32(image, 4, 4)),
        ("backing file", Qcow2Refusal::BackingFile, |image| put64(image, 8, 200)),
        ("backing name without place", Qcow2Refusal::BackingFile, |image| put32(image, 16, 9)),
        ("tiny clusters", Qcow2Refusal::ClusterBits(8), |image| put32(image, 20, 8)),
        ("huge clusters", Qcow2Refusal::ClusterBits(22), |image| put32(image, 20, 22)),
        ("shift out of range", Qcow2Refusal::ClusterBits(200), |image| put32(image, 20, 200)),
        ("empty", Qcow2Refusal::Empty, |image| put64(image, 24, 0)),
        ("absurd size", Qcow2Refusal::Size(u64::MAX), |image| put64(image, 24, u64::MAX)),
        ("larger than any disk", Qcow2Refusal::Size((1 << 40) + 1), |image| put64(image, 24, (1 << 40) + 1)),
        ("encrypted", Qcow2Refusal::Encrypted, |image| put32(image, 32, 1)),
        ("L1 too short", l1(PLACE, 1), |image| put64(image, 24, 1 << 30)),
        ("L1 too long", l1(PLACE, u32::MAX), |image| put32(image, 36, u32::MAX)),
        ("L1 out of the file", l1(1 << 40, 1), |image| put64(image, 40, 1 << 40)),
        ("L1 at the end of numbers", l1(u64::MAX - 7, 1), |image| put64(image, 40, u64::MAX - 7)),
        ("L1 unaligned", l1(PLACE + 8, 1), |image| put64(image, 40, PLACE + 8)),
        ("L1 is the header", l1(0, 1), |image| put64(image, 40, 0)),
        ("dirty", Qcow2Refusal::Dirty, |image| put64(image, 72, 1)),
        ("corrupt", Qcow2Refusal::Corrupt, |image| put64(image, 72, 2)),
        ("external data file", Qcow2Refusal::DataFile, |image| put64(image, 72, 4)),
        ("zstd without its feature", Qcow2Refusal::Compression(1), |image| {
            put32(image, 100, 112);
            image[104] = 1;
        }),
        ("zlib with the feature of others", Qcow2Refusal::Compression(0), |image| put64(image, 72, 8)),
        ("extended L2", Qcow2Refusal::ExtendedL2, |image| put64(image, 72, 16)),
        ("unknown feature", Qcow2Refusal::Features(1 << 40), |image| put64(image, 72, 1 << 40)),
        ("header length", Qcow2Refusal::HeaderLength(8), |image| put32(image, 100, 8)),
        ("L2 out of the file", Qcow2Refusal::L2(9 * PLACE), |image| put64(image, CLUSTER, 9 * PLACE)),
        ("L2 unaligned", Qcow2Refusal::L2(2 * PLACE + 512), |image| put64(image, CLUSTER, 2 * PLACE + 512)),
        ("L2 is the L1 table", Qcow2Refusal::Overlap(PLACE), |image| put64(image, CLUSTER, PLACE)),
        ("one L2 table twice", Qcow2Refusal::Overlap(2 * PLACE), |image| {
            put32(image, 36, 2);
            put64(image, 24, (1 << 29) + 512);
            put64(image, CLUSTER + 8, 2 * PLACE);
        }),
        ("reserved bits of L1", Qcow2Refusal::Reserved((2 * PLACE) | (1 << 60)), |image| {
            put64(image, CLUSTER, (2 * PLACE) | (1 << 60));
        }),
        ("reserved bits of L2", Qcow2Refusal::Reserved((3 * PLACE) | (1 << 60)), |image| {
            put64(image, 2 * CLUSTER, (3 * PLACE) | (1 << 60));
        }),
        ("zero flag in version 2", Qcow2Refusal::Reserved((3 * PLACE) | 1), |image| {
            put32(image, 4, 2);
            put64(image, 2 * CLUSTER, (3 * PLACE) | 1);
        }),
    ];
    for (name, reason, spoil) in cases {
        let mut image = small();
        spoil(&mut image);
        assert_eq!(refusal(&image), reason, "{name}");
    }
    // What an entry of the L2 table points to; compressed clusters have bit 62.
    const COMPRESSED: u64 = 1 << 62;
    for (entry, reason) in [
        (PLACE, Qcow2Refusal::Overlap(PLACE)),
        (2 * PLACE, Qcow2Refusal::Overlap(2 * PLACE)),
        (7 * PLACE, Qcow2Refusal::Cluster(7 * PLACE)),
        (3 * PLACE + 512, Qcow2Refusal::Cluster(3 * PLACE + 512)),
        (COMPRESSED | 512, Qcow2Refusal::Overlap(512)),
        (COMPRESSED | (1 << 54) | (2 * PLACE - 100), Qcow2Refusal::Overlap(2 * PLACE - 100)),
        (COMPRESSED | (40 * PLACE), Qcow2Refusal::Cluster(40 * PLACE)),
        (COMPRESSED | (1 << 63) | (3 * PLACE), Qcow2Refusal::Reserved(COMPRESSED | (1 << 63) | (3 * PLACE))),
    ] {
        let mut image = small();
        put64(&mut image, 2 * CLUSTER, entry);
        assert_eq!(refusal(&image), reason, "{entry:#x}");
    }
    // A compressed cluster that is no deflate stream.
    let mut image = small();
    put64(&mut image, 2 * CLUSTER, COMPRESSED | (3 * PLACE));
    assert!(matches!(outcome(&image), Err(Qcow2Error::Cluster { guest: 0, .. })));
}

#[test]
fn the_file_may_end_within_the_last_cluster_but_not_within_the_disk() {
    let mut image = small();
    put64(&mut image, 24, (2 << 16) + 512);
    image.truncate((4 << 16) + 512);
    assert_eq!(outcome(&image).unwrap().len(), (2 << 16) + 512);
    image.truncate((4 << 16) + 511);
    assert_eq!(refusal(&image), Qcow2Refusal::Cluster(4 << 16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn never_panics(
        changes in prop::collection::vec((0_usize..160, any::<u8>()), 0..6),
        table in prop::collection::vec((0_usize..3, any::<u64>()), 0..4),
        kept in 0_usize..(5 << 16),
    ) {
        let mut image = small();
        for (at, value) in changes {
            image[at] = value;
        }
        for (slot, value) in table {
            put64(&mut image, (1 << 16) * (1 + slot.min(1)) + slot * 8, value);
        }
        qcow2::check(&image);
        qcow2::check(&image[..kept]);
    }
}

#[test]
fn holes_of_a_huge_disk_cost_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    if !qemu_img(&["create", "-q", "-f", "qcow2", path.to_str().unwrap(), "100G"]) {
        return;
    }
    let file = File::open(&path).unwrap();
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).unwrap();
    assert_eq!(&magic, b"QFI\xfb");
    let reader = Qcow2Reader::open(file).unwrap();
    assert_eq!(reader.header().disk_bytes, 100 << 30);
    let zeros = io::copy(&mut reader.take(64 << 20), &mut io::sink()).unwrap();
    assert_eq!(zeros, 64 << 20);
}
