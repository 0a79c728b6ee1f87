//! The holder of a place, and whether it is useful: it has sent a whole request, or we wait for one.
//!
//! ```text
//!   made ─► waits ──(a request is there, with its body)──► answered ──(the answer is sent, or given up)──► waits …
//!   made ─► waits ──(a request is there, with its body)──► answered ──(the answer is sent or dropped)──► waits …
//!             └── yield_place ─► leaves: at once, or when the answer under way is sent
//!
//! Single bytes do not count: a client that sends its head byte by byte waits as long as one that sends nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// The holder of a place. The place and the connection share it.
#[derive(Debug)]
pub struct Occupant {
    state: Mutex<OccupantState>,
    changed: Notify,
}

#[derive(Debug)]
struct OccupantState {
    /// The number of whole requests that are being answered.
    requests: usize,
    has_asked: bool,
    /// When it began to wait.
    since: Instant,
    yields: bool,
}

/// A connection that has not sent a whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccupantWaits {
    /// It has sent a whole request before.
    pub has_asked: bool,
    pub since: Instant,
}

impl Occupant {
    #[must_use]
    pub fn new(now: Instant) -> Arc<Self> {
        Self::with(0, now)
    }

    /// Makes a holder that never has to yield.
    #[must_use]
    pub fn idle_occupant(now: Instant) -> Arc<Self> {
        Self::with(1, now)
    }

    fn with(requests: usize, since: Instant) -> Arc<Self> {
        let state = Mutex::new(OccupantState { requests, has_asked: requests > 0, since, yields: false });
        Arc::new(Self { state, changed: Notify::new() })
    }

    /// Returns how the connection waits; `None` while a request is being answered.
    #[must_use]
    pub fn waiting(&self) -> Option<OccupantWaits> {
        let state = self.lock();
        (state.requests == 0).then_some(OccupantWaits { has_asked: state.has_asked, since: state.since })
    }

    /// Gives its place to another client.
    pub fn yield_place(&self) {
        self.lock().yields = true;
        self.changed.notify_waiters();
    }

    /// Waits until its place is another client's and the answer under way is sent.
    pub async fn yielded(&self) {
        loop {
            // This comes first, so that later changes wake it.
            let changed = self.changed.notified();
            if self.has_to_leave() {
                return;
            }
            changed.await;
        }
    }

    fn has_to_leave(&self) -> bool {
        let state = self.lock();
        state.yields && state.requests == 0
    }

    fn begin(&self) {
        let mut state = self.lock();
        state.requests += 1;
        state.has_asked = true;
    }

    fn end(&self, now: Instant) {
        let mut state = self.lock();
        state.requests = state.requests.saturating_sub(1);
        state.since = now;
        let has_to_leave = state.yields && state.requests == 0;
        drop(state);
        if has_to_leave {
            self.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OccupantState> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request of a connection, from its head until its answer is sent or dropped.
#[derive(Debug)]
pub struct PlaceRequest {
    occupant: Arc<Occupant>,
    is_whole: AtomicBool,
}

impl PlaceRequest {
    #[must_use]
    pub fn new(occupant: &Arc<Occupant>) -> Arc<Self> {
        Arc::new(Self { occupant: Arc::clone(occupant), is_whole: AtomicBool::new(false) })
    }

    /// Records that the request has its whole body, or is answered without it.
    pub fn is_whole(&self) {
        if !self.is_whole.swap(true, Ordering::Relaxed) {
            self.occupant.begin();
        }
    }
}

impl Drop for PlaceRequest {
    fn drop(&mut self) {
        if *self.is_whole.get_mut() {
            self.occupant.end(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_has_sent_no_whole_request_is_waited_for() {
        let began = Instant::now();
        let occupant = Occupant::new(began);
        assert_eq!(occupant.waiting(), Some(OccupantWaits { has_asked: false, since: began }));
        let asked = PlaceRequest::new(&occupant);
        assert!(occupant.waiting().is_some(), "its body is not there yet");
        asked.is_whole();
        asked.is_whole();
        assert_eq!(occupant.waiting(), None);
        let other = PlaceRequest::new(&occupant);
        other.is_whole();
        drop(asked);
        assert_eq!(occupant.waiting(), None, "one is being answered");
        drop(other);
        let waiting = occupant.waiting();
        assert!(waiting.is_some_and(|waiting| waiting.has_asked && waiting.since >= began), "{waiting:?}");
        drop(PlaceRequest::new(&occupant));
        assert_eq!(occupant.waiting(), waiting, "a request that never was there changes nothing");
        assert_eq!(Occupant::idle_occupant(began).waiting(), None);
    }

    #[tokio::test]
    async fn a_place_is_left_when_what_is_being_answered_is_sent() {
        let occupant = Occupant::new(Instant::now());
        let asked = PlaceRequest::new(&occupant);
        asked.is_whole();
        occupant.yield_place();
        let yielded = occupant.yielded();
        tokio::pin!(yielded);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut yielded).await;
        assert!(early.is_err(), "its answer is not sent yet");
        drop(asked);
        yielded.await;
        occupant.yielded().await;
    }
}
