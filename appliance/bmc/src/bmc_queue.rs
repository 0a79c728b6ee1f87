//! How often one BMC is asked. The rule is pure ([`BmcPace`]); a [`BmcQueue`] waits by it.
//!
//! BMCs are small computers: two requests at once or a burst of them hang some for minutes. So a BMC
//! gets one request at a time, with a pause after each, and not more than so many in a second for long,
//! whichever host, edit or login they are for: all that is asked at one place (host and port) goes
//! through the one [`BmcQueue`] that [`BmcQueues`] keeps of it. A caller that gives way ([`BmcLine`]) has no request
//! while another one talks with the BMC, and no session: some BMCs have a place for one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, Notify, OwnedMutexGuard};
use tokio::time::{Instant, sleep};

use crate::error::Error;

/// Pause between the end of a request and the next one.
pub const GAP: Duration = Duration::from_millis(20);
/// Time for one request, while requests keep coming.
pub const PERIOD: Duration = Duration::from_millis(50);
/// Requests that may go ahead of that: one host's whole inventory.
pub const BURST: u32 = 100;
/// Calls that may wait for one BMC: a chassis of that many hosts. More is a loop somewhere.
pub const WAITING_MAX: usize = 128;
/// Basic authentication that was refused in place of a session is not tried again for so long: each try may count as a
/// refused login, and common BMCs lock an account at the fifth within ten minutes.
const BASIC_PAUSE: Duration = Duration::from_mins(10);
/// Number of BMCs that are remembered; beyond it those without requests are forgotten, and begin again as new ones.
const PLACES_KEPT: usize = 256;

/// When the next request may begin, by the time since any start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BmcPace {
    /// When all that was asked so far would have been asked at [`PERIOD`].
    paid_until: Duration,
    /// The end of the last request and the pause after it.
    paused_until: Duration,
}

impl BmcPace {
    /// Begins a request at `now`, or says how long to wait.
    ///
    /// # Errors
    /// The wait, never zero.
    pub fn begin(&mut self, now: Duration) -> Result<(), Duration> {
        let ahead = PERIOD.saturating_mul(BURST.saturating_sub(1));
        let earliest = self.paid_until.saturating_sub(ahead).max(self.paused_until);
        if now < earliest {
            return Err(earliest.saturating_sub(now));
        }
        self.paid_until = self.paid_until.max(now) + PERIOD;
        Ok(())
    }

    /// The request that began has ended.
    pub fn end(&mut self, now: Duration) {
        self.paused_until = now + GAP;
    }

    /// Nothing is remembered that a fresh one would not know.
    #[must_use]
    pub fn is_fresh(&self, now: Duration) -> bool {
        self.paid_until <= now && self.paused_until <= now
    }
}

/// Paces the requests to one BMC: one at a time.
#[derive(Debug)]
pub struct BmcQueue {
    pace: Mutex<BmcPace>,
    waiting: AtomicUsize,
    start: Instant,
    /// When this BMC last refused Basic authentication while it had no session free.
    basic_refused_at: Lock<Option<Instant>>,
    /// Callers that do not give way.
    firsts: AtomicUsize,
    /// The last of them has left.
    firsts_left: Notify,
}

/// One caller's access to a queue, from its login to its end.
#[derive(Debug)]
pub(crate) struct BmcLine {
    queue: Arc<BmcQueue>,
    gives_way: bool,
    /// It has a session at the BMC.
    has_session: AtomicBool,
}

impl BmcLine {
    /// Enters as a caller that others give way to.
    pub(crate) fn first(queue: Arc<BmcQueue>) -> Self {
        queue.firsts.fetch_add(1, Ordering::AcqRel);
        Self { queue, gives_way: false, has_session: AtomicBool::new(false) }
    }

    /// Enters as a caller that has a request only while no other caller is there.
    pub(crate) fn giving_way(queue: Arc<BmcQueue>) -> Self {
        Self { queue, gives_way: true, has_session: AtomicBool::new(false) }
    }

    pub(crate) fn queue(&self) -> &BmcQueue {
        &self.queue
    }

