//! Filesystems that others made (mkfs, e2fsck, mtools), where they are installed, and what is wrong with them made by
//! hand. debugfs and mtools read them beside us.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use firesteel_images::write::DiskReader;

use super::*;
use crate::forms::fat::build;

const MIB: usize = 1 << 20;
const ALL: u64 = 4 << 20;
const NAMES_MAX: usize = 4096;

/// A disk in memory that counts what is read of it.
pub(crate) struct MemoryDisk {
    pub(crate) bytes: Vec<u8>,
    read: AtomicU64,
}

impl MemoryDisk {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, read: AtomicU64::new(0) }
    }

    /// All of it as one filesystem.
    pub(crate) fn open(&self, kind: &str) -> Result<ImageFilesystem<'_>, FilesystemError> {
        ImageFilesystem::open(kind, PartitionBytes::new(self, 512, 0, self.bytes.len() as u64)?)
    }
}

impl DiskReader for MemoryDisk {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = self.bytes.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// What a program prints; `None` where it is not installed. e2fsck says by 1 that it changed something.
fn run(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let mut found = ["/usr/bin", "/usr/sbin", "/sbin"].iter().map(|folder| Path::new(folder).join(program));
    let Some(path) = found.find(|path| path.exists()) else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let output = Command::new(path).args(arguments).env("MTOOLS_SKIP_CHECK", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let is_done = output.status.success() || program == "e2fsck" && output.status.code() == Some(1);
    assert!(is_done, "{program} {arguments:?}: {said}");
    Some(output.stdout)
}

/// Files of every shape: short and long, empty, with a hole, in a folder with many others.
fn fill(root: &Path, many: usize) {
    for folder in ["loader.1/entries", "many", "deep/a/b"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (path, bytes) in [("loader.1/entries/a.conf", 10), ("tiny", 59), ("mid", 120), ("big", 300_000), ("empty", 0)] {
        let content: Vec<u8> = (0..bytes).map(|at: u32| u8::try_from(at % 251).unwrap()).collect();
        fs::write(root.join(path), content).unwrap();
    }
    fs::write(root.join("deep/a/b/target"), "found").unwrap();
    for number in 0..many {
        fs::write(root.join(format!("many/A file with a long name, number {number}.text")), number.to_string())
            .unwrap();
    }
}

/// A filesystem of these options with everything that ext4 has; `None` without the tools.
fn ext4(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let (tree, image) = (folder.join("tree"), folder.join("image"));
    fill(&tree, 1500);
    let hole = fs::File::create(tree.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&hole, b"end", 200_000).unwrap();
    let long = format!("deep/a/b/{}", "x".repeat(70));
    fs::write(tree.join(&long), "long").unwrap();
    for (target, link) in [
        ("loader.1", "loader"),
        (".", "boot"),
        ("/boot/../deep/a/b/target", "absolute"),
        (long.as_str(), "long"),
        ("round", "round"),
        ("../../../../../../../etc/passwd", "outside"),
    ] {
        symlink(target, tree.join(link)).unwrap();
    }
    fs::File::create(&image).unwrap().set_len(24 * MIB as u64).unwrap();
    let (tree, path) = (tree.to_str().unwrap(), image.to_str().unwrap());
    run("mkfs.ext4", &[&["-q", "-F", "-d", tree][..], options, &[path]].concat())?;
    // Gives large folders their trees.
    run("e2fsck", &["-fyD", path])?;
    Some(image)
}

fn assert_same(filesystem: &ImageFilesystem<'_>, tree: &Path, paths: &[&str]) {
    for path in paths {
        let read = filesystem.read(path, ALL).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(read == fs::read(tree.join(path)).unwrap(), "{path}");
        assert!(filesystem.read(path, 5).unwrap() == read[..read.len().min(5)], "{path}");
    }
}

fn names_of(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn ext4_of_every_make_is_read_as_it_was_filled() {
    let makes: [&[&str]; 11] = [
        &[],
        &["-b", "4096"],
        &["-b", "2048", "-O", "^64bit,^metadata_csum"],
        &["-O", "inline_data", "-I", "256"],
        &["-O", "^extent,^64bit,^metadata_csum"],
        &["-t", "ext2"],
        &["-t", "ext3", "-b", "1024", "-I", "128"],
        &["-b", "1024", "-g", "256", "-O", "meta_bg,^resize_inode"],
        &["-b", "1024", "-g", "256", "-O", "meta_bg,^resize_inode,^sparse_super"],
        &["-b", "1024", "-g", "256", "-O", "meta_bg,^resize_inode,sparse_super2"],
        // Its first group begins with the block before the superblock.
        &["-b", "1024", "-C", "4096", "-O", "bigalloc,meta_bg,^resize_inode"],
    ];
    for options in makes {
        let folder = tempfile::tempdir().unwrap();
        let Some(image) = ext4(folder.path(), options) else { return };
        let path = image.to_str().unwrap();
        let Some(said) = run("debugfs", &["-R", "stat /many", path]) else { return };
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("Flags: 0x81000") || said.contains("Flags: 0x1000"), "no tree of hashes: {said}");
        let disk = MemoryDisk::new(fs::read(&image).unwrap());
        let filesystem = disk.open("ext4").unwrap_or_else(|error| panic!("{options:?}: {error}"));
        let tree = folder.path().join("tree");
        let files = ["tiny", "mid", "big", "empty", "sparse", "absolute", "long", "boot/loader/entries/a.conf"];
        // An absolute link means the filesystem's own root.
        fs::remove_file(tree.join("absolute")).unwrap();
        fs::copy(tree.join("deep/a/b/target"), tree.join("absolute")).unwrap();
        assert_same(&filesystem, &tree, &files);
        for name in ["tiny", "mid", "big", "sparse"] {
            let peer = run("debugfs", &["-R", &format!("cat /{name}"), path]).unwrap();
            let read = filesystem.read(name, ALL).unwrap();
            // debugfs shows the 59 bytes that an inode holds with the one behind them.
            let is_padded = name == "tiny" && peer.len() == 60 && peer.ends_with(&[0]);
            assert!(read == peer || is_padded && read == peer[..59], "{options:?}: {name}");
        }
        for name in [0, 700, 1499] {
            let path = format!("many/A file with a long name, number {name}.text");
            assert_eq!(filesystem.read(&path, 9).unwrap(), name.to_string().as_bytes(), "{options:?}");
        }
        assert_eq!(filesystem.names("many", NAMES_MAX).unwrap(), names_of(&tree.join("many")), "{options:?}");
        let mut top = names_of(&tree);
        top.push("lost+found".to_owned());
        top.sort();
        assert_eq!(filesystem.names("", NAMES_MAX).unwrap(), top, "{options:?}");
        assert_eq!(filesystem.names("deep/a", NAMES_MAX).unwrap(), ["b"]);
        assert!(filesystem.names("many", 1499).unwrap_err().to_string().contains("more than 1499 files"));
        let entry = filesystem.file("loader.1/entries/a.conf").unwrap();
        assert_eq!(filesystem.file("boot/boot/loader/entries/a.conf").unwrap(), entry, "one file of two names");
        assert_ne!(filesystem.file("tiny").unwrap(), entry);
    }
}

#[test]
fn what_is_not_there_is_absent_and_links_lead_nowhere_but_inside() {
    let folder = tempfile::tempdir().unwrap();
    let Some(image) = ext4(folder.path(), &[]) else { return };
    let disk = MemoryDisk::new(fs::read(image).unwrap());
    let filesystem = disk.open("ext4").unwrap();
    let deep = "deep/".repeat(200);
    for path in ["none", "tiny/below", "tiny/", "round", "outside", &deep, &"x".repeat(300)] {
        assert!(matches!(filesystem.file(path), Err(FilesystemError::Absent)), "{path}");
        assert_eq!(filesystem.names(path, 9).unwrap(), Vec::<String>::new(), "{path}");
    }
    assert!(matches!(filesystem.file("deep"), Err(FilesystemError::NotPlain)));
    assert!(matches!(filesystem.read("", 9), Err(FilesystemError::NotPlain)));
    assert_eq!(filesystem.read("../../deep/../tiny", 3).unwrap(), [0, 1, 2], "above the top is the top");
}

#[test]
fn a_filesystem_that_is_unclean_or_of_another_make_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some(image) = ext4(folder.path(), &["-b", "4096"]) else { return };
    let bytes = fs::read(image).unwrap();
    let refused = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = bytes.clone();
        change(&mut bytes[1024..2048]);
        MemoryDisk::new(bytes).open("ext4").map(drop).unwrap_err().to_string()
    };
    assert!(refused(&|superblock| superblock[0x60] |= 0x4).contains("its journal holds changes"));
    assert!(refused(&|superblock| superblock[0x63] |= 0x80).contains("a feature of this ext4"));
    assert!(refused(&|superblock| superblock[0x4c..0x50].fill(0)).contains("of the first revision, and has features"));
    assert!(refused(&|superblock| superblock[0x18] = 9).contains("blocks"));
    assert!(refused(&|superblock| superblock[0x4..0x8].fill(0xff)).contains("larger than its partition"));
    assert!(refused(&|superblock| superblock[0x28..0x2c].fill(0)).contains("no inodes"));
    assert!(refused(&|superblock| superblock[0x20..0x24].fill(0)).contains("no blocks"));
    assert!(refused(&|superblock| superblock[0x58..0x5a].fill(0xff)).contains("no size"));
    assert!(refused(&|superblock| superblock[0x38] = 0).contains("no superblock"));
    assert!(MemoryDisk::new(vec![0; 4096]).open("xfs").is_err());
}

/// A file may say that it has a TiB, and cost nothing on the disk.
#[test]
fn what_one_filesystem_costs_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tree")).unwrap();
    fs::File::create(folder.path().join("tree/huge")).unwrap().set_len(1 << 40).unwrap();
    let Some(image) = ext4(folder.path(), &["-b", "4096"]) else { return };
    let disk = MemoryDisk::new(fs::read(image).unwrap());
    let filesystem = disk.open("ext4").unwrap();
    assert_eq!(filesystem.read("huge", 1000).unwrap(), [0; 1000]);
    let error = filesystem.read("huge", u64::MAX).unwrap_err();
    assert!(matches!(error, FilesystemError::TooMany { most: 64, .. }), "{error}");
    assert!(filesystem.names("", NAMES_MAX).is_err(), "it has had its share");
}

