//! Whether a service is up, late or keeps ending, and when it is tried again (S0-6, S0.17).
//! Times are those since the process began: no change of the clock makes a service late, or puts off a try.

use std::collections::VecDeque;
use std::time::Duration;

/// The time within which a service comes up (upstream's limit of a rollout).
pub const START_LIMIT: Duration = Duration::from_mins(5);
/// A service that ends so often within [`CRASH_WINDOW`] is in a loop.
const CRASHES_OF_A_LOOP: usize = 3;
const CRASH_WINDOW: Duration = Duration::from_mins(10);
/// The pause before the first new try; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Why a service did not start, stays as it was, or could not do its work; in words for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServiceFailure(pub String);

/// How a wanted service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceState {
    Up,
    /// It is being started; the text is the last failure, if there was one.
    Starting(Option<String>),
    /// It did not come up within [`START_LIMIT`].
    Late(String),
    /// It came up and ended by itself, again and again.
    CrashLoop(String),
}

/// What is known of one wanted service.
#[derive(Clone, Debug)]
pub struct ServiceHealth {
    /// The time since which it is to run and does not; `None` while it runs.
    down_since: Option<Duration>,
    failure: Option<String>,
    /// When it ended by itself, as far as that is within [`CRASH_WINDOW`].
    crashes: VecDeque<Duration>,
    failed_tries: u32,
    try_at: Duration,
}

impl ServiceHealth {
    /// Begins with a service that is to be started now.
    #[must_use]
    pub fn wanted(uptime: Duration) -> Self {
        Self { down_since: Some(uptime), failure: None, crashes: VecDeque::new(), failed_tries: 0, try_at: uptime }
    }

    /// Notes that it runs.
    pub fn started(&mut self) {
        self.down_since = None;
        self.failed_tries = 0;
    }

    /// Notes that it was stopped to be started with other settings.
    pub fn replaced(&mut self, uptime: Duration) {
        self.down_since.get_or_insert(uptime);
        (self.failed_tries, self.try_at) = (0, uptime);
    }

    /// Notes that it could not be started.
    pub fn failed_to_start(&mut self, uptime: Duration, why: String) {
        self.failure = Some(why);
        self.down_since.get_or_insert(uptime);
        self.try_later(uptime);
    }

    /// Notes that it ended by itself.
    pub fn crashed(&mut self, uptime: Duration, why: String) {
        self.failure = Some(why);
        self.down_since = Some(uptime);
        self.forget_old_crashes(uptime);
        self.crashes.push_back(uptime);
        self.failed_tries = u32::try_from(self.crashes.len()).unwrap_or(u32::MAX).saturating_sub(1);
        self.try_later(uptime);
    }

    /// Says whether it is to be started now.
    #[must_use]
    pub fn is_due(&self, uptime: Duration) -> bool {
        self.down_since.is_some() && self.try_at <= uptime
    }

    /// Returns when time alone changes something after `uptime`, if it does.
    #[must_use]
    pub fn poll_timeout(&self, uptime: Duration) -> Option<Duration> {
        let crash_ends = self.crashes.front().map(|at| at.saturating_add(CRASH_WINDOW));
        let of_start = self.down_since.map(|since| [self.try_at, since.saturating_add(START_LIMIT)]);
        of_start.into_iter().flatten().chain(crash_ends).filter(|at| *at > uptime).min()
    }

    /// Judges it.
    pub fn state(&mut self, uptime: Duration) -> ServiceState {
        self.forget_old_crashes(uptime);
        let failure = || self.failure.clone().unwrap_or_else(|| "it has not come up yet".to_owned());
        if self.crashes.len() >= CRASHES_OF_A_LOOP {
            return ServiceState::CrashLoop(failure());
        }
        match self.down_since {
            None => ServiceState::Up,
            Some(since) if since.saturating_add(START_LIMIT) <= uptime => ServiceState::Late(failure()),
            Some(_) => ServiceState::Starting(self.failure.clone()),
        }
    }

    fn try_later(&mut self, uptime: Duration) {
        let pause = RETRY_FIRST.saturating_mul(1 << self.failed_tries.min(16)).min(RETRY_MAX);
        self.failed_tries = self.failed_tries.saturating_add(1);
        self.try_at = uptime.saturating_add(pause);
    }

    fn forget_old_crashes(&mut self, uptime: Duration) {
        while self.crashes.front().is_some_and(|at| at.saturating_add(CRASH_WINDOW) <= uptime)
            || self.crashes.len() > CRASHES_OF_A_LOOP
        {
            self.crashes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_service_that_does_not_come_up_is_late_after_five_minutes() {
        let mut health = ServiceHealth::wanted(at(0));
        assert!(health.is_due(at(0)));
        assert_eq!(health.state(at(299)), ServiceState::Starting(None));
        health.failed_to_start(at(0), "port 69 is taken".to_owned());
        assert_eq!(health.state(at(299)), ServiceState::Starting(Some("port 69 is taken".to_owned())));
        assert_eq!(health.state(at(300)), ServiceState::Late("port 69 is taken".to_owned()));
        assert_eq!(health.poll_timeout(at(299)), Some(at(300)));
        assert_eq!(health.poll_timeout(at(300)), None, "what is late stays late by itself");
        health.started();
        assert_eq!(health.state(at(301)), ServiceState::Up);
    }

    #[test]
    fn tries_are_further_and_further_apart() {
        let mut health = ServiceHealth::wanted(at(0));
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            health.failed_to_start(at(now), String::new());
            assert!(!health.is_due(at(now)));
            let pause = (1..100).find(|pause| health.is_due(at(now + pause))).unwrap_or_default();
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn one_that_keeps_ending_is_in_a_loop_until_it_stays_up() {
        let mut health = ServiceHealth::wanted(at(0));
        for (second, is_loop) in [(10, false), (20, false), (30, true)] {
            health.started();
            health.crashed(at(second), "panicked".to_owned());
            assert_eq!(matches!(health.state(at(second)), ServiceState::CrashLoop(_)), is_loop, "{second}");
        }
        health.started();
        assert!(matches!(health.state(at(609)), ServiceState::CrashLoop(_)));
        assert_eq!(health.state(at(610)), ServiceState::Up, "the first end is ten minutes ago");
        assert_eq!(health.poll_timeout(at(610)), Some(at(620)));
    }
}
