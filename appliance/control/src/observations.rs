//! What was seen of boots, of hosts and of machines that no host is: [`Observation`], kept by who boots.
//!
//! ```text
//!   boot.rs: a token is made ──────────────► grant ──► BootSeal, in the token
//!   http: bytes are handed to a connection ─► boot_bytes_sent
//!   agents.rs, discovery.rs: a first hello ─► hello_counts
//! ```
//!
//! It is in memory; of hosts, what is whole is written as well ([`crate::boot_record`]), and counts after a restart.

use firesteel_facts::Mac;
use std::collections::{BTreeMap, BTreeSet};

use firesteel_boot::Observation;
use jiff::Timestamp;

use crate::DISCOVERED_MAX;

/// Places of machines that have fetched something, of those for all. A byte is soon fetched in a name that is made up:
/// they must leave places to machines that are about to.
pub(crate) const FETCHING_MAX: usize = DISCOVERED_MAX / 2;

/// Boots of machines that no host is. Where there are too many, the one that was silent for longest goes first of those
/// that have fetched nothing: anybody can ask for boot scripts in many names, and only machines that boot fetch files.
/// Beyond [`FETCHING_MAX`] of these the most silent of them goes.
#[derive(Debug, Default)]
pub(crate) struct StrangerBoots(BTreeMap<Mac, StrangerBoot>);

#[derive(Debug)]
struct StrangerBoot {
    seen: Observation,
    heard_at: Timestamp,
    has_fetched: bool,
}

impl StrangerBoot {
    fn of(number: u64, now: Timestamp) -> Self {
        Self { seen: Observation::of(number), heard_at: now, has_fetched: false }
    }
}

impl StrangerBoots {
    /// What was seen of the boot of this number, of which something is seen now.
    pub(crate) fn boot(&mut self, mac: Mac, number: u64, now: Timestamp) -> &mut Observation {
        if self.0.len() >= DISCOVERED_MAX && !self.0.contains_key(&mac) {
            let is_crowded = self.0.values().filter(|boot| boot.has_fetched).count() > FETCHING_MAX;
            let rank = |(mac, boot): &(&Mac, &StrangerBoot)| (boot.has_fetched != is_crowded, boot.heard_at, **mac);
            let silent = self.0.iter().min_by_key(rank).map(|(mac, _)| *mac);
            silent.and_then(|silent| self.0.remove(&silent));
        }
        let boot = self.0.entry(mac).or_insert_with(|| StrangerBoot::of(number, now));
        if boot.seen.attempt() != number {
            *boot = StrangerBoot::of(number, now);
        }
        boot.heard_at = now;
        &mut boot.seen
    }

    pub(crate) fn get(&self, mac: Mac, number: u64) -> Option<&Observation> {
        self.0.get(&mac).map(|boot| &boot.seen).filter(|boot| boot.attempt() == number)
    }

    /// The machine has fetched some of its boot files.
    pub(crate) fn has_fetched(&mut self, mac: Mac) {
        if let Some(boot) = self.0.get_mut(&mac) {
            boot.has_fetched = true;
        }
    }

    /// The machines that have.
    pub(crate) fn fetching(&self) -> BTreeSet<Mac> {
        self.0.iter().filter(|(_, boot)| boot.has_fetched).map(|(mac, _)| *mac).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_boots_is_bounded_and_a_new_boot_begins_with_nothing() {
        let mut boots = StrangerBoots::default();
        let mac = |number: u64| {
            let [.., a, b, c] = number.to_be_bytes();
            Mac([0x52, 0x54, 0, a, b, c])
        };
        let at = |second: u64| Timestamp::from_second(second.cast_signed()).unwrap_or_default();
        boots.boot(mac(0), 0, at(0));
        boots.has_fetched(mac(0));
        for number in 1..=DISCOVERED_MAX as u64 {
            boots.boot(mac(number), number, at(number));
            boots.boot(mac(1), 1, at(number));
        }
        assert_eq!((boots.0.len(), boots.fetching()), (DISCOVERED_MAX, [mac(0)].into()));
        assert!(boots.get(mac(0), 0).is_some(), "it has fetched its files and boots");
        assert!(boots.get(mac(1), 1).is_some() && boots.get(mac(2), 2).is_none(), "who was silent for longest goes");
        boots.boot(mac(1), 5000, at(5000));
        assert!(boots.get(mac(1), 1).is_none() && boots.get(mac(1), 5000).is_some());
    }

    /// Boots that had fetched a byte once and were silent since left no place to others.
    #[test]
    fn boots_that_have_fetched_something_have_half_of_the_places() {
        let mut boots = StrangerBoots::default();
        let mac = |number: usize| {
            let [.., a, b, c] = number.to_be_bytes();
            Mac([0x52, 0x54, 0, a, b, c])
        };
        for number in 0..DISCOVERED_MAX {
            boots.boot(mac(number), 1, Timestamp::UNIX_EPOCH);
            boots.has_fetched(mac(number));
        }
        for number in [5000, 5001] {
            boots.boot(mac(number), 1, Timestamp::MAX);
        }
        assert!(boots.get(mac(5000), 1).is_some() && boots.get(mac(5001), 1).is_some());
        assert!(boots.get(mac(0), 1).is_none() && boots.get(mac(1), 1).is_none() && boots.get(mac(2), 1).is_some());
    }
}
