//! What origins send instead of an image.

use std::time::Duration;

use clap::Parser as _;
use firesteel_cli::FiresteelCli;
use firesteel_facts::Sha256;
use firesteel_images::http::DownloadLimits;
use firesteel_resources::{Image, bare_metal_host::ImageFormat};

use crate::agent::{Agent, End};
use crate::appliance::{Appliance, LIMITS, images_in};
use crate::origin::{Answer, Origin};
use crate::qcow2;

/// A boot sector, and something that nobody takes for another format and that does not compress.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let mut noise: Vec<u8> = (0..bytes).map(|_| next()).collect();
    noise[510..512].copy_from_slice(&[0x55, 0xaa]);
    noise
}

/// One way in which an image is bad.
struct Case {
    /// Also its line in the table of promises, where it is one.
    name: &'static str,
    answer: Answer,
    checksum: String,
    /// What is said of it: what happened, what to do.
    told: Vec<&'static str>,
}

fn case<const N: usize>(name: &'static str, answer: Answer, told: [&'static str; N]) -> Case {
    let checksum = Sha256::of(answer.body()).to_string();
    Case { name, answer, checksum, told: told.to_vec() }
}

/// An origin with this one image, and what an owner writes of it.
pub(crate) fn published(body: Vec<u8>) -> (Origin, Image) {
    let checksum = Sha256::of(&body).to_string();
    let origin = Origin::start(vec![("disk.img", Answer::Sound(body))]);
    let image = Image { url: origin.url("disk.img"), checksum, ..Image::default() };
    (origin, image)
}

const CONVERT: &str = "convert the image to raw where it comes from";
const NETWORK: &str = "see that the server and the network to it work";

/// What is bad in the file itself, so that each try meets it at once.
fn bad_files() -> Vec<Case> {
    let image = noise(2 << 20);
    let packed = zstd::encode_all(image.as_slice(), 1).unwrap();
    let mut zeros = vec![0; 64 << 20];
    zeros[510..512].copy_from_slice(&[0x55, 0xaa]);
    let bomb = zstd::encode_all(zeros.as_slice(), 19).unwrap();
    let other = "0".repeat(64);
    let mut altered = image.clone();
    altered[1 << 20] ^= 1;
    let sound = Sha256::of(&image).to_string();
    let text = b"<html>please log in</html>".to_vec();
    let mut cases = vec![
        Case { checksum: other, ..case("wrong-checksum", Answer::Sound(image.clone()), WRONG) },
        Case { checksum: sound, ..case("altered-download", Answer::Sound(altered), WRONG) },
        case(
            "truncated-file",
            Answer::Sound(packed[..packed.len() / 2].to_vec()),
            ["the zstd stream ends in the middle, at byte ", "download it again from its publisher"],
        ),
        case(
            "empty-image",
            Answer::Sound(Vec::new()),
            ["it is empty", "give the address of a raw or qcow2 disk image"],
        ),
        case("error-page", Answer::Sound(text), ["it is a text", "give the address of a raw or qcow2 disk image"]),
        case(
            "decompression-bomb",
            Answer::Sound(bomb),
            ["its disk has more than 16777216 bytes", "use a smaller image"],
        ),
        case(
            "decompression-window",
            Answer::Sound(vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (28 - 10) << 3, 1, 0, 0]),
            ["its zstd window has 268435456 bytes", "pack it with a shorter window"],
        ),
        case("http-error 404", Answer::Status(404), ["answered 404", "correct the address"]),
        case(
            "endless-source",
            Answer::Endless,
            ["at most 8388608 are accepted", "names a disk image, and one that ends"],
        ),
    ];
    cases.extend(no_disks());
    cases.extend(
        qcow2::hostile().into_iter().map(|(name, bytes, what)| case(name, Answer::Sound(bytes), [what, CONVERT])),
    );
    cases
}

const DECLARE: &str = "declare the format: `--format raw`";

