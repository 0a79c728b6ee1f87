//! A FAT filesystem out of an image, as the agent reads it without the kernel.

const SECTOR: usize = 512;
const SECTORS: u8 = 24;
const FOLDER: u8 = 0x10;
const FILE: u8 = 0x20;
const NAME_PLACES: [usize; 13] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];

pub(super) fn check(input: &[u8]) {
    super::image_files::check("vfat", input);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let [narrow, wide] = [image(false), image(true)];
    let mut looped = narrow.clone();
    // The folder's only cluster leads to itself, and has no last entry.
    looped[SECTOR + 3..SECTOR + 6].copy_from_slice(&[2, 0xf0, 0xff]);
    let folder = 3 * SECTOR;
    let entry = looped[folder..folder + 32].to_vec();
    looped[folder..folder + SECTOR].chunks_exact_mut(32).for_each(|one| one.copy_from_slice(&entry));
    vec![narrow, wide, looped]
}

/// A filesystem of FAT12, or of FAT32, with a folder of two files, of which one has a long name and two clusters.
fn image(is_wide: bool) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(SECTORS) * SECTOR];
    let mut put = |at: usize, content: &[u8]| bytes[at..at + content.len()].copy_from_slice(content);
    // Sectors of 512 bytes, one a cluster; one is reserved, one has the table.
    put(11, &[0, 2, 1, 1, 0, 1]);
    if is_wide {
        put(32, &[SECTORS]);
        put(36, &[1]);
        put(44, &[5]);
        put(82, b"FAT32   ");
    } else {
        put(17, &[16]);
        put(19, &[SECTORS]);
        put(22, &[1]);
        put(54, b"FAT12   ");
    }
    put(510, &[0x55, 0xaa]);
    // Clusters 2 to 5: the folder, the file and its end, and the folder at the top where it is one.
    let next = [0xfff_fff8, 0xfff_ffff, 0xfff_ffff, 4, 0xfff_ffff, 0xfff_ffff_u32];
    let table = if is_wide { next.map(u32::to_le_bytes).concat() } else { packed(&next) };
    put(SECTOR, &table);
    let data = if is_wide { 2 * SECTOR } else { 3 * SECTOR };
    let top = if is_wide { data + 3 * SECTOR } else { 2 * SECTOR };
    put(top, &[entry(b"BOOT       ", 0x08, 0, 0), entry(b"LOADER     ", FOLDER, 2, 0)].concat());
    let short = b"LONG-N~1CON";
    let files = [
        entry(b"A       CON", FILE, 0, 0),
        piece(0x42, "f", short),
        piece(1, "long-name.con", short),
        entry(short, FILE, 3, 600),
    ];
    put(data, &files.concat());
    put(data + SECTOR, &[b'x'; 600]);
    bytes
}

/// Numbers of twelve bits, two in three bytes.
fn packed(numbers: &[u32]) -> Vec<u8> {
    let pair = |pair: &[u32]| {
        let both = (pair[0] & 0xfff) | ((pair[1] & 0xfff) << 12);
        both.to_le_bytes()[..3].to_vec()
    };
    numbers.chunks_exact(2).flat_map(pair).collect()
}

fn entry(name: &[u8; 11], attributes: u8, cluster: u8, bytes: u16) -> Vec<u8> {
    let mut entry = name.to_vec();
    entry.push(attributes);
    entry.resize(32, 0);
    entry[26] = cluster;
    entry[28..30].copy_from_slice(&bytes.to_le_bytes());
    entry
}

/// A piece of a long name.
fn piece(number: u8, letters: &str, short: &[u8; 11]) -> Vec<u8> {
    let mut entry = vec![0; 32];
    (entry[0], entry[11]) = (number, 0x0f);
    entry[13] = short.iter().fold(0_u8, |sum, letter| sum.rotate_right(1).wrapping_add(*letter));
    for (at, letter) in NAME_PLACES.into_iter().zip(letters.encode_utf16()) {
        entry[at..at + 2].copy_from_slice(&letter.to_le_bytes());
    }
    entry
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
            let filesystem = open("vfat", &disk).unwrap();
            assert_eq!(filesystem.names("", 9).unwrap(), ["LOADER"]);
            assert_eq!(filesystem.names("loader", 9).unwrap(), ["A.CON", "long-name.conf"]);
            assert_eq!(filesystem.read("Loader/Long-Name.conf", 999).unwrap(), [b'x'; 600]);
            assert_eq!(filesystem.read("loader/a.con", 9).unwrap(), b"");
        }
        assert!(open("vfat", &disk_of(&seeds()[2])).unwrap().names("loader", 9).is_err());
    }
}
