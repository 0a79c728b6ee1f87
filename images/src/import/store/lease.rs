//! Holding what is in use: a lease is a shared lock on the data file, and who collects takes an exclusive one first
//! (S1-11; issue 6: no image in use is ever collected).

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use firesteel_facts::Sha256;

use super::{ImageStore, StoreError};

/// The precision of the time of last use: a date that is written again for every fetch would make a write of every
/// read.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60);

/// The longest wait for the only holder of a file, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Something in the store is not collected as long as this lives, in whatever process. It holds the open file.
#[derive(Debug)]
pub struct StoreLease {
    file: File,
}

impl StoreLease {
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
    /// Holds an image. `None`: it is not there. The file that [`StoreLease::into_file`] gives holds it too.
    pub fn lease_image(&self, raw: &Sha256) -> Result<Option<StoreLease>, StoreError> {
        lease(&self.stream_path(raw), &self.image_meta_path(raw))
    }

    /// Holds a file.
    pub fn lease_file(&self, sha256: &Sha256) -> Result<Option<StoreLease>, StoreError> {
        lease(&self.file_path(sha256), &self.file_meta_path(sha256))
    }
}

fn lease(path: &Path, meta_path: &Path) -> Result<Option<StoreLease>, StoreError> {
    let failed = |source| StoreError::Read { path: path.to_path_buf(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    wait_shared(&file).map_err(failed)?;
    if file.metadata().map_err(failed)?.nlink() == 0 || !meta_path.exists() {
        return Ok(None);
    }
    // Only the order of removals depends on it.
    if let Err(error) = note_use(meta_path) {
        tracing::debug!(path = %meta_path.display(), %error, "could not note a use; the file counts as used before");
    }
    Ok(Some(StoreLease { file }))
}

/// Waits for the shared lock. Its only holder publishes or removes the file, or finds out whether it may be removed,
/// and takes a moment. The wait has an end, lest requests for one image wait on all threads that read files.
fn wait_shared(file: &File) -> io::Result<()> {
    let ends_at = Instant::now() + PATIENCE;
    loop {
        match file.try_lock_shared() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < ends_at => thread::sleep(LOOK_AGAIN),
            Err(TryLockError::WouldBlock) => {
                let text = "it is being removed or written by another process for long: try again";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(TryLockError::Error(source)) => return Err(source),
        }
    }
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
