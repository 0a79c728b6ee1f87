//! The volatile write cache of a disk: which bytes are only in it, and which of them a power cut
//! takes. It holds offsets, not data. Pure.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ranges::Ranges;

/// What becomes of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// It is durable when it is answered.
    #[default]
    WriteThrough,
    /// It is durable after a flush.
    Volatile,
    /// It is durable never: flushes are answered and do nothing, as on drives that lie.
    IgnoresFlush,
}

/// Which of the unflushed bytes a power cut takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// All of them.
    #[default]
    All,
    /// Some, by the seed: drives write out of order, so a later write may survive an earlier one.
    Some { seed: u64 },
}

/// A cut decides piece by piece of this size: what drives write in one go.
const PIECE_BYTES: u64 = 4096;

#[derive(Clone, Debug, Default)]
pub(crate) struct DiskWriteCache {
    mode: CacheMode,
    unflushed: Ranges,
}

impl DiskWriteCache {
    pub(crate) fn new(mode: CacheMode) -> Self {
        Self { mode, unflushed: Ranges::default() }
    }

    /// Notes a write; whether it goes to the cache and not to the medium.
    pub(crate) fn write(&mut self, range: &Range<u64>) -> bool {
        if self.mode == CacheMode::WriteThrough {
            return false;
        }
        self.unflushed.insert(range);
        true
    }

    /// Pieces of a read, and whether each is in the cache.
    pub(crate) fn read(&self, range: &Range<u64>) -> Vec<(Range<u64>, bool)> {
        self.unflushed.split(range)
    }

    /// What must be moved to the medium before a flush is answered.
    pub(crate) fn flush(&mut self) -> Vec<Range<u64>> {
        if self.mode == CacheMode::IgnoresFlush {
            return Vec::new();
        }
        let all = self.unflushed.iter().collect();
        self.unflushed.clear();
        all
    }

    /// Ends with an empty cache; what reaches the medium all the same.
    pub(crate) fn power_cut(&mut self, loss: Loss) -> Vec<Range<u64>> {
        let kept = match loss {
            Loss::All => Vec::new(),
            Loss::Some { seed } => {
                let pieces = self.unflushed.iter().flat_map(|range| pieces(&range));
                pieces.filter(|piece| survives(seed, piece.start / PIECE_BYTES)).collect()
            }
        };
        self.unflushed.clear();
        kept
    }

    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.unflushed.bytes()
    }
}

/// Pieces that end at multiples of [`PIECE_BYTES`].
fn pieces(range: &Range<u64>) -> Vec<Range<u64>> {
    let mut pieces = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let end = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(range.end);
        pieces.push(at..end);
        at = end;
    }
    pieces
}

/// Half of all pieces, by a hash of seed and place (splitmix64).
fn survives(seed: u64, piece: u64) -> bool {
    let mut mixed = seed.wrapping_add(piece.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_moves_all_that_was_written_and_a_cut_takes_the_rest() {
        let mut cache = DiskWriteCache::new(CacheMode::Volatile);
        assert!(cache.write(&(0..4096)) && cache.write(&(8192..12288)));
        assert_eq!(cache.read(&(0..8192)), [(0..4096, true), (4096..8192, false)]);
        assert_eq!(cache.flush(), [0..4096, 8192..12288]);
        assert_eq!(cache.read(&(0..8192)), [(0..8192, false)]);
        assert!(cache.write(&(100..200)));
        assert_eq!((cache.power_cut(Loss::All), cache.unflushed_bytes()), (Vec::new(), 0));
    }

    #[test]
    fn a_cut_may_take_some_and_the_seed_says_which() {
        let kept = |seed: u64| {
            let mut cache = DiskWriteCache::new(CacheMode::Volatile);
            cache.write(&(0..256 * PIECE_BYTES));
            cache.power_cut(Loss::Some { seed })
        };
        assert_eq!(kept(1), kept(1));
        assert_ne!(kept(1), kept(2));
        assert!((64..192).contains(&kept(7).len()), "{}", kept(7).len());
    }

    #[test]
    fn a_drive_without_cache_loses_nothing_and_one_that_lies_loses_flushed_data() {
        let mut through = DiskWriteCache::new(CacheMode::WriteThrough);
        assert!(!through.write(&(0..4096)));
        assert!(through.flush().is_empty() && through.power_cut(Loss::All).is_empty());
        let mut lies = DiskWriteCache::new(CacheMode::IgnoresFlush);
        assert!(lies.write(&(0..4096)));
        assert!(lies.flush().is_empty());
        assert_eq!(lies.unflushed_bytes(), 4096);
        // Its own reads show the data: only the next power-on tells.
        assert_eq!(lies.read(&(0..4096)), [(0..4096, true)]);
    }
}
