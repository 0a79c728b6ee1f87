//! What some bytes are, by their content alone: names and declared formats can lie. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Enough of the start of a file to tell: the farthest magic bytes are ISO 9660's at 32769.
pub const HEAD_BYTES: usize = 64 << 10;

/// Formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportFormat {
    Raw,
    Gzip,
    Xz,
    Zstd,
    Qcow2,
}

impl fmt::Display for ImportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImportFormat::Raw => "raw",
            ImportFormat::Gzip => "gzip",
            ImportFormat::Xz => "xz",
            ImportFormat::Zstd => "zstd",
            ImportFormat::Qcow2 => "qcow2",
        })
    }
}

/// Something that is known, and known not to be an image that can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    #[error("it is empty")]
    Empty,
    #[error("it is {0}; publish the image as raw (also gzip, xz or zstd) or qcow2")]
    Known(&'static str),
    /// The content is not shown: an address may lead to anything that the appliance reaches.
    #[error("it is a text, perhaps an error page of the server; publish the image as raw or qcow2")]
    Text,
}

/// Magic bytes of things that people mistake for disk images, or that hide as one.
const FOREIGN: &[(usize, &[u8], &str)] = &[
    (0, b"KDMV", "a VMDK image"),
    (0, b"COWD", "a VMDK image"),
    (0, b"# Disk DescriptorFile", "the descriptor of a VMDK image"),
    (0, b"conectix", "a VHD image"),
    (0, b"vhdxfile", "a VHDX image"),
    (64, &[0x7f, 0x10, 0xda, 0xbe], "a VDI image"),
    (0, b"QED\0", "a QED image"),
    (0, b"WithoutFreeSpace", "a Parallels image"),
    (0, b"WithouFreSpacExt", "a Parallels image"),
    (0, b"BZh", "compressed with bzip2"),
    (0, b"LZIP", "compressed with lzip"),
    (0, &[0x04, 0x22, 0x4d, 0x18], "compressed with lz4"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (0, b"070701", "a cpio archive"),
    (0, b"070702", "a cpio archive"),
    (0, b"070707", "a cpio archive"),
    (0x202, b"HdrS", "a Linux kernel"),
    (0, b"\x7fELF", "a program"),
    (0, b"hsqs", "a squashfs filesystem"),
    (0, b"LUKS\xba\xbe", "an encrypted LUKS container"),
    (0, &[0x3a, 0xff, 0x26, 0xed], "an Android sparse image"),
];

/// The format of a file that starts with these bytes; give [`HEAD_BYTES`] of them where there are
/// so many.
pub fn detect(head: &[u8]) -> Result<ImportFormat, Unsupported> {
    let holds = |offset: usize, magic: &[u8]| head.get(offset..offset + magic.len()) == Some(magic);
    if head.is_empty() {
        return Err(Unsupported::Empty);
    }
    if holds(0, b"QFI\xfb") {
        return Ok(ImportFormat::Qcow2);
    }
    if holds(0, &[0x1f, 0x8b]) {
        return Ok(ImportFormat::Gzip);
    }
    if holds(0, b"\xfd7zXZ\0") {
        return Ok(ImportFormat::Xz);
    }
    // Also a stream that starts with a skippable frame (RFC 8878 section 3.1.2).
    if holds(0, &[0x28, 0xb5, 0x2f, 0xfd]) || (holds(1, &[0x2a, 0x4d, 0x18]) && head[0] & 0xf0 == 0x50) {
        return Ok(ImportFormat::Zstd);
    }
    if let Some((_, _, what)) = FOREIGN.iter().find(|(offset, magic, _)| holds(*offset, magic)) {
        return Err(Unsupported::Known(what));
    }
    // Hybrid ISO images carry boot code too, but are installers, not installed systems.
    if holds(32769, b"CD001") {
        return Err(Unsupported::Known("an ISO 9660 image"));
    }
    if is_text(head) {
        return Err(Unsupported::Text);
    }
    Ok(ImportFormat::Raw)
}

/// Whether it begins with printable characters only.
fn is_text(head: &[u8]) -> bool {
    let start = &head[..head.len().min(512)];
    start.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_what_it_is() {
        assert_eq!(detect(b""), Err(Unsupported::Empty));
        assert_eq!(detect(b"QFI\xfb\0\0\0\x03"), Ok(ImportFormat::Qcow2));
        assert_eq!(detect(&[0x1f, 0x8b, 8, 0]), Ok(ImportFormat::Gzip));
        assert_eq!(detect(b"\xfd7zXZ\0\0"), Ok(ImportFormat::Xz));
        assert_eq!(detect(&[0x28, 0xb5, 0x2f, 0xfd]), Ok(ImportFormat::Zstd));
        assert_eq!(detect(&[0x5a, 0x2a, 0x4d, 0x18, 0]), Ok(ImportFormat::Zstd));
        assert_eq!(detect(&[0; 4096]), Ok(ImportFormat::Raw));
        assert_eq!(detect(b"KDMV\x01"), Err(Unsupported::Known("a VMDK image")));
        assert_eq!(detect(b"vhdxfile"), Err(Unsupported::Known("a VHDX image")));
        let mut vdi = vec![0; 512];
        vdi[64..68].copy_from_slice(&[0x7f, 0x10, 0xda, 0xbe]);
        assert_eq!(detect(&vdi), Err(Unsupported::Known("a VDI image")));
        let mut iso = vec![0; HEAD_BYTES];
        iso[32769..32774].copy_from_slice(b"CD001");
        assert_eq!(detect(&iso), Err(Unsupported::Known("an ISO 9660 image")));
        assert_eq!(detect(b"<html><title>404 Not Found"), Err(Unsupported::Text));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            drop(detect(&bytes));
        }
    }
}
