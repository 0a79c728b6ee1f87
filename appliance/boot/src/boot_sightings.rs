//! Which machines boot from the network, and how far each came: a table in memory. Pure: the time is given.
//!
//! Strangers fill their own part, where the one that was silent for longest goes first; hosts keep theirs.

use std::collections::BTreeMap;

use firesteel_facts::Mac;
use jiff::Timestamp;

use crate::boot_sighting::{Sighting, SightingStage, StalledBoot};

/// Machines that are no hosts; as many as the store remembers once their agents said hello.
pub const STRANGERS_MAX: usize = 1024;
/// Hosts whose last boot is remembered: as many as are powered on together.
pub const HOSTS_MAX: usize = 4096;

/// All machines that were seen.
#[derive(Debug, Default)]
pub struct Sightings {
    strangers: BTreeMap<Mac, Sighting>,
    hosts: BTreeMap<Mac, Sighting>,
}

impl Sightings {
    /// Takes in what a machine did; whether a stall that was reported is over by it.
    pub fn note(&mut self, mac: Mac, stage: SightingStage, is_host: bool, now: Timestamp) -> bool {
        let (part, other, most) = if is_host {
            (&mut self.hosts, &mut self.strangers, HOSTS_MAX)
        } else {
            (&mut self.strangers, &mut self.hosts, STRANGERS_MAX)
        };
        // It became a host since, or was deleted as one.
        if let Some(seen) = other.remove(&mac) {
            make_room(part, mac, most);
            part.insert(mac, seen);
        }
        if let Some(seen) = part.get_mut(&mac) {
            return seen.take(stage, now);
        }
        make_room(part, mac, most);
        part.insert(mac, Sighting::new(stage, now));
        false
    }

    /// Notes what the machine's SMBIOS holds that is no text; empty where it holds nothing such.
    pub fn note_odd(&mut self, mac: Mac, odd: String) {
        if let Some(seen) = self.strangers.get_mut(&mac).or_else(|| self.hosts.get_mut(&mac)) {
            seen.odd = odd;
        }
    }

    #[must_use]
    pub fn get(&self, mac: Mac) -> Option<&Sighting> {
        self.hosts.get(&mac).or_else(|| self.strangers.get(&mac))
    }

    /// All machines, the hosts' too.
    pub fn iter(&self) -> impl Iterator<Item = (Mac, &Sighting)> {
        self.strangers.iter().chain(&self.hosts).map(|(mac, seen)| (*mac, seen))
    }

    /// When [`Sightings::handle_timeout`] has something to say, unless the machines go on before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.iter().filter(|(_, seen)| !seen.is_reported).filter_map(|(_, seen)| seen.next_stage_by()).min()
    }

    /// Reports each boot that came to a stop, once.
    pub fn handle_timeout(&mut self, now: Timestamp) -> Vec<(Mac, StalledBoot)> {
        let mut stalls = Vec::new();
        for (mac, seen) in self.strangers.iter_mut().chain(&mut self.hosts) {
            let stall = seen.stall(now).filter(|_| !seen.is_reported).cloned();
            seen.is_reported |= stall.is_some();
            stalls.extend(stall.map(|stall| (*mac, stall)));
        }
        stalls
    }
}

fn make_room(part: &mut BTreeMap<Mac, Sighting>, mac: Mac, most: usize) {
    if part.len() < most || part.contains_key(&mac) {
        return;
    }
    let silent = part.iter().min_by_key(|(_, seen)| seen.at).map(|(mac, _)| *mac);
    silent.and_then(|silent| part.remove(&silent));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn mac(number: usize) -> Mac {
        let [.., a, b, c] = number.to_be_bytes();
        Mac([0x52, 0x54, 0, a, b, c])
    }

    fn loader() -> SightingStage {
        SightingStage::Loader { file: "snponly.efi".into(), via: "tftp" }
    }

    #[test]
    fn the_stranger_that_was_silent_for_longest_goes_first() {
        let mut table = Sightings::default();
        for number in 0..STRANGERS_MAX {
            table.note(mac(number), SightingStage::Ipxe, false, at(i64::try_from(number).unwrap()));
        }
        table.note(mac(0), SightingStage::Script { is_uefi: false }, false, at(5000));
        table.note(mac(STRANGERS_MAX), SightingStage::Ipxe, false, at(5001));
        assert_eq!(table.iter().count(), STRANGERS_MAX);
        assert!(table.get(mac(0)).is_some() && table.get(mac(1)).is_none());
        assert_eq!(table.get(mac(0)).unwrap().first_at, at(0));
    }

    #[test]
    fn a_flood_of_strangers_takes_no_place_of_hosts() {
        let mut table = Sightings::default();
        table.note(mac(1), loader(), true, at(0));
        for number in 2..3 * STRANGERS_MAX {
            table.note(mac(number), SightingStage::Ipxe, false, at(1));
        }
        assert_eq!(table.iter().count(), STRANGERS_MAX + 1);
        assert!(table.get(mac(1)).is_some());
        for number in 10_000..10_001 + HOSTS_MAX {
            table.note(mac(number), SightingStage::Ipxe, true, at(2));
        }
        assert_eq!(table.iter().count(), STRANGERS_MAX + HOSTS_MAX);
    }

    #[test]
    fn a_stall_is_reported_once_and_may_end() {
        let mut table = Sightings::default();
        table.note(mac(1), loader(), false, at(0));
        table.note(mac(2), loader(), true, at(10));
        table.note(mac(3), SightingStage::Kernel, true, at(0));
        assert_eq!(table.poll_timeout(), Some(at(90)));
        assert!(table.handle_timeout(at(89)).is_empty());
        assert_eq!(table.handle_timeout(at(90)).iter().map(|(mac, _)| *mac).collect::<Vec<_>>(), [mac(1)]);
        assert_eq!(table.poll_timeout(), Some(at(100)));
        assert_eq!(table.handle_timeout(at(100)).iter().map(|(mac, _)| *mac).collect::<Vec<_>>(), [mac(2)]);
        assert!(table.handle_timeout(at(9999)).is_empty() && table.poll_timeout().is_none());
        assert!(!table.note(mac(2), loader(), true, at(200)), "it was fetched again and is still not back");
        assert!(table.note(mac(2), SightingStage::Ipxe, true, at(201)), "it came back");
        assert!(!table.note(mac(2), SightingStage::Script { is_uefi: false }, true, at(202)));
    }

    #[test]
    fn a_machine_that_becomes_a_host_is_seen_on() {
        let mut table = Sightings::default();
        table.note(mac(1), loader(), false, at(0));
        table.note_odd(mac(1), "odd".into());
        table.note(mac(1), SightingStage::Leased([10, 0, 0, 1].into()), true, at(20));
        let seen = table.get(mac(1)).unwrap();
        assert_eq!((seen.first_at, &seen.stage, seen.odd.as_str()), (at(0), &loader(), "odd"));
        assert_eq!(table.iter().count(), 1);
    }
}