#[test]
fn fat_of_every_make_is_read_as_it_was_filled() {
    let makes: [(&[&str], usize); 5] = [
        (&["-F", "12", "-S", "512"], 2),
        (&["-F", "12", "-S", "4096", "-s", "2"], 8),
        (&["-F", "16", "-S", "512"], 16),
        (&["-F", "16", "-S", "2048"], 64),
        (&["-F", "32", "-S", "512", "-s", "1"], 40),
    ];
    for (options, mib) in makes {
        let folder = tempfile::tempdir().unwrap();
        let (tree, image) = (folder.path().join("tree"), folder.path().join("image"));
        fill(&tree, 300);
        fs::File::create(&image).unwrap().set_len((mib * MIB) as u64).unwrap();
        let path = image.to_str().unwrap();
        let made = run("mkfs.vfat", &[options, &["-n", "BOOT", path]].concat());
        for name in names_of(&tree).iter().filter(|_| made.is_some()) {
            let source = tree.join(name);
            run("mcopy", &["-s", "-i", path, source.to_str().unwrap(), "::"]);
        }
        if made.is_none() || run("mdir", &["-i", path, "::"]).is_none() {
            return;
        }
        let disk = MemoryDisk::new(fs::read(&image).unwrap());
        let filesystem = disk.open("vfat").unwrap_or_else(|error| panic!("{options:?}: {error}"));
        assert_same(&filesystem, &tree, &["tiny", "mid", "big", "empty", "loader.1/entries/a.conf", "deep/a/b/target"]);
        let peer = run("mtype", &["-i", path, "::big"]).unwrap();
        assert!(filesystem.read("big", ALL).unwrap() == peer);
        let long = "many/A file with a long name, number 299.text";
        assert_eq!(filesystem.read(&long.to_uppercase(), 9).unwrap(), b"299", "case makes no difference");
        assert_eq!(filesystem.file(long).unwrap(), filesystem.file(&long.to_lowercase()).unwrap());
        assert_eq!(filesystem.names("many", NAMES_MAX).unwrap(), names_of(&tree.join("many")), "{options:?}");
        assert_eq!(filesystem.names("", NAMES_MAX).unwrap(), names_of(&tree), "{options:?}");
        assert!(filesystem.names("many", 299).is_err());
        for absent in ["none", "tiny/below", "many/..", "BOOT"] {
            assert!(matches!(filesystem.file(absent), Err(FilesystemError::Absent)), "{absent}");
        }
        assert!(matches!(filesystem.file("many"), Err(FilesystemError::NotPlain)));
    }
}

