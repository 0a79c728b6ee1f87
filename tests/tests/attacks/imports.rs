//! Images that cost more than they show: an owner names them, and a publisher whom somebody broke into made them.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use firesteel_tests::disk_image;
use firesteel_tests::field::{self, Field, mac};
use firesteel_tests::network::Dhcp;
use serde_json::{Value, json};

use crate::judge;

const WANTS: &str = "memory, time, or a disk of its own making";
const MIB: u64 = 1 << 20;
/// A sparse disk at the gate; `./qemu/lab test --all` has 200 GiB, whose SHA-256 alone takes minutes.
const SPARSE_GIB: u64 = 4;
const SPARSE_VARIABLE: &str = "FIRESTEEL_TEST_SPARSE_GIB";
/// Only what hangs takes so long: hashing 200 GiB takes a quarter of it on a processor without instructions for it.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Of an xz block, as its header writes it: 128 MiB, which is the most that is given, and 192 MiB.
const DICTIONARY_128_MIB: u8 = 30;
const DICTIONARY_192_MIB: u8 = 31;

fn with_field(test: fn(&mut Field)) {
    field::with_field(env!("CARGO_BIN_EXE_firesteel-tested"), Dhcp::Managed, test);
}

/// A host that wants this image. The appliance fetches it while the host is waited for.
fn add(field: &Field, machine: u8, image: &Value) {
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": format!("host-{machine}")},
        "spec": {"online": true, "bootMACAddress": mac(machine).to_string(), "image": image},
    }));
}

/// One value over and over, as an xz stream of one block that asks for such a dictionary.
fn xz(value: u8, mib: usize, dictionary: u8) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    let piece = vec![value; 1 << 20];
    (0..mib).for_each(|_| encoder.write_all(&piece).unwrap());
    let mut stream = encoder.finish().unwrap();
    assert_eq!(stream[12..16], [2, 0, 0x21, 1], "a block header of 12 bytes with one filter");
    stream[16] = dictionary;
    let checksum = crc32fast::hash(&stream[12..20]);
    stream[20..24].copy_from_slice(&checksum.to_le_bytes());
    stream
}

/// A sector that looks like a disk's first, by its number another one each time.
fn first_sector(number: u8) -> Vec<u8> {
    let mut sector = vec![0; 512];
    (sector[0], sector[510], sector[511]) = (number, 0x55, 0xaa);
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(&sector).unwrap();
    encoder.finish().unwrap()
}

/// Lengths of the disks that are in the store.
fn stored(field: &Field) -> Vec<u64> {
    let folder = field.appliance.data().join("images");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let described = names.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    // Of a partial download there is another record, which may be gone already.
    let of_image = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok()?["raw_bytes"].as_u64();
    described.filter_map(of_image).collect()
}

fn wait(field: &Field, what: &str, is_so: impl Fn() -> bool) {
    let ends_at = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < ends_at, "{what}:\n{}", field.appliance.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Eight files of 61 kB took 1.87 GiB of an appliance that said it would hold one.
#[test]
fn eight_bombs_take_no_more_memory_than_is_stated() {
    with_field(|field| {
        let too_long = xz(0x11, 1, DICTIONARY_192_MIB);
        add(field, 1, &disk_image::serve(too_long.clone()));
        field.appliance.wait_for_log("its xz dictionary has 201326592 bytes; at most 134217728 bytes are used");
        field.appliance.wait_for_log("pack it with a shorter dictionary");
        for machine in 2..=8 {
            add(field, machine, &disk_image::serve([first_sector(machine), too_long.clone()].concat()));
        }
        // The first stream of each of these needs little.
        let refusals = || field.appliance.log().matches("a later xz dictionary of it is too long").count();
        wait(field, "bombs are not refused", || refusals() >= 7);
        judge("8 xz files that ask for 192 MiB each", WANTS, "refused by their headers", "refused by their headers");

        // What may be: each fills a dictionary of 128 MiB, and then some.
        let long = xz(0x11, 192, DICTIONARY_128_MIB);
        for machine in 9..=20 {
            add(field, machine, &disk_image::serve([first_sector(machine), long.clone()].concat()));
        }
        wait(field, "images are not imported", || stored(field).len() >= 12);
        assert_eq!(stored(field), vec![192 * MIB + 512; 12], "a high ratio is no reason");
        let (peak, stated) = field.appliance.memory_kib();
        let got = if peak <= stated { "within the bound".to_owned() } else { format!("{peak} KiB of {stated}") };
        judge("12 xz files that fill 128 MiB each, at once", WANTS, "within the bound", &got);
    });
}

/// A qcow2 image of a disk without data but for two clusters of 64 KiB.
fn qcow2(disk_bytes: u64) -> Vec<u8> {
    const CLUSTER: usize = 64 << 10;
    let mut image = vec![0; 5 * CLUSTER];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    put(20, &16_u32.to_be_bytes());
    put(24, &disk_bytes.to_be_bytes());
    // As many entries of L1 as the disk needs; all but the first are holes.
    put(36, &u32::try_from(disk_bytes.div_ceil(512 * MIB).min(8192)).unwrap().to_be_bytes());
    put(40, &(CLUSTER as u64).to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    put(CLUSTER, &(2 * CLUSTER as u64).to_be_bytes());
    // At the start of the disk and at 300 MiB.
    for (index, entry) in [(3, 0), (4, (300 << 20) / CLUSTER)] {
        put(2 * CLUSTER + entry * 8, &(index as u64 * CLUSTER as u64).to_be_bytes());
        put(index * CLUSTER, &[0x5a; CLUSTER]);
        put(index * CLUSTER + 510, &[0x55, 0xaa]);
    }
    image
}

/// A sparse disk of 200 GiB was refused for its ratio, after 47 seconds of work.
#[test]
fn a_sparse_disk_comes_in_and_one_that_promises_too_much_does_not() {
    with_field(|field| {
        let gib = std::env::var(SPARSE_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(SPARSE_GIB);
        let disk_bytes = gib << 30;
        add(field, 1, &disk_image::serve(qcow2(disk_bytes)));
        add(field, 2, &disk_image::serve(qcow2(200 << 40)));
        field.appliance.wait_for_log("its disk of 219902325555200 bytes is too large");
        judge("a qcow2 image whose header promises 200 TiB", WANTS, "refused by the header", "refused by the header");
        wait(field, "the sparse disk is not imported", || !stored(field).is_empty());
        assert_eq!(stored(field), [disk_bytes]);
        let folder = field.appliance.data().join("images");
        let kept: u64 = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        let got = if kept <= gib * MIB { "imported in less than a MiB for each GiB" } else { "large" };
        judge("none: a sparse qcow2 image", "-", "imported in less than a MiB for each GiB", got);
    });
}

/// Firmware images have a signature behind their gzip; such an image was called damaged.
#[test]
fn bytes_behind_a_gzip_are_named_in_an_event_of_the_host() {
    with_field(|field| {
        let mut disk = vec![0x11; 1 << 20];
        (disk[510], disk[511]) = (0x55, 0xaa);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&disk).unwrap();
        let signed = [&encoder.finish().unwrap()[..], b"a signature"].concat();
        add(field, 1, &disk_image::serve(signed));
        let said = "the file has 11 bytes behind the end of its gzip stream";
        let events = field.until(&["get", "events", "-o", "json"], |events| events.contains(said));
        assert!(events.contains("ImageWarning"), "{events}");
        wait(field, "the image is not imported", || !stored(field).is_empty());
        assert_eq!(stored(field), [MIB]);
        let got = "imported, with their number in an event";
        judge("none: an image with bytes behind its gzip", "-", got, got);
    });
}
