//! Which part of an image goes to the disk when: the head (boot code, table) and the tail (the
//! image's backup table) are held back until the rest is proven. Pure.

use std::ops::Range;

use super::{disk::ALIGNMENT_BYTES, gpt::HEAD_BYTES};

/// Runs of zeros shorter than this are written as data: one more write costs more than a few zeros.
pub(crate) const ZERO_RUN_BYTES_MIN: usize = 64 << 10;

/// Offsets of one image on one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageLayout {
    pub(crate) raw_bytes: u64,
    /// `raw_bytes` rounded up to whole blocks of the disk; the rest is zeros.
    pub(crate) padded_bytes: u64,
    /// The head, which is written at last.
    pub(crate) head: Range<u64>,
    /// The body, which is written before the head.
    pub(crate) body: Range<u64>,
    /// The tail, which is written after the body is proven; empty in small images. It ends at `padded_bytes`.
    pub(crate) tail: Range<u64>,
}

impl ImageLayout {
    pub(crate) fn new(raw_bytes: u64, block_bytes: u32) -> Self {
        let padded_bytes = raw_bytes.next_multiple_of(u64::from(block_bytes));
        let head_end = padded_bytes.min(HEAD_BYTES as u64);
        let alignment = ALIGNMENT_BYTES as u64;
        let tail_start = (padded_bytes.saturating_sub(HEAD_BYTES as u64) / alignment * alignment).max(head_end);
        Self { raw_bytes, padded_bytes, head: 0..head_end, body: head_end..tail_start, tail: tail_start..padded_bytes }
    }
}

/// Splits a piece of the body into runs of zeros and of data. Runs start and end at multiples of
/// [`ZERO_RUN_BYTES_MIN`] of the piece.
pub(crate) fn runs(bytes: &[u8]) -> Vec<(Range<usize>, bool)> {
    let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
    let mut start = 0;
    for block in bytes.chunks(ZERO_RUN_BYTES_MIN) {
        let end = start + block.len();
        let zero = is_zero(block);
        match runs.last_mut() {
            Some((run, kind)) if *kind == zero => run.end = end,
            Some(_) | None => runs.push((start..end, zero)),
        }
        start = end;
    }
    runs
}

/// Whether all bytes are zero. Compares the slice with itself shifted by one, which the C
/// library does at memory speed in any build profile.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [first, rest @ ..] => *first == 0 && rest == &bytes[..bytes.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_cover_the_image(raw_blocks in 1_u64..20_000, block in prop::sample::select(vec![512_u32, 4096])) {
            let layout = ImageLayout::new(raw_blocks * 512, block);
            prop_assert_eq!(layout.head.start, 0);
            prop_assert_eq!(layout.head.end, layout.body.start);
            prop_assert_eq!(layout.body.end, layout.tail.start);
            prop_assert_eq!(layout.tail.end, layout.padded_bytes);
            prop_assert!(layout.padded_bytes >= layout.raw_bytes);
            prop_assert!(layout.padded_bytes - layout.raw_bytes < u64::from(block));
            for part in [&layout.head, &layout.body, &layout.tail] {
                prop_assert!(part.start <= part.end);
                prop_assert_eq!(part.start % u64::from(block), 0);
            }
        }

        #[test]
        fn runs_say_what_the_bytes_are(marks in prop::collection::vec(0_usize..300_000, 0..6), bytes in 0_usize..300_000) {
            let mut data = vec![0_u8; bytes];
            for mark in marks.into_iter().filter(|&mark| mark < bytes) {
                data[mark] = 1;
            }
            let mut next = 0;
            for (run, zero) in runs(&data) {
                prop_assert_eq!(run.start, next);
                next = run.end;
                if zero {
                    prop_assert!(data[run].iter().all(|&byte| byte == 0));
                }
            }
            prop_assert_eq!(next, bytes);
        }
    }

    #[test]
    fn neighbours_of_a_kind_are_one_run() {
        let mut bytes = vec![0_u8; 5 * ZERO_RUN_BYTES_MIN + 100];
        assert_eq!(runs(&bytes), [(0..327_780, true)]);
        bytes[ZERO_RUN_BYTES_MIN] = 1;
        bytes[3 * ZERO_RUN_BYTES_MIN - 1] = 1;
        bytes[5 * ZERO_RUN_BYTES_MIN + 99] = 1;
        let expected =
            [(0..65_536, true), (65_536..196_608, false), (196_608..327_680, true), (327_680..327_780, false)];
        assert_eq!(runs(&bytes), expected);
        assert_eq!(runs(&[]), []);
    }

    #[test]
    fn zero_is_zero_everywhere() {
        let mut bytes = vec![0_u8; 1000];
        assert!(is_zero(&bytes));
        assert!(is_zero(&[]));
        for index in [0, 1, 500, 999] {
            bytes[index] = 1;
            assert!(!is_zero(&bytes), "{index}");
            bytes[index] = 0;
        }
    }
}
