#![allow(clippy::unwrap_used, reason = "tests")]
use nix::sys::signal::{Signal, raise};

use super::*;
use crate::serve::data_dir::DataDir;
use crate::serve::data_folder::read_content;
use crate::serve::settings::RawSettings;
use crate::serve::start_decision::FolderContent;

fn settings(data: &Path) -> Settings {
    RawSettings { data: Some(data.to_owned()), api_only: true, ..RawSettings::default() }.check().unwrap()
}

fn begun(settings: &Settings) -> FirstStart {
    FirstStart::begin(settings).unwrap().unwrap()
}

/// Makes what a start makes; `meanwhile` names files that something else puts there.
fn make(settings: &Settings, meanwhile: &[&str]) {
    let data = DataDir::open(&settings.data).unwrap();
    data.secret_key("token.key").unwrap();
    for name in ["resources.db", "resources.db-wal", "resources.db.lock", "admin.kubeconfig"].iter().chain(meanwhile) {
        fs::write(data.path(name), "x").unwrap();
    }
    fs::create_dir_all(data.path("streams/followed")).unwrap();
    fs::create_dir_all(settings.secrets_key.parent().unwrap()).unwrap();
    fs::write(&settings.secrets_key, "x").unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    match read_content(folder).unwrap() {
        FolderContent::Absent => panic!("{} is absent", folder.display()),
        FolderContent::Names(names) => names,
    }
}

fn failed(start: FirstStart) -> String {
    format!("{:#}", start.fail(anyhow::anyhow!("the port is taken")))
}

#[test]
fn a_failed_start_removes_folders_files_and_a_key_elsewhere() {
    let root = tempfile::tempdir().unwrap();
    let mut settings = settings(&root.path().join("srv/firesteel/data"));
    settings.secrets_key = root.path().join("keys/firesteel/k");
    let start = begun(&settings);
    assert_eq!(fs::metadata(&settings.data).unwrap().permissions().mode() & 0o777, 0o700);
    make(&settings, &[]);
    let error = failed(start);
    assert!(error.ends_with("failed, and nothing of it is left: the port is taken"), "{error}");
    assert_eq!(names(root.path()), Vec::<String>::new());
}

#[test]
fn what_was_there_before_and_what_others_put_there_stays() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    fs::create_dir_all(data.join("secrets")).unwrap();
    fs::write(data.join("secrets/receipt.key"), "x").unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let settings = Settings { init: true, ..settings(&data) };
    let start = begun(&settings);
    make(&settings, &["images/x.image", "notes"]);
    let error = failed(start);
    assert!(error.contains("nothing of it is left"), "{error}");
    assert_eq!(names(&data), ["images", "notes", "secrets"]);
    assert_eq!(names(&data.join("images")), ["x.image"], "another command imported it");
    assert_eq!(names(&data.join("secrets")), ["receipt.key"], "a key that this start made opens nothing now");
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn a_start_that_served_keeps_all() {
    let root = tempfile::tempdir().unwrap();
    let settings = settings(&root.path().join("data"));
    let start = begun(&settings);
    make(&settings, &[]);
    let before = names(&settings.data);
    start.finish().unwrap();
    start.finish().unwrap();
    assert_eq!(failed(start), "the port is taken");
    let after = names(&settings.data);
    assert_eq!(before.iter().filter(|name| *name != MARKER).collect::<Vec<_>>(), after.iter().collect::<Vec<_>>());
    assert!(FirstStart::begin(&settings).unwrap().is_none(), "an appliance is there");
}

#[test]
fn after_a_kill_the_next_start_goes_on_and_removes_only_its_own() {
    let root = tempfile::tempdir().unwrap();
    let settings = settings(&root.path().join("data"));
    // A process that dies gives back its lock.
    drop(begun(&settings));
    assert_eq!(names(&settings.data), [MARKER]);
    let error = failed(begun(&settings));
    assert!(error.contains("nothing of it is left"), "{error}");
    assert_eq!(names(&settings.data), Vec::<String>::new(), "who made the folder is not known");

    drop(begun(&settings));
    fs::create_dir(settings.data.join("pki")).unwrap();
    let start = begun(&settings);
    make(&settings, &[]);
    let error = failed(start);
    assert!(
        error.contains("goes on with what an earlier one made there, unless you remove the folder: the port"),
        "{error}"
    );
    assert_eq!(names(&settings.data), [MARKER, "pki"]);
    let start = begun(&settings);
    make(&settings, &[]);
    start.finish().unwrap();
    assert!(!names(&settings.data).contains(&MARKER.to_owned()));
}

#[test]
fn two_first_starts_do_not_share_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let settings = settings(&root.path().join("data"));
    let first = begun(&settings);
    let second = format!("{:#}", FirstStart::begin(&settings).unwrap_err());
    assert!(second.contains("another appliance starts in"), "{second}");
    assert_eq!(names(&settings.data), [MARKER], "the second one removed nothing");
    first.finish().unwrap();
    let gone = mark(&settings.data, StartDecision::GoOn).unwrap_err().to_string();
    assert!(gone.contains("another appliance starts in"), "{gone}");
}

/// What holds the lock of the database may be writing to it.
#[test]
fn a_database_in_use_stays_with_its_marker() {
    let root = tempfile::tempdir().unwrap();
    let settings = settings(&root.path().join("data"));
    let start = begun(&settings);
    make(&settings, &[]);
    let lock = File::options().write(true).open(settings.data.join("resources.db.lock")).unwrap();
    lock.lock().unwrap();
    let error = failed(start);
    assert!(error.contains("could not be removed") && error.contains("is in use"), "{error}");
    assert!(names(&settings.data).contains(&MARKER.to_owned()));
    drop(lock);
    drop(begun(&settings));
}

#[tokio::test]
async fn a_signal_ends_a_start_that_does_not_serve_yet() {
    let root = tempfile::tempdir().unwrap();
    let settings = settings(&root.path().join("data"));
    let start = begun(&settings);
    let serving = async {
        make(&settings, &[]);
        raise(Signal::SIGTERM).unwrap();
        std::future::pending().await
    };
    let stopped = start.run(serving).await.unwrap_err();
    let error = format!("{:#}", start.fail(stopped));
    assert!(error.ends_with("nothing of it is left: it was stopped before it served"), "{error}");
    assert_eq!(names(root.path()), Vec::<String>::new());

    let start = begun(&settings);
    let serving = async {
        start.finish().unwrap();
        raise(Signal::SIGINT).unwrap();
        std::future::pending().await
    };
    start.run(serving).await.unwrap();
    assert!(settings.data.exists());
}
