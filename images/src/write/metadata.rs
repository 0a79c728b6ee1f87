//! Finding and clearing what a disk held before: partition tables and the signatures of
//! filesystems, RAID members, volumes and encrypted containers, on the disk and in every old
//! partition. Clearing ends with a read-back of everything that was cleared.

use std::{io, ops::Range};

use super::control::{Aborted, WriteControl, WritePhase, WriteProgress};
use super::disk::{ALIGNMENT_BYTES, AlignedBuffer, DiskReader, WritableDisk, read_unaligned};
use super::signature::{self, DiskSignature, EDGE_BYTES};
use super::{gpt, mbr};

/// Old partitions that are looked at. Hostile tables can name thousands; real ones do not.
pub const PARTITIONS_MAX: usize = 256;
const PIECE_BYTES: usize = 1 << 20;

/// What was found and cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClearedMetadata {
    pub found: Vec<DiskSignature>,
    /// Bytes read back as zeros by a fresh descriptor after a flush.
    pub verified_bytes: u64,
}

impl ClearedMetadata {
    /// `gpt at 512`, `ext4 at 1049656`, …: what a finished write says about the past of the disk, for people.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.found.iter().map(DiskSignature::to_string).collect()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    #[error("zeroing {bytes} bytes at {offset}")]
    Write { offset: u64, bytes: u64, source: io::Error },
    #[error("flushing the disk's cache")]
    Flush { source: io::Error },
    #[error("opening the disk for reading back")]
    Reopen { source: io::Error },
    #[error("reading back {bytes} bytes at {offset}")]
    ReadBack { offset: u64, bytes: u64, source: io::Error },
    #[error("the disk still holds data at {offset} after zeros were written there")]
    NotZero { offset: u64 },
    #[error(transparent)]
    Aborted(Aborted),
}

/// What the disk holds now, without changing it. An area that cannot be read is named
/// `unreadable`.
pub fn inspect(reader: &dyn DiskReader, size_bytes: u64, block_bytes: u32) -> Vec<DiskSignature> {
    scan(reader, size_bytes, block_bytes).0
}

/// Clears both partition tables and all old signatures, and proves it by reading back.
pub fn clear(disk: &dyn WritableDisk, control: &dyn WriteControl) -> Result<ClearedMetadata, ClearError> {
    let reader = disk.reader().map_err(|source| ClearError::Reopen { source })?;
    let (found, mut areas) = scan(&*reader, disk.size_bytes(), disk.block_bytes());
    drop(reader);
    // What the old partitions held goes first: interrupted, the table still tells the next
    // attempt where they were.
    let tables = edges(0..disk.size_bytes());
    areas.retain(|area| !tables.contains(area));
    let areas = merge(areas, disk.size_bytes());
    let tables = merge(tables, disk.size_bytes());
    let total_bytes = areas.iter().chain(&tables).map(|area| area.end - area.start).sum();
    let mut done_bytes = 0;
    for area in areas.iter().chain(&tables) {
        step(control, done_bytes, total_bytes)?;
        zero(disk, area)?;
        done_bytes += area.end - area.start;
    }
    disk.flush().map_err(|source| ClearError::Flush { source })?;
    let verified_bytes = verify_zero(disk, merge([areas, tables].concat(), disk.size_bytes()))?;
    step(control, total_bytes, total_bytes)?;
    Ok(ClearedMetadata { found, verified_bytes })
}

/// Makes a disk that was partly written unbootable: both tables are zeroed and read back. Goes on
/// to the second when the first fails.
pub(crate) fn clear_tables(disk: &dyn WritableDisk) -> Result<(), ClearError> {
    let tables = merge(edges(0..disk.size_bytes()), disk.size_bytes());
    let written: Vec<Result<(), ClearError>> = tables.iter().map(|table| zero(disk, table)).collect();
    let flushed = disk.flush().map_err(|source| ClearError::Flush { source });
    written.into_iter().collect::<Result<(), ClearError>>()?;
    flushed?;
    verify_zero(disk, tables).map(drop)
}

fn step(control: &dyn WriteControl, done_bytes: u64, total_bytes: u64) -> Result<(), ClearError> {
    control
        .checkpoint(WriteProgress { phase: WritePhase::Clearing, done_bytes, total_bytes })
        .map_err(ClearError::Aborted)
}

fn zero(disk: &dyn WritableDisk, area: &Range<u64>) -> Result<(), ClearError> {
    // Written, not zeroed by command: a drive whose zeroing command lies must not keep old tables.
    let zeros = AlignedBuffer::new(PIECE_BYTES);
    for piece in pieces(area) {
        let bytes = usize::try_from(piece.end - piece.start).unwrap_or(PIECE_BYTES);
        disk.write_at(piece.start, &zeros[..bytes]).map_err(|source| ClearError::Write {
            offset: piece.start,
            bytes: bytes as u64,
            source,
        })?;
    }
    Ok(())
}

