//! The folder of streams' metadata: documents from an operator or a bundle, and the last document read of each stream.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use firesteel_images::catalogue::DOCUMENT_BYTES_MAX;

const FOLLOWED: &str = "followed";
const JSON: &str = ".json";
/// The limit of a name; `spec.source.file` of the kind has the same.
const NAME_BYTES_MAX: usize = 255 - JSON.len();

/// The folder of streams.
#[derive(Clone, Debug)]
pub struct StreamFolder {
    root: PathBuf,
}

impl StreamFolder {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// # Errors
    /// When it can be neither opened nor made.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let followed = root.join(FOLLOWED);
        fs::create_dir_all(&followed).with_context(|| format!("could not make the folder {}", followed.display()))?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// Reads the file that a stream's `spec.source.file` names.
    ///
    /// # Errors
    /// When there is no such regular file, or it is too long.
    pub fn read(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        anyhow::ensure!(is_plain(name), "{name:?} is no plain name of a file");
        read(&self.root.join(name)).with_context(|| {
            format!("put the stream's metadata into {} (spec.source.file)", self.root.join(name).display())
        })
    }

    /// Writes metadata to a file that `spec.source.file` can name; returns that name.
    ///
    /// # Errors
    /// When the stream's name is not a file name, or the file cannot be written.
    pub fn put(&self, stream: &str, document: &[u8]) -> anyhow::Result<String> {
        anyhow::ensure!(is_plain(stream), "{stream:?} cannot be the name of a file");
        let name = format!("{stream}{JSON}");
        replace(&self.root, &name, document)?;
        Ok(name)
    }

    /// Keeps the last document read of a stream, by the name of its object.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, stream: &str, document: &[u8]) -> anyhow::Result<()> {
        anyhow::ensure!(is_plain(stream), "{stream:?} cannot be the name of a file");
        replace(&self.root.join(FOLLOWED), &format!("{stream}{JSON}"), document)
    }

    /// Returns the names of the streams that are or were followed: a document of each was read.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn followed(&self) -> anyhow::Result<Vec<String>> {
        let folder = self.root.join(FOLLOWED);
        let mut found = Vec::new();
        let entries = fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))?;
        for entry in entries {
            let name = entry.with_context(|| format!("could not read {}", folder.display()))?.file_name();
            let stream = name.to_str().and_then(|name| name.strip_suffix(JSON)).filter(|name| is_plain(name));
            found.extend(stream.map(str::to_owned));
        }
        found.sort();
        Ok(found)
    }

    /// Returns the last document read of a stream.
    ///
    /// # Errors
    /// When there is no such regular file, or it is too long.
    pub fn last_read(&self, stream: &str) -> anyhow::Result<Vec<u8>> {
        anyhow::ensure!(is_plain(stream), "{stream:?} cannot be the name of a file");
        read(&self.root.join(FOLLOWED).join(format!("{stream}{JSON}")))
    }
}

/// Tells whether a name is plain: no folder, not hidden, and nothing that a shell or a terminal would interpret.
fn is_plain(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && name.bytes().all(legal)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    // To open a pipe would block, and a link may lead anywhere.
    let found = path.symlink_metadata().with_context(|| format!("could not find {shown}"))?;
    anyhow::ensure!(found.is_file(), "{shown} is not a regular file");
    let file = File::open(path).with_context(|| format!("could not open {shown}"))?;
    let mut bytes = Vec::new();
    let bound = DOCUMENT_BYTES_MAX as u64 + 1;
    file.take(bound).read_to_end(&mut bytes).with_context(|| format!("could not read {shown}"))?;
    anyhow::ensure!(bytes.len() <= DOCUMENT_BYTES_MAX, "{shown} has more than {DOCUMENT_BYTES_MAX} bytes");
    Ok(bytes)
}

/// Replaces a file whole or not at all.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let (new, path) = (folder.join(format!(".{name}.new")), folder.join(name));
    let written = File::create(&new).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&new, &path)).with_context(|| format!("could not write {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_plain_files_of_the_folder_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StreamFolder::open(&dir.path().join("streams")).unwrap();
        assert_eq!(folder.put("stable", b"{}").unwrap(), "stable.json");
        assert_eq!(folder.read("stable.json").unwrap(), b"{}");
        fs::write(dir.path().join("secret"), b"x").unwrap();
        std::os::unix::fs::symlink("../secret", dir.path().join("streams/link")).unwrap();
        for bad in ["../secret", "link", "followed", "", ".hidden", "a/b", "none.json"] {
            assert!(folder.read(bad).is_err(), "{bad}");
        }
        for bad in ["../x", "a/b", ".x", "", "a b", &"x".repeat(300)] {
            assert!(folder.put(bad, b"").is_err() && folder.keep(bad, b"").is_err(), "{bad}");
        }
        fs::write(dir.path().join("streams/long"), vec![b' '; DOCUMENT_BYTES_MAX + 1]).unwrap();
        assert!(format!("{:#}", folder.read("long").unwrap_err()).contains("more than"));
        folder.keep("b", b"2").unwrap();
        folder.keep("a", b"1").unwrap();
        assert_eq!(folder.followed().unwrap(), ["a", "b"]);
        assert_eq!((folder.last_read("a").unwrap(), folder.last_read("b").unwrap()), (b"1".to_vec(), b"2".to_vec()));
    }
}
