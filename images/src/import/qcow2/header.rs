//! The header of a qcow2 image: parsed and judged. Pure.

use std::io;

use crate::import::bounds::RAW_BYTES_MAX;

/// All that is ever read of a header: the fixed part of version 3 with its compression type.
pub(super) const HEADER_BYTES: usize = 112;
const MAGIC: u32 = 0x5146_49fb;
/// QEMU's own bound: an L1 table of 32 MiB.
pub(super) const L1_ENTRIES_MAX: u64 = (32 << 20) / 8;

const INCOMPATIBLE_DIRTY: u64 = 1;
const INCOMPATIBLE_CORRUPT: u64 = 1 << 1;
const INCOMPATIBLE_DATA_FILE: u64 = 1 << 2;
const INCOMPATIBLE_COMPRESSION: u64 = 1 << 3;
const INCOMPATIBLE_EXTENDED_L2: u64 = 1 << 4;

#[derive(Debug, thiserror::Error)]
pub enum Qcow2Error {
    #[error("reading the qcow2 image at {offset}")]
    Read { offset: u64, source: io::Error },
    #[error("the qcow2 image is refused: {0}")]
    Refused(#[from] Qcow2Refusal),
    #[error("expanding the compressed cluster for byte {guest}")]
    Cluster { guest: u64, source: io::Error },
}

/// Why an image is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Qcow2Refusal {
    #[error("it ends within its header")]
    Short,
    #[error("it is no qcow2 image")]
    Magic,
    #[error("it is of version {0}; 2 and 3 are read")]
    Version(u32),
    #[error("it needs a backing file: flatten it with `qemu-img convert`")]
    BackingFile,
    #[error("its data lies in another file: convert it with `qemu-img convert`")]
    DataFile,
    #[error("it is encrypted")]
    Encrypted,
    #[error("it was not closed properly (dirty): check it with `qemu-img check -r all`")]
    Dirty,
    #[error("it is marked as corrupt")]
    Corrupt,
    #[error("it has extended L2 entries: convert it with `qemu-img convert -o extended_l2=off`")]
    ExtendedL2,
    #[error("it needs features that are not known here: {0:#x}")]
    Features(u64),
    #[error("its compression type {0} is not known")]
    Compression(u8),
    #[error("its clusters have 2^{0} bytes; 9 to 21 are allowed")]
    ClusterBits(u32),
    #[error("its header is said to be {0} bytes long")]
    HeaderLength(u32),
    #[error("its disk of {0} bytes is too large")]
    Size(u64),
    #[error("its disk is empty")]
    Empty,
    #[error("its L1 table at {offset} with {entries} entries does not fit the file or the disk")]
    L1 { offset: u64, entries: u32 },
    #[error("its L2 table at {0} is not where one can be")]
    L2(u64),
    #[error("two of its tables overlap at {0}")]
    Overlap(u64),
    #[error("an entry of a table has reserved bits: {0:#x}")]
    Reserved(u64),
    #[error("a cluster at {0} does not lie in the file")]
    Cluster(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Zlib,
    Zstd,
}

/// What reading needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qcow2Header {
    pub version: u32,
    pub cluster_bits: u32,
    /// Length of the raw disk.
    pub disk_bytes: u64,
    pub l1_entries: u32,
    pub l1_offset: u64,
    pub compression: Compression,
}

impl Qcow2Header {
    /// Parses the first bytes of a file of `file_bytes`.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<Self, Qcow2Refusal> {
        let u32_at = |at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes).ok_or(Qcow2Refusal::Short)
        };
        let u64_at = |at: usize| {
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes).ok_or(Qcow2Refusal::Short)
        };
        if u32_at(0)? != MAGIC {
            return Err(Qcow2Refusal::Magic);
        }
        let version = u32_at(4)?;
        if version != 2 && version != 3 {
            return Err(Qcow2Refusal::Version(version));
        }
        let cluster_bits = u32_at(20)?;
        if !(9..=21).contains(&cluster_bits) {
            return Err(Qcow2Refusal::ClusterBits(cluster_bits));
        }
        if u64_at(8)? != 0 || u32_at(16)? != 0 {
            return Err(Qcow2Refusal::BackingFile);
        }
        if u32_at(32)? != 0 {
            return Err(Qcow2Refusal::Encrypted);
        }
        let compression =
            if version == 3 { features(&u32_at, &u64_at, bytes, cluster_bits)? } else { Compression::Zlib };
        let disk_bytes = u64_at(24)?;
        if disk_bytes == 0 {
            return Err(Qcow2Refusal::Empty);
        }
        if disk_bytes > RAW_BYTES_MAX {
            return Err(Qcow2Refusal::Size(disk_bytes));
        }
        let header =
            Self { version, cluster_bits, disk_bytes, l1_entries: u32_at(36)?, l1_offset: u64_at(40)?, compression };
        header.check_l1(file_bytes)?;
        Ok(header)
    }

    #[must_use]
    pub fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Entries of one L2 table, which fills one cluster.
    #[must_use]
    pub fn l2_entries(&self) -> u64 {
        self.cluster_bytes() / 8
    }

    /// L1 entries that the disk needs; the table may be longer.
    #[must_use]
    pub fn l1_entries_needed(&self) -> u64 {
        self.disk_bytes.div_ceil(self.cluster_bytes() * self.l2_entries())
    }

    fn check_l1(&self, file_bytes: u64) -> Result<(), Qcow2Refusal> {
        let (offset, entries) = (self.l1_offset, self.l1_entries);
        let end = offset.checked_add(u64::from(entries) * 8);
        let fits = end.is_some_and(|end| end <= file_bytes)
            && offset >= self.cluster_bytes()
            && offset.is_multiple_of(self.cluster_bytes())
            && u64::from(entries) <= L1_ENTRIES_MAX
            && self.l1_entries_needed() <= u64::from(entries);
        if fits { Ok(()) } else { Err(Qcow2Refusal::L1 { offset, entries }) }
    }
}

fn features(
    u32_at: &dyn Fn(usize) -> Result<u32, Qcow2Refusal>,
    u64_at: &dyn Fn(usize) -> Result<u64, Qcow2Refusal>,
    bytes: &[u8],
    cluster_bits: u32,
) -> Result<Compression, Qcow2Refusal> {
    let incompatible = u64_at(72)?;
    for (feature, reason) in [
        (INCOMPATIBLE_CORRUPT, Qcow2Refusal::Corrupt),
        (INCOMPATIBLE_DIRTY, Qcow2Refusal::Dirty),
        (INCOMPATIBLE_DATA_FILE, Qcow2Refusal::DataFile),
        (INCOMPATIBLE_EXTENDED_L2, Qcow2Refusal::ExtendedL2),
    ] {
        if incompatible & feature != 0 {
            return Err(reason);
        }
    }
    if incompatible & !INCOMPATIBLE_COMPRESSION != 0 {
        return Err(Qcow2Refusal::Features(incompatible));
    }
    let length = u32_at(100)?;
    if length < 104 || !length.is_multiple_of(8) || length > 1 << cluster_bits {
        return Err(Qcow2Refusal::HeaderLength(length));
    }
    let kind = if length > 104 { *bytes.get(104).ok_or(Qcow2Refusal::Short)? } else { 0 };
    match (incompatible & INCOMPATIBLE_COMPRESSION != 0, kind) {
        (false, 0) => Ok(Compression::Zlib),
        (true, 1) => Ok(Compression::Zstd),
        // The feature bit is set exactly when the type is not zlib.
        (_, kind) => Err(Qcow2Refusal::Compression(kind)),
    }
}
