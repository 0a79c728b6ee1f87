//! Whatever is published as an image: what it is taken for, and qcow2 with all its tables.

use std::io::{Cursor, Read};

use firesteel_images::import::format::{Unsupported, detect};
use firesteel_images::import::qcow2::Qcow2Reader;

/// More is not read of one image: an input of kilobytes can promise a disk of a terabyte.
const READ_BYTES_MAX: u64 = 2 << 20;

pub(super) fn check(input: &[u8]) {
    match detect(input) {
        Err(Unsupported::Text) => assert!(input.iter().take(512).all(u8::is_ascii)),
        Err(Unsupported::Empty) => assert!(input.is_empty()),
        Err(Unsupported::Known(_)) | Ok(_) => {}
    }
    let Ok(mut reader) = Qcow2Reader::open(Cursor::new(input)) else { return };
    let header = reader.header().clone();
    assert!(header.disk_bytes > 0 && (9..=21).contains(&header.cluster_bits));
    assert!(u64::from(header.l1_entries) * 8 <= input.len() as u64, "the whole L1 table lies in the file");
    let wanted = header.disk_bytes.min(READ_BYTES_MAX);
    let whole = read(&mut reader, wanted, 64 << 10);
    let pieces = Qcow2Reader::open(Cursor::new(input)).map(|mut reader| read(&mut reader, wanted, 777)).unwrap();
    let skipping =
        Qcow2Reader::open(Cursor::new(input)).map(|mut reader| read_over_holes(&mut reader, wanted)).unwrap();
    match (whole, pieces, skipping) {
        (Some(whole), Some(pieces), Some(skipping)) => {
            assert_eq!(whole.len() as u64, wanted, "neither shorter nor longer than the header says");
            assert!(whole == pieces, "how it is read makes no difference");
            assert!(whole == skipping, "what is skipped is zeros");
            if wanted == header.disk_bytes {
                assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "nothing comes after the disk");
            }
        }
        (None, None, None) => {}
        _ => panic!("an image is read or refused, however it is read"),
    }
}

/// `None`: the image was refused on the way.
fn read(reader: &mut impl Read, bytes: u64, at_once: usize) -> Option<Vec<u8>> {
    let (mut out, mut buffer) = (Vec::new(), vec![0; at_once]);
    while (out.len() as u64) < bytes {
        let left = usize::try_from(bytes).unwrap() - out.len();
        match reader.read(&mut buffer[..left.min(at_once)]) {
            Ok(0) => break,
            Ok(count) => out.extend(&buffer[..count]),
            Err(_) => return None,
        }
    }
    Some(out)
}

/// The same, where each cluster that is a hole is skipped.
fn read_over_holes(reader: &mut Qcow2Reader<Cursor<&[u8]>>, bytes: u64) -> Option<Vec<u8>> {
    let (mut out, cluster) = (Vec::new(), usize::try_from(reader.header().cluster_bytes()).unwrap());
    while (out.len() as u64) < bytes {
        let piece = cluster.min(usize::try_from(bytes).unwrap() - out.len());
        if piece == cluster && reader.skip_zeros(cluster as u64).ok()? {
            out.resize(out.len() + cluster, 0);
        } else {
            out.extend(read(reader, piece as u64, piece)?);
        }
    }
    Some(out)
}

/// An image with clusters of 512 bytes: header, L1, one L2, then `clusters`.
fn image(version: u32, disk_bytes: u64, l2: &[u64], clusters: &[&[u8]], compression: u8) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..4].copy_from_slice(b"QFI\xfb");
    bytes[4..8].copy_from_slice(&version.to_be_bytes());
    bytes[20..24].copy_from_slice(&9_u32.to_be_bytes());
    bytes[24..32].copy_from_slice(&disk_bytes.to_be_bytes());
    bytes[36..40].copy_from_slice(&1_u32.to_be_bytes());
    bytes[40..48].copy_from_slice(&512_u64.to_be_bytes());
    if version == 3 {
        bytes[72..80].copy_from_slice(&(u64::from(compression != 0) << 3).to_be_bytes());
        bytes[100..104].copy_from_slice(&112_u32.to_be_bytes());
        bytes[104] = compression;
    }
    let mut l1 = (1024_u64 | 1 << 63).to_be_bytes().to_vec();
    l1.resize(512, 0);
    let mut table: Vec<u8> = l2.iter().flat_map(|entry| entry.to_be_bytes()).collect();
    table.resize(512, 0);
    bytes.extend(l1);
    bytes.extend(table);
    for cluster in clusters {
        bytes.extend(*cluster);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let data = [0xa5; 512];
    let plain = 1536 | 1 << 63;
    let compressed = 1536 | 1 << 62;
    let deflated = {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &data).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::encode_all(&data[..], 1).unwrap();
    let good = image(3, 2048, &[plain, 0, 1, plain], &[&data], 0);
    let with = |at: usize, value: &[u8]| {
        let mut image = good.clone();
        image[at..at + value.len()].copy_from_slice(value);
        image
    };
    vec![
        Vec::new(),
        image(2, 1000, &[plain, 0], &[&data], 0),
        image(3, 1024, &[compressed, 0], &[&deflated], 0),
        image(3, 1024, &[compressed, compressed], &[&zstd], 1),
        // A backing file, encryption, an external data file, extended L2, an unknown feature.
        with(8, &200_u64.to_be_bytes()),
        with(32, &1_u32.to_be_bytes()),
        with(72, &4_u64.to_be_bytes()),
        with(72, &16_u64.to_be_bytes()),
        with(72, &(1_u64 << 40).to_be_bytes()),
        // Loops: the L1 table as its own L2 table, a cluster in a table, a cluster in the header.
        with(512, &512_u64.to_be_bytes()),
        with(1024, &1024_u64.to_be_bytes()),
        with(1024, &512_u64.to_be_bytes()),
        // Absurd sizes: of the disk, of the L1 table, of a cluster; a table and a cluster past the end.
        with(24, &u64::MAX.to_be_bytes()),
        with(36, &u32::MAX.to_be_bytes()),
        with(20, &63_u32.to_be_bytes()),
        with(512, &(1_u64 << 55).to_be_bytes()),
        with(1024, &(1_u64 << 50).to_be_bytes()),
        good[..1100].to_vec(),
        b"<html>404 not found</html>".to_vec(),
        good,
    ]
}
