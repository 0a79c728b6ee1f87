//! GUID partition tables (UEFI specification 2.10, chapter 5): reading them from hostile bytes,
//! and completing an image's table for the disk that it was written to. Pure: bytes in, bytes out.

use firesteel_facts::Guid;

use super::mbr::PROTECTIVE as MBR_TYPE_PROTECTIVE;

/// An image's table and boot code live below this; the writer holds it back until all else is
/// proven to be on the disk.
pub const HEAD_BYTES: usize = 1 << 20;
/// More entries than any tool makes (the usual number is 128), few enough to read at a glance.
pub const ENTRIES_MAX: u32 = 1024;
/// The specification says a power of two from 128; none in use has more than that.
pub const ENTRY_BYTES_MAX: u32 = 4096;

const SIGNATURE: &[u8; 8] = b"EFI PART";
const HEADER_BYTES_MIN: usize = 92;

/// A partition table that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptTable {
    pub disk_guid: Guid,
    pub block_bytes: u32,
    pub first_usable_lba: u64,
    pub last_usable_lba: u64,
    /// Where the other copy of the header is said to be.
    pub alternate_lba: u64,
    pub entries_lba: u64,
    pub entry_count: u32,
    pub entry_bytes: u32,
    /// The partitions in the order of the entries; unused ones are left out.
    pub partitions: Vec<Partition>,
    header: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Counts from 1, as the kernel does.
    pub number: u32,
    pub name: String,
    pub type_guid: Guid,
    pub guid: Guid,
    pub first_lba: u64,
    /// Inclusive.
    pub last_lba: u64,
}

impl Partition {
    #[must_use]
    pub fn offset_bytes(&self, block_bytes: u32) -> u64 {
        self.first_lba.saturating_mul(u64::from(block_bytes))
    }

    #[must_use]
    pub fn size_bytes(&self, block_bytes: u32) -> u64 {
        (self.last_lba - self.first_lba).saturating_add(1).saturating_mul(u64::from(block_bytes))
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GptError {
    #[error("the header's checksum is wrong")]
    HeaderChecksum,
    #[error("the checksum of the partition entries is wrong")]
    EntriesChecksum,
    #[error("the header says that it is {found} bytes long")]
    HeaderLength { found: u32 },
    #[error("the header says that it lies at block {found}, but it lies at block {at}")]
    WrongPlace { at: u64, found: u64 },
    #[error("{count} entries of {bytes} bytes are not supported")]
    EntryShape { count: u32, bytes: u32 },
    #[error("the partition entries at block {lba} lie outside the area for them")]
    EntriesPlace { lba: u64 },
    #[error("partition {number} from block {first} to {last} does not lie in the usable area")]
    PartitionPlace { number: u32, first: u64, last: u64 },
    #[error("the table needs {needed} blocks, but the disk has {blocks}")]
    DiskTooSmall { needed: u64, blocks: u64 },
    #[error("all {count} entries of the table are in use")]
    EntriesFull { count: u32 },
}

/// Which block size the image was made for, by where its header's signature stands.
#[must_use]
pub fn block_bytes_of(head: &[u8]) -> Option<u32> {
    [512_u32, 4096].into_iter().find(|&bytes| has_signature(head, bytes as usize))
}

/// Reads the table whose protective MBR stands at the start of `head`. `None`: there is no GPT.
pub fn parse(head: &[u8], block_bytes: u32) -> Result<Option<GptTable>, GptError> {
    let block = block_bytes as usize;
    if !has_signature(head, block) {
        return Ok(None);
    }
    let table = parse_header(&head[block..], 1, block_bytes)?;
    let start = table.entries_lba.checked_mul(u64::from(block_bytes)).and_then(|start| usize::try_from(start).ok());
    let end_lba = table.entries_lba.saturating_add(table.entries_blocks());
    let entries = start
        .filter(|_| table.entries_lba >= 2 && end_lba <= table.first_usable_lba)
        .and_then(|start| head.get(start..start.checked_add(table.entries_len())?))
        .ok_or(GptError::EntriesPlace { lba: table.entries_lba })?;
    table.with_entries(entries).map(Some)
}

/// Reads the header at the disk's last block; its entries are elsewhere ([`GptTable::entries_lba`]).
pub fn parse_backup_header(block: &[u8], lba: u64, block_bytes: u32) -> Result<Option<GptTable>, GptError> {
    if !has_signature(block, 0) {
        return Ok(None);
    }
    parse_header(block, lba, block_bytes).map(Some)
}

fn has_signature(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..at + SIGNATURE.len()) == Some(SIGNATURE)
}

fn array_at<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    std::array::from_fn(|index| bytes[at + index])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn guid_at(bytes: &[u8], at: usize) -> Guid {
    Guid(array_at(bytes, at))
}

fn parse_header(bytes: &[u8], at: u64, block_bytes: u32) -> Result<GptTable, GptError> {
    let short = GptError::HeaderLength { found: 0 };
    let fixed = bytes.get(..HEADER_BYTES_MIN).ok_or(short)?;
    let length = u32_at(fixed, 12);
    let whole = usize::try_from(length)
        .ok()
        .filter(|&length| (HEADER_BYTES_MIN..=block_bytes as usize).contains(&length))
        .and_then(|length| bytes.get(..length))
        .ok_or(GptError::HeaderLength { found: length })?;
    let mut header = whole.to_vec();
    header[16..20].fill(0);
    if crc32fast::hash(&header) != u32_at(fixed, 16) {
        return Err(GptError::HeaderChecksum);
    }
    if u64_at(fixed, 24) != at {
        return Err(GptError::WrongPlace { at, found: u64_at(fixed, 24) });
    }
    let (entry_count, entry_bytes) = (u32_at(fixed, 80), u32_at(fixed, 84));
    if entry_count == 0
        || entry_count > ENTRIES_MAX
        || !(128..=ENTRY_BYTES_MAX).contains(&entry_bytes)
        || !entry_bytes.is_power_of_two()
    {
        return Err(GptError::EntryShape { count: entry_count, bytes: entry_bytes });
    }
    Ok(GptTable {
        disk_guid: guid_at(fixed, 56),
        block_bytes,
        first_usable_lba: u64_at(fixed, 40),
        last_usable_lba: u64_at(fixed, 48),
        alternate_lba: u64_at(fixed, 32),
        entries_lba: u64_at(fixed, 72),
        entry_count,
        entry_bytes,
        partitions: Vec::new(),
        header,
    })
}

impl GptTable {
    /// Length of the array of entries in bytes.
    #[must_use]
    pub fn entries_len(&self) -> usize {
        // At most 1024 * 4096.
        self.entry_count as usize * self.entry_bytes as usize
    }

