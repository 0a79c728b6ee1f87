//! The format of a backup file. The digest comes last, so the file can be written as a stream; a file that was cut off
//! lacks it.
//!
//! ```text
//! firesteel backup 1\n
//! {"store":…,"revision":…,"databaseBytes":N,…}\n
//! N bytes of database
//! \nend SHA256-OF-ALL-BEFORE\n
//! ```

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use jiff::Timestamp;
use ring::digest;
use serde::{Deserialize, Serialize};

/// How every backup begins; another number means that a newer program made it.
const MAGIC: &str = "firesteel backup ";
const VERSION: &str = "1";
/// The limit of the first line, which is longer than any that will be used.
const FIRST_LINE_BYTES_MAX: usize = 64;
/// The limit of the header, which has some twenty digests of keys.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// The length of `\nend `, 64 digits and `\n`.
pub const END_BYTES: usize = 5 + 64 + 1;
/// The database is read and written in pieces of this size.
pub const PIECE_BYTES: usize = 64 << 10;

/// The description of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupHeader {
    /// The store's own number, in hexadecimal.
    pub store: String,
    /// The epoch of the store; 1 before the first restore.
    pub epoch: usize,
    /// The timeline of this epoch, in hexadecimal.
    pub timeline: String,
    /// The backup holds all changes up to this revision, and no others.
    pub revision: u64,
    pub schema: i64,
    pub made_at: Timestamp,
    pub program: String,
    pub database_bytes: u64,
    /// The name and SHA-256 of each private key that belongs to these objects and is not in the backup.
    pub keys: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupFormatError {
    #[error("this is not a backup of a Firesteel appliance")]
    NotOurs,
    #[error("this backup has format {0}, this program knows {VERSION}: use a newer program")]
    Newer(String),
    #[error("the backup is cut off: {0} are missing at its end. It was not fetched completely; use another one")]
    CutOff(&'static str),
    #[error("the backup is damaged: its digest is {found}, not {stated}. Use another copy")]
    Altered { found: String, stated: String },
    #[error("the backup has something behind its end")]
    Behind,
    #[error("the backup's header cannot be read")]
    Header(#[source] serde_json::Error),
    #[error("could not read the backup")]
    Io(#[from] io::Error),
}

/// Returns the bytes that come before the database.
///
/// # Errors
/// Never, as far as known: the header has text and numbers only.
pub fn begin(header: &BackupHeader) -> serde_json::Result<Vec<u8>> {
    let mut bytes = format!("{MAGIC}{VERSION}\n").into_bytes();
    serde_json::to_writer(&mut bytes, header)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns the bytes that come after the database; `digest` covers everything before them.
#[must_use]
pub fn end(digest: &digest::Digest) -> Vec<u8> {
    format!("\nend {}\n", hex::encode(digest)).into_bytes()
}

#[must_use]
pub fn hasher() -> digest::Context {
    digest::Context::new(&digest::SHA256)
}

/// A backup that is being read.
pub struct BackupReader<R> {
    source: R,
    hasher: digest::Context,
    header: BackupHeader,
}

impl<R> std::fmt::Debug for BackupReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupReader").field("header", &self.header).finish_non_exhaustive()
    }
}

impl<R: Read> BackupReader<R> {
    /// Reads up to the database.
    ///
    /// # Errors
    /// When the file is not a backup, or a newer program made it.
    pub fn open(source: R) -> Result<Self, BackupFormatError> {
        let mut hasher = hasher();
        let mut source = source;
        let first = line(&mut source, &mut hasher, FIRST_LINE_BYTES_MAX)?.ok_or(BackupFormatError::NotOurs)?;
        let version = std::str::from_utf8(&first).ok().and_then(|first| first.strip_prefix(MAGIC));
        match version.ok_or(BackupFormatError::NotOurs)? {
            VERSION => {}
            newer => return Err(BackupFormatError::Newer(newer.chars().filter(|c| c.is_ascii_graphic()).collect())),
        }
        let header =
            line(&mut source, &mut hasher, HEADER_BYTES_MAX)?.ok_or(BackupFormatError::CutOff("header and objects"))?;
        let header = serde_json::from_slice(&header).map_err(BackupFormatError::Header)?;
        Ok(Self { source, hasher, header })
    }

    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// Copies the database out and verifies the digest. What was copied must not be used before this returns `Ok`.
    ///
    /// # Errors
    /// When the backup is cut off or altered, or `out` cannot be written.
    pub fn copy(
        mut self,
        out: &mut impl Write,
        mut copied: impl FnMut(u64),
    ) -> Result<BackupHeader, BackupFormatError> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = self.header.database_bytes;
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let read = self.source.read(&mut piece[..want])?;
            if read == 0 {
                return Err(BackupFormatError::CutOff("objects"));
            }
            self.hasher.update(&piece[..read]);
            out.write_all(&piece[..read])?;
            left -= read as u64;
            copied(self.header.database_bytes - left);
        }
        let mut tail = Vec::with_capacity(END_BYTES + 1);
        self.source.take(END_BYTES as u64 + 1).read_to_end(&mut tail)?;
        let found = end(&self.hasher.finish());
        if tail.len() < END_BYTES {
            return Err(BackupFormatError::CutOff("the last bytes"));
        }
        if tail[..END_BYTES] != found {
            let digits = |end: &[u8]| String::from_utf8_lossy(end).trim().replace("end ", "");
            let clean = |text: String| text.chars().filter(char::is_ascii_alphanumeric).collect();
            let stated = clean(digits(&tail[..END_BYTES]));
            return Err(BackupFormatError::Altered { found: digits(&found), stated });
        }
        if tail.len() > END_BYTES {
            return Err(BackupFormatError::Behind);
        }
        Ok(self.header)
    }
}

