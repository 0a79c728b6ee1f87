//! What a decoder needs to expand a file, as the file's own header says: read before the first byte is expanded. Pure.
//!
//! xz and zstd remember what they gave last, in a dictionary or window whose size the file states. A file of kilobytes
//! can state gigabytes. The libraries hold each block and frame against the same bound; here the first one is read, so
//! that the error names the number.

use std::{fmt, io};

use super::format::ImportFormat;

/// The longest dictionary or window: what `xz -9` (64 MiB), `zstd -22` and `zstd --long` (128 MiB) ask for.
pub(crate) const HISTORY_BYTES_MAX: u64 = 128 << 20;
/// The longest history, as a power of two.
pub(crate) const HISTORY_LOG_MAX: u32 = HISTORY_BYTES_MAX.trailing_zeros();
/// What a decoder takes in all.
pub(crate) const DECODER_BYTES_MAX: usize = 130 << 20;
const _: () = assert!(DECODER_BYTES_MAX as u64 > HISTORY_BYTES_MAX);

/// The file asks for a longer dictionary or window than it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryTooLong {
    pub format: ImportFormat,
    /// The bytes that the first block or frame asks for; `None` where another one asks.
    pub asked_bytes: Option<u64>,
}

impl fmt::Display for HistoryTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.format == ImportFormat::Zstd { "window" } else { "dictionary" };
        match self.asked_bytes {
            Some(bytes) => write!(f, "its {} {what} has {bytes} bytes", self.format)?,
            None => write!(f, "a later {} {what} of it is too long", self.format)?,
        }
        write!(f, "; at most {HISTORY_BYTES_MAX} bytes are used to expand an image")
    }
}

impl std::error::Error for HistoryTooLong {}

impl HistoryTooLong {
    /// How to make the file again so that it can be used.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self.format {
            ImportFormat::Zstd => "pack it with a shorter window: `zstd -d --long=31 FILE.zst`, then `zstd -19 FILE`",
            ImportFormat::Raw | ImportFormat::Gzip | ImportFormat::Xz | ImportFormat::Qcow2 => {
                "pack it with a shorter dictionary: `xz -d FILE.xz`, then `xz -9 FILE`"
            }
        }
    }
}

/// What the first block or frame of a file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderPromise {
    pub(crate) history_bytes: u64,
    /// Bytes that it expands to, where it says so; others may follow.
    pub(crate) expanded_bytes: Option<u64>,
}

/// Reads it from the first bytes. `None`: they do not say it, and whether they are right is the decoder's to tell.
pub(crate) fn promise(format: ImportFormat, head: &[u8]) -> Option<HeaderPromise> {
    match format {
        ImportFormat::Xz => xz(head),
        ImportFormat::Zstd => zstd(head),
        ImportFormat::Raw | ImportFormat::Gzip | ImportFormat::Qcow2 => None,
    }
}

/// Refuses a file whose first block or frame needs too much.
pub(crate) fn check(format: ImportFormat, head: &[u8]) -> Result<(), HistoryTooLong> {
    match promise(format, head) {
        Some(HeaderPromise { history_bytes, .. }) if history_bytes > HISTORY_BYTES_MAX => {
            Err(HistoryTooLong { format, asked_bytes: Some(history_bytes) })
        }
        Some(_) | None => Ok(()),
    }
}

/// Gives a decoder's error its name, where a later block or frame needed too much.
pub(crate) fn name(format: ImportFormat, error: io::Error) -> io::Error {
    let cause = error.get_ref().map(|cause| (cause.downcast_ref::<liblzma::stream::Error>(), cause.to_string()));
    let is_history = match (format, cause) {
        (ImportFormat::Xz, Some((cause, _))) => cause == Some(&liblzma::stream::Error::MemLimit),
        // The library gives its errors as texts.
        (ImportFormat::Zstd, Some((_, text))) => text == "Frame requires too much memory for decoding",
        (ImportFormat::Raw | ImportFormat::Gzip | ImportFormat::Xz | ImportFormat::Zstd | ImportFormat::Qcow2, _) => {
            false
        }
    };
    if is_history { io::Error::other(HistoryTooLong { format, asked_bytes: None }) } else { error }
}

/// Reads the block header (xz-file-format 1.2.1, section 3.1), behind the stream header of 12 bytes.
fn xz(head: &[u8]) -> Option<HeaderPromise> {
    const STREAM_HEADER_BYTES: usize = 12;
    const LZMA2: u64 = 0x21;
    let block = head.get(STREAM_HEADER_BYTES..)?;
    let size = usize::from(*block.first()?);
    // The index of a stream without blocks begins with a zero.
    let mut block = block.get(..(size + 1) * 4).filter(|_| size > 0)?.get(1..)?;
    let (flags, rest) = block.split_first()?;
    block = rest;
    if flags & 0x40 != 0 {
        variable(&mut block)?;
    }
    let expanded_bytes = if flags & 0x80 != 0 { Some(variable(&mut block)?) } else { None };
    for _ in 0..=(flags & 3) {
        let id = variable(&mut block)?;
        let length = usize::try_from(variable(&mut block)?).ok()?;
        let (properties, rest) = block.split_at_checked(length)?;
        block = rest;
        if id == LZMA2 {
            return Some(HeaderPromise { history_bytes: lzma2_dictionary(*properties.first()?)?, expanded_bytes });
        }
    }
    None
}

/// Section 5.3.1.
fn lzma2_dictionary(bits: u8) -> Option<u64> {
    match bits {
        0..=39 => Some((2 | u64::from(bits & 1)) << (bits / 2 + 11)),
        40 => Some(u64::from(u32::MAX)),
        _ => None,
    }
}

