//! How fast a step goes and when it may be done, from what the agent reports. Pure.
//!
//! The rate is smoothed over some fifteen seconds, so that one slow report does not make a person nervous. It is
//! absent until a few seconds of one activity were seen: after a start of the appliance, and where an activity
//! begins. Where nothing moves the rate is zero, and no remaining time is shown.

use firesteel_wire::StepReport;
use jiff::Timestamp;

/// Nothing is said before so long: the first bytes go into caches.
const SETTLE_SECONDS: f64 = 4.0;
/// Reports that come closer together are taken as one.
const REPORT_SECONDS: f64 = 1.0;
/// What happened so long ago counts for a third.
const SMOOTH_SECONDS: f64 = 15.0;
/// Parts of a whole that a drive counts its own erasure in (NVMe and ATA: 65,536ths): no bytes.
const PARTS: u64 = 1 << 16;
/// What would take longer is not known to end.
const LEFT_SECONDS_MAX: f64 = 14.0 * 86_400.0;

/// What a status says of a running step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepSpeed {
    /// Is absent where the step does not count in bytes.
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) seconds_left: Option<u64>,
}

/// What was seen of the activity under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActivityPace {
    of: Option<(u32, u32, String, u64)>,
    first: Option<(Timestamp, u64)>,
    last: Option<(Timestamp, u64)>,
    per_second: Option<f64>,
}

impl ActivityPace {
    /// Takes a report of the running step of a plan in.
    pub(crate) fn observe(&mut self, plan: u32, step: &StepReport, now: Timestamp) -> StepSpeed {
        let of = (plan, step.index, step.activity.clone(), step.total_bytes);
        let done = step.done_bytes;
        let is_other = self.of.as_ref() != Some(&of) || self.last.is_some_and(|(_, before)| done < before);
        if is_other {
            *self = Self { of: Some(of), first: Some((now, done)), last: Some((now, done)), per_second: None };
        }
        self.measure(now, done);
        self.speed(step)
    }

    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    fn measure(&mut self, now: Timestamp, done: u64) {
        let (Some(first), Some(last)) = (self.first, self.last) else { return };
        let since = |at: Timestamp| now.duration_since(at).as_secs_f64();
        let moved = |before: u64| done.saturating_sub(before) as f64;
        let elapsed = since(last.0);
        if elapsed < REPORT_SECONDS {
            return;
        }
        self.last = Some((now, done));
        self.per_second = match self.per_second {
            Some(rate) => {
                let weight = 1.0 - (-elapsed / SMOOTH_SECONDS).exp();
                Some(rate + weight * (moved(last.1) / elapsed - rate))
            }
            None if since(first.0) >= SETTLE_SECONDS => Some(moved(first.1) / since(first.0)),
            None => None,
        };
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded for people, and never negative"
    )]
    fn speed(&self, step: &StepReport) -> StepSpeed {
        let Some(rate) = self.per_second.filter(|_| step.total_bytes > 0) else { return StepSpeed::default() };
        let left = step.total_bytes.saturating_sub(step.done_bytes) as f64 / rate;
        StepSpeed {
            bytes_per_second: (step.total_bytes != PARTS).then_some(rate.round() as u64),
            seconds_left: (left.is_finite() && left <= LEFT_SECONDS_MAX).then_some(left.ceil() as u64),
        }
    }
}

/// How much of a step is done, in percent; 0 where its length is unknown.
pub(crate) fn percent(step: &StepReport) -> u8 {
    match step.total_bytes {
        0 => 0,
        total => u8::try_from(u128::from(step.done_bytes.min(total)) * 100 / u128::from(total)).unwrap_or(100),
    }
}

/// `writing, 120 MB/s, about 3 min left`: an activity with its speed, as far as that is known.
pub(crate) fn describe_speed(activity: &str, speed: StepSpeed) -> String {
    let mut words: Vec<String> =
        Some(activity.to_owned()).filter(|activity| !activity.is_empty()).into_iter().collect();
    words.extend(speed.bytes_per_second.map(rate_words));
    words.extend(speed.seconds_left.map(|seconds| format!("about {} left", time_words(seconds))));
    words.join(", ")
}

/// Writes a rate with two digits: more would be another text, and another change of the host's status, with each
/// report.
fn rate_words(bytes: u64) -> String {
    let unit = 10_u64.pow(bytes.checked_ilog10().unwrap_or(0).saturating_sub(1));
    let rounded = bytes.saturating_add(unit / 2) / unit * unit;
    match rounded {
        ..1_000_000 => format!("{} kB/s", rounded / 1000),
        1_000_000..10_000_000 => format!("{}.{} MB/s", rounded / 1_000_000, rounded / 100_000 % 10),
        _ => format!("{} MB/s", rounded / 1_000_000),
    }
}