    /// Blocks that the array of entries takes.
    #[must_use]
    pub fn entries_blocks(&self) -> u64 {
        (self.entries_len() as u64).div_ceil(u64::from(self.block_bytes))
    }

    /// The table with its partitions, read from the array of entries.
    pub fn with_entries(mut self, entries: &[u8]) -> Result<Self, GptError> {
        let entries = entries.get(..self.entries_len()).ok_or(GptError::EntriesPlace { lba: self.entries_lba })?;
        if crc32fast::hash(entries) != u32_at(&self.header, 88) {
            return Err(GptError::EntriesChecksum);
        }
        for (entry, number) in entries.chunks_exact(self.entry_bytes as usize).zip(1..) {
            let type_guid = guid_at(entry, 0);
            if type_guid.is_nil() {
                continue;
            }
            let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
            if first > last || first < self.first_usable_lba || last > self.last_usable_lba {
                return Err(GptError::PartitionPlace { number, first, last });
            }
            let units = entry[56..128].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
            let name = char::decode_utf16(units.take_while(|&unit| unit != 0))
                .map(|decoded| decoded.ok().filter(|letter| !letter.is_control()).unwrap_or('\u{fffd}'))
                .collect();
            self.partitions.push(Partition {
                number,
                name,
                type_guid,
                guid: guid_at(entry, 16),
                first_lba: first,
                last_lba: last,
            });
        }
        Ok(self)
    }

    /// A header like this table's, placed at `at`.
    fn header_at(&self, at: u64, alternate: u64, entries_lba: u64, last_usable: u64, disk_guid: Guid) -> Vec<u8> {
        let mut header = self.header.clone();
        header[24..32].copy_from_slice(&at.to_le_bytes());
        header[32..40].copy_from_slice(&alternate.to_le_bytes());
        header[48..56].copy_from_slice(&last_usable.to_le_bytes());
        header[56..72].copy_from_slice(&disk_guid.0);
        header[72..80].copy_from_slice(&entries_lba.to_le_bytes());
        header[16..20].fill(0);
        let checksum = crc32fast::hash(&header);
        header[16..20].copy_from_slice(&checksum.to_le_bytes());
        header
    }
}

/// What must be written to make an image's table fit a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub last_usable_lba: u64,
    /// Where [`Completion::backup`] belongs: it ends with the disk.
    pub backup_offset: u64,
    /// Entries and header of the backup table; whole blocks.
    pub backup: Vec<u8>,
    /// Where the image's own backup table lies, now in the middle of the disk; to be zeroed.
    pub stale: std::ops::Range<u64>,
}

