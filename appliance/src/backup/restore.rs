//! A data folder made of a backup, offline: nothing stands at its place, or all of it.
//!
//! Order: judge the folder → copy the database out of the backup beside it, and compare the digest →
//! make a store of it, in another epoch → add the keys, and the images that are there → one rename.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File, OpenOptions},
    io::BufReader,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use firesteel_store::{GroupResource, RestoreContext, RestoredStore, revision_of};
use jiff::{Timestamp, tz::TimeZone};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{
    folder::{self, Staging},
    format::{BackupHeader, BackupReader, PIECE_BYTES},
    keys,
};
use crate::serve::sealing::{self, data_at_rest::SEALED_KINDS};

const DATABASE: &str = "resources.db";
/// The store's, beside it.
const LOCK: &str = "resources.db.lock";
/// What else of a folder that is replaced stays in use: leases that were granted since the backup.
const KEPT_FILES: [&str; 3] = ["leases.db", "leases.db-wal", "leases.db-shm"];
/// Images that may have no other source, and who did what.
const KEPT_FOLDERS: [&str; 2] = ["images", "audit"];
/// What an empty file system has.
const LOST_AND_FOUND: &str = "lost+found";

/// Where the private keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreKeySource {
    /// From the folder that is restored into, if they are there.
    There,
    /// From this folder, with `pki` and `secrets` in it.
    Folder(PathBuf),
    /// New ones: everybody who trusts the old ones must be told.
    New,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    pub backup: PathBuf,
    pub data: PathBuf,
    pub keys: RestoreKeySource,
    /// A folder with something in it may be replaced.
    pub force: bool,
    pub now: Timestamp,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct RestoreReport {
    pub header: BackupHeader,
    pub restored: RestoredStore,
    /// Where the folder that was replaced is now.
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
            writeln!(
                f,
                "{} are not in it, since their key is lost: make Secrets and configs again",
                listed(forgotten)
            )?;
        }
        if let Some(replaced) = &self.replaced {
            writeln!(f, "the folder that was there is kept as {}", replaced.display())?;
        }
        Ok(())
    }
}

/// How many of each kind, as in `6 Secrets, 2 HostJournals`.
fn listed(forgotten: &BTreeMap<GroupResource, usize>) -> String {
    let of_kind = |(kind, count): (&GroupResource, &usize)| {
        let known = SEALED_KINDS.iter().find(|known| known.resource() == *kind);
        known.map_or_else(|| format!("{count} {kind}"), |known| format!("{count} {}", known.people_say))
    };
    forgotten.iter().map(of_kind).collect::<Vec<_>>().join(", ")
}

/// Does it. `at` is told where it is, for tests that end the process there.
///
/// # Errors
/// What kept the folder from being made; then nothing was changed. Or that it is in its place, and what was
/// there before has another name than it should; then the error says so.
pub fn restore(order: &RestoreOptions, at: &mut dyn FnMut(&'static str)) -> anyhow::Result<RestoreReport> {
    let place = absolute(&order.data)?;
    let found = RestoreTarget::check_target(&place, order.force)?;
    let source = File::open(&order.backup).with_context(|| format!("opening {}", order.backup.display()))?;
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
    let whole = std::path::absolute(data).with_context(|| format!("finding {}", data.display()))?;
    // A link's target is what is to be replaced, not the link.
    if whole.exists() { whole.canonicalize().with_context(|| format!("finding {}", data.display())) } else { Ok(whole) }
}

/// What stands at the place, and the lock that keeps an appliance out of it until we are done.
struct RestoreTarget {
    place: PathBuf,
    names: Vec<String>,
    _lock: Option<File>,
}

impl RestoreTarget {
    fn check_target(place: &Path, force: bool) -> anyhow::Result<Self> {
        let looking = || format!("looking into {}", place.display());
        let look = || -> anyhow::Result<Vec<String>> {
            let names = names(place).with_context(looking)?;
            if !force && !names.iter().all(|name| keys::FOLDERS.contains(&name.as_str()) || name == LOCK) {
                bail!(
                    "{} is not empty: name another folder, or say --force to put the backup in its place (what is \
                     there is kept under another name)",
                    place.display()
                );
            }
            Ok(names)
        };
        if look()?.is_empty() {
            // An appliance that starts here makes it a folder that cannot be replaced.
            return Ok(Self { place: place.to_owned(), names: Vec::new(), _lock: None });
        }
        let lock = lock(place)?;
        // An appliance may have been here until it was locked.
        Ok(Self { place: place.to_owned(), names: look()?, _lock: Some(lock) })
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn has(&self, name: &str) -> Option<PathBuf> {
        self.names.iter().any(|found| found == name).then(|| self.place.join(name))
    }
}

/// What is in a folder, which may not be there.
fn names(place: &Path) -> std::io::Result<Vec<String>> {
    match fs::read_dir(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .filter(|name| !matches!(name.as_deref(), Ok(LOST_AND_FOUND)))
            .collect(),
    }
}

/// The store's own lock; an appliance that runs has it. It is made where none has been yet, and stays:
/// whoever took it away could take it from another.
fn lock(place: &Path) -> anyhow::Result<File> {
    let path = place.join(LOCK);
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => bail!("{} is in use: stop the appliance that serves from it", place.display()),
    }
}

/// The folder to take the keys from, judged against the backup; `None` for new keys.
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
         `pki` and `secrets` of the old data folder by --keys, or say --new-keys (then kubeconfigs, and hosts that \
         have not reported yet, trust this appliance no longer, old receipts cannot be verified with its key, and \
         Secrets are lost that were sealed by a key among them)",
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
        .with_context(|| format!("making {}", database.display()))?;
    let header = reader.copy(&mut out, |_| at("copying")).with_context(|| format!("{}", order.backup.display()))?;
    drop(out);
    at("copied");
    let how = RestoreContext {
        timeline: draw()?,
        now_ms: order.now.as_millisecond(),
        made_ms: header.made_at.as_millisecond(),
        replaced: found.has(DATABASE).and_then(|old| revision_of(&old)),
        // One that lay elsewhere is not lost with the others.
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

/// Never zero, which is no timeline.
fn draw() -> anyhow::Result<u32> {
    let mut bits = [0; 4];
    SystemRandom::new().fill(&mut bits).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
    Ok(u32::from_ne_bytes(bits).max(1))
}

fn take_keys(from: &Path, to: &Path) -> anyhow::Result<()> {
    for folder in keys::FOLDERS {
        let target = to.join(folder);
        folder::make(&target).with_context(|| format!("making {}", target.display()))?;
        for name in keys::files(&from.join(folder))? {
            folder::copy(&from.join(folder).join(&name), &target.join(&name))?;
        }
    }
    Ok(())
}
