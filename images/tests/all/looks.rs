//! What is published as an image and is none, or is one with something odd about it: refused with what it looks like, or
//! taken in with a note.

use std::{fs, io::Write as _, path::Path};

use firesteel_facts::Sha256;
use firesteel_images::import::{
    Checksum, ContentFault, ImageStore, ImportError, ImportFormat, ImportNotes, ImportSource, Importer, Lookalike,
    StoredImage,
};
use firesteel_images::write::PartitionName;

use crate::{artifacts::gzip, disks::gpt_image};

const MIB: usize = 1 << 20;

fn import(bytes: &[u8], origin: &ImportSource) -> Result<StoredImage, ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let imported = Importer::new(store).import(bytes, origin, &|_| {});
    assert_eq!(files_in(dir.path()), if imported.is_ok() { 2 } else { 0 }, "an image and its metadata, or nothing");
    imported
}

fn files_in(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

fn declared(format: ImportFormat) -> ImportSource {
    ImportSource { declared: Some(format), ..ImportSource::default() }
}

fn lzma(data: &[u8]) -> Vec<u8> {
    let options = liblzma::stream::LzmaOptions::new_preset(6).unwrap();
    let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// An archive with the header of 1979: name, numbers and checksum, and no magic.
fn old_tar(data: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..8].copy_from_slice(b"disk.raw");
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = [&header[..], data].concat();
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    archive
}

fn vhd(disk: &[u8]) -> Vec<u8> {
    let mut footer = [0; 512];
    footer[..8].copy_from_slice(b"conectix");
    [disk, &footer].concat()
}

/// `lzma` became "imported: 1.0 kB raw".
#[test]
fn what_is_no_disk_is_refused_with_what_it_looks_like_unless_its_format_is_declared() {
    let disk = gpt_image(4 * MIB, 512);
    let unknown: Vec<u8> = (0..2 * MIB).map(|at| u8::try_from(at * 7 % 251).unwrap() | 1).collect();
    let footer = Lookalike::VhdFooter { at_bytes: 4 << 20 };
    let mut odd = disk.clone();
    odd.extend_from_slice(&[7; 100]);
    let cases = [
        ("lzma", lzma(&disk), Lookalike::Lzma, "xz --format=lzma -d"),
        ("tar of 1979", old_tar(&disk), Lookalike::Tar, "unpack it"),
        ("VHD with a footer", vhd(&disk), footer, "qemu-img convert -f vpc"),
        ("zeros", vec![0; 3 * MIB], Lookalike::Zeros { bytes: 1 << 20 }, "leads to a disk image"),
        ("odd length", odd, Lookalike::OddLength { bytes: (4 << 20) + 100 }, "all of it was published"),
        ("unknown bytes", unknown, Lookalike::Unknown { bytes: 1 << 20 }, "leads to a disk image"),
    ];
    let mut wrong = Vec::new();
    for (name, bytes, wanted, remedy) in cases {
        for (packed, bytes) in [("raw", bytes.clone()), ("in gzip", gzip(&bytes))] {
            let result = import(&bytes, &ImportSource::default());
            let said = match &result {
                Err(error) => format!("{error}; {}", error.help()),
                Ok(_) => "taken for a disk".to_owned(),
            };
            let is_so = matches!(&result, Err(error @ ImportError::Content(ContentFault::Lookalike(found)))
                if *found == wanted && error.is_permanent());
            let is_told = [remedy, "--format raw"].iter().all(|part| said.contains(part));
            let overruled = import(&bytes, &declared(ImportFormat::Raw));
            if !is_so || !is_told || overruled.is_err() {
                wrong.push(format!("{name} {packed}: {said}; declared raw: {overruled:?}"));
            }
            println!("{name} {packed} | {said}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What has magic bytes is something else whatever is declared.
#[test]
fn a_known_format_is_refused_although_raw_is_declared() {
    for (bytes, what) in
        [(&b"KDMV\x01\0\0\0"[..], "VMDK"), (&b"070707"[..], "cpio"), (&b"<html>gone</html>"[..], "text")]
    {
        let error = import(bytes, &declared(ImportFormat::Raw)).expect_err(what);
        assert!(matches!(&error, ImportError::Unsupported(why) if why.to_string().contains(what)), "{error:?}");
    }
    let mut kernel = vec![0; 4096];
    kernel[510..512].copy_from_slice(&[0x55, 0xaa]);
    kernel[0x202..0x206].copy_from_slice(b"HdrS");
    let error = import(&kernel, &ImportSource::default()).unwrap_err();
    assert!(matches!(&error, ImportError::Unsupported(why) if why.to_string().contains("a Linux kernel")), "{error:?}");
}

#[test]
fn a_length_that_is_no_multiple_of_a_sector_is_padded_where_raw_is_declared() {
    let stored = import(&[7; 1000], &declared(ImportFormat::Raw)).unwrap();
    assert_eq!(stored.meta.raw_bytes, 1024);
    let padded = [vec![7; 1000], vec![0; 24]].concat();
    assert_eq!(stored.meta.raw_sha256, Sha256::of(&padded));
}

/// A disk of 12 MiB with such partitions, each a kind, a first block and blocks.
fn classic(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut disk = vec![0; 12 * MIB];
    for ((kind, first, blocks), entry) in entries.iter().zip(disk[446..510].chunks_exact_mut(16)) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&blocks.to_le_bytes());
    }
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk
}

/// The last partition of a file that was cut had no end, and its filesystem failed on the host.
#[test]
fn a_partition_that_ends_behind_the_image_is_refused_whatever_is_declared() {
    let disk = gpt_image(12 * MIB, 512);
    // It ends 40 blocks before the end of the disk.
    let end = 12 * MIB - 39 * 512;
    let cases = [
        ("GPT", disk[..end - 512].to_vec(), PartitionName::Gpt { number: 2 }, end as u64),
        ("MBR", classic(&[(0x83, 2048, 22_529)]), PartitionName::Classic { first_block: 2048 }, (12 << 20) + 512),
        ("extended", classic(&[(0x0f, 4096, 22_528)]), PartitionName::Classic { first_block: 4096 }, 13 << 20),
    ];
    let mut wrong = Vec::new();
    for (name, bytes, partition, end_bytes) in cases {
        for origin in [ImportSource::default(), declared(ImportFormat::Raw)] {
            let Err(error) = import(&bytes, &origin) else {
                wrong.push(format!("{name}: taken for a whole disk"));
                continue;
            };
            let is_so = matches!(&error, ImportError::Content(ContentFault::Partition(beyond))
                if (beyond.partition, beyond.end_bytes) == (partition, end_bytes));
            let text = format!("{error}; {}", error.help());
            if !is_so || !text.contains("a part of it is missing") || !error.help().contains("download") {
                wrong.push(format!("{name}: {text}"));
            }
            println!("{name} | {text}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for whole in [disk[..end].to_vec(), classic(&[(0x83, 2048, 22_528), (0xee, 1, u32::MAX)])] {
        import(&whole, &ImportSource::default()).unwrap();
    }
}

#[test]
fn a_missing_backup_table_is_a_note() {
    let disk = gpt_image(12 * MIB, 512);
    assert!(import(&disk, &ImportSource::default()).unwrap().meta.sources[0].notes.is_empty());
    let stored = import(&disk[..12 * MIB - 39 * 512], &ImportSource::default()).unwrap();
    let notes = stored.meta.sources[0].notes;
    assert_eq!(notes, ImportNotes { trailing_bytes: 0, is_backup_table_missing: true });
    assert!(notes.sentences()[0].contains("no backup of its partition table"), "{:?}", notes.sentences());
    // As it is stored.
    let text = serde_json::to_string(&stored.meta).unwrap();
    assert_eq!(serde_json::from_str::<firesteel_images::import::ImageMeta>(&text).unwrap(), stored.meta);
}

/// "Cut, damaged or made to harm" was said of an image of OpenWrt.
#[test]
fn bytes_behind_a_gzip_are_counted_and_zeros_are_not() {
    let disk = gpt_image(4 * MIB, 512);
    let packed = gzip(&disk);
    let signed = [&packed[..], &[0; 8], b"{ \"metadata_version\": \"1.1\" }"].concat();
    let checksum = Checksum::parse(&Sha256::of(&signed).to_string(), "sha256").unwrap();
    let origin = ImportSource {
        expected: Some(checksum.clone()),
        uncompressed_sha256: Some(Sha256::of(&disk)),
        ..ImportSource::default()
    };
    let stored = import(&signed, &origin).unwrap();
    let source = &stored.meta.sources[0];
    assert_eq!(stored.meta.raw_sha256, Sha256::of(&disk));
    assert_eq!(
        (source.bytes, source.sha256),
        (signed.len() as u64, Sha256::of(&signed)),
        "the checksum covers the file"
    );
    assert_eq!(source.notes.trailing_bytes, (signed.len() - packed.len()) as u64);
    let said = source.notes.sentences();
    assert!(said[0].contains(&format!("{} bytes behind the end", signed.len() - packed.len())), "{said:?}");
    let padded = [&packed[..], &[0; 700]].concat();
    assert!(import(&padded, &ImportSource::default()).unwrap().meta.sources[0].notes.is_empty());
    let error = import(&padded, &ImportSource { expected: Some(checksum), ..ImportSource::default() }).unwrap_err();
    assert!(matches!(error, ImportError::Checksum { .. }), "{error:?}");
}

#[test]
fn a_stream_that_cannot_be_expanded_says_where() {
    let packed = gzip(&gpt_image(4 * MIB, 512));
    let error = import(&packed[..packed.len() - 3], &ImportSource::default()).unwrap_err();
    let text = error.to_string();
    assert_eq!(text, format!("the gzip stream ends in the middle, at byte {} of the file", packed.len() - 3));
    assert!(error.help().contains("download it again"), "{}", error.help());
    let mut damaged = packed.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let error = import(&damaged, &ImportSource::default()).unwrap_err();
    assert!(error.to_string().starts_with("the gzip stream is not valid at byte"), "{error}");
    assert!(!error.help().contains("harm"), "{}", error.help());
}

/// The disk of a qcow2 image is looked at too.
#[test]
fn the_disk_in_a_qcow2_image_may_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blank.qcow2");
    let made =
        std::process::Command::new("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(&path).arg("64M").status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no qemu-img here");
        return;
    }
    let blank = fs::read(&path).unwrap();
    let error = import(&blank, &ImportSource::default()).unwrap_err();
    let zeros = Lookalike::Zeros { bytes: 1 << 20 };
    assert!(matches!(&error, ImportError::Content(ContentFault::Lookalike(found)) if *found == zeros), "{error:?}");
    import(&blank, &declared(ImportFormat::Qcow2)).unwrap();
}
