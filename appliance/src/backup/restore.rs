//! Makes a data folder from a backup, offline: either the whole folder is put in place, or nothing.
//!
//! Order: check the folder → copy the database out of the backup beside it, and compare the digest → make a store of
//! it, in another epoch → add the keys, and the images that are there → one rename.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use firesteel_store::{GroupResource, RestoreContext, RestoredStore, revision_of};
use jiff::{Timestamp, tz::TimeZone};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::folder::{self, Staging};
use super::format::{BackupHeader, BackupReader, PIECE_BYTES};
use super::keys;
use crate::serve::data_folder::{check_replaced, read_content};
use crate::serve::sealing::{self, data_at_rest::SEALED_KINDS};
use crate::serve::start_decision::{DATABASE, FolderContent, listed as named};

/// The lock file of the store, beside the database.
const LOCK: &str = "resources.db.lock";
/// Files of the old folder that stay in use: leases that were granted since the backup.
const KEPT_FILES: [&str; 3] = ["leases.db", "leases.db-wal", "leases.db-shm"];
/// Folders of the old folder that stay: images that may have no other source, and the audit log.
const KEPT_FOLDERS: [&str; 2] = ["images", "audit"];

/// The source of the private keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreKeySource {
    /// The folder that is replaced, if it has keys.
    There,
    /// This folder, with `pki` and `secrets` in it.
    Folder(PathBuf),
    /// New keys: everyone who trusts the old ones must get the new ones.
    New,
}

/// The options of a restore.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    pub backup: PathBuf,
    pub data: PathBuf,
    pub keys: RestoreKeySource,
    /// Allows to replace a folder that is not empty.
    pub force: bool,
    pub now: Timestamp,
}

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct RestoreReport {
    pub header: BackupHeader,
    pub restored: RestoredStore,
    /// The path at which the replaced folder is now.
    pub replaced: Option<PathBuf>,
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RestoredStore { epoch, from, began, forgotten, .. } = &self.restored;
        writeln!(
            f,
            "restored revision {from} of {}: epoch {epoch}, which begins at revision {began}",
            self.header.made_at
        )?;
        if !forgotten.is_empty() {
            writeln!(f, "{} are lost with their key: make Secrets and configs again", listed(forgotten))?;
        }
        if let Some(replaced) = &self.replaced {
            writeln!(f, "the folder that was there is kept as {}", replaced.display())?;
        }
        Ok(())
    }
}

/// Lists how many of each kind there are, as in `6 Secrets, 2 HostJournals`.
fn listed(forgotten: &BTreeMap<GroupResource, usize>) -> String {
    let of_kind = |(kind, count): (&GroupResource, &usize)| {
        let known = SEALED_KINDS.iter().find(|known| known.resource() == *kind);
        known.map_or_else(|| format!("{count} {kind}"), |known| format!("{count} {}", known.people_say))
    };
    forgotten.iter().map(of_kind).collect::<Vec<_>>().join(", ")
}

