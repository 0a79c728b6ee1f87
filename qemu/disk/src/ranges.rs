//! A set of byte offsets as ranges that neither touch nor overlap. Pure.

use std::{collections::BTreeMap, ops::Range};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn insert(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // All that touch the new one become part of it; they are found from its end backwards.
        while let Some((&old_start, &old_end)) = self.0.range(..=end).next_back() {
            if old_end < start {
                break;
            }
            start = start.min(old_start);
            end = end.max(old_end);
            self.0.remove(&old_start);
        }
        self.0.insert(start, end);
    }

    /// Splits `range` into pieces that are in the set (`true`) and pieces that are not.
    pub(crate) fn split(&self, range: &Range<u64>) -> Vec<(Range<u64>, bool)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        let first = self.0.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        for (&start, &end) in self.0.range(first..range.end) {
            let (start, end) = (start.max(at), end.min(range.end));
            if start >= end {
                continue;
            }
            if at < start {
                pieces.push((at..start, false));
            }
            pieces.push((start..end, true));
            at = end;
        }
        if at < range.end {
            pieces.push((at..range.end, false));
        }
        pieces
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(&start, &end)| start..end)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 64;

    proptest! {
        #[test]
        fn is_the_set_of_all_that_was_inserted(inserts in prop::collection::vec((0..SIZE as u64, 0..12_u64), 0..20),
                                               asked in (0..SIZE as u64, 0..SIZE as u64)) {
            let mut ranges = Ranges::default();
            let mut model = [false; SIZE + 12];
            for (start, length) in inserts {
                ranges.insert(&(start..start + length));
                for offset in start..start + length {
                    model[usize::try_from(offset).unwrap_or(0)] = true;
                }
            }
            prop_assert_eq!(ranges.bytes(), model.iter().filter(|is_in| **is_in).count() as u64);
            let listed: Vec<_> = ranges.iter().collect();
            for pair in listed.windows(2) {
                prop_assert!(pair[0].end < pair[1].start, "{:?} touch", pair);
            }
            let asked = asked.0.min(asked.1)..asked.0.max(asked.1);
            let mut at = asked.start;
            for (piece, is_in) in ranges.split(&asked) {
                prop_assert_eq!(piece.start, at);
                prop_assert!(piece.start < piece.end);
                at = piece.end;
                for offset in piece {
                    prop_assert_eq!(model[usize::try_from(offset).unwrap_or(0)], is_in);
                }
            }
            prop_assert_eq!(at, asked.end);
        }
    }
}
