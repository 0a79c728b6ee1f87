//! Hosts that call themselves the same: a UUID that two hosts are known by is identity for neither. Pure.

use firesteel_plan::host::{SharedUuid, usable_uuid};
use firesteel_runtime::HostKey;

use crate::views::Views;

impl Views {
    /// Finds another host that is known by the same UUID.
    pub(crate) fn shared_uuid(&self, key: &HostKey) -> Option<SharedUuid> {
        let uuid = self.hosts.get(key)?.machine.as_ref()?;
        let twin = self.hosts.iter().filter(|(other, twin)| *other != key && twin.machine.as_ref() == Some(uuid));
        let (twin, _) = twin.min_by_key(|(other, _)| *other)?;
        Some(SharedUuid { uuid: uuid.clone(), with: twin.to_string() })
    }

    /// Takes in as what a host was inspected. Returns the hosts that have this UUID, or had the one before, which are
    /// looked at again.
    pub(crate) fn learn_machine(&mut self, key: &HostKey, uuid: &str) -> Vec<HostKey> {
        let now = usable_uuid(uuid);
        let Some(view) = self.hosts.get_mut(key).filter(|view| view.machine != now) else { return Vec::new() };
        let before = std::mem::replace(&mut view.machine, now.clone());
        let concerns = |machine: &Option<String>| machine.is_some() && (*machine == now || *machine == before);
        let others = self.hosts.iter().filter(|(other, view)| *other != key && concerns(&view.machine));
        others.map(|(other, _)| other.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use firesteel_runtime::HostEvents;

    use super::*;
    use crate::views::LiveHost;

    const A: &str = "4c4c4544-0046-3310-8051-b4c04f564432";
    const B: &str = "4C4C4544-0046-3310-8051-B4C04F564433";

    #[test]
    fn hosts_with_one_uuid_name_each_other() {
        let mut views = Views::new(1, HostEvents::default());
        let key = |name: &str| HostKey { namespace: "default".into(), name: name.into() };
        for name in ["a", "b", "c"] {
            views.hosts.insert(key(name), LiveHost::default());
        }
        assert!(views.learn_machine(&key("a"), A).is_empty());
        assert_eq!(views.shared_uuid(&key("a")), None);
        assert_eq!(views.learn_machine(&key("b"), &A.to_uppercase()), [key("a")], "the other one is looked at");
        let shared = |with: &str| Some(SharedUuid { uuid: A.into(), with: format!("default/{with}") });
        assert_eq!((views.shared_uuid(&key("a")), views.shared_uuid(&key("b"))), (shared("b"), shared("a")));
        assert!(views.learn_machine(&key("b"), A).is_empty(), "told once");
        assert!(views.learn_machine(&key("c"), "00000000-0000-0000-0000-000000000000").is_empty());
        assert_eq!(views.learn_machine(&key("b"), B), [key("a")]);
        assert_eq!(views.shared_uuid(&key("a")), None);
    }
}
