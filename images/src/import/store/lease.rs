//! Holding what is in use: a lease is a shared lock on the data file, and who collects takes an exclusive one first
//! (S1-11; issue 6: no image in use is ever collected).

use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{ImageStore, StoreError};
use crate::digest::Sha256;

/// When something was used is remembered this exactly: a date that is written anew for every fetch would make a write
/// of every read.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60);

/// Something in the store is not collected as long as this lives, in whatever process. It holds the open file.
#[derive(Debug)]
pub struct Lease {
    file: File,
}

impl Lease {
    /// The data file, open for reading at its start.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }
}

impl ImageStore {
    /// Holds an image. `None`: it is not there. The file that [`Lease::into_file`] gives holds it too.
    pub fn lease_image(&self, raw: &Sha256) -> Result<Option<Lease>, StoreError> {
        lease(&self.stream_path(raw), &self.image_meta_path(raw))
    }

    /// Holds a file.
    pub fn lease_file(&self, sha256: &Sha256) -> Result<Option<Lease>, StoreError> {
        lease(&self.file_path(sha256), &self.file_meta_path(sha256))
    }
}

fn lease(path: &Path, meta_path: &Path) -> Result<Option<Lease>, StoreError> {
    let failed = |source| StoreError::Read { path: path.to_path_buf(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    // Whoever has it alone is publishing or removing it, and has done so in a moment.
    file.lock_shared().map_err(failed)?;
    if file.metadata().map_err(failed)?.nlink() == 0 || !meta_path.exists() {
        return Ok(None);
    }
    // Only the order of removals depends on it.
    if let Err(error) = note_use(meta_path) {
        tracing::debug!(path = %meta_path.display(), %error, "noting a use");
    }
    Ok(Some(Lease { file }))
}

/// The date of the metadata file is that of the last use.
fn note_use(meta_path: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(meta_path)?;
    let now = SystemTime::now();
    let is_recent = |noted| now.duration_since(noted).is_ok_and(|ago| ago < USE_NOTED_EVERY);
    if file.metadata()?.modified().is_ok_and(is_recent) {
        return Ok(());
    }
    file.set_modified(now)
}
