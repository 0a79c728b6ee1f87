//! The classic partition table: where old partitions start, so that what they held can be cleared, or
//! looked at. Pure.

/// A chain of logical partitions longer than this is a loop or an attack.
pub const LOGICAL_MAX: usize = 64;

/// What a sector with such a table ends in.
pub const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// The kind of the entry that stands for a whole GPT.
pub const PROTECTIVE: u8 = 0xee;

/// One entry: start and length in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MbrEntry {
    /// 0x80 for the one to boot from, else 0; anything else is no table of a system that is known.
    pub flag: u8,
    pub kind: u8,
    pub first: u64,
    pub blocks: u64,
}

impl MbrEntry {
    /// Whether it holds a chain of logical partitions.
    #[must_use]
    pub fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }
}

/// The used entries of a sector that ends in 55 AA. `None`: it is no such sector, or it is the
/// boot sector of a filesystem (whose code happens to stand where entries would).
#[must_use]
pub fn parse(sector: &[u8]) -> Option<Vec<MbrEntry>> {
    let sector = sector.get(..512)?;
    let all = all(sector)?;
    let is_table = sector.ends_with(&SIGNATURE) && all.iter().all(|entry| entry.flag & 0x7f == 0);
    is_table.then(|| used(all))
}

/// The used entries of anything that some reader may take for a table: for guards, which rather look at too much. A
/// sector without 55 AA counts where it has nothing but what a table has.
#[must_use]
pub fn entries(sector: &[u8]) -> Option<Vec<MbrEntry>> {
    let sector = sector.get(..512)?;
    let all = all(sector)?;
    let is_usual = |entry: &MbrEntry| {
        let is_unused = (entry.kind, entry.first, entry.blocks) == (0, 0, 0);
        matches!(entry.flag, 0 | 0x80) && (is_unused || entry.kind != 0 && entry.first != 0 && entry.blocks != 0)
    };
    let is_table = sector.ends_with(&SIGNATURE) || all.iter().all(is_usual);
    let used = used(all);
    (is_table && (!used.is_empty() || sector.ends_with(&SIGNATURE))).then_some(used)
}

fn all(sector: &[u8]) -> Option<Vec<MbrEntry>> {
    let number = |bytes: &[u8]| u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let entries = sector.get(446..510)?.chunks_exact(16);
    let entry = |entry: &[u8]| MbrEntry {
        flag: entry[0],
        kind: entry[4],
        first: number(&entry[8..12]),
        blocks: number(&entry[12..16]),
    };
    Some(entries.map(entry).collect())
}

fn used(entries: Vec<MbrEntry>) -> Vec<MbrEntry> {
    entries.into_iter().filter(|entry| entry.kind != 0 && entry.blocks != 0).collect()
}
