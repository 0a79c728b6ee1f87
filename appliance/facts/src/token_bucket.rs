//! A token bucket: so many at once, and one more each so often.

use jiff::{SignedDuration, Timestamp};

/// How much a bucket holds, and how fast it fills.
#[derive(Clone, Copy, Debug)]
pub struct BucketLimits {
    /// The most tokens that a bucket holds; it begins with them.
    pub burst: u32,
    /// One token more comes each so often.
    pub refill: SignedDuration,
}

/// What one asker has left.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    tokens: u32,
    refilled_at: Timestamp,
}

impl TokenBucket {
    #[must_use]
    pub fn full(limits: &BucketLimits, now: Timestamp) -> Self {
        Self { tokens: limits.burst, refilled_at: now }
    }

    /// Takes a token; false when there is none.
    pub fn take(&mut self, limits: &BucketLimits, now: Timestamp) -> bool {
        *self = self.at(limits, now);
        let has_one = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        has_one
    }

    /// Says whether it would be full by now, so that it need not be remembered.
    #[must_use]
    pub fn is_full(&self, limits: &BucketLimits, now: Timestamp) -> bool {
        self.at(limits, now).tokens >= limits.burst
    }

    /// The bucket at this time, with what was added since.
    fn at(self, limits: &BucketLimits, now: Timestamp) -> Self {
        let waited = now.duration_since(self.refilled_at);
        if waited.is_negative() {
            // The wall clock was set back: start again rather than wait for it.
            return Self::full(limits, now);
        }
        let earned = waited.as_millis() / limits.refill.as_millis().max(1);
        match i32::try_from(earned) {
            Ok(earned) if earned.unsigned_abs() < limits.burst => Self {
                tokens: self.tokens.saturating_add(earned.unsigned_abs()).min(limits.burst),
                refilled_at: self.refilled_at + limits.refill * earned,
            },
            Ok(_) | Err(_) => Self::full(limits, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BucketLimits = BucketLimits { burst: 3, refill: SignedDuration::from_millis(500) };

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + milliseconds).unwrap_or_default()
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_one_by_one() {
        let mut bucket = TokenBucket::full(&LIMITS, at(0));
        assert_eq!((0..10).filter(|_| bucket.take(&LIMITS, at(0))).count(), 3);
        assert!(!bucket.take(&LIMITS, at(499)) && bucket.take(&LIMITS, at(500)));
        assert!(!bucket.take(&LIMITS, at(999)) && bucket.take(&LIMITS, at(1000)), "no part of a wait is lost");
        assert!(!bucket.is_full(&LIMITS, at(2499)) && bucket.is_full(&LIMITS, at(2500)));
        assert_eq!((0..10).filter(|_| bucket.take(&LIMITS, at(90_000_000))).count(), 3);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_nobody_waiting() {
        let mut bucket = TokenBucket::full(&LIMITS, at(0));
        assert_eq!((0..10).filter(|_| bucket.take(&LIMITS, at(0))).count(), 3);
        assert!(bucket.take(&LIMITS, at(-5_000_000)));
    }
}