fn time_words(seconds: u64) -> String {
    match seconds {
        ..10 => "10 s".to_owned(),
        10..90 => format!("{} s", seconds.div_ceil(10) * 10),
        90..5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_wire::StepState;

    fn step(activity: &str, done_bytes: u64, total_bytes: u64) -> StepReport {
        StepReport {
            index: 1,
            step: "write-image".into(),
            state: StepState::Running,
            activity: activity.into(),
            done_bytes,
            total_bytes,
            bytes_per_second: 0,
            started_ms: 0,
            ended_ms: 0,
            error: String::new(),
            disk_changed: true,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap_or_default()
    }

    const MB: u64 = 1_000_000;

    #[test]
    fn a_steady_step_tells_its_rate_and_its_end_after_some_seconds() {
        let mut pace = ActivityPace::default();
        let mut told = Vec::new();
        for second in (0..20).step_by(2) {
            told.push(pace.observe(2, &step("writing", second * 100 * MB, 4000 * MB), at(second.cast_signed())));
        }
        assert_eq!(told[..2], [StepSpeed::default(); 2], "too early to tell");
        for (number, speed) in told.iter().enumerate().skip(2) {
            let done = number as u64 * 200 * MB;
            let left = (4000 * MB - done) / (100 * MB);
            assert_eq!(*speed, StepSpeed { bytes_per_second: Some(100 * MB), seconds_left: Some(left) }, "{number}");
        }
        assert_eq!(describe_speed("writing", told[9]), "writing, 100 MB/s, about 30 s left");
    }

    #[test]
    fn rates_have_two_digits() {
        let cases =
            [(0, "0 kB/s"), (940, "0 kB/s"), (85_400, "85 kB/s"), (999_999, "1.0 MB/s"), (1_260_000, "1.3 MB/s")];
        for (bytes, words) in cases.into_iter().chain([(124_900_000, "120 MB/s"), (2_350_000_000, "2400 MB/s")]) {
            assert_eq!(rate_words(bytes), words);
        }
        assert!(rate_words(u64::MAX).ends_with(" MB/s"));
    }

    #[test]
    fn one_that_stands_still_slows_down_and_ends_at_no_time() {
        let mut pace = ActivityPace::default();
        for second in 0..10 {
            pace.observe(2, &step("writing", second * 100 * MB, 4000 * MB), at(second.cast_signed()));
        }
        let mut last = 100 * MB;
        for second in 10..40 {
            let speed = pace.observe(2, &step("writing", 900 * MB, 4000 * MB), at(second));
            let rate = speed.bytes_per_second.unwrap_or_default();
            assert!(rate < last, "{second}: {rate}");
            last = rate;
        }
        assert!(last < 15 * MB, "{last}");
        let standing = pace.observe(2, &step("writing", 900 * MB, 4000 * MB), at(100_000));
        assert_eq!(standing, StepSpeed { bytes_per_second: Some(0), seconds_left: None });
    }

    #[test]
    fn another_activity_plan_or_step_begins_anew_and_so_does_one_that_goes_back() {
        let seen = |pace: &mut ActivityPace| {
            for second in 0..10 {
                pace.observe(2, &step("writing", second * MB, 100 * MB), at(second.cast_signed()));
            }
        };
        let mut pace = ActivityPace::default();
        seen(&mut pace);
        assert_eq!(pace.observe(2, &step("reading back", 0, 100 * MB), at(12)), StepSpeed::default());
        seen(&mut pace);
        assert_eq!(pace.observe(3, &step("writing", 50 * MB, 100 * MB), at(12)), StepSpeed::default());
        seen(&mut pace);
        assert_eq!(pace.observe(2, &step("writing", 3 * MB, 100 * MB), at(12)), StepSpeed::default());
        seen(&mut pace);
        assert_eq!(pace.observe(2, &step("writing", 9 * MB, 100 * MB), at(-5)).bytes_per_second, Some(MB), "a clock");
    }

    #[test]
    fn a_drive_that_erases_itself_counts_in_parts_and_tells_no_bytes() {
        let mut pace = ActivityPace::default();
        let mut last = StepSpeed::default();
        for second in 0..100 {
            last = pace.observe(2, &step("sanitizing", second * 100, PARTS), at(second.cast_signed()));
        }
        assert_eq!(last.bytes_per_second, None);
        let left = last.seconds_left.unwrap_or_default();
        assert!((550..=560).contains(&left), "{left}");
        assert_eq!(describe_speed("sanitizing", last), "sanitizing, about 10 min left");
        let nothing = pace.observe(2, &step("looking", 0, 0), at(200));
        assert_eq!((nothing, describe_speed("looking", nothing).as_str()), (StepSpeed::default(), "looking"));
    }
}
