//! Decides what a start does with its data folder: serve the appliance that is there, begin a new one, or refuse.
//!
//! | the folder | without `--init` | with `--init` |
//! |---|---|---|
//! | holds an appliance, that is, its database | serves it | refuses |
//! | holds a first start that was cut off | goes on with it | goes on with it |
//! | is absent or empty | begins one | begins one |
//! | is absent, and a data folder has a similar name | refuses | begins one |
//! | holds parts of an appliance without the database | refuses | begins one that takes them over |
//! | holds anything else without a database | refuses | refuses |
//!
//! A typing error in `--data` would otherwise begin an empty fleet with a CA of its own, which answers DHCP; and it
//! would fill a folder that belongs to something else.

use std::path::{Path, PathBuf};

use super::sealing::data_at_rest::is_own;

/// The file without which there is no appliance in a folder.
pub const DATABASE: &str = "resources.db";
/// The file that marks a folder whose first start has not ended.
pub const MARKER: &str = "first-start";
/// How many names a message lists.
const NAMES_MAX: usize = 5;
/// Names with fewer letters are all similar to each other.
const SIMILAR_CHARS_MIN: usize = 3;
/// From so many letters on, two edits may be one slip of the hand.
const TWO_EDITS_CHARS_MIN: usize = 7;

/// The content of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderContent {
    Absent,
    /// The sorted names in the folder, without those that a file system makes.
    Names(Vec<String>),
}

/// What a start does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartDecision {
    /// Serves the appliance of the folder.
    Serve,
    /// Begins a new appliance.
    Begin,
    /// Goes on with a first start that was cut off.
    GoOn,
}

/// Why a folder is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FolderRefusal {
    #[error(
        "could not use {} as a data folder: it holds {names}, which no appliance made; {}name a folder that is absent \
         or empty (--data)", folder.display(), hint(nearby.as_deref())
    )]
    Foreign { folder: PathBuf, names: String, nearby: Option<PathBuf> },
    #[error(
        "could not serve from {folder}: it holds {names}, and no database ({database}); restore a backup with \
         `firesteel restore BACKUP --data {folder} --force`, or start a new appliance that takes over what is there \
         with --init", folder = folder.display(), database = DATABASE
    )]
    NoDatabase { folder: PathBuf, names: String },
    #[error(
        "could not serve from {folder}: there is no such folder; did you mean {}? To start a new appliance in \
         {folder}, give --init", nearby.display(), folder = folder.display()
    )]
    SimilarName { folder: PathBuf, nearby: PathBuf },
    #[error(
        "could not start a new appliance in {}: it holds an appliance already; to serve that one, leave --init out",
        folder.display()
    )]
    HoldsAppliance { folder: PathBuf },
    #[error(
        "could not use {}: there is no data folder; {}name the folder of an appliance (--data)",
        folder.display(), hint(nearby.as_deref())
    )]
    NoDataFolder { folder: PathBuf, nearby: Option<PathBuf> },
}

fn hint(nearby: Option<&Path>) -> String {
    nearby.map(|nearby| format!("did you mean {}? Otherwise ", nearby.display())).unwrap_or_default()
}

/// Decides what a start does. `nearby` is a data folder that may have been meant.
///
/// # Errors
/// The folder is not used, and why.
pub fn decide(
    folder: &Path,
    content: &FolderContent,
    init: bool,
    nearby: Option<PathBuf>,
) -> Result<StartDecision, FolderRefusal> {
    let folder = folder.to_owned();
    let names = match content {
        FolderContent::Absent => {
            return match nearby.filter(|_| !init) {
                Some(nearby) => Err(FolderRefusal::SimilarName { folder, nearby }),
                None => Ok(StartDecision::Begin),
            };
        }
        FolderContent::Names(names) => names,
    };
    let has_database = holds(names, DATABASE);
    if let Some(names) = foreign(names).filter(|_| !has_database) {
        return Err(FolderRefusal::Foreign { folder, names, nearby });
    }
    if holds(names, MARKER) {
        return Ok(StartDecision::GoOn);
    }
    match (has_database, init) {
        (true, false) => Ok(StartDecision::Serve),
        (true, true) => Err(FolderRefusal::HoldsAppliance { folder }),
        (false, false) if !names.is_empty() => Err(FolderRefusal::NoDatabase { folder, names: listed(names) }),
        (false, _) => Ok(StartDecision::Begin),
    }
}

/// Checks a folder from which images are read, or into which they are imported. An import makes a folder that is absent.
///
/// # Errors
/// The folder is not used, and why.
pub fn check_for_images(
    folder: &Path,
    content: &FolderContent,
    imports: bool,
    nearby: Option<PathBuf>,
) -> Result<(), FolderRefusal> {
    let folder = folder.to_owned();
    match content {
        FolderContent::Absent if imports && nearby.is_none() => Ok(()),
        FolderContent::Absent => Err(FolderRefusal::NoDataFolder { folder, nearby }),
        FolderContent::Names(names) if names.iter().any(|name| is_own(name)) => Ok(()),
        FolderContent::Names(names) => match foreign(names) {
            Some(names) => Err(FolderRefusal::Foreign { folder, names, nearby }),
            None if imports => Ok(()),
            None => Err(FolderRefusal::NoDataFolder { folder, nearby }),
        },
    }
}

fn holds(names: &[String], name: &str) -> bool {
    names.iter().any(|held| held == name)
}

