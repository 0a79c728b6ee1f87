//! A small FAT volume with a few files, as bytes (Microsoft, "FAT: General Overview of On-Disk Format", 1.03;
//! ECMA-107). Written once, whole, and not read as a filesystem: what comes back from the disk is compared byte by
//! byte.
//!
//! ```text
//! boot sector | FAT | FAT | root folder | clusters: folders and files, one after the other | never written
//! ```
//!
//! Always FAT16, with sectors as large as the disk's blocks (the kernel mounts no smaller ones); the same files give
//! the same bytes. Own code rather than a crate: the one that others use has had no release for years, and nothing here
//! parses.

use std::collections::BTreeMap;

/// Fewer clusters are FAT12, more are FAT32, whatever the boot sector says.
const CLUSTERS: std::ops::RangeInclusive<u64> = 4085..=65_524;
/// Larger clusters are not read everywhere.
const CLUSTER_BYTES_MAX: u64 = 32 << 10;
const ROOT_ENTRIES: usize = 512;
const ENTRY_BYTES: usize = 32;
/// 1980-01-01, the first day that FAT knows: the bytes do not depend on the hour.
const DATE: [u8; 2] = [0x21, 0x00];
const FIRST_CLUSTER: usize = 2;
const IS_LABEL: u8 = 0x08;
const IS_FOLDER: u8 = 0x10;
const IS_FILE: u8 = 0x20;
const IS_LONG_NAME: u8 = 0x0f;
/// Letters of a name that one entry holds, and where.
pub(crate) const NAME_PLACES: [usize; 13] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
const NAME_LETTERS_MAX: usize = 255;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatError {
    #[error("a volume of {volume_bytes} bytes is too small for FAT16 with sectors of {sector_bytes} bytes")]
    TooSmall { volume_bytes: u64, sector_bytes: u32 },
    #[error("sectors of {0} bytes: FAT has 512 to 4096")]
    Sector(u32),
    #[error("the files need {needed} bytes, and the volume has room for {room}")]
    Full { needed: u64, room: u64 },
    #[error("{0:?} is a file and a folder")]
    Twofold(String),
    #[error("{0:?} is no name for FAT")]
    Name(String),
    #[error("the folder {0:?} has more files than a FAT folder of this volume holds")]
    TooMany(String),
}

/// The start of a volume, up to the last cluster in use; whole sectors.
#[derive(Clone, PartialEq, Eq)]
pub struct FatVolume {
    pub bytes: Vec<u8>,
    /// The files in the order in which they came.
    pub files: Vec<FatFileExtent>,
}

impl std::fmt::Debug for FatVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FatVolume").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Where a file's content lies in the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FatFileExtent {
    pub path: String,
    pub offset: usize,
    pub bytes: usize,
}

/// Makes a volume of these files: path below the root, and content.
pub fn build(
    label: &str,
    volume_id: u32,
    volume_bytes: u64,
    sector_bytes: u32,
    files: &[(&str, &[u8])],
) -> Result<FatVolume, FatError> {
    let shape = FatGeometry::new(volume_bytes, sector_bytes)?;
    let root = tree(files)?;
    let mut writer = FatWriter {
        area: Vec::new(),
        chain: vec![0xfff8, 0xffff],
        cluster_bytes: shape.cluster_bytes(),
        clusters: shape.clusters,
        placed: vec![FatFileExtent::default(); files.len()],
        files,
    };
    let mut entries = entry(&label_name(label), IS_LABEL, 0, 0);
    writer.folder(&root, "", None, &mut entries)?;
    if entries.len() > ROOT_ENTRIES * ENTRY_BYTES {
        return Err(FatError::TooMany("/".to_owned()));
    }
    let FatWriter { area, chain, mut placed, .. } = writer;
    let mut bytes = shape.boot_sector(label, volume_id);
    let table: Vec<u8> = chain.iter().flat_map(|next| next.to_le_bytes()).collect();
    for _ in 0..2 {
        let end = bytes.len() + shape.table_sectors * shape.sector_bytes;
        bytes.extend(&table);
        bytes.resize(end, 0);
    }
    let end = bytes.len() + ROOT_ENTRIES * ENTRY_BYTES;
    bytes.extend(entries);
    bytes.resize(end, 0);
    let start = bytes.len();
    for file in placed.iter_mut().filter(|file| file.bytes > 0) {
        file.offset += start;
    }
    bytes.extend(area);
    Ok(FatVolume { bytes, files: placed })
}

