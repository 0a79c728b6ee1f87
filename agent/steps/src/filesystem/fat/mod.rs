//! FAT12, FAT16 and FAT32 with long names, as Linux reads them (Microsoft, "FAT: General Overview of On-Disk Format",
//! 1.03, and its FAT32 specification).
//!
//! Names are compared without difference of case among the letters of ASCII, by the long name and by the short one.

mod folder;
mod shape;

use folder::FatEntry;
use shape::{BOOT_SECTOR_BYTES, FatRoot, FatShape, FatWidth};

use super::fields::{index, u16_at, u32_at};
use super::{FOLDER_BYTES_MAX, FilesystemError, PartitionBytes};

/// The number of the top folder, which no file has.
const ROOT_NUMBER: u64 = u64::MAX;

/// A FAT filesystem, for reading.
#[derive(Debug)]
pub struct FatReader<'a> {
    bytes: PartitionBytes<'a>,
    shape: FatShape,
}

/// A file or a folder.
#[derive(Clone, Copy)]
struct FatNode {
    is_folder: bool,
    /// 0: it has none, or is the folder at the top.
    first_cluster: u32,
    bytes: u32,
    /// The folder's first cluster and the place in the folder.
    number: u64,
}

impl<'a> FatReader<'a> {
    /// Reads the boot sector.
    ///
    /// # Errors
    /// When the disk fails, or the filesystem is damaged.
    pub fn open(bytes: PartitionBytes<'a>) -> Result<Self, FilesystemError> {
        let shape = FatShape::read(&bytes.read(0, BOOT_SECTOR_BYTES)?)?;
        Ok(Self { bytes, shape })
    }

    pub(super) fn names(&self, path: &str, most: usize) -> Result<Vec<String>, FilesystemError> {
        let node = self.resolve(path)?;
        if !node.is_folder {
            return Err(FilesystemError::Absent);
        }
        let entries = folder::entries(&self.folder(node)?)?;
        if entries.len() > most {
            return Err(FilesystemError::TooMany { most: most as u64, what: "files" });
        }
        Ok(entries.into_iter().map(FatEntry::into_name).collect())
    }

    pub(super) fn file(&self, path: &str) -> Result<u64, FilesystemError> {
        self.resolve_file(path).map(|node| node.number)
    }

    pub(super) fn read(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, FilesystemError> {
        let node = self.resolve_file(path)?;
        let wanted = u64::from(node.bytes).min(bytes_max);
        let content = self.chain(node.first_cluster, wanted, &|_| false)?;
        if (content.len() as u64) < wanted {
            return Err(FilesystemError::Damaged("a file has fewer clusters than it says"));
        }
        Ok(content)
    }

    fn resolve_file(&self, path: &str) -> Result<FatNode, FilesystemError> {
        let node = self.resolve(path)?;
        if node.is_folder { Err(FilesystemError::NotPlain) } else { Ok(node) }
    }

    fn resolve(&self, path: &str) -> Result<FatNode, FilesystemError> {
        let mut node = FatNode { is_folder: true, first_cluster: 0, bytes: 0, number: ROOT_NUMBER };
        for part in path.split('/') {
            if !node.is_folder {
                return Err(FilesystemError::Absent);
            }
            if part.is_empty() || part == "." {
                continue;
            }
            let found = folder::entries(&self.folder(node)?)?.into_iter().find(|entry| entry.is_named(part));
            let entry = found.ok_or(FilesystemError::Absent)?;
            node = FatNode {
                is_folder: entry.is_folder,
                first_cluster: self.shape.cluster_of(entry.first_cluster),
                bytes: entry.bytes,
                number: (u64::from(node.first_cluster) << 32) | u64::from(entry.place),
            };
        }
        Ok(node)
    }

    /// The entries of a folder, as they lie on the medium.
    fn folder(&self, node: FatNode) -> Result<Vec<u8>, FilesystemError> {
        let first = match (node.first_cluster, &self.shape.root) {
            (0, FatRoot::Area { at, bytes }) => return self.bytes.read(*at, index(*bytes)?),
            (0, FatRoot::Cluster(first)) => *first,
            (first, FatRoot::Area { .. } | FatRoot::Cluster(_)) => first,
        };
        let content = self.chain(first, FOLDER_BYTES_MAX + 1, &folder::is_end)?;
        if content.len() as u64 > FOLDER_BYTES_MAX {
            return Err(FilesystemError::TooMany { most: FOLDER_BYTES_MAX >> 20, what: "MiB of names in one folder" });
        }
        Ok(content)
    }

    /// The first `most` bytes of a chain of clusters, or those up to a cluster that ends it. A chain that leads to
    /// itself has more than any number of bytes.
    fn chain(&self, first: u32, most: u64, ends: &dyn Fn(&[u8]) -> bool) -> Result<Vec<u8>, FilesystemError> {
        let mut content = Vec::new();
        let mut next = (first != 0).then_some(first);
        while let Some(cluster) = next {
            let left = most - content.len() as u64;
            if left == 0 {
                break;
            }
            let bytes = index(left.min(self.shape.cluster_bytes))?;
            let piece = self.bytes.read(self.shape.cluster_at(cluster)?, bytes)?;
            content.extend_from_slice(&piece);
            if ends(&piece) {
                break;
            }
            next = self.after(cluster)?;
        }
        Ok(content)
    }

    /// The cluster that follows another one in its chain.
    fn after(&self, cluster: u32) -> Result<Option<u32>, FilesystemError> {
        let number = u64::from(cluster);
        let at = |offset: u64| self.shape.table_at + offset;
        let (entry, last) = match self.shape.width {
            FatWidth::Bits12 => {
                let pair = u32::from(u16_at(&self.bytes.read(at(number + number / 2), 2)?, 0)?);
                (if cluster.is_multiple_of(2) { pair & 0xfff } else { pair >> 4 }, 0xff8)
            }
            FatWidth::Bits16 => (u32::from(u16_at(&self.bytes.read(at(number * 2), 2)?, 0)?), 0xfff8),
            FatWidth::Bits32 => (u32_at(&self.bytes.read(at(number * 4), 4)?, 0)? & 0x0fff_ffff, 0x0fff_fff8),
        };
        Ok((entry < last).then_some(entry))
    }
}
