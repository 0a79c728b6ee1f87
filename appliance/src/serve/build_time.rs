//! The time at which this program was built. A clock that shows an earlier time is wrong.

use jiff::Timestamp;

/// The time in seconds since 1970, from the build script.
const BUILT_S: &str = env!("FIRESTEEL_BUILT_S");

/// Returns when this program was built.
#[must_use]
pub fn built_at() -> Timestamp {
    BUILT_S.parse().ok().and_then(|second| Timestamp::from_second(second).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the time for certificates: the clock's, or that of the build if the clock is earlier. Clients with a correct
/// clock would refuse a certificate that began in 1970.
#[must_use]
pub fn certificate_time() -> Timestamp {
    certificate_time_at(Timestamp::now(), built_at())
}

fn certificate_time_at(now: Timestamp, built: Timestamp) -> Timestamp {
    now.max(built)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn certificates_never_begin_before_the_build() {
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(1_800_000_000).unwrap());
        assert_eq!(certificate_time_at(early, late), late);
        assert_eq!(certificate_time_at(late, early), late);
        assert!(built_at() <= Timestamp::now(), "the build was before this test: {}", built_at());
    }
}