/// The numbers of a volume.
struct FatGeometry {
    sector_bytes: usize,
    sectors: u64,
    cluster_sectors: usize,
    clusters: u64,
    table_sectors: usize,
}

impl FatGeometry {
    fn new(volume_bytes: u64, sector_bytes: u32) -> Result<Self, FatError> {
        if ![512, 1024, 2048, 4096].contains(&sector_bytes) {
            return Err(FatError::Sector(sector_bytes));
        }
        let too_small = FatError::TooSmall { volume_bytes, sector_bytes };
        let sector = u64::from(sector_bytes);
        let root_sectors = (ROOT_ENTRIES * ENTRY_BYTES) as u64 / sector;
        let mut cluster_sectors = 1;
        while cluster_sectors * sector <= CLUSTER_BYTES_MAX {
            let is_largest = cluster_sectors * sector == CLUSTER_BYTES_MAX;
            let all = (volume_bytes / sector).checked_sub(1 + root_sectors).ok_or_else(|| too_small.clone())?;
            // As many as there were without tables: the tables may be a little too large, never too small.
            let most = (all / cluster_sectors).min(*CLUSTERS.end());
            let table_sectors = ((most + FIRST_CLUSTER as u64) * 2).div_ceil(sector);
            let data = all.checked_sub(2 * table_sectors).ok_or_else(|| too_small.clone())?;
            // A volume of more than 2 GiB is used up to there.
            let clusters =
                if is_largest { (data / cluster_sectors).min(*CLUSTERS.end()) } else { data / cluster_sectors };
            if CLUSTERS.contains(&clusters) {
                let sectors = 1 + 2 * table_sectors + root_sectors + clusters * cluster_sectors;
                let small = |number: u64| usize::try_from(number).map_err(|_| too_small.clone());
                return Ok(Self {
                    sector_bytes: small(sector)?,
                    sectors,
                    cluster_sectors: small(cluster_sectors)?,
                    clusters,
                    table_sectors: small(table_sectors)?,
                });
            }
            if clusters < *CLUSTERS.start() {
                break;
            }
            cluster_sectors *= 2;
        }
        Err(too_small)
    }

    fn cluster_bytes(&self) -> usize {
        self.cluster_sectors * self.sector_bytes
    }

    fn boot_sector(&self, label: &str, volume_id: u32) -> Vec<u8> {
        let mut sector = vec![0; self.sector_bytes];
        // All numbers fit: sectors of a cluster are at most 64, of a table at most 256, of the volume below 2^32.
        let [sector_low, sector_high, ..] = self.sector_bytes.to_le_bytes();
        let [table_low, table_high, ..] = self.table_sectors.to_le_bytes();
        let [cluster, ..] = self.cluster_sectors.to_le_bytes();
        let [root_low, root_high, ..] = ROOT_ENTRIES.to_le_bytes();
        let [a, b, c, d, ..] = self.sectors.to_le_bytes();
        let is_small = self.sectors < 1 << 16;
        let (small, large) = if is_small { ([a, b], [0; 4]) } else { ([0; 2], [a, b, c, d]) };
        for (at, bytes) in [
            (0, &[0xeb, 0x3c, 0x90][..]),
            (3, b"FIRESTEL"),
            (11, &[sector_low, sector_high, cluster, 1, 0, 2, root_low, root_high]),
            (19, &small),
            // A fixed disk; then sectors of a table, of a track, and heads, which no reader needs any more.
            (21, &[0xf8, table_low, table_high, 32, 0, 64, 0]),
            (32, &large),
            (36, &[0x80, 0, 0x29]),
            (39, &volume_id.to_le_bytes()),
            (43, &label_name(label)),
            (54, b"FAT16   "),
            // Endless: there is nothing to boot here.
            (62, &[0xeb, 0xfe]),
            (510, &[0x55, 0xaa]),
        ] {
            sector[at..at + bytes.len()].copy_from_slice(bytes);
        }
        sector
    }
}

