//! A restore that is killed at any of its steps, with SIGKILL, as itself.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use firesteel_appliance::backup::{self, RestoreKeySource};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{backup_of, epochs, folder, now, objects, order};

const CHILD: &str = "FIRESTEEL_RESTORE_CHILD";

/// Restores, and is killed when it has passed so many points.
#[test]
fn child_restores_until_it_is_killed() {
    let Ok(told) = env::var(CHILD) else { return };
    let mut told = told.split('|');
    let (file, data) = (PathBuf::from(told.next().unwrap()), PathBuf::from(told.next().unwrap()));
    let keys = PathBuf::from(told.next().unwrap());
    let mut left: u64 = told.next().unwrap().parse().unwrap();
    let mut at = |_: &'static str| {
        left -= 1;
        if left == 0 {
            kill(Pid::this(), Signal::SIGKILL).unwrap();
        }
    };
    backup::restore(&order(&file, &data, RestoreKeySource::Folder(keys), true), &mut at).unwrap();
}

/// Whether it was killed; otherwise it ended well.
fn restore_until(file: &Path, data: &Path, keys: &Path, points: u64) -> bool {
    let told = [file, data, keys].map(|path| path.to_str().unwrap().to_owned()).join("|");
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed::child_restores_until_it_is_killed"])
        .env(CHILD, format!("{told}|{points}"))
        .output()
        .unwrap()
        .status;
    assert!(status.success() || status.signal() == Some(9), "{status:?}");
    !status.success()
}

/// What stands at the place: the names of the objects, and the epoch.
fn found(data: &Path) -> Option<(Vec<String>, usize)> {
    data.join("resources.db").exists().then(|| (objects(data).into_keys().collect(), epochs(data)))
}

#[test]
fn wherever_it_is_killed_there_is_nothing_or_all_of_it() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("source");
    folder(&source, &["a", "b", "c"]);
    let file = root.path().join("file");
    backup_of(&source, now(), &file);
    let whole = (["a", "b", "c"].map(str::to_owned).to_vec(), 2);
    for is_replaced in [false, true] {
        let (mut point, mut done) = (0, false);
        let mut counts = [0, 0];
        while !done {
            point += 1;
            let data = root.path().join(format!("data-{is_replaced}-{point}"));
            let before = is_replaced.then(|| {
                folder(&data, &["old"]);
                fs::create_dir_all(data.join("images/x")).unwrap();
                fs::write(data.join("images/x/disk"), "an image").unwrap();
                (vec!["old".to_owned()], 1)
            });
            done = !restore_until(&file, &data, &source, point);
            let now = found(&data);
            assert!(now == before || now.as_ref() == Some(&whole), "killed at point {point}: {now:?}");
            if now == before {
                counts[0] += 1;
                // What was begun is in nobody's way.
                assert!(!restore_until(&file, &data, &source, u64::MAX));
                assert_eq!(found(&data).as_ref(), Some(&whole), "after it was killed at point {point}");
            } else {
                counts[1] += 1;
            }
            assert_eq!(fs::read(data.join("secrets/token.key")).unwrap(), b"the key secrets/token.key\n");
            if is_replaced {
                assert_eq!(fs::read(data.join("images/x/disk")).unwrap(), b"an image", "killed at point {point}");
                assert!(kept(root.path(), &data), "the folder that was replaced is kept, killed at point {point}");
            }
        }
        println!("replaced: {is_replaced}; {} kills before the last step, {} after it", counts[0], counts[1]);
        assert!(counts[0] >= 5 && counts[1] >= 1, "{counts:?}");
    }
}

/// Whether the old folder is beside the new one, by whatever name.
fn kept(root: &Path, data: &Path) -> bool {
    let name = format!(".{}.", data.file_name().unwrap().to_str().unwrap());
    fs::read_dir(root).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.file_name().unwrap().to_str().unwrap().starts_with(&name) && found(&path) == Some((vec!["old".into()], 1))
    })
}
