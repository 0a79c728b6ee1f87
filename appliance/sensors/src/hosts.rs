//! The hosts that have a BMC, as their own controller publishes them.

use std::collections::BTreeMap;

use firesteel_facts::bmc_address::BmcAddress;
use firesteel_runtime::{HostEvent, HostInbox, HostKey, SteppedHost};

/// A host whose BMC may have sensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SensorHost {
    pub(crate) uid: String,
    /// `spec.bmc.address`: another one is another machine.
    pub(crate) address: String,
    /// Host and port of the BMC, which several hosts may share.
    pub(crate) place: String,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct SensorHosts {
    inbox: HostInbox,
    hosts: BTreeMap<HostKey, SensorHost>,
    /// Counts the changes.
    version: u64,
}

impl SensorHosts {
    pub(crate) fn new(inbox: HostInbox) -> Self {
        Self { inbox, hosts: BTreeMap::new(), version: 0 }
    }

    /// Takes in what happened since. `true`: it concerns the sensors.
    pub(crate) fn update(&mut self) -> bool {
        let before = self.version;
        for (key, event) in self.inbox.drain() {
            match event {
                HostEvent::Stepped(stepped) => self.set(key, sensor_host(&stepped)),
                HostEvent::Gone => self.set(key, None),
                // A namesake of a host is stepped before its BMC is known.
                HostEvent::Present { uid } => {
                    if self.hosts.get(&key).is_some_and(|known| known.uid != uid) {
                        self.set(key, None);
                    }
                }
                HostEvent::MemoryUnreadable { .. } | HostEvent::Undecodable { .. } | HostEvent::Decodable => {}
            }
        }
        self.version != before
    }

    fn set(&mut self, key: HostKey, host: Option<SensorHost>) {
        if self.hosts.get(&key) == host.as_ref() {
            return;
        }
        self.version += 1;
        match host {
            Some(host) => self.hosts.insert(key, host),
            None => self.hosts.remove(&key),
        };
    }

    /// Returns the number of the last change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn all(&self) -> &BTreeMap<HostKey, SensorHost> {
        &self.hosts
    }
}

/// A host that is let alone, or whose BMC is not named, has no sensors to read.
fn sensor_host(stepped: &SteppedHost) -> Option<SensorHost> {
    let bmc = stepped.host.spec.usable_bmc().filter(|_| stepped.memory.detached.is_none())?;
    let place = BmcAddress::parse(&bmc.address).ok()?.place();
    Some(SensorHost { uid: stepped.host.metadata.uid.clone(), address: bmc.address.clone(), place })
}
