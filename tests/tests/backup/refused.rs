//! What is not restored, and that nothing is changed by the try.

use std::{fs, path::Path};

use firesteel_appliance::backup::{self, RestoreKeySource};
use firesteel_store::Store;

use super::{backup_of, folder, now, objects, order};

fn refused(file: &Path, data: &Path, keys: RestoreKeySource, force: bool, words: &str) {
    let had = data.exists().then(|| fs::read_dir(data).unwrap().count());
    let error = backup::restore(&order(file, data, keys, force), &mut |_| {}).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains(words), "{text}");
    assert_eq!(data.exists().then(|| fs::read_dir(data).unwrap().count()), had, "{text}");
    let around: Vec<_> =
        fs::read_dir(data.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!around.iter().any(|name| name.to_string_lossy().contains("restoring")), "{around:?}");
}

#[test]
fn a_backup_that_is_not_whole_or_not_what_was_made() {
    let root = tempfile::tempdir().unwrap();
    let (source, file, data) = (root.path().join("source"), root.path().join("file"), root.path().join("data"));
    folder(&source, &["a", "b"]);
    backup_of(&source, now(), &file);
    let whole = fs::read(&file).unwrap();
    let keys = || RestoreKeySource::Folder(source.clone());
    for cut in [whole.len() - 1, whole.len() - 100, whole.len() / 2, 200] {
        fs::write(&file, &whole[..cut]).unwrap();
        refused(&file, &data, keys(), false, "cut off");
    }
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    fs::write(&file, altered).unwrap();
    refused(&file, &data, keys(), false, "the backup is damaged: its digest is");
    fs::write(&file, "a text").unwrap();
    refused(&file, &data, keys(), false, "this is not a backup of a Firesteel appliance");
    assert!(!data.exists());
    fs::write(&file, whole).unwrap();
    backup::restore(&order(&file, &data, keys(), false), &mut |_| {}).unwrap();
    assert_eq!(objects(&data).into_keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_folder_in_use_and_one_with_something_in_it() {
    let root = tempfile::tempdir().unwrap();
    let (source, file, data) = (root.path().join("source"), root.path().join("file"), root.path().join("data"));
    folder(&source, &["a"]);
    backup_of(&source, now(), &file);
    folder(&data, &["old"]);
    refused(&file, &data, RestoreKeySource::There, false, "not empty");
    let serving = Store::open(&data.join("resources.db")).unwrap();
    refused(&file, &data, RestoreKeySource::There, true, "is in use");
    drop(serving);
    let done = backup::restore(&order(&file, &data, RestoreKeySource::There, true), &mut |_| {}).unwrap();
    assert_eq!(objects(&data).into_keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(objects(&done.replaced.unwrap()).into_keys().collect::<Vec<_>>(), ["old"]);
}

/// Where nothing but the keys stands, no store has made its lock yet.
#[test]
fn an_appliance_that_starts_during_a_restore_is_kept_out() {
    let root = tempfile::tempdir().unwrap();
    let (source, file, data) = (root.path().join("source"), root.path().join("file"), root.path().join("data"));
    folder(&source, &["a"]);
    backup_of(&source, now(), &file);
    for keys in ["pki", "secrets"] {
        fs::create_dir_all(data.join(keys)).unwrap();
        for entry in fs::read_dir(source.join(keys)).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), data.join(keys).join(entry.file_name())).unwrap();
        }
    }
    let mut tries = 0;
    let mut start = |at: &str| {
        if at != "done" {
            tries += 1;
            assert!(Store::open(&data.join("resources.db")).is_err(), "{at}");
        }
    };
    backup::restore(&order(&file, &data, RestoreKeySource::There, false), &mut start).unwrap();
    assert!(tries > 2);
    assert_eq!(objects(&data).into_keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn private_keys_are_found_beside_the_backup_or_nothing_is_done() {
    let root = tempfile::tempdir().unwrap();
    let (source, file, data) = (root.path().join("source"), root.path().join("file"), root.path().join("data"));
    folder(&source, &["a"]);
    let header = backup_of(&source, now(), &file);
    assert_eq!(header.keys.keys().collect::<Vec<_>>(), ["pki/ca.key", "secrets/token.key"]);
    let bytes = fs::read(&file).unwrap();
    for key in ["the key pki/ca.key", "the key secrets/token.key"] {
        assert!(!bytes.windows(key.len()).any(|part| part == key.as_bytes()), "no private key is in a backup");
    }
    refused(&file, &data, RestoreKeySource::There, false, "secrets/token.key is missing");
    let other = root.path().join("other");
    folder(&other, &[]);
    fs::write(other.join("secrets/token.key"), "another").unwrap();
    refused(&file, &data, RestoreKeySource::Folder(other), false, "secrets/token.key is another one");
    backup::restore(&order(&file, &data, RestoreKeySource::New, false), &mut |_| {}).unwrap();
    assert!(!data.join("secrets").exists(), "they are made at the start");

    // Keys that were put in their place before are no obstacle.
    let prepared = root.path().join("prepared");
    for folder in ["pki", "secrets"] {
        fs::create_dir_all(prepared.join(folder)).unwrap();
    }
    for key in ["pki/ca.key", "secrets/token.key"] {
        fs::copy(source.join(key), prepared.join(key)).unwrap();
    }
    backup::restore(&order(&file, &prepared, RestoreKeySource::There, false), &mut |_| {}).unwrap();
    assert_eq!(objects(&prepared).into_keys().collect::<Vec<_>>(), ["a"]);
}
