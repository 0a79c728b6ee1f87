//! First boots of machines that have no object yet: which numbers were given out and not taken. Pure.
//!
//! Such a boot's token names no object that could say which key has it, so it is good for one hello, and only as long
//! as this process remembers that it gave it out. A hello that comes later, or after a restart, has to boot again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use firesteel_facts::Mac;
use firesteel_runtime::lock;

use crate::{DISCOVERED_MAX, observations::FETCHING_MAX};

/// The newest number of each machine. Where there are too many, the oldest goes first of those that fetch nothing: to
/// ask for a boot script costs nothing, and a machine that boots fetches its kernel next. Those that fetch have
/// [`FETCHING_MAX`] places; beyond that the oldest of them goes.
#[derive(Debug, Default)]
pub(crate) struct FirstBoots {
    given: Mutex<BTreeMap<Mac, u64>>,
}

impl FirstBoots {
    /// Gives out a number, `now` or a higher one; an earlier one of the machine is worth nothing from now on.
    /// `fetching` are the machines that have fetched some of their boot files.
    pub(crate) fn give(&self, mac: Mac, now: u64, fetching: impl FnOnce() -> BTreeSet<Mac>) -> u64 {
        let mut given = lock(&self.given);
        let number = given.get(&mac).map_or(now, |last| now.max(last.saturating_add(1)));
        if given.len() >= DISCOVERED_MAX && !given.contains_key(&mac) {
            let fetching = fetching();
            let is_crowded = given.keys().filter(|mac| fetching.contains(*mac)).count() > FETCHING_MAX;
            let rank = |(mac, number): &(&Mac, &u64)| (fetching.contains(*mac) != is_crowded, **number);
            let oldest = given.iter().min_by_key(rank).map(|(mac, _)| *mac);
            oldest.and_then(|oldest| given.remove(&oldest));
        }
        given.insert(mac, number);
        number
    }

    /// Says whether this number is the newest of the machine, and nothing has taken it.
    pub(crate) fn is_given(&self, mac: Mac, number: u64) -> bool {
        lock(&self.given).get(&mac) == Some(&number)
    }

    /// Takes a number, once, and says whether it was there to be taken.
    pub(crate) fn take(&self, mac: Mac, number: u64) -> bool {
        let mut given = lock(&self.given);
        let is_given = given.get(&mac) == Some(&number);
        if is_given {
            given.remove(&mac);
        }
        is_given
    }

    /// Gives a number back that was taken for nothing, unless a newer one was given out.
    pub(crate) fn put_back(&self, mac: Mac, number: u64) {
        let mut given = lock(&self.given);
        given.entry(mac).or_insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(number: usize) -> Mac {
        let [.., a, b, c] = number.to_be_bytes();
        Mac([0x52, 0x54, 0, a, b, c])
    }

    #[test]
    fn a_number_is_taken_once_and_only_the_newest() {
        let boots = FirstBoots::default();
        let first = boots.give(mac(1), 100, BTreeSet::new);
        let second = boots.give(mac(1), 90, BTreeSet::new);
        assert_eq!((first, second), (100, 101), "the clock was set back");
        assert!(!boots.take(mac(1), first) && !boots.take(mac(2), second));
        assert!(boots.take(mac(1), second) && !boots.take(mac(1), second));
        boots.put_back(mac(1), second);
        assert!(boots.take(mac(1), second));
    }

    #[test]
    fn a_flood_is_bounded() {
        let boots = FirstBoots::default();
        for number in 0..=DISCOVERED_MAX {
            boots.give(mac(number), number as u64, || [mac(0)].into());
        }
        assert!(!boots.take(mac(1), 1) && boots.take(mac(2), 2));
        assert!(boots.take(mac(0), 0), "it fetches its files meanwhile");
    }

    /// Machines that had fetched a byte once kept their places, and two others that booted took each other's.
    #[test]
    fn machines_that_fetch_have_half_of_the_places() {
        let boots = FirstBoots::default();
        let fetching = || (0..DISCOVERED_MAX).map(mac).collect::<BTreeSet<_>>();
        for number in (0..DISCOVERED_MAX).chain([5000, 5001]) {
            boots.give(mac(number), number as u64, fetching);
        }
        assert!(boots.take(mac(5000), 5000) && boots.take(mac(5001), 5001));
        assert!(!boots.take(mac(0), 0) && !boots.take(mac(1), 1) && boots.take(mac(2), 2), "the oldest of them go");
    }
}
