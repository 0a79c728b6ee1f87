//! What the start of a raw image looks like, if not like a disk. Pure.
//!
//! These are no formats with magic bytes of their own (the parent's [`detect`](crate::import::detect) names those), so an
//! owner's word counts for more: a declared format says that it is a disk.

use std::fmt;

use crate::write::{gpt, signature};

/// What is not a disk, as far as its bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookalike {
    Lzma,
    Tar,
    /// A VHD image of fixed size: the disk, and a footer at this byte.
    VhdFooter {
        at_bytes: u64,
    },
    /// The number of zeros at its start.
    Zeros {
        bytes: u64,
    },
    OddLength {
        bytes: u64,
    },
    /// Nothing is known in so many bytes at its start.
    Unknown {
        bytes: u64,
    },
}

impl fmt::Display for Lookalike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lzma => f.write_str("the image looks like an .lzma file (the form before xz) by its first 14 bytes"),
            Self::Tar => f.write_str("the image looks like a tar archive by the checksum in its first 512 bytes"),
            Self::VhdFooter { at_bytes } => {
                write!(f, "the image looks like a VHD image of fixed size: it has a footer at byte {at_bytes}")
            }
            Self::Zeros { bytes } => {
                write!(f, "the image looks empty: its first {bytes} bytes are zeros, so nothing could boot from it")
            }
            Self::OddLength { bytes } => {
                write!(
                    f,
                    "the image has {bytes} bytes, which are not whole sectors of 512 bytes: its end may be missing"
                )
            }
            Self::Unknown { bytes } => write!(
                f,
                "the image does not look like a disk: its first {bytes} bytes hold no partition table, boot sector or \
                 filesystem that is known"
            ),
        }
    }
}

impl Lookalike {
    /// What a person can do about it.
    pub(super) fn help(self) -> &'static str {
        match self {
            Self::Lzma => {
                "unpack it (`xz --format=lzma -d FILE.lzma`) and publish it raw, or packed with xz or zstd; if it is a disk \
                 all the same, declare the format: `--format raw`, or `format: raw` in a host's spec.image"
            }
            Self::Tar => {
                "unpack it and publish the disk image that is in it; if it is a disk all the same, declare the format: \
                 `--format raw`, or `format: raw` in a host's spec.image"
            }
            Self::VhdFooter { .. } => {
                "convert it (`qemu-img convert -f vpc -O raw FILE.vhd FILE.raw`); if the footer may be written too, declare \
                 the format: `--format raw`, or `format: raw` in a host's spec.image"
            }
            Self::Zeros { .. } | Self::OddLength { .. } | Self::Unknown { .. } => {
                "see that the address leads to a disk image and that all of it was published; if it does, declare the \
                 format: `--format raw` (or qcow2), or `format: raw` in a host's spec.image"
            }
        }
    }
}

/// What an image looks like that starts with these bytes. `None`: like a disk.
pub(super) fn lookalike(head: &[u8]) -> Option<Lookalike> {
    let bytes = head.len() as u64;
    if is_tar(head) {
        Some(Lookalike::Tar)
    } else if is_lzma(head) {
        Some(Lookalike::Lzma)
    } else if is_disk(head) {
        None
    } else if head.iter().all(|byte| *byte == 0) {
        Some(Lookalike::Zeros { bytes })
    } else {
        Some(Lookalike::Unknown { bytes })
    }
}

/// The footer of a fixed VHD image, which is its last 512 bytes, or 511 where Virtual PC before 2004 wrote it.
pub(super) fn vhd_footer(tail: &[u8], image_bytes: u64) -> Option<Lookalike> {
    let footer_bytes = [512, 511]
        .into_iter()
        .find(|bytes| tail.len().checked_sub(*bytes).is_some_and(|start| tail[start..].starts_with(b"conectix")))?;
    Some(Lookalike::VhdFooter { at_bytes: image_bytes.saturating_sub(footer_bytes as u64) })
}

/// A GPT, a boot sector (with a classic table or without), or a filesystem, volume or container.
fn is_disk(head: &[u8]) -> bool {
    gpt::block_bytes_of(head).is_some()
        || head.get(510..512) == Some(&[0x55, 0xaa])
        || !signature::in_start(head).is_empty()
}

/// A header of tar of any age: its checksum is the sum of its bytes, with blanks in the place of the checksum. Old ones
/// counted with signed bytes.
fn is_tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512).filter(|header| header[0] != 0) else { return false };
    let digits: Vec<u8> = header[148..156]
        .iter()
        .copied()
        .skip_while(|byte| *byte == b' ')
        .take_while(|byte| (b'0'..=b'7').contains(byte))
        .collect();
    if digits.is_empty() {
        return false;
    }
    let stated = digits.iter().fold(0_i64, |sum, digit| sum * 8 + i64::from(digit - b'0'));
    let with_blanks =
        || header.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
    stated == with_blanks().map(i64::from).sum::<i64>()
        || stated == with_blanks().map(|byte| i64::from(byte.cast_signed())).sum::<i64>()
}