/// A volume of our own with a folder and a file of two clusters each.
fn own_volume() -> Vec<u8> {
    let large = vec![7; 6000];
    let names: Vec<String> = (0..40).map(|number| format!("f/A file with a long name {number}")).collect();
    let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
    files.push(("large", &large));
    let mut bytes = build("CIDATA", 1, 9 * MIB as u64, 512, &files).unwrap().bytes;
    bytes.resize(9 * MIB, 0);
    bytes
}

#[test]
fn chains_that_lead_to_themselves_or_nowhere_end() {
    let bytes = own_volume();
    let whole = MemoryDisk::new(bytes.clone());
    assert_eq!(whole.open("vfat").unwrap().names("f", 99).unwrap().len(), 40);
    assert_eq!(whole.open("vfat").unwrap().read("LARGE", ALL).unwrap(), vec![7; 6000]);
    // Every cluster leads to one that is free, or to one behind the end.
    for next in [0_u16, 0xff00] {
        let mut bytes = bytes.clone();
        for entry in bytes[512 + 4..512 + 4000].chunks_exact_mut(2) {
            entry.copy_from_slice(&next.to_le_bytes());
        }
        let disk = MemoryDisk::new(bytes);
        let filesystem = disk.open("vfat").unwrap();
        let results = [filesystem.names("f", 99).map(drop), filesystem.read("large", ALL).map(drop)];
        assert!(results.iter().all(|result| matches!(result, Err(FilesystemError::Damaged(_)))), "{results:?}");
    }
    // A folder whose clusters never end, none with a last entry.
    let mut bytes = bytes;
    let root = 512 + 2 * usize::from(u16::from_le_bytes([bytes[22], bytes[23]])) * 512;
    let entry = bytes[root..root + 16_384].chunks_exact(32).position(|entry| entry[11] == 0x10).unwrap();
    let at = root + entry * 32 + 26;
    let first = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let chain = 512 + usize::from(first) * 2;
    bytes[chain..chain + 2].copy_from_slice(&first.to_le_bytes());
    let disk = MemoryDisk::new(bytes);
    let error = disk.open("vfat").unwrap().names("f", NAMES_MAX).unwrap_err();
    assert!(matches!(error, FilesystemError::TooMany { .. }), "{error}");
    assert!(disk.read.load(Ordering::Relaxed) < MIB as u64, "a circle is read from memory");
}

