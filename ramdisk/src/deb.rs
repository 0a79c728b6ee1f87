//! Reads a Debian binary package in process: the outer `ar`, the compressed tars in it, their files.
//!
//! Nothing is installed and no package tool is run, so it works without privileges and on machines
//! that are not Debian. It knows nothing of kernels or modules.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::digest::sha256_hex;
use crate::expand::expand;
use crate::tar::{self, TarError};

/// A kernel package is 70 MB, the biggest firmware package 90 MB; a gigabyte is no package of ours.
const PACKAGE_BYTES_MAX: u64 = 1 << 30;
/// The control archive holds a few scripts and a list of checksums (400 kB for a kernel).
const CONTROL_BYTES_MAX: u64 = 16 << 20;
/// A kernel with its modules unpacks to 500 MB, all firmware to 700 MB. What is wanted of it is held in memory.
const DATA_BYTES_MAX: u64 = 2 << 30;
const AR_MAGIC: &[u8] = b"!<arch>\n";
const AR_HEADER_BYTES: usize = 60;

/// What went wrong while reading a package.
#[derive(Debug, thiserror::Error)]
pub enum DebError {
    #[error("reading the package {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the package {path} has {bytes} bytes, more than the {PACKAGE_BYTES_MAX} that are accepted")]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("{path} is not a Debian package: {reason}")]
    NotAPackage { path: PathBuf, reason: &'static str },
    #[error("the member {member} of {path} is compressed in a way that is not known here")]
    UnknownCompression { path: PathBuf, member: String },
    #[error("unpacking {member} of {path}")]
    Unpack {
        path: PathBuf,
        member: String,
        #[source]
        source: TarError,
    },
    #[error("{path} does not name its {field}")]
    MissingField { path: PathBuf, field: &'static str },
}

/// A package held in memory.
#[derive(Debug)]
pub struct Deb {
    path: PathBuf,
    bytes: Vec<u8>,
    sha256: String,
}

/// The fields of a package's control file that name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageIdentity {
    pub package: String,
    pub version: String,
    pub architecture: String,
}

impl Deb {
    /// Reads the whole file and looks that it is a package.
    pub fn open(path: &Path) -> Result<Self, DebError> {
        let read = |source| DebError::Read { path: path.to_owned(), source };
        let length = fs::metadata(path).map_err(read)?.len();
        if length > PACKAGE_BYTES_MAX {
            return Err(DebError::TooLarge { path: path.to_owned(), bytes: length });
        }
        let bytes = fs::read(path).map_err(read)?;
        if !bytes.starts_with(AR_MAGIC) {
            return Err(DebError::NotAPackage {
                path: path.to_owned(),
                reason: "it does not begin like an ar archive",
            });
        }
        let sha256 = sha256_hex(&bytes);
        Ok(Self { path: path.to_owned(), bytes, sha256 })
    }

    /// SHA-256 of the package file.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Name, version and architecture from the control file.
    pub fn identity(&self) -> Result<PackageIdentity, DebError> {
        let mut control = None;
        self.for_each_file("control.tar", &mut |path| path == "control", &mut |_, bytes| control = Some(bytes))?;
        let control = control.ok_or_else(|| self.not_a_package("it has no control file"))?;
        let text = String::from_utf8_lossy(&control);
        let field = |field: &'static str| {
            text.lines()
                .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
                .ok_or_else(|| DebError::MissingField { path: self.path.clone(), field })
        };
        Ok(PackageIdentity {
            package: field("Package")?,
            version: field("Version")?,
            architecture: field("Architecture")?,
        })
    }

    /// Calls `take` with path and content of each regular file whose path `wanted` accepts.
    /// Paths are relative, without the leading `./`. Links are not followed and not reported.
    pub fn for_each_data_file(
        &self,
        wanted: &mut dyn FnMut(&str) -> bool,
        take: &mut dyn FnMut(&str, Vec<u8>),
    ) -> Result<(), DebError> {
        self.for_each_file("data.tar", wanted, take)
    }

    fn for_each_file(
        &self,
        prefix: &'static str,
        wanted: &mut dyn FnMut(&str) -> bool,
        take: &mut dyn FnMut(&str, Vec<u8>),
    ) -> Result<(), DebError> {
        let (member, content) = members(&self.bytes)
            .find(|(name, _)| name.starts_with(prefix))
            .ok_or_else(|| self.not_a_package("an archive that every package has is missing"))?;
        let suffix = member[prefix.len()..].to_owned();
        let unpack = |source| DebError::Unpack { path: self.path.clone(), member: member.clone(), source };
        let bytes_max = if prefix == "control.tar" { CONTROL_BYTES_MAX } else { DATA_BYTES_MAX };
        let mut reader = expand(&suffix, content, bytes_max)
            .map_err(|error| unpack(TarError::Read(error)))?
            .ok_or_else(|| DebError::UnknownCompression { path: self.path.clone(), member: member.clone() })?;
        tar::for_each_file(&mut reader, wanted, take).map_err(unpack)
    }

