//! When a failed step is tried again: 2^n minutes after the n-th failure, minus a random share of
//! up to half of it (upstream), cut at [`DELAY_MAX`] because people wait for hosts they just fixed.

use jiff::{SignedDuration, Timestamp};

/// Longest delay. Upstream's grows to eight hours, which outlasts every repair.
pub const DELAY_MAX: SignedDuration = SignedDuration::from_mins(30);
/// The exponent grows no further (upstream).
const EXPONENT_MAX: u32 = 9;

/// Delay after the `count`-th failure; `entropy` spreads hosts that failed together.
#[must_use]
pub fn delay(count: u32, entropy: u128) -> SignedDuration {
    let full_secs = 60_i64 << count.clamp(1, EXPONENT_MAX);
    let share = i64::try_from(entropy % 1000).unwrap_or(0);
    let less_secs = full_secs / 2 * share / 1000;
    SignedDuration::from_secs(full_secs - less_secs).min(DELAY_MAX)
}

/// Whether a try is still to wait for this time. One that is further ahead than the longest delay was set by a clock
/// that was ahead, and is waited for no longer.
#[must_use]
pub fn is_ahead(retry_at: Timestamp, now: Timestamp) -> bool {
    retry_at > now && retry_at.duration_since(now) <= DELAY_MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The clock was ahead by years when a step failed: its host was to be tried again after as long.
    #[test]
    fn a_try_waits_for_its_time_and_not_for_that_of_a_clock_that_was_ahead() {
        let now = Timestamp::UNIX_EPOCH;
        for (ahead_s, waits) in [(-1, false), (0, false), (1, true), (1800, true), (1801, false), (1 << 30, false)] {
            let at = now + SignedDuration::from_secs(ahead_s);
            assert_eq!(is_ahead(at, now), waits, "{ahead_s}");
        }
    }

    #[test]
    fn the_delay_doubles_and_is_spread_by_the_last_digits_of_the_entropy() {
        for (count, entropy, delay_s) in [
            (0, 0, 120),
            (1, 0, 120),
            (1, 500, 90),
            (1, 999, 61),
            (1, 1000, 120),
            (1, 7_250, 105),
            (2, 500, 180),
            (3, 100, 456),
            (4, 0, 960),
            (5, 0, 1800),
            (5, 999, 961),
            (9, 999, 1800),
            (40, 0, 1800),
        ] {
            assert_eq!(delay(count, entropy), SignedDuration::from_secs(delay_s), "{count} {entropy}");
        }
    }

    proptest! {
        #[test]
        fn the_delay_lies_in_the_upper_half(count in 0_u32..40, entropy: u128) {
            let full = SignedDuration::from_secs(60 << count.clamp(1, 9));
            let delay = delay(count, entropy);
            prop_assert!(delay > full / 2 || delay == DELAY_MAX);
            prop_assert!(delay <= full && delay <= DELAY_MAX);
        }
    }
}
