//! When a failed step is tried again: 2^n minutes after the n-th failure, minus a random share of
//! up to half of it (upstream), cut at [`DELAY_MAX`] because people wait for hosts they just fixed.

use jiff::SignedDuration;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