/// A label as it is, padded: programs that look for `config-2` look for these letters.
fn label_name(label: &str) -> [u8; 11] {
    let mut name = [b' '; 11];
    for (place, letter) in name.iter_mut().zip(label.bytes()) {
        *place = letter;
    }
    name
}

#[derive(Debug)]
enum FatTreeNode {
    Folder(BTreeMap<String, FatTreeNode>),
    /// A file, by its place among the files.
    File(usize),
}

fn tree(files: &[(&str, &[u8])]) -> Result<BTreeMap<String, FatTreeNode>, FatError> {
    let mut root = BTreeMap::new();
    for (index, (path, _)) in files.iter().enumerate() {
        let twofold = || FatError::Twofold((*path).to_owned());
        let (folders, name) = path.rsplit_once('/').map_or((None, *path), |(folders, name)| (Some(folders), name));
        let mut folder = &mut root;
        for part in folders.into_iter().flat_map(|folders| folders.split('/')) {
            check_name(part)?;
            let next = folder.entry(part.to_owned()).or_insert_with(|| FatTreeNode::Folder(BTreeMap::new()));
            folder = match next {
                FatTreeNode::Folder(inner) => inner,
                FatTreeNode::File(_) => return Err(twofold()),
            };
        }
        check_name(name)?;
        if folder.insert(name.to_owned(), FatTreeNode::File(index)).is_some() {
            return Err(twofold());
        }
    }
    Ok(root)
}

fn check_name(name: &str) -> Result<(), FatError> {
    let is_good = |letter: char| (letter.is_ascii_graphic() || letter == ' ') && !"\"*/:<>?\\|".contains(letter);
    let is_name = (1..=NAME_LETTERS_MAX).contains(&name.len())
        && name.chars().all(is_good)
        && !name.ends_with(['.', ' '])
        && !name.starts_with(' ');
    if is_name { Ok(()) } else { Err(FatError::Name(name.to_owned())) }
}

/// Lays clusters one after the other.
struct FatWriter<'a> {
    area: Vec<u8>,
    /// The table: each cluster's next one.
    chain: Vec<u16>,
    cluster_bytes: usize,
    /// The number of clusters that the volume has.
    clusters: u64,
    placed: Vec<FatFileExtent>,
    files: &'a [(&'a str, &'a [u8])],
}

impl FatWriter<'_> {
    /// Adds the entries of a folder's content, and lays what is in it. `above` is the folder's own cluster.
    fn folder(
        &mut self,
        nodes: &BTreeMap<String, FatTreeNode>,
        path: &str,
        above: Option<u16>,
        entries: &mut Vec<u8>,
    ) -> Result<(), FatError> {
        for ((name, node), number) in nodes.iter().zip(1..) {
            let too_many = || FatError::TooMany(path.to_owned());
            let (kind, cluster, bytes) = match node {
                FatTreeNode::File(index) => {
                    let (path, content) = self.files[*index];
                    let offset = self.area.len();
                    let cluster = self.lay(content)?;
                    self.placed[*index] = FatFileExtent { path: path.to_owned(), offset, bytes: content.len() };
                    (IS_FILE, cluster, content.len())
                }
                FatTreeNode::Folder(inner) => {
                    let own = self.reserve(folder_bytes(inner))?;
                    let mut content = entry(b".          ", IS_FOLDER, own, 0);
                    // The root has no cluster; its number is 0.
                    content.extend(entry(b"..         ", IS_FOLDER, above.unwrap_or(0), 0));
                    self.folder(inner, &format!("{path}/{name}"), Some(own), &mut content)?;
                    let start = (usize::from(own) - FIRST_CLUSTER) * self.cluster_bytes;
                    self.area[start..start + content.len()].copy_from_slice(&content);
                    (IS_FOLDER, own, 0)
                }
            };
            let short = short_name(number).ok_or_else(too_many)?;
            entries.extend(long_entries(name, &short));
            let bytes = u32::try_from(bytes).map_err(|_| too_many())?;
            entries.extend(entry(&short, kind, cluster, bytes));
        }
        Ok(())
    }

    /// The first cluster of so many bytes; 0 of none.
    fn reserve(&mut self, bytes: usize) -> Result<u16, FatError> {
        let (first, clusters) = (self.chain.len(), bytes.div_ceil(self.cluster_bytes));
        let end = first + clusters;
        let full = || FatError::Full {
            needed: (end - FIRST_CLUSTER) as u64 * self.cluster_bytes as u64,
            room: self.clusters * self.cluster_bytes as u64,
        };
        if (end - FIRST_CLUSTER) as u64 > self.clusters {
            return Err(full());
        }
        let number = |cluster: usize| u16::try_from(cluster).map_err(|_| full());
        let own = number(if clusters == 0 { 0 } else { first })?;
        let mut chain = (first + 1..end).map(number).collect::<Result<Vec<u16>, FatError>>()?;
        chain.extend((clusters > 0).then_some(0xffff));
        self.chain.extend(chain);
        self.area.resize((self.chain.len() - FIRST_CLUSTER) * self.cluster_bytes, 0);
        Ok(own)
    }

    fn lay(&mut self, content: &[u8]) -> Result<u16, FatError> {
        let start = self.area.len();
        let cluster = self.reserve(content.len())?;
        self.area[start..start + content.len()].copy_from_slice(content);
        Ok(cluster)
    }
}

