//! The addresses at which agents spoke.

use std::collections::{BTreeSet, HashMap};
use std::{net::IpAddr, sync::Arc};

/// The addresses from which the agents of hosts speak: one of each host, which is named by its uid.
#[derive(Debug, Default)]
pub(crate) struct AgentAddresses {
    pub(crate) of_host: HashMap<Arc<str>, (IpAddr, u64)>,
    pub(crate) at: HashMap<IpAddr, BTreeSet<Arc<str>>>,
}

impl AgentAddresses {
    pub(crate) fn note(&mut self, uid: &str, address: IpAddr, attempt: u64) {
        if self.of_host.get(uid) == Some(&(address, attempt)) {
            return;
        }
        self.forget(uid);
        let uid: Arc<str> = Arc::from(uid);
        self.at.entry(address).or_default().insert(Arc::clone(&uid));
        self.of_host.insert(uid, (address, attempt));
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        let Some((address, _)) = self.of_host.remove(uid) else { return };
        if let Some(hosts) = self.at.get_mut(&address) {
            hosts.remove(uid);
            if hosts.is_empty() {
                self.at.remove(&address);
            }
        }
    }

    /// Forgets hosts that are gone.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<Arc<str>> = self.of_host.keys().filter(|uid| !is_there(uid)).cloned().collect();
        gone.iter().for_each(|uid| self.forget(uid));
    }

    /// The hosts whose agents speak from there, and in which attempt.
    pub(crate) fn at(&self, address: IpAddr) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let hosts = self.at.get(&address).into_iter().flatten();
        hosts.filter_map(move |uid| self.of_host.get(uid).map(|(_, attempt)| (uid, *attempt)))
    }
}
