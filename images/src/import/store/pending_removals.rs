//! What is to go, held from the choice to the removal, so that it is given out to none in between.
//!
//! ```text
//!   references are read ─► condemn: each is chosen and locked ─► references are read again ─► remove: those that
//!                                     │                                                       are named by now stay
//!   who looks for one (lease) ────────┴─── waits ───────────────────────────────────────────► has it, or finds it gone
//! ```
//!
//! An object that came to name an image before the second reading keeps it. One that came later had to look for the
//! image behind the lock, and fetches it as one that never was here.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use firesteel_facts::Sha256;

use super::removals::{Collected, names_of};
use super::{ImageStore, META, PARTIAL, StoreError, remove_if_there};
use crate::collect::{self, Removal, RoomRequest, Shortfall, StoreItem};

/// What is to go. Dropped, all of it stays.
#[derive(Debug)]
pub struct PendingRemovals {
    store: ImageStore,
    /// The held things, in the order in which they go.
    held: Vec<(Removal, HeldItem)>,
    in_use: Vec<StoreItem>,
    shortfall: Option<Shortfall>,
}

/// A thing in the store that is locked against everybody else.
#[derive(Debug)]
struct HeldItem {
    path: PathBuf,
    meta_path: PathBuf,
    /// The lock; absent where there is metadata alone.
    _lock: Option<File>,
}

impl HeldItem {
    fn remove(self) -> Result<(), StoreError> {
        remove_if_there(&self.meta_path)?;
        remove_if_there(&self.path)
    }
}

impl PendingRemovals {
    /// Whether nothing is to go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Removes it, but for what is referred to by now.
    pub fn remove(self, referenced: &HashSet<Sha256>) -> Result<Collected, StoreError> {
        let Self { store, held, in_use, shortfall } = self;
        let mut collected = Collected { in_use, shortfall, ..Collected::default() };
        for (removal, item) in held {
            // Its names as they are now: a source may have been noted before it was locked.
            if store.names_of(removal.item)?.iter().any(|name| referenced.contains(name)) {
                collected.spared.push(removal.item);
                continue;
            }
            item.remove()?;
            collected.removed.push(removal);
        }
        if !collected.removed.is_empty() {
            store.sync_dir()?;
        }
        Ok(collected)
    }
}

impl ImageStore {
    /// Chooses what goes for so many bytes that come in, and holds it. `referenced`: raw, stream or source digests.
    pub fn condemn(
        &self,
        referenced: &HashSet<Sha256>,
        quota_bytes: Option<u64>,
        coming_bytes: u64,
    ) -> Result<PendingRemovals, StoreError> {
        let stored = self.inventory()?;
        let need = RoomRequest { quota_bytes, coming_bytes, free_bytes: self.free_bytes()? };
        let (mut held, mut in_use): (HashMap<StoreItem, HeldItem>, Vec<StoreItem>) = (HashMap::new(), Vec::new());
        // Each round but the last learns of one thing more that is in use.
        loop {
            let plan = collect::plan(&stored, referenced, &in_use, need);
            let known = in_use.len();
            for Removal { item, .. } in &plan.removals {
                if held.contains_key(item) {
                    continue;
                }
                match self.hold(*item)? {
                    Some(locked) => drop(held.insert(*item, locked)),
                    None => in_use.push(*item),
                }
            }
            if in_use.len() == known {
                let chosen = plan.removals.into_iter();
                let held = chosen.filter_map(|removal| Some((removal, held.remove(&removal.item)?))).collect();
                return Ok(PendingRemovals { store: self.clone(), held, in_use, shortfall: plan.shortfall });
            }
        }
    }

    /// Holds one image that is to go, as [`Self::condemn`] does.
    pub fn condemn_image(&self, raw: &Sha256) -> Result<PendingRemovals, StoreError> {
        let item = StoreItem::Image(*raw);
        let (mut held, mut in_use) = (Vec::new(), Vec::new());
        if let Some(stored) = self.inventory()?.into_iter().find(|stored| stored.item == item) {
            match self.hold(item)? {
                Some(locked) => held.push((Removal { item, bytes: stored.bytes }, locked)),
                None => in_use.push(item),
            }
        }
        Ok(PendingRemovals { store: self.clone(), held, in_use, shortfall: None })
    }

    /// Removes one thing; `false` where it is in use.
    pub fn discard(&self, item: StoreItem) -> Result<bool, StoreError> {
        let Some(held) = self.hold(item)? else { return Ok(false) };
        held.remove()?;
        self.sync_dir()?;
        Ok(true)
    }

    /// Locks one thing exclusively; `None` where it is in use.
    fn hold(&self, item: StoreItem) -> Result<Option<HeldItem>, StoreError> {
        let (path, meta_path) = match item {
            StoreItem::Image(raw) => (self.stream_path(&raw), self.image_meta_path(&raw)),
            StoreItem::File(sha256) => (self.file_path(&sha256), self.file_meta_path(&sha256)),
            StoreItem::Partial(sha256) => {
                let path = self.partial_path(&sha256);
                let record = self.dir.join(format!("{PARTIAL}{sha256}{META}"));
                (path, record)
            }
        };
        let failed = |source| StoreError::Read { path: path.clone(), source };
        let lock = match File::open(&path) {
            Ok(file) => match file.try_lock() {
                Ok(()) => Some(file),
                Err(fs::TryLockError::WouldBlock) => return Ok(None),
                Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(failed(source)),
        };
        // It was removed and made again meanwhile: that is another one.
        if let Some(file) = &lock
            && file.metadata().map_err(failed)?.nlink() == 0
        {
            return Ok(None);
        }
        Ok(Some(HeldItem { path, meta_path, _lock: lock }))
    }

    /// Digests by which a thing is referred to.
    fn names_of(&self, item: StoreItem) -> Result<Vec<Sha256>, StoreError> {
        match item {
            StoreItem::Image(raw) => Ok(self.by_raw(&raw)?.map_or_else(|| vec![raw], |image| names_of(&image.meta))),
            StoreItem::File(sha256) | StoreItem::Partial(sha256) => Ok(vec![sha256]),
        }
    }
}
