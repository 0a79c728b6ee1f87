//! The raw disk of a qcow2 image, from first byte to last.

use std::io::{self, Read, Seek, SeekFrom};

use super::header::{Compression, HEADER_BYTES, Qcow2Error, Qcow2Header, Qcow2Refusal};

/// Bits 9 to 55 of an entry.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Tables are read in pieces of so many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// A cluster has 2 MiB at most, and what packs one needs no longer window; four times that is given.
const WINDOW_LOG_MAX: u32 = 23;

/// Reads the raw disk in order. Memory: [`super::MEMORY_BYTES_MAX`].
#[derive(Debug)]
pub struct Qcow2Reader<R> {
    source: R,
    file_bytes: u64,
    header: Qcow2Header,
    l1: Vec<u64>,
    /// Offsets of the L2 tables, sorted: no data may overlap them.
    tables: Vec<u64>,
    l2: Vec<u64>,
    l2_index: Option<u64>,
    cluster: Vec<u8>,
    /// Guest offset of the next cluster.
    next: u64,
    /// Bytes of `cluster` that were given out, of those that are valid.
    given: usize,
    valid: usize,
}

enum Mapping {
    Zero,
    Plain(u64),
    Compressed { offset: u64, bytes: u64 },
}

impl<R: Read + Seek> Qcow2Reader<R> {
    /// Checks header and tables.
    pub fn open(mut source: R) -> Result<Self, Qcow2Error> {
        let file_bytes = source.seek(SeekFrom::End(0)).map_err(|source| Qcow2Error::Read { offset: 0, source })?;
        let mut head = vec![0; usize::try_from(file_bytes).unwrap_or(HEADER_BYTES).min(HEADER_BYTES)];
        read_at(&mut source, 0, &mut head)?;
        let header = Qcow2Header::parse(&head, file_bytes)?;
        // The header says that the table has as many; what it has beyond is not used.
        let needed = usize::try_from(header.l1_entries_needed()).unwrap_or(0);
        let l1 = read_table(&mut source, header.l1_offset, needed)?;
        let tables = check_l1(&header, &l1, file_bytes)?;
        let cluster = vec![0; usize::try_from(header.cluster_bytes()).unwrap_or(0)];
        Ok(Self {
            source,
            file_bytes,
            header,
            l1,
            tables,
            l2: Vec::new(),
            l2_index: None,
            cluster,
            next: 0,
            given: 0,
            valid: 0,
        })
    }

    #[must_use]
    pub fn header(&self) -> &Qcow2Header {
        &self.header
    }

    /// Goes on behind so many bytes if the tables say that all of them are zeros. `false`: they do not, or this is not at
    /// the start of a cluster and whole clusters from there; then it stays where it is.
    pub fn skip_zeros(&mut self, bytes: u64) -> Result<bool, Qcow2Error> {
        let end = self.next.saturating_add(bytes);
        let is_whole = self.given == self.valid && bytes.is_multiple_of(self.header.cluster_bytes());
        if !is_whole || end > self.header.disk_bytes {
            return Ok(false);
        }
        let mut at = self.next;
        while at < end {
            if !matches!(self.mapping(at)?, Mapping::Zero) {
                return Ok(false);
            }
            at += self.zeros_at(at);
        }
        self.next = end;
        (self.given, self.valid) = (0, 0);
        Ok(true)
    }

    /// How many zeros there are where a cluster begins that is zeros: up to the end of its L2 table, where that is not
    /// there.
    fn zeros_at(&self, guest: u64) -> u64 {
        let table = self.header.cluster_bytes() * self.header.l2_entries();
        let index = usize::try_from(guest / table).unwrap_or(usize::MAX);
        let is_empty = self.l1.get(index).is_none_or(|pointer| pointer & OFFSET_MASK == 0);
        if is_empty { table - guest % table } else { self.header.cluster_bytes() }
    }

