//! What is on record of `test --all`: for the files of one checkout a folder in the cache, with the end of each piece
//! that came to one. Parts that run at the same time share it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Checkouts of which something is on record; the oldest go.
const CHECKOUTS_MAX: usize = 20;
const RECORD_FILE: &str = "record.json";
const LOCK_FILE: &str = "lock";

/// How a piece ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PieceEnd {
    pub(super) seconds: u64,
    pub(super) ended_at: Timestamp,
    /// Why it failed; absent where it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct PieceRecord {
    folder: PathBuf,
}

impl PieceRecord {
    /// Opens the record of these files; `name` is their digest. Removes those of the oldest checkouts.
    pub(super) fn open(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let own = folder.join(name);
        fs::create_dir_all(&own).with_context(|| format!("making {}", own.display()))?;
        remove_oldest(folder, &own).with_context(|| format!("removing old records from {}", folder.display()))?;
        Ok(Self { folder: own })
    }

    /// The record of a folder that was opened before.
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn ends(&self) -> anyhow::Result<BTreeMap<String, PieceEnd>> {
        let path = self.folder.join(RECORD_FILE);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("could not read {}: remove it to run everything again", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    pub(super) fn note(&self, name: &str, end: PieceEnd) -> anyhow::Result<()> {
        self.change(|ends| {
            ends.insert(name.to_owned(), end);
        })
    }

    pub(super) fn forget(&self, names: &[String]) -> anyhow::Result<()> {
        self.change(|ends| ends.retain(|name, _| !names.contains(name)))
    }

    /// One at a time, also from other processes. A process that dies leaves the old record or the new one.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, PieceEnd>)) -> anyhow::Result<()> {
        let path = self.folder.join(LOCK_FILE);
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(|| format!("opening {}", path.display()))?;
        lock.lock().with_context(|| format!("locking {}", path.display()))?;
        let mut ends = self.ends()?;
        change(&mut ends);
        let (path, new) = (self.folder.join(RECORD_FILE), self.folder.join("record.json.new"));
        fs::write(&new, serde_json::to_vec_pretty(&ends)?).with_context(|| format!("writing {}", new.display()))?;
        fs::rename(&new, &path).with_context(|| format!("writing {}", path.display()))?;
        Ok(())
    }
}

/// All but the newest, of which `own` is one however old it is.
fn remove_oldest(folder: &Path, own: &Path) -> io::Result<()> {
    let mut others: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.path() != own {
            others.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    others.sort();
    let excess = (others.len() + 1).saturating_sub(CHECKOUTS_MAX);
    others.iter().take(excess).try_for_each(|(_, path)| fs::remove_dir_all(path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn end(failure: Option<&str>) -> PieceEnd {
        PieceEnd { seconds: 1, ended_at: Timestamp::UNIX_EPOCH, failure: failure.map(str::to_owned) }
    }

    #[test]
    fn what_is_noted_is_there_for_the_next_process_and_for_these_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let record = PieceRecord::open(folder.path(), "aa").unwrap();
        assert!(record.ends().unwrap().is_empty());
        record.note("life", end(None)).unwrap();
        record.note("pool", end(Some("why"))).unwrap();
        let again = PieceRecord::open(folder.path(), "aa").unwrap();
        let ends = again.ends().unwrap();
        assert_eq!((&ends["life"], &ends["pool"]), (&end(None), &end(Some("why"))));
        assert_eq!(PieceRecord::at(again.folder().to_owned()).ends().unwrap(), ends);
        assert!(PieceRecord::open(folder.path(), "bb").unwrap().ends().unwrap().is_empty(), "other files");
        again.forget(&["life".to_owned()]).unwrap();
        assert_eq!(record.ends().unwrap().into_keys().collect::<Vec<_>>(), ["pool"]);
        fs::write(record.folder().join(RECORD_FILE), "{").unwrap();
        let error = format!("{:#}", record.ends().unwrap_err());
        assert!(error.contains("remove it"), "{error}");
    }

    #[test]
    fn pieces_that_end_at_once_are_all_noted() {
        let folder = tempfile::tempdir().unwrap();
        let record = PieceRecord::open(folder.path(), "aa").unwrap();
        std::thread::scope(|scope| {
            for number in 0..16 {
                let record = &record;
                scope.spawn(move || record.note(&number.to_string(), end(None)).unwrap());
            }
        });
        assert_eq!(record.ends().unwrap().len(), 16);
    }

    #[test]
    fn records_of_few_checkouts_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..CHECKOUTS_MAX + 5 {
            PieceRecord::open(folder.path(), &number.to_string()).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), CHECKOUTS_MAX);
    }
}
