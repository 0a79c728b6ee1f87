//! How many hosts are worked on at a time: each boot loads DHCP, TFTP and the wire, and a hundred hosts that boot
//! together time out together.
//!
//! A host takes a slot to be inspected, provisioned or deprovisioned, and gives it back when it rests or waits for its
//! next try, so that hosts that fail do not keep the others out. A host that finds none waits in line: deletions first,
//! then by time. Deletions have some slots of their own beyond the limit, so that they go on whatever fills the others;
//! each of them ends or gives up, so that the line of deletions moves, too.
//!
//! ```text
//!   offer(host) ──► step(host) ──► settle(host, what it does now) ──► wake those who may begin
//! ```

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Hosts at a time (upstream's default).
pub const AT_ONCE: usize = 20;
/// Slots beyond the limit for hosts that are to be deleted.
pub const FOR_DELETIONS: usize = 5;

/// What a host may do in its step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotOffer {
    /// It may begin, or go on.
    #[default]
    Free,
    /// All places are taken: `busy` hosts are at work, and `ahead` hosts wait before this one.
    Full { busy: usize, ahead: usize },
    /// After a start, not all hosts have said yet whether they are at work.
    NotCounted,
}

/// What a host does after its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotDemand {
    /// It needs no slot.
    Idle,
    Waiting {
        since: Timestamp,
    },
    Busy,
}

/// The slots of all hosts. Memory of a process: each host's own says whether it has one.
#[derive(Clone, Debug)]
pub struct Slots<K> {
    limit: usize,
    /// Whether each is to be deleted.
    busy: BTreeMap<K, bool>,
    /// Slots that are kept for a step under way.
    kept: BTreeSet<K>,
    /// Waiting hosts by rank: deletions come first.
    line: BTreeSet<(bool, Timestamp, K)>,
    /// Hosts that have not said anything since the start; `None` before they are known.
    uncounted: Option<BTreeSet<K>>,
}