/// The header of 13 bytes, which has no magic: properties, a dictionary of 2^n or 2^n + 2^(n-1) bytes, a length or its
/// absence; and the first byte of its data, which is always 0. The same bounds as those of xz.
fn is_lzma(head: &[u8]) -> bool {
    const LENGTH_BYTES_MAX: u64 = 1 << 38;
    let (Some(properties), Some(dictionary), Some(length), Some(0)) =
        (head.first(), number(head, 1..5), number(head, 5..13), head.get(13))
    else {
        return false;
    };
    let is_usual = dictionary >= 1 << 12
        && (dictionary.is_power_of_two()
            || dictionary.is_multiple_of(3) && (dictionary / 3).is_power_of_two()
            || dictionary == u64::from(u32::MAX));
    *properties < 9 * 5 * 5 && is_usual && (length == u64::MAX || length < LENGTH_BYTES_MAX)
}

/// The lowest byte comes first.
fn number(bytes: &[u8], range: std::ops::Range<usize>) -> Option<u64> {
    Some(bytes.get(range)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// A header with a checksum, from the time before there was a magic.
    fn tar_header(checksum: &dyn Fn(&[u8]) -> i64) -> Vec<u8> {
        let mut header = vec![0; 1024];
        header[..8].copy_from_slice("dîsk.raw".as_bytes().get(..8).unwrap());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(b"00000001000");
        header[148..156].fill(b' ');
        let sum = format!("{:06o}\0 ", checksum(&header[..512]));
        header[148..156].copy_from_slice(sum.as_bytes());
        header
    }

    #[test]
    fn tar_of_any_age_is_known_by_its_checksum() {
        let unsigned = tar_header(&|header: &[u8]| header.iter().map(|byte| i64::from(*byte)).sum());
        assert_eq!(lookalike(&unsigned), Some(Lookalike::Tar));
        let signed = tar_header(&|header: &[u8]| header.iter().map(|byte| i64::from(byte.cast_signed())).sum());
        assert_eq!(lookalike(&signed), Some(Lookalike::Tar));
        assert_ne!(unsigned, signed, "a name with a byte above 127");
        let mut other = unsigned.clone();
        other[0] += 1;
        assert_eq!(lookalike(&other), Some(Lookalike::Unknown { bytes: 1024 }));
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.set_cksum();
        builder.append_data(&mut header, "disk.raw", &b"disk"[..]).unwrap();
        assert_eq!(lookalike(&builder.into_inner().unwrap()), Some(Lookalike::Tar));
    }

    #[test]
    fn lzma_is_known_by_its_header() {
        let options = liblzma::stream::LzmaOptions::new_preset(6).unwrap();
        let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(&[7; 4096]).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(lookalike(&packed), Some(Lookalike::Lzma));
        // The header of the shared case.
        let case = [0x5d, 0, 0, 0x80, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x6f, 0xfd];
        assert_eq!(lookalike(&case), Some(Lookalike::Lzma));
        for (at, value) in [(0, 225), (1, 1), (12, 0x7f), (13, 1)] {
            let mut other = case;
            other[at] = value;
            assert_eq!(lookalike(&other), Some(Lookalike::Unknown { bytes: 16 }), "{at}");
        }
    }

    #[test]
    fn tables_boot_sectors_and_filesystems_are_disks() {
        let with = |at: usize, bytes: &[u8]| {
            let mut head = vec![0; 128 << 10];
            head[at..at + bytes.len()].copy_from_slice(bytes);
            head
        };
        for (name, head) in [
            ("GPT", with(512, b"EFI PART")),
            ("GPT of large blocks", with(4096, b"EFI PART")),
            ("boot sector", with(510, &[0x55, 0xaa])),
            ("ext4", with(0x438, &[0x53, 0xef])),
            ("xfs", with(0, b"XFSB")),
            ("btrfs", with(0x1_0040, b"_BHRfS_M")),
            ("vfat", with(82, b"FAT32   ")),
        ] {
            assert_eq!(lookalike(&head), None, "{name}");
        }
        assert_eq!(lookalike(&[0; 4096]), Some(Lookalike::Zeros { bytes: 4096 }));
        assert_eq!(lookalike(&with(5000, &[1])), Some(Lookalike::Unknown { bytes: 128 << 10 }));
    }

    #[test]
    fn the_footer_of_a_vhd_is_found_in_both_lengths() {
        let mut tail = vec![0; 512];
        tail[..8].copy_from_slice(b"conectix");
        assert_eq!(vhd_footer(&tail, 1536), Some(Lookalike::VhdFooter { at_bytes: 1024 }));
        tail.rotate_right(1);
        assert_eq!(vhd_footer(&tail, 1535), Some(Lookalike::VhdFooter { at_bytes: 1024 }));
        tail.rotate_right(1);
        assert_eq!(vhd_footer(&tail, 1536), None);
        assert_eq!(vhd_footer(b"conectix", 8), None, "shorter than a footer");
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..1100), at in 0_usize..600) {
            std::hint::black_box(lookalike(&bytes));
            std::hint::black_box(vhd_footer(&bytes, at as u64));
        }
    }
}