/// Restores a backup. `at` is called with the name of each stage, for tests that end the process there.
///
/// # Errors
/// When the folder could not be made: nothing was changed then. Or when it is in place, but the old folder could not
/// get its final name: the error says so.
pub fn restore(order: &RestoreOptions, at: &mut dyn FnMut(&'static str)) -> anyhow::Result<RestoreReport> {
    let place = absolute(&order.data)?;
    let found = RestoreTarget::check_target(&place, order.force)?;
    let source = File::open(&order.backup).with_context(|| format!("could not open {}", order.backup.display()))?;
    let reader = BackupReader::open(BufReader::with_capacity(PIECE_BYTES, source))
        .with_context(|| format!("{}", order.backup.display()))?;
    let keys_from = keys_from(order, &place, reader.header())?;
    let stamp = order.now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ");
    let aside = format!("replaced-{stamp}");
    let staging = Staging::new(&place, &aside)?;
    at("staging");
    let done = fill(order, reader, &staging, &found, keys_from.as_deref(), at);
    let (header, restored) = done.inspect_err(|_| staging.discard())?;
    staging.finish().inspect_err(|_| staging.discard())?;
    at("finished");
    let replaced = if found.is_empty() {
        staging.put()?;
        None
    } else {
        Some(staging.exchange(&aside)?)
    };
    at("done");
    Ok(RestoreReport { header, restored, replaced })
}

fn absolute(data: &Path) -> anyhow::Result<PathBuf> {
    let whole = std::path::absolute(data).with_context(|| format!("could not find {}", data.display()))?;
    // The folder is exchanged with the target of a link, not with the link.
    if whole.exists() {
        whole.canonicalize().with_context(|| format!("could not find {}", data.display()))
    } else {
        Ok(whole)
    }
}

/// The folder that is replaced, and the lock that keeps an appliance out of it until the restore ends.
struct RestoreTarget {
    place: PathBuf,
    names: Vec<String>,
    _lock: Option<File>,
}

impl RestoreTarget {
    fn check_target(place: &Path, force: bool) -> anyhow::Result<Self> {
        let look = || -> anyhow::Result<Vec<String>> {
            let names = names(place)?;
            // A folder of something else is not moved away either.
            check_replaced(place, &names)?;
            let kept = |name: &String| keys::FOLDERS.contains(&name.as_str()) || name == LOCK;
            let others: Vec<String> = names.iter().filter(|name| !kept(name)).cloned().collect();
            if !force && !others.is_empty() {
                bail!(
                    "{} is not empty, it holds {}: name another folder, or give --force to replace it by the backup \
                     (it is kept under another name)",
                    place.display(),
                    named(&others)
                );
            }
            Ok(names)
        };
        if look()?.is_empty() {
            // An appliance that starts here now makes a folder that cannot be replaced.
            return Ok(Self { place: place.to_owned(), names: Vec::new(), _lock: None });
        }
        let lock = lock(place)?;
        // An appliance may have run here until the folder was locked.
        Ok(Self { place: place.to_owned(), names: look()?, _lock: Some(lock) })
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn has(&self, name: &str) -> Option<PathBuf> {
        self.names.iter().any(|found| found == name).then(|| self.place.join(name))
    }
}

/// The names in a folder, which may be missing.
fn names(place: &Path) -> anyhow::Result<Vec<String>> {
    Ok(match read_content(place)? {
        FolderContent::Absent => Vec::new(),
        FolderContent::Names(names) => names,
    })
}

/// Takes the store's own lock, which a running appliance holds. It is made if there is none, and never removed: to
/// remove it could take it from another process.
fn lock(place: &Path) -> anyhow::Result<File> {
    let path = place.join(LOCK);
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("could not open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => bail!("{} is in use: stop the appliance that serves from it", place.display()),
    }
}

/// The folder to take the keys from, compared with the backup; `None` for new keys.
fn keys_from(order: &RestoreOptions, place: &Path, header: &BackupHeader) -> anyhow::Result<Option<PathBuf>> {
    let folder = match &order.keys {
        RestoreKeySource::New => return Ok(None),
        RestoreKeySource::Folder(folder) => folder.clone(),
        RestoreKeySource::There => place.to_owned(),
    };
    let differences = keys::differences(&header.keys, &keys::digests(&folder)?);
    if differences.is_empty() {
        return Ok(Some(folder));
    }
    bail!(
        "the private keys of this backup are not in {}: {}. They are not part of a backup: name a folder with the \
         `pki` and `secrets` of the old data folder by --keys, or give --new-keys (then kubeconfigs, and hosts that \
         have not reported yet, no longer trust this appliance, old receipts cannot be verified with its key, and \
         Secrets are lost that one of them sealed)",
        folder.display(),
        differences.join(", ")
    )
}

fn fill(
    order: &RestoreOptions,
    reader: BackupReader<BufReader<File>>,
    staging: &Staging,
    found: &RestoreTarget,
    keys_from: Option<&Path>,
    at: &mut dyn FnMut(&'static str),
) -> anyhow::Result<(BackupHeader, RestoredStore)> {
    let database = staging.path.join(DATABASE);
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&database)
        .with_context(|| format!("could not make {}", database.display()))?;
    let header = reader.copy(&mut out, |_| at("copying")).with_context(|| format!("{}", order.backup.display()))?;
    drop(out);
    at("copied");
    let how = RestoreContext {
        timeline: draw()?,
        now_ms: order.now.as_millisecond(),
        made_ms: header.made_at.as_millisecond(),
        replaced: found.has(DATABASE).and_then(|old| revision_of(&old)),
        // A key that was kept elsewhere is not lost with the others.
        forgets_sealed: order.keys == RestoreKeySource::New && header.keys.contains_key(sealing::DEFAULT_FILE),
    };
    let restored = firesteel_store::restore(&database, &how)?;
    anyhow::ensure!(
        restored.from.0 == header.revision,
        "the backup says that it is of revision {}, and its database is of {}",
        header.revision,
        restored.from
    );
    at("restored");
    if let Some(from) = keys_from {
        take_keys(from, &staging.path)?;
    }
    at("keys");
    for (name, old) in KEPT_FOLDERS.iter().filter_map(|name| Some((name, found.has(name)?))) {
        folder::link_tree(&old, &staging.path.join(name))?;
    }
    for (name, old) in KEPT_FILES.iter().filter_map(|name| Some((name, found.has(name)?))) {
        folder::copy(&old, &staging.path.join(name))?;
    }
    at("images");
    Ok((header, restored))
}

/// Never zero, which is not a timeline.
fn draw() -> anyhow::Result<u32> {
    let mut bits = [0; 4];
    SystemRandom::new().fill(&mut bits).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
    Ok(u32::from_ne_bytes(bits).max(1))
}

fn take_keys(from: &Path, to: &Path) -> anyhow::Result<()> {
    for folder in keys::FOLDERS {
        let target = to.join(folder);
        folder::make(&target).with_context(|| format!("could not make {}", target.display()))?;
        for name in keys::files(&from.join(folder))? {
            folder::copy(&from.join(folder).join(&name), &target.join(&name))?;
        }
    }
    Ok(())
}
