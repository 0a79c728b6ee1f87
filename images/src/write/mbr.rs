//! The classic partition table: only where old partitions start, so that what they held can be
//! cleared. Pure.

/// A chain of logical partitions longer than this is a loop or an attack.
pub const LOGICAL_MAX: usize = 64;

/// One entry: start and length in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: u8,
    pub first: u64,
    pub blocks: u64,
}

impl Entry {
    /// Whether it holds a chain of logical partitions.
    #[must_use]
    pub fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }
}

/// The used entries of a sector that ends in 55 AA. `None`: it is no such sector, or it is the
/// boot sector of a filesystem (whose code happens to stand where entries would).
#[must_use]
pub fn parse(sector: &[u8]) -> Option<Vec<Entry>> {
    let sector = sector.get(..512)?;
    if sector[510..] != [0x55, 0xaa] {
        return None;
    }
    let entries = sector[446..510].chunks_exact(16);
    if entries.clone().any(|entry| entry[0] & 0x7f != 0) {
        return None;
    }
    let number = |bytes: &[u8]| u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let used = entries
        .map(|entry| Entry { kind: entry[4], first: number(&entry[8..12]), blocks: number(&entry[12..16]) })
        .filter(|entry| entry.kind != 0 && entry.blocks != 0)
        .collect();
    Some(used)
}