/// What the entries of a folder below the root take.
fn folder_bytes(nodes: &BTreeMap<String, FatTreeNode>) -> usize {
    let of_names: usize = nodes.keys().map(|name| name.len().div_ceil(NAME_PLACES.len()) + 1).sum();
    (2 + of_names) * ENTRY_BYTES
}

/// A name of the old form. It is never seen, for every entry has its real name before it.
fn short_name(number: usize) -> Option<[u8; 11]> {
    let text = format!("FS~{number:05}   ");
    <[u8; 11]>::try_from(text.as_bytes()).ok()
}

/// A name's entries, its end first; each bound to the short name by its sum.
fn long_entries(name: &str, short: &[u8; 11]) -> Vec<u8> {
    let sum = short.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let letters: Vec<u16> = name.encode_utf16().collect();
    let pieces: Vec<&[u16]> = letters.chunks(NAME_PLACES.len()).collect();
    let mut entries = Vec::new();
    // At most 255 letters are 20 pieces.
    for (piece, number) in pieces.iter().zip(1_u8..).collect::<Vec<_>>().into_iter().rev() {
        let mut bytes = [0; ENTRY_BYTES];
        let is_last = usize::from(number) == pieces.len();
        bytes[0] = if is_last { 0x40 | number } else { number };
        (bytes[11], bytes[13]) = (IS_LONG_NAME, sum);
        let padding = std::iter::once(0).chain(std::iter::repeat(0xffff));
        for (place, letter) in NAME_PLACES.into_iter().zip(piece.iter().copied().chain(padding)) {
            bytes[place..place + 2].copy_from_slice(&letter.to_le_bytes());
        }
        entries.extend(bytes);
    }
    entries
}

fn entry(name: &[u8; 11], kind: u8, cluster: u16, bytes: u32) -> Vec<u8> {
    let mut entry = vec![0; ENTRY_BYTES];
    entry[..11].copy_from_slice(name);
    entry[11] = kind;
    for at in [16, 18, 24] {
        entry[at..at + 2].copy_from_slice(&DATE);
    }
    entry[26..28].copy_from_slice(&cluster.to_le_bytes());
    entry[28..32].copy_from_slice(&bytes.to_le_bytes());
    entry
}

/// Entry for fuzzing: files of any names and sizes make a volume in which they lie where it says, or an error.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut files: Vec<(&str, &[u8])> = text.lines().take(40).map(|line| (line, line.as_bytes())).collect();
    files.extend(bytes.first().map(|_| ("whole", bytes)));
    for (volume_bytes, sector_bytes) in [(64 << 20, 512), (64 << 20, 4096), (bytes.len() as u64 * 4096, 512)] {
        let Ok(volume) = build("config-2", 7, volume_bytes, sector_bytes, &files) else { continue };
        assert!(volume.bytes.len() as u64 <= volume_bytes && volume.bytes.len() % sector_bytes as usize == 0);
        for (placed, (path, content)) in volume.files.iter().zip(&files) {
            assert_eq!((placed.path.as_str(), &volume.bytes[placed.offset..][..placed.bytes]), (*path, *content));
        }
    }
}

#[cfg(test)]
#[path = "fat_tests.rs"]
mod tests;