/// Bytes of the structures of each filesystem are changed at random: whatever comes of it ends, costs no more than is
/// said, and is no panic.
#[test]
fn any_byte_may_be_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let mut images = vec![("vfat", own_volume())];
    for (number, options) in [&["-b", "1024"][..], &["-O", "inline_data"], &["-t", "ext2"]].into_iter().enumerate() {
        let folder = folder.path().join(number.to_string());
        images.extend(ext4(&folder, options).map(|image| ("ext4", fs::read(image).unwrap())));
    }
    for (kind, bytes) in images {
        let mut disk = MemoryDisk::new(bytes);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        for _ in 0..150 {
            // Where superblock, groups, inodes, tables and the first folders are.
            let changes: Vec<(usize, u8)> =
                (0..1 + next(60)).map(|_| (next(MIB / 2), u8::try_from(next(256)).unwrap())).collect();
            let old: Vec<(usize, u8)> = changes.iter().map(|(at, _)| (*at, disk.bytes[*at])).collect();
            changes.iter().for_each(|(at, byte)| disk.bytes[*at] = *byte);
            disk.read.store(0, Ordering::Relaxed);
            if let Ok(filesystem) = disk.open(kind) {
                for path in ["", "boot", "many", "f", "loader/entries", "deep/a/b"] {
                    let names = filesystem.names(path, 2000).unwrap_or_default();
                    assert!(names.len() <= 2000 && names.iter().all(|name| !name.contains('/')), "{names:?}");
                }
                for path in ["big", "large", "sparse", "long", "absolute", "boot/loader/entries/a.conf"] {
                    assert!(filesystem.read(path, 400_000).unwrap_or_default().len() <= 400_000);
                }
            }
            assert!(disk.read.load(Ordering::Relaxed) <= WORK_BYTES_MAX, "{changes:?}");
            old.iter().rev().for_each(|(at, byte)| disk.bytes[*at] = *byte);
        }
    }
}
