//! Limits the rate of a warning that a flood would repeat. Pure.

use jiff::{SignedDuration, Timestamp};

/// The shortest time between two warnings: a flood must not fill the log.
const EVERY: SignedDuration = SignedDuration::from_secs(30);

/// Counts what happened since the last warning.
#[derive(Debug, Default)]
pub struct SeldomWarning {
    count: u64,
    warned_at: Option<Timestamp>,
}

impl SeldomWarning {
    /// Counts one occurrence. Returns the number since the last warning if another warning is due.
    pub fn count(&mut self, now: Timestamp) -> Option<u64> {
        self.count += 1;
        // A clock that was set back ends the wait, too.
        let is_soon = |at: Timestamp| (SignedDuration::ZERO..EVERY).contains(&now.duration_since(at));
        if self.warned_at.is_some_and(is_soon) {
            return None;
        }
        self.warned_at = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_others_together() {
        let at = |second| Timestamp::from_second(second).expect("in range");
        let mut warning = SeldomWarning::default();
        assert_eq!(warning.count(at(0)), Some(1));
        assert_eq!((warning.count(at(1)), warning.count(at(29))), (None, None));
        assert_eq!(warning.count(at(30)), Some(3));
        assert_eq!(warning.count(at(5)), Some(1), "the clock was set back");
    }
}
