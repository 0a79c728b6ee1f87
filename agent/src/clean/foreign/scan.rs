//! Looks a whole disk over: itself, and every partition of its tables. Reads only.

use std::io;

use firesteel_images::write::{
    AlignedBuffer, DiskReader, ReadTableError,
    gpt::{self, Table},
    mbr, read_table,
};

use super::{HEAD_BYTES, Holding, Kind, Owner, TAIL_BYTES, View, holdings, of_partition_type};
use crate::clean::drive::chain;

/// Partitions that are looked at: what a table of the usual size holds.
pub const PARTITIONS_MAX: usize = 128;
/// The partition type of VMFS in classic tables.
const MBR_VMFS: u8 = 0xfb;
/// What stands in the classic table of a disk that has a GPT.
const MBR_PROTECTIVE: u8 = 0xee;

/// One finding and its place, for people: `the disk`, `partition 3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub place: String,
    pub holding: Holding,
}

/// A region that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    pub place: String,
    /// In bytes from the start of the disk, where it lies in one piece on it.
    pub offset: Option<u64>,
    pub size_bytes: u64,
}

/// What a disk holds, and what of it could not be looked at: a guard that lets an unread disk pass is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    pub found: Vec<Found>,
    pub unread: Vec<String>,
    /// GUIDs of its GPT and of the partitions in it, in lower case; empty where it has no GPT.
    pub disk_guid: String,
    pub partition_guids: Vec<String>,
    pub looked: Vec<Looked>,
}

struct Region {
    place: String,
    offset: u64,
    size_bytes: u64,
    kind: Option<Kind>,
}

#[must_use]
pub fn scan(reader: &dyn DiskReader, size_bytes: u64, block_bytes: u32) -> Scan {
    let mut scan = Scan::default();
    let mut regions = vec![Region { place: "the disk".to_owned(), offset: 0, size_bytes, kind: None }];
    match partitions(reader, size_bytes, block_bytes, &mut scan) {
        Ok(partitions) => regions.extend(partitions),
        Err(why) => scan.unread.push(format!("its partitions: {why}")),
    }
    if regions.len() > PARTITIONS_MAX + 1 {
        scan.unread.push(format!("partitions behind the first {PARTITIONS_MAX}"));
        regions.truncate(PARTITIONS_MAX + 1);
    }
    for region in regions {
        let Region { place, offset, size_bytes, .. } = &region;
        scan.looked.push(Looked { place: place.clone(), offset: Some(*offset), size_bytes: *size_bytes });
        look(reader, block_bytes, &region, &mut scan);
    }
    scan
}

fn look(reader: &dyn DiskReader, block_bytes: u32, region: &Region, scan: &mut Scan) {
    let Region { place, offset, size_bytes, kind } = region;
    let before = scan.found.len();
    let length = |most: usize| usize::try_from(*size_bytes).unwrap_or(usize::MAX).min(most) as u64;
    let (head, tail) = (length(HEAD_BYTES), length(TAIL_BYTES));
    let read = |at: u64, bytes: u64| read(reader, block_bytes, at, bytes);
    match read(*offset, head).and_then(|head| Ok((head, read(*offset + (size_bytes - tail), tail)?))) {
        Ok((head, tail)) => {
            let view = View { head: &head, tail: &tail, size_bytes: *size_bytes };
            let each = holdings(&view).into_iter();
            scan.found.extend(each.map(|holding| Found { place: place.clone(), holding }));
        }
        Err(error) => scan.unread.push(format!("{place}: {}", chain(&error))),
    }
    // A type without the superblock that belongs to it still says whose the partition is.
    let is_named = |kind: Kind| scan.found[before..].iter().any(|found| found.holding.kind == kind);
    if let Some(kind) = kind.filter(|kind| !is_named(*kind)) {
        let holding = Holding { kind, name: String::new(), owner: Owner::Unnamed, offset: 0 };
        scan.found.push(Found { place: place.clone(), holding });
    }
}