fn verify_zero(disk: &dyn WritableDisk, areas: Vec<Range<u64>>) -> Result<u64, ClearError> {
    let reader = disk.reader().map_err(|source| ClearError::Reopen { source })?;
    let mut buffer = AlignedBuffer::new(PIECE_BYTES);
    let mut verified_bytes = 0;
    for piece in areas.iter().flat_map(pieces) {
        let bytes = piece.end - piece.start;
        let buffer = &mut buffer[..usize::try_from(bytes).unwrap_or(PIECE_BYTES)];
        // What a reader that does nothing would leave must not count as zeros.
        buffer.fill(0xa5);
        let failed = |source| ClearError::ReadBack { offset: piece.start, bytes, source };
        reader.read_at(piece.start, buffer).map_err(failed)?;
        if let Some(index) = buffer.iter().position(|&byte| byte != 0) {
            return Err(ClearError::NotZero { offset: piece.start + index as u64 });
        }
        verified_bytes += bytes;
    }
    Ok(verified_bytes)
}

fn pieces(area: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = area.end;
    (area.start..end).step_by(PIECE_BYTES).map(move |start| start..end.min(start + PIECE_BYTES as u64))
}

/// First and last MiB of a disk or partition.
fn edges(region: Range<u64>) -> Vec<Range<u64>> {
    let end = region.end.min(region.start.saturating_add(EDGE_BYTES));
    let start = region.start.max(region.end.saturating_sub(EDGE_BYTES));
    vec![region.start..end, start..region.end]
}

/// Sorts the areas and makes them whole blocks, without overlaps, inside the disk.
fn merge(mut areas: Vec<Range<u64>>, size_bytes: u64) -> Vec<Range<u64>> {
    let alignment = ALIGNMENT_BYTES as u64;
    areas.sort_by_key(|area| area.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for area in areas {
        let start = area.start / alignment * alignment;
        let end = area.end.checked_next_multiple_of(alignment).unwrap_or(size_bytes).min(size_bytes);
        match merged.last_mut() {
            _ if start >= end => {}
            Some(last) if start <= last.end => last.end = last.end.max(end),
            Some(_) | None => merged.push(start..end),
        }
    }
    merged
}

/// Signatures on the disk and in its partitions, and the areas to clear.
fn scan(reader: &dyn DiskReader, size_bytes: u64, block_bytes: u32) -> (Vec<DiskSignature>, Vec<Range<u64>>) {
    let disk = DiskWindow { reader, size_bytes, block_bytes };
    let (mut found, partitions) = disk.tables();
    let mut areas = Vec::new();
    for region in std::iter::once(0..size_bytes).chain(partitions) {
        areas.extend(edges(region.clone()));
        for signature in disk.signatures(&region) {
            // Deep copies lie outside the edges.
            areas.push(signature.offset..signature.offset.saturating_add(512));
            found.push(signature);
        }
    }
    found.sort_by(|a, b| a.offset.cmp(&b.offset).then_with(|| a.name.cmp(&b.name)));
    found.dedup();
    (found, areas)
}

struct DiskWindow<'a> {
    reader: &'a dyn DiskReader,
    size_bytes: u64,
    block_bytes: u32,
}