/// Reads the bytes up to the end of a line; `None` if the line is longer than the bound.
fn line(source: &mut impl Read, hasher: &mut digest::Context, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < bytes_max {
        if source.read(&mut byte)? == 0 {
            return Ok(None);
        }
        hasher.update(&byte);
        if byte[0] == b'\n' {
            return Ok(Some(line));
        }
        line.push(byte[0]);
    }
    Ok(None)
}

/// Entry for fuzzing: any bytes are read without a panic, and what is accepted is what was made.
pub fn check(bytes: &[u8]) {
    let Ok(reader) = BackupReader::open(bytes) else { return };
    let mut out = Vec::new();
    if let Ok(header) = reader.copy(&mut out, |_| {}) {
        assert_eq!(header.database_bytes, out.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn file(database: &[u8]) -> Vec<u8> {
        let header = BackupHeader {
            store: "00004d".into(),
            epoch: 1,
            revision: 7,
            database_bytes: database.len() as u64,
            ..BackupHeader::default()
        };
        let mut bytes = begin(&header).unwrap();
        bytes.extend(database);
        let digest = digest::digest(&digest::SHA256, &bytes);
        bytes.extend(end(&digest));
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(BackupHeader, Vec<u8>), BackupFormatError> {
        let mut out = Vec::new();
        let header = BackupReader::open(bytes)?.copy(&mut out, |_| {})?;
        Ok((header, out))
    }

    #[test]
    fn what_was_made_is_read() {
        let (header, database) = read(&file(b"objects")).unwrap();
        assert_eq!((header.revision, database.as_slice()), (7, &b"objects"[..]));
    }

    #[test]
    fn every_cut_is_known_as_one() {
        let whole = file(b"objects");
        for length in 20..whole.len() {
            let error = read(&whole[..length]).unwrap_err();
            assert!(matches!(error, BackupFormatError::CutOff(_)), "{length}: {error}");
        }
        assert!(matches!(read(&whole[..5]), Err(BackupFormatError::NotOurs)));
        assert!(matches!(read(&[whole.as_slice(), b"x"].concat()), Err(BackupFormatError::Behind)));
        assert!(matches!(read(b"firesteel backup 2\n{}\n"), Err(BackupFormatError::Newer(version)) if version == "2"));
    }

    proptest! {
        #[test]
        fn every_altered_byte_is_found(at in 0_usize..1000, with in 1_u8..) {
            let mut bytes = file(b"objects of some length");
            let at = at % bytes.len();
            bytes[at] ^= with;
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(0_u8.., 0..300)) {
            check(&bytes);
            check(&[b"firesteel backup 1\n{\"databaseBytes\":9}\n".as_slice(), &bytes].concat());
        }
    }
}
