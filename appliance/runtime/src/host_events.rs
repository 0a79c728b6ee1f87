//! What happens to hosts, offered by value to the controllers that are not the hosts' own.
//!
//! Control publishes; who subscribes has an inbox and drains it when it likes. An inbox is bounded by the number of
//! hosts: of each host it keeps the newest presence, the newest step and whether the object can be decoded. So nothing
//! that still holds is lost, however late it is drained.

use std::sync::{Arc, Mutex};
use std::{collections::BTreeMap, time::Duration};

use firesteel_plan::HostMemory;
use firesteel_resources::{BareMetalHost, host_journal::HostJournalStatus};
use tokio::sync::{Notify, SetOnce};

use crate::{HostKey, Runtime, lock, timeout};

/// Longest wait of a request for the hosts to be read from the store after a start.
const START_MAX: Duration = Duration::from_secs(5);

/// A host as a step left it.
#[derive(Clone, Debug)]
pub struct SteppedHost {
    pub host: BareMetalHost,
    pub memory: HostMemory,
    /// The journal that holds this memory.
    pub journal: HostJournalStatus,
}

/// What happened to one host.
#[derive(Clone, Debug)]
pub enum HostEvent {
    /// It is there.
    Present { uid: String },
    /// It was deleted.
    Gone,
    /// A step of it was stored and published.
    Stepped(Arc<SteppedHost>),
    /// Its memory cannot be read, so nothing is done with it.
    MemoryUnreadable { uid: String },
    /// Its object is stored and cannot be read; all that was known of it stays.
    Undecodable { why: String },
    /// Its object can be read again, or is gone.
    Decodable,
}

impl HostEvent {
    /// Says whether an earlier event of the same host says nothing any more after this one.
    fn replaces(&self, earlier: &Self) -> bool {
        match self {
            Self::Present { .. } => matches!(earlier, Self::Present { .. }),
            Self::Gone => !matches!(earlier, Self::Undecodable { .. } | Self::Decodable),
            Self::Stepped(_) | Self::MemoryUnreadable { .. } => {
                matches!(earlier, Self::Stepped(_) | Self::MemoryUnreadable { .. })
            }
            Self::Undecodable { .. } | Self::Decodable => matches!(earlier, Self::Undecodable { .. } | Self::Decodable),
        }
    }
}

/// Publishes what happens to hosts. Clones share the subscribers.
#[derive(Clone, Debug, Default)]
pub struct HostEvents(Arc<HostSubscribers>);

#[derive(Debug, Default)]
struct HostSubscribers {
    inboxes: Mutex<Vec<HostInbox>>,
    hosts_read: SetOnce<()>,
    halts_read: SetOnce<()>,
}

impl HostEvents {
    /// Returns an inbox for everything that is published from now on.
    #[must_use]
    pub fn subscribe(&self) -> HostInbox {
        let inbox = HostInbox::default();
        lock(&self.0.inboxes).push(inbox.clone());
        inbox
    }

    /// Puts an event into all inboxes. It never waits.
    pub fn publish(&self, key: &HostKey, event: &HostEvent) {
        lock(&self.0.inboxes).iter().for_each(|inbox| inbox.put(key, event.clone()));
    }

    /// Says that all hosts have been read since the start. Whatever was read is published before.
    pub fn note_hosts_read(&self) {
        // A watch that began again says so again.
        let _known_before = self.0.hosts_read.set(());
    }

    /// Says that all halts have been read since the start.
    pub fn note_halts_read(&self) {
        let _known_before = self.0.halts_read.set(());
    }

    /// Says whether all halts have been read since the start.
    #[must_use]
    pub fn are_halts_read(&self) -> bool {
        self.0.halts_read.get().is_some()
    }

    /// Waits until all hosts have been read after a start: who is unknown then is unknown.
    pub async fn hosts_read(&self) {
        self.0.hosts_read.wait().await;
    }

    /// Waits until all halts have been read after a start.
    pub async fn halts_read(&self) {
        self.0.halts_read.wait().await;
    }

