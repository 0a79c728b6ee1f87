//! How fast a download comes and when it is done. Pure: times since the start, and bytes.

use std::{collections::VecDeque, time::Duration};

/// What was longer ago does not count.
const WINDOW: Duration = Duration::from_secs(20);
/// Nothing is said before so long: the first bytes go into caches.
const SETTLE: Duration = Duration::from_secs(2);
/// Samples that come closer together are one.
const SAMPLE: Duration = Duration::from_millis(500);
/// What would take longer is not known to end.
const LEFT_SECONDS_MAX: u64 = 14 * 86_400;

/// What a status says of a download.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DownloadSpeed {
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) seconds_left: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rate {
    samples: VecDeque<(Duration, u64)>,
}

impl Rate {
    pub(crate) fn observe(&mut self, now: Duration, done_bytes: u64) {
        // A download that goes back has begun again.
        if self.samples.back().is_some_and(|(_, before)| done_bytes < *before) {
            self.samples.clear();
        }
        match self.samples.back() {
            Some((at, _)) if now.saturating_sub(*at) < SAMPLE => {}
            Some(_) | None => self.samples.push_back((now, done_bytes)),
        }
        while self.samples.len() > 2 && self.samples.front().is_some_and(|(at, _)| now.saturating_sub(*at) > WINDOW) {
            self.samples.pop_front();
        }
    }

    pub(crate) fn speed(&self, done_bytes: u64, total_bytes: Option<u64>) -> DownloadSpeed {
        let (Some((first, before)), Some((last, after))) = (self.samples.front(), self.samples.back()) else {
            return DownloadSpeed::default();
        };
        let elapsed = last.saturating_sub(*first);
        if elapsed < SETTLE {
            return DownloadSpeed::default();
        }
        let moved = u128::from(after.saturating_sub(*before));
        let rate = u64::try_from(moved * 1000 / elapsed.as_millis().max(1)).unwrap_or(u64::MAX);
        let left = total_bytes.map(|total| total.saturating_sub(done_bytes));
        let seconds_left = left.filter(|_| rate > 0).map(|left| left.div_ceil(rate));
        DownloadSpeed {
            bytes_per_second: Some(rate),
            seconds_left: seconds_left.filter(|seconds| *seconds <= LEFT_SECONDS_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: &[(u64, u64)]) -> Rate {
        let mut rate = Rate::default();
        samples.iter().for_each(|(seconds, bytes)| rate.observe(Duration::from_secs(*seconds), *bytes));
        rate
    }

    #[test]
    fn a_steady_download_tells_its_rate_and_its_end() {
        assert_eq!(after(&[(0, 0), (1, 100)]).speed(100, Some(1000)), DownloadSpeed::default(), "too early");
        let steady = after(&[(0, 0), (1, 100), (2, 200), (3, 300)]);
        assert_eq!(steady.speed(300, Some(1000)), DownloadSpeed { bytes_per_second: Some(100), seconds_left: Some(7) });
        assert_eq!(steady.speed(300, None).seconds_left, None, "the length is not known");
    }

    #[test]
    fn one_that_stands_still_ends_at_no_time_and_one_that_began_anew_starts_at_none() {
        let mut samples = vec![(0, 0), (1, 1000)];
        samples.extend((2..60).map(|second| (second, 1000)));
        let still = after(&samples).speed(1000, Some(2000));
        assert_eq!(still, DownloadSpeed { bytes_per_second: Some(0), seconds_left: None });
        assert_eq!(after(&[(0, 0), (5, 5000), (6, 10)]).speed(10, Some(9000)), DownloadSpeed::default());
    }
}