impl DiskWindow<'_> {
    fn read(&self, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        read_unaligned(self.reader, self.block_bytes, offset, bytes)
    }

    /// Names of the partition tables, and where the partitions of all of them lie.
    fn tables(&self) -> (Vec<DiskSignature>, Vec<Range<u64>>) {
        let (mut found, mut partitions) = (Vec::new(), Vec::new());
        let block = u64::from(self.block_bytes);
        let primary = self.read(0, EDGE_BYTES.min(self.size_bytes)).unwrap_or_default();
        if gpt::block_bytes_of(&primary).is_some() {
            found.push(DiskSignature { name: "gpt".to_owned(), offset: block });
        } else if mbr::parse(&primary).is_some_and(|entries| !entries.is_empty()) {
            found.push(DiskSignature { name: "dos".to_owned(), offset: 0x1fe });
        }
        // Old tables may have been made for another block size than the disk shows now.
        for block_bytes in [512, 4096] {
            if let Ok(Some(table)) = gpt::parse(&primary, block_bytes) {
                partitions.extend(regions(&table));
            }
        }
        if let Some(backup) = self.backup_table() {
            found.push(DiskSignature { name: "gpt".to_owned(), offset: (self.size_bytes / block - 1) * block });
            partitions.extend(backup.iter().flat_map(regions));
        }
        partitions.extend(self.mbr_partitions(&primary));
        for region in &mut partitions {
            region.start = region.start.min(self.size_bytes);
            region.end = region.end.min(self.size_bytes);
        }
        partitions.sort_by_key(|region| (region.start, region.end));
        partitions.dedup();
        partitions.retain(|region| !region.is_empty());
        partitions.truncate(PARTITIONS_MAX);
        (found, partitions)
    }

    /// `Some(None)`: there is a backup header, but it does not lead to valid entries.
    fn backup_table(&self) -> Option<Option<gpt::GptTable>> {
        let block = u64::from(self.block_bytes);
        let last = (self.size_bytes / block).checked_sub(1)?;
        let header = self.read(last * block, block).ok()?;
        if !header.starts_with(b"EFI PART") {
            return None;
        }
        let table = gpt::parse_backup_header(&header, last, self.block_bytes).ok().flatten();
        Some(table.and_then(|table| {
            let start = table.entries_lba.checked_mul(block)?;
            let end = start.checked_add(table.entries_len() as u64)?;
            let entries = if end <= self.size_bytes { self.read(start, end - start).ok()? } else { return None };
            table.with_entries(&entries).ok()
        }))
    }

    fn mbr_partitions(&self, primary: &[u8]) -> Vec<Range<u64>> {
        let block = u64::from(self.block_bytes);
        let region =
            |first: u64, blocks: u64| first.saturating_mul(block)..first.saturating_add(blocks).saturating_mul(block);
        let mut found = Vec::new();
        for entry in mbr::parse(primary).unwrap_or_default() {
            if entry.kind == mbr::PROTECTIVE {
                continue;
            }
            found.push(region(entry.first, entry.blocks));
            // Each link of the chain names one logical partition, relative to itself, and the
            // next link, relative to the extended partition.
            let mut link = entry.is_extended().then_some(entry.first);
            for _ in 0..mbr::LOGICAL_MAX {
                let Some(at) = link else { break };
                let start = at.saturating_mul(block);
                if start.saturating_add(block) > self.size_bytes {
                    break;
                }
                found.push(region(at, 1));
                let entries = self.read(start, block).ok().and_then(|sector| mbr::parse(&sector)).unwrap_or_default();
                link = None;
                for inner in entries {
                    if inner.is_extended() {
                        link = Some(entry.first.saturating_add(inner.first));
                    } else {
                        found.push(region(at.saturating_add(inner.first), inner.blocks));
                    }
                }
            }
        }
        found
    }

    /// Signatures inside one region; offsets from the start of the disk.
    fn signatures(&self, region: &Range<u64>) -> Vec<DiskSignature> {
        let size = region.end - region.start;
        let edge = EDGE_BYTES.min(size);
        let mut found = Vec::new();
        let mut add = |offset: u64, read: io::Result<Vec<u8>>, find: &dyn Fn(&[u8]) -> Vec<DiskSignature>| match read {
            Ok(bytes) => found.extend(
                find(&bytes)
                    .into_iter()
                    .map(|DiskSignature { name, offset }| DiskSignature { name, offset: region.start + offset }),
            ),
            Err(_) => found.push(DiskSignature { name: "unreadable".to_owned(), offset: region.start + offset }),
        };
        add(0, self.read(region.start, edge), &signature::in_start);
        add(size - edge, self.read(region.end - edge, edge), &|bytes| signature::in_end(bytes, size));
        for (offset, bytes) in signature::deep_places() {
            if offset.saturating_add(bytes as u64) <= size {
                add(offset, self.read(region.start + offset, bytes as u64), &|bytes| {
                    let name = signature::name_of_deep(offset, bytes);
                    name.map(|name| DiskSignature { name: name.to_owned(), offset }).into_iter().collect()
                });
            }
        }
        found
    }
}

fn regions(table: &gpt::GptTable) -> Vec<Range<u64>> {
    let block_bytes = table.block_bytes;
    let region = |partition: &gpt::Partition| {
        let start = partition.offset_bytes(block_bytes);
        start..start.saturating_add(partition.size_bytes(block_bytes))
    };
    table.partitions.iter().map(region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_become_whole_blocks_in_the_disk_each_once() {
        type Areas<'a> = &'a [(u64, u64)];
        let rows: [(Areas<'_>, Areas<'_>); 8] = [
            (&[], &[]),
            (&[(5000, 5001)], &[(4096, 8192)]),
            (&[(4096, 8192), (8193, 9000)], &[(4096, 12_288)]),
            (&[(4096, 8192), (12_288, 12_300)], &[(4096, 8192), (12_288, 16_384)]),
            (&[(40_960, 45_056), (0, 1), (8000, 20_000), (9000, 10_000)], &[(0, 20_480), (40_960, 45_056)]),
            // Empty, behind the end, and beyond it.
            (&[(8192, 8192)], &[]),
            (&[(45_056, 50_000), (65_536, u64::MAX)], &[]),
            (&[(40_000, u64::MAX)], &[(36_864, 45_056)]),
        ];
        for (areas, expected) in rows {
            let merged = merge(areas.iter().map(|(start, end)| *start..*end).collect(), 45_056);
            let merged: Vec<(u64, u64)> = merged.iter().map(|area| (area.start, area.end)).collect();
            assert_eq!(merged, expected, "{areas:?}");
        }
    }
}
