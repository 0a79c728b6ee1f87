//! When a patch that failed is tried again: 15 times after growing delays, and then once a minute, as upstream's queue
//! does. What has another aim is tried at once.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Tries whose delays grow (upstream).
pub const TRIES_WITH_BACKOFF: u32 = 15;
/// Delay after the first failure; conflicts of two writers are over by then.
const DELAY_FIRST: SignedDuration = SignedDuration::from_millis(50);
/// Longest delay between tries (upstream).
const DELAY_MAX: SignedDuration = SignedDuration::from_mins(1);
/// It stands in a condition's message with those of other sets.
const MESSAGE_CHARS_MAX: usize = 512;

/// Delay after the `failures`-th failure.
#[must_use]
pub fn delay(failures: u32) -> SignedDuration {
    // Long before this bound the delay is the longest one.
    let factor = 1_i32 << failures.saturating_sub(1).min(TRIES_WITH_BACKOFF);
    DELAY_FIRST.checked_mul(factor).unwrap_or(DELAY_MAX).min(DELAY_MAX)
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SetTries {
    /// What is to be written, as one text.
    aim: String,
    failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Timestamp>,
    message: String,
}

impl SetTries {
    /// Failures of another aim count no more.
    pub(super) fn aim(&mut self, parts: &[Option<&str>]) {
        let aim: Vec<&str> = parts.iter().map(|part| part.unwrap_or_default()).collect();
        let aim = aim.join(" ");
        if self.aim != aim {
            *self = Self { aim, ..Self::default() };
        }
    }

    pub(super) fn failed(&mut self, message: &str, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        self.next_at = Some(now.checked_add(delay(self.failures)).unwrap_or(Timestamp::MAX));
        self.message = message.chars().take(MESSAGE_CHARS_MAX).collect();
    }

    /// Why it is not tried now, if so.
    pub(super) fn holds(&self, now: Timestamp) -> Option<String> {
        let next_at = self.next(now)?;
        let Self { failures, message, .. } = self;
        Some(format!("it could not be changed ({failures} tries): {message}; the next try is at {next_at:.0}"))
    }

    /// What went wrong with the tries so far: until one succeeds, the set is not well.
    pub(super) fn tried(&self) -> Option<String> {
        let Self { failures, message, .. } = self;
        (*failures > 0).then(|| format!("it could not be changed ({failures} tries): {message}; it is tried now"))
    }

    /// When the next try is due, where it is not now.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.next_at.filter(|next_at| *next_at > now)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_minute() {
        for (failures, millis) in [
            (1, 50),
            (2, 100),
            (3, 200),
            (11, 51_200),
            (12, 60_000),
            (TRIES_WITH_BACKOFF, 60_000),
            (TRIES_WITH_BACKOFF + 1, 60_000),
            (u32::MAX, 60_000),
        ] {
            assert_eq!(delay(failures), SignedDuration::from_millis(millis), "{failures}");
        }
    }

    #[test]
    fn a_failure_holds_the_next_try_until_it_is_due() {
        let at = |millis: i64| Timestamp::from_millisecond(1_000_000 + millis).unwrap();
        let mut tries = SetTries::default();
        tries.aim(&[Some("image"), None]);
        assert_eq!((tries.tried(), tries.holds(at(0)), tries.next(at(0))), (None, None, None));
        tries.failed("the store is away", at(0));
        let why = "it could not be changed (1 tries): the store is away";
        assert_eq!(tries.holds(at(49)), Some(format!("{why}; the next try is at 1970-01-01T00:16:40Z")));
        assert_eq!((tries.next(at(49)), tries.next(at(50)), tries.holds(at(50))), (Some(at(50)), None, None));
        assert_eq!(tries.tried(), Some(format!("{why}; it is tried now")));
        // The same aim again changes nothing; another one is tried at once.
        tries.aim(&[Some("image"), None]);
        assert_eq!(tries.next(at(49)), Some(at(50)));
        tries.aim(&[Some("image"), Some("stub")]);
        assert_eq!((tries.tried(), tries.next(at(49))), (None, None));
    }
}
