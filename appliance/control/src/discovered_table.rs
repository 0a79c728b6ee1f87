//! Which machines without a host are the systems that BMCs of hosts drive. Pure.
//!
//! ```text
//!   DiscoveredHost objects ─► learn_discovered ─┐
//!                                               ├─► discovered_of: what the steps of a host use
//!   steps of hosts ─────────► learn_system ─────┴─► unmarked: conditions that the objects lack, or have too many of
//! ```
//!
//! A UUID that the BMCs of two hosts report is identity for neither.

use std::collections::{BTreeMap, HashMap};

use firesteel_plan::host::DiscoveredMachine;
use firesteel_plan::host::identity::canonical_uuid;
use firesteel_plan::host::wrong_boot_mac::{DrivenSystem, DrivingHost, condition, is_its_machine};
use firesteel_resources::condition::find_condition;
use firesteel_resources::discovered_host::{BELONGS_TO_HOST, DiscoveredHostStatus};
use firesteel_resources::{Condition, ConditionStatus, DiscoveredHost};
use firesteel_runtime::HostKey;

use crate::views::{LiveHost, Views};

/// Machines without a host by the names of their objects: those with a usable UUID.
#[derive(Debug, Default)]
pub(crate) struct DiscoveredTable(BTreeMap<String, DiscoveredEntry>);

#[derive(Debug)]
struct DiscoveredEntry {
    uuid: String,
    machine: DiscoveredMachine,
    /// The condition that its object has.
    shown: Option<Condition>,
}

/// A condition that the object of a machine is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnmarkedMachine {
    /// The object's name.
    pub(crate) name: String,
    pub(crate) condition: Condition,
}

fn machine_of(status: &DiscoveredHostStatus) -> DiscoveredMachine {
    DiscoveredMachine {
        boot_mac: status.boot_mac.clone(),
        macs: status.macs.clone(),
        uuid: status.uuid.clone(),
        serial: status.serial.clone(),
        last_seen: status.last_seen,
    }
}

impl Views {
    /// Takes in what is stored of a machine without a host. Returns the host that is to be stepped, if it is news for
    /// one.
    pub(crate) fn learn_discovered(&mut self, object: &DiscoveredHost) -> Option<HostKey> {
        let (name, machine) = (object.metadata.name.clone(), machine_of(&object.status));
        let Some(uuid) = canonical_uuid(&machine.uuid) else { return self.forget_discovered(&name) };
        let shown = find_condition(&object.status.conditions, BELONGS_TO_HOST).cloned();
        let entry = DiscoveredEntry { uuid: uuid.clone(), machine: machine.clone(), shown };
        let before = self.discovered_table.0.insert(name, entry);
        let is_news = before.is_none_or(|before| before.machine != machine);
        self.driver_of(&uuid).cloned().filter(|_| is_news)
    }

    /// Forgets a machine that has no object any more. Returns the host that is to be stepped.
    pub(crate) fn forget_discovered(&mut self, name: &str) -> Option<HostKey> {
        let entry = self.discovered_table.0.remove(name)?;
        self.driver_of(&entry.uuid).cloned()
    }

    /// Takes in which system the BMC of a host drives. Returns the hosts that are to be stepped again: this one, and
    /// those that share a UUID with it, or did.
    pub(crate) fn learn_system(&mut self, key: &HostKey, system: Option<DrivenSystem>) -> Vec<HostKey> {
        let Some(view) = self.hosts.get_mut(key) else { return Vec::new() };
        view.is_system_known = true;
        if view.system == system {
            return Vec::new();
        }
        let before = std::mem::replace(&mut view.system, system.clone());
        let uuids: Vec<String> = before.into_iter().chain(system).map(|system| system.uuid).collect();
        let concerns =
            |system: &Option<DrivenSystem>| system.as_ref().is_some_and(|system| uuids.contains(&system.uuid));
        let others = self.hosts.iter().filter(|(other, view)| *other != key && concerns(&view.system));
        others.map(|(other, _)| other.clone()).chain([key.clone()]).collect()
    }

    /// Lists the machines without a host that may be this host's own.
    pub(crate) fn discovered_of(&self, key: &HostKey) -> Vec<DiscoveredMachine> {
        let Some(system) = self.hosts.get(key).and_then(|view| view.system.as_ref()) else { return Vec::new() };
        let of_it = self.discovered_table.0.values().filter(|entry| entry.uuid == system.uuid);
        let machines: Vec<DiscoveredMachine> = of_it.map(|entry| entry.machine.clone()).collect();
        if machines.is_empty() || self.driver_of(&system.uuid).is_some() { machines } else { Vec::new() }
    }

    /// Lists the machines whose objects do not say whose they are as it is now. That a machine is no host's is known
    /// once each host was stepped: after a restart the marks stay until then.
    pub(crate) fn unmarked(&self) -> Vec<UnmarkedMachine> {
        let drivers = self.drivers();
        let are_all_known = self.hosts.values().all(|view| view.is_system_known);
        let mark = |(name, entry): (&String, &DiscoveredEntry)| {
            let driver = drivers.get(entry.uuid.as_str()).copied().flatten();
            let driver = driver.filter(|(_, system)| is_its_machine(system, &entry.machine));
            let owner = driver.map(|(key, system)| (key.to_string(), system));
            let owner = owner.as_ref().map(|(key, system)| DrivingHost { name: key, system });
            let condition = condition(&entry.machine, owner, entry.shown.is_some())?;
            if condition.status == ConditionStatus::False && !are_all_known {
                return None;
            }
            let said = |condition: &Condition| (condition.status, condition.message.clone());
            let is_shown = entry.shown.as_ref().is_some_and(|shown| said(shown) == said(&condition));
            (!is_shown).then(|| UnmarkedMachine { name: name.clone(), condition })
        };
        self.discovered_table.0.iter().filter_map(mark).collect()
    }

