//! Which machine has which address: the live leases of the DHCP that we serve. The one owner of this fact.
//!
//! ```text
//!   DHCP's lease database, at the start ─┐
//!   ACK, RELEASE, DECLINE ───────────────┴─► LiveLeases ─► boot scripts, TFTP's events, places for known hosts
//! ```
//!
//! A lease ends by its time alone, too: who has no live lease has no address of ours. Nothing of it is stored here;
//! DHCP has the leases on disk.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard};

use firesteel_facts::Mac;
use firesteel_runtime::lock;
use jiff::Timestamp;

/// Most leases that are known: as many as DHCP keeps.
pub const LIVE_LEASES_MAX: usize = 131_072;

/// The table, shared by all that ask.
#[derive(Debug, Default)]
pub(crate) struct LiveLeases(Mutex<LeaseTable>);

/// One lease for each address, and one for each MAC, as in DHCP's own book.
#[derive(Debug, Default)]
pub(crate) struct LeaseTable {
    by_address: HashMap<Ipv4Addr, (Mac, Timestamp)>,
    by_mac: HashMap<Mac, Ipv4Addr>,
}

impl LeaseTable {
    pub(crate) fn begin(&mut self, mac: Mac, address: Ipv4Addr, until: Timestamp, now: Timestamp) {
        if let Some(before) = self.by_mac.remove(&mac) {
            self.by_address.remove(&before);
        }
        if let Some((before, _)) = self.by_address.remove(&address) {
            self.by_mac.remove(&before);
        }
        if self.by_address.len() >= LIVE_LEASES_MAX {
            self.by_address.retain(|_, (_, until)| *until > now);
            let live = &self.by_address;
            self.by_mac.retain(|_, address| live.contains_key(address));
        }
        if self.by_address.len() < LIVE_LEASES_MAX {
            self.by_address.insert(address, (mac, until));
            self.by_mac.insert(mac, address);
        }
    }

    pub(crate) fn end(&mut self, mac: Mac, address: Ipv4Addr) {
        if self.by_mac.get(&mac) == Some(&address) {
            self.by_mac.remove(&mac);
            self.by_address.remove(&address);
        }
    }

    pub(crate) fn holder(&self, address: IpAddr, now: Timestamp) -> Option<Mac> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        self.by_address.get(&address).filter(|(_, until)| *until > now).map(|(mac, _)| *mac)
    }

    pub(crate) fn address(&self, mac: Mac, now: Timestamp) -> Option<Ipv4Addr> {
        let address = self.by_mac.get(&mac)?;
        self.by_address.get(address).filter(|(_, until)| *until > now).map(|_| *address)
    }
}

impl LiveLeases {
    pub(crate) fn lock(&self) -> MutexGuard<'_, LeaseTable> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const ONE: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_lease_ends_by_its_time_and_by_its_holders_word() {
        let mut table = LeaseTable::default();
        table.begin(ONE, FIRST, at(60), at(0));
        assert_eq!((table.holder(FIRST.into(), at(59)), table.address(ONE, at(59))), (Some(ONE), Some(FIRST)));
        assert_eq!((table.holder(FIRST.into(), at(60)), table.address(ONE, at(60))), (None, None));
        table.end(OTHER, FIRST);
        table.end(ONE, SECOND);
        assert_eq!(table.holder(FIRST.into(), at(1)), Some(ONE), "neither is its lease");
        table.end(ONE, FIRST);
        assert_eq!(table.holder(FIRST.into(), at(1)), None);
    }

    #[test]
    fn an_address_is_of_the_last_machine_and_a_machine_has_its_last_address() {
        let mut table = LeaseTable::default();
        table.begin(ONE, FIRST, at(60), at(0));
        table.begin(ONE, SECOND, at(60), at(1));
        assert_eq!((table.holder(FIRST.into(), at(2)), table.holder(SECOND.into(), at(2))), (None, Some(ONE)));
        table.begin(OTHER, SECOND, at(60), at(3));
        assert_eq!((table.holder(SECOND.into(), at(4)), table.address(ONE, at(4))), (Some(OTHER), None));
        assert_eq!((table.by_address.len(), table.by_mac.len()), (1, 1));
    }

    #[test]
    fn an_address_in_the_form_of_ipv6_is_the_same() {
        let mut table = LeaseTable::default();
        table.begin(ONE, FIRST, at(60), at(0));
        assert_eq!(table.holder(IpAddr::V6(FIRST.to_ipv6_mapped()), at(1)), Some(ONE));
        assert_eq!(table.holder("fd00::1".parse().unwrap(), at(1)), None);
    }

    #[test]
    fn leases_that_are_over_make_room() {
        let mut table = LeaseTable::default();
        let mac = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            Mac([2, 0, a, b, c, d])
        };
        for number in 0..u32::try_from(LIVE_LEASES_MAX).unwrap() {
            table.begin(mac(number), Ipv4Addr::from(number), at(60), at(0));
        }
        let (new, address) = (Mac([6, 0, 0, 0, 0, 1]), Ipv4Addr::from(u32::MAX));
        table.begin(new, address, at(120), at(59));
        assert_eq!(table.address(new, at(59)), None, "all the others are live");
        table.begin(new, address, at(120), at(60));
        assert_eq!((table.address(new, at(60)), table.by_mac.len()), (Some(address), 1));
    }
}
