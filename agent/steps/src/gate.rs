//! The gate that every destructive step passes again and again: it holds the step while the
//! appliance is silent or says hold, and ends it when the appliance says stop.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use firesteel_wire::limits::{REPLY_FRESH, REPLY_LOST};

/// How often a paused step looks again; also how often its pause is shown as still going on.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Why a step must end early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateStop {
    #[error("stopped by the appliance: {0}")]
    Requested(String),
    #[error("no answer from the appliance for {} minutes; going on could destroy what is no longer ours", .0.as_secs() / 60)]
    Lost(Duration),
}

/// The gate of a run: the reporter opens it, the step passes it.
pub struct Gate {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    seen: Mutex<GateInputs>,
    changed: Condvar,
}

#[derive(Debug)]
struct GateInputs {
    last_reply: Duration,
    stop_reason: Option<String>,
    /// Why nothing may be destroyed, by the newest reply.
    hold: Option<String>,
}

impl GateInputs {
    fn at(&self, now: Duration) -> Result<Option<GatePause<'_>>, GateStop> {
        if let Some(reason) = &self.stop_reason {
            return Err(GateStop::Requested(reason.clone()));
        }
        let age = now.saturating_sub(self.last_reply);
        Ok(match (freshness(age), &self.hold) {
            (ReplyFreshness::Lost, _) => return Err(GateStop::Lost(age)),
            (ReplyFreshness::Paused, _) => Some(GatePause::Silent(age)),
            (ReplyFreshness::Fresh, Some(why)) => Some(GatePause::Held(why)),
            (ReplyFreshness::Fresh, None) => None,
        })
    }
}

/// Why a step waits at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePause<'a> {
    /// The appliance has said nothing for so long.
    Silent(Duration),
    /// The last reply says that nothing may be destroyed, and why.
    Held(&'a str),
}

impl std::fmt::Display for GatePause<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(age) => write!(f, "no answer from the appliance for {} s", age.as_secs()),
            Self::Held(why) => f.write_str(why),
        }
    }
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
        let seen = Mutex::new(GateInputs { last_reply, stop_reason: None, hold: None });
        Self { clock: Box::new(clock), seen, changed: Condvar::new() }
    }

    /// A good reply came, which says why nothing may be destroyed, or that it may.
    pub fn renew(&self, hold: Option<&str>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last_reply = (self.clock)();
        seen.hold = hold.map(str::to_owned);
        drop(seen);
        self.changed.notify_all();
    }

    /// Ends whatever passes next.
    pub fn stop(&self, reason: String) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).stop_reason = Some(reason);
        self.changed.notify_all();
    }

    /// Whether a stop was asked for; for steps that destroy nothing.
    pub fn check_stop(&self) -> Result<(), GateStop> {
        match &self.seen.lock().unwrap_or_else(PoisonError::into_inner).stop_reason {
            Some(reason) => Err(GateStop::Requested(reason.clone())),
            None => Ok(()),
        }
    }

    /// Why [`Gate::pass`] would not return at once with success, in words. Never waits.
    pub fn closed_reason(&self) -> Option<String> {
        match self.seen.lock().unwrap_or_else(PoisonError::into_inner).at((self.clock)()) {
            Ok(None) => None,
            Ok(Some(pause)) => Some(pause.to_string()),
            Err(stop) => Some(stop.to_string()),
        }
    }

    /// Returns at once while replies are fresh and say no hold; otherwise waits until it is so again, or must end.
    /// Calls `paused` with what it waits for, and with `None` at the end of a pause.
    pub fn pass(&self, paused: &mut dyn FnMut(Option<GatePause<'_>>)) -> Result<(), GateStop> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waited = false;
        loop {
            let Some(pause) = seen.at((self.clock)())? else {
                if waited {
                    paused(None);
                }
                return Ok(());
            };
            waited = true;
            paused(Some(pause));
            seen = self.changed.wait_timeout(seen, LOOK_AGAIN).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Whether a destructive step may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFreshness {
    Fresh,
    Paused,
    Lost,
}

/// The state by the age of the last good reply.
#[must_use]
pub fn freshness(reply_age: Duration) -> ReplyFreshness {
    if reply_age <= REPLY_FRESH {
        ReplyFreshness::Fresh
    } else if reply_age <= REPLY_LOST {
        ReplyFreshness::Paused
    } else {
        ReplyFreshness::Lost
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

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
        assert_eq!(gate.closed_reason(), None);
        gate.stop("released".into());
        assert_eq!(gate.closed_reason().as_deref(), Some("stopped by the appliance: released"));
        assert_eq!(gate.pass(&mut |_| {}), Err(GateStop::Requested("released".into())));
        assert_eq!(gate.check_stop(), Err(GateStop::Requested("released".into())));
    }

    #[test]
    fn a_pause_ends_with_the_next_reply() {
        let (now, gate) = gate();
        advance(&now, REPLY_FRESH * 2);
        let mut heard = Vec::new();
        // The reply comes while the step waits: the callback runs with the gate locked, so the
        // clock goes back instead, which is the same to the gate.
        let result = gate.pass(&mut |pause| {
            heard.push(match pause {
                Some(GatePause::Silent(age)) => Some(age),
                Some(GatePause::Held(_)) | None => None,
            });
            now.store(1_000_000, Ordering::SeqCst);
        });
        assert_eq!(result, Ok(()));
        assert_eq!(heard, [Some(REPLY_FRESH * 2), None]);
    }

    #[test]
    fn a_hold_lasts_until_a_reply_without_it() {
        let (now, gate) = gate();
        gate.renew(Some("halted"));
        assert_eq!(gate.check_stop(), Ok(()), "what destroys nothing goes on");
        let heard = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let step = scope.spawn(|| {
                gate.pass(&mut |pause| {
                    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    heard.push(pause.map(|pause| matches!(pause, GatePause::Held("halted"))));
                })
            });
            while heard.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                std::thread::yield_now();
            }
            gate.renew(None);
            assert_eq!(step.join().unwrap_or_else(|_| unreachable!()), Ok(()));
        });
        let heard = heard.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert_eq!((heard.first(), heard.last()), (Some(&Some(true)), Some(&None)));
        // Held and then silent: it is given up as any other.
        gate.renew(Some("halted"));
        let result = gate.pass(&mut |_| advance(&now, REPLY_LOST * 2));
        assert!(matches!(result, Err(GateStop::Lost(_))), "{result:?}");
    }

    #[test]
    fn a_long_silence_ends_the_step() {
        let (now, gate) = gate();
        advance(&now, REPLY_FRESH * 2);
        let result = gate.pass(&mut |_| advance(&now, REPLY_LOST));
        assert!(matches!(result, Err(GateStop::Lost(age)) if age > REPLY_LOST));
        gate.renew(None);
        assert_eq!(gate.pass(&mut |_| {}), Ok(()));
    }

    #[test]
    fn replies_grow_stale_and_then_are_lost() {
        assert_eq!(freshness(REPLY_FRESH), ReplyFreshness::Fresh);
        assert_eq!(freshness(REPLY_FRESH + Duration::from_millis(1)), ReplyFreshness::Paused);
        assert_eq!(freshness(REPLY_LOST), ReplyFreshness::Paused);
        assert_eq!(freshness(REPLY_LOST + Duration::from_millis(1)), ReplyFreshness::Lost);
    }
}