/// Files that are no disk, or not all of one. A declared format overrules all but the last three.
fn no_disks() -> Vec<Case> {
    let image = noise(2 << 20);
    // The header of an .lzma file: 8 MiB of dictionary, no length.
    let lzma = [&[0x5d, 0, 0, 0x80, 0][..], &[0xff; 8], &[0, 0x6f, 0xfd], &image[..500]].concat();
    let mut tar = vec![0; 2048];
    tar[..8].copy_from_slice(b"disk.raw");
    tar[148..156].fill(b' ');
    let sum: u32 = tar[..512].iter().map(|byte| u32::from(*byte)).sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let vhd = [&image[..], b"conectix", &[0; 504]].concat();
    let mut unknown = image.clone();
    unknown[510] = 0;
    let odd = image[..(1 << 20) + 7].to_vec();
    // A classic table with a partition of 2 MiB from 1 MiB on.
    let mut beyond = vec![0; 2 << 20];
    beyond[510..512].copy_from_slice(&[0x55, 0xaa]);
    beyond[446 + 4] = 0x83;
    beyond[446 + 8..446 + 16].copy_from_slice(&[0, 8, 0, 0, 0, 16, 0, 0]);
    let mut table = vec![0; 2 << 20];
    table[512..520].copy_from_slice(b"EFI PART");
    let sound = |name, body, told: [&'static str; 2]| case(name, Answer::Sound(body), told);
    vec![
        sound("legacy-lzma", lzma, ["looks like an .lzma file", DECLARE]),
        sound("tar-without-magic", tar, ["looks like a tar archive", DECLARE]),
        sound("vhd-footer", vhd, ["a VHD image of fixed size: it has a footer at byte 2097152", DECLARE]),
        sound("zeros", vec![0; 1 << 20], ["its first 1048576 bytes are zeros", DECLARE]),
        sound("odd-length", odd, ["has 1048583 bytes, which are not whole sectors", DECLARE]),
        sound("unknown-bytes", unknown, ["hold no partition table, boot sector or filesystem", DECLARE]),
        sound("partition-behind-end", beyond, ["ends at byte 3145728, but the image ends at byte 2097152", "download"]),
        sound("damaged-table", table, ["the partition table (GPT) at the start of the image cannot be used", "repair"]),
        sound("vmdk", b"KDMV\x01\0\0\0".repeat(64), ["it is a VMDK image", "give the address of a raw or qcow2"]),
    ]
}

const WRONG: [&str; 2] = ["the image's checksum is", "correct the checksum"];

/// What goes wrong on the way, so that it is tried again.
fn bad_ways() -> Vec<Case> {
    let (image, half) = (noise(2 << 20), 1 << 20);
    vec![
        case("truncated-download", Answer::Truncated(image.clone(), half), ["at byte 1048576", NETWORK]),
        case("reset-download", Answer::Reset(image.clone(), half), ["broke off at byte", NETWORK]),
        case(
            "changed on the way",
            Answer::Changed(image.clone(), half),
            ["its ETag is another", "try again when the file on the server does not change any more"],
        ),
        case(
            "another part",
            Answer::WrongPart(image.clone(), half),
            ["sends another part", "try again when the file on the server does not change any more"],
        ),
        case(
            "wrong length",
            Answer::Length(image, 3 << 20),
            ["the server sent the whole again", "try again when the file on the server does not change any more"],
        ),
        case("http-error 503", Answer::Status(503), ["answered 503", "see the log of the server"]),
    ]
}

/// Each bad image is wanted by a host, whose machine is there and waits for its plan.
async fn each_is_told(cases: Vec<Case>, limits: DownloadLimits) {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start_with(data.path(), limits).await;
    for (index, case) in cases.into_iter().enumerate() {
        let (name, mac) = (format!("host-{index}"), format!("02:00:00:00:01:{index:02x}"));
        println!("{}", case.name);
        let origin = Origin::start(vec![("disk.img", case.answer)]);
        let image = Image { url: origin.url("disk.img"), checksum: case.checksum, ..Image::default() };
        appliance.add(&name, &mac, Some(image)).await;
        let mut agent = Agent::boot(&appliance, &mac, 1).await;
        assert!(matches!(agent.work(&appliance, &name).await, End::Error), "{}: a disk was to be written", case.name);
        appliance.assert_told(&name, &case.told).await;
        assert_eq!(images_in(data.path()), Vec::<String>::new(), "{}: something was kept", case.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_is_told_and_nothing_of_it_stays() {
    each_is_told(bad_files(), LIMITS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_way_is_told_and_nothing_of_it_stays() {
    each_is_told(bad_ways(), LIMITS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_stands_still_is_given_up_and_told() {
    let stalled = Answer::Stalled(noise(2 << 20), 1 << 20);
    let told = ["stalled at byte ", "nothing came for 1 s", NETWORK];
    each_is_told(
        vec![case("stalled-download", stalled, told)],
        DownloadLimits { stall: Duration::from_secs(1), ..LIMITS },
    )
    .await;
}

/// The other half of the same test: a good image by the same way ends in a plan for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_image_ends_in_a_plan() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let image = noise(2 << 20);
    let packed = zstd::encode_all(image.as_slice(), 1).unwrap();
    for (index, body) in [image.clone(), packed, qcow2::sound()].into_iter().enumerate() {
        let (name, mac) = (format!("host-{index}"), format!("02:00:00:00:01:{index:02x}"));
        let (_origin, image) = published(body);
        appliance.add(&name, &mac, Some(image)).await;
        let mut agent = Agent::boot(&appliance, &mac, 1).await;
        let End::WritePlan(plan) = agent.work(&appliance, &name).await else {
            panic!("{}", appliance.error(&name).await);
        };
        assert!(plan.attempt > 0);
    }
    assert_eq!(images_in(data.path()).len(), 4, "two images, each with what is known of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_says_the_same() {
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(data.path().join("images")).unwrap();
    let folder = data.path().to_str().unwrap();
    for case in bad_files().into_iter().filter(|case| case.name != "endless-source") {
        let origin = Origin::start(vec![("disk.img", case.answer)]);
        let url = origin.url("disk.img");
        let words = ["firesteel", "image", "import", &url, "--checksum", &case.checksum, "--data", folder];
        let words = [words.as_slice(), &["--allow-target", "127.0.0.0/8"]].concat();
        // The command takes a disk of up to 1 TiB; the bomb of the other test is a small image to it.
        if case.name == "decompression-bomb" {
            continue;
        }
        let error = firesteel_cli::run(FiresteelCli::try_parse_from(words).unwrap()).await.expect_err(case.name);
        let said = format!("{error:#}");
        for part in case.told.iter().chain(&["http://127.0.0.1"]) {
            assert!(said.contains(part), "{}: no {part:?} in: {said}", case.name);
        }
        assert_eq!(images_in(data.path()), Vec::<String>::new(), "{}: something was kept", case.name);
    }
}

/// The owner's word counts for more than what bytes look like, and for no more than a table that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_format_overrules_what_a_file_looks_like() {
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(data.path().join("images")).unwrap();
    let folder = data.path().to_str().unwrap();
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for case in no_disks() {
        let file = data.path().join(case.name);
        std::fs::write(&file, case.answer.body()).unwrap();
        let words = ["firesteel", "image", "import", file.to_str().unwrap(), "--format", "raw", "--data", folder];
        let result = firesteel_cli::run(FiresteelCli::try_parse_from(words).unwrap()).await;
        let said = result.as_ref().map_or_else(|error| format!("{error:#}"), |_| "taken".to_owned());
        println!("{} | {said}", case.name);
        if result.is_ok() {
            taken.push(case.name);
        } else {
            refused.push(case.name);
        }
    }
    assert_eq!(taken, ["legacy-lzma", "tar-without-magic", "vhd-footer", "zeros", "odd-length", "unknown-bytes"]);
    assert_eq!(refused, ["partition-behind-end", "damaged-table", "vmdk"]);
}

/// A host whose owner declares `raw` is installed from what does not look like a disk, although it was refused before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hosts_declared_format_counts_too() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let (_origin, image) = published(vec![7; 1 << 20]);
    appliance.add("plain", "02:00:00:00:01:02", Some(image.clone())).await;
    let mut agent = Agent::boot(&appliance, "02:00:00:00:01:02", 1).await;
    assert!(matches!(agent.work(&appliance, "plain").await, End::Error), "nothing says that it is a disk");
    appliance.assert_told("plain", &["does not look like a disk", "`format: raw` in a host's spec.image"]).await;
    let image = Image { format: Some(ImageFormat::Raw), ..image };
    appliance.add("host", "02:00:00:00:01:01", Some(image)).await;
    let mut agent = Agent::boot(&appliance, "02:00:00:00:01:01", 1).await;
    assert!(matches!(agent.work(&appliance, "host").await, End::WritePlan(_)), "{}", appliance.error("host").await);
}