/// Moves the backup table to the disk's end, opens the space up to it, and gives the disk its
/// GUID. `head` (the image's start, protective MBR included) is changed in place.
pub fn complete(head: &mut [u8], table: &GptTable, disk_bytes: u64, disk_guid: Guid) -> Result<Completion, GptError> {
    let (block, block_u64) = (table.block_bytes as usize, u64::from(table.block_bytes));
    let blocks = disk_bytes / block_u64;
    let entries_blocks = table.entries_blocks();
    let last_used = table.partitions.iter().map(|partition| partition.last_lba).max().unwrap_or(0);
    let needed = last_used.max(table.first_usable_lba).saturating_add(entries_blocks + 2);
    if needed > blocks {
        return Err(GptError::DiskTooSmall { needed, blocks });
    }
    let (last, backup_entries) = (blocks - 1, blocks - 1 - entries_blocks);
    let last_usable = backup_entries - 1;
    let place = GptError::EntriesPlace { lba: table.entries_lba };
    let start = usize::try_from(table.entries_lba).ok().and_then(|lba| lba.checked_mul(block));
    let Some(entries) = start.and_then(|start| head.get(start..start.checked_add(table.entries_len())?)) else {
        return Err(place);
    };
    let mut backup = vec![0; usize::try_from(entries_blocks).unwrap_or(0) * block + block];
    backup[..entries.len()].copy_from_slice(entries);
    let header = table.header_at(last, 1, backup_entries, last_usable, disk_guid);
    let header_start = backup.len() - block;
    backup[header_start..header_start + header.len()].copy_from_slice(&header);

    let header = table.header_at(1, last, table.entries_lba, last_usable, disk_guid);
    head[block..block + header.len()].copy_from_slice(&header);
    complete_protective_mbr(head, blocks);
    let stale = if table.alternate_lba > last_used + entries_blocks {
        let first = table.alternate_lba - entries_blocks;
        first.saturating_mul(block_u64)..table.alternate_lba.saturating_add(1).saturating_mul(block_u64)
    } else {
        0..0
    };
    Ok(Completion { last_usable_lba: last_usable, backup_offset: backup_entries * block_u64, backup, stale })
}

impl GptTable {
    /// The table with one more partition, in its first unused entry. `head` is the disk's start; what is to be written
    /// are its first blocks, changed in place, and the backup of the answer. The disk's end and GUID stay.
    pub fn with_partition(
        &self,
        head: &mut [u8],
        partition: &Partition,
        disk_bytes: u64,
    ) -> Result<(Self, Completion), GptError> {
        let (first, last) = (partition.first_lba, partition.last_lba);
        if first > last || first < self.first_usable_lba || last > self.last_usable_lba {
            return Err(GptError::PartitionPlace { number: partition.number, first, last });
        }
        let (block, bytes) = (self.block_bytes as usize, self.entry_bytes as usize);
        let place = GptError::EntriesPlace { lba: self.entries_lba };
        let start = usize::try_from(self.entries_lba).ok().and_then(|lba| lba.checked_mul(block));
        let entries =
            start.and_then(|start| head.get_mut(start..start.checked_add(self.entries_len())?)).ok_or(place)?;
        let full = GptError::EntriesFull { count: self.entry_count };
        let entry = entries.chunks_exact_mut(bytes).find(|entry| entry[..16] == [0; 16]).ok_or(full)?;
        entry.fill(0);
        fill_entry(entry, partition);
        let checksum = crc32fast::hash(entries);
        let mut table = self.clone();
        table.header[88..92].copy_from_slice(&checksum.to_le_bytes());
        let completion = complete(head, &table, disk_bytes, self.disk_guid)?;
        match parse(head, self.block_bytes)? {
            Some(table) => Ok((table, completion)),
            None => Err(GptError::HeaderChecksum),
        }
    }
}

fn fill_entry(entry: &mut [u8], partition: &Partition) {
    entry[..16].copy_from_slice(&partition.type_guid.0);
    entry[16..32].copy_from_slice(&partition.guid.0);
    entry[32..40].copy_from_slice(&partition.first_lba.to_le_bytes());
    entry[40..48].copy_from_slice(&partition.last_lba.to_le_bytes());
    for (unit, place) in partition.name.encode_utf16().take(36).zip(entry[56..].chunks_exact_mut(2)) {
        place.copy_from_slice(&unit.to_le_bytes());
    }
}

