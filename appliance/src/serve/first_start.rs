//! The first start of an appliance in a folder: what it makes goes again if it fails.
//!
//! ```text
//! decide ─► folder, marker ─► keys, databases, CA, sockets ─► marker removed ─► first answer
//!                │                        │
//!                └── failed, interrupted ─┴─► what this process made is removed
//! ```
//!
//! The marker goes before anything is answered, so nothing that a client was answered can be removed. A process that is
//! killed leaves the marker: the next start goes on with what is there, and removes only what it makes itself. What was
//! there before a start is never removed, nor what no appliance makes.

use std::collections::BTreeSet;
use std::fs::{self, File, FileType, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};

use super::data_dir::LOST_AND_FOUND;
use super::data_folder;
use super::sealing::data_at_rest::is_own;
use super::settings::Settings;
use super::start_decision::{DATABASE, MARKER, StartDecision};

const MARKER_TEXT: &str = "The first start of an appliance in this folder has not ended. \
                           The next one goes on with it, and removes this file.\n";
/// Folders into which other commands put files while an appliance starts: a first start puts none there.
const SHARED_FOLDERS: [&str; 2] = ["images", "streams"];
/// How long the threads of a database may take to close it.
const CLOSED_WITHIN: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(5) };
const LOOKED_EVERY: Duration = Duration::from_millis(20);

/// A first start that has not ended.
#[derive(Debug)]
pub(super) struct FirstStart {
    folder: PathBuf,
    /// It is locked as long as this process may remove anything.
    _marker: File,
    /// What was in the folder before this start, by paths below it.
    found: BTreeSet<PathBuf>,
    /// Says that an earlier start was cut off here.
    is_resumed: bool,
    /// What else this start makes.
    made: MadeBefore,
    is_over: AtomicBool,
}

/// What a start makes outside of its folder, and what it changes before it has a marker.
#[derive(Debug, Default)]
struct MadeBefore {
    /// The folders that were missing, the outermost first.
    folders: Vec<PathBuf>,
    /// The permissions of a folder that was there.
    mode: Option<u32>,
    /// The key file, if it was missing.
    key: Option<PathBuf>,
}

impl FirstStart {
    /// Begins, or goes on with, the first start in the data folder; `None` if an appliance is there.
    ///
    /// # Errors
    /// When the folder must not be used, or cannot be made.
    pub(super) fn begin(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let decision = data_folder::decide(&settings.data, settings.init)?;
        if decision == StartDecision::Serve {
            return Ok(None);
        }
        let folder = std::path::absolute(&settings.data)
            .with_context(|| format!("could not find the folder {}", settings.data.display()))?;
        let mut made = MadeBefore {
            mode: fs::metadata(&folder).map(|found| found.permissions().mode() & 0o7777).ok(),
            ..MadeBefore::default()
        };
        let marked = make_folders(&folder, &mut made.folders).and_then(|()| mark(&folder, decision));
        let marker = marked.inspect_err(|_| made.remove_folders())?;
        let mut found = BTreeSet::new();
        let read = each_own(&folder, Path::new(""), &mut |path, _| {
            found.insert(path.to_owned());
            Ok(())
        });
        read.with_context(|| format!("could not read the folder {}", folder.display()))?;
        if !found.contains(Path::new(DATABASE)) {
            // What is sealed in a database that stays needs its key.
            made.note_key(&settings.secrets_key);
        }
        let is_resumed = decision == StartDecision::GoOn;
        let shown = folder.display();
        if is_resumed {
            tracing::warn!(folder = %shown, "the first start of an appliance was cut off here; this one goes on with it");
        } else {
            tracing::info!(folder = %shown, "a new appliance begins here, with a CA and keys of its own");
        }
        Ok(Some(Self { folder, _marker: marker, found, is_resumed, made, is_over: AtomicBool::new(false) }))
    }