    /// Notes whether it has a session: one that gives way is not to keep it while it waits.
    pub(crate) fn set_session(&self, has_session: bool) {
        self.has_session.store(has_session, Ordering::Release);
    }

    /// Says whether its session is to end, because another caller is there.
    pub(crate) fn is_to_leave(&self) -> bool {
        self.gives_way && self.has_session.load(Ordering::Acquire) && self.queue.has_firsts()
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`Error::Crowded`] where it has a session that is to end first ([`Self::is_to_leave`]).
    pub(crate) async fn acquire_request(&self) -> Result<BmcRequestPermit<'_>, Error> {
        loop {
            if self.is_to_leave() {
                return Err(Error::Crowded { waiting: self.queue.firsts.load(Ordering::Acquire) });
            }
            if self.gives_way {
                self.queue.wait_for_firsts().await;
            }
            let permit = self.queue.acquire_request().await?;
            // Another caller may have come while this one waited for its turn.
            if !self.gives_way || !self.queue.has_firsts() {
                return Ok(permit);
            }
        }
    }
}

impl Drop for BmcLine {
    fn drop(&mut self) {
        if !self.gives_way && self.queue.firsts.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.queue.firsts_left.notify_waiters();
        }
    }
}

/// The right to one request; the next one begins a pause after this is dropped.
#[derive(Debug)]
pub(crate) struct BmcRequestPermit<'a> {
    pace: MutexGuard<'a, BmcPace>,
    start: Instant,
}

impl Drop for BmcRequestPermit<'_> {
    fn drop(&mut self) {
        self.pace.end(self.start.elapsed());
    }
}

/// One who waits, counted.
struct BmcQueueTicket<'a>(&'a AtomicUsize);

impl Drop for BmcQueueTicket<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Default for BmcQueue {
    fn default() -> Self {
        Self {
            pace: Mutex::default(),
            waiting: AtomicUsize::new(0),
            start: Instant::now(),
            basic_refused_at: Lock::default(),
            firsts: AtomicUsize::new(0),
            firsts_left: Notify::new(),
        }
    }
}

impl BmcQueue {
    fn has_firsts(&self) -> bool {
        self.firsts.load(Ordering::Acquire) > 0
    }

    async fn wait_for_firsts(&self) {
        loop {
            let left = self.firsts_left.notified();
            tokio::pin!(left);
            // Registered before the look, so that a leave in between ends the wait.
            left.as_mut().enable();
            if !self.has_firsts() {
                return;
            }
            left.await;
        }
    }

    /// Waits for a turn.
    pub(crate) async fn acquire_request(&self) -> Result<BmcRequestPermit<'_>, Error> {
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = BmcQueueTicket(&self.waiting);
        if before >= WAITING_MAX {
            return Err(Error::Crowded { waiting: before });
        }
        let mut pace = self.pace.lock().await;
        while let Err(wait) = pace.begin(self.start.elapsed()) {
            sleep(wait).await;
        }
        Ok(BmcRequestPermit { pace, start: self.start })
    }

    /// Whether a password may be shown by Basic authentication where there is no session for it.
    pub(crate) fn may_try_basic(&self) -> bool {
        let refused_at = *self.basic_refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        refused_at.is_none_or(|at| at.elapsed() >= BASIC_PAUSE)
    }

    /// It was shown so, and refused.
    pub(crate) fn basic_refused(&self) {
        *self.basic_refused_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_idle(self: &Arc<Self>) -> bool {
        let is_fresh = self.pace.try_lock().is_ok_and(|pace| pace.is_fresh(self.start.elapsed()));
        Arc::strong_count(self) == 1 && is_fresh && self.may_try_basic()
    }
}

/// The lines to all BMCs, by host and port.
#[derive(Clone, Debug, Default)]
pub struct BmcQueues(Arc<Lock<HashMap<String, Arc<BmcQueue>>>>);

