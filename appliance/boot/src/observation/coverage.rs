//! Which bytes of a file were sent, over any requests and ranges. Pure.

use std::ops::Range;

/// Most pieces with gaps between them. A client that fetches one file in more pieces at a time is none that boots; what
/// it fetches beyond does not count.
pub const PIECES_MAX: usize = 8;

/// The bytes of one file that were sent: sorted pieces that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pieces: Vec<Range<u64>>,
}

impl Coverage {
    /// Takes in that these bytes were sent.
    pub fn add(&mut self, sent: Range<u64>) {
        if sent.is_empty() {
            return;
        }
        let first = self.pieces.partition_point(|piece| piece.end < sent.start);
        let after = self.pieces.partition_point(|piece| piece.start <= sent.end);
        if first == after && self.pieces.len() >= PIECES_MAX {
            return;
        }
        let touched = &self.pieces[first..after];
        let start = touched.first().map_or(sent.start, |piece| piece.start.min(sent.start));
        let end = touched.last().map_or(sent.end, |piece| piece.end.max(sent.end));
        self.pieces.splice(first..after, [start..end]);
    }

    /// Says whether all bytes of a file of this length were sent.
    #[must_use]
    pub fn is_whole(&self, bytes: u64) -> bool {
        bytes == 0 || self.pieces.first().is_some_and(|piece| piece.start == 0 && piece.end >= bytes)
    }

    /// Counts the bytes that were sent.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.end - piece.start).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_add_up_in_any_order() {
        let mut sent = Coverage::default();
        for range in [50..60, 0..10, 20..30, 10..20, 55..100] {
            assert!(!sent.is_whole(100));
            sent.add(range);
        }
        assert_eq!(sent.pieces, [0..30, 50..100]);
        sent.add(30..50);
        assert_eq!((sent.is_whole(100), sent.is_whole(101), sent.bytes()), (true, false, 100));
    }

    #[test]
    fn nothing_is_sent_by_an_empty_range_and_nothing_is_missing_of_an_empty_file() {
        let mut sent = Coverage::default();
        sent.add(5..5);
        assert_eq!((sent.bytes(), sent.is_whole(0), sent.is_whole(1)), (0, true, false));
    }

    #[test]
    fn pieces_are_bounded_and_gaps_can_still_be_filled() {
        let mut sent = Coverage::default();
        (0..1000).for_each(|number| sent.add(number * 10..number * 10 + 5));
        assert_eq!(sent.pieces.len(), PIECES_MAX);
        sent.add(0..10_000);
        assert!(sent.is_whole(10_000));
    }

    proptest! {
        #[test]
        fn it_is_what_a_table_of_bytes_says(ranges in prop::collection::vec((0_u64..200, 30_u64..40), 0..40)) {
            let (mut sent, mut table) = (Coverage::default(), [false; 240]);
            for (start, length) in ranges {
                sent.add(start..start + length);
                table[usize::try_from(start).unwrap()..usize::try_from(start + length).unwrap()].fill(true);
            }
            prop_assert_eq!(sent.bytes(), table.iter().filter(|is_sent| **is_sent).count() as u64);
            let whole = table.iter().take_while(|is_sent| **is_sent).count() as u64;
            prop_assert_eq!((sent.is_whole(whole), sent.is_whole(whole + 1)), (true, false));
            let sorted = sent.pieces.windows(2).all(|pair| pair[0].end < pair[1].start);
            prop_assert!(sorted && sent.pieces.iter().all(|piece| !piece.is_empty()));
        }
    }
}
