//! Decides what the clock requires of the CAs that sign for the server: new certificates, and the beginning of a
//! rotation. Pure.
//!
//! A clock may be wrong by years, and right again later. So it never cuts a client off.

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};

use super::CertificateRecord;

/// The requests of the clock. It never ends a CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CaUpkeep {
    /// The next CA needs a certificate: its own begins in the future, or is near its end.
    pub(super) renews_next: bool,
    /// How the current CA's certificate is renewed.
    pub(super) renewal: Renewal,
    /// The current CA is old enough for a rotation.
    pub(super) begins: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    No,
    /// The certificate begins when the last one did. If the clock is ahead, certificates that are issued meanwhile stay
    /// valid when it is right again.
    FromBefore,
    /// The certificate was made by a clock that was ahead.
    FromNow,
}

impl CaUpkeep {
    /// Decides by the certificates and the time. `years` is the age at which a rotation begins. Pure.
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

    /// The time so many years of 365 days after the CA was made.
    fn at(years: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_hours(24 * 365 * years)
    }

    /// Whatever the clock shows, it never ends a CA.
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
            // The old CA ends; then both have ended.
            (at(10), true, FromBefore, false, false),
            (at(10), false, FromBefore, false, true),
            (at(19), true, FromBefore, true, false),
            (at(40), true, FromBefore, true, false),
            // The clock was ahead when they were made, or was set back.
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