    /// Ends the first start, right before the first answer: from here on, all in the folder stays.
    ///
    /// # Errors
    /// When the marker cannot be removed.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        let done = fs::remove_file(self.folder.join(MARKER)).and_then(|()| {
            self.is_over.store(true, Ordering::Release);
            File::open(&self.folder)?.sync_all()
        });
        done.with_context(|| format!("could not end the first start in {}", self.folder.display()))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Runs a start, and stops it on a signal; later ones are for the appliance that serves.
    ///
    /// # Errors
    /// Those of the start, or that it was stopped.
    pub(super) async fn run(&self, start: impl Future<Output = anyhow::Result<()>> + Send) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
        tokio::select! {
            // An appliance that serves says itself that it stops.
            biased;
            ended = start => ended,
            _ = terminate.recv() => self.stopped(),
            _ = interrupt.recv() => self.stopped(),
        }
    }

    fn stopped(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.is_over(), "it was stopped before it served");
        Ok(())
    }

    /// Removes what this process made, if it did not come as far as to serve, and adds to the error what is left.
    pub(super) fn fail(self, error: anyhow::Error) -> anyhow::Error {
        if self.is_over() {
            return error;
        }
        let left = match self.undo() {
            Ok(true) => ", and nothing of it is left".to_owned(),
            Ok(false) => {
                "; the next start goes on with what an earlier one made there, unless you remove the folder".to_owned()
            }
            Err(why) => format!("; the next start goes on with what could not be removed ({why:#})"),
        };
        error.context(format!("the first start of an appliance in {} failed{left}", self.folder.display()))
    }

    /// Returns whether nothing is left of the start.
    fn undo(&self) -> anyhow::Result<bool> {
        let _closed = self.close_database()?;
        let removed = each_own(&self.folder, Path::new(""), &mut |path, kind| self.remove_if_new(path, kind));
        removed.with_context(|| format!("could not remove all that is new in {}", self.folder.display()))?;
        self.made.remove_key()?;
        if self.is_resumed && !self.found.is_empty() {
            return Ok(false);
        }
        let marker = self.folder.join(MARKER);
        fs::remove_file(&marker).with_context(|| format!("could not remove {}", marker.display()))?;
        self.made.remove_folders();
        self.made.restore_mode(&self.folder);
        Ok(true)
    }

    fn remove_if_new(&self, path: &Path, kind: FileType) -> io::Result<()> {
        if self.found.contains(path) {
            return Ok(());
        }
        let is_shared = SHARED_FOLDERS.iter().any(|folder| path.starts_with(folder));
        let path = self.folder.join(path);
        if !kind.is_dir() {
            return if is_shared { Ok(()) } else { fs::remove_file(&path) };
        }
        match fs::remove_dir(&path) {
            // Another process has put something into it.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }

    /// Waits until no thread of this process has the database open, and keeps other processes out of it.
    fn close_database(&self) -> anyhow::Result<Option<File>> {
        let path = self.folder.join(format!("{DATABASE}.lock"));
        let lock = match OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.with_context(|| format!("could not open {}", path.display()))?,
        };
        let end = Instant::now() + CLOSED_WITHIN;
        while lock.try_lock().is_err() {
            anyhow::ensure!(Instant::now() < end, "{} is in use", path.display());
            std::thread::sleep(LOOKED_EVERY);
        }
        Ok(Some(lock))
    }
}

impl MadeBefore {
    /// Notes the key file, and the folders to it, if they are missing. One in the data folder goes with that.
    fn note_key(&mut self, key: &Path) {
        let Ok(key) = std::path::absolute(key) else { return };
        if key.exists() {
            return;
        }
        let missing: Vec<&Path> = key.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        self.folders.extend(missing.into_iter().rev().map(Path::to_owned));
        self.key = Some(key);
    }

    fn remove_key(&self) -> anyhow::Result<()> {
        let Some(key) = &self.key else { return Ok(()) };
        match fs::remove_file(key) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("could not remove {}", key.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the folders that are empty: another process has put something into the others.
    fn remove_folders(&self) {
        for folder in self.folders.iter().rev() {
            if let Err(error) = fs::remove_dir(folder)
                && ![io::ErrorKind::NotFound, io::ErrorKind::DirectoryNotEmpty].contains(&error.kind())
            {
                tracing::warn!(folder = %folder.display(), %error, "could not remove a folder of the failed start");
            }
        }
    }

    fn restore_mode(&self, folder: &Path) {
        let Some(mode) = self.mode else { return };
        if let Err(error) = fs::set_permissions(folder, Permissions::from_mode(mode)) {
            tracing::warn!(folder = %folder.display(), %error, "could not give a folder its permissions back");
        }
    }
}

/// Makes a folder and those above it, and notes each that was missing.
fn make_folders(folder: &Path, made: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        let done = fs::DirBuilder::new().mode(0o700).create(path).and_then(|()| {
            made.push(path.to_owned());
            // A file in a folder is lost if the folder's own name is.
            File::open(path.parent().unwrap_or(path))?.sync_all()
        });
        done.with_context(|| format!("could not make the folder {}", path.display()))?;
    }
    Ok(())
}

/// Writes the marker, or opens the one that is there, and locks it.
fn mark(folder: &Path, decision: StartDecision) -> anyhow::Result<File> {
    let path = folder.join(MARKER);
    let is_new = decision == StartDecision::Begin;
    let busy = || format!("another appliance starts in {} now: wait for it, or name another folder", folder.display());
    let mut marker = match OpenOptions::new().write(true).create_new(is_new).mode(0o600).open(&path) {
        Err(error) if [io::ErrorKind::AlreadyExists, io::ErrorKind::NotFound].contains(&error.kind()) => bail!(busy()),
        opened => opened.with_context(|| format!("could not write {}", path.display()))?,
    };
    match marker.try_lock() {
        Err(TryLockError::WouldBlock) => bail!(busy()),
        locked => locked.with_context(|| format!("could not lock {}", path.display()))?,
    }
    // Another process may have ended its first start between the two.
    let is_same = fs::metadata(&path).is_ok_and(|there| marker.metadata().is_ok_and(|own| own.ino() == there.ino()));
    anyhow::ensure!(is_same, busy());
    if is_new {
        let written = marker.write_all(MARKER_TEXT.as_bytes()).and_then(|()| marker.sync_all());
        let written = written.and_then(|()| File::open(folder)?.sync_all());
        // An empty marker counts as well; without this one, the next start decides again.
        let written = written.inspect_err(|_| drop(fs::remove_file(&path)));
        written.with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(marker)
}

/// Calls `act` with each path that an appliance may have made in its folder, a folder after what is in it. Links are
/// not followed.
fn each_own(folder: &Path, below: &Path, act: &mut dyn FnMut(&Path, FileType) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let is_first = below.as_os_str().is_empty();
        if is_first && !name.to_str().is_some_and(|name| name != MARKER && name != LOST_AND_FOUND && is_own(name)) {
            continue;
        }
        let path = below.join(name);
        if kind.is_dir() {
            each_own(folder, &path, act)?;
        }
        act(&path, kind)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
