//! The boot sector: the numbers by which everything else is found.

use crate::filesystem::FilesystemError;
use crate::filesystem::fields::{u8_at, u16_at, u32_at};

pub(super) const BOOT_SECTOR_BYTES: usize = 512;

const ENTRY_BYTES: u64 = 32;
/// The limit by which Linux distinguishes FAT12 from FAT16 (`MAX_FAT12`). FAT32 has a larger boot sector.
const CLUSTERS_OF_FAT12_MAX: u64 = 0xff4;
const CLUSTERS_OF_FAT16_MAX: u64 = 0xfff4;
const CLUSTERS_OF_FAT32_MAX: u64 = 0x0fff_fff6;
/// The numbers of the first two clusters are no places.
const FIRST_CLUSTER: u32 = 2;

/// Bits of a number in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FatWidth {
    Bits12,
    Bits16,
    Bits32,
}

/// Where the folder at the top lies.
#[derive(Debug)]
pub(super) enum FatRoot {
    Area { at: u64, bytes: u64 },
    Cluster(u32),
}

/// The numbers of a filesystem, compared with one another. Whether its places are in the partition is seen when they
/// are read.
#[derive(Debug)]
pub(super) struct FatShape {
    pub(super) width: FatWidth,
    pub(super) cluster_bytes: u64,
    pub(super) table_at: u64,
    pub(super) root: FatRoot,
    data_at: u64,
    clusters: u64,
}

impl FatShape {
    pub(super) fn read(boot: &[u8]) -> Result<Self, FilesystemError> {
        let sector_bytes = u64::from(u16_at(boot, 11)?);
        let cluster_sectors = u64::from(u8_at(boot, 13)?);
        if !(512..=4096).contains(&sector_bytes)
            || !sector_bytes.is_power_of_two()
            || !cluster_sectors.is_power_of_two()
        {
            return Err(FilesystemError::Damaged("its sectors or clusters have no size that they may have"));
        }
        let (reserved, tables) = (u64::from(u16_at(boot, 14)?), u64::from(u8_at(boot, 16)?));
        let root_bytes = u64::from(u16_at(boot, 17)?) * ENTRY_BYTES;
        let sectors = match u16_at(boot, 19)? {
            0 => u64::from(u32_at(boot, 32)?),
            few => u64::from(few),
        };
        let (table_sectors, is_wide) = match u16_at(boot, 22)? {
            0 => (u64::from(u32_at(boot, 36)?), true),
            few => (u64::from(few), false),
        };
        if reserved == 0 || tables == 0 || table_sectors == 0 {
            return Err(FilesystemError::Damaged("it has no table of clusters"));
        }
        // The largest of these numbers has 32 bits, and is taken 255 times.
        let root_at = reserved + tables * table_sectors;
        let data_at = root_at + root_bytes.div_ceil(sector_bytes);
        let clusters = sectors.checked_sub(data_at).ok_or(FilesystemError::Damaged("it has no clusters"))?;
        let clusters = clusters / cluster_sectors;
        let (width, entries, most) = if is_wide {
            (FatWidth::Bits32, table_sectors * sector_bytes / 4, CLUSTERS_OF_FAT32_MAX)
        } else if clusters <= CLUSTERS_OF_FAT12_MAX {
            (FatWidth::Bits12, table_sectors * sector_bytes * 2 / 3, CLUSTERS_OF_FAT12_MAX)
        } else {
            (FatWidth::Bits16, table_sectors * sector_bytes / 2, CLUSTERS_OF_FAT16_MAX)
        };
        let root = if is_wide {
            FatRoot::Cluster(u32_at(boot, 44)?)
        } else {
            FatRoot::Area { at: root_at * sector_bytes, bytes: root_bytes }
        };
        Ok(Self {
            width,
            cluster_bytes: cluster_sectors * sector_bytes,
            table_at: reserved * sector_bytes,
            root,
            data_at: data_at * sector_bytes,
            // More than the table has numbers for are not there.
            clusters: clusters.min(most).min(entries.saturating_sub(u64::from(FIRST_CLUSTER))),
        })
    }

    /// The cluster that a folder's entry names. Its upper half means something else in the older kinds.
    pub(super) fn cluster_of(&self, [high, low]: [u16; 2]) -> u32 {
        match self.width {
            FatWidth::Bits12 | FatWidth::Bits16 => u32::from(low),
            FatWidth::Bits32 => (u32::from(high) << 16) | u32::from(low),
        }
    }

    /// Where a cluster lies.
    pub(super) fn cluster_at(&self, cluster: u32) -> Result<u64, FilesystemError> {
        let place = cluster.checked_sub(FIRST_CLUSTER).map(u64::from).filter(|place| *place < self.clusters);
        let place = place.ok_or(FilesystemError::Damaged("a chain of clusters leads to none"))?;
        // At most 2^28 clusters of at most 512 KiB.
        Ok(self.data_at + place * self.cluster_bytes)
    }
}