    /// Waits until all hosts and halts have been read after a start. `false`: they were not in time.
    pub async fn knows_hosts(&self, runtime: &dyn Runtime) -> bool {
        let all = async {
            self.hosts_read().await;
            self.halts_read().await;
        };
        timeout(runtime, START_MAX, all).await.is_some()
    }
}

/// What one subscriber has not looked at yet. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct HostInbox(Arc<Inbox>);

#[derive(Debug, Default)]
struct Inbox {
    pending: Mutex<BTreeMap<HostKey, Vec<HostEvent>>>,
    changed: Notify,
}

impl HostInbox {
    fn put(&self, key: &HostKey, event: HostEvent) {
        {
            let mut pending = lock(&self.0.pending);
            let of_host = pending.entry(key.clone()).or_default();
            of_host.retain(|earlier| !event.replaces(earlier));
            of_host.push(event);
        }
        self.0.changed.notify_one();
    }

    /// Takes out what happened, of each host in its order. Who keeps a table of hosts drains under the table's lock, or
    /// two who drain at a time would apply an older event last.
    #[must_use]
    pub fn drain(&self) -> Vec<(HostKey, HostEvent)> {
        let pending = std::mem::take(&mut *lock(&self.0.pending));
        pending.into_iter().flat_map(|(key, events)| events.into_iter().map(move |one| (key.clone(), one))).collect()
    }

    /// Waits until something happened. One waits at a time.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".into(), name: name.into() }
    }

    fn present(uid: &str) -> HostEvent {
        HostEvent::Present { uid: uid.into() }
    }

    fn step() -> HostEvent {
        HostEvent::Stepped(Arc::new(SteppedHost {
            host: BareMetalHost::default(),
            memory: HostMemory::default(),
            journal: HostJournalStatus::default(),
        }))
    }

    fn words(inbox: &HostInbox) -> Vec<String> {
        let word = |event: &HostEvent| match event {
            HostEvent::Present { uid } => format!("present {uid}"),
            HostEvent::Gone => "gone".to_owned(),
            HostEvent::Stepped(_) => "stepped".to_owned(),
            HostEvent::MemoryUnreadable { .. } => "unreadable".to_owned(),
            HostEvent::Undecodable { .. } => "undecodable".to_owned(),
            HostEvent::Decodable => "decodable".to_owned(),
        };
        inbox.drain().iter().map(|(key, event)| format!("{} {}", key.name, word(event))).collect()
    }

    #[test]
    fn an_inbox_keeps_of_each_host_what_still_holds() {
        let events = HostEvents::default();
        events.publish(&key("early"), &present("0"));
        let inbox = events.subscribe();
        for _ in 0..100 {
            events.publish(&key("b"), &present("1"));
            events.publish(&key("b"), &step());
        }
        events.publish(&key("a"), &HostEvent::Undecodable { why: String::new() });
        events.publish(&key("a"), &present("1"));
        events.publish(&key("a"), &step());
        events.publish(&key("a"), &HostEvent::MemoryUnreadable { uid: "1".into() });
        assert_eq!(words(&inbox), ["a undecodable", "a present 1", "a unreadable", "b present 1", "b stepped"]);
        assert!(words(&inbox).is_empty(), "each comes once");
    }

    #[test]
    fn a_host_that_came_again_is_another_one() {
        let inbox = HostInbox::default();
        for event in [present("1"), step(), HostEvent::Gone, present("2"), step()] {
            inbox.put(&key("a"), event);
        }
        assert_eq!(words(&inbox), ["a gone", "a present 2", "a stepped"]);
        inbox.put(&key("a"), HostEvent::Undecodable { why: String::new() });
        inbox.put(&key("a"), HostEvent::Gone);
        inbox.put(&key("a"), HostEvent::Decodable);
        assert_eq!(words(&inbox), ["a gone", "a decodable"]);
    }

    #[tokio::test]
    async fn a_change_before_the_wait_ends_it() {
        let events = HostEvents::default();
        let inbox = events.subscribe();
        events.publish(&key("a"), &HostEvent::Gone);
        inbox.changed().await;
    }
}
