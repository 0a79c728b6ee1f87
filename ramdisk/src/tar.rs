//! Reads the regular files of a tar stream, as far as Debian packages use the format.
//!
//! `dpkg-deb` writes GNU tar: plain headers, and `L` entries before names longer than 100 bytes.
//! Links, devices and folders are passed over.

use std::cell::Cell;
use std::io::{self, Read};

use tar::Archive;

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
    let (at_end, has_failed) = (Cell::new(false), Cell::new(false));
    let failed = |error: io::Error| match error.kind() {
        _ if at_end.get() => TarError::Read(io::ErrorKind::UnexpectedEof.into()),
        _ if has_failed.get() => TarError::Read(error),
        // So the reader of archives calls what it does not like.
        io::ErrorKind::Other => TarError::Header,
        _ => TarError::Read(error),
    };
    let mut archive = Archive::new(Watched { reader, at_end: &at_end, has_failed: &has_failed });
    let mut long_name: Option<String> = None;
    // Raw, for its own reading of long names is not bounded.
    for entry in archive.entries().map_err(failed)?.raw(true) {
        let mut entry = entry.map_err(failed)?;
        let (kind, bytes) = (entry.header().entry_type(), entry.size());
        if kind.is_gnu_longname() {
            if bytes > NAME_BYTES_MAX {
                return Err(TarError::Header);
            }
            long_name = Some(text(&read_content(&mut entry, bytes)?));
        } else if kind.is_file() {
            let name = long_name.take().unwrap_or_else(|| text(&entry.header().path_bytes()));
            let name = name.trim_start_matches("./");
            if wanted(name) {
                if bytes > FILE_BYTES_MAX {
                    return Err(TarError::TooLarge { name: name.to_owned(), bytes });
                }
                take(name, read_content(&mut entry, bytes)?);
            }
        } else if !kind.is_gnu_longlink() {
            // A long link target belongs to the entry after it, which keeps its own name.
            long_name = None;
        }
    }
    // An archive ends with blocks of zeroes, and not with its bytes.
    if at_end.get() { Err(TarError::Read(io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

/// Reads any bytes as an archive; must neither panic nor loop.
pub fn check(mut bytes: &[u8]) {
    // The outcome does not matter here: only that there is one.
    drop(for_each_file(&mut bytes, &mut |_| true, &mut |_, _| {}));
}

/// Notes where the bytes end, and whether reading them failed.
struct Watched<'a> {
    reader: &'a mut dyn Read,
    at_end: &'a Cell<bool>,
    has_failed: &'a Cell<bool>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.read(buffer).inspect_err(|_| self.has_failed.set(true))?;
        self.at_end.set(bytes == 0 && !buffer.is_empty());
        Ok(bytes)
    }
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn read_content(reader: &mut dyn Read, bytes: u64) -> Result<Vec<u8>, TarError> {
    // Not a buffer of the stated size: a damaged size must not reserve memory.
    let mut content = Vec::new();
    reader.read_to_end(&mut content).map_err(TarError::Read)?;
    if content.len() as u64 == bytes { Ok(content) } else { Err(TarError::Read(io::ErrorKind::UnexpectedEof.into())) }
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
