//! Hands committed events to live watches, from memory.
//!
//! The writer publishes each batch under the lock, in the order of revisions, and then moves
//! `published`. A watch subscribes under the same lock and learns `published` there: what is at or
//! below it is history (in the database), what is above comes through its queue. So there is
//! neither gap nor repeat.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use crate::types::{Event, GroupResource, Revision};

/// Events that may wait for one watcher. A slower one is cut off and resumes from its revision, so
/// that its memory is bounded and nobody waits for it.
pub(crate) const WATCH_EVENTS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Hub {
    // Ordered, so that a simulation wakes watchers in the same order each time.
    watchers: Mutex<BTreeMap<GroupResource, Vec<mpsc::Sender<Arc<Event>>>>>,
    /// The newest revision that all live watchers were given.
    published: watch::Sender<Revision>,
}

impl Hub {
    pub(crate) fn new(current: Revision) -> Self {
        Self { watchers: Mutex::default(), published: watch::Sender::new(current) }
    }

    pub(crate) fn published(&self) -> Revision {
        *self.published.borrow()
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Revision> {
        self.published.subscribe()
    }

    /// A queue of the events after the returned revision.
    pub(crate) fn subscribe(&self, kind: &GroupResource) -> (Revision, mpsc::Receiver<Arc<Event>>) {
        let (sender, receiver) = mpsc::channel(WATCH_EVENTS_MAX);
        let mut watchers = self.lock();
        watchers.entry(kind.clone()).or_default().push(sender);
        (self.published(), receiver)
    }

    /// Called by the writer alone, with events in order.
    pub(crate) fn publish(&self, events: Vec<Event>, current: Revision) {
        let mut watchers = self.lock();
        for event in events {
            let event = Arc::new(event);
            if let Some(senders) = watchers.get_mut(&event.key.kind) {
                // A full queue drops its sender: the watcher reads what is queued, then learns that it was cut off.
                senders.retain(|sender| sender.try_send(event.clone()).is_ok());
            }
        }
        watchers.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        self.published.send_replace(current);
    }

    /// Cuts every watcher off and moves on; they read what they missed from the database.
    pub(crate) fn skip_to(&self, current: Revision) {
        let mut watchers = self.lock();
        watchers.clear();
        self.published.send_replace(current);
    }

    /// Ends every live watch.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupResource, Vec<mpsc::Sender<Arc<Event>>>>> {
        // Nothing panics under this lock; if something did, a watcher list is still a watcher list.
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
