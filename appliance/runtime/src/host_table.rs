//! The hosts as a controller knows them that is not their own: fed by [`HostEvents`](crate::HostEvents).

use std::collections::BTreeMap;

use crate::{HostEvent, HostInbox, HostKey};

/// One host, with what its controller keeps of it.
#[derive(Clone, Debug, Default)]
pub struct KnownHost<T> {
    pub uid: String,
    pub kept: T,
}

/// The hosts that are there, and those that cannot be decoded.
#[derive(Debug)]
pub struct HostTable<T> {
    inbox: HostInbox,
    hosts: BTreeMap<HostKey, KnownHost<T>>,
    by_uid: BTreeMap<String, HostKey>,
    undecodable: BTreeMap<HostKey, String>,
}

impl<T: Default> HostTable<T> {
    /// Makes an empty table that is fed from this inbox.
    #[must_use]
    pub fn new(inbox: HostInbox) -> Self {
        Self { inbox, hosts: BTreeMap::new(), by_uid: BTreeMap::new(), undecodable: BTreeMap::new() }
    }

    /// Takes in what happened since, and returns it. Steps are the caller's to look at: they change nothing here.
    pub fn update(&mut self) -> Vec<(HostKey, HostEvent)> {
        let events = self.inbox.drain();
        for (key, event) in &events {
            match event {
                HostEvent::Present { uid } => self.learn(key, uid),
                HostEvent::Gone => self.forget(key),
                HostEvent::Undecodable { why } => {
                    self.undecodable.insert(key.clone(), why.clone());
                }
                HostEvent::Decodable => {
                    self.undecodable.remove(key);
                }
                HostEvent::Stepped(_) | HostEvent::MemoryUnreadable { .. } => {}
            }
        }
        events
    }

    fn learn(&mut self, key: &HostKey, uid: &str) {
        if self.hosts.get(key).is_some_and(|known| known.uid == uid) {
            return;
        }
        self.forget(key);
        self.hosts.insert(key.clone(), KnownHost { uid: uid.to_owned(), kept: T::default() });
        self.by_uid.insert(uid.to_owned(), key.clone());
    }

    fn forget(&mut self, key: &HostKey) {
        if let Some(gone) = self.hosts.remove(key) {
            self.by_uid.remove(&gone.uid);
        }
    }

    /// Returns the hosts that are there.
    pub fn hosts(&self) -> impl Iterator<Item = (&HostKey, &KnownHost<T>)> {
        self.hosts.iter()
    }

    /// Returns what is kept of the host of this UID; of no other one of its name.
    pub fn of(&mut self, key: &HostKey, uid: &str) -> Option<&mut T> {
        self.hosts.get_mut(key).filter(|known| known.uid == uid).map(|known| &mut known.kept)
    }

    /// Returns what is kept of whichever host has this name.
    pub fn get_mut(&mut self, key: &HostKey) -> Option<&mut T> {
        self.hosts.get_mut(key).map(|known| &mut known.kept)
    }

    /// Finds the host with this UID.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&HostKey> {
        self.by_uid.get(uid)
    }

    /// Says why a host that is not known may be there all the same.
    #[must_use]
    pub fn undecodable(&self) -> Option<String> {
        undecodable_host(&self.undecodable)
    }
}

/// Says why a machine, a token or a UID that belongs to no host that is known may be a host's all the same:
/// `unreadable` are stored hosts that cannot be decoded, and why.
#[must_use]
pub fn undecodable_host(unreadable: &BTreeMap<HostKey, String>) -> Option<String> {
    let (key, why) = unreadable.iter().next()?;
    Some(format!("the stored host {key} cannot be read, and this may be it: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::HostEvents;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "lab".into(), name: name.into() }
    }

    #[test]
    fn a_namesake_has_nothing_of_the_host_before_it() {
        let events = HostEvents::default();
        let mut table: HostTable<u32> = HostTable::new(events.subscribe());
        events.publish(&key("h1"), &HostEvent::Present { uid: "1".into() });
        assert_eq!(table.update().len(), 1);
        *table.of(&key("h1"), "1").unwrap() = 7;
        events.publish(&key("h1"), &HostEvent::Present { uid: "1".into() });
        table.update();
        assert_eq!(table.of(&key("h1"), "1"), Some(&mut 7), "the same host");
        events.publish(&key("h1"), &HostEvent::Present { uid: "2".into() });
        table.update();
        assert_eq!(table.by_uid("1"), None);
        assert_eq!(table.by_uid("2"), Some(&key("h1")));
        assert_eq!(table.of(&key("h1"), "1"), None);
        assert_eq!(table.of(&key("h1"), "2"), Some(&mut 0));
        events.publish(&key("h1"), &HostEvent::Gone);
        table.update();
        assert_eq!((table.hosts().count(), table.by_uid("2")), (0, None));
    }

    #[test]
    fn who_is_unknown_may_be_a_host_that_cannot_be_read() {
        let events = HostEvents::default();
        let mut table: HostTable<()> = HostTable::new(events.subscribe());
        assert_eq!(table.undecodable(), None);
        events.publish(&key("h1"), &HostEvent::Undecodable { why: "its bytes are not those that were written".into() });
        table.update();
        let why =
            "the stored host lab/h1 cannot be read, and this may be it: its bytes are not those that were written";
        assert_eq!(table.undecodable().unwrap(), why);
        events.publish(&key("h1"), &HostEvent::Decodable);
        table.update();
        assert_eq!(table.undecodable(), None);
    }
}
