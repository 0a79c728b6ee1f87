//! Disk files of machines: sparse raw files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum MachineDiskError {
    #[error("making the disk {}", path.display())]
    Create {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("copying {} to the disk {}: {message}", from.display(), path.display())]
    Copy { from: PathBuf, path: PathBuf, message: String },
}

/// An empty disk that takes no space until it is written.
pub fn create_empty(path: &Path, bytes: u64) -> Result<(), MachineDiskError> {
    let failed = |source| MachineDiskError::Create { path: path.to_owned(), source };
    File::create(path).and_then(|file| file.set_len(bytes)).map_err(failed)
}

/// A disk with the contents of `from` (raw), grown to `bytes` where that is more.
pub fn create_from(from: &Path, path: &Path, bytes: u64) -> Result<(), MachineDiskError> {
    let refused = |message: String| MachineDiskError::Copy { from: from.to_owned(), path: path.to_owned(), message };
    let copied = Command::new("cp")
        .args(["--sparse=always", "--reflink=auto"])
        .args([from, path])
        .output()
        .map_err(|error| refused(error.to_string()))?;
    if !copied.status.success() {
        return Err(refused(String::from_utf8_lossy(&copied.stderr).trim().to_owned()));
    }
    let failed = |source| MachineDiskError::Create { path: path.to_owned(), source };
    let file = File::options().write(true).open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length < bytes { file.set_len(bytes).map_err(failed) } else { Ok(()) }
}