/// Section 1.2: seven bits each, the lowest first.
fn variable(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// RFC 8878, section 3.1: skippable frames, then the header of the first frame.
fn zstd(mut head: &[u8]) -> Option<HeaderPromise> {
    loop {
        let magic = u32::from_le_bytes(head.first_chunk().copied()?);
        head = head.get(4..)?;
        if magic & 0xffff_fff0 == 0x184d_2a50 {
            let length = usize::try_from(u32::from_le_bytes(head.first_chunk().copied()?)).ok()?;
            head = head.get(4..)?.get(length..)?;
        } else if magic == 0xfd2f_b528 {
            return zstd_frame(head);
        } else {
            return None;
        }
    }
}

/// Section 3.1.1.1.
fn zstd_frame(header: &[u8]) -> Option<HeaderPromise> {
    let (descriptor, mut rest) = header.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    let mut window = None;
    if !is_single {
        let (byte, more) = rest.split_first()?;
        let base = 1_u64 << (10 + (byte >> 3));
        window = Some(base + base / 8 * u64::from(byte & 7));
        rest = more;
    }
    rest = rest.get([0, 1, 2, 4][usize::from(descriptor & 3)]..)?;
    let expanded_bytes = match descriptor >> 6 {
        0 if is_single => Some(u64::from(*rest.first()?)),
        0 => None,
        1 => Some(u64::from(u16::from_le_bytes(rest.first_chunk().copied()?)) + 256),
        2 => Some(u64::from(u32::from_le_bytes(rest.first_chunk().copied()?))),
        _ => Some(u64::from_le_bytes(rest.first_chunk().copied()?)),
    };
    // A single segment is its own window.
    Some(HeaderPromise { history_bytes: window.or(expanded_bytes)?, expanded_bytes })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn xz_of(data: &[u8], preset: u32) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), preset);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_dictionary_of_xz_is_read_from_the_first_block() {
        for (preset, mib) in [(1, 1), (6, 8), (9, 64)] {
            let promise = promise(ImportFormat::Xz, &xz_of(b"data", preset)).unwrap();
            assert_eq!(promise.history_bytes, mib << 20, "preset {preset}");
        }
        assert_eq!(promise(ImportFormat::Xz, &xz_of(b"", 6)), None, "a stream without blocks");
        assert_eq!(lzma2_dictionary(30), Some(HISTORY_BYTES_MAX));
        assert_eq!(lzma2_dictionary(31), Some(192 << 20));
        assert_eq!((lzma2_dictionary(40), lzma2_dictionary(41)), (Some(u64::from(u32::MAX)), None));
        // Sizes and a filter before that of the dictionary, as `xz --x86 -T2` writes them.
        let mut head = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46".to_vec();
        head.extend([4, 0xc1, 0x85, 0x02, 0x80, 0x80, 0x40, 0x04, 0x00, 0x21, 0x01, 0x1f]);
        head.resize(12 + 20, 0);
        let wanted = HeaderPromise { history_bytes: 192 << 20, expanded_bytes: Some(1 << 20) };
        assert_eq!(promise(ImportFormat::Xz, &head), Some(wanted));
        assert!(check(ImportFormat::Xz, &head).unwrap_err().to_string().contains("201326592 bytes"));
        assert_eq!(promise(ImportFormat::Xz, &head[..30]), None, "cut");
    }

    #[test]
    fn the_window_of_zstd_is_read_from_the_first_frame() {
        // The header of shared cases: a window of 2^28, no length.
        let long = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (28 - 10) << 3];
        let error = check(ImportFormat::Zstd, &long).unwrap_err();
        assert_eq!(error.asked_bytes, Some(1 << 28));
        assert!(error.to_string().contains("its zstd window has 268435456 bytes"), "{error}");
        assert!(error.help().contains("zstd -19"), "{}", error.help());
        let most = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3];
        assert_eq!(promise(ImportFormat::Zstd, &most).unwrap().history_bytes, HISTORY_BYTES_MAX);
        assert_eq!(check(ImportFormat::Zstd, &most), Ok(()));
        // One eighth of it more.
        assert!(check(ImportFormat::Zstd, &[0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3 | 1]).is_err());
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &long].concat();
        assert_eq!(check(ImportFormat::Zstd, &skipped), Err(error));
        // A single segment with its length in eight bytes.
        let mut single = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        single.extend((1_u64 << 41).to_le_bytes());
        let wanted = HeaderPromise { history_bytes: 1 << 41, expanded_bytes: Some(1 << 41) };
        assert_eq!(promise(ImportFormat::Zstd, &single), Some(wanted));
        for level in [1, 3, 19] {
            let packed = zstd::bulk::compress(&[7; 1000], level).unwrap();
            assert_eq!(promise(ImportFormat::Zstd, &packed).unwrap().expanded_bytes, Some(1000), "level {level}");
        }
    }

    #[test]
    fn only_what_needs_too_much_is_called_so() {
        let named = |format, error| name(format, error).downcast::<HistoryTooLong>().is_ok();
        assert!(named(ImportFormat::Xz, liblzma::stream::Error::MemLimit.into()));
        assert!(!named(ImportFormat::Xz, liblzma::stream::Error::Data.into()));
        assert!(named(ImportFormat::Zstd, io::Error::other("Frame requires too much memory for decoding")));
        assert!(!named(ImportFormat::Zstd, io::Error::other("Data corruption detected")));
        assert!(!named(ImportFormat::Gzip, io::ErrorKind::UnexpectedEof.into()));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for format in [ImportFormat::Xz, ImportFormat::Zstd] {
                drop(check(format, &bytes));
            }
            drop(check(ImportFormat::Xz, &[&b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46"[..], &bytes].concat()));
            drop(check(ImportFormat::Zstd, &[&[0x28, 0xb5, 0x2f, 0xfd][..], &bytes].concat()));
        }
    }
}