    fn load_cluster(&mut self) -> Result<(), Qcow2Error> {
        let guest = self.next;
        let valid = self.header.cluster_bytes().min(self.header.disk_bytes - guest);
        self.valid = usize::try_from(valid).unwrap_or(0);
        match self.mapping(guest)? {
            Mapping::Zero => self.cluster.fill(0),
            Mapping::Plain(offset) => {
                // The file may end within the last cluster, but not before what the disk holds.
                if offset.checked_add(valid).is_none_or(|end| end > self.file_bytes) {
                    return Err(Qcow2Refusal::Cluster(offset).into());
                }
                read_at(&mut self.source, offset, &mut self.cluster[..self.valid])?;
            }
            Mapping::Compressed { offset, bytes } => self.load_compressed(guest, offset, bytes)?,
        }
        self.next = guest + valid;
        self.given = 0;
        Ok(())
    }

    fn mapping(&mut self, guest: u64) -> Result<Mapping, Qcow2Error> {
        let index = guest >> self.header.cluster_bits;
        let (l1_index, l2_index) = (index / self.header.l2_entries(), index % self.header.l2_entries());
        let pointer = self.l1.get(usize::try_from(l1_index).unwrap_or(usize::MAX)).copied().unwrap_or(0);
        let table = pointer & OFFSET_MASK;
        if table == 0 {
            return Ok(Mapping::Zero);
        }
        if self.l2_index != Some(l1_index) {
            self.l2 = read_table(&mut self.source, table, self.cluster.len() / 8)?;
            self.l2_index = Some(l1_index);
        }
        let entry = self.l2[usize::try_from(l2_index).unwrap_or(0)];
        if entry & COMPRESSED != 0 { self.compressed(entry) } else { self.plain_mapping(entry) }
            .map_err(Qcow2Error::from)
    }

    fn plain_mapping(&self, entry: u64) -> Result<Mapping, Qcow2Refusal> {
        let zero_allowed = if self.header.version >= 3 { ZERO } else { 0 };
        if entry & !(OFFSET_MASK | COPIED | zero_allowed) != 0 {
            return Err(Qcow2Refusal::Reserved(entry));
        }
        let offset = entry & OFFSET_MASK;
        if entry & ZERO != 0 || offset == 0 {
            return Ok(Mapping::Zero);
        }
        if !offset.is_multiple_of(self.header.cluster_bytes()) {
            return Err(Qcow2Refusal::Cluster(offset));
        }
        self.check_apart(offset, self.header.cluster_bytes())?;
        Ok(Mapping::Plain(offset))
    }

    fn compressed(&self, entry: u64) -> Result<Mapping, Qcow2Refusal> {
        if entry & COPIED != 0 {
            return Err(Qcow2Refusal::Reserved(entry));
        }
        let offset_bits = 62 - (self.header.cluster_bits - 8);
        let offset = entry & ((1 << offset_bits) - 1);
        let sectors = (entry & !COMPRESSED) >> offset_bits;
        let bytes = (sectors + 1) * 512 - offset % 512;
        if offset >= self.file_bytes {
            return Err(Qcow2Refusal::Cluster(offset));
        }
        // The last sector of the file need not be whole.
        let bytes = bytes.min(self.file_bytes - offset);
        self.check_apart(offset, bytes)?;
        Ok(Mapping::Compressed { offset, bytes })
    }

    /// Data must not overlap the header or a table: such an image changes while it is read by
    /// others, or was made to confuse.
    fn check_apart(&self, offset: u64, bytes: u64) -> Result<(), Qcow2Refusal> {
        let end = offset.saturating_add(bytes);
        let l1_end = self.header.l1_offset + u64::from(self.header.l1_entries) * 8;
        let below = self.tables.partition_point(|table| *table < end).checked_sub(1);
        let table = below.is_some_and(|index| self.tables[index] + self.header.cluster_bytes() > offset);
        if offset < self.header.cluster_bytes() || (offset < l1_end && end > self.header.l1_offset) || table {
            return Err(Qcow2Refusal::Overlap(offset));
        }
        Ok(())
    }

