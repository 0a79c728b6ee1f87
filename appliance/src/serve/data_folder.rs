//! Reads data folders before they are used: what is in one, and which other one may have been meant.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::data_dir::LOST_AND_FOUND;
use super::start_decision::{self, DATABASE, FolderContent, FolderRefusal, StartDecision};

/// How many entries of a folder are looked at for a similar name.
const ENTRIES_MAX: usize = 10_000;

/// Reads the names in a folder.
///
/// # Errors
/// When there is something else, or it cannot be read.
pub(crate) fn read_content(folder: &Path) -> anyhow::Result<FolderContent> {
    let read = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FolderContent::Absent),
        entries => entries.and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
        }),
    };
    let mut names = read.with_context(|| format!("could not read the folder {}", folder.display()))?;
    names.retain(|name| name != LOST_AND_FOUND);
    names.sort();
    Ok(FolderContent::Names(names))
}

/// Decides what a start does with this folder.
///
/// # Errors
/// When it is not used, or cannot be read.
pub(crate) fn decide(folder: &Path, init: bool) -> anyhow::Result<StartDecision> {
    let content = read_content(folder)?;
    let meant = meant_instead(folder, &content);
    Ok(start_decision::decide(folder, &content, init, meant)?)
}

/// Checks the folder of a command that reads or imports images.
///
/// # Errors
/// When it is not used, or cannot be read.
pub fn check_for_images(folder: &Path, imports: bool) -> anyhow::Result<()> {
    let content = read_content(folder)?;
    let meant = meant_instead(folder, &content);
    Ok(start_decision::check_for_images(folder, &content, imports, meant)?)
}

/// Checks that a folder that a backup replaces is one of an appliance, or holds parts of one.
///
/// # Errors
/// When it holds anything else.
pub(crate) fn check_replaced(folder: &Path, names: &[String]) -> Result<(), FolderRefusal> {
    let is_appliance = names.iter().any(|name| name == DATABASE);
    match start_decision::foreign(names).filter(|_| !is_appliance) {
        Some(names) => Err(FolderRefusal::Foreign { folder: folder.to_owned(), names, nearby: None }),
        None => Ok(()),
    }
}

/// Finds the data folder that a path may mean instead: one inside of a foreign folder, or one whose path has a similar
/// name in place of the first one that is missing.
fn meant_instead(folder: &Path, content: &FolderContent) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    match content {
        FolderContent::Names(names) => {
            if names.iter().any(|name| name == DATABASE) {
                return None;
            }
            let mut inside = names.iter().take(ENTRIES_MAX).map(|name| folder.join(name)).filter(|path| is_one(path));
            inside.next().filter(|_| inside.next().is_none())
        }
        FolderContent::Absent => {
            let known = folder.ancestors().find(|path| path.is_dir())?;
            let mut missing = folder.strip_prefix(known).ok()?.components();
            let typed = missing.next()?.as_os_str().to_str()?.to_owned();
            let rest = missing.as_path();
            let beside = |name: &str| known.join(name).components().chain(rest.components()).collect::<PathBuf>();
            let names: Vec<String> = fs::read_dir(known)
                .ok()?
                .take(ENTRIES_MAX)
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| *name != typed && is_one(&beside(name)))
                .collect();
            Some(beside(&start_decision::most_similar(&typed, &names)?))
        }
    }
}

fn is_one(folder: &Path) -> bool {
    folder.join(DATABASE).is_file()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_data_folder_near_a_mistyped_path_is_found() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in ["firesteel/data", "firestorm/data", "docs/html"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        fs::write(path("firesteel/data").join(DATABASE), "").unwrap();
        let meant = |name: &str| meant_instead(&path(name), &read_content(&path(name)).unwrap());
        let right = Some(path("firesteel/data"));
        for name in ["firesteel/date", "firestel/data", "firesteel", "firesteel/daat"] {
            assert_eq!(meant(name), right, "{name}");
        }
        for name in ["firesteel/data", "firestorm/data", "docs", "firesteel/other", "new", "fire/data"] {
            assert_eq!(meant(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_file_system_makes_is_no_content() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(LOST_AND_FOUND)).unwrap();
        assert_eq!(read_content(root.path()).unwrap(), FolderContent::Names(Vec::new()));
        assert_eq!(read_content(&root.path().join("x")).unwrap(), FolderContent::Absent);
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(read_content(&file).unwrap_err().to_string().contains("could not read the folder"));
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(check_replaced(&file, &names(&["copyright", "pki"])).is_err());
        for kept in [&["copyright", "resources.db"][..], &["pki", "images"], &[]] {
            assert!(check_replaced(&file, &names(kept)).is_ok(), "{kept:?}");
        }
    }
}
