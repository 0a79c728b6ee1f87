//! The appliance's clock: whether it may be right, and what is counted without it.
//!
//! | clock | because | what follows |
//! |---|---|---|
//! | before the program was built | it stood still, or began at its own epoch | [`ClockDoubt::BeforeBuild`] |
//! | more than [`BEHIND_MAX`] before the newest time in the store | it went back, or was ahead before | [`ClockDoubt::BehindStore`] |
//! | ahead | it looks like a long time switched off | nothing; what is counted below does not change |
//!
//! While the clock is doubted no disk is changed ([`crate::host::turn::gate`]), for receipts, deadlines and the order
//! of what happened would be wrong. All else goes on.
//!
//! Tokens are counted by the **age of the store**: how long it has been in use. It goes on with the process, which no
//! clock moves, and by what the clock says of the time switched off, at most [`OFF_MAX`] at each start. So a clock that
//! is wrong for one start ends no token, and none lives longer for it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// The clock may be so far before the newest time in the store. That is more than a clock drifts between two starts,
/// and after a mistake of one time zone the appliance goes on by itself.
pub const BEHIND_MAX: SignedDuration = SignedDuration::from_hours(1);
/// What one time switched off adds to the age of the store at most.
pub const OFF_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Why the clock is not believed. It says nothing of the time now, so that it stays the same while it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockDoubt {
    /// The clock is before this program was built.
    BeforeBuild { built: Timestamp },
    /// The clock is before a time that the store has recorded.
    BehindStore { newest: Timestamp },
}

impl ClockDoubt {
    /// The word for it as a condition's reason.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::BeforeBuild { .. } => "BeforeBuild",
            Self::BehindStore { .. } => "BehindStore",
        }
    }
}

impl fmt::Display for ClockDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeBuild { built } => write!(
                f,
                "the appliance's clock is before {built:.0}, when its program was built: no disk is changed until the \
                 clock is set"
            ),
            Self::BehindStore { newest } => write!(
                f,
                "the appliance's clock is more than an hour before {newest:.0}, the newest time in its store: no disk \
                 is changed until the clock is set, or until `firesteel accept-clock` says that it is right now"
            ),
        }
    }
}

/// Why the clock is not believed at this time; `None`: nothing speaks against it.
#[must_use]
pub fn doubt(now: Timestamp, built: Timestamp, newest: Option<Timestamp>) -> Option<ClockDoubt> {
    if now < built {
        return Some(ClockDoubt::BeforeBuild { built });
    }
    let newest = newest.filter(|newest| newest.duration_since(now) > BEHIND_MAX)?;
    Some(ClockDoubt::BehindStore { newest })
}

/// The age of the store at a start: what was recorded, and the time since then as far as it counts.
#[must_use]
pub fn age_at_start(recorded: SignedDuration, newest: Option<Timestamp>, now: Timestamp) -> SignedDuration {
    let off = newest.map_or(SignedDuration::ZERO, |newest| now.duration_since(newest));
    recorded.max(SignedDuration::ZERO).saturating_add(off.clamp(SignedDuration::ZERO, OFF_MAX))
}

/// Whether something that began at one age of the store is over at another. A store that is younger than that was made
/// of a backup, or lost its last minute: nothing has passed.
#[must_use]
pub fn is_over(since_s: u64, age_s: u64, life: SignedDuration) -> bool {
    let life_s = u64::try_from(life.as_secs()).unwrap_or_default();
    age_s.saturating_sub(since_s) >= life_s
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn secs(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn a_clock_is_doubted_before_the_build_and_more_than_an_hour_behind_the_store() {
        let (built, newest) = (at(50 * YEAR), at(51 * YEAR));
        let behind = Some(ClockDoubt::BehindStore { newest });
        let early = Some(ClockDoubt::BeforeBuild { built });
        for (now, newest, expected) in [
            (at(0), None, early),
            (at(50 * YEAR - 1), None, early),
            (at(50 * YEAR), None, None),
            (at(80 * YEAR), None, None),
            // The build comes first: a person cannot accept that.
            (at(0), Some(newest), early),
            (at(50 * YEAR), Some(newest), behind),
            (at(51 * YEAR - HOUR - 1), Some(newest), behind),
            (at(51 * YEAR - HOUR), Some(newest), None),
            (at(51 * YEAR + 1), Some(newest), None),
            // It looks like a long time switched off.
            (at(71 * YEAR), Some(newest), None),
            // The store is of an older program.
            (at(50 * YEAR), Some(at(49 * YEAR)), None),
        ] {
            assert_eq!(doubt(now, built, newest), expected, "{now} {newest:?}");
        }
    }

    #[test]
    fn a_doubt_says_what_it_is_about_and_the_way_out() {
        let early = ClockDoubt::BeforeBuild { built: at(0) };
        assert!(early.to_string().contains("1970-01-01T00:00:00Z") && !early.to_string().contains("accept-clock"));
        let behind = ClockDoubt::BehindStore { newest: at(YEAR) };
        assert!(behind.to_string().contains("1971-01-01T00:00:00Z") && behind.to_string().contains("accept-clock"));
        assert_ne!(early.word(), behind.word());
    }

    #[test]
    fn time_switched_off_counts_for_a_day_at_most_and_never_backwards() {
        let newest = at(50 * YEAR);
        for (recorded, newest, now, expected) in [
            (0, None, 50 * YEAR, 0),
            (100, None, 80 * YEAR, 100),
            (100, Some(newest), 50 * YEAR + 60, 160),
            (100, Some(newest), 50 * YEAR + DAY, 100 + DAY),
            (100, Some(newest), 50 * YEAR + DAY + 1, 100 + DAY),
            (100, Some(newest), 70 * YEAR, 100 + DAY),
            (100, Some(newest), 50 * YEAR - 1, 100),
            (100, Some(newest), 0, 100),
            (-5, None, 0, 0),
        ] {
            assert_eq!(age_at_start(secs(recorded), newest, at(now)), secs(expected), "{recorded} {newest:?} {now}");
        }
    }

    #[test]
    fn a_token_is_over_after_its_life_by_the_age_of_the_store() {
        for (since, age, life, expected) in [
            (0, 99, 100, false),
            (0, 100, 100, true),
            (50, 149, 100, false),
            (50, 150, 100, true),
            (50, 0, 100, false),
            (0, 0, 0, true),
            (0, u64::MAX, i64::MAX, true),
            (0, 5, -1, true),
        ] {
            assert_eq!(is_over(since, age, secs(life)), expected, "{since} {age} {life}");
        }
    }
}
