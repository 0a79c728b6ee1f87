//! The turns of owners: so many at a time, and among those that wait the owner first that has the fewest at work.
//!
//! ```text
//! acquire --place--> [ wait | download ] --> [ wait | import ] --> stored
//!   PLACES_MAX in all   DOWNLOADS_AT_ONCE      IMPORTS_AT_ONCE
//! ```
//!
//! A download waits for the network and takes little memory; an import takes a decoder's, and all cores. So they have
//! lanes of their own, and servers that are slow keep no image from being imported that is here. Nothing ends a slow
//! download for another one, so an owner has three quarters of places and downloads at most.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Imports at a time: what the appliance holds in memory for them is stated by it.
pub const IMPORTS_AT_ONCE: usize = 2;
/// Downloads at a time, signatures and checksum files included.
pub const DOWNLOADS_AT_ONCE: usize = 24;
/// Images that are under way or wait. More are refused, and asked for again.
pub const PLACES_MAX: usize = 1024;

/// How many of so many one owner has at most.
const fn share(of: usize) -> usize {
    of - of / 4
}

/// The lanes of one store.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    /// How many each owner has; an owner with none is not in it.
    places: Arc<Mutex<BTreeMap<String, usize>>>,
    pub(crate) downloads: Arc<WorkLane>,
    pub(crate) imports: Arc<WorkLane>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            places: Arc::default(),
            downloads: Arc::new(WorkLane::new(DOWNLOADS_AT_ONCE)),
            imports: Arc::new(WorkLane::new(IMPORTS_AT_ONCE)),
        }
    }
}

impl Lanes {
    /// A place for one image, from its first request to its end. `None`: all are taken, or all of the owner's share.
    pub(crate) fn place(&self, owner: &str) -> Option<LanePlace> {
        let mut taken = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(owner).copied().unwrap_or(0);
        if own >= share(PLACES_MAX) || taken.values().sum::<usize>() >= PLACES_MAX {
            return None;
        }
        taken.insert(owner.to_owned(), own + 1);
        Some(LanePlace { places: Arc::clone(&self.places), owner: owner.to_owned() })
    }
}

/// A place for one image; given back when dropped.
#[derive(Debug)]
pub(crate) struct LanePlace {
    places: Arc<Mutex<BTreeMap<String, usize>>>,
    owner: String,
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        let mut taken = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.remove(&self.owner).unwrap_or(0);
        if own > 1 {
            taken.insert(std::mem::take(&mut self.owner), own - 1);
        }
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
    pub(crate) async fn enter(self: &Arc<Self>, owner: &str, mut tell: impl FnMut(u32)) -> LanePass {
        // Heard from before the first look on, so that no change is missed.
        let mut moved = self.moved.subscribe();
        let ticket = self.order().join(owner);
        let pass = LanePass { lane: Arc::clone(self), ticket };
        let mut reported = None;
        loop {
            let ahead = {
                let mut order = self.order();
                if order.begins(ticket) {
                    break;
                }
                order.tickets_ahead(ticket)
            };
            if reported != Some(ahead) {
                reported = Some(ahead);
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
    /// Tickets with their owners.
    working: BTreeMap<u64, Arc<str>>,
    waiting: BTreeMap<u64, Arc<str>>,
}

impl LaneOrder {
    fn new(at_once: usize) -> Self {
        Self { at_once, next: 0, working: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// A ticket behind all others of this owner.
    fn join(&mut self, owner: &str) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.waiting.insert(ticket, owner.into());
        ticket
    }

    /// Whether it is at work from now on: there is room, and it is the next.
    fn begins(&mut self, ticket: u64) -> bool {
        if self.working.len() >= self.at_once || self.first() != Some(ticket) {
            return false;
        }
        self.working.extend(self.waiting.remove_entry(&ticket));
        true
    }

    /// Chooses the oldest one among those whose owners have the fewest at work. An owner with its whole share waits.
    fn first(&self) -> Option<u64> {
        let mut at_work: BTreeMap<&str, usize> = BTreeMap::new();
        for owner in self.working.values() {
            *at_work.entry(owner).or_default() += 1;
        }
        let count = |owner: &Arc<str>| at_work.get(&**owner).copied().unwrap_or(0);
        let waiting = self.waiting.iter().map(|(ticket, owner)| (count(owner), *ticket));
        let first = waiting.filter(|(count, _)| *count < share(self.at_once)).min();
        first.map(|(_, ticket)| ticket)
    }

    /// How many are at work, or came before it.
    fn tickets_ahead(&self, ticket: u64) -> u32 {
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn so_many_begin_in_the_order_in_which_they_came() {
        let mut order = LaneOrder::new(2);
        let tickets: Vec<u64> = (0..4).map(|_| order.join("a")).collect();
        assert!(!order.begins(tickets[1]), "another one came first");
        assert!(order.begins(tickets[0]) && order.begins(tickets[1]));
        assert!(!order.begins(tickets[2]) && !order.begins(tickets[0]));
        assert_eq!((order.tickets_ahead(tickets[2]), order.tickets_ahead(tickets[3])), (2, 3));
        // One that waits may give up.
        order.leave(tickets[2]);
        assert_eq!(order.tickets_ahead(tickets[3]), 2);
        assert!(!order.begins(tickets[3]));
        order.leave(tickets[0]);
        assert!(order.begins(tickets[3]));
        order.leave(tickets[1]);
        order.leave(tickets[3]);
        assert_eq!((order.working.len(), order.waiting.len()), (0, 0));
    }

    #[test]
    fn an_owner_has_a_share_and_who_has_fewer_at_work_comes_first() {
        let mut order = LaneOrder::new(DOWNLOADS_AT_ONCE);
        let tickets: Vec<u64> = (0..100).map(|_| order.join("slow")).collect();
        let begun = tickets.iter().filter(|ticket| order.begins(**ticket)).count();
        assert_eq!(begun, DOWNLOADS_AT_ONCE / 4 * 3);
        let other = order.join("other");
        assert!(order.begins(other), "there is room for others");

        let mut order = LaneOrder::new(IMPORTS_AT_ONCE);
        let tickets: Vec<u64> = (0..3).map(|_| order.join("large")).collect();
        assert!(order.begins(tickets[0]) && order.begins(tickets[1]), "both, where no other waits");
        let other = order.join("other");
        order.leave(tickets[0]);
        assert!(!order.begins(tickets[2]) && order.begins(other));
        order.leave(other);
        assert!(order.begins(tickets[2]));
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
                    let reported = |ahead: u32| {
                        waited.fetch_max(ahead as usize, Ordering::SeqCst);
                    };
                    let pass = lane.enter("a", reported).await;
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(pass);
                })
            })
            .collect();
        // Those that give up while they wait delay no other one.
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
        let places: Vec<_> = (0..PLACES_MAX).map_while(|_| lanes.place("a")).collect();
        assert_eq!(places.len(), PLACES_MAX / 4 * 3, "an owner has a share");
        let others: Vec<_> = (0..PLACES_MAX).map_while(|_| lanes.place("b")).collect();
        assert_eq!(others.len(), PLACES_MAX / 4);
        assert!(lanes.clone().place("c").is_none(), "a clone has the same places");
        drop(places);
        assert!(lanes.place("a").is_some());
        drop(others);
        assert!(lanes.places.lock().is_ok_and(|taken| taken.is_empty()));
    }
}
