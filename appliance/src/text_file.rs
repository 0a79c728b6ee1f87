//! Reads files that people write, up to a limit: a path may be that of a disk.

use std::{io::Read, path::Path};

use anyhow::Context as _;

/// The limit of a text file: settings, kubeconfigs and single objects have a few kilobytes.
pub const TEXT_FILE_BYTES_MAX: usize = 1 << 20;

/// Reads a whole file as text.
///
/// # Errors
/// When it cannot be read, is not text, or has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: usize) -> anyhow::Result<String> {
    std::fs::File::open(path)
        .map_err(anyhow::Error::from)
        .and_then(|file| read_from(file, bytes_max))
        .with_context(|| format!("could not read {}", path.display()))
}

/// Reads all of `source` as text.
///
/// # Errors
/// As [`read`].
pub fn read_from(source: impl Read, bytes_max: usize) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    source.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.len() <= bytes_max, "it has more than {bytes_max} bytes, the limit of such a file");
    String::from_utf8(bytes).context("it is not text in UTF-8")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_never_ends_is_refused_and_what_fits_is_read() {
        let mut long = std::io::repeat(b'x').take(64 << 20);
        assert!(read_from(&mut long, TEXT_FILE_BYTES_MAX).is_err());
        assert_eq!(long.limit(), (64 << 20) - (TEXT_FILE_BYTES_MAX as u64 + 1), "one byte too many tells enough");
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 << 20).unwrap();
        let error = format!("{:#}", read(file.path(), TEXT_FILE_BYTES_MAX).unwrap_err());
        assert!(error.contains(file.path().to_str().unwrap()) && error.contains("1048576"), "{error}");
        assert_eq!(read_from(&b"four"[..], 4).unwrap(), "four");
        assert!(read_from(&b"fives"[..], 4).is_err() && read_from(&[0xff][..], 4).is_err());
    }
}