    fn load_compressed(&mut self, guest: u64, offset: u64, bytes: u64) -> Result<(), Qcow2Error> {
        // At most two clusters: the sector count has cluster_bits - 8 bits.
        let mut data = vec![0; usize::try_from(bytes).unwrap_or(0)];
        read_at(&mut self.source, offset, &mut data)?;
        let cluster = &mut self.cluster;
        let expanded = match self.header.compression {
            // Raw deflate without a zlib header; the length of the input is in whole sectors, so
            // what follows the stream is not ours.
            Compression::Zlib => flate2::read::DeflateDecoder::new(&data[..]).read_exact(cluster),
            Compression::Zstd => zstd::stream::read::Decoder::with_buffer(&data[..])
                .and_then(|mut decoder| decoder.window_log_max(WINDOW_LOG_MAX).map(|()| decoder))
                .and_then(|decoder| decoder.single_frame().read_exact(cluster)),
        };
        expanded.map_err(|source| Qcow2Error::Cluster { guest, source })
    }
}

impl<R: Read + Seek> Read for Qcow2Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.valid {
            if self.next == self.header.disk_bytes || buffer.is_empty() {
                return Ok(0);
            }
            // Marked empty first: a failed load must not give out what an earlier one left.
            (self.given, self.valid) = (0, 0);
            self.load_cluster().map_err(|error| {
                (self.given, self.valid) = (0, 0);
                io::Error::other(error)
            })?;
        }
        let bytes = buffer.len().min(self.valid - self.given);
        buffer[..bytes].copy_from_slice(&self.cluster[self.given..self.given + bytes]);
        self.given += bytes;
        Ok(bytes)
    }
}

fn check_l1(header: &Qcow2Header, l1: &[u64], file_bytes: u64) -> Result<Vec<u64>, Qcow2Refusal> {
    let l1_end = header.l1_offset + u64::from(header.l1_entries) * 8;
    let mut tables = Vec::with_capacity(l1.iter().filter(|entry| **entry != 0).count());
    for &entry in l1 {
        if entry & !(OFFSET_MASK | COPIED) != 0 {
            return Err(Qcow2Refusal::Reserved(entry));
        }
        let offset = entry & OFFSET_MASK;
        if offset == 0 {
            continue;
        }
        let end = offset + header.cluster_bytes();
        if !offset.is_multiple_of(header.cluster_bytes()) || end > file_bytes {
            return Err(Qcow2Refusal::L2(offset));
        }
        if offset < l1_end && end > header.l1_offset {
            return Err(Qcow2Refusal::Overlap(offset));
        }
        tables.push(offset);
    }
    tables.sort_unstable();
    // Whole clusters at multiples of a cluster overlap only when they are the same.
    match tables.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Qcow2Refusal::Overlap(pair[0])),
        None => Ok(tables),
    }
}

fn read_at(source: &mut (impl Read + Seek), offset: u64, buffer: &mut [u8]) -> Result<(), Qcow2Error> {
    let failed = |source| Qcow2Error::Read { offset, source };
    source.seek(SeekFrom::Start(offset)).map_err(failed)?;
    source.read_exact(buffer).map_err(failed)
}

/// Reads a table of entries of eight bytes.
fn read_table(source: &mut (impl Read + Seek), offset: u64, count: usize) -> Result<Vec<u64>, Qcow2Error> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or(0);
    let mut table = Vec::with_capacity(count);
    let mut piece = vec![0; PIECE_BYTES.min(count * 8)];
    while table.len() < count {
        let bytes = piece.len().min((count - table.len()) * 8);
        read_at(source, offset + table.len() as u64 * 8, &mut piece[..bytes])?;
        table.extend(piece[..bytes].chunks_exact(8).map(number));
    }
    Ok(table)
}
