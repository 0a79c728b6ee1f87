//! Recent events of each kind, in memory: written once by the writer, read by every watch.
//!
//! ```text
//!   writer ──► publish ──► ring of the kind ◄── watch (a position in it)
//!                            oldest ... newest  ◄── watch
//! ```
//!
//! A watch has no queue of its own: it is a position in the ring, so that a thousand of them hold
//! no more memory than one, and all share what was once made of an event ([`HubEvent::cached`]). One
//! that the ring's oldest event has overtaken is cut off; the writer and the others do not notice.
//!
//! The writer publishes each batch under the lock, in the order of revisions, and then moves
//! `published`. What a ring no longer holds is history, and in the database. So there is neither gap
//! nor repeat.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, watch};

use crate::flushes;
use crate::meter::HistoryLimits;
use crate::types::{GroupResource, Revision, StoreEvent};

/// Events of one kind that are kept for its watches: a watch that is further behind is cut off and
/// resumes from its revision. Several seconds of the fastest writing that the store can do.
pub const WATCH_EVENTS_MAX: usize = 1024;

/// What the events of all kinds together may hold, with what their readers made of them.
pub const RECENT_BYTES_MAX: usize = 48 << 20;

/// An event's own memory beside its values: key, places in the ring, small parts of what is made.
const EVENT_BYTES: usize = 1 << 10;

/// An event as all watches have it: one copy, with what their readers made of it.
#[derive(Debug)]
pub struct HubEvent {
    event: StoreEvent,
    made: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl HubEvent {
    pub(crate) fn new(event: StoreEvent) -> Self {
        Self { event, made: OnceLock::new() }
    }

    /// What readers make of this event, made once and kept as long as the event. It should hold no
    /// more than the event's values do, since [`RECENT_BYTES_MAX`] counts so much for it.
    ///
    /// Readers that want something else than the first one get theirs made for them alone.
    pub fn cached<T: Any + Send + Sync>(&self, make: impl Fn(&StoreEvent) -> T) -> Arc<T> {
        let kept: Arc<dyn Any + Send + Sync> = self.made.get_or_init(|| Arc::new(make(&self.event))).clone();
        kept.downcast().unwrap_or_else(|_| Arc::new(make(&self.event)))
    }

    /// What the event counts for: its values, and as much again for what is made of them.
    fn weight(&self) -> usize {
        2 * (self.event.value.len() + self.event.previous.as_ref().map_or(0, bytes::Bytes::len)) + EVENT_BYTES
    }
}

impl Deref for HubEvent {
    type Target = StoreEvent;

    fn deref(&self) -> &StoreEvent {
        &self.event
    }
}

#[derive(Debug)]
pub(crate) struct Hub {
    rings: Mutex<Rings>,
    /// The newest revision that the rings were given.
    published: watch::Sender<Revision>,
    history_limits: Mutex<HistoryLimits>,
    pub(crate) flushes: flushes::FlushHistogram,
}

#[derive(Debug)]
struct Rings {
    // Ordered, so that a simulation wakes watches in the same order each time.
    kinds: BTreeMap<GroupResource, EventRing>,
    /// Up to here, no kind's events are in its ring.
    floor: Revision,
    /// History up to here is refused.
    compacted: Revision,
    /// The oldest revisions of kinds with a shorter history.
    compacted_kinds: BTreeMap<GroupResource, Revision>,
    bytes: usize,
    closed: bool,
}

#[derive(Debug, Default)]
struct EventRing {
    events: VecDeque<Arc<HubEvent>>,
    /// Every event of this kind after it is in the ring.
    start: Revision,
    /// The revision of the last event that came in.
    newest: Revision,
    changed: Arc<Notify>,
}

/// What follows a position.
#[derive(Debug)]
pub(crate) enum RingItem {
    Event(Arc<HubEvent>),
    /// Nothing yet; ready when there may be something.
    Wait(OwnedNotified),
    /// The ring does not reach back so far.
    Overtaken,
    Closed,
}

impl Hub {
    pub(crate) fn new(current: Revision, compacted: Revision) -> Self {
        let rings = Rings {
            kinds: BTreeMap::new(),
            floor: current,
            compacted,
            compacted_kinds: BTreeMap::new(),
            bytes: 0,
            closed: false,
        };
        Self {
            rings: Mutex::new(rings),
            published: watch::Sender::new(current),
            history_limits: Mutex::default(),
            flushes: flushes::FlushHistogram::default(),
        }
    }

