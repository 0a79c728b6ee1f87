//! The built files depend on what goes in, and on nothing else.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[allow(dead_code, reason = "this test needs a part of it")]
#[path = "../src/fixture.rs"]
mod fixture;

const FILES: [&str; 3] = ["vmlinuz", "initramfs.zst", "manifest.json"];

fn kernel_package() -> Vec<u8> {
    let virtio = fixture::module(&[("alias", "virtio:d00000001v*"), ("depends", "")]);
    let ext4 = fixture::module(&[("depends", "jbd2"), ("alias", "fs-ext4")]);
    let other = fixture::module(&[]);
    let base = "./lib/modules/6.1.0-1-amd64";
    let path = |name: &str| format!("{base}/{name}");
    fixture::deb(
        "linux-image-6.1.0-1-amd64",
        &[
            ("./boot/vmlinuz-6.1.0-1-amd64", b"kernel"),
            (&path("modules.builtin"), b"kernel/drivers/nvme/host/nvme.ko\n"),
            (&path("kernel/drivers/net/virtio_net.ko"), &virtio),
            (&path("kernel/fs/ext4/ext4.ko"), &ext4),
            (&path("kernel/fs/jbd2/jbd2.ko"), &other),
            (&path("kernel/sound/soundcore.ko"), &other),
        ],
        ".xz",
    )
}

/// Builds in `folder` under `umask`, from copies of the inputs that lie there.
fn build(folder: &Path, umask: &str, agent: &[u8]) -> Vec<Vec<u8>> {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("kernel.deb"), kernel_package()).unwrap();
    fs::write(folder.join("agent"), agent).unwrap();
    let status = Command::new("sh")
        .args(["-c", "umask \"$1\"; cd \"$2\"; shift 2; exec \"$@\"", "sh", umask])
        .arg(folder)
        .arg(env!("CARGO_BIN_EXE_ramdisk"))
        .args([
            "--agent",
            "agent",
            "--kernel-package",
            "kernel.deb",
            "--set",
            "lab",
            "--out",
            "out",
            "--cache",
            "cache",
        ])
        .status()
        .unwrap();
    assert!(status.success());
    FILES.iter().map(|name| fs::read(folder.join("out").join(name)).unwrap()).collect()
}

#[test]
fn folder_umask_time_and_cache_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let agent = b"\x7fELF agent";
    let first = build(&folder.path().join("a"), "022", agent);
    let second = build(&folder.path().join("another folder/with a longer name"), "077", agent);
    assert!(first == second);
    let from_cache = build(&folder.path().join("a"), "027", agent);
    assert!(first == from_cache);
}

#[test]
fn another_agent_changes_the_initramfs_and_nothing_else_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = build(&folder.path().join("a"), "022", b"\x7fELF one");
    let second = build(&folder.path().join("a"), "022", b"\x7fELF two");
    assert!(first[0] == second[0]);
    assert!(first[1] != second[1]);
    let archives = |initramfs: &[u8]| zstd::decode_all(initramfs).unwrap();
    let (one, two) = (archives(&first[1]), archives(&second[1]));
    assert_eq!(one.iter().zip(&two).filter(|(a, b)| a != b).count(), 3, "only the agent's three bytes differ");
    let text = String::from_utf8_lossy(&one);
    assert!(text.contains("lib/modules/6.1.0-1-amd64/kernel/fs/jbd2/jbd2.ko"));
    assert!(text.contains("kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko"));
    assert!(!text.contains("soundcore"));
}

#[test]
fn a_damaged_cache_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a");
    let first = build(&place, "022", b"\x7fELF one");
    for entry in fs::read_dir(place.join("cache/ramdisk")).unwrap() {
        fs::write(entry.unwrap().path().join("initramfs.zst"), b"rubbish").unwrap();
    }
    assert!(first == build(&place, "022", b"\x7fELF one"));
}
