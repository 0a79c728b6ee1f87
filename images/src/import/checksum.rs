//! Checksums as image publishers give them: a hexadecimal text, a file with one, or a file with
//! one line per image.

use std::fmt;

use firesteel_facts::{Sha256, shown_url};
use md5::Digest as _;

/// A checksum file names every artefact of a release; the largest seen is some 100 kB.
pub const FILE_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Md5,
    Sha256,
    Sha512,
}

impl Algorithm {
    fn digest_bytes(self) -> usize {
        match self {
            Algorithm::Md5 => 16,
            Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Md5 => "md5",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        })
    }
}

/// A checksum of the bytes as downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checksum {
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, hex::encode(&self.bytes))
    }
}

impl From<Sha256> for Checksum {
    fn from(digest: Sha256) -> Self {
        Self { algorithm: Algorithm::Sha256, bytes: digest.as_bytes().to_vec() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    #[error("{0:?} is no checksum type; use md5, sha256, sha512 or auto")]
    Type(String),
    #[error("{0:?} is no checksum: expected 32 (md5), 64 (sha256) or 128 (sha512) hexadecimal digits")]
    Text(String),
    /// The content is not shown: its address may lead to anything that the appliance reaches.
    #[error("the checksum file holds no checksum of 32 (md5), 64 (sha256) or 128 (sha512) hexadecimal digits")]
    File,
    #[error("the checksum has {found} hexadecimal digits, but {algorithm} has {expected}")]
    Length { algorithm: Algorithm, expected: usize, found: usize },
    #[error("the checksum file has no line for {name}")]
    NoLine { name: String },
    #[error("the checksum file has different checksums for {name}")]
    Ambiguous { name: String },
}

impl Checksum {
    /// Reads hexadecimal digits. `kind` is `md5`, `sha256`, `sha512`, or `auto` or nothing, which
    /// goes by the number of digits. A prefix as in `sha256:…` is understood too.
    pub fn parse(text: &str, kind: &str) -> Result<Self, ChecksumError> {
        let (prefix, digits) = match text.trim().split_once(':') {
            Some((prefix, digits)) => (Some(prefix), digits),
            None => (None, text.trim()),
        };
        let bytes = hex::decode(digits).map_err(|_| ChecksumError::Text(shorten(text)))?;
        let by_length = [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512]
            .into_iter()
            .find(|algorithm| algorithm.digest_bytes() == bytes.len());
        let mut algorithm = by_length;
        for name in [Some(kind), prefix].into_iter().flatten() {
            let named = match name.to_ascii_lowercase().as_str() {
                "" | "auto" => continue,
                "md5" => Algorithm::Md5,
                "sha256" => Algorithm::Sha256,
                "sha512" => Algorithm::Sha512,
                _ => return Err(ChecksumError::Type(shorten(name))),
            };
            if named.digest_bytes() != bytes.len() {
                let (expected, found) = (2 * named.digest_bytes(), digits.len());
                return Err(ChecksumError::Length { algorithm: named, expected, found });
            }
            algorithm = Some(named);
        }
        let algorithm = algorithm.ok_or_else(|| ChecksumError::Text(shorten(text)))?;
        Ok(Self { algorithm, bytes })
    }

    /// Finds the checksum of the file `name` in the text of a checksum file: a lone checksum, the
    /// lines of `sha256sum` and its kin, or BSD's `SHA256 (name) = …`.
    pub fn find(text: &str, name: &str, kind: &str) -> Result<Self, ChecksumError> {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut found: Option<Self> = None;
        for line in lines() {
            let Some((digits, file)) = split_line(line) else { continue };
            if file.rsplit('/').next() != Some(name) {
                continue;
            }
            // A file may list several algorithms; those of another type than wanted do not count.
            let Ok(checksum) = Self::parse(digits, kind) else { continue };
            match &found {
                Some(other) if other.algorithm == checksum.algorithm && *other != checksum => {
                    return Err(ChecksumError::Ambiguous { name: name.to_owned() });
                }
                Some(other) if other.algorithm.digest_bytes() >= checksum.algorithm.digest_bytes() => {}
                Some(_) | None => found = Some(checksum),
            }
        }
        if let Some(checksum) = found {
            return Ok(checksum);
        }
        let mut alone = lines();
        match (alone.next(), alone.next()) {
            (Some(line), None) if !line.contains(char::is_whitespace) => {
                Self::parse(line, kind).map_err(|error| match error {
                    // A prefix of the line is not the type that its owner gave.
                    ChecksumError::Text(_) | ChecksumError::Type(_) => ChecksumError::File,
                    error @ (ChecksumError::File
                    | ChecksumError::Length { .. }
                    | ChecksumError::NoLine { .. }
                    | ChecksumError::Ambiguous { .. }) => error,
                })
            }
            _ => Err(ChecksumError::NoLine { name: name.to_owned() }),
        }
    }

    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest, where it is a SHA-256.
    #[must_use]
    pub fn sha256(&self) -> Option<Sha256> {
        (self.algorithm == Algorithm::Sha256).then(|| hex::encode(&self.bytes).parse().ok()).flatten()
    }
}

/// Digits and file name of one line.
fn split_line(line: &str) -> Option<(&str, &str)> {
    if let Some((left, digits)) = line.rsplit_once(") = ") {
        let (_algorithm, file) = left.split_once(" (")?;
        return Some((digits.trim(), file));
    }
    let (digits, file) = line.split_once(char::is_whitespace)?;
    let file = file.trim_start();
    Some((digits, file.strip_prefix('*').unwrap_or(file)))
}

/// Cuts off what may be a secret: what is no checksum may be an address.
fn shorten(text: &str) -> String {
    shown_url(text).chars().take(140).collect()
}

/// Finds a line in any bytes. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    drop(Checksum::find(&text, "disk.raw", "auto"));
    drop(Checksum::parse(&text, "sha256"));
}

/// Computes the SHA-256 that every source gets, and the checksum that its owner named.
pub(crate) struct SourceHasher {
    sha256: firesteel_facts::Hasher,
    named: Option<ChecksumHasher>,
}

enum ChecksumHasher {
    Md5(md5::Md5),
    Sha512(ring::digest::Context),
}

impl SourceHasher {
    pub(crate) fn new(expected: Option<&Checksum>) -> Self {
        let named = match expected.map(Checksum::algorithm) {
            Some(Algorithm::Md5) => Some(ChecksumHasher::Md5(md5::Md5::new())),
            Some(Algorithm::Sha512) => Some(ChecksumHasher::Sha512(ring::digest::Context::new(&ring::digest::SHA512))),
            Some(Algorithm::Sha256) | None => None,
        };
        Self { sha256: firesteel_facts::Hasher::new(), named }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        match &mut self.named {
            Some(ChecksumHasher::Md5(context)) => context.update(bytes),
            Some(ChecksumHasher::Sha512(context)) => context.update(bytes),
            None => {}
        }
    }