/// Lists the names that no appliance makes; `None` if there are none.
#[must_use]
pub fn foreign(names: &[String]) -> Option<String> {
    let foreign: Vec<String> = names.iter().filter(|name| !is_own(name)).cloned().collect();
    (!foreign.is_empty()).then(|| listed(&foreign))
}

/// Lists the first names, and counts the others.
#[must_use]
pub fn listed(names: &[String]) -> String {
    let mut words: Vec<String> = names.iter().take(NAMES_MAX).cloned().collect();
    if names.len() > NAMES_MAX {
        words.push(format!("{} more", names.len() - NAMES_MAX));
    }
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "nothing".to_owned(),
    }
}

/// Returns the name for which `typed` may be a typing error.
#[must_use]
pub fn most_similar(typed: &str, names: &[String]) -> Option<String> {
    let typed = typed.to_lowercase();
    let letters = typed.chars().count();
    let edits_max = match letters {
        0..SIMILAR_CHARS_MIN => 0,
        SIMILAR_CHARS_MIN..TWO_EDITS_CHARS_MIN => 1,
        _ => 2,
    };
    let edits = names.iter().map(|name| (strsim::damerau_levenshtein(&typed, &name.to_lowercase()), name));
    edits.filter(|(edits, _)| *edits <= edits_max).min().map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const FOLDER: &str = "/srv/firesteel";

    fn content(names: &[&str]) -> FolderContent {
        FolderContent::Names(names.iter().map(|&name| name.to_owned()).collect())
    }

    fn decided(content: &FolderContent, init: bool) -> Result<StartDecision, String> {
        decide(Path::new(FOLDER), content, init, None).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn an_appliance_is_served_and_a_new_one_begins_where_nothing_is() {
        use StartDecision::{Begin, GoOn, Serve};
        for (content, without, with) in [
            (FolderContent::Absent, Some(Begin), Some(Begin)),
            (content(&[]), Some(Begin), Some(Begin)),
            (content(&["pki", "resources.db", "secrets"]), Some(Serve), None),
            (content(&["README", "resources.db"]), Some(Serve), None),
            (content(&["first-start"]), Some(GoOn), Some(GoOn)),
            (content(&["first-start", "resources.db", "resources.db-wal"]), Some(GoOn), Some(GoOn)),
            (content(&["images"]), None, Some(Begin)),
            (content(&["pki", "secrets", "resources.db.lock"]), None, Some(Begin)),
            (content(&["copyright"]), None, None),
            (content(&["pki", "resources.db.old.tar", "x"]), None, None),
            (content(&["first-start", "copyright"]), None, None),
        ] {
            let found = [false, true].map(|init| decided(&content, init).ok());
            assert_eq!(found, [without, with], "{content:?}");
        }
    }

    #[test]
    fn a_refusal_names_what_is_there_and_what_to_do() {
        let foreign = decided(&content(&["a", "b", "c", "d", "e", "f", "images"]), true).unwrap_err();
        assert!(foreign.contains("it holds a, b, c, d, e and 1 more, which no appliance made"), "{foreign}");
        assert!(foreign.contains("absent or empty") && !foreign.contains("did you mean"), "{foreign}");
        let parts = decided(&content(&["pki", "secrets"]), false).unwrap_err();
        for word in ["pki and secrets", "no database", "firesteel restore", "--init", FOLDER] {
            assert!(parts.contains(word), "{word}: {parts}");
        }
        let there = decided(&content(&["resources.db"]), true).unwrap_err();
        assert!(there.contains("an appliance already") && there.contains("leave --init out"), "{there}");
    }

    #[test]
    fn a_similar_name_asks_for_init() {
        let decide = |init| decide(Path::new("/srv/firestel"), &FolderContent::Absent, init, Some(FOLDER.into()));
        let refused = decide(false).unwrap_err().to_string();
        assert!(refused.contains("did you mean /srv/firesteel?") && refused.contains("--init"), "{refused}");
        assert_eq!(decide(true), Ok(StartDecision::Begin));
    }

    #[test]
    fn a_slip_of_the_hand_is_recognised() {
        let names = ["firesteel", "data", "rack1"].map(str::to_owned);
        for (typed, meant) in [
            ("firestel", Some("firesteel")),
            ("FireSteel", Some("firesteel")),
            ("firestele", Some("firesteel")),
            ("date", Some("data")),
            ("rack2", Some("rack1")),
            ("d", None),
            ("logs", None),
            ("firesteel-boot", None),
        ] {
            assert_eq!(most_similar(typed, &names).as_deref(), meant, "{typed}");
        }
    }

    #[test]
    fn images_are_read_from_a_data_folder_and_imported_to_a_new_one_too() {
        let check = |content: &FolderContent, imports, nearby: Option<&str>| {
            check_for_images(Path::new(FOLDER), content, imports, nearby.map(PathBuf::from))
                .map_err(|refusal| refusal.to_string())
        };
        for content in [content(&["images", "x"]), content(&["resources.db"])] {
            assert_eq!((check(&content, true, None), check(&content, false, None)), (Ok(()), Ok(())));
        }
        for content in [FolderContent::Absent, content(&[])] {
            assert_eq!(check(&content, true, None), Ok(()));
            assert!(check(&content, false, None).is_err_and(|why| why.contains("there is no data folder")));
        }
        let similar = check(&FolderContent::Absent, true, Some("/srv/fire"));
        assert!(similar.is_err_and(|why| why.contains("did you mean /srv/fire? Otherwise name")));
        let foreign = check(&content(&["copyright"]), true, None);
        assert!(foreign.is_err_and(|why| why.contains("it holds copyright, which no appliance made")));
    }
}