impl<K: Ord + Clone> Slots<K> {
    /// `limit`: hosts at a time, deletions apart; at least one.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            busy: BTreeMap::new(),
            kept: BTreeSet::new(),
            line: BTreeSet::new(),
            uncounted: None,
        }
    }

    /// Takes note of the hosts that exist at the start: no host begins before each has said what it does.
    pub fn expect(&mut self, hosts: impl IntoIterator<Item = K>) {
        self.uncounted.get_or_insert_with(|| hosts.into_iter().collect());
    }

    /// Whether each host that existed at the start has been looked at.
    #[must_use]
    pub fn are_counted(&self) -> bool {
        self.uncounted.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// The hosts that have a slot.
    pub fn busy(&self) -> impl Iterator<Item = &K> {
        self.busy.keys()
    }

    /// Whether the host may take a slot in its next step; one that is free is kept for it until
    /// [`Slots::update_slot`]. `has`: its memory says that it has one, which it keeps.
    pub fn offer(&mut self, host: &K, has: bool, deletes: bool) -> SlotOffer {
        if has || self.busy.contains_key(host) {
            self.busy.insert(host.clone(), deletes);
            return SlotOffer::Free;
        }
        if !self.are_counted() {
            return SlotOffer::NotCounted;
        }
        let ahead = self.hosts_ahead(host, deletes);
        if ahead >= self.room(deletes) {
            return SlotOffer::Full { busy: self.busy.len(), ahead };
        }
        self.busy.insert(host.clone(), deletes);
        self.kept.insert(host.clone());
        SlotOffer::Free
    }

    /// Counts a host whose step failed before it could say what it does, as far as that is known. The hosts that may
    /// begin now come back. `has`: whether its memory says that it has a slot, for what a store failed to acknowledge
    /// it may have kept; `None` where that cannot be read.
    #[must_use]
    pub fn cannot_say(&mut self, host: &K, has: Option<bool>) -> Vec<K> {
        let was_last = self.count(host);
        // What is kept for a step that took nothing is free again; what it has had before it may still have.
        let gave_back = has == Some(false) && self.kept.remove(host) && self.busy.remove(host).is_some();
        if has == Some(true) {
            self.kept.remove(host);
            self.busy.entry(host.clone()).or_default();
        }
        if gave_back || was_last { self.next() } else { Vec::new() }
    }

    /// Takes note of what the host does since its step; the hosts that may begin now come back.
    #[must_use]
    pub fn update_slot(&mut self, host: &K, standing: SlotDemand, deletes: bool) -> Vec<K> {
        let was_last = self.count(host);
        self.line.retain(|(_, _, waiting)| waiting != host);
        let had = self.busy.remove(host).is_some();
        self.kept.remove(host);
        match standing {
            SlotDemand::Idle => {}
            SlotDemand::Waiting { since } => {
                self.line.insert((!deletes, since, host.clone()));
            }
            SlotDemand::Busy => {
                self.busy.insert(host.clone(), deletes);
            }
        }
        let gave_back = had && standing != SlotDemand::Busy;
        if gave_back || was_last { self.next() } else { Vec::new() }
    }

    /// Forgets a host that is gone.
    #[must_use]
    pub fn forget(&mut self, host: &K) -> Vec<K> {
        self.update_slot(host, SlotDemand::Idle, false)
    }

    /// Is true when it was the last to be counted.
    fn count(&mut self, host: &K) -> bool {
        let Some(uncounted) = &mut self.uncounted else { return false };
        uncounted.remove(host) && uncounted.is_empty()
    }

    /// Slots that are free for hosts of this kind.
    fn room(&self, deletes: bool) -> usize {
        let free = self.limit.saturating_sub(self.busy.len());
        if !deletes {
            return free;
        }
        let deleting = self.busy.values().filter(|deletes| **deletes).count();
        free.max(FOR_DELETIONS.saturating_sub(deleting))
    }

    /// Counts the hosts in line before this one; one that is not in line would be its kind's last.
    fn hosts_ahead(&self, host: &K, deletes: bool) -> usize {
        let rank = !deletes;
        let own = self.line.iter().find(|(_, _, waiting)| waiting == host).map(|(_, since, _)| *since);
        let end = own.unwrap_or(Timestamp::MAX);
        let is_before = |place: &&(bool, Timestamp, K)| (place.0, place.1, &place.2) < (rank, end, host);
        self.line.iter().filter(is_before).count()
    }

    /// The hosts in line that would find a slot now.
    fn next(&self) -> Vec<K> {
        let all = self.line.iter();
        let may_begin = |(number, (ordinary, _, _)): &(usize, &(bool, Timestamp, K))| *number < self.room(!*ordinary);
        all.enumerate().filter(may_begin).map(|(_, (_, _, host))| host.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOBODY: [u32; 0] = [];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    fn full() -> Slots<u32> {
        let mut slots = Slots::new(20);
        slots.expect([]);
        for host in 0..20 {
            assert_eq!(slots.offer(&host, false, false), SlotOffer::Free);
            assert_eq!(slots.update_slot(&host, SlotDemand::Busy, false), NOBODY);
        }
        slots
    }

    fn waits(slots: &mut Slots<u32>, host: u32, deletes: bool, since: i64) {
        assert!(matches!(slots.offer(&host, false, deletes), SlotOffer::Full { .. }));
        assert_eq!(slots.update_slot(&host, SlotDemand::Waiting { since: at(since) }, deletes), NOBODY);
    }

    #[test]
    fn the_twenty_first_waits_and_begins_when_one_ends() {
        let mut slots = full();
        assert_eq!(slots.offer(&20, false, false), SlotOffer::Full { busy: 20, ahead: 0 });
        waits(&mut slots, 20, false, 1);
        waits(&mut slots, 21, false, 2);
        assert_eq!(slots.offer(&22, false, false), SlotOffer::Full { busy: 20, ahead: 2 });
        assert_eq!(slots.update_slot(&7, SlotDemand::Idle, false), [20]);
        assert!(matches!(slots.offer(&21, false, false), SlotOffer::Full { ahead: 1, .. }), "nobody jumps the line");
        assert_eq!(slots.offer(&20, false, false), SlotOffer::Free);
        assert!(matches!(slots.offer(&21, false, false), SlotOffer::Full { .. }), "it is kept during the step");
        assert_eq!(slots.update_slot(&20, SlotDemand::Busy, false), NOBODY);
    }

    #[test]
    fn deletions_have_their_own_slots_and_go_first() {
        let mut slots = full();
        waits(&mut slots, 30, false, 1);
        for host in 100..105 {
            assert_eq!(slots.offer(&host, false, true), SlotOffer::Free);
            assert_eq!(slots.update_slot(&host, SlotDemand::Busy, true), NOBODY);
        }
        waits(&mut slots, 105, true, 9);
        assert_eq!(slots.update_slot(&100, SlotDemand::Idle, true), [105]);
        assert_eq!(slots.offer(&105, false, true), SlotOffer::Free);
        assert_eq!(slots.update_slot(&105, SlotDemand::Busy, true), NOBODY);
        assert_eq!(
            slots.update_slot(&0, SlotDemand::Idle, false),
            NOBODY,
            "deletions beyond the limit are worked off first"
        );
        for host in [1, 2, 3, 4] {
            assert_eq!(slots.update_slot(&host, SlotDemand::Idle, false), NOBODY);
        }
        assert_eq!(slots.update_slot(&5, SlotDemand::Idle, false), [30]);
    }

    #[test]
    fn after_a_start_nobody_begins_before_all_are_counted() {
        let mut slots = Slots::<u32>::new(1);
        assert_eq!(slots.offer(&1, false, false), SlotOffer::NotCounted);
        slots.expect([1, 2, 3]);
        assert_eq!(slots.offer(&1, false, false), SlotOffer::NotCounted);
        assert_eq!(slots.update_slot(&1, SlotDemand::Waiting { since: at(1) }, false), NOBODY);
        assert_eq!(slots.offer(&2, true, false), SlotOffer::Free, "it was at work");
        assert_eq!(slots.update_slot(&2, SlotDemand::Busy, false), NOBODY);
        assert_eq!(slots.forget(&3), NOBODY, "all are counted, and all slots are taken");
        assert_eq!(slots.forget(&2), [1]);
        slots.expect([1]);
        assert_eq!(slots.offer(&1, false, false), SlotOffer::Free, "once");
    }

    /// One host whose journal could not be stored kept all others from beginning after a restart.
    #[test]
    fn a_host_that_cannot_say_holds_up_nobody() {
        let mut slots = Slots::<u32>::new(1);
        slots.expect([1, 2]);
        assert_eq!(slots.offer(&1, false, false), SlotOffer::NotCounted);
        assert_eq!(slots.update_slot(&1, SlotDemand::Waiting { since: at(1) }, false), NOBODY);
        assert_eq!(slots.cannot_say(&2, Some(false)), [1], "all are counted as far as they can be");
        assert_eq!(slots.offer(&2, false, false), SlotOffer::Full { busy: 0, ahead: 1 });
        assert_eq!(slots.offer(&1, false, false), SlotOffer::Free);
        assert_eq!(slots.update_slot(&1, SlotDemand::Idle, false), NOBODY);
        assert_eq!(slots.offer(&2, false, false), SlotOffer::Free);
        waits(&mut slots, 1, false, 3);
        assert_eq!(slots.cannot_say(&2, None), NOBODY, "it may have taken what was kept for its step");
        assert!(matches!(slots.offer(&1, false, false), SlotOffer::Full { .. }));
        assert_eq!(slots.offer(&2, false, false), SlotOffer::Free);
        assert_eq!(slots.cannot_say(&2, Some(false)), [1], "the slot that was kept for its step is free again");
        assert_eq!(slots.offer(&1, false, false), SlotOffer::Free);
        assert_eq!(slots.update_slot(&1, SlotDemand::Busy, false), NOBODY);
        assert_eq!(slots.offer(&1, true, false), SlotOffer::Free);
        assert_eq!(slots.cannot_say(&1, Some(false)), NOBODY);
        assert!(
            matches!(slots.offer(&2, false, false), SlotOffer::Full { busy: 1, .. }),
            "what it had it may still have"
        );
    }

    /// A store that kept the step's outcome and could not say so let another host begin beyond the limit.
    #[test]
    fn a_slot_that_was_taken_without_the_stores_word_is_taken() {
        let mut slots = Slots::<u32>::new(1);
        slots.expect([]);
        assert_eq!(slots.offer(&1, false, false), SlotOffer::Free);
        waits(&mut slots, 2, false, 1);
        assert_eq!(slots.cannot_say(&1, Some(true)), NOBODY);
        assert!(matches!(slots.offer(&2, false, false), SlotOffer::Full { busy: 1, .. }));
        assert_eq!(slots.offer(&1, true, false), SlotOffer::Free);
        assert_eq!(slots.update_slot(&1, SlotDemand::Idle, false), [2]);
    }

    proptest! {
        /// Whatever the order in which hosts ask, end, wait and go: the limits hold, and with no host at work
        /// the line moves.
        #[test]
        fn the_limits_hold_and_the_line_moves(story in prop::collection::vec((0_u32..12, 0_u8..5, any::<bool>()), 0..200)) {
            let mut slots = Slots::new(3);
            slots.expect([]);
            for (second, (host, what, deletes)) in story.into_iter().enumerate() {
                let since = at(i64::try_from(second).unwrap_or(0));
                let ordinary = slots.busy.values().filter(|deletes| !**deletes).count();
                match what {
                    0..=2 => {
                        let had = slots.busy.contains_key(&host);
                        let offer = slots.offer(&host, false, deletes);
                        let waiting = SlotDemand::Waiting { since };
                        let standing = if offer == SlotOffer::Free { SlotDemand::Busy } else { waiting };
                        let woken = slots.update_slot(&host, standing, deletes);
                        prop_assert!(woken.is_empty());
                        if !had && !deletes && offer == SlotOffer::Free {
                            prop_assert!(ordinary < 3 && slots.busy.len() <= 3);
                        }
                    }
                    _ => {
                        let woken = slots.forget(&host);
                        for next in woken {
                            let deletes = slots.line.iter().any(|(ordinary, _, waiting)| *waiting == next && !ordinary);
                            prop_assert_eq!(slots.offer(&next, false, deletes), SlotOffer::Free);
                            prop_assert!(slots.update_slot(&next, SlotDemand::Busy, deletes).is_empty());
                        }
                    }
                }
            }
            let busy: Vec<u32> = slots.busy.keys().copied().collect();
            let mut woken: Vec<u32> = busy.iter().flat_map(|host| slots.forget(host)).collect();
            while let Some(host) = woken.pop() {
                woken.extend(slots.forget(&host));
            }
            prop_assert!(slots.line.is_empty() || !slots.next().is_empty());
        }
    }
}
