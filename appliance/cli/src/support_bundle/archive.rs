//! The file of a support bundle: a tar archive, packed with gzip, whole or not at all, for its owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use firesteel_facts::Sha256;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

/// The most bytes of all files together, before they are packed.
pub(super) const BUNDLE_BYTES_MAX: u64 = 1 << 30;
const MODE: u32 = 0o600;

/// A file in the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BundledFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Hexadecimal.
    pub(super) sha256: String,
}

/// The archive while it is written.
pub(super) struct BundleArchive {
    file: PathBuf,
    partial: PathBuf,
    tar: tar::Builder<GzEncoder<File>>,
    /// The folder in the archive that has all files.
    folder: String,
    /// Seconds since 1970 that each file has.
    modified_s: u64,
    written_bytes: u64,
    files: Vec<BundledFile>,
    is_done: bool,
}

impl BundleArchive {
    /// Takes the name of the file, which must be free.
    ///
    /// # Errors
    /// When there is a file of this name, or it cannot be written.
    pub(super) fn create(file: &Path, folder: &str, modified_s: u64) -> anyhow::Result<Self> {
        let name = file.file_name().with_context(|| format!("{} is not the name of a file", file.display()))?;
        let partial = file.with_file_name(format!(".{}.partial-{}", name.to_string_lossy(), std::process::id()));
        let open = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
        open(file).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow::anyhow!(
                    "{} exists, and is not overwritten: give another name with --file, or remove it",
                    file.display()
                )
            }
            _ => anyhow::Error::from(error).context(format!("could not write {}", file.display())),
        })?;
        let out = match open(&partial).with_context(|| format!("could not write {}", partial.display())) {
            Ok(out) => out,
            Err(error) => {
                drop(fs::remove_file(file));
                return Err(error);
            }
        };
        Ok(Self {
            file: file.to_owned(),
            partial,
            tar: tar::Builder::new(GzEncoder::new(out, Compression::default())),
            folder: folder.to_owned(),
            modified_s,
            written_bytes: 0,
            files: Vec::new(),
            is_done: false,
        })
    }

    /// Says whether there is room for a file of this size.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.written_bytes + bytes as u64 <= BUNDLE_BYTES_MAX
    }

    /// The files that were added so far.
    pub(super) fn files(&self) -> &[BundledFile] {
        &self.files
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(MODE);
        header.set_mtime(self.modified_s);
        let path = format!("{}/{name}", self.folder);
        let added = self.tar.append_data(&mut header, path, content);
        added.with_context(|| format!("could not write {} into {}", name, self.partial.display()))?;
        self.written_bytes += content.len() as u64;
        let sha256 = Sha256::of(content).to_string();
        self.files.push(BundledFile { name: name.to_owned(), bytes: content.len() as u64, sha256 });
        Ok(())
    }

    /// Ends the archive, and puts it in its place. Returns its size in bytes.
    ///
    /// # Errors
    /// When it cannot be written; then there is no file.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        let write = || format!("could not write {}", self.file.display());
        self.tar.finish().with_context(write)?;
        let packed = self.tar.get_mut();
        packed.try_finish().with_context(write)?;
        let out = packed.get_mut();
        out.flush().and_then(|()| out.sync_all()).with_context(write)?;
        let bytes = out.metadata().with_context(write)?.len();
        // The name is this process's own since it began.
        fs::rename(&self.partial, &self.file).with_context(write)?;
        self.is_done = true;
        Ok(bytes)
    }
}

/// Leaves nothing of a bundle that did not come to its end.
impl Drop for BundleArchive {
    fn drop(&mut self) {
        if !self.is_done {
            drop(fs::remove_file(&self.partial));
            drop(fs::remove_file(&self.file));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_bundle_is_whole_and_its_owners_alone_and_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar.gz");
        let mut archive = BundleArchive::create(&file, "bundle", 1_800_000_000).unwrap();
        archive.add("objects/a.json", b"{}").unwrap();
        archive.add(&format!("hosts/{}/log", "n".repeat(200)), b"line\n").unwrap();
        assert_eq!(archive.files()[0].bytes, 2);
        archive.finish().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut read = tar::Archive::new(GzDecoder::new(File::open(&file).unwrap()));
        let mut names = Vec::new();
        for entry in read.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            names.push((entry.path().unwrap().to_string_lossy().into_owned(), content));
        }
        assert_eq!(names[0], ("bundle/objects/a.json".to_owned(), "{}".to_owned()));
        assert_eq!((names.len(), names[1].1.as_str()), (2, "line\n"));
        let error = BundleArchive::create(&file, "bundle", 0).err().unwrap().to_string();
        assert!(error.contains("is not overwritten"), "{error}");
    }

    #[test]
    fn of_a_bundle_that_fails_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = BundleArchive::create(&folder.path().join("a.tar.gz"), "bundle", 0).unwrap();
        archive.add("a", b"x").unwrap();
        drop(archive);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(BundleArchive::create(&folder.path().join("none/a"), "bundle", 0).is_err());
    }
}
