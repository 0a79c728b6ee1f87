//! Compressed images and checksum files as they are downloaded.

use std::io::{self, Read};

use firesteel_images::import::format::ImportFormat;
use firesteel_images::import::read::expand;
use firesteel_images::import::{Checksum, checksum};

/// More is not expanded of one input: a bomb of kilobytes holds gigabytes.
const EXPANDED_BYTES_MAX: u64 = 1 << 20;

pub(super) fn check(input: &[u8]) {
    for format in [ImportFormat::Gzip, ImportFormat::Xz, ImportFormat::Zstd] {
        let whole = expanded(format, input);
        let cut = input.split_last().map(|(_, cut)| expanded(format, cut));
        if let (Some(whole), Some(Some(cut))) = (&whole, &cut)
            && (whole.len() as u64) < EXPANDED_BYTES_MAX
        {
            // Members and frames in a row are one stream, so a stream may end where a member does; otherwise a cut
            // stream is an error, never a shorter image.
            assert!(whole == cut || cut.is_empty() || whole.starts_with(cut), "{format}: a cut changed bytes");
        }
        if format == ImportFormat::Gzip && !input.is_empty() && whole.is_some() {
            assert_eq!(input[..2], [0x1f, 0x8b]);
        }
    }
    checksum::check(input);
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(found) = Checksum::find(text, "disk.raw", "auto")
    {
        assert_eq!(Checksum::find(text, "disk.raw", "auto").ok(), Some(found), "the same line again");
    }
}

/// `None`: it was refused.
fn expanded(format: ImportFormat, input: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    expand(format, input).and_then(|reader| reader.take(EXPANDED_BYTES_MAX).read_to_end(&mut out)).ok()?;
    Some(out)
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new().filename("disk.raw").write(Vec::new(), flate2::Compression::best());
    io::Write::write_all(&mut encoder, data).unwrap();
    encoder.finish().unwrap()
}

fn xz(data: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    io::Write::write_all(&mut encoder, data).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let data: Vec<u8> = (0..2000_u32).map(|n| u8::try_from(n % 7 * 31).unwrap()).collect();
    let zstd = zstd::encode_all(&data[..], 3).unwrap();
    let digits = "ab".repeat(32);
    vec![
        gzip(&data),
        [gzip(b"one"), gzip(b"two")].concat(),
        gzip(&vec![0; 4 << 20]),
        xz(&data),
        [xz(b"one"), xz(b"two")].concat(),
        [&zstd[..], &[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9], &zstd].concat(),
        zstd[..zstd.len() - 1].to_vec(),
        format!("{digits}  disk.raw\n{digits} *other.raw\n").into_bytes(),
        format!("SHA256 (disk.raw) = {digits}\n").into_bytes(),
        digits.into_bytes(),
    ]
}
