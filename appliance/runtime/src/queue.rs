//! What is looked at next, and when: hosts, or namespaces.
//!
//! An activation carries no data: whatever happened (an edit, a report, a BMC's answer, a
//! deadline), the host is put here, and the step reads everything again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::{fmt, hash::Hash, time::Duration};

use tokio::sync::Notify;

use crate::{Runtime, lock};

/// Activations, of each key at most one at a time; an earlier one replaces a later one.
pub struct HostQueue<K> {
    runtime: Arc<dyn Runtime>,
    state: Mutex<HostQueueState<K>>,
    changed: Notify,
}

impl<K: fmt::Debug> fmt::Debug for HostQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostQueue").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct HostQueueState<K> {
    /// The activations by the uptime at which they are due.
    due: BTreeSet<(Duration, K)>,
    when: HashMap<K, Duration>,
}

impl<K> Default for HostQueueState<K> {
    fn default() -> Self {
        Self { due: BTreeSet::new(), when: HashMap::new() }
    }
}

impl<K: Clone + Ord + Hash> HostQueueState<K> {
    fn schedule(&mut self, key: &K, at: Duration) -> bool {
        match self.when.get(key) {
            Some(earlier) if *earlier <= at => return false,
            Some(later) => {
                self.due.remove(&(*later, key.clone()));
            }
            None => {}
        }
        self.when.insert(key.clone(), at);
        self.due.insert((at, key.clone()));
        true
    }
}

impl<K: Clone + Ord + Hash> HostQueue<K> {
    #[must_use]
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, state: Mutex::default(), changed: Notify::new() }
    }

    /// Counts the activations that are due or wait for their time.
    #[must_use]
    pub fn len(&self) -> u64 {
        lock(&self.state).when.len() as u64
    }

    /// Says whether nothing is due or waits for its time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.state).when.is_empty()
    }

    /// Has this host looked at now.
    pub fn wake(&self, key: &K) {
        self.wake_in(key, Duration::ZERO);
    }

    /// Has this host looked at after `delay`, unless it is looked at earlier.
    pub fn wake_in(&self, key: &K, delay: Duration) {
        if lock(&self.state).schedule(key, self.runtime.uptime() + delay) {
            self.changed.notify_one();
        }
    }

    /// Waits for the next host that is due, and takes it out.
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let until = {
                let mut state = lock(&self.state);
                match state.due.first().cloned() {
                    Some((at, key)) if at <= self.runtime.uptime() => {
                        state.due.remove(&(at, key.clone()));
                        state.when.remove(&key);
                        return key;
                    }
                    Some((at, _)) => Some(at),
                    None => None,
                }
            };
            match until {
                Some(at) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = self.runtime.sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostKey;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_host_is_due_once_and_at_the_earliest_time_asked_for() {
        let mut state = HostQueueState::default();
        let after = Duration::from_secs;
        assert!(state.schedule(&key("late"), after(60)));
        assert!(state.schedule(&key("host"), after(30)));
        assert!(state.schedule(&key("host"), after(5)), "earlier: the loop must wake for it");
        assert!(!state.schedule(&key("host"), after(90)), "later: nothing changes");
        let due: Vec<_> = state.due.iter().cloned().collect();
        assert_eq!(due, [(after(5), key("host")), (after(60), key("late"))]);
    }

    #[tokio::test]
    async fn what_is_due_comes_out_once() {
        let queue = HostQueue::new(Arc::new(crate::Tokio::new()));
        queue.wake_in(&key("later"), Duration::from_secs(3600));
        queue.wake(&key("now"));
        queue.wake(&key("now"));
        assert_eq!(queue.next().await, key("now"));
        assert_eq!(lock(&queue.state).due.len(), 1, "only the later one is left");
    }
}
