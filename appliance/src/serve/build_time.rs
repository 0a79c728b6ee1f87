//! When this program was built. No clock that is right shows an earlier time.

use jiff::Timestamp;

/// Seconds since 1970, from the build script.
const BUILT_S: &str = env!("FIRESTEEL_BUILT_S");

/// When this program was built.
#[must_use]
pub fn built_at() -> Timestamp {
    BUILT_S.parse().ok().and_then(|second| Timestamp::from_second(second).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The time for certificates: the clock's, or that of the build where the clock is before it. One that began in 1970
/// would be refused by each client whose clock is right.
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