    pub(crate) fn history_limits(&self) -> HistoryLimits {
        *self.history_limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_history_limits(&self, limits: HistoryLimits) {
        *self.history_limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// A revision after which no object of a kind has changed. Below the newest one, if nothing of the kind has
    /// changed lately.
    pub(crate) fn changed(&self, kind: &GroupResource) -> Revision {
        let rings = self.lock();
        rings.kinds.get(kind).map_or(rings.floor, |ring| ring.newest.max(rings.floor))
    }

    pub(crate) fn published(&self) -> Revision {
        *self.published.borrow()
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Revision> {
        self.published.subscribe()
    }

    pub(crate) fn compacted(&self, kind: &GroupResource) -> Revision {
        let rings = self.lock();
        rings.compacted_kinds.get(kind).map_or(rings.compacted, |own| rings.compacted.max(*own))
    }

    /// Says up to where history is gone, of all kinds or of one.
    pub(crate) fn set_compacted(&self, kind: Option<&GroupResource>, compacted: Revision) {
        let mut rings = self.lock();
        let known = match kind {
            Some(kind) => rings.compacted_kinds.entry(kind.clone()).or_default(),
            None => &mut rings.compacted,
        };
        *known = compacted.max(*known);
    }

    /// The first event of a kind after a position.
    pub(crate) fn after(&self, kind: &GroupResource, position: Revision) -> RingItem {
        let mut rings = self.lock();
        if rings.closed {
            return RingItem::Closed;
        }
        let floor = rings.floor;
        let ring = match rings.kinds.get_mut(kind) {
            Some(ring) => ring,
            None => rings.kinds.entry(kind.clone()).or_default(),
        };
        if position < ring.start.max(floor) {
            return RingItem::Overtaken;
        }
        let index = ring.events.partition_point(|event| event.revision <= position);
        match ring.events.get(index) {
            Some(event) => RingItem::Event(event.clone()),
            // Made under the lock: what is published later wakes it, polled or not.
            None => RingItem::Wait(ring.changed.clone().notified_owned()),
        }
    }

    /// Publishes events in order; the writer alone does so. `cuts`: kinds with an event that cannot be shown, and the
    /// revision of the last one. Watches of such a kind that have not seen it are cut off.
    pub(crate) fn publish(&self, events: Vec<StoreEvent>, cuts: &[(GroupResource, Revision)], current: Revision) {
        let mut rings = self.lock();
        let mut changed: Vec<Arc<Notify>> = Vec::new();
        for event in events {
            let notify = rings.push(HubEvent::new(event));
            if !changed.iter().any(|known| Arc::ptr_eq(known, &notify)) {
                changed.push(notify);
            }
        }
        cuts.iter().for_each(|(kind, at)| rings.cut(kind, *at));
        self.published.send_replace(current);
        drop(rings);
        changed.iter().for_each(|notify| notify.notify_waiters());
    }

    /// Moves on over events that were not published: every watch is cut off, and reads what it missed from the
    /// database.
    pub(crate) fn skip_to(&self, current: Revision) {
        let mut rings = self.lock();
        rings.floor = current;
        rings.bytes = 0;
        rings.kinds.values_mut().for_each(|ring| ring.events.clear());
        self.published.send_replace(current);
        rings.wake();
    }

    /// Ends every watch.
    pub(crate) fn close(&self) {
        let mut rings = self.lock();
        rings.closed = true;
        rings.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        // Nothing panics under this lock; if something did, the rings are still in order.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rings {
    fn push(&mut self, event: HubEvent) -> Arc<Notify> {
        self.bytes += event.weight();
        let ring = match self.kinds.get_mut(&event.key.kind) {
            Some(ring) => ring,
            None => self.kinds.entry(event.key.kind.clone()).or_default(),
        };
        ring.newest = event.revision;
        ring.events.push_back(Arc::new(event));
        if ring.events.len() > WATCH_EVENTS_MAX {
            self.bytes -= ring.drop_oldest();
        }
        let changed = ring.changed.clone();
        while self.bytes > RECENT_BYTES_MAX && self.drop_oldest() {}
        changed
    }

    /// Drops the oldest event of all kinds; false if there is none.
    fn drop_oldest(&mut self) -> bool {
        let oldest = |ring: &&mut EventRing| ring.events.front().map_or(Revision(u64::MAX), |event| event.revision);
        let dropped = self.kinds.values_mut().min_by_key(oldest).map_or(0, EventRing::drop_oldest);
        self.bytes -= dropped;
        dropped > 0
    }

    /// Forgets the events of a kind up to one, as if newer ones had driven them out.
    fn cut(&mut self, kind: &GroupResource, at: Revision) {
        let Some(ring) = self.kinds.get_mut(kind) else { return };
        while ring.events.front().is_some_and(|event| event.revision <= at) {
            self.bytes -= ring.drop_oldest();
        }
        ring.start = ring.start.max(at);
    }

    fn wake(&self) {
        self.kinds.values().for_each(|ring| ring.changed.notify_waiters());
    }
}

impl EventRing {
    fn drop_oldest(&mut self) -> usize {
        let Some(event) = self.events.pop_front() else { return 0 };
        self.start = event.revision;
        event.weight()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::types::{ChangeKind, ObjectKey};
    use bytes::Bytes;

    fn event(kind: &GroupResource, revision: u64, bytes: usize) -> StoreEvent {
        StoreEvent {
            revision: Revision(revision),
            kind: ChangeKind::Created,
            key: ObjectKey::new(kind, "", "a"),
            value: Bytes::from(vec![b'x'; bytes]),
            previous: None,
        }
    }

    /// However many events come, and however large they are, the rings hold no more than is said.
    #[test]
    fn the_rings_hold_no_more_than_their_bound() {
        let (few, many) = (GroupResource::new("", "few"), GroupResource::new("", "many"));
        let hub = Hub::new(Revision(0), Revision(0));
        hub.publish(vec![event(&few, 1, 10)], &[], Revision(1));
        for revision in 2..40 {
            hub.publish(vec![event(&many, revision, 4 << 20)], &[], Revision(revision));
            let rings = hub.lock();
            let held: usize = rings.kinds.values().flat_map(|ring| &ring.events).map(|event| event.weight()).sum();
            assert_eq!(held, rings.bytes);
            assert!(held <= RECENT_BYTES_MAX, "{held} bytes after {revision} events");
        }
        assert!(
            matches!(hub.after(&few, Revision(0)), RingItem::Overtaken),
            "the oldest went first, whatever its kind"
        );
        assert!(matches!(hub.after(&few, Revision(1)), RingItem::Wait(_)), "who has seen it misses nothing");
        assert!(matches!(hub.after(&many, Revision(38)), RingItem::Event(event) if event.revision == Revision(39)));
        assert_eq!((hub.changed(&few), hub.changed(&many)), (Revision(1), Revision(39)));
        let small = (40..40 + 2 * WATCH_EVENTS_MAX as u64).map(|revision| event(&few, revision, 1)).collect();
        hub.publish(small, &[], Revision(40 + 2 * WATCH_EVENTS_MAX as u64));
        assert_eq!(hub.lock().kinds[&few].events.len(), WATCH_EVENTS_MAX);
        hub.skip_to(Revision(9000));
        assert_eq!(hub.changed(&many), Revision(9000), "something may have been missed");
    }

    #[test]
    fn who_has_not_seen_an_event_that_cannot_be_told_is_cut_off() {
        let (hurt, sound) = (GroupResource::new("", "hurt"), GroupResource::new("", "sound"));
        let hub = Hub::new(Revision(0), Revision(0));
        hub.publish(vec![event(&hurt, 1, 1), event(&sound, 2, 1)], &[], Revision(2));
        let events = vec![event(&hurt, 3, 1), event(&hurt, 4, 1)];
        hub.publish(events, &[(hurt.clone(), Revision(3))], Revision(4));
        assert!(matches!(hub.after(&hurt, Revision(1)), RingItem::Overtaken));
        assert!(matches!(hub.after(&hurt, Revision(3)), RingItem::Event(event) if event.revision == Revision(4)));
        assert!(matches!(hub.after(&sound, Revision(0)), RingItem::Event(event) if event.revision == Revision(2)));
        let rings = hub.lock();
        let held: usize = rings.kinds.values().flat_map(|ring| &ring.events).map(|event| event.weight()).sum();
        assert_eq!(held, rings.bytes);
    }

    #[test]
    fn what_readers_make_of_an_event_is_made_once() {
        let made = std::cell::Cell::new(0);
        let shared = HubEvent::new(event(&GroupResource::new("", "x"), 1, 3));
        let make = |event: &StoreEvent| {
            made.set(made.get() + 1);
            event.value.len()
        };
        assert_eq!((*shared.cached(make), *shared.cached(make), made.get()), (3, 3, 1));
        assert_eq!(*shared.cached(|_| "of another type"), "of another type");
    }
}
