//! Folders that appear whole or not at all: they are made beside their final place, written to disk, and moved there by
//! one rename.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

/// This file marks a folder that is not whole and may be removed.
const UNFINISHED: &str = "UNFINISHED";
/// The most folders that may be replaced in the same second.
const NAMES_MAX: usize = 100;

/// A folder that is being made.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) path: PathBuf,
    place: PathBuf,
    /// The lock of the folder itself, whatever its name; it ends with the process.
    _lock: File,
}

impl Staging {
    /// Makes the folder that will be put at `place`, beside it. One that an earlier process left unfinished is removed;
    /// one that may be what it replaced gets the name `aside`.
    pub(super) fn new(place: &Path, aside: &str) -> anyhow::Result<Self> {
        let path = sibling_path(place, "restoring")?;
        if path.exists() {
            let _lock = lock(&path)?;
            if path.join(UNFINISHED).exists() {
                fs::remove_dir_all(&path).with_context(|| format!("could not remove {}", path.display()))?;
            } else {
                let kept = free(place, aside)?;
                fs::rename(&path, &kept).with_context(|| format!("could not rename {}", path.display()))?;
            }
        }
        let making = || format!("could not make the folder {}", path.display());
        make(&path).with_context(making)?;
        let lock = lock(&path)?;
        File::create(path.join(UNFINISHED)).and_then(|_| sync_folder(&path)).with_context(making)?;
        Ok(Self { path, place: place.to_owned(), _lock: lock })
    }

    /// Marks the folder as whole, once all of it is on disk.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        let done = sync_tree(&self.path)
            .and_then(|()| fs::remove_file(self.path.join(UNFINISHED)))
            .and_then(|()| sync_folder(&self.path));
        done.with_context(|| format!("could not write {} to disk", self.path.display()))
    }

    /// Moves it to its place, where there is nothing or an empty folder.
    pub(super) fn put(&self) -> anyhow::Result<()> {
        fs::rename(&self.path, &self.place).map_err(|error| self.take_back(error))?;
        sync_parent(&self.place).with_context(|| format!("could not write the folder of {}", self.place.display()))
    }

    /// Exchanges it with the folder at its place, which is kept under the name that this returns.
    pub(super) fn exchange(&self, name: &str) -> anyhow::Result<PathBuf> {
        let kept = free(&self.place, name)?;
        let exchanged = renameat2(AT_FDCWD, &self.path, AT_FDCWD, &self.place, RenameFlags::RENAME_EXCHANGE);
        exchanged.map_err(|error| self.take_back(error.into()))?;
        // From here on the restore is complete; the old folder merely has a name that says little.
        let renamed = sync_parent(&self.place)
            .and_then(|()| fs::rename(&self.path, &kept))
            .and_then(|()| sync_parent(&self.place));
        renamed.with_context(|| format!("the old folder is kept as {}; renaming it", self.path.display()))?;
        Ok(kept)
    }

    fn take_back(&self, error: io::Error) -> anyhow::Error {
        self.remove();
        anyhow::Error::new(error).context(format!(
            "could not put the restored folder in the place of {} (if that is a mount, name a folder below it)",
            self.place.display()
        ))
    }

    /// Removes the unfinished folder; if that fails, the next run does it.
    pub(super) fn discard(&self) {
        if self.path.join(UNFINISHED).exists() {
            self.remove();
        }
    }

    fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "could not remove a folder; the next run removes it");
        }
    }
}

/// Locks a folder: two processes must not fill it, nor one remove what the other fills.
fn lock(path: &Path) -> anyhow::Result<File> {
    let folder = File::open(path).with_context(|| format!("could not open the folder {}", path.display()))?;
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another restore is under way in {}", path.display()),
        // Some file systems do not lock folders.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(folder),
    }
}

/// Finds an unused name of this form.
fn free(place: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let first = sibling_path(place, name)?;
    if !first.exists() {
        return Ok(first);
    }
    let others = (2..=NAMES_MAX).map(|number| sibling_path(place, &format!("{name}-{number}")));
    others
        .filter_map(Result::ok)
        .find(|path| !path.exists())
        .with_context(|| format!("too many folders like {}: remove some", first.display()))
}

/// The path `.NAME.SUFFIX` in the same folder.
fn sibling_path(place: &Path, suffix: &str) -> anyhow::Result<PathBuf> {
    let name = place.file_name().with_context(|| format!("{} is not the name of a folder", place.display()))?;
    Ok(place.with_file_name(format!(".{}.{suffix}", name.to_string_lossy())))
}

/// Makes a folder that no other user may read.
pub(super) fn make(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Copies a regular file with its permissions, and syncs it to disk.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = (|| {
        let mut source = File::open(from)?;
        let mode = source.metadata()?.permissions().mode() & 0o777;
        let mut target = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
        io::copy(&mut source, &mut target)?;
        target.sync_all()
    })();
    copied.with_context(|| format!("could not copy {} to {}", from.display(), to.display()))
}

/// Links the files of a tree under a second name: images take no room twice, and none is moved before the new folder is
/// whole.
pub(super) fn link_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    let linking = || format!("could not link {} into {}", from.display(), to.display());
    make(to).with_context(linking)?;
    for entry in fs::read_dir(from).with_context(linking)? {
        let entry = entry.with_context(linking)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().with_context(linking)?;
        if kind.is_dir() {
            link_tree(&source, &target)?;
        } else if kind.is_file() {
            fs::hard_link(&source, &target).with_context(linking)?;
        }
    }
    Ok(())
}

/// Syncs each folder of the tree: files were synced when they were written.
fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_folder(parent.unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn two_restores_do_not_fill_one_folder() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("data");
        let first = Staging::new(&place, "replaced").unwrap();
        fs::write(first.path.join("whole"), "").unwrap();
        let second = format!("{:#}", Staging::new(&place, "replaced").unwrap_err());
        assert!(second.contains("another restore is under way"), "{second}");
        first.finish().unwrap();
        assert!(Staging::new(&place, "replaced").is_err(), "nor is a whole one put aside before it is in its place");
        first.put().unwrap();
        assert!(place.join("whole").exists());
        drop(first);
        drop(Staging::new(&place, "replaced").unwrap());
        Staging::new(&place, "replaced").unwrap().discard();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "what a dead one left is removed");
    }
}
