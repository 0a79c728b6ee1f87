//! When which host is read. It performs nothing and has no clock: times are uptimes.
//!
//! - A host is due again one interval after its last reading began, so rounds do not drift.
//! - Readings begin one after the other, at twice the pace that all hosts need: a thousand hosts that become due at once
//!   are asked over half an interval, and stay spread from then on.
//! - Never more than [`IN_FLIGHT_MAX`] at a time, and of one BMC one at a time.
//! - A BMC that fails is tried again after one interval, and half as often after each further failure, down to once in
//!   [`BACKOFF_MAX`]: two failures do not make its last reading too old.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firesteel_runtime::HostKey;

/// Readings that are under way at a time. A thousand BMCs a minute, with 20 s for each, need 334. A thousand that do not
/// answer, with 130 s for each and tried once in [`BACKOFF_MAX`], need 127.
pub const IN_FLIGHT_MAX: usize = 384;
/// The longest time between two tries with a BMC that fails, unless the interval is longer.
const BACKOFF_MAX: Duration = Duration::from_mins(15);
/// A BMC that is in use is tried again after so long, and after twice as long each time, up to the interval.
const NOT_NOW_RETRY: Duration = Duration::from_secs(5);
/// A BMC without sensors is asked again after so long: its firmware may have been updated.
const NOT_OFFERED_RETRY: Duration = Duration::from_hours(1);
/// The longest time between the starts of two readings, however few hosts there are.
const PACE_MAX: Duration = Duration::from_secs(1);
/// Hosts of one call of [`SensorSchedule::take_due`].
const BATCH_MAX: usize = 16;

/// How a reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingOutcome {
    Read,
    /// The BMC is in use.
    NotNow,
    NotOffered,
    Failed,
}

/// A host in the schedule.
#[derive(Clone, Debug)]
struct ScheduledHost {
    place: String,
    /// When it is due, while it is not being read.
    due: Duration,
    /// When the reading under way began.
    reading_since: Option<Duration>,
    failures: u32,
    /// Tries since the last reading at which the BMC was in use.
    waits: u32,
}

/// Decides when which host is read.
#[derive(Clone, Debug)]
pub struct SensorSchedule {
    every: Duration,
    hosts: BTreeMap<HostKey, ScheduledHost>,
    due: BTreeSet<(Duration, HostKey)>,
    /// BMCs that are being read.
    busy_places: BTreeSet<String>,
    /// No reading begins before.
    next_start: Duration,
}

impl SensorSchedule {
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            hosts: BTreeMap::new(),
            due: BTreeSet::new(),
            busy_places: BTreeSet::new(),
            next_start: Duration::ZERO,
        }
    }

    /// Changes the interval. A host that would be due later than by the new one is due by the new one.
    pub fn set_every(&mut self, every: Duration, now: Duration) {
        self.every = every;
        self.next_start = self.next_start.min(now + self.pace());
        let latest = now + every;
        let keys: Vec<HostKey> = self.due.iter().filter(|(due, _)| *due > latest).map(|(_, key)| key.clone()).collect();
        for key in keys {
            if self.hosts.get(&key).is_some_and(|host| host.failures == 0) {
                self.make_due(&key, latest);
            }
        }
    }

    /// Takes a host in whose BMC is at this place; it is due now. One whose place changes is a new one.
    pub fn add(&mut self, key: &HostKey, place: &str, now: Duration) {
        self.remove(key);
        let host = ScheduledHost { place: place.to_owned(), due: now, reading_since: None, failures: 0, waits: 0 };
        self.due.insert((now, key.clone()));
        self.hosts.insert(key.clone(), host);
    }

    /// Forgets a host. Its reading under way, if any, counts no more.
    pub fn remove(&mut self, key: &HostKey) {
        let Some(host) = self.hosts.remove(key) else { return };
        self.due.remove(&(host.due, key.clone()));
        if host.reading_since.is_some() {
            self.busy_places.remove(&host.place);
        }
    }

    /// Returns the hosts whose readings begin now.
    pub fn take_due(&mut self, now: Duration) -> Vec<HostKey> {
        let mut batch = Vec::new();
        while batch.len() < BATCH_MAX && self.next_start <= now && self.busy_places.len() < IN_FLIGHT_MAX {
            let mut due = self.due.iter().take_while(|(due, _)| *due <= now).map(|(_, key)| key);
            let is_free =
                |key: &&HostKey| self.hosts.get(*key).is_some_and(|host| !self.busy_places.contains(&host.place));
            let Some(key) = due.find(is_free).cloned() else { break };
            let Some(host) = self.hosts.get_mut(&key) else { break };
            self.due.remove(&(host.due, key.clone()));
            host.reading_since = Some(now);
            self.busy_places.insert(host.place.clone());
            // What a slow start left is made up for by one batch, and not by a burst of them.
            self.next_start = self.next_start.max(now.saturating_sub(self.pace())) + self.pace();
            batch.push(key);
        }
        batch
    }

    /// Notes how the reading of a host ended.
    pub fn ended(&mut self, key: &HostKey, now: Duration, outcome: ReadingOutcome) {
        let every = self.every;
        let Some(host) = self.hosts.get_mut(key) else { return };
        let Some(began) = host.reading_since.take() else { return };
        self.busy_places.remove(&host.place);
        let due = match outcome {
            ReadingOutcome::Read => {
                (host.failures, host.waits) = (0, 0);
                (began + every).max(now)
            }
            ReadingOutcome::NotNow => {
                host.waits = host.waits.saturating_add(1);
                now + doubled(NOT_NOW_RETRY, host.waits - 1).min(every)
            }
            ReadingOutcome::NotOffered => now + NOT_OFFERED_RETRY,
            ReadingOutcome::Failed => {
                host.failures = host.failures.saturating_add(1);
                now + doubled(every, host.failures - 1).min(BACKOFF_MAX.max(every))
            }
        };
        self.make_due(key, due);
    }

    /// Returns when [`Self::take_due`] has something to do, unless a reading ends before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.busy_places.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let free = self
            .due
            .iter()
            .find(|(_, key)| self.hosts.get(key).is_some_and(|host| !self.busy_places.contains(&host.place)));
        free.map(|(due, _)| (*due).max(self.next_start))
    }

    /// Returns the number of readings under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.busy_places.len()
    }

    /// The time between the starts of two readings.
    fn pace(&self) -> Duration {
        let hosts = u32::try_from(self.hosts.len().max(1)).unwrap_or(u32::MAX);
        (self.every / hosts.saturating_mul(2)).min(PACE_MAX)
    }

    fn make_due(&mut self, key: &HostKey, at: Duration) {
        let Some(host) = self.hosts.get_mut(key) else { return };
        self.due.remove(&(host.due, key.clone()));
        host.due = at;
        self.due.insert((at, key.clone()));
    }
}

fn doubled(time: Duration, times: u32) -> Duration {
    time.saturating_mul(1 << times.min(16))
}

#[cfg(test)]
mod tests;