impl BmcQueues {
    /// The queue of an address such as `10.0.0.5:443`. All callers of one address share one queue.
    #[must_use]
    pub fn to(&self, place: &str) -> Arc<BmcQueue> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= PLACES_KEPT {
            lines.retain(|_, line| !line.is_idle());
        }
        Arc::clone(lines.entry(place.to_ascii_lowercase()).or_default())
    }
}

/// One session at a time at each place, for a protocol whose requests do not go through a [`BmcQueue`]: its session
/// asks one thing at a time, so that a BMC gets one request at a time from all of them.
#[derive(Clone, Debug, Default)]
pub struct BmcSessionLocks(Arc<Lock<HashMap<String, Arc<BmcSessionLock>>>>);

#[derive(Debug, Default)]
struct BmcSessionLock {
    held: Arc<Mutex<()>>,
    waiting: AtomicUsize,
}

/// The right to a session; the next one begins when this is dropped.
#[derive(Debug)]
pub struct BmcSessionGuard {
    _held: OwnedMutexGuard<()>,
}

impl BmcSessionLocks {
    /// Waits until no other caller has a session at this address.
    ///
    /// # Errors
    /// [`Error::Crowded`] where too many wait already.
    pub async fn enter(&self, place: &str) -> Result<BmcSessionGuard, Error> {
        let door = {
            let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if doors.len() >= PLACES_KEPT {
                doors.retain(|_, door| Arc::strong_count(door) > 1 || Arc::strong_count(&door.held) > 1);
            }
            Arc::clone(doors.entry(place.to_ascii_lowercase()).or_default())
        };
        let before = door.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = BmcQueueTicket(&door.waiting);
        if before >= WAITING_MAX {
            return Err(Error::Crowded { waiting: before });
        }
        Ok(BmcSessionGuard { _held: Arc::clone(&door.held).lock_owned().await })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// When requests begin that are wanted as fast as may be and take `each`.
    fn begins(count: usize, each: Duration) -> Vec<Duration> {
        let (mut pace, mut now, mut begun) = (BmcPace::default(), Duration::ZERO, Vec::new());
        while begun.len() < count {
            match pace.begin(now) {
                Ok(()) => {
                    begun.push(now);
                    now += each;
                    pace.end(now);
                }
                Err(wait) => now += wait,
            }
        }
        begun
    }

    #[test]
    fn a_burst_goes_at_the_gap_and_what_follows_at_the_period() {
        let begun = begins(400, Duration::ZERO);
        assert_eq!(begun[1], GAP);
        assert_eq!(begun[63] - begun[62], GAP, "the burst");
        assert_eq!(begun[399] - begun[398], PERIOD, "from then on");
        let slow = begins(100, Duration::from_secs(1));
        assert_eq!(slow[99], (Duration::from_secs(1) + GAP) * 99, "a slow BMC gives the pace itself");
    }

    #[test]
    fn a_place_is_shared_and_forgotten_when_nobody_asks() {
        let lines = BmcQueues::default();
        assert!(Arc::ptr_eq(&lines.to("BMC.example:443"), &lines.to("bmc.example:443")));
        assert!(!Arc::ptr_eq(&lines.to("bmc.example:443"), &lines.to("bmc.example:8000")));
        let held = lines.to("held:443");
        held.pace.try_lock().unwrap().begin(Duration::ZERO).unwrap();
        for number in 0..2 * PLACES_KEPT {
            drop(lines.to(&format!("10.0.0.{number}:443")));
        }
        assert!(Arc::ptr_eq(&held, &lines.to("held:443")));
        assert!(lines.0.lock().unwrap().len() <= PLACES_KEPT + 1);
    }

    #[tokio::test]
    async fn one_at_a_time_and_not_too_many_wait() {
        let line = Arc::new(BmcQueue::default());
        let turn = line.acquire_request().await.unwrap();
        let others: Vec<_> = (0..2 * WAITING_MAX)
            .map(|_| Arc::clone(&line))
            .map(|line| tokio::spawn(async move { line.acquire_request().await.map(drop) }))
            .collect();
        tokio::task::yield_now().await;
        for _ in 0..others.len() {
            tokio::task::yield_now().await;
        }
        assert!(line.pace.try_lock().is_err(), "the turn is held");
        for other in others.iter().skip(WAITING_MAX) {
            other.abort();
        }
        drop(turn);
        let mut refused = 0;
        let mut ended = 0;
        for other in others {
            match other.await {
                Ok(Ok(())) => ended += 1,
                Ok(Err(error)) => {
                    assert!(matches!(error, Error::Crowded { .. }), "{error:?}");
                    refused += 1;
                }
                Err(_) => {}
            }
        }
        assert_eq!(ended, WAITING_MAX);
        assert_eq!(refused, WAITING_MAX);
        assert_eq!(line.waiting.load(Ordering::Acquire), 0);
    }

    #[tokio::test]
    async fn who_gives_way_has_no_request_while_another_is_there() {
        let queue = Arc::<BmcQueue>::default();
        let reading = BmcLine::giving_way(Arc::clone(&queue));
        drop(reading.acquire_request().await.unwrap());
        let first = BmcLine::first(Arc::clone(&queue));
        let second = BmcLine::first(Arc::clone(&queue));
        let waiting = tokio::spawn(async move { reading.acquire_request().await.map(drop) });
        let turns = async || {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        for _ in 0..3 {
            drop(first.acquire_request().await.unwrap());
            turns().await;
            assert!(!waiting.is_finished(), "not even between two requests");
        }
        drop(first);
        turns().await;
        assert!(!waiting.is_finished(), "one is still there");
        drop(second);
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn one_session_at_a_time_at_each_place() {
        let doors = BmcSessionLocks::default();
        let enter = |place: &'static str| {
            let doors = doors.clone();
            tokio::spawn(async move { doors.enter(place).await.map(drop) })
        };
        let turns = async || {
            for _ in 0..4 * WAITING_MAX {
                tokio::task::yield_now().await;
            }
        };
        let first = doors.enter("BMC.example:623").await.unwrap();
        let other = doors.enter("other.example:623").await.unwrap();
        let second = enter("bmc.example:623");
        turns().await;
        assert!(!second.is_finished());
        // Places that are in use are not forgotten.
        for number in 0..2 * PLACES_KEPT {
            drop(doors.enter(&format!("10.0.0.{number}:623")).await.unwrap());
        }
        assert!(doors.0.lock().unwrap().len() <= PLACES_KEPT + 2);
        assert!(!second.is_finished() && doors.0.lock().unwrap().contains_key("other.example:623"));
        drop(first);
        second.await.unwrap().unwrap();
        drop(other);
        let held = doors.enter("crowded:623").await.unwrap();
        let waiting: Vec<_> = (0..=WAITING_MAX).map(|_| enter("crowded:623")).collect();
        turns().await;
        assert_eq!(waiting.iter().filter(|one| one.is_finished()).count(), 1, "one is too many, and is told so");
        drop(held);
        let mut refused = 0;
        for one in waiting {
            refused += usize::from(one.await.unwrap().is_err());
        }
        assert_eq!(refused, 1);
    }

    proptest! {
        /// However requests come and however long they take: no window has more than it may.
        #[test]
        fn no_window_has_more_than_its_share(steps in prop::collection::vec((0_u64..400, 0_u64..300), 1..300)) {
            let (mut pace, mut now, mut begun) = (BmcPace::default(), Duration::ZERO, Vec::new());
            for (idle, takes) in steps {
                now += Duration::from_millis(idle);
                while let Err(wait) = pace.begin(now) {
                    prop_assert!(wait > Duration::ZERO);
                    now += wait;
                }
                begun.push(now);
                now += Duration::from_millis(takes);
                pace.end(now);
            }
            for (first, from) in begun.iter().enumerate() {
                for (last, to) in begun.iter().enumerate().skip(first + 1) {
                    let count = u128::try_from(last - first + 1).unwrap();
                    let share = u128::from(BURST) + (*to - *from).as_millis() / PERIOD.as_millis() + 1;
                    prop_assert!(count <= share);
                    prop_assert!(*to - *from >= GAP * u32::try_from(last - first).unwrap());
                }
            }
        }
    }
}
