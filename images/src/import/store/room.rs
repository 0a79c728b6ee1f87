//! Making room (S1-11): what is there, and removing it unless somebody uses it. What goes is decided in
//! [`crate::collect`].

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::SystemTime,
};

use super::{ImageStore, META, PARTIAL, StoreError, remove_if_there};
use crate::{
    Sha256,
    collect::{self, Item, Need, Removal, Stored},
    import::{partial, spare::Room},
};

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub removed: Vec<Removal>,
    /// What nobody refers to, but somebody has open.
    pub in_use: Vec<Item>,
    /// Why there still is not as much room as there should be.
    pub shortfall: Option<collect::Shortfall>,
}

/// A download that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Of what it must become.
    pub sha256: Sha256,
    pub bytes: u64,
    /// As the server said.
    pub total_bytes: Option<u64>,
    /// Somebody is at it now.
    pub is_underway: bool,
}

impl ImageStore {
    /// Downloads that have not ended, sorted by digest.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>, StoreError> {
        let mut found = Vec::new();
        for name in self.names()? {
            let Some(sha256) = name.strip_prefix(PARTIAL).and_then(|digits| digits.parse::<Sha256>().ok()) else {
                continue;
            };
            let path = self.dir.join(&name);
            // One that ended meanwhile is none.
            let Ok(file) = File::open(&path) else { continue };
            let is_underway = matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
            let total_bytes = partial::total_bytes(&path);
            found.push(Unfinished { sha256, bytes: size(&path), total_bytes, is_underway });
        }
        found.sort_by_key(|one| one.sha256);
        Ok(found)
    }

    /// Everything that takes room, with its names: whoever refers to one of them wants it to stay.
    pub fn inventory(&self) -> Result<Vec<Stored>, StoreError> {
        let mut found = Vec::new();
        for image in self.list()? {
            let meta_path = self.image_meta_path(&image.meta.raw_sha256);
            let names = [image.meta.raw_sha256, image.meta.stream_sha256];
            let sources = image.meta.sources.iter().map(|source| source.sha256);
            found.push(Stored {
                item: Item::Image(image.meta.raw_sha256),
                names: names.into_iter().chain(sources).collect(),
                bytes: size(&image.path) + size(&meta_path),
                used_at_s: modified_s(&meta_path),
            });
        }
        for file in self.files()? {
            let meta_path = self.file_meta_path(&file.meta.sha256);
            found.push(Stored {
                item: Item::File(file.meta.sha256),
                names: vec![file.meta.sha256],
                bytes: size(&file.path) + size(&meta_path),
                used_at_s: modified_s(&meta_path),
            });
        }
        for name in self.names()? {
            let Some(sha256) = name.strip_prefix(PARTIAL).and_then(|digits| digits.parse::<Sha256>().ok()) else {
                continue;
            };
            let path = self.dir.join(&name);
            found.push(Stored {
                item: Item::Partial(sha256),
                names: vec![sha256],
                bytes: size(&path),
                used_at_s: modified_s(&path),
            });
        }
        Ok(found)
    }

    /// What the filesystem has left for images: others need the rest.
    pub fn free_bytes(&self) -> Result<u64, StoreError> {
        let failed = |source| StoreError::Read { path: self.dir.clone(), source };
        let room = File::open(&self.dir).and_then(|dir| Room::of(&dir)).map_err(failed)?;
        Ok(room.usable_bytes())
    }

    /// Removes what nobody refers to as far as room is needed. `referenced`: raw, stream or source digests.
    pub fn collect(&self, referenced: &HashSet<Sha256>, quota_bytes: Option<u64>) -> Result<Collected, StoreError> {
        self.collect_for(referenced, quota_bytes, 0)
    }

    /// The same, for something that comes in with so many bytes.
    pub fn collect_for(
        &self,
        referenced: &HashSet<Sha256>,
        quota_bytes: Option<u64>,
        coming_bytes: u64,
    ) -> Result<Collected, StoreError> {
        let mut collected = Collected::default();
        // Each round removes something, or learns of one thing more that is in use.
        for _ in 0..=self.inventory()?.len() {
            let stored = self.inventory()?;
            let need = Need { quota_bytes, coming_bytes, free_bytes: self.free_bytes()? };
            let plan = collect::plan(&stored, referenced, &collected.in_use, need);
            collected.shortfall = plan.shortfall;
            let known = (collected.removed.len(), collected.in_use.len());
            for removal in plan.removals {
                if self.discard(removal.item)? {
                    collected.removed.push(removal);
                } else {
                    collected.in_use.push(removal.item);
                }
            }
            // All that was planned is done.
            if collected.in_use.len() == known.1 {
                break;
            }
        }
        Ok(collected)
    }

    /// Removes one thing; `false` where somebody uses it.
    pub fn discard(&self, item: Item) -> Result<bool, StoreError> {
        let (path, meta_path) = match item {
            Item::Image(raw) => (self.stream_path(&raw), self.image_meta_path(&raw)),
            Item::File(sha256) => (self.file_path(&sha256), self.file_meta_path(&sha256)),
            Item::Partial(sha256) => {
                let path = self.partial_path(&sha256);
                let record = self.dir.join(format!("{PARTIAL}{sha256}{META}"));
                (path, record)
            }
        };
        let failed = |source| StoreError::Read { path: path.clone(), source };
        let held = match File::open(&path) {
            Ok(file) => match file.try_lock() {
                Ok(()) => Some(file),
                Err(fs::TryLockError::WouldBlock) => return Ok(false),
                Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(failed(source)),
        };
        // Somebody else removed it and made it anew: that one is another.
        if let Some(file) = &held
            && file.metadata().map_err(failed)?.nlink() == 0
        {
            return Ok(false);
        }
        remove_if_there(&meta_path)?;
        remove_if_there(&path)?;
        drop(held);
        self.sync_dir()?;
        Ok(true)
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// A file without a date was never used.
fn modified_s(path: &Path) -> u64 {
    let modified = fs::metadata(path).and_then(|found| found.modified()).ok();
    modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}