    /// The one host whose BMC drives the system with this UUID.
    fn driver_of(&self, uuid: &str) -> Option<&HostKey> {
        let is_it = |view: &LiveHost| view.system.as_ref().is_some_and(|system| system.uuid == uuid);
        let mut drivers = self.hosts.iter().filter(|(_, view)| is_it(view));
        let (first, _) = drivers.next()?;
        drivers.next().is_none().then_some(first)
    }

    /// The hosts by the UUIDs that their BMCs report; none where two report the same.
    fn drivers(&self) -> HashMap<&str, Option<(&HostKey, &DrivenSystem)>> {
        let mut drivers = HashMap::new();
        let systems = self.hosts.iter().filter_map(|(key, view)| Some((key, view.system.as_ref()?)));
        for (key, system) in systems {
            let driver = drivers.entry(system.uuid.as_str());
            driver.and_modify(|other| *other = None).or_insert(Some((key, system)));
        }
        drivers
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_plan::host::KnownIdentity;
    use firesteel_resources::ConditionStatus;
    use firesteel_runtime::HostEvents;
    use jiff::Timestamp;

    use super::*;
    const A: &str = "4c4c4544-0046-3310-8051-b4c04f564432";
    const A_SWAPPED: &str = "44454c4c-4600-1033-8051-b4c04f564432";
    const B: &str = "4c4c4544-0046-3310-8051-b4c04f564433";
    const MAC: &str = "52:54:00:00:00:01";
    const OTHER_MAC: &str = "52:54:00:00:00:02";

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".into(), name: name.into() }
    }

    fn system(uuid: &str) -> Option<DrivenSystem> {
        let uuid = canonical_uuid(uuid).unwrap();
        Some(DrivenSystem { uuid, known: KnownIdentity::default(), boot_mac: MAC.into(), agent_at: None })
    }

    fn views(hosts: &[&str]) -> Views {
        let mut views = Views::new(1, HostEvents::default());
        for name in hosts {
            views.hosts.insert(key(name), LiveHost::default());
        }
        views
    }

    fn machine(uuid: &str, second: i64) -> DiscoveredHost {
        let mut object = DiscoveredHost::default();
        object.metadata.name = "52-54-00-00-00-02".into();
        (object.status.boot_mac, object.status.uuid) = (OTHER_MAC.into(), uuid.into());
        object.status.last_seen = Timestamp::from_second(second).unwrap();
        object
    }

    #[test]
    fn a_machine_is_named_with_its_host_whatever_is_known_first() {
        let mut views = views(&["a", "b"]);
        assert_eq!(views.learn_discovered(&machine(A_SWAPPED, 1)), None);
        assert!(views.unmarked().is_empty());
        assert_eq!(views.learn_system(&key("a"), system(A)), [key("a")], "it is stepped again");
        assert!(views.learn_system(&key("a"), system(A)).is_empty(), "nothing new");
        assert_eq!(views.discovered_of(&key("a")).len(), 1);
        let unmarked = views.unmarked();
        assert_eq!((unmarked.len(), unmarked[0].condition.status), (1, ConditionStatus::True));
        let text = &unmarked[0].condition.message;
        for part in ["host default/a", A_SWAPPED, OTHER_MAC, "not spec.bootMACAddress 52:54:00:00:00:01: correct"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // As it is stored.
        let mut marked = machine(A_SWAPPED, 1);
        marked.status.conditions.push(unmarked[0].condition.clone());
        assert_eq!(views.learn_discovered(&marked), None, "a mark is no news");
        assert!(views.unmarked().is_empty());
        let mut again = marked.clone();
        again.status.last_seen = Timestamp::from_second(2).unwrap();
        assert_eq!(views.learn_discovered(&again), Some(key("a")), "it booted again");
        // The host goes.
        views.learn_system(&key("a"), None);
        assert!(views.unmarked().is_empty(), "the other host was not stepped yet");
        views.learn_system(&key("b"), None);
        assert_eq!(views.unmarked()[0].condition.status, ConditionStatus::False);
        views.forget_discovered(&marked.metadata.name);
        assert!(views.unmarked().is_empty());
    }

    #[test]
    fn a_uuid_of_two_systems_names_no_machine() {
        let mut views = views(&["a", "b"]);
        views.learn_system(&key("a"), system(A));
        views.learn_discovered(&machine(A, 1));
        assert_eq!(views.unmarked().len(), 1);
        assert_eq!(views.learn_system(&key("b"), system(A)), [key("a"), key("b")], "both are stepped");
        assert!(views.unmarked().is_empty() && views.discovered_of(&key("a")).is_empty());
        assert_eq!(views.learn_system(&key("b"), system(B)).len(), 2);
        assert_eq!((views.unmarked().len(), views.discovered_of(&key("a")).len()), (1, 1));
    }

    #[test]
    fn what_makers_leave_in_names_no_machine() {
        let mut views = views(&["a"]);
        views.learn_discovered(&machine("00000000-0000-0000-0000-000000000000", 1));
        assert!(views.discovered_table.0.is_empty());
    }
}