fn partitions(
    reader: &dyn DiskReader,
    size_bytes: u64,
    block_bytes: u32,
    scan: &mut Scan,
) -> Result<Vec<Region>, String> {
    let region = |number: u32, offset: u64, bytes: u64, kind: Option<Kind>| {
        let offset = offset.min(size_bytes);
        let size_bytes = bytes.min(size_bytes - offset);
        Region { place: format!("partition {number}"), offset, size_bytes, kind }
    };
    let sector = read(reader, block_bytes, 0, size_bytes.min(512)).map_err(|error| chain(&error))?;
    let classic = mbr::parse(&sector).unwrap_or_default();
    let table = match read_table(reader, size_bytes, block_bytes) {
        Ok(Some(table)) => Some(table),
        // Where the first copy is lost, systems go by the second.
        Ok(None) | Err(ReadTableError::Damaged { .. }) if classic.iter().all(|entry| entry.kind == MBR_PROTECTIVE) => {
            backup_table(reader, size_bytes, block_bytes).map_err(|error| chain(&error))?
        }
        // A damaged table shows its partitions to nobody.
        Ok(None) | Err(ReadTableError::Damaged { .. }) => None,
        Err(error @ ReadTableError::Read { .. }) => return Err(chain(&error)),
    };
    let found: Vec<Region> = if let Some(table) = table {
        scan.disk_guid = table.disk_guid.to_string();
        scan.partition_guids = table.partitions.iter().map(|partition| partition.guid.to_string()).collect();
        let each = table.partitions.iter();
        each.map(|partition| {
            let kind = of_partition_type(&partition.type_guid.to_string());
            let (offset, bytes) = (partition.offset_bytes(block_bytes), partition.size_bytes(block_bytes));
            region(partition.number, offset, bytes, kind)
        })
        .collect()
    } else {
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(block_bytes));
        let logical = logical_partitions(reader, block_bytes, &classic).map_err(|error| chain(&error))?;
        let primary = classic.into_iter().zip(1..).filter(|(entry, _)| entry.kind != MBR_PROTECTIVE);
        // Logical ones count from 5, whatever there is before them.
        primary
            .chain(logical.into_iter().zip(5..))
            .map(|(entry, number)| {
                let kind = (entry.kind == MBR_VMFS).then_some(Kind::Vmfs);
                region(number, bytes(entry.first), bytes(entry.blocks), kind)
            })
            .collect()
    };
    Ok(found.into_iter().filter(|region| region.size_bytes > 0).collect())
}

/// The chain inside extended partitions: each link names one partition, relative to itself, and the next link,
/// relative to the extended partition. Places are the disk's.
fn logical_partitions(
    reader: &dyn DiskReader,
    block_bytes: u32,
    primary: &[mbr::Entry],
) -> io::Result<Vec<mbr::Entry>> {
    let block = u64::from(block_bytes);
    let mut found = Vec::new();
    for extended in primary.iter().filter(|entry| entry.is_extended()) {
        let mut link = Some(extended.first);
        for _ in 0..mbr::LOGICAL_MAX {
            let Some(at) = link.take() else { break };
            if at >= extended.first.saturating_add(extended.blocks) {
                break;
            }
            let sector = read(reader, block_bytes, at.saturating_mul(block), 512)?;
            for inner in mbr::parse(&sector).unwrap_or_default() {
                if inner.is_extended() {
                    link = Some(extended.first.saturating_add(inner.first));
                } else {
                    found.push(mbr::Entry { first: at.saturating_add(inner.first), ..inner });
                }
            }
        }
    }
    Ok(found)
}

/// The copy at the disk's end; `None` where there is none that can be read as one.
fn backup_table(reader: &dyn DiskReader, size_bytes: u64, block_bytes: u32) -> io::Result<Option<Table>> {
    let block = u64::from(block_bytes);
    let Some(last) = (size_bytes / block).checked_sub(1) else { return Ok(None) };
    let header = read(reader, block_bytes, last * block, block)?;
    let Ok(Some(table)) = gpt::parse_backup_header(&header, last, block_bytes) else { return Ok(None) };
    let length = table.entries_len() as u64;
    let place = table.entries_lba.checked_mul(block);
    let Some(at) = place.filter(|at| at.checked_add(length).is_some_and(|end| end <= size_bytes)) else {
        return Ok(None);
    };
    let entries = read(reader, block_bytes, at, length)?;
    Ok(table.with_entries(&entries).ok())
}

