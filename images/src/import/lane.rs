//! Whose turn it is: so many at a time, the others in the order in which they came.
//!
//! ```text
//! acquire --place--> [ wait | download ] --> [ wait | import ] --> stored
//!   PLACES_MAX in all   DOWNLOADS_AT_ONCE      IMPORTS_AT_ONCE
//! ```
//!
//! A download waits for the network and takes little memory; an import takes a decoder's, and all cores. So they have
//! lanes of their own, and servers that are slow keep no image from being imported that is here.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Imports at a time: what the appliance holds in memory for them is stated by it.
pub const IMPORTS_AT_ONCE: usize = 2;
/// Downloads at a time, signatures and checksum files included.
pub const DOWNLOADS_AT_ONCE: usize = 24;
/// Images that are under way or wait. More are refused, and asked for again.
pub const PLACES_MAX: usize = 1024;

/// The lanes of one store.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    places: Arc<Semaphore>,
    pub(crate) downloads: Arc<WorkLane>,
    pub(crate) imports: Arc<WorkLane>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(PLACES_MAX)),
            downloads: Arc::new(WorkLane::new(DOWNLOADS_AT_ONCE)),
            imports: Arc::new(WorkLane::new(IMPORTS_AT_ONCE)),
        }
    }
}

impl Lanes {
    /// A place for one image, from its first request to its end. `None`: all are taken.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }
}

/// One lane.
#[derive(Debug)]
pub(crate) struct WorkLane {
    order: Mutex<LaneOrder>,
    moved: watch::Sender<()>,
}

/// Who is at work, or waits for it; gone when dropped.
#[derive(Debug)]
pub(crate) struct LanePass {
    lane: Arc<WorkLane>,
    ticket: u64,
}

impl WorkLane {
    fn new(at_once: usize) -> Self {
        Self { order: Mutex::new(LaneOrder::new(at_once)), moved: watch::Sender::new(()) }
    }

    /// Waits for its turn. `tell` hears how many are before it, at first and whenever that changes; not where it has not
    /// to wait.
    pub(crate) async fn enter(self: &Arc<Self>, mut tell: impl FnMut(u32)) -> LanePass {
        // Heard from before the first look on, so that no change is missed.
        let mut moved = self.moved.subscribe();
        let ticket = self.order().join();
        let pass = LanePass { lane: Arc::clone(self), ticket };
        let mut told = None;
        loop {
            let ahead = {
                let mut order = self.order();
                if order.begins(ticket) {
                    break;
                }
                order.ahead(ticket)
            };
            if told != Some(ahead) {
                told = Some(ahead);
                tell(ahead);
            }
            // The sender lives as long as this lane.
            drop(moved.changed().await);
        }
        // The next one may begin, too.
        self.moved.send_replace(());
        pass
    }

    fn order(&self) -> MutexGuard<'_, LaneOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LanePass {
    fn drop(&mut self) {
        self.lane.order().leave(self.ticket);
        self.lane.moved.send_replace(());
    }
}

/// Who is at work and who waits. Pure.
#[derive(Debug)]
struct LaneOrder {
    at_once: usize,
    next: u64,
    working: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
}

impl LaneOrder {
    fn new(at_once: usize) -> Self {
        Self { at_once, next: 0, working: BTreeSet::new(), waiting: BTreeSet::new() }
    }

    /// A ticket behind all others.
    fn join(&mut self) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.waiting.insert(ticket);
        ticket
    }

    /// Whether it is at work from now on: there is room, and it came first.
    fn begins(&mut self, ticket: u64) -> bool {
        let is_next = self.waiting.first() == Some(&ticket) && self.working.len() < self.at_once;
        if is_next {
            self.waiting.remove(&ticket);
            self.working.insert(ticket);
        }
        is_next
    }

    /// How many have to end, or to begin, before it.
    fn ahead(&self, ticket: u64) -> u32 {
        let ahead = self.working.len() + self.waiting.range(..ticket).count();
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }

    fn leave(&mut self, ticket: u64) {
        self.working.remove(&ticket);
        self.waiting.remove(&ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[test]
    fn so_many_begin_in_the_order_in_which_they_came() {
        let mut order = LaneOrder::new(2);
        let tickets: Vec<u64> = (0..4).map(|_| order.join()).collect();
        assert!(!order.begins(tickets[1]), "another one came first");
        assert!(order.begins(tickets[0]) && order.begins(tickets[1]));
        assert!(!order.begins(tickets[2]) && !order.begins(tickets[0]));
        assert_eq!((order.ahead(tickets[2]), order.ahead(tickets[3])), (2, 3));
        // One that waits may give up.
        order.leave(tickets[2]);
        assert_eq!(order.ahead(tickets[3]), 2);
        assert!(!order.begins(tickets[3]));
        order.leave(tickets[0]);
        assert!(order.begins(tickets[3]));
        order.leave(tickets[1]);
        order.leave(tickets[3]);
        assert_eq!((order.working.len(), order.waiting.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_lane_holds_no_more_than_it_has_room_for_and_loses_nobody() {
        let lane = Arc::new(WorkLane::new(2));
        let count = || Arc::new(AtomicUsize::new(0));
        let (now, most, waited) = (count(), count(), count());
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (lane, now, most) = (Arc::clone(&lane), Arc::clone(&now), Arc::clone(&most));
                let waited = Arc::clone(&waited);
                tokio::spawn(async move {
                    let told = |ahead: u32| {
                        waited.fetch_max(ahead as usize, Ordering::SeqCst);
                    };
                    let pass = lane.enter(told).await;
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(pass);
                })
            })
            .collect();
        // Those that give up while they wait are in nobody's way.
        tasks.iter().skip(10).step_by(7).for_each(tokio::task::JoinHandle::abort);
        for task in tasks {
            drop(task.await);
        }
        assert_eq!((most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (2, 0));
        assert!(waited.load(Ordering::SeqCst) >= 2);
        let order = lane.order();
        assert_eq!((order.working.len(), order.waiting.len()), (0, 0));
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let lanes = Lanes::default();
        let places: Vec<_> = (0..PLACES_MAX).map_while(|_| lanes.place()).collect();
        assert_eq!(places.len(), PLACES_MAX);
        assert!(lanes.clone().place().is_none(), "a clone has the same places");
        drop(places);
        assert!(lanes.place().is_some());
    }
}
