#![allow(clippy::unwrap_used, reason = "tests")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn key(number: usize) -> HostKey {
    HostKey { namespace: "lab".into(), name: format!("h{number:04}") }
}

fn second(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// BMCs that each take their time, and what was seen of their readings.
struct SimulatedRounds {
    schedule: SensorSchedule,
    now: Duration,
    ends: BinaryHeap<Reverse<(Duration, HostKey)>>,
    starts: BTreeMap<HostKey, Vec<Duration>>,
    most_in_flight: usize,
    /// Starts in each second.
    started_in: BTreeMap<u64, usize>,
}

impl SimulatedRounds {
    fn new(schedule: SensorSchedule) -> Self {
        Self {
            schedule,
            now: Duration::ZERO,
            ends: BinaryHeap::new(),
            starts: BTreeMap::new(),
            most_in_flight: 0,
            started_in: BTreeMap::new(),
        }
    }

    fn run(&mut self, until: Duration, takes: impl Fn(&HostKey) -> Duration, how: impl Fn(&HostKey) -> ReadingOutcome) {
        while self.now < until {
            while let Some(Reverse((at, key))) = self.ends.peek().cloned().filter(|Reverse((at, _))| *at <= self.now) {
                self.ends.pop();
                self.schedule.ended(&key, at, how(&key));
            }
            let batch = self.schedule.take_due(self.now);
            let is_empty = batch.is_empty();
            for key in batch {
                self.starts.entry(key.clone()).or_default().push(self.now);
                *self.started_in.entry(self.now.as_secs()).or_default() += 1;
                self.ends.push(Reverse((self.now + takes(&key), key)));
            }
            self.most_in_flight = self.most_in_flight.max(self.schedule.in_flight());
            if is_empty {
                let next = self.schedule.poll_timeout().into_iter().chain(self.ends.peek().map(|Reverse((at, _))| *at));
                self.now = next.min().unwrap_or(until).max(self.now + Duration::from_millis(1)).min(until);
            }
        }
    }
}

/// Nearly all of them answer within 1 to 20 seconds, and some never do.
#[test]
fn a_thousand_bmcs_are_read_each_minute() {
    let mut schedule = SensorSchedule::new(MINUTE);
    for number in 0..1000 {
        schedule.add(&key(number), &format!("10.0.{}.{}:443", number / 250, number % 250), Duration::ZERO);
    }
    let number = |key: &HostKey| key.name[1..].parse::<u64>().unwrap();
    let takes = |key: &HostKey| if number(key) % 50 == 0 { second(130) } else { second(1 + number(key) * 7 % 20) };
    let how = |key: &HostKey| if number(key) % 50 == 0 { ReadingOutcome::Failed } else { ReadingOutcome::Read };
    let mut rounds = SimulatedRounds::new(schedule);
    rounds.run(second(3600), takes, how);
    for (key, starts) in &rounds.starts {
        if number(key) % 50 == 0 {
            assert!(starts.len() <= 12, "{key} fails and is asked {} times in an hour", starts.len());
            continue;
        }
        let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(starts[0] <= second(31) && longest <= second(61), "{key}: {:?} {longest:?}", starts[0]);
        assert!(starts.len() >= 59, "{key}: {}", starts.len());
    }
    assert_eq!(rounds.starts.len(), 1000);
    assert!(rounds.most_in_flight <= IN_FLIGHT_MAX, "{}", rounds.most_in_flight);
    let busiest = rounds.started_in.values().max().unwrap();
    assert!(*busiest <= 2 * 1000 / 60 + 2, "{busiest} began in one second");
}

#[test]
fn a_bmc_that_hosts_share_is_read_for_one_at_a_time() {
    let mut schedule = SensorSchedule::new(MINUTE);
    for number in 0..4 {
        schedule.add(&key(number), "chassis:443", Duration::ZERO);
    }
    schedule.add(&key(9), "other:443", Duration::ZERO);
    assert_eq!(schedule.take_due(second(0)), [key(0)]);
    assert_eq!(schedule.poll_timeout(), Some(second(1)), "the other one");
    assert_eq!(schedule.take_due(second(1)), [key(9)]);
    assert_eq!((schedule.take_due(second(59)), schedule.poll_timeout()), (vec![], None), "the place is taken");
    schedule.ended(&key(0), second(60), ReadingOutcome::Read);
    assert_eq!(schedule.take_due(second(60))[0], key(1), "who waits longest");
}

#[test]
fn no_more_than_so_many_are_under_way() {
    let mut schedule = SensorSchedule::new(MINUTE);
    for number in 0..2 * IN_FLIGHT_MAX {
        schedule.add(&key(number), &number.to_string(), Duration::ZERO);
    }
    let mut rounds = SimulatedRounds::new(schedule);
    rounds.run(second(300), |_| second(1000), |_| ReadingOutcome::Read);
    assert_eq!(rounds.most_in_flight, IN_FLIGHT_MAX);
    assert_eq!(rounds.schedule.poll_timeout(), None, "the end of a reading is waited for");
}

#[test]
fn a_bmc_that_fails_is_asked_less_often_and_comes_back() {
    let mut schedule = SensorSchedule::new(MINUTE);
    schedule.add(&key(1), "a", Duration::ZERO);
    let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
    for _ in 0..8 {
        assert_eq!(schedule.take_due(now), [key(1)]);
        schedule.ended(&key(1), now, ReadingOutcome::Failed);
        let due = schedule.poll_timeout().unwrap();
        pauses.push((due - now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [60, 120, 240, 480, 900, 900, 900, 900]);
    schedule.take_due(now);
    schedule.ended(&key(1), now + second(3), ReadingOutcome::Read);
    assert_eq!(schedule.poll_timeout(), Some(now + MINUTE), "by its begin");
    let (mut now, mut pauses) = (now + MINUTE, Vec::new());
    for _ in 0..6 {
        assert_eq!(schedule.take_due(now), [key(1)]);
        schedule.ended(&key(1), now, ReadingOutcome::NotNow);
        let due = schedule.poll_timeout().unwrap();
        pauses.push((due - now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 60, 60], "one that is in use is not one that fails");
}

#[test]
fn a_host_that_goes_frees_its_place_and_the_end_of_its_reading_is_none() {
    let mut schedule = SensorSchedule::new(MINUTE);
    schedule.add(&key(1), "a", Duration::ZERO);
    schedule.take_due(second(0));
    schedule.remove(&key(1));
    assert_eq!((schedule.in_flight(), schedule.poll_timeout()), (0, None));
    schedule.ended(&key(1), second(1), ReadingOutcome::Read);
    assert_eq!(schedule.poll_timeout(), None);
}

#[test]
fn a_shorter_interval_holds_for_hosts_that_wait_by_the_longer_one() {
    let mut schedule = SensorSchedule::new(second(3600));
    schedule.add(&key(1), "a", Duration::ZERO);
    schedule.take_due(second(0));
    schedule.ended(&key(1), second(1), ReadingOutcome::Read);
    assert_eq!(schedule.poll_timeout(), Some(second(3600)));
    schedule.set_every(MINUTE, second(10));
    assert_eq!(schedule.poll_timeout(), Some(second(70)));
    schedule.set_every(second(3600), second(20));
    assert_eq!(schedule.poll_timeout(), Some(second(70)), "a longer one holds from the next reading on");
}
