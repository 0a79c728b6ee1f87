//! The peer at the other end of a NIC's cable, by what was heard there (LLDP). It is a claim of the sender.

use serde::{Deserialize, Serialize};

use super::{HardwareRecord, NicRecord, changes};
use crate::hardware_data::{Lldp, Vlan};
use crate::zero::is_zero;

/// Empty texts and zeros are what was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NeighbourRecord {
    /// The boot in which it was heard, which may be one before that of the record: switches speak each 30 s,
    /// and not every inspection waits for them.
    pub attempt: u64,
    /// A MAC address, an IP address or a text, by what the switch chose.
    #[serde(rename = "switchID")]
    pub switch_id: String,
    #[serde(rename = "portID")]
    pub port_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub port_description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub switch_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub switch_description: String,
    /// Addresses at which the switch is managed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// VLAN of frames without a tag.
    #[serde(skip_serializing_if = "is_zero")]
    pub port_vlan: u16,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
    /// The port is one of several in an aggregation.
    #[serde(skip_serializing_if = "is_zero")]
    pub aggregated: bool,
    /// Largest frame in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub frame_bytes_max: u16,
}

/// What was heard on one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicNeighbour {
    /// The NIC's name in that boot, and its address.
    pub nic: String,
    pub mac: String,
    pub neighbour: NeighbourRecord,
}

impl NeighbourRecord {
    /// Switch and port in one word: what tells one place from another.
    #[must_use]
    pub fn place(&self) -> String {
        let switch = if self.switch_name.is_empty() { &self.switch_id } else { &self.switch_name };
        format!("{switch} {}", self.port_id)
    }

    pub(super) fn lldp(&self) -> Lldp {
        Lldp {
            port_id: self.port_id.clone(),
            switch_id: self.switch_id.clone(),
            switch_system_name: self.switch_name.clone(),
        }
    }
}

impl HardwareRecord {
    /// Whether [`HardwareRecord::merge_neighbours`] would change anything.
    #[must_use]
    pub fn is_news(&self, heard: &[NicNeighbour]) -> bool {
        heard.iter().any(|one| {
            let nic = position(&self.nics, one).and_then(|at| self.nics.get(at));
            nic.is_some_and(|nic| nic.neighbour.as_deref() != Some(&one.neighbour))
        })
    }

    /// Takes in what was heard; a cable that was moved since is one of the record's changes.
    pub fn merge_neighbours(&mut self, heard: &[NicNeighbour]) {
        for one in heard {
            let Some(nic) = position(&self.nics, one).and_then(|at| self.nics.get_mut(at)) else { continue };
            let before = nic.neighbour.replace(Box::new(one.neighbour.clone()));
            let moved = before.filter(|before| before.place() != one.neighbour.place());
            if let Some(before) = moved.filter(|_| self.changes.len() < changes::CHANGES_MAX) {
                let (now, before) = (one.neighbour.place(), before.place());
                self.changes.push(format!("NIC {} ({}), cable: {now}, before {before}", nic.mac, nic.driver));
            }
        }
    }

    /// What was heard before stays until something else is heard.
    pub fn keep_neighbours(&mut self, old: &Self) {
        for nic in &mut self.nics {
            let same = old.nics.iter().find(|was| was.mac == nic.mac && was.pci_address == nic.pci_address);
            nic.neighbour = same.and_then(|was| was.neighbour.clone());
        }
    }
}

/// Finds the NIC by its address, and by its name if several have one address.
fn position(nics: &[NicRecord], heard: &NicNeighbour) -> Option<usize> {
    let mut alike = nics.iter().enumerate().filter(|(_, nic)| nic.mac == heard.mac);
    let (first, _) = alike.next()?;
    match alike.next() {
        None => Some(first),
        Some(_) => nics.iter().position(|nic| nic.mac == heard.mac && nic.name == heard.nic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, mac: &str) -> NicRecord {
        NicRecord { name: name.into(), mac: mac.into(), driver: "ice".into(), ..NicRecord::default() }
    }

    fn heard(nic: &str, mac: &str, port: &str, attempt: u64) -> NicNeighbour {
        let neighbour = NeighbourRecord {
            attempt,
            switch_id: "00:1c:73:aa:bb:cc".into(),
            port_id: port.into(),
            ..NeighbourRecord::default()
        };
        NicNeighbour { nic: nic.into(), mac: mac.into(), neighbour }
    }

    fn record(nics: Vec<NicRecord>) -> HardwareRecord {
        HardwareRecord { nics, ..HardwareRecord::default() }
    }

    #[test]
    fn a_late_answer_is_taken_in_once() {
        let mut record = record(vec![nic("eth0", "a"), nic("eth1", "b")]);
        let late = [heard("eth1", "b", "1", 1), heard("eth9", "c", "2", 1)];
        assert!(record.is_news(&late));
        record.merge_neighbours(&late);
        assert!(!record.is_news(&late), "who is not listed is no news for ever");
        assert_eq!(record.nics[0].neighbour, None);
        assert_eq!(
            record.nics[1].neighbour.as_deref().map(NeighbourRecord::place).as_deref(),
            Some("00:1c:73:aa:bb:cc 1")
        );
        assert_eq!(record.changes, Vec::<String>::new());
    }

    #[test]
    fn twins_are_told_apart_by_name() {
        let mut record = record(vec![nic("eth0", "a"), nic("eth1", "a")]);
        record.merge_neighbours(&[heard("eth1", "a", "1", 1), heard("eth7", "a", "2", 1)]);
        assert_eq!((record.nics[0].neighbour.is_some(), record.nics[1].neighbour.is_some()), (false, true));
    }

    #[test]
    fn a_cable_that_was_moved_between_two_inspections_is_a_change_however_late_it_is_seen() {
        let mut old = record(vec![nic("eth0", "a"), nic("eth1", "b")]);
        old.merge_neighbours(&[heard("eth0", "a", "1", 1), heard("eth1", "b", "2", 1)]);
        let mut new = record(vec![nic("eth0", "a"), nic("eth1", "b")]);
        new.keep_neighbours(&old);
        assert_eq!(new.nics[0].neighbour.as_ref().map(|neighbour| neighbour.attempt), Some(1));
        new.merge_neighbours(&[heard("eth0", "a", "1", 2), heard("eth1", "b", "7", 2)]);
        let switch = "00:1c:73:aa:bb:cc";
        assert_eq!(new.changes, [format!("NIC b (ice), cable: {switch} 7, before {switch} 2")]);
        assert_eq!(new.nics[0].neighbour.as_ref().map(|neighbour| neighbour.attempt), Some(2));
    }
}
