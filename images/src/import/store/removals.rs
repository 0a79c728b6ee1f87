//! Making room (S1-11): what is there, and removing it unless it is in use. What goes is decided in
//! [`crate::collect`], and [`super::pending_removals`] holds it until it is gone.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

use firesteel_facts::Sha256;

use super::{ImageMeta, ImageStore, PARTIAL, StoreError};
use crate::collect::{self, CollectableItem, Removal, StoreItem};
use crate::import::partial;
use crate::import::room_limited_writer::Room;

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub removed: Vec<Removal>,
    /// What nothing refers to, but is open.
    pub in_use: Vec<StoreItem>,
    /// What was to go, and is referred to by now.
    pub spared: Vec<StoreItem>,
    /// Why there still is not as much room as there should be.
    pub shortfall: Option<collect::Shortfall>,
}

/// A download that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The digest of what it must become.
    pub sha256: Sha256,
    pub bytes: u64,
    /// The size that the server stated.
    pub total_bytes: Option<u64>,
    /// A download writes it now.
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

    /// Everything that takes room, with its names: a reference to one of them keeps it.
    pub fn inventory(&self) -> Result<Vec<CollectableItem>, StoreError> {
        let mut found = Vec::new();
        for image in self.list()? {
            let meta_path = self.image_meta_path(&image.meta.raw_sha256);
            found.push(CollectableItem {
                item: StoreItem::Image(image.meta.raw_sha256),
                names: names_of(&image.meta),
                bytes: size(&image.path) + size(&meta_path),
                used_at_s: modified_s(&meta_path),
            });
        }
        for file in self.files()? {
            let meta_path = self.file_meta_path(&file.meta.sha256);
            found.push(CollectableItem {
                item: StoreItem::File(file.meta.sha256),
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
            found.push(CollectableItem {
                item: StoreItem::Partial(sha256),
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

    /// Removes what nothing refers to as far as room is needed. `referenced`: raw, stream or source digests.
    pub fn collect(&self, referenced: &HashSet<Sha256>, quota_bytes: Option<u64>) -> Result<Collected, StoreError> {
        self.collect_for(referenced, quota_bytes, 0)
    }

    /// Makes room for something that comes in with so many bytes.
    pub fn collect_for(
        &self,
        referenced: &HashSet<Sha256>,
        quota_bytes: Option<u64>,
        coming_bytes: u64,
    ) -> Result<Collected, StoreError> {
        self.condemn(referenced, quota_bytes, coming_bytes)?.remove(referenced)
    }
}

/// Digests by which an image is referred to.
pub(super) fn names_of(meta: &ImageMeta) -> Vec<Sha256> {
    let sources = meta.sources.iter().flat_map(|source| [Some(source.sha256), source.uncompressed_sha256]).flatten();
    [meta.raw_sha256, meta.stream_sha256].into_iter().chain(sources).collect()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// A file without a date was never used.
fn modified_s(path: &Path) -> u64 {
    let modified = fs::metadata(path).and_then(|found| found.modified()).ok();
    modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}