    fn not_a_package(&self, reason: &'static str) -> DebError {
        DebError::NotAPackage { path: self.path.clone(), reason }
    }
}

/// The members of an `ar` archive: name and content. Ends at the first header that makes no sense.
fn members(archive: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    let mut rest = archive.get(AR_MAGIC.len()..).unwrap_or_default();
    std::iter::from_fn(move || {
        let header = rest.get(..AR_HEADER_BYTES)?;
        let name = std::str::from_utf8(&header[..16]).ok()?.trim_end().trim_end_matches('/').to_owned();
        let length: usize = std::str::from_utf8(&header[48..58]).ok()?.trim_end().parse().ok()?;
        let content = rest.get(AR_HEADER_BYTES..)?.get(..length)?;
        // Members begin at even offsets.
        rest = rest.get(AR_HEADER_BYTES + length + length % 2..).unwrap_or_default();
        Some((name, content))
    })
}

/// Most bytes that [`check`] unpacks; a bomb would take long.
const CHECKED_BYTES_MAX: u64 = 1 << 20;

/// Walks any bytes as a package would be walked; must neither panic nor loop.
pub fn check(bytes: &[u8]) {
    for (name, content) in members(bytes) {
        if let Some(suffix) = name.strip_prefix("data.tar")
            && let Ok(Some(mut reader)) = expand(suffix, content, CHECKED_BYTES_MAX)
        {
            // The outcome does not matter here: only that there is one.
            drop(tar::for_each_file(&mut reader, &mut |_| true, &mut |_, _| {}));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    #[test]
    fn reads_control_and_data_in_each_compression() {
        let folder = tempfile::tempdir().unwrap();
        for compression in ["", ".xz", ".zst"] {
            let path = folder.path().join("p.deb");
            let files = [("./boot/vmlinuz-6", b"kernel".as_slice()), ("./lib/odd", b"odd"), ("./lib/other", b"four")];
            fs::write(&path, fixture::deb("linux-image-6", &files, compression)).unwrap();
            let deb = Deb::open(&path).unwrap();
            let identity = deb.identity().unwrap();
            assert_eq!(identity.package, "linux-image-6");
            assert_eq!(identity.version, "6.1.1-1");
            assert_eq!(identity.architecture, "amd64");
            let mut seen = Vec::new();
            deb.for_each_data_file(&mut |p| p != "lib/odd", &mut |p, b| seen.push((p.to_owned(), b))).unwrap();
            assert_eq!(seen, [("boot/vmlinuz-6".into(), b"kernel".to_vec()), ("lib/other".into(), b"four".to_vec())]);
        }
    }

    #[test]
    fn refuses_what_is_no_package() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.deb");
        fs::write(&path, b"<html>404</html>").unwrap();
        assert!(matches!(Deb::open(&path), Err(DebError::NotAPackage { .. })));
        let mut cut = fixture::deb("p", &[("./a", b"content")], "");
        cut.truncate(cut.len() - 1024);
        fs::write(&path, cut).unwrap();
        let deb = Deb::open(&path).unwrap();
        assert!(deb.for_each_data_file(&mut |_| true, &mut |_, _| {}).is_err());
    }

    /// Control and data archives of the same size.
    fn bomb(compression: &str) -> Vec<u8> {
        let zeros = vec![0; usize::try_from(CONTROL_BYTES_MAX).unwrap()];
        fixture::deb_of(&[("./control", &zeros)], &[("./a", &zeros)], compression)
    }

    #[test]
    fn a_small_package_cannot_hold_a_large_control_archive() {
        let folder = tempfile::tempdir().unwrap();
        for compression in [".xz", ".zst"] {
            let path = folder.path().join("p.deb");
            let bytes = bomb(compression);
            assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
            fs::write(&path, bytes).unwrap();
            let deb = Deb::open(&path).unwrap();
            let DebError::Unpack { source: TarError::Read(why), .. } = deb.identity().unwrap_err() else {
                panic!("it was unpacked")
            };
            assert!(why.to_string().contains("expands to more"), "{why}");
            // Data of that size is no bomb.
            let mut bytes = 0;
            deb.for_each_data_file(&mut |_| true, &mut |_, content| bytes += content.len()).unwrap();
            assert_eq!(bytes as u64, CONTROL_BYTES_MAX);
        }
    }

    #[test]
    fn data_is_bounded_even_where_nothing_of_it_is_wanted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |bytes: u64| {
            fs::write(file.path(), fixture::deb_of_zeros(bytes)).unwrap();
            Deb::open(file.path()).unwrap().for_each_data_file(&mut |_| false, &mut |_, _| {})
        };
        read(1 << 20).unwrap();
        let DebError::Unpack { source: TarError::Read(why), .. } = read(DATA_BYTES_MAX).unwrap_err() else {
            panic!("it was unpacked")
        };
        assert!(why.to_string().contains("expands to more"), "{why}");
    }

    proptest! {
        #[test]
        fn survives_any_bytes(tail in proptest::collection::vec(any::<u8>(), 0..600)) {
            check(&tail);
            check(&[AR_MAGIC, &tail].concat());
        }
    }
}
