//! Writes the kernel's initramfs format ("newc" cpio), the same bytes for the same content.
//!
//! Owners, times, inode and device numbers say nothing about the content, so they are constant or
//! counted: where, when and by whom an archive is made leaves no trace in it.

use std::collections::BTreeMap;

const MODE_FOLDER: u32 = 0o040_000;
const MODE_FILE: u32 = 0o100_000;
const MODE_LINK: u32 = 0o120_000;
const MODE_CHARACTER_DEVICE: u32 = 0o020_000;
/// The kernel skips zeros between archives; block devices and loaders like whole sectors.
const ARCHIVE_ALIGNMENT: usize = 512;

#[derive(Debug)]
enum CpioNode {
    Folder,
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: String },
    CharacterDevice { device: DeviceNumber, mode: u32 },
}

#[derive(Clone, Copy, Debug, Default)]
struct DeviceNumber {
    major: u32,
    minor: u32,
}

/// An archive being put together. Paths are relative; missing parent folders are added.
#[derive(Debug, Default)]
pub struct Archive {
    nodes: BTreeMap<String, CpioNode>,
}

impl Archive {
    pub fn add_folder(&mut self, path: &str) {
        self.insert(path, CpioNode::Folder);
    }

    /// Adds a regular file with permission bits `mode`.
    pub fn add_file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.insert(path, CpioNode::File { bytes, mode });
    }

    pub fn add_link(&mut self, path: &str, target: &str) {
        self.insert(path, CpioNode::Link { target: target.to_owned() });
    }

    pub fn add_character_device(&mut self, path: &str, mode: u32, major: u32, minor: u32) {
        self.insert(path, CpioNode::CharacterDevice { device: DeviceNumber { major, minor }, mode });
    }

    fn insert(&mut self, path: &str, node: CpioNode) {
        let mut parent = path;
        while let Some((above, _)) = parent.rsplit_once('/') {
            self.nodes.entry(above.to_owned()).or_insert(CpioNode::Folder);
            parent = above;
        }
        self.nodes.insert(path.to_owned(), node);
    }

    /// The archive with its end mark, padded to whole sectors.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Sorted by path, so that a folder always comes before what is in it.
        for (inode, (path, node)) in (1u32..).zip(&self.nodes) {
            let none = DeviceNumber::default();
            let (mode, links, device, content) = match node {
                CpioNode::Folder => (MODE_FOLDER | 0o755, 2, none, [].as_slice()),
                CpioNode::File { bytes, mode } => (MODE_FILE | mode, 1, none, bytes.as_slice()),
                CpioNode::Link { target } => (MODE_LINK | 0o777, 1, none, target.as_bytes()),
                CpioNode::CharacterDevice { device, mode } => (MODE_CHARACTER_DEVICE | mode, 1, *device, [].as_slice()),
            };
            write_entry(&mut out, path, inode, mode, links, device, content);
        }
        write_entry(&mut out, "TRAILER!!!", 0, 0, 1, DeviceNumber::default(), &[]);
        out.resize(out.len().next_multiple_of(ARCHIVE_ALIGNMENT), 0);
        out
    }
}

fn write_entry(out: &mut Vec<u8>, path: &str, inode: u32, mode: u32, links: u32, device: DeviceNumber, content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or_else(|_| unreachable!("files come from bounded packages"));
    let name_length = u32::try_from(path.len() + 1).unwrap_or_else(|_| unreachable!("paths come from bounded names"));
    // magic ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
    let fields = [inode, mode, 0, 0, links, 0, length, 0, 0, device.major, device.minor, name_length, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use proptest::prelude::*;

    /// Path, mode and content of each entry, read back independently of the writer.
    pub(crate) fn read(mut archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        loop {
            assert_eq!(&archive[..6], b"070701");
            let field = |i: usize| {
                let text = std::str::from_utf8(&archive[6 + 8 * i..14 + 8 * i]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (mode, length, name_length) = (field(1), field(6), field(11));
            let name = String::from_utf8(archive[110..110 + name_length - 1].to_vec()).unwrap();
            let at = (110 + name_length).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert!(archive[at..].iter().all(|byte| *byte == 0), "only zeros after the end mark");
                return entries;
            }
            entries.push((name, u32::try_from(mode).unwrap(), archive[at..at + length].to_vec()));
            archive = &archive[(at + length).next_multiple_of(4)..];
        }
    }

    #[test]
    fn parents_come_first_and_devices_have_numbers() {
        let mut archive = Archive::default();
        archive.add_character_device("dev/console", 0o600, 5, 1);
        archive.add_file("lib/modules/6/a.ko", 0o644, vec![1, 2, 3]);
        archive.add_link("sbin/modprobe", "/init");
        archive.add_file("init", 0o755, b"agent".to_vec());
        let bytes = archive.to_bytes();
        assert_eq!(bytes.len() % 512, 0);
        let entries = read(&bytes);
        let names: Vec<_> = entries.iter().map(|(name, _, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "dev",
                "dev/console",
                "init",
                "lib",
                "lib/modules",
                "lib/modules/6",
                "lib/modules/6/a.ko",
                "sbin",
                "sbin/modprobe"
            ]
        );
        assert_eq!(entries[1].1, 0o020_600);
        assert_eq!(entries[2].1, 0o100_755);
        assert_eq!(entries[8], ("sbin/modprobe".into(), 0o120_777, b"/init".to_vec()));
        // The device's numbers stand in fields 9 and 10 of the second entry's header.
        let second = &bytes[116..];
        assert_eq!(&second[6 + 72..6 + 88], b"0000000500000001");
    }

    proptest! {
        #[test]
        fn the_order_of_adding_does_not_matter(files in proptest::collection::btree_map("[a-z]{1,3}/[a-z]{1,3}", proptest::collection::vec(any::<u8>(), 0..40), 1..12)) {
            let mut forward = Archive::default();
            let mut backward = Archive::default();
            for (path, bytes) in &files {
                forward.add_file(path, 0o644, bytes.clone());
            }
            for (path, bytes) in files.iter().rev() {
                backward.add_file(path, 0o644, bytes.clone());
            }
            let bytes = forward.to_bytes();
            prop_assert_eq!(&bytes, &backward.to_bytes());
            let read: BTreeMap<_, _> = read(&bytes).into_iter().filter(|e| e.1 & MODE_FILE == MODE_FILE).map(|e| (e.0, e.2)).collect();
            prop_assert_eq!(read, files);
        }
    }
}