/// A range that need not begin or end with a block.
fn read(reader: &dyn DiskReader, block_bytes: u32, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let block = u64::from(block_bytes);
    let start = offset / block * block;
    let end = (offset + bytes).next_multiple_of(block);
    let mut buffer = AlignedBuffer::new(usize::try_from(end - start).map_err(io::Error::other)?);
    reader.read_at(start, &mut buffer)?;
    let lead = usize::try_from(offset - start).map_err(io::Error::other)?;
    let length = usize::try_from(bytes).map_err(io::Error::other)?;
    Ok(buffer[lead..lead + length].to_vec())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_images::write::gpt::{self, Partition};

    use super::*;

    const SIZE: usize = 32 << 20;

    struct Memory(Vec<u8>);

    impl DiskReader for Memory {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            let at = usize::try_from(offset).map_err(io::Error::other)?;
            let bytes = self.0.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        }
    }

    fn partition(number: u32, kind: &str, first_mib: u64, mib: u64) -> Partition {
        Partition {
            number,
            name: String::new(),
            type_guid: kind.parse().unwrap(),
            guid: "11111111-2222-3333-4444-555555555555".parse().unwrap(),
            first_lba: first_mib * 2048,
            last_lba: (first_mib + mib) * 2048 - 1,
        }
    }

    fn texts(scan: &Scan) -> Vec<String> {
        scan.found.iter().map(|found| format!("{}: {}", found.place, found.holding)).collect()
    }

    fn with_table(partitions: &[Partition]) -> Vec<u8> {
        let guid = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".parse().unwrap();
        let (head, backup_at, backup) = gpt::create(SIZE as u64, 512, guid, partitions).unwrap();
        let mut bytes = vec![0; SIZE];
        bytes[..head.len()].copy_from_slice(&head);
        let at = usize::try_from(backup_at).unwrap();
        bytes[at..at + backup.len()].copy_from_slice(&backup);
        bytes
    }

    #[test]
    fn partitions_are_looked_at_by_content_and_by_type() {
        const LINUX: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";
        const GPFS: &str = "37affc90-ef7d-4e96-91c3-2d7ae055b174";
        const VMFS: &str = "aa31e02a-400f-11db-9590-000c2911d1b8";
        let mut bytes = with_table(&[partition(1, LINUX, 1, 4), partition(2, GPFS, 5, 4), partition(3, VMFS, 9, 8)]);
        let gfs2 = (1 << 20) + (64 << 10);
        bytes[gfs2..gfs2 + 8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
        let vmfs = (9 << 20) + (1 << 20);
        bytes[vmfs..vmfs + 4].copy_from_slice(&[0x0d, 0xd0, 0x01, 0xc0]);
        bytes[vmfs + 0x12..vmfs + 0x15].copy_from_slice(b"LUN");
        let scan = scan(&Memory(bytes), SIZE as u64, 512);
        assert_eq!(texts(&scan), ["partition 1: GFS2", "partition 2: GPFS", "partition 3: VMFS \"LUN\""]);
        assert!(scan.unread.is_empty());
    }

    #[test]
    fn classic_tables_too() {
        let mut bytes = vec![0; SIZE];
        bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
        bytes[446 + 4] = 0xfb;
        bytes[446 + 8..446 + 16].copy_from_slice(&[0, 8, 0, 0, 0, 0x40, 0, 0]);
        assert_eq!(texts(&scan(&Memory(bytes), SIZE as u64, 512)), ["partition 1: VMFS"]);
    }

    #[test]
    fn logical_partitions_are_followed_and_a_circle_of_them_ends() {
        let entry = |kind: u8, first: u32, blocks: u32| {
            let mut bytes = vec![0, 0, 0, 0, kind, 0, 0, 0];
            bytes.extend(first.to_le_bytes());
            bytes.extend(blocks.to_le_bytes());
            bytes
        };
        let mut bytes = vec![0; SIZE];
        let mut table = |at: usize, entries: &[Vec<u8>]| {
            for (index, entry) in entries.iter().enumerate() {
                bytes[at + 446 + 16 * index..at + 462 + 16 * index].copy_from_slice(entry);
            }
            bytes[at + 510..at + 512].copy_from_slice(&[0x55, 0xaa]);
        };
        // An extended partition from 1 MiB; its second link is at 9 MiB, and names itself as the next one.
        table(0, &[entry(0x05, 2048, 50_000)]);
        table(1 << 20, &[entry(0x83, 2048, 8192), entry(0x05, 16_384, 8192)]);
        table(9 << 20, &[entry(0xfb, 2048, 8192), entry(0x05, 16_384, 8192)]);
        let gfs2 = (2 << 20) + (64 << 10);
        bytes[gfs2..gfs2 + 8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
        let said = texts(&scan(&Memory(bytes), SIZE as u64, 512));
        assert_eq!(said[0], "partition 5: GFS2");
        assert_eq!(said[1], "partition 6: VMFS");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let mut bytes = with_table(&[]);
        bytes.truncate(SIZE / 2);
        let short = scan(&Memory(bytes), SIZE as u64, 512);
        assert_eq!(short.unread.len(), 1, "{short:?}");
        assert!(short.unread[0].starts_with("the disk: "));
        let none = scan(&Memory(Vec::new()), SIZE as u64, 512);
        assert!(none.unread[0].starts_with("its partitions: "), "{none:?}");
    }

    #[test]
    fn the_second_copy_counts_where_the_first_is_lost_and_a_table_that_is_lost_whole_stops_nothing() {
        const GPFS: &str = "37affc90-ef7d-4e96-91c3-2d7ae055b174";
        let mut bytes = with_table(&[partition(1, GPFS, 1, 4)]);
        bytes[512 + 60] ^= 0xff;
        let damaged = scan(&Memory(bytes.clone()), SIZE as u64, 512);
        assert_eq!(texts(&damaged), ["partition 1: GPFS"]);
        assert_eq!(damaged.disk_guid, "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f");
        bytes[..1 << 20].fill(0);
        assert_eq!(texts(&scan(&Memory(bytes.clone()), SIZE as u64, 512)), ["partition 1: GPFS"]);
        // An interrupted write leaves disks so: they must not be stuck for ever.
        bytes[SIZE - 512 + 60] ^= 0xff;
        let lost = scan(&Memory(bytes), SIZE as u64, 512);
        assert!(lost.found.is_empty() && lost.unread.is_empty(), "{lost:?}");
    }
}
