//! The gate that every destructive step passes again and again: it holds the step while the
//! appliance is silent and ends it when the appliance says stop.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use crate::decide::{Freshness, freshness};

/// How often a paused step looks again; also how often its pause is shown as still going on.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Why a step must end early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    #[error("stopped by the appliance: {0}")]
    Told(String),
    #[error("no answer from the appliance for {} minutes; going on could destroy what is no longer ours", .0.as_secs() / 60)]
    Lost(Duration),
}

/// Shared by the reporter, which opens it, and the step, which passes it.
pub struct Gate {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Debug)]
struct Seen {
    last_reply: Duration,
    told: Option<String>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate that is open from now on. The clock must not jump.
    pub fn new(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let last_reply = clock();
        let seen = Mutex::new(Seen { last_reply, told: None });
        Self { clock: Box::new(clock), seen, changed: Condvar::new() }
    }

    /// A good reply came.
    pub fn renew(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).last_reply = (self.clock)();
        self.changed.notify_all();
    }

    /// Ends whatever passes next.
    pub fn stop(&self, reason: String) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).told = Some(reason);
        self.changed.notify_all();
    }

    /// Whether somebody said stop; for steps that destroy nothing.
    pub fn check_told(&self) -> Result<(), Stop> {
        match &self.seen.lock().unwrap_or_else(PoisonError::into_inner).told {
            Some(reason) => Err(Stop::Told(reason.clone())),
            None => Ok(()),
        }
    }

    /// Returns at once while replies are fresh; otherwise waits until they are again, or must end.
    /// `paused` hears how long the appliance has been silent, and at the end of a pause `None`.
    pub fn pass(&self, paused: &mut dyn FnMut(Option<Duration>)) -> Result<(), Stop> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waited = false;
        loop {
            if let Some(reason) = &seen.told {
                return Err(Stop::Told(reason.clone()));
            }
            let age = (self.clock)().saturating_sub(seen.last_reply);
            match freshness(age) {
                Freshness::Fresh => {
                    if waited {
                        paused(None);
                    }
                    return Ok(());
                }
                Freshness::Lost => return Err(Stop::Lost(age)),
                Freshness::Paused => {
                    waited = true;
                    paused(Some(age));
                    seen = self.changed.wait_timeout(seen, LOOK_AGAIN).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use firesteel_wire::limits::{REPLY_FRESH, REPLY_LOST};

    use super::*;

    fn gate() -> (Arc<AtomicU64>, Gate) {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let clock = Arc::clone(&now);
        (now, Gate::new(move || Duration::from_millis(clock.load(Ordering::SeqCst))))
    }

    fn advance(now: &AtomicU64, by: Duration) {
        now.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    #[test]
    fn open_while_replies_are_fresh_and_shut_by_a_stop() {
        let (now, gate) = gate();
        advance(&now, REPLY_FRESH);
        assert_eq!(gate.pass(&mut |_| {}), Ok(()));
        gate.stop("released".into());
        assert_eq!(gate.pass(&mut |_| {}), Err(Stop::Told("released".into())));
        assert_eq!(gate.check_told(), Err(Stop::Told("released".into())));
    }

    #[test]
    fn a_pause_ends_with_the_next_reply() {
        let (now, gate) = gate();
        advance(&now, REPLY_FRESH * 2);
        let mut heard = Vec::new();
        // The reply comes while the step waits: the callback runs with the gate locked, so the
        // clock goes back instead, which is the same to the gate.
        let result = gate.pass(&mut |age| {
            heard.push(age);
            now.store(1_000_000, Ordering::SeqCst);
        });
        assert_eq!(result, Ok(()));
        assert_eq!(heard, [Some(REPLY_FRESH * 2), None]);
    }

    #[test]
    fn a_long_silence_ends_the_step() {
        let (now, gate) = gate();
        advance(&now, REPLY_FRESH * 2);
        let result = gate.pass(&mut |_| advance(&now, REPLY_LOST));
        assert!(matches!(result, Err(Stop::Lost(age)) if age > REPLY_LOST));
        gate.renew();
        assert_eq!(gate.pass(&mut |_| {}), Ok(()));
    }
}
