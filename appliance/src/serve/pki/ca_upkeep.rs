//! What the clock asks of the CAs that sign for the server: other certificates, and the beginning of a rotation. Pure.
//!
//! A clock may be wrong by years, and right again later. So it asks for nothing that takes something away from a
//! client.

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};

use super::CertificateRecord;

/// What the clock asks for. It never asks for the end of a CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CaUpkeep {
    /// The next CA's certificate is of another time, or near its end.
    pub(super) renews_next: bool,
    /// The same of the current one.
    pub(super) renewal: Renewal,
    /// The current CA is old enough for a rotation.
    pub(super) begins: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    No,
    /// The certificate begins as before. If the clock is ahead, what is handed out meanwhile holds when it is right
    /// again.
    FromBefore,
    /// The certificate was made by a clock that was ahead.
    FromNow,
}

impl CaUpkeep {
    /// Pure. `years`: the age at which a rotation begins.
    pub(super) fn of(
        current: &CertificateRecord,
        next: Option<&CertificateRecord>,
        years: u8,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let renewal = match (current.fits(now), current.not_before <= now) {
            (true, _) => Renewal::No,
            (false, true) => Renewal::FromBefore,
            (false, false) => Renewal::FromNow,
        };
        let age = i64::from(years).years();
        let due = current.not_before.to_zoned(TimeZone::UTC).checked_add(age)?.timestamp();
        let begins = next.is_none() && renewal != Renewal::FromNow && due <= now;
        Ok(Self { renews_next: next.is_some_and(|next| !next.fits(now)), renewal, begins })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use jiff::SignedDuration;

    use super::*;
    use crate::serve::pki::authority::validity;

    /// Years of 365 days after the making of the CA.
    fn at(years: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_hours(24 * 365 * years)
    }

    /// What the clock asks for, whatever it shows: never the end of a CA.
    #[test]
    fn a_clock_asks_for_certificates_and_for_beginnings() {
        use Renewal::{FromBefore, FromNow, No};
        let current = validity(at(0)).unwrap();
        let next = validity(at(8)).unwrap();
        for (clock, is_overlap, renewal, renews_next, begins) in [
            (at(0), false, No, false, false),
            (at(7), false, No, false, false),
            (at(9), false, No, false, true),
            (at(9), true, No, false, false),
            // The old CA ends, and both have ended.
            (at(10), true, FromBefore, false, false),
            (at(10), false, FromBefore, false, true),
            (at(19), true, FromBefore, true, false),
            (at(40), true, FromBefore, true, false),
            // The clock was ahead when they were made, or has gone back.
            (at(-1), false, FromNow, false, false),
            (at(-1), true, FromNow, true, false),
            (at(3), true, No, true, false),
            (Timestamp::UNIX_EPOCH, true, FromNow, true, false),
        ] {
            let care = CaUpkeep::of(&current, is_overlap.then_some(&next), 8, clock).unwrap();
            assert_eq!(care, CaUpkeep { renews_next, renewal, begins }, "{clock} {is_overlap}");
        }
    }
}
