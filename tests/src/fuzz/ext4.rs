//! An ext4 filesystem out of an image, as the agent reads it without the kernel.

const BLOCK: usize = 1024;
const INODE: usize = 256;
/// Where the table of inodes, and the first folders and files, stand.
const TABLE: usize = 3;
const FOLDER: u16 = 0x41ed;
const FILE: u16 = 0x81a4;
const LINK: u16 = 0xa1ff;
const EXTENTS: u32 = 0x8_0000;
const INLINE: u32 = 0x1000_0000;

pub(super) fn check(input: &[u8]) {
    super::image_files::check("ext4", input);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let small = image(0x2 | 0x40 | 0x8000, 0, 32);
    let mut large = image(0x2 | 0x40 | 0x80 | 0x8000, 0x1, 64);
    // Descriptors in their groups: the first one is where it is without that feature.
    large[1024 + 0x60] |= 0x10;
    let mut looped = small.clone();
    // The extents of a file lead to a block that says the same depth, and its index to itself.
    put(&mut looped, 10 * BLOCK, &[0x0a, 0xf3, 1, 0, 84, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0]);
    let mut unclean = small.clone();
    unclean[1024 + 0x60] |= 0x4;
    vec![small, large, looped, unclean]
}

/// A filesystem of sixteen blocks with a file of each shape.
fn image(incompat: u32, ro_compat: u32, descriptor_bytes: u16) -> Vec<u8> {
    let mut bytes = vec![0; 16 * BLOCK];
    for (at, number) in
        [(0, 16), (0x4, 16), (0x14, 1), (0x20, 8192), (0x28, 16), (0x4c, 1), (0x60, incompat), (0x64, ro_compat)]
    {
        put(&mut bytes, 1024 + at, &u32::to_le_bytes(number));
    }
    put(&mut bytes, 1024 + 0x38, &[0x53, 0xef]);
    put(&mut bytes, 1024 + 0x58, &256_u16.to_le_bytes());
    put(&mut bytes, 1024 + 0xfe, &descriptor_bytes.to_le_bytes());
    put(&mut bytes, 2 * BLOCK + 8, &[3]);

    inode(&mut bytes, 2, FOLDER, EXTENTS, 1024, &extents(0, 7), &[]);
    inode(&mut bytes, 11, FILE, EXTENTS, 1500, &extents(1, 10), &[]);
    inode(&mut bytes, 12, FOLDER, 0, 1024, &[8, 0, 0, 0], &[]);
    inode(&mut bytes, 13, LINK, 0, 1, b".", &[]);
    inode(&mut bytes, 14, FILE, INLINE, 70, &[b'i'; 60], &attribute(&[b'j'; 10]));
    inode(&mut bytes, 15, FOLDER, INLINE, 60, &[&[2, 0, 0, 0][..], &entry(14, "a", 56)].concat(), &attribute(&[]));
    put(&mut bytes, 10 * BLOCK, &extents(0, 9));

    let dots = [entry(2, ".", 12), entry(2, "..", 12)].concat();
    let top = [dots.clone(), entry(13, "boot", 12), entry(15, "held", 12), entry(12, "loader", 1024 - 48)].concat();
    put(&mut bytes, 7 * BLOCK, &top);
    let loader = [dots, entry(11, "a.conf", 16), entry(14, "grubenv", 1024 - 40)].concat();
    put(&mut bytes, 8 * BLOCK, &loader);
    put(&mut bytes, 9 * BLOCK, b"options root=1 quiet\n");
    bytes
}

fn put(bytes: &mut [u8], at: usize, content: &[u8]) {
    bytes[at..at + content.len()].copy_from_slice(content);
}

fn inode(bytes: &mut [u8], number: usize, mode: u16, flags: u32, size: u32, area: &[u8], body: &[u8]) {
    let at = TABLE * BLOCK + (number - 1) * INODE;
    put(bytes, at, &mode.to_le_bytes());
    put(bytes, at + 4, &size.to_le_bytes());
    put(bytes, at + 0x20, &flags.to_le_bytes());
    put(bytes, at + 0x28, area);
    put(bytes, at + 128, body);
}

/// A node with one entry: two blocks from this one on, or the node below.
fn extents(depth: u8, block: u8) -> Vec<u8> {
    let length =
        if depth == 0 { [0, 0, 0, 0, 2, 0, 0, 0, block, 0, 0, 0] } else { [0, 0, 0, 0, block, 0, 0, 0, 0, 0, 0, 0] };
    [&[0x0a, 0xf3, 1, 0, 4, 0, depth, 0, 0, 0, 0, 0][..], &length].concat()
}

fn entry(inode: u32, name: &str, length: u16) -> Vec<u8> {
    let name_bytes = u8::try_from(name.len()).unwrap();
    let mut entry = [&inode.to_le_bytes()[..], &length.to_le_bytes(), &[name_bytes, 0], name.as_bytes()].concat();
    entry.resize(usize::from(length), 0);
    entry
}

/// The attribute `system.data` behind the fields of an inode.
fn attribute(value: &[u8]) -> Vec<u8> {
    let mut body = vec![32, 0];
    body.resize(32, 0);
    body.extend([0, 0, 2, 0xea, 4, 7, 24, 0, 0, 0, 0, 0]);
    body.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
    body.extend([0; 4]);
    body.extend(b"data\0\0\0\0");
    body.extend(value);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::image_files::{disk_of, open};

    /// Seeds that are understood nowhere would find nothing.
    #[test]
    fn the_seeds_are_filesystems() {
        for seed in &seeds()[..2] {
            let disk = disk_of(seed);
            let filesystem = open("ext4", &disk).unwrap();
            assert_eq!(filesystem.names("", 9).unwrap(), ["boot", "held", "loader"]);
            assert_eq!(filesystem.names("boot/held", 9).unwrap(), ["a"]);
            assert!(filesystem.read("boot/loader/a.conf", 2000).unwrap().starts_with(b"options root=1 quiet\n\0"));
            assert_eq!(filesystem.read("held/a", 99).unwrap(), [[b'i'; 60].as_slice(), &[b'j'; 10]].concat());
            assert_eq!(filesystem.file("held/a").unwrap(), filesystem.file("loader/grubenv").unwrap());
        }
        let looped = disk_of(&seeds()[2]);
        assert!(open("ext4", &looped).unwrap().read("loader/a.conf", 9).is_err());
        assert!(open("ext4", &disk_of(&seeds()[3])).is_err());
    }
}
