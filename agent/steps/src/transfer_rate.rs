//! How fast a step is. Pure: what is done, and when, go in.

use std::time::Duration;

/// Shorter times say little: drives and caches work in bursts.
const WINDOW: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default)]
struct RateSample {
    at: Duration,
    done_bytes: u64,
}

/// Bytes a second over the last ten to twenty seconds.
#[derive(Debug, Default)]
pub(super) struct TransferRate {
    activity: String,
    older: RateSample,
    newer: RateSample,
    last_bytes: u64,
    bytes_per_second: u64,
}

impl TransferRate {
    /// Takes how far the work is; another activity starts a new measurement. While nothing moves the answer stays the
    /// same, so that a report of work that stands still equals the one before.
    pub(super) fn take(&mut self, activity: &str, done_bytes: u64, now: Duration) -> u64 {
        let here = RateSample { at: now, done_bytes };
        if self.activity != activity || self.last_bytes > done_bytes {
            let activity = activity.to_owned();
            *self = Self { activity, older: here, newer: here, last_bytes: done_bytes, bytes_per_second: 0 };
            return 0;
        }
        if self.last_bytes == done_bytes {
            return self.bytes_per_second;
        }
        self.last_bytes = done_bytes;
        let moved = u128::from(done_bytes - self.older.done_bytes);
        let millis = now.saturating_sub(self.older.at).as_millis();
        // The first second is not reported: it would be a guess.
        if millis >= 1000 {
            self.bytes_per_second = u64::try_from(moved * 1000 / millis).unwrap_or(u64::MAX);
        }
        if now.saturating_sub(self.newer.at) >= WINDOW {
            (self.older, self.newer) = (self.newer, here);
        }
        self.bytes_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_work_has_a_steady_pace_and_a_change_is_seen_within_two_windows() {
        let mut pace = TransferRate::default();
        let mut told = Vec::new();
        for second in 0..100_u64 {
            // Half as fast from the fiftieth second on.
            let done = if second < 50 { second * 100 } else { 5000 + (second - 50) * 50 };
            told.push(pace.take("overwrite", done, Duration::from_secs(second)));
        }
        assert_eq!((told[0], told[1], told[40]), (0, 100, 100));
        assert_eq!(told[75], 50, "{told:?}");
    }

    #[test]
    fn another_activity_begins_anew_and_a_stand_still_changes_nothing() {
        let mut pace = TransferRate::default();
        pace.take("a", 0, Duration::from_secs(0));
        let fast = pace.take("a", 4000, Duration::from_secs(4));
        assert_eq!(fast, 1000);
        for second in 5..200 {
            assert_eq!(pace.take("a", 4000, Duration::from_secs(second)), fast, "a report must not look like progress");
        }
        assert_eq!(pace.take("b", 1, Duration::from_secs(300)), 0);
        assert_eq!(pace.take("b", 0, Duration::from_secs(301)), 0, "what goes back begins anew");
    }
}
