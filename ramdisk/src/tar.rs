//! Reads the regular files of a tar stream, as far as Debian packages use the format.
//!
//! `dpkg-deb` writes GNU tar: plain headers, and `L` entries before names longer than 100 bytes.
//! Links, devices and folders are passed over.

use std::io::{self, Read};

const BLOCK_BYTES: usize = 512;
/// The largest single file of a package that is looked at (a kernel with debug data has 40 MB).
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Longer names than any filesystem takes are an attack or damage.
const NAME_BYTES_MAX: u64 = 4096;

/// What went wrong while reading a tar stream.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    #[error("reading the archive")]
    Read(#[source] io::Error),
    #[error("a header of the archive is damaged")]
    Header,
    #[error("{name} has {bytes} bytes, more than the {FILE_BYTES_MAX} that are accepted")]
    TooLarge { name: String, bytes: u64 },
}

/// Calls `take` with path and content of each regular file whose path `wanted` accepts.
pub fn for_each_file(
    reader: &mut dyn Read,
    wanted: &mut dyn FnMut(&str) -> bool,
    take: &mut dyn FnMut(&str, Vec<u8>),
) -> Result<(), TarError> {
    let mut long_name: Option<String> = None;
    loop {
        let mut header = [0; BLOCK_BYTES];
        reader.read_exact(&mut header).map_err(TarError::Read)?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        verify_checksum(&header)?;
        let bytes = octal(&header[124..136])?;
        match header[156] {
            b'L' => {
                if bytes > NAME_BYTES_MAX {
                    return Err(TarError::Header);
                }
                let name = read_content(reader, bytes)?;
                long_name = Some(text(&name));
            }
            b'0' | 0 => {
                let name = long_name.take().unwrap_or_else(|| short_name(&header));
                let name = name.trim_start_matches("./");
                if wanted(name) {
                    if bytes > FILE_BYTES_MAX {
                        return Err(TarError::TooLarge { name: name.to_owned(), bytes });
                    }
                    take(name, read_content(reader, bytes)?);
                } else {
                    skip_content(reader, bytes)?;
                }
            }
            // `K` is a long link target and belongs to the entry after it, which keeps its own name.
            b'K' => skip_content(reader, bytes)?,
            _ => {
                long_name = None;
                skip_content(reader, bytes)?;
            }
        }
    }
}

/// Reads any bytes as an archive; must neither panic nor loop.
pub fn check(mut bytes: &[u8]) {
    // The outcome does not matter here: only that there is one.
    drop(for_each_file(&mut bytes, &mut |_| true, &mut |_, _| {}));
}

fn verify_checksum(header: &[u8; BLOCK_BYTES]) -> Result<(), TarError> {
    let stated = octal(&header[148..156])?;
    let sum: u64 =
        header.iter().enumerate().map(|(i, byte)| if (148..156).contains(&i) { 32 } else { u64::from(*byte) }).sum();
    if sum == stated { Ok(()) } else { Err(TarError::Header) }
}

fn octal(field: &[u8]) -> Result<u64, TarError> {
    let digits = text(field);
    let digits = digits.trim_matches(' ');
    if digits.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(digits, 8).map_err(|_| TarError::Header)
}

fn short_name(header: &[u8; BLOCK_BYTES]) -> String {
    let name = text(&header[..100]);
    let is_posix = &header[257..263] == b"ustar\0";
    let prefix = if is_posix { text(&header[345..500]) } else { String::new() };
    if prefix.is_empty() { name } else { format!("{prefix}/{name}") }
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn read_content(reader: &mut dyn Read, bytes: u64) -> Result<Vec<u8>, TarError> {
    // `take` and not a buffer of the stated size: a damaged size must not reserve memory.
    let mut content = Vec::new();
    reader.take(bytes).read_to_end(&mut content).map_err(TarError::Read)?;
    if content.len() as u64 != bytes {
        return Err(TarError::Read(io::ErrorKind::UnexpectedEof.into()));
    }
    skip(reader, padding(bytes))?;
    Ok(content)
}

fn skip_content(reader: &mut dyn Read, bytes: u64) -> Result<(), TarError> {
    skip(reader, bytes)?;
    skip(reader, padding(bytes))
}

fn padding(bytes: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    (block - bytes % block) % block
}

fn skip(reader: &mut dyn Read, bytes: u64) -> Result<(), TarError> {
    let skipped = io::copy(&mut reader.take(bytes), &mut io::sink()).map_err(TarError::Read)?;
    if skipped == bytes { Ok(()) } else { Err(TarError::Read(io::ErrorKind::UnexpectedEof.into())) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    fn names(archive: &[u8]) -> Result<Vec<String>, TarError> {
        let mut seen = Vec::new();
        for_each_file(&mut &*archive, &mut |_| true, &mut |name, _| seen.push(name.to_owned()))?;
        Ok(seen)
    }

    #[test]
    fn long_names_belong_to_the_next_file_only() {
        let long = format!("./{}/module.ko", "folder/".repeat(30).trim_end_matches('/'));
        let archive = fixture::tar(&[(long.as_str(), b"x"), ("./short", b"yy")]);
        assert_eq!(names(&archive).unwrap(), [long.trim_start_matches("./"), "short"]);
    }

    #[test]
    fn a_flipped_bit_in_a_header_is_seen() {
        let mut archive = fixture::tar(&[("./a", b"x")]);
        archive[3] ^= 1;
        assert!(matches!(names(&archive), Err(TarError::Header)));
    }

    #[test]
    fn an_archive_that_ends_early_is_an_error() {
        let archive = fixture::tar(&[("./a", &[7; 2000])]);
        assert!(names(&archive[..1024]).is_err());
        assert!(names(&archive[..archive.len() - 1024]).is_err());
    }

    proptest! {
        #[test]
        fn survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            check(&bytes);
        }

        #[test]
        fn survives_damage(at in 0usize..2048, byte in any::<u8>()) {
            let mut archive = fixture::tar(&[("./a", b"x"), ("./b", &[1; 600])]);
            let at = at % archive.len();
            archive[at] = byte;
            check(&archive);
        }
    }
}
