//! Which hosts are known at an address: places are kept for them where strangers want them all. The one owner of this
//! fact.
//!
//! ```text
//!   live leases of the MACs of hosts ([`crate::leases`]) ────────────────┐
//!   messages of bound agents (a VLAN, a bond, another DHCP server) ──────┴─► NetworkLog::hosts_at ─► HTTP, TFTP
//! ```
//!
//! A host is known where its agent speaks until the attempt ends in which it does. It opens nothing by itself.

use std::net::IpAddr;

use firesteel_boot::BootEntry;

use crate::views::Views;

impl Views {
    /// Takes in that the bound agent of an attempt of this host spoke from there.
    pub(crate) fn note_agent_address(&mut self, uid: &str, address: IpAddr, attempt: u64) {
        let Self { agent_addresses, by_uid, .. } = self;
        // There are no more of them than hosts.
        if agent_addresses.of_host.len() > by_uid.len() {
            agent_addresses.keep(|uid| by_uid.contains_key(uid));
        }
        if by_uid.contains_key(uid) {
            agent_addresses.note(uid, address.to_canonical(), attempt);
        }
    }

    /// Whether this attempt of a host goes on.
    pub(crate) fn is_under_way(&self, uid: &str, attempt: u64) -> bool {
        let view = self.by_uid.get(uid).and_then(|key| self.hosts.get(key));
        match view.and_then(|view| view.boot_entry.as_ref()) {
            Some(BootEntry::Agent { attempt: current, .. }) => *current == attempt,
            Some(_) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use firesteel_facts::Mac;
    use firesteel_runtime::{HostEvents, HostKey};
    use jiff::Timestamp;

    use super::*;
    use crate::views::StoredHostIdentity;

    const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".into(), name: name.into() }
    }

    fn learn(views: &mut Views, name: &str) {
        let macs: [Mac; 0] = [];
        views.learn_host(
            &key(name),
            Some(StoredHostIdentity { uid: name, made: Timestamp::UNIX_EPOCH, revision: 1, macs: &macs }),
        );
    }

    fn begins(views: &mut Views, name: &str, attempt: u64) {
        let entry = BootEntry::Agent { host: name.to_owned(), attempt };
        views.hosts.get_mut(&key(name)).expect("learnt").boot_entry = Some(entry);
    }

    fn known(views: &Views, address: IpAddr) -> Vec<&str> {
        let all = views.agent_addresses.at(address);
        all.filter(|(uid, attempt)| views.is_under_way(uid, *attempt)).map(|(uid, _)| &**uid).collect()
    }

    #[test]
    fn an_address_is_known_until_the_attempt_ends_in_which_its_agent_spoke() {
        let mut views = Views::new(1, HostEvents::default());
        learn(&mut views, "a");
        begins(&mut views, "a", 3);
        views.note_agent_address("a", FIRST, 3);
        assert_eq!(known(&views, FIRST), ["a"]);
        views.note_agent_address("a", SECOND, 3);
        assert_eq!((known(&views, FIRST), known(&views, SECOND)), (vec![], vec!["a"]), "it moved");
        begins(&mut views, "a", 4);
        assert!(known(&views, SECOND).is_empty(), "that attempt is over");
        views.note_agent_address("a", SECOND, 4);
        views.hosts.get_mut(&key("a")).expect("learnt").boot_entry = Some(BootEntry::Discovery);
        assert!(known(&views, SECOND).is_empty());
    }

    #[test]
    fn several_hosts_may_be_behind_one_address_and_those_that_went_are_forgotten() {
        let mut views = Views::new(1, HostEvents::default());
        for name in ["a", "b", "c"] {
            learn(&mut views, name);
            begins(&mut views, name, 1);
            views.note_agent_address(name, FIRST, 1);
        }
        views.note_agent_address("no-host", SECOND, 1);
        assert!(known(&views, SECOND).is_empty());
        assert_eq!(known(&views, FIRST), ["a", "b", "c"]);
        for name in ["a", "b"] {
            views.remove_host(&key(name), name);
        }
        assert_eq!(known(&views, FIRST), ["c"]);
        views.note_agent_address("c", SECOND, 1);
        assert_eq!((views.agent_addresses.of_host.len(), views.agent_addresses.at.len()), (1, 1));
    }
}
