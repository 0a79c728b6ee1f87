//! `qemu/lab exec`: its output is that of the command alone, unless the build takes long or fails. Stand-ins of cargo, of the
//! lab and of `sleep` are on its path.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lab");
const LAB: &str = "pwd\necho \"$*\"\necho \"${PATH%%:*}\"";

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/bash\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `lab exec` with this cargo in a folder of a person.
fn exec(folder: &Path, cargo: &str) -> Output {
    let bin = folder.join("bin");
    program(&bin.join("cargo"), cargo);
    program(&folder.join("target/lab/lab"), LAB);
    let here = folder.join("here");
    fs::create_dir_all(&here).unwrap();
    Command::new("bash")
        .args([SCRIPT, "exec", "kubectl", "get", "bmh"])
        .current_dir(here)
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
        .env("FIRESTEEL_CACHE", folder.join("cache"))
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .unwrap()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_output_is_that_of_the_command_in_the_folder_of_the_person() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let output = exec(&root, "echo 'warning: unused' >&2; echo built");
    let expected = format!("{0}/here\nexec kubectl get bmh\n{0}/cache/tools/bin\n", root.display());
    assert_eq!((output.status.code(), texts(&output)), (Some(0), (expected, String::new())));
}

#[test]
fn a_build_that_fails_shows_why_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = exec(folder.path(), "echo 'error: it does not compile' >&2; exit 101");
    let (out, error) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
    assert_eq!(error, "error: it does not compile\nlab: the lab cannot be built\n");
}

/// The first pause is over at once; cargo ends when the second one has begun.
#[test]
fn a_long_build_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mark = |name: &str| folder.path().join(name).display().to_string();
    let (first, second) = (mark("first"), mark("second"));
    let sleep = format!("[ -e {first} ] || {{ touch {first}; exit 0; }}\ntouch {second}\nexec /bin/sleep 5");
    program(&folder.path().join("bin/sleep"), &sleep);
    let output = exec(folder.path(), &format!("until [ -e {second} ]; do /bin/sleep 0.02; done"));
    let (out, error) = texts(&output);
    assert_eq!((output.status.code(), error.as_str()), (Some(0), "lab: building the lab where it has changed\n"));
    assert!(out.contains("exec kubectl get bmh"), "{out}");
}