    /// The SHA-256, and what to compare with the expected checksum.
    pub(crate) fn finish(self) -> (Sha256, Checksum) {
        let sha256 = self.sha256.finish();
        let (algorithm, bytes) = match self.named {
            Some(ChecksumHasher::Md5(context)) => (Algorithm::Md5, context.finalize().to_vec()),
            Some(ChecksumHasher::Sha512(context)) => (Algorithm::Sha512, context.finish().as_ref().to_vec()),
            None => (Algorithm::Sha256, sha256.as_bytes().to_vec()),
        };
        (sha256, Checksum { algorithm, bytes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const SHA512: &str = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

    #[test]
    fn type_by_length_or_by_name() {
        for (text, algorithm) in [(MD5, Algorithm::Md5), (SHA256, Algorithm::Sha256), (SHA512, Algorithm::Sha512)] {
            for kind in ["", "auto", &algorithm.to_string()] {
                assert_eq!(Checksum::parse(text, kind).unwrap().algorithm(), algorithm);
            }
            let mut hasher = SourceHasher::new(Some(&Checksum::parse(text, "").unwrap()));
            hasher.update(b"abc");
            assert_eq!(hasher.finish().1, Checksum::parse(&text.to_uppercase(), "").unwrap());
        }
        assert!(matches!(Checksum::parse(MD5, "sha256"), Err(ChecksumError::Length { .. })));
        assert!(matches!(Checksum::parse(SHA256, "crc32"), Err(ChecksumError::Type(_))));
        assert!(matches!(Checksum::parse("abc", ""), Err(ChecksumError::Text(_))));
        assert!(matches!(Checksum::parse("abcd", ""), Err(ChecksumError::Text(_))));
        let said = Checksum::parse("HTTPS://mirror/sums?signature=planted", "").unwrap_err().to_string();
        assert!(said.contains("mirror/sums") && !said.contains("planted"), "{said}");
    }

    #[test]
    fn finds_the_line_of_the_file() {
        let file = format!("# comment\n{SHA256}  other.raw\n{SHA512} *disk.raw\n{MD5}  ./disk.raw\n");
        assert_eq!(Checksum::find(&file, "disk.raw", "").unwrap().algorithm(), Algorithm::Sha512);
        assert_eq!(Checksum::find(&file, "disk.raw", "md5").unwrap().algorithm(), Algorithm::Md5);
        assert!(matches!(Checksum::find(&file, "disk", ""), Err(ChecksumError::NoLine { .. })));
        assert_eq!(
            Checksum::find(&format!("SHA256 (disk.raw) = {SHA256}\n"), "disk.raw", "").unwrap(),
            Checksum::parse(SHA256, "").unwrap()
        );
        assert_eq!(
            Checksum::find(&format!("{SHA256}\n"), "anything", "").unwrap(),
            Checksum::parse(SHA256, "").unwrap()
        );
        // The content is not shown, for any server may have answered.
        for text in ["a-secret\n", "secret:00112233445566778899aabbccddeeff\n", "{\"token\":\"secret\"}\n"] {
            let error = Checksum::find(text, "disk.raw", "").unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let twice = format!("{SHA256}  disk.raw\n{}  disk.raw\n", SHA256.replace('b', "c"));
        assert!(matches!(Checksum::find(&twice, "disk.raw", ""), Err(ChecksumError::Ambiguous { .. })));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "[0-9a-f]{0,130}( |  \\*|\\) = )disk.raw") {
            check(&bytes);
            check(text.as_bytes());
        }
    }
}
