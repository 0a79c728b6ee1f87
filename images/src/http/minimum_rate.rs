//! Whether a download is still one, or bytes that only keep it from standing still. Pure.
//!
//! One byte now and then is no stall. It would hold the place of a download for months, so what comes is looked at over
//! minutes of waiting for it; the time without waiting, because a disk is slow, is the reader's own.

use std::time::Duration;

/// What comes in the time of [`super::DownloadLimits::trickle`] at least: 3.5 kB/s over five minutes, a tenth of what
/// the slowest line brings on which an image would ever arrive.
pub(super) const BYTES_MIN: u64 = 1 << 20;

/// How much came in the present span of waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trickle {
    waited: Duration,
    bytes: u64,
}

impl Trickle {
    /// Counts bytes that came after a wait. `true`: too little came in the span that ends with them.
    pub(super) fn came(&mut self, bytes: u64, after: Duration, span: Duration) -> bool {
        self.waited += after;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < span {
            return false;
        }
        let is_too_little = self.bytes < BYTES_MIN;
        *self = Self::default();
        is_too_little
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_mins(5);

    #[test]
    fn a_trickle_is_known_after_a_span_and_a_slow_line_is_none() {
        let second = Duration::from_secs(1);
        let mut trickle = Trickle::default();
        assert_eq!((1..1000).find(|_| trickle.came(1, second, SPAN)), Some(300));
        let mut slow = Trickle::default();
        assert!((1..1000).all(|_| !slow.came(4096, second, SPAN)));
        // The reader was slow, and not the line.
        let mut fast = Trickle::default();
        assert!((1..1000).all(|_| !fast.came(1, Duration::ZERO, SPAN)));
    }
}