/// The protective partition covers the whole disk, as far as 32 bits reach. Hybrid tables, where
/// it shares the MBR with others, keep theirs.
fn complete_protective_mbr(head: &mut [u8], blocks: u64) {
    if head.get(510..512) != Some(&[0x55, 0xaa]) {
        return;
    }
    let used: Vec<usize> = (0..4).map(|index| 446 + index * 16).filter(|&at| head[at + 4] != 0).collect();
    if let [at] = used[..]
        && head[at + 4] == MBR_TYPE_PROTECTIVE
    {
        let covered = u32::try_from(blocks - 1).unwrap_or(u32::MAX);
        head[at + 12..at + 16].copy_from_slice(&covered.to_le_bytes());
    }
}

/// A table for an empty disk: its first MiB with a protective MBR, and its backup (entries and
/// header) with the offset where that belongs. Numbers of the partitions are their places.
pub fn create(
    disk_bytes: u64,
    block_bytes: u32,
    disk_guid: Guid,
    partitions: &[Partition],
) -> Result<(Vec<u8>, u64, Vec<u8>), GptError> {
    const ENTRY_COUNT: u32 = 128;
    const ENTRY_BYTES: u32 = 128;
    let block = block_bytes as usize;
    let entries_blocks = u64::from((ENTRY_COUNT * ENTRY_BYTES).div_ceil(block_bytes));
    let blocks = disk_bytes / u64::from(block_bytes);
    let needed = HEAD_BYTES as u64 / u64::from(block_bytes) + entries_blocks + 1;
    if blocks < needed {
        return Err(GptError::DiskTooSmall { needed, blocks });
    }
    let mut head = vec![0; HEAD_BYTES];
    for partition in partitions {
        if partition.number == 0 || partition.number > ENTRY_COUNT {
            return Err(GptError::EntryShape { count: partition.number, bytes: ENTRY_BYTES });
        }
        let at = 2 * block + (partition.number - 1) as usize * ENTRY_BYTES as usize;
        fill_entry(&mut head[at..at + ENTRY_BYTES as usize], partition);
    }
    let entries = &head[2 * block..2 * block + (ENTRY_COUNT * ENTRY_BYTES) as usize];
    let first_usable_lba = 2 + entries_blocks;
    let mut header = vec![0; HEADER_BYTES_MIN];
    header[..8].copy_from_slice(SIGNATURE);
    header[8..12].copy_from_slice(&[0, 0, 1, 0]);
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[40..48].copy_from_slice(&first_usable_lba.to_le_bytes());
    header[80..84].copy_from_slice(&ENTRY_COUNT.to_le_bytes());
    header[84..88].copy_from_slice(&ENTRY_BYTES.to_le_bytes());
    header[88..92].copy_from_slice(&crc32fast::hash(entries).to_le_bytes());
    // Its end and its backup come with the completion.
    let template = GptTable {
        disk_guid,
        block_bytes,
        first_usable_lba,
        last_usable_lba: 0,
        alternate_lba: 0,
        entries_lba: 2,
        entry_count: ENTRY_COUNT,
        entry_bytes: ENTRY_BYTES,
        partitions: Vec::new(),
        header,
    };
    // The protective partition: type EE from block 1 on, in a sector that ends in 55 AA.
    head[446 + 1..446 + 8].copy_from_slice(&[0x00, 0x02, 0x00, MBR_TYPE_PROTECTIVE, 0xff, 0xff, 0xff]);
    head[446 + 8] = 1;
    head[510..512].copy_from_slice(&[0x55, 0xaa]);
    let completion = complete(&mut head, &template, disk_bytes, disk_guid)?;
    match parse(&head, block_bytes)? {
        Some(_) => Ok((head, completion.backup_offset, completion.backup)),
        None => Err(GptError::HeaderChecksum),
    }
}

/// Reads any bytes as the start of a disk and completes what it finds. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    for block_bytes in [512, 4096] {
        if let Ok(Some(table)) = parse(bytes, block_bytes) {
            for disk_bytes in [bytes.len() as u64, 1 << 30, u64::MAX] {
                let mut head = bytes.to_vec();
                drop(complete(&mut head, &table, disk_bytes, Guid([7; 16])));
            }
        }
        drop(parse_backup_header(bytes, 1, block_bytes));
    }
}
